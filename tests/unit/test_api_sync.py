#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Mirrors against `git http-backend` behind a small web server; usage: test_api_sync.py SERVE_GIT [TEST...]"""
import base64
import http.server
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_api_triggers import Base  # noqa: E402

BACKEND = "/usr/lib/git-core/git-http-backend"
TOKEN = "s3cret-of-the-other-server"


class Backend(http.server.BaseHTTPRequestHandler):
    """Another Git server: it wants a password, and can hold up a request."""
    protocol_version = "HTTP/1.0"

    def answer(self):
        s = self.server
        want = "Basic " + base64.b64encode(f"x-access-token:{s.token}".encode()).decode()
        if self.headers.get("Authorization") != want:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if s.hold and s.hold in self.path:
            s.held.set()
            s.release.wait(60)
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": s.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "REMOTE_USER": "x", "REMOTE_ADDR": "127.0.0.1", "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "CONTENT_LENGTH": str(len(body)), "GIT_CONFIG_NOSYSTEM": "1",
               "HOME": s.root}
        out = subprocess.run([BACKEND], input=body, env=env, capture_output=True, timeout=60).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        lines = [h.split(": ", 1) for h in head.decode().split("\r\n") if ": " in h]
        status = next((v for k, v in lines if k == "Status"), "200")
        self.send_response(int(status.split()[0]))
        for k, v in lines:
            if k != "Status":
                self.send_header(k, v)
        self.end_headers()
        try:
            self.wfile.write(rest)
        except OSError:
            pass

    do_GET = do_POST = answer

    def log_message(self, *args):
        pass


class Sync(Base):
    def start(self):
        if not hasattr(self, "far"):
            self.far = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Backend)
            self.far.daemon_threads = True
            self.far.root = tempfile.mkdtemp(prefix="pando-far-")
            self.far.token = TOKEN
            self.far.hold, self.far.held, self.far.release = "", threading.Event(), threading.Event()
            self.addCleanup(shutil.rmtree, self.far.root, ignore_errors=True)
            threading.Thread(target=self.far.serve_forever, daemon=True).start()
            self.addCleanup(self.far.server_close)
            self.addCleanup(self.far.shutdown)
            self.addCleanup(self.far.release.set)
            self.bare = os.path.join(self.far.root, "owner/app.git")
            subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.bare], check=True, timeout=30)
            subprocess.run(["git", "-C", self.bare, "config", "http.receivepack", "true"], check=True, timeout=30)
            self.env = {"FX_GITHUB": f"http://127.0.0.1:{self.far.server_port}", **self.more_env}
        super().start()

    more_env = {}

    def far_git(self, *args):
        return self.git("-c", "safe.directory=*", "--git-dir", self.bare, *args).strip()

    def far_refs(self):
        v = self.far_git("for-each-ref", "--format=%(refname) %(objectname)")
        return dict(line.split() for line in v.split("\n") if line)

    def here_refs(self, repo):
        v = self.git("ls-remote", self.url(repo), "refs/*").strip()
        return {r: s for s, r in (line.split("\t") for line in v.split("\n") if line) if not r.endswith("^{}")}

    def enable(self, repo, **more):
        self.assertEqual(self.api(repo, "POST", "/github-sync", {"githubRepoName": "owner/app", "token": TOKEN, **more}), {})

    def status(self, repo):
        return self.api(repo, "GET", "/github-sync")

    def same(self, repo):
        """Both sides have the same references."""
        return self.until("both sides agree", lambda: self.far_refs() == self.here_refs(repo) and
                          self.status(repo)["state"] == "synced" and self.far_refs() or None)

    def test_both_ways(self):
        repo = self.new()
        self.assertIsNone(self.status(repo))
        first = self.commit(repo, {"a": "1"})["sha"]
        self.enable(repo)
        self.assertEqual(self.same(repo)["refs/heads/main"], first)
        # here -> there: by git, with tags and another branch
        w = self.work(repo)
        sha = self.save(w, {"b": "2"})
        self.git("tag", "-a", "-m", "one", "v1", cwd=w)
        self.git("branch", "side", cwd=w)
        self.git("push", "-q", "origin", "main", "side", "v1", cwd=w)
        self.until("it is there", lambda: self.far_refs().get("refs/heads/side") == sha and "refs/tags/v1" in self.far_refs())
        self.same(repo)
        # there -> here, told by the other server's webhook
        far = tempfile.mkdtemp(dir=self.top)
        self.git("clone", "-q", self.bare, far)
        theirs = self.save(far, {"c": "3"})
        self.git("push", "-q", "origin", "main", ":side", cwd=far)
        hook = self.status(repo)["hookPath"]
        self.assertEqual(self.call("POST", hook, b"{}", key=""), {})
        refs = self.same(repo)
        self.assertEqual(refs["refs/heads/main"], theirs)
        self.assertNotIn("refs/heads/side", refs)
        # a deletion here
        self.git("push", "-q", "origin", ":refs/tags/v1", cwd=w)
        self.until("the tag is gone", lambda: "refs/tags/v1" not in self.far_refs())
        # what the sync notes down is nobody's business, and secrets are not shown
        self.assertFalse([r for r in self.here_refs(repo) if "pando" in r])
        self.assertNotIn(TOKEN, str(self.status(repo)))
        self.refused(404, "NOT_FOUND", "POST", "/git/v1/sync-hook/" + "0" * 64, key="")
        self.assertEqual(self.api(repo, "DELETE", "/github-sync"), {})
        self.assertIsNone(self.status(repo))

    def test_conflict(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        self.enable(repo)
        self.same(repo)
        far = tempfile.mkdtemp(dir=self.top)
        self.git("clone", "-q", self.bare, far)
        theirs = self.save(far, {"a": "theirs"})
        self.git("push", "-q", "origin", "main", cwd=far)
        ours = self.commit(repo, {"a": "ours"})["sha"]
        s = self.until("a conflict", lambda: self.status(repo) if self.status(repo)["state"] == "conflict" else None)
        self.assertEqual(s["conflicts"], [{"ref": "heads/main", "local": ours, "remote": theirs, "reason": "the branch has diverged"}])
        # other branches go on, nothing was overwritten
        w = self.work(repo)
        self.git("push", "-q", "origin", "HEAD:refs/heads/other", cwd=w)
        self.until("other", lambda: self.far_refs().get("refs/heads/other") == ours)
        self.assertEqual((self.far_refs()["refs/heads/main"], self.here_refs(repo)["refs/heads/main"]), (theirs, ours))
        # somebody merges here
        self.git("fetch", "-q", self.bare, "main", cwd=w)
        self.git("merge", "-q", "-s", "ours", "-m", "both", "FETCH_HEAD", cwd=w)
        self.git("push", "-q", "origin", "HEAD:main", cwd=w)
        self.assertEqual(self.same(repo)["refs/heads/main"], self.git("rev-parse", "HEAD", cwd=w).strip())

    def test_forced_there(self):
        """History that was rewritten there is not taken over, nor overwritten."""
        repo = self.new()
        first = self.commit(repo, {"a": "1"})["sha"]
        second = self.commit(repo, {"a": "2"})["sha"]
        self.enable(repo)
        self.same(repo)
        far = tempfile.mkdtemp(dir=self.top)
        self.git("clone", "-q", self.bare, far)
        self.git("reset", "-q", "--hard", first, cwd=far)
        other = self.save(far, {"a": "another 2"})
        self.git("push", "-qf", "origin", "main", cwd=far)
        self.api(repo, "POST", "/github-sync/run")
        self.until("a conflict", lambda: self.status(repo)["state"] == "conflict")
        self.assertEqual((self.far_refs()["refs/heads/main"], self.here_refs(repo)["refs/heads/main"]), (other, second))

    def test_wrong_password_and_strangers(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        self.enable(repo, token="wrong")
        s = self.until("a failure", lambda: self.status(repo) if self.status(repo)["state"] == "failed" else None)
        self.assertTrue(s["error"])
        self.assertEqual(self.far_refs(), {})
        base = f"/git/v1/repo/{repo}/github-sync"
        for body in ({}, {"githubRepoName": "nonsense"}, {"githubRepoName": "../x"}, {"githubRepoName": "-a/b"}, {"url": "file:///etc"},
                     {"url": "http://u:p@example.org/x"}):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", base, body)
        other = self.stranger()
        self.refused(404, "REPOSITORY_NOT_FOUND", "GET", base, key=other)
        self.refused(404, "REPOSITORY_NOT_FOUND", "DELETE", base, key=other)
        self.enable(repo)
        self.same(repo)

    def hold(self, what):
        self.far.held.clear()
        self.far.release.clear()
        self.far.hold = what

    def let_go(self):
        self.far.hold = ""
        self.far.release.set()

    def whole(self, repo):
        bare = os.path.join(self.data_dir, "git/repos", f"{repo}.git")
        self.git("-c", "safe.directory=*", "--git-dir", bare, "fsck", "--strict", "--full")
        self.assertEqual([n for d, _, names in os.walk(bare) for n in names if n.endswith(".lock")], [])

    def test_kill_during_sync(self):
        """While it fetches, and while it pushes: what came from there is told once."""
        repo = self.new()
        t = self.trigger(repo, branches=["far*"])
        self.commit(repo, {"a": "1"})
        self.enable(repo)
        self.same(repo)
        far = tempfile.mkdtemp(dir=self.top)
        self.git("clone", "-q", self.bare, far)
        for i, what in enumerate(("/git-upload-pack", "/git-receive-pack")):
            with self.subTest(what):
                self.git("fetch", "-q", cwd=far)
                self.git("reset", "-q", "--hard", "origin/main", cwd=far)
                theirs = self.save(far, {f"far{i}": "x" * 10000})
                self.git("push", "-q", "origin", f"HEAD:refs/heads/far{i}", cwd=far)
                self.hold(what)
                ours = self.commit(repo, {f"here{i}": "1"})["sha"]
                self.assertTrue(self.far.held.wait(60))
                self.crash()
                busy = os.path.join(self.data_dir, "git/busy")
                (note,) = [n for n in os.listdir(busy) if n.startswith(f"{repo}.ph-")]
                with open(os.path.join(busy, note)) as f:  # written before anything moved here
                    self.assertEqual(f"{theirs} refs/heads/far{i}" in f.read(), what == "/git-receive-pack")
                self.let_go()
                self.start()
                refs = self.same(repo)
                self.assertEqual((refs["refs/heads/main"], refs[f"refs/heads/far{i}"]), (ours, theirs))
                self.whole(repo)
                self.git("--git-dir", self.bare, "fsck", "--strict", "--full")
                self.until("it is told", lambda: len([d for d in self.deliveries(repo, t) if d["state"] == "delivered"]) > i)
        self.assertEqual(sorted(d["branch"] for d in self.deliveries(repo, t)), ["far0", "far1"])

    def far_repo(self, name):
        path = os.path.join(self.far.root, f"owner/{name}.git")
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", path], check=True, timeout=30)
        subprocess.run(["git", "-C", path, "config", "http.receivepack", "true"], check=True, timeout=30)
        return path

    def test_accounts_take_turns(self):
        """The mirrors of one account, all of which hang, hold up nobody else's."""
        self.hold("/app.git/")
        for _ in range(6):
            self.enable(self.new())
        self.assertTrue(self.far.held.wait(60))
        path = self.far_repo("other")
        key = self.stranger()
        repo = self.call("POST", "/git/v1/repo", {}, key=key)["repoId"]
        self.addCleanup(self.call, "DELETE", f"/git/v1/repo/{repo}", key=key)
        self.call("POST", f"/git/v1/repo/{repo}/commits", {"message": "m", "files": [{"path": "a", "content": "1"}]}, key=key)
        self.call("POST", f"/git/v1/repo/{repo}/github-sync", {"githubRepoName": "owner/other", "token": TOKEN}, key=key)
        self.until("it is synced", lambda: self.call("GET", f"/git/v1/repo/{repo}/github-sync", key=key)["state"] == "synced")
        self.assertIn("refs/heads/main", self.git("-c", "safe.directory=*", "--git-dir", path, "for-each-ref"))
        self.assertEqual(len(self.sync_states("running")), 1)
        self.let_go()

    def sync_states(self, state):
        return [s for s in (self.status(r) for r in self.repos) if s and s["state"] == state]

    def test_more_than_the_account_may_store(self):
        w = self.work()
        self.save(w, {"big": os.urandom(4 << 20)})
        self.git("push", "-q", self.bare, "HEAD:main", cwd=w)
        a = self.call("POST", "/v1/accounts", {"name": "small", "quotas": {"gitMb": 2}})["id"]
        key = self.call("POST", f"/v1/keys?accountId={a}", {"name": "k"})["key"]
        repo = self.call("POST", "/git/v1/repo", {}, key=key)["repoId"]
        self.call("POST", f"/git/v1/repo/{repo}/github-sync", {"githubRepoName": "owner/app", "token": TOKEN}, key=key)
        said = self.until("it has failed", lambda: (lambda s: s if s["state"] == "failed" else None)(
            self.call("GET", f"/git/v1/repo/{repo}/github-sync", key=key)))
        self.assertIn("MiB", said["error"])

    def test_kill_during_import(self):
        """What was not made when the server was killed leaves nothing; what was there is whole."""
        w = self.work()
        sha = self.save(w, {"a": "1" * 10000})
        self.git("push", "-q", self.bare, "main", cwd=w)
        keep = self.new()
        self.commit(keep, {"a": "1"})
        url = f"http://x-access-token:{TOKEN}@127.0.0.1:{self.far.server_port}/owner/app.git"
        for body in ({"source": {"url": url}}, {"import": {"type": "git", "url": url, "commitMessage": "m"}}):
            self.hold("/git-upload-pack")
            t = threading.Thread(target=self.fails, args=("POST", "/git/v1/repo", body))
            t.start()
            self.assertTrue(self.far.held.wait(60))
            self.crash()
            self.let_go()
            t.join(60)
            self.start()
            top = os.path.join(self.data_dir, "git")
            self.assertEqual((os.listdir(f"{top}/tmp"), os.listdir(f"{top}/busy"), os.listdir(f"{top}/repos")), ([], [], [f"{keep}.git"]))
            self.assertEqual([r["id"] for r in self.call("GET", "/git/v1/repo")["repositories"]], [keep])
            self.whole(keep)
        self.assertEqual(self.api(self.new(source={"url": url}), "GET", "/git/refs/heads/main")["sha"], sha)

    def fails(self, method, path, body):
        try:
            self.call(method, path, body)
        except Exception:  # the server was killed
            return
        raise AssertionError(f"{path} worked")

    def test_shutdown_breaks_a_sync_off(self):
        """The other server does not answer: the end does not wait for it, and the next start goes on."""
        for hold in ("git-upload-pack", "git-receive-pack"):
            with self.subTest(hold):
                repo = self.new()
                sha = self.commit(repo, {"a": hold}, branch=f"b-{hold}")["sha"]
                self.hold(hold)
                self.enable(repo)
                self.assertTrue(self.far.held.wait(60))
                self.stop()
                self.let_go()
                self.whole(repo)
                self.start()
                self.until("it went on", lambda: self.far_refs().get(f"refs/heads/b-{hold}") == sha)
                self.until("it says so", lambda: self.status(repo)["state"] in ("synced", "conflict"))
                self.assertEqual([n for n in os.listdir(os.path.join(self.data_dir, "git/busy")) if n.startswith(repo)], [])
                self.api(repo, "DELETE", "/github-sync")


class Polled(Sync):
    """Without a word from the other server."""
    more_env = {"FX_POLL": "1"}
    test_both_ways = test_conflict = test_forced_there = test_wrong_password_and_strangers = None
    test_kill_during_sync = test_kill_during_import = test_shutdown_breaks_a_sync_off = None

    def test_poll(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        self.enable(repo)
        self.same(repo)
        far = tempfile.mkdtemp(dir=self.top)
        self.git("clone", "-q", self.bare, far)
        theirs = self.save(far, {"c": "3"})
        self.git("push", "-q", "origin", "main", cwd=far)
        self.until("it came here", lambda: self.here_refs(repo)["refs/heads/main"] == theirs)


del Base
if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
