# SPDX-License-Identifier: Apache-2.0
"""sizes.py - a VM of another size beside the default one, and the pause of a large one

Create and first Python cell of a second size, from its second use on, in turns with the default size; both from processes that were
started ahead of need, no VM kept ready. Then a VM of 16 GB with 4 GB dirty is frozen live, where the host has the memory.
"""
import harness
from kinds import DIRTY, Clock, freeze

ROUNDS_MAX = 8
SIZE = {"vcpuCount": 1, "memSizeGb": 1}
LARGE = {"vcpuCount": 2, "memSizeGb": 16}
LARGE_DIRTY_MB = 4096
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


def large(b):
    vm = b.s.api("POST", "/v1/vms", {**LARGE, "idleTimeoutSeconds": None}, timeout=MAKE_S)["id"]
    b.s.api("PUT", f"/v1/vms/{vm}/files/%2Frun%2Fdirty.py", {"content": DIRTY, "encoding": "utf8"})
    freeze(b, vm, "16g.small")
    b.s.sh(vm, "mkfifo /run/dirty.ok && { setsid python3 /run/dirty.py %d </dev/null >/dev/null 2>&1 & } && "
               "timeout 280 cat /run/dirty.ok" % LARGE_DIRTY_MB, timeout_ms=290000, timeout=300)
    written = freeze(b, vm, "16g")
    b.record.add("dirty.16g", written)
    if written < LARGE_DIRTY_MB:
        raise RuntimeError(f"the guest holds {LARGE_DIRTY_MB} MB, but the layer has {written:.0f} MB")


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
