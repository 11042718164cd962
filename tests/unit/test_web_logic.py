#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_web_logic.py ROOT - what the dashboard's pages compute (tests/web/logic), run by Node; each of its tests is a part of this one"""
import fcntl
import os
import subprocess
import sys
import unittest

ROOT = sys.argv.pop(1)
FOLDER = os.path.join(ROOT, "tests/web/logic")


class WebLogic(unittest.TestCase):
    def test_logic(self):
        """esbuild comes as the lock file says; the pages' TypeScript is bundled by it, so that any Node from 18 on can run it."""
        with open(os.path.join(FOLDER, "package.json")) as guard:  # one run at a time installs
            fcntl.flock(guard, fcntl.LOCK_EX)
            lock, done = (os.path.join(FOLDER, n) for n in ("package-lock.json", "node_modules/.package-lock.json"))
            if not os.path.exists(done) or os.path.getmtime(done) < os.path.getmtime(lock):
                r = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                   timeout=240)
                self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        names = sorted(n for n in os.listdir(FOLDER) if n.endswith(".test.mjs"))
        self.assertTrue(names, "tests/web/logic has no tests: this checkout is incomplete")
        r = subprocess.run(["node", "--test", "--test-concurrency=1", *names], cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        self.assertEqual(r.returncode, 0, r.stdout[-8000:] + r.stderr[-2000:])
        print(next((line for line in r.stdout.splitlines() if line.startswith(("# pass", "ℹ pass"))), ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
