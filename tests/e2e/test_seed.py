# SPDX-License-Identifier: Apache-2.0
"""VMs forked from a warm process: like thawed ones in all that shows, nothing shared with a sibling, no one's end is another's"""
import itertools
import os
import re
import signal

import host
from case import Case, Holder, limit, long, wait_for

RANDOM = "head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'"
SEED = "are forked from a seed from now on"


def descriptors(pid):
    """{number: (what it is, can be written to)}"""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with open(f"/proc/{pid}/fdinfo/{fd}") as f:
            flags = int(re.search(r"flags:\s*(\d+)", f.read()).group(1), 8)
        found[fd] = (os.readlink(f"/proc/{pid}/fd/{fd}"), flags & os.O_ACCMODE != os.O_RDONLY)
    return found


def shared_memory(pid):
    """(device, inode) of mappings that a write changes for others"""
    with open(f"/proc/{pid}/maps") as f:
        fields = [line.split() for line in f]
    return {(m[3], m[4]) for m in fields if m[1][1] == "w" and m[1][3] == "s"}


def status(pid, name):
    with open(f"/proc/{pid}/status") as f:
        return re.search(rf"^{name}:\s*(.*)$", f.read(), re.M).group(1).split()


class Seed(Case):
    server_env = {"PANDO_BLANKS": "1"}
    limit_s = 180

    def seeds(self):
        return self.s.log_text().count(SEED)

    def await_seed(self, count=1):
        wait_for(f"seed {count} has passed its trial", lambda: self.seeds() >= count, 120)

    def record(self, vm):
        return self.s.info(vm)["vmInstanceId"]

    def seed_of(self, vm):
        """The seed that it was forked from, by pando-priv's log; fails if it was thawed."""
        m = re.search(rf"{self.record(vm)}\S* .*a fork of ([a-z0-9-]+)", self.s.log_text())
        self.assertTrue(m, f"{vm} was not forked from a seed")
        return m.group(1).rstrip(",")

    def pid_of_seed(self, vm):
        with open(f"/run/pando/{self.s.tag}/vm/{self.seed_of(vm)}") as f:
            return int(f.read().split()[0])

    def facts(self, vm):
        return self.s.sh(vm, f"hostname; cat /etc/machine-id; {RANDOM}; echo; cat /run/pando/generation; "
                             "systemctl is-system-running; nproc; id -u; pwd").split("\n")

    def test_1_siblings(self):
        self.await_seed()
        vms = [self.s.create(name=f"sib{n}") for n in range(3)]
        seed = self.pid_of_seed(vms[0])
        facts = {vm: self.facts(vm) for vm in vms}
        for vm in vms:
            self.assertEqual(facts[vm][0], vm)
            self.assertEqual(facts[vm][4:], ["running", "2", "0", "/"])
            self.assert_clock(vm)
        self.assertEqual(len({facts[vm][1] for vm in vms}), 3, "machine ids")
        self.assertEqual(len({facts[vm][2] for vm in vms}), 3, "randomness")
        pids = [self.s.qemu_of(vm) for vm in vms] + [seed]
        # a user of its own each, which it cannot change any more; no capability is left
        self.assertEqual(len({tuple(status(pid, "Uid")) for pid in pids}), len(pids))
        for pid in pids[:-1]:
            self.assertEqual(status(pid, "CapPrm"), ["0" * 16])
            self.assertEqual(status(pid, "CapEff"), ["0" * 16])
        # whatever can be written to is in one of them only, and so is memory that is shared
        fds = {pid: {fd: what for fd, (what, writable) in descriptors(pid).items() if writable and what != "/dev/null"} for pid in pids}
        self.assertTrue(host.same_file(pids[0], 2, pids[0], 2))
        for a, b in itertools.combinations(pids, 2):
            for fd, what in fds[a].items():
                shared = [other for other in fds[b] if host.same_file(a, fd, b, other)]
                self.assertEqual(shared, [], f"descriptor {fd} of {a}, {what}, and of {b}")
            self.assertEqual(shared_memory(a) & shared_memory(b), set())
            self.assertTrue(shared_memory(a))
        type(self).vms = vms

    def test_2_life(self):
        """suspend, resume, fork, snapshot, stop of a forked VM; its layers have what it wrote, not what the seed had."""
        vm = self.vms[0]
        self.seed_of(vm)
        h = Holder(self.s, vm, "kept")
        self.s.sh(vm, "echo disk >/root/kept; sync")
        self.s.post(vm, "suspend")
        self.assertEqual(h.get(), "kept")
        child, = self.s.fork(vm)
        self.assertEqual(h.on(child).get(), "kept")
        self.assertEqual(self.s.sh(child, "cat /root/kept"), "disk")
        self.s.delete(child)
        snap = self.s.snapshot(vm)
        other = self.s.create(snapshotId=snap)
        self.assertEqual(self.s.sh(other, "cat /root/kept"), "disk")
        self.s.delete(other)
        self.s.sh(vm, "ip route get 192.0.2.1 && ping -c1 -W5 10.0.0.1")
        self.s.post(vm, "stop")
        self.assertEqual(self.s.sh(vm, "cat /root/kept"), "disk")
        self.assertEqual(self.s.run(self.vms[1], "cat /root/kept").code, 1)

    @limit(240)
    @long
    def test_3_kill_of_the_seed(self):
        seeds, pid = self.seeds(), self.pid_of_seed(self.vms[1])
        host.kill(pid, signal.SIGKILL)
        self.assertEqual(self.s.sh(self.vms[1], "echo lives"), "lives")
        vm = self.s.create()  # thawed: there is none now
        self.assertEqual(self.s.sh(vm, "hostname"), vm)
        self.s.delete(vm)
        self.await_seed(seeds + 1)
        vm = self.s.create()
        self.assertNotEqual(self.pid_of_seed(vm), pid)
        self.assertEqual(self.s.sh(vm, "hostname"), vm)
        self.s.delete(vm)

    @limit(240)
    @long
    def test_4_kill_of_pandod(self):
        seeds = self.seeds()
        self.s.kill9_pandod()
        for vm in self.vms[1:]:
            self.assertEqual(self.s.sh(vm, "hostname"), vm)
        self.await_seed(seeds + 1)
        vm = self.s.create()
        self.seed_of(vm)
        self.assertEqual(self.s.sh(vm, "hostname"), vm)
        for each in (vm, *self.vms):
            self.s.delete(each)


class Pooled(Case):
    """Ready VMs are forks of the seed; what the pool does not have is forked on the spot."""
    server_env = {"PANDO_POOL": "2", "PANDO_BLANKS": "1"}
    limit_s = 240
    keeps_specs = True  # and the template of another size

    def test_hand_over(self):
        def pool():
            return self.s.api("GET", "/v1/health")["pool"]
        before = wait_for("two VMs are ready and forked", lambda: pool()["ready"] == 2 and pool()["forked"] >= 2 and pool(), 180)
        vms = [self.s.create() for _ in range(4)]
        after = pool()
        self.assertEqual(after["given"] - before["given"] + after["missed"] - before["missed"], 4)
        self.assertGreaterEqual(after["given"] - before["given"], 2)
        out = [self.s.sh(vm, f"hostname; cat /etc/machine-id; {RANDOM}").split() for vm in vms]
        self.assertEqual([o[0] for o in out], vms)
        for values in list(zip(*out))[1:]:
            self.assertEqual(len(set(values)), 4, values)
        for vm in vms:
            self.s.delete(vm)

    def test_other_sizes(self):
        """A size that is used gets a seed, too."""
        log = self.s.log_text

        def seeded():
            return "VMs of 1 vCPUs and 1024 MB are forked from a seed from now on" in log()
        vm = self.s.api("POST", "/v1/vms", {"vcpuCount": 1, "memSizeGb": 1, "idleTimeoutSeconds": None}, timeout=600)["id"]
        self.s.delete(vm)
        wait_for("the size has a seed", seeded, 120)
        vm = self.s.create(vcpuCount=1, memSizeGb=1)
        self.assertRegex(log(), rf"{self.s.info(vm)['vmInstanceId']}\S* .*a fork of ")
        self.assertEqual(self.s.sh(vm, "nproc; hostname").split(), ["1", vm])
        self.s.delete(vm)


class Ways:
    """What must be the same of a VM that was forked and of one that was thawed; run for both, and compared."""
    seen = {}  # way -> what -> value
    limit_s = 240

    def note(self, what, value, close=None):
        """The other way gave the same, or one that is close."""
        self.seen.setdefault(self.way, {})[what] = value
        for way, values in self.seen.items():
            if way != self.way and what in values:
                (close or self.assertEqual)(value, values[what])

    def smaller_by_half(self, a, b):
        self.assertLess(max(a, b), 1.5 * min(a, b) + 512, "pages of a layer")

    def pages(self, vm, verb):
        """Of the layer that this makes."""
        at = len(self.s.log_text())
        verb()
        return int(re.search(rf"vm {vm}: (?:frozen|suspended): (?:.* )?(\d+) pages", self.s.log_text()[at:])[1])

    def make(self, **body):
        vm = self.s.create(**body)
        forked = bool(re.search(rf"{self.s.info(vm)['vmInstanceId']}\S* .*a fork of ", self.s.log_text()))
        self.assertEqual(forked, self.way == "forked")
        return vm

    def test_1_the_guest(self):
        if self.way == "forked":
            wait_for("a seed", lambda: self.s.api("GET", "/v1/health")["pool"]["seed"] == "ready", 120)
        else:
            wait_for("the server's own template", lambda: "own is ready after" in self.s.log_text(), 120)
            self.assertEqual(self.s.api("GET", "/v1/health")["pool"]["seed"], "off")
        vm = type(self).vm = self.make(name="way")
        self.assertEqual(self.s.sh(vm, "hostname"), vm)
        self.assert_clock(vm)
        for what, command in {
            "processes": "ps -eo comm= | grep -v -e kworker -e ps -e grep -e sort -e uniq -e sh | sort -u",
            "mounts": "cut -d' ' -f2-4 /proc/mounts", "addresses": "ip -o addr | awk '{print $2, $4}'", "routes": "ip route",
            "sockets": "ss -lntuH | awk '{print $1, $5}' | sort", "units": "systemctl list-units --no-legend --plain --type=service --state=running | awk '{print $1}'",
            "state": "systemctl is-system-running; systemctl --failed --no-legend", "cpus": "nproc; grep -m1 flags /proc/cpuinfo",
            "user": "id; pwd; env | cut -d= -f1 | sort", "disk": "df --output=size / | tail -1", "generation": "cut -d' ' -f1 /run/pando/generation",
        }.items():
            self.note(what, self.s.sh(vm, command))
        info = self.s.info(vm)
        self.note("keys", sorted(info))
        self.note("facts", [info[k] for k in ("state", "name") if k in info])
        nodes = self.s.api("GET", f"/v1/vms/{vm}/tree")["nodes"]
        self.note("tree", sorted((n["type"], n.get("kind")) for n in nodes))

    def test_2_randomness(self):
        vms = [self.make() for _ in range(3)]
        ask = f"{RANDOM}; echo; cat /proc/sys/kernel/random/uuid; python3 -c 'import uuid, random; print(uuid.uuid4(), random.random())'"
        out = [self.s.sh(vm, ask).split() for vm in vms]
        for values in zip(*out):
            self.assertEqual(len(set(values)), 3, values)
        for vm in vms:
            self.s.delete(vm)

    def test_3_freeze(self):
        """Suspend, rewind, diff and forks of forks; a layer has what the VM wrote, no more than the other way."""
        vm = self.vm
        h = Holder(self.s, vm, "one")
        self.s.sh(vm, "echo one >/root/word; head -c 4M /dev/urandom >/dev/shm/four; sync")
        snap = []
        self.note("pages of a snapshot", self.pages(vm, lambda: snap.append(self.s.snapshot(vm))), self.smaller_by_half)
        h.set("two")
        self.s.sh(vm, "echo two >/root/word; echo x >/root/more; sync")
        changes = self.s.api("GET", f"/v1/vms/{vm}/diff?with={snap[0]}")["changes"]
        self.note("changes", sorted((c["path"], c.get("kind") or c.get("change") or c.get("type")) for c in changes if c["path"].startswith("/root")))
        self.s.post(vm, "rewind", {"snapshotId": snap[0]})
        self.assertEqual((h.get(), self.s.sh(vm, "cat /root/word")), ("one", "one"))
        self.note("pages of a suspend", self.pages(vm, lambda: self.s.post(vm, "suspend")), self.smaller_by_half)
        self.assertEqual(h.get(), "one")
        line = [vm]
        for n in range(3):
            line += self.s.fork(line[-1])
            self.assertEqual((h.on(line[-1]).get(), self.s.sh(line[-1], "hostname")), ("one" if n == 0 else f"of {n - 1}", line[-1]))
            h.on(line[-1]).set(f"of {n}")
        self.assertEqual(h.get(), "one")
        for each in reversed(line):
            self.s.delete(each)
        self.s.api("DELETE", f"/v1/vms/snapshots/{snap[0]}")


class Forked(Ways, Case):
    way = "forked"
    server_env = {"PANDO_BLANKS": "1", "PANDO_LOG": "debug"}


class Thawed(Ways, Case):
    way = "thawed"
    server_env = {"PANDO_SEEDS": "0", "PANDO_BLANKS": "1", "PANDO_LOG": "debug"}
