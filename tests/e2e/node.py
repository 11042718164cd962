# SPDX-License-Identifier: Apache-2.0
"""node.py - a folder of tests that Node runs: install what its lock file says, run them, count each"""
import fcntl
import glob
import os
import re
import signal
import subprocess
import threading

from harness import test_logs

TAP = re.compile(r"^(\s*)(ok|not ok) \d+ - (.*?)(?: # (SKIP|TODO)\b\s*(.*))?$")


def install(case, folder):
    """As the lock file says; npm of this machine knows where to ask."""
    lock, done = (os.path.join(folder, n) for n in ("package-lock.json", "node_modules/.package-lock.json"))
    with open(os.path.join(folder, "package.json")) as guard:  # held by one lane at a time, and only while it installs
        fcntl.flock(guard, fcntl.LOCK_EX)
        if os.path.exists(done) and os.path.getmtime(done) >= os.path.getmtime(lock):
            return
        r = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                           text=True, timeout=110)
    case.assertEqual(r.returncode, 0, r.stdout + r.stderr)


def files(folder):
    return sorted(os.path.basename(p) for p in glob.glob(os.path.join(folder, "*.test.mjs")))


def end(p):
    """Node runs each file in a process of its own, which would go on without the one that we started."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(p.pid, sig)
        except ProcessLookupError:
            break
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            pass
    p.wait()


def run(case, folder, names, env, limit_s):
    """These files of the folder; each of their tests becomes a part of the case's."""
    case.assertTrue(names, f"{folder} has no tests: this checkout is incomplete")
    log = os.path.join(test_logs(), f"{type(case).__name__.lower()}-tap.log")
    with open(log, "w") as out:
        p = subprocess.Popen(["node", "--test", "--test-reporter=tap", "--test-concurrency=1", *names], cwd=folder,
                             env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                             start_new_session=True)
        try:
            code = p.wait(limit_s)
        except subprocess.TimeoutExpired:
            code = "none: it took longer than %d s" % limit_s
        finally:
            end(p)
    with open(log) as f:
        text = f.read()
    leaves = leaf_results(text)
    case.assertTrue(leaves, f"node printed no TAP (exit code {code}):\n{text[-3000:]}")
    for test, ok, skip in leaves:
        outcome = "skip" if skip is not None else "pass" if ok else "fail"
        case._outcome.result.part(case, test, outcome, skip or "")
    failed = [test for test, ok, _ in leaves if not ok]
    if code != 0 or failed:
        case.fail(f"exit code {code}, failed: {', '.join(failed) or 'none of its tests'}\n{text[-6000:]}")


def leaf_results(text):
    """(name, ok, skip reason or None) of the innermost TAP lines: a group is the sum of what it holds."""
    found = []
    for line in text.splitlines():
        m = TAP.match(line)
        if not m:
            continue
        depth = len(m[1])
        if found and found[-1][3] > depth:
            found[-1] = (*found[-1][:3], depth)  # the group around the ones before
            continue
        found.append((m[3], m[2] == "ok", m[5] if m[4] == "SKIP" else None, depth))
    return [(n, ok, skip) for n, ok, skip, _ in found]


class Control:
    """What tests of pages want done to the server: they write a word into a file, whose end says that it is done. A server ends with the thread
    that started it, so this one lives until it is closed."""

    def __init__(self, name, acts):
        self.path, self.acts, self.over = os.path.join(test_logs(), f"control-{name}"), acts, threading.Event()
        self.thread = threading.Thread(target=self.obey)
        self.thread.start()

    def obey(self):
        while not self.over.wait(0.1):
            try:
                with open(self.path) as f:
                    word = f.read()
            except FileNotFoundError:
                continue
            if word not in self.acts:
                continue  # it is being written
            self.acts[word]()
            os.unlink(self.path)

    def close(self):
        self.over.set()
        self.thread.join()
        if os.path.exists(self.path):
            os.unlink(self.path)
