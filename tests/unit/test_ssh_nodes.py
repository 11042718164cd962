#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SSH through a node that does not have the VM or repository; usage: test_ssh_nodes.py SERVE_AGENT [all | TEST...]

all: every check of test_ssh.py is asked of the wrong node (some minutes); otherwise a selection.
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import GitTools  # noqa: E402
from ssh_checks import SshBase, SshChecks, SshIdentityChecks  # noqa: E402
from two_nodes import TwoNodes  # noqa: E402

SERVE = sys.argv[1]
LIMIT_S = 240
SELECTED = [f"Ssh.test_ssh_{t}" for t in (
    "command_status_and_streams", "large_streams_both_ways", "reader_that_leaves", "environment", "terminal_resize_and_interrupt", "sftp", "rsync",
    "local_forwarding", "remote_forwarding", "many_channels_on_one_connection", "secret_in_the_name_as_password_or_answer",
    "client_that_vanishes_frees_everything", "identities")] + ["Own", "Deaths"]


def setUpModule():
    if os.geteuid() != 0:
        raise unittest.SkipTest("acting as other users needs root")
    TwoNodes.node_env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8", "FX_UNJAILED": "1"}
    TwoNodes.start_nodes(SERVE)
    TwoNodes.vm = json.loads(TwoNodes.one.call("POST", "/v1/vms", {}, TwoNodes.key)[2])["id"]


def tearDownModule():
    TwoNodes.end_nodes()


class Through(TwoNodes, SshBase):
    """The client comes to the second node; VM and repositories are the first one's."""

    @classmethod
    def setUpClass(cls):
        cls.port, cls.ssh_port = cls.two.port, cls.two.ssh_port

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {LIMIT_S} s"))
        signal.alarm(LIMIT_S)
        self.addCleanup(signal.alarm, 0)

    def log_text(self):
        return ""

    def guest(self, command):
        return subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=True).stdout

    def status(self, node):
        connections, channels, badly = node.command("status")[0].split()
        return int(connections), int(channels), int(badly)

    def front(self):
        """Connections of the node that the client came to; channels of the one that has the VM."""
        return {"connections": self.status(self.two)[0], "channels": self.status(self.one)[1]}


class Ssh(Through, SshChecks, SshIdentityChecks, unittest.TestCase):
    big = 20_000_000


class Own(Through, GitTools, unittest.TestCase):
    def audit(self, node):
        return json.loads(node.call("GET", "/v1/audit?action=SSH&limit=1000", key=self.key)[2])["records"]

    def test_a_login_is_written_down_once(self):
        before = len(self.audit(self.one))
        self.assertEqual(self.out("echo here"), "here\n")
        self.eventually("a record", lambda: len(self.audit(self.one)) == before + 1)
        self.eventually("nothing is left", lambda: self.status(self.one)[:2] == self.status(self.two)[:2] == (0, 0))
        self.assertEqual(len(self.audit(self.one)), before + 1)
        self.assertEqual((self.status(self.one)[2], self.status(self.two)[2]), (0, 0))

    def test_a_stream_that_nobody_reads_holds_up_no_other(self):
        control = self.path("control")
        self.spawn("-M", "-S", control, "-N")
        self.eventually("a master", lambda: os.path.exists(control))
        p = self.spawn("-S", control, "yes")  # its output is not read
        self.line(p, b"y\n")
        for n in range(3):
            self.assertEqual(self.out("-S", control, f"head -c 3000000 /dev/zero | wc -c; echo {n}"), f"3000000\n{n}\n")
        self.assertIsNone(p.poll())

    def test_any_use_wakes_the_vm(self):
        p = self.spawn("echo up; cat")
        self.line(p, b"up")
        self.one.command("suspend")
        self.assertEqual(p.wait(60), 255)
        self.assertIn(b"the connection to VM", p.stderr.read())
        self.assertEqual(self.out("echo again"), "again\n")

    def test_a_revoked_key_ends_it(self):
        k = self.api("POST", "/v1/keys", {"name": "k"})
        self.eventually("both know it", lambda: self.one.call("GET", "/v1/vms", key=k["key"])[0] == 200)
        p = self.spawn("echo up; cat", secret=k["key"])
        self.line(p, b"up")
        self.assertEqual(self.two.call("DELETE", f"/v1/keys/{k['id']}", key=self.key)[0], 200)
        self.assertEqual(p.wait(60), 255)
        self.assertIn(b"revoked", p.stderr.read())

    def test_repositories(self):
        status, _, data = self.one.call("POST", "/git/v1/repo", {"name": "s", "defaultBranch": "main"}, self.key)
        self.assertEqual(status, 200, data)
        repo = json.loads(data)["repoId"]
        with tempfile.TemporaryDirectory() as top:
            def git(*argv, cwd=top, code=0):
                r = subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *argv], cwd=cwd, capture_output=True, text=True, timeout=120,
                                   env={**os.environ, "GIT_SSH_COMMAND": " ".join(["ssh", *self.opts(), "-l", f"{repo}:{self.key}"])})
                self.assertEqual(r.returncode, code, r.stderr)
                return r.stdout + r.stderr
            url = f"ssh://127.0.0.1/{repo}"
            git("init", "-q", "-b", "main", "w")
            w = os.path.join(top, "w")
            with open(os.path.join(w, "big"), "wb") as f:
                f.write(os.urandom(3 << 20))
            git("add", "big", cwd=w)
            git("commit", "-q", "-m", "one", cwd=w)
            git("push", "-q", url, "main", cwd=w)
            git("clone", "-q", url, "c")
            self.assertEqual(os.path.getsize(os.path.join(top, "c", "big")), 3 << 20)
            self.assertIn("not for another one", git("clone", "-q", "ssh://127.0.0.1/00000000-0000-4000-8000-000000000000", "d", code=128))
        r = self.ssh("true", code=1, vm=repo)
        self.assertIn(b"only allows git", r.stderr)
        self.assertEqual(self.two.call("DELETE", f"/git/v1/repo/{repo}", key=self.key)[0], 200)


class Deaths(Through, unittest.TestCase):
    """The last one: the first node is killed."""

    def test_a_node_that_is_killed(self):
        p = self.spawn("echo up; cat")
        self.line(p, b"up")
        self.one.proc.kill()
        self.one.proc.wait(60)
        self.assertEqual(p.wait(60), 255)
        self.assertIn(b"node 'one'", p.stderr.read())
        end = time.monotonic() + 60
        while True:  # before it is known to be dead it cannot be reached
            r = self.ssh("true", code=255)
            self.assertIn(b"cannot be used", r.stderr)
            if any(word in r.stderr for word in (b"down", b"lost", b"rewind")):  # or it is taken over already
                break
            self.assertIn(b"node 'one'", r.stderr)
            self.assertLess(time.monotonic(), end, r.stderr)
        self.eventually("nothing is left", lambda: self.status(self.two)[:2] == (0, 0))


if __name__ == "__main__":
    tests = sys.argv[2:]
    unittest.main(argv=[sys.argv[0], *([] if tests == ["all"] else tests or SELECTED)], verbosity=2)
