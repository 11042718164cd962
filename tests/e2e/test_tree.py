# SPDX-License-Identifier: Apache-2.0
"""The tree: its shape, rewind, diff; services and terminals of a VM"""
import os
import signal
import threading
from http.client import HTTPException
from urllib.parse import urlencode

import host
from case import Case, Holder, wait_for


class Tree(Case):
    limit_s = 150
    server_env = {"PANDO_LOG": "debug"}  # says when a machine is thawed as the hidden machine

    def tree(self, vm=None):
        body = self.s.api("GET", f"/v1/vms/{vm}/tree" if vm else "/v1/tree")
        return {n["id"]: n for n in body["nodes"]}, body

    def diff(self, vm, other, **query):
        return self.s.api("GET", f"/v1/vms/{vm}/diff?" + urlencode({"with": other, **query}))

    def changes(self, vm, other, **query):
        body = self.diff(vm, other, **query)
        self.assertIsNone(body["cursor"])
        return {c["path"]: c for c in body["changes"]}

    def set_all(self, value):
        """In memory, in shared memory, on disk."""
        self.h.set(value)
        self.s.sh(self.vm, f"echo {value} >/dev/shm/word; echo {value} >/root/word; sync")

    def get_all(self, vm=None):
        vm = vm or self.vm
        return [self.h.on(vm).get(), *self.s.sh(vm, "cat /dev/shm/word /root/word").split()]

    def assert_only_vms_run(self):
        """No process but those of running VMs and those that wait for one."""
        def so():
            running = sum(v["state"] == "running" for v in self.s.vms().values())
            return len(self.s.qemu_pids()) <= running + int(self.s.env["PANDO_BLANKS"])
        wait_for("hidden machines are gone", so, 30)

    def test_a_checkpoint(self):
        """A VM that is frozen every so often, and whose process ends: back to the newest one, on request."""
        vm = self.s.create(checkpointEverySeconds=10)
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.post, vm, "rewind", {"snapshotId": None})
        h = Holder(self.s, vm, "inmemory")
        points = {n["id"] for n in self.tree()[0].values() if n["type"] == "point"}
        wait_for("a checkpoint is made", lambda: {n["id"] for n in self.tree()[0].values() if n["type"] == "point"} - points, 30)
        host.kill(self.s.qemu_of(vm), signal.SIGKILL)
        wait_for("it has crashed", lambda: self.s.state(vm) == "stopped", 30)
        self.s.api("PATCH", f"/v1/vms/{vm}", {"name": "was"})
        self.assertEqual(self.s.post(vm, "rewind", {"snapshotId": None, "keep": False})["state"], "suspended")
        self.assertEqual(h.get(), "inmemory")
        self.s.delete(vm)

    # ---- the tree ----

    def test_a_family(self):
        cls = type(self)
        cls.vm = self.s.create(name="root-vm")
        cls.h = Holder(self.s, self.vm, "first")
        self.set_all("first")
        cls.s1 = self.s.snapshot(self.vm, name="one")
        self.set_all("second")
        cls.s2 = self.s.snapshot(self.vm, name="two")
        (cls.child,) = self.s.fork(self.vm)
        (cls.grand,) = self.s.fork(self.child)

        nodes, body = self.tree()
        by_snap = {n["snapshotId"]: n for n in nodes.values() if n["type"] == "point" and n["snapshotId"]}
        one, two = by_snap[self.s1], by_snap[self.s2]
        self.assertEqual((one["kind"], one["name"], two["name"]), ("snapshot", "one", "two"))
        template = nodes[one["parent"]]
        self.assertEqual((template["kind"], template["shared"], template["parent"]), ("template", True, None))
        self.assertEqual(body["roots"], [template["id"]])
        self.assertEqual(two["parent"], one["id"])
        fork1 = nodes[nodes[self.vm]["parent"]]
        fork2 = nodes[nodes[self.grand]["parent"]]
        self.assertEqual((fork1["kind"], fork1["parent"], fork1["sourceVmId"]), ("fork", two["id"], self.vm))
        self.assertEqual((fork2["kind"], fork2["parent"]), ("fork", fork1["id"]))
        self.assertEqual(nodes[self.child]["parent"], fork2["id"], "a parent goes on from the fork's point")
        self.assertEqual((nodes[self.child]["parentVmId"], nodes[self.grand]["parentVmId"]), (self.vm, self.child))
        self.assertEqual((nodes[self.vm]["state"], nodes[self.vm]["name"]), ("running", "root-vm"))
        for n in nodes.values():
            self.assertRegex(n["createdAt"], r"^\d{4}-.*Z$")
            for part in ("memory", "disk"):
                self.assertGreaterEqual(min(n[part]["ownBytes"], n[part]["sharedBytes"]), 0)
        self.assertGreater(one["memory"]["ownBytes"], 0)
        self.assertGreater(one["memory"]["sharedBytes"], one["memory"]["ownBytes"], "the template's memory is shared")
        self.assertGreater(nodes[self.vm]["disk"]["ownBytes"], 0)
        self.assertGreater(body["totals"]["diskBytes"], nodes[self.vm]["disk"]["ownBytes"])
        # getInfo and list name the parent too
        self.assertEqual(self.s.info(self.child)["parentVmId"], self.vm)
        self.assertEqual(self.s.vms()[self.grand]["parentVmId"], self.child)

    def test_family_of_one(self):
        stranger = self.s.create()
        nodes, _ = self.tree(self.grand)
        self.assertIn(self.vm, nodes)
        self.assertNotIn(stranger, nodes, "only the template is common")
        other, _ = self.tree(stranger)
        self.assertEqual([n["kind"] for n in other.values()], ["template", "vm"])
        self.refused(400, "INVALID_SNAPSHOT_ID", self.s.post, stranger, "rewind", {"snapshotId": self.s1})
        self.s.delete(stranger)
        self.refused(404, "VM_NOT_FOUND", self.s.api, "GET", f"/v1/vms/{stranger}/tree")

    def test_strangers_see_nothing(self):
        account = self.s.api("POST", "/v1/accounts", {"name": "stranger"})["id"]
        key = self.s.api("POST", f"/v1/keys?accountId={account}", {"name": "k"})["key"]
        self.assertEqual(self.s.api("GET", "/v1/tree", key=key)["nodes"], [])
        theirs = self.s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None}, key=key)["id"]
        nodes = self.s.api("GET", "/v1/tree", key=key)["nodes"]
        self.assertEqual([n["kind"] for n in nodes], ["template", "vm"])
        for verb, path, body in (("GET", f"{self.vm}/tree", None), ("POST", f"{self.vm}/rewind", {"snapshotId": self.s1}),
                                 ("GET", f"{self.vm}/diff?with={theirs}", None), ("GET", f"{theirs}/diff?with={self.vm}", None),
                                 ("GET", f"{self.vm}/systemd/services", None), ("GET", f"{self.vm}/terminals", None)):
            with self.subTest(path=path):
                self.refused(404, "VM_NOT_FOUND", self.s.api, verb, f"/v1/vms/{path}", body, key=key)
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.post, theirs, "rewind", {"snapshotId": self.s1}, key=key)
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.api, "GET", f"/v1/vms/{theirs}/diff?with={self.s1}", key=key)
        self.assertNotIn(theirs, self.tree()[0])
        self.s.api("DELETE", f"/v1/vms/{theirs}", key=key)

    # ---- diff ----

    def test_diff_between_forks(self):
        self.s.sh(self.child, "mkdir /srv/d && echo new >/srv/d/new && echo 111 >/etc/motd && rm /root/word && "
                              "touch /etc/hosts && cp -p /etc/passwd /tmp/x && mv /etc/debian_version /etc/dv && "
                              "ln -s dv /etc/debian_version && printf '\\377' >\"/srv/d/$(printf 'bad\\377')\"")
        got = self.changes(self.child, self.grand, ignore="/proc,/sys,/dev,/run,/tmp,/usr,/var")
        kinds = {p: c["change"] for p, c in got.items() if p.startswith(("/srv", "/etc", "/root", "/tmp"))}
        self.assertEqual(kinds, {"/srv/d": "added", "/srv/d/new": "added", "/srv/d/bad\ufffd": "added",
                                 "/etc/motd": "modified", "/root/word": "removed", "/etc/dv": "added",
                                 "/etc/debian_version": "type"})
        self.assertEqual((got["/etc/motd"]["size"], got["/etc/motd"]["kind"]), (4, "file"))
        self.assertEqual((got["/root/word"]["size"], got["/root/word"]["otherSize"]), (None, 7))
        back = self.changes(self.grand, self.child, path="/srv")
        self.assertEqual({c["change"] for c in back.values()}, {"removed"})
        self.assertEqual(len(back), 3)
        same = self.changes(self.child, self.grand, path="/usr/sbin")
        self.assertEqual(same, {})
        self.assertIn("/tmp/x", self.changes(self.child, self.grand, ignore="/proc,/var", path="/tmp"))

    def test_diff_in_pages(self):
        whole = list(self.changes(self.child, self.grand, path="/srv"))
        pages, cursor = [], None
        for _ in range(10):
            body = self.diff(self.child, self.grand, path="/srv", limit=1, **({"cursor": cursor} if cursor else {}))
            pages += [c["path"] for c in body["changes"]]
            cursor = body["cursor"]
            if not cursor:
                break
        self.assertEqual((pages, cursor), (whole, None))

    def test_diff_same_size_same_time(self):
        """Contents are compared, not times."""
        self.s.sh(self.child, "echo aaaa >/srv/same && touch -d 2020-01-01 /srv/same")
        self.s.sh(self.grand, "echo bbbb >/srv/same && touch -d 2020-01-01 /srv/same")
        self.assertEqual(self.changes(self.child, self.grand, path="/srv/same")["/srv/same"]["change"], "modified")
        self.s.sh(self.grand, "echo aaaa >/srv/same")
        self.assertEqual(self.changes(self.child, self.grand, path="/srv/same"), {})

    def test_diff_with_a_snapshot(self):
        """Thawed as a hidden machine, and nothing of it is left."""
        self.s.sh(self.vm, "echo since >/srv/since")
        before = self.s.vms()
        got = self.changes(self.vm, self.s1, path="/srv")
        self.assertEqual({p: c["change"] for p, c in got.items()}, {"/srv/since": "added"})
        self.assertEqual(self.changes(self.vm, self.s1, path="/root")["/root/word"]["change"], "modified")
        self.assertEqual(set(self.s.vms()), set(before))
        self.assert_only_vms_run()

    def test_diff_does_not_wake(self):
        self.s.post(self.child, "suspend")
        got = self.changes(self.child, self.grand, path="/srv/d")
        self.assertEqual({c["change"] for c in got.values()}, {"added"})
        self.assertEqual(self.s.state(self.child), "suspended")

    def test_crash_in_a_diff(self):
        """pandod dies while there is a hidden machine: it never shows up, and is removed."""
        seen, before = self.s.log_text().count("thawed as the hidden machine"), self.s.vms()
        t = threading.Thread(target=lambda: self.cut_off(self.diff, self.vm, self.s1, path="/usr"))
        t.start()
        wait_for("a hidden machine", lambda: self.s.log_text().count("thawed as the hidden machine") > seen, 60, every_s=0.02)
        self.s.kill9_pandod()
        t.join(60)
        self.assertEqual({v: i["state"] for v, i in self.s.vms().items()}, {v: i["state"] for v, i in before.items()})
        self.assert_only_vms_run()
        self.assertEqual(self.changes(self.vm, self.s1, path="/srv")["/srv/since"]["change"], "added")

    def cut_off(self, call, *args, **kw):
        with self.assertRaises((OSError, HTTPException)):
            call(*args, **kw)

    def test_diff_refusals(self):
        url = f"/v1/vms/{self.vm}/diff"
        self.refused(400, "INVALID_PARAMETERS", self.s.api, "GET", url)
        self.refused(400, "INVALID_PARAMETERS", self.s.api, "GET", f"{url}?with={self.vm}")
        self.refused(404, "VM_NOT_FOUND", self.s.api, "GET", f"{url}?with=aaaaaaaaaaaaaaaaaaaa")
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.api, "GET", f"{url}?with=sc-aaaaaaaaaaaaaaaaaaaa")
        for bad in ("cursor=zz", "cursor=2f00", "path=etc", "path=/a/../b", "limit=10001", "ignore=rel", "with=/etc"):
            with self.subTest(bad=bad):
                q = bad if bad.startswith("with") else f"with={self.child}&{bad}"
                self.refused(400, "INVALID_PARAMETERS", self.s.api, "GET", f"{url}?{q}")

    # ---- rewind ----

    def test_rewind_while_it_runs(self):
        self.set_all("third")
        self.s.sh(self.vm, "echo leftover >/root/leftover; sync")
        info = self.s.info(self.vm)
        r = self.s.post(self.vm, "rewind", {"snapshotId": self.s1})
        self.assertEqual((r["state"], r["snapshotId"]), ("running", self.s1))
        self.assertNotEqual(r["vmInstanceId"], info["vmInstanceId"])
        self.assertEqual(self.get_all(), ["first"] * 3)
        self.assertEqual(self.s.run(self.vm, "cat /root/leftover").code, 1)
        self.assert_clock(self.vm)
        after = self.s.info(self.vm)
        self.assertEqual((after["name"], after["createdAt"]), (info["name"], info["createdAt"]))
        # what it was is not lost
        type(self).kept = r["previousSnapshotId"]
        self.assertRegex(self.kept, r"^sc-[a-z0-9]{20}$")
        nodes, _ = self.tree(self.vm)
        self.assertEqual(nodes[nodes[self.vm]["parent"]]["snapshotId"], self.s1)
        # ... and can be gone back to, although it is no ancestor any more
        self.s.post(self.vm, "rewind", {"snapshotId": self.kept, "keep": False})
        self.assertEqual(self.get_all(), ["third"] * 3)
        self.s.post(self.vm, "rewind", {"snapshotId": self.s1, "keep": False})
        self.assertEqual(self.get_all(), ["first"] * 3)
        made = self.s.create(snapshotId=self.kept)
        # what another VM was is not its past
        other = self.s.snapshot(made)
        self.refused(400, "INVALID_SNAPSHOT_ID", self.s.post, self.vm, "rewind", {"snapshotId": other})
        self.s.api("DELETE", f"/v1/vms/snapshots/{other}")
        self.assertEqual(self.get_all(made), ["third"] * 3)
        self.s.post(made, "rewind", {"snapshotId": self.s2, "keep": False})
        self.assertEqual(self.get_all(made), ["second"] * 3)
        self.s.delete(made)

    def test_rewind_cuts_off_commands(self):
        got = []

        def run():
            got.append(self.s.request("POST", f"/v1/vms/{self.vm}/exec-await",
                                      {"command": "touch /run/go; sleep 60", "terminal": None, "timeoutMs": 90000}))
        t = threading.Thread(target=run)
        t.start()
        wait_for("the command runs", lambda: self.s.run(self.vm, "test -e /run/go").code == 0, 30)
        r = self.s.post(self.vm, "rewind", {"snapshotId": self.s1, "keep": False})
        self.assertIsNone(r["previousSnapshotId"])
        t.join(30)
        self.assertEqual((got[0][0], got[0][1]["code"]), (400, "VM_NOT_RUNNING"))
        self.assertEqual(self.s.run(self.vm, "test -e /run/go").code, 1)

    def test_rewind_while_it_sleeps(self):
        self.set_all("fourth")
        self.s.post(self.vm, "suspend")
        r = self.s.post(self.vm, "rewind", {"snapshotId": self.s1})
        self.assertEqual((r["state"], self.s.state(self.vm)), ("suspended", "suspended"))
        self.assertEqual(self.get_all(), ["first"] * 3)
        made = self.s.create(snapshotId=r["previousSnapshotId"])
        self.assertEqual(self.get_all(made), ["fourth"] * 3)
        self.s.delete(made)

    def test_rewind_when_stopped(self):
        self.s.sh(self.vm, "echo gone >/root/word; sync")
        self.s.post(self.vm, "kill")
        r = self.s.post(self.vm, "rewind", {"snapshotId": self.s1, "keep": False})
        self.assertEqual(r["state"], "suspended")
        self.assertEqual(self.get_all(), ["first"] * 3)

    def test_failed_rewind_changes_nothing(self):
        """The snapshot is damaged: the VM stays unchanged, running or suspended."""
        snap = self.s.snapshot(self.vm, name="damaged")
        nodes, _ = self.tree(self.vm)
        (point,) = [n["id"] for n in nodes.values() if n.get("snapshotId") == snap]
        with open(os.path.join(self.s.dir, "points", f"{point}.state"), "r+b") as f:
            f.truncate(100)
        self.set_all("untouched")
        before, snaps = self.s.info(self.vm), self.snapshots()
        e = self.refused(409, "SOURCE_SNAPSHOT_LOST", self.s.post, self.vm, "rewind", {"snapshotId": snap})
        self.assertEqual(e.body["snapshotId"], snap)
        after = self.s.info(self.vm)
        self.assertEqual([after[k] for k in ("state", "vmInstanceId")], [before[k] for k in ("state", "vmInstanceId")])
        self.assertEqual(self.get_all(), ["untouched"] * 3)
        self.s.post(self.vm, "suspend")
        self.refused(409, "SOURCE_SNAPSHOT_LOST", self.s.post, self.vm, "rewind", {"snapshotId": snap})
        self.assertEqual((self.s.state(self.vm), self.snapshots()), ("suspended", snaps))
        self.assertEqual(self.get_all(), ["untouched"] * 3)
        self.assert_only_vms_run()
        self.s.api("DELETE", f"/v1/vms/snapshots/{snap}")
        self.s.post(self.vm, "rewind", {"snapshotId": self.s1, "keep": False})

    def snapshots(self):
        return {n["snapshotId"] for n in self.s.api("GET", "/v1/vms/snapshots")["snapshots"]}

    def test_rewind_refusals(self):
        vm = self.vm
        self.refused(400, "BAD_REQUEST", self.s.post, vm, "rewind", {})
        self.refused(400, "BAD_REQUEST", self.s.post, vm, "rewind", {"snapshotId": 7})
        self.refused(400, "INVALID_SNAPSHOT_ID", self.s.post, vm, "rewind", {"snapshotId": "../x"})
        self.refused(404, "SNAPSHOT_NOT_FOUND", self.s.post, vm, "rewind", {"snapshotId": "sc-aaaaaaaaaaaaaaaaaaaa"})
        self.assertEqual(self.s.state(vm), "running")
        self.assertEqual(self.get_all(), ["first"] * 3)

    def test_lines_outlive_points(self):
        """A deleted snapshot is skipped: its children get its parent."""
        self.s.api("DELETE", f"/v1/vms/snapshots/{self.s2}")
        self.s.delete(self.child)
        self.s.delete(self.grand)

        def mended():
            nodes, _ = self.tree()
            kept = [n for n in nodes.values() if n.get("snapshotId") == self.kept]
            return kept and nodes[kept[0]["parent"]].get("snapshotId") == self.s1
        wait_for("the point in between is gone", mended, 30)
        self.refused(410, "SOURCE_SNAPSHOT_DELETED", self.s.post, self.vm, "rewind", {"snapshotId": self.s2})

    # ---- services and terminals ----

    def test_service(self):
        """What the SDK's own tests do not see; few calls, because systemctl is slow where it is emulated."""
        url = f"/v1/vms/{self.vm}/systemd"
        spec = {"name": "greeter", "mode": "service", "exec": ["/bin/true", "/bin/sh -c 'echo hello $WHO; exec sleep 1000'"],
                "env": {"WHO": "it's \"100%\""}, "workdir": "/srv"}
        r = self.s.api("POST", f"{url}/services", spec)
        self.assertEqual((r["success"], r["serviceName"]), (True, "greeter"), r)
        wait_for("its output is in the journal", lambda: any(
            line["message"] == "hello it's \"100%\"" for line in
            self.s.api("GET", f"{url}/services/greeter.service/logs?lines=50&since=-1h")["logs"]), 30)
        self.s.sh(self.vm, "id alice || useradd -m alice")
        as_alice = {"X-Freestyle-Vm-Linux-User-Id": "alice"}
        r = self.s.api("POST", f"{url}/stop", {"services": [{"id": "greeter"}]}, headers=as_alice)
        self.assertFalse(r["results"][0]["success"])
        self.refused(403, "FORBIDDEN", self.s.api, "POST", f"{url}/services", {**spec, "name": "other"}, headers=as_alice)
        self.refused(403, "FORBIDDEN", self.s.api, "DELETE", f"{url}/services/greeter", headers=as_alice)
        self.refused(403, "FORBIDDEN", self.s.api, "GET", f"{url}/services/greeter/logs", headers=as_alice)
        self.s.api("DELETE", f"{url}/services/greeter")
        self.refused(404, "SERVICE_NOT_FOUND", self.s.api, "GET", f"{url}/services/neverwas/logs")
        self.refused(403, "FORBIDDEN", self.s.api, "DELETE", f"{url}/services/systemd-journald")
        self.refused(400, "INVALID_PARAMETERS", self.s.api, "GET", f"{url}/services/greeter/logs?since=whenever")
        self.refused(400, "SERVICE_NAME_INVALID_CHARS", self.s.api, "GET", f"{url}/services/a%3Breboot/status")

    def test_service_once(self):
        url = f"/v1/vms/{self.vm}/systemd"
        r = self.s.api("POST", f"{url}/services", {"name": "once", "mode": "oneshot", "deleteAfterSuccess": True,
                                                   "exec": ["/bin/sh -c 'echo a >/srv/once'", "/bin/sh -c 'echo b >>/srv/once'"]})
        self.assertTrue(r["success"], r)
        self.assertEqual(self.s.sh(self.vm, "cat /srv/once; ls /etc/systemd/system | grep -c once; true").split(), ["a", "b", "0"])

    def test_terminals(self):
        vm, url = self.vm, f"/v1/vms/{self.vm}/terminals"
        for n in (1, 2):
            self.s.post(vm, "exec-await", {"command": f"echo line{n}; printf '\\033[31mred\\033[0m\\n' >&2; "
                                                      "(sleep 0.3; echo late) &", "terminal": "dev"})
        (one,) = self.s.api("GET", url)["terminals"]
        self.assertEqual(one["name"], "dev")

        def lines(v=vm):
            return [x["line"] for x in self.s.api("GET", f"/v1/vms/{v}/terminals/dev/logs")["logs"]]
        wait_for("what came late is there too", lambda: lines().count("late") == 2, 30)
        self.assertEqual(sorted(lines()), sorted(["line1", "red", "late", "line2", "red", "late"]))
        self.assertIn("\x1b[31mred\x1b[0m\r\n", self.s.api("GET", f"{url}/dev/xterm-256color")["output"])
        # another user has terminals of their own, whatever their names
        self.s.sh(vm, "id alice || useradd -m alice")
        as_alice = {"X-Freestyle-Vm-Linux-User-Id": "alice"}
        self.assertEqual(self.s.api("GET", url, headers=as_alice)["terminals"], [])
        self.refused(404, "SESSION_NOT_FOUND", self.s.api, "GET", f"{url}/dev/logs", headers=as_alice)
        self.s.post(vm, "exec-await", {"command": "echo hers", "terminal": "dev"}, headers=as_alice)
        self.assertEqual([x["line"] for x in self.s.api("GET", f"{url}/dev/logs", headers=as_alice)["logs"]], ["hers"])
        (fork,) = self.s.fork(vm)
        self.assertEqual(lines(fork), lines(), "a fork has them as well")
        self.s.delete(fork)
        self.refused(404, "SESSION_NOT_FOUND", self.s.api, "GET", f"{url}/none/logs")
        self.refused(400, "BAD_REQUEST", self.s.post, vm, "exec-await", {"command": "true", "terminal": "a/b"})
