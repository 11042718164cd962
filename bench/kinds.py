# SPDX-License-Identifier: Apache-2.0
"""kinds.py - the kinds of samples; each makes its own VMs, adds to the record and leaves nothing behind

What the client sees is measured here around the API call. What happens inside a call is read from the server's log, by
the VM's id, from the place where the log stood before the call.
"""
import os
import re
import threading
import time

import harness
import host

ECHO = "echo hi"
IDLE_S = 60
READY_S = 30  # for what is made ahead of need to be there
LOG_S = 5  # a line is written before its call is answered; this is for a slow disk
MB = 1 << 20
PAGE = 4096
WARM_EXECS = 3
FLOOR_RUNS = 3
FORKS = 3

# Holds memory that no other VM has: a byte in each page.
DIRTY = """
import signal, sys
pages = int(sys.argv[1]) << 8
held = bytearray(pages << 12)
held[::4096] = (bytes(range(1, 256)) * (pages // 255 + 1))[:pages]
open("/run/dirty.ok", "w").write("ok")
signal.pause()
"""

UP = re.compile(r"up: ([^;]*)")  # what follows was done before, or is part of "process"
CREATED = re.compile(r"created in (\d+) ms")
RESUMED = re.compile(r"resumed in (\d+) ms")
FROZEN = re.compile(r"frozen: pause ([\d.]+) ms \(fork ([\d.]+)\), (\d+) pages in (\d+) ms")


class Record:
    def __init__(self):
        self.samples, self.steps, self.failures, self.busy = {}, {}, [], []

    def add(self, name, value):
        self.samples.setdefault(name, []).append(float(value))


class Clock:
    """Milliseconds since it was made."""

    def __init__(self):
        self.t0 = time.perf_counter()

    def ms(self):
        return (time.perf_counter() - self.t0) * 1e3


class Bench:
    """Shared by the kinds: the server, its log, the competitors, the record."""

    def __init__(self, server, record):
        self.s, self.record, self.plain, self.floor = server, record, None, None
        self.vms = []

    # ---- the log ----

    def mark(self):
        return os.stat(self.s.log_path).st_size

    def log_line(self, mark, vm, pattern):
        """The match of the first line about vm after mark."""
        def look():
            with open(self.s.log_path, "rb") as f:
                f.seek(mark)
                text = f.read().decode("utf-8", "replace")
            for line in text.rpartition("\n")[0].splitlines():  # the last may be half written
                m = pattern.search(line) if f"vm {vm}: " in line else None
                if m:
                    return m
            return None
        return harness.wait_for(f"'{pattern.pattern}' of VM {vm} in the log", look, LOG_S, 0.02)

    def steps(self, kind, mark, vm):
        """The server's own steps of a thaw; their sum is the time to the agent's confirmation."""
        found = {name: float(ms) for name, ms in re.findall(r"(\w+) ([\d.]+)", self.log_line(mark, vm, UP)[1])}
        if "agent" not in found:
            raise RuntimeError("the server's log does not say how long the agent took")
        self.record.steps.setdefault(kind, []).append(found)
        return sum(found.values())

    # ---- VMs ----

    def rest(self):
        """Waits until the server is idle: its blank processes are started."""
        want = int(self.s.env["PANDO_BLANKS"])
        harness.wait_for("processes started ahead", lambda: self.s.made_ahead()[0] >= want, READY_S)

    def create(self):
        vm = self.s.create()
        self.vms.append(vm)
        return vm

    def echo(self, vm):
        out = self.s.sh(vm, ECHO)
        if out != "hi":
            raise RuntimeError(f"VM {vm} says {out!r}")

    def delete_all(self):
        """Every VM and snapshot, and what was written is on the disk: the next kind starts from rest."""
        self.s.delete_all()
        self.vms.clear()
        os.sync()


def memory(pid):
    """Of a QEMU process, in MB."""
    with open(f"/proc/{pid}/smaps_rollup") as f:
        rollup = {line.split(":")[0]: int(line.split()[1]) for line in f if line.rstrip().endswith("kB")}
    with open(f"/proc/{pid}/status") as f:
        tables = next(int(line.split()[1]) for line in f if line.startswith("VmPTE:"))
    return {"private": rollup["Private_Dirty"] / 1024, "pss": rollup["Pss"] / 1024, "tables": tables / 1024}


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def thaw(b):
    """create, echo, a few warm execs, snapshot, suspend, resume, echo"""
    b.rest()
    mark, clock = b.mark(), Clock()
    vm = b.create()
    created = clock.ms()
    b.echo(vm)
    b.record.add("thaw.echo", clock.ms())
    b.record.add("thaw.api", created)
    b.record.add("thaw.agent", b.steps("create", mark, vm))
    b.record.add("thaw.server", b.log_line(mark, vm, CREATED)[1])
    b.s.sh(vm, "true")  # the first one is not warm
    for _ in range(WARM_EXECS):
        clock = Clock()
        b.s.sh(vm, "true")
        b.record.add("exec.true", clock.ms())
    freeze(b, vm, "small")
    clock = Clock()
    b.s.post(vm, "suspend")
    b.record.add("suspend.api", clock.ms())
    b.rest()
    mark, clock = b.mark(), Clock()
    b.s.post(vm, "start", {})
    resumed = clock.ms()
    b.echo(vm)
    b.record.add("resume.echo", clock.ms())
    b.record.add("resume.api", resumed)
    b.record.add("resume.agent", b.steps("resume", mark, vm))
    b.record.add("resume.server", b.log_line(mark, vm, RESUMED)[1])


def freeze(b, vm, name):
    """A live freeze by way of a snapshot; returns the MB that were written."""
    mark, clock = b.mark(), Clock()
    b.s.snapshot(vm)
    b.record.add(f"snapshot.{name}", clock.ms())
    m = b.log_line(mark, vm, FROZEN)
    b.record.add(f"pause.{name}", m[1])
    if name != "small":
        b.record.add(f"fork_call.{name}", m[2])
    return int(m[3]) * PAGE / MB


def freeze_dirty(b, megabytes):
    vm = b.create()
    b.s.api("PUT", f"/v1/vms/{vm}/files/%2Frun%2Fdirty.py", {"content": DIRTY, "encoding": "utf8"})
    b.s.sh(vm, "mkfifo /run/dirty.ok && { setsid python3 /run/dirty.py %d </dev/null >/dev/null 2>&1 & } && "
               "timeout 100 cat /run/dirty.ok" % megabytes, timeout_ms=110000)
    written = freeze(b, vm, str(megabytes))
    b.record.add(f"dirty.{megabytes}", written)
    if written < megabytes:
        raise RuntimeError(f"the guest holds {megabytes} MB, but the layer has {written:.0f} MB")


def freeze_64(b):
    freeze_dirty(b, 64)


def freeze_512(b):
    freeze_dirty(b, 512)


def fork_3(b):
    vm = b.create()
    b.echo(vm)
    errors = []

    def answer(child):
        try:
            b.echo(child)
        except Exception as e:
            errors.append(e)

    b.rest()
    clock = Clock()
    children = b.s.fork(vm, FORKS)
    forked = clock.ms()
    threads = [threading.Thread(target=answer, args=(child,)) for child in children]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    ready = clock.ms()
    if errors or len(children) != FORKS:
        raise RuntimeError(f"{len(children)} forks, {errors}")
    b.record.add("fork.api", forked)
    b.record.add("fork.ready", ready)


def cold_boot(b):
    vm = b.create()
    b.echo(vm)
    b.s.post(vm, "stop")
    mark, clock = b.mark(), Clock()
    b.s.post(vm, "start", {})
    b.record.add("boot.api", clock.ms())
    b.echo(vm)
    b.record.add("boot.echo", clock.ms())
    b.log_line(mark, vm, re.compile("booted in"))  # not a thaw by mistake


def qemu_migrate(b):
    saved = b.plain.save()
    restored = b.plain.restore()
    b.record.add("qemu.save", saved["save"])
    b.record.add("qemu.flush", saved["flush"])
    b.record.add("qemu.size", saved["bytes"] / MB)
    b.record.add("qemu.agent", restored["agent"])
    b.record.add("qemu.echo", restored["echo"])


def floor(b):
    for ms in b.floor.samples(FLOOR_RUNS):
        b.record.add("floor.echo", ms)


def idle(b, count):
    """Several VMs at once, each looked at right after its first command and when all were idle for a minute."""
    pids = []
    for _ in range(count):
        vm = b.create()
        b.echo(vm)
        pids.append(b.s.qemu_of(vm))
        b.record.add("mem.fresh", memory(pids[-1])["private"])
    ticks, t0 = [cpu_ticks(pid) for pid in pids], time.monotonic()
    time.sleep(IDLE_S)  # this wait is the measurement
    took = time.monotonic() - t0
    for pid, before in zip(pids, ticks):
        m = memory(pid)
        b.record.add("mem.idle", m["private"])
        b.record.add("mem.pss", m["pss"])
        b.record.add("mem.tables", m["tables"])
        b.record.add("cpu.idle", (cpu_ticks(pid) - before) / os.sysconf("SC_CLK_TCK") / took * 100)
    gone = [host.describe(pid) for pid in pids if not os.path.exists(f"/proc/{pid}")]
    if gone:
        raise RuntimeError(f"VMs that ended while idle: {gone}")


# in the order of a round: light ones first, the slow and heavy last
ROUND = [("thaw", thaw), ("floor", floor), ("fork", fork_3), ("freeze-64", freeze_64), ("freeze-512", freeze_512),
         ("qemu", qemu_migrate), ("cold-boot", cold_boot)]
