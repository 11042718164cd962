# SPDX-License-Identifier: Apache-2.0
"""git_checks.py - checks with the git client and the API, whatever serves them; for test_api_git.py and test_git.py

A class that mixes this in has `port` and `key` of a server that may import from loopback, and `top`, a directory of its own.
After each test every repository it made must pass `git fsck --strict`.
"""
import base64
import concurrent.futures
import gzip
import http.client
import http.server
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import urllib.parse
import zipfile

CALL_S = 120
ZERO = "0" * 40


class Refused(Exception):
    def __init__(self, status, body):
        self.status, self.body, self.code = status, body, body.get("code") if isinstance(body, dict) else None
        super().__init__(f"{status} {body}")


def pkt(data):
    data = data if isinstance(data, bytes) else data.encode()
    return b"%04x" % (len(data) + 4) + data


class Files(http.server.BaseHTTPRequestHandler):
    """Serves archives to the importer."""

    def do_GET(self):
        path = self.path.lstrip("/")
        if path == "redirect":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        body = self.server.files.get(path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *args):
        pass


class GitTools:
    account_key = None  # of another account, made when first asked for

    # ---- tools ----

    def call(self, method, path, body=None, key=None, headers=None, raw=False):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_S)
        h = {} if key == "" else {"Authorization": f"Bearer {key or self.key}"}
        h.update(headers or {})
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            c.request(method, path, body=data, headers=h)
            r = c.getresponse()
            text = r.read()
            self.last = r
        finally:
            c.close()
        out = text if raw and r.status < 300 else json.loads(text) if text[:1] in (b"{", b"[", b"n") else text
        if r.status >= 300:
            raise Refused(r.status, out)
        return out

    def refused(self, status, code, method, path, body=None, **kw):
        with self.assertRaises(Refused) as c:
            self.call(method, path, body, **kw)
        e = c.exception
        self.assertEqual((e.status, e.code), (status, code), str(e))
        self.assertTrue(e.body["message"])
        return e.body

    def new(self, **options):
        repo = self.call("POST", "/git/v1/repo", options)["repoId"]
        self.repos.append(repo)
        return repo

    def api(self, repo, method, path, body=None, **kw):
        return self.call(method, f"/git/v1/repo/{repo}{path}", body, **kw)

    def commit(self, repo, files, message="change", **more):
        v = [{"path": p, "content": c} if c is not None else {"path": p, "deleted": True} for p, c in files.items()]
        return self.api(repo, "POST", "/commits", {"message": message, "files": v, **more})["commit"]

    def url(self, repo, secret=None, user="x-access-token", suffix=""):
        who = "" if secret == "" else f"{user}:{secret or self.key}@"
        return f"http://{who}127.0.0.1:{self.port}/{repo}{suffix}"

    def git_env(self):
        return {"PATH": os.environ["PATH"], "HOME": self.top, "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
                "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_LFS_SKIP_SMUDGE": os.environ.get("GIT_LFS_SKIP_SMUDGE", "0")}

    def git(self, *args, cwd=None, ok=True, stdin=None, timeout=CALL_S):
        p = subprocess.run(["git", *args], cwd=cwd or self.top, env=self.git_env(), input=stdin, capture_output=True, timeout=timeout)
        text = (p.stdout + p.stderr).decode(errors="replace")
        if ok:
            self.assertEqual(p.returncode, 0, f"git {' '.join(args)}: {text}")
        elif ok is False:
            self.assertNotEqual(p.returncode, 0, f"git {' '.join(args)} worked: {text}")
        return text

    def work(self, repo=None, name=None, **kw):
        """A new working copy: a clone, or an empty one on main."""
        path = tempfile.mkdtemp(prefix="w-", dir=self.top)
        if repo:
            self.git("clone", "-q", self.url(repo, **kw), path)
        else:
            self.git("init", "-q", "-b", "main", path)
        return path

    def save(self, work, files, message="change"):
        for p, text in files.items():
            full = os.path.join(work, p)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as f:
                f.write(text if isinstance(text, bytes) else text.encode())
        self.git("add", "-A", cwd=work)
        self.git("commit", "-qm", message, cwd=work)
        return self.git("rev-parse", "HEAD", cwd=work).strip()

    def identity(self, repo=None, level="read"):
        i = self.call("POST", "/identity/v1/identities")["id"]
        t = self.call("POST", f"/identity/v1/identities/{i}/tokens")
        if repo:
            self.call("POST", f"/identity/v1/identities/{i}/permissions/git/{repo}", {"permission": level})
        return i, t["token"], t["id"]

    def stranger(self):
        """A key of another account."""
        if not GitTools.account_key or GitTools.account_key[0] != self.port:
            a = self.call("POST", "/v1/accounts", {"name": "other"})["id"]
            GitTools.account_key = (self.port, self.call("POST", f"/v1/keys?accountId={a}", {"name": "k"})["key"])
        return GitTools.account_key[1]

    def make_top(self):
        self.top = tempfile.mkdtemp(prefix="pando-git-")
        self.repos = []
        self.addCleanup(shutil.rmtree, self.top, ignore_errors=True)
        self.addCleanup(self.check_and_drop)

    def check_and_drop(self):
        """Every repository passes fsck; then it is deleted."""
        for repo in self.repos:
            if self.data_dir:
                bare = os.path.join(self.data_dir, "git/repos", f"{repo}.git")
                if os.path.exists(bare):
                    self.git("-c", "safe.directory=*", "--git-dir", bare, "fsck", "--strict", "--full")
            try:
                self.api(repo, "DELETE", "")
            except Refused as e:
                self.assertEqual(e.status, 404)

    def files_server(self, files):
        s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
        s.files = files
        threading.Thread(target=s.serve_forever, daemon=True).start()
        self.addCleanup(s.server_close)
        self.addCleanup(s.shutdown)
        return f"http://127.0.0.1:{s.server_address[1]}"


class GitChecks(GitTools):
    # ---- Git's own protocol ----

    def test_clone_push_fetch(self):
        repo = self.new()
        a = self.work(repo)
        one = self.save(a, {"README.md": "one\n", "src/a.txt": "a\n"})
        self.git("push", "-q", "origin", "HEAD:main", cwd=a)
        for suffix in ("", ".git"):
            for version in ("0", "1", "2"):
                b = tempfile.mkdtemp(dir=self.top)
                self.git("-c", f"protocol.version={version}", "clone", "-q", self.url(repo, suffix=suffix), b)
                self.assertEqual(self.git("rev-parse", "HEAD", cwd=b).strip(), one)
        two = self.save(a, {"README.md": "two\n"})
        self.git("push", "-q", "origin", "HEAD:main", "HEAD:feature/x", cwd=a)
        self.git("pull", "-q", cwd=b)
        self.assertEqual(self.git("rev-parse", "HEAD", cwd=b).strip(), two)
        self.assertEqual({x["name"]: x["commit"] for x in self.api(repo, "GET", "/git/refs/heads/")["branches"]},
                         {"main": two, "feature/x": two})

    def test_force_delete_and_tags(self):
        repo = self.new()
        w = self.work(repo)
        one = self.save(w, {"a": "1"})
        self.save(w, {"a": "2"})
        self.git("push", "-q", "origin", "HEAD:main", cwd=w)
        self.git("reset", "-q", "--hard", one, cwd=w)
        three = self.save(w, {"a": "3"})
        self.assertIn("rejected", self.git("push", "origin", "HEAD:main", cwd=w, ok=False))
        self.git("push", "-qf", "origin", "HEAD:main", cwd=w)
        self.assertEqual(self.api(repo, "GET", "/git/refs/heads/main")["sha"], three)
        self.git("tag", "light", cwd=w)
        self.git("tag", "-a", "v1.0", "-m", "first release", cwd=w)
        self.git("push", "-q", "origin", "--tags", "HEAD:gone", cwd=w)
        self.git("push", "-q", "origin", ":gone", cwd=w)
        self.refused(404, "BRANCH_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/git/refs/heads/gone")
        tags = {t["name"]: t for t in self.api(repo, "GET", "/git/refs/tags/")["tags"]}
        self.assertEqual(tags["light"], {"name": "light", "tagger": None, "message": None, "target": {"sha": three}, "sha": three})
        t = tags["v1.0"]
        self.assertEqual((t["target"]["sha"], t["message"].strip(), t["tagger"]["name"]), (three, "first release", "A"))
        self.assertEqual(self.api(repo, "GET", "/git/refs/tags/v1.0"), t)
        self.assertEqual(self.api(repo, "GET", f"/git/tags/{t['sha']}"), t)
        self.refused(404, "TAG_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/git/tags/{three}")
        self.refused(404, "REFERENCE_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/git/refs/tags/none")
        # all or nothing
        self.git("fetch", "-q", cwd=w)
        self.git("reset", "-q", "--hard", one, cwd=w)
        self.git("push", "--atomic", "origin", "HEAD:main", "HEAD:other", cwd=w, ok=False)
        self.refused(404, "BRANCH_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/git/refs/heads/other")

    def test_shallow_and_partial(self):
        repo = self.new()
        w = self.work(repo)
        for i in range(5):
            self.save(w, {"f": f"{i}" * 1000, f"d/{i}": "x"})
        self.git("push", "-q", "origin", "HEAD:main", cwd=w)
        s = tempfile.mkdtemp(dir=self.top)
        self.git("clone", "-q", "--depth", "2", self.url(repo), s)
        self.assertEqual(self.git("rev-list", "--count", "HEAD", cwd=s).strip(), "2")
        self.git("fetch", "-q", "--unshallow", cwd=s)
        self.assertEqual(self.git("rev-list", "--count", "HEAD", cwd=s).strip(), "5")
        for how in ("blob:none", "tree:0", "blob:limit=10"):
            p = tempfile.mkdtemp(dir=self.top)
            self.git("clone", "-q", f"--filter={how}", "--no-checkout", self.url(repo), p)
            missing = self.git("rev-list", "--objects", "--all", "--missing=print", cwd=p)
            self.assertIn("?", missing)
            self.git("checkout", "-q", "main", cwd=p)  # what is missing is fetched one by one
            with open(os.path.join(p, "f")) as f:
                self.assertEqual(f.read(), "4" * 1000)

    def test_who_may(self):
        private, public = self.new(name="private"), self.new(name="public", public=True)
        for r in (private, public):
            self.commit(r, {"a": "1"})
        nowhere = "00000000-0000-4000-8000-000000000000"
        # anonymous: the public one may be read; the others ask for a password, whether they exist or not
        self.git("ls-remote", self.url(public, ""))
        for r in (private, nowhere):
            self.assertIn("could not read Username", self.git("ls-remote", self.url(r, ""), ok=False))
        for path in (f"/{private}/info/refs?service=git-upload-pack", f"/{nowhere}/info/refs?service=git-upload-pack",
                     f"/{public}/info/refs?service=git-receive-pack"):
            self.refused(401, "UNAUTHORIZED", "GET", path, key="")
            self.assertIn("Basic", self.last.getheader("WWW-Authenticate"))
        # another account: as if it were not there
        other = self.stranger()
        for r in (private, nowhere):
            self.refused(404, "REPOSITORY_NOT_FOUND", "GET", f"/{r}/info/refs?service=git-upload-pack", key=other)
            self.refused(404, "REPOSITORY_NOT_FOUND", "GET", f"/git/v1/repo/{r}", key=other)
            self.refused(404, "REPOSITORY_NOT_FOUND", "POST", f"/{r}/git-receive-pack", b"0000", key=other)
            self.refused(404, "REPOSITORY_NOT_FOUND", "DELETE", f"/git/v1/repo/{r}", key=other)
        self.git("ls-remote", self.url(public, other))
        self.refused(403, "REPOSITORY_ACCESS_DENIED", "GET", f"/{public}/info/refs?service=git-receive-pack", key=other)
        self.refused(403, "REPOSITORY_ACCESS_DENIED", "DELETE", f"/git/v1/repo/{public}", key=other)
        self.refused(403, "REPOSITORY_ACCESS_DENIED", "POST", f"/git/v1/repo/{public}/commits",
                     {"message": "m", "files": []}, key=other)
        # a key in a header, as the documentation has it
        self.git("-c", f"http.extraHeader=Authorization: Bearer {self.key}", "ls-remote", self.url(private, ""))
        # tokens
        i, token, token_id = self.identity(private, "read")
        _, stranger, _ = self.identity()
        self.git("ls-remote", self.url(private, token))
        self.git("ls-remote", self.url(private, token, user="anything"))
        self.assertIn("not found", self.git("ls-remote", self.url(private, stranger), ok=False))
        w = self.work(private, secret=token)
        self.save(w, {"b": "1"})
        self.assertIn("403", self.git("push", "-q", "origin", "HEAD:main", cwd=w, ok=False))
        self.assertEqual(self.api(private, "GET", "/contents/a", key=token)["type"], "file")
        self.refused(403, "REPOSITORY_ACCESS_DENIED", "POST", f"/git/v1/repo/{private}/commits", {"message": "m", "files": []},
                     key=token)
        self.refused(403, "FORBIDDEN", "DELETE", f"/git/v1/repo/{private}", key=token)
        self.assertEqual([r["id"] for r in self.call("GET", "/git/v1/repo", key=token)["repositories"]], [private])
        self.call("POST", f"/identity/v1/identities/{i}/permissions/git/{public}", {"permission": "read"})
        pages = [self.call("GET", f"/git/v1/repo?limit=1&offset={k}", key=token) for k in range(3)]
        self.assertEqual(({p["total"] for p in pages}, {r["id"] for p in pages for r in p["repositories"]}), ({2}, {private, public}))
        self.assertEqual([len(p["repositories"]) for p in pages], [1, 1, 0])
        self.assertEqual([r["id"] for r in self.call("GET", "/git/v1/repo?search=PRIV", key=token)["repositories"]], [private])
        self.call("DELETE", f"/identity/v1/identities/{i}/permissions/git/{public}")
        perms = f"/identity/v1/identities/{i}/permissions/git"
        self.assertEqual(self.call("GET", f"{perms}/{private}")["accessLevel"], "read")
        self.call("PUT", f"{perms}/{private}", {"permission": "write"})
        self.assertEqual(self.call("GET", perms)["repositories"][0]["permissions"], "write")
        self.git("push", "-q", "origin", "HEAD:main", cwd=w)
        self.call("DELETE", f"{perms}/{private}")
        self.assertEqual(self.call("GET", f"{perms}/{private}")["accessLevel"], None)
        self.assertIn("not found", self.git("fetch", cwd=w, ok=False))
        self.call("DELETE", f"/identity/v1/identities/{i}/tokens/{token_id}")
        self.assertIn("Authentication failed", self.git("fetch", cwd=w, ok=False))
        # no longer public
        self.api(public, "PUT", "/visibility", {"visibility": "private"})
        self.assertEqual(self.api(public, "GET", "/visibility"), {"visibility": "private"})
        self.git("ls-remote", self.url(public, ""), ok=False)
        # a grant goes with its repository
        self.refused(404, "GIT_REPOSITORY_NOT_FOUND", "POST", f"{perms}/{nowhere}", {"permission": "read"})

    def test_services(self):
        repo = self.new()
        self.refused(403, "EXPECTED_SERVICE", "GET", f"/{repo}/info/refs")
        self.refused(403, "INVALID_SERVICE", "GET", f"/{repo}/info/refs?service=git-upload-archive")
        self.refused(403, "INVALID_SERVICE", "GET", f"/{repo}/info/refs?service=--upload-pack%3Dtouch")
        body = self.call("GET", f"/{repo}/info/refs?service=git-upload-pack", raw=True)
        self.assertTrue(body.startswith(b"001e# service=git-upload-pack\n0000"))
        self.assertEqual(self.last.getheader("Content-Type"), "application/x-git-upload-pack-advertisement")
        v2 = self.call("GET", f"/{repo}/info/refs?service=git-upload-pack", raw=True, headers={"Git-Protocol": "version=2"})
        self.assertTrue(v2.startswith(b"000eversion 2\n"))
        # a request in gzip, and one that lies about it
        self.commit(repo, {"a": "1"})
        ls = pkt("command=ls-refs\n") + b"0001" + pkt("ref-prefix refs/heads/\n") + b"0000"
        h = {"Git-Protocol": "version=2", "Content-Type": "application/x-git-upload-pack-request"}
        plain = self.call("POST", f"/{repo}/git-upload-pack", ls, raw=True, headers=h)
        self.assertIn(b"refs/heads/main", plain)
        h["Content-Encoding"] = "gzip"
        self.assertEqual(self.call("POST", f"/{repo}/git-upload-pack", gzip.compress(ls), raw=True, headers=h), plain)
        self.refused(400, "GIT_INVALID_REQUEST", "POST", f"/{repo}/git-upload-pack", ls, headers=h)
        bomb = gzip.compress(b"0" * (80 << 20))
        self.refused(400, "GIT_INVALID_REQUEST", "POST", f"/{repo}/git-upload-pack", bomb, headers=h)

    def test_parallel_clones_and_pushes(self):
        repo = self.new()
        w = self.work(repo)
        base = self.save(w, {f"dir{i % 7}/file{i}": f"{i}\n" * 50 for i in range(200)})
        self.git("push", "-q", "origin", "HEAD:main", cwd=w)

        def clone(i):
            path = os.path.join(self.top, f"clone{i}")
            self.git("clone", "-q", "--bare", self.url(repo), path)
            return self.git("rev-parse", "main", cwd=path).strip()

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            self.assertEqual(set(pool.map(clone, range(50))), {base})

        def push(i):
            """One commit on main, again and again until it is there."""
            path = os.path.join(self.top, f"push{i}")
            self.git("clone", "-q", self.url(repo), path)
            self.save(path, {f"mine/{i}": f"{i}"}, f"commit {i}")
            for _ in range(200):
                text = self.git("push", "-q", "origin", "HEAD:main", cwd=path, ok=None)
                if "rejected" not in text and "failed" not in text and "error" not in text:
                    return self.git("rev-parse", "HEAD", cwd=path).strip()
                self.git("pull", "-q", "--rebase", cwd=path)
            raise AssertionError(f"push {i} never landed: {text}")

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            pushed = set(pool.map(push, range(20)))
        self.assertEqual(len(pushed), 20)
        log = self.api(repo, "GET", "/git/commits?limit=500")
        self.assertEqual(log["total"], 21)
        self.assertLessEqual(pushed, {c["sha"] for c in log["commits"]})

        def commit(i):
            return self.commit(repo, {f"api/{i}": f"{i}"}, f"api {i}")["sha"]

        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            made = set(pool.map(commit, range(20)))
        self.assertEqual(len(made), 20)
        self.assertEqual(self.api(repo, "GET", "/git/commits")["total"], 41)
        names = {e["name"] for e in self.api(repo, "GET", "/contents/api")["entries"]}
        self.assertEqual(names, {str(i) for i in range(20)})

    # ---- repositories ----

    def test_create_list_delete(self):
        repo = self.new(name="listed-one", defaultBranch="trunk")
        other = self.new(name="listed-two", public=True)
        r = self.api(repo, "GET", "")
        self.assertEqual((r["id"], r["name"], r["visibility"], r["defaultBranch"]), (repo, "listed-one", "private", "trunk"))
        got = self.call("GET", "/git/v1/repo?search=LISTED-&limit=1&offset=0")
        self.assertEqual((got["total"], got["offset"], len(got["repositories"])), (2, 0, 1))
        both = self.call("GET", "/git/v1/repo?search=listed-")["repositories"]
        self.assertEqual({x["id"] for x in both}, {repo, other})
        self.assertEqual(self.call("GET", "/git/v1/repo?search=%25")["total"], 0)
        self.commit(repo, {"a": "1"})
        item = self.call("GET", f"/git/v1/repo?search={repo}")["repositories"][0]
        self.assertEqual(item["branches"]["trunk"]["default"], True)
        self.refused(404, "BRANCH_NOT_FOUND", "PUT", f"/git/v1/repo/{repo}/default-branch", {"defaultBranch": "none"})
        self.api(repo, "POST", "/branches", {"name": "next"})
        self.assertEqual(self.api(repo, "PUT", "/default-branch", {"defaultBranch": "next"}), {})
        self.assertEqual(self.api(repo, "GET", "/default-branch"), {"defaultBranch": "next"})
        self.assertEqual(self.api(repo, "DELETE", ""), {})
        self.refused(404, "REPOSITORY_NOT_FOUND", "GET", f"/git/v1/repo/{repo}")
        self.refused(404, "REPOSITORY_NOT_FOUND", "DELETE", f"/git/v1/repo/{repo}")
        for bad in ({"defaultBranch": "-x"}, {"defaultBranch": "a..b"}, {"name": "n" * 500}, {"public": "yes"},
                    {"import": {"type": "rar"}}, {"source": {"url": "file:///etc"}}, {"source": {"url": "ssh://x/y"}},
                    {"source": {"url": "--upload-pack=x"}}, {"source": {}}, {"source": {"url": "http://x/ y"}}):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", "/git/v1/repo", bad)
        self.refused(400, "SOURCE_IMPORT_CONFLICT", "POST", "/git/v1/repo",
                     {"source": {"url": "https://example.org/x"}, "import": {"type": "files"}})
        for odd in ("x", "..", "%2e%2e", "a" * 300, "../../etc", repo.upper(), "%00", repo + "%2f.."):
            with self.assertRaises(Refused) as c:
                self.call("GET", f"/git/v1/repo/{odd}/contents/")
            self.assertIn(c.exception.status, (400, 404))

    def test_source(self):
        origin = self.new()
        w = self.work(origin)
        one = self.save(w, {"a": "1", "dir/b": "2"})
        self.git("tag", "v1", cwd=w)
        two = self.save(w, {"a": "3"})
        self.git("push", "-q", "origin", "HEAD:main", "HEAD:side", "v1", cwd=w)
        url = self.url(origin)

        def heads(r):
            return {b["name"]: b["commit"] for b in self.api(r, "GET", "/git/refs/heads/")["branches"]}

        r = self.new(source={"url": url})
        self.assertEqual(heads(r), {"main": two})
        r = self.new(source={"url": url, "allBranches": True})
        self.assertEqual(heads(r), {"main": two, "side": two})
        r = self.new(source={"url": url, "rev": "side"})
        self.assertEqual((heads(r), self.api(r, "GET", "/default-branch")["defaultBranch"]), ({"side": two}, "side"))
        r = self.new(source={"url": url, "rev": "v1"}, defaultBranch="old")
        self.assertEqual((heads(r), self.api(r, "GET", "/default-branch")["defaultBranch"]), ({"old": one}, "old"))
        r = self.new(source={"url": url, "rev": one})
        self.assertEqual(heads(r), {"main": one})
        r = self.new(source={"url": url, "depth": 1})
        self.assertEqual(self.api(r, "GET", "/git/commits")["total"], 1)
        self.assertEqual(self.api(r, "GET", f"/git/commits?since={two}&order=asc")["count"], 1)
        self.assertEqual(self.api(r, "GET", f"/compare?base=main&head={two}")["status"], "identical")
        self.assertEqual(heads(self.new(source={"url": self.url(self.new())})), {})  # an empty one
        e = self.refused(400, "SOURCE_UNAUTHORIZED", "POST", "/git/v1/repo", {"source": {"url": self.url(origin, "")}})
        self.assertEqual(e["url"], self.url(origin, ""))
        e = self.refused(400, "SOURCE_UNAUTHORIZED", "POST", "/git/v1/repo", {"source": {"url": self.url(origin, "wrong")}})
        self.assertNotIn("wrong", json.dumps(e))
        self.refused(400, "SOURCE_NOT_FOUND", "POST", "/git/v1/repo", {"source": {"url": self.files_server({}) + "/x.git"}})
        self.refused(400, "INVALID_REVISION", "POST", "/git/v1/repo", {"source": {"url": url, "rev": "none"}})
        self.refused(400, "INVALID_REVISION", "POST", "/git/v1/repo", {"source": {"url": url, "rev": "-f"}})

    def test_import(self):
        author = {"commitMessage": "brought in", "authorName": "Ada", "authorEmail": "ada@example.org"}
        r = self.new(**{"import": {"type": "files", "files": {"a.txt": "A", "d/\u00e9 \"q\".txt": "\u20ac\n"}, **author}})
        c = self.api(r, "GET", "/git/commits")["commits"]
        self.assertEqual([(x["message"].strip(), x["author"]["name"]) for x in c], [("brought in", "Ada")])
        f = self.api(r, "GET", "/contents/" + urllib.parse.quote("d/\u00e9 \"q\".txt", safe=""))
        self.assertEqual(base64.b64decode(f["content"]).decode(), "\u20ac\n")
        e = self.refused(400, "INVALID_FILE_PATH", "POST", "/git/v1/repo",
                         {"import": {"type": "files", "files": {"../x": "1"}, "commitMessage": "m"}})
        self.assertEqual(e["path"], "../x")

        def make_tar(entries, mode="w"):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode=mode) as t:
                for name, data in entries.items():
                    info = tarfile.TarInfo(name)
                    if isinstance(data, str):
                        info.type, info.linkname = tarfile.SYMTYPE, data
                        data = b""
                    info.size = len(data)
                    info.mode = 0o755 if name.endswith(".sh") else 0o644
                    t.addfile(info, io.BytesIO(data))
            return out.getvalue()

        long = "long/" + "n" * 150 + "/" + "m" * 120
        tree = {"top/run.sh": b"#!/bin/sh\n", "top/sub/x.txt": b"x" * 3000, "top/link": "sub/x.txt", long: b"l",
                "top/.git/config": b"[evil]"}
        z = io.BytesIO()
        with zipfile.ZipFile(z, "w", zipfile.ZIP_DEFLATED) as f:
            f.writestr("top/sub/x.txt", "x" * 3000)
            f.writestr("other", "o")
        base = self.files_server({"a.tar": make_tar(tree), "a.tgz": make_tar(tree, "w:gz"), "a.zip": z.getvalue(),
                                  "up.tar": make_tar({"../up": b"x"}), "junk": b"no archive at all" * 100,
                                  "cut.tar": make_tar(tree)[:2000]})
        for name in ("a.tar", "a.tgz"):
            r = self.new(**{"import": {"type": "tar", "url": f"{base}/{name}", **author}})
            w = self.work(r)
            self.assertTrue(os.access(os.path.join(w, "top/run.sh"), os.X_OK))
            self.assertEqual(os.readlink(os.path.join(w, "top/link")), "sub/x.txt")
            self.assertTrue(os.path.exists(os.path.join(w, long)))
            self.assertFalse(os.path.exists(os.path.join(w, "top/.git")))
        for kind, name in (("tar", "a.tgz"), ("zip", "a.zip")):
            r = self.new(**{"import": {"type": kind, "url": f"{base}/{name}", "dir": "top/sub", **author}})
            self.assertEqual([e["path"] for e in self.api(r, "GET", "/contents/")["entries"]], ["x.txt"])
            e = self.refused(400, "IMPORT_SUBDIR_NOT_FOUND", "POST", "/git/v1/repo",
                             {"import": {"type": kind, "url": f"{base}/{name}", "dir": "none", **author}})
            self.assertEqual(e["dir"], "none")
        self.refused(400, "INVALID_FILE_PATH", "POST", "/git/v1/repo", {"import": {"type": "tar", "url": f"{base}/up.tar", **author}})
        for name in ("junk", "cut.tar"):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", "/git/v1/repo",
                         {"import": {"type": "tar", "url": f"{base}/{name}", **author}})
        for name in ("none", "redirect"):
            self.refused(400, "SOURCE_NOT_FOUND", "POST", "/git/v1/repo",
                         {"import": {"type": "zip", "url": f"{base}/{name}", **author}})
        origin = self.new()
        self.commit(origin, {"lib/one": "1", "lib/two/three": "3", "else": "e"})
        r = self.new(**{"import": {"type": "git", "url": self.url(origin), "dir": "lib", **author}})
        self.assertEqual([e["path"] for e in self.api(r, "GET", "/contents/")["entries"]], ["one", "two"])
        self.assertEqual(self.api(r, "GET", "/git/commits")["total"], 1)
        self.refused(400, "IMPORT_SUBDIR_NOT_FOUND", "POST", "/git/v1/repo",
                     {"import": {"type": "git", "url": self.url(origin), "dir": "none", **author}})
