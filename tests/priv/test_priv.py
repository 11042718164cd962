#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_priv.py PANDO-PRIV STAND-IN [TEST...] - pando-priv on the real kernel, with real QEMU and real packets

Needs root. Everything happens in network namespaces of its own (world.py).
"""
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import threading
import unittest

import world
from world import PRIVATE, PUBLIC, World, Priv, sh, wait_for

EXE = STANDIN = None
QEMU_IDLE = "-S -nodefaults -display none -M q35 -m 64 -monitor none -serial none"
QEMU_NET = QEMU_IDLE + " -netdev tap,id=n0,fd=9 -device virtio-net-pci,netdev=n0,romfile="
CAPS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def status_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def alive(pid):
    try:
        return status_of(pid)["State"][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def leftovers(tag, host_name):
    """Names with the instance's tag, wherever the host keeps names."""
    found = []
    for ns in ([], ["-n", host_name]):
        found += re.findall(rf"pn{tag}-\d+", sh("ip", *ns, "-br", "link").stdout)
    found += re.findall(rf"pando_{tag}", sh("ip", "netns", "exec", host_name, "nft", "list", "tables").stdout)
    with open("/proc/self/mountinfo") as f:
        found += re.findall(rf"\S*{tag}\S*", f.read())
    for root, dirs, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(root, d) for d in dirs if tag in d]
    if os.path.exists(f"/run/pando/{tag}"):
        found.append(f"/run/pando/{tag}")
    for claim in os.listdir("/run/pando/net"):
        with open(f"/run/pando/net/{claim}") as f:
            if tag in f.read():
                found.append(f"claim {claim}")
    return found


class Base(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.addCleanup(self.world.close)
        self.privs = []

    def priv(self, name="data"):
        p = Priv(self.world, EXE, STANDIN, name)
        self.addCleanup(p.clean)
        return p

    def spawn(self, p, vm, slot=-1, fds=0, qemu=None, options=""):
        line = f"spawn {vm} {slot} {fds} 0 64 1 {p.data}/qemu.log {options} -- {qemu or (QEMU_NET if slot >= 0 else QEMU_IDLE)}"
        return int(p.ask(line).split()[0])


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
        self.assertTrue(g.ping("10.0.0.1"))
        p.ask(f"holdsocket {idx}")
        old = os.stat(p.slot_ns(idx)).st_ino
        self.assertGreater(int(p.ask(f"stats {idx}").split()[0]), 0)
        g.wire.stop()
        p.ask(f"free {idx}")
        idx2, _ = p.take()
        self.assertEqual(idx2, idx)
        self.assertNotEqual(os.stat(p.slot_ns(idx)).st_ino, old)
        self.assertEqual(p.ask(f"stats {idx}"), "0 0 0 0")


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
        self.assertTrue(self.g.ping("10.0.0.1"))
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
            self.assertTrue(world.ping(self.world.host, addr))
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
        self.assertTrue(self.g.ping(PUBLIC))

    def test_nothing_comes_in_from_outside(self):
        self.open()
        self.world.child(self.g.ns, world.serve_tcp, "10.0.0.2", 80, "guest")
        sh("ip", "-n", self.world.inet_name, "route", "add", "10.231.0.0/16", "via", world.HOST_UPLINK)
        self.assertFalse(world.ping(self.world.inet, self.addr))
        self.assertEqual(self.p.ask(f"socket {self.idx} 10.0.0.2 80"), "guest 10.0.0.1")

    def test_sockets_of_ours_reach_only_the_guest(self):
        self.open()
        self.assertTrue(self.g.ping("10.0.0.1"))
        self.assertLess(self.p.fails(f"socket {self.idx} {PUBLIC} 80"), 0)
        self.assertLess(self.p.fails(f"socket {self.idx} {world.HOST_UPLINK} 8787"), 0)

    def test_spoofing(self):
        self.open()
        run = self.g.run
        self.assertTrue(self.g.ping("10.0.0.1"))
        run("ip", "addr", "add", "198.51.100.99/32", "dev", "g0")
        self.assertTrue(self.g.ping(PUBLIC, source="10.0.0.2"))
        self.assertFalse(self.g.ping(PUBLIC, source="198.51.100.99"))
        run("ip", "link", "set", "g0", "address", "02:50:4e:44:4f:77")
        self.assertFalse(self.g.ping("10.0.0.1"))
        run("ip", "link", "set", "g0", "address", world.GUEST_MAC)
        self.assertTrue(self.g.ping("10.0.0.1"))

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


class Jail(Base):
    def test_what_qemu_is(self):
        p = self.priv().up()
        idx, _ = p.take()
        pid = self.spawn(p, "vm-a", idx, fds=3, options="PANDO_X=1")
        other = self.spawn(p, "vm-b")
        st = status_of(pid)
        uid = int(st["Uid"].split()[0])
        self.assertGreaterEqual(uid, 61000)
        self.assertEqual(st["Uid"].split(), [str(uid)] * 4)
        self.assertEqual(st["Gid"].split(), [str(uid)] * 4)
        self.assertEqual(st["Groups"].strip(), "")
        self.assertNotEqual(status_of(other)["Uid"], st["Uid"])
        for c in CAPS:
            self.assertEqual(int(st[c], 16), 0, c)
        self.assertEqual(st["NoNewPrivs"], "1")
        self.assertEqual(st["NSpid"].split(), [str(pid), "1"])
        wait_for("seccomp filter", lambda: status_of(pid)["Seccomp"] == "2")
        for ns in ("mnt", "net", "pid", "ipc", "uts"):
            mine, its = os.readlink(f"/proc/self/ns/{ns}"), os.readlink(f"/proc/{pid}/ns/{ns}")
            self.assertNotEqual(mine, its, ns)
            self.assertNotEqual(os.readlink(f"/proc/{other}/ns/{ns}"), its, ns)
        self.assertNotEqual(os.readlink(f"/proc/{pid}/ns/net"), f"net:[{os.stat(p.slot_ns(idx)).st_ino}]")
        self.assertEqual(os.getsid(pid), pid)
        with open(f"/proc/{pid}/limits") as f:
            self.assertRegex(f.read(), r"Max core file size\s+0\s+0")
        with open(f"/proc/{pid}/environ") as f:
            self.assertEqual(f.read().split("\0")[:-1], ["PANDO_X=1"])
        with open(f"/proc/{pid}/cmdline") as f:
            self.assertIn("elevateprivileges=deny", f.read())

    def test_what_qemu_sees(self):
        p = self.priv().up()
        pid = self.spawn(p, "vm-a")
        root = f"/proc/{pid}/root"
        self.assertEqual(sorted(os.listdir(root)), ["dev", "etc", "lib", "lib64", "proc", "usr"])
        self.assertEqual(sorted(os.listdir(root + "/dev")), ["null", "urandom"])
        self.assertEqual(os.listdir(root + "/etc"), ["ld.so.cache"])
        self.assertEqual(sorted(os.listdir(root + "/proc")), ["1", "self", "thread-self"])
        with open(f"/proc/{pid}/mountinfo") as f:
            for line in f:
                fields = line.split()
                options = fields[5].split(",")
                self.assertIn("ro", options, line)
                self.assertIn("nosuid", options, line)
                self.assertTrue("nodev" in options or fields[4].startswith("/dev"), line)
        # Its memory map is its own to read: the layer library needs that.
        self.assertEqual(os.stat(f"/proc/{pid}/pagemap").st_uid, int(status_of(pid)["Uid"].split()[0]))

    def test_descriptors(self):
        p = self.priv().up()
        idx, _ = p.take()
        # A program that ends at once cannot be looked at; QEMU that stops before it opens anything can.
        pid = self.spawn(p, "vm-a", idx, fds=40)
        fds = {int(n): os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")}
        self.assertEqual(fds[0], "/dev/null")
        self.assertEqual(fds[1], fds[2])
        self.assertEqual(fds[9], "/dev/net/tun")
        self.assertTrue(all("memfd:test" in fds[10 + i] for i in range(40)))
        rest = {n: t for n, t in fds.items() if n > 2 and n != 9 and not 10 <= n < 50}
        for n, target in rest.items():  # QEMU's own
            self.assertRegex(target, r"^anon_inode:|^/dev/urandom", f"{n} -> {target}")
        self.assertEqual(p.fails(f"spawn vm-z -1 41 0 64 1 {p.data}/qemu.log -- {QEMU_IDLE}"), -7)

    def test_refusals(self):
        p = self.priv().up()
        self.spawn(p, "vm-a")

        def spawn(vm="vm-x", slot=-1, mem=64, cpus=1, options="", qemu=QEMU_IDLE):
            return p.fails(f"spawn {vm} {slot} 0 0 {mem} {cpus} {p.data}/qemu.log {options} -- {qemu}")

        for opt in ("-sandbox", "--sandbox", "-runas", "-chroot", "-daemonize", "-readconfig"):
            self.assertEqual(spawn(qemu=f"{opt} x"), -1, opt)
        for env in ("LD_PRELOAD=/x", "PATH=/x", "PANDO_a=1", "PANDO_X"):
            self.assertEqual(spawn(options=env), -1, env)
        for vm in ("A", "-a", "a/b", "..", "a.b", "x" * 41):
            self.assertEqual(spawn(vm=vm), -22, vm)
        self.assertEqual(spawn(vm="vm-a"), -17)
        self.assertEqual(spawn(slot=5), -2)
        idx, _ = p.take()
        self.spawn(p, "vm-b", idx)
        self.assertEqual(spawn(slot=idx), -16)
        self.assertEqual(p.fails(f"free {idx}"), -16)
        self.assertEqual(p.ask("list").count("vm-"), 2)

    def test_malformed_requests_end_the_connection_only(self):
        p = self.priv().up()
        pid = self.spawn(p, "vm-a")
        for raw in ("00", "ff" * 40, "0009000000000001", "000500000000000100000400"):
            p.raw(f"raw {raw}")
            self.assertEqual(p.fails("slots"), -32)
            p.raw("quit 1")
            p.reconnect()
            wait_for("a new pandod", lambda: p.raw("slots").startswith("ok") or p.connect() and False)
        self.assertTrue(alive(pid))
        self.assertIsNone(p.proc.poll())
        self.assertIn("vm-a", p.ask("list"))

    def test_failed_exec_is_named(self):
        p = self.priv().up()
        # A wrong option is QEMU's to complain about: it starts, says so in its log and ends.
        self.spawn(p, "vm-a", qemu="-no-such-option")
        wait_for("end", lambda: p.raw("status vm-a").startswith("ok"))
        self.assertEqual(p.ask("status vm-a"), "1")
        with open(p.data + "/qemu.log") as f:
            self.assertIn("no-such-option", f.read())
        self.assertEqual(p.fails("status vm-never"), -2)

    def test_limits(self):
        p = self.priv().up()
        limits = p.ask("info").partition("limits=")[2]
        pid = self.spawn(p, "vm-a")
        uid = status_of(pid)["Uid"].split()[0]

        def groups():
            with open(f"/proc/{pid}/cgroup") as f:
                return [line.rstrip("\n").split(":", 2)[2] for line in f if f"pando-{p.tag}/vm-a.{uid}" in line]

        if limits == "none":
            self.skipTest("this host has no cgroups")
        wait_for("cgroups", lambda: len(groups()) >= (limits.count(" ") - 1 if "v1" in limits else 1))
        p.ask("kill vm-a")
        wait_for("cgroups are removed", lambda: not [d for r, ds, _ in os.walk("/sys/fs/cgroup") for d in ds if "vm-a." + uid == d])

    def test_stats(self):
        p = self.priv().up()
        self.spawn(p, "vm-a")
        wait_for("memory", lambda: int(p.ask("vmstats vm-a").split()[1]) > 10 << 20)
        cpu, mem, private = map(int, p.ask("vmstats vm-a").split())
        self.assertGreater(cpu, 1000)
        self.assertGreater(mem, private)
        self.assertGreater(private, 1 << 20)
        self.assertEqual(p.fails("vmstats vm-b"), -2)

    def test_kills_at_once_from_many_threads(self):
        p = self.priv().up()
        pids = [self.spawn(p, f"vm-{i}") for i in range(6)]
        results = []

        def kill(i):
            s = socket.socket(socket.AF_UNIX)
            s.connect(p.data + "/ctl")
            f = s.makefile("rw")
            f.write(f"kill vm-{i}\n")
            f.flush()
            results.append(f.readline().split()[0])
            s.close()

        threads = [threading.Thread(target=kill, args=(i % 6,)) for i in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(20)
        self.assertEqual(results, ["ok"] * 12)
        self.assertFalse(any(map(alive, pids)))
        self.assertEqual(p.ask("list"), "")


class Life(Base):
    def test_pandod_is_unprivileged(self):
        p = self.priv().up(env={"SECRET": "x", "PANDO_Y": "2"})
        pid = int(re.search(r"pandod runs as process (\d+)", p.log())[1])
        st = status_of(pid)
        pw = pwd.getpwnam("pando")
        self.assertEqual(st["Uid"].split(), [str(pw.pw_uid)] * 4)
        self.assertEqual(st["Groups"].strip(), "")
        for c in CAPS:
            self.assertEqual(int(st[c], 16), 0, c)
        self.assertEqual(st["NoNewPrivs"], "1")
        with open(f"/proc/{pid}/environ") as f:
            env = f.read()
        self.assertIn("PANDO_Y=2", env)
        self.assertIn("HOME=" + p.data, env)
        self.assertNotIn("SECRET", env)

    def test_one_per_data_directory(self):
        p = self.priv().up()
        r = sh(*p.command(), check=False)
        self.assertEqual(r.returncode, 1)
        self.assertIn("another pando-priv runs", r.stderr)
        q = self.priv("second").up()
        a, b = p.take(), q.take()
        self.assertNotEqual(a[1], b[1])
        self.assertNotEqual(status_of(self.spawn(p, "vm-a"))["Uid"], status_of(self.spawn(q, "vm-a"))["Uid"])
        self.assertEqual(p.quit(), 0)
        self.assertEqual(leftovers(p.tag, self.world.host_name), [])
        # The other one still forwards.
        idx = b[0]
        q.ask(f"gate {idx} 1")
        self.assertTrue(self.world.guest(q.slot_ns(idx)).ping(PUBLIC))
        self.assertEqual(q.quit(), 0)
        with open("/proc/sys/net/ipv4/ip_forward") as f:
            machine = f.read()
        self.assertEqual(sh("nsenter", f"--net={self.world.host}", "cat", "/proc/sys/net/ipv4/ip_forward").stdout, "0\n")
        with open("/proc/sys/net/ipv4/ip_forward") as f:
            self.assertEqual(f.read(), machine)

    def test_pandod_is_started_again(self):
        p = self.priv().up()
        idx, _ = p.take()
        pid = self.spawn(p, "vm-a", idx)
        first = int(re.search(r"pandod runs as process (\d+)", p.log())[1])
        os.kill(first, signal.SIGKILL)
        wait_for("a second pandod", lambda: p.log().count("pandod runs as process") == 2)
        p.reconnect()
        self.assertTrue(alive(pid))
        self.assertEqual(p.ask("list"), f"vm-a:{idx}:{pid}:1")
        self.assertEqual(p.ask("slots"), str(idx))
        p.ask(f"adopt {idx}")
        p.ask("kill vm-a")
        p.ask(f"free {idx}")

    def test_killed_and_started_again(self):
        p = self.priv().up()
        idx, addr = p.take()
        free_idx, _ = p.take()
        p.ask(f"gate {idx} 1")
        pid = self.spawn(p, "vm-a", idx)
        gone = self.spawn(p, "vm-b")
        tag = p.tag
        p.proc.kill()
        p.wait()
        self.assertTrue(alive(pid))
        os.kill(gone, signal.SIGKILL)
        wait_for("its end", lambda: not alive(gone))
        p.up()
        self.assertEqual(p.tag, tag)
        self.assertEqual(p.ask("list"), f"vm-a:{idx}:{pid}:1")
        self.assertEqual(p.ask("slots"), str(idx))
        self.assertEqual(p.ask(f"adopt {idx}"), f"{idx} {addr}")
        self.assertNotEqual(status_of(self.spawn(p, "vm-c"))["Uid"], status_of(pid)["Uid"])
        p.ask(f"gate {idx} 0")
        p.ask("kill vm-a")
        self.assertFalse(alive(pid))
        self.assertEqual(p.fails("status vm-a"), -2)
        p.ask(f"free {idx}")
        self.assertEqual(p.quit(), 0)
        self.assertEqual(leftovers(tag, self.world.host_name), [])

    def test_killed_while_it_starts_vms(self):
        """Whenever it is killed: every QEMU that runs afterwards is known to the next start."""
        p = self.priv().up()
        for n in range(6):
            stop = threading.Event()

            def spawns():
                i = 0
                while not stop.is_set():
                    try:
                        p.raw(f"spawn vm-{n}-{i} -1 0 0 64 1 {p.data}/qemu.log -- {QEMU_IDLE}")
                    except (OSError, ValueError):
                        return
                    i += 1

            t = threading.Thread(target=spawns)
            t.start()
            stop.wait(0.02 + n * 0.003)
            p.proc.kill()
            p.wait()
            stop.set()
            t.join()
            p.up()
            base = 61000
            uids = {}
            for name in os.listdir("/proc"):
                try:
                    if name.isdigit() and int(status_of(name)["Uid"].split()[0]) >= base and alive(name) and \
                            b"qemu" in open(f"/proc/{name}/cmdline", "rb").read() and \
                            p.tag in open(f"/proc/{name}/cgroup").read() + self.fds_of(name, p):
                        uids[int(name)] = status_of(name)["Uid"].split()[0]
                except (FileNotFoundError, ProcessLookupError):
                    pass
            listed = {int(w.split(":")[2]) for w in p.ask("list").split()}
            self.assertEqual({pid for pid in uids if pid not in listed}, set())
            for w in p.ask("list").split():
                p.ask("kill " + w.split(":")[0])

    @staticmethod
    def fds_of(pid, p):
        """Its log tells whose QEMU it is."""
        try:
            return p.tag if os.readlink(f"/proc/{pid}/fd/1").startswith(p.data) else ""
        except OSError:
            return ""

    def test_no_restart_leaves_vms(self):
        p = self.priv().up("--no-restart")
        idx, _ = p.take()
        pid = self.spawn(p, "vm-a", idx)
        self.assertEqual(p.quit(7), 7)
        self.assertTrue(alive(pid))
        p.up("--no-restart")
        self.assertEqual(p.ask("list"), f"vm-a:{idx}:{pid}:1")
        self.assertEqual(p.quit(0), 0)
        self.assertFalse(alive(pid))
        self.assertEqual(leftovers(p.tag, self.world.host_name), [])

    def test_config_error_is_passed_on(self):
        p = self.priv().start(args=("--exit=2",))
        self.assertEqual(p.wait(), 2)
        self.assertEqual(p.log().count("pandod runs as process"), 1)

    def test_backoff(self):
        p = self.priv().start(args=("--exit=3",))
        wait_for("several starts", lambda: p.log().count("pandod runs as process") >= 4)
        pauses = [int(x) for x in re.findall(r"again in (\d+) ms", p.log())[:3]]
        self.assertEqual(pauses, [100, 200, 400])
        p.proc.terminate()
        self.assertEqual(p.wait(), 1)

    def test_sigterm(self):
        p = self.priv().up()
        p.take()
        p.proc.terminate()
        self.assertEqual(p.wait(), 0)
        self.assertEqual(leftovers(p.tag, self.world.host_name), [])

    def test_clean_removes_all(self):
        p = self.priv().up()
        idx, _ = p.take()
        pid = self.spawn(p, "vm-a", idx)
        p.proc.kill()
        p.wait()
        self.assertTrue(alive(pid))
        sh("nsenter", f"--net={self.world.host}", EXE, "--data", p.data, "--clean")
        wait_for("end of the VM", lambda: not alive(pid))
        self.assertEqual(leftovers(p.tag, self.world.host_name), [])

    def test_uplink_changes(self):
        p = self.priv().up()
        idx, _ = p.take()
        p.ask(f"gate {idx} 1")
        g = self.world.guest(p.slot_ns(idx))
        self.assertTrue(g.ping(PUBLIC))
        host = self.world.host_name
        sh("ip", "-n", host, "route", "del", "default")
        self.assertFalse(g.ping(PUBLIC))
        sh("ip", "-n", host, "link", "add", "up1", "type", "veth", "peer", "name", "e1", "netns", self.world.inet_name)
        sh("ip", "-n", host, "addr", "add", "203.0.114.2/24", "dev", "up1")
        sh("ip", "-n", self.world.inet_name, "addr", "add", "203.0.114.1/24", "dev", "e1")
        for ns, dev in ((host, "up1"), (self.world.inet_name, "e1")):
            sh("ip", "-n", ns, "link", "set", dev, "up")
        sh("ip", "-n", host, "route", "add", "default", "via", "203.0.114.1")
        wait_for("the new uplink", lambda: g.ping(PUBLIC))

    def test_says_what_is_missing(self):
        p = self.priv()
        for options, word in ((("--qemu", "/no/qemu"), "apt-get install"), (("--user", "nobody-at-all"), "useradd"),
                              (("--user", "root"), "must not run as root"), (("--layers", "/no/lib"), "layer library"),
                              (("--net", "10.1.2.3"), "/16")):
            r = sh(*p.command(*options), check=False)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn(word, r.stderr)
        r = sh("setpriv", "--reuid=65534", "--clear-groups", *p.command()[2:], check=False)
        self.assertIn("root", r.stderr)


class Timing(Base):
    def test_times(self):
        """Not a limit but a report; the brief numbers are in the assertions only as orders of magnitude."""
        p = self.priv().up()
        rows = {}

        def note(name, us):
            rows.setdefault(name, []).append(us)

        for i in range(12):
            p.ask("take")
            note("slot.take", p.us)
            idx = int(p.ask("slots").split()[0])
            for state in "1010":
                p.ask(f"gate {idx} {state}")
                note(f"slot.gate {'open' if state == '1' else 'close'}", p.us)
            p.ask(f"stats {idx}")
            note("slot.stats", p.us)
            p.ask(f"holdsocket {idx}")
            note("slot.socket", p.us)
            self.spawn(p, f"vm-{i}", idx)
            note("spawn", p.us)
            p.ask(f"vmstats vm-{i}")
            note("vm.stats", p.us)
            p.ask(f"kill vm-{i}")
            note("kill", p.us)
            p.ask(f"free {idx}")
            note("slot.free", p.us)
        for name, us in rows.items():
            us.sort()
            print(f"  {name:18} median {us[len(us) // 2] / 1000:7.2f} ms   best {us[0] / 1000:7.2f}   worst {us[-1] / 1000:7.2f}",
                  file=sys.stderr)
        self.assertLess(sorted(rows["slot.gate open"])[0], 10000)


def main():
    global EXE, STANDIN
    if os.geteuid() != 0:
        print("needs root", file=sys.stderr)
        return 77
    EXE, STANDIN = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    try:
        pwd.getpwnam("pando")
    except KeyError:
        subprocess.run(["useradd", "--system", "--home-dir", "/var/lib/pando", "--no-create-home", "--shell",
                        "/usr/sbin/nologin", "pando"], check=True)
    # The worlds' zombies are ours: pando-priv that was killed leaves its children to us.
    world.libc.prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    program = unittest.main(argv=["test_priv.py", *sys.argv[3:]], exit=False, verbosity=2)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
