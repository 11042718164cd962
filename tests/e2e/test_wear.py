# SPDX-License-Identifier: Apache-2.0
"""Power cuts, a failing disk, killed processes and wear: short runs, with fixed seeds, of what make powercut, faults, cycles and soak do for long"""
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from case import Case, limit, long, wait_for
from harness import ROOT, image_dir

SKIPPED = "skipped: "


class Wear(Case):
    own_server = False

    def program(self, path, *args):
        image_dir()
        p = subprocess.run([sys.executable, os.path.join(ROOT, "tests", path), *args], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if p.returncode == 0 and SKIPPED in p.stdout:
            self.skipTest(p.stdout.split(SKIPPED, 1)[1].strip())
        self.assertEqual(p.returncode, 0, (p.stdout + p.stderr)[-6000:])

    @limit(240)
    def test_power_cuts(self):
        self.program("disk/powercut.py", "--cuts", "4", "--seconds", "3", "--seed", "5")

    @limit(240)
    @long
    def test_kills(self):
        self.program("load/kills.py", "--kills", "3", "--seed", "6")

    @limit(600)
    @long
    def test_power_cuts_with_vms(self):
        self.program("disk/powercut.py", "--vms", "--cuts", "10", "--seconds", "10", "--seed", "7")

    @limit(900)
    @long
    def test_failing_disk(self):
        self.program("disk/faults.py", "--faults", "8", "--seed", "8")

    @limit(900)
    @long
    def test_cycles(self):
        self.program("load/cycles.py", "--cycles", "60", "--generations", "20")


class Memory(Case):
    """What pandod has of freed memory when nobody wants anything any more."""
    FLOODS, AT_ONCE = 8, 4
    KEPT_MB = 64

    def rss_mb(self):
        with open(f"/proc/{self.s.pandod_pid()}/statm") as f:
            return int(f.read().split()[1]) * 4 / 1024

    @limit(240)
    def test_large_replies_are_given_back(self):
        vm, before = self.s.create(), self.rss_mb()
        with ThreadPoolExecutor(self.AT_ONCE) as pool:
            for r in pool.map(lambda _: self.s.run(vm, "head -c 17M /dev/zero"), range(self.FLOODS)):
                self.assertGreater(len(r.out), 4 << 20)
        self.s.delete(vm)
        try:
            wait_for("memory of replies is given back", lambda: self.rss_mb() < before + self.KEPT_MB, 10)
        except AssertionError as e:
            raise AssertionError(f"{e}: {before:.0f} MB before, {self.rss_mb():.0f} MB after") from None
