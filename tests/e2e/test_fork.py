# SPDX-License-Identifier: Apache-2.0
"""Forks are independent: memory, disk, processes, clock, randomness, names"""
import time

from case import AS_MAKE_RUN, Case, Holder, limit, long

RANDOM = "head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'"


class Fork(Case):
    server_env = AS_MAKE_RUN
    def test_fork_three(self):
        cls = type(self)
        cls.vm = self.s.create(name="parent")
        cls.h = Holder(self.s, self.vm, "parent")
        self.s.sh(self.vm, "echo shared >/root/disk; echo shared >/dev/shm/mem; sync")
        cls.pid = self.h.pid()
        cls.forks = self.s.fork(self.vm, 3)
        self.assertEqual(len(set(cls.forks) | {self.vm}), 4)
        for vm in self.forks:
            self.assertEqual(self.s.state(vm), "running")
        self.assertEqual(self.s.state(self.vm), "running")

    def all(self):
        return [self.vm, *self.forks]

    def test_memory_and_processes_came_along(self):
        self.assert_forks_share(self.h, self.pid)

    def test_writes_stay_where_they_are_made(self):
        self.assert_forks_differ(self.h)

    def test_a_write_after_the_fork_in_one_only(self):
        # much of it, so that pages and clusters are really split
        self.s.sh(self.forks[0], "head -c 64M /dev/urandom >/root/big && sync")
        for vm in (self.vm, self.forks[1]):
            self.assertEqual(self.s.run(vm, "test -e /root/big").code, 1)

    def test_randomness_differs(self):
        seen = [self.s.sh(vm, RANDOM) for vm in self.all()]
        self.assertEqual(len(set(seen)), 4, seen)

    def test_names_differ(self):
        for command in ("cat /etc/machine-id", "hostname"):
            seen = [self.s.sh(vm, command) for vm in self.all()]
            self.assertEqual(len(set(seen)), 4, f"{command}: {seen}")

    def test_killed_in_one_lives_in_the_others(self):
        self.s.sh(self.forks[0], "kill $(cat /run/holder.pid)")
        self.assertEqual(self.h.on(self.forks[1]).pid(), self.pid)
        self.assertEqual(self.h.pid(), self.pid)

    @limit(120)
    def test_clock_is_right_after_a_long_sleep(self):
        vm = self.forks[1]
        self.s.post(vm, "suspend")
        time.sleep(6)  # what is tested: time that passes while it is frozen
        self.assert_clock(vm)
        monotonic = float(self.s.sh(vm, "cut -d' ' -f1 /proc/uptime"))
        self.assertGreater(monotonic, 0)

    def test_fork_of_a_fork(self):
        (vm,) = self.s.fork(self.forks[2], 1)
        self.assertEqual(self.h.on(vm).get(), "value3")
        self.h.on(vm).set("grandchild")
        self.assertEqual(self.h.on(self.forks[2]).get(), "value3")
        type(self).forks = [*self.forks, vm]

    def test_fork_of_a_sleeping_vm(self):
        self.s.post(self.forks[2], "suspend")
        (vm,) = self.s.fork(self.forks[2], 1)
        self.assertEqual(self.h.on(vm).get(), "value3")
        self.s.delete(vm)

    def test_children_outlive_the_parent(self):
        self.s.delete(self.vm)
        self.assert_gone(self.vm)
        self.assertEqual(self.h.on(self.forks[1]).get(), "value2")
        self.s.post(self.forks[1], "suspend")
        self.assertEqual(self.h.on(self.forks[1]).get(), "value2")
        self.assertEqual(self.s.sh(self.forks[1], "cat /root/disk"), "disk2")

    def test_bad_counts(self):
        vm = self.forks[1]
        before = set(self.s.vms())
        for count in (0, -1, 101, 1e9, "two", 1.5, [1]):
            with self.subTest(count=count):
                status, body = self.s.request("POST", f"/v1/vms/{vm}/fork", {"count": count})
                self.assertTrue(400 <= status < 500 and body["code"], body)
        self.assertEqual(set(self.s.vms()), before)

    @limit(150)
    @long
    def test_a_long_line_of_forks(self):
        """Deeper than any chain of layers may grow: flattened on the way, nothing lost."""
        vm, h = self.forks[1], self.h.on(self.forks[1])
        for n in range(10):
            h.set(f"gen{n}")
            self.s.sh(vm, f"echo gen{n} >>/root/line")
            (child,) = self.s.fork(vm, 1)
            self.s.delete(vm)
            vm, h = child, self.h.on(child)
            self.assertEqual(h.get(), f"gen{n}")
        self.assertEqual(self.s.sh(vm, "cat /root/line").split(), [f"gen{n}" for n in range(10)])


class Hundred(Case):
    """As many children as one call may make, of a small VM."""
    long = True
    limit_s = 600
    server_env = {"PANDO_VM_VCPUS": "1", "PANDO_VM_MEM_MB": "512"}

    def test_a_hundred_children(self):
        vm = self.s.create()
        self.s.sh(vm, "echo parent >/root/who; sync")
        kids = self.s.fork(vm, 100)
        self.assertEqual(len(set(kids) - {vm}), 100)
        said = [self.s.sh(k, f"cat /root/who; echo {k} >/root/who; {RANDOM}", timeout_ms=110000).split() for k in kids]
        self.assertEqual({who for who, _ in said}, {"parent"})
        self.assertEqual(len({drawn for _, drawn in said}), 100)
        self.assertEqual(self.s.sh(vm, "cat /root/who"), "parent")
        self.assertEqual([self.s.sh(k, "cat /root/who", timeout_ms=110000) for k in kids[::10]], kids[::10])
        for k in (vm, *kids):
            self.s.delete(k)
