# SPDX-License-Identifier: Apache-2.0
"""The guest's kernel: it reboots, panics, floods its console, patches its own code while emulated"""
import os
import time

from case import ApiError, Case, limit, long, wait_for
from test_life import Waiter

BOOT_S = 150       # a cold boot, emulated, beside others
PATCH_S = 60       # code is patched until one trap was answered, and at most this long
CONSOLE_MAX = 1 << 20
FILE_MAX = 3 << 40  # PRIV_FILE_MAX of wire/priv.h

# A static key of the scheduler on and off, while the other CPU runs through the scheduler as often as it can.
PATCH = """
cat >/run/patch.py <<'X'
import os
fd = os.open("/proc/sys/kernel/sched_schedstats", os.O_WRONLY)
while True:
    os.pwrite(fd, b"1", 0)
    os.pwrite(fd, b"0", 0)
X
for c in 'exec python3 /run/patch.py' 'while :; do /bin/true; done' 'yes | cat'; do
	setsid sh -c "$c" </dev/null >/dev/null 2>&1 &
done
"""

# An init that ends the kernel as often as a file says, long before there is an agent.
INIT = """#!/bin/sh
n=$(cat /root/crashes)
if [ "$n" -gt 0 ]; then
	echo $((n - 1)) >/root/crashes
	sync
	echo c >/proc/sysrq-trigger
fi
exec /lib/systemd/systemd
"""


class GuestKernel(Case):
    limit_s = 240

    def boot(self, vm):
        return self.s.sh(vm, "cat /proc/sys/kernel/random/boot_id")

    def boots_again(self, vm, command):
        """Runs what ends the kernel; returns the VM's log once it runs again, booted anew with its disk, and how it ended."""
        before = self.boot(vm)
        w = Waiter(self.s, vm)
        self.s.sh(vm, "echo kept >/root/kept; sync")
        answer = None
        try:
            self.s.run(vm, command + "; sleep 100", timeout_ms=110000)
        except ApiError as e:
            answer = e
        after = wait_for("another boot", lambda: self.s.state(vm) == "running" and self.boot(vm), BOOT_S)
        self.assertNotEqual(after, before)
        self.assertEqual(self.s.sh(vm, "cat /root/kept"), "kept")
        self.assertIsNotNone(answer, "the command outlived its kernel")
        self.assertEqual((answer.status, answer.code), (400, "VM_NOT_RUNNING"), str(answer))
        self.assertIn("rebooted", answer.message)
        return [e["message"] for e in self.s.api("GET", f"/observability/v1/logs?vmId={vm}")["logs"]], w.end()

    def test_reboot(self):
        vm = self.s.create()
        log, how = self.boots_again(vm, "systemctl reboot")
        self.assertEqual(how, "rebooted")
        self.assertIn("the guest rebooted", log)
        self.assertFalse([m for m in log if "crashed" in m], log)
        self.s.delete(vm)

    def test_panic(self):
        """The end of its console is in the server's log, and the account's log names the kernel as the cause."""
        vm = self.s.create()
        log, how = self.boots_again(vm, "echo c >/proc/sysrq-trigger")
        self.assertEqual(how, "crashed")
        self.assertTrue([m for m in log if "kernel crashed" in m], log)
        text = self.s.log_text()
        self.assertIn(f"vm {vm}: QEMU ended with status 0: the guest's kernel crashed", text)
        self.assertRegex(text, rf"vm {vm}: console: .*Kernel panic - not syncing: sysrq triggered crash")
        self.s.delete(vm)

    @limit(400)
    @long
    def test_crashes_while_it_boots(self):
        """It is booted again, up to three times."""
        vm = self.s.create()
        self.s.api("PUT", f"/v1/vms/{vm}/files/%2Fsbin%2Finit.new", {"content": INIT, "encoding": "utf8"})
        self.s.sh(vm, "chmod 755 /sbin/init.new && mv /sbin/init.new /sbin/init && echo 1 >/root/crashes")
        self.s.post(vm, "stop")
        self.assertEqual(self.s.sh(vm, "cat /root/crashes", timeout_ms=110000), "0")
        self.assertEqual(self.s.log_text().count(f"vm {vm}: the guest's kernel crashed while booting"), 1)

        self.s.sh(vm, "echo 3 >/root/crashes")
        self.s.post(vm, "stop")
        e = self.refused(500, "VM_EXIT_DURING_START", self.s.post, vm, "start")
        self.assertIn(vm, e.message)
        self.assertEqual(self.s.state(vm), "stopped")
        self.assertIn(f"vm {vm}: console: ", self.s.log_text())
        self.assertEqual(self.s.sh(vm, "cat /root/crashes", timeout_ms=110000), "0")
        self.s.delete(vm)

    def test_console_has_a_limit(self):
        """pandod cuts it from time to time; while pandod is away, QEMU's limit for files does (test_jail.py)."""
        vm = self.s.create()
        path = os.path.join(self.s.dir, "run", self.s.info(vm)["vmInstanceId"], "console")
        for name in (path, os.path.join(os.path.dirname(path), "qemu.log")):
            size = os.stat(name).st_size
            self.assertTrue(FILE_MAX - 2 * CONSOLE_MAX <= size <= FILE_MAX, f"{name}: {size} bytes")
        seen = 0
        end = time.monotonic() + 120
        self.s.sh(vm, "setsid sh -c 'yes all work and no play makes a dull console >/dev/ttyS0' </dev/null >/dev/null 2>&1 &")
        while time.monotonic() < end:
            size = os.stat(path).st_blocks * 512  # it begins with a hole
            if seen > CONSOLE_MAX and size < seen:
                break
            seen = max(seen, size)
            time.sleep(0.05)
        else:
            self.fail(f"{path} grew to {seen} bytes and was not cut")
        self.assertEqual(self.s.sh(vm, "echo alive"), "alive")
        self.s.delete(vm)

    @limit(300)
    @long
    def test_patched_code(self):
        """docs/decisions/0008: a stale breakpoint of an emulated CPU is handled, and the kernel survives."""
        vm = self.s.create()
        before = self.boot(vm)
        healed = 0
        self.s.sh(vm, PATCH)
        end = time.monotonic() + PATCH_S
        while not healed and time.monotonic() < end:
            healed = int(self.s.sh(vm, "sleep 1; cat /sys/module/pando_int3/parameters/healed"))
        print(f"  ({healed} traps answered)", flush=True)
        self.assertEqual(self.boot(vm), before)
        self.s.delete(vm)
