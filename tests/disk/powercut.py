#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""powercut.py [--cuts N] [--seconds N] [--seed N] [--only SEED] [--vms] - the data directory as it was on disk when the power went (make powercut)

Theory of operation: the real server runs on a disk that records everything (recfs.c), under a mixed load: pushes with git and over the API, large files,
accounts and keys and, with --vms, VMs that are suspended, snapshotted, forked and deleted. Each operation is marked in the same log when it begins and
when it was acknowledged. Then for each cut a place in the log is chosen, near a flush, and cut.py makes the disk of that moment. The real
server must start on it; what was acknowledged before must be there, what had not begun must not, what was under way may be either; git fsck must be
clean; suspended VMs must wake with their memory and files; nothing may be left that belongs to nobody.
"""
import argparse
import base64
import collections
import hashlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import cut
import disk
import harness
from harness import ApiError, Server, say

WAKE_MAX = 2   # VMs that are woken after each cut
GIT_ENV = {"PATH": os.environ["PATH"], "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A",
           "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}


class Lost(AssertionError):
    """Something acknowledged is not there."""


def git(*argv, cwd=None, home):
    p = subprocess.run(["git", *argv], cwd=cwd or home, env={**GIT_ENV, "HOME": home}, capture_output=True, text=True, timeout=120)
    if p.returncode:
        raise OSError(f"git {' '.join(argv)}: {p.stdout}{p.stderr}")
    return p.stdout.strip()


class Load:
    """Threads that do things and say so in the log, until stop."""

    def __init__(self, server, tell, seed, vms, top):
        self.s, self.tell_disk, self.seed, self.top = server, tell, seed, top
        self.lock, self.over, self.errors, self.count = threading.Lock(), threading.Event(), [], 0
        jobs = [self.pushes, self.commits, self.accounts, self.large]
        if vms:
            jobs += [self.suspends, self.snapshots]
        self.threads = [threading.Thread(target=self.guard, args=(j, n), daemon=True) for n, j in enumerate(jobs)]

    def guard(self, job, n):
        try:
            job(random.Random(f"{self.seed}/{n}"))
        except (ApiError, OSError, http.client.HTTPException, AssertionError) as e:
            if not self.over.is_set():
                self.errors.append(f"{job.__name__}: {e}")

    def mark(self, word, what, value):
        with self.lock:
            self.tell_disk("mark " + json.dumps([word, what, value]))
            self.count += word == "ack"

    def step(self, what, value, call):
        """value: what holds of `what` afterwards; None when it is gone."""
        self.mark("begin", what, value)
        got = call()
        self.mark("ack", what, value)
        return got

    def run(self, seconds):
        for t in self.threads:
            t.start()
        self.over.wait(seconds)
        self.over.set()
        for t in self.threads:
            t.join(harness.CALL_S)

    def url(self, repo):
        return f"http://x-access-token:{self.s.key()}@127.0.0.1:{self.s.port}/{repo}"

    def repo(self):
        """Its id is known only afterwards, so it counts from then on."""
        repo = self.s.api("POST", "/git/v1/repo", {})["repoId"]
        self.mark("ack", f"repo {repo}", True)
        return repo

    def pushes(self, rng):
        w = tempfile.mkdtemp(dir=self.top)
        git("init", "-q", "-b", "main", w, home=self.top)
        repo, n = self.repo(), 0
        while not self.over.is_set():
            n += 1
            for k in range(rng.choice((1, 3, 40))):  # unpacked, or kept as a pack
                with open(os.path.join(w, f"f{k}"), "w") as f:
                    f.write(f"{n} {rng.random()}\n" * rng.choice((1, 200)))
            git("add", "-A", cwd=w, home=self.top)
            git("commit", "-qm", f"c{n}", cwd=w, home=self.top)
            sha, ref = git("rev-parse", "HEAD", cwd=w, home=self.top), rng.choice(("main", f"deep/er/b{n}"))
            self.step(f"ref {repo} refs/heads/{ref}", sha,
                      lambda ref=ref: git("push", "-q", self.url(repo), f"HEAD:{ref}", cwd=w, home=self.top))
            if n % 8 == 0:
                repo = self.repo()

    def commits(self, rng):
        """By pandod itself. The hash is known only afterwards: only the message is looked for."""
        repo, n = self.repo(), 0
        while not self.over.is_set():
            n += 1
            self.step(f"commit {repo}", n, lambda n=n: self.s.api(
                "POST", f"/git/v1/repo/{repo}/commits",
                {"message": f"number {n}", "files": [{"path": f"d{n % 5}/f", "content": "x" * rng.randint(1, 9000)}]}))

    def accounts(self, rng):
        made = []
        while not self.over.is_set():
            if len(made) > 3 and rng.random() < 0.6:
                k = made.pop(rng.randrange(len(made)))
                self.step(f"key {k}", None, lambda k=k: self.s.api("DELETE", f"/v1/keys/{k}"))
            else:
                k = self.s.api("POST", "/v1/keys", {"name": "k"})
                self.mark("ack", f"key {k['id']}", True)
                made.append(k["id"])

    def large(self, rng):
        repo = self.repo()
        while not self.over.is_set():
            data = rng.randbytes(rng.choice((100, 70000)))
            oid = hashlib.sha256(data).hexdigest()
            auth = base64.b64encode(f"x-access-token:{self.s.key()}".encode()).decode()
            self.step(f"lfs {repo} {oid}", len(data), lambda data=data, oid=oid: self.s.api(
                "PUT", f"/{repo}/info/lfs/objects/{oid}", data, headers={"Authorization": f"Basic {auth}"}))

    def suspends(self, rng):
        vm = self.s.create()
        self.mark("ack", f"vm {vm}", ["any", None])
        n = 0
        while not self.over.is_set():
            n += 1
            self.mark("begin", f"vm {vm}", ["any", None])
            self.s.sh(vm, f"echo {n} >/dev/shm/v; echo {n} >/root/v")
            self.step(f"vm {vm}", ["suspended", n], lambda: self.s.post(vm, "suspend"))
            if rng.random() < 0.3:
                self.step(f"vm {vm}", None, lambda: self.s.delete(vm))
                vm = self.s.create()
                self.mark("ack", f"vm {vm}", ["any", None])

    def snapshots(self, rng):
        vm = self.s.create()
        self.mark("ack", f"vm {vm}", ["any", None])
        kept = []
        n = 0
        while not self.over.is_set():
            n += 1
            self.s.sh(vm, f"echo {n} >/dev/shm/v; echo {n} >/root/v")
            if n % 3 == 0:
                (child,) = self.s.fork(vm, 1)
                self.mark("ack", f"vm {child}", ["any", None])
                self.step(f"vm {child}", ["suspended", n], lambda c=child: self.s.post(c, "suspend"))
            else:
                snap = self.s.snapshot(vm)
                self.mark("ack", f"snapshot {snap}", n)
                kept.append(snap)
            if len(kept) > 2:
                old = kept.pop(0)
                self.step(f"snapshot {old}", None, lambda old=old: self.s.api("DELETE", f"/v1/vms/snapshots/{old}"))


def expected(records, at):
    """What each thing may be: its last acknowledged value, or any that was begun since."""
    may = collections.OrderedDict()
    for r in records[:at]:
        if r.op == "k":
            word, what, value = json.loads(r.name)
            if word == "ack":
                may[what] = [value]
            else:
                may.setdefault(what, ["nothing"]).append(value)
    return may


class Check:
    def __init__(self, server, may, home, wake):
        self.s, self.home, self.wake, self.woken, self.looked = server, home, wake, 0, 0
        self.key_ids = {k["id"]: k for k in server.api("GET", "/v1/keys")["keys"]}
        self.vms = server.vms()
        snaps = server.api("GET", "/v1/vms/snapshots?includeLost=true")["snapshots"]
        self.snaps = {x["snapshotId"]: x for x in snaps if not x.get("deleted")}
        lost = [v for v, i in self.vms.items() if i["state"] == "lost"] + [x for x, i in self.snaps.items() if i.get("lost")]
        wrong = [f"the server says that these are lost: {lost}"] if lost else []
        for what, values in reversed(may.items()):  # the newest first: those are woken
            kind, *names = what.split(" ")
            self.looked += 1
            try:
                getattr(self, kind)(values, *names)
            except (ApiError, OSError, Lost) as e:
                wrong.append(f"{what} should be {values}: {e}")
        wrong += self.fsck()
        if wrong:
            raise Lost("; ".join(wrong[:6]) + (f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""))

    def need(self, good, what, values, found):
        if not good:
            raise Lost(f"{what} is {found}")

    def repo(self, values, repo):
        self.s.api("GET", f"/git/v1/repo/{repo}")

    def ref(self, values, repo, ref):
        url = f"http://x-access-token:{self.s.key()}@127.0.0.1:{self.s.port}/{repo}"
        found = git("ls-remote", url, ref, home=self.home).split("\t")[0] or "nothing"
        self.need(found in values, f"{repo} {ref}", values, found)

    def commit(self, values, repo):
        """Those before are its ancestors."""
        if values != ["nothing"] and not ("nothing" in values and not self.s.api("GET", f"/git/v1/repo/{repo}/branches").get("branches")):
            found = self.s.api("GET", f"/git/v1/repo/{repo}/git/commits?limit=1&order=desc")["commits"]
            n = int(found[0]["message"].split()[1]) if found else "nothing"
            self.need(n in values, f"the last commit of {repo}", values, n)

    def key(self, values, key):
        k = self.key_ids.get(key)
        found = True if k and not k.get("revoked") and not k.get("revokedAt") else None
        self.need(found in values, f"key {key}", values, found)

    def lfs(self, values, repo, oid):
        auth = base64.b64encode(f"x-access-token:{self.s.key()}".encode()).decode()
        c = http.client.HTTPConnection("127.0.0.1", self.s.port, timeout=harness.CALL_S)
        c.request("GET", f"/{repo}/info/lfs/objects/{oid}", headers={"Authorization": f"Basic {auth}"})
        r = c.getresponse()
        data = r.read()
        c.close()
        if r.status == 404 and "nothing" in values:
            return
        self.need(r.status == 200 and hashlib.sha256(data).hexdigest() == oid, f"large file {oid}", values, f"{r.status}, {len(data)} bytes")

    def vm(self, values, vm):
        info = self.vms.get(vm)
        if info is None:
            self.need(None in values or "nothing" in values, f"VM {vm}", values, "gone")
            return
        self.need(values != [None], f"VM {vm}", values, info["state"])
        states = [v[0] for v in values if isinstance(v, list)]
        self.need("any" in states or info["state"] in states, f"VM {vm}", values, info["state"])
        if info["state"] == "suspended" and self.woken < self.wake:
            self.woken += 1
            found = self.s.sh(vm, "cat /dev/shm/v /root/v").split()
            good = {v[1] for v in values if isinstance(v, list)}
            if None not in good:
                self.need(len(found) == 2 and int(found[0]) in good and found[0] == found[1], f"memory and disk of {vm}", values, found)

    def snapshot(self, values, snap):
        there = snap in self.snaps
        self.need((there and values != [None]) or (not there and (None in values or "nothing" in values)), f"snapshot {snap}", values, there)
        if there and self.woken < self.wake:
            self.woken += 1
            vm = self.s.create(snapshotId=snap)
            found = self.s.sh(vm, "cat /dev/shm/v /root/v").split()
            self.need(found == [str(values[0])] * 2, f"memory and disk of snapshot {snap}", values, found)

    def fsck(self):
        top = os.path.join(self.s.dir, "git/repos")
        wrong = []
        for name in os.listdir(top):
            try:
                git("-c", "safe.directory=*", "--git-dir", os.path.join(top, name), "fsck", "--strict", "--full", home=self.home)
            except OSError as e:
                wrong.append(str(e))
        return wrong


def places(records, rng, count):
    """Where to cut: around flushes, mostly right before or after one; not before the first acknowledgement."""
    first = next((r.at for r in records if r.op == "k"), 0)
    flushes = [r.at for r in records if r.op in "sk" and r.at > first] or [len(records)]
    return [min(len(records), max(first, rng.choice(flushes) + rng.choice((0, 1, 1, 2, rng.randint(0, 30))))) for _ in range(count)]


def kill_all(server):
    """The machine is gone: no process has a chance to say goodbye."""
    pids = [server.proc.pid, *server.descendants()]
    for pid in pids:
        harness.host.kill(pid, signal.SIGSTOP)
    for pid in pids:
        harness.host.kill(pid, signal.SIGKILL)
    server.proc.wait()
    harness.wait_for("all processes are gone", lambda: (harness.reap(), not [p for p in pids if harness.host.alive(p)])[1], 30)


class Run:
    def __init__(self, args):
        self.args, self.top = args, harness.test_dir()
        self.data = os.path.join(self.top, "data")
        self.home = os.path.join(self.top, "home")
        self.log = os.path.join(self.top, "log")
        os.mkdir(self.home)
        self.env = {"PANDO_BLANKS": "0", "PANDO_LOG": os.environ.get("PANDO_LOG", "warn")}

    def record(self):
        s = Server(env=self.env, data_dir=self.data)
        s.start()
        s.stop()
        s.start()  # what the first start leaves to the second is there now
        s.stop()
        self.base = cut.Base(self.data, os.path.join(self.top, "base"))
        self.rest = s.files()
        d = disk.Disk(self.data, self.log)
        try:
            s.start()
            load = Load(s, d.tell, self.args.seed, self.args.vms, self.home)
            load.run(self.args.seconds)
            kill_all(s)
        finally:
            s.close()
            d.close()
        if load.errors:
            raise AssertionError("the load failed: " + "; ".join(load.errors))
        os.rename(self.data, os.path.join(self.top, "lower"))
        self.records = cut.read_log(self.log)
        say(f"powercut: {len(self.records)} changes recorded, {os.path.getsize(self.log) >> 20} MB, "
            f"{sum(r.op == 's' for r in self.records)} flushes, {load.count} acknowledgements")

    def cut(self, at, seed):
        """Returns how many things were looked at."""
        state = cut.Cut(self.log, self.records, self.base, at, seed)
        report = state.build(self.data)
        s = Server(env=self.env, data_dir=self.data)
        t0 = time.monotonic()
        try:
            s.start()
            ready = time.monotonic() - t0
            s.rest = self.rest
            c = Check(s, expected(self.records, at), self.home, WAKE_MAX if self.args.vms else 0)
            harness.assert_no_debris(s)
            return c.looked, ready
        except (AssertionError, OSError, ApiError) as e:
            raise AssertionError(f"seed {seed}, cut after change {at} of {len(self.records)}: {e}\n  " + "\n  ".join(report[:40]) +
                                 "".join("\n    | " + x for x in s.log_text().splitlines() if " warn " in x or " error " in x)[-3000:]) from e
        finally:
            s.close()
            shutil.rmtree(self.data)

    def close(self):
        if not self.args.keep:
            shutil.rmtree(self.top, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description="starts Pando on the disk as a power cut may have left it")
    p.add_argument("--cuts", type=int, default=40)
    p.add_argument("--seconds", type=float, default=20, help="of load that is recorded")
    p.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    p.add_argument("--vms", action="store_true", help="VMs are part of the load")
    p.add_argument("--keep", action="store_true", help="leave the log and the data directories")
    args = p.parse_args()
    if disk.why_not():
        say(f"powercut: skipped: {disk.why_not()}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    run, failed, looked, slowest = Run(args), 0, 0, 0
    say(f"powercut: seed {args.seed}")
    try:
        run.record()
        rng = random.Random(args.seed)
        for n, at in enumerate(places(run.records, rng, args.cuts)):
            try:
                k, ready = run.cut(at, args.seed * 1000 + n)
                looked, slowest = looked + k, max(slowest, ready)
            except AssertionError as e:
                failed += 1
                say(f"powercut: FAIL cut {n}: {e}")
    finally:
        run.close()
    say(f"powercut: {args.cuts} cuts, {failed} failed; {looked} acknowledged things looked at; slowest start {slowest:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
