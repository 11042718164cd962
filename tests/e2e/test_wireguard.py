# SPDX-License-Identifier: Apache-2.0
"""A tunnel into a private network: a client in a namespace of its own, with plain wg-quick, reaches VMs and nothing else"""
import os
import shutil
import subprocess
import tempfile

from case import Case, wait_for

SERVE = ("setsid python3 -c \"import http.server as h; h.HTTPServer(('0.0.0.0',8000),h.SimpleHTTPRequestHandler)"
         ".serve_forever()\" >/dev/null 2>&1 </dev/null &\n"
         "for i in $(seq 100); do curl -s -o /dev/null http://127.0.0.1:8000/ && exit 0; sleep 0.2; done; exit 1")


class Client:
    """A namespace with a link to this host, and WireGuard in it."""

    def __init__(self):
        self.ns = f"pc-{os.getpid()}"
        self.link = f"pcv{os.getpid() % 1000000}"
        self.dir = tempfile.mkdtemp(prefix="pando-wg-")
        self.name = f"pcw{os.getpid() % 1000000}"  # wireguard-go's names are the host's
        self.up = False

    def open(self):
        for command in (f"ip netns add {self.ns}", f"ip link add {self.link} type veth peer name eth0 netns {self.ns}",
                        f"ip addr add 192.0.2.129/30 dev {self.link}", f"ip link set {self.link} up",
                        f"ip -n {self.ns} addr add 192.0.2.130/30 dev eth0", f"ip -n {self.ns} link set eth0 up",
                        f"ip -n {self.ns} link set lo up", f"ip -n {self.ns} route add default via 192.0.2.129"):
            subprocess.run(command.split(), check=True)
        return self

    def run(self, *argv, timeout=60):
        return subprocess.run(["ip", "netns", "exec", self.ns, *argv], capture_output=True, text=True, timeout=timeout)

    def quick(self, verb, config=None):
        path = os.path.join(self.dir, self.name + ".conf")
        if config:
            with open(path, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
                f.write(config)
        env = {**os.environ, "WG_QUICK_USERSPACE_IMPLEMENTATION": "wireguard-go"}
        r = subprocess.run(["ip", "netns", "exec", self.ns, "wg-quick", verb, path], capture_output=True, text=True,
                           timeout=60, env=env)
        if r.returncode:
            raise AssertionError(f"wg-quick {verb}: {r.stdout}{r.stderr}")
        self.up = verb == "up"

    def ping(self, address):
        return self.run("ping", "-c", "2", "-i", "0.3", "-W", "4", address).returncode == 0

    def close(self):
        if self.up:
            try:
                self.quick("down")
            except AssertionError:
                pass
        subprocess.run(["ip", "link", "del", self.link], capture_output=True)
        subprocess.run(["ip", "netns", "del", self.ns], capture_output=True)
        shutil.rmtree(self.dir, ignore_errors=True)


class Wireguard(Case):
    limit_s = 150
    server_env = {"PANDO_POOL": "2", "PANDO_WG_HOST": "192.0.2.129", "PANDO_WG_PORT": "52820"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = Client()
        try:
            cls.client.open()
            cls.vpc = cls.s.api("POST", "/v1/vpcs", {"cidr": "10.0.0.0/16"})["vpcId"]  # what the SDK asks for by default
            cls.vm = cls.s.create_ready(name="web", nics=[{"default": True, "vpc": cls.vpc, "mode": "routed", "ipv4": "10.0.9.9"}])
            cls.s.sh(cls.vm, SERVE)
        except BaseException:
            cls.client.close()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        super().tearDownClass()

    def session(self):
        return self.s.api("POST", f"/v1/vpcs/{self.vpc}/wireguard/ephemeral", {})

    def get(self, seconds=15):
        return self.client.run("curl", "-sS", "-m", str(seconds), "-o", "/dev/null", "-w", "%{http_code}", "http://10.0.9.9:8000/",
                               timeout=seconds + 20).stdout

    def test_a_tunnel(self):
        t = self.session()
        for member in ("sessionId", "endpointPort", "listenPort", "interfaceName", "serverPublicKey", "clientPublicKey",
                       "clientPrivateKey", "serverTunnelIp", "clientTunnelIp", "vpcIp", "clientAllowedIps", "clientConfig"):
            self.assertIn(member, t)
        self.assertEqual((t["vpcCidr"], t["clientAllowedIps"], t["endpointHost"]), ("10.0.0.0/16", ["10.0.0.0/16"], "192.0.2.129"))
        self.client.quick("up", t["clientConfig"])
        wait_for("the tunnel carries", lambda: self.client.ping("10.0.9.9"), 40)
        self.assertEqual(self.get(), "200")
        seen = self.s.api("GET", f"/v1/vpcs/{self.vpc}/wireguard")["sessions"]
        self.assertEqual([(s["sessionId"], s["clientPublicKey"]) for s in seen], [(t["sessionId"], t["clientPublicKey"])])
        self.assertTrue(seen[0]["lastHandshakeAt"], seen)
        self.assertGreater(min(seen[0]["rxBytes"], seen[0]["txBytes"]), 100, seen)
        self.assertNotIn(t["clientPrivateKey"], str(seen))
        # the VM's answers find their way; nothing else is behind the tunnel
        self.client.run("ip", "route", "add", "10.231.0.0/16", "dev", self.client.name)
        for elsewhere in ("10.0.0.1", "10.0.0.2", "169.254.1.1", "10.231.0.1"):
            self.assertFalse(self.client.ping(elsewhere), f"{elsewhere} answers through the tunnel")
        self.s.api("DELETE", f"/v1/vpcs/{self.vpc}/wireguard/ephemeral", {"sessionId": t["sessionId"]})
        self.assertFalse(self.client.ping("10.0.9.9"), "closed, and still there")
        self.client.quick("down")
        for secret in (t["clientPrivateKey"], t["clientConfig"]):
            self.assertNotIn(secret, self.s.log_text())
        self.refused(404, "NOT_FOUND", self.s.api, "DELETE", f"/v1/vpcs/{self.vpc}/wireguard/ephemeral",
                     {"sessionId": t["sessionId"]})

    def test_a_packet_wakes_the_vm(self):
        """The only VM sleeps: the first connection of a client wakes it."""
        t = self.session()
        self.client.quick("up", t["clientConfig"])
        wait_for("the tunnel carries", lambda: self.client.ping("10.0.9.9"), 40)
        self.s.post(self.vm, "suspend")
        self.assertEqual(self.get(seconds=200), "200")
        self.assertEqual(self.s.state(self.vm), "running")
        # a new server finds the tunnel, and no VM that runs
        self.s.post(self.vm, "suspend")
        old = self.s.kill9_pandod()
        self.s.await_pandod(old)
        self.s.wait_ready()
        self.assertEqual(self.get(seconds=200), "200")
        self.s.api("DELETE", f"/v1/vpcs/{self.vpc}/wireguard/ephemeral", {"sessionId": t["sessionId"]})
        self.client.quick("down")

    def test_it_ends_by_itself(self):
        t = self.session()
        self.client.quick("up", t["clientConfig"])
        wait_for("the tunnel carries", lambda: self.client.ping("10.0.9.9"), 40)
        self.s.sql(f"UPDATE wg_peers SET expires_ms = 1 WHERE id = '{t['sessionId']}'")
        wait_for("the tunnel ends", lambda: not self.client.ping("10.0.9.9"), 60)
        self.client.quick("down")

    def test_a_key_of_the_clients(self):
        key = subprocess.run(["wg", "genkey"], capture_output=True, text=True, check=True).stdout.strip()
        public = subprocess.run(["wg", "pubkey"], input=key, capture_output=True, text=True, check=True).stdout.strip()
        peers = f"/v1/vpcs/{self.vpc}/wireguard/peers"
        t = self.s.api("POST", peers, {"gatewayVmId": self.vm, "clientPublicKey": public})
        self.assertEqual((t["gatewayVmId"], t["vpcId"]), (self.vm, self.vpc))
        self.client.quick("up", t["clientConfig"].replace("REPLACE_WITH_YOUR_PRIVATE_KEY", key))
        wait_for("the tunnel carries", lambda: self.client.ping("10.0.9.9"), 40)
        # it outlives the server
        old = self.s.kill9_pandod()
        self.s.await_pandod(old)
        self.s.wait_ready()
        self.assertEqual(self.get(), "200")
        self.client.quick("down")
        self.refused(400, "BAD_REQUEST", self.s.api, "POST", peers, {"gatewayVmId": self.vm, "clientPublicKey": "nonsense"})
        self.refused(409, "CONFLICT", self.s.api, "POST", peers, {"gatewayVmId": self.vm, "clientPublicKey": public})
        self.refused(404, "VM_NOT_FOUND", self.s.api, "POST", peers, {"gatewayVmId": "a" * 20, "clientPublicKey": public})

    def test_foreign_accounts(self):
        other = self.s.api("POST", "/v1/accounts", {"name": "other"})["id"]
        key = self.s.api("POST", f"/v1/keys?accountId={other}", {"name": "k"})["key"]
        for method, path, body in (("GET", f"/v1/vpcs/{self.vpc}", None), ("DELETE", f"/v1/vpcs/{self.vpc}", None),
                                   ("POST", f"/v1/vpcs/{self.vpc}/wireguard/ephemeral", {}),
                                   ("GET", f"/v1/vpcs/{self.vpc}/wireguard", None),
                                   ("GET", f"/v1/vms/{self.vm}/egress", None),
                                   ("PUT", f"/v1/vms/{self.vm}/egress", {"mode": "open"}),
                                   ("POST", "/v1/vms", {"nics": [{"vpc": self.vpc, "mode": "routed", "ipv4": True}]})):
            status, _ = self.s.request(method, path, body, key=key)
            self.assertEqual(status, 404, f"{method} {path}")
        self.assertEqual(self.s.api("GET", "/v1/vpcs", key=key)["vpcs"], [])

    def test_zz_leaves_nothing_behind(self):
        self.client.close()
        self.s.delete_all()
        self.s.api("DELETE", f"/v1/vpcs/{self.vpc}")
        super().test_zz_leaves_nothing_behind()
