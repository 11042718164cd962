#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""cycles.py [--cycles N] [--generations N] [--dir DIR] - one VM is suspended and resumed again and again; forks of forks of forks (make cycles)

Theory of operation: a program in the VM counts, keeps a table of numbers that follows from its count, and checks the whole table at each step; what it found
wrong it writes down. After each resume it must have gone on from where it was. Then generations: the VM is forked, the child is told its number, forked in
turn, and its parent deleted; each child must know the numbers of all its ancestors. The time of a cycle may not grow: a straight line through the times of all
of them may not rise by more than half their median from beginning to end.

With --dir, the server's data and how far it got stay in DIR: a run that was broken off (Ctrl-C, SIGTERM, --seconds) is gone on with by the next one, with the
same VM and the same program in it, so what is being suspended has then been through a restart of the server as well. When all is done DIR is empty.
"""
import argparse
import json
import os
import shutil
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
import os, time
table = [(k * 2654435761) & 0xffffffff for k in range(200000)]
count = wrong = 0
def write(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)
while True:
    at = (count * 7919) % len(table)
    for k in range(at, at + 500):
        k %= len(table)
        if table[k] != (k * 2654435761) & 0xffffffff:
            wrong += 1
        table[k] = (k * 2654435761) & 0xffffffff
    count += 1
    write("/dev/shm/count", f"{count} {wrong} {os.getpid()}\n")
    time.sleep(0.02)
"""


class Enough(Exception):
    """The time is up, or somebody wants it to end: what was done so far counts."""


class Cycles:
    def __init__(self, args):
        self.args, data = args, None
        self.at = {"vm": None, "pid": None, "last": 0, "times": {"cycles": [], "generations": []}, "loads": [], "rest": None, "slept": False}
        self.over = False
        if args.dir:
            os.makedirs(args.dir, exist_ok=True)
            os.chmod(args.dir, 0o755)
            data = os.path.join(args.dir, "data")
            if os.path.exists(self.saved()):
                with open(self.saved()) as f:
                    self.at = json.load(f)
                say(f"cycles: goes on after {len(self.at['times']['cycles'])} cycles and {len(self.at['times']['generations'])} generations")
        self.s = Server(env={"PANDO_LOG": os.environ.get("PANDO_LOG", "error"), "PANDO_BLANKS": "1"}, data_dir=data)
        self.end = time.monotonic() + args.seconds if args.seconds else float("inf")

    def saved(self):
        return os.path.join(self.args.dir, "cycles.json")

    def save(self):
        with open(self.saved() + ".new", "w") as f:
            json.dump(self.at, f)
        os.rename(self.saved() + ".new", self.saved())

    def count(self, vm):
        n, wrong, pid = map(int, self.s.sh(vm, "cat /dev/shm/count").split())
        assert wrong == 0, f"{wrong} numbers in the guest's memory have changed"
        self.at["pid"] = self.at["pid"] or pid
        assert pid == self.at["pid"], f"the program is not the one that was started: process {pid}, not {self.at['pid']}"
        return n

    def go_on(self, kind, every, want):
        """Between two steps: says how far it is, and whether there is time for another one."""
        times = self.at["times"][kind]
        n = len(times)
        if n and n % every == 0:
            self.at["loads"].append(round(os.getloadavg()[0], 1))
            if self.args.dir:
                self.save()  # the times, if nothing else, should this one end in a failure
            say(f"cycles: {kind}: {n} of {want}, median of the last {every} {clients.percentile(times[-every:], 50):.0f} ms, load {self.at['loads'][-1]}")
        if self.over or time.monotonic() > self.end:
            raise Enough
        return n < want

    def suspends(self):
        s, at = self.s, self.at
        if not at["vm"]:
            vm = s.create()
            s.api("PUT", f"/v1/vms/{vm}/files/%2Froot%2Fcount.py", {"content": WORKLOAD, "encoding": "utf8"})
            s.sh(vm, "(setsid python3 /root/count.py </dev/null >/root/count.log 2>&1 &); timeout 60 sh -c 'until [ -s /dev/shm/count ]; do sleep 0.1; done'",
                 timeout_ms=120000)
            at["vm"] = vm
        vm, times = at["vm"], at["times"]["cycles"]
        while self.go_on("cycles", 50, self.args.cycles):
            n = len(times)
            s.sh(vm, f"echo {n} >/root/cycle; echo {n} >/dev/shm/cycle")
            t0 = time.monotonic()
            s.post(vm, "suspend")
            now = self.count(vm)  # wakes it
            took = (time.monotonic() - t0) * 1000
            assert now > at["last"], f"cycle {n}: the count went from {at['last']} to {now}"
            found = s.sh(vm, "cat /root/cycle /dev/shm/cycle").split()
            assert found == [str(n)] * 2, f"cycle {n}: found {found}"
            at["last"] = now
            times.append(took)
        before = self.count(vm)
        harness.wait_for("it still counts", lambda: self.count(vm) > before, 30)
        s.delete(vm)
        at["vm"] = None

    def generations(self):
        s, at = self.s, self.at
        if not at["vm"]:
            at["vm"] = s.create()
            s.sh(at["vm"], ": >/dev/shm/line; : >/root/line")
        times = at["times"]["generations"]
        while self.go_on("generations", 20, self.args.generations):
            n = len(times)
            t0 = time.monotonic()
            (child,) = s.fork(at["vm"], 1)
            s.sh(child, f"echo {n} >>/dev/shm/line; echo {n} >>/root/line")
            times.append((time.monotonic() - t0) * 1000)
            s.delete(at["vm"])
            at["vm"] = child
            if n % 20 == 19 or n == self.args.generations - 1:
                want = list(map(str, range(n + 1)))
                for path in ("/dev/shm/line", "/root/line"):
                    assert s.sh(child, f"cat {path}").split() == want, f"generation {n} does not know its ancestors"
        s.delete(at["vm"])
        at["vm"] = None

    def run(self):
        """True: all of it was done."""
        self.s.start()
        if self.at["rest"]:
            self.s.rest = set(self.at["rest"])
        self.at["rest"] = sorted(self.s.rest)
        try:
            if not self.at["slept"]:
                self.suspends()
                self.at["slept"] = True
            self.generations()
            harness.assert_no_debris(self.s)
        except Enough:
            self.s.stop()  # VMs that run are suspended
            if self.args.dir:
                self.save()
                say(f"cycles: to be gone on with: --dir {self.args.dir}")
            return False
        finally:
            self.s.close()
        if self.args.dir:
            shutil.rmtree(self.args.dir)
        return True


def verdict(times):
    rise = slope(list(range(len(times))), times) * len(times)
    return {"n": len(times), "medianMs": round(clients.percentile(times, 50)), "p99Ms": round(clients.percentile(times, 99)), "riseOverRunMs": round(rise),
            "firstTenthMs": round(clients.percentile(times[:max(1, len(times) // 10)], 50)),
            "lastTenthMs": round(clients.percentile(times[-max(1, len(times) // 10):], 50))}


def main():
    p = argparse.ArgumentParser(description="a VM that is suspended and resumed, and forks of forks, many times")
    p.add_argument("--cycles", type=int, default=1000)
    p.add_argument("--generations", type=int, default=200)
    p.add_argument("--seconds", type=int, help="no new step after that")
    p.add_argument("--dir", help="where the server's data and the state are kept, for another run that goes on")
    p.add_argument("--out", help="a file for all times, as JSON")
    args = p.parse_args()
    c, bad = Cycles(args), []

    def stop(*_):
        c.over = True  # after the step that is under way
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if not c.run():
        bad.append("broken off before the end")
    found = {k: v for k, v in c.at["times"].items() if v}
    for name, times in found.items():
        v = verdict(times)
        say(f"cycles: {name}: {json.dumps(v)}")
        if len(times) >= 50 and v["riseOverRunMs"] > GROWS * v["medianMs"]:  # with fewer a busy moment is a slope
            bad.append(f"{name}: {v['riseOverRunMs']} ms more at the end than at the beginning, median {v['medianMs']} ms")
    if args.out:
        with open(args.out, "w") as f:
            json.dump({"verdict": {k: verdict(v) for k, v in found.items()}, "loads": c.at["loads"],
                       "timesMs": {k: [round(t, 1) for t in v] for k, v in found.items()}}, f)
    for text in bad:
        say(f"cycles: FAIL {text}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
