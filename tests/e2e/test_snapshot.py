# SPDX-License-Identifier: Apache-2.0
"""Snapshots: of a running service, VMs made from them, and what outlives what"""
from case import AS_MAKE_RUN, Case, Holder


class Snapshot(Case):
    server_env = AS_MAKE_RUN
    def test_snapshot_of_a_running_service(self):
        cls = type(self)
        cls.vm = self.s.create()
        cls.h = Holder(self.s, self.vm, "at-snapshot")
        self.s.sh(self.vm, "echo at-snapshot >/root/disk; sync; systemd-run -q --unit=served sleep 9999")
        body = self.s.post(self.vm, "snapshot", {"name": "service"})
        cls.snap = body["snapshotId"]
        self.assertRegex(self.snap, r"^sc-[a-z0-9]{20}$")
        self.assertEqual(body["sourceVmId"], self.vm)
        # it went on, and what it does now is not in the snapshot
        self.assertEqual(self.s.state(self.vm), "running")
        self.h.set("later")
        self.s.sh(self.vm, "echo later >/root/disk; sync")

    def test_listed(self):
        body = self.s.api("GET", "/v1/vms/snapshots")
        (one,) = body["snapshots"]
        self.assertEqual((one["snapshotId"], one["state"], one["name"]), (self.snap, "ready", "service"))
        self.assertEqual((one["sourceVmId"], one["failed"], one["deleted"]), (self.vm, False, False))
        self.assertEqual((one["snapshotPersistence"], one["updatedAt"]), ({"type": "sticky", "priority": 5}, one["createdAt"]))
        self.assertEqual(self.s.api("GET", f"/v1/vms/snapshots/{self.snap}")["snapshotId"], self.snap)

    def test_rename(self):
        self.s.request("PATCH", f"/v1/vms/snapshots/{self.snap}", {"name": "renamed"})
        one = self.s.api("GET", f"/v1/vms/snapshots/{self.snap}")
        self.assertEqual(one["name"], "renamed")
        self.assertGreater(one["updatedAt"], one["createdAt"])

    def test_two_vms_from_it(self):
        cls = type(self)
        cls.kids = [self.s.create(snapshotId=self.snap) for _ in range(2)]
        for n, vm in enumerate(self.kids):
            h = self.h.on(vm)
            self.assertEqual((h.get(), h.pid()), ("at-snapshot", self.h.pid()))
            self.assertEqual(self.s.sh(vm, "cat /root/disk; systemctl is-active served").split(), ["at-snapshot", "active"])
            self.assert_clock(vm)
            h.set(f"kid{n}")
            self.s.sh(vm, f"echo kid{n} >/root/disk; sync")
        self.assertEqual([self.h.on(vm).get() for vm in self.kids], ["kid0", "kid1"])
        self.assertEqual(self.h.get(), "later")

    def test_delete_while_children_live(self):
        body = self.s.api("DELETE", f"/v1/vms/snapshots/{self.snap}")
        self.assertEqual((body["snapshotId"], body["snapshot_id"]), (self.snap, self.snap))
        self.assertEqual(self.s.api("GET", "/v1/vms/snapshots")["snapshots"], [])
        self.refused(410, ("SOURCE_SNAPSHOT_DELETED",), self.s.create, snapshotId=self.snap)
        self.assertEqual(self.h.on(self.kids[0]).get(), "kid0")

    def test_child_still_sleeps_and_wakes(self):
        vm = self.kids[0]
        self.s.post(vm, "suspend")
        self.assertEqual(self.h.on(vm).get(), "kid0")
        self.assertEqual(self.s.sh(vm, "cat /root/disk"), "kid0")

    def test_child_outlives_everyone(self):
        self.s.delete(self.vm)
        self.s.delete(self.kids[0])
        vm = self.kids[1]
        self.assertEqual(self.h.on(vm).get(), "kid1")
        (child,) = self.s.fork(vm, 1)
        self.assertEqual(self.h.on(child).get(), "kid1")

    def test_snapshot_of_a_sleeping_vm(self):
        vm = self.kids[1]
        self.s.post(vm, "suspend")
        snap = self.s.snapshot(vm)
        made = self.s.create(snapshotId=snap)
        self.assertEqual(self.h.on(made).get(), "kid1")

    def test_snapshots_in_a_row(self):
        """Each has the state of its own moment."""
        vm = self.s.create()
        h = Holder(self.s, vm, "start")
        snaps = []
        for n in range(4):
            h.set(f"moment{n}")
            snaps.append(self.s.snapshot(vm))
        self.s.delete(vm)
        for n, snap in enumerate(snaps):
            made = self.s.create(snapshotId=snap)
            self.assertEqual(self.h.on(made).get(), f"moment{n}")
            self.s.delete(made)
