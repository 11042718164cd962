# SPDX-License-Identifier: Apache-2.0
"""Specs: layers that are built once, what is in them, and what is known of a build that failed"""
import os
import sqlite3
import threading
import urllib.request

from case import Case, limit, long, wait_for
from test_network import mirror

BUILD_S = 400
SERVER = "import http.server; http.server.test(http.server.SimpleHTTPRequestHandler, port=8099)"

# Three layers: people and files; a command that ran once; a service that stays.
INNER = {
    "groups": [{"name": "crew", "gid": 4242}],
    "users": [{"name": "alice", "groups": ["crew"], "gecos": "Alice A"}, {"name": "daemon2", "system": True}],
    "additionalFiles": {
        "/srv/site/index.html": {"content": "built\n"},
        "/usr/local/bin/hi": {"content": "IyEvYmluL3NoCmVjaG8gaGkgIiRAIgo=", "encoding": "base64", "executable": True},
    },
    "aptDeps": ["python3", "git"],  # in the base image: needs no network
    "git": {"config": {"user": {"name": "Spec Er", "email": "spec@example.org"}}},
}
MIDDLE = {
    "workdir": "/srv/work dir",
    "systemd": {"services": [
        {"name": "first", "mode": "oneshot", "deleteAfterSuccess": True, "timeoutSec": 120, "env": {"WHAT": "a \"b\" 100%"},
         "exec": ["/bin/sh -c 'echo first says $WHAT; git init -q /srv/repo && cd /srv/repo && git commit -q --allow-empty -m one'"]},
        {"name": "second", "mode": "oneshot", "after": ["first"], "requires": ["first"], "user": "alice",
         "exec": ["/bin/sh -c 'id -un >/tmp/second; id -Gn >>/tmp/second'", "bash -c 'echo twice >>/tmp/second'"]},
    ]},
}
OUTER = {
    "git": {"repos": [{"repo": "file:///srv/repo", "path": "/srv/clone"}]},
    "systemd": {"services": [
        {"name": "web", "mode": "service", "exec": ["/bin/true", f"/usr/bin/python3 -c '{SERVER}'"], "workdir": "/srv/site",
         "requires": ["first"], "restartPolicy": {"policy": "always", "restartSec": 1}},
    ]},
}


def spec(outer=OUTER, **more):
    return {**outer, "snapshot": {**MIDDLE, "snapshot": INNER}, **more}


class Spec(Case):
    keeps_specs = True
    server_env = {"PANDO_POOL": "0", "PANDO_BLANKS": "0"}  # QEMU processes are counted
    limit_s = 420

    def make(self, **body):
        """As create, with the time that a build takes where CPUs are emulated and busy."""
        body.setdefault("idleTimeoutSeconds", None)
        return self.s.api("POST", "/v1/vms", body, timeout=BUILD_S)["id"]

    def make_snapshot(self, **body):
        return self.s.api("POST", "/v1/vms/snapshots", body, timeout=BUILD_S)["snapshotId"]

    def builds(self):
        return self.s.rows("builds")

    def logged(self, like):
        db = sqlite3.connect(os.path.join(self.s.dir, "pando.db"))
        try:
            return db.execute("SELECT COUNT(*) FROM build_logs WHERE message LIKE ?", (like,)).fetchone()[0]
        finally:
            db.close()

    def test_chain_of_three(self):
        cls = type(self)
        seen = []
        done = threading.Event()

        def look():
            while not done.wait(0.3):
                body = self.s.api("GET", "/v1/vms")
                seen.append((body["buildingCount"], [v["state"] for v in body["vms"]]))
        t = threading.Thread(target=look)
        t.start()
        try:
            cls.vm = self.make(spec=spec(), name="built", idleTimeoutSeconds=None)
        finally:
            done.set()
            t.join()
        self.assertIn((1, ["building"]), seen)
        info = self.s.info(self.vm)
        self.assertEqual((info["state"], info["name"], info["workdir"]), ("running", "built", "/srv/work dir"))
        cls.build = info["buildId"]
        self.assertRegex(self.build, "^bld-[a-z0-9]{20}$")

    def check(self, vm):
        sh = lambda c, **kw: self.s.sh(vm, c, **kw)
        self.assertEqual(sh("id -Gn alice"), "alice crew")
        self.assertEqual(sh("getent group crew | cut -d: -f3; getent passwd alice daemon2 | cut -d: -f1,5-7"),
                         "4242\nalice:Alice A:/home/alice:/bin/bash\ndaemon2::/:/usr/sbin/nologin")
        self.assertEqual(sh("whoami; pwd", user="alice"), "alice\n/srv/work dir")
        self.assertEqual(sh("hi there"), "hi there")
        self.assertEqual(sh("git config user.email"), "spec@example.org")
        self.assertEqual(sh("cat /tmp/second"), "alice\nalice crew\ntwice")
        self.assertEqual(sh("git -C /srv/clone log --format=%s"), "one")
        # it did its work and is gone; nobody waits for it after a boot
        self.assertEqual(self.s.run(vm, "ls /etc/systemd/system/first.service").code, 2)
        self.assertNotIn("first", sh("cat /etc/systemd/system/second.service /etc/systemd/system/web.service"))
        self.assertEqual(sh("systemctl is-enabled web second; systemctl is-active web"), "enabled\nenabled\nactive")
        self.assertEqual(sh("curl -s -m 20 http://127.0.0.1:8099/index.html"), "built")

    def test_what_is_in_it(self):
        self.check(self.vm)

    def test_relative_paths_begin_in_the_workdir(self):
        self.s.api("PUT", f"/v1/vms/{self.vm}/files/rel.txt", {"content": "r", "encoding": "utf8"})
        self.assertEqual(self.s.sh(self.vm, "cat '/srv/work dir/rel.txt'"), "r")
        for language, code in (("python", "import os; print(os.getcwd())"), ("bash", "pwd"), ("typescript", "console.log(process.cwd())")):
            r = self.s.post(self.vm, "code", {"language": language, "code": code})
            self.assertEqual(r["stdout"], "/srv/work dir\n", r)

    def test_build_is_recorded(self):
        b = self.s.api("GET", f"/v1/vms/builds/{self.build}")
        self.assertEqual((b["buildId"], b["state"], b["failureReason"]), (self.build, "succeeded", None))
        self.assertEqual(b, self.s.api("GET", f"/v1/vms/{self.vm}/build"))
        phases = self.s.api("GET", f"/v1/vms/builds/{self.build}/phases")["phases"]
        self.assertEqual([p["name"] for p in phases], b["plannedPhases"])
        self.assertEqual(b["plannedPhases"][:3], ["layer-1/groups", "layer-1/users", "layer-1/files"])
        self.assertRegex(phases[0]["phaseId"], "^bph-[a-z0-9]{20}$")
        self.assertEqual({p["snapshotId"] for p in phases}, {None})
        db = sqlite3.connect(os.path.join(self.s.dir, "pando.db"))
        lines = [m for (m,) in db.execute("SELECT message FROM build_logs WHERE build_id = ? ORDER BY seq", (self.build,))]
        db.close()
        self.assertIn('first says a "b" 100%', lines)
        self.assertEqual(lines[-1], "done")

    def test_second_time_is_a_thaw(self):
        before = self.builds()
        vm = self.make(spec=spec())
        self.assertEqual(self.builds(), before)
        self.assertEqual(self.s.info(vm)["buildId"], self.build)
        self.check(vm)
        self.s.delete(vm)

    def test_fork_and_snapshot_keep_the_workdir(self):
        (child,) = self.s.fork(self.vm, 1)
        made = self.s.create(snapshotId=self.s.snapshot(child))
        for vm in (child, made):
            self.assertEqual(self.s.sh(vm, "pwd"), "/srv/work dir")
            self.s.delete(vm)

    def test_two_at_once_build_once(self):
        before = self.builds()
        outer = {"additionalFiles": {"/srv/two": {"content": "2"}}}
        made, errors = [], []

        def make():
            try:
                made.append(self.make(spec=spec(outer)))
            except Exception as e:  # reported below
                errors.append(e)
        threads = [threading.Thread(target=make) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(errors, [])
        self.assertEqual(self.builds(), before + 1)
        for vm in made:
            self.assertEqual(self.s.sh(vm, "cat /srv/two"), "2")
            self.s.delete(vm)

    def test_snapshot_from_a_spec(self):
        """The same layers: nothing to build. Then a layer on top of that snapshot, by id, and once more without the cache."""
        before = self.builds()
        snap = self.make_snapshot(name="from spec", spec=spec())
        self.assertEqual(self.builds(), before)
        one = self.s.api("GET", f"/v1/vms/snapshots/{snap}")
        self.assertEqual((one["state"], one["name"], one["buildId"], one["failed"]), ("ready", "from spec", self.build, False))
        top = {"snapshotId": snap, "additionalFiles": {"/srv/top": {"content": "t\n"}}}
        vm = self.make(spec=top)
        self.assertEqual(self.s.sh(vm, "cat /srv/top; pwd; systemctl is-active web"), "t\n/srv/work dir\nactive")
        self.assertEqual(self.builds(), before + 1)
        self.s.delete(vm)
        vm = self.make(spec={**top, "skipCache": True})
        self.assertEqual(self.builds(), before + 2)
        self.s.delete(vm)
        vm = self.make(spec=top, users=[{"name": "bob"}])  # the top level is a layer too
        self.assertEqual(self.s.sh(vm, "cat /srv/top; id -un bob"), "t\nbob")
        self.s.delete(vm)

    def test_patched_service(self):
        vm = self.make(spec={
            "snapshotId": self.s.snapshot(self.vm),
            "systemd": {"patchedServices": [{"name": "web", "env": {"PATCHED": "yes"}}]}})
        self.assertIn("PATCHED=yes", self.s.sh(vm, "systemctl show -p Environment web"))
        self.assertEqual(self.s.sh(vm, "systemctl is-active web"), "active")
        self.assertIn("PATCHED=yes", self.s.sh(vm, "tr '\\0' '\\n' </proc/$(systemctl show -p MainPID --value web)/environ"))
        self.s.delete(vm)

    @long
    def test_apt_package(self):
        try:
            urllib.request.urlopen(mirror() or "", timeout=15).read(1)
        except (OSError, ValueError) as e:
            self.skipTest(f"this host itself does not reach its package mirror: {e}")
        vm = self.make(spec={"aptDeps": ["hello"]})
        self.assertIn("Hello, world!", self.s.sh(vm, "hello"))
        self.s.delete(vm)

    def test_failure_says_what_happened(self):
        bad = {"systemd": {"services": [
            {"name": "good", "mode": "service", "exec": ["/bin/sleep infinity"]},
            {"name": "broken", "mode": "oneshot", "exec": ["/bin/sh -c 'touch /srv/was-here; echo it went wrong; exit 3'"]}]}}
        e = self.refused(500, "VM_SETUP_FAILED", self.make, spec=bad)
        self.assertIn("broken", e.body["failedReason"])
        d = e.body["diagnostics"]
        self.assertIn({"activeState": "failed", "subState": "failed", "services": ["broken.service"]}, d["serviceStates"])
        self.assertIn({"activeState": "active", "subState": "running", "services": ["good.service"]}, d["serviceStates"])
        self.assertEqual([x["unitName"] for x in d["failedServiceLogs"]], ["broken.service"])
        self.assertIn("it went wrong", d["failedServiceLogs"][0]["log"])
        self.assertEqual(d["additionalFailedServiceLogs"], [])
        build = self.s.api("GET", f"/v1/vms/builds/{e.body['buildId']}")
        self.assertEqual(build["state"], "failed")
        self.assertIn("broken", build["failureReason"])
        phases = self.s.api("GET", f"/v1/vms/builds/{e.body['buildId']}/phases")["phases"]
        self.assertEqual([p["snapshotId"] for p in phases][-1], e.body["snapshotId"])
        failed = self.s.api("GET", f"/v1/vms/snapshots/{e.body['snapshotId']}")
        self.assertEqual((failed["state"], failed["failed"], failed["buildId"]), ("failed", True, e.body["buildId"]))
        self.assertEqual(self.s.api("GET", "/v1/vms/snapshots?includeFailed=false")["failedCount"], 1)
        self.assertNotIn(failed, self.s.api("GET", "/v1/vms/snapshots?includeFailed=false")["snapshots"])
        # the failed state can be started and looked at
        vm = self.s.create(snapshotId=e.body["snapshotId"])
        self.assertEqual(self.s.run(vm, "ls /srv/was-here && systemctl is-failed broken").out, "/srv/was-here\nfailed\n")
        self.s.delete(vm)
        e = self.refused(500, "SNAPSHOT_SETUP_FAILED", self.make_snapshot, name="bad", spec=bad)
        self.assertEqual(self.s.api("GET", f"/v1/vms/snapshots/{e.body['snapshotId']}")["name"], "bad")

    def test_service_that_does_not_stay(self):
        e = self.refused(500, "VM_SETUP_FAILED", self.make, spec={"systemd": {"services": [
            {"name": "flaky", "mode": "service", "exec": ["/bin/sh -c 'exit 4'"], "restartPolicy": {"policy": "always"}}]}})
        self.assertIn("flaky", e.body["failedReason"])

    def test_user_that_is_there_already(self):
        e = self.refused(409, "USER_ALREADY_EXISTS", self.make, spec={"users": [{"name": "daemon"}]})
        self.assertEqual(e.body["userName"], "daemon")

    def test_delete_ends_a_build(self):
        slow = {"systemd": {"services": [{"name": "slow", "mode": "oneshot", "exec": ["/bin/sleep 200"]}]}}
        errors = []

        def make():
            try:
                self.make(spec=slow)
            except Exception as e:  # looked at below
                errors.append(e)
        t = threading.Thread(target=make)
        t.start()

        def building():
            return next((v["id"] for v in self.s.api("GET", "/v1/vms")["vms"] if v["state"] == "building"), None)
        vm = wait_for("the VM is building", building, 60)
        wait_for("its service is being started", lambda: self.logged("Starting slow.service%"), 120)
        self.refused(409, "STILL_CREATING", self.s.run, vm, "true")
        self.s.delete(vm)
        t.join(60)
        self.assertFalse(t.is_alive(), "the build went on")
        self.assertEqual(errors[0].code, "VM_DELETED")
        self.assertIsNone(building())

    @long
    @limit(300)
    def test_another_size(self):
        vm = self.make(spec={"vcpuCount": 1, "memSizeGb": 0.5, "rootfsSizeGb": 24})
        self.assertEqual(self.s.info(vm)["sizing"], {"vcpuCount": 1, "memSizeMib": 512, "rootfsSizeMb": 24576})
        self.assertEqual(self.s.sh(vm, "nproc"), "1")
        self.assertLess(int(self.s.sh(vm, "awk '/MemTotal/ {print $2}' /proc/meminfo")), 520000)
        self.assertGreater(int(self.s.sh(vm, "df --output=size -BM / | tail -1").strip("M ")), 23000)
        before = self.builds()
        again = self.make(template={"vcpuCount": 1, "memSizeGb": 0.5, "rootfsSizeGb": 24})
        self.assertEqual(self.builds(), before)
        for one in (vm, again):
            self.s.delete(one)

    def begin_slow_snapshot(self):
        """(thread, what it will know, snapshot id): its build runs and would take minutes."""
        slow = {"systemd": {"services": [{"name": "slow", "mode": "oneshot", "exec": ["/bin/sleep 200"]}]}}
        errors = []

        def make():
            try:
                self.make_snapshot(name="slow", spec=slow)
            except Exception as e:  # for whoever began it
                errors.append(e)
        t = threading.Thread(target=make)
        t.start()

        def building():
            return next((x for x in self.s.api("GET", "/v1/vms/snapshots")["snapshots"] if x["state"] == "building"), None)
        snap = wait_for("the snapshot is building", building, 60)["snapshotId"]
        wait_for("its VM runs", lambda: len(self.s.qemu_pids()) > len(self.s.vms()), 60)
        return t, errors, snap

    def test_deleted_in_the_middle(self):
        """A snapshot that is being built has a build to look at, can be renamed, and its deletion ends the build."""
        t, errors, snap = self.begin_slow_snapshot()
        build = self.s.api("GET", f"/v1/vms/snapshots/{snap}")["buildId"]
        self.assertEqual(self.s.api("GET", f"/v1/vms/builds/{build}")["state"], "running")
        self.refused(409, "SOURCE_SNAPSHOT_BUILDING", self.s.create, snapshotId=snap)
        self.s.api("PATCH", f"/v1/vms/snapshots/{snap}", {"name": "other"})
        self.assertNotIn(snap, [x["snapshotId"] for x in self.s.api("GET", "/v1/vms/snapshots?includeBuilding=false")["snapshots"]])
        self.s.api("DELETE", f"/v1/vms/snapshots/{snap}")
        t.join(60)
        self.assertFalse(t.is_alive(), "the build went on")
        self.assertEqual((errors[0].status, errors[0].code), (409, "SOURCE_SNAPSHOT_CANCELLED"), errors)
        self.assertEqual(errors[0].body["snapshotId"], snap)
        wait_for("its VM is gone", lambda: len(self.s.qemu_pids()) == len(self.s.vms()), 60)
        self.assertEqual(self.s.api("GET", f"/v1/vms/builds/{build}")["state"], "failed")
        one = self.s.api("GET", f"/v1/vms/snapshots/{snap}")
        self.assertEqual((one["deleted"], one["name"]), (True, "other"))

    def test_killed_in_the_middle(self):
        """Nothing of a build is left when the server dies in it; its record says so."""
        t, _, snap = self.begin_slow_snapshot()
        self.s.kill9_pandod()
        t.join(30)
        self.s.wait_ready()
        one = self.s.api("GET", f"/v1/vms/snapshots/{snap}")
        self.assertEqual((one["state"], one["failed"]), ("failed", True))
        self.assertIn("server stopped", one["failureReason"])
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.create, snapshotId=snap)
        wait_for("its VM is gone", lambda: len(self.s.qemu_pids()) == len(self.s.vms()), 60)
