# SPDX-License-Identifier: Apache-2.0
"""Several accounts on one server: the pando command, isolation with real VMs, quotas, the audit log, a restart"""
import http.client
import json
import os
import subprocess
import threading

from case import ApiError, Case
from harness import ROOT

PANDO = os.path.join(ROOT, os.environ.get("PANDO_BUILD", "build"), "cli/pando")


class Accounts(Case):
    server_env = {"PANDO_QUOTA_VMS": "2"}

    def pando(self, *args, code=0, key=None, url=None):
        """What the command printed; parsed with --json."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDO_", "FREESTYLE_"))}
        env["PANDO_LISTEN"] = f"127.0.0.1:{self.s.port}"
        argv = [PANDO, *args]
        if key:
            env["PANDO_API_KEY"] = key
        else:
            argv += ["--data-dir", self.s.dir]
        if url:
            argv += ["--url", url]
        r = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, code, f"pando {' '.join(args)}: {r.stdout}{r.stderr}")
        if code:
            self.assertTrue(r.stderr.strip(), "failed without a word")
            return r.stderr
        return json.loads(r.stdout) if "--json" in args else r.stdout

    def test_command_makes_an_account(self):
        cls = type(self)
        me = self.pando("whoami", "--json")["accountId"]
        self.assertIn(me, self.pando("whoami"))
        made = self.pando("account", "create", "acme", "--with-key", "--running", "1", "--json")
        cls.acme, cls.key = made["id"], made["key"]
        self.assertEqual(self.pando("whoami", "--json", key=self.key)["accountId"], self.acme)
        self.assertRegex(self.pando("account", "list"), rf"{self.acme} +acme +no")
        shown = self.pando("account", "show", "acme", "--json")
        self.assertEqual((shown["limits"]["vms"], shown["limits"]["runningVms"], shown["limits"]["vcpus"] >= 16), (2, 1, True))
        self.assertNotIn(None, shown["limits"].values())  # whoever was given nothing has a share
        mine = self.pando("account", "show", me, "--json")
        self.assertEqual(set(mine["limits"].values()), {None})  # the operator's
        self.assertIn("limit", self.pando("account", "show", self.acme))

    def test_command_says_what_is_wrong(self):
        self.assertIn("--url", self.pando("whoami", url="http://127.0.0.1:1", code=3))
        self.assertIn("UNAUTHORIZED_ERROR", self.pando("whoami", key="pando_nonsense", code=4))
        self.assertIn("FORBIDDEN", self.pando("account", "list", key=self.key, code=4))
        self.assertIn("account list", self.pando("account", "show", "nobody", code=1))
        self.assertIn("--help", self.pando("account", "frobnicate", code=2))
        self.assertIn("ACCOUNT", self.pando("account", "show", code=2))
        self.assertIn("--nonsense", self.pando("key", "list", "--nonsense", code=2))
        self.assertIn("number", self.pando("account", "set-quota", "acme", "--vms", "many", code=2))
        self.assertIn("pando key create", self.pando("--help"))
        self.assertIn("--account", self.pando("key", "create", "--help"))

    def test_keys_come_and_go(self):
        made = self.pando("key", "create", "spare", "--account", "acme", "--json")
        listed = self.pando("key", "list", "--json", key=self.key)["keys"]
        self.assertEqual([k["name"] for k in listed], ["first key", "spare"])
        self.assertTrue(listed[0]["lastUsedAt"])
        self.assertIsNone(listed[1]["lastUsedAt"])
        self.pando("key", "revoke", made["id"], key=self.key)
        self.pando("whoami", key=made["key"], code=4)
        self.pando("key", "revoke", made["id"], key=self.key, code=1)

    def test_accounts_do_not_see_each_other(self):
        cls = type(self)
        cls.vm = self.s.create()
        self.s.sh(self.vm, "echo mine >/root/mine")
        for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/start", {}), ("POST", "/suspend", None),
                                   ("POST", "/exec-await", {"command": "id"}), ("GET", "/files/%2Froot%2Fmine", None),
                                   ("POST", "/fork", {}), ("POST", "/snapshot", {})):
            status, got = self.s.request(method, f"/v1/vms/{self.vm}{path}", body, key=self.key)
            self.assertEqual((status, got["code"]), (404, "VM_NOT_FOUND"), (method, path))
        snap = self.s.snapshot(self.vm)
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.api, "POST", "/v1/vms", {"snapshotId": snap}, key=self.key)
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.api, "DELETE", f"/v1/vms/snapshots/{snap}", key=self.key)
        self.assertEqual(self.s.api("GET", "/v1/vms", key=self.key)["vms"], [])
        self.assertEqual(self.s.api("GET", "/v1/vms/snapshots", key=self.key)["snapshots"], [])
        self.s.api("DELETE", f"/v1/vms/snapshots/{snap}")

    def as_acme(self, method, path, body=None):
        return self.s.api(method, path, body, key=self.key)

    def test_quotas_hold(self):
        cls = type(self)
        results = []

        def create():
            try:
                results.append(self.as_acme("POST", "/v1/vms", {"idleTimeoutSeconds": None})["id"])
            except ApiError as e:
                results.append(e)

        threads = [threading.Thread(target=create) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(80)
        made = [r for r in results if isinstance(r, str)]
        refused = [r for r in results if not isinstance(r, str)]
        self.assertEqual((len(made), len(refused)), (1, 3), results)  # one may run
        for e in refused:
            self.assertEqual((e.status, e.code, e.body["limit"], e.body["current"]), (403, "VM_LIMIT_EXCEEDED", 1, 1))
        cls.theirs = made[0]
        self.refused(403, "VM_LIMIT_EXCEEDED", self.as_acme, "POST", f"/v1/vms/{self.theirs}/fork", {"count": 1})
        self.as_acme("POST", f"/v1/vms/{self.theirs}/suspend")
        second = self.as_acme("POST", "/v1/vms", {"idleTimeoutSeconds": None})["id"]
        # waking the first takes a place that is not there; it sleeps on
        self.refused(403, "VM_LIMIT_EXCEEDED", self.as_acme, "POST", f"/v1/vms/{self.theirs}/exec-await", {"command": "id"})
        self.assertEqual(self.as_acme("GET", f"/v1/vms/{self.theirs}")["state"], "suspended")
        self.pando("account", "set-quota", "acme", "--running", "none", "--snapshots", "0")
        self.assertEqual(self.as_acme("POST", f"/v1/vms/{self.theirs}/exec-await", {"command": "id -un"})["stdout"], "root\n")
        self.refused(403, "TOTAL_VM_LIMIT_EXCEEDED", self.as_acme, "POST", f"/v1/vms/{self.theirs}/fork", {"count": 1})
        self.refused(403, "SNAPSHOT_LIMIT_EXCEEDED", self.as_acme, "POST", f"/v1/vms/{self.theirs}/snapshot", {})
        self.as_acme("DELETE", f"/v1/vms/{second}")
        usage = self.pando("account", "show", "acme", "--json")["usage"]
        self.assertEqual((usage["vms"], usage["runningVms"], usage["snapshots"]), (1, 1, 0))

    def test_token_for_one_vm(self):
        cls = type(self)
        identity = self.pando("identity", "create", "--json")["id"]
        token = self.pando("token", "create", identity, "--json")["token"]
        self.s.api("PATCH", f"/v1/vms/{self.vm}", {"name": "by-name"})
        self.pando("identity", "grant", identity, "by-name")
        self.assertIn(self.vm, self.pando("identity", "grants", identity))
        self.assertIn("no-such-vm", self.pando("identity", "grant", identity, "no-such-vm", code=1))
        run = {"command": "cat /root/mine"}
        self.assertEqual(self.s.api("POST", f"/v1/vms/{self.vm}/exec-await", run, key=token)["stdout"], "mine\n")
        self.refused(403, "VM_ACCESS_DENIED", self.s.api, "POST", f"/v1/vms/{self.theirs}/exec-await", run, key=token)
        self.refused(403, "FORBIDDEN", self.s.api, "POST", "/v1/vms", {}, key=token)
        cls.token = token
        # a stream that is open ends with the permission
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=60)
        try:
            c.request("POST", f"/v1/vms/{self.vm}/exec", body=json.dumps({"command": "echo begun; sleep 300"}),
                      headers={"Authorization": f"Bearer {token}"})
            r = c.getresponse()
            self.assertEqual(r.status, 200)
            while b"begun" not in r.readline():
                pass
            self.pando("identity", "revoke", identity, "by-name")
            try:
                while r.readline():
                    pass
            except (http.client.IncompleteRead, ConnectionError):
                pass  # broken off, as it should
        finally:
            c.close()
        self.refused(403, "VM_ACCESS_DENIED", self.s.api, "POST", f"/v1/vms/{self.vm}/exec-await", run, key=token)
        self.pando("identity", "grant", identity, self.vm)

    def test_all_of_it_outlives_a_restart(self):
        self.s.restart()
        self.assertEqual(self.s.api("GET", "/auth/v1/whoami", key=self.key)["accountId"], self.acme)
        self.assertEqual(self.s.api("GET", "/v1/vms", key=self.token)["totalCount"], 1)
        self.assertEqual(self.s.api("POST", f"/v1/vms/{self.vm}/exec-await", {"command": "cat /root/mine"},
                                    key=self.token)["stdout"], "mine\n")
        self.s.delete(self.vm)
        self.assertEqual(self.s.api("GET", "/v1/vms", key=self.token)["totalCount"], 0)
        self.refused(403, "VM_ACCESS_DENIED", self.s.api, "GET", f"/v1/vms/{self.vm}", key=self.token)

    def test_audit_log(self):
        text = json.dumps(self.pando("audit", "--limit", "1000", "--json"))
        for secret in (self.key, self.token, self.s.key()):
            self.assertNotIn(secret[10:], text)
        mine = self.pando("audit", "--target", self.vm, "--json")["records"]
        last = [(r["method"], r["route"], r["status"], r["code"]) for r in mine[:2]]
        self.assertEqual(last, [("GET", "/v1/vms/{vm_id}", 403, "VM_ACCESS_DENIED"), ("DELETE", "/v1/vms/{vm_id}", 200, None)])
        self.assertEqual((mine[-1]["method"], mine[-1]["route"]), ("POST", "/v1/vms"))
        self.assertTrue([r for r in mine if r["identityId"] and r["route"].endswith("exec-await")])
        self.assertTrue([r for r in mine if r["accountId"] == self.acme and r["code"] == "VM_NOT_FOUND"])
        theirs = self.pando("audit", "--json", key=self.key)["records"]
        self.assertEqual({r["accountId"] for r in theirs}, {self.acme})
        self.assertRegex(self.pando("audit", "--action", "DELETE", "--account", "acme"), rf"{self.theirs}|ak-")

    def test_delete_the_account(self):
        self.pando("account", "delete", "acme", code=1)
        self.as_acme("DELETE", f"/v1/vms/{self.theirs}")
        self.pando("account", "delete", "acme")
        self.pando("whoami", key=self.key, code=4)
        for identity in self.pando("identity", "list", "--json")["identities"]:
            self.pando("identity", "delete", identity["id"])
