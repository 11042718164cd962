#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [Package | Service] - the Debian package: built, checked by lintian, installed into a clean Debian, looked at, purged; and its service

Theory of operation: this program runs in a mount namespace of its own. The clean Debian (tree.sh) is the lower layer of an overlay whose
upper one is memory, so each run begins with a system that has never seen Pando, and everything is gone with the process. Package looks at
files and runs programs in a chroot; Service (service.py) boots such a system in namespaces and uses it. With PANDO_TEST_RESULTS every
outcome is also appended there as a line of JSON.
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from service import Service  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CACHE = os.environ.get("PANDO_CACHE_DIR", "/var/cache/pando")
STEP_S = 900  # the longest: installing a clean Debian
INSIDE = "PANDO_TEST_PACKAGE_INSIDE"  # set once we are in our own mount namespace
ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}


def run(*argv, code=0, **kw):
    r = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=STEP_S, **kw)
    assert code is None or r.returncode == code, f"{' '.join(argv)}: exit code {r.returncode}\n{r.stdout[-3000:]}{r.stderr[-3000:]}"
    return r


def paths_of(package):
    """Files and directories of a package, as absolute paths."""
    text = run("dpkg-deb", "--contents", package).stdout
    return {line.split(None, 5)[5].split(" -> ")[0][1:].rstrip("/") for line in text.splitlines()} - {""}


class Package(unittest.TestCase):
    deb = None   # the package
    root = None  # the system it is installed in

    @classmethod
    def setUpClass(cls):
        cls.work = tempfile.TemporaryDirectory(prefix="pando-test-package-")
        run("mount", "-t", "tmpfs", "-o", "size=1g,mode=0755", "tmpfs", cls.work.name)
        cls.deb = run("scripts/deb.sh", cls.work.name, cwd=ROOT).stdout.strip()
        lower = run("tests/package/tree.sh", cls.deb, cwd=ROOT).stdout.strip()
        cls.root = os.path.join(cls.work.name, "root")
        for name in ("root", "upper", "overlay"):
            os.mkdir(os.path.join(cls.work.name, name), 0o755)
        run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={cls.work.name}/upper,workdir={cls.work.name}/overlay",
            "overlay", cls.root)
        run("mount", "-t", "proc", "proc", f"{cls.root}/proc")
        run("mount", "--rbind", "/dev", f"{cls.root}/dev")
        run("cp", cls.deb, f"{cls.root}/tmp/pando.deb")
        cls.before = cls.listing()

    @classmethod
    def tearDownClass(cls):
        # lazily: nothing but this namespace sees these mounts
        run("umount", "-R", "-l", cls.work.name, code=None)
        cls.work.cleanup()

    @classmethod
    def inside(cls, *argv, code=0):
        """stdout of a command in the system, without a network: whatever it needs must be there."""
        return run("unshare", "--net", "chroot", cls.root, *argv, code=code, env=ENV).stdout

    @classmethod
    def listing(cls):
        """Everything in the system that a package could leave behind."""
        found = set()
        for top in ("etc", "usr", "var", "run", "opt", "srv"):
            for path, dirs, files in os.walk(os.path.join(cls.root, top)):
                found |= {os.path.join(path, n)[len(cls.root):] for n in dirs + files}
        # caches and records of dpkg, apt, the linker and man-db that every installation renews
        return {p for p in found if not re.match(r"/var/(lib/dpkg|cache/(apt|debconf|ldconfig)|log|lib/(apt|systemd))|/run/systemd|/etc/apt/apt.conf.d/99test|/etc/(passwd|group|g?shadow)-", p)}

    def read(self, path):
        with open(self.root + path) as f:
            return f.read()

    def test_a_lintian_is_content(self):
        out = run("lintian", "--fail-on", "error,warning", "--allow-root", self.deb, code=None)
        self.assertEqual((out.returncode, out.stdout), (0, ""), out.stderr)

    def test_b_installed_by_apt_with_nothing_missing(self):
        out = self.inside("apt-get", "install", "-y", "--no-install-recommends", "/tmp/pando.deb")
        self.assertIn(" 1 newly installed, 0 to remove", out)
        self.assertEqual(self.inside("dpkg-query", "-W", "-f", "${db:Status-Status}", "pando"), "installed")
        self.assertEqual(self.inside("dpkg", "--verify", "pando"), "")
        self.assertEqual(self.inside("dpkg", "--audit"), "")
        self.assertRegex(self.read("/etc/passwd"), r"(?m)^pando:.*:/nonexistent:/usr/sbin/nologin$")

    def test_c_nothing_was_downloaded_or_started(self):
        for path in ("/var/cache/pando", "/var/lib/pando", "/run/pando"):
            self.assertFalse(os.path.exists(self.root + path), f"{path}: made by the installation")

    def test_d_every_program_runs(self):
        self.assertIn("PANDO_DATA_DIR, --data-dir", self.inside("pandod", "--help"))
        version = run("dpkg-deb", "--field", self.deb, "Version").stdout.strip().split("-")[0]
        self.assertEqual(self.inside("pandod", "--version"), f"pandod {version}\n")
        self.assertIn("SYNOPSIS", self.inside("pando", "--help"))
        self.assertIn("--data DIR", self.inside("/usr/libexec/pando/pando-priv", "--help"))
        for program in ("pando-edge", "pando-ssh"):
            self.assertIn("started by pandod", self.inside(f"/usr/libexec/pando/{program}", "--help"))
        self.assertIn("usage: pando-image", self.inside("pando-image", "--help"))
        for path in sorted(paths_of(self.deb)):
            full = self.root + path
            if os.path.isfile(full) and not os.path.islink(full):
                with open(full, "rb") as f:
                    elf = f.read(4) == b"\x7fELF"
                if elf and not path.endswith(("/init", "/pando-agent")):  # those are static
                    self.assertNotIn("not found", self.inside("ldd", path), path)

    def test_e_pandod_refuses_root_and_strangers(self):
        r = run("chroot", self.root, "pandod", code=2, env=ENV)
        self.assertIn("must not run as root", r.stderr)
        r = run("chroot", "--userspec=pando:pando", self.root, "pandod", code=2, env=ENV)
        self.assertIn("pando-image", r.stderr)  # no image, and it says how to get one

    def test_f_units(self):
        out = run("chroot", self.root, "systemd-analyze", "verify", "--man=no", "pando.service", "pando-image.service", env=ENV)
        self.assertEqual(out.stdout + out.stderr, "")
        unit = self.read("/usr/lib/systemd/system/pando.service")
        self.assertNotIn("@", re.sub(r"(?m)^#.*", "", unit))
        for path in re.findall(r"(?<![\w$])/usr/[\w./-]+", unit):
            self.assertTrue(os.path.exists(self.root + path), f"pando.service names {path}")

    def test_g_settings_are_a_conffile_that_pandod_understands(self):
        self.assertEqual(run("dpkg-deb", "--info", self.deb, "conffiles").stdout, "/etc/pando/pando.conf\n")
        text = self.read("/etc/pando/pando.conf")
        every = re.sub(r"(?m)^#(PANDO_\w+=)", r"\1", text)
        self.assertGreater(every.count("\nPANDO_"), 5)
        with open(self.root + "/tmp/all.conf", "w") as f:
            f.write(every)
        known = set(re.findall(r"^  (PANDO_\w+),", self.inside("pandod", "--help"), re.M))
        self.assertLessEqual(set(re.findall(r"(?m)^(PANDO_\w+)=", every)), known)
        r = run("chroot", "--userspec=pando:pando", self.root, "env", "PANDO_CONF=/tmp/all.conf", "pandod", code=2, env=ENV)
        self.assertNotIn("all.conf", r.stderr)

    def test_g_settings_are_documented(self):
        known = set(re.findall(r"^  (PANDO_\w+),", self.inside("pandod", "--help"), re.M))
        named = set(re.findall(r"`(PANDO_\w+)`", self.read("/usr/share/doc/pando/docs/SETTINGS.md")))
        self.assertEqual(named - {"PANDO_CONF"}, known)

    def test_h_man_pages_and_completion(self):
        there = {os.path.basename(p) for p in glob.glob(self.root + "/usr/share/man/man*/pando*")}
        nouns = self.inside("pando", "help", "--list").split()
        self.assertEqual(there, {f"pando-{n}.1.gz" for n in nouns} | {"pando.1.gz", "pandod.8.gz", "pando-image.8.gz"})
        page = run("gzip", "-dc", self.root + "/usr/share/man/man8/pandod.8.gz").stdout
        for name in re.findall(r"^  (PANDO_\w+),", self.inside("pandod", "--help"), re.M):
            self.assertIn(f"\n.BR {name} ", page)
        for path in ("bash-completion/completions/pando", "zsh/site-functions/_pando", "fish/vendor_completions.d/pando.fish"):
            self.assertIn("pando __complete", self.read("/usr/share/" + path))

    def test_i_the_recipe_is_that_of_the_source(self):
        """Same files, same agent: the image that a checkout made is the one that the package would make."""
        mirrors = {"PANDO_DEBIAN_MIRROR": "http://mirror.test/debian", "PANDO_DEBIAN_SECURITY_MIRROR": "http://mirror.test/security"}
        with open(self.root + "/etc/apt/apt.conf.d/99test", "w") as f:  # what the image's apt takes over from the host's
            f.write("".join(line for line in run("apt-config", "dump").stdout.splitlines(True) if "Check-Valid-Until" in line))
        ours = run("scripts/pando-image.sh", "--path", cwd=ROOT, env={**ENV, **mirrors}).stdout
        theirs = run("chroot", self.root, "pando-image", "--path", env={**ENV, **mirrors}).stdout
        self.assertEqual(os.path.dirname(theirs), "/var/cache/pando/images")
        self.assertEqual(os.path.basename(ours), os.path.basename(theirs))

    def test_j_settings_of_the_image(self):
        """pando-image reads what pandod reads; the environment wins."""
        def path(**env):
            return run("chroot", self.root, "pando-image", "--path", env={**ENV, "PANDO_DEBIAN_MIRROR": "http://mirror.test/debian", **env}).stdout
        with open(self.root + "/tmp/image.conf", "w") as f:
            f.write('# a comment\nPANDO_CACHE_DIR = "/srv/cache"\nPANDO_VM_DISK_GB=30\n')
        plain, conf = path(), path(PANDO_CONF="/tmp/image.conf")
        self.assertTrue(conf.startswith("/srv/cache/images/"), conf)
        self.assertNotEqual(os.path.basename(plain), os.path.basename(conf))  # another disk, another image
        self.assertEqual(path(PANDO_CONF="/tmp/image.conf", PANDO_CACHE_DIR="/srv/other", PANDO_VM_DISK_GB="20").replace("/srv/other", "/var/cache/pando"), plain)
        r = run("chroot", self.root, "pando-image", env={**ENV, "PANDO_IMAGE": "/srv/own"})
        self.assertEqual(r.stdout, "/srv/own\n")

    def test_k_remove_keeps_data_and_purge_keeps_nothing(self):
        data = self.root + "/var/lib/pando"
        os.makedirs(data)
        with open(data + "/pando.db", "w") as f:
            f.write("somebody's VMs\n")
        self.inside("apt-get", "remove", "-y", "pando")
        self.assertTrue(os.path.exists(data + "/pando.db"))
        self.assertTrue(os.path.exists(self.root + "/etc/pando/pando.conf"))
        self.assertFalse(os.path.exists(self.root + "/usr/sbin/pandod"))
        self.inside("apt-get", "purge", "-y", "pando")
        self.assertNotIn("pando", self.read("/etc/passwd") + self.read("/etc/group"))
        self.assertEqual(sorted(self.listing() - self.before), [])


class Result(unittest.TestResult):
    """Prints and records each outcome as it happens."""

    def startTest(self, test):
        super().startTest(test)
        self.since = time.monotonic()

    def record(self, test, word, details=""):
        name = test.id().replace("__main__.", "").replace("service.", "") if hasattr(test, "id") else str(test)
        seconds = time.monotonic() - getattr(self, "since", time.monotonic())
        print(f"{'ok  ' if word == 'pass' else 'FAIL'} {name} ({seconds:.1f} s)", flush=True)
        for line in details.splitlines():
            print(f"     {line}", flush=True)
        if os.environ.get("PANDO_TEST_RESULTS"):
            entry = {"suite": "package", "name": name, "result": word, "seconds": round(seconds, 3),
                     "reason": details.strip().splitlines()[-1][:300] if details else ""}
            with open(os.environ["PANDO_TEST_RESULTS"], "a") as f:
                f.write(json.dumps(entry) + "\n")

    def addSuccess(self, test):
        self.record(test, "pass")

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, "fail", self._exc_info_to_string(err, test))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, "fail", self._exc_info_to_string(err, test))


def main():
    if os.geteuid() != 0:
        sys.exit("tests/package/run.py needs root (mounts, dpkg): run it with sudo")
    if not os.environ.get(INSIDE):
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv], {**os.environ, INSIDE: "1"})
    result = Result()
    for cls in (Package, Service):
        if not sys.argv[1:] or cls.__name__ in sys.argv[1:]:
            unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    sys.exit(0 if result.wasSuccessful() and result.testsRun else 1)


main()
