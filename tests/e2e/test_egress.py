# SPDX-License-Identifier: Apache-2.0
"""What a VM may reach: modes, rules by address and by name, the proxy, injected headers, limits, forks, restarts"""
import json
import time

from case import Case, limit, wait_for
from world import DNS, NET, World

ONE, THREE, INJECT = f"{NET}.10", f"{NET}.30", f"{NET}.40"
CURL = "curl -sS --connect-timeout 10 -m 30 "
TCP = ("timeout 20 python3 -c \"import socket; s=socket.create_connection(('{}',{}),15); s.settimeout(15); s.sendall(b'ping');"
       " print(s.recv(4).decode())\"")
UDP = ("timeout 20 python3 -c \"import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(4);"
       " s.sendto(b'ping',('{}',{})); print(s.recv(4).decode())\"")
SECRET = "Bearer s3cr3t-t0ken-of-the-test"


class Egress(Case):
    limit_s = 180

    @classmethod
    def setUpClass(cls):
        cls.world = World()
        try:
            cls.world.open()
            cls.server_env = {"PANDO_RESOLVER": DNS, "PANDO_EGRESS_CA": cls.world.ca}
            super().setUpClass()
            cls.vm = cls.s.create(egress={"mode": "closed"})
        except BaseException:
            cls.world.close()
            raise

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.world.close()

    def test_zz_leaves_nothing_behind(self):
        self.world.close()
        super().test_zz_leaves_nothing_behind()

    # ---- helpers ----

    def put(self, policy, vm=None):
        return self.s.api("PUT", f"/v1/vms/{vm or self.vm}/egress", policy)

    def blocked(self, vm=None):
        return self.s.api("GET", f"/v1/vms/{vm or self.vm}/egress/blocked")["blocked"]

    def ok(self, command, want="", vm=None):
        out = self.s.sh(vm or self.vm, command)
        self.assertIn(want, out)
        return out

    def no(self, command, vm=None):
        r = self.s.run(vm or self.vm, command)
        self.assertNotEqual(r.code, 0, f"'{command}' was let through: {r.out}")
        return r

    # ---- tests ----

    def test_closed_from_the_first_moment(self):
        got = self.s.api("GET", f"/v1/vms/{self.vm}/egress")
        self.assertEqual(got, {"mode": "closed", "rules": [], "inject": []})
        self.no(TCP.format(ONE, 9000))
        self.no(CURL + "http://one.test/")
        self.no(f"ping -c 1 -W 3 {ONE}")
        self.no("getent hosts one.test")
        self.no("getent hosts secret-bytes-of-a-tunnel.one.test")
        self.assertEqual([e for e in self.world.seen() if "ready" not in e], [], "something got out")
        kinds = {(b["kind"], b.get("domain") or b.get("address")) for b in self.blocked()}
        self.assertIn(("dns", "secret-bytes-of-a-tunnel.one.test"), kinds)
        self.assertIn(("address", ONE), kinds)
        entry = next(b for b in self.blocked() if b["kind"] == "address" and b.get("protocol") == "tcp")
        self.assertEqual((entry["address"], entry["port"]), (ONE, 9000))

    def test_open(self):
        self.put({"mode": "open"})
        self.ok(CURL + "http://one.test/", "hello from one.test")
        self.ok(TCP.format(ONE, 9000), "ping")
        # what no policy opens
        self.no(TCP.format("10.77.66.55", 80))

    def test_rules_by_address(self):
        self.put({"mode": "rules", "rules": [
            {"action": "deny", "cidr": f"{ONE}/32", "ports": [9000]},
            {"action": "allow", "cidr": f"{NET}.0/27", "ports": ["8000-9100"]},
        ]})
        self.no(TCP.format(ONE, 9000))  # the first match decides
        self.ok(TCP.format(THREE, 9000), "ping")
        self.ok(UDP.format(THREE, 9000), "ping")
        self.no(TCP.format(THREE, 80))  # another port
        self.no(TCP.format(INJECT, 9000))  # not in the range
        self.no("getent hosts one.test")  # no rule is about names
        self.assertEqual(self.world.asked(echo=9000, ip=INJECT), [])

    def test_rules_by_name(self):
        self.put({"mode": "rules", "rules": [
            {"action": "deny", "domain": "deep.one.test"},
            {"action": "allow", "domain": "one.test"},
            {"action": "allow", "domain": "*.one.test"},
            {"action": "allow", "domain": "inside.test"},
        ]})
        before = len(self.world.seen())
        self.no(TCP.format(ONE, 9000))  # nobody asked for the name yet
        self.ok(CURL + "http://one.test/", "hello from one.test")
        self.ok(CURL + "-k https://one.test/", "hello from one.test")
        self.ok(TCP.format("one.test", 9000), "ping")
        # the same address, another name
        self.no("getent hosts two.test")
        self.no(CURL + f"--resolve two.test:80:{ONE} http://two.test/")
        self.no(CURL + f"-k --resolve two.test:443:{ONE} https://two.test/")
        self.no(CURL + f"-k https://{ONE}/")  # no name at all
        self.no(CURL + "-H 'Host: two.test' http://one.test/")
        # the name alone does not lead elsewhere
        self.no(CURL + f"-k --resolve one.test:443:{THREE} https://one.test/")
        self.no(CURL + f"--resolve one.test:80:{THREE} http://one.test/")
        self.no("getent hosts deep.one.test")
        self.no("getent hosts three.test")
        self.no(UDP.format("one.test", 443))  # names in QUIC cannot be read
        self.no(CURL + "http://inside.test/")  # a name that leads into a private range opens nothing
        new = self.world.seen()[before:]
        self.assertEqual([e for e in new if e.get("host") not in (None, "one.test")], [])
        self.assertEqual([e for e in new if e.get("dns") in ("two.test", "deep.one.test", "three.test")], [])
        names = {b.get("domain") for b in self.blocked() if b["kind"] == "name"}
        self.assertIn("two.test", names)

    def test_names_from_a_vpc_address(self):
        """Whatever address of the VM a connection comes from, the proxy looks at its name."""
        vpc = self.s.api("POST", "/v1/vpcs", {"cidr": "192.168.20.0/24"})["vpcId"]
        vm = self.s.create(nics=[{"default": True, "vpc": vpc, "mode": "routed", "ipv4": "192.168.20.5"}],
                           egress={"mode": "rules", "rules": [{"action": "allow", "domain": "one.test"}]})
        try:
            self.ok(CURL + "http://one.test/", "hello from one.test", vm)
            curl = CURL + "--interface 192.168.20.5 "
            self.ok(curl + "http://one.test/", "hello from one.test", vm)
            self.ok(curl + "-k https://one.test/", "hello from one.test", vm)
            before = len(self.world.seen())
            self.no(curl + f"--resolve two.test:80:{ONE} http://two.test/", vm)
            self.no(curl + f"-k --resolve two.test:443:{ONE} https://two.test/", vm)
            self.no(curl + f"-k https://{ONE}/", vm)
            self.assertEqual([e for e in self.world.seen()[before:] if e.get("host")], [])
            self.assertIn("two.test", {b.get("domain") for b in self.blocked(vm) if b["kind"] == "name"})
        finally:
            self.s.delete(vm)
            self.s.api("DELETE", f"/v1/vpcs/{vpc}")

    def test_one_request_for_one_name(self):
        """A second request on the same connection cannot be for another name."""
        out = self.s.run(self.vm, "timeout 25 python3 -c \"import socket; s=socket.create_connection(('one.test',80),15);"
                         " s.settimeout(10); s.sendall(b'GET /first HTTP/1.1\\r\\nHost: one.test\\r\\n\\r\\n'"
                         "b'GET /smuggled HTTP/1.1\\r\\nHost: two.test\\r\\n\\r\\n')\n"
                         "while True:\n d=s.recv(4096)\n if not d: break\n print(d.decode())\"").out
        self.assertIn("hello from one.test", out)
        self.assertEqual(self.world.asked(path="/smuggled"), [])

    def test_block_list(self):
        self.put({"mode": "rules", "rules": [{"action": "deny", "domain": "two.test"}, {"action": "allow"}]})
        self.ok(CURL + "-k https://one.test/", "hello from one.test")
        self.no("getent hosts two.test")
        self.no(CURL + f"-k --resolve two.test:443:{ONE} https://two.test/")
        self.ok(TCP.format(THREE, 9000), "ping")
        self.ok(CURL + f"http://{ONE}/big -o /dev/null -w '%{{size_download}}'", "3000000")

    def test_a_change_takes_hold_at_once(self):
        """Also for a connection that is open."""
        self.put({"mode": "open"})
        self.s.sh(self.vm, "cat >/root/talk.py <<'E'\nimport socket,time\n"
                  f"s=socket.create_connection(('{THREE}',9000),15); s.settimeout(10)\n"
                  "n=0\ntry:\n while True:\n  s.sendall(b'x'); s.recv(1); n+=1; open('/root/talk','w').write(str(n)); time.sleep(0.2)\n"
                  "except OSError as e:\n open('/root/talk','w').write('ended')\nE\n"
                  "rm -f /root/talk; setsid python3 /root/talk.py >/dev/null 2>&1 </dev/null &")
        wait_for("it talks", lambda: self.s.run(self.vm, "cat /root/talk").out.strip().isdigit(), 30)
        self.put({"mode": "closed"})
        wait_for("the connection ends", lambda: self.s.run(self.vm, "cat /root/talk").out.strip() == "ended", 60, 1)
        self.no(TCP.format(THREE, 9000))

    def test_injected_headers(self):
        policy = {"mode": "rules", "rules": [{"action": "allow", "domain": "*.test"}],
                  "inject": [{"domain": "inject.test", "headers": {"Authorization": SECRET}},
                             {"domain": "three.test", "headers": {"X-Key": SECRET}}]}
        shown = self.put(policy)
        self.assertEqual(shown["inject"][0]["headers"], {"Authorization": "********"})
        self.assertNotIn(SECRET, json.dumps(self.s.api("GET", f"/v1/vms/{self.vm}/egress")))
        # the guest trusts the authority: no -k; what it sends itself does not count
        self.ok(CURL + "-H 'Authorization: mine' https://inject.test/a", "hello from inject.test")
        got = self.world.asked(path="/a")
        self.assertEqual([e["headers"].get("Authorization") for e in got], [SECRET])
        self.ok("head -c 200000 /dev/zero | " + CURL + "--data-binary @- https://inject.test/post | wc -c", "200000")
        self.assertEqual([(e["posted"], e["headers"]["Authorization"]) for e in self.world.asked(path="/post")],
                         [(200000, SECRET)])
        self.ok("python3 -c \"import urllib.request as u; print(u.urlopen('https://inject.test/py',timeout=20).read())\"",
                "hello from inject.test")
        # another domain gets nothing of it, and its own certificate
        self.ok(CURL + "-k https://one.test/plain", "hello from one.test")
        self.assertNotIn("Authorization", self.world.asked(path="/plain")[0]["headers"])
        # the same connection for another host: nothing goes out
        out = self.ok(CURL + "-o /dev/null -w '%{http_code}' -H 'Host: one.test' https://inject.test/fronted")
        self.assertEqual(out, "421")
        self.assertEqual(self.world.asked(path="/fronted"), [])
        # a server that cannot prove its name gets no secret
        self.assertEqual(self.ok(CURL + "-o /dev/null -w '%{http_code}' https://three.test/unproven"), "502")
        self.assertEqual(self.world.asked(path="/unproven"), [])
        # not over plain HTTP
        self.ok(CURL + "http://inject.test/plaintext", "hello")
        self.assertNotIn("Authorization", self.world.asked(path="/plaintext")[0]["headers"])
        # a mask in a PUT leaves the secret as it is
        self.put(shown)
        self.ok(CURL + "https://inject.test/again", "hello")
        self.assertEqual(self.world.asked(path="/again")[0]["headers"]["Authorization"], SECRET)
        self.assertNotIn(SECRET, self.s.log_text())
        self.assertEqual(self.s.run(self.vm, f"grep -rIl '{SECRET[7:]}' /etc /root /usr/local /tmp /run 2>/dev/null").out, "")

    @limit(240)
    def test_stays_with_the_vm(self):
        """Suspend and resume, stop and start, fork, a crash of the server: the policy always applies."""
        self.put({"mode": "rules", "rules": [{"action": "allow", "domain": "one.test"}]})
        fork = self.s.fork(self.vm)[0]
        for vm in (self.vm, fork):
            self.assertEqual(self.s.api("GET", f"/v1/vms/{vm}/egress")["rules"], [{"action": "allow", "domain": "one.test"}])
        self.no(TCP.format(THREE, 9000), vm=fork)
        self.ok(CURL + "-k https://one.test/", "hello", vm=fork)
        self.put({"mode": "open"}, vm=fork)  # each its own from then on
        self.ok(TCP.format(THREE, 9000), "ping", vm=fork)
        self.no(TCP.format(THREE, 9000))
        self.s.delete(fork)
        self.s.post(self.vm, "suspend")
        self.no(TCP.format(THREE, 9000))
        self.ok(CURL + "-k https://one.test/", "hello")
        reached = len(self.world.asked(echo=9000, ip=THREE))
        old = self.s.kill9_pandod()
        self.s.await_pandod(old)
        self.s.wait_ready()
        self.no(TCP.format(THREE, 9000))
        self.ok(CURL + "-k https://one.test/", "hello")
        self.assertEqual(len(self.world.asked(echo=9000, ip=THREE)), reached)

    def test_bandwidth(self):
        self.put({"mode": "open", "bandwidth": {"upMbps": 4, "downMbps": 4}})
        self.assertEqual(self.s.api("GET", f"/v1/vms/{self.vm}/egress")["bandwidth"], {"upMbps": 4.0, "downMbps": 4.0})
        begin = time.monotonic()
        self.ok(CURL + f"http://{ONE}/big -o /dev/null")  # 24 Mbit
        self.assertGreater(time.monotonic() - begin, 4, "3 MB came faster than 4 Mbit/s allow")
        self.put({"mode": "open"})

    def test_refused_policies(self):
        bad = [{}, {"mode": "shut"}, {"mode": "rules", "rules": [{"action": "allow", "cidr": "300.0.0.0/8"}]},
               {"mode": "rules", "rules": [{"action": "allow", "domain": "a..b"}]},
               {"mode": "rules", "rules": [{"action": "allow", "domain": "a.b", "cidr": "1.0.0.0/8"}]},
               {"mode": "rules", "rules": [{"action": "maybe"}]}, {"mode": "rules", "rules": [{"action": "allow", "ports": [0]}]},
               {"mode": "open", "inject": [{"domain": "a.b", "headers": {"Host": "x"}}]},
               {"mode": "open", "inject": [{"domain": "a.b", "headers": {"X": "a\r\nb"}}]},
               {"mode": "open", "inject": [{"domain": "a.b", "headers": {"X": "********"}}]},
               {"mode": "rules", "rules": [{"action": "deny"}] * 65}]
        for policy in bad:
            self.refused(400, "BAD_REQUEST", self.put, policy)
            self.refused(400, "CREATE_VM_BAD_REQUEST", self.s.create, egress=policy)
        self.refused(404, "VM_NOT_FOUND", self.put, {"mode": "open"}, "a" * 20)
