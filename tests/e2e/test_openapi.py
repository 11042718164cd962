# SPDX-License-Identifier: Apache-2.0
"""openapi.json and the docs site of a real server: replies with real VMs have the described form; a stock validator and Chromium (tests/docs)"""
import os

import node
from case import Case, limit
from harness import ROOT
from schema_check import Schemas

DIR = os.path.join(ROOT, "tests/docs")


class Openapi(Case):
    def ask(self, method, pattern, body=None, query="", fails=False, **args):
        """The reply, checked against the description of its route."""
        path = pattern.format(**args) + query
        status, reply = self.s.request(method, path, body)
        self.assertEqual(status >= 400, fails, f"{method} {path}: {status} {reply}")
        wrong = self.schemas.wrong_reply(method, pattern, status, reply)
        self.assertIsNone(wrong, f"{wrong}\n{reply}")
        return reply

    def setUp(self):
        super().setUp()
        self.schemas = Schemas(self.s.request("GET", "/openapi.json")[1])

    @limit(240)
    def test_vms(self):
        vm = self.ask("POST", "/v1/vms", {"name": "described", "tags": ["a"], "metadata": {"k": "v"}})["id"]
        one = {"vm_id": vm}
        self.ask("GET", "/v1/vms/{vm_id}", **one)
        self.ask("GET", "/v1/vms", query="?includeDeleted=true")
        self.ask("POST", "/v1/vms/{vm_id}/exec-await", {"command": "echo hello"}, **one)
        self.ask("POST", "/v1/vms/{vm_id}/code", {"language": "python", "code": "import json; {'a': 1}"}, **one)
        self.ask("GET", "/v1/vms/{vm_id}/code/contexts", **one)
        self.ask("PUT", "/v1/vms/{vm_id}/files/{path}", {"content": "x"}, path="%2Fsrv%2Fx", **one)
        self.ask("GET", "/v1/vms/{vm_id}/files/{path}", path="%2Fsrv", **one)
        self.ask("GET", "/v1/vms/{vm_id}/systemd/services", **one)
        self.ask("GET", "/v1/vms/{vm_id}/systemd/services/{service_id}/status", service_id="dbus", **one)
        self.ask("PUT", "/v1/vms/{vm_id}/egress", {"mode": "rules", "rules": [{"action": "allow", "domain": "*.example.com", "ports": [443, "8000-8080"]}],
                                                  "bandwidth": {"upMbps": 10}}, **one)
        self.ask("GET", "/v1/vms/{vm_id}/egress", **one)
        self.ask("GET", "/v1/vms/{vm_id}/egress/blocked", **one)
        self.ask("GET", "/v1/vms/{vm_id}/ports", **one)
        snapshot = self.ask("POST", "/v1/vms/{vm_id}/snapshot", {"name": "described"}, **one)["snapshotId"]
        self.ask("GET", "/v1/vms/snapshots/{snapshot_id}", snapshot_id=snapshot)
        self.ask("GET", "/v1/vms/snapshots")
        fork = self.ask("POST", "/v1/vms/{vm_id}/fork", {"count": 1}, **one)["forks"][0]["id"]
        self.ask("GET", "/v1/tree")
        self.ask("GET", "/v1/vms/{vm_id}/diff", query=f"?with={fork}&path=/srv", **one)
        self.ask("PATCH", "/v1/vms/{vm_id}", {"name": "renamed", "selfAccess": True}, **one)
        self.ask("POST", "/v1/vms/{vm_id}/suspend", **one)
        self.ask("DELETE", "/v1/vms/{vm_id}", vm_id=fork)
        self.ask("DELETE", "/v1/vms/{vm_id}", **one)
        self.ask("GET", "/v1/vms/{vm_id}", vm_id="vm-does-not-exist", fails=True)  # a described error
        self.ask("DELETE", "/v1/vms/snapshots/{snapshot_id}", snapshot_id=snapshot)

    @limit(120)
    def test_the_rest(self):
        self.ask("GET", "/v1/health")
        self.ask("GET", "/v1/accounts")
        key = self.ask("POST", "/v1/keys", {"name": "described"})
        self.ask("GET", "/v1/keys")
        self.ask("DELETE", "/v1/keys/{key_id}", key_id=key["id"])
        self.ask("GET", "/v1/audit", query="?limit=20")
        self.ask("GET", "/observability/v1/logs", query="?pageSize=20")
        hook = self.ask("POST", "/v1/webhooks", {"url": "https://hooks.example.com/x", "events": ["vm.created"], "secret": True})
        self.ask("GET", "/v1/webhooks")
        self.ask("DELETE", "/v1/webhooks/{webhook}", webhook=hook["id"])
        vpc = self.ask("POST", "/v1/vpcs", {"name": "described"})
        self.ask("GET", "/v1/vpcs/{vpc_id}", vpc_id=vpc["id"])
        self.ask("DELETE", "/v1/vpcs/{vpc_id}", vpc_id=vpc["id"])
        self.ask("GET", "/domains/v1/domains")
        self.ask("GET", "/domains/v1/mappings")
        repo = {"repo": self.ask("POST", "/git/v1/repo", {"name": "described"})["repoId"]}
        self.ask("POST", "/git/v1/repo/{repo}/commits", {"message": "first", "branch": "main", "files": [{"path": "a", "content": "b\n"}]}, **repo)
        self.ask("GET", "/git/v1/repo/{repo}/git/commits", **repo)
        self.ask("GET", "/git/v1/repo/{repo}/contents/{path}", path="a", **repo)
        self.ask("GET", "/git/v1/repo/{repo}", **repo)
        self.ask("GET", "/git/v1/repo/{repo}/trigger", **repo)
        self.ask("DELETE", "/git/v1/repo/{repo}", **repo)

    @limit(120)
    def test_install(self):
        node.install(self, DIR)

    @limit(300)
    def test_validator_and_pages(self):
        node.install(self, DIR)
        node.run(self, DIR, node.files(DIR), {"PANDO_URL": f"http://127.0.0.1:{self.s.port}"}, 280)
