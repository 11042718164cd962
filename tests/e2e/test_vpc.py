# SPDX-License-Identifier: Apache-2.0
"""Private networks: VMs of one reach each other and nobody else's; addresses stay; names; forks"""
from case import Case, limit, wait_for

PING = "ping -c 2 -W 5 -i 0.3 {}"
SERVE = ("setsid python3 -c \"import http.server as h; h.HTTPServer(('0.0.0.0',8000),h.SimpleHTTPRequestHandler)"
         ".serve_forever()\" >/dev/null 2>&1 </dev/null &\n"
         "for i in $(seq 100); do curl -s -o /dev/null http://127.0.0.1:8000/ && exit 0; sleep 0.2; done; exit 1")
GET = "curl -sS -m 20 --connect-timeout 10 -o /dev/null -w '%{{http_code}}' http://{}:8000/"

# one connection, however long the VM at the other end takes to come up; emulated, on a busy machine
FIRST = "curl -sS -m 300 --connect-timeout 280 -o /dev/null -w '%{{http_code}}' http://{}:8000/"
UNIT = ("cat >/etc/systemd/system/web.service <<'E'\n[Service]\nExecStart=/usr/bin/python3 -m http.server 8000\n"
        "[Install]\nWantedBy=multi-user.target\nE\nsystemctl enable -q web.service; systemctl -q is-enabled web.service; sync")


class Vpc(Case):
    limit_s = 120
    server_env = {"PANDO_POOL": "2"}  # as make run: a ready VM gets its name and address late

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vpc = cls.s.api("POST", "/v1/vpcs", {"name": "first", "cidr": "192.168.10.0/24"})["vpcId"]
        cls.other = cls.s.api("POST", "/v1/vpcs", {"cidr": "192.168.10.0/24"})["vpcId"]  # the same range

        def nic(vpc, ipv4=True):
            return [{"default": True, "vpc": vpc, "mode": "routed", "ipv4": ipv4}]
        cls.nic = staticmethod(nic)
        cls.a = cls.s.create_ready(name="alpha", nics=nic(cls.vpc, "192.168.10.10"))
        cls.b = cls.s.create_ready(name="beta", nics=nic(cls.vpc))
        cls.c = cls.s.create_ready(name="gamma", nics=nic(cls.other, "192.168.10.10"), egress={"mode": "closed"})

    def address(self, vm):
        for vpc in (self.vpc, self.other):
            for entry in self.s.api("GET", f"/v1/vpcs/{vpc}")["vms"]:
                if entry["vmId"] == vm:
                    return entry["ipv4"]
        return None

    def test_list_and_get(self):
        got = self.s.api("GET", "/v1/vpcs")["vpcs"]
        self.assertEqual({v["vpcId"] for v in got}, {self.vpc, self.other})
        one = self.s.api("GET", f"/v1/vpcs/{self.vpc}")
        self.assertEqual((one["name"], one["cidr"]), ("first", "192.168.10.0/24"))
        self.assertEqual({v["vmId"] for v in one["vms"]}, {self.a, self.b})
        self.assertEqual(self.address(self.a), "192.168.10.10")
        self.assertNotEqual(self.address(self.b), "192.168.10.10")

    def test_reach_each_other(self):
        self.assertIn("192.168.10.10/32", self.s.sh(self.a, "ip -4 -o addr show"))
        self.assertIn(" src 192.168.10.10 ", self.s.sh(self.a, "ip route get 192.0.2.1"))  # default: true
        self.s.sh(self.a, SERVE)
        self.s.sh(self.b, PING.format("192.168.10.10"))
        self.s.sh(self.a, PING.format(self.address(self.b)))
        self.assertEqual(self.s.sh(self.b, GET.format("192.168.10.10")), "200")

    def test_private_names(self):
        self.assertEqual(self.s.sh(self.b, "getent ahostsv4 alpha.internal").split()[0], "192.168.10.10")
        self.assertEqual(self.s.sh(self.b, GET.format("alpha.internal")), "200")
        self.assertEqual(self.s.sh(self.b, f"getent ahostsv4 {self.a}.internal").split()[0], "192.168.10.10")
        self.assertNotEqual(self.s.run(self.b, "getent hosts gamma.internal").code, 0)  # another VPC's
        self.assertNotEqual(self.s.run(self.b, "getent hosts nobody.internal").code, 0)

    def test_other_vpcs_are_elsewhere(self):
        """gamma has alpha's address in a VPC of the same range: requests there reach gamma, or nothing."""
        self.assertNotEqual(self.s.run(self.c, PING.format(self.address(self.b))).code, 0)
        self.assertNotEqual(self.s.run(self.c, "curl -sS -m 6 http://192.168.10.11:8000/").code, 0)
        self.assertEqual(self.s.sh(self.b, GET.format("192.168.10.10")), "200")  # alpha, not gamma

    def test_refusals(self):
        self.refused(400, "BAD_REQUEST", self.s.api, "POST", "/v1/vpcs", {"cidr": "8.8.8.0/24"})
        self.refused(400, "BAD_REQUEST", self.s.api, "POST", "/v1/vpcs", {"cidr": "10.0.0.1/16"})
        self.refused(404, "NOT_FOUND", self.s.api, "GET", "/v1/vpcs/vpc-nothere")
        self.refused(409, "CONFLICT", self.s.api, "DELETE", f"/v1/vpcs/{self.vpc}")
        self.refused(409, "CONFLICT", self.s.create, nics=self.nic(self.vpc, "192.168.10.10"))
        self.refused(400, "BAD_REQUEST", self.s.create, nics=self.nic(self.vpc, "192.168.11.1"))
        self.refused(400, "CREATE_VM_BAD_REQUEST", self.s.create, nics=self.nic(self.vpc, "bogus"))
        self.refused(404, "NOT_FOUND", self.s.create, nics=self.nic("vpc-nothere"))
        self.refused(400, "CREATE_VM_BAD_REQUEST", self.s.create, nics=self.nic(self.vpc) * 2)
        self.assertEqual(len(self.s.api("GET", f"/v1/vpcs/{self.vpc}")["vms"]), 2, "a refused VM kept an address")

    @limit(240)
    def test_addresses_stay(self):
        before = self.address(self.b)
        self.s.post(self.b, "suspend")
        self.s.sh(self.b, PING.format("192.168.10.10"))
        self.assertEqual(self.address(self.b), before)
        old = self.s.kill9_pandod()
        self.s.await_pandod(old)
        self.s.wait_ready()
        self.assertEqual(self.s.sh(self.b, GET.format("192.168.10.10")), "200")
        self.s.sh(self.a, PING.format(before))

    def first(self, frm, to):
        """The status of the first connection; there is no second one."""
        return self.s.run(frm, FIRST.format(to), timeout_ms=320000).out

    @limit(150)
    def test_a_packet_wakes_a_suspended_vm(self):
        self.s.post(self.a, "suspend")
        self.assertEqual(self.first(self.b, "alpha.internal"), "200")
        self.assertEqual(self.s.state(self.a), "running")
        # all at once: one start, and all of them are answered
        self.s.post(self.a, "suspend")
        many = "for i in 1 2 3 4 5 6; do " + FIRST.format("192.168.10.10") + " & done; wait"
        self.assertEqual(self.s.run(self.b, many, timeout_ms=320000).out, "200" * 6)
        self.s.post(self.a, "suspend")
        self.s.sh(self.b, "ping -c 40 -W 5 -i 0.5 192.168.10.10 | grep -q 'bytes from'")

    @limit(150)
    def test_a_packet_wakes_after_a_restart(self):
        self.s.post(self.a, "suspend")
        old = self.s.kill9_pandod()
        self.s.await_pandod(old)
        self.s.wait_ready()
        self.assertEqual(self.first(self.b, "192.168.10.10"), "200")

    @limit(300)
    def test_a_packet_boots_a_stopped_vm(self):
        """Its service comes up after its network: nobody is refused meanwhile."""
        self.s.sh(self.a, UNIT)
        self.s.post(self.a, "stop")
        self.assertEqual(self.first(self.b, "192.168.10.10"), "200")
        self.assertEqual(self.s.state(self.a), "running")

    @limit(150)
    def test_packets_for_nobody_wake_nobody(self):
        """Neither those for addresses of no VM nor those of another VPC with the same range."""
        self.s.post(self.a, "suspend")
        self.s.run(self.b, "for i in 1 9 77 200 254; do ping -c 1 -W 1 192.168.10.$i; done; curl -m 3 http://192.168.10.99:8000/")
        self.s.run(self.c, "ping -c 3 -W 2 192.168.10.11; curl -m 3 http://192.168.10.11:8000/")
        self.assertEqual(self.s.state(self.a), "suspended")
        self.assertEqual(self.first(self.b, "192.168.10.10"), "200")

    @limit(240)
    def test_forks(self):
        self.refused(400, "VPC_FORK_UNSUPPORTED", self.s.post, self.b, "fork", {"count": 1})
        kids = [f["id"] for f in self.s.post(self.b, "fork", {"count": 2, "vpc": "fresh-address"})["forks"]]
        addresses = [self.address(k) for k in kids]
        self.assertEqual(len(set(addresses + [self.address(self.b), "192.168.10.10"])), 4, addresses)
        for kid, address in zip(kids, addresses):
            shown = self.s.sh(kid, "ip -4 -o addr show")
            self.assertIn(f"{address}/32", shown)
            self.assertNotIn(f"{self.address(self.b)}/32", shown)
            self.assertEqual(self.s.sh(kid, GET.format("192.168.10.10")), "200")
            self.s.sh(self.a, PING.format(address))
        for kid in kids:
            self.s.delete(kid)
        self.assertEqual(len(self.s.api("GET", f"/v1/vpcs/{self.vpc}")["vms"]), 2)

    def guest_has(self, vm, path):
        wait_for(f"{path} in the guest", lambda: self.s.run(vm, f"test -e {path}").code == 0, 120, 0.5)

    def test_spoofing(self):
        """Another's address, another's MAC, ARP: nothing of it leaves the slot."""
        b = self.address(self.b)
        # alpha listens for anything until it is told that it was all
        self.s.sh(self.a, "cat >/root/hear.py <<'E'\nimport socket\ns=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                  "s.bind(('0.0.0.0',5555)); s.settimeout(100); open('/root/hearing','w')\nseen=[]\ndata=b''\ntry:\n while data!=b'end':\n"
                  "  data,who=s.recvfrom(99); seen.append(who[0])\n"
                  "except OSError: pass\nopen('/root/heard.new','w').write(' '.join(seen))\nimport os; os.rename('/root/heard.new','/root/heard')\nE\n"
                  "rm -f /root/heard /root/hearing; setsid python3 /root/hear.py >/dev/null 2>&1 </dev/null &")
        self.guest_has(self.a, "/root/hearing")
        self.s.sh(self.b, "python3 - <<'E'\nimport socket,struct\n"
                  "def packet(src,dst,data):\n"
                  " u=struct.pack('>HHHH',5555,5555,8+len(data),0)+data\n"
                  " h=struct.pack('>BBHHHBBH4s4s',0x45,0,20+len(u),1,0,64,17,0,socket.inet_aton(src),socket.inet_aton(dst))\n"
                  " return h+u\n"
                  "r=socket.socket(socket.AF_INET,socket.SOCK_RAW,socket.IPPROTO_RAW)\n"
                  "for i in range(5):\n"
                  " for src in ('192.168.10.77','192.168.10.10','10.0.0.2','8.8.8.8'): r.sendto(packet(src,'192.168.10.10',b'spoof'),('192.168.10.10',0))\n"
                  f" r.sendto(packet('{b}','192.168.10.10',b'real'),('192.168.10.10',0))\n"
                  "# gratuitous ARP for alpha and for the gateway, and frames with another MAC\n"
                  "import fcntl\n"
                  "dev=[l.split()[0].rstrip(':') for l in open('/proc/net/dev').readlines()[2:] if not l.strip().startswith('lo')][0]\n"
                  "p=socket.socket(socket.AF_PACKET,socket.SOCK_RAW); p.bind((dev,0x0806))\n"
                  "mac=bytes.fromhex(open(f'/sys/class/net/{dev}/address').read().strip().replace(':',''))\n"
                  "for ip in ('192.168.10.10','10.0.0.1','169.254.1.1'):\n"
                  " p.send(b'\\xff'*6+mac+b'\\x08\\x06'+struct.pack('>HHBBH6s4s6s4s',1,0x800,6,4,2,mac,socket.inet_aton(ip),b'\\xff'*6,socket.inet_aton(ip)))\n"
                  f"for i in range(5): r.sendto(packet('{b}','192.168.10.10',b'end'),('192.168.10.10',0))\n"
                  "E\n")
        self.guest_has(self.a, "/root/heard")
        heard = self.s.sh(self.a, "cat /root/heard").split()
        self.assertEqual(set(heard), {b}, heard)
        self.assertEqual(self.s.sh(self.b, GET.format("192.168.10.10")), "200")

    def test_zz_leaves_nothing_behind(self):
        self.s.delete_all()
        for vpc in (self.vpc, self.other):
            self.s.api("DELETE", f"/v1/vpcs/{vpc}")
        super().test_zz_leaves_nothing_behind()
