#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Triggers without machines: webhooks, signatures, repetitions, crashes; usage: test_api_triggers.py SERVE_GIT [TEST...]"""
import base64
import datetime
import hashlib
import http.server
import json
import os
import queue
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import ZERO, GitTools  # noqa: E402
from git_hostile_checks import GitPacks  # noqa: E402
from served import Restarted, listen  # noqa: E402

WAIT_S = 60
DAY_S, WEEK_S = 86400, 7 * 86400
UNIT_S = 10  # PANDO_WEBHOOK_RETRY_S as it is; the server of these tests counts in seconds


class Receiver(http.server.BaseHTTPRequestHandler):
    """An endpoint that answers what it is told to and keeps what it got."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        s = self.server
        with s.lock:
            status = s.answers.pop(0) if s.answers else 200
        s.got.put((self.path, dict(self.headers.items()), body, status))
        if status == "hang":
            s.release.wait(WAIT_S)
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


def b64(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Base(Restarted, GitTools, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.make_top()
        self.hook = listen(self, Receiver, got=queue.Queue(), answers=[], lock=threading.Lock(), release=threading.Event())
        self.addCleanup(self.hook.release.set)
        self.endpoint = f"http://127.0.0.1:{self.hook.server_port}"

    def trigger(self, repo, path="/hook", **when):
        return self.api(repo, "POST", "/trigger", {"trigger": {"event": "push", **when},
                                                   "action": {"action": "webhook", "endpoint": self.endpoint + path}})["triggerId"]

    def next(self):
        return self.hook.got.get(timeout=WAIT_S)

    def deliveries(self, repo, trigger):
        return self.api(repo, "GET", f"/trigger/{trigger}/deliveries")["deliveries"]

    def until(self, what, check):
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            v = check()
            if v:
                return v
            time.sleep(0.05)
        self.fail(f"{what}: not within {WAIT_S} s")

    def settled(self, repo, trigger, state="delivered", n=1):
        """The deliveries in that state, once there are n of them."""
        def found():
            those = [d for d in self.deliveries(repo, trigger) if d["state"] == state]
            return those if len(those) >= n else None
        return self.until(state, found)


class Triggers(GitPacks, Base):
    def test_push_and_commit(self):
        """A push by git and a commit by API are the same event; body and signature are the contract's."""
        repo = self.new(name="t")
        t = self.trigger(repo)
        w = self.work()
        sha = self.save(w, {"a.txt": "1"})
        self.git("push", "-q", self.url(repo), "main", cwd=w)
        path, headers, body, _ = self.next()
        self.assertEqual(path, "/hook")
        self.assertEqual(json.loads(body), {"event": "branchUpdate", "repoId": repo, "branch": "main", "commit": sha})
        self.assertEqual(headers["content-type"] if "content-type" in headers else headers["Content-Type"], "application/json")
        low = {k.lower(): v for k, v in headers.items()}
        head, claims, _ = low["x-freestyle-signature"].split(".")
        head, claims = json.loads(b64(head)), json.loads(b64(claims))
        self.assertEqual(head["alg"], "EdDSA")
        self.assertEqual(claims["body_sha256"], hashlib.sha256(body).hexdigest())
        keys = self.call("GET", "/.well-known/jwks.json", key="")["keys"]
        self.assertEqual([k["kid"] for k in keys], [head["kid"]])
        c = self.commit(repo, {"b.txt": "2"}, branch="main")
        self.assertEqual(json.loads(self.next()[2])["commit"], c["sha"])
        d = self.until("both", lambda: [d for d in self.deliveries(repo, t) if d["state"] == "delivered"][1:])[0]
        self.assertEqual((d["statusCode"], d["attempts"], d["error"]), (200, 1, None))
        one = self.api(repo, "GET", f"/trigger/{t}/deliveries/{d['id']}")
        self.assertEqual(one["id"], d["id"])

    def test_shapes(self):
        repo = self.new()
        t = self.trigger(repo, branches=["main"], globs=["*.js"])
        v = self.api(repo, "GET", "/trigger")["triggers"]
        self.assertEqual(len(v), 1)
        created = v[0].pop("createdAt")
        self.assertRegex(created, r"^\d{4}-\d\d-\d\dT")
        want = {"id": t, "repositoryId": repo, "trigger": {"event": "push", "branches": ["main"], "globs": ["*.js"]},
                "action": {"action": "webhook", "endpoint": self.endpoint + "/hook"}, "managed": False}
        self.assertEqual(v[0], want)
        self.assertEqual(self.api(repo, "GET", f"/trigger/{t}")["id"], t)
        self.assertEqual(self.api(repo, "DELETE", f"/trigger/{t}"), {})
        self.assertEqual(self.api(repo, "GET", "/trigger"), {"triggers": []})
        base = f"/git/v1/repo/{repo}/trigger"
        self.refused(404, "NOT_FOUND", "DELETE", f"{base}/{t}")
        self.refused(404, "NOT_FOUND", "GET", f"{base}/{t}/deliveries")
        good = {"trigger": {"event": "push"}, "action": {"action": "webhook", "endpoint": "https://example.org/"}}
        for trigger, action in (({"event": "pull"}, {}), ({"branches": "main"}, {}), ({"globs": [1]}, {}), ({"globs": [""]}, {}),
                                ({"branches": ["x"] * 65}, {}), ({}, {"endpoint": "file:///etc/passwd"}), ({}, {"endpoint": "nonsense"}),
                                ({}, {"endpoint": None}), ({}, {"action": "dance"}), ({}, {"endpoint": "gopher://x/"})):
            body = {"trigger": {**good["trigger"], **trigger}, "action": {**good["action"], **action}}
            self.refused(400, "GIT_INVALID_REQUEST", "POST", base, body)
        self.refused(400, "GIT_INVALID_REQUEST", "POST", base, {})

    # ---- events besides a push ----

    def on(self, repo, event, path=None, **when):
        return self.api(repo, "POST", "/trigger", {"trigger": {"event": event, **when}, "action": {
            "action": "webhook", "endpoint": self.endpoint + (path or "/" + event)}})["triggerId"]

    def heard(self, n):
        """The next n webhooks: path without the slash -> bodies."""
        out = {}
        for _ in range(n):
            path, _, body, _ = self.next()
            out.setdefault(path[1:], []).append(json.loads(body))
        return out

    def test_branches_and_tags(self):
        """Made, moved and deleted, by git and by API: each trigger hears its own, once."""
        repo = self.new()
        triggers = {e: self.on(repo, e) for e in ("push", "branchCreate", "branchDelete", "tag", "tagDelete")}
        self.on(repo, "tag", "/releases", tags=["v*"])
        self.on(repo, "branchCreate", "/features", branches=["feature/*", "x"])
        w = self.work()
        one = self.save(w, {"a": "1"})
        self.git("push", "-q", self.url(repo), "main", cwd=w)
        first = {"repoId": repo, "branch": "main", "commit": one}
        self.assertEqual(self.heard(2), {"push": [{"event": "branchUpdate", **first}], "branchCreate": [{"event": "branchCreate", **first}]})
        # annotated, light, and of no commit; moved; all in one push
        self.git("tag", "-a", "-m", "one", "v1", cwd=w)
        self.git("tag", "light", cwd=w)
        self.git("tag", "blob", "HEAD:a", cwd=w)
        self.git("push", "-q", self.url(repo), "v1", "light", "blob", cwd=w)
        got = self.heard(4)
        self.assertEqual({b["tag"]: b["commit"] for b in got["tag"]}, {"v1": one, "light": one, "blob": None})
        self.assertEqual(got["releases"], [{"event": "tag", "repoId": repo, "tag": "v1", "commit": one}])
        two = self.save(w, {"a": "2"})
        self.git("tag", "-f", "-a", "-m", "two", "v1", cwd=w)
        self.git("push", "-qf", self.url(repo), "v1", cwd=w)
        self.assertEqual(self.heard(2), {"tag": [{"event": "tag", "repoId": repo, "tag": "v1", "commit": two}],
                                         "releases": [{"event": "tag", "repoId": repo, "tag": "v1", "commit": two}]})
        self.git("push", "-q", self.url(repo), "HEAD:feature/y", ":v1", cwd=w)
        feature = {"repoId": repo, "branch": "feature/y", "commit": two}
        self.assertEqual(self.heard(4), {"push": [{"event": "branchUpdate", **feature}], "branchCreate": [{"event": "branchCreate", **feature}],
                                         "features": [{"event": "branchCreate", **feature}],
                                         "tagDelete": [{"event": "tagDelete", "repoId": repo, "tag": "v1", "commit": two}]})
        self.git("push", "-q", self.url(repo), ":feature/y", cwd=w)
        self.assertEqual(self.heard(1), {"branchDelete": [{"event": "branchDelete", "repoId": repo, "branch": "feature/y", "commit": two}]})
        # the API: a commit moves a branch, one to a new branch makes it
        c = self.commit(repo, {"b": "1"}, branch="main")["sha"]
        self.assertEqual(self.heard(1)["push"][0]["commit"], c)
        self.api(repo, "POST", "/branches", {"name": "x"})
        got = self.heard(3)
        self.assertEqual((sorted(got), got["features"][0]["branch"]), (["branchCreate", "features", "push"], "x"))
        self.assertTrue(self.hook.got.empty())
        # the log
        d = self.settled(repo, triggers["tagDelete"])[0]
        self.assertEqual((d["event"], d["branch"], d["tag"], d["commit"]), ("tagDelete", None, "v1", two))
        d = self.settled(repo, triggers["branchDelete"])[0]
        self.assertEqual((d["event"], d["branch"], d["tag"], d["commit"]), ("branchDelete", "feature/y", None, two))
        self.api(repo, "POST", f"/trigger/{triggers['branchDelete']}/deliveries/{d['id']}/redeliver")
        self.assertEqual(self.heard(1), {"branchDelete": [{"event": "branchDelete", "repoId": repo, "branch": "feature/y", "commit": two}]})

    def test_globs_of_tags(self):
        """Paths of the tag's commit; of one that moved, those that differ."""
        repo = self.new()
        t = self.on(repo, "tag", globs=["docs/**"])
        w = self.work()
        self.save(w, {"a": "1"})
        self.git("tag", "-a", "-m", "x", "v1", cwd=w)
        self.git("push", "-q", self.url(repo), "main", "v1", cwd=w)
        self.save(w, {"docs/x": "1"})
        self.git("tag", "v2", cwd=w)
        self.git("push", "-q", self.url(repo), "v2", cwd=w)
        self.assertEqual(self.heard(1)["tag"][0]["tag"], "v2")
        self.save(w, {"a": "2"})
        self.git("tag", "-f", "v2", cwd=w)
        self.git("push", "-qf", self.url(repo), "v2", cwd=w)
        self.until("both others are dropped", lambda: [d["tag"] for d in self.deliveries(repo, t)] == ["v2"])
        self.assertTrue(self.hook.got.empty())

    def test_kill_with_a_tag(self):
        """A deletion and a tag that were accepted and not told are told after the restart, once."""
        repo = self.new()
        t, gone = self.on(repo, "tag"), self.on(repo, "branchDelete")
        w = self.work()
        sha = self.save(w, {"a": "1"})
        self.git("push", "-q", self.url(repo), "main", "main:side", cwd=w)
        self.git("tag", "-a", "-m", "x", "v1", cwd=w)
        self.hold_hook("")
        p = self.push_held(repo, w, "v1", ":side")
        self.until("both have moved", lambda: self.bare_ref(repo, "refs/tags/v1") and not self.bare_ref(repo, "refs/heads/side"))
        self.crash()
        p.wait(60)
        self.start()
        got = self.heard(2)
        self.assertEqual((got["tag"][0]["commit"], got["branchDelete"][0]["branch"]), (sha, "side"))
        self.settled(repo, t)
        self.settled(repo, gone)
        self.until("no note is left", lambda: not self.notes(repo))
        self.assertTrue(self.hook.got.empty())

    def test_shapes_of_events(self):
        repo = self.new()
        t = self.on(repo, "tag", tags=["v*"])
        self.assertEqual(self.api(repo, "GET", f"/trigger/{t}")["trigger"], {"event": "tag", "tags": ["v*"], "globs": None})
        t = self.on(repo, "branchDelete", branches=["x"])
        self.assertEqual(self.api(repo, "GET", f"/trigger/{t}")["trigger"], {"event": "branchDelete", "branches": ["x"], "globs": None})
        for when in ({"event": "tag", "branches": ["x"]}, {"event": "push", "tags": ["x"]}, {"event": "tagDelete", "globs": ["x"]},
                     {"event": "branchDelete", "globs": ["x"]}, {"event": "tagCreate"}, {"event": "tag", "tags": [1]}):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", f"/git/v1/repo/{repo}/trigger",
                         {"trigger": when, "action": {"action": "webhook", "endpoint": self.endpoint}})

    def test_strangers(self):
        """Another account, and an identity with a grant, see and change nothing."""
        repo = self.new()
        t = self.trigger(repo)
        other = self.stranger()
        _, token, _ = self.identity(repo, "write")
        base = f"/git/v1/repo/{repo}/trigger"
        for path, method in (("", "GET"), (f"/{t}", "GET"), (f"/{t}", "DELETE"), (f"/{t}/deliveries", "GET")):
            self.refused(404, "REPOSITORY_NOT_FOUND", method, base + path, key=other)
            with self.assertRaises(Exception) as e:
                self.call(method, base + path, key="", headers={"X-Freestyle-Identity-Access-Token": token})
            self.assertIn(e.exception.status, (401, 403))
        self.refused(404, "REPOSITORY_NOT_FOUND", "POST", base, {"trigger": {"event": "push"}, "action": {
            "action": "webhook", "endpoint": "https://example.org/"}}, key=other)
        mine = self.call("POST", "/git/v1/repo", {}, key=other)["repoId"]
        self.refused(404, "NOT_FOUND", "GET", f"/git/v1/repo/{mine}/trigger/{t}", key=other)
        with self.assertRaises(Exception) as e:
            self.call("POST", "/git/v1/signing-keys", key=other)
        self.assertEqual(e.exception.status, 403)

    def test_filters(self):
        repo = self.new()
        only = self.trigger(repo, "/branch", branches=["main", "release/*"])
        js = self.trigger(repo, "/js", globs=["*.js", "src/**"])
        self.commit(repo, {"a.txt": "1"}, branch="main")
        self.assertEqual(self.next()[0], "/branch")
        self.commit(repo, {"deep/a.js": "1"}, branch="other")
        self.assertEqual(self.next()[0], "/js")
        self.commit(repo, {"b.txt": "1"}, branch="release/1.0")
        self.assertEqual(self.next()[0], "/branch")
        self.commit(repo, {"src/x/y": "1"}, branch="main")
        self.assertEqual({self.next()[0], self.next()[0]}, {"/js", "/branch"})
        w = self.work(repo)
        self.git("tag", "v1", cwd=w)
        self.git("push", "-q", "origin", "v1", cwd=w)
        self.git("push", "-q", "origin", ":other", cwd=w)
        self.commit(repo, {"c.txt": "1"}, branch="main")
        self.assertEqual(self.next()[0], "/branch")  # neither the tag nor the branch that went
        self.until("none waits", lambda: all(d["state"] == "delivered" for t in (only, js) for d in self.deliveries(repo, t)))
        self.assertEqual(len(self.deliveries(repo, only)), 4)
        self.assertEqual(len(self.deliveries(repo, js)), 2)
        self.assertTrue(self.hook.got.empty())

    def test_repetition_and_redelivery(self):
        repo = self.new()
        t = self.trigger(repo)
        self.hook.answers = [500, 302]
        self.commit(repo, {"a": "1"})
        self.assertEqual([self.next()[3] for _ in range(3)], [500, 302, 200])
        d = self.settled(repo, t)[0]
        self.assertEqual((d["attempts"], d["statusCode"]), (3, 200))
        self.api(repo, "POST", f"/trigger/{t}/deliveries/{d['id']}/redeliver")
        _, _, body, _ = self.next()
        self.assertEqual(json.loads(body)["commit"], d["commit"])
        self.until("again", lambda: self.deliveries(repo, t)[0]["attempts"] == 1 and self.deliveries(repo, t)[0]["state"] == "delivered")

    def sql(self, text, *args):
        """What the server would have written at another time."""
        db = sqlite3.connect(os.path.join(self.data_dir, "pando.db"), timeout=WAIT_S)
        try:
            with db:
                return db.execute(text, args).fetchall()
        finally:
            db.close()

    def test_repetitions_over_a_day(self):
        """An endpoint that never accepts it: each wait is read from the log and then ended by changing the store."""
        repo, other = self.new(), self.new()
        t = self.trigger(repo)
        self.trigger(other, "/wake")
        self.hook.answers = [500] * 1000
        self.commit(repo, {"a": "1"})
        waits, attempts = [], 0
        while True:
            attempts += 1
            d = self.until(f"attempt {attempts}", lambda: [d for d in self.deliveries(repo, t) if d["attempts"] >= attempts and d["state"] in ("pending", "failed")])[0]
            if d["state"] == "failed":
                break
            attempts = d["attempts"]  # short waits may have passed by themselves
            at = [datetime.datetime.fromisoformat(d[k]) for k in ("updatedAt", "nextAttemptAt")]
            waits.append((at[1] - at[0]).total_seconds())
            self.sql("UPDATE git_deliveries SET next_ms = 0 WHERE id = ?", d["id"])
            self.commit(other, {"a": str(attempts)})  # workers look into the store again
        self.assertEqual((d["attempts"], d["statusCode"], d["nextAttemptAt"]), (11, 500, None))
        self.assertGreaterEqual(max(waits), 2000, waits)
        self.assertGreaterEqual(sum(waits) * UNIT_S, DAY_S - 20 * UNIT_S, waits)
        self.assertLess(sum(waits) * UNIT_S, DAY_S * 1.1, waits)
        self.assertEqual(sorted(round(w) for w in waits), [round(w) for w in waits])
        self.hook.answers = []
        self.api(repo, "POST", f"/trigger/{t}/deliveries/{d['id']}/redeliver")
        self.assertEqual(self.settled(repo, t)[0]["statusCode"], 200)

    def test_odd_names(self):
        """A name that is not UTF-8 is reported as well as possible; one with line breaks cannot fake a push."""
        repo = self.new()
        t = self.trigger(repo)
        keep = self.commit(repo, {"a": "1"}, branch="main")["sha"]
        self.next()
        pack, sha = self.tree_pack([("100644", b"file", b"x")])
        lines = f"refs/heads/x\ndone\n{keep} {sha} refs/heads/main"
        self.assertIn(b"ng ", self.push_raw(repo, lines, sha, pack))
        self.assertIn(b"ok ", self.push_raw(repo, b"refs/heads/\x80bad", sha, pack))
        want = {"event": "branchUpdate", "repoId": repo, "branch": "\ufffdbad", "commit": sha}
        self.assertEqual(json.loads(self.next()[2]), want)
        self.assertEqual(sorted(d["branch"] for d in self.settled(repo, t, n=2)), ["main", "\ufffdbad"])
        self.assertIn(b"ok ", self.push_raw(repo, b"refs/heads/\x80bad", ZERO, b"", old=sha))

    def test_kill_during_delivery(self):
        """What was not answered when the server was killed is delivered by the next one."""
        repo = self.new()
        t = self.trigger(repo)
        self.hook.answers = ["hang"]
        c = self.commit(repo, {"a": "1"})
        self.next()
        self.crash()
        self.hook.release.set()
        self.start()
        self.assertEqual(json.loads(self.next()[2])["commit"], c["sha"])
        d = self.settled(repo, t)[0]
        self.assertEqual(d["attempts"], 2)
        self.assertEqual(len(self.deliveries(repo, t)), 1)

    def test_tree_bomb(self):
        """A push of more paths than anybody can look at concerns every trigger."""
        repo = self.new()
        t = self.trigger(repo, globs=["never/**"])
        for name, leaf in (("files", b"x"), ("empty", None)):
            pack, sha = self.bomb(leaf)
            self.assertIn(b"ok ", self.push_raw(repo, f"refs/heads/{name}", sha, pack))
            self.assertEqual(json.loads(self.next()[2])["commit"], sha)
        self.settled(repo, t, n=2)
        self.commit(repo, {"other": "1"}, branch="files")  # the same trees: what changed is known
        self.commit(repo, {"never/1": "1"}, branch="files")
        self.assertEqual(json.loads(self.next()[2])["branch"], "files")
        self.until("the other one is dropped", lambda: len(self.deliveries(repo, t)) == 3)

    def test_kill_while_paths_are_looked_at(self):
        """Whatever a push does to the server, it can do it three times."""
        repo = self.new()
        t = self.trigger(repo, globs=["a"])
        self.hook.answers = [500] * 20
        self.commit(repo, {"a": "1"})
        self.next()
        self.stop()
        config = os.path.join(self.data_dir, "git/repos", f"{repo}.git/config")
        os.rename(config, config + ".kept")
        os.mkfifo(config)  # whoever opens the repository waits
        self.sql("UPDATE git_deliveries SET state = 'pending', judged = 0, attempts = 0, next_ms = 0")
        for i in range(3):
            self.start()
            self.until("it is counted before it is looked at", lambda i=i: self.sql("SELECT judged, state FROM git_deliveries") == [(i + 1, "active")])
            self.crash()
        self.start()
        d = self.settled(repo, t, "failed")[0]
        self.assertIn("3 times", d["error"] if "error" in d else json.dumps(d))
        os.unlink(config)
        os.rename(config + ".kept", config)
        # it can be asked for
        self.hook.answers = []
        while not self.hook.got.empty():
            self.hook.got.get()
        self.api(repo, "POST", f"/trigger/{t}/deliveries/{d['id']}/redeliver")
        self.next()
        self.settled(repo, t)

    # ---- a push that Git accepted, and a server that dies before it is published ----

    def hold_hook(self, script):
        """The post-receive hook stops there, in its jail; the push stays in that window for as long as we like."""
        with open(os.path.join(self.data_dir, "git/jail/hooks/post-receive"), "w") as f:
            f.write(f"#!/bin/sh\n{script}\nsleep 100\n")

    def notes(self, repo):
        busy = os.path.join(self.data_dir, "git/busy")
        return [os.path.join(busy, n) for n in os.listdir(busy) if n.startswith(repo) and ".ph-" in n]

    def said_done(self, repo, sha):
        for path in self.notes(repo):
            with open(path) as f:
                if sha in f.read().partition("\ndone\n")[2]:
                    return True
        return False

    def push_held(self, repo, w, *refs):
        env = {"PATH": os.environ["PATH"], "HOME": self.top, "GIT_TERMINAL_PROMPT": "0"}
        p = subprocess.Popen(["git", "push", "-q", self.url(repo), *refs], cwd=w, env=env, stderr=subprocess.DEVNULL)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def bare_ref(self, repo, ref):
        bare = os.path.join(self.data_dir, "git/repos", f"{repo}.git")
        return self.git("-c", "safe.directory=*", "--git-dir", bare, "rev-parse", "-q", "--verify", ref, ok=None).strip()

    def heard_once(self, repo, t, sha):
        self.assertEqual(json.loads(self.next()[2])["commit"], sha)
        self.settled(repo, t)
        self.until("no note is left", lambda: not self.notes(repo))
        self.stop()
        self.start()  # nothing is told again
        self.assertEqual([d["commit"] for d in self.deliveries(repo, t)], [sha])
        self.assertTrue(self.hook.got.empty())

    def test_kill_between_acceptance_and_event(self):
        for script, what in (("", "the hook has said nothing"), ("echo done >&3; cat >&3", "the hook has said it, the server did not read it")):
            with self.subTest(what):
                repo = self.new()
                t = self.trigger(repo)
                w = self.work()
                sha = self.save(w, {"a": what})
                self.hold_hook(script)
                p = self.push_held(repo, w, "main")
                self.until("the branch has moved", lambda: self.bare_ref(repo, "refs/heads/main") == sha)
                if script:
                    self.until("the hook wrote", lambda: self.said_done(repo, sha))
                self.crash()
                p.wait(60)
                self.start()
                self.heard_once(repo, t, sha)

    def test_a_note_that_was_told_is_not_told_again(self):
        """The server dies after deliveries were written down and before the note went."""
        repo = self.new()
        t = self.trigger(repo)
        w = self.work()
        sha = self.save(w, {"a": "1"})
        self.hold_hook("echo done >&3; cat >&3; sleep 2; exit 0")
        p = self.push_held(repo, w, "main")
        self.until("the hook wrote", lambda: self.said_done(repo, sha))
        (note,) = self.notes(repo)
        shutil.copy(note, os.path.join(self.top, "note"))
        p.wait(60)
        self.settled(repo, t)
        self.crash()
        shutil.copy(os.path.join(self.top, "note"), note)
        self.start()
        self.heard_once(repo, t, sha)

    def test_notes_of_pushes_that_never_were(self):
        """Killed before any reference moved, or with a forged note: only real changes are published."""
        repo = self.new()
        t = self.trigger(repo)
        one = self.commit(repo, {"a": "1"}, branch="main")["sha"]
        two = self.commit(repo, {"a": "2"}, branch="main")["sha"]
        self.until("both", lambda: len([d for d in self.deliveries(repo, t) if d["state"] == "delivered"]) == 2)
        while not self.hook.got.empty():
            self.hook.got.get()
        self.crash()
        busy = os.path.join(self.data_dir, "git/busy")
        zero = "0" * 40
        for i, lines in enumerate(([f"{two} {one} refs/heads/main"], [f"{zero} {one} refs/heads/never"], [f"{one} {zero} refs/heads/main"],
                                   ["junk", "\0" * 100, f"{two} {'f' * 40} refs/heads/main"], [])):
            with open(os.path.join(busy, f"{repo}.ph-{i:020d}"), "w") as f:
                f.write("\n".join(["by ak-x", *lines, ""]))
        with open(os.path.join(busy, f"00000000-0000-4000-8000-000000000000.ph-{9:020d}"), "w") as f:
            f.write(f"by x\n{one} {two} refs/heads/main\n")
        self.start()
        self.until("all are gone", lambda: not os.listdir(busy))
        self.assertEqual(len(self.deliveries(repo, t)), 2)

    def test_slow_endpoints_hold_up_nobody(self):
        repo = self.new()
        self.trigger(repo, "/slow")
        self.hook.answers = ["hang"] * 2
        for i in range(4):
            self.commit(repo, {"a": str(i)})
        for _ in range(2):
            self.assertEqual(self.next()[3], "hang")
        other = self.stranger()
        mine = self.call("POST", "/git/v1/repo", {}, key=other)["repoId"]
        self.call("POST", f"/git/v1/repo/{mine}/trigger", {"trigger": {"event": "push"}, "action": {
            "action": "webhook", "endpoint": self.endpoint + "/other"}}, key=other)
        self.call("POST", f"/git/v1/repo/{mine}/commits", {"message": "m", "files": [{"path": "a", "content": "1"}]}, key=other)
        self.assertEqual(self.next()[0], "/other")
        self.call("DELETE", f"/git/v1/repo/{mine}", key=other)
        self.hook.release.set()

    def test_rotation(self):
        repo = self.new()
        self.trigger(repo)
        old = self.call("GET", "/.well-known/jwks.json", key="")["keys"]
        kid = self.call("POST", "/git/v1/signing-keys")["kid"]
        keys = self.call("GET", "/.well-known/jwks.json", key="")["keys"]
        self.assertEqual({k["kid"] for k in keys}, {old[0]["kid"], kid})
        self.assertTrue(all(set(k) == {"kty", "crv", "x", "kid", "alg", "use"} for k in keys))
        self.commit(repo, {"a": "1"})
        low = {k.lower(): v for k, v in self.next()[1].items()}
        self.assertEqual(json.loads(b64(low["x-freestyle-signature"].split(".")[0]))["kid"], kid)
        self.stop()
        self.start()
        self.assertEqual(self.call("GET", "/.well-known/jwks.json", key="")["keys"], keys)
        # a week later
        for age_s, want in ((WEEK_S - 60, {old[0]["kid"], kid}), (WEEK_S + 60, {kid})):
            self.sql("UPDATE git_signing_keys SET retired_ms = ? WHERE retired_ms > 0", int((time.time() - age_s) * 1000))
            self.assertEqual({k["kid"] for k in self.call("GET", "/.well-known/jwks.json", key="")["keys"]}, want)
        self.sql("UPDATE git_signing_keys SET created_ms = 1")  # the one that signs stays, however old
        self.assertEqual([k["kid"] for k in self.call("GET", "/.well-known/jwks.json", key="")["keys"]], [kid])

    def test_delete_with_the_repository(self):
        repo = self.new()
        self.trigger(repo)
        self.hook.answers = [500] * 20
        self.commit(repo, {"a": "1"})
        self.next()
        self.api(repo, "DELETE", "")
        self.stop()
        out = subprocess.run(["sqlite3", os.path.join(self.data_dir, "pando.db"),
                              "SELECT (SELECT COUNT(*) FROM git_triggers) + (SELECT COUNT(*) FROM git_deliveries)"],
                             capture_output=True, text=True, timeout=30, check=True)
        self.assertEqual(out.stdout.strip(), "0")
        self.start()


class Guarded(Base):
    """A server that does not send to internal addresses."""
    env = {"FX_NO_PRIVATE": "1"}

    def test_internal_addresses(self):
        repo = self.new()
        base = f"/git/v1/repo/{repo}/trigger"
        for host in ("127.0.0.1", "localhost", "[::1]", "10.1.2.3", "192.168.0.1", "169.254.169.254", "0x7f.1", "2130706433",
                     "[::ffff:127.0.0.1]", "[fe80::1]", "0.0.0.0"):
            body = {"trigger": {"event": "push"}, "action": {"action": "webhook", "endpoint": f"http://{host}:{self.hook.server_port}/"}}
            self.refused(400, "GIT_INVALID_REQUEST", "POST", base, body)
        # a name that leads to an internal address is found out when it is connected to
        t = self.api(repo, "POST", "/trigger", {"trigger": {"event": "push"}, "action": {
            "action": "webhook", "endpoint": f"http://hook.localhost:{self.hook.server_port}/"}})["triggerId"]
        self.commit(repo, {"a": "1"})
        d = self.until("an attempt", lambda: [d for d in self.deliveries(repo, t) if d["error"]])[0]
        self.assertEqual((d["statusCode"], d["state"]), (None, "pending"), d)
        self.assertIn("internal address", d["error"])
        self.assertTrue(self.hook.got.empty())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
