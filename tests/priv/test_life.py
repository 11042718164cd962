#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_life.py - starts, ends, crashes and what they leave behind; times of all operations"""
import os
import pwd
import re
import signal
import sys
import threading

import case
from case import CAPS, EXE, QEMU_IDLE, Base, alive, leftovers, status_of
from world import PUBLIC, sh, wait_for

CAP = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7, "CAP_SETPCAP": 8, "CAP_NET_BIND_SERVICE": 10,
       "CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_PTRACE": 19, "CAP_SYS_ADMIN": 21, "CAP_MKNOD": 27}



def has_resource():
    return int(status_of("self")["CapEff"], 16) >> 24 & 1


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

    def test_root_has_what_it_needs(self):
        p = self.priv().up()
        pandod = int(re.search(r"pandod runs as process (\d+)", p.log())[1])
        priv = int(status_of(pandod)["PPid"])
        qemu = self.spawn(p, "vm-a")
        st = status_of(priv)
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packaging/pando.service.in")) as f:
            unit = re.search(r"^CapabilityBoundingSet=(.*)$", f.read(), re.M)[1].split()
        want = sum(1 << CAP[c] for c in unit)  # the unit, the code and docs/PRIV.md have one list
        for c in ("CapPrm", "CapEff", "CapBnd"):
            self.assertEqual(int(st[c], 16), want, c)
        self.assertEqual(int(st["CapInh"], 16), 0)
        scores = []
        for pid in (priv, pandod, qemu):
            self.assertEqual(status_of(pid)["Seccomp"], "2", pid)
            with open(f"/proc/{pid}/oom_score_adj") as f:
                scores.append(int(f.read()))
        # without CAP_SYS_RESOURCE a score cannot be lowered
        self.assertEqual(scores, [-900, -500, 200] if has_resource() else [scores[0], 100, 200], "who is ended first when memory runs out")
        self.assertLess(scores[0], scores[1])

    def test_pandod_has_a_memory_limit(self):
        p = self.priv().up("--pandod-mem", "3000")
        pandod = int(re.search(r"pandod runs as process (\d+)", p.log())[1])
        with open(f"/proc/{pandod}/cgroup") as f:
            group = re.search(r"^\d+:(memory)?:(.*/pandod)$", f.read(), re.M)
        if not group:
            with open(f"/proc/{pandod}/limits") as f:
                data = re.search(r"Max data size\s+(\d+)", f.read())
            self.assertTrue(data, "neither a cgroup nor RLIMIT_DATA")
            self.assertEqual(int(data[1]), (3000 + 16384) << 20)
            return
        path = "/sys/fs/cgroup/memory" + group[2] + "/memory.limit_in_bytes" if group[1] else \
            "/sys/fs/cgroup" + group[2] + "/memory.max"
        with open(path) as f:
            self.assertEqual(int(f.read()), 3000 << 20)

    def test_one_per_data_directory(self):
        p = self.priv().up()
        r = sh(*p.command(), check=False)
        self.assertEqual(r.returncode, 1)
        self.assertIn("another pando-priv uses", r.stderr)
        q = self.priv("second").up()
        a, b = p.take(), q.take()
        self.assertNotEqual(a[1], b[1])
        self.assertNotEqual(status_of(self.spawn(p, "vm-a"))["Uid"], status_of(self.spawn(q, "vm-a"))["Uid"])
        self.assertEqual(p.quit(), 0)
        self.assertEqual(leftovers(p.tag, self.world.host_name), [])
        # The other one still forwards.
        idx = b[0]
        q.ask(f"gate {idx} 1")
        self.assertTrue(self.world.guest(q.slot_ns(idx)).reaches(PUBLIC))
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
        p.crash(lambda: os.kill(first, signal.SIGKILL))
        self.assertTrue(alive(pid))
        self.assertEqual(p.ask("list"), f"vm-a:{idx}:{pid}:1")
        self.assertEqual(p.ask("slots"), str(idx))
        p.ask(f"adopt {idx}")
        p.ask("kill vm-a")
        p.ask(f"free {idx}")

    def test_fence(self):
        """The lease of a node: its VMs end at the deadline, even if pandod is stopped, and none is started before there is a new one."""
        p = self.priv().up()
        self.assertEqual(p.fails("fence 130000"), -22)
        p.ask("fence 60000")
        p.ask("fence 300")  # it never moves back
        a = self.spawn(p, "vm-a")
        b = self.spawn(p, "vm-b")
        pandod = int(re.search(r"pandod runs as process (\d+)", p.log())[1])
        p.ask("fence 0")
        p.ask("fence 1500")
        self.assertTrue(alive(a))
        os.kill(pandod, signal.SIGSTOP)
        try:
            wait_for("the end of the VMs", lambda: not alive(a) and not alive(b))
        finally:
            os.kill(pandod, signal.SIGCONT)
        self.assertIn("the lease of this node is over: 2 VMs were ended", p.log())
        self.assertEqual(p.fails("fence -1"), -116)
        self.assertEqual(p.fails(self.spawn_line(p, "vm-c")), -116)
        p.ask("fence 60000")
        self.assertTrue(alive(self.spawn(p, "vm-c")))
        p.ask("kill vm-c")

    def test_fence_outlives_pando_priv(self):
        p = self.priv().up()
        a = self.spawn(p, "vm-a")
        p.ask("fence 1200")
        p.proc.kill()
        p.wait()
        self.assertTrue(alive(a))
        p.up()
        wait_for("its end", lambda: not alive(a))
        self.assertEqual(p.fails(self.spawn_line(p, "vm-b")), -116)
        p.ask("fence 0")
        self.assertTrue(alive(self.spawn(p, "vm-b")))

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
            running = {pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if self.is_ours(pid, p)}
            listed = {int(w.split(":")[2]) for w in p.ask("list").split()}
            self.assertEqual(running - listed, set())
            for w in p.ask("list").split():
                p.ask("kill " + w.split(":")[0])

    @staticmethod
    def is_ours(pid, p):
        """Its log tells whose QEMU it is; one that waits for its record is none yet, and ends."""
        try:
            with open(f"/proc/{pid}/cmdline") as f:
                qemu = "qemu-system" in f.read().split("\0")[0]
            return qemu and alive(pid) and os.readlink(f"/proc/{pid}/fd/1") == p.data + "/qemu.log"
        except OSError:
            return False

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
        self.assertIn(p.wait(), (1, 3, 143))  # down, up or starting at that moment; not started again

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
        self.assertTrue(g.reaches(PUBLIC))
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

    def test_blocks_run_out(self):
        """All address blocks are claimed: a dead instance's is given away, a living one's is not."""
        p = self.priv()
        # A run directory of its own, so that no instance of this machine sees these claims.
        fill = ("mount -t tmpfs none /run/pando; mkdir /run/pando/net; i=0; while [ $i -lt 16 ]; do t=$(printf %08x $i); "
                "mkdir -p /run/pando/$t/vm; touch /run/pando/$t/data /run/pando/$t/lock; "
                "echo \"$t 1\" > /run/pando/net/$i; [ $i = $FREE ] || touch /run/pando/$t/vm/vm-a; i=$((i+1)); done; "
                "exec \"$@\"")
        os.makedirs("/run/pando", exist_ok=True)

        def start(free):
            return sh("env", f"FREE={free}", "unshare", "-m", "sh", "-c", fill, "sh", *p.command(args=("--exit=0",)),
                      check=False)

        r = start(99)
        self.assertEqual(r.returncode, 1)
        self.assertIn("address blocks for VMs are in use", r.stderr)
        r = start(5)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("addresses 10.231.80.0/20", r.stderr)

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


if __name__ == "__main__":
    case.main()
