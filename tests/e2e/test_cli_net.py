# SPDX-License-Identifier: Apache-2.0
"""pando vpc, pando egress and pando build against a real server and real VMs"""
import os
import subprocess

from case import Case
from pando_tool import Pando

REFUSED, USAGE = 1, 2


class CliNet(Pando, Case):
    limit_s = 200
    keeps_specs = True

    def test_a_network_its_vms_and_tunnels(self):
        vpc = self.out("vpc", "create", "lab", "--range", "192.168.10.0/24").strip()
        self.assertRegex(vpc, r"^vpc-")
        self.assertIn("192.168.10.0/24", self.out("vpc", "list"))
        self.assertIn("there is no VPC", self.pando("vpc", "get", "nowhere", code=REFUSED)[1])
        one = self.out("vm", "create", "--name", "one", "--vpc", "lab", "--address", "192.168.10.10").strip()
        two = self.out("vm", "create", "--name", "two", "--vpc", vpc).strip()
        shown = self.json("vpc", "get", "lab")
        addresses = {v["vmId"]: v["ipv4"] for v in shown["vms"]}
        self.assertEqual(set(addresses), {one, two})
        self.assertEqual(addresses[one], "192.168.10.10")
        self.assertIn("192.168.10.10", self.out("vpc", "get", "lab"))
        self.assertEqual(self.out("vm", "exec", "-n", "two", "ping", "-c1", "-W30", "-q", "one.internal").count(" 0% packet loss"), 1)
        self.assertIn("VPC_FORK_UNSUPPORTED", self.pando("vm", "fork", "one", code=REFUSED)[1])
        copy = self.out("vm", "fork", "one", "--fresh-address").strip()
        self.assertEqual(len(self.json("vpc", "get", "lab")["vms"]), 3)

        config, said = self.pando("vpc", "tunnel", "lab")
        self.assertIn("[Interface]", config)
        session = said.split()[1].rstrip(",")
        key = subprocess.run("wg genkey | wg pubkey", shell=True, check=True, capture_output=True, text=True).stdout.strip()
        self.assertIn("[Peer]", self.out("vpc", "tunnel", "lab", "--vm", "one", "--key", key))
        self.pando("vpc", "tunnel", "lab", "--key", key, code=USAGE)
        open_ = {t["sessionId"]: t for t in self.json("vpc", "tunnels", "lab")["sessions"]}
        self.assertEqual(len(open_), 2)
        self.assertEqual([t["gatewayVmId"] for t in open_.values() if t["clientPublicKey"] == key], [one])
        self.assertIn(session, open_)
        self.out("vpc", "tunnel-close", "lab", session)
        self.assertNotIn(session, self.out("vpc", "tunnels", "lab"))

        self.pando("vpc", "delete", "lab", code=REFUSED)
        self.out("vm", "delete", one, two, copy)
        self.out("vpc", "delete", "lab")
        self.assertEqual(self.json("vpc", "list")["vpcs"], [])

    def test_b_egress(self):
        self.out("vm", "create", "--name", "e", "--egress", "closed")
        self.assertEqual(self.json("egress", "get", "e")["mode"], "closed")
        self.pando("vm", "exec", "-n", "e", "getent", "hosts", "blocked.example.org", code=2)
        self.assertIn("blocked.example.org", self.out("egress", "blocked", "e"))
        secret = os.path.join(self.home, "secret.txt")
        with open(secret, "w") as f:
            f.write("Authorization: Bearer hunter2\nX-Team: a: b\n")
        said = self.out("egress", "set", "e", "--allow", "*.example.org:443,8000-8080", "--allow", "203.0.113.0/24:5432", "--deny",
                        "ads.example.org", "--headers", f"api.example.org={secret}", "--up", "10")
        self.assertIn("rules", said)
        policy = self.json("egress", "get", "e")
        self.assertEqual(policy["rules"], [
            {"action": "deny", "domain": "ads.example.org"},
            {"action": "allow", "domain": "*.example.org", "ports": [443, "8000-8080"]},
            {"action": "allow", "cidr": "203.0.113.0/24", "ports": [5432]}])
        self.assertEqual(policy["inject"], [{"domain": "api.example.org", "headers": {"Authorization": "********", "X-Team": "********"}}])
        text = self.out("egress", "get", "e")
        self.assertIn("443,8000-8080", text)
        self.assertIn("to api.example.org, header Authorization", text)
        self.assertNotIn("hunter2", text)
        self.out("egress", "set", "e", "--down", "20")  # and everything else stays
        later = self.json("egress", "get", "e")
        self.assertEqual(later, {**policy, "bandwidth": {"upMbps": 10.0, "downMbps": 20.0}})
        self.out("egress", "set", "e", "--up", "0", "--headers", "api.example.org=/dev/null", "--mode", "open")
        later = self.json("egress", "get", "e")
        self.assertEqual((later["mode"], later["inject"], later["bandwidth"]), ("open", [], {"downMbps": 20.0}))
        self.assertEqual(later["rules"], policy["rules"])
        self.out("egress", "set", "e", "-f", "-", input='{"mode": "rules", "rules": [{"action": "allow"}]}')
        self.assertEqual(self.json("egress", "get", "e")["rules"], [{"action": "allow"}])
        self.pando("egress", "set", "e", code=USAGE)
        self.pando("egress", "set", "e", "--allow", "x:y", code=USAGE)
        self.out("vm", "delete", "e")

    def test_c_builds(self):
        spec = '{"additionalFiles": {"/etc/made": {"content": "by a spec"}}}'
        vm = self.out("vm", "create", "--name", "b", "-q", "-f", "-", input=spec).strip()
        build = self.json("build", "get", vm)
        self.assertEqual(build["state"], "succeeded")
        self.assertIn(build["buildId"], self.out("build", "list"))
        self.assertEqual([b["buildId"] for b in self.json("build", "list", "--state", "succeeded")["builds"]], [build["buildId"]])
        self.assertIn("STEP", self.out("build", "get", build["buildId"]))
        self.assertTrue(self.json("build", "log", build["buildId"]) is not None)
        self.assertIn("by a spec", self.out("vm", "exec", "-n", "b", "cat", "/etc/made"))
        self.pando("build", "get", "bld-nothing", code=REFUSED)
        self.out("vm", "delete", "b")
