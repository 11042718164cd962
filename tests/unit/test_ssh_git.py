#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Git over the SSH front, with git and OpenSSH as clients; usage: test_ssh_git.py SERVE_AGENT [TEST...]"""
import hashlib
import http.server
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import GitTools  # noqa: E402
from served import KERNELS, listen  # noqa: E402

SERVE = sys.argv[1]
LIMIT_S = 200
ASKPASS = "#!/bin/sh\nprintf '%s\\n' \"$PANDO_TEST_SECRET\"\n"
NOWHERE = "00000000-0000-4000-8000-000000000000"


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.got.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


class SshGit(GitTools, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.log = tempfile.TemporaryFile()
        # a sanitizer keeps freed memory for a while; here memory is measured
        env = {**os.environ, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8", "FX_SLOW_S": "8"}
        cls.proc = subprocess.Popen([SERVE, "--ssh", KERNELS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=cls.log, text=True, env=env)
        ssh_port, port, cls.key, _ = cls.proc.stdout.readline().split()
        cls.ssh_port, cls.port = int(ssh_port), int(port)
        cls.proc.stdin.write("data\n")
        cls.proc.stdin.flush()
        cls.data_dir = cls.proc.stdout.readline().strip()
        assert cls.proc.stdout.readline() == "ok\n"

    @classmethod
    def tearDownClass(cls):
        cls.proc.stdin.close()
        code = cls.proc.wait(60)
        cls.proc.stdout.close()
        cls.log.seek(0)
        text = cls.log.read().decode(errors="replace")
        cls.log.close()
        assert code == 0, f"the server ended with {code}: {text}"

    def setUp(self):
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {LIMIT_S} s"))
        signal.alarm(LIMIT_S)
        self.addCleanup(signal.alarm, 0)
        self.make_top()
        self.known = os.path.join(self.top, "known")
        self.ssh_options = ["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={self.known}", "-o", "LogLevel=ERROR", "-o", f"Port={self.ssh_port}"]

    # ---- tools ----

    def ssh_url(self, repo, secret=None, path=None, sep=":"):
        """With a colon in the name Git finds no port in the address: it is among ssh's options here."""
        who = repo if secret == "" else f"{repo}{sep}{secret or self.key}"
        return f"ssh://{who}@127.0.0.1{'' if sep == ':' else f':{self.ssh_port}'}/{path or repo}"

    def env(self, secret=None):
        batch = [] if secret else ["-o", "BatchMode=yes"]
        env = {"PATH": os.environ["PATH"], "HOME": self.top, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0",
               "GIT_SSH_COMMAND": " ".join(["ssh", *self.ssh_options, *batch]), "GIT_AUTHOR_NAME": "A",
               "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}
        if secret:
            askpass = os.path.join(self.top, "askpass")
            with open(askpass, "w") as f:
                f.write(ASKPASS)
            os.chmod(askpass, 0o700)
            env.update(SSH_ASKPASS=askpass, SSH_ASKPASS_REQUIRE="force", PANDO_TEST_SECRET=secret)
        return env

    def git(self, *args, cwd=None, ok=True, stdin=None, timeout=120, secret=None, **more):
        p = subprocess.run(["git", *args], cwd=cwd or self.top, env={**self.env(secret), **more}, input=stdin, capture_output=True,
                           timeout=timeout)
        text = (p.stdout + p.stderr).decode(errors="replace")
        if ok is not None:
            self.assertEqual(p.returncode == 0, ok, f"git {' '.join(args)}: {text}")
        return text

    def clone(self, url, *options, **kw):
        path = tempfile.mkdtemp(prefix="c-", dir=self.top)
        self.git("clone", "-q", *options, url, path, **kw)
        return path

    def head(self, work, rev="HEAD"):
        return self.git("rev-parse", rev, cwd=work).strip()

    def ssh(self, repo, *args, secret=None, options=()):
        return subprocess.run(["ssh", *self.ssh_options, "-o", "BatchMode=yes", "-l", f"{repo}:{secret or self.key}",
                               *options, "127.0.0.1", *args], input=b"", capture_output=True, timeout=120)

    def branch(self, repo, name="main"):
        return self.api(repo, "GET", f"/git/refs/heads/{name}")["sha"]

    def until(self, what, check):
        end = time.monotonic() + 60
        while not check():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    # ---- what works ----

    def test_clone_push_fetch(self):
        repo = self.new()
        w = self.work()
        self.git("remote", "add", "origin", self.ssh_url(repo), cwd=w)
        one = self.save(w, {"a.txt": "1\n", "big": os.urandom(3 << 20)})
        self.git("push", "-q", "origin", "main", cwd=w)
        self.assertEqual(self.branch(repo), one)
        for path in (repo, f"{repo}.git", f"{repo}/"):
            for version in ("0", "1", "2"):
                c = self.clone(self.ssh_url(repo, path=path), "-c", f"protocol.version={version}")
                self.assertEqual(self.head(c), one)
        self.assertEqual(self.head(self.clone(self.ssh_url(repo, sep=","))), one)
        # as scp writes it: no slash before the path, no port
        scp = f"{repo},{self.key}@127.0.0.1:{repo}"
        c = self.clone(scp)
        self.assertEqual(self.head(c), one)
        # the version travels in the environment, and is answered
        trace = self.git("ls-remote", "origin", cwd=w, GIT_TRACE_PACKET="1")
        self.assertIn("< version 2", trace)
        two = self.save(w, {"a.txt": "2\n"})
        self.git("tag", "-a", "v1", "-m", "one", cwd=w)
        self.git("push", "-q", "--atomic", "origin", "main", "v1", "main:feature/x", cwd=w)
        self.git("pull", "-q", cwd=c)
        self.assertEqual(self.head(c), two)
        self.assertEqual([t["name"] for t in self.api(repo, "GET", "/git/refs/tags/")["tags"]], ["v1"])
        # backwards only by force; deletion
        self.git("reset", "-q", "--hard", one, cwd=w)
        three = self.save(w, {"a.txt": "3\n"})
        self.assertIn("rejected", self.git("push", "origin", "main", cwd=w, ok=False))
        self.git("push", "-qf", "origin", "main", cwd=w)
        self.git("push", "-q", "origin", ":feature/x", cwd=w)
        self.assertEqual(self.branch(repo), three)
        self.refused(404, "BRANCH_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/git/refs/heads/feature/x")

    def test_shallow_and_partial(self):
        repo = self.new()
        w = self.work()
        for i in range(4):
            self.save(w, {"f": f"{i}" * 1000})
        self.git("push", "-q", self.ssh_url(repo), "main", cwd=w)
        s = self.clone(self.ssh_url(repo), "--depth", "2")
        self.assertEqual(self.git("rev-list", "--count", "HEAD", cwd=s).strip(), "2")
        self.git("fetch", "-q", "--unshallow", cwd=s)
        self.assertEqual(self.git("rev-list", "--count", "HEAD", cwd=s).strip(), "4")
        p = self.clone(self.ssh_url(repo), "--filter=blob:none")
        self.assertIn("?", self.git("rev-list", "--objects", "--all", "--missing=print", cwd=p))

    def test_a_question_for_the_secret(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        _, token, _ = self.identity(repo, "read")
        for secret in (self.key, token):
            for how in ("password", "keyboard-interactive"):
                self.git("ls-remote", self.ssh_url(repo, ""), secret=secret,
                         GIT_SSH_COMMAND=self.env(secret)["GIT_SSH_COMMAND"] + f" -o PreferredAuthentications={how}")

    def test_two_at_once_on_one_connection(self):
        repo = self.new()
        w = self.work()
        one = self.save(w, {f"d/{i}": os.urandom(20000) for i in range(100)})
        self.git("push", "-q", self.ssh_url(repo), "main", cwd=w)
        control = os.path.join(self.top, "control")
        more = f"{self.env()['GIT_SSH_COMMAND']} -o ControlMaster=auto -o ControlPersist=yes -o ControlPath={control}"
        self.git("ls-remote", self.ssh_url(repo), GIT_SSH_COMMAND=more)
        self.addCleanup(subprocess.run, ["ssh", "-o", f"ControlPath={control}", "-O", "exit", "x"], capture_output=True)
        got = []
        threads = [threading.Thread(target=lambda: got.append(self.head(self.clone(self.ssh_url(repo), GIT_SSH_COMMAND=more))))
                   for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, [one] * 4)

    def test_trigger(self):
        """A push by SSH is the same event as any other."""
        hook = listen(self, Receiver, got=queue.Queue())
        repo = self.new()
        self.api(repo, "POST", "/trigger", {"trigger": {"event": "push"},
                                            "action": {"action": "webhook", "endpoint": f"http://127.0.0.1:{hook.server_port}/"}})
        w = self.work()
        sha = self.save(w, {"a": "1"})
        self.git("push", "-q", self.ssh_url(repo), "main", cwd=w)
        self.assertEqual(hook.got.get(timeout=60), {"event": "branchUpdate", "repoId": repo, "branch": "main", "commit": sha})

    def test_large_files_are_shown_the_way(self):
        repo = self.new()
        r = self.ssh(repo, f"git-lfs-authenticate {repo} download")
        self.assertEqual(r.returncode, 0, r.stderr)
        j = json.loads(r.stdout)
        self.assertTrue(j["href"].endswith(f"/{repo}/info/lfs"), j)
        self.assertEqual(j["header"], {"Authorization": f"Bearer {self.key}"})

    # ---- permissions ----

    def test_who_may(self):
        private, public = self.new(name="private"), self.new(name="public", public=True)
        for r in (private, public):
            self.commit(r, {"a": "1"})
        other = self.stranger()
        _, nobody, _ = self.identity()
        i, token, token_id = self.identity(private, "read")
        wrong = "pando_" + "x" * 40
        texts = {self.git("ls-remote", self.ssh_url(r, s), ok=False).replace(r, "R").replace(s, "S")
                 for r, s in ((private, wrong), (private, other), (private, nobody), (NOWHERE, self.key), (NOWHERE, other), (public, wrong))}
        self.assertEqual(len(texts), 1, texts)  # one refusal for all
        self.git("ls-remote", self.ssh_url(public, other))
        self.git("ls-remote", self.ssh_url(public, nobody))
        w = self.clone(self.ssh_url(private, token))
        self.save(w, {"b": "1"})
        self.assertIn("may only read", self.git("push", "-q", "origin", "HEAD:main", cwd=w, ok=False))
        self.assertIn("can only be read", self.git("push", "-q", self.ssh_url(public, other), "HEAD:main", cwd=w, ok=False))
        self.assertIn("may only read", self.git("push", "-q", self.ssh_url(public, nobody), "HEAD:main", cwd=w, ok=False))
        perms = f"/identity/v1/identities/{i}/permissions/git/{private}"
        self.call("PUT", perms, {"permission": "write"})
        self.git("push", "-q", "origin", "HEAD:main", cwd=w)
        self.call("DELETE", perms)
        self.assertIn("Permission denied", self.git("fetch", cwd=w, ok=False))
        self.call("POST", perms, {"permission": "write"})
        self.git("fetch", "-q", cwd=w)
        self.call("DELETE", f"/identity/v1/identities/{i}/tokens/{token_id}")
        self.assertIn("Permission denied", self.git("fetch", cwd=w, ok=False))
        # who came is in the audit log; with what, nowhere
        log = self.call("GET", "/v1/audit?limit=100")
        self.assertIn("login", {e["route"] for e in log["records"] if e["method"] == "SSH" and e["target"] == private})
        text = json.dumps(log)
        for secret in (token, other, wrong, self.key):
            self.assertNotIn(secret, text)

    def test_one_repository_and_git_only(self):
        repo, mine_too = self.new(), self.new()
        self.commit(mine_too, {"a": "1"})
        vm = self.call("POST", "/v1/vms", {})["id"]
        self.assertIn("not for another one", self.git("ls-remote", self.ssh_url(repo, path=mine_too), ok=False))
        for path in (f"../repos/{mine_too}.git", "..", "/etc", f"{repo}/../{mine_too}", ""):
            r = self.ssh(repo, f"git-upload-pack '{path}'")
            self.assertEqual((r.returncode, r.stdout), (1, b""), path)
            self.assertIn(b"not for another one", r.stderr)
        for command in ("id", "git-upload-archive '/x'", f"git-upload-pack '{repo}'; id", f"git-upload-pack --help '{repo}'", "git-upload-pack",
                        f"git-upload-pack '{repo}", f"git-receive-pack '{repo}' x", f"git upload-pack '{repo}'", "", "scp -t /"):
            r = self.ssh(repo, command) if command else self.ssh(repo)
            self.assertEqual((r.returncode, r.stdout), (1, b""), command)
            self.assertEqual(r.stderr.count(b"pando: "), 1, (command, r.stderr))
        self.assertIn(b"only allows git clone", self.ssh(repo, options=["-tt"]).stdout + self.ssh(repo, options=["-tt"]).stderr)
        r = self.ssh(repo, "sftp", options=["-s"])
        self.assertIn(b"only allows git clone", r.stderr)
        r = self.ssh(repo, options=["-W", "127.0.0.1:22"])
        self.assertNotEqual(r.returncode, 0)
        r = self.ssh(repo, "true", options=["-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:22"])
        self.assertIn(b"forwarding failed", r.stderr)
        # a name with a Linux user is no repository's; a VM's login is not Git's
        self.assertEqual(self.ssh(f"{repo}+root", f"git-upload-pack '{repo}'").returncode, 255)
        self.assertEqual(self.ssh(vm, "echo here").stdout, b"here\n")

    # ---- failures ----

    def half_push(self, repo, secret=None):
        """A push whose pack stops in the middle: the process, with its stdin open."""
        w = self.work()
        sha = self.save(w, {f"f{i}": os.urandom(30000) for i in range(40)})
        pack = subprocess.run(["git", "pack-objects", "--stdout", "--revs"], cwd=w, env=self.env(), input=sha.encode() + b"\n",
                              capture_output=True, check=True).stdout
        p = subprocess.Popen(["ssh", *self.ssh_options, "-o", "BatchMode=yes", "-l", f"{repo}:{secret or self.key}",
                              "127.0.0.1", f"git-receive-pack '/{repo}'"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

        def end():
            if p.poll() is None:
                p.kill()
            p.communicate()
        self.addCleanup(end)
        line = f"{'0' * 40} {sha} refs/heads/half\0report-status".encode()
        p.stdin.write(b"%04x" % (len(line) + 4) + line + b"0000" + pack[:len(pack) // 2])
        p.stdin.flush()
        bare = os.path.join(self.data_dir, "git/repos", f"{repo}.git/objects")
        self.until("objects in quarantine", lambda: any(n.startswith("tmp_objdir") for n in os.listdir(bare)))
        return p, bare

    def check_nothing_came_of_it(self, repo, bare):
        self.until("the quarantine is gone", lambda: not any(n.startswith("tmp_objdir") for n in os.listdir(bare)))
        self.until("no mark is left", lambda: not [n for n in os.listdir(os.path.join(self.data_dir, "git/busy")) if n.startswith(repo)])
        self.refused(404, "BRANCH_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/git/refs/heads/half")
        self.git("-c", "safe.directory=*", "--git-dir", os.path.dirname(bare), "fsck", "--strict", "--full")

    def test_client_killed_in_the_middle_of_a_push(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        p, bare = self.half_push(repo)
        p.kill()
        self.check_nothing_came_of_it(repo, bare)

    def test_right_withdrawn_in_the_middle_of_a_push(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        i, token, _ = self.identity(repo, "write")
        p, bare = self.half_push(repo, token)
        self.call("PUT", f"/identity/v1/identities/{i}/permissions/git/{repo}", {"permission": "read"})
        _, said = p.communicate(timeout=60)
        self.assertIn(b"revoked", said)
        self.assertNotEqual(p.returncode, 0)
        self.check_nothing_came_of_it(repo, bare)

    def test_junk(self):
        repo = self.new()
        keep = self.commit(repo, {"a": "1"})["sha"]
        for service in ("git-upload-pack", "git-receive-pack"):
            for junk in (b"", b"0000", b"zzzz", b"fff1" + b"x" * 100000, b"0003", b"\0" * 1000000):
                p = subprocess.run(["ssh", *self.ssh_options, "-o", "BatchMode=yes", "-l", f"{repo}:{self.key}",
                                    "127.0.0.1", f"{service} '/{repo}'"], input=junk, capture_output=True, timeout=120)
                self.assertIn(keep.encode() if service == "git-upload-pack" else b"report-status", p.stdout)
        self.assertEqual(self.branch(repo), keep)

    def test_slow_clients_are_cut(self):
        repo = self.new()
        w = self.work()
        sha = self.save(w, {"big": os.urandom(16 << 20)})
        self.git("-c", "core.compression=0", "push", "-q", self.ssh_url(repo), "main", cwd=w)
        want = f"0032want {sha}\n00000009done\n".encode()
        p = subprocess.Popen(["ssh", *self.ssh_options, "-o", "BatchMode=yes", "-l", f"{repo}:{self.key}", "127.0.0.1", f"git-upload-pack '/{repo}'"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(p.kill)
        p.stdin.write(want)
        p.stdin.flush()
        self.assertIn(sha.encode(), p.stdout.read(60))
        self.until("git has begun", self.children)
        self.until("git has ended", lambda: not self.children())
        p.kill()
        p.communicate(timeout=60)
        self.clone(self.ssh_url(repo))  # who takes what there is gets it

    def children(self):
        """Git's programs that the server runs."""
        found = []
        for task in os.listdir(f"/proc/{self.proc.pid}/task"):
            try:
                with open(f"/proc/{self.proc.pid}/task/{task}/children") as f:
                    for pid in f.read().split():
                        with open(f"/proc/{pid}/comm") as c:
                            found += [pid] if c.read().startswith("git") else []
            except OSError:
                pass
        return found

    def test_large_push_and_clone_take_no_memory(self):
        """A pack far larger than what the server may hold passes through it, both ways."""
        def rss():
            with open(f"/proc/{self.proc.pid}/status") as f:
                return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        repo = self.new()
        w = self.work()
        data = os.urandom(64 << 20)
        self.save(w, {"big": data})
        before = rss()
        self.git("push", "-q", self.ssh_url(repo), "main", cwd=w)
        c = self.clone(self.ssh_url(repo))
        with open(os.path.join(c, "big"), "rb") as f:
            self.assertEqual(hashlib.sha256(f.read()).digest(), hashlib.sha256(data).digest())
        self.assertLess(rss() - before, 40 << 10)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
