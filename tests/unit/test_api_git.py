#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories without machines: the git client and the API; usage: test_api_git.py SERVE_GIT [TEST...]"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_api_checks import GitApiChecks  # noqa: E402
from git_checks import GitChecks  # noqa: E402
from served import Served  # noqa: E402

SERVE = sys.argv[1]


class Git(Served, GitChecks, GitApiChecks, unittest.TestCase):
    limit_s = 200

    @classmethod
    def setUpClass(cls):
        cls.serve(SERVE)
        cls.data_dir = cls.dir

    def setUp(self):
        super().setUp()
        self.make_top()


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
