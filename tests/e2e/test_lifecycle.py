# SPDX-License-Identifier: Apache-2.0
"""The life of one VM: create, exec, files, suspend and wake, stop and cold boot, kill, delete"""
import base64
import os
import threading
import urllib.parse

from case import AS_MAKE_RUN, Case, Holder, is_vm_id, limit, wait_for


def file_path(vm, path):
    return f"/v1/vms/{vm}/files/{urllib.parse.quote(path, safe='')}"


class Lifecycle(Case):
    server_env = AS_MAKE_RUN
    def test_create(self):
        body = self.s.api("POST", "/v1/vms", {"name": "first", "idleTimeoutSeconds": None})
        type(self).vm = body["id"]
        self.assertTrue(is_vm_id(self.vm), self.vm)
        self.assertIsInstance(body["domains"], list)
        info = self.s.info(self.vm)
        self.assertEqual((info["id"], info["state"], info["name"]), (self.vm, "running", "first"))
        listed = self.s.vms()[self.vm]
        self.assertEqual(listed["state"], "running")
        self.assertEqual(listed["sizing"]["vcpuCount"], 2)
        self.assertEqual(listed["sizing"]["memSizeMib"], 1024)

    def test_unknown_members_are_tolerated(self):
        vm = self.s.create(somethingNew={"a": [1, 2]})
        self.s.delete(vm)

    def test_guest_is_sane(self):
        self.assertEqual(self.s.sh(self.vm, "systemctl is-system-running"), "running")
        self.assertEqual(self.s.sh(self.vm, "nproc"), "2")
        self.assertEqual(self.s.sh(self.vm, "id -un; pwd; ps -o comm= -p 1").split(), ["root", "/", "systemd"])
        self.assert_clock(self.vm)

    def test_an_init_script_is_a_service(self):
        """Some packages bring nothing else."""
        script = ("#!/bin/sh\n### BEGIN INIT INFO\n# Provides: old\n# Default-Start: 2 3 4 5\n# Default-Stop: 0 1 6\n### END INIT INFO\n"
                  "[ $1 = start ] && touch /run/the-old-way\nexit 0\n")
        self.s.sh(self.vm, f"cat >/etc/init.d/old <<'E'\n{script}E\nchmod +x /etc/init.d/old && systemctl daemon-reload && systemctl start old")
        self.assertEqual(self.s.sh(self.vm, "ls /run/the-old-way; systemctl is-active old").split(), ["/run/the-old-way", "active"])
        self.s.sh(self.vm, "systemctl stop old; rm /etc/init.d/old && systemctl daemon-reload")

    def test_exec_streams_and_codes(self):
        r = self.s.run(self.vm, "echo out; echo err >&2; exit 7")
        self.assertEqual((r.out, r.err, r.code), ("out\n", "err\n", 7))
        self.assertEqual(self.s.run(self.vm, "kill -9 $$").code, 137)
        self.assertEqual(self.s.run(self.vm, "no-such-program").code, 127)
        self.assertEqual(self.s.run(self.vm, "set -e\nx=$(cat <<'E'\na \"b\" $c\nE\n)\nprintf %s \"$x\"").out, 'a "b" $c')

    def test_exec_large_output(self):
        r = self.s.run(self.vm, "head -c 3000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero | tr '\\0' y >&2")
        self.assertEqual((len(r.out), len(r.err), r.code), (3000000, 1000000, 0))

    def test_exec_output_that_is_no_text(self):
        r = self.s.run(self.vm, r"printf 'a\377\000b'")
        self.assertEqual(r.code, 0)
        self.assertTrue(r.out.startswith("a") and r.out.endswith("b"))

    def test_exec_timeout_returns_what_there_was(self):
        e = self.refused(408, "EXEC_TIMED_OUT", self.s.run, self.vm,
                         "echo before; sleep 987 & sleep 988", timeout_ms=1500)
        self.assertEqual(e.body["stdout"], "before\n")
        self.assertEqual(e.body["timeoutMs"], 1500)
        # the whole process group is gone
        self.assertEqual(self.s.run(self.vm, "pgrep -f 'sleep 98[78]'").code, 1)

    def test_exec_leaves_the_background_alone(self):
        self.s.sh(self.vm, "setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >/run/bg.pid")
        self.s.sh(self.vm, "kill $(cat /run/bg.pid)")

    def test_exec_as_user(self):
        self.s.sh(self.vm, "useradd -m alice")
        self.assertEqual(self.s.sh(self.vm, "id -un", user="alice"), "alice")
        self.assertNotEqual(self.s.run(self.vm, "cat /etc/shadow", user="alice").code, 0)
        status, body = self.s.request("POST", f"/v1/vms/{self.vm}/exec-await", {"command": "true"},
                                      headers={"X-Freestyle-Vm-Linux-User-Id": "nobody-knows"})
        self.assertTrue(400 <= status < 500 and body["code"], body)

    def test_execs_side_by_side(self):
        out = []

        def one(n):  # each waits for all others
            out.append(self.s.sh(self.vm, f"touch /run/side{n}; until [ -e /run/side0 -a -e /run/side1 -a -e /run/side2 -a -e /run/side3 ]; "
                                          f"do sleep 0.1; done; echo {n}"))
        threads = [threading.Thread(target=one, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(200)
        self.assertEqual(sorted(out), ["0", "1", "2", "3"])

    @limit(60)
    def test_python(self):
        self.assertEqual(self.s.sh(self.vm, "python3 -c 'print(sum(range(10)))'"), "45")
        self.assertEqual(self.s.sh(self.vm, "node -e 'console.log(6*7)'"), "42")

    def test_files(self):
        data = os.urandom(3 << 20)
        path = "/root/a b/c;d'é.bin"
        self.s.sh(self.vm, "mkdir -p '/root/a b'")
        self.s.api("PUT", file_path(self.vm, path), {"content": base64.b64encode(data).decode(), "encoding": "base64"})
        got = self.s.api("GET", file_path(self.vm, path))
        self.assertEqual(got["encoding"], "base64")
        self.assertEqual(base64.b64decode(got["content"]), data)
        self.s.api("PUT", file_path(self.vm, "/root/a b/empty"), {"content": "", "encoding": "base64"})
        self.assertEqual(self.s.api("GET", file_path(self.vm, "/root/a b/empty"))["content"], "")
        files = self.s.api("GET", file_path(self.vm, "/root/a b"))["files"]
        self.assertEqual(sorted((f["name"], f["kind"]) for f in files), [("c;d'é.bin", "file"), ("empty", "file")])
        self.s.api("PUT", file_path(self.vm, "/root/t.txt"), {"content": "héllo\n", "encoding": "utf8"})
        self.assertEqual(self.s.sh(self.vm, "cat /root/t.txt"), "héllo")

    def test_files_refused(self):
        self.refused(404, "FILE_NOT_FOUND", self.s.api, "GET", file_path(self.vm, "/no/such/file"))
        self.refused(400, "FILES_BAD_REQUEST", self.s.api, "PUT", file_path(self.vm, "/root/x"),
                     {"content": "***", "encoding": "base64"})
        status, body = self.s.request("PUT", file_path(self.vm, "/root"), {"content": "", "encoding": "utf8"})
        self.assertTrue(400 <= status < 500 and body["code"], body)

    def test_suspend_and_wake(self):
        h = Holder(self.s, self.vm, "kept")
        pid, boot = h.pid(), self.s.sh(self.vm, "cat /proc/sys/kernel/random/boot_id")
        qemu = self.s.qemu_of(self.vm)
        body = self.s.post(self.vm, "suspend")
        self.assertEqual(body["id"], self.vm)
        self.assertTrue(body["vmInstanceId"] and body["snapshotLayerId"])
        self.assertEqual(self.s.state(self.vm), "suspended")
        wait_for("its QEMU is gone", lambda: qemu not in self.s.qemu_pids(), 10)
        self.s.post(self.vm, "suspend")  # once more is fine
        self.assertEqual(self.s.state(self.vm), "suspended")
        # any use wakes it, memory and processes as they were
        self.assertEqual(h.get(), "kept")
        self.assertEqual(self.s.state(self.vm), "running")
        self.assertEqual(h.pid(), pid)
        self.assertEqual(self.s.sh(self.vm, "cat /proc/sys/kernel/random/boot_id"), boot)
        self.assert_clock(self.vm)

    def test_start_wakes_too(self):
        self.s.post(self.vm, "suspend")
        self.assertEqual(self.s.post(self.vm, "start", {})["id"], self.vm)
        self.assertEqual(self.s.state(self.vm), "running")
        self.assertEqual(self.s.post(self.vm, "start", {})["id"], self.vm)
        self.assertEqual(Holder(self.s, self.vm).get(), "kept")

    def test_suspended_survives_a_restart_of_everything(self):
        self.s.restart()
        # running VMs were frozen on the way down
        self.assertIn(self.s.state(self.vm), ("suspended", "running"))
        self.assertEqual(Holder(self.s, self.vm).get(), "kept")
        self.assert_clock(self.vm)

    def test_calls_at_once_on_a_suspended_vm(self):
        self.s.post(self.vm, "suspend")
        out = []
        threads = [threading.Thread(target=lambda: out.append(self.s.sh(self.vm, "echo hi"))) for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(60)
        self.assertEqual(out, ["hi"] * 5)

    @limit(240)
    def test_stop_keeps_the_disk(self):
        boot = self.s.sh(self.vm, "echo disk >/root/kept; echo ram >/run/lost; sync; cat /proc/sys/kernel/random/boot_id")
        self.s.sh(self.vm, "echo unwritten >/root/late")  # in the memory of the guest, not on its disk
        self.s.post(self.vm, "suspend")
        body = self.s.post(self.vm, "stop")
        self.assertEqual(body["vmId"], self.vm)
        self.assertTrue(body["vmInstanceId"])
        self.assertEqual(self.s.state(self.vm), "stopped")
        self.s.post(self.vm, "stop")
        self.refused(400, "VM_NOT_RUNNING", self.s.post, self.vm, "suspend")
        self.s.post(self.vm, "start", {}, timeout=200)  # a cold boot
        self.assertEqual(self.s.sh(self.vm, "cat /root/kept /root/late; ls /run/lost 2>/dev/null || echo gone").split(),
                         ["disk", "unwritten", "gone"])
        self.assertNotEqual(self.s.sh(self.vm, "cat /proc/sys/kernel/random/boot_id"), boot)
        self.assert_clock(self.vm)

    def test_suspend_after_a_cold_boot(self):
        h = Holder(self.s, self.vm, "again")
        self.s.post(self.vm, "suspend")
        self.assertEqual(h.get(), "again")

    def test_kill(self):
        self.assertEqual(self.s.post(self.vm, "kill")["id"], self.vm)
        self.assertEqual(self.s.state(self.vm), "stopped")

    def test_delete(self):
        self.s.delete(self.vm)
        self.assert_gone(self.vm)
        self.refused(404, "VM_NOT_FOUND", self.s.delete, self.vm)

    @limit(60)
    def test_idle_vm_suspends_itself(self):
        vm = self.s.create(idleTimeoutSeconds=3)
        wait_for("it sleeps", lambda: self.s.state(vm) == "suspended", 45, every_s=0.5)
        self.assertEqual(self.s.sh(vm, "echo awake"), "awake")
        self.s.delete(vm)

    def test_ephemeral_vm_is_deleted_on_suspend(self):
        vm = self.s.create(persistence={"type": "ephemeral", "deleteEvent": "OnSuspend"})
        self.s.post(vm, "suspend")
        self.assert_gone(vm)
