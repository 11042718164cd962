# SPDX-License-Identifier: Apache-2.0
"""width.py - many VMs at once: ready, forked from a seed, and thawed; and as many idle ones as the machine holds

Three servers: one as `make run` has it (what is ready follows what is asked for), one with seeds and no VM kept ready, one without
seeds; processes are started ahead in all. In each round one after the other does the same, so that noise falls on all of them. A VM
counts when its first command has answered. Then, for each VM of a width, what its emulator has used of the processor and has in private
memory; what a fork stops its source for; a suspended VM's first answer; and what idle VMs take.
"""
import os
import statistics
import threading
import time

import harness
from kinds import FROZEN, IDLE_S, Clock, cpu_ticks, memory

ROUNDS_MAX = 5
CREATES = (1, 10, 30, 100)
FORKS = (3, 10, 100)
WIDE = 100          # the largest width is tried in the first round only
IDLE_VMS = 5
ENV = {"PANDO_POOL": "0", "PANDO_BLANKS": "10"}
WAYS = {"ready": {}, "seed": {**ENV, "PANDO_SEEDS": "1"}, "thaw": {**ENV, "PANDO_SEEDS": "0"}}
READY_S = 180
MANY_MAX = 1000
MANY_MB = 24        # of free memory for each
MANY_SPARE_MB = 4096
MANY_AT_ONCE = 8


def cpu_ms(pid):
    """Of all its threads, finer than ticks; those of a fork begin at nothing."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e6


def at_once(n, fn):
    errors = []

    def one(i):
        try:
            fn(i)
        except Exception as e:
            errors.append(e)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


class Way:
    def __init__(self, name, size, top, record):
        self.name, self.record = name, record
        env = {**size, "PANDO_QUOTA_VMS": "0", "PANDO_QUOTA_RUNNING": "0", "PANDO_LOG": "debug", **WAYS[name]}
        self.s = harness.Server(env=env, data_dir=os.path.join(top, f"width-{name}"))
        if name == "ready":  # what the tests' servers have is not what is measured
            for key in ("PANDO_POOL", "PANDO_BLANKS"):
                self.s.env.pop(key, None)
        self.s.start()

    def pool(self):
        return self.s.api("GET", "/v1/health")["pool"]

    def rest(self):
        """What is made ahead is there; with seeds, that one of them is used is what this measures."""
        def there():
            pool = self.pool()
            return (pool["processes"] >= min(10, pool["processesWanted"]) and pool["ready"] >= pool["wanted"] and
                    (self.name == "thaw" or pool["seed"] == "ready") and "own is ready after" in self.s.log_text())
        harness.wait_for("what is made ahead", there, READY_S)

    def add(self, figure, value):
        self.record.add(f"width.{figure}.{self.name}", value)

    def creates(self, n):
        self.rest()
        before, vms, clock = self.pool(), [None] * n, Clock()

        def one(i):
            vms[i] = self.s.create()
            self.s.sh(vms[i], "true")
        at_once(n, one)
        self.add(f"create{n}", clock.ms())
        after, pids = self.pool(), [self.s.qemu_of(vm) for vm in vms]
        if self.name == "ready":
            self.add(f"hits{n}", 100 * (after["given"] - before["given"]) / n)
            return
        if n == 10:
            self.add("cpu", statistics.median(cpu_ms(pid) for pid in pids))
            self.add("private", statistics.median(memory(pid)["private"] for pid in pids))
        forked = after["forked"] - before["forked"]
        if forked != (n if self.name == "seed" else 0):
            raise RuntimeError(f"{forked} of {n} VMs were forked from a seed")

    def forks(self, n):
        if self.name == "ready":
            return
        self.rest()
        vm = self.s.create()
        self.s.sh(vm, "true")
        self.rest()
        mark, clock = len(self.s.log_text()), Clock()
        children = self.s.fork(vm, n)
        at_once(n, lambda i: self.s.sh(children[i], "true"))
        self.add(f"fork{n}", clock.ms())
        pause = next((m for m in (FROZEN.search(line) for line in self.s.log_text()[mark:].splitlines() if vm in line) if m), None)
        if not pause:
            raise RuntimeError(f"the log does not say how long {vm} stood still")
        self.add("pause", float(pause[1]))

    def resume(self, _n):
        self.rest()
        vm = self.s.create()
        self.s.sh(vm, "true")
        self.s.post(vm, "suspend")
        self.rest()
        clock = Clock()
        self.s.sh(vm, "true")
        self.add("resume", clock.ms())

    def idle(self, n):
        if self.name == "ready":
            return
        self.rest()
        vms = [self.s.create() for _ in range(n)]
        for vm in vms:
            self.s.sh(vm, "true")
        time.sleep(IDLE_S / 2)  # what a VM does in its first moments is over
        pids = [self.s.qemu_of(vm) for vm in vms]
        ticks, t0 = [cpu_ms(pid) for pid in pids], time.monotonic()
        time.sleep(IDLE_S)  # this wait is the measurement
        took = time.monotonic() - t0
        for pid, before in zip(pids, ticks):
            self.add("idle", memory(pid)["private"])
            self.add("idlecpu", (cpu_ms(pid) - before) / 1e3 / took * 100)


def run(record, rounds, size, top, say):
    """Its health, of the server with seeds."""
    ways = []
    steps = [("creates", CREATES), ("forks", FORKS), ("resume", (1,)), ("idle", (IDLE_VMS,))]
    try:
        for name in WAYS:
            ways.append(Way(name, size, top, record))
        for i in range(rounds):
            for what, widths in steps:
                for n in (n for n in widths if i == 0 or (n < WIDE and what != "idle")):
                    for way in ways:
                        try:
                            getattr(way, what)(n)
                        finally:
                            way.s.delete_all()
            say(f"width: round {i + 1} of {rounds}")
        return ways[0].s.api("GET", "/v1/health")
    finally:
        for way in ways:
            way.s.close()


# ---- as many as the machine holds ----

def room():
    with open("/proc/meminfo") as f:
        free = next(int(line.split()[1]) >> 10 for line in f if line.startswith("MemAvailable:"))
    return min(MANY_MAX, max(10, (free - MANY_SPARE_MB) // MANY_MB))


def many(record, size, top, say):
    """PANDO_BENCH_MANY VMs, or as many as there is memory for: made, left alone for a minute, and each asked once."""
    n = int(os.environ.get("PANDO_BENCH_MANY", "0")) or room()
    env = {**size, **ENV, "PANDO_QUOTA_VMS": "0", "PANDO_QUOTA_RUNNING": "0", "PANDO_QUOTA_VCPUS": "0", "PANDO_QUOTA_MEM_MB": "0",
           "PANDO_RATE_KEY": "0"}
    s = harness.Server(env=env, data_dir=os.path.join(top, "many"))
    try:
        s.start()
        harness.wait_for("the seed", lambda: s.api("GET", "/v1/health")["pool"]["seed"] != "making", READY_S)
        vms, clock = [], Clock()
        while len(vms) < n:
            some = [None] * min(MANY_AT_ONCE, n - len(vms))

            def one(i, some=some):
                some[i] = s.create()
                s.sh(some[i], "true")
            at_once(len(some), one)
            vms += some
        record.add("many.create", clock.ms() / n)
        say(f"many: {n} VMs run, {clock.ms() / 1e3:.0f} s")
        pids = [s.qemu_of(vm) for vm in vms]
        ticks, t0 = [cpu_ticks(pid) for pid in pids], time.monotonic()
        time.sleep(IDLE_S)  # this wait is the measurement
        took = time.monotonic() - t0
        share = sum(cpu_ticks(pid) - before for pid, before in zip(pids, ticks)) / os.sysconf("SC_CLK_TCK") / took * 100
        record.add("many.vms", n)
        record.add("many.cpu", share / n)
        for pid in pids[:: max(1, n // 50)]:
            record.add("many.private", memory(pid)["private"])
        for vm in vms:
            clock = Clock()
            if s.sh(vm, "hostname") != vm:
                raise RuntimeError(f"{vm} answers as another one")
            record.add("many.answer", clock.ms())
        for i in range(20):
            clock = Clock()
            s.api("GET", f"/v1/vms?limit=20&offset={i * 20 % n}")
            record.add("many.page", clock.ms())
        return s.api("GET", "/v1/health")
    finally:
        s.delete_all()
        s.close()
