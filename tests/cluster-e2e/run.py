#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py [CASE...] - three real nodes, and everything that docs/CLUSTER.md says may happen to them (make test-cluster)

Runs all cases one after the other on one cluster, or those that are named (--list shows them). After a failure the next case gets a new cluster, if
the old one cannot be brought back to order.
Ends with a table and the line "N passed, N failed". Output of each server: build-logs/server-*.log.
"""
import importlib
import os
import signal
import sys
import time
import traceback

import net
import table

net.enter()  # before any thread

from cluster import Cluster, harness, host  # noqa: E402

RECOVER_S = 180
MODULES = ("nodes", "links", "stores", "starts", "clients")


class TooLong(Exception):
    pass


def on_alarm(_sig, _frame):
    raise TooLong("passed its deadline")


def on_term(sig, _frame):
    raise KeyboardInterrupt(signal.Signals(sig).name)


def load():
    with open("/proc/loadavg") as f:
        return f.read().split()[0]


def close(cluster):
    """Ends it; what is left then."""
    tags = [n.tag for n in cluster.nodes]
    cluster.close()
    harness.reap()
    return [x for tag in tags for x in host.named(tag)] + [host.describe(p) for p in host.children()]


class Run:
    def __init__(self):
        self.cluster, self.rows, self.failed = None, [], 0

    def record(self, name, ok, seconds, note):
        self.rows.append((name, "ok" if ok else "FAIL", f"{seconds:.0f}", load(), note))
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {name} ({seconds:.0f} s, load {load()}){': ' + note if note else ''}", flush=True)

    def attempt(self, name, limit_s, call):
        begin = time.monotonic()
        signal.alarm(limit_s * harness.PATIENCE)
        try:
            note = call() or ""
            signal.alarm(0)
            self.record(name, True, time.monotonic() - begin, note)
            return True
        except Exception as e:  # KeyboardInterrupt ends the run
            signal.alarm(0)
            self.record(name, False, time.monotonic() - begin, (str(e) or repr(e)).splitlines()[0][:300])
            for line in traceback.format_exc().splitlines():
                print(f"     {line}", flush=True)
            for node in self.cluster.nodes if self.cluster else []:
                if os.path.exists(node.log_path):
                    print(f"     {node.name}:\n{node.log_tail(25)}", flush=True)
            return False

    def begin(self):
        self.cluster = Cluster()
        self.cluster.start()

    def end(self):
        cluster, self.cluster = self.cluster, None
        left = close(cluster)
        assert not left, f"left on the host: {left}"

    def case(self, c):
        if not self.cluster and not self.attempt("(three nodes start)", 900, self.begin):
            self.close_quietly()
            return
        if not self.attempt(c.__name__, c.limit_s, lambda: c(self.cluster)) and not self.recovered():
            self.close_quietly()

    def recovered(self):
        signal.alarm(RECOVER_S)
        try:
            self.cluster.recover()
            return True
        except Exception as e:
            print(f"     the cluster is made anew: {(str(e) or repr(e)).splitlines()[0][:200]}", flush=True)
            return False
        finally:
            signal.alarm(0)

    def close_quietly(self):
        if self.cluster:
            cluster, self.cluster = self.cluster, None
            for line in close(cluster):
                print(f"     left: {line}")

    def print(self):
        if not self.rows:
            return
        widths = [max(len(r[i]) for r in (*self.rows, ("case", "", "s", "load", ""))) for i in range(4)]
        print()
        for row in (("case", "", "s", "load", ""), *self.rows):
            print("  ".join(f"{v:<{w}}" for v, w in zip(row, (*widths, 0))).rstrip())
        print(f"{len(self.rows) - self.failed} passed, {self.failed} failed", flush=True)


def main():
    for name in MODULES:
        importlib.import_module(f"case_{name}")
    if sys.argv[1:] == ["--list"]:
        for c in table.CASES:
            print(f"{c.__name__:32} {c.__doc__.splitlines()[0]}")
        return 0
    unknown = set(sys.argv[1:]) - {c.__name__ for c in table.CASES}
    if unknown:
        print(f"no case is called {' or '.join(sorted(unknown))}: --list shows them")
        return 2
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGTERM, on_term)
    run = Run()
    try:
        for c in table.CASES:
            if c.__name__ in sys.argv[1:] or len(sys.argv) == 1:
                run.case(c)
        if run.cluster:
            run.attempt("(nothing is left behind)", 300, run.end)
    except KeyboardInterrupt as e:
        print(f"interrupted ({e})", flush=True)
        return 130
    finally:
        signal.alarm(0)
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, signal.SIG_IGN)  # whoever asks twice waits, too
        run.close_quietly()
        run.print()
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
