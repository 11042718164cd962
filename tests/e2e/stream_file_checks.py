# SPDX-License-Identifier: Apache-2.0
"""stream_file_checks.py - raw files, archives and watches, over plain HTTP; asked where stream_checks.py is"""
import gzip
import hashlib
import http.client
import io
import json
import os
import socket
import tarfile

from stream_checks import WAIT_S, Stream, StreamChecks, quoted


def tar_of(*members, gz=False):
    """Bytes of an archive of (name, kind, content or target)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz" if gz else "w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, what in members:
            m = tarfile.TarInfo(name)
            m.mtime = 1700000000
            if kind == "file":
                m.size, m.mode = len(what), 0o640
                t.addfile(m, io.BytesIO(what))
                continue
            m.type = {"dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "char": tarfile.CHRTYPE, "block": tarfile.BLKTYPE}[kind]
            m.mode = 0o755
            m.linkname = what or ""
            t.addfile(m)
    return out.getvalue()


class StreamFileChecks(StreamChecks):
    # ---- raw files ----

    def raw(self, name, query=""):
        return f"/raw-files/{quoted(f'{self.dir}/{name}')}{query}"

    def get(self, rest, want=200, **headers):
        with self.stream("GET", rest, **headers) as s:
            body = s.r.read()
            self.assertEqual(s.status, want, body[:300])
            return body, {k.lower(): v for k, v in s.r.getheaders()}

    def test_raw_files(self):
        data = os.urandom(1000003)
        self.assertEqual(self.call("PUT", self.raw("new/raw.bin", "?mode=0750"), data), {"bytes": len(data)})
        body, h = self.get(self.raw("new/raw.bin"))
        self.assertEqual((hashlib.sha256(body).digest(), h["content-length"]), (hashlib.sha256(data).digest(), str(len(data))))
        self.assertEqual((h["accept-ranges"], h["x-pando-mode"]), ("bytes", "0750"))
        self.assertRegex(h["last-modified"], r"GMT$")
        for header, part in (("bytes=0-0", (0, 0)), ("bytes=10-19", (10, 19)), ("bytes=1000000-", (1000000, 1000002)),
                             ("bytes=-5", (999998, 1000002)), ("bytes=999999-9999999", (999999, 1000002))):
            body, r = self.get(self.raw("new/raw.bin"), want=206, Range=header)
            self.assertEqual(body, data[part[0]:part[1] + 1], header)
            self.assertEqual(r["content-range"], f"bytes {part[0]}-{part[1]}/{len(data)}")
        for header in ("bytes=1000003-", "bytes=-0"):
            with self.stream("GET", self.raw("new/raw.bin"), Range=header) as s:
                self.assertEqual((s.status, s.r.getheader("Content-Range")), (416, f"bytes */{len(data)}"))
                self.assertEqual(s.json()["code"], "FILES_BAD_REQUEST")
        for header in ("bytes=2-1", "bytes=0-1,4-5", "lines=1-2", "bytes=x"):  # no range of ours: the whole
            self.assertEqual(len(self.get(self.raw("new/raw.bin"), Range=header)[0]), len(data))
        self.assertEqual(self.get(self.raw("new/raw.bin"), want=304, If_None_Match=h["etag"])[0], b"")
        self.assertEqual(len(self.get(self.raw("new/raw.bin"), want=206, Range="bytes=0-9", If_Range=h["etag"])[0]), 10)
        self.assertEqual(len(self.get(self.raw("new/raw.bin"), Range="bytes=0-9", If_Range='"other"')[0]), len(data))
        with self.stream("HEAD", self.raw("new/raw.bin")) as s:
            self.assertEqual((s.status, s.r.getheader("Content-Length"), s.r.getheader("ETag"), s.r.read()),
                             (200, str(len(data)), h["etag"], b""))

    def test_raw_files_small_things(self):
        self.call("PUT", self.raw("empty"), b"")
        body, h = self.get(self.raw("empty"))
        self.assertEqual((body, h["content-length"]), (b"", "0"))
        self.refuse(404, "FILE_NOT_FOUND", "GET", self.raw("none"))
        self.refuse(400, "FILES_BAD_REQUEST", "GET", f"/raw-files/{quoted(self.dir)}")
        self.refuse(400, "FILES_BAD_REQUEST", "PUT", f"/raw-files/{quoted(self.dir)}", b"x")
        self.refuse(400, "INVALID_PARAMETERS", "PUT", self.raw("m", "?mode=9"), b"x")
        self.call("DELETE", self.raw("empty"))
        self.refuse(404, "FILE_NOT_FOUND", "DELETE", self.raw("empty"))
        self.call("PUT", self.raw("tree/a/b"), b"x")
        self.refuse(400, "FILES_BAD_REQUEST", "DELETE", self.raw("tree"))
        self.call("DELETE", self.raw("tree", "?recursive=true"))
        self.sh(f"test ! -e {self.dir}/tree")
        self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.raw("root-only"), b"x", user="nobody")

    def test_raw_upload_chunked_with_expect(self):
        body = [b"a" * 70000, b"b" * 70000, b"c"]
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        c.request("PUT", self.path(self.raw("chunked")), body=iter(body), headers=self.head(), encode_chunked=True)
        r = c.getresponse()
        self.assertEqual((r.status, json.loads(r.read())), (200, {"bytes": 140001}))
        c.close()
        self.assertEqual(self.get(self.raw("chunked"))[0], b"".join(body))
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as s:
            def ask(path):
                s.sendall((f"PUT {self.path(path)} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
                           "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n").encode())
                return s.recv(4096)
            self.assertTrue(ask(self.raw("expected")).startswith(b"HTTP/1.1 100"))
            s.sendall(b"hello")
            self.assertIn(b"200 OK", s.recv(4096))
            self.assertTrue(ask("/raw-files/x?mode=nine").startswith(b"HTTP/1.1 400"))  # before a byte of it was sent
        self.assertEqual(self.get(self.raw("expected"))[0], b"hello")

    def test_raw_upload_cut_off_leaves_the_old_file(self):
        self.call("PUT", self.raw("whole/f"), b"old")
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as s:
            s.sendall((f"PUT {self.path(self.raw('whole/f'))} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
                       "Content-Length: 1000000\r\n\r\n").encode() + b"n" * 500000)
            self.soon("the upload began", lambda: ".pando-" in self.sh(f"ls -A {self.dir}/whole"))
        self.soon("nothing is left of it", lambda: self.sh(f"ls -A {self.dir}/whole") == "f")
        self.assertEqual(self.get(self.raw("whole/f"))[0], b"old")

    def test_raw_upload_ends_with_its_key(self):
        with Stream(self.port, "POST", "/v1/keys", "{}", self.head()) as s:
            made = s.json()
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as s:
            s.sendall((f"PUT {self.path(self.raw('revoked/f'))} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {made['key']}\r\n"
                       "Content-Length: 200000\r\n\r\n").encode() + b"n" * 100000)
            self.soon("the upload began", lambda: ".pando-" in self.sh(f"ls -A {self.dir}/revoked 2>/dev/null || true"))
            with Stream(self.port, "DELETE", f"/v1/keys/{made['id']}", None, self.head()) as d:
                self.assertEqual(d.status, 200)
            s.sendall(b"n" * 100000)
            self.assertIn(b" 403 ", s.recv(4096))
        self.soon("nothing is left of it", lambda: self.sh(f"ls -A {self.dir}/revoked") == "")

    def test_raw_file_that_shrinks_breaks_off(self):
        self.sh(f"head -c 30000000 /dev/zero >{self.dir}/shrinks")
        with self.stream("GET", self.raw("shrinks"), rcvbuf=8192) as s:
            self.assertEqual((s.status, s.r.getheader("Content-Length")), (200, "30000000"))
            self.sh(f"truncate -s 10 {self.dir}/shrinks")
            with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
                s.r.read()

    def test_raw_large_both_ways_in_little_memory(self):
        piece, n = os.urandom(1 << 20), self.large_mib
        want = hashlib.sha256()
        for _ in range(n):
            want.update(piece)
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        c.request("PUT", self.path(self.raw("large")), body=(piece for _ in range(n)),
                  headers={**self.head(), "Content-Length": str(n << 20)})
        r = c.getresponse()
        self.assertEqual((r.status, json.loads(r.read())), (200, {"bytes": n << 20}))
        c.close()
        got, size = hashlib.sha256(), 0
        with self.stream("GET", self.raw("large")) as s:
            while block := s.r.read(1 << 20):
                got.update(block)
                size += len(block)
        self.assertEqual((size, got.digest()), (n << 20, want.digest()))
        self.memory_is_bounded()
        self.call("DELETE", self.raw("large"))

    # ---- archives ----

    def tar(self, name, query=""):
        return f"/tar/{quoted(f'{self.dir}/{name}')}{query}"

    def test_tar_up_and_down(self):
        deep = "d/" * 40 + "deep.txt"
        members = [("./", "dir", None), ("dir", "dir", None), ("dir/f.txt", "file", b"text\n"), ("dir/empty", "file", b""),
                   ("ln", "link", "dir/f.txt"), ("hard", "hard", "dir/f.txt"), ("n" * 200, "file", b"long"), (deep, "file", b"deep"),
                   ("/absolute", "file", b"inside"), ("big", "file", os.urandom(300001))]
        for gz, query in ((False, ""), (True, "?gzip=true")):
            top = f"up{gz:d}"
            self.call("PUT", self.tar(top, query), tar_of(*members, gz=gz))
            self.assertEqual(self.sh(f"cd {self.dir}/{top} && cat dir/f.txt ln hard && cat absolute && readlink ln && "
                                     "stat -c '%a %Y' dir/f.txt && stat -c %h hard"),
                             "text\ntext\ntext\ninsidedir/f.txt\n640 1700000000\n2")
            body, h = self.get(self.tar(top, query))
            self.assertEqual(h["content-type"], "application/gzip" if gz else "application/x-tar")
            with tarfile.open(fileobj=io.BytesIO(gzip.decompress(body) if gz else body)) as t:
                names = {m.name.removeprefix("./") for m in t.getmembers()}
                self.assertLessEqual({"dir/f.txt", "dir/empty", "ln", "hard", "n" * 200, deep, "absolute", "big"}, names)
                self.assertEqual(t.extractfile("./big").read(), members[-1][2])
            self.call("PUT", self.tar(top + "-again", query), body)
            self.sh(f"diff -r {self.dir}/{top} {self.dir}/{top}-again")
        body, h = self.get(self.tar("up0"), Accept_Encoding="gzip")
        self.assertEqual((h["content-encoding"], h["content-type"]), ("gzip", "application/x-tar"))
        tarfile.open(fileobj=io.BytesIO(gzip.decompress(body))).close()

    def test_tar_as_a_user(self):
        self.sh(f"mkdir -p {self.dir}/theirs && chown nobody {self.dir}/theirs")
        self.call("PUT", self.tar("theirs"), tar_of(("x", "file", b"x")), user="nobody")
        self.assertEqual(self.sh(f"stat -c %U {self.dir}/theirs/x"), "nobody")
        self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.tar("not-theirs"), tar_of(("x", "file", b"x")), user="nobody")
        self.sh(f"test ! -e {self.dir}/not-theirs")
        self.sh(f"mkdir -p {self.dir}/closed && chmod 700 {self.dir}/closed")
        self.refuse(400, "FILES_BAD_REQUEST", "GET", self.tar("closed"), user="nobody")

    def test_tar_that_fails_on_the_way_breaks_off(self):
        self.sh(f"mkdir -p {self.dir}/partly && head -c 3000000 /dev/zero >{self.dir}/partly/a && echo x >{self.dir}/partly/secret && "
                f"chmod 600 {self.dir}/partly/secret")
        with self.stream("GET", self.tar("partly"), user="nobody") as s:
            self.assertEqual(s.status, 200)
            with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
                s.r.read()

    def test_tar_cannot_leave_its_directory(self):
        self.sh(f"mkdir -p {self.dir}/cage {self.dir}/outside && ln -sfn {self.dir}/outside {self.dir}/cage/way-out")
        out = f"{self.dir}/outside/evil"
        for what in ([("../outside/evil", "file", b"x")], [("a/../../outside/evil", "file", b"x")],
                     [("h", "hard", "../../etc/passwd")], [("h", "hard", "../outside/secret")]):
            self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.tar("cage"), tar_of(*what))
        self.sh(f"echo secret >{self.dir}/outside/secret")
        # through links: those of the archive, and one that was there before
        for what in ([("l", "link", f"{self.dir}/outside"), ("l/evil", "file", b"x")], [("l2", "link", "../outside"),
                     ("l2/evil", "file", b"x")], [("way-out/evil", "file", b"x")], [(out, "file", b"x")]):
            with self.stream("PUT", self.tar("cage"), tar_of(*what)) as s:
                s.r.read()  # refused or unpacked inside: both are fine
            self.sh(f"test ! -e {out}")
        self.assertEqual(self.sh(f"cat {self.dir}/outside/secret"), "secret")

    def test_tar_with_devices(self):
        for kind in ("char", "block"):
            e = self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.tar("devices"), tar_of(("dev", kind, None)))
            self.assertIn("'dev'", e["message"])
            self.sh(f"test ! -e {self.dir}/devices/dev")

    def test_tar_names_are_bytes(self):
        """A decomposed letter is not made into a composed one, in the archive's old and new kinds of header."""
        name = "e\u0301"
        self.call("PUT", self.tar("bytes"), tar_of((name, "file", b"x"), ("long" * 40 + name, "file", b"y")))
        self.assertEqual(self.sh(f"ls {self.dir}/bytes | od -v -An -tx1 | tr -d ' \\n'"),
                         f"{name}\n{'long' * 40}{name}".encode().hex() + "0a")

    def test_tar_that_is_none(self):
        for body in (b"", b"x" * 2000, tar_of(("f", "file", b"y" * 5000))[:3000], gzip.compress(b"hello")):
            self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.tar("bad"), body)
        self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.tar("bad", "?gzip=true"), b"no gzip at all" * 100)
        self.refuse(400, "FILES_BAD_REQUEST", "PUT", self.tar("bad", "?gzip=true"), tar_of(("f", "file", b"y" * 5000), gz=True)[:40])
        self.refuse(404, "FILE_NOT_FOUND", "GET", self.tar("no-such-dir"))

    # ---- watch ----

    def test_watch(self):
        top = f"{self.dir}/watched"
        self.sh(f"mkdir -p {top}/sub")
        with self.stream("POST", f"/watch-files?path={quoted(top)}") as s:
            self.assertEqual(s.status, 200)
            it = s.lines()
            self.sh(f"echo x >{top}/sub/new")
            seen = []

            def until(kind, name):
                while (kind, name) not in seen:
                    e = next(it)
                    seen.append((e["eventType"], e["filename"]))
            until("create", f"{top}/sub/new")
            until("modify", f"{top}/sub/new")
            self.sh(f"mkdir -p {top}/fresh/er && echo y >{top}/fresh/er/file")  # new directories are followed
            until("create", f"{top}/fresh/er/file")
            self.sh(f"echo z >>{top}/fresh/er/file")
            until("modify", f"{top}/fresh/er/file")
            self.sh(f"mv {top}/sub/new {top}/sub/newer && rm {top}/sub/newer")
            until("rename", f"{top}/sub/newer")
            until("delete", f"{top}/sub/newer")
            self.sh(f"mv {top}/fresh {top}/moved && echo w >{top}/moved/er/file2")
            until("create", f"{top}/moved/er/file2")
            self.sh(f"rm -r {top}")  # nothing is left to watch: it ends
            rest = [e["eventType"] for e in it]
            self.assertEqual(rest[-1], "delete", rest)
        self.refuse(404, "FILE_NOT_FOUND", "POST", f"/watch-files?path={quoted(top)}")
        self.refuse(400, "FILES_BAD_REQUEST", "POST", "/watch-files?path=relative")
        self.refuse(400, "FILES_BAD_REQUEST", "POST", "/watch-files", {"path": 7})

    def test_watch_ends_with_its_client(self):
        self.sh(f"mkdir -p {self.dir}/idle")
        self.assertEqual(self.watcher_count(f"{self.dir}/idle"), 0)
        streams = [self.stream("POST", "/watch-files", {"path": f"{self.dir}/idle"}) for _ in range(3)]
        self.assertEqual(self.watcher_count(f"{self.dir}/idle"), 3)
        for s in streams:
            s.close()
        self.soon("all watchers are gone", lambda: self.watcher_count(f"{self.dir}/idle") == 0)

    def watcher_count(self, path):
        """Of this directory only: where there is no machine, other tests' programs run beside this one and watch their own files."""
        inode = format(int(self.sh(f"stat -c %i {path}")), "x")
        return int(self.sh(f"cat /proc/[0-9]*/fdinfo/* 2>/dev/null | grep -c '^inotify .*ino:{inode} ' || true"))
