#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py [--seconds N] [--seed N] [--out DIR] - all clients at once, hour after hour if wanted, and a hostile one beside them (make soak)

Theory of operation: the first fifth of the time good clients are alone; then all attacks of attacks.py run beside them, on an account of their own or without a key.
Good clients send at a steady pace, about half of what this machine can do. Clients that ask again at once keep all processors busy
by themselves; beside anybody else each request then takes longer by the other's share, whatever the server does, and that is all such a run would show.
Every few seconds the server's processes are counted and measured: memory (of pandod and pando-priv), descriptors, threads, processes, namespaces and
mounts of this server, files in its data directory. Asserted at the end:

- the answers of good clients were right, all of them, and every attack really took place;
- their p99 beside the attacks is at most twice the undisturbed one, or SLACK_MS more where that is larger: below that the machine's own noise is larger
  than what is measured;
- nothing grows: from the end of the warm-up (WARM_PART of the attacked time) a straight line is fitted; over the rest of the run it may not rise by more than
  the tolerance of the series, which is what comes and goes with clients (a VM, a connection, a cache that fills), see GROWTH;
- when all clients have left, what they used has come down to the most that the good ones had when they were alone, within the same tolerance.

Report: JSON and SVG in bench/results.
"""
import argparse
import datetime
import json
import os
import random
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import attacks  # noqa: E402
import clients  # noqa: E402
import harness  # noqa: E402
import soakplot  # noqa: E402
from harness import Server, say  # noqa: E402

RESULTS = os.path.join(clients.ROOT, "bench/results")
ALONE_PART, WARM_PART = 0.2, 0.3
GOOD = 4            # good clients, each one request after the other,
PACE_S = 0.25       # and not more often than this
EVERY_S = 2
PLOTTED = ("get", "exec", "edge", "ls_remote", "life")
SLACK_MS = 250
# (relative, absolute) growth that is none. Memory: glibc keeps an arena for each thread that ever met another, up to 8 of 64 MB times cores, and SQLite and the
# edge fill caches; a leak of 1 KB a request is 60 MB after 60,000 requests. Counts: what good clients and attacks hold at one moment and not at another.
GROWTH = {"pandodMb": (0.25, 48), "privMb": (0.25, 8), "descriptors": (0.15, 60), "threads": (0.25, 40), "processes": (0.25, 12), "namespaces": (0.25, 24),
          "mounts": (0.0, 4), "files": (0.10, 60)}


def rss_mb(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * 4 / 1024


def namespaces(pids):
    """Those in which these processes are."""
    found = set()
    for pid in pids:
        for kind in ("net", "mnt", "user", "ipc", "uts", "pid"):
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:  # it has ended
                break
    return found


def count_files(top):
    """Without what was pushed: that is there to stay, and the good clients push all the time."""
    n = 0
    for path, dirs, names in os.walk(top):
        n += len(names)
        if path.endswith(".git") or os.path.basename(os.path.dirname(path)) == "repos":
            dirs[:] = [d for d in dirs if d not in ("objects", "logs", "refs")]
    return n


class Soak:
    def __init__(self, args):
        self.args = args
        self.s = Server(env={"PANDO_LOG": "error", "PANDO_BLANKS": "1"})
        self.samples, self.calls, self.wrong = [], [], []
        self.lock, self.over = threading.Lock(), threading.Event()
        self.phase, self.attacks = "alone", None

    # ---- counting ----

    def measure(self):
        s, pandod = self.s, self.s.pandod_pid()
        below = s.descendants()
        with open("/proc/self/mountinfo") as f:
            mounts = sum(s.tag in line for line in f)  # network namespaces of slots among them
        files = count_files(s.dir)
        return {"t": round(time.monotonic() - self.t0, 1), "phase": self.phase, "pandodMb": round(rss_mb(pandod), 1),
                "privMb": round(rss_mb(s.proc.pid), 1), "descriptors": len(os.listdir(f"/proc/{pandod}/fd")),
                "threads": len(os.listdir(f"/proc/{pandod}/task")), "processes": len(below),
                "namespaces": len(namespaces(below)), "mounts": mounts, "files": files,
                "load": round(os.getloadavg()[0], 1)}

    def watch(self):
        while not self.over.is_set():
            try:
                m = self.measure()
                with self.lock:
                    self.samples.append(m)
            except OSError as e:  # pandod is gone: that is a finding
                self.wrong.append(f"cannot measure: {e}")
            self.over.wait(EVERY_S)

    # ---- clients ----

    def client(self, n):
        good, rng = clients.Good(self.world, str(n)), random.Random(f"{self.args.seed}/{n}")
        names = [k for k, v in good.MIX.items() for _ in range(v)]
        due = time.monotonic() + PACE_S * n / GOOD
        while not self.over.wait(max(0, due - time.monotonic())):
            due = max(due + PACE_S, time.monotonic())  # one that was late does not make up for it
            name, phase = rng.choice(names), self.phase
            try:
                ms = clients.timed(getattr(good, name))
            except Exception as e:  # noqa: BLE001 - whatever it is, a good client got it
                if not self.over.is_set():
                    self.wrong.append(f"{self.phase}: {name}: {type(e).__name__}: {str(e)[:300]}")
                continue
            with self.lock:
                self.calls.append((round(time.monotonic() - self.t0, 2), phase if phase == self.phase else "between", name, round(ms, 1)))

    def run(self):
        self.s.start()
        try:
            self.world = clients.World(self.s)
            self.attacks = attacks.Attacks(self.world)
            for name in clients.Good.MIX:  # caches of the guest and of ours are filled before anything is measured
                getattr(clients.Good(self.world, "first"), name)()
            self.t0 = time.monotonic()
            before = self.measure()
            watcher = threading.Thread(target=self.watch, daemon=True)
            good = [threading.Thread(target=self.client, args=(n,), daemon=True) for n in range(GOOD)]
            for t in [watcher, *good]:
                t.start()
            time.sleep(self.args.seconds * ALONE_PART)
            with self.lock:
                before = {k: max(m[k] for m in [before, *self.samples]) for k in GROWTH}
            self.phase = "attacked"
            for name in attacks.NAMES:
                self.attacks.run(name)
            end, beat = self.t0 + self.args.seconds, time.monotonic() + 60
            while time.monotonic() < end and not self.over.is_set():
                time.sleep(1)
                if time.monotonic() > beat:
                    beat += 60
                    say(f"soak: {time.monotonic() - self.t0:.0f} s, {len(self.calls)} requests, {len(self.wrong)} wrong, {self.samples[-1]}")
            self.over.set()
            for t in [watcher, *good]:
                t.join(harness.CALL_S)
            self.attacks.stop()
            self.phase = "after"
            after = self.settle(before)
            self.attacks.close()
            report = self.report(before, after)
            self.world.close()
            harness.assert_no_debris(self.s)
        finally:
            self.over.set()
            if self.attacks:
                self.attacks.stop()
            self.s.close()
        return report

    def settle(self, before):
        """Waits for what clients held to be given back."""
        end = time.monotonic() + 120
        while True:
            m = self.measure()
            if time.monotonic() > end or all(m[k] <= before[k] + allowed(k, before[k]) for k in GROWTH if k in m):
                return m
            time.sleep(1)

    # ---- the verdict ----

    def over_time(self, name):
        """[(end of the interval, median, longest)], in milliseconds, of this kind of request"""
        found, width = [], max(5, self.args.seconds / 120)
        calls = sorted((c[0], c[3]) for c in self.calls if c[2] == name)
        end = width
        while calls:
            part = [ms for t, ms in calls if t < end]
            calls = calls[len(part):]
            if part:
                found.append((round(end, 1), clients.percentile(part, 50), max(part)))
            end += width
        return found

    def report(self, before, after):
        bad = list(self.wrong[:20])
        bad += [f"attack {k} never took place: {self.attacks.failed.get(k, (0, 'no round ended'))[1]}" for k, n in self.attacks.did.items() if not n]
        latency = {}
        for name in clients.Good.MIX:
            alone = [c[3] for c in self.calls if c[1] == "alone" and c[2] == name]
            beside = [c[3] for c in self.calls if c[1] == "attacked" and c[2] == name]
            row = {"alone": {"n": len(alone), "median": clients.percentile(alone, 50), "p99": clients.percentile(alone, 99)},
                   "attacked": {"n": len(beside), "median": clients.percentile(beside, 50), "p99": clients.percentile(beside, 99)}}
            latency[name] = row
            if alone and beside:
                most = max(2 * row["alone"]["p99"], row["alone"]["p99"] + SLACK_MS)
                row["allowedP99"] = round(most, 1)
                if row["attacked"]["p99"] > most:
                    bad.append(f"{name}: p99 {row['attacked']['p99']:.0f} ms beside attacks, {row['alone']['p99']:.0f} ms alone")
        attacked = [m for m in self.samples if m["phase"] == "attacked"]
        cool = attacked[int(len(attacked) * WARM_PART):]
        growth = {}
        for k in GROWTH:
            if cool and k in cool[0]:
                rise = slope([m["t"] for m in cool], [m[k] for m in cool]) * (cool[-1]["t"] - cool[0]["t"])
                most = allowed(k, sum(m[k] for m in cool) / len(cool))
                growth[k] = {"before": before[k], "after": after[k], "riseOverRun": round(rise, 1), "allowed": round(most, 1)}
                if rise > most:
                    bad.append(f"{k} grows: by {rise:.1f} over {cool[-1]['t'] - cool[0]['t']:.0f} s, {most:.1f} allowed")
                if after[k] > before[k] + allowed(k, before[k]):
                    bad.append(f"{k} did not come down: {before[k]} before, {after[k]} after")
        waits = {name: self.over_time(name) for name in PLOTTED}
        return {"seconds": self.args.seconds, "seed": self.args.seed, "date": datetime.date.today().isoformat(), "cores": os.cpu_count(),
                "loadavg": [round(v, 1) for v in os.getloadavg()], "requests": len(self.calls), "attacks": self.attacks.did, "attackRoundsThatFailed": self.attacks.failed,
                "latencyMs": latency, "growth": growth,
                "findings": bad, "samples": self.samples, "waitsMs": waits}


def allowed(series, value):
    part, least = GROWTH[series]
    return max(part * value, least)


def slope(x, y):
    mx, my = sum(x) / len(x), sum(y) / len(y)
    d = sum((a - mx) ** 2 for a in x)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / d if d else 0


def main():
    p = argparse.ArgumentParser(description="all clients at once beside a hostile one; nothing may grow, nobody may wait")
    p.add_argument("--seconds", type=int, default=1800)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--out", default=RESULTS)
    args = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    say(f"soak: {args.seconds} s, seed {args.seed}")
    report = Soak(args).run()
    name = os.path.join(args.out, f"{report['date']}-soak")
    with open(name + ".json", "w") as f:
        json.dump(report, f, indent=1)
    with open(name + ".svg", "w") as f:
        f.write(soakplot.svg(report))
    for k, row in report["latencyMs"].items():
        a, b = row["alone"], row["attacked"]
        say(f"soak: {k:10} alone {a['n']:5} median {a['median'] or 0:7.0f} p99 {a['p99'] or 0:7.0f} ms; "
            f"attacked {b['n']:5} median {b['median'] or 0:7.0f} p99 {b['p99'] or 0:7.0f} ms")
    for k, g in report["growth"].items():
        say(f"soak: {k:12} {g}")
    say(f"soak: {report['requests']} requests, attacks {report['attacks']}; report: {name}.json")
    for text in report["findings"]:
        say(f"soak: FAIL {text}")
    return 1 if report["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
