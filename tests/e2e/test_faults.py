# SPDX-License-Identifier: Apache-2.0
"""Faults: each gives an error message that names the thing, leaves nothing behind, and loses nothing that was acknowledged"""
import os
import random
import re
import shutil
import subprocess
import threading

import host
from case import ApiError, Case, Holder, limit, long, wait_for
from harness import ROOT, Server, assert_no_debris, image_dir, test_dir

SMALL_DISK_MB = 8192  # holds a copy of the image; the rest is filled by the test


def flip_byte(path, where):
    with open(path, "r+b") as f:
        f.seek(where)
        b = f.read(1)
        f.seek(where)
        f.write(bytes([b[0] ^ 0x40]))


class Processes(Case):
    @limit(240)
    @long
    def test_qemu_killed_while_running(self):
        vm = self.s.create()
        self.s.sh(vm, "echo synced >/root/f; sync")
        host.kill(self.s.qemu_of(vm))
        wait_for("it is reported", lambda: self.s.state(vm) == "stopped", 20)
        self.assertRegex(self.s.log_text(), rf"{vm}.*killed by signal 9")
        # its disk is whole, and any use boots it again
        self.assertEqual(self.s.sh(vm, "cat /root/f", timeout_ms=200000), "synced")
        self.s.delete(vm)

    def test_exec_while_qemu_is_killed(self):
        vm = self.s.create()
        pid = self.s.qemu_of(vm)
        threading.Timer(1.5, host.kill, (pid,)).start()
        with self.assertRaises(ApiError) as c:
            self.s.run(vm, "sleep 1000", timeout_ms=1000000)
        self.assertTrue(c.exception.code and c.exception.message, str(c.exception))
        self.s.delete(vm)

    @limit(200)
    @long
    def test_qemu_killed_during_freeze(self):
        parent = self.s.create()
        h = Holder(self.s, parent, "parent")
        self.s.sh(parent, "yes | head -c 200M >/dev/shm/dirty")  # a freeze that takes a while
        for n, verb in enumerate(["suspend", "snapshot", "suspend"]):
            (vm,) = self.s.fork(parent, 1)
            self.s.sh(vm, "yes | head -c 100M >/dev/shm/dirty")
            threading.Timer(random.uniform(0, 0.3), host.kill, (self.s.qemu_of(vm),)).start()
            with self.subTest(round=n, verb=verb):
                try:
                    self.s.post(vm, verb, {})
                    done = True
                except ApiError as e:
                    self.assertTrue(e.code and e.message, str(e))
                    done = False
                wait_for("it settles", lambda v=vm: self.s.state(v) in ("stopped", "suspended"), 20)
                if verb == "suspend" and done:
                    self.assertEqual(self.s.state(vm), "suspended")
                    self.assertEqual(h.on(vm).get(), "parent")
            self.s.delete(vm)
        self.assertEqual(h.get(), "parent")
        self.s.delete(parent)

    @limit(200)
    @long
    def test_qemu_killed_during_thaw(self):
        """The VM stays suspended, and the next start finds its memory."""
        parent = self.s.create()
        h = Holder(self.s, parent, "kept")
        self.s.post(parent, "suspend")
        refused = 0
        for n in range(4):
            (vm,) = self.s.fork(parent, 1)
            self.s.post(vm, "suspend")
            got = []
            t = threading.Thread(target=lambda v=vm, g=got: g.append(self.s.request("POST", f"/v1/vms/{v}/start", {})))
            t.start()
            wait_for("it starts", lambda v=vm: self.s.state(v) != "suspended", 20, every_s=0.005)
            for pid in self.s.qemu_pids():  # its own, and those that wait for a VM: all others sleep
                host.kill(pid)
            t.join(60)
            (status, body), = got
            with self.subTest(round=n, status=status):
                if status != 200:  # else it ran already
                    refused += 1
                    self.assertTrue(body["code"] and vm in body["message"], body)
                    self.assertEqual(self.s.state(vm), "suspended")
                    self.assertEqual(h.on(vm).get(), "kept")
            self.s.delete(vm)
        self.assertGreater(refused, 0, "every thaw was quicker than a kill")
        self.assertEqual(h.get(), "kept")
        self.s.delete(parent)

    @limit(200)
    def test_silent_agent(self):
        cls = type(self)
        vm = self.s.create()
        self.s.sh(vm, "p=$(pidof pando-agent); setsid sh -c \"sleep 0.5; kill -STOP $p\" </dev/null >/dev/null 2>&1 &")

        def silent():
            try:
                self.s.run(vm, "echo hello", timeout_ms=2000)
                return None
            except ApiError as e:
                return e
        e = wait_for("nobody in there answers any more", silent, 30)
        self.assertTrue(e.code and e.message, str(e))
        # others are not affected
        other = self.s.create()
        self.assertEqual(self.s.sh(other, "echo fine"), "fine")
        self.s.delete(other)
        # freezing needs no agent; waking does. The wait for it is long: others are tested meanwhile.
        self.s.post(vm, "suspend")
        cls.silent = vm
        cls.waker = threading.Thread(target=self.wake_silent)
        cls.waker.start()

    def wake_silent(self):
        try:
            self.s.post(self.silent, "start", {})
        except ApiError as e:
            type(self).silent_error = e

    def test_agent_killed_comes_back(self):
        vm = self.s.create()
        h = Holder(self.s, vm, "kept")
        try:
            self.s.run(vm, "kill -9 $(pidof pando-agent); sleep 5", timeout_ms=10000)
        except ApiError as e:
            self.assertTrue(e.code and e.message)

        def back():
            try:
                return self.s.run(vm, "true", timeout_ms=5000).code == 0
            except ApiError:
                return False
        wait_for("systemd restarts the agent and the server finds it", back, 40)
        self.assertEqual(h.get(), "kept")
        self.s.delete(vm)

    @long
    def test_guest_out_of_memory(self):
        vm = self.s.create()
        r = self.s.run(vm, "python3 -c 'x = []\nwhile True: x.append(bytes(1 << 24))'", timeout_ms=60000)
        self.assertNotEqual(r.code, 0)
        self.assertEqual(self.s.sh(vm, "echo alive"), "alive")
        self.s.delete(vm)

    @limit(120)
    def test_guest_powers_itself_off(self):
        vm = self.s.create()
        self.s.run(vm, "setsid sh -c 'sleep 0.5; systemctl poweroff -ff' </dev/null >/dev/null 2>&1 &")
        wait_for("it is stopped", lambda: self.s.state(vm) == "stopped", 60)
        self.s.delete(vm)

    @limit(120)
    def test_silent_agent_fails_closed(self):
        """Without the agent's confirmation a resumed VM gets no traffic: it is suspended again, with an error message."""
        self.waker.join(100)
        self.assertFalse(self.waker.is_alive(), "waking a VM with a silent agent never ended")
        self.assertIn("agent", str(self.silent_error))
        self.assertEqual(self.s.state(self.silent), "suspended")
        self.s.delete(self.silent)


class Layers(Case):
    def layer_of(self, table, which):
        """The memory layer that was just written for it. Others are made at any time: the server's own template is."""
        (name,), = self.s.ask(f"SELECT mem_layer FROM points WHERE id = (SELECT point FROM {table} WHERE id = '{which}')")
        return os.path.join(self.s.dir, "layers", name)

    def sleeper(self):
        vm = self.s.create()
        Holder(self.s, vm, "asleep")
        self.s.post(vm, "suspend")
        return vm, self.layer_of("vms", vm)

    def damaged(self, vm, path):
        name = os.path.basename(path)
        with self.assertRaises(ApiError) as c:
            self.s.sh(vm, "true")
        self.assertIn(name, str(c.exception))
        self.assertEqual((c.exception.status, c.exception.code), (500, "CORRUPT_VM_RECORD"))
        self.assertEqual(self.s.state(vm), "lost")
        self.s.delete(vm)

    def test_flipped_byte(self):
        vm, path = self.sleeper()
        flip_byte(path, os.path.getsize(path) // 2)
        self.damaged(vm, path)

    def test_flipped_header(self):
        vm, path = self.sleeper()
        flip_byte(path, 12)
        self.damaged(vm, path)

    def test_truncated(self):
        vm, path = self.sleeper()
        os.truncate(path, os.path.getsize(path) - 4096)
        self.damaged(vm, path)

    def test_missing(self):
        vm, path = self.sleeper()
        os.unlink(path)
        self.damaged(vm, path)

    def test_damaged_snapshot(self):
        vm = self.s.create()
        snap = self.s.snapshot(vm)
        path = self.layer_of("snapshots", snap)
        flip_byte(path, os.path.getsize(path) // 2)
        with self.assertRaises(ApiError) as c:
            self.s.create(snapshotId=snap)
        self.assertIn(os.path.basename(path), str(c.exception))
        self.assertEqual((c.exception.status, c.exception.code), (409, "SOURCE_SNAPSHOT_LOST"))
        body = self.s.api("GET", "/v1/vms/snapshots?includeLost=true")
        self.assertEqual([(x["snapshotId"], x["state"], x["lost"]) for x in body["snapshots"]], [(snap, "lost", True)])
        self.assertEqual((body["lostCount"], body["readyCount"]), (1, 0))
        self.refused(409, "SOURCE_SNAPSHOT_LOST", self.s.create, snapshotId=snap)
        self.assertEqual(self.s.state(vm), "running")
        self.assertEqual(set(self.s.vms()), {vm})

    def test_other_qemu(self):
        """Memory of another version is rejected with an explanation; a stop drops it, and the disk can be booted."""
        vm, _ = self.sleeper()
        self.s.stop()
        self.s.sql(f"UPDATE points SET qemu_version = '0.1.2' WHERE id = (SELECT point FROM vms WHERE id = '{vm}')")
        self.s.start()
        with self.assertRaises(ApiError) as c:
            self.s.sh(vm, "true")
        self.assertRegex(str(c.exception), r"QEMU.*0\.1\.2")
        self.assertEqual(self.s.state(vm), "suspended")
        self.s.post(vm, "stop")
        self.assertEqual(self.s.state(vm), "stopped")
        self.s.delete(vm)

    def test_the_others_are_fine(self):
        self.assertEqual(self.s.sh(self.s.create(), "echo fine"), "fine")


class SmallDisk(Case):
    """A data directory on a file system of its own, which the test fills."""
    limit_s = 120

    @classmethod
    def setUpClass(cls):
        cls.s = None
        cls.top = test_dir()
        cls.disk = os.path.join(cls.top, "disk")
        cls.mnt = os.path.join(cls.top, "mnt")
        os.mkdir(cls.mnt)
        with open(cls.disk, "wb") as f:
            f.truncate(SMALL_DISK_MB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-m", "0", cls.disk], check=True)
        r = subprocess.run(["mount", "-o", "loop", cls.disk, cls.mnt], capture_output=True, text=True)
        cls.why_not = r.stderr.strip() if r.returncode else None
        if not cls.why_not:
            cls.s = Server(data_dir=os.path.join(cls.mnt, "data"))
            cls.s.start()

    @classmethod
    def tearDownClass(cls):
        if cls.s:
            cls.s.close()
        subprocess.run(["umount", cls.mnt], capture_output=True)
        shutil.rmtree(cls.top, ignore_errors=True)

    def setUp(self):
        if self.why_not:
            self.skipTest(f"no loop mount on this host: {self.why_not}")

    def fill(self, leave_mb):
        free = os.statvfs(self.mnt)
        take = free.f_bavail * free.f_bsize - (leave_mb << 20)
        subprocess.run(["fallocate", "-l", str(take), os.path.join(self.mnt, "filler")], check=True)

    def test_disk_full_during_freeze(self):
        cls = type(self)
        cls.vm = self.s.create()
        cls.h = Holder(self.s, self.vm, "kept")
        cls.spare = self.s.snapshot(self.vm, persistence={"type": "persistent"})
        self.s.sh(self.vm, "yes | head -c 150M >/dev/shm/dirty")
        before = self.s.files()
        self.fill(leave_mb=30)
        for verb in ("suspend", "snapshot", "fork"):
            with self.subTest(verb):
                with self.assertRaises(ApiError) as c:
                    self.s.post(self.vm, verb, {})
                self.assertRegex(str(c.exception), r"(?i)no space left|disk is full|full")
                # nothing lost, nothing left
                self.assertEqual(self.s.state(self.vm), "running")
                self.assertEqual(self.h.get(), "kept")
                self.assertEqual(list(self.s.vms()), [self.vm])
        wait_for("half-written layers are removed", lambda: len(self.s.files() - before) <= 2, 20)
        self.assertEqual([f for f in self.s.files() if f.endswith(".part")], [])

    @limit(240)
    def test_disk_full_while_running(self):
        """A guest whose writes find no room is paused, and continues when there is some: it never sees an error."""
        rest = os.path.join(self.mnt, "rest")
        subprocess.run(["dd", "if=/dev/zero", f"of={rest}", "bs=64k"], capture_output=True)  # to the last byte
        self.s.sh(self.vm, "setsid sh -c 'head -c 40M /dev/urandom >/root/big; sync; echo $? >/run/written' "
                           "</dev/null >/dev/null 2>&1 &")
        wait_for("the VM is paused", lambda: re.search(rf"{self.vm}: is paused", self.s.log_text()), 120)
        e = self.refused(503, "NO_LOCAL_STORAGE_CAPACITY", self.s.run, self.vm, "true")
        self.assertRegex(e.message, "disk.*full.*delete")
        self.refused(503, "NO_LOCAL_STORAGE_CAPACITY", self.s.post, self.vm, "suspend")
        self.assertEqual(self.s.state(self.vm), "running")
        self.s.api("DELETE", f"/v1/vms/snapshots/{self.spare}")  # the way out is open
        for path in (rest, os.path.join(self.mnt, "filler")):
            os.unlink(path)
        wait_for("it goes on", lambda: re.search(rf"{self.vm}: continues", self.s.log_text()), 60)
        self.s.sh(self.vm, "for i in $(seq 600); do [ -s /run/written ] && break; sleep 0.1; done; test $(cat /run/written) = 0")
        self.assertEqual(self.s.sh(self.vm, "stat -c %s /root/big; dmesg | grep -ci 'i/o error'; true").split(), [str(40 << 20), "0"])
        self.assertEqual(self.h.get(), "kept")

    def test_works_again_when_there_is_room(self):
        self.s.post(self.vm, "suspend")
        self.assertEqual(self.h.get(), "kept")
        (child,) = self.s.fork(self.vm, 1)
        self.assertEqual(self.h.on(child).get(), "kept")


class Caches(Case):
    """Damage in what is shared between runs: image and template."""
    own_server = False
    limit_s = 200

    def copy(self, src, dst):
        subprocess.run(["cp", "-a", "--reflink=auto", "--sparse=always", src, dst], check=True)

    @long
    def test_damaged_image_is_noticed(self):
        top = test_dir()
        try:
            cache = os.path.join(top, "cache")
            image = image_dir()
            os.makedirs(os.path.join(cache, "images"))
            self.copy(image, os.path.join(cache, "images", os.path.basename(image)))
            env = {**os.environ, "PANDO_CACHE_DIR": cache,
                   "PANDO_AGENT_BIN": os.path.join(ROOT, "build/agent/pando-agent")}
            check = [os.path.join(ROOT, "image/build.sh"), "--check"]
            whole = subprocess.run(check, env=env, capture_output=True, text=True)
            self.assertEqual(whole.returncode, 0, whole.stderr)
            path = os.path.join(cache, "images", os.path.basename(image), "vmlinux")
            flip_byte(path, os.path.getsize(path) // 2)
            r = subprocess.run(check, env=env, capture_output=True, text=True)
            self.assertEqual(r.returncode, 1)
            self.assertIn("vmlinux", r.stdout + r.stderr)
        finally:
            shutil.rmtree(top, ignore_errors=True)

    def template_key(self):
        """The template that servers with the tests' settings use; made now if there is none."""
        s = Server()
        try:
            s.start()
            return re.search(r"template ([0-9a-f]{16}): ready", s.log_text())[1]
        finally:
            s.close()

    @long
    def test_damaged_template_is_made_again(self):
        key = self.template_key()
        top = test_dir()
        try:
            templates = os.path.join(top, "templates")
            os.mkdir(templates)
            shared = os.path.join(os.environ.get("PANDO_CACHE_DIR", "/var/cache/pando"), "templates")
            for name in (key, "accel-probe"):
                if os.path.exists(os.path.join(shared, name)):
                    self.copy(os.path.join(shared, name), templates)
            subprocess.run(["chown", "-R", "pando:pando", templates], check=True)
            mem = os.path.join(templates, key, "mem")
            flip_byte(mem, os.path.getsize(mem) // 2)
            s = Server(env={"PANDO_CACHE_DIR": top})
            try:
                s.start()  # says what it found and boots a new one
                self.assertRegex(s.log_text(), r"template.*damaged")
                vm = s.create()
                self.assertEqual(s.sh(vm, "echo whole"), "whole")
                assert_no_debris(s)
            finally:
                s.close()
        finally:
            shutil.rmtree(top, ignore_errors=True)


class HostMemory(Case):
    """The machine has less memory than the VMs were promised."""
    own_server = False
    LIMIT_MB = 500

    def cgroup(self):
        """A new cgroup with a memory limit, or a skip."""
        for top, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            if top == "/sys/fs/cgroup" and not os.path.exists(os.path.join(top, "cgroup.controllers")):
                continue
            path = os.path.join(top, f"pando-test-{os.getpid()}")
            try:
                os.mkdir(path)
                with open(os.path.join(path, name), "w") as f:
                    f.write(str(self.LIMIT_MB << 20))
                return path
            except OSError:
                if os.path.isdir(path):
                    os.rmdir(path)
        self.skipTest("this host lets us limit memory with neither cgroup v1 nor v2")
        return None

    @limit(200)
    @long
    def test_out_of_memory(self):
        path = self.cgroup()
        s = Server()
        try:
            s.prefix = ["sh", "-c", f"echo $$ >{path}/cgroup.procs && exec \"$@\"", "sh"]
            s.start()
            vm = s.create()
            pandod = s.pandod_pid()
            # more than the host has: the kernel ends the QEMU that wants it
            try:
                s.run(vm, "mount -o remount,size=80% /dev/shm && yes | head -c 650M >/dev/shm/much",
                      timeout_ms=90000)
            except ApiError as e:
                self.assertTrue(e.code and e.message)
            wait_for("the VM is reported as stopped", lambda: s.state(vm) == "stopped", 30)
            self.assertRegex(s.log_text(), rf"{vm}.*killed by signal 9")
            self.assertEqual(s.pandod_pid(), pandod, "pandod was killed instead")
            s.delete(vm)
            self.assertEqual(s.sh(s.create(), "echo next"), "next")
            assert_no_debris(s)
        finally:
            s.close()
            wait_for("the cgroup is empty", lambda: self.removed(path), 20)

    @staticmethod
    def removed(path):
        try:
            for top, dirs, _ in os.walk(path, topdown=False):
                os.rmdir(top)
            return True
        except OSError:
            return not os.path.exists(path)
