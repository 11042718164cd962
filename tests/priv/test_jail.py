#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_jail.py - what a jailed QEMU is, sees and may; and what pando-priv refuses"""
import contextlib
import os
import re
import socket
import threading

import case
import world
from case import CAPS, QEMU_IDLE, Base, PROBE, alive, status_of
from world import wait_for

FILE_MAX = 3 << 40  # PRIV_FILE_MAX of wire/priv.h


class Jail(Base):
    def test_what_qemu_is(self):
        p = self.priv().up()
        idx, _ = p.take()
        pid = self.spawn(p, "vm-a", idx, fds=3, options="PANDO_X=1")
        other = self.spawn(p, "vm-b")
        st = status_of(pid)
        uid = int(st["Uid"].split()[0])
        self.assertGreaterEqual(uid, 1900000000)
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
                self.assertTrue("ro" in options or fields[4] == "/proc", line)
                self.assertIn("nosuid", options, line)
                self.assertTrue("nodev" in options or fields[4].startswith("/dev"), line)
        # Its memory map is its own to read: the layer library needs that.
        self.assertEqual(os.stat(f"/proc/{pid}/pagemap").st_uid, int(status_of(pid)["Uid"].split()[0]))

    def test_descriptors(self):
        p = self.priv().up()
        idx, _ = p.take()
        pid = self.spawn(p, "vm-a", idx, fds=40)
        own = re.compile(r"anon_inode:|/dev/urandom")  # QEMU's

        def find():
            fds = {}
            for n in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    fds[int(n)] = os.readlink(f"/proc/{pid}/fd/{n}")
            return fds, [t for n, t in fds.items() if n > 2 and n != 9 and not 10 <= n < 50 and not own.match(t)]
        wait_for("no others: its libraries are loaded", lambda: status_of(pid)["Seccomp"] == "2" and not find()[1])
        fds = find()[0]
        self.assertEqual(fds[0], "/dev/null")
        self.assertEqual(fds[1], fds[2])
        self.assertEqual(fds[9], "/dev/net/tun")
        self.assertTrue(all("memfd:test" in fds[10 + i] for i in range(40)))
        self.assertEqual(p.fails(f"spawn vm-z -1 41 0 64 1 {p.data}/qemu.log -- {QEMU_IDLE}"), -7)

    def probe(self, slot=False, fds=0, kvm=0):
        """What a program finds in the jail."""
        p = self.priv(f"probe{slot}{fds}{kvm}").up("--qemu", PROBE)
        idx = p.take()[0] if slot else -1
        p.ask(f"spawn vm-a {idx} {fds} {kvm} 64 1 {p.data}/probe.log --")
        wait_for("its end", lambda: p.raw("status vm-a").startswith("ok"))
        self.assertEqual(p.ask("status vm-a"), "42")
        with open(f"{p.data}/probe.log") as f:
            return dict(w.split("=", 1) for line in f for w in line.split())

    def test_what_a_program_can_do_in_there(self):
        got = self.probe(slot=True, fds=5)
        self.assertEqual(got["fds"], "0,1,2,9,10,11,12,13,14,")
        self.assertEqual(self.probe()["fds"], "0,1,2,")
        expected = {"hostname": "vm", "cwd": "/", "pid": "1", "groups": "0", "processes": "1",
                    "pagemap": "present", "child_pagemap": "present", "null": "ok", "urandom": "ok",
                    "oom_score_adj": "ok", "fd_again": "ok",
                    "setuid": "EPERM", "chroot": "EPERM", "mount": "EPERM", "remount": "EPERM", "umount": "EPERM",
                    "mknod": "EROFS", "sethostname": "EPERM", "nice": "EACCES", "kill_host": "ESRCH",
                    "raw_socket": "EPERM", "packet_socket": "EPERM",
                    "etc_passwd": "ENOENT", "shell": "ENOENT", "tun": "ENOENT", "kvm": "ENOENT",
                    "create_root": "EROFS", "create_usr": "EROFS",
                    "proc_sys": "ENOENT", "proc_kcore": "ENOENT", "sysfs": "ENOENT"}
        self.assertEqual({k: got.get(k) for k in expected}, expected)

    def test_kvm_only_where_it_is_asked_for(self):
        p = self.priv().up()
        if "kvm=1" not in p.ask("info"):
            self.skipTest("this host has no /dev/kvm")
        self.assertIn(self.probe(kvm=1)["kvm"], ("ok", "ENODEV"))
        self.assertEqual(self.probe(kvm=0)["kvm"], "ENOENT")

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
            p.crash(lambda: p.raw("quit 1"))
            self.assertEqual(p.ask("slots"), "")
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

    def test_what_qemu_prints_without_end(self):
        """Its log ends below the limit of its files, and QEMU goes on. -d makes it talk as a guest's bad messages would."""
        p = self.priv().up()
        room = 1 << 20
        with open(p.data + "/qemu.log", "w") as f:
            f.truncate(FILE_MAX - room)
        os.chown(p.data + "/qemu.log", os.stat(p.data).st_uid, -1)
        pid = self.spawn(p, "vm-a", qemu="-nodefaults -display none -M q35 -m 64 -monitor none -serial none -accel tcg -d exec,nochain,int")
        wait_for("as much as there is room for", lambda: os.stat(p.data + "/qemu.log").st_size >= FILE_MAX)
        self.assertEqual(status_of(pid)["State"].split()[0] in "RSD", True)
        os.truncate(p.data + "/qemu.log", FILE_MAX - room)  # as pandod does
        wait_for("and once more", lambda: os.stat(p.data + "/qemu.log").st_size >= FILE_MAX)
        st = os.stat(p.data + "/qemu.log")
        self.assertEqual(st.st_size, FILE_MAX)
        self.assertLessEqual(st.st_blocks * 512, 2 * room)
        self.assertTrue(alive(pid))

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

    def choose_cgroup(self, p, mode, base):
        """As an earlier start would have: the choice is kept in the run directory."""
        tag = f"{world.crc32c(os.path.realpath(p.data).encode()):08x}"
        os.makedirs(f"/run/pando/{tag}", 0o700)
        with open(f"/run/pando/{tag}/cgroup", "w") as f:
            f.write(f"{mode}\n{base}\n-\n-\n")

    def test_v2_group_without_controllers(self):
        with open("/proc/self/mountinfo") as f:
            v2 = [line.split()[4] for line in f if " - cgroup2 " in line]
        if not v2:
            self.skipTest("this host has no cgroup v2")
        base = f"{v2[0]}/pando-test-{os.getpid()}"
        os.mkdir(base)
        self.addCleanup(lambda: os.path.exists(base) and os.rmdir(base))
        p = self.priv()
        self.choose_cgroup(p, 3, base)
        p.up()
        self.assertIn("cgroup v2", p.ask("info"))
        pid = self.spawn(p, "vm-a")
        uid = status_of(pid)["Uid"].split()[0]
        with open(f"{base}/vm-a.{uid}/cgroup.procs") as f:
            self.assertEqual(f.read().split(), [str(pid)])  # from its first moment
        p.ask("kill vm-a")
        wait_for("its group is removed", lambda: os.listdir(base) and not [d for d in os.listdir(base) if d.startswith("vm-a")])
        self.assertEqual(p.quit(), 0)
        self.assertFalse(os.path.exists(base))

    def test_a_broken_cgroup_does_not_keep_a_vm_from_starting(self):
        p = self.priv()
        base = os.path.join(self.world.dir, "nogroup")
        os.mkdir(base)
        self.choose_cgroup(p, 1, base)
        p.up()
        self.assertTrue(alive(self.spawn(p, "vm-a")))
        self.assertIn("continuing without", p.log())

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


if __name__ == "__main__":
    case.main()
