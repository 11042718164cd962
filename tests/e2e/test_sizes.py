# SPDX-License-Identifier: Apache-2.0
"""The smallest and the largest VM: cold boot, create, suspend, resume, fork"""
from case import Case, Holder, limit


class Size:
    vcpus = mem_mb = 0

    @limit(180)
    def test_life(self):
        vm = self.s.create()
        self.assertEqual(int(self.s.sh(vm, "nproc")), self.vcpus)
        total = int(self.s.sh(vm, "awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo"))
        self.assertTrue(self.mem_mb * 0.85 < total <= self.mem_mb, f"{total} MB in the guest")
        h = Holder(self.s, vm, "kept")
        self.s.post(vm, "suspend")
        self.assertEqual(h.get(), "kept")
        for child in self.s.fork(vm, 2):
            self.assertEqual((h.on(child).get(), int(self.s.sh(child, "nproc"))), ("kept", self.vcpus))


class Smallest(Size, Case):
    vcpus, mem_mb = 1, 512
    server_env = {"PANDO_VM_VCPUS": "1", "PANDO_VM_MEM_MB": "512", "PANDO_BLANKS": "1"}


class Largest(Size, Case):
    long = True  # an emulated machine of eight processors takes a minute of two
    vcpus, mem_mb = 8, 8192
    server_env = {"PANDO_VM_VCPUS": "8", "PANDO_VM_MEM_MB": "8192", "PANDO_BLANKS": "1"}
