#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_net.py - slots: taken, gated, freed, and what passes through them, proven with real packets"""
import json
import os
import socket
import struct
import subprocess
import time

import case
import world
from case import Base, leftovers
from world import PRIVATE, PUBLIC, sh


class Slots(Base):
    def test_take_gate_free(self):
        p = self.priv().up()
        a, addr_a = p.take()
        b, addr_b = p.take()
        self.assertNotEqual((a, addr_a), (b, addr_b))
        self.assertEqual(p.ask("slots").split(), [str(a), str(b)])
        p.ask(f"gate {a} 1")
        p.ask(f"gate {a} 0")
        p.ask(f"free {a}")
        self.assertEqual(p.ask("slots").split(), [str(b)])
        for line in (f"gate {a} 1", f"free {a}", f"stats {a}", f"socket {a} 10.0.0.2 1", f"adopt {a}", "free 1023"):
            self.assertEqual(p.fails(line), -2, line)
        # The kernel's own limits first: indices out of range never reach the table.
        self.assertIn(p.raw("free 1024").split()[0], ("err", ""))

    def test_fifty(self):
        p = self.priv().up()
        got = [p.take() for _ in range(50)]
        self.assertEqual(len({i for i, _ in got}), 50)
        self.assertEqual(len({a for _, a in got}), 50)
        for i, _ in got:
            p.ask(f"free {i}")
        self.assertEqual(p.ask("slots"), "")
        again = [p.take()[0] for _ in range(10)]
        self.assertEqual(len(set(again)), 10)
        self.assertEqual(p.quit(), 0)
        self.assertEqual(leftovers(p.tag, self.world.host_name), [])

    def test_limit(self):
        p = self.priv().up("--slots-max", "3", "--slots-ready", "2")
        for _ in range(3):
            p.take()
        self.assertEqual(p.fails("take"), -28)
        p.ask("free 1")
        self.assertEqual(p.take()[0], 1)

    def test_nothing_of_one_vm_meets_the_next(self):
        """A socket that outlives its slot stays in a namespace of which nothing else is left."""
        p = self.priv().up("--slots-max", "1")
        idx, _ = p.take()
        p.ask(f"gate {idx} 1")
        g = self.world.guest(p.slot_ns(idx))
        self.assertTrue(g.reaches("10.0.0.1"))
        p.ask(f"holdsocket {idx}")
        old = os.stat(p.slot_ns(idx)).st_ino
        self.assertGreater(int(p.ask(f"stats {idx}").split()[0]), 0)
        g.wire.stop()
        p.ask(f"free {idx}")
        idx2, _ = p.take()
        self.assertEqual(idx2, idx)
        self.assertNotEqual(os.stat(p.slot_ns(idx)).st_ino, old)
        self.assertEqual(p.ask(f"stats {idx}"), "0 0 0 0")


HEAR = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('', 5555))
s.settimeout(20)
print('hears', flush=True)
print(*[s.recvfrom(99)[0].decode() for _ in range(int(sys.argv[1]))], flush=True)
"""


class Wake(Base):
    """Packets of a VPC for addresses whose VM does not run"""
    A, B = "192.168.10.10", "192.168.10.20"

    def setUp(self):
        super().setUp()
        self.p = self.priv().up()
        self.a, self.slot_a = self.member(self.A)
        self.p.ask("vpcwake 1")

    def member(self, addr):
        slot, _ = self.p.take()
        self.p.ask(f"vpc {slot} 1 {addr}")
        g = self.world.guest(self.p.slot_ns(slot))
        sh("ip", "-n", g.name, "addr", "add", addr + "/32", "dev", "g0")
        sh("ip", "-n", g.name, "route", "add", "192.168.10.0/24", "via", "10.0.0.1", "src", addr)
        self.p.ask(f"gate {slot} 1")
        return g, slot

    def say(self, guest, to, text, source=None):
        bind = f"s.bind(('{source}', 0));" if source else ""
        got = guest.run("/usr/bin/python3", "-c", f"import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);{bind}"
                        f"s.sendto(b'{text}', ('{to}', 5555))")
        self.assertEqual(got.returncode, 0, got.stderr)

    def read(self):
        """(source, destination, text) of the next packet for somebody who does not run"""
        raw = bytes.fromhex(self.p.ask("vpcread"))
        return socket.inet_ntoa(raw[12:16]), socket.inet_ntoa(raw[16:20]), raw[28:].decode()

    def test_a_packet_waits_for_its_vm(self):
        self.say(self.a, self.B, "first")
        raw = self.p.ask("vpcread")
        self.assertEqual(bytes.fromhex(raw)[28:], b"first")
        self.p.ask(f"vpcwrite {raw}")  # nobody there yet: it does not come back
        self.say(self.a, self.B, "second")
        self.assertEqual(self.read(), (self.A, self.B, "second"))
        b, slot = self.member(self.B)
        hears = subprocess.Popen(["nsenter", f"--net={b.ns}", "/usr/bin/python3", "-c", HEAR, "2"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(hears.stdout.close)
        self.addCleanup(hears.kill)
        self.assertEqual(hears.stdout.readline(), "hears\n")
        self.p.ask(f"vpcwrite {raw}")
        self.say(self.a, self.B, "third")  # straight to it, now that it runs
        self.assertEqual(hears.stdout.readline(), "first third\n")
        hears.wait()
        # from the moment on in which its slot is freed
        b.wire.stop()
        self.p.ask(f"free {slot}")
        self.say(self.a, self.B, "fourth")
        self.assertEqual(self.read(), (self.A, self.B, "fourth"))

    def test_only_from_its_own_address(self):
        sh("ip", "-n", self.a.name, "addr", "add", "192.168.10.66/32", "dev", "g0")
        self.say(self.a, self.B, "forged", source="192.168.10.66")
        self.say(self.a, self.B, "own")
        self.assertEqual(self.read(), (self.A, self.B, "own"))

    def test_what_is_written_reaches_only_vms(self):
        """pandod cannot send to the tunnel's clients, to its host or as somebody outside the VPC."""
        self.say(self.a, self.B, "sample")
        raw = bytearray.fromhex(self.p.ask("vpcread"))
        hears = subprocess.Popen(["nsenter", f"--net={self.a.ns}", "/usr/bin/python3", "-c", HEAR, "1"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(hears.stdout.close)
        self.addCleanup(hears.kill)
        self.assertEqual(hears.stdout.readline(), "hears\n")
        raw[16:20] = socket.inet_aton(self.A)
        for source, text in (("8.8.8.8", b"public"), ("127.0.0.1", b"local."), ("192.168.10.99", b"member")):
            raw[12:16] = socket.inet_aton(source)
            raw[26:28] = b"\0\0"  # no checksum
            raw[28:34] = text
            raw[10:12] = b"\0\0"
            total = sum(struct.unpack(">10H", raw[:20]))
            total = (total & 0xffff) + (total >> 16)
            raw[10:12] = struct.pack(">H", ~(total + (total >> 16)) & 0xffff)
            self.p.raw(f"vpcwrite {raw.hex()}")
        self.assertEqual(hears.stdout.readline(), "member\n")

    def test_a_flood_is_cut(self):
        """In the kernel, before pandod has to read it: 200 at once, and 200 a second."""
        began = time.monotonic()
        got = self.a.run("/usr/bin/python3", "-c", "import socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)\n"
                         f"for i in range(5000): s.sendto(b'x', ('{self.B}', 5555))")
        self.assertEqual(got.returncode, 0, got.stderr)
        took = time.monotonic() - began
        ns = f"--net=/run/pando/{self.p.tag}/vpc/1"
        count = 0
        while self.p.raw("vpcread").startswith("ok"):
            count += 1
        tx = json.loads(sh("nsenter", ns, "ip", "-j", "-s", "link", "show", "dev", "wake0").stdout)[0]["stats64"]["tx"]
        self.assertEqual(tx["packets"], count)
        self.assertGreater(count, 0)
        self.assertLessEqual(count + tx["dropped"], 201 + 200 * took)

    def test_a_fresh_vm_refuses_nobody(self):
        b, _ = self.member(self.B)
        self.assertEqual(self.a.fetch(self.B, seconds=5), "ConnectionRefusedError")
        self.p.ask(f"vpcfresh 1 {self.B} 60")
        self.assertEqual(self.a.fetch(self.B, seconds=1.5), "TimeoutError")
        self.world.child(b.ns, world.serve_tcp, self.B, 80, "up")
        self.assertIn("up", self.a.fetch(self.B, seconds=5))
        self.p.ask(f"vpcfresh 1 {self.B} 0")
        self.assertEqual(self.a.fetch(self.B, port=81, seconds=5), "ConnectionRefusedError")
        # what is not in the range never gets as far as a rule
        self.assertIn(self.p.raw("vpcfresh 1 8.8.8.8 60").split()[0], ("err", ""))

    def test_it_is_asked_for_again(self):
        """A pandod that died leaves no device; the next one, and the same one again, get one."""
        self.p.crash(lambda: self.p.raw("quit 9"))
        self.p.ask("vpcwake 1")
        self.p.ask("vpcwake 1")
        self.say(self.a, self.B, "again")
        self.assertEqual(self.read(), (self.A, self.B, "again"))
        path = f"/run/pando/{self.p.tag}/vpc/1"
        self.assertTrue(os.path.exists(path))
        self.a.wire.stop()
        self.p.ask(f"free {self.slot_a}")
        self.p.ask("vpcremove 1")
        self.assertFalse(os.path.exists(path))


class Packets(Base):
    def setUp(self):
        super().setUp()
        w = self.world
        for addr in [PUBLIC] + PRIVATE:
            w.child(w.inet, world.serve_tcp, addr, 80, "inet")
        w.child(w.inet, world.serve_dns, world.RESOLVER, PUBLIC)
        w.child(w.host, world.serve_tcp, "0.0.0.0", 8787, "host")
        self.p = self.priv().up()
        self.idx, self.addr = self.p.take()
        self.g = w.guest(self.p.slot_ns(self.idx))

    def open(self):
        self.p.ask(f"gate {self.idx} 1")

    def test_gate(self):
        self.assertFalse(self.g.ping("10.0.0.1"))
        self.assertNotIn("inet", self.g.fetch(PUBLIC, seconds=0.5))
        self.assertEqual(self.p.ask(f"stats {self.idx}"), "0 0 0 0")
        self.open()
        self.assertTrue(self.g.reaches("10.0.0.1"))
        # What the outside sees is the host's own address: both rewritings work.
        self.assertEqual(self.g.fetch(PUBLIC), "inet 203.0.113.2")
        before = self.p.ask(f"stats {self.idx}")
        self.assertGreater(min(map(int, before.split())), 0)
        self.p.ask(f"gate {self.idx} 0")
        before = self.p.ask(f"stats {self.idx}")
        self.assertFalse(self.g.ping("10.0.0.1"))
        self.assertEqual(self.p.ask(f"stats {self.idx}"), before)

    def test_private_ranges_are_closed(self):
        self.open()
        for addr in PRIVATE:
            # The host itself does reach them: it is the rule that keeps the guest away.
            self.assertTrue(world.ping(self.world.host, addr, times=30))
            self.assertNotIn("inet", self.g.fetch(addr, seconds=0.5), addr)
            self.assertFalse(self.g.ping(addr), addr)
        self.assertEqual(self.g.fetch(PUBLIC), "inet 203.0.113.2")

    def test_host_and_its_services_are_closed(self):
        self.open()
        for addr in (world.HOST_UPLINK, self.addr, self.addr[:-1] + str(int(self.addr[-1]) - 1), "10.0.0.1"):
            self.assertNotIn("host", self.g.fetch(addr, 8787, seconds=0.5), addr)
        self.assertFalse(self.g.ping(world.HOST_UPLINK))
        # The same service answers others: the check above can fail.
        self.assertIn("host", sh("nsenter", f"--net={self.world.inet}", "/usr/bin/python3", "-c",
                                 "import socket;print(socket.create_connection(('203.0.113.2',8787),2).recv(99).decode())").stdout)

    def test_other_slots_are_closed(self):
        self.open()
        other, other_addr = self.p.take()
        self.p.ask(f"gate {other} 1")
        g2 = self.world.guest(self.p.slot_ns(other))
        self.world.child(g2.ns, world.serve_tcp, "10.0.0.2", 80, "guest2")
        self.assertEqual(self.p.ask(f"socket {other} 10.0.0.2 80"), "guest2 10.0.0.1")
        self.assertFalse(self.g.ping(other_addr))
        self.assertNotIn("guest2", self.g.fetch(other_addr, seconds=0.5))
        # Even with the slot's own rules out of the way, the host's hold.
        sh("nsenter", f"--net={self.p.slot_ns(self.idx)}", "nft", "flush", "chain", "inet", "pando", "pass")
        sh("nsenter", f"--net={self.p.slot_ns(self.idx)}", "nft", "add", "rule", "inet", "pando", "pass", "accept")
        self.assertFalse(self.g.ping(other_addr))
        self.assertFalse(self.g.ping(PRIVATE[0]))
        self.assertTrue(self.g.reaches(PUBLIC))

    def test_nothing_comes_in_from_outside(self):
        self.open()
        self.world.child(self.g.ns, world.serve_tcp, "10.0.0.2", 80, "guest")
        sh("ip", "-n", self.world.inet_name, "route", "add", "10.231.0.0/16", "via", world.HOST_UPLINK)
        self.assertFalse(world.ping(self.world.inet, self.addr))
        self.assertEqual(self.p.ask(f"socket {self.idx} 10.0.0.2 80"), "guest 10.0.0.1")

    def test_sockets_of_ours_reach_only_the_guest(self):
        self.open()
        self.assertTrue(self.g.reaches("10.0.0.1"))
        self.assertLess(self.p.fails(f"socket {self.idx} {PUBLIC} 80"), 0)
        self.assertLess(self.p.fails(f"socket {self.idx} {world.HOST_UPLINK} 8787"), 0)

    def test_spoofing(self):
        self.open()
        run = self.g.run
        self.assertTrue(self.g.reaches("10.0.0.1"))
        run("ip", "addr", "add", "198.51.100.99/32", "dev", "g0")
        self.assertTrue(self.g.reaches(PUBLIC, source="10.0.0.2"))
        self.assertFalse(self.g.ping(PUBLIC, source="198.51.100.99"))
        run("ip", "link", "set", "g0", "address", "02:50:4e:44:4f:77")
        self.assertFalse(self.g.ping("10.0.0.1"))
        run("ip", "link", "set", "g0", "address", world.GUEST_MAC)
        self.assertTrue(self.g.reaches("10.0.0.1"))

    def test_no_ipv6(self):
        self.open()
        self.g.run("ip", "-6", "addr", "add", "fd00:9::2/64", "dev", "g0", "nodad")
        sh("nsenter", f"--net={self.p.slot_ns(self.idx)}", "ip", "-6", "addr", "add", "fd00:9::1/64", "dev", "tap0",
           check=False)
        self.assertFalse(self.g.ping("fd00:9::1"))

    def test_names(self):
        self.open()
        query = ("import socket,struct\n"
                 "q=struct.pack('>HHHHHH',0x4242,0x100,1,0,0,0)+b'\\x07example\\x04test\\0'+struct.pack('>HH',1,1)\n"
                 "s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM);s.settimeout(3)\n"
                 "s.sendto(q,('10.0.0.1',53));r=s.recv(4096)\n"
                 "assert r[:2]==q[:2] and r[-4:]==socket.inet_aton('%s'),r\n"
                 "t=socket.create_connection(('10.0.0.1',53),3)\n"
                 "for i in range(3):\n"
                 "    t.sendall(struct.pack('>H',len(q))+q);n=struct.unpack('>H',t.recv(2))[0];r=t.recv(n)\n"
                 "    assert r[:2]==q[:2] and r[-4:]==socket.inet_aton('%s'),r\n"
                 "print('fine')\n" % (PUBLIC, PUBLIC))
        r = self.g.run("/usr/bin/python3", "-c", query)
        self.assertEqual(r.stdout.strip(), "fine", r.stderr)
        # Not past the forwarder: the resolver itself is public here, but a private one would be closed.
        self.assertNotIn("inet", self.g.fetch("10.0.0.1", 80, seconds=0.5))


if __name__ == "__main__":
    case.main()
