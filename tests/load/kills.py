#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kills.py [--kills N] [--only NAME,...] [--seed N] - processes of the real server are killed at random moments of a mixed load (make faults)

Theory of operation: in each round the load of tests/disk/powercut.py (pushes, commits, large files, keys, VMs that are suspended, forked and
snapshotted) and other clients (edge, SSH, terminals, commands, clones) run at once; at a moment that the seed chooses one process gets SIGKILL, which is
also how the kernel ends what has too much memory: pandod, pando-priv, the QEMU of a VM, or a child of git. Whoever runs pando-priv starts it again. Then the
server must be ready; every client must be served; what was acknowledged must be there; git fsck must be clean; and when all is
deleted no layer, run directory, QEMU, child of git or temporary file may be left. At the end nothing may be left on the host at all.
"""
import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "tests/disk"), os.path.join(ROOT, "tests/e2e")]
import clients  # noqa: E402
import harness  # noqa: E402
import host  # noqa: E402
import powercut  # noqa: E402
from harness import ApiError, Server, say  # noqa: E402

TARGETS = ("pandod", "pando-priv", "qemu", "git")
BESIDE = ("get", "exec", "edge", "clone", "ssh", "pty")
LONGEST_S = 4        # of load before the kill
AFTER_S = 0.5        # of load after it: what runs into the closed door
FAILS = (OSError, http.client.HTTPException, ApiError, AssertionError, clients.Wrong, subprocess.SubprocessError, ValueError, KeyError)


class Journal:
    """What powercut.py writes into the log of its disk."""

    def __init__(self):
        self.records = []

    def tell(self, line):
        self.records.append(type("Record", (), {"op": "k", "name": line.removeprefix("mark ")}))

    def expected(self):
        return powercut.expected(self.records, len(self.records))


class Load(powercut.Load):
    """Goes on after a failure; one while nobody was killed is remembered."""

    def guard(self, job, n):
        k = 0
        while not self.over.is_set():
            try:
                k += 1
                job(random.Random(f"{self.seed}/{n}/{k}"))
            except FAILS as e:
                if not self.killed.is_set():
                    self.errors.append(f"{job.__name__}: {e}")
                self.over.wait(0.1)


class Kills:
    def __init__(self, args):
        self.args, self.rng = args, random.Random(args.seed)
        self.home = tempfile.mkdtemp(prefix="pando-kills-")
        self.s = Server(env={"PANDO_BLANKS": "1", "PANDO_LOG": "warn"})
        self.slowest, self.acks, self.count = 0, 0, dict.fromkeys(TARGETS, 0)

    def beside(self, name, over, killed, errors):
        good = clients.Good(self.world, name)
        while not over.is_set():
            try:
                getattr(good, name)()
            except FAILS as e:
                if not killed.is_set():
                    errors.append(f"{name}: {e}")
                over.wait(0.1)

    def victim(self, target):
        if target == "pando-priv":
            return self.s.proc.pid
        if target == "pandod":
            return self.s.pandod_pid()
        if target == "qemu":
            own = self.s.info(self.world.vm)["vmInstanceId"]
        else:
            return harness.wait_for("a child of git", self.git_child, 60, every_s=0.002)
        return self.rng.choice(harness.wait_for("a QEMU that is not the world's", lambda: [p for i, p in self.qemus().items() if i != own], 60))

    def git_child(self):
        """They live for milliseconds, so only pandod's own children are looked at."""
        try:
            top = f"/proc/{self.pandod}/task"
            for task in os.listdir(top):
                with open(f"{top}/{task}/children") as f:
                    for pid in f.read().split():
                        if "git" in os.path.basename(host.exe(int(pid)) or ""):
                            return int(pid)
        except OSError:
            pass
        return None

    def children(self, program):
        return [p for p in self.s.descendants() if program in os.path.basename(host.exe(p) or "")]

    def qemus(self):
        """Those that live, by instance, from pando-priv's records: after its death they are nobody's children."""
        found = {}
        top = f"/run/pando/{self.s.tag}/vm"
        for instance in os.listdir(top):
            try:
                with open(os.path.join(top, instance)) as f:
                    pid = int(f.read().split()[0])
            except (OSError, ValueError, IndexError):
                continue
            if host.alive(pid):
                found[instance] = pid
        return found

    def round(self, n):
        journal, over, killed = Journal(), threading.Event(), threading.Event()
        load = Load(self.s, journal.tell, f"{self.args.seed}/{n}", True, self.home)
        load.killed = killed
        errors = []
        threads = [threading.Thread(target=self.beside, args=(name, over, killed, errors), daemon=True) for name in BESIDE]
        for t in [*threads, *load.threads]:
            t.start()
        target = self.args.only[n % len(self.args.only)]
        time.sleep(self.rng.uniform(0.05, LONGEST_S))  # the moment is what is being tested
        try:
            self.pandod = old = self.s.pandod_pid()
            pid = self.victim(target)
            killed.set()
            host.kill(pid, signal.SIGKILL)
            self.count[target] += 1
            t0 = time.monotonic()
            time.sleep(AFTER_S)
        finally:
            killed.set()
            load.over.set()
            over.set()
        if target in ("pandod", "pando-priv"):
            if target == "pando-priv":
                self.s.proc.wait()
            self.s.await_pandod(old)
        took = time.monotonic() - t0
        for t in [*threads, *load.threads]:
            t.join(harness.CALL_S * 2)
            assert not t.is_alive(), f"a client hangs: {t}"
        assert not load.errors and not errors, f"before the kill: {load.errors + errors}"
        self.slowest, self.acks = max(self.slowest, took), self.acks + load.count
        self.check(journal)
        return f"{target} after {load.count} acknowledgements, {took:.1f} s"

    def check(self, journal):
        good = clients.Good(self.world, "after")
        for name in BESIDE:
            getattr(good, name)()
        powercut.Check(self.s, journal.expected(), self.home, wake=1)
        self.tidy()

    def tidy(self):
        """Everything but the world goes, and nothing of it stays."""
        s = self.s
        for vm in s.vms():
            if vm != self.world.vm:
                s.delete(vm)
        for x in s.api("GET", "/v1/vms/snapshots")["snapshots"]:
            if not x.get("deleted"):
                s.api("DELETE", f"/v1/vms/snapshots/{x['snapshotId']}")
        for r in s.api("GET", "/git/v1/repo?limit=100")["repositories"]:
            if (r.get("id") or r.get("repoId")) != self.world.repo:
                s.api("DELETE", f"/git/v1/repo/{r.get('id') or r.get('repoId')}")

        for k in s.api("GET", "/v1/keys")["keys"]:
            if k["name"] == "k" and not k.get("revokedAt"):
                s.request("DELETE", f"/v1/keys/{k['id']}")

        def stray():
            found = [f for f in s.files() - self.rest]
            running = 1 + s.made_ahead()[0]
            found += [f"qemu {i}" for i in self.qemus()][running:]
            found += [host.describe(p) for p in host.children() if "qemu" in (host.exe(p) or "") and p not in self.qemus().values()]
            found += [f"run/{x}" for x in os.listdir(os.path.join(s.dir, "run"))][running:]
            for top in ("git/tmp", "git/busy"):
                found += [f"{top}/{x}" for x in os.listdir(os.path.join(s.dir, top))]
            found += [host.describe(p) for p in self.children("git")]
            return found
        try:
            harness.wait_for("nothing is left", lambda: not stray(), 40)
        except AssertionError as e:
            raise AssertionError(f"{e}: {stray()}") from None

    def run(self):
        failed = 0
        self.s.start()
        try:
            self.world = clients.World(self.s)
            harness.wait_for("no process is being made ahead", lambda: self.s.made_ahead()[0] >= 1, 60)
            self.rest = self.s.files()
            for n in range(self.args.kills):
                try:
                    text = self.round(n)
                    if self.args.talk or n % 20 == 19:
                        say(f"kills: {n + 1}: {text}")
                except FAILS as e:
                    failed += 1
                    say(f"kills: FAIL round {n} of seed {self.args.seed}: {type(e).__name__}: {e}\n{self.s.log_tail(15)}")
                    if failed > 5:
                        raise
                    self.tidy()
            self.world.close()
            harness.assert_no_debris(self.s)
        finally:
            self.s.close()
            subprocess.run(["rm", "-rf", self.home])
        say("kills: " + json.dumps({"seed": self.args.seed, "kills": self.count, "failed": failed, "acknowledged": self.acks,
                                    "slowestRecoverySeconds": round(self.slowest, 2)}))
        return 1 if failed else 0


def main():
    p = argparse.ArgumentParser(description="kills processes of a Pando under load and looks for what was lost")
    p.add_argument("--kills", type=int, default=200)
    p.add_argument("--only", type=lambda text: text.split(","), default=TARGETS, help="of " + ", ".join(TARGETS))
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--talk", action="store_true")
    args = p.parse_args()
    if not set(args.only) <= set(TARGETS):
        p.error("--only names " + ", ".join(TARGETS))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    say(f"kills: seed {args.seed}")
    return Kills(args).run()


if __name__ == "__main__":
    sys.exit(main())
