# SPDX-License-Identifier: Apache-2.0
"""kill -9 of pandod at any moment loses nothing that was acknowledged, and leaks nothing"""
import http.client
import os
import random
import signal
import threading
import time

import host
from case import ApiError, Case, Holder, limit, long, wait_for
from harness import say


class Recovery(Case):
    @limit(120)
    def test_running_vms_are_adopted(self):
        cls = type(self)
        cls.vms = [self.s.create(name=f"vm{n}") for n in range(2)]
        cls.h = {vm: Holder(self.s, vm, f"value-{vm}") for vm in self.vms}
        cls.pids = {vm: self.h[vm].pid() for vm in self.vms}
        boots = {vm: self.s.sh(vm, "cat /proc/sys/kernel/random/boot_id") for vm in self.vms}
        # a program that counts: it must not have missed a beat
        self.s.sh(self.vms[0], "setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i >/run/count; sleep 0.2; done' "
                               "</dev/null >/dev/null 2>&1 &")
        qemus = {self.s.qemu_of(vm) for vm in self.vms}
        self.s.kill9_pandod()
        for vm in self.vms:
            self.assertEqual(self.s.state(vm), "running")
            self.assertEqual((self.h[vm].get(), self.h[vm].pid()), (f"value-{vm}", self.pids[vm]))
            self.assertEqual(self.s.sh(vm, "cat /proc/sys/kernel/random/boot_id"), boots[vm])
        self.assertEqual({self.s.qemu_of(vm) for vm in self.vms}, qemus, "VMs were started anew instead of adopted")
        first = int(self.s.sh(self.vms[0], "cat /run/count"))
        wait_for("it still counts", lambda: int(self.s.sh(self.vms[0], "cat /run/count")) > first, 20)

    def test_adopted_vms_can_do_everything(self):
        vm = self.vms[0]
        (child,) = self.s.fork(vm, 1)
        self.assertEqual(self.h[vm].on(child).get(), f"value-{vm}")
        self.s.delete(child)
        self.s.post(vm, "suspend")
        self.assertEqual(self.h[vm].get(), f"value-{vm}")

    def test_snapshots_keys_and_sleepers_survive(self):
        vm = self.vms[1]
        key = self.s.key()
        snap = self.s.snapshot(vm)
        self.s.post(vm, "suspend")
        self.s.kill9_pandod()
        self.assertEqual(self.s.key(), key)
        self.assertEqual(self.s.state(vm), "suspended")
        self.assertEqual(self.h[vm].get(), f"value-{vm}")
        made = self.s.create(snapshotId=snap)
        self.assertEqual(self.h[vm].on(made).get(), f"value-{vm}")
        self.s.delete(made)

    def test_qemu_that_died_while_nobody_watched(self):
        vm = self.s.create()
        pid = self.s.qemu_of(vm)
        pandod = self.s.pandod_pid()
        host.kill(pandod, signal.SIGSTOP)
        host.kill(pid, signal.SIGKILL)
        host.kill(pandod, signal.SIGKILL)
        self.s.await_pandod(pandod)
        wait_for("it is known to be stopped", lambda: self.s.state(vm) == "stopped", 20)
        self.s.delete(vm)

    @limit(400)
    @long
    def test_killed_in_the_middle_of_everything(self):
        seed = int(os.environ.get("PANDO_TEST_SEED", "0")) or random.randrange(1 << 30)
        say(f"  (PANDO_TEST_SEED={seed})")
        rng = random.Random(seed)
        known = {self.vms[0]: f"value-{self.vms[0]}"}  # acknowledged VM -> what its memory holds
        snaps = {}
        for vm in set(self.s.vms()) - set(known):
            self.s.delete(vm)
        for n in range(8):
            verb = ["fork", "snapshot", "suspend", "create"][n % 4]
            worker = threading.Thread(target=self.churn, args=(verb, known, snaps))
            worker.start()
            time.sleep(rng.uniform(0, 0.9))
            self.s.kill9_pandod()
            worker.join(60)
            self.assertFalse(worker.is_alive(), f"{verb} did not return after its server died")
            with self.subTest(round=n, verb=verb):
                self.check_all(known, snaps)
            self.prune(known)

    def churn(self, verb, known, snaps):
        """One verb over and over until the server dies; what it acknowledged is written down."""
        parent = self.vms[0]
        try:
            while True:
                if verb == "fork":
                    for vm in self.s.fork(parent, 2):
                        known[vm] = known[parent]
                elif verb == "snapshot":
                    snaps[self.s.snapshot(parent)] = known[parent]
                elif verb == "suspend":
                    self.s.post(parent, "suspend")
                    self.s.post(parent, "start", {})
                else:
                    known[self.s.create()] = None
        except (OSError, http.client.HTTPException, ValueError, ApiError):
            return  # it died, or answers are refused while it dies

    def check_all(self, known, snaps):
        there = self.s.vms()
        for vm, value in known.items():
            self.assertIn(vm, there, "an acknowledged VM is gone")
            self.assertNotEqual(there[vm]["state"], "lost")
            if value is None:
                self.assertEqual(self.s.sh(vm, "echo here"), "here")
            else:
                self.assertEqual(self.h[self.vms[0]].on(vm).get(), value)
        # what was not acknowledged may be there or not, but never half
        for vm in set(there) - set(known):
            self.assertEqual(self.s.sh(vm, "echo whole"), "whole")
            self.s.delete(vm)
        listed = {x["snapshotId"] for x in self.s.api("GET", "/v1/vms/snapshots")["snapshots"]}
        self.assertLessEqual(set(snaps), listed)
        if snaps:
            snap, value = random.choice(sorted(snaps.items()))
            made = self.s.create(snapshotId=snap)
            self.assertEqual(self.h[self.vms[0]].on(made).get(), value)
            self.s.delete(made)

    def prune(self, known):
        """Few enough VMs for a small machine."""
        for vm in [v for v in known if v != self.vms[0]]:
            self.s.delete(vm)
            del known[vm]

    @limit(120)
    def test_no_process_without_a_vm(self):
        """After all those deaths there is one QEMU for each running VM, and those kept ready."""
        running = [v for v in self.s.vms().values() if v["state"] == "running"]
        wait_for("stray QEMUs are gone", lambda: len(self.s.qemu_pids()) <= len(running) + sum(self.s.made_ahead()), 30)

    def test_priv_killed_too(self):
        """kill -9 of pando-priv and all below it: the next start cleans up and goes on."""
        vm = self.s.create()
        h = Holder(self.s, vm, "asleep")
        self.s.post(vm, "suspend")
        below = self.s.descendants()
        host.kill(self.s.proc.pid, signal.SIGKILL)
        self.s.proc.wait(20)
        for pid in below:
            if host.exe(pid) and "pandod" in host.exe(pid):
                wait_for("pandod ends when pando-priv is gone", lambda p=pid: not host.alive(p), 30)
        self.s.start()
        self.assertEqual(h.get(), "asleep")
