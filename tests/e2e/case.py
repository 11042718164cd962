# SPDX-License-Identifier: Apache-2.0
"""case.py - the base of the end-to-end tests: one server per class, a deadline per test, a process whose memory can be asked

Tests of a class run in the order in which they are written and share its server; the last one, inherited, proves that
nothing was left behind. A class may set `server_env`, `limit_s` and `long`; a test may have its own limit with @limit(s) and be @long.
"""
import re
import time
import unittest

from harness import ApiError, Server, assert_no_debris, wait_for

__all__ = ["ApiError", "Case", "Holder", "limit", "long", "wait_for"]


def limit(seconds):
    def mark(f):
        f.limit_s = seconds
        return f
    return mark


def long(f):
    """For make test-long, not make test."""
    f.long = True
    return f


# As make run has it: most VMs that are created come from the pool. Not the default of all classes, since what is made ahead of need is made anew for each
# server; templates of other sizes (PANDO_SIZES) would be booted.
AS_MAKE_RUN = {"PANDO_POOL": "2"}


class Case(unittest.TestCase):
    server_env = {}
    limit_s = 90
    long = False  # True: all of the class is for make test-long
    own_server = True
    keeps_specs = False  # layers of specs stay in their cache, on purpose

    @classmethod
    def setUpClass(cls):
        cls.s = None
        if cls.own_server:
            cls.s = Server(env=cls.server_env)
            cls.s.start()

    @classmethod
    def tearDownClass(cls):
        if cls.s:
            cls.s.close()
            cls.s = None

    def test_zz_leaves_nothing_behind(self):
        if not self.own_server:
            self.skipTest("this class has no server of its own: each test looks itself")
        if self.keeps_specs:
            self.s.stop()
            self.s.sql("DELETE FROM spec_layers")
            # and templates of other sizes, which are not made again
            self.s.env["PANDO_SIZES"] = "none"
            self.s.sql(f"DELETE FROM templates WHERE point IN (SELECT id FROM points WHERE vcpus <> {self.s.env['PANDO_VM_VCPUS']} "
                       f"OR mem_mb <> {self.s.env['PANDO_VM_MEM_MB']})")
            self.s.start()
        assert_no_debris(self.s)

    # ---- shared assertions ----

    def refused(self, status, code, call, *args, **kw):
        """The call fails with this status and code (or one of these codes); returns the error."""
        with self.assertRaises(ApiError) as c:
            call(*args, **kw)
        e = c.exception
        self.assertEqual(e.status, status, str(e))
        self.assertIn(e.code, (code,) if isinstance(code, str) else code, str(e))
        self.assertTrue(e.message, "an error without a sentence")
        return e

    def assert_clock(self, vm, off_s=2):
        before = time.time()
        guest = float(self.s.sh(vm, "date +%s.%N"))
        after = time.time()
        self.assertTrue(before - off_s <= guest <= after + off_s,
                        f"the guest's clock is {guest - (before + after) / 2:+.1f} s off")

    def assert_forks_share(self, holder, pid):
        """Memory, processes and files were copied; `cat /root/disk /dev/shm/mem` printed shared twice before the fork."""
        for vm in self.all():
            h = holder.on(vm)
            self.assertEqual((h.get(), h.pid()), ("parent", pid))
            self.assertEqual(self.s.sh(vm, "cat /root/disk /dev/shm/mem").split(), ["shared", "shared"])

    def assert_forks_differ(self, holder):
        """A change in one of all() is visible in that one only, in memory and on the disk."""
        for n, vm in enumerate(self.all()):
            holder.on(vm).set(f"value{n}")
            self.s.sh(vm, f"echo disk{n} >/root/disk; echo mem{n} >/dev/shm/mem; sync")
        for n, vm in enumerate(self.all()):
            self.assertEqual(holder.on(vm).get(), f"value{n}")
            self.s.sh(vm, "echo 3 >/proc/sys/vm/drop_caches")  # from the disk, not from memory
            self.assertEqual(self.s.sh(vm, "cat /root/disk /dev/shm/mem").split(), [f"disk{n}", f"mem{n}"])

    def assert_gone(self, vm):
        self.refused(404, "VM_NOT_FOUND", self.s.info, vm)
        self.assertNotIn(vm, self.s.vms())


# A shell that keeps a value in a variable: in memory, nowhere else. One line in, the value out.
HOLDER = """
v=none
echo $$ >/run/holder.pid
while read -r verb arg </run/holder.in; do
	if [ "$verb" = set ]; then v=$arg; fi
	echo "$v" >/run/holder.out
done
"""


class Holder:
    """A process in the guest that remembers a value."""

    def __init__(self, server, vm, value=None):
        self.s, self.vm = server, vm
        if value is not None:
            self.start(value)

    def start(self, value):
        self.s.api("PUT", f"/v1/vms/{self.vm}/files/%2Frun%2Fholder.sh", {"content": HOLDER, "encoding": "utf8"})
        self.s.sh(self.vm, "mkfifo /run/holder.in /run/holder.out && "
                           "setsid bash /run/holder.sh </dev/null >/dev/null 2>&1 & "
                           "timeout 20 sh -c 'until [ -s /run/holder.pid ]; do sleep 0.05; done'")
        self.set(value)

    def on(self, vm):
        """The same holder in a fork."""
        return Holder(self.s, vm)

    def _ask(self, line):
        return self.s.sh(self.vm, f"echo '{line}' | timeout 20 tee /run/holder.in >/dev/null && "
                                  "timeout 20 cat /run/holder.out")

    def set(self, value):
        got = self._ask(f"set {value}")
        assert got == value, f"holder says {got!r} after set {value!r}"

    def get(self):
        return self._ask("get")

    def pid(self):
        """Its pid, while it lives."""
        return self.s.sh(self.vm, "p=$(cat /run/holder.pid) && kill -0 $p && echo $p")


def is_vm_id(text):
    return re.fullmatch(r"[a-z0-9]{20}", text) is not None
