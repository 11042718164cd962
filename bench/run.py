#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""run.py - measures Pando and its competitors on this machine, in one run (make bench)

Theory of operation: one server with a data directory of its own; in each round every kind of sample is taken once, one
after the other, never two at a time, so that a noisy quarter of an hour falls on all of them alike. Each kind makes its
VMs anew and deletes them. A sample that fails is reported and does not end the run, but the exit code is then 1.
Samples, medians and verdicts go to bench/results/ as JSON, a picture beside them, a table to stdout.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests/e2e")]
import harness  # noqa: E402
import api  # noqa: E402
import figures  # noqa: E402
import inside  # noqa: E402
import kinds  # noqa: E402
import live  # noqa: E402
import plainqemu  # noqa: E402
import plot  # noqa: E402
import private  # noqa: E402
import sizes  # noqa: E402
import elsewhere  # noqa: E402
import width  # noqa: E402
from floor import Floor  # noqa: E402

ROUND = live.ROUND + kinds.ROUND
WIDTH = ["width", "elsewhere"]  # with servers of their own
RESULTS = os.path.join(HERE, "results")
ROUNDS, ROUNDS_QUICK = 10, 3
BUSY_LIMIT = 0.10   # of all cores, by others, before a warning
BUSY_S = 3
BUSY_ROUND_S = 0.5
VM_DEFAULTS = {"PANDO_VM_VCPUS": "2", "PANDO_VM_MEM_MB": "2048", "PANDO_VM_DISK_GB": "20"}
MEM_MIN_MB = 1024   # 512 MB dirty must fit
SPACE_GB = 8
WORK_PREFIX = "pando-bench-"


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


# ---- this machine ----

def cpu_busy(seconds):
    """Part of all processor time that was used, or stolen, by anybody."""
    def read():
        with open("/proc/stat") as f:
            t = [int(v) for v in f.readline().split()[1:9]]
        return sum(t), t[3] + t[4]
    total, idle = read()
    time.sleep(seconds)  # this wait is the measurement
    total2, idle2 = read()
    return 1 - (idle2 - idle) / max(1, total2 - total)


def machine():
    with open("/proc/cpuinfo") as f:
        model = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    with open("/proc/meminfo") as f:
        mem = int(f.readline().split()[1]) >> 10
    return {"cpu": model[1] if model else platform.machine(), "cores": os.cpu_count(), "memMib": mem,
            "kernel": platform.release()}


def source():
    """The commit, and whether the tree differs from it."""
    def git(*words):
        r = subprocess.run(["git", "-C", HERE, "-c", "safe.directory=*", *words], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True)
        return r.stdout.strip() if r.returncode == 0 else None
    try:
        commit = git("rev-parse", "HEAD")
    except OSError:
        return {"commit": None}
    return {"commit": commit, "changed": bool(git("status", "--porcelain")) if commit else None}


def check_machine():
    load, busy = os.getloadavg(), cpu_busy(BUSY_S)
    if busy > BUSY_LIMIT:
        say(f"WARNING: this machine is busy with other things ({busy:.0%} of its processor time, load {load[0]:.1f}): "
            "the figures will be worse than they need be")
    return {"loadavg": [round(v, 2) for v in load], "busy": round(busy, 3)}


# ---- preparation ----

def make_work():
    """A directory for this run; those of runs that were killed are removed."""
    base = os.environ.get("PANDO_TEST_DIR", "/var/tmp")
    for name in os.listdir(base):
        m = re.fullmatch(WORK_PREFIX + r"(\d+)-\w+", name)
        if m and not os.path.exists(f"/proc/{m[1]}"):
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)
    if shutil.disk_usage(base).free < SPACE_GB << 30:
        sys.exit(f"bench: {base} has less than {SPACE_GB} GB free: free some, or set PANDO_TEST_DIR")
    work = tempfile.mkdtemp(prefix=f"{WORK_PREFIX}{os.getpid()}-", dir=base)
    os.chmod(work, 0o755)  # pandod's directory is below it
    return work


def need(program, package):
    if not shutil.which(program):
        sys.exit(f"bench: {program} is missing: apt-get install {package}")


def prepare(bench, wanted, work, image):
    """The competitors; they are slow to prepare, so only those that are needed."""
    if "floor" in wanted:
        say("unpacking the root file system for bubblewrap ...")
        bench.floor = Floor(image, os.path.join(work, "root"))
        bench.floor.wait_ready()
    if "qemu" in wanted:
        say("cold booting a plain QEMU ...")
        vm = bench.create()
        cmdline = bench.s.sh(vm, "cat /proc/cmdline")
        options = plainqemu.copied_options(bench.s.qemu_of(vm))
        bench.delete_all()
        bench.plain = plainqemu.PlainQemu(harness.QEMU, options, image, cmdline, work)
        ms = bench.plain.boot()
        say(f"plain QEMU ({' '.join(options)}) answered after {ms / 1000:.1f} s")


# ---- the run ----

def attempt(bench, name, what, *args):
    """One sample; afterwards the server has no VM. Ctrl-C passes through."""
    t0 = time.monotonic()
    try:
        what(bench, *args)
    except Exception as e:
        bench.record.failures.append({"kind": name, "why": f"{type(e).__name__}: {e}"})
        say(f"FAILED {name}: {e}")
        traceback.print_exc()
    finally:
        bench.delete_all()
    return time.monotonic() - t0


def measure(bench, wanted, rounds):
    begin = time.monotonic()
    for i in range(rounds):
        busy = cpu_busy(BUSY_ROUND_S)
        bench.record.busy.append(round(busy, 3))
        took = [f"{name} {attempt(bench, name, what):.0f}" for name, what in ROUND if name in wanted]
        say(f"round {i + 1} of {rounds}, {time.monotonic() - begin:.0f} s so far; seconds: {', '.join(took)}; "
            f"others used {busy:.0%} before it")
    if "idle" in wanted:
        say(f"{rounds} VMs idle for {kinds.IDLE_S} s ...")
        attempt(bench, "idle", kinds.idle, rounds)
    if "private" in wanted:
        say("private networks, the tunnel and the edge ...")
        took = attempt(bench, "private", private.private, min(rounds, private.ROUNDS_MAX))
        say(f"that took {took:.0f} s")
    if "sizes" in wanted:
        say("another size beside the default one, and a large VM ...")
        attempt(bench, "sizes", sizes.sizes, min(rounds, sizes.ROUNDS_MAX), say)
    if "inside" in wanted:
        say("clones from inside a VM ...")
        attempt(bench, "inside", inside.inside, min(rounds, inside.ROUNDS_MAX))


def write_results(run, whole):
    os.makedirs(RESULTS, exist_ok=True)
    stem = f"{run['date'][:10]}-{run['accel']}" + ("" if whole else "-partial")
    picture = plot.svg(run)
    for name in [stem] + (["latest"] if whole else []):
        for ending, text in ((".json", json.dumps(run, indent=1) + "\n"), (".svg", picture)):
            path = os.path.join(RESULTS, name + ending)
            with open(path + ".new", "w") as f:
                f.write(text)
            os.replace(path + ".new", path)
    return os.path.join(RESULTS, stem + ".json")


def report(run, path):
    m, vm = run["machine"], run["vm"]
    print(f"\n{m['cpu']}, {m['cores']} cores, {m['memMib']} MB, Linux {m['kernel']}; accelerator {run['accel']}")
    print(f"VM: {vm['vcpuCount']} vCPU, {vm['memSizeMib']} MB; QEMU {run['qemuVersion']}; {run['rounds']} rounds; "
          f"others used {run['before']['busy']:.0%} of the machine before, at most {max(run['busy'], default=0):.0%} between rounds")
    if run["apiVm"]:
        print(f"through the API: {run['apiVm']['vcpuCount']} vCPU, {run['apiVm']['memSizeMib']} MB")
    print("\n" + figures.table(run["figures"]) + "\n")
    for kind, steps in run["steps"].items():
        print(f"steps of {kind}, medians in ms: " + ", ".join(f"{k} {v:g}" for k, v in steps.items()))
    missed = [f["text"] for f in run["figures"] if f["verdict"] == figures.MISSED]
    aimed = [f for f in run["figures"] if f["verdict"]]
    print(f"{len(aimed) - len(missed)} of {len(aimed)} targets met" + (f"; missed: {'; '.join(missed)}" if missed else ""))
    for f in run["failures"]:
        print(f"FAILED {f['kind']}: {f['why']}")
    print(f"written: {os.path.relpath(path)}")


def arguments():
    names = [name for name, _ in ROUND] + ["idle", "private", "sizes", "inside"] + WIDTH + api.NAMES
    p = argparse.ArgumentParser(description="measures Pando and what stands beside it, in one run")
    p.add_argument("--rounds", type=int, default=ROUNDS, help=f"samples of each kind (default {ROUNDS})")
    p.add_argument("--quick", action="store_true", help=f"{ROUNDS_QUICK} rounds: to see that it works, not to quote")
    p.add_argument("--only", nargs="+", choices=names, metavar="KIND", help="some kinds only: " + ", ".join(names))
    p.add_argument("--strict", action="store_true", help="exit code 1 also when a target is missed")
    p.add_argument("--build", default=os.path.join(harness.ROOT, "build"), help="build directory (default build/)")
    a = p.parse_args()
    a.rounds = ROUNDS_QUICK if a.quick else a.rounds
    if a.rounds < 1:
        p.error("--rounds must be at least 1")
    a.wanted = a.only or names
    return a


def main():
    a = arguments()
    if os.geteuid() != 0:
        sys.exit("bench: needs root (network namespaces, jails): run it as root or with sudo")
    need("bwrap", "bubblewrap")
    need("debugfs", "e2fsprogs")
    need("qemu-img", "qemu-utils")
    if "api-whoami" in a.wanted:
        need("wrk", "wrk")
    if "edge" in a.wanted:
        for program, package in (("wrk", "wrk"), ("nginx", "nginx-light"), ("haproxy", "haproxy"), ("curl", "curl")):
            need(program, package)
    if "private" in a.wanted:
        need("wg-quick", "wireguard-tools")
    size = {k: os.environ.get(k) or v for k, v in VM_DEFAULTS.items()}
    if int(size["PANDO_VM_MEM_MB"]) < MEM_MIN_MB:
        sys.exit(f"bench: PANDO_VM_MEM_MB={size['PANDO_VM_MEM_MB']}: at least {MEM_MIN_MB}, for 512 MB of dirty memory")
    build = os.path.abspath(a.build)
    harness.PRIV, harness.PANDOD = os.path.join(build, "priv/pando-priv"), os.path.join(build, "server/pandod")
    harness.LAYERS = os.path.join(build, "layers/libpando-layers.so")

    def on_term(sig, _frame):
        raise KeyboardInterrupt(signal.Signals(sig).name)
    signal.signal(signal.SIGTERM, on_term)
    signal.signal(signal.SIGHUP, on_term)

    before = check_machine()
    image, work = harness.image_dir(), make_work()
    record, bench, server, health, width_health, api_size = kinds.Record(), None, None, None, None, None
    begin = datetime.datetime.now(datetime.timezone.utc)
    try:
        if set(a.wanted) - set(api.NAMES + WIDTH):
            server = harness.Server(env={**size, **private.ENV, "PANDO_LOG": "debug", "PANDO_BLANKS": "10"},
                                    data_dir=os.path.join(work, "bench"))
            if os.path.exists(server.log_path):
                os.unlink(server.log_path)  # of the run before
            bench = kinds.Bench(server, record)
            say("starting the server; without a cached template that is a cold boot ...")
            server.start()
            health = server.api("GET", "/v1/health")
            prepare(bench, a.wanted, work, image)
            measure(bench, a.wanted, a.rounds)
            for part in (bench.plain, bench.floor, server):  # the next ones have the machine for themselves
                if part:
                    part.close()
            bench, server = None, None
        for name, part in (("width", width), ("elsewhere", elsewhere)):
            if name not in a.wanted:
                continue
            try:
                width_health = part.run(record, min(a.rounds, width.ROUNDS_MAX), size, work, say)
            except Exception as e:
                record.failures.append({"kind": name, "why": f"{type(e).__name__}: {e}"})
                traceback.print_exc()
        health = health or width_health
        api_health = api.run(record, a.wanted, a.rounds, work, build, say)
        health, api_size = health or api_health, api_health and api_health["defaultVm"]
    except KeyboardInterrupt as e:
        say(f"ended by {e or 'Ctrl-C'}; what was measured so far is written")
        record.failures.append({"kind": "run", "why": f"ended by {e or 'Ctrl-C'}"})
    except Exception as e:
        record.failures.append({"kind": "run", "why": f"{type(e).__name__}: {e}"})
        traceback.print_exc()
    finally:
        for part in (bench and bench.plain, bench and bench.floor, server):
            if part:
                part.close()
        shutil.rmtree(work, ignore_errors=True)

    if not record.samples or not health:
        sys.exit("bench: nothing could be measured; the reason is above")
    run = {"date": begin.strftime("%Y-%m-%dT%H:%M:%SZ"), "accel": health["accel"], "accelWhy": health.get("accelWhy"),
           "rounds": a.rounds, "kinds": a.wanted, "source": source(), "machine": machine(), "vm": health["defaultVm"], "apiVm": api_size,
           "qemuVersion": health.get("qemuVersion"), "image": os.path.basename(image), "before": before,
           "busy": record.busy, "loadavgAfter": [round(v, 2) for v in os.getloadavg()],
           "figures": figures.summarise(record.samples), "steps": figures.breakdown(record.steps),
           "stepSamples": record.steps, "failures": record.failures}
    path = write_results(run, whole=not a.only and not record.failures and a.rounds >= ROUNDS)
    report(run, path)
    missed = any(f["verdict"] == figures.MISSED for f in run["figures"])
    return 1 if record.failures or (a.strict and missed) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt as e:
        sys.exit(f"bench: ended by {e or 'Ctrl-C'}; everything was cleaned up, nothing was written")
