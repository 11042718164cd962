# SPDX-License-Identifier: Apache-2.0
"""GET /v1/events with real VMs: order, resuming after kill -9; a web session and pando login --web on the way"""
import http.client
import json
import os
import subprocess
import tempfile

from case import Case, limit
from harness import ROOT

PANDO = os.path.join(ROOT, "build/cli/pando")


class Stream:
    """Follows the events of an account; next() waits for one."""

    def __init__(self, s, query="", headers=None):
        self.c = http.client.HTTPConnection("127.0.0.1", s.port, timeout=120)
        self.c.request("GET", "/v1/events" + query, headers=headers or {"Authorization": "Bearer " + s.key()})
        self.r = self.c.getresponse()
        assert self.r.status == 200, self.r.read()
        self.last = None

    def next(self):
        kind, data, ident = None, None, None
        while True:
            line = self.r.readline().decode()
            if not line:
                raise ConnectionError("the stream ended")
            line = line.rstrip("\n")
            if not line and kind:
                self.last = ident or self.last
                return kind, data
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("id: "):
                ident = int(line[4:])
            elif line.startswith("data: "):
                data = json.loads(line[6:])

    def close(self):
        self.c.close()


class Events(Case):
    limit_s = 240

    def types(self, stream, until):
        """Types with the VM they are about, up to the first that is `until`."""
        got = []
        while not got or got[-1] != until:
            kind, data = stream.next()
            got.append((kind, data.get("vm", {}).get("id")))
        return got

    def browser(self):
        """Signs in: (headers to look, headers to act)."""
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=60)
        c.request("POST", "/v1/session", json.dumps({"credential": self.s.key()}))
        r = c.getresponse()
        body = json.loads(r.read())
        cookie = r.getheader("set-cookie").split(";")[0]
        c.close()
        return {"Cookie": cookie}, {"Cookie": cookie, "x-pando-csrf": body["csrf"]}

    def call(self, method, path, headers, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=60)
        c.request(method, path, json.dumps(body) if body is not None else None, headers)
        r = c.getresponse()
        text = r.read()
        c.close()
        self.assertLess(r.status, 300, text)
        return json.loads(text)

    @limit(300)
    def test_in_order_and_after_a_crash(self):
        look, _ = self.browser()
        e = Stream(self.s, headers=look)
        self.addCleanup(e.close)
        self.assertEqual(e.next()[0], "hello")
        vm = self.s.create(name="box")
        self.s.post(vm, "suspend")
        self.s.sh(vm, "true")
        copy = self.s.fork(vm, 1)[0]
        snap = self.s.snapshot(vm)
        got = self.types(e, ("snapshot.created", None))
        # A VM that is frozen for its copies is running all the while.
        self.assertEqual([g for g in got if g[1] in (vm, copy, None)], [
            ("vm.created", vm), ("vm.state", vm), ("vm.suspended", vm), ("vm.state", vm), ("vm.resumed", vm),
            ("vm.forked", vm), ("vm.created", copy), ("snapshot.created", None)])
        place = e.last
        self.s.delete(copy)
        self.s.kill9_pandod()
        self.s.wait_ready()
        with self.assertRaises((ConnectionError, http.client.HTTPException)):
            while True:
                e.next()
        # The session is still good, and nothing is missing or doubled.
        e = Stream(self.s, headers={**look, "Last-Event-ID": str(place)})
        self.addCleanup(e.close)
        self.assertEqual(e.next()[0], "hello")
        self.s.delete(vm)
        self.assertEqual(self.types(e, ("vm.deleted", vm)), [("vm.deleted", copy), ("vm.deleted", vm)])
        self.s.api("DELETE", f"/v1/vms/snapshots/{snap}")
        self.assertEqual(e.next()[0], "snapshot.deleted")
        ids = [json.loads(line)["id"] for line in subprocess.run(
            [PANDO, "events", "--json", "--types", "vm.*,snapshot.*"], stdout=subprocess.PIPE, check=True, timeout=60,
            env={**os.environ, "PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key()}).stdout.splitlines()]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertGreaterEqual(len(ids), 11)

    def test_login_in_the_browser(self):
        look, act = self.browser()
        url = f"http://127.0.0.1:{self.s.port}"
        with tempfile.TemporaryDirectory() as home:
            env = {"PATH": os.environ["PATH"], "HOME": home}
            p = subprocess.Popen([PANDO, "login", "--web", url], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.addCleanup(p.kill)
            code = next(line.split()[1] for line in p.stderr if line.strip().startswith("code "))
            seen = self.call("GET", f"/v1/login-requests/by-code/{code}", look)
            self.assertIn("pando on ", seen["client"])
            self.call("POST", f"/v1/login-requests/by-code/{code}/confirm", act)
            out, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 0, err)
            self.assertIn("logged in to " + url, out)
            config = os.path.join(home, ".config/pando/config")
            self.assertEqual(os.stat(config).st_mode & 0o777, 0o600)
            who = json.loads(subprocess.run([PANDO, "whoami", "--json"], env=env, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
            self.assertEqual(who["accountId"], self.s.api("GET", "/auth/v1/whoami")["accountId"])
        # The keys of a machine that is lost are revoked, and with them all that was opened with them.
        for k in self.s.api("GET", "/v1/keys")["keys"]:
            if k["name"].startswith("pando on"):
                self.s.api("DELETE", f"/v1/keys/{k['id']}")
