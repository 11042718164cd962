# SPDX-License-Identifier: Apache-2.0
"""git_api_checks.py - contents, commits, search and large files through the API; see git_checks.py"""
import base64
import hashlib
import io
import os
import shutil
import tarfile
import time
import urllib.parse
import zipfile

from git_checks import Refused


class GitApiChecks:
    # ---- contents and objects ----

    def test_contents(self):
        repo = self.new()
        self.refused(404, "REFERENCE_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/contents/")
        w = self.work(repo)
        binary = bytes(range(256)) * 10
        sha = self.save(w, {"README.md": "hi\n", "bin": binary, "a/b/c/deep": "d", "sp ace/\u00fc": "u"})
        self.git("push", "-q", "origin", "HEAD:main", "HEAD:feature/x", cwd=w)
        f = self.api(repo, "GET", "/contents/bin")
        self.assertEqual((f["type"], f["name"], f["path"], f["size"]), ("file", "bin", "bin", len(binary)))
        self.assertEqual(base64.b64decode(f["content"]), binary)
        for path in ("a%2Fb%2Fc%2Fdeep", "a/b/c/deep"):
            self.assertEqual(self.api(repo, "GET", f"/contents/{path}")["path"], "a/b/c/deep")
        self.assertEqual(self.api(repo, "GET", "/contents/sp%20ace%2F%C3%BC")["path"], "sp ace/\u00fc")
        root = self.api(repo, "GET", "/contents/")
        self.assertEqual([(e["type"], e["name"]) for e in root["entries"]],
                         [("file", "README.md"), ("dir", "a"), ("file", "bin"), ("dir", "sp ace")])
        self.assertEqual(root["entries"][1]["entries"], [])
        deep = self.api(repo, "GET", "/contents/?recursive=true")["entries"][1]
        self.assertEqual(deep["entries"][0]["entries"][0]["entries"][0]["path"], "a/b/c/deep")
        for rev in ("main", sha, sha[:8], "feature/x", "refs/heads/main", "HEAD"):
            self.assertEqual(self.api(repo, "GET", f"/contents/README.md?rev={rev}")["size"], 3)
        for rev, code, status in (("none", "REFERENCE_NOT_FOUND", 404), ("-x", "INVALID_REVISION", 400),
                                  ("--output=x", "INVALID_REVISION", 400), ("main^", "INVALID_REVISION", 400),
                                  ("main~1", "INVALID_REVISION", 400), ("a..b", "INVALID_REVISION", 400),
                                  ("main:README.md", "INVALID_REVISION", 400), ("@{u}", "INVALID_REVISION", 400),
                                  ("f" * 40, "COMMIT_NOT_FOUND", 404), ("n" * 4000, "INVALID_REVISION", 400),
                                  ("%ff%fe", "REFERENCE_NOT_FOUND", 404)):
            self.refused(status, code, "GET", f"/git/v1/repo/{repo}/contents/README.md?rev={rev}")
        for path in ("none", "a/none", "README.md/x", "..%2F..%2Fetc", "a%2F..%2Fbin", ".git%2Fconfig"):
            self.refused(404, "PATH_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/contents/{path}")
        tar = self.api(repo, "GET", "/tarball", raw=True)
        with tarfile.open(fileobj=io.BytesIO(tar)) as t:
            self.assertEqual(t.extractfile("bin").read(), binary)
        with zipfile.ZipFile(io.BytesIO(self.api(repo, "GET", "/zip?rev=main", raw=True))) as z:
            self.assertEqual(z.read("bin"), binary)
        self.refused(404, "REFERENCE_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/tarball?rev=none")
        blob = self.api(repo, "GET", f"/git/blobs/{f['sha']}")
        self.assertEqual((base64.b64decode(blob["content"]), blob["encoding"]), (binary, "base64"))
        tree = self.api(repo, "GET", f"/git/trees/{root['sha']}")
        self.assertEqual([(e["type"], e["path"]) for e in tree["tree"]],
                         [("blob", "README.md"), ("tree", "a"), ("blob", "bin"), ("tree", "sp ace")])
        for kind, code in (("blobs", "BLOB_NOT_FOUND"), ("trees", "TREE_NOT_FOUND"), ("commits", "COMMIT_NOT_FOUND")):
            self.refused(404, code, "GET", f"/git/v1/repo/{repo}/git/{kind}/{'a' * 40}")
            self.refused(400, "INVALID_OBJECT_ID", "GET", f"/git/v1/repo/{repo}/git/{kind}/-rf")

    def test_branches(self):
        repo = self.new()
        sha = self.commit(repo, {"a": "1"})["sha"]
        self.assertEqual(self.api(repo, "POST", "/branches", {"name": "feature/new"}), {"name": "feature/new", "sha": sha})
        self.assertEqual(self.api(repo, "POST", "/git/refs/heads/raw/with/slash", {"sha": sha})["name"], "raw/with/slash")
        self.assertEqual(self.api(repo, "POST", "/git/refs/heads/enc%2Foded", {})["name"], "enc/oded")
        self.assertEqual(self.api(repo, "GET", "/git/refs/heads/feature%2Fnew")["sha"], sha)
        self.refused(409, "BRANCH_ALREADY_EXISTS", "POST", f"/git/v1/repo/{repo}/branches", {"name": "main"})
        self.refused(404, "COMMIT_NOT_FOUND", "POST", f"/git/v1/repo/{repo}/branches", {"name": "x", "sha": "b" * 40})
        self.refused(400, "BRANCH_NAME_EMPTY", "POST", f"/git/v1/repo/{repo}/branches", {})
        e = self.refused(400, "GIT_INVALID_REQUEST", "POST", f"/git/v1/repo/{repo}/git/refs/heads/%7B*branch%7D", {})
        self.assertIn("/branches", e["message"])
        for bad in ("-x", "a..b", "a b", "x.lock", "a//b", "/a", "HEAD", "n" * 290, "a\u0001", "feature"):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", f"/git/v1/repo/{repo}/branches", {"name": bad})

    def test_commits(self):
        repo = self.new()
        self.assertEqual(self.api(repo, "GET", "/git/commits")["commits"], [])
        one = self.commit(repo, {"a.txt": "1", "dir/b": "2", "run": "x"}, "one",
                          author={"name": "Ada", "email": "ada@example.org"})
        self.assertEqual((one["author"]["name"], one["parents"]), ("Ada", []))
        v = [{"path": "bin", "content": base64.b64encode(b"\0\xff").decode(), "encoding": "base64"},
             {"path": "dir/b", "deleted": True}, {"path": "a.txt/now/dir", "content": "d"}]
        two = self.api(repo, "POST", "/commits", {"message": "two", "files": v, "expectedSha": one["sha"]})["commit"]
        self.assertEqual(two["parents"], [{"sha": one["sha"]}])
        w = self.work(repo)
        self.assertEqual(sorted(os.listdir(w)), [".git", "a.txt", "bin", "run"])  # dir went with its last file
        self.assertEqual(self.api(repo, "GET", f"/git/commits/{two['sha']}"), two)
        orphan = self.commit(repo, {"alone": "1"}, "orphan", branch="pages")
        self.assertEqual(orphan["parents"], [])
        path = f"/git/v1/repo/{repo}/commits"
        e = self.refused(409, "CONFLICTING_PARENT", "POST", path, {"message": "m", "files": [], "expectedSha": one["sha"]})
        self.assertEqual((e["expected"], e["actual"]), (one["sha"], two["sha"]))
        e = self.refused(409, "CONFLICTING_PARENT", "POST", path,
                         {"message": "m", "files": [], "expectedSha": one["sha"], "branch": "none"})
        self.assertEqual(e["actual"], None)

        def bad(code, files, status=400):
            return self.refused(status, code, "POST", path, {"message": "m", "files": files})

        self.assertEqual(bad("INVALID_FILE_CHANGE", [{"path": "x", "content": "1", "deleted": True}])["path"], "x")
        bad("INVALID_FILE_CHANGE", [{"path": "x"}])
        bad("INVALID_FILE_CHANGE", [{"path": "x", "content": "1"}, {"path": "x", "content": "2"}])
        bad("INVALID_FILE_CHANGE", [{"path": "x", "content": "1"}, {"path": "x/y", "content": "2"}])
        bad("INVALID_FILE_CHANGE", [{"path": "x", "content": "1", "encoding": "rot13"}])
        bad("INVALID_BASE64_CONTENT", [{"path": "x", "content": "not base64!", "encoding": "base64"}])
        bad("PATH_NOT_FOUND", [{"path": "none", "deleted": True}], 404)
        for p in ("../x", "/x", "a/../b", ".git/config", "a/.GIT/x", "", "a//b", "a/", "a\\b", "git~1/x", "x\u0007", ".", "a/./b"):
            bad("INVALID_FILE_PATH", [{"path": p, "content": "1"}])
        self.refused(400, "GIT_INVALID_REQUEST", "POST", path, {"files": []})
        self.refused(400, "GIT_INVALID_REQUEST", "POST", path, {"message": "m", "files": [], "branch": "-x"})
        self.assertEqual(self.api(repo, "GET", "/git/refs/heads/main")["sha"], two["sha"])
        tree = two["tree"]["sha"]
        low = self.api(repo, "POST", "/git/commits", {"message": "low", "tree": tree, "parents": [two["sha"]],
                                                      "author": {"name": "L", "email": "l@e", "date": "2020-01-02T03:04:05Z"}})
        self.assertEqual((low["commit"]["author"]["date"], low["commit"]["tree"]["sha"]), ("2020-01-02T03:04:05Z", tree))
        self.refused(404, "PARENT_NOT_FOUND", "POST", f"/git/v1/repo/{repo}/git/commits",
                     {"message": "x", "tree": tree, "parents": ["c" * 40]})

    def test_log(self):
        repo = self.new()
        shas = [self.commit(repo, {"n": str(i)}, f"c{i}")["sha"] for i in range(6)]
        self.api(repo, "POST", "/branches", {"name": "old", "sha": shas[2]})

        def log(query):
            r = self.api(repo, "GET", f"/git/commits?{query}")
            self.assertEqual(r["count"], len(r["commits"]))
            return [shas.index(c["sha"]) for c in r["commits"]], r

        self.assertEqual(log("")[0], [5, 4, 3, 2, 1, 0])
        self.assertEqual(log("order=asc")[0], [0, 1, 2, 3, 4, 5])
        self.assertEqual(log("branch=old")[0], [2, 1, 0])
        got, r = log("limit=2")
        self.assertEqual((got, r["total"], r["limit"], r["order"], r["next_commit"]), ([5, 4], 6, 2, "desc", shas[3]))
        self.assertEqual(log(f"limit=2&until={r['next_commit']}")[0], [3, 2])
        got, r = log("limit=2&order=asc")
        self.assertEqual((got, r["next_commit"]), ([0, 1], shas[2]))
        self.assertEqual(log(f"limit=2&order=asc&since={r['next_commit']}")[0], [2, 3])
        self.assertEqual(log("limit=2&offset=3")[0], [2, 1])
        self.assertEqual(log(f"since={shas[3]}")[0], [5, 4])
        self.assertEqual(log(f"until={shas[3]}&order=asc")[0], [0, 1, 2, 3])
        got, r = log(f"since={shas[1]}&until={shas[4]}")
        self.assertEqual((got, r["selector"]), ([4, 3, 2], {"Range": {"since": shas[1], "until": shas[4]}}))
        self.assertEqual(log(f"since={shas[1]}&until={shas[4]}&order=asc")[0], [1, 2, 3, 4])
        self.assertIsNone(log("disableTotalCount=true")[1]["total"])
        path = f"/git/v1/repo/{repo}/git/commits"
        self.refused(400, "OFFSET_WITH_SELECTOR", "GET", f"{path}?offset=1&since={shas[0]}")
        self.refused(400, "INVALID_RANGE", "GET", f"{path}?since={shas[4]}&until={shas[1]}")
        self.refused(400, "COMMIT_NOT_IN_BRANCH", "GET", f"{path}?branch=old&since={shas[4]}")
        self.refused(404, "BRANCH_NOT_FOUND", "GET", f"{path}?branch=none")
        self.refused(404, "COMMIT_NOT_FOUND", "GET", f"{path}?since={'d' * 40}")
        self.refused(400, "INVALID_REVISION", "GET", f"{path}?since=-x")

    def test_compare(self):
        repo = self.new()
        base = self.commit(repo, {"a": "1\n2\n3\n", "gone": "x\n", "moved": "line\n" * 20})["sha"]
        self.api(repo, "POST", "/branches", {"name": "f"})
        self.commit(repo, {"a": "1\n2\n4\n5\n", "gone": None, "new": "n\n", "moved": None, "moved2": "line\n" * 20}, branch="f")
        c = self.api(repo, "GET", "/compare?base=main&head=f")
        self.assertEqual((c["status"], c["ahead_by"], c["behind_by"], c["total_commits"]), ("ahead", 1, 0, 1))
        f = {x["filename"]: x for x in c["files"]}
        self.assertEqual((f["a"]["status"], f["a"]["additions"], f["a"]["deletions"], f["a"]["changes"]), ("modified", 2, 1, 3))
        self.assertEqual((f["gone"]["status"], f["new"]["status"]), ("removed", "added"))
        self.assertEqual((f["moved2"]["status"], f["moved2"]["previous_filename"]), ("renamed", "moved"))
        self.assertEqual(self.api(repo, "GET", "/compare?base=f&head=main")["status"], "behind")
        self.assertEqual(self.api(repo, "GET", f"/compare?base=main&head={base}")["status"], "identical")
        self.commit(repo, {"z": "1"})
        self.assertEqual(self.api(repo, "GET", "/compare?base=main&head=f")["status"], "diverged")
        self.refused(404, "REFERENCE_NOT_FOUND", "GET", f"/git/v1/repo/{repo}/compare?base=main&head=none")
        self.refused(400, "GIT_INVALID_REQUEST", "GET", f"/git/v1/repo/{repo}/compare?base=main")

    # ---- search ----

    def test_search(self):
        repo = self.new()
        self.commit(repo, {"src/a.ts": "one\ntodo: first\nthree\n", "src/deep/b.ts": "TODO\nTODOS\n", "src/b.test.ts": "todo\n",
                           "README.md": "nothing\n", "-e": "todo dash\n"}, "add files")
        self.api(repo, "POST", "/commits", {"message": "binary", "files": [
            {"path": "bin", "encoding": "base64", "content": base64.b64encode(b"todo\0bin\n").decode()}]})
        two = self.commit(repo, {"src/a.ts": "one\ntodo: second\nthree\n", "w e/i'rd": "x\n"}, "Fix: the thing\n\nlong body here")

        def search(kind="", **q):
            return self.api(repo, "GET", f"/search{kind}?{urllib.parse.urlencode(q)}")

        r = search(query="todo", contextLines=1)
        self.assertEqual((r["totalFiles"], r["totalMatches"], r["hasMore"]), (4, 5, False))
        m = next(f for f in r["files"] if f["path"] == "src/a.ts")
        self.assertEqual((m["extension"], m["matches"]),
                         ("ts", [{"lineNumber": 2, "line": "todo: second", "startColumn": 0, "endColumn": 4,
                                  "contextBefore": ["one"], "contextAfter": ["three"]}]))
        self.assertEqual(search(query="todo", caseSensitive="true")["totalFiles"], 3)
        self.assertEqual(search(query="todo", wholeWord="true")["totalMatches"], 4)
        self.assertEqual(search(query="todo", pathPattern="src/**/*.ts", excludePattern="**/*.test.ts")["totalFiles"], 2)
        self.assertEqual(search(query="todo", pathPattern="*.ts")["totalFiles"], 3)
        self.assertEqual(search(query="^todo: \\w+$", isRegex="true")["totalMatches"], 1)
        self.assertEqual(search(query="to.o")["totalFiles"], 0)
        self.assertEqual(search(query="first", ref=two["parents"][0]["sha"])["totalFiles"], 1)
        page = search(query="todo", maxResults=1, offset=1)
        self.assertEqual((page["totalFiles"], len(page["files"]), page["hasMore"]), (4, 1, True))
        path = f"/git/v1/repo/{repo}/search"
        self.refused(400, "EMPTY_QUERY", "GET", f"{path}?query=")
        self.assertTrue(self.refused(400, "INVALID_REGEX", "GET", f"{path}?query=(&isRegex=true")["reason"])
        self.refused(400, "FILENAME_EMPTY_QUERY", "GET", f"{path}/files")
        self.refused(400, "FILENAME_INVALID_PATTERN", "GET", f"{path}/files?query=(&isRegex=true")
        self.refused(400, "COMMIT_INVALID_REGEX", "GET", f"{path}/commits?query=(&isRegex=true")
        self.refused(400, "DIFF_INVALID_REGEX", "GET", f"{path}/diffs?query=(&isRegex=true")
        self.refused(400, "COMMIT_EMPTY_QUERY", "GET", f"{path}/commits")
        self.refused(400, "DIFF_EMPTY_QUERY", "GET", f"{path}/diffs")
        self.refused(404, "REFERENCE_NOT_FOUND", "GET", f"{path}?query=x&rev=none")
        for odd in ("--help", "-O", "%", "'", "$(id)", "\\", "\u00e9", "a\\Qb"):
            search(query=odd)
            search("/files", query=odd)
            search("/commits", query=odd)
            search("/diffs", query=odd)
        files = search("/files", query="b.")
        self.assertEqual([f["path"] for f in files["files"]], ["src/b.test.ts", "src/deep/b.ts"])
        self.assertEqual(search("/files", query="**/*.ts")["totalFiles"], 3)
        self.assertEqual(search("/files", query="B.TEST")["totalFiles"], 1)
        self.assertEqual(search("/files", query="^src/[ab]\\.ts$", isRegex="true")["totalFiles"], 1)
        c = search("/commits", query="FIX")
        self.assertEqual((c["totalCommits"], c["commits"][0]["sha"], c["commits"][0]["message"],
                          c["commits"][0]["fullMessage"]), (1, two["sha"], "Fix: the thing", "Fix: the thing\n\nlong body here"))
        self.assertEqual(search("/commits", query="fix", caseSensitive="true")["totalCommits"], 0)
        d = search("/diffs", query="first")
        self.assertEqual(d["totalCommits"], 2)
        self.assertEqual(d["commits"][0]["files"][0]["matches"],
                         [{"line": "todo: first", "lineNumber": 2, "startColumn": 6, "endColumn": 11, "isAddition": False}])
        self.assertEqual(search("/diffs", query="todo", pathPattern="*.test.ts")["totalCommits"], 1)

    def test_search_cannot_run_away(self):
        repo = self.new()
        self.commit(repo, {"evil": "a" * 5000 + "!\n" + "x" * 100000 + "\n"})
        for pattern in ("(a+)+$", "(a|aa)+$", "(.*)*b{3}c", "(x+x+)+y"):
            for kind, code in (("", "INVALID_REGEX"), ("/diffs", "DIFF_INVALID_REGEX"), ("/files", "FILENAME_INVALID_PATTERN")):
                begin = time.monotonic()
                try:
                    self.api(repo, "GET", f"/search{kind}?" + urllib.parse.urlencode({"query": pattern, "isRegex": "true"}))
                except Refused as e:
                    self.assertEqual((e.status, e.code), (400, code), str(e))
                self.assertLess(time.monotonic() - begin, 60)

    # ---- large files ----

    def lfs(self, repo, operation, objects, key=None, **more):
        return self.call("POST", f"/{repo}/info/lfs/objects/batch", {"operation": operation, "objects": objects, **more},
                         key=key, headers={"Content-Type": "application/vnd.git-lfs+json"})

    def test_lfs_api(self):
        repo, other = self.new(), self.new()
        data = os.urandom(300000)
        oid = hashlib.sha256(data).hexdigest()
        o = [{"oid": oid, "size": len(data)}]
        self.assertEqual(self.lfs(repo, "download", o)["objects"][0]["error"]["code"], 404)
        up = self.lfs(repo, "upload", o, transfers=["tus", "basic"])
        self.assertEqual(up["transfer"], "basic")
        a = up["objects"][0]["actions"]["upload"]
        self.assertEqual(urllib.parse.urlparse(a["href"]).port, self.port)
        path = urllib.parse.urlparse(a["href"]).path
        self.refused(400, "INVALID_OBJECT_ID", "PUT", path, data[:-1])
        self.assertEqual(self.call("PUT", path, data, headers=a["header"]), {})
        self.assertNotIn("actions", self.lfs(repo, "upload", o)["objects"][0])
        self.assertEqual(self.call("GET", path, raw=True), data)
        # another repository of the account does not have it, and a reader of it cannot get it there
        self.assertEqual(self.lfs(other, "download", o)["objects"][0]["error"]["code"], 404)
        self.refused(404, "CONTENT_NOT_FOUND", "GET", f"/{other}/info/lfs/objects/{oid}")
        self.refused(400, "INVALID_OBJECT_ID", "GET", f"/{repo}/info/lfs/objects/..%2f..%2fetc")
        e = self.refused(400, "UNSUPPORTED_TRANSFER", "POST", f"/{repo}/info/lfs/objects/batch",
                         {"operation": "upload", "transfers": ["tus"], "objects": o})
        self.assertEqual(e["supported"], ["basic"])
        _, token, _ = self.identity(repo, "read")
        self.lfs(repo, "download", o, key=token)
        self.refused(403, "REPOSITORY_ACCESS_DENIED", "POST", f"/{repo}/info/lfs/objects/batch",
                     {"operation": "upload", "objects": o}, key=token)
        self.refused(403, "REPOSITORY_ACCESS_DENIED", "PUT", path, data, key=token)
        self.refused(404, "REPOSITORY_NOT_FOUND", "GET", path, key=self.stranger())
        # kept once per account, as long as a repository has it
        kept = [os.path.join(d, f) for d, _, names in os.walk(os.path.join(self.data_dir, "git/lfs")) for f in names if f == oid]
        self.assertEqual(len(kept), 1)
        self.call("PUT", f"/{other}/info/lfs/objects/{oid}", data)
        self.api(repo, "DELETE", "")
        self.assertEqual(self.call("GET", f"/{other}/info/lfs/objects/{oid}", raw=True), data)
        self.assertTrue(os.path.exists(kept[0]))
        self.api(other, "DELETE", "")
        self.assertFalse(os.path.exists(kept[0]))

    def test_lfs_client(self):
        self.assertTrue(shutil.which("git-lfs"), "git-lfs is not there: scripts/deps.sh test installs it")
        repo = self.new()
        w = self.work(repo)
        data = os.urandom(200000)
        self.git("lfs", "install", "--local", cwd=w)
        self.git("lfs", "track", "*.bin", cwd=w)
        self.save(w, {"big.bin": data})
        self.git("push", "origin", "HEAD:main", cwd=w)
        self.assertIn("git-lfs", base64.b64decode(self.api(repo, "GET", "/contents/big.bin")["content"]).decode())
        self.git("lfs", "install", "--skip-repo")
        c = self.work(repo)
        with open(os.path.join(c, "big.bin"), "rb") as f:
            self.assertEqual(f.read(), data)
