# SPDX-License-Identifier: Apache-2.0
"""width.py - many VMs at once: forked from a seed, and thawed

Two servers, one with seeds and one without, no VM kept ready, processes started ahead as by default; in each round one after the other
does the same, so that noise falls on both. A VM counts when its first command has answered. Then, for each VM of a width, what its
emulator has used of the processor and has in private memory.
"""
import os
import statistics
import threading

import harness
from kinds import Clock, memory

ROUNDS_MAX = 5
CREATES = (1, 10, 30)
FORKS = (3, 10)
WAYS = {"seed": "1", "thaw": "0"}
READY_S = 180


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
        self.s = harness.Server(env={**size, "PANDO_POOL": "0", "PANDO_BLANKS": "10", "PANDO_SEEDS": WAYS[name]},
                                data_dir=os.path.join(top, f"width-{name}"))
        self.s.start()

    def rest(self):
        """What is made ahead is there; with seeds, that one of them is used is what this measures."""
        def there():
            pool = self.s.api("GET", "/v1/health")["pool"]
            return pool["processes"] >= 10 and (self.name != "seed" or pool["seed"] == "ready") and "own is ready after" in self.s.log_text()
        harness.wait_for("what is made ahead", there, READY_S)

    def add(self, figure, value):
        self.record.add(f"width.{figure}.{self.name}", value)

    def creates(self, n):
        self.rest()
        before, vms, clock = self.s.api("GET", "/v1/health")["pool"]["forked"], [None] * n, Clock()

        def one(i):
            vms[i] = self.s.create()
            self.s.sh(vms[i], "true")
        at_once(n, one)
        self.add(f"create{n}", clock.ms())
        pids = [self.s.qemu_of(vm) for vm in vms]
        if n == 10:
            self.add("cpu", statistics.median(cpu_ms(pid) for pid in pids))
            self.add("private", statistics.median(memory(pid)["private"] for pid in pids))
        forked = self.s.api("GET", "/v1/health")["pool"]["forked"] - before
        if forked != (n if self.name == "seed" else 0):
            raise RuntimeError(f"{forked} of {n} VMs were forked from a seed")

    def forks(self, n):
        self.rest()
        vm = self.s.create()
        self.s.sh(vm, "true")
        self.rest()
        clock = Clock()
        children = self.s.fork(vm, n)
        at_once(n, lambda i: self.s.sh(children[i], "true"))
        self.add(f"fork{n}", clock.ms())


def run(record, rounds, size, top, say):
    """Its health, of the server with seeds."""
    ways = []
    try:
        for name in WAYS:
            ways.append(Way(name, size, top, record))
        for i in range(rounds):
            for what, widths in (("creates", CREATES), ("forks", FORKS)):
                for n in widths:
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
