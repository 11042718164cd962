#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What one hostile client of Git cannot take from the others; usage: test_api_git_limits.py SERVE_GIT [TEST...]"""
import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import CALL_S, GitTools, Refused, pkt  # noqa: E402
from git_hostile_checks import BOMB_WIDTH, ZERO, GitPacks  # noqa: E402
from harness import wait_for  # noqa: E402
from served import ServedGit  # noqa: E402

MEMORY_MB = 1200  # what the server may grow by; AddressSanitizer keeps what was freed for a while


class Tools(GitPacks, ServedGit, GitTools):
    def status(self, field):
        with open(f"/proc/{self.proc.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))

    def rss_mb(self):
        return self.status("VmRSS") >> 10

    def children(self):
        """Git's programs that the server runs, except those that end."""
        kids = []
        for task in os.listdir(f"/proc/{self.proc.pid}/task"):
            try:
                with open(f"/proc/{self.proc.pid}/task/{task}/children") as f:
                    kids += f.read().split()
            except OSError:
                pass
        names = {}
        for pid in set(kids):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    names[int(pid)] = f.read().strip()
            except OSError:
                pass
        return [p for p, name in names.items() if name.startswith("git")]

    def guarded(self):
        """Ends the server, and so the test, when its memory grows."""
        start = self.rss_mb()
        over = threading.Event()

        def watch():
            while not over.wait(0.2):
                try:
                    if self.rss_mb() > start + MEMORY_MB:
                        self.proc.kill()
                        return
                except OSError:
                    return
        t = threading.Thread(target=watch, daemon=True)
        t.start()
        self.addCleanup(t.join)
        self.addCleanup(over.set)

    def ask(self, path, key=None, method="GET", body=b""):
        """A request whose client can leave."""
        s = socket.create_connection(("127.0.0.1", self.port), timeout=CALL_S)
        self.addCleanup(s.close)
        who = f"Authorization: Bearer {key or self.key}\r\n" if key != "" else ""
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{who}Git-Protocol: version=2\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        return s


class Bombs(Tools, unittest.TestCase):
    server_env = {"FX_SEARCH_S": "100"}

    def pushed(self):
        repo = self.new()
        main = self.commit(repo, {"a.txt": "1\n"})["sha"]
        shas = {}
        for name, leaf in (("one", b"x"), ("two", b"y"), ("empty", None)):
            pack, shas[name] = self.bomb(leaf)
            self.assertLess(len(pack), 300 << 10)
            self.assertIn(f"ok refs/heads/{name}".encode(), self.push_raw(repo, f"refs/heads/{name}", shas[name], pack))
        return repo, main, shas

    def test_compare_and_lists(self):
        repo, _, shas = self.pushed()
        self.guarded()
        for base, head in (("main", "one"), ("one", "two"), ("one", "main"), ("empty", "one")):
            with self.subTest(f"{base}...{head}"):
                self.assertEqual(len(self.api(repo, "GET", f"/compare?base={base}&head={head}")["files"]), 3000)
        for path in ("/compare?base=main&head=empty", "/contents/?recursive=true&rev=one",
                     "/contents/?recursive=true&rev=empty", "/tarball?rev=one", "/zip?rev=one", "/tarball?rev=empty",
                     "/search/files?query=zzz&rev=empty", "/search/files?query=zzz&rev=one"):
            with self.subTest(path):
                said = self.refused(422, "GIT_TOO_LARGE", "GET", f"/git/v1/repo/{repo}{path}")
                self.assertRegex(said["message"], r"\d")  # the limit
        # what is asked about a part of it is answered
        self.assertEqual(len(self.api(repo, "GET", "/contents/000?rev=one")["entries"]), BOMB_WIDTH)
        self.assertEqual(self.api(repo, "GET", f"/git/commits/{shas['one']}")["message"], "boom\n")
        self.assertEqual(self.api(repo, "GET", "/git/commits?branch=one")["count"], 1)

    def test_the_same_tree_beside_a_change(self):
        """A bomb that did not change costs nothing."""
        repo, _, shas = self.pushed()
        self.guarded()
        old = self.commit(repo, {"b.txt": "1\n2\n"}, branch="one")["sha"]
        self.commit(repo, {"b.txt": "1\n3\n", "c.txt": "new\n"}, branch="one")
        got = self.api(repo, "GET", f"/compare?base={old}&head=one")
        self.assertEqual([(f["filename"], f["status"], f["additions"], f["deletions"]) for f in got["files"]],
                         [("b.txt", "modified", 1, 1), ("c.txt", "added", 1, 0)])

    def test_client_leaves(self):
        """Searches take as long as they may, unless nobody waits for them."""
        repo, *_ = self.pushed()
        for path in ("/search?query=zzz&rev=one", "/search/diffs?query=zzz&rev=one", "/search?query=zzz&rev=empty"):
            with self.subTest(path):
                self.guarded()
                s = self.ask(f"/git/v1/repo/{repo}{path}")
                wait_for("git has begun", self.children, CALL_S)
                s.close()
                wait_for("git has ended", lambda: not self.children(), 60)

    def test_large_objects(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        who = b"A <a@example.org> 1700000000 +0000\n"
        blob = ("blob", b"x")
        _, (blob_id,) = self.make_pack([blob])
        tree = b"".join(b"100644 %07x\0" % i + bytes.fromhex(blob_id) for i in range(1200000))
        _, (tree_id,) = self.make_pack([("tree", tree)])
        head = f"tree {tree_id}\n".encode() + b"author " + who + b"committer " + who
        large = head + b"\n" + b"m" * (8 << 20)
        pack, ids = self.make_pack([blob, ("tree", tree), ("commit", head + b"\nwide\n"), ("commit", large)])
        self.assertIn(b"ok ", self.push_raw(repo, "refs/heads/wide", ids[2], pack))
        self.assertIn(b"ok ", self.push_raw(repo, "refs/heads/long", ids[3], pack))
        self.guarded()
        for path in ("/contents/?rev=wide", "/compare?base=main&head=wide", f"/git/trees/{tree_id}", "/search/files?query=zzz&rev=wide",
                     f"/git/commits/{ids[3]}", "/git/commits?branch=long", "/contents/?rev=long", "/compare?base=main&head=long"):
            with self.subTest(path):
                self.refused(422, "GIT_TOO_LARGE", "GET", f"/git/v1/repo/{repo}{path}")

    def test_ordinary_comparisons(self):
        """Small ones are made by the server, larger ones by Git: both say the same."""
        repo = self.new()
        text = "".join(f"line {i}\n" for i in range(200))
        base = self.commit(repo, {"keep": "k", "moved-from": text, "gone": "1\n2\n", "edit": "a\nb\nc\n"})["sha"]
        self.commit(repo, {"moved-from": None, "moved-to": text + "more\n", "gone": None, "edit": "a\nB\nc\nd\n", "new": "n\n"})
        small = self.api(repo, "GET", f"/compare?base={base}&head=main")
        want = {"edit": ("modified", 2, 1, None), "gone": ("removed", 0, 2, None), "moved-to": ("renamed", 1, 0, "moved-from"), "new": ("added", 1, 0, None)}
        self.assertEqual({f["filename"]: (f["status"], f["additions"], f["deletions"], f["previous_filename"]) for f in small["files"]}, want)
        self.commit(repo, {"large": "".join(f"{i}\n" for i in range(200000))})
        large = self.api(repo, "GET", f"/compare?base={base}&head=main")
        files = {f["filename"]: f for f in large["files"]}
        self.assertEqual((files["large"]["additions"], files["large"]["status"]), (200000, "added"))
        del files["large"]
        self.assertEqual(sorted(files.values(), key=lambda f: f["filename"]), sorted(small["files"], key=lambda f: f["filename"]))


class Crowds(Tools, unittest.TestCase):
    """Many clients, and slow ones."""

    def public(self):
        repo = self.new(public=True)
        w = self.work()
        sha = self.save(w, {"big": os.urandom(16 << 20)})
        self.git("-c", "core.compression=0", "push", "-q", self.url(repo), "HEAD:main", cwd=w)
        return repo, pkt("command=fetch") + b"0001" + pkt(f"want {sha}\n") + pkt("done\n") + b"0000"

    def slow(self, repo, want, key="", address="127.0.0.1"):
        """A clone that takes its first bytes and nothing else; the status of the reply."""
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        s.settimeout(CALL_S)
        s.bind((address, 0))
        s.connect(("127.0.0.1", self.port))
        who = f"Authorization: Bearer {key}\r\n" if key else ""
        s.sendall(f"POST /{repo}/git-upload-pack HTTP/1.1\r\nHost: x\r\n{who}Git-Protocol: version=2\r\n"
                  f"Content-Type: application/x-git-upload-pack-request\r\nContent-Length: {len(want)}\r\n\r\n".encode() + want)
        return s

    def head(self, s):
        got = b""
        while b"\r\n\r\n" not in got and (piece := s.recv(4096)):
            got += piece
        return got.partition(b"\r\n\r\n")[0].decode()

    def test_strangers(self):
        """An address has so many clones, all strangers together have so many, and accounts do not notice."""
        repo, want = self.public()
        one = [self.slow(repo, want) for _ in range(10)]
        heads = sorted(self.head(s) for s in one)
        self.assertEqual([h.split()[1] for h in heads], ["200"] * 8 + ["429"] * 2)
        self.assertIn("Retry-After: ", heads[-1])
        rest = [self.slow(repo, want, address=f"127.0.0.{i}") for i in range(2, 8) for _ in range(6)]
        heads = [self.head(s) for s in rest]
        ok = sum(h.split()[1] == "200" for h in heads)
        self.assertLessEqual(ok + 8, 32)
        self.assertGreaterEqual(ok, 12)
        self.assertTrue(all("Retry-After: " in h for h in heads if h.split()[1] != "200"), heads)
        for pid in self.children()[:3]:
            with open(f"/proc/{pid}/limits") as f:
                limits = f.read()
            self.assertRegex(limits, r"Max processes +64 +64 ")
            self.assertRegex(limits, rf"Max data size +{2 << 30} +{2 << 30} ")
            with open(f"/proc/{pid}/status") as f:
                self.assertEqual({line.split()[1] for line in f if line.startswith("Cap")}, {"0" * 16})
        # git shows its key only to a server that asks for one
        self.git("-c", f"http.extraHeader=Authorization: Bearer {self.key}", "clone", "-q", self.url(repo, secret=""), os.path.join(self.top, "known"))
        for s in one + rest:
            s.close()
        wait_for("all have ended", lambda: not self.children(), CALL_S)
        self.git("clone", "-q", self.url(repo, secret=""), os.path.join(self.top, "anonymous"))

    def test_an_account(self):
        repo, want = self.public()
        socks = [self.slow(repo, want, key=self.key) for _ in range(52)]
        codes = [self.head(s).split()[1] for s in socks]
        self.assertEqual((codes.count("200"), codes.count("429")), (48, 4))
        other = self.stranger()
        self.git("clone", "-q", self.url(repo, secret=other), os.path.join(self.top, "other"))
        for s in socks:
            s.close()
        wait_for("all have ended", lambda: not self.children(), CALL_S)


class Slow(Crowds):
    server_env = {"FX_SLOW_S": "4"}
    test_strangers = test_an_account = None

    def test_taken_nothing(self):
        repo, want = self.public()
        s = self.slow(repo, want)
        self.assertIn(" 200 ", self.head(s) + " ")
        wait_for("git has ended", lambda: not self.children(), CALL_S)

    def test_taken_little(self):
        """Some bytes now and then do not help."""
        repo, want = self.public()
        s = self.slow(repo, want)
        self.assertIn(" 200 ", self.head(s) + " ")
        got = 0
        try:
            while piece := s.recv(2048):
                got += len(piece)
                time.sleep(0.1)
        except ConnectionResetError:
            pass
        self.assertLess(got, 16 << 20)
        wait_for("git has ended", lambda: not self.children(), CALL_S)
        # who takes what there is gets all of it
        self.git("clone", "-q", self.url(repo, secret=""), os.path.join(self.top, "anonymous"))


class Quota(Tools, unittest.TestCase):
    """Several at once do not pass the limit together."""

    def account(self, mb):
        a = self.call("POST", "/v1/accounts", {"name": "small", "quotas": {"gitMb": mb}})["id"]
        key = self.call("POST", f"/v1/keys?accountId={a}", {"name": "k"})["key"]
        repo = self.call("POST", "/git/v1/repo", {}, key=key)["repoId"]
        self.addCleanup(self.call, "DELETE", f"/v1/accounts/{a}")
        self.addCleanup(self.call, "DELETE", f"/git/v1/repo/{repo}", key=key)
        return key, repo

    def put(self, repo, key, data, sent):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=CALL_S)
        self.addCleanup(s.close)
        oid = hashlib.sha256(data).hexdigest()
        s.sendall(f"PUT /{repo}/info/lfs/objects/{oid} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
                  f"Expect: 100-continue\r\nContent-Length: {len(data)}\r\n\r\n".encode())
        first = s.recv(4096)
        if b" 100 " in first:
            s.sendall(data[:sent])
        return s, first

    def test_large_files(self):
        key, repo = self.account(5)
        files = [os.urandom(2 << 20) for _ in range(3)]
        socks = [self.put(repo, key, data, 1000) for data in files]
        self.assertEqual([b" 100 " in first for _, first in socks], [True, True, False])
        self.assertIn(b" 403 ", socks[2][1])
        for (s, _), data in zip(socks[:2], files):
            s.sendall(data[1000:])
            self.assertIn(b" 200 ", s.recv(4096))
        said = self.call("POST", f"/{repo}/info/lfs/objects/batch", {"operation": "upload", "objects": [
            {"oid": hashlib.sha256(files[2]).hexdigest(), "size": 2 << 20}]}, key=key)
        self.assertEqual(said["objects"][0]["error"]["code"], 507)

    def test_commits(self):
        key, repo = self.account(8)
        path = f"/git/v1/repo/{repo}/commits"
        said = []

        def one(i):
            try:
                self.call("POST", path, {"message": "m", "files": [{"path": f"f{i}", "content": os.urandom(1500000).hex()}]}, key=key)
                said.append(200)
            except Refused as e:
                said.append(e.status)
        threads = [threading.Thread(target=one, args=(i,)) for i in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        # 3 MB of text each, half of that when it is stored: four fit if they come one after the other, and all five if nobody counts what is under way.
        self.assertLessEqual(said.count(200), 4)
        self.assertGreaterEqual(said.count(200), 1)
        self.assertEqual(set(said), {200, 403})

    def test_pushes(self):
        key, repo = self.account(5)
        packs = [self.tree_pack([("100644", b"f", os.urandom(3 << 20)), ("100644", b"g", os.urandom(3000))]) for _ in range(2)]
        socks = []
        for i, (pack, sha) in enumerate(packs):
            body = pkt(f"{'0' * 40} {sha} refs/heads/b{i}\0report-status") + b"0000" + pack
            s = socket.create_connection(("127.0.0.1", self.port), timeout=CALL_S)
            self.addCleanup(s.close)
            s.sendall(f"POST /{repo}/git-receive-pack HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode())
            try:
                s.sendall(body[:-1000])
            except (BrokenPipeError, ConnectionResetError):
                pass
            if i == 0:
                wait_for("it has come", lambda: self.arrived(repo) > 2 << 20, CALL_S)
            socks.append((s, body))
        for s, body in reversed(socks):
            s.sendall(body[-1000:])
            said = b""
            while b"refs/heads/" not in said and b" 403 " not in said and (piece := s.recv(4096)):
                said += piece
        self.assertIn(b"ok refs/heads/b0", said)
        names = [b["name"] for b in self.call("GET", f"/git/v1/repo/{repo}/git/refs/heads/", key=key)["branches"]]
        self.assertEqual(names, ["b0"])

    def arrived(self, repo):
        top = os.path.join(self.data_dir, "git/repos", f"{repo}.git/objects")
        size = 0
        for d, _, names in os.walk(top):
            for n in names:
                try:
                    size += os.path.getsize(os.path.join(d, n))
                except OSError:
                    pass
        return size


class References(Tools, unittest.TestCase):
    """Whoever clones a repository is told all of its references."""

    def moved(self, repo, updates):
        """What receive-pack says; git's own client is slow with many."""
        lines = [f"{old} {new} {ref}".encode() for old, new, ref in updates]
        body = b"".join(pkt(line + b"\0report-status" * (i == 0)) for i, line in enumerate(lines)) + b"0000" + self.make_pack([])[0]
        return self.call("POST", f"/{repo}/git-receive-pack", body, raw=True, headers={"Content-Type": "application/x-git-receive-pack-request"})

    def test_number(self):
        repo = self.new()
        sha = self.commit(repo, {"a": "1"})["sha"]
        said = self.moved(repo, [(ZERO, sha, f"refs/tags/t{i:06}") for i in range(20001)])
        self.assertIn(b"ng refs/tags/t020000 pre-receive hook declined", said)
        self.assertEqual(self.api(repo, "GET", "/git/refs/tags/")["tags"], [])
        w = self.work(repo)
        packed = os.path.join(self.data_dir, "git/repos", f"{repo}.git/packed-refs")
        with open(packed, "w") as f:  # what many pushes leave
            f.writelines(f"{sha} refs/tags/t{i:06}\n" for i in range(99998))
        self.git("push", "-q", "origin", "HEAD:refs/heads/last", cwd=w)
        said = self.git("push", "-q", "origin", "HEAD:refs/heads/more", cwd=w, ok=False)
        self.assertIn("the repository has 100000 references already: delete some first", said)
        self.save(w, {"b": "2"})  # what is there still moves, and can be deleted
        self.git("push", "-q", "origin", "HEAD:refs/heads/main", cwd=w)
        self.git("push", "-q", "origin", ":refs/heads/last", cwd=w)
        self.git("push", "-q", "origin", "HEAD:refs/heads/more", cwd=w)


class Words(Tools, unittest.TestCase):
    def test_no_host_path(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        self.api(repo, "POST", "/branches", {"name": "a/b"})
        for name in ("a", "a/b/c", "main/x"):
            for path, body in (("/branches", {"name": name}), (f"/git/refs/heads/{name}", {}), ("/commits", {"message": "m", "files": [], "branch": name})):
                said = self.refused(400, "GIT_INVALID_REQUEST", "POST", f"/git/v1/repo/{repo}{path}", body)
                self.assertNotIn(self.data_dir, json.dumps(said))
                self.assertNotIn("/git/repos", json.dumps(said))
        # an object that is damaged
        sha = self.api(repo, "GET", "/git/refs/heads/main")["sha"]
        file = os.path.join(self.data_dir, "git/repos", f"{repo}.git/objects", sha[:2], sha[2:])
        os.chmod(file, 0o600)
        with open(file, "r+b") as f:
            good = f.read()
            f.seek(0)
            f.write(b"x" * len(good))
        for path in ("/contents/a", "/git/commits", "/compare?base=main&head=main", "/search?query=a", "/tarball"):
            try:
                self.api(repo, "GET", path, raw=True)
            except Refused as e:
                self.assertNotIn(self.data_dir, json.dumps(e.body), path)
            except OSError:
                pass
        with open(file, "wb") as f:
            f.write(good)


class NoJail(Tools, unittest.TestCase):
    """Where namespaces cannot be made."""
    make = ["unshare", "--user", "--map-root-user", "sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$0\""]

    @classmethod
    def setUpClass(cls):
        cls.serve(*cls.make, cls.program, env={**os.environ, **cls.server_env}, stderr=subprocess.DEVNULL)
        cls.data_dir = cls.dir

    def test_refused(self):
        said = self.refused(503, "UNAVAILABLE", "POST", "/git/v1/repo", {})
        self.assertIn("PANDO_GIT_UNJAILED", said["message"])
        self.refused(503, "UNAVAILABLE", "GET", "/git/v1/repo")
        self.refused(503, "UNAVAILABLE", "GET", "/00000000-0000-4000-8000-000000000000/info/refs?service=git-upload-pack")
        self.call("GET", "/v1/vms")


class Unjailed(NoJail):
    server_env = {"FX_UNJAILED": "1"}

    def test_refused(self):
        repo = self.new()
        w = self.work()
        self.save(w, {"a": "1"})
        self.git("push", "-q", self.url(repo), "HEAD:main", cwd=w)
        self.work(repo)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
