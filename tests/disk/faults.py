#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""faults.py [--faults N] [--seed N] - the disk under the real server fails: EIO, ENOSPC, short writes, slow flushes (make faults)

Theory of operation: the server's data directory is on recfs.c. First everything that changes something is done once, undisturbed: keys, commits, a push, a large
file, a VM that is made, written to, suspended, snapshotted, forked and deleted; recfs counts the calls for each part (database, layers, device states, repositories, large files,
all) and each kind of failure. In each round the seed chooses one of those that have calls, which of these calls is the first to fail, and for how many calls that lasts;
meanwhile the same things are done again. A round in which the fault was not met (there are a few calls more or less each time) does not count: it is done again
with an earlier call. Each call of a client may fail, with a code and a sentence, but not hang. Then the disk is well again: what was acknowledged must be there, git fsck must be clean, the server must be the same process, all
verbs must work, and nothing may be left that belongs to nobody.
"""
import argparse
import errno
import http.client
import json
import os
import random
import shutil
import signal
import sys

import disk
import harness
import powercut
from harness import ApiError, Server, say

AREAS = {"database": "pando.db", "layers": "/layers/", "states": "/points/", "repositories": "/git/repos/", "large files": "/git/lfs/", "all": "/"}
KINDS = {  # kind of the rule, calls, value
    "write fails": ("fail", "w", errno.EIO), "disk is full": ("fail", "wcat", errno.ENOSPC), "write is short": ("short", "w", 0),
    "flush fails": ("fail", "s", errno.EIO), "flush is slow": ("slow", "s", 300), "rename fails": ("fail", "rl", errno.EIO),
    "read fails": ("fail", "d", errno.EIO),
}
LASTS = (1, 1, 3, 1000000)
FAILS = (ApiError, OSError, http.client.HTTPException, AssertionError)


class Journal:
    def __init__(self):
        self.records = []

    def tell(self, line):
        self.records.append(type("Record", (), {"op": "k", "name": line.removeprefix("mark ")}))


class Once(powercut.Load):
    """Every job for one turn, one after the other."""

    def guard(self, job, n):
        self.turns = 0
        self.over = self
        try:
            job(random.Random(f"{self.seed}/{n}"))
        except FAILS as e:
            if isinstance(e, ApiError) and not (e.code and e.message):
                raise AssertionError(f"{job.__name__}: a refusal without a code and a sentence: {e}") from e
            self.errors.append(f"{job.__name__}: {e}")

    def is_set(self):
        self.turns += 1
        return self.turns > 3

    def run_all(self):
        for n, job in enumerate((self.accounts, self.commits, self.pushes, self.large, self.suspends, self.snapshots)):
            self.guard(job, n)


class Run:
    def __init__(self, args):
        self.args, self.rng = args, random.Random(args.seed)
        self.top = harness.test_dir()
        self.data, self.home = os.path.join(self.top, "data"), os.path.join(self.top, "home")
        os.mkdir(self.home)
        self.s = Server(env={"PANDO_BLANKS": "0", "PANDO_LOG": "warn"}, data_dir=self.data)
        self.missed = self.refused = 0
        self.met = {}  # by part and kind

    def tidy(self):
        s = self.s
        for vm in s.vms():
            s.delete(vm)
        for x in s.api("GET", "/v1/vms/snapshots?includeLost=true")["snapshots"]:
            if not x.get("deleted"):
                s.api("DELETE", f"/v1/vms/snapshots/{x['snapshotId']}")
        for r in s.api("GET", "/git/v1/repo?limit=100")["repositories"]:
            s.api("DELETE", f"/git/v1/repo/{r.get('id') or r.get('repoId')}")

        for k in s.api("GET", "/v1/keys")["keys"]:
            if k["name"] == "k" and not k.get("revokedAt"):
                s.request("DELETE", f"/v1/keys/{k['id']}")

        def stray():
            found = sorted(s.files() - s.rest) + [f"run/{x}" for x in os.listdir(os.path.join(s.dir, "run"))]
            for top in ("git/tmp", "git/busy"):
                found += [f"{top}/{x}" for x in os.listdir(os.path.join(s.dir, top))]
            return found
        try:
            harness.wait_for("nothing is left", lambda: not stray(), 60)
        except AssertionError as e:
            raise AssertionError(f"{e}: {stray()}") from None

    def census(self):
        """{(part, kind): calls in one undisturbed turn}, without those that have none"""
        pairs = [(a, k) for a in AREAS for k in KINDS]
        for a, k in pairs:
            self.d.rule("calls", KINDS[k][1], AREAS[a])
        load = Once(self.s, Journal().tell, f"{self.args.seed}/census", True, self.home)
        load.run_all()
        found = dict(zip(pairs, (calls for _, calls in self.d.clear()), strict=True))
        assert not load.errors, f"on a disk that is well: {load.errors}"
        self.tidy()
        return {p: n for p, n in found.items() if n}

    def round(self, n):
        pair = self.rng.choice(sorted(self.calls))
        # half of them early, where most verbs begin; a rule's calls are all over the turn
        nth, lasts = self.rng.randint(1, max(1, self.calls[pair] // self.rng.choice((1, 1, 4, 20)))), self.rng.choice(LASTS)
        while not self.attempt(n, pair, nth, lasts):
            self.missed += 1
            if nth > 1:
                nth = max(1, nth // 2)
            else:  # there is none every time: reads of what is in memory by now
                del self.calls[pair]
                pair = self.rng.choice(sorted(self.calls))
        self.met[", ".join(pair)] = self.met.get(", ".join(pair), 0) + 1

    def attempt(self, n, pair, nth, lasts):
        """True: the fault was met."""
        area, kind = pair
        rule, ops, value = KINDS[kind]
        text = f"{area}, {kind}, call {nth} of about {self.calls[pair]} and {lasts - 1} more"
        journal = Journal()
        pid = self.s.pandod_pid()
        self.d.rule(rule, ops, AREAS[area], nth, lasts, value)
        load = Once(self.s, journal.tell, f"{self.args.seed}/{n}", True, self.home)
        try:
            load.run_all()
        finally:
            (hits, calls), = self.d.clear()
        self.refused += len(load.errors)
        if self.args.talk:
            say(f"faults: {n}: {text}: met {hits} of {calls} calls; refused: {'; '.join(e[:150] for e in load.errors) or 'nothing'}")
        if self.s.pandod_pid() != pid:
            raise AssertionError(f"{text}: pandod did not survive it")
        if not hits and load.errors:
            raise AssertionError(f"{text}: refused although nothing had failed: {load.errors}")
        try:
            powercut.Check(self.s, powercut.expected(journal.records, len(journal.records)), self.home, wake=4)
            after = Once(self.s, Journal().tell, f"{self.args.seed}/{n}/after", True, self.home)
            after.run_all()
            if after.errors:
                raise AssertionError(f"the disk is well, but: {after.errors}")
            self.tidy()
        except FAILS as e:
            raise AssertionError(f"{text}: {e}; refused were: {load.errors}") from e
        return hits > 0

    def run(self):
        failed = 0
        self.s.start()
        self.s.stop()
        self.d = disk.Disk(self.data)
        try:
            self.s.start()
            self.calls = self.census()
            say("faults: calls in one turn: " + json.dumps({", ".join(p): n for p, n in self.calls.items()}))
            for n in range(self.args.faults):
                try:
                    self.round(n)
                except FAILS as e:
                    failed += 1
                    say(f"faults: FAIL round {n} of seed {self.args.seed}: {e}\n{self.s.log_tail(15)}")
                    if failed > 5:
                        raise
                    self.tidy()
            harness.assert_no_debris(self.s, own=[self.d.proc.pid])
        finally:
            self.s.close()
            self.d.close()
            shutil.rmtree(self.top, ignore_errors=True)
        say("faults: " + json.dumps({"seed": self.args.seed, "rounds": self.args.faults, "met": sum(self.met.values()), "metBy": self.met,
                                     "repeatedBecauseNotMet": self.missed, "refusedCalls": self.refused,
                                     "failed": failed}))
        return 1 if failed else 0


def main():
    p = argparse.ArgumentParser(description="lets the disk under a Pando fail and looks for what was lost")
    p.add_argument("--faults", type=int, default=60)
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--talk", action="store_true")
    args = p.parse_args()
    if disk.why_not():
        say(f"faults: skipped: {disk.why_not()}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    say(f"faults: seed {args.seed}")
    return Run(args).run()


if __name__ == "__main__":
    sys.exit(main())
