#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cycles.py [--cycles N] [--generations N] - one VM is suspended and resumed again and again; forks of forks of forks (make cycles)

Theory of operation: a program in the VM counts, keeps a table of numbers that follows from its count, and checks the whole table at each step; what it found
wrong it writes down. After each resume it must have gone on from where it was. Then generations: the VM is forked, the child is told its number, forked in
turn, and its parent deleted; each child must know the numbers of all its ancestors. The time of a cycle may not grow: a straight line through the times of all
of them may not rise by more than half their median from beginning to end.
"""
import argparse
import json
import os
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import clients  # noqa: E402
import harness  # noqa: E402
from harness import Server, say  # noqa: E402
from soak import slope  # noqa: E402

GROWS = 0.5
# The table is 8 MB, touched all over; each entry follows from its place and the count it was written at.
WORKLOAD = r"""
import time
table = [(k * 2654435761) & 0xffffffff for k in range(200000)]
count = wrong = 0
def write(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    import os
    os.rename(path + ".new", path)
while True:
    at = (count * 7919) % len(table)
    for k in range(at, at + 500):
        k %= len(table)
        if table[k] != (k * 2654435761) & 0xffffffff:
            wrong += 1
        table[k] = (k * 2654435761) & 0xffffffff
    count += 1
    write("/dev/shm/count", f"{count} {wrong}\n")
    time.sleep(0.02)
"""


class Cycles:
    def __init__(self, args):
        self.args, self.s = args, Server(env={"PANDO_LOG": os.environ.get("PANDO_LOG", "error"), "PANDO_BLANKS": "1"})

    def count(self, vm):
        n, wrong = map(int, self.s.sh(vm, "cat /dev/shm/count").split())
        assert wrong == 0, f"{wrong} numbers in the guest's memory have changed"
        return n

    def suspends(self):
        s, times = self.s, []
        vm = s.create()
        s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fcount.py", {"content": WORKLOAD, "encoding": "utf8"})
        s.sh(vm, "(setsid python3 /root/count.py </dev/null >/root/count.log 2>&1 &); timeout 60 sh -c 'until [ -s /dev/shm/count ]; do sleep 0.1; done'",
             timeout_ms=120000)
        pid, last = s.sh(vm, "pgrep -f count.py | head -1"), 0
        for n in range(self.args.cycles):
            s.sh(vm, f"echo {n} >/root/cycle; echo {n} >/dev/shm/cycle")
            t0 = time.monotonic()
            s.post(vm, "suspend")
            now = self.count(vm)  # wakes it
            times.append((time.monotonic() - t0) * 1000)
            assert now > last, f"cycle {n}: the count went from {last} to {now}"
            last = now
            found = s.sh(vm, "cat /root/cycle /dev/shm/cycle").split()
            assert found == [str(n)] * 2, f"cycle {n}: found {found}"
            if n % 100 == 99:
                say(f"cycles: {n + 1}, median of the last hundred {clients.percentile(times[-100:], 50):.0f} ms")
        assert s.sh(vm, "pgrep -f count.py | head -1") == pid, "the program is not the one that was started"
        before = self.count(vm)
        harness.wait_for("it still counts", lambda: self.count(vm) > before, 30)
        s.delete(vm)
        return times

    def generations(self):
        s, times = self.s, []
        vm = s.create()
        s.sh(vm, ": >/dev/shm/line; : >/root/line")
        for n in range(self.args.generations):
            t0 = time.monotonic()
            (child,) = s.fork(vm, 1)
            s.sh(child, f"echo {n} >>/dev/shm/line; echo {n} >>/root/line")
            times.append((time.monotonic() - t0) * 1000)
            s.delete(vm)
            vm = child
            if n % 20 == 19 or n == self.args.generations - 1:
                want = list(map(str, range(n + 1)))
                for path in ("/dev/shm/line", "/root/line"):
                    assert s.sh(vm, f"cat {path}").split() == want, f"generation {n} does not know its ancestors"
                say(f"cycles: generation {n + 1}, median of the last {min(n + 1, 20)} {clients.percentile(times[-20:], 50):.0f} ms")
        s.delete(vm)
        return times

    def run(self):
        self.s.start()
        try:
            found = {"cycles": self.suspends(), "generations": self.generations()}
            harness.assert_no_debris(self.s)
        finally:
            self.s.close()
        return found


def verdict(times):
    rise = slope(list(range(len(times))), times) * len(times)
    return {"n": len(times), "medianMs": round(clients.percentile(times, 50)), "p99Ms": round(clients.percentile(times, 99)), "riseOverRunMs": round(rise),
            "firstTenthMs": round(clients.percentile(times[:max(1, len(times) // 10)], 50)),
            "lastTenthMs": round(clients.percentile(times[-max(1, len(times) // 10):], 50))}


def main():
    p = argparse.ArgumentParser(description="a VM that is suspended and resumed, and forks of forks, many times")
    p.add_argument("--cycles", type=int, default=1000)
    p.add_argument("--generations", type=int, default=200)
    p.add_argument("--out", help="a file for all times, as JSON")
    args = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found, bad = Cycles(args).run(), []
    for name, times in found.items():
        v = verdict(times)
        say(f"cycles: {name}: {json.dumps(v)}")
        if len(times) >= 50 and v["riseOverRunMs"] > GROWS * v["medianMs"]:  # with fewer a busy moment is a slope
            bad.append(f"{name}: {v['riseOverRunMs']} ms more at the end than at the beginning, median {v['medianMs']} ms")
    if args.out:
        with open(args.out, "w") as f:
            json.dump({"verdict": {k: verdict(v) for k, v in found.items()}, "timesMs": {k: [round(t, 1) for t in v] for k, v in found.items()}}, f)
    for text in bad:
        say(f"cycles: FAIL {text}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
