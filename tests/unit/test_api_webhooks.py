#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Webhooks of accounts over machines that are none: events, order, signatures, failures, crashes; usage: test_api_webhooks.py SERVE_GIT [TEST...]"""
import hashlib
import hmac
import json
import os
import queue
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from webhook_checks import Hooks, Receiver  # noqa: E402
from git_checks import GitTools  # noqa: E402
from served import Restarted, listen  # noqa: E402



class Base(Restarted, Hooks, GitTools, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.hook = listen(self, Receiver, got=queue.Queue(), answers=[], lock=threading.Lock())
        self.endpoint = f"http://127.0.0.1:{self.hook.server_port}"

    def make_hook(self, **body):
        return self.call("POST", "/v1/webhooks", {"url": self.endpoint + "/hook", **body})

    def refuse(self, status, code, says, method, path, body=None):
        self.assertIn(says, self.refused(status, code, method, path, body)["message"])

    def vm(self, **body):
        return self.call("POST", "/v1/vms", body)["id"]


class Webhooks(Base):
    def test_life(self):
        """Every change of a VM is told, in order, with what its account sees of it."""
        self.make_hook()
        vm = self.vm(name="web", tags=["blue"], metadata={"owner": "ann"})
        e = self.event("vm.created")
        self.assertEqual({k: e["vm"][k] for k in ("id", "name", "state", "reason", "tags", "metadata", "parentVmId")},
                         {"id": vm, "name": "web", "state": "running", "reason": "created", "tags": ["blue"],
                          "metadata": {"owner": "ann"}, "parentVmId": None})
        self.call("POST", f"/v1/vms/{vm}/suspend")
        self.assertEqual(self.event("vm.suspended")["vm"]["reason"], "requested")
        self.call("POST", f"/v1/vms/{vm}/exec-await", {"command": "true"})
        self.assertEqual(self.event("vm.resumed")["vm"]["state"], "running")
        child = self.call("POST", f"/v1/vms/{vm}/fork", {"count": 1})["forks"][0]["id"]
        by_type = {e["type"]: e for e in (self.event(), self.event())}
        self.assertEqual(by_type["vm.forked"]["vm"]["forks"], [child])
        self.assertEqual(by_type["vm.forked"]["vm"]["id"], vm)
        c = by_type["vm.created"]["vm"]
        self.assertEqual((c["id"], c["parentVmId"], c["reason"], c["tags"]), (child, vm, "forked", ["blue"]))
        snap = self.call("POST", f"/v1/vms/{vm}/snapshot", {"name": "s"})["snapshotId"]
        s = self.event("snapshot.created")["snapshot"]
        self.assertEqual((s["id"], s["name"], s["sourceVmId"], s["state"]), (snap, "s", vm, "ready"))
        self.call("POST", f"/v1/vms/{vm}/rewind", {"snapshotId": snap, "keepPrevious": False})
        self.assertIn(self.event()["type"], ("vm.rewound", "snapshot.created"))
        self.call("DELETE", f"/v1/vms/{child}")
        while True:
            e = self.event()
            if e["type"] == "vm.deleted":
                break
        self.assertEqual((e["vm"]["id"], e["vm"]["reason"], e["vm"]["state"], e["vm"]["tags"]), (child, "deleted", "deleted", ["blue"]))
        self.call("POST", f"/v1/vms/{vm}/kill")
        self.assertEqual(self.event("vm.stopped")["vm"]["reason"], "killed")
        self.call("POST", f"/v1/vms/{vm}/start")
        self.event("vm.started")
        self.call("DELETE", f"/v1/vms/snapshots/{snap}")
        self.assertEqual(self.event("snapshot.deleted")["snapshot"]["id"], snap)

    def test_signature(self):
        """Signed like the webhooks of repositories, and by a secret if there is one."""
        h = self.make_hook(secret=True)
        self.assertTrue(h["hasSecret"])
        self.assertNotIn("secret", self.call("GET", f"/v1/webhooks/{h['id']}"))
        d = self.call("POST", f"/v1/webhooks/{h['id']}/test")
        _, headers, body, _ = self.next()
        self.assertEqual(json.loads(body)["type"], "test")
        self.check_signature(headers, body, d["id"], self.call("GET", "/.well-known/jwks.json", key="")["keys"])
        self.assertEqual(headers["x-pando-signature-256"], "sha256=" + hmac.new(h["secret"].encode(), body, hashlib.sha256).hexdigest())
        self.call("PATCH", f"/v1/webhooks/{h['id']}", {"secret": None})
        self.call("POST", f"/v1/webhooks/{h['id']}/test")
        self.assertNotIn("x-pando-signature-256", self.next()[1])

    def test_filters(self):
        """By event, VM, tag and metadata; a disabled one hears nothing."""
        self.make_hook(events=["vm.deleted", "snapshot.*"], tags=["keep"], metadata={"a": "1"})
        off = self.make_hook(enabled=False)
        plain = self.vm(tags=["keep"])
        seen = self.vm(tags=["other", "keep"], metadata={"a": "1", "b": "2"})
        for v in (plain, seen):
            self.call("POST", f"/v1/vms/{v}/snapshot", {})
        self.assertEqual(self.event("snapshot.created")["snapshot"]["sourceVmId"], seen)
        for v in (plain, seen):
            self.call("DELETE", f"/v1/vms/{v}")
        self.assertEqual(self.event("vm.deleted")["vm"]["id"], seen)
        self.assertEqual(self.call("GET", f"/v1/webhooks/{off['id']}/deliveries")["deliveries"], [])
        one, two = self.vm(), self.vm()
        only = self.call("PATCH", f"/v1/webhooks/{off['id']}", {"enabled": True, "vmId": two, "events": None})
        self.assertEqual((only["vmId"], only["enabled"]), (two, True))
        for v in (one, two):
            self.call("POST", f"/v1/vms/{v}/suspend")
        self.assertEqual(self.event("vm.suspended")["vm"]["id"], two)
        self.assertTrue(self.hook.got.empty())

    def test_order_and_repetition(self):
        """While an event waits to be tried again those behind it of its VM wait; others do not."""
        h = self.make_hook(events=["vm.*"])
        self.hook.answers += [500]
        vm = self.vm()
        self.assertEqual(json.loads(self.next()[2])["type"], "vm.created")  # fails
        for what in ("suspend", "start", "kill"):
            self.call("POST", f"/v1/vms/{vm}/{what}")
        got = [self.event()["type"] for _ in range(4)]
        self.assertEqual(got, ["vm.created", "vm.suspended", "vm.resumed", "vm.stopped"])
        ds = self.until("all are delivered", lambda: self.settled(h, 4))
        first = ds[-1]
        self.assertEqual((first["type"], first["attempts"], first["statusCode"]), ("vm.created", 2, 200))
        again = self.call("POST", f"/v1/webhooks/{h['id']}/deliveries/{first['id']}/redeliver")
        self.assertEqual(again["state"], "pending")
        path, headers, body, _ = self.next()
        self.assertEqual(headers["x-freestyle-delivery"], first["id"])
        one = self.call("GET", f"/v1/webhooks/{h['id']}/deliveries/{first['id']}")
        self.assertEqual(one["event"], json.loads(body))

    def test_crash(self):
        """What was acknowledged is told, even if the server ended before it was."""
        h = self.make_hook()
        self.hook.answers += [503] * 2
        vm = self.vm()
        self.next()
        self.call("POST", f"/v1/vms/{vm}/suspend")
        self.crash()
        self.hook.answers.clear()
        self.start()
        got = [self.event() for _ in range(2)]
        self.assertEqual([e["type"] for e in got], ["vm.created", "vm.suspended"])
        self.assertEqual({e["vm"]["id"] for e in got}, {vm})
        self.until("both are delivered", lambda: self.settled(h, 2))

    def test_refusals(self):
        bad = self.refuse
        bad(400, "BAD_REQUEST", "'url' is missing", "POST", "/v1/webhooks", {})
        bad(400, "BAD_REQUEST", "http or https", "POST", "/v1/webhooks", {"url": "ftp://x/"})
        bad(400, "BAD_REQUEST", "'events[1]' is 'vm.frob'", "POST", "/v1/webhooks", {"url": self.endpoint, "events": ["vm.created", "vm.frob"]})
        bad(400, "BAD_REQUEST", "'secret' must be", "POST", "/v1/webhooks", {"url": self.endpoint, "secret": "short"})
        bad(400, "BAD_REQUEST", "'tags'", "POST", "/v1/webhooks", {"url": self.endpoint, "tags": "x"})
        bad(404, "NOT_FOUND", "no webhook", "GET", "/v1/webhooks/whk-x")
        bad(404, "NOT_FOUND", "no webhook", "DELETE", "/v1/webhooks/whk-x")
        h = self.make_hook()
        bad(404, "NOT_FOUND", "no delivery", "POST", f"/v1/webhooks/{h['id']}/deliveries/dlv-x/redeliver")
        account = self.call("POST", "/v1/accounts", {"name": "other"})["id"]
        other = self.call("POST", f"/v1/keys?accountId={account}", {})["key"]
        for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/deliveries"), ("POST", "/test")):
            self.refused(404, "NOT_FOUND", method, f"/v1/webhooks/{h['id']}{path}", {} if method == "PATCH" else None, key=other)
        self.assertEqual(self.call("GET", "/v1/webhooks", key=other)["webhooks"], [])
        for _ in range(9):
            self.make_hook()
        bad(403, "LIMIT_EXCEEDED", "at most 10 webhooks", "POST", "/v1/webhooks", {"url": self.endpoint})
        self.call("DELETE", f"/v1/webhooks/{h['id']}")
        self.assertEqual(len(self.call("GET", "/v1/webhooks")["webhooks"]), 9)


class Internal(Base):
    env = {"FX_NO_PRIVATE": "1"}

    def test_internal_addresses(self):
        """Neither by address nor by name."""
        self.refuse(400, "BAD_REQUEST", "PANDO_WEBHOOK_ALLOW_PRIVATE", "POST", "/v1/webhooks", {"url": self.endpoint})
        h = self.call("POST", "/v1/webhooks", {"url": f"http://ip6-localhost:{self.hook.server_port}/"})
        self.call("POST", f"/v1/webhooks/{h['id']}/test")
        d = self.until("it was refused", lambda: [d for d in self.call("GET", f"/v1/webhooks/{h['id']}/deliveries")["deliveries"] if d["error"]])
        self.assertTrue("internal address" in d[0]["error"] or "resolve" in d[0]["error"], d)
        self.assertTrue(self.hook.got.empty())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
