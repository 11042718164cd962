# SPDX-License-Identifier: Apache-2.0
"""The life of a VM in the API: list, await, resize, optimize, usage, idle suspend, concurrent calls"""
import http.client
import json
import os
import re
import shutil
import signal
import threading
import time

import host
from case import ApiError, Case, Holder, limit, long, wait_for
from harness import image_dir, test_dir

VM_MEMBERS = {"id", "name", "state", "createdAt", "lastNetworkActivity", "snapshotId", "buildId", "cpuTimeSeconds",
              "persistence", "metrics", "sizing", "parentVmId", "usage"}


class Waiter(threading.Thread):
    """POST .../await on a thread of its own."""

    def __init__(self, server, vm):
        super().__init__(daemon=True)
        self.s, self.vm, self.status, self.failure = server, vm, None, None
        self.start()

    def run(self):
        try:
            body = self.s.post(self.vm, "await", timeout=200)
            assert body["id"] == self.vm, body
            self.status = body["exitStatus"]
        except Exception as e:  # shown by end()
            self.failure = e

    def end(self, seconds=60):
        self.join(seconds)
        if self.failure:
            raise self.failure
        return self.status


class Lines:
    """A stream of JSON lines, read one by one."""

    def __init__(self, server, path, timeout=60):
        self.c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
        self.c.request("GET", path, headers={"Authorization": f"Bearer {server.key()}"})
        self.r = self.c.getresponse()

    def next(self):
        line = self.r.readline()
        return json.loads(line) if line else None

    def close(self):
        self.c.close()


class Life(Case):
    limit_s = 120
    keeps_specs = True

    @classmethod
    def setUpClass(cls):
        """An image of our own, with a kernel that can be taken away: links to the real one."""
        cls.images = test_dir()
        cls.image = os.path.join(cls.images, os.path.basename(image_dir()))
        os.makedirs(cls.image)
        for name in os.listdir(image_dir()):
            try:
                os.link(os.path.join(image_dir(), name), os.path.join(cls.image, name))
            except OSError:  # another file system
                os.symlink(os.path.join(image_dir(), name), os.path.join(cls.image, name))
        cls.server_env = {"PANDO_IMAGE": cls.image}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.images, ignore_errors=True)

    def test_members(self):
        cls = type(self)
        cls.vm = self.s.create(name="first life", countExecAsActivity=True, idleTimeoutSeconds=3600)
        info = self.s.info(self.vm)
        self.assertLessEqual(VM_MEMBERS | {"recreate", "vmInstanceId", "idleTimeoutSeconds"}, set(info))
        self.assertEqual((info["countExecAsActivity"], info["idleTimeoutSeconds"]), (True, 3600))
        item = self.s.vms()[self.vm]
        self.assertLessEqual(VM_MEMBERS | {"deleted", "createdDeclaratively"}, set(item))
        self.assertEqual(item["sizing"], {"vcpuCount": 2, "memSizeMib": 1024, "rootfsSizeMb": 20480})
        self.assertEqual(item["metrics"]["isActiveToday"], True)
        self.assertRegex(item["metrics"]["billingDay"], r"^\d{4}-\d\d-\d\d$")
        self.assertEqual((item["deleted"], item["parentVmId"], item["buildId"]), (False, None, None))
        self.assertEqual(item["persistence"], {"type": "sticky", "priority": 5})

    def test_usage_grows(self):
        self.s.sh(self.vm, "head -c 20M /dev/urandom >/root/u; sync; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done")
        # what a busy QEMU does not answer in time is shown as it was, and asked for again later
        wait_for("what was written to show", lambda: self.s.info(self.vm)["usage"]["diskWriteBytes"] > 20 << 20, 60)
        a = self.s.info(self.vm)["usage"]
        self.assertGreater(a["cpuSeconds"], 0.1)
        self.assertGreater(a["memoryGbSeconds"], 0)
        self.assertAlmostEqual(a["memoryGbSeconds"], a["wallSeconds"], delta=0.5)  # it has 1 GB
        self.s.run(self.vm, "ping -c1 -W2 10.0.0.1")
        b = self.s.info(self.vm)["usage"]
        self.assertGreaterEqual(b["networkOutBytes"], a["networkOutBytes"])
        self.assertGreaterEqual(b["cpuSeconds"], a["cpuSeconds"])
        type(self).used = b

    def at_least(self, now, before):
        for name, value in before.items():
            self.assertGreaterEqual(now[name], value, name)

    def test_await_suspend_and_usage_is_kept(self):
        w = Waiter(self.s, self.vm)
        self.assertEqual(self.s.sh(self.vm, "echo not disturbed"), "not disturbed")
        self.assertTrue(w.is_alive())
        self.s.post(self.vm, "suspend")
        self.assertEqual(w.end(), "suspended")
        # at rest the answer is there at once, and nothing wakes
        self.assertEqual(Waiter(self.s, self.vm).end(), "suspended")
        self.at_least(self.s.info(self.vm)["usage"], self.used)
        self.assertEqual(self.s.state(self.vm), "suspended")

    def test_usage_survives_the_server(self):
        before = self.s.info(self.vm)["usage"]
        self.s.restart()
        self.at_least(self.s.info(self.vm)["usage"], before)
        self.s.sh(self.vm, "true")
        running = self.s.info(self.vm)["usage"]
        self.at_least(running, before)
        self.s.kill9_pandod()
        self.assertEqual(self.s.state(self.vm), "running")
        after = self.s.info(self.vm)["usage"]
        self.at_least(after, running)
        self.assertLess(after["cpuSeconds"], running["cpuSeconds"] + 60, "counted twice")
        self.assertLess(after["diskWriteBytes"], running["diskWriteBytes"] + (20 << 20), "counted twice")

    def test_stats_stream(self):
        st = Lines(self.s, f"/v1/vms/{self.vm}/stats/stream?interval_ms=1")  # clamped to 100
        try:
            lines = [st.next() for _ in range(4)]
            for x in lines:
                self.assertEqual((x["vmId"], x["state"]), (self.vm, "running"))
                self.assertGreater(x["memory"]["rssBytes"], 1 << 20)
                self.assertGreater(x["memory"]["privateBytes"], 1 << 20)
            self.assertGreater(lines[-1]["cpu"]["seconds"], 0)
            self.assertGreaterEqual(lines[-1]["disk"]["writeBytes"], lines[0]["disk"]["writeBytes"])
            self.s.post(self.vm, "suspend")
            for _ in range(100):
                x = st.next()
                if x["state"] == "suspended":
                    break
            x = st.next()
            self.assertEqual((x["state"], x["memory"]["rssBytes"], x["cpu"]["percent"]), ("suspended", 0, 0))
            self.assertEqual(self.s.state(self.vm), "suspended", "a look woke it")
        finally:
            st.close()
        self.refused(400, "INVALID_PARAMETERS", self.s.api, "GET", f"/v1/vms/{self.vm}/stats/stream?interval_ms=x")
        self.refused(404, "VM_NOT_FOUND", self.s.api, "GET", f"/v1/vms/{'x' * 20}/stats/stream")

    def test_a_slow_reader_holds_up_nobody(self):
        st = Lines(self.s, f"/v1/vms/{self.vm}/stats/stream?interval_ms=100")
        try:
            self.assertEqual(self.s.sh(self.vm, "echo on"), "on")  # nobody reads the stream meanwhile
            self.s.post(self.vm, "suspend")
            self.assertEqual(self.s.state(self.vm), "suspended")
        finally:
            st.close()

    def test_fork_with_a_running_exec(self):
        """In the parent the command continues; in the children its process does, without a client."""
        out = []
        t = threading.Thread(target=lambda: out.append(
            self.s.sh(self.vm, "echo $$ >/run/long.pid; read x; sleep 6; echo end >/run/long.end; echo done")))
        t.start()
        wait_for("it runs", lambda: self.s.run(self.vm, "cat /run/long.pid").code == 0, 30)
        body = self.s.post(self.vm, "fork", {"count": 2, "persistence": {"type": "ephemeral"}})
        self.assertEqual(body["vmId"], self.vm)
        kids = [f["id"] for f in body["forks"]]
        for kid in kids:
            item = self.s.vms()[kid]
            self.assertEqual((item["parentVmId"], item["persistence"]["type"]), (self.vm, "ephemeral"))
            self.s.sh(kid, "for i in $(seq 300); do [ -e /run/long.end ] && exit 0; sleep 0.1; done; exit 1")
        t.join(60)
        self.assertEqual(out, ["done"])
        (grandchild,) = self.s.fork(kids[0], 1)
        (great,) = self.s.fork(grandchild, 1)
        self.assertEqual(self.s.vms()[great]["parentVmId"], grandchild)
        self.assertEqual(self.s.sh(great, "cat /run/long.end"), "end")
        # a fork's usage is its own
        self.assertLess(self.s.info(great)["usage"]["wallSeconds"], 60)
        type(self).kids = [*kids, grandchild, great]

    def test_list_queries(self):
        n = len(self.s.vms())
        page = self.s.api("GET", "/v1/vms?limit=2&offset=1")
        self.assertEqual((len(page["vms"]), page["totalCount"]), (2, n))
        self.assertEqual(self.s.api("GET", "/v1/vms?search=FIRST%20LIFE")["totalCount"], n)  # forks keep the name
        self.assertEqual(self.s.api("GET", "/v1/vms?search=nothing-like-it")["totalCount"], 0)
        running = self.s.api("GET", "/v1/vms?vmState=running")
        self.assertEqual(len(running["vms"]), running["runningCount"])
        self.refused(400, "INVALID_PARAMETERS", self.s.api, "GET", "/v1/vms?vmState=no")
        self.refused(400, "INVALID_PARAMETERS", self.s.api, "GET", "/v1/vms?includeDeleted=perhaps")

    def test_deleted_vms(self):
        kid, w = self.kids.pop(), None
        w = Waiter(self.s, kid)
        st = Lines(self.s, f"/v1/vms/{kid}/stats/stream?interval_ms=100")
        st.next()
        self.s.delete(kid)
        self.assertEqual(w.end(), "deleted")
        last = None
        while True:  # the stream ends by itself
            x = st.next()
            if x is None:
                break
            last = x
        st.close()
        self.assertEqual(last["state"], "deleted")
        self.assert_gone(kid)
        for verb in ("start", "stop", "suspend", "kill", "fork", "snapshot", "await", "resize", "optimize"):
            self.refused(410, "VM_DELETED", self.s.post, kid, verb, {"vcpuCount": 1} if verb == "resize" else {})
        self.refused(410, "VM_DELETED", self.s.run, kid, "true")
        self.refused(404, "VM_NOT_FOUND", self.s.delete, kid)
        gone = {v["id"]: v for v in self.s.api("GET", "/v1/vms?includeDeleted=true")["vms"]}
        self.assertEqual((gone[kid]["deleted"], gone[kid]["deleteReason"]), (True, "deleted"))
        self.assertGreater(gone[kid]["usage"]["wallSeconds"], 0)
        self.assertNotIn(kid, self.s.vms())

    def test_ephemeral(self):
        a, b, c = self.kids
        w = Waiter(self.s, a)
        self.s.post(a, "kill")  # any stop
        self.assertIn(w.end(), ("killed", "deleted"))
        self.assert_gone(a)
        gone = {v["id"]: v for v in self.s.api("GET", "/v1/vms?includeDeleted=true")["vms"]}
        self.assertEqual(gone[a]["deleteReason"], "ephemeral")
        self.s.post(b, "suspend")
        self.assert_gone(b)
        # OnStop: a suspend leaves it be
        (d,) = [f["id"] for f in self.s.post(c, "fork", {"persistence": {"type": "ephemeral", "deleteEvent": "OnStop"}})
                ["forks"]]
        self.s.post(d, "suspend")
        self.assertEqual(self.s.state(d), "suspended")
        self.s.post(d, "stop")
        self.assert_gone(d)
        self.s.delete(c)

    @limit(200)
    def test_recreate(self):
        """A delete empties it; the next use recreates it from its origin, under the same id."""
        source = self.s.create()
        self.s.sh(source, "echo from the snapshot >/root/origin; sync")
        snap = self.s.snapshot(source)
        self.s.delete(source)
        for how, origin in (({}, "none"), ({"snapshotId": snap}, "from the snapshot"),
                            ({"spec": {"additionalFiles": {"/root/origin": {"content": "from the spec"}}}}, "from the spec")):
            vm = self.s.create(recreate=True, name="again", **how)
            machine = self.s.sh(vm, "echo mine >/root/mine; cat /etc/machine-id")
            self.assertEqual(self.s.info(vm)["recreate"], True)
            if "snapshotId" in how:
                self.s.post(vm, "suspend")
                self.s.api("DELETE", f"/v1/vms/snapshots/{snap}")
            self.assertEqual(self.s.api("DELETE", f"/v1/vms/{vm}"), {"id": vm, "recreate": True})
            self.assertEqual((self.s.state(vm), self.s.info(vm)["name"]), ("stopped", "again"))
            self.assertEqual(self.s.sh(vm, "cat /root/origin 2>/dev/null || echo none"), origin)
            self.assertEqual(self.s.sh(vm, "hostname; ls /root/mine 2>/dev/null || echo gone").split(), [vm, "gone"])
            self.assertNotEqual(self.s.sh(vm, "cat /etc/machine-id"), machine)
            (kid,) = self.s.fork(vm, 1)
            self.assertEqual(self.s.info(kid)["recreate"], False)
            self.assertEqual(self.s.api("DELETE", f"/v1/vms/{kid}")["recreate"], False)
            self.assertTrue(self.s.api("DELETE", f"/v1/vms/{vm}")["recreate"])
            self.assertEqual(self.s.api("DELETE", f"/v1/vms/{vm}")["recreate"], False)  # it was empty: for good
            self.assert_gone(vm)

    def test_recreate_ephemeral(self):
        """An ephemeral one starts afresh every time, even after a restart of the server."""
        vm = self.s.create(recreate=True, persistence={"type": "ephemeral", "deleteEvent": "OnStop"})
        self.s.sh(vm, "echo mine >/root/mine; sync")
        self.s.post(vm, "kill")
        self.assertEqual(self.s.state(vm), "stopped")
        self.s.kill9_pandod()
        self.assertEqual(self.s.state(vm), "stopped")
        self.assertEqual(self.s.sh(vm, "ls /root/mine 2>/dev/null || echo gone"), "gone")
        self.s.delete(vm)
        self.s.delete(vm)
        self.assert_gone(vm)

    def test_optimize(self):
        for _ in range(3):
            snap = self.s.snapshot(self.vm)
            self.s.api("DELETE", f"/v1/vms/snapshots/{snap}")
        body = self.s.post(self.vm, "optimize")
        self.assertEqual(body["id"], self.vm)
        self.assertRegex(body["message"], r"trimmed .*layers became 2")
        self.assertEqual(self.s.sh(self.vm, "md5sum </root/u >/dev/null && echo whole"), "whole")
        self.s.post(self.vm, "suspend")
        self.assertTrue(self.s.post(self.vm, "optimize")["message"])
        self.assertEqual(self.s.state(self.vm), "suspended")

    def test_resize_refused(self):
        def no(code, body, **extra):
            e = self.refused(400, code, self.s.post, self.vm, "resize", body)
            for name, value in extra.items():
                self.assertEqual(e.body.get(name), value, e.body)
        no("RESIZE_VM_EMPTY_REQUEST", {})
        no("RESIZE_VM_EMPTY_REQUEST", {"vcpuCount": None, "other": 1})
        no("RESIZE_VM_VCPU_NOT_POWER_OF_TWO", {"vcpuCount": 3}, got=3)
        no("RESIZE_VM_VCPU_OUT_OF_RANGE", {"vcpuCount": 64}, got=64, max=32)
        no("RESIZE_VM_VCPU_OUT_OF_RANGE", {"vcpuCount": 0})
        no("RESIZE_VM_MEM_NOT_POWER_OF_TWO", {"memSizeGb": 3}, got=3)
        no("RESIZE_VM_MEM_OUT_OF_RANGE", {"memSizeGb": 4096}, got=4096, min=0.5, max=64)
        no("RESIZE_VM_MEM_OUT_OF_RANGE", {"memSizeGb": -1})
        no("RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED", {"rootfsSizeGb": 1}, currentMb=20480, requestedMb=1024)
        no("ROOTFS_SIZE_TOO_LARGE", {"rootfsSizeGb": 1e9})
        no("BAD_REQUEST", {"vcpuCount": "two"})
        self.assertEqual(self.s.state(self.vm), "suspended")
        self.assertEqual(self.s.post(self.vm, "resize", {"vcpuCount": 2, "memSizeGb": 1, "rootfsSizeGb": 20}), {})
        self.assertEqual(self.s.state(self.vm), "suspended", "nothing changed: its memory stays")

    def sizes(self):
        cpus, mem, disk, fs = self.s.sh(
            self.vm, "nproc; sed -n 's/MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo; cat /sys/block/vda/size; "
                     "df -B1 --output=size / | tail -1").split()
        return int(cpus), int(mem) >> 10, int(disk) >> 21, int(fs) / (1 << 30)

    def resize_fails(self, vm, h, pid, body):
        """Afterwards the VM is unchanged: sizes, disk, processes."""
        sizing = self.s.info(vm)["sizing"]
        e = self.refused(500, "RESIZE_FAILED", self.s.post, vm, "resize", body, timeout=250)
        self.assertEqual(self.s.info(vm)["sizing"], sizing)
        self.assertEqual((h.get(), h.pid()), ("before", pid))
        self.assertEqual(self.s.sh(vm, "cat /root/unsynced; nproc; cat /sys/block/vda/size").split(),
                         ["unsynced", str(sizing["vcpuCount"]), str(sizing["rootfsSizeMb"] << 11)])
        return e

    @limit(200)
    @long
    def test_resize_that_cannot_boot(self):
        vm = self.s.create()
        h = Holder(self.s, vm, "before")
        self.s.sh(vm, "echo unsynced >/root/unsynced")
        kernel = os.path.join(self.image, "vmlinux")
        os.rename(kernel, kernel + ".away")
        try:
            e = self.resize_fails(vm, h, h.pid(), {"vcpuCount": 1, "memSizeGb": 0.5, "rootfsSizeGb": 23})
        finally:
            os.rename(kernel + ".away", kernel)
        self.assertIn("vmlinux", e.message)
        self.assertEqual(self.s.state(vm), "running")
        # it can be frozen, forked and thawed as ever
        self.s.post(vm, "suspend")
        (kid,) = self.s.fork(vm, 1)
        self.assertEqual(h.on(kid).get(), "before")
        self.s.delete(kid)
        self.s.delete(vm)

    @long
    @limit(400)
    def test_resize_that_cannot_grow(self):
        """It boots at its new size, and then its file system does not grow."""
        vm = self.s.create()
        h = Holder(self.s, vm, "before")
        self.s.sh(vm, "mv $(command -v resize2fs) /root/; echo unsynced >/root/unsynced")
        e = self.resize_fails(vm, h, h.pid(), {"vcpuCount": 1, "rootfsSizeGb": 23})
        self.assertIn("resize2fs", e.message)
        self.s.delete(vm)

    @limit(300)
    def test_resize_running(self):
        self.s.sh(self.vm, "echo kept >/root/kept; sync")
        self.assertEqual(self.s.post(self.vm, "resize", {"vcpuCount": 1, "memSizeGb": 0.5, "rootfsSizeGb": 22},
                                     timeout=250), {})
        self.assertEqual(self.s.state(self.vm), "running")
        cpus, mem, disk, fs = self.sizes()
        self.assertEqual((cpus, disk), (1, 22))
        self.assertTrue(350 < mem <= 512, mem)
        self.assertGreater(fs, 21)
        self.assertEqual(self.s.sh(self.vm, "cat /root/kept"), "kept")
        self.assertEqual(self.s.info(self.vm)["sizing"], {"vcpuCount": 1, "memSizeMib": 512, "rootfsSizeMb": 22528})
        # its new self can be frozen and forked like any other
        h = Holder(self.s, self.vm, "resized")
        self.s.post(self.vm, "suspend")
        (kid,) = self.s.fork(self.vm, 1)
        self.assertEqual(h.on(kid).get(), "resized")
        self.s.delete(kid)

    @limit(300)
    @long
    def test_resize_at_rest(self):
        """A suspended VM gives up its memory, not what it had not yet written; the file system follows at the next boot."""
        self.assertEqual(self.s.state(self.vm), "suspended")
        self.s.sh(self.vm, "echo unsynced >/root/unsynced")
        self.s.post(self.vm, "suspend")
        self.assertEqual(self.s.post(self.vm, "resize", {"vcpuCount": 2, "rootfsSizeGb": 24}), {})
        self.assertEqual(self.s.state(self.vm), "stopped")
        self.s.post(self.vm, "start", {}, timeout=250)
        cpus, _, disk, fs = self.sizes()
        self.assertEqual((cpus, disk), (2, 24))
        self.assertGreater(fs, 23)
        self.assertEqual(self.s.sh(self.vm, "cat /root/kept /root/unsynced; ls /run/holder.pid 2>/dev/null || echo gone").split(),
                         ["kept", "unsynced", "gone"])

    def test_await_kill_and_poweroff(self):
        vm = self.s.create()
        w = Waiter(self.s, vm)
        self.s.run(vm, "setsid sh -c 'sleep 0.5; systemctl poweroff -ff' </dev/null >/dev/null 2>&1 &")
        self.assertEqual(w.end(), "exited")
        self.s.delete(vm)
        vm = self.s.create()
        w = Waiter(self.s, vm)
        self.s.sh(vm, "true")
        host.kill(self.s.qemu_of(vm), signal.SIGKILL)
        self.assertEqual(w.end(), "crashed")
        self.s.delete(vm)

    def test_drain_ends_the_waiting(self):
        w = Waiter(self.s, self.vm)
        self.s.sh(self.vm, "true")
        self.s.stop()
        self.assertEqual(w.end(), "suspended")
        self.s.start()
        self.assertEqual(self.s.state(self.vm), "suspended")


class Idle(Case):
    limit_s = 90

    def test_idle(self):
        """VMs side by side: only those that are used in the way they count stay awake."""
        ping = "setsid sh -c 'while true; do ping -c1 -W1 10.0.0.1; sleep 0.3; done' </dev/null >/dev/null 2>&1 &"
        mute, noisy, counted, uncounted = self.s.create(), self.s.create(), self.s.create(), self.s.create()
        for vm in (mute, noisy):
            self.s.sh(vm, ping)
            wait_for("it pings", lambda vm=vm: self.s.info(vm)["usage"]["networkOutBytes"] > 300, 30)
        long = threading.Thread(target=self.hold, args=(counted,), daemon=True)
        long.start()
        wait_for("its exec runs", lambda: self.s.run(counted, "test -e /run/long").code == 0, 30)
        timeout = {"idleTimeoutSeconds": 8}
        self.s.post(noisy, "start", timeout)
        self.s.post(mute, "start", {**timeout, "activityThresholdBytes": 1 << 20})  # its traffic is below that
        self.s.post(counted, "start", timeout)  # as it is without being asked for
        self.s.post(uncounted, "start", {**timeout, "countExecAsActivity": False})
        threading.Thread(target=self.poke, args=(uncounted,), daemon=True).start()
        ephemeral = self.s.create(**timeout, persistence={"type": "ephemeral"})
        on_stop = self.s.create(**timeout, persistence={"type": "ephemeral", "deleteEvent": "OnStop"})
        for name, vm in (("mute", mute), ("on_stop", on_stop)):
            wait_for(f"{name} sleeps", lambda vm=vm: self.s.state(vm) == "suspended", 60, every_s=0.5)
        wait_for("ephemeral is gone", lambda: ephemeral not in self.s.vms(), 60, every_s=0.5)
        wait_for("the one whose execs do not count was suspended", lambda: self.was_suspended(uncounted), 60, every_s=0.5)
        self.assertFalse(self.was_suspended(counted))
        self.assertEqual(self.s.state(noisy), "running")
        self.assertIsNotNone(self.s.info(noisy)["lastNetworkActivity"])
        self.s.sh(counted, "kill $(cat /run/long)")
        long.join(60)
        wait_for("counted sleeps when its exec is over", lambda: self.s.state(counted) == "suspended", 60, every_s=0.5)
        # null switches it off
        self.s.post(noisy, "start", {"idleTimeoutSeconds": None, "countExecAsActivity": True})
        info = self.s.info(noisy)
        self.assertEqual((info["idleTimeoutSeconds"], info["countExecAsActivity"]), (None, True))

    def hold(self, vm):
        self.s.run(vm, "echo $$ >/run/long; exec sleep 500", timeout_ms=100000)

    def poke(self, vm):
        while not self.was_suspended(vm):
            try:
                self.s.run(vm, "true")
            except (ApiError, OSError):
                pass  # cut off by the suspend that is waited for; what it says: tests/unit/test_api_life.c
            time.sleep(0.5)

    def was_suspended(self, vm):
        return re.search(rf"{vm}: suspended", self.s.log_text()) is not None


class AtOnce(Case):
    """Many callers on one VM: every answer is a valid one, and the final state is consistent."""
    server_env = {"PANDO_BUSY_WAIT_S": "4", "PANDO_VM_RESERVE_MB": "1024"}
    limit_s = 200
    ALLOWED = {"VM_NOT_RUNNING", "VM_DELETED", "VM_NOT_FOUND", "CONFLICT", "STILL_CREATING", "VM_IS_SUSPENDING",
               "VM_REACTIVATED", "UNAVAILABLE", "VM_EXIT_DURING_START"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vm = cls.s.create()

    @long
    def test_storm(self):
        vm = self.vm
        h = Holder(self.s, vm, "calm")
        odd, answers, made, snaps = [], [], [], []
        begin = time.monotonic()

        def enough():  # a busy machine needs longer to have done anything
            took = time.monotonic() - begin
            return took > 100 or took > 10 and sum(a == "ok" for _, a in answers) > 10

        def caller(n):
            k = n
            while not enough():
                k += 1
                verb = ("exec", "suspend", "start", "snapshot", "fork", "exec", "suspend", "exec")[k % 8]
                try:
                    if verb == "exec":
                        r = self.s.run(vm, "echo x", timeout_ms=30000)
                        if (r.out, r.code) != ("x\n", 0):
                            odd.append((verb, r.out, r.err, r.code))
                    elif verb == "fork":
                        made.extend(f["id"] for f in self.s.post(vm, "fork", {"count": 1})["forks"])
                    elif verb == "snapshot":
                        snaps.append(self.s.post(vm, "snapshot", {})["snapshotId"])
                    else:
                        self.s.post(vm, verb, {})
                    answers.append((verb, "ok"))
                except ApiError as e:
                    answers.append((verb, e.code))
                    if e.code not in self.ALLOWED or e.status >= 500 and e.code != "UNAVAILABLE":
                        odd.append((verb, str(e)))
        threads = [threading.Thread(target=caller, args=(n,)) for n in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(120)
            self.assertFalse(t.is_alive(), "a call never ended")
        self.assertEqual(odd, [])
        self.assertGreater(sum(a == "ok" for _, a in answers), 10, answers)
        self.assertEqual(h.get(), "calm")
        self.assertEqual(self.s.state(vm), "running")
        for x in made:
            self.assertEqual(h.on(x).get(), "calm")
            self.s.delete(x)
        for x in snaps:
            self.s.api("DELETE", f"/v1/vms/snapshots/{x}")

    def test_one_delete_wins(self):
        (victim,) = self.s.fork(self.vm, 1)
        answers = []

        def call(verb):
            try:
                if verb == "delete":
                    self.s.delete(victim)
                elif verb == "exec":
                    self.s.run(victim, "sleep 0.2")
                else:
                    self.s.post(victim, verb, {})
                answers.append((verb, "ok"))
            except ApiError as e:
                answers.append((verb, e.code))
        threads = [threading.Thread(target=call, args=(v,)) for v in
                   ("exec", "suspend", "fork", "delete", "snapshot", "delete", "start", "kill", "delete", "stop", "exec")]
        for t in threads:
            t.start()
        for t in threads:
            t.join(100)
        self.assertEqual(len(answers), len(threads), "a call never ended")
        self.assertLessEqual({a for _, a in answers}, self.ALLOWED | {"ok"}, answers)
        self.assertEqual(answers.count(("delete", "ok")), 1, answers)
        self.assert_gone(victim)

    def test_a_long_operation_is_not_waited_for_for_ever(self):
        """QEMU is stopped, so the suspend hangs: other callers are told why the VM is busy."""
        (vm,) = self.s.fork(self.vm, 1)
        pid = self.s.qemu_of(vm)
        host.kill(pid, signal.SIGSTOP)
        t = threading.Thread(target=lambda: self.s.request("POST", f"/v1/vms/{vm}/suspend", {}), daemon=True)
        try:
            t.start()
            wait_for("it is suspending", lambda: self.s.state(vm) == "suspending", 20)
            e = self.refused(409, "VM_IS_SUSPENDING", self.s.post, vm, "start", {})
            self.assertIn("suspending", e.message)
            self.assertEqual(self.s.info(vm)["state"], "suspending")  # looking waits for nobody
        finally:
            host.kill(pid, signal.SIGCONT)
        t.join(60)
        self.assertEqual(self.s.sh(vm, "echo back"), "back")
        self.s.delete(vm)

    def test_kill_cuts_a_start_short(self):
        (vm,) = self.s.fork(self.vm, 1)
        self.s.post(vm, "kill")
        before = set(self.s.qemu_pids())
        t = threading.Thread(target=lambda: self.s.request("POST", f"/v1/vms/{vm}/start", {}), daemon=True)
        t.start()  # a cold boot takes many seconds
        wait_for("it boots", lambda: self.s.state(vm) == "starting" and set(self.s.qemu_pids()) - before, 30)
        self.s.post(vm, "kill")
        t.join(60)
        self.assertFalse(t.is_alive())
        self.assertEqual(self.s.state(vm), "stopped")
        self.s.delete(vm)

    def test_fork_beyond_the_hosts_memory(self):
        before = set(self.s.vms())
        e = self.refused(503, "INSUFFICIENT_SWAP", self.s.post, self.vm, "fork", {"count": 100})
        self.assertIn("memory", e.message)
        self.assertEqual(set(self.s.vms()), before)
