# SPDX-License-Identifier: Apache-2.0
"""The smallest and a large VM: cold boot, create, suspend, resume, fork; other sizes than the default one are thaws, too; disks grow live"""
import re
import threading

from case import Case, Holder, limit, long, wait_for


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


class Large(Size, Case):
    long = True  # an emulated machine of eight processors takes a minute of two
    vcpus, mem_mb = 8, 8192
    server_env = {"PANDO_VM_VCPUS": "8", "PANDO_VM_MEM_MB": "8192", "PANDO_BLANKS": "1"}


class Many(Size):
    """More than the host has, where that is a small one: an emulated guest begins with as many as the host has, and the others are switched on."""
    long = True
    limit_s = 900

    def test_boot(self):
        vm = self.s.create()
        self.s.sh(vm, "echo kept >/root/kept; sync")
        self.s.post(vm, "stop")
        self.assertEqual(self.s.sh(vm, "nproc; cat /root/kept", timeout_ms=600000).split(), [str(self.vcpus), "kept"])
        kernels = self.s.post(vm, "code", {"language": "python", "code": "import os; print(os.cpu_count())"})
        self.assertIn(str(self.vcpus), str(kernels))


class Sixteen(Many, Case):
    vcpus, mem_mb = 16, 2048
    server_env = {"PANDO_VM_VCPUS": "16", "PANDO_VM_MEM_MB": "2048", "PANDO_BLANKS": "1"}


class ThirtyTwo(Many, Case):
    """The most there can be."""
    vcpus, mem_mb = 32, 2048
    server_env = {"PANDO_VM_VCPUS": "32", "PANDO_VM_MEM_MB": "2048", "PANDO_BLANKS": "1"}


class Sized(Case):
    """Smallest above left its template in the cache: what it took to boot is not part of this."""
    server_env = {"PANDO_POOL": "1", "PANDO_BLANKS": "1"}
    limit_s = 180
    keeps_specs = True
    small = {"vcpuCount": 1, "memSizeGb": 0.5}

    def sizes(self):
        return {(z["vcpuCount"], z["memSizeMib"]): z for z in self.s.api("GET", "/v1/health")["sizes"]}

    def boots(self):
        return len(re.findall("cold booting the base image", self.s.log_text()))

    def made(self, **body):
        vm = self.s.create(**body)
        self.addCleanup(self.s.delete, vm)
        return vm

    def test_first_use_makes_it_and_all_join(self):
        self.assertEqual(self.sizes(), {})
        vms, errors = [], []

        def create():
            try:
                vms.append(self.made(**self.small))
            except Exception as e:
                errors.append(e)
        threads = [threading.Thread(target=create) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual((errors, len(set(vms))), ([], 3))
        self.assertLessEqual(self.boots(), 1)
        made = self.sizes()[1, 512]
        self.assertEqual((made["state"], made["ahead"]), ("ready", False))
        self.assertGreater(made["diskMb"], 50)
        for vm in vms:
            self.assertEqual(self.s.info(vm)["sizing"], {"vcpuCount": 1, "memSizeMib": 512, "rootfsSizeMb": 20480})
            self.assertIsNone(self.s.info(vm)["buildId"])
        self.assertEqual(self.s.sh(vms[0], "nproc; hostname").split(), ["1", vms[0]])

    def test_second_use_is_a_thaw_with_warm_kernels(self):
        boots = self.boots()
        vm = self.made(**self.small)
        self.assertEqual(self.boots(), boots)  # points may come meanwhile: the server's own templates
        # the interpreter that a cell is to run in is there already, libraries loaded
        kernels = "pgrep -fc 'zygote|kernels/python' || true"
        self.assertGreater(int(self.s.sh(vm, kernels)), 0)
        cell = self.s.post(vm, "code", {"language": "python", "code": "import os, sys; print('pandas' in sys.modules, os.cpu_count())"})
        self.assertIn("True 1", str(cell))

    def test_a_ready_one_is_kept_of_a_size_in_use(self):
        def ready():
            return self.s.made_ahead()[1] >= 2
        wait_for("one of the default size and one of the other are ready", ready, 60)
        given = self.s.api("GET", "/v1/health")["pool"]["given"]
        vm = self.made(**self.small)
        self.assertEqual(self.s.api("GET", "/v1/health")["pool"]["given"], given + 1)
        self.assertEqual(self.s.sh(vm, "nproc; hostname").split(), ["1", vm])
        self.assertEqual(self.s.info(vm)["sizing"]["memSizeMib"], 512)

    def disk(self, vm):
        device, fs = self.s.sh(vm, "cat /sys/block/vda/size; df -B1 --output=size / | tail -1").split()
        return int(device) >> 21, int(fs) >> 30

    def test_a_larger_disk_needs_no_boot(self):
        boots = self.boots()
        vm = self.made(rootfsSizeGb=23, **self.small)
        self.assertEqual(self.s.info(vm)["sizing"], {"vcpuCount": 1, "memSizeMib": 512, "rootfsSizeMb": 23552})
        device, fs = self.disk(vm)
        self.assertTrue(device == 23 and fs >= 21, (device, fs))
        h = Holder(self.s, vm, "kept")
        pid = h.pid()
        self.assertEqual(self.s.post(vm, "resize", {"rootfsSizeGb": 80}), {})
        self.assertEqual((h.get(), h.pid()), ("kept", pid))
        self.assertTrue(self.disk(vm)[0] == 80 and self.disk(vm)[1] >= 77, self.disk(vm))
        self.s.sh(vm, "dd if=/dev/urandom of=/root/big bs=1M count=8 status=none; sync; sha256sum /root/big >/root/sum")
        self.s.post(vm, "suspend")
        self.assertEqual(h.get(), "kept")
        child, = self.s.fork(vm)
        self.addCleanup(self.s.delete, child)
        for one in (vm, child):
            self.assertEqual(self.disk(one)[0], 80)
            self.s.sh(one, "echo 3 >/proc/sys/vm/drop_caches; sha256sum -c --quiet /root/sum")
            self.assertEqual(self.s.info(one)["sizing"]["rootfsSizeMb"], 80 << 10)
        self.assertEqual(self.boots(), boots)

    def test_it_is_there_after_a_restart(self):
        boots = self.boots()
        self.s.kill9_pandod()
        self.assertEqual(self.sizes()[1, 512]["state"], "ready")
        vm = self.made(**self.small)
        self.assertEqual((self.s.sh(vm, "nproc"), self.boots()), ("1", boots))

    def test_what_the_host_cannot_carry(self):
        with open("/proc/meminfo") as f:
            total = sum(int(line.split()[1]) for line in f if line.startswith(("MemTotal:", "SwapTotal:"))) >> 10
        if total > 65536:
            self.skipTest("this host can carry the largest VM")
        with self.assertRaisesRegex(Exception, f"503 INSUFFICIENT_SWAP.*65536 MB is larger than this host.*{total} MB.*add swap"):
            self.s.create(memSizeGb=64)
        vm = self.made(**self.small)
        with self.assertRaisesRegex(Exception, "503 INSUFFICIENT_SWAP.*larger than this host"):
            self.s.post(vm, "resize", {"memSizeGb": 64})
        self.assertEqual(self.s.sh(vm, "nproc"), "1")

    @long
    @limit(600)
    def test_the_size_of_the_docs(self):
        """resize({cpu: 8, memory: 16, storage: 80})"""
        vm = self.made()
        self.s.sh(vm, "echo kept >/root/kept; sync")
        self.assertEqual(self.s.post(vm, "resize", {"vcpuCount": 8, "memSizeGb": 16, "rootfsSizeGb": 80}, timeout=500), {})
        self.assertEqual(self.s.sh(vm, "nproc; cat /root/kept").split(), ["8", "kept"])
        self.assertGreater(int(self.s.sh(vm, "awk '/MemTotal/ {print int($2 / 1024)}' /proc/meminfo")), 15500)
        self.assertEqual(self.disk(vm)[0], 80)
        h = Holder(self.s, vm, "kept")
        self.s.post(vm, "suspend")
        self.assertEqual(h.get(), "kept")
        child, = self.s.fork(vm)
        self.addCleanup(self.s.delete, child)
        self.assertEqual(h.on(child).get(), "kept")


class Ahead(Case):
    """1x512 is in the cache; made ahead of need once it is quiet, and shown while it is made."""
    server_env = {"PANDO_SIZES": "1x512"}
    keeps_specs = True
    limit_s = 180

    def test_made_ahead_of_need(self):
        def state():
            return [(z["vcpuCount"], z["memSizeMib"], z["ahead"], z["state"]) for z in self.s.api("GET", "/v1/health")["sizes"]]
        wait_for("the size is ready", lambda: state() == [(1, 512, True, "ready")], 120)
        vm = self.s.create(vcpuCount=1, memSizeGb=0.5)
        self.assertEqual(self.s.sh(vm, "nproc"), "1")
        self.s.delete(vm)
