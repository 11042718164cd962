#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""compare.py CHECKOUT - this build against that of another checkout, in one run (make bench AGAINST=DIR)

Theory of operation: two servers run at the same time, each with its own programs, image and data directory. Every kind of
sample is taken on one, then at once on the other, and the next time in the opposite order, so that what else this machine
does falls on both alike. The verdict is the ratio of the medians; because a pair of samples is taken within
seconds, the median of the ratios of pairs is printed beside it: where the two disagree, the machine was too busy to tell.
Both sides' samples go to bench/results/. The other checkout must have been built (make build in it).
"""
import argparse
import datetime
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests/e2e")]
import run  # noqa: E402  first: what it imports puts other folders before this one, and tests/e2e has a run.py too
import harness  # noqa: E402
import api  # noqa: E402
import figures  # noqa: E402
import kinds  # noqa: E402
import live  # noqa: E402

ROUND = dict(live.ROUND + kinds.ROUND)
BESIDE = ("floor", "qemu", "edge")  # measure the machine or other programs; the edge has its own side by side
NAMES = [n for n in ROUND if n not in BESIDE] + [k[0] for k in api.KINDS if k[0] not in BESIDE]
LIMIT = 1.05


class Built(harness.Server):
    """A server from another build directory than this checkout's."""

    def __init__(self, checkout, image, env, data_dir):
        self.build = os.path.join(checkout, "build")
        super().__init__(env={**env, "PANDO_IMAGE": image}, data_dir=data_dir)

    def argv(self):
        def program(path):
            return os.path.join(self.build, path)
        return [*self.prefix, program("priv/pando-priv"), "--data", self.dir, "--user", "pando", "--qemu", harness.QEMU,
                "--layers", program("layers/libpando-layers.so"), "--", program("server/pandod")]


class Side:
    def __init__(self, name, checkout, work):
        self.name, self.checkout, self.record = name, checkout, kinds.Record()
        self.work = os.path.join(work, name)
        os.makedirs(self.work)
        out = subprocess.run([os.path.join(checkout, "scripts/image.sh")], stdout=subprocess.PIPE, text=True, check=True)
        self.image = out.stdout.strip().splitlines()[-1]

    def server(self, kind, env):
        # PANDO_SHELLS: the former name of PANDO_BLANKS
        env = {**env, "PANDO_BLANKS": "10", **({"PANDO_SHELLS": "10"} if self.name == "other" else {})}
        s = Built(self.checkout, self.image, env, os.path.join(self.work, kind))
        if os.path.exists(s.log_path):
            os.unlink(s.log_path)
        return s


def alternate(sides, rounds, what):
    for i in range(rounds):
        for side in sides if i % 2 == 0 else sides[::-1]:
            try:
                what(side)
            except Exception as e:
                side.record.failures.append(f"{type(e).__name__}: {e}")
                traceback.print_exc()
        run.say(f"round {i + 1} of {rounds}")


def machines(sides, names, rounds):
    """The kinds that share one server per side."""
    size = {k: os.environ.get(k) or v for k, v in run.VM_DEFAULTS.items()}
    for side in sides:
        side.bench = kinds.Bench(side.server("bench", {**size, "PANDO_LOG": "debug"}), side.record)
        side.bench.s.start()
    for name in names:
        run.say(f"{name} ...")

        def sample(side, name=name):
            try:
                ROUND[name](side.bench)
            finally:
                side.bench.delete_all()
        alternate(sides, rounds, sample)
    for side in sides:
        side.bench.s.close()


def groups(sides, names, rounds):
    """The API's kinds: a server of its own for each, on each side."""
    for name, env, ready, prepare, measure in api.KINDS:
        if name not in names:
            continue
        run.say(f"{name} ...")
        try:
            for side in sides:
                side.group = api.Group(side.record, side.server(name, {**api.SIZE, **env}), ready)
                side.group.build, side.group.bare, side.group.pool = os.path.join(side.checkout, "build"), None, None
                side.group.s.start()
                if prepare:
                    prepare(side.group)

            def sample(side, name=name, measure=measure):
                measure(side.group)
                if name not in api.KEEPS:
                    side.group.clear()
            alternate(sides, min(rounds, api.ROUNDS_MAX.get(name, rounds)), sample)
        finally:
            for side in sides:
                for part in (side.group.bare, side.group.pool, side.group.s):
                    if part:
                        part.close()


def compare(this, other):
    """Of each figure that both have: medians, their ratio so that above 1 is worse, the median of the pairs' ratios."""
    rates = {f[0] for f in figures.FIGURES if f[3] in ("MB/s", "1/s")}
    rows = []
    for name in this.record.samples:
        new, old = this.record.samples[name], other.record.samples.get(name)
        if not old or not min(old) or not min(new) or name.startswith("dirty."):
            continue
        pairs = [n / o for n, o in zip(new, old)] if len(new) == len(old) else []
        ratio, paired = statistics.median(new) / statistics.median(old), statistics.median(pairs) if pairs else None
        if name in rates:
            ratio, paired = 1 / ratio, paired and 1 / paired
        rows.append({"figure": name, "this": statistics.median(new), "other": statistics.median(old), "ratio": round(ratio, 3),
                     "pairs": paired and round(paired, 3), "samples": {"this": new, "other": old}})
    return rows


def commit(checkout):
    r = subprocess.run(["git", "-C", checkout, "-c", "safe.directory=*", "rev-parse", "HEAD"], capture_output=True, text=True)
    return r.stdout.strip() or None


def main():
    p = argparse.ArgumentParser(description="measures this build against that of another checkout, sample by sample")
    p.add_argument("checkout", help="the other checkout; it must have been built")
    p.add_argument("--rounds", type=int, default=run.ROUNDS, help=f"samples of each kind (default {run.ROUNDS})")
    p.add_argument("--only", nargs="+", choices=NAMES, metavar="KIND", help="some kinds only: " + ", ".join(NAMES))
    a = p.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: needs root (network namespaces, jails): run it as root or with sudo")
    other = os.path.abspath(a.checkout)
    if not os.path.exists(os.path.join(other, "build/server/pandod")):
        sys.exit(f"bench: {other} has no build/server/pandod: run make build there first")
    run.need("wrk", "wrk")

    def on_term(sig, _frame):
        raise KeyboardInterrupt(signal.Signals(sig).name)
    signal.signal(signal.SIGTERM, on_term)
    before, work = run.check_machine(), run.make_work()
    begin = datetime.datetime.now(datetime.timezone.utc)
    wanted = a.only or NAMES
    try:
        sides = [Side("this", harness.ROOT, work), Side("other", other, work)]
        shared = [n for n in wanted if n in ROUND]
        if shared:
            machines(sides, shared, a.rounds)
        groups(sides, wanted, a.rounds)
    finally:
        harness.close_all()
        shutil.rmtree(work, ignore_errors=True)
    rows = compare(*sides)
    failures = {s.name: s.record.failures for s in sides}
    result = {"date": begin.strftime("%Y-%m-%dT%H:%M:%SZ"), "rounds": a.rounds, "machine": run.machine(), "before": before,
              "loadavgAfter": [round(v, 2) for v in os.getloadavg()], "this": commit(harness.ROOT), "other": commit(other),
              "failures": failures, "figures": rows}
    path = os.path.join(run.RESULTS, f"{result['date'][:10]}-compare.json")
    with open(path + ".new", "w") as f:
        f.write(json.dumps(result, indent=1) + "\n")
    os.replace(path + ".new", path)
    print(f"{'figure':24} {'other':>10} {'this':>10} {'ratio':>7} {'pairs':>7}   (above 1: this build is slower)")
    for r in rows:
        pairs = f"{r['pairs']:7.3f}" if r["pairs"] else "      -"
        print(f"{r['figure']:24} {r['other']:10.3f} {r['this']:10.3f} {r['ratio']:7.3f} {pairs}"
              + ("   WORSE" if min(r["ratio"], r["pairs"] or r["ratio"]) > LIMIT else ""))
    for side, whys in failures.items():
        for why in whys:
            print(f"FAILED on {side}: {why}")
    print(f"written: {os.path.relpath(path)}")
    return 1 if any(failures.values()) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt as e:
        sys.exit(f"bench: ended by {e or 'Ctrl-C'}; everything was cleaned up, nothing was written")
