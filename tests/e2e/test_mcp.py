# SPDX-License-Identifier: Apache-2.0
"""The official MCP client against a server of ours, over HTTP and over `pando mcp`: tests/mcp, run by Node"""
import os

import node
from case import Case, limit
from harness import ROOT

DIR = os.path.join(ROOT, "tests/mcp")


class Mcp(Case):
    keeps_specs = True

    @limit(120)
    def test_install(self):
        node.install(self, DIR)

    @limit(420)
    def test_the_client_works(self):
        other = self.s.api("POST", "/v1/accounts", {"name": "other"})
        key = self.s.api("POST", f"/v1/keys?accountId={other['id']}", {"name": "mcp"})
        node.run(self, DIR, node.files(DIR), {"PANDO_API_URL": f"http://127.0.0.1:{self.s.port}", "PANDO_API_KEY": self.s.key(),
                             "PANDO_OTHER_KEY": key["key"], "PANDO_EDGE_HTTP_PORT": str(self.s.edge_http_port),
                             "PANDO_CLI": os.path.join(ROOT, "build/cli/pando")}, 400)

    def test_the_audit_log_names_what_tools_did(self):
        """Not /mcp, but the routes that tools are calls of; and never what was asked with them."""
        records = self.s.api("GET", "/v1/audit?limit=500")["records"]
        routes = {f"{r['method']} {r['route']}" for r in records}
        for route in ("POST /v1/vms", "POST /v1/vms/{vm_id}/fork", "POST /v1/vms/{vm_id}/exec-await", "DELETE /v1/vms/{vm_id}"):
            self.assertIn(route, routes)
        self.assertFalse([r for r in records if r["route"] == "/mcp" and r["code"] != "UNAUTHORIZED_ERROR"])
        self.assertTrue([r for r in records if r["code"] == "VM_NOT_FOUND"], "what was refused to the other account")

    def rpc(self, key, name, **args):
        status, body = self.s.request("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                                       "params": {"name": name, "arguments": args}}, key=key)
        self.assertEqual(status, 200, body)
        return body["result"]

    def test_a_token_reaches_what_it_was_granted(self):
        vm, other = self.s.create(), self.s.create()
        identity = self.s.api("POST", "/identity/v1/identities", {})["id"]
        token = self.s.api("POST", f"/identity/v1/identities/{identity}/tokens", {})["token"]
        self.assertIn("VM_ACCESS_DENIED", str(self.rpc(token, "exec", vmId=vm, command="id")))
        self.s.api("POST", f"/identity/v1/identities/{identity}/permissions/vm/{vm}", {"allowedUsers": ["root"]})
        self.assertEqual(self.rpc(token, "exec", vmId=vm, command="id -un")["structuredContent"]["stdout"], "root\n")
        self.assertEqual([v["id"] for v in self.rpc(token, "vm_list")["structuredContent"]["vms"]], [vm])
        for name, args in (("exec", {"vmId": other, "command": "id"}), ("vm_delete", {"vmId": vm}), ("vm_create", {}),
                           ("exec", {"vmId": vm, "command": "id", "user": "nobody"})):
            self.assertTrue(self.rpc(token, name, **args).get("isError"), name)
        self.s.delete(vm)
        self.s.delete(other)

    def test_zy_snapshots_go(self):
        for s in self.s.api("GET", "/v1/vms/snapshots")["snapshots"]:
            self.s.api("DELETE", f"/v1/vms/snapshots/{s['snapshotId']}")
