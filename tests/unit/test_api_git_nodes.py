#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Repositories that outlive their node: two nodes of one PostgreSQL, an object store; usage: test_api_git_nodes.py SERVE_AGENT [all]

What a push was told is true on every node, whoever is killed when: each test kills the repository's owner at one point of a push, clones
through the other node, and goes on with the first one's old files. Without "all" only some points.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import pg
from bucket import Bucket
from two_nodes import Node, TwoNodes

SERVE = sys.argv[1]
ALL = "all" in sys.argv[2:]
WAIT_S = 120


class GitNodes(TwoNodes, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pg, cls.bucket = pg.Server().start(), Bucket()
        cls.node_env = {"RIG_OBJECTS": cls.bucket.url, "FX_UNJAILED": "1", "RIG_DATABASE": cls.pg.url(), "SERVE_LOG": os.environ.get("SERVE_LOG", "")}
        cls.node_env = {k: v for k, v in cls.node_env.items() if v}
        cls.killed = []
        cls.addClassCleanup(cls.pg.stop)
        cls.addClassCleanup(cls.bucket.stop)
        cls.start_nodes(SERVE)
        cls.work = os.path.join(cls.top, "work")
        os.mkdir(cls.work)

    @classmethod
    def tearDownClass(cls):
        cls.bucket.release()
        try:
            cls.end_nodes()
        finally:
            for d in cls.killed:
                shutil.rmtree(os.path.dirname(d), ignore_errors=True)

    # ---- what tests do ----

    def ask(self, node, method, path, body=None):
        got, _, data = node.call(method, path, body, self.key)
        self.assertIn(got, (200, 201), data)
        return json.loads(data) if data else None

    def git(self, *argv, cwd=None, check=True):
        r = subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *argv], cwd=cwd or self.work, capture_output=True, text=True,
                           timeout=WAIT_S, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
        if check:
            self.assertEqual(r.returncode, 0, r.stderr)
        return r

    def url(self, node):
        return f"http://x:{self.key}@127.0.0.1:{node.port}/{self.repo}"

    def commit(self, text, size=0):
        with open(os.path.join(self.tree, "file"), "w") as f:
            f.write(text)
        if size:
            with open(os.path.join(self.tree, "big"), "wb") as f:
                f.write(os.urandom(size))
        self.git("add", "-A", cwd=self.tree)
        self.git("commit", "-q", "-m", text, cwd=self.tree)
        return self.git("rev-parse", "HEAD", cwd=self.tree).stdout.strip()

    def push(self, node, *refs, check=True):
        return self.git("push", "-q", self.url(node), *(refs or ("main",)), cwd=self.tree, check=check)

    def new_repo(self, node):
        self.repo = self.ask(node, "POST", "/git/v1/repo", {"name": "r", "defaultBranch": "main"})["repoId"]
        self.tree = tempfile.mkdtemp(dir=self.work)
        self.git("init", "-q", "-b", "main", self.tree)

    def refs_in_database(self):
        rows = self.pg.sql(f"SELECT name || ' ' || target FROM git_refs WHERE repo = '{self.repo}' ORDER BY name")
        return dict(line.split(" ") for line in rows.splitlines())

    def owner(self):
        name = self.pg.sql(f"SELECT n.name FROM git_repos r JOIN nodes n ON n.id = r.node WHERE r.id = '{self.repo}'")
        return {"one": self.one, "two": self.two}.get(name)

    def files_of(self, node):
        return os.path.join(node.command("data")[0], "git", "repos", self.repo + ".git")

    def clone(self, node, head):
        """A clone through that node is whole, and main is there."""
        top = tempfile.mkdtemp(dir=self.work)
        self.git("clone", "-q", "--mirror", self.url(node), top)
        self.assertEqual(self.git("rev-parse", "refs/heads/main", cwd=top).stdout.strip(), head)
        self.git("fsck", "--full", "--strict", cwd=top)
        return top

    def kill(self, node):
        data = node.command("data")[0]
        node.proc.kill()
        node.proc.wait(60)
        node.proc.stdout.close()
        self.killed.append(data)
        other = self.two if node is self.one else self.one
        end = time.monotonic() + WAIT_S
        # it is seen to be dead a moment before that is written down
        while [n["health"] for n in self.ask(other, "GET", "/v1/cluster")["nodes"] if n["name"] == node.name] != ["dead"] or \
                self.pg.sql(f"SELECT alive FROM nodes WHERE name = '{node.name}'") != "0":
            self.assertLess(time.monotonic(), end, "the node is not seen to be dead")
            time.sleep(0.1)
        node.data = data
        return other

    def start(self, node):
        """Again, on the files of one that was killed."""
        again = Node(SERVE, self.top, node.name, {**self.node_env, "SERVE_DATA": node.data})
        setattr(type(self), node.name, again)
        self.wait_alive()
        return again

    def push_held(self, node, when):
        """A push whose pack does not come further than that; a thread that waits for its end."""
        result = {}
        self.bucket.hold_puts(when, "packs/")
        t = threading.Thread(target=lambda: result.update(r=self.push(node, check=False)))
        t.start()
        self.assertTrue(self.bucket.held.wait(WAIT_S), "nothing is uploaded")
        return t, result

    # ---- tests ----

    def test_1_everything_outlives_its_node(self):
        one, two = self.one, self.two
        self.new_repo(one)
        self.assertEqual(self.refs_in_database(), {})
        a = self.commit("a", 3 << 20)
        t0 = time.monotonic()
        self.push(one)
        t1 = time.monotonic()
        b = self.commit("b")
        self.git("tag", "-a", "-m", "v", "v1", cwd=self.tree)
        self.push(two, "main", "v1", "main:refs/heads/side/one")
        t2 = time.monotonic()
        self.assertEqual(self.refs_in_database()["refs/heads/main"], b)
        self.assertEqual(len(self.bucket.names("packs/")), 2)
        c = self.ask(two, "POST", f"/git/v1/repo/{self.repo}/commits", {
            "message": "c", "branch": "main", "files": [{"path": "api", "content": "c"}]})["commit"]["sha"]
        self.ask(two, "POST", f"/git/v1/repo/{self.repo}/branches", {"name": "made", "sha": a})
        # what stands in each other's way is refused before anything is stored
        r = self.push(one, f"{a}:refs/heads/made/below", check=False)
        self.assertIn("there is a reference 'refs/heads/made'", r.stderr)
        self.push(two, ":refs/heads/side/one")
        want = self.refs_in_database()
        self.assertEqual(sorted(want), ["refs/heads/made", "refs/heads/main", "refs/tags/v1"])
        self.assertEqual(self.owner().name, "one")
        other = self.kill(one)
        t3 = time.monotonic()
        top = self.clone(other, c)
        t4 = time.monotonic()
        print(f"first push of 3 MB {t1 - t0:.2f} s, small push through the other node {t2 - t1:.2f} s, "
              f"taken over and cloned {t4 - t3:.2f} s", file=sys.stderr)
        self.assertEqual(dict(reversed(line.split(" ")) for line in self.git("for-each-ref", "--format=%(objectname) %(refname)", cwd=top).stdout.splitlines()), want)
        self.git("pull", "-q", self.url(other), "main", cwd=self.tree)
        d = self.commit("d")
        self.push(other)
        one = self.start(one)
        self.clone(one, d)
        self.assertEqual(self.owner().name, "two")
        # its old files become what is there now
        self.bucket.got.clear()
        self.kill(two)
        self.clone(one, d)
        self.assertEqual(len([k for k in self.bucket.got if k.startswith("packs/")]), 1, "only what it did not have")
        self.git("fsck", "--full", cwd=self.files_of(one))
        self.start(two)

    @unittest.skipUnless(ALL, "long")
    def test_2_killed_before_it_is_uploaded(self):
        self.killed_while("before")

    @unittest.skipUnless(ALL, "long")
    def test_3_killed_when_it_is_uploaded(self):
        self.killed_while("after")

    def killed_while(self, when):
        owner = self.one
        self.new_repo(owner)
        a = self.commit("a")
        self.push(owner)
        self.commit("b")
        t, result = self.push_held(owner, when)
        self.assertEqual(self.pg.sql(f"SELECT count(*) FROM git_packs WHERE repo = '{self.repo}' AND version = 0"), "1")
        other = self.kill(owner)
        self.bucket.release()
        t.join(WAIT_S)
        self.assertNotEqual(result["r"].returncode, 0)
        self.clone(other, a)
        self.assertEqual(self.owner().name, other.name)
        # nothing of it is forgotten: its objects are garbage
        self.assertEqual(self.pg.sql(f"SELECT count(*) FROM git_packs WHERE repo = '{self.repo}' AND version = 0"), "0")
        self.assertEqual(self.pg.sql("SELECT count(*) FROM object_garbage WHERE object LIKE 'packs/%'") > "0", True)
        self.push(other)
        self.start(owner)
        self.clone(self.one, self.git("rev-parse", "HEAD", cwd=self.tree).stdout.strip())

    def test_4_stored_and_not_moved(self):
        """References cannot move here once it is stored: it has happened all the same, here and elsewhere."""
        self.new_repo(self.one)
        a = self.commit("a")
        self.push(self.one)
        lock = os.path.join(self.files_of(self.one), "refs/heads/main.lock")
        open(lock, "w").close()
        b = self.commit("b")
        r = self.push(self.one, check=False)
        self.assertNotEqual(r.returncode, 0)  # git says what it knows
        self.assertFalse(os.path.exists(lock))  # the references were written anew
        self.assertEqual(self.refs_in_database(), {"refs/heads/main": b})
        self.clone(self.one, b)
        # the object store is away: nothing is acknowledged, and nothing moves
        self.bucket.down = True
        self.commit("c")
        r = self.push(self.one, check=False)
        self.bucket.down = False
        self.assertIn("cannot be stored", r.stderr)
        self.assertNotEqual(a, b)
        self.clone(self.two, b)
        if not ALL:
            return
        open(lock, "w").close()
        c = self.git("rev-parse", "HEAD", cwd=self.tree).stdout.strip()
        self.assertNotEqual(self.push(self.one, check=False).returncode, 0)
        one = self.one
        self.clone(self.kill(one), c)
        self.clone(self.start(one), c)

    @unittest.skipUnless(ALL, "long")
    def test_6_a_node_that_stood_still_changes_nothing(self):
        one = self.one
        self.new_repo(one)
        a = self.commit("a")
        self.push(one)
        self.commit("b")
        t, result = self.push_held(one, "after")
        one.proc.send_signal(signal.SIGSTOP)
        self.addCleanup(lambda: one.proc.poll() is None and one.proc.send_signal(signal.SIGCONT))
        self.bucket.hold = None  # for others
        end = time.monotonic() + WAIT_S
        while [n["health"] for n in self.ask(self.two, "GET", "/v1/cluster")["nodes"] if n["name"] == "one"] != ["dead"]:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        self.clone(self.two, a)
        self.git("checkout", "-q", "-B", "main", a, cwd=self.tree)
        c = self.commit("c")
        self.push(self.two)
        self.bucket.release()
        one.proc.send_signal(signal.SIGCONT)
        t.join(WAIT_S)
        self.assertNotEqual(result["r"].returncode, 0)
        self.assertEqual(one.proc.wait(WAIT_S), 3)  # its lease is over
        one.proc.stdout.close()
        self.clone(self.two, c)
        self.assertEqual(self.refs_in_database(), {"refs/heads/main": c})

    def test_5_a_drained_node_gives_up_what_is_stored(self):
        self.new_repo(self.one)
        a = self.commit("a")
        self.push(self.one)
        self.ask(self.two, "POST", "/v1/cluster/nodes/one/drain", {})
        end = time.monotonic() + WAIT_S
        while self.owner():
            self.assertLess(time.monotonic(), end, "it is not given up")
            time.sleep(0.1)
        self.clone(self.two, a)
        self.assertEqual(self.owner().name, "two")
        self.ask(self.two, "POST", "/v1/cluster/nodes/one/drain", {"drain": False})
        self.ask(self.one, "DELETE", f"/git/v1/repo/{self.repo}")
        self.assertEqual(self.pg.sql(f"SELECT count(*) FROM git_packs WHERE repo = '{self.repo}'"), "0")
        self.assertEqual(self.refs_in_database(), {})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *[a for a in sys.argv[2:] if a != "all"]])
