#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_client_typescript.py ROOT - the TypeScript client: what is generated is up to date, its types agree, and its tests without a server"""
import filecmp
import fcntl
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = sys.argv.pop(1)
FOLDER = os.path.join(ROOT, "clients/typescript")


def ran(*argv):
    return subprocess.run(argv, cwd=FOLDER, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280)


class ClientTypeScript(unittest.TestCase):
    def test_calls_are_those_of_the_description(self):
        r = ran("node", "generate.mjs", "--check")
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_types(self):
        """tsc, as the lock file says, finds nothing and makes the declarations that are here."""
        with open(os.path.join(FOLDER, "package.json")) as guard:  # one run at a time installs
            fcntl.flock(guard, fcntl.LOCK_EX)
            lock, done = (os.path.join(FOLDER, n) for n in ("package-lock.json", "node_modules/.package-lock.json"))
            if not os.path.exists(done) or os.path.getmtime(done) < os.path.getmtime(lock):
                r = ran("npm", "ci", "--no-audit", "--no-fund")
                self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        with tempfile.TemporaryDirectory() as made:
            r = ran("node_modules/.bin/tsc", "--outDir", made)
            self.assertEqual(r.returncode, 0, r.stdout)
            here = os.path.join(FOLDER, "types")
            names = sorted(os.listdir(made))
            self.assertEqual(names, sorted(os.listdir(here)), "run 'npm run generate' in clients/typescript")
            stale = filecmp.cmpfiles(made, here, names, shallow=False)
            self.assertEqual(stale[1:], ([], []), "run 'npm run generate' in clients/typescript")
            r = ran("node_modules/.bin/tsc", "-p", "test")
            self.assertEqual(r.returncode, 0, r.stdout)

    def test_without_a_server(self):
        folder = os.path.join(FOLDER, "test/unit")
        names = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n.endswith(".test.mjs"))
        self.assertTrue(names, "clients/typescript/test/unit has no tests: this checkout is incomplete")
        r = ran("node", "--test", "--test-concurrency=1", *names)
        self.assertEqual(r.returncode, 0, r.stdout[-8000:] + r.stderr[-2000:])
        print(next((line for line in r.stdout.splitlines() if line.startswith(("# pass", "ℹ pass"))), ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
