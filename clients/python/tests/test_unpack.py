# SPDX-License-Identifier: Apache-2.0
"""Archives of a sandbox nobody trusts"""
import io
import os
import shutil
import sys
import tarfile
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from pando import StreamBroken, UnsafeArchive  # noqa: E402
from pando.unpack import unpack  # noqa: E402


def entry(name, kind=tarfile.REGTYPE, data=b"", link="", mode=0o644):
    m = tarfile.TarInfo(name)
    m.type, m.linkname, m.mode, m.size = kind, link, mode, len(data)
    return m, data


def archive(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for m, data in entries:
            tar.addfile(m, io.BytesIO(data))
    return out.getvalue()


class Unpack(unittest.TestCase):
    def setUp(self):
        self.base = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.base)
        self.top = os.path.join(self.base, "top")
        self.outside = os.path.join(self.base, "outside")
        os.mkdir(self.outside)

    def unpack(self, *entries, **kw):
        return unpack(io.BytesIO(archive(*entries)), self.top, **kw)

    def refused(self, *entries, **kw):
        with self.assertRaises(UnsafeArchive):
            self.unpack(*entries, **kw)
        self.assertEqual(os.listdir(self.outside), [])
        self.assertEqual(sorted(os.listdir(self.base)), ["outside", "top"])

    def test_all_that_is_harmless(self):
        n = self.unpack(entry("./", tarfile.DIRTYPE), entry("./d", tarfile.DIRTYPE, mode=0o755), entry("d/f", data=b"one", mode=0o4755),
                        entry("d/l", tarfile.SYMTYPE, link="../e"), entry("e", data=b"two"), entry("h", tarfile.LNKTYPE, link="d/f"),
                        entry("no/parents/named", data=b"three"), entry("fifo", tarfile.FIFOTYPE), entry("dev", tarfile.CHRTYPE))
        self.assertEqual(n, 5)
        self.assertEqual(os.stat(f"{self.top}/d/f").st_mode & 0o7777, 0o755)
        self.assertEqual(os.readlink(f"{self.top}/d/l"), "../e")
        self.assertTrue(os.path.samefile(f"{self.top}/h", f"{self.top}/d/f"))
        self.assertEqual(sorted(os.listdir(self.top)), ["d", "e", "h", "no"])

    def test_again_over_what_is_there(self):
        for text in (b"long before", b"after"):
            self.unpack(entry("d", tarfile.DIRTYPE), entry("d/f", data=text), entry("l", tarfile.SYMTYPE, link="d"))
            with open(f"{self.top}/d/f", "rb") as f:
                self.assertEqual(f.read(), text)

    def test_names_outside(self):
        self.refused(entry("../outside/x", data=b"!"))
        self.refused(entry("a/../../outside/x", data=b"!"))
        self.refused(entry(f"{self.outside}/x", data=b"!"))

    def test_links_outside(self):
        self.refused(entry("l", tarfile.SYMTYPE, link="../outside"))
        self.refused(entry("l", tarfile.SYMTYPE, link=self.outside))
        self.refused(entry("d/l", tarfile.SYMTYPE, link="x/../../../outside"))
        self.refused(entry("h", tarfile.LNKTYPE, link="../outside/x"))

    def test_nothing_goes_through_a_link(self):
        os.makedirs(self.top)
        os.symlink(self.outside, f"{self.top}/there")  # not from the archive
        self.refused(entry("there/x", data=b"!"))
        self.refused(entry("there", tarfile.DIRTYPE))
        self.refused(entry("a", tarfile.DIRTYPE), entry("b", tarfile.SYMTYPE, link="a"), entry("b/x", data=b"!"))
        # each link is inside by itself; together they are not
        self.refused(entry("d/e", tarfile.DIRTYPE), entry("up", tarfile.SYMTYPE, link="d/e"), entry("out", tarfile.SYMTYPE, link="up/../.."),
                     entry("out/outside/x", data=b"!"))

    def test_a_file_over_a_link_replaces_the_link(self):
        with open(f"{self.base}/victim", "w") as f:
            f.write("whole")
        os.makedirs(self.top)
        os.symlink(f"{self.base}/victim", f"{self.top}/f")
        self.unpack(entry("f", data=b"new"))
        self.assertFalse(os.path.islink(f"{self.top}/f"))
        with open(f"{self.base}/victim") as f:
            self.assertEqual(f.read(), "whole")

    def test_too_much(self):
        self.refused(entry("a", data=bytes(600)), entry("b", data=bytes(600)), max_bytes=1000)

    def test_cut_off(self):
        whole = archive(entry("a", data=os.urandom(100000)))
        for n in (0, 5, len(whole) // 2, len(whole) - 200):
            with self.assertRaises(StreamBroken, msg=n):
                unpack(io.BytesIO(whole[:n]), self.top)
        with self.assertRaises(StreamBroken):
            unpack(io.BytesIO(b"no archive at all" * 100), self.top)


if __name__ == "__main__":
    unittest.main()
