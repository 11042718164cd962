# SPDX-License-Identifier: Apache-2.0
"""The unmodified npm package against a server of ours: tests/sdk, run by Node, each of its tests counts"""
import fcntl
import glob
import os
import re
import subprocess

from case import Case, limit
from harness import ROOT, test_logs

DIR = os.path.join(ROOT, "tests/sdk")
TAP = re.compile(r"^(\s*)(ok|not ok) \d+ - (.*?)(?: # (SKIP|TODO)\b\s*(.*))?$")


OWN_CLASS = ("spec", "systemd", "logs", "pty")  # the others run in class Sdk: lanes share the work


class Sdk(Case):
    keeps_specs = True

    @classmethod
    def files(cls):
        """Test files of this class."""
        names = (os.path.basename(p) for p in glob.glob(os.path.join(DIR, "*.test.mjs")))
        return sorted(n for n in names if n.split(".")[0] not in OWN_CLASS)

    @limit(240)
    def test_install(self):
        """As the lock file says; npm of this machine knows where to ask."""
        lock, done = (os.path.join(DIR, n) for n in ("package-lock.json", "node_modules/.package-lock.json"))
        guard = open(os.path.join(DIR, "package.json"))  # held by one lane at a time
        self.addCleanup(guard.close)
        fcntl.flock(guard, fcntl.LOCK_EX)
        if os.path.exists(done) and os.path.getmtime(done) >= os.path.getmtime(lock):
            return
        r = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=DIR, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=110)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)

    @limit(560)
    def test_the_package_works(self):
        files = self.files()
        self.assertTrue(files, "tests/sdk has no tests: this is not a whole checkout")
        env = {**os.environ, "FREESTYLE_API_URL": f"http://127.0.0.1:{self.s.port}", "FREESTYLE_API_KEY": self.s.key(),
               "NODE_OPTIONS": "--experimental-websocket", "PANDOD_PID": str(self.s.pandod_pid())}
        log = os.path.join(test_logs(), f"{type(self).__name__.lower()}-tap.log")
        with open(log, "w") as out:
            p = subprocess.Popen(["node", "--test", "--test-reporter=tap", "--test-concurrency=1", *files], cwd=DIR, env=env,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            try:
                code = p.wait(540)
            finally:
                if p.poll() is None:
                    p.kill()
                    p.wait()
        with open(log) as f:
            text = f.read()
        leaves = leaf_results(text)
        self.assertTrue(leaves, f"node printed no TAP (exit code {code}):\n{text[-3000:]}")
        for name, ok, skip in leaves:
            outcome = "skip" if skip is not None else "pass" if ok else "fail"
            self._outcome.result.part(self, name, outcome, skip or "")
        failed = [name for name, ok, _ in leaves if not ok]
        if code != 0 or failed:
            self.fail(f"exit code {code}, failed: {', '.join(failed) or 'none of its tests'}\n{text[-6000:]}")


class SdkSpec(Sdk):
    @classmethod
    def files(cls):
        return ["spec.test.mjs", "systemd.test.mjs"]


class SdkLive(Sdk):
    @classmethod
    def files(cls):
        return ["logs.test.mjs", "pty.test.mjs"]


def leaf_results(text):
    """(name, ok, skip reason or None) of the innermost TAP lines: a group is the sum of what it holds."""
    found = []
    for line in text.splitlines():
        m = TAP.match(line)
        if not m:
            continue
        depth = len(m[1])
        if found and found[-1][3] > depth:
            found[-1] = (*found[-1][:3], depth)  # the group around the ones before
            continue
        found.append((m[3], m[2] == "ok", m[5] if m[4] == "SKIP" else None, depth))
    return [(n, ok, skip) for n, ok, skip, _ in found]

