# SPDX-License-Identifier: Apache-2.0
"""api.py - what a user of the API waits for: create to first exec, resume, fork, exec, a long list, requests per second

Small VMs, so that 30 of them fit beside each other; which size was used is in the results. Each kind runs on a server
of its own: with VMs kept ready, or without (but with processes started ahead). Before each sample
the server is at rest: what it makes ahead of need is there. A width of 30 is more than is kept ready, so most of its VMs are thawed.
"""
import os
import re
import shutil
import sqlite3
import string
import subprocess
import threading
import traceback

import attack
import edge
import gitrepos
import harness
import page
from kinds import Clock
from ports import free_port

SIZE = {"PANDO_VM_VCPUS": os.environ.get("PANDO_BENCH_VCPUS", "1"), "PANDO_VM_MEM_MB": os.environ.get("PANDO_BENCH_MEM_MB", "512"),
        "PANDO_VM_DISK_GB": "20"}
AHEAD_S = 60        # for what is made ahead of need to be there again
NARROW = 3          # creates one after the other, per round
WIDTHS = (10, 30)   # creates at the same time, once per round
FORKS = 10
EXECS = 5
LISTED = 1000
LISTS = 5
WRK_S, WRK_CONNECTIONS = 2, 8


def together(count, what):
    """Runs what(i) on that many threads at once; raises the first failure."""
    errors, gate = [], threading.Barrier(count)

    def run(i):
        try:
            gate.wait(60)
            what(i)
        except Exception as e:
            errors.append(e)
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise RuntimeError(f"{len(errors)} of {count} failed, the first with: {errors[0]}")


class Group:
    """One server and what is measured on it."""

    def __init__(self, record, server, ready):
        self.record, self.s, self.ready = record, server, ready

    def rest(self):
        blanks = int(self.s.env["PANDO_BLANKS"])

        def ahead():
            processes, vms = self.s.made_ahead()
            return processes >= blanks and vms >= self.ready
        harness.wait_for("processes and VMs made ahead", ahead, AHEAD_S)

    def create_exec(self, figure):
        clock = Clock()
        vm = self.s.create()
        self.s.sh(vm, "true")
        self.record.add(figure, clock.ms())
        return vm

    def clear(self):
        self.s.delete_all()


def create(g):
    """POST /v1/vms sent to the answer of exec-await of `true`; one by one, and many at once"""
    how = "ready" if g.ready else "thaw"
    for _ in range(NARROW):
        g.rest()
        g.create_exec(f"api.create1.{how}")
    g.clear()
    for width in WIDTHS:
        g.rest()
        together(width, lambda i, w=width: g.create_exec(f"api.create{w}.{how}"))
        g.clear()


def resume(g):
    """A suspended VM is asked for `true`: it wakes and answers"""
    vm = g.s.create()
    g.s.sh(vm, "true")
    for _ in range(NARROW):
        g.s.post(vm, "suspend")
        g.rest()
        clock = Clock()
        g.s.sh(vm, "true")
        g.record.add("api.resume", clock.ms())


def fork(g):
    """POST fork with count 10 sent to the tenth answer"""
    vm = g.s.create()
    g.s.sh(vm, "true")
    g.rest()
    clock = Clock()
    children = g.s.fork(vm, FORKS)
    together(len(children), lambda i: g.s.sh(children[i], "true"))
    g.record.add("api.fork10", clock.ms())
    if len(children) != FORKS:
        raise RuntimeError(f"{len(children)} forks, not {FORKS}")


def exec_true(g):
    vm = g.s.create()
    for _ in range(3):
        g.s.sh(vm, "true")
    for _ in range(EXECS):
        clock = Clock()
        g.s.sh(vm, "true")
        g.record.add("api.exec", clock.ms())


# ---- runs of scripts ----

# a package that is in the image, so that no registry is asked
RUN = {"script": "import { parse } from 'acorn'; export default () => parse('1', { ecmaVersion: 2020 }).type",
       "config": {"nodeModules": {"acorn": "file:/usr/share/nodejs/acorn"}}}


def run_script(g):
    if g.s.api("POST", "/execute/v3/script", RUN)["result"] != "Program":
        raise RuntimeError("the script has another result")


def runs(g):
    """POST of a script sent to its result, from the second one on; beside it a create with its first exec"""
    for _ in range(NARROW):
        g.rest()
        clock = Clock()
        run_script(g)
        g.record.add("run.second", clock.ms())
        g.rest()
        g.s.delete(g.create_exec("run.exec"))


# ---- a long list ----

def fill(path, count):
    """As many stopped VMs as wanted, copies of the one that is there. The server does not run."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    row = dict(db.execute("SELECT * FROM vms").fetchone())
    for i in range(count - 1):
        row["id"] = "".join(string.ascii_lowercase[i // 26 ** k % 26] for k in range(20))
        names = ", ".join(row)
        db.execute(f"INSERT INTO vms ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
    db.commit()
    db.close()


def prepare_list(g):
    vm = g.s.create()
    g.s.post(vm, "kill")
    g.s.stop()
    fill(os.path.join(g.s.dir, "pando.db"), LISTED)
    for name in os.listdir(g.s.dir):  # made by root just now
        if name.startswith("pando.db"):
            shutil.chown(os.path.join(g.s.dir, name), "pando", "pando")
    g.s.start()


def list_vms(g):
    for _ in range(LISTS):
        clock = Clock()
        found = g.s.api("GET", "/v1/vms")
        g.record.add("api.list1000", clock.ms())
        if len(found["vms"]) != LISTED or found["totalCount"] != LISTED:
            raise RuntimeError(f"{len(found['vms'])} VMs in the list, not {LISTED}")


# ---- requests per second ----

class Bare:
    """libmicrohttpd answering a constant (bare.c)."""

    def __init__(self, build, mode):
        self.port = free_port()
        self.proc = subprocess.Popen([os.path.join(build, "bench/bare"), mode, str(self.port)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        if self.proc.stdout.readline() != "ready\n":
            raise RuntimeError(f"the bare server ({mode}) does not start")

    def close(self):
        self.proc.stdin.close()
        self.proc.wait(10)


def wrk(port, key):
    r = subprocess.run(["wrk", "-t1", f"-c{WRK_CONNECTIONS}", f"-d{WRK_S}s", "-H", f"Authorization: Bearer {key}",
                        f"http://127.0.0.1:{port}/auth/v1/whoami"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=60)
    m = re.search(r"Requests/sec:\s*([\d.]+)", r.stdout)
    bad = re.search(r"Non-2xx.*|Socket errors.*", r.stdout)
    if r.returncode != 0 or not m or bad:
        raise RuntimeError(f"wrk: {bad[0] if bad else r.stdout + r.stderr}")
    return float(m[1])


def whoami(g):
    """One after the other, so that each has the whole machine"""
    for name, port in (("api.bare", g.bare.port), ("api.whoami", g.s.port), ("api.bare.pool", g.pool.port)):
        g.record.add(name, wrk(port, g.s.key()))


def prepare_whoami(g):
    g.bare, g.pool = Bare(g.build, "thread"), Bare(g.build, "pool")
    for b in (g.bare, g.pool, g.s):
        wrk(b.port, g.s.key())  # the first time warms up


# name, settings of its server, VMs kept ready, preparation, one round
READY = int(os.environ.get("PANDO_BENCH_POOL", "2"))
KINDS = [
    ("api-create", {"PANDO_POOL": str(READY)}, READY, None, create),
    ("api-create-thaw", {"PANDO_POOL": "0"}, 0, None, create),
    ("api-resume", {"PANDO_POOL": "0"}, 0, None, resume),
    ("api-fork", {"PANDO_POOL": "0"}, 0, None, fork),
    ("api-exec", {"PANDO_POOL": "0"}, 0, None, exec_true),
    ("api-run", {"PANDO_POOL": str(READY)}, READY + 1, run_script, runs),
    ("api-list", {"PANDO_POOL": "0"}, 0, prepare_list, list_vms),
    ("api-whoami", {"PANDO_POOL": "0", "PANDO_RATE_KEY": "0"}, 0, prepare_whoami, whoami),
    *edge.KINDS,
    *gitrepos.KINDS,
    *attack.KINDS,
    *page.KINDS,
]
NAMES = [k[0] for k in KINDS]
ROUNDS_MAX = {"edge": edge.ROUNDS_MAX, "attack": attack.ROUNDS_MAX, "page": page.ROUNDS_MAX}
KEEPS = ("api-list", "api-whoami", "edge", "attack", "page", *gitrepos.NAMES)  # their rounds make no VM; what is prepared stays


def run(record, wanted, rounds, work, build, say):
    """Every wanted kind on its own server, all its rounds in a row. Returns a server's health, or None."""
    health = None
    for name, env, ready, prepare, measure in KINDS:
        if name not in wanted:
            continue
        say(f"{name} ...")
        server = harness.Server(env={**SIZE, "PANDO_BLANKS": "10", **env}, data_dir=os.path.join(work, name))
        g = Group(record, server, ready)
        g.build, g.bare, g.pool = build, None, None
        try:
            server.start()
            health = server.api("GET", "/v1/health")
            if prepare:
                prepare(g)
            for _ in range(min(rounds, ROUNDS_MAX.get(name, rounds))):
                measure(g)
                if name not in KEEPS:
                    g.clear()
        except Exception as e:
            record.failures.append({"kind": name, "why": f"{type(e).__name__}: {e}"})
            say(f"FAILED {name}: {e}")
            traceback.print_exc()
        finally:
            for part in (g.bare, g.pool, server):
                if part:
                    part.close()
            shutil.rmtree(os.path.join(work, name), ignore_errors=True)
    return health
