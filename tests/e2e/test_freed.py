# SPDX-License-Identifier: Apache-2.0
"""Memory that a guest has freed: not in layers, back with the host, and what is in use is as it was, through all of it"""
import re

from case import Case, limit, wait_for

HELD_MB = 300
# Two programs that have memory, and end.
HOLD = f"""python3 - <<'END'
import os
pids = []
for n in range(2):
    if (pid := os.fork()) == 0:
        held = bytearray(os.urandom(1 << 20) * {HELD_MB})
        os._exit(0 if len(held) == {HELD_MB} << 20 else 1)
    assert os.waitpid(pid, 0)[1] == 0
END
"""
# One that goes on: it writes numbers that follow from each other all over its memory, moves to other memory, and compares.
CHECK = """
import hashlib, os, sys, time
def fill(n): return b"".join(hashlib.sha256(b"%d %d" % (n, i)).digest() * 128 for i in range(512))
n, sums = 0, {}
keep = {}
while True:
    keep[n % 4] = bytearray(fill(n))
    sums[n % 4] = hashlib.sha1(keep[n % 4]).hexdigest()
    for k in keep:
        if hashlib.sha1(keep[k]).hexdigest() != sums[k]:
            open("/run/check.bad", "w").write("%d of round %d" % (k, n))
            sys.exit(1)
    n += 1
    with open("/run/check.round", "w") as f: f.write(str(n))
    time.sleep(0.2)
"""
# Much of what is free, written and read again.
USE = """python3 - <<'END'
def page(n): return bytes([n % 251 + 1]) * (1 << 20)
held = [bytearray(page(n)) for n in range(300)]
print("used", all(b == page(n) for n, b in enumerate(held)))
END
"""


def private_mb(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        kb = re.findall(r"^Private_Dirty:\s+(\d+) kB", f.read(), re.M)
    return sum(map(int, kb)) >> 10


class Freed(Case):
    limit_s = 240
    long = True  # half a minute of processor time

    def frozen(self, vm, word="frozen: "):
        """(pages written, pages left out) of its last freeze"""
        lines = re.findall(rf"{vm}\b.*{word}.*?(\d+) pages in .*?, (\d+) free", self.s.log_text())
        self.assertTrue(lines, self.s.log_tail())
        return tuple(map(int, lines[-1]))

    def check_runs(self, vm):
        before = int(self.s.sh(vm, "cat /run/check.round"))
        wait_for("the check goes on", lambda: int(self.s.sh(vm, "cat /run/check.round")) > before + 1, 60, 0.5)
        self.assertEqual(self.s.run(vm, "cat /run/check.bad").code, 1)

    def test_1_layers_and_host(self):
        vm = self.s.create()
        pid = self.s.qemu_of(vm)
        self.s.api("PUT", f"/v1/vms/{vm}/files/%2Frun%2Fcheck.py", {"content": CHECK, "encoding": "utf8"})
        self.s.sh(vm, "setsid python3 /run/check.py </dev/null >/run/check.log 2>&1 & timeout 60 sh -c 'until [ -s /run/check.round ]; do sleep 0.1; done'")
        self.s.api("DELETE", f"/v1/vms/snapshots/{self.s.snapshot(vm)}")
        before, _ = self.frozen(vm)
        self.s.sh(vm, HOLD)
        # given back by now, or at least not written
        snap = self.s.snapshot(vm)
        written, left_out = self.frozen(vm)
        held = HELD_MB << 8  # of each of the two
        self.assertGreater(left_out + self.given_pages(vm), held, "pages left out")
        self.assertLess(written - before, held / 2, "pages written")
        type(self).before = before
        self.check_runs(vm)
        wait_for("freed memory went back", lambda: private_mb(pid) < HELD_MB, 120, 0.5)
        self.assertGreater(self.given_pages(vm), held)
        self.check_runs(vm)
        # what was left out can be used, here and in a copy
        for each in (vm, self.s.create(snapshotId=snap)):
            self.assertEqual(self.s.sh(each, USE), "used True")
            self.check_runs(each)
            self.assertEqual(self.s.sh(each, "journalctl -k -b | grep -cE 'BUG: |Bad page|[Cc]orrupt' || true"), "0")
        type(self).vm = vm

    def given_pages(self, vm):
        return sum(int(mb) for mb in re.findall(rf"{vm}\b.* (\d+) MB that it had freed went back", self.s.log_text())) << 8

    def test_2_suspended_and_copied(self):
        """What was in a layer and is freed later is in no layer after it; a fork and a resume have what is in use."""
        vm = self.vm
        self.s.post(vm, "suspend")
        written, left_out = self.frozen(vm, "suspended: ")
        self.assertLess(written - self.before, HELD_MB << 7)
        self.check_runs(vm)
        child, = self.s.fork(vm)
        self.check_runs(child)
        self.assertEqual(self.s.sh(child, USE), "used True")
        self.check_runs(child)
        self.check_runs(vm)

    @limit(600)
    def test_3_above_4_gb(self):
        """Memory in two pieces, of which one is beyond the hole below 4 GB."""
        vm = self.s.create(memSizeGb=4)
        self.s.sh(vm, HOLD)
        self.s.post(vm, "suspend")
        written, left_out = self.frozen(vm, "suspended: ")
        self.assertGreater(left_out + self.given_pages(vm), HELD_MB << 8)
        self.assertLess(written, HELD_MB << 7)
        self.assertEqual(self.s.sh(vm, USE), "used True")
