# SPDX-License-Identifier: Apache-2.0
"""The disk budget: eviction, and what is refused when nothing is left to evict"""
import os

from case import Case, Holder, wait_for


class Budget(Case):
    """The disk budget: what is evicted, in which order, and what never is."""
    limit_s = 200
    keeps_specs = True

    def used_mb(self):
        total = 0
        for part in ("layers", "points"):
            for e in os.scandir(os.path.join(self.s.dir, part)):
                try:
                    total += e.stat().st_blocks * 512
                except FileNotFoundError:
                    pass  # collected meanwhile
        return total >> 20

    def rested(self, **how):
        vm = self.s.create(**how)
        self.s.sh(vm, "head -c 60M /dev/urandom >/root/fill; sync")
        self.s.post(vm, "suspend")
        return vm

    def spec(self, name):
        return {"additionalFiles": {f"/root/{name}": {"content": name}}}

    def cached(self):
        """Layers of specs that are kept."""
        return self.s.rows("spec_layers")

    def snapshots(self):
        return {x["snapshotId"]: x for x in self.s.api("GET", "/v1/vms/snapshots?includeLost=true")["snapshots"]}

    def budget(self, mb):
        self.s.stop()
        self.s.env["PANDO_DISK_BUDGET_MB"] = str(mb)
        self.s.start()

    def test_eviction_order(self):
        sticky = "sticky"
        inner = {"additionalFiles": {"/root/inner": {"content": "x"}}}
        big = {"name": "big", "mode": "oneshot", "exec": ["/bin/sh -c 'head -c 20M /dev/urandom >/root/built; sync'"]}
        self.s.delete(self.s.create(spec={"systemd": {"services": [big]}, "snapshot": inner}))
        keep = self.rested(persistence={"type": "persistent"})
        high = self.rested(persistence={"type": sticky, "priority": 9})
        old = self.rested(persistence={"type": sticky, "priority": 2})
        snap = self.s.snapshot(high, name="taken", persistence={"type": sticky, "priority": 1})
        new = self.rested(persistence={"type": sticky, "priority": 2})
        running = self.s.create(persistence={"type": sticky, "priority": 0})
        alone = self.s.snapshot(running, persistence={"type": sticky, "priority": 0})
        broken = self.s.snapshot(running, persistence={"type": sticky, "priority": 10})
        self.s.delete(running)  # nothing stands on its snapshots any more
        self.s.stop()
        self.s.sql(f"UPDATE snapshots SET state = 'failed', failure = 'it broke' WHERE id = '{broken}'")
        self.s.start()  # nothing is left to be collected now
        # what can be built again goes before anything that somebody made, the outer layer first
        self.assertEqual(self.cached(), 2)
        self.budget(self.used_mb() - 10)
        wait_for("a layer of the spec is evicted", lambda: self.cached() == 1, 60)
        self.assertEqual(set(self.s.vms()), {keep, high, old, new})
        self.assertEqual({x["state"] for x in self.snapshots().values()}, {"ready", "failed"})
        self.budget(self.used_mb() - 100)  # the snapshots go, then one of the two with priority 2
        wait_for("the older one is evicted", lambda: old not in self.s.vms(), 60)
        self.assertEqual(set(self.s.vms()), {keep, high, new})
        gone = {v["id"]: v for v in self.s.api("GET", "/v1/vms?includeDeleted=true")["vms"]}
        self.assertEqual((gone[old]["deleted"], gone[old]["deleteReason"]), (True, "evicted"))
        e = self.refused(410, "VM_DELETED", self.s.run, old, "true")
        self.assertIn("evicted", e.message)
        lost = self.snapshots()
        self.assertEqual((lost[alone]["state"], lost[snap]["state"]), ("lost", "ready"))  # the other one is in use
        self.assertEqual((self.cached(), lost[broken]["state"]), (0, "lost"))  # a failed build's before all others
        self.assertRegex(lost[broken]["failureReason"], "evicted.*it broke")
        e = self.refused(409, "SOURCE_SNAPSHOT_LOST", self.s.create, snapshotId=alone)
        self.assertIn("evicted", e.message)
        self.assertEqual(self.s.sh(new, "stat -c %s /root/fill"), str(60 << 20))
        type(self).keep, type(self).high, type(self).new = keep, high, new

    def test_nothing_left_to_evict(self):
        self.s.post(self.new, "suspend")
        (runs,) = self.s.fork(self.keep, 1)
        self.s.delete(self.s.create(spec=self.spec("built")))
        self.budget(100)  # less than the template alone
        wait_for("sticky ones at rest are gone", lambda: not {self.high, self.new} & set(self.s.vms()), 60)
        self.assertEqual(self.cached(), 0)
        self.assertIn(self.keep, self.s.vms())
        for call, args in ((self.s.create, ()), (self.s.fork, (self.keep,)), (self.s.snapshot, (self.keep,))):
            e = self.refused(503, "NO_LOCAL_STORAGE_CAPACITY", call, *args)
            self.assertIn("evict", e.message)
        # a spec: a layer to be built, and one that was built before
        for name in ("new", "built"):
            e = self.refused(503, "NO_LOCAL_STORAGE_CAPACITY", self.s.create, spec=self.spec(name))
            self.assertIn("evict", e.message)
        # what is there goes on, and nobody is lost by going to rest
        h = Holder(self.s, self.keep, "kept")
        self.s.post(self.keep, "suspend")
        self.assertEqual(h.get(), "kept")
        self.s.delete(runs) if runs in self.s.vms() else None
        self.budget(0)
        self.assertEqual(h.get(), "kept")
        self.s.delete(self.s.create())
