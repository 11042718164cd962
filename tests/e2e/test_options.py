# SPDX-License-Identifier: Apache-2.0
"""Options of a create that reach into the guest: environment, readiness"""
import os
import re

from case import AS_MAKE_RUN, Case, limit, long, wait_for

BUILD_S = 400
SHOW = "/bin/sh -c 'echo \"service:$COLOUR\" >/run/colour; exec sleep infinity'"


class Options(Case):
    server_env = AS_MAKE_RUN
    limit_s = 300
    keeps_specs = True

    def make(self, **body):
        return self.s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None, **body}, timeout=BUILD_S)["id"]

    def cell(self, vm, language, code):
        return self.s.post(vm, "code", {"language": language, "code": code}, timeout=BUILD_S)["stdout"]

    @limit(600)
    def test_environment(self):
        """Commands, users, cells, services, and the same after a fork, a snapshot and a cold boot."""
        colour = 'dark "blue" $x %n \\ é'
        vm = self.make(env={"COLOUR": colour, "EMPTY": ""}, spec={"systemd": {"services": [
            {"name": "show", "mode": "service", "exec": [SHOW]}]}})
        self.assertEqual(self.s.sh(vm, 'echo "$COLOUR"'), colour)
        self.assertEqual(self.s.run(vm, 'echo "$COLOUR:$USER"', user="nobody").out.strip(), f"{colour}:nobody")
        self.assertIn(colour, self.cell(vm, "python", "import os; print(os.environ['COLOUR'])"))
        self.assertIn(colour, self.cell(vm, "javascript", "console.log(process.env.COLOUR)"))
        self.assertIn(colour, self.cell(vm, "bash", 'echo "$COLOUR"'))
        wait_for("the service has it", lambda: self.s.sh(vm, "cat /run/colour") == f"service:{colour}", 60)
        child = self.s.fork(vm)[0]
        self.assertEqual(self.s.sh(child, 'echo "$COLOUR"'), colour)
        snapshot = self.s.snapshot(vm)
        copy = self.make(snapshotId=snapshot)
        self.assertEqual(self.s.sh(copy, 'echo "$COLOUR"'), colour)
        # Another value for a copy
        other = self.make(snapshotId=snapshot, env={"COLOUR": "red"})
        self.assertEqual(self.s.sh(other, 'echo "$COLOUR$EMPTY"'), "red")
        self.s.post(copy, "stop")
        self.s.post(copy, "start", {"waitForReadySignal": True})
        self.assertEqual(self.s.sh(copy, 'echo "$COLOUR"; cat /run/colour'), f"{colour}\nservice:{colour}")
        with open(os.path.join(self.s.dir, "pando.db"), "rb") as f:
            self.assertNotIn(b"dark", f.read(), "a secret at rest")
        for v in (vm, child, copy, other):
            self.s.delete(v)
        self.s.api("DELETE", f"/v1/vms/snapshots/{snapshot}")

    def make_notifying(self):
        notify = "/bin/sh -c 'sleep 5; touch /run/told; systemd-notify --ready; exec sleep infinity'"
        vm = self.make(waitForReadySignal=True, spec={"git": {"repos": []}, "systemd": {"services": [
            {"name": "slow", "mode": "service", "exec": [notify], "readySignal": True}]}})
        self.assertEqual(self.s.sh(vm, "cat /run/told; systemctl is-active slow"), "active")
        return vm

    @limit(300)
    def test_ready(self):
        """A create that waits is answered when the service has said READY=1."""
        vm = self.make_notifying()
        self.assertTrue(self.s.vms()[vm]["createdDeclaratively"])

    @long
    @limit(600)
    def test_ready_after_a_boot(self):
        """A start waits for the whole boot."""
        vm = self.make_notifying()
        self.s.post(vm, "stop")
        self.s.post(vm, "start", {"waitForReadySignal": True}, timeout=BUILD_S)
        self.assertEqual(self.s.sh(vm, "cat /run/told; systemctl is-active slow"), "active")
        self.s.post(vm, "stop")
        self.refused(504, "VM_START_TIMEOUT", self.s.post, vm, "start", {"waitForReadySignal": True, "readySignalTimeoutSeconds": 1})

    def test_recreated_with_its_environment(self):
        vm = self.make(recreate=True, env={"COLOUR": "green"})
        self.s.delete(vm)
        self.assertEqual(self.s.sh(vm, "echo $COLOUR"), "green")
        self.s.delete(vm)
        self.s.delete(vm)

    def test_unknown_members(self):
        self.s.create(memory=4)
        self.assertRegex(self.s.log_text(), re.escape("unknown and ignored: 'memory' (did you mean 'memSizeGb'?)"))
