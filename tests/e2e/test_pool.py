# SPDX-License-Identifier: Apache-2.0
"""VMs kept ready: a handed-over VM cannot be told from a thawed one; an empty, dead or disabled pool falls back to a thaw"""
import os
import signal

import host
from case import Case, Holder, limit, wait_for

RANDOM = "head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'"


class Pool(Case):
    # thawed: to warm up a forked one takes so little that a test could not tell whose it was (test_seed.py has the pool with a seed)
    server_env = {"PANDO_POOL": "2", "PANDO_BLANKS": "2", "PANDO_SEEDS": "0"}
    limit_s = 120

    def pool(self):
        return self.s.api("GET", "/v1/health")["pool"]

    def await_ready(self, count=2):
        return wait_for(f"{count} VMs are ready", lambda: self.pool()["ready"] >= count and self.pool(), 90)

    def facts(self, vm):
        out = self.s.sh(vm, f"hostname; cat /etc/machine-id; {RANDOM}; echo; cut -d' ' -f1 /run/pando/generation; "
                            "systemctl is-system-running; nproc; id -u; pwd")
        return out.split("\n")

    def test_hand_over(self):
        before = self.await_ready()
        vms = [self.s.create(name=f"ready{n}") for n in range(2)]
        after = self.pool()
        self.assertEqual(after["given"] - before["given"], 2, after)
        facts = {vm: self.facts(vm) for vm in vms}
        for vm in vms:
            self.assertEqual(facts[vm][0], vm)
            self.assertEqual(facts[vm][4:], ["running", "2", "0", "/"])
            info = self.s.vms()[vm]
            self.assertEqual((info["state"], info["name"][:5]), ("running", "ready"))
            self.assert_clock(vm)
        self.assertNotEqual(facts[vms[0]][1:3], facts[vms[1]][1:3])  # machine-id and randomness
        type(self).vms = vms

    def cpu_s(self, pid):
        with open(f"/proc/{pid}/stat") as f:
            user, system = f.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def test_warming_up_is_not_the_owners(self):
        """What the machine used before it was handed over is in no VM's usage, even after a restart of the server."""
        self.await_ready()
        before = {pid: self.cpu_s(pid) for pid in self.s.qemu_pids()}  # the ready ones stand still
        given = self.pool()["given"]
        vm = self.s.create()
        self.assertEqual(self.pool()["given"], given + 1)
        pid = self.s.qemu_of(vm)
        self.assertGreater(before[pid], 0.2, "it was warmed")
        for again in (False, True):
            if again:
                self.s.kill9_pandod()
            used = self.s.info(vm)["usage"]
            self.assertLessEqual(used["cpuSeconds"], self.cpu_s(pid) - before[pid] + 0.1, used)
            self.assertLess(used["wallSeconds"], 60)
        self.s.delete(vm)

    def test_same_as_a_thawed_one(self):
        """Asked for until none is ready: the last ones were thawed on the spot."""
        before = self.pool()
        made = []
        while self.pool()["missed"] == before["missed"] and len(made) < 8:
            made.append(self.s.create())
        self.assertGreater(self.pool()["missed"], before["missed"], "eight creates in a row and always one ready?")
        thawed, ready = self.facts(made[-1]), self.facts(self.vms[0])
        self.assertEqual(thawed[3:], ready[3:])
        listed = self.s.vms()
        self.assertEqual(set(listed[made[-1]]), set(listed[self.vms[0]]))
        for vm in made:
            self.s.delete(vm)

    def test_names_are_resolved_and_lifecycle_goes_on(self):
        vm = self.vms[0]
        self.s.sh(vm, "ip route get 192.0.2.1 && ping -c1 -W5 10.0.0.1")
        h = Holder(self.s, vm, "kept")
        self.s.post(vm, "suspend")
        self.assertEqual(h.get(), "kept")
        child, = self.s.fork(vm)
        self.assertEqual(h.on(child).get(), "kept")
        self.s.delete(child)
        self.s.post(vm, "stop")
        self.assertEqual(self.s.sh(vm, "echo up"), "up")

    @limit(180)
    def test_dead_ones_are_replaced(self):
        self.await_ready()
        mine = {self.s.qemu_of(vm) for vm, v in self.s.vms().items() if v["state"] == "running"}
        for pid in set(self.s.qemu_pids()) - mine:
            host.kill(pid, signal.SIGKILL)
        vm = self.s.create()
        self.assertEqual(self.s.sh(vm, "hostname"), vm)
        self.s.delete(vm)
        self.await_ready()

    @limit(180)
    def test_busy_snapshot(self):
        h = Holder(self.s, self.vms[1], "frozen")
        snap = self.s.snapshot(self.vms[1])
        for _ in range(3):
            self.s.delete(self.s.create(snapshotId=snap))
        before = self.await_ready(3)
        vm = self.s.create(snapshotId=snap)
        self.assertEqual(self.pool()["given"], before["given"] + 1)
        self.assertEqual(h.on(vm).get(), "frozen")
        self.assertEqual(self.s.vms()[vm]["snapshotId"], snap)
        self.assert_clock(vm)
        self.await_ready(3)
        self.s.api("DELETE", f"/v1/vms/snapshots/{snap}")
        wait_for("its ready VM is ended", lambda: self.pool()["ready"] <= 2, 30)
        self.assertEqual(h.on(vm).get(), "frozen")
        self.s.delete(vm)

    @limit(180)
    def test_restart_of_the_server(self):
        self.await_ready()
        self.s.kill9_pandod()
        self.await_ready()
        vm = self.s.create()
        self.assertEqual(self.s.sh(vm, "hostname"), vm)
        running = [v for v in self.s.vms().values() if v["state"] == "running"]
        wait_for("no QEMU of the old server is left",
                 lambda: len(self.s.qemu_pids()) <= len(running) + sum(self.s.made_ahead()), 30)
        self.s.delete(vm)


class NoPool(Case):
    server_env = {"PANDO_POOL": "0", "PANDO_BLANKS": "0"}

    def test_create_thaws(self):
        vm = self.s.create()
        self.assertEqual(self.s.sh(vm, "hostname"), vm)
        self.assertEqual(self.s.made_ahead(), (0, 0))
        wait_for("the server's own template is made", lambda: "own is ready after" in self.s.log_text(), 60)
        self.assertTrue(os.path.isdir(os.path.join(self.s.dir, "run", self.s.info(vm)["vmInstanceId"])))


class Own(Case):
    """The server's own template: a plain create needs no install of the CA; another CA is trusted after a restart."""
    server_env = {"PANDO_POOL": "0", "PANDO_BLANKS": "0", "PANDO_LOG": "debug"}
    limit_s = 240
    keeps_specs = True

    def log(self):
        with open(self.s.log_path) as f:
            return f.read()

    def await_own(self, count=1):
        wait_for("the server's own template is ready", lambda: self.log().count("this server's own is ready") >= count, 120)

    def told(self, vm):
        return any(vm in line and "trusts this server's CA" in line for line in self.log().splitlines())

    def assert_trusts(self, vm):
        """The server's CA is in its file, in the bundle, and where OpenSSL looks for it."""
        ca = self.s.api("GET", "/v1/ca")["certificate"]
        self.assertEqual(self.s.sh(vm, "cat /usr/local/share/ca-certificates/pando-local.crt").strip(), ca.strip())
        self.s.sh(vm, "openssl verify -CApath /etc/ssl/certs /usr/local/share/ca-certificates/pando-local.crt && "
                      "openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates/pando-local.crt")

    def test_plain_create_and_another_ca(self):
        self.await_own()
        vm = self.s.create()
        self.assert_trusts(vm)
        self.s.post(vm, "suspend")
        self.assert_trusts(vm)
        self.assertFalse(self.told(vm), "it knew before, and after its resume")
        tree = self.s.api("GET", "/v1/tree")
        self.assertEqual([(n["kind"], n["parent"]) for n in tree["nodes"] if n["kind"] == "template"], [("template", None)])
        self.assertEqual(tree["roots"], [n["id"] for n in tree["nodes"] if n["kind"] == "template"])
        self.s.stop()
        os.unlink(os.path.join(self.s.dir, "certs/ca.crt"))  # the next start makes another CA
        self.s.start()
        self.await_own(2)
        other = self.s.create()
        self.assert_trusts(other)
        self.assertFalse(self.told(other))
        self.assert_trusts(vm)
        self.assertTrue(self.told(vm), "it was suspended by a server with another CA")

    def test_another_size_in_use(self):
        """Its first VM is told at its thaw; then the size has a template of this server's own, too."""
        small = {"vcpuCount": 1, "memSizeGb": 0.5}
        self.await_own()
        first = self.s.create(**small)
        self.assertTrue(self.told(first))
        wait_for("the size's own template is ready", lambda: "own is ready" in "".join(x for x in self.log().splitlines() if "(1 vCPUs, 512 MB)" in x), 120)
        vm = self.s.create(**small)
        self.assert_trusts(vm)
        self.assertFalse(self.told(vm), "it knew before")
        self.assertEqual(self.s.sh(vm, "nproc"), "1")
