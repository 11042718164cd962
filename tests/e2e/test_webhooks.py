# SPDX-License-Identifier: Apache-2.0
"""Webhooks of an account with real VMs: order, signatures, a receiver that fails, kill -9 between event and delivery"""
import http.server
import json
import os
import queue
import signal
import subprocess
import threading

import host
from case import Case, limit
from harness import ROOT
from webhook_checks import Hooks, Receiver


class Webhooks(Hooks, Case):
    server_env = {"PANDO_WEBHOOK_ALLOW_PRIVATE": "1", "PANDO_WEBHOOK_RETRY_S": "1"}
    limit_s = 200

    def setUp(self):
        self.hook = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self.hook.got, self.hook.answers, self.hook.lock = queue.Queue(), [], threading.Lock()
        t = threading.Thread(target=self.hook.serve_forever)
        t.start()
        self.addCleanup(t.join)
        self.addCleanup(self.hook.server_close)
        self.addCleanup(self.hook.shutdown)

    def call(self, method, path, body=None):
        return self.s.api(method, path, body)

    def make_hook(self, **body):
        h = self.call("POST", "/v1/webhooks", {"url": f"http://127.0.0.1:{self.hook.server_port}/hook", **body})
        self.addCleanup(self.call, "DELETE", f"/v1/webhooks/{h['id']}")
        return h

    @limit(300)
    def test_events_survive_a_crash(self):
        h = self.make_hook(tags=["watched"])
        other = self.s.create()
        self.hook.answers += [500] * 3  # whatever is sent first, three times
        vm = self.s.create(name="box", tags=["watched"])
        _, headers, body, status = self.next()
        self.assertEqual((json.loads(body)["type"], status), ("vm.created", 500))
        keys = self.call("GET", "/.well-known/jwks.json")["keys"]
        self.check_signature(headers, body, headers["x-freestyle-delivery"], keys)
        self.s.post(vm, "suspend")
        self.s.kill9_pandod()
        self.s.wait_ready()
        self.s.sh(vm, "true")
        self.s.delete(other)
        got = [self.event() for _ in range(3)]
        self.assertEqual([e["type"] for e in got], ["vm.created", "vm.suspended", "vm.resumed"])
        self.assertEqual([e["vm"]["id"] for e in got], [vm] * 3)
        self.assertEqual((got[0]["vm"]["name"], got[0]["vm"]["tags"]), ("box", ["watched"]))
        # A machine that ends by itself, while nobody looks
        pandod, qemu = self.s.pandod_pid(), self.s.qemu_of(vm)
        host.kill(pandod, signal.SIGSTOP)
        host.kill(qemu, signal.SIGKILL)
        host.kill(pandod, signal.SIGKILL)
        self.s.await_pandod(pandod)
        self.s.wait_ready()
        e = self.event("vm.crashed")["vm"]
        self.assertEqual((e["id"], e["state"], e["reason"]), (vm, "stopped", "crashed"))
        self.s.delete(vm)
        self.event("vm.deleted")
        ds = self.until("all are delivered", lambda: self.settled(h, 5))
        self.assertEqual([d["state"] for d in ds], ["delivered"] * 5)
        self.assertGreater(ds[-1]["attempts"], 1)

    def test_command(self):
        """pando webhook, from create to redeliver."""
        def pando(*args):
            return subprocess.run([os.path.join(ROOT, "build/cli/pando"), "webhook", *args], check=True, text=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}).stdout
        id = pando("create", f"http://127.0.0.1:{self.hook.server_port}/cli", "--event", "vm.*", "--tag", "never").strip()
        self.assertIn(id, pando("list"))
        pando("test", id)
        path, _, body, _ = self.next()
        self.assertEqual((path, json.loads(body)["type"]), ("/cli", "test"))
        d = self.until("it is delivered", lambda: self.settled({"id": id}, 1))[0]
        self.assertIn(d["id"], pando("deliveries", id))
        pando("redeliver", id, d["id"])
        self.assertEqual(self.next()[1]["x-freestyle-delivery"], d["id"])
        pando("delete", id)
        self.assertNotIn(id, pando("list"))
