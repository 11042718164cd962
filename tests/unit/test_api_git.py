#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories without machines: the git client and the API; usage: test_api_git.py SERVE_GIT [Git | Hostile | TEST...]"""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_api_checks import GitApiChecks  # noqa: E402
from git_checks import GitChecks, GitTools  # noqa: E402
from git_hostile_checks import GitHostileChecks  # noqa: E402
from served import ServedGit  # noqa: E402


class Git(ServedGit, GitChecks, GitApiChecks, unittest.TestCase):
    def test_limits_of_an_account(self):
        a = self.call("POST", "/v1/accounts", {"name": "small", "quotas": {"gitRepos": 1}})
        self.assertEqual((a["quotas"]["gitRepos"], a["quotas"]["gitMb"], a["limits"]["gitRepos"]), (1, None, 1))
        key = self.call("POST", f"/v1/keys?accountId={a['id']}", {"name": "k"})["key"]
        repo = self.call("POST", "/git/v1/repo", {}, key=key)["repoId"]
        self.refused(403, "GIT_REPO_LIMIT_EXCEEDED", "POST", "/git/v1/repo", {}, key=key)
        a = self.call("PATCH", f"/v1/accounts/{a['id']}", {"quotas": {"gitRepos": None, "gitMb": 0}})
        self.assertEqual((a["limits"]["gitRepos"], a["limits"]["gitMb"], a["usage"]["gitRepos"]), (None, 0, 1))
        self.refused(403, "LIMIT_EXCEEDED", "POST", f"/git/v1/repo/{repo}/commits", {"message": "m", "files": [{"path": "a", "content": "1"}]}, key=key)
        self.call("PATCH", f"/v1/accounts/{a['id']}", {"quotas": {"gitMb": -1}})
        self.call("POST", f"/git/v1/repo/{repo}/commits", {"message": "m", "files": [{"path": "a", "content": "1"}]}, key=key)
        self.call("DELETE", f"/git/v1/repo/{repo}", key=key)
        self.call("DELETE", f"/v1/accounts/{a['id']}")


class Hostile(ServedGit, GitTools, GitHostileChecks, unittest.TestCase):
    """A test of its own for meson: the two run side by side."""


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
