# SPDX-License-Identifier: Apache-2.0
"""Repositories on the whole server: bounded memory, limits, what a crash leaves. More of them is asked without machines: tests/unit/test_api_git.py"""
import os
import socket
import subprocess
import threading

from case import Case, limit, wait_for
from git_checks import ZERO, GitChecks, GitTools, Refused, pkt


def peak_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1])


class Git(GitTools, Case):
    server_env = {"PANDO_QUOTA_GIT_REPOS": "3", "PANDO_QUOTA_GIT_MB": "2"}
    limit_s = 240

    def setUp(self):
        self.port, self.key, self.data_dir = self.s.port, self.s.key(), self.s.dir
        self.make_top()

    def bare(self, repo):
        return os.path.join(self.s.dir, "git/repos", f"{repo}.git")

    def leftovers(self):
        """Files in git/ that belong to no repository that is at rest."""
        found = []
        for top in ("tmp", "busy"):
            found += [f"{top}/{n}" for n in os.listdir(os.path.join(self.s.dir, "git", top))]
        for d, _, names in os.walk(os.path.join(self.s.dir, "git/repos")):
            found += [os.path.join(d, n) for n in names if n.endswith(".lock") or n.startswith("tmp_")]
            found += [d] if os.path.basename(d).startswith("tmp_objdir") else []
        return found

    # As without machines; here pandod is another user.
    test_clone_push_fetch = GitChecks.test_clone_push_fetch
    test_who_may = GitChecks.test_who_may

    def test_children_are_jailed(self):
        self.assertNotIn("without a jail", self.s.log_text())

    def test_imports_reach_no_internal_address(self):
        base = self.files_server({"a.tar": b"x"})
        for url in (base + "/a.tar", "http://localhost:1/a", "http://[::1]:1/a", "http://169.254.169.254/latest", "http://10.0.0.1/x",
                    "http://0.0.0.0:1/x", "http://[::ffff:127.0.0.1]:1/x", "http://2130706433:1/x"):
            for body in ({"source": {"url": url}}, {"import": {"type": "tar", "url": url, "commitMessage": "m"}},
                         {"import": {"type": "git", "url": url, "commitMessage": "m"}}):
                e = self.refused(400, "SOURCE_NOT_FOUND", "POST", "/git/v1/repo", body)
                self.assertIn("internal", e["message"], f"{url}: {e}")
        self.assertEqual(self.leftovers(), [])

    def test_limits_of_an_account(self):
        other = self.stranger()
        made = [self.call("POST", "/git/v1/repo", {}, key=other)["repoId"] for _ in range(3)]
        e = self.refused(403, "GIT_REPO_LIMIT_EXCEEDED", "POST", "/git/v1/repo", {}, key=other)
        self.assertEqual((e["limit"], e["current"]), (3, 3))
        w = self.work()
        self.save(w, {"big": os.urandom(3 << 20)})
        text = self.git("push", self.url(made[0], other), "HEAD:main", cwd=w, ok=False)
        self.assertIn("maximum allowed size", text)
        self.save(w, {"big": os.urandom(1500 << 10)})
        self.git("reset", "-q", "--soft", self.git("rev-list", "--max-parents=0", "HEAD", cwd=w).strip(), cwd=w)
        small = self.work()
        self.save(small, {"f": os.urandom(1500 << 10)})
        self.git("push", "-q", self.url(made[0], other), "HEAD:main", cwd=small)
        wait_for("the push is measured", lambda: self.call("GET", f"/git/v1/repo/{made[0]}", key=other)["bytes"] > 1 << 20, 30)
        big = self.work()
        self.save(big, {"g": os.urandom(1 << 20)})
        self.git("push", self.url(made[1], other), "HEAD:main", cwd=big, ok=False)
        for r in made:
            self.call("DELETE", f"/git/v1/repo/{r}", key=other)
        self.assertEqual(self.call("GET", "/git/v1/repo", key=other)["total"], 0)

    @limit(400)
    def test_memory_is_bounded(self):
        repo = self.new()
        w = self.work()
        self.save(w, {f"part{i}": os.urandom(30 << 20) for i in range(4)})
        pid = self.s.pandod_pid()
        before = peak_kb(pid)
        self.git("-c", "core.bigFileThreshold=1m", "push", "-q", self.url(repo), "HEAD:main", cwd=w, timeout=300)
        self.git("clone", "-q", "--bare", self.url(repo), os.path.join(self.top, "back"), timeout=300)
        self.assertEqual(self.s.pandod_pid(), pid)
        self.assertLess(peak_kb(pid) - before, 48 << 10, "pandod grew with what was pushed")

    @limit(400)
    def test_kill9_in_the_middle_of_a_push(self):
        repo = self.new()
        keep = self.commit(repo, {"a": "1"})["sha"]
        w = self.work(repo)
        self.save(w, {"big": os.urandom(20 << 20)})
        # half of a push, and the server is gone
        pack = self.git_bytes("-c", "core.bigFileThreshold=1m", "pack-objects", "--revs", "--stdout", cwd=w, stdin=b"HEAD\n")
        head = self.git("rev-parse", "HEAD", cwd=w).strip()
        body = pkt(f"{ZERO} {head} refs/heads/half\0report-status") + b"0000" + pack
        s = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        s.sendall(f"POST /{repo}/git-receive-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:len(body) // 2])
        wait_for("objects arrive", lambda: any(d.startswith("tmp_objdir") for d in os.listdir(self.bare(repo) + "/objects")), 60)
        self.s.kill9_pandod()
        s.close()
        self.assertEqual(self.leftovers(), [])
        self.git("-c", "safe.directory=*", "--git-dir", self.bare(repo), "fsck", "--strict")
        self.assertEqual([(b["name"], b["commit"]) for b in self.api(repo, "GET", "/git/refs/heads/")["branches"]], [("main", keep)])
        # whole pushes, and the server goes at some moment of each
        for i in range(3):
            p = subprocess.Popen(["git", "-c", "core.bigFileThreshold=1m", "push", "-q", self.url(repo), f"HEAD:try{i}"], cwd=w, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                wait_for("it has begun", lambda: os.listdir(os.path.join(self.s.dir, "git/busy")) or p.poll() is not None, 60, 0.005)
                threading.Event().wait(0.15 * i)
                self.s.kill9_pandod()
            finally:
                code = p.wait(120)
            self.git("-c", "safe.directory=*", "--git-dir", self.bare(repo), "fsck", "--strict")
            names = {b["name"]: b["commit"] for b in self.api(repo, "GET", "/git/refs/heads/")["branches"]}
            self.assertEqual(names["main"], keep)
            self.assertIn(names.get(f"try{i}", head), (head,))
            if code == 0:
                self.assertEqual(names.get(f"try{i}"), head, "an acknowledged push is lost")
        self.git("-c", "core.bigFileThreshold=1m", "push", "-q", "origin", "HEAD:main", cwd=w)
        self.assertEqual(self.api(repo, "GET", "/git/refs/heads/main")["sha"], head)
        self.assertEqual(self.leftovers(), [])

    def git_bytes(self, *args, cwd, stdin):
        return subprocess.run(["git", *args], cwd=cwd, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=True, timeout=120).stdout

    @limit(300)
    def test_kill9_while_repositories_are_made(self):
        before = self.call("GET", "/git/v1/repo")["total"]
        acknowledged, stop = [], threading.Event()

        def make():
            while not stop.is_set():
                try:
                    acknowledged.append(self.call("POST", "/git/v1/repo",
                                                  {"import": {"type": "files", "files": {"a": "1"}, "commitMessage": "m"}})["repoId"])
                except (Refused, OSError, ValueError):
                    if stop.is_set():
                        return
                except Exception:  # the connection broke in the middle of an answer
                    pass

        threads = [threading.Thread(target=make) for _ in range(3)]
        for t in threads:
            t.start()
        try:
            wait_for("some are made", lambda: len(acknowledged) >= 3, 60)
            self.s.kill9_pandod()
        finally:
            stop.set()
            for t in threads:
                t.join(60)
        there = {r["id"] for r in self.call("GET", "/git/v1/repo?limit=1000")["repositories"]}
        self.assertLessEqual(set(acknowledged), there)
        self.assertEqual(self.leftovers(), [])
        on_disk = {n[:-4] for n in os.listdir(os.path.join(self.s.dir, "git/repos"))}
        self.assertEqual(on_disk, there)
        self.assertGreaterEqual(len(there), before)
        self.repos += there
