# SPDX-License-Identifier: Apache-2.0
"""git_hostile_checks.py - hostile or broken clients against repositories; see git_checks.py"""
import base64
import gzip
import hashlib
import http.client
import io
import json
import os
import socket
import struct
import tarfile
import urllib.parse
import uuid
import zlib

from git_checks import CALL_S, ZERO, Refused, pkt
from harness import wait_for

NOWHERE = "00000000-0000-4000-8000-000000000000"
BOMB_LEVELS, BOMB_WIDTH = 10, 1000
LARGE = 16 << 20  # more than the sockets between two processes hold


class GitPacks:
    """Pushes of one's own making."""

    def push_raw(self, repo, ref, new, pack, old=ZERO, headers=None, key=None):
        """One command and a pack; what receive-pack says."""
        name = ref if isinstance(ref, bytes) else ref.encode()
        body = pkt(f"{old} {new} ".encode() + name + b"\0report-status") + b"0000" + pack
        return self.call("POST", f"/{repo}/git-receive-pack", body, raw=True, key=key,
                         headers={"Content-Type": "application/x-git-receive-pack-request", **(headers or {})})

    @staticmethod
    def make_pack(objects):
        """[(type, bytes)] -> a pack, and the hashes."""
        kinds = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
        out, ids = b"PACK" + struct.pack(">II", 2, len(objects)), []
        for kind, data in objects:
            size = len(data)
            byte = kinds[kind] << 4 | (size & 15)
            size >>= 4
            while size:
                out += bytes([byte | 0x80])
                byte, size = size & 0x7f, size >> 7
            out += bytes([byte]) + zlib.compress(data)
            ids.append(hashlib.sha1(f"{kind} {len(data)}\0".encode() + data).hexdigest())
        return out + hashlib.sha1(out).digest(), ids

    def tree_pack(self, entries, who=b"A <a@example.org>", message=b"m\n"):
        """A commit of one tree with these (mode, name, blob): pack, commit's hash."""
        _, blobs = self.make_pack([("blob", e[2]) for e in entries])
        tree = b"".join(m.encode() + b" " + n + b"\0" + bytes.fromhex(b) for (m, n, _), b in zip(entries, blobs))
        _, (tree_id,) = self.make_pack([("tree", tree)])
        commit = f"tree {tree_id}\n".encode() + b"".join(w + who + b" 1700000000 +0000\n" for w in (b"author ", b"committer ")) + b"\n" + message
        pack, ids = self.make_pack([*[("blob", e[2]) for e in entries], ("tree", tree), ("commit", commit)])
        return pack, ids[-1]

    def bomb(self, leaf, extra=()):
        """Trees that name the one below a thousand times, ten levels deep: pack, commit's hash. leaf: a blob, or None for an empty tree"""
        objects = [*extra, ("blob", leaf) if leaf is not None else ("tree", b"")]
        _, ids = self.make_pack(objects)
        below, mode = ids[-1], b"100644" if leaf is not None else b"40000"
        for _ in range(BOMB_LEVELS):
            objects.append(("tree", b"".join(mode + b" %03x\0" % i + bytes.fromhex(below) for i in range(BOMB_WIDTH))))
            below, mode = self.make_pack(objects[-1:])[1][0], b"40000"
        who = b"A <a@example.org> 1700000000 +0000\n"
        objects.append(("commit", f"tree {below}\n".encode() + b"author " + who + b"committer " + who + b"\nboom\n"))
        pack, ids = self.make_pack(objects)
        return pack, ids[-1]


class GitHostileChecks(GitPacks):
    def test_bad_packs(self):
        repo = self.new()
        keep = self.commit(repo, {"a": "1"})["sha"]
        good, sha = self.tree_pack([("100644", b"file", b"x")])
        self.assertIn(b"ok refs/heads/good", self.push_raw(repo, "refs/heads/good", sha, good))
        cases = {
            "dotdot": self.tree_pack([("100644", b"..", b"x")]),
            "dotgit": self.tree_pack([("40000", b".git", b"")]),
            "DotGit": self.tree_pack([("100644", b".GIT", b"x")]),
            "slash": self.tree_pack([("100644", b"a/b", b"x")]),
            "empty": self.tree_pack([("100644", b"", b"x")]),
            "modules-link": self.tree_pack([("120000", b".gitmodules", b"/etc/passwd")]),
            "modules-url": self.tree_pack([("100644", b".gitmodules", b'[submodule "x"]\n\tpath = x\n\turl = --upload-pack=touch\n')]),
            "twice": self.tree_pack([("100644", b"a", b"x"), ("100644", b"a", b"y")]),
            "sender": self.tree_pack([("100644", b"a", b"x")], who=b"nobody"),
        }
        damaged = bytearray(good)
        damaged[20] ^= 0xff
        cases["damaged"] = (bytes(damaged), sha)
        cases["cut"] = (good[:-10], sha)
        cases["nothing"] = (b"", "1" * 40)
        cases["not-there"] = (self.make_pack([("blob", b"z")])[0], "2" * 40)
        cases["count"] = (good[:8] + struct.pack(">I", 2000000000) + good[12:], sha)
        for name, (pack, new) in cases.items():
            said = self.push_raw(repo, f"refs/heads/bad-{name}", new, pack)
            self.assertIn(b"ng refs/heads/bad-" + name.encode(), said, name)
        for junk in (b"zzzz", b"0003", b"fff1" + b"x" * 100, b"0000", b"", pkt("no command at all\n") + b"0000"):
            for service in ("git-receive-pack", "git-upload-pack"):
                try:
                    self.call("POST", f"/{repo}/{service}", junk, raw=True)
                except (Refused, http.client.HTTPException):
                    pass
        # gzip on the way in
        pack, sha = self.tree_pack([("100644", b"zipped", b"x")])
        body = gzip.compress(pkt(f"{ZERO} {sha} refs/heads/zipped\0report-status") + b"0000" + pack)
        self.assertIn(b"ok refs/heads/zipped", self.call("POST", f"/{repo}/git-receive-pack", body, raw=True,
                                                         headers={"Content-Encoding": "gzip"}))
        # a client that leaves in the middle
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_S)
        c.putrequest("POST", f"/{repo}/git-receive-pack")
        c.putheader("Authorization", f"Bearer {self.key}")
        c.putheader("Content-Length", "1000000")
        c.endheaders()
        c.send(pkt(f"{ZERO} {sha} refs/heads/half\0report-status") + b"0000" + pack[:30])
        c.close()
        names = {b["name"]: b["commit"] for b in self.api(repo, "GET", "/git/refs/heads/")["branches"]}
        self.assertEqual((set(names), names["main"]), ({"main", "good", "zipped"}, keep))

    def test_names_of_references(self):
        repo = self.new()
        keep = self.commit(repo, {"a": "1"})["sha"]
        pack, sha = self.tree_pack([("100644", b"file", b"x")])
        for ref in (b"refs/heads/../../evil", b"refs/heads/a..b", b"refs/heads/a b", b"HEAD", b"evil", b"refs/evil/../../x", b"refs/heads/x.lock",
                    b"refs/heads/a//b", b"refs/heads/", b"refs/heads/a\x01", b"refs/heads/@{0}", b"refs/heads/" + b"n" * 5000,
                    b"refs/heads/" + b"/".join([b"n" * 100] * 5), b"refs/pando-sync/base/heads/main", b"../../../../tmp/evil",
                    b"refs/heads/two\n" + ZERO.encode() + b" " + sha.encode() + b" refs/heads/lines"):
            self.assertIn(b"ng " + ref[:20], self.push_raw(repo, ref, sha, pack), ref)
        self.assertEqual([b["name"] for b in self.api(repo, "GET", "/git/refs/heads/")["branches"]], ["main"])
        # odd, but Git's: whoever lists or reads them is answered
        longest = b"refs/heads/" + b"/".join([b"n" * 100] * 4)
        for ref in (b"refs/heads/-x", b"refs/heads/\x80bad", b"refs/tags/\xff\xfe", longest):
            self.assertIn(b"ok " + ref[:20], self.push_raw(repo, ref, sha, pack), ref)
        names = {b["name"] for b in self.api(repo, "GET", "/git/refs/heads/")["branches"]}
        self.assertEqual(names, {"main", "-x", "\ufffdbad", longest[11:].decode()})
        self.assertEqual([t["name"] for t in self.api(repo, "GET", "/git/refs/tags/")["tags"]], ["\ufffd\ufffd"])
        self.assertEqual(set(self.call("GET", f"/git/v1/repo?search={repo}")["repositories"][0]["branches"]), names)
        self.assertEqual(self.api(repo, "GET", f"/contents/file?rev={longest[11:].decode()}")["size"], 1)
        self.assertEqual(self.api(repo, "GET", "/git/refs/heads/main")["sha"], keep)
        # a great many of them
        w = self.work(repo)
        lines = "".join(f"create refs/heads/many/{i} {keep}\n" for i in range(100))
        self.git("update-ref", "--stdin", cwd=w, stdin=lines.encode())
        self.git("push", "-q", "origin", "refs/heads/many/*", cwd=w)
        self.assertEqual(len(self.api(repo, "GET", "/git/refs/heads/")["branches"]), 104)
        self.assertEqual(self.git("ls-remote", self.url(repo), "refs/heads/many/*").count("refs/heads/many/"), 100)

    def test_invalid_utf8(self):
        repo = self.new()
        base = self.commit(repo, {"a": "1"})["sha"]
        pack, sha = self.tree_pack([("100644", b"plain", b"needle\n"), ("100644", b"\xff\xfe.txt", b"needle \xff\n")],
                                   who=b"A\xff <a\xc3@example.org>", message=b"sub\xfeject needle\n\nbody \xff\n")
        self.assertIn(b"ok ", self.push_raw(repo, "refs/heads/bytes", sha, pack))
        tag = f"object {sha}\ntype commit\ntag v1\ntagger ".encode() + b"T\xff <t@example.org> 1700000000 +0000\n\nsaid \xff\n"
        pack, (tag_id,) = self.make_pack([("tag", tag)])
        self.assertIn(b"ok ", self.push_raw(repo, "refs/tags/v1", tag_id, pack))
        c = self.api(repo, "GET", f"/git/commits/{sha}")
        self.assertEqual((c["author"]["name"], c["message"].split("\n")[0]), ("A\ufffd", "sub\ufffdject needle"))
        self.assertEqual(self.api(repo, "GET", "/git/commits?branch=bytes")["commits"][0], c)
        self.assertIn("said \ufffd", self.api(repo, "GET", "/git/refs/tags/v1")["message"])
        for route in ("/contents/?rev=bytes", "/contents/?rev=bytes&recursive=true", f"/git/trees/{c['tree']['sha']}", f"/compare?base={base}&head={sha}",
                      "/search/files?query=txt&rev=bytes"):
            self.assertIn("\ufffd\ufffd.txt", json.dumps(self.api(repo, "GET", route), ensure_ascii=False), route)
        self.assertEqual(self.api(repo, "GET", "/search?query=needle&rev=bytes")["totalFiles"], 2)
        self.assertEqual(self.api(repo, "GET", "/search/commits?query=needle&rev=bytes")["totalCommits"], 1)
        self.assertEqual(self.api(repo, "GET", "/search/diffs?query=needle&rev=bytes")["totalCommits"], 1)
        for form in ("tarball", "zip"):
            self.assertTrue(self.api(repo, "GET", f"/{form}?rev=bytes", raw=True))
        # in what is asked
        for path in ("/contents/%ff", "/contents/%ff%fe.txt?rev=main", "/git/refs/heads/%ff", "/git/refs/tags/%c3", "/git/commits/%ff",
                     "/compare?base=main&head=%ff", "/git/commits?branch=%ff", "/search?query=%ff&isRegex=true", "/tarball?rev=%ff"):
            with self.assertRaises(Refused, msg=path) as e:
                self.api(repo, "GET", path)
            self.assertIn(e.exception.status, (400, 404), path)
        for body in (b'{"message": "\xff", "files": []}', b'{"message": "m", "files": [{"path": "\xc3(", "content": "1"}]}',
                     b'{"message": "m", "files": [{"path": "x\\ud800", "content": "1"}]}'):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", f"/git/v1/repo/{repo}/commits", body)
        self.assertEqual(self.api(repo, "GET", "/git/refs/heads/main")["sha"], base)

    def test_symlinks(self):
        """To the server they are plain text: nothing follows them."""
        repo = self.new()
        aim = os.path.join(self.top, "aim")
        os.mkdir(aim)
        pack, sha = self.tree_pack([("120000", b"dir", aim.encode()), ("120000", b"file", b"/etc/passwd"), ("120000", b"up", b"../../../../etc")])
        self.assertIn(b"ok ", self.push_raw(repo, "refs/heads/main", sha, pack))
        f = self.api(repo, "GET", "/contents/file")
        self.assertEqual(base64.b64decode(f["content"]), b"/etc/passwd")
        for path in ("dir/x", "up/passwd", "file/x"):
            self.refused(404, "PATH_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/contents/{path}")
        self.assertEqual(self.api(repo, "GET", "/search?query=root:")["totalFiles"], 0)
        with tarfile.open(fileobj=io.BytesIO(self.api(repo, "GET", "/tarball", raw=True))) as t:
            self.assertEqual(t.getmember("file").linkname, "/etc/passwd")
        self.commit(repo, {"dir/x": "1", "file": "2"})
        self.assertEqual(os.listdir(aim), [])
        self.assertEqual(self.api(repo, "GET", "/contents/dir")["type"], "dir")
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as t:
            link, through = tarfile.TarInfo("l"), tarfile.TarInfo("l/evil")
            link.type, link.linkname, through.size = tarfile.SYMTYPE, aim, 1
            t.addfile(link)
            t.addfile(through, io.BytesIO(b"x"))
        url = self.files_server({"a.tar": out.getvalue()}) + "/a.tar"
        try:
            self.new(**{"import": {"type": "tar", "url": url, "commitMessage": "m"}})
        except Refused as e:
            self.assertEqual(e.status, 400, e)
        self.assertEqual(os.listdir(aim), [])

    def test_revisions_that_look_like_options(self):
        repo = self.new()
        self.commit(repo, {"a": "1"})
        mark = os.path.join(self.top, "mark")
        for rev in ("-x", f"--output={mark}", f"--upload-pack=touch {mark}", "--", "-"):
            q = urllib.parse.quote(rev, safe="")
            for path in (f"/contents/a?rev={q}", f"/tarball?rev={q}", f"/zip?rev={q}", f"/compare?base={q}&head=main", f"/compare?base=main&head={q}",
                         f"/git/commits?since={q}", f"/git/commits?until={q}", f"/git/commits?branch={q}", f"/git/commits/{q}", f"/git/refs/heads/{q}",
                         f"/git/refs/tags/{q}", f"/git/blobs/{q}", f"/git/trees/{q}", f"/git/tags/{q}",
                         *(f"/search{kind}?query=x&{name}={q}" for kind in ("", "/files", "/commits", "/diffs") for name in ("rev", "ref"))):
                with self.assertRaises(Refused, msg=path) as e:
                    self.api(repo, "GET", path)
                self.assertIn(e.exception.status, (400, 404), f"{path}: {e.exception}")
            for method, path, body in (("POST", "/branches", {"name": rev}), ("POST", "/branches", {"name": "x", "sha": rev}),
                                       ("PUT", "/default-branch", {"defaultBranch": rev}), ("POST", "/commits", {"message": "m", "files": [], "branch": rev}),
                                       ("POST", "/commits", {"message": "m", "files": [], "expectedSha": rev}),
                                       ("POST", "/git/commits", {"message": "m", "tree": rev, "parents": []})):
                with self.assertRaises(Refused, msg=f"{path} {body}") as e:
                    self.api(repo, method, path, body)
                self.assertIn(e.exception.status, (400, 404, 409), f"{path}: {e.exception}")
            for kind in ({"source": {"url": self.url(repo), "rev": rev}},
                         {"import": {"type": "git", "url": self.url(repo), "rev": rev, "commitMessage": "m"}}):
                self.refused(400, "INVALID_REVISION", "POST", "/git/v1/repo", kind)
        self.assertFalse(os.path.exists(mark))

    def test_nobody_learns_what_exists(self):
        """Whatever is asked of another account's private repository is answered as if it were not there."""
        private = self.new(name="secret")
        sha = self.commit(private, {"a": "1"})["sha"]
        trigger = self.api(private, "POST", "/trigger", {"trigger": {"event": "push"}, "action": {"action": "webhook", "endpoint": "https://example.org/"}})
        t = trigger["triggerId"]
        routes = [("GET", p, None) for p in (
            "", "/visibility", "/default-branch", "/contents/", "/contents/a", "/tarball", "/zip", "/git/refs/heads/", "/git/refs/heads/main",
            "/git/refs/tags/", "/git/refs/tags/v1", f"/git/tags/{sha}", f"/git/blobs/{sha}", f"/git/trees/{sha}", "/git/commits", f"/git/commits/{sha}",
            f"/git/commits/{sha}/status", "/compare?base=main&head=main", "/search?query=a", "/search/files?query=a", "/search/commits?query=a",
            "/search/diffs?query=a", "/trigger", f"/trigger/{t}", f"/trigger/{t}/deliveries", "/github-sync")]
        routes += [("DELETE", "", None), ("PUT", "/visibility", {"visibility": "public"}), ("PUT", "/default-branch", {"defaultBranch": "main"}),
                   ("POST", "/branches", {"name": "x"}), ("POST", "/git/refs/heads/x", {}), ("POST", "/commits", {"message": "m", "files": []}),
                   ("POST", "/git/commits", {"message": "m", "tree": sha, "parents": []}), ("DELETE", f"/trigger/{t}", None),
                   ("POST", "/trigger", {"trigger": {"event": "push"}, "action": {"action": "webhook", "endpoint": "https://example.org/"}}),
                   ("POST", "/github-sync", {"githubRepoName": "a/b"}), ("DELETE", "/github-sync", None), ("POST", "/github-sync/run", None)]
        routes = [(m, "/git/v1/repo/{}" + p, b) for m, p, b in routes]
        wire = [("GET", "/{}/info/refs?service=git-upload-pack", None), ("GET", "/{}/info/refs?service=git-receive-pack", None),
                   ("POST", "/{}/git-upload-pack", b"0000"), ("POST", "/{}/git-receive-pack", b"0000"),
                   ("POST", "/{}/info/lfs/objects/batch", {"operation": "download", "objects": []}), ("GET", "/{}/info/lfs/objects/" + "a" * 64, None),
                   ("PUT", "/{}/info/lfs/objects/" + "a" * 64, b"x")]
        never = str(uuid.uuid4())
        _, token, _ = self.identity()
        for key in (self.stranger(), token, ""):  # without one a server counts failures: a few are enough
            for method, path, body in (routes + wire if key else wire):
                said = []
                for repo in (private, NOWHERE, never):
                    with self.assertRaises(Refused, msg=f"{method} {path}") as e:
                        self.call(method, path.format(repo), body, key=key)
                    text = json.dumps(e.exception.body, sort_keys=True).replace(repo, "R")
                    said.append((e.exception.status, text, sorted(k.lower() for k in self.last.headers.keys())))
                self.assertIn(said[0][0], (401, 403, 404), f"{method} {path}")
                self.assertEqual(said[0], said[1], f"{method} {path} with {key or 'no key'}")
                self.assertEqual(said[1], said[2], f"{method} {path} with {key or 'no key'}")
        self.assertEqual(self.api(private, "GET", "/git/refs/heads/main")["sha"], sha)

    # ---- a permission that is revoked while it is used ----

    def begin(self, repo, service, token, length, first):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=CALL_S)
        self.addCleanup(s.close)
        s.sendall(f"POST /{repo}/{service} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nGit-Protocol: version=2\r\n"
                  f"Content-Type: application/x-{service}-request\r\nContent-Length: {length}\r\n\r\n".encode() + first)
        return s

    def test_right_withdrawn_in_the_middle(self):
        repo = self.new()
        w = self.work()
        sha = self.save(w, {"big": os.urandom(LARGE)})
        self.git("-c", "core.compression=0", "push", "-q", self.url(repo), "HEAD:main", cwd=w)
        i, token, _ = self.identity(repo, "write")
        perms = f"/identity/v1/identities/{i}/permissions/git/{repo}"
        # a clone
        ask = pkt("command=fetch") + b"0001" + pkt(f"want {sha}\n") + pkt("done\n") + b"0000"
        s = self.begin(repo, "git-upload-pack", token, len(ask), ask)
        got = len(s.recv(65536))
        self.call("DELETE", perms)
        try:
            while piece := s.recv(1 << 20):
                got += len(piece)
        except ConnectionResetError:
            pass
        self.assertLess(got, LARGE, "the clone went on")
        # a push
        self.call("POST", perms, {"permission": "write"})
        head = pkt(f"{ZERO} {sha} refs/heads/half\0report-status") + b"0000"
        pack, _ = self.make_pack([("blob", os.urandom(1 << 20)) for _ in range(4)])
        s = self.begin(repo, "git-receive-pack", token, len(head) + len(pack), head + pack[:2 << 20])
        objects = os.path.join(self.data_dir, "git/repos", f"{repo}.git/objects")
        wait_for("objects in quarantine", lambda: any(n.startswith("tmp_objdir") for n in os.listdir(objects)), CALL_S)
        self.call("PUT", perms, {"permission": "read"})
        try:
            s.sendall(pack[2 << 20:])
            said = s.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            said = b""
        self.assertNotIn(b" 200 ", said[:20])
        wait_for("the quarantine is gone", lambda: not any(n.startswith("tmp_objdir") for n in os.listdir(objects)), CALL_S)
        self.refused(404, "BRANCH_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/git/refs/heads/half")
