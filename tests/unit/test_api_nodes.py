#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Requests through a node that does not have what they are about, without machines; usage: test_api_nodes.py SERVE_AGENT [all | TEST...]

all: every check of streams, files and terminals is asked of the wrong node (five minutes); otherwise a selection.
"""
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from pty_checks import PtyChecks  # noqa: E402
from served import Served  # noqa: E402
from stream_file_checks import StreamFileChecks  # noqa: E402
from two_nodes import TwoNodes  # noqa: E402

SERVE = sys.argv[1]
SELECTED = [f"Streams.test_{t}" for t in (
    "exec_await", "stream_events", "stream_stdin_base64_and_large", "raw_files_small_things", "raw_upload_chunked_with_expect",
    "raw_upload_cut_off_leaves_the_old_file", "raw_upload_ends_with_its_key", "raw_file_that_shrinks_breaks_off",
    "slow_client_holds_up_its_own_stream", "watch_ends_with_its_client")] + \
    [f"Pty.test_pty_{t}" for t in ("tickets", "refusals_come_before_the_upgrade", "two_clients_and_the_smaller_window")] + ["Calls", "Deaths"]


def setUpModule():
    if os.geteuid() != 0:
        raise unittest.SkipTest("acting as other users needs root")
    # memory is measured, and a sanitizer keeps freed memory for a while
    TwoNodes.node_env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8", "FX_UNJAILED": "1"}
    TwoNodes.start_nodes(SERVE)
    TwoNodes.vm = json.loads(TwoNodes.one.call("POST", "/v1/vms", {}, TwoNodes.key)[2])["id"]


def tearDownModule():
    TwoNodes.end_nodes()


class Through(TwoNodes, Served):
    """All of it is asked of the second node, and the VM is the first one's."""
    limit_s = 180

    @classmethod
    def setUpClass(cls):
        cls.port, cls.dir, cls.proc = cls.two.port, cls.one.dir, cls.one.proc

    @classmethod
    def tearDownClass(cls):
        pass


class Streams(Through, StreamFileChecks, unittest.TestCase):
    large_mib = 8

    def server_pid(self):
        return self.two.proc.pid

    def suspend(self):
        self.one.command("suspend")


class Pty(Through, PtyChecks, unittest.TestCase):
    pass


class Calls(Through, unittest.TestCase):
    def ask(self, node, method, path, body=None, status=200, headers=None, key=None):
        got, fields, data = node.call(method, path, body, key or self.key, headers)
        self.assertEqual(got, status, data)
        return fields, json.loads(data) if data else None

    def new(self, node, body=None, **kw):
        vm = self.ask(node, "POST", "/v1/vms", body or {}, **kw)[1]["id"]
        self.addCleanup(self.ask, node, "DELETE", f"/v1/vms/{vm}")
        return vm

    def owner(self, vm):
        """The node that answers without asking another."""
        return [n.name for n in (self.one, self.two) if self.forwarded(n, f"/v1/vms/{vm}/history") == 0][0]

    def forwarded(self, node, path):
        def count():
            text = node.call("GET", "/metrics", key=self.key)[2].decode()
            return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("pando_node_forward_duration_seconds_count"))
        before = count()
        self.ask(node, "GET", path)
        return count() - before

    def test_a_request_is_answered_and_written_down_once(self):
        fields, r = self.ask(self.two, "POST", f"/v1/vms/{self.vm}/exec-await", {"command": "echo hello"},
                             headers={"X-Pando-Node-Client": "192.0.2.9", "X-Pando-Node-Trace": "0" * 32, "X-Forwarded-For": "192.0.2.8"})
        self.assertEqual((r["stdout"], r["statusCode"]), ("hello\n", 0))
        trace = fields["x-freestyle-trace-id"]
        self.assertNotEqual(trace, "0" * 32)
        self.assertEqual(fields["content-type"], "application/json")
        seen = [a for a in self.ask(self.one, "GET", "/v1/audit")[1]["records"] if a["traceId"] == trace]
        self.assertEqual([(a["remote"], a["status"]) for a in seen], [("127.0.0.1", 200)])  # by both, and believed of nobody else
        self.assertEqual(self.owner(self.vm), "one")

    def test_errors_are_the_owners(self):
        f, e = self.ask(self.two, "POST", f"/v1/vms/{self.vm}/exec-await", {"command": 7}, status=400)
        self.assertEqual(e["vmId"], self.vm)
        self.ask(self.two, "GET", f"/v1/vms/{self.vm}/files/%2Fnot%20there%3F", status=404)
        self.ask(self.two, "GET", f"/v1/vms/{self.vm}/files/%2Fetc%2Fhostname")
        self.assertEqual(self.two.call("GET", f"/v1/vms/{self.vm}", key="pando_no")[0], 401)
        # of another account there is no such VM, wherever it is
        account = self.ask(self.two, "POST", "/v1/accounts", {"name": "other"})[1]
        key = self.ask(self.two, "POST", f"/v1/keys?accountId={account['id']}", {"name": "k"})[1]["key"]
        self.assertEqual(self.two.call("POST", f"/v1/vms/{self.vm}/exec-await", {"command": "true"}, key)[0], 404)

    def test_heads_have_no_body(self):
        status, fields, body = self.two.call("HEAD", f"/v1/vms/{self.vm}", key=self.key)
        self.assertEqual((status, body), (200, b""))

    def test_copies_are_made_by_the_owner(self):
        forks = self.ask(self.two, "POST", f"/v1/vms/{self.vm}/fork", {"count": 2})[1]["forks"]
        for f in forks:
            self.addCleanup(self.ask, self.two, "DELETE", f"/v1/vms/{f['id']}")
            self.assertEqual(self.owner(f["id"]), "one")
        reply = self.ask(self.two, "POST", f"/v1/vms/{self.vm}/fork", {"count": 2, "spread": True})[1]
        for f in reply["forks"]:
            self.addCleanup(self.ask, self.two, "DELETE", f"/v1/vms/{f['id']}")
        self.assertEqual(reply["spread"]["nodes"], ["one", "one"])
        self.assertIn("no object store", reply["spread"]["note"])
        snap = self.ask(self.two, "POST", f"/v1/vms/{self.vm}/snapshot", {})[1]["snapshotId"]
        self.assertEqual(self.owner(self.new(self.two, {"snapshotId": snap})), "one")

    def test_what_is_new_is_made_here_or_where_there_is_room(self):
        self.assertEqual(self.owner(self.new(self.two)), "two")
        self.ask(self.one, "POST", "/v1/cluster/nodes/two/drain", {})
        try:
            end = time.monotonic() + 60
            while not [n for n in self.ask(self.two, "GET", "/v1/cluster")[1]["nodes"] if n["name"] == "two" and n["draining"]]:
                self.assertLess(time.monotonic(), end)
            while self.owner(vm := self.new(self.two)) == "two":  # the manager hears of it a moment later
                self.assertLess(time.monotonic(), end)
            self.assertEqual(self.owner(vm), "one")
        finally:
            self.ask(self.one, "POST", "/v1/cluster/nodes/two/drain", {"drain": False})
        end = time.monotonic() + 60
        while self.owner(self.new(self.two)) != "two":
            self.assertLess(time.monotonic(), end)

    def test_a_key_makes_one_thing_through_all_nodes(self):
        head = {"Idempotency-Key": "once"}
        a = self.new(self.one, headers=head)
        self.assertEqual(self.ask(self.two, "POST", "/v1/vms", {}, headers=head)[1]["id"], a)

    def test_background_requests_are_asked_for_anywhere(self):
        head = {"x-freestyle-background-after-secs": "0"}
        _, r = self.ask(self.two, "POST", "/v1/vms", {}, status=202, headers=head)
        end = time.monotonic() + 60
        while True:
            status, _, data = self.one.call("GET", f"/auth/v1/background-requests/{r['requestId']}", key=self.key)
            if status == 200 and json.loads(data).get("status") != "running":
                break
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        vms = self.ask(self.one, "GET", "/v1/vms")[1]["vms"]
        for v in vms:
            if v["id"] != self.vm:
                self.ask(self.one, "DELETE", f"/v1/vms/{v['id']}")

    def mcp(self, node, message, session=None, status=200):
        f, r = self.ask(node, "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, **message}, status=status, headers={
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            **({"Mcp-Session-Id": session} if session else {})})
        return f, r

    def test_tools_reach_vms_of_other_nodes(self):
        f, _ = self.mcp(self.two, {"method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                                     "clientInfo": {"name": "t", "version": "1"}}})
        session = f["mcp-session-id"]
        for node in (self.two, self.one):  # and the session is good on both
            status, _, data = node.call("POST", "/mcp", {
                "jsonrpc": "2.0", "id": 2, "method": "tools/call",
                "params": {"name": "exec", "arguments": {"vmId": self.vm, "command": "echo by-tool"}}}, self.key, {
                    "Content-Type": "application/json", "Accept": "application/json", "Mcp-Session-Id": session})
            self.assertEqual(status, 200, data)
            self.assertIn(b"by-tool", data)
        r = self.mcp(self.two, {"method": "resources/read", "params": {"uri": f"pando://vm/{self.vm}"}}, session)[1]
        self.assertIn(self.vm, r["result"]["contents"][0]["text"])
        self.assertEqual(self.one.call("DELETE", "/mcp", key=self.key, headers={"Mcp-Session-Id": session})[0], 200)
        self.assertEqual(self.two.call("DELETE", "/mcp", key=self.key, headers={"Mcp-Session-Id": session})[0], 404)

    def test_tools_are_cancelled_through_any_node(self):
        f, _ = self.mcp(self.two, {"method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                                     "clientInfo": {"name": "t", "version": "1"}}})
        head = {"Content-Type": "application/json", "Accept": "application/json", "Mcp-Session-Id": f["mcp-session-id"]}
        for n, (caller, canceller) in enumerate(((self.two, self.two), (self.two, self.one), (self.one, self.two))):
            got, mark = {}, os.path.join(self.one.dir, f"cancel-{n}")

            def call(node=caller, n=n, mark=mark, got=got):
                got["reply"] = node.call("POST", "/mcp", {
                    "jsonrpc": "2.0", "id": f"c{n}", "method": "tools/call",
                    "params": {"name": "exec", "arguments": {"vmId": self.vm, "command": f"touch {mark}; sleep 1000"}}}, self.key, head)
            t = threading.Thread(target=call)
            t.start()
            end = time.monotonic() + 60
            while not os.path.exists(mark):  # it runs
                self.assertLess(time.monotonic(), end)
                time.sleep(0.05)
            status, _, data = canceller.call("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/cancelled",
                                                              "params": {"requestId": f"c{n}"}}, self.key, head)
            self.assertEqual(status, 202, data)
            t.join(60)
            self.assertFalse(t.is_alive())
            self.assertIn(b"-32800", got["reply"][2])

    def test_events_of_all_nodes_come_through_one(self):
        c = http.client.HTTPConnection("127.0.0.1", self.two.port, timeout=60)
        c.request("GET", "/v1/events", headers={"Authorization": f"Bearer {self.key}", "Accept": "text/event-stream"})
        r = c.getresponse()
        self.assertEqual(r.status, 200)
        vm = self.new(self.one)
        while vm.encode() not in r.readline():
            pass
        c.close()

    def test_repositories_are_used_through_any_node(self):
        repo = self.ask(self.one, "POST", "/git/v1/repo", {"name": "r", "defaultBranch": "main"})[1]["repoId"]
        self.assertEqual(self.ask(self.two, "GET", "/git/v1/repo?limit=10")[1]["total"], 1)
        self.ask(self.two, "GET", f"/git/v1/repo/{repo}")
        with tempfile.TemporaryDirectory() as top:
            def git(*argv, cwd=top):
                r = subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *argv], cwd=cwd, capture_output=True, text=True,
                                   timeout=120, env={**os.environ, "GIT_TERMINAL_PROMPT": "0"})
                self.assertEqual(r.returncode, 0, r.stderr)
                return r.stdout
            url = f"http://x:{self.key}@127.0.0.1:{self.two.port}/{repo}"
            git("init", "-q", "-b", "main", "w")
            w = os.path.join(top, "w")
            with open(os.path.join(w, "big"), "wb") as f:
                f.write(os.urandom(3 << 20))
            git("add", "big", cwd=w)
            git("commit", "-q", "-m", "one", cwd=w)
            git("push", "-q", url, "main", cwd=w)
            git("clone", "-q", url, "c")
            self.assertEqual(os.path.getsize(os.path.join(top, "c", "big")), 3 << 20)
        r = self.ask(self.two, "GET", f"/git/v1/repo/{repo}/git/commits")[1]
        self.assertEqual(len(r["commits"]), 1)
        self.ask(self.two, "DELETE", f"/git/v1/repo/{repo}")
        self.ask(self.one, "GET", f"/git/v1/repo/{repo}", status=404)


class Deaths(Through, unittest.TestCase):
    """The last one: the first node is killed."""

    def test_a_node_that_is_stopped_and_killed(self):
        self.assertEqual(self.one.call("POST", f"/v1/vms/{self.vm}/exec-await", {"command": f"head -c 40000000 /dev/zero >{self.dir}/big"},
                                       self.key)[0], 200)
        c = http.client.HTTPConnection("127.0.0.1", self.two.port, timeout=90)
        path = f"/v1/vms/{self.vm}/raw-files/{self.dir.replace('/', '%2F')}%2Fbig"
        c.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
        r = c.getresponse()
        self.assertEqual(r.status, 200)
        r.read(1 << 20)
        waiting = {}

        def wait():
            waiting["reply"] = self.two.call("POST", f"/v1/vms/{self.vm}/exec-await", {"command": "sleep 60"}, self.key)
        t = threading.Thread(target=wait)
        t.start()
        time.sleep(1)  # so that it waits for an answer; if it does not yet, the same holds
        self.one.proc.kill()
        self.one.proc.wait(60)
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            r.read()
        c.close()
        t.join(90)
        for status, fields, data in (waiting["reply"], self.two.call("POST", f"/v1/vms/{self.vm}/exec-await", {"command": "true"}, self.key)):
            self.assertEqual((status, json.loads(data)["code"]), (503, "NODE_UNAVAILABLE"), data)
            self.assertGreater(int(fields["retry-after"]), 0)
        # what every node knows is still there
        status, _, data = self.two.call("GET", f"/v1/vms/{self.vm}", key=self.key)
        self.assertEqual((status, json.loads(data)["id"]), (200, self.vm))


if __name__ == "__main__":
    tests = sys.argv[2:]
    unittest.main(argv=[sys.argv[0], *([] if tests == ["all"] else tests or SELECTED)], verbosity=2)
