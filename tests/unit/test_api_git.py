#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories without machines: the git client and the API; usage: test_api_git.py SERVE_GIT [TEST...]"""
import os
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_api_checks import GitApiChecks  # noqa: E402
from git_checks import GitChecks  # noqa: E402

SERVE = sys.argv[1]
LIMIT_S = 200


class Git(GitChecks, GitApiChecks, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.proc = subprocess.Popen([SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        port, cls.key, cls.data_dir = cls.proc.stdout.readline().split()
        cls.port = int(port)

    @classmethod
    def tearDownClass(cls):
        cls.proc.stdin.close()
        code = cls.proc.wait(60)
        assert code == 0, f"the server ended with {code}"

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {LIMIT_S} s"))
        signal.alarm(LIMIT_S)
        self.make_top()

    def tearDown(self):
        signal.alarm(0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
