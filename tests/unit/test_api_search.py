#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Texts that are kept say what git grep says; usage: test_api_search.py SERVE_GIT [TEST...]

Two servers have the same repository: one keeps texts, the other asks git grep every time. Whatever is asked, whatever was pushed,
their answers are the same.
"""
import concurrent.futures
import os
import random
import sys
import unittest
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import GitTools, Refused  # noqa: E402
from served import Served, ServedGit  # noqa: E402

SERVE = sys.argv[1]
QUESTIONS = [
    {"query": "todo"}, {"query": "todo", "caseSensitive": "true"}, {"query": "todo", "wholeWord": "true"},
    {"query": "TODO", "wholeWord": "true", "caseSensitive": "true"}, {"query": "to.o"}, {"query": "\u00e9t\u00c9"}, {"query": "a"},
    {"query": "^todo", "isRegex": "true"}, {"query": "o$", "isRegex": "true"}, {"query": "^$", "isRegex": "true"},
    {"query": "t.*o", "isRegex": "true", "wholeWord": "true"}, {"query": "[^x]*o", "isRegex": "true"}, {"query": "(?<=t)o", "isRegex": "true"},
    {"query": "o\\s*$", "isRegex": "true"}, {"query": "t[^z]+d", "isRegex": "true", "caseSensitive": "true"}, {"query": "\\d{2,}", "isRegex": "true"},
    {"query": "todo", "pathPattern": "*.ts"}, {"query": "todo", "pathPattern": "src"}, {"query": "todo", "pathPattern": "src/deep"},
    {"query": "todo", "pathPattern": "src/"}, {"query": "todo", "pathPattern": "/src/a.ts"}, {"query": "todo", "pathPattern": "src/**"},
    {"query": "todo", "excludePattern": "src/deep"}, {"query": "todo", "excludePattern": "*.ts"},
    {"query": "todo", "pathPattern": "src/**/*.ts", "excludePattern": "**/b*"}, {"query": "todo", "maxResults": "2", "offset": "1"},
    {"query": "o", "maxResults": "1", "offset": "500"}, {"query": "todo", "contextLines": "0"}, {"query": "line", "contextLines": "20", "maxResults": "3"},
    {"query": "(", "isRegex": "true"}, {"query": ""}, {"query": "todo", "rev": "none"}, {"query": "long" }, {"query": "-e"},
]


class Other(Served):
    """The server that keeps nothing."""


class Search(ServedGit, GitTools, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Other.serve(SERVE, env={**os.environ, "FX_NO_TEXTS": "1"})

    @classmethod
    def tearDownClass(cls):
        Other.tearDownClass()
        super().tearDownClass()

    def setUp(self):
        super().setUp()
        self.repo = self.new()
        with_key = self.key
        self.port, self.key, mine = Other.port, Other.key, self.port
        try:
            self.other = self.call("POST", "/git/v1/repo", {})["repoId"]
        finally:
            self.port, self.key = mine, with_key

    def push(self, work, *how):
        self.git("push", "-q", *how, self.url(self.repo), "HEAD:main", cwd=work)
        self.git("push", "-q", *how, f"http://x:{Other.key}@127.0.0.1:{Other.port}/{self.other}", "HEAD:main", cwd=work)

    def ask(self, server, repo, q):
        saved = self.port, self.key
        self.port, self.key = server.port, server.key
        try:
            return self.call("GET", f"/git/v1/repo/{repo}/search?{urllib.parse.urlencode(q)}")
        except Refused as e:
            return e.status, e.code
        finally:
            self.port, self.key = saved

    def compare(self, questions=QUESTIONS):
        for q in questions:
            want = self.ask(Other, self.other, q)
            for _ in range(2):
                self.assertEqual(self.ask(type(self), self.repo, q), want, q)

    def files(self):
        return {"src/a.ts": "one\ntodo: first\r\nthree todo\n\n\nTODO", "src/deep/b.ts": "TODO\nTODOS\n\u00c9T\u00e9\n", "src/b.test.ts": "todo\n",
                "README.md": "nothing 123\n", "-e": "todo -e dash\n", "bin": b"todo\0bin\n", "late": b"todo\n" * 3000 + b"\0\n", "empty": "",
                "bad": b"todo \xff\xfe todo\n\xc3\n", "w e/i'rd \u00e9": "to.o todo\n", "line": "line\n" * 50, "nl": "\n\n\n",
                "long": "x" * 40000 + "todo long" + "y" * 40000 + "\ntodo\n", "srcx/a": "todo\n", "src.d/a": "todo\n", "a/src": "todo\n"}

    def test_small(self):
        work = self.work()
        self.save(work, self.files())
        os.symlink("todo", os.path.join(work, "link"))
        self.save(work, {})
        self.push(work)
        self.compare()

    def test_large_and_changing(self):
        """More files than are read while the client waits; then pushes, one of them forced; then a commit by API."""
        work, some = self.work(), random.Random(3)
        files = {f"d{i % 37}/f{i}": "".join(some.choice(["todo\n", "text\n", "a b c\n", f"{i}\n"]) for _ in range(10)) for i in range(1500)}
        self.save(work, {**files, **self.files()})
        self.push(work)
        self.compare(QUESTIONS[:20])
        self.save(work, {"d1/f1": "todo new\n", "more/x": "todo\n", "src/a.ts": "gone\n"})
        self.push(work)
        self.compare(QUESTIONS[:20])
        self.git("reset", "-q", "--hard", "HEAD~1", cwd=work)
        self.save(work, {"forced": "todo\n"})
        self.push(work, "--force")
        self.compare(QUESTIONS)
        self.commit(self.repo, {"by-api": "todo api\n"})
        self.assertEqual(self.ask(type(self), self.repo, {"query": "todo api"})["totalFiles"], 1)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda q: self.call("GET", f"/git/v1/repo/{self.repo}/search?{urllib.parse.urlencode(q)}")["totalFiles"],
                                [{"query": "todo api"}, {"query": "forced"}] * 8))
        self.assertEqual(got, [1, 0] * 8)

    def test_deleted(self):
        """What is deleted is not found by anyone, and a new repository has nothing of it."""
        self.commit(self.repo, {"a": "secret word\n"})
        self.assertEqual(self.ask(type(self), self.repo, {"query": "secret word"})["totalFiles"], 1)
        self.refused(404, "REPOSITORY_NOT_FOUND", "GET", f"/git/v1/repo/{self.repo}/search?query=secret", key=self.stranger())
        self.api(self.repo, "DELETE", "")
        self.assertEqual(self.ask(type(self), self.repo, {"query": "secret word"}), (404, "REPOSITORY_NOT_FOUND"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
