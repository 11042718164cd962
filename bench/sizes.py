# SPDX-License-Identifier: Apache-2.0
"""sizes.py - a VM of another size beside the default one, and the pause of a large one

Create and first Python cell of a second size, from its second use on, in turns with the default size; both from processes that were
started ahead of need, no VM kept ready. Then a VM of 16 GB with 4 GB dirty is frozen live,
and once more after it was suspended and resumed and wrote them again, where the host has the memory.
"""
import harness
from kinds import DIRTY, Clock, freeze

ROUNDS_MAX = 8
SIZE = {"vcpuCount": 1, "memSizeGb": 1}
LARGE = {"vcpuCount": 2, "memSizeGb": 16}
LARGE_DIRTY_MB = 4096
LARGE_ROUNDS = 5
LARGE_NEEDS_MB = 10 << 10  # of available memory: what is dirty, what a writer copies, the page cache
MAKE_S = 600


def available_mb():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable:")) >> 10


def rest(b, processes):
    """Until the processes of both sizes are started."""
    harness.wait_for("processes started ahead", lambda: b.s.made_ahead()[0] >= processes, 30)


def one(b, name, body):
    rest(b, int(b.s.env["PANDO_BLANKS"]) + 1)
    clock = Clock()
    vm = b.s.create(**body)
    b.record.add(f"{name}.api", clock.ms())
    clock = Clock()
    b.s.post(vm, "code", {"language": "python", "code": "1+1"})
    b.record.add(f"{name}.cell", clock.ms())
    b.s.delete(vm)


def write(b, vm):
    """A process that has written to all of it and holds it; one of before ends first."""
    b.s.sh(vm, "if [ -e /run/dirty.pid ]; then kill $(cat /run/dirty.pid); fi; rm -f /run/dirty.ok; mkfifo /run/dirty.ok; "
               "setsid python3 /run/dirty.py %d </dev/null >/dev/null 2>&1 & echo $! >/run/dirty.pid; timeout 280 cat /run/dirty.ok" % LARGE_DIRTY_MB,
           timeout_ms=290000)


def large_freeze(b, vm, name, dirty_mb=LARGE_DIRTY_MB):
    for _ in range(LARGE_ROUNDS):  # a pause of milliseconds is easily disturbed
        written = freeze(b, vm, name)
        if dirty_mb:
            b.record.add(f"dirty.{name}", written)
        if written < dirty_mb:
            raise RuntimeError(f"the guest holds {dirty_mb} MB, but the layer has {written:.0f} MB")
        b.s.delete_snapshots()


def large(b):
    vm = b.s.api("POST", "/v1/vms", {**LARGE, "idleTimeoutSeconds": None}, timeout=MAKE_S)["id"]
    b.s.api("PUT", f"/v1/vms/{vm}/files/%2Frun%2Fdirty.py", {"content": DIRTY, "encoding": "utf8"})
    large_freeze(b, vm, "16g.small", 0)
    write(b, vm)
    large_freeze(b, vm, "16g")
    # what comes from a layer and is written to again consists of small pages on the host
    b.s.post(vm, "suspend")
    b.s.post(vm, "start")
    write(b, vm)
    large_freeze(b, vm, "16g.resumed")


def sizes(b, rounds, say):
    clock = Clock()
    vm = b.s.api("POST", "/v1/vms", {**SIZE, "idleTimeoutSeconds": None}, timeout=MAKE_S)["id"]
    b.record.add("size.first", clock.ms())  # from the cache, or booted
    b.s.delete(vm)
    for _ in range(rounds):
        one(b, "size.default", {})
        one(b, "size.other", SIZE)
    if available_mb() < LARGE_NEEDS_MB:
        say(f"the pause of a VM of 16 GB is left out: {LARGE_NEEDS_MB} MB of memory must be available, {available_mb()} are")
    else:
        large(b)
