#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""GitHub Apps with many installations against a small GitHub; usage: test_api_github.py SERVE_GIT [TEST...]"""
import html
import http.client
import json
import os
import queue
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import unittest
import urllib.parse
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_api_triggers import Base, Receiver  # noqa: E402
from github_server import Browser, GitHub  # noqa: E402
from git_checks import Refused  # noqa: E402
from served import listen  # noqa: E402

HUB = "/git/v1/github"


class Github(Base):
    """One server and one GitHub for all tests; each test has an account of its own."""
    n = 0

    @classmethod
    def setUpClass(cls):
        cls.hub = GitHub()
        cls.addClassCleanup(cls.hub.close)
        cls.data_dir = tempfile.mkdtemp(prefix="pando-served-")
        cls.addClassCleanup(shutil.rmtree, cls.data_dir, ignore_errors=True)
        cls.env = {"FX_GITHUB": cls.hub.url, "FX_HOOK_BURST": "1"}
        cls.running = None

    @classmethod
    def tearDownClass(cls):
        if cls.running:
            cls.running.stdin.close()
            code = cls.running.wait(60)
            cls.running.stdout.close()
            assert code == 0, f"the server ended with {code}"

    def start(self):
        cls = type(self)
        if not cls.running or cls.running.poll() is not None:
            super().start()
            cls.running, cls.served = self.proc, (self.port, self.key)
        self.proc = cls.running
        self.port, self.operator = cls.served
        self.key = getattr(self, "own_key", None) or self.operator

    def setUp(self):
        hub = self.hub
        hub.skew, hub.life, hub.user, hub.choice = 0, 3600, "octocat", ("octocat", "User", [])
        for v in (hub.log, hub.refusals, hub.made, hub.used, hub.access):
            v.clear()
        shutil.rmtree(hub.root)
        os.mkdir(hub.root)
        signal.signal(signal.SIGALRM, lambda *_: self.fail(f"not done after {self.limit_s} s"))
        signal.alarm(self.limit_s)
        self.addCleanup(signal.alarm, 0)
        self.own_key = None
        self.start()
        self.make_top()
        self.hook = listen(self, Receiver, got=queue.Queue(), answers=[], lock=threading.Lock(), release=threading.Event())
        self.endpoint = f"http://127.0.0.1:{self.hook.server_port}"
        self.own_key = self.key = self.account()

    def account(self):
        type(self).n += 1
        a = self.call("POST", "/v1/accounts", {"name": f"account-{self.n}"}, key=self.operator)["id"]
        return self.call("POST", f"/v1/keys?accountId={a}", {"name": "k"}, key=self.operator)["key"]

    # ---- tools ----

    def base(self):
        return f"http://127.0.0.1:{self.port}"

    def make_app(self, key=None, **more):
        """The manifest flow, as a browser goes through it: the App here, and GitHub's."""
        link = self.call("POST", f"{HUB}/apps/manifest", more, key=key)["url"]
        b = Browser()
        page = b.go(link)
        action, manifest = re.search(r'action="([^"]+)"><input type="hidden" name="manifest" value="([^"]+)"', page).groups()
        page = b.go(html.unescape(action), form={"manifest": html.unescape(manifest)})
        self.assertEqual(b.status, 200, page)
        app = [a for a in self.call("GET", f"{HUB}/apps", key=key)["apps"] if a["own"]][-1]
        return app, self.hub.apps[app["appId"]]

    def install(self, app, key=None, choice=None, user="octocat", browser=None):
        """By a link; the page that the browser ends on."""
        self.hub.user = user
        if choice:
            self.hub.choice = choice
        link = self.call("POST", f"{HUB}/apps/{app['id']}/install", {}, key=key)["url"]
        b = browser or Browser()
        page = b.go(link)
        return b, b.go(html.unescape(re.search(r'href="([^"]+)"', page).group(1)))

    def installations(self, key=None):
        return self.call("GET", f"{HUB}/installations", key=key)["installations"]

    def reach(self, i, key=None):
        return self.call("GET", f"{HUB}/installations/{i['id']}/repositories", key=key)["repositories"]

    def one(self, key=None, check=lambda i: i["checkedAt"]):
        """The only installation, once it was looked at."""
        return self.until("an installation", lambda: [i for i in self.installations(key) if check(i)] or None)[0]

    def connected(self, *repos, key=None):
        """An App, an installation for these repositories: the App here, there, the installation there."""
        for r in repos:
            self.hub.repo(r)
        app, there = self.make_app(key)
        b, page = self.install(app, key, ("octocat", "User", list(repos)))
        self.assertIn("Connected", page)
        self.one(key)
        return app, there, self.hub.installations[int(self.installations(key)[-1]["installationId"])]

    def mirror(self, name, key=None, **more):
        repo = self.call("POST", "/git/v1/repo", {}, key=key)["repoId"]
        self.addCleanup(self.call, "DELETE", f"/git/v1/repo/{repo}", key=key)
        self.call("POST", f"/git/v1/repo/{repo}/github-sync", {"githubRepoName": name, **more}, key=key)
        return repo

    def status(self, repo, key=None):
        return self.call("GET", f"/git/v1/repo/{repo}/github-sync", key=key)

    def state(self, repo, state, key=None):
        return self.until(state, lambda: (lambda s: s if s["state"] == state else None)(self.status(repo, key)))

    def again(self, repo, state, key=None):
        before = self.status(repo, key)["lastSyncAt"]
        self.call("POST", f"/git/v1/repo/{repo}/github-sync/run", key=key)
        return self.until(state, lambda: (lambda s: s if s["state"] == state and (state != "synced" or s["lastSyncAt"] != before) else None)(
            self.status(repo, key)))

    def head(self, repo, branch="main", key=None):
        try:
            return self.call("GET", f"/git/v1/repo/{repo}/git/refs/heads/{branch}", key=key)["sha"]
        except Refused:
            return None

    def push_there(self, name, files, *refs):
        """Somebody pushes to GitHub: the commit."""
        far = tempfile.mkdtemp(dir=self.top)
        self.git("clone", "-q", os.path.join(self.hub.root, f"{name}.git"), far)
        sha = self.save(far, files)
        self.git("push", "-q", "origin", *(refs or ["HEAD:main"]), cwd=far)
        return sha

    # ---- tests ----

    def test_manifest_and_install(self):
        link = self.call("POST", f"{HUB}/apps/manifest", {"name": "my-app", "organization": "acme", "baseUrl": self.base()})
        self.assertTrue(link["url"].startswith(self.base() + HUB + "/start?link="))
        b = Browser()
        page = b.go(link["url"])
        self.assertEqual(b.headers["Content-Security-Policy"],
                         f"default-src 'none'; base-uri 'none'; form-action {self.hub.url}; frame-ancestors 'none'")
        self.assertEqual((b.headers["Referrer-Policy"], b.headers["Cache-Control"]), ("no-referrer", "no-store"))
        action, text = (html.unescape(v) for v in re.search(r'action="([^"]+)"><input type="hidden" name="manifest" value="([^"]+)"', page).groups())
        state = link["url"].rpartition("=")[2]
        self.assertEqual(action, f"{self.hub.url}/organizations/acme/settings/apps/new?state={state}")
        manifest = json.loads(text)
        hook = manifest.pop("hook_attributes")
        self.assertRegex(hook["url"], re.escape(self.base() + HUB) + r"/webhook/gha-[a-z0-9]{20}$")
        self.assertEqual(manifest, {
            "name": "my-app", "url": self.base(), "redirect_url": f"{self.base()}{HUB}/created", "public": True,
            "default_events": ["push", "create", "delete"], "default_permissions": {"contents": "write", "metadata": "read", "workflows": "write"},
            "setup_url": f"{self.base()}{HUB}/installed", "setup_on_update": True})
        self.assertRegex(b.headers["Set-Cookie"], "^pando_github=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Lax$")
        c = self.raw(f"{HUB}/start?link={link['url'].rpartition('=')[2]}", {"X-Forwarded-Proto": "https"})
        self.assertRegex(c["Set-Cookie"], "^__Host-pando_github=[0-9a-f]{64}; Path=/; HttpOnly; SameSite=Lax; Secure$")
        b.go(link["url"])  # whoever opened it last can go on with it
        # somebody who only saw the address cannot
        stolen = Browser()
        stolen.go(f"{self.base()}{HUB}/created?code=abc&state={state}")
        self.assertEqual(stolen.status, 404)
        page = b.go(action, form={"manifest": text})
        self.assertEqual(b.status, 200, page)
        self.assertIn("my-app", page)
        made = b.url
        b.go(made)
        self.assertEqual(b.status, 404)  # used up
        (app,) = [a for a in self.call("GET", f"{HUB}/apps")["apps"] if a["own"]]
        there = self.hub.apps[app["appId"]]
        self.assertEqual((app["name"], app["own"], app["shared"], app["webhookSigned"], app["url"], self.base() + app["webhookPath"]),
                         ("my-app", True, False, True, f"{self.hub.url}/apps/my-app", there.manifest["hook_attributes"]["url"]))
        # to the installation, from that page
        self.hub.repo("octocat/one")
        self.hub.choice = ("octocat", "User", ["octocat/one"])
        page = b.go(urllib.parse.urljoin(self.base(), html.unescape(re.search(r'href="([^"]+)"', page).group(1))))
        self.assertIn("belong to the account", page)
        page = b.go(html.unescape(re.search(r'href="([^"]+)"', page).group(1)))
        self.assertIn("Connected", page)
        back = b.url
        i = self.one()
        self.assertEqual((i["login"], i["kind"], i["repositorySelection"], i["suspended"], i["error"], i["appId"]),
                         ("octocat", "User", "selected", False, None, app["id"]))
        self.assertEqual(self.reach(i), ["octocat/one"])
        b.go(back)
        self.assertEqual(b.status, 404)
        # what must not be seen
        seen = json.dumps([self.call("GET", f"{HUB}/apps"), self.installations()])
        self.stop()
        with open(os.path.join(self.data_dir, "pando.db"), "rb") as f:
            kept = f.read()
        for secret in (there.pem[40:90], there.client_secret, there.webhook_secret):
            self.assertNotIn(secret, seen)
            self.assertNotIn(secret.encode(), kept)
        self.start()
        self.assertEqual(self.reach(self.one()), ["octocat/one"])

    def test_push_there_is_here_in_seconds(self):
        """Polling is an hour away: only the webhook can have done it; a trigger runs then."""
        app, there, inst = self.connected("octocat/one", "octocat/two")
        sha = self.push_there("octocat/one", {"a": "1"})
        repo, other = self.mirror("octocat/one"), self.mirror("octocat/two", installationId=inst.id)
        s = self.state(repo, "synced")
        self.state(other, "synced")
        self.assertEqual((s["installationId"], self.head(repo)), (str(inst.id), sha))
        t = self.trigger(repo, branches=["main"])
        # a token opens its repository only, and is used until it is over
        self.assertEqual(sorted(n for _, n in self.hub.made if n), [["one"], ["two"]])
        self.again(repo, "synced")
        self.assertEqual(len([1 for _, n in self.hub.made if n]), 2)
        sha = self.push_there("octocat/one", {"b": "2"})
        synced = self.status(other)["lastSyncAt"]
        self.assertEqual(self.hub.deliver(there, "push", self.hub.push_payload(inst, "octocat/one", after=sha)), (200, {}))
        self.assertEqual(json.loads(self.next()[2])["commit"], sha)
        self.assertEqual(self.head(repo), sha)
        self.settled(repo, t)
        self.assertEqual(self.status(other)["lastSyncAt"], synced)
        # create and delete, however the name is written
        self.push_there("octocat/one", {"c": "3"}, "HEAD:refs/heads/side")
        payload = {"ref": "side", "ref_type": "branch", "master_branch": "main", "description": None, "pusher_type": "user",
                   "repository": {**self.hub.repo_shape("octocat/one"), "full_name": "Octocat/One"}, "sender": self.hub.sender(),
                   "installation": {"id": inst.id, "node_id": "x"}}
        self.assertEqual(self.hub.deliver(there, "create", payload)[0], 200)
        self.until("the branch", lambda: self.head(repo, "side"))
        self.git("--git-dir", os.path.join(self.hub.root, "octocat/one.git"), "update-ref", "-d", "refs/heads/side")
        self.assertEqual(self.hub.deliver(there, "delete", payload)[0], 200)
        self.until("it is gone", lambda: not self.head(repo, "side"))
        self.assertTrue(self.call("GET", f"{HUB}/apps")["apps"][0]["lastWebhookAt"])
        # from here to there
        c = self.commit(repo, {"d": "4"}, branch="main")["sha"]
        self.until("it is there", lambda: c in self.git("--git-dir", os.path.join(self.hub.root, "octocat/one.git"), "rev-parse", "main"))
        self.assertEqual(self.hub.refusals, [])

    def test_tokens_end(self):
        self.hub.life = 30  # less than what we still use: a new one for every round
        app, there, inst = self.connected("octocat/one")
        repo = self.mirror("octocat/one")
        self.state(repo, "synced")
        n = len(self.hub.made)
        self.again(repo, "synced")
        self.assertGreater(len(self.hub.made), n)
        self.hub.life = 3600
        self.again(repo, "synced")
        n = len(self.hub.made)
        self.again(repo, "synced")
        self.assertEqual(len(self.hub.made), n)
        # revoked there: one round fails, the next asks again
        self.hub.tokens.clear()
        self.again(repo, "failed")
        self.again(repo, "synced")
        self.assertEqual(len(self.hub.made), n + 1)

    def test_clocks_differ(self):
        app, there, inst = self.connected("octocat/one")
        repo = self.mirror("octocat/one")
        self.state(repo, "synced")
        for skew in (-900, 900):
            self.hub.skew = skew
            self.hub.tokens.clear()
            self.again(repo, "failed")  # the kept token is over
            self.assertEqual(self.hub.refusals, ["git: no token"] * len(self.hub.refusals))
            self.hub.refusals.clear()
            self.again(repo, "synced")
            self.assertEqual(len(self.hub.refusals), 1)  # the first JWT; the second has the server's time
            self.assertIn("claim", self.hub.refusals.pop())

    def test_suspended_and_removed(self):
        app, there, inst = self.connected("octocat/one", "octocat/two")
        repo = self.mirror("octocat/one")
        self.state(repo, "synced")
        inst.suspended = True
        suspend = self.hub.installation_payload(inst, "suspend"), str(uuid.uuid4())
        self.assertEqual(self.hub.deliver(there, "installation", suspend[0], delivery=suspend[1]), (200, {}))
        self.one(check=lambda i: i["suspended"])
        self.assertIn("suspended", self.again(repo, "failed")["error"])
        inst.suspended = False
        self.assertEqual(self.hub.deliver(there, "installation", self.hub.installation_payload(inst, "unsuspend"))[0], 200)
        self.one(check=lambda i: not i["suspended"])
        self.again(repo, "synced")
        # an old webhook, and a signed lie: what GitHub says counts
        asked = len(self.hub.log)
        self.assertEqual(self.hub.deliver(there, "installation", suspend[0], delivery=suspend[1]), (200, {}))
        lie = self.hub.installation_payload(inst, "deleted")
        before = self.one()["checkedAt"]
        self.assertEqual(self.hub.deliver(there, "installation", lie)[0], 200)
        i = self.one(check=lambda i: i["checkedAt"] != before)
        self.assertFalse(i["suspended"])
        self.assertEqual([p for _, p in self.hub.log[asked:] if p.endswith(f"/app/installations/{inst.id}")], [f"/api/v3/app/installations/{inst.id}"])
        # a repository less, one more
        self.hub.repo("octocat/three")
        inst.repos[:] = ["octocat/one", "octocat/three"]
        added = {"action": "added", "installation": inst.shape(), "repository_selection": "selected", "requester": None, "sender": self.hub.sender(),
                 "repositories_added": [{"id": 3, "node_id": "x", "name": "three", "full_name": "octocat/three", "private": True}], "repositories_removed": []}
        self.assertEqual(self.hub.deliver(there, "installation_repositories", added)[0], 200)
        self.until("the list", lambda: self.reach(i) == ["octocat/one", "octocat/three"])
        base = f"/git/v1/repo/{repo}/github-sync"
        self.refused(400, "GIT_INVALID_REQUEST", "POST", base, {"githubRepoName": "octocat/two", "installationId": inst.id})
        self.refused(400, "GIT_INVALID_REQUEST", "POST", base, {"githubRepoName": "octocat/one", "installationId": inst.id, "token": "x"})
        for odd in ("x", -1, 1.5, [], "1" * 40):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", base, {"githubRepoName": "octocat/one", "installationId": odd})
        self.call("POST", base, {"githubRepoName": "octocat/three"})
        self.assertEqual(self.state(repo, "synced")["installationId"], str(inst.id))
        # uninstalled there
        inst.gone = True
        self.assertEqual(self.hub.deliver(there, "installation", self.hub.installation_payload(inst, "deleted"))[0], 200)
        self.until("it is gone", lambda: not self.installations())
        self.assertIn("is gone", self.again(repo, "failed")["error"])
        self.assertIsNone(self.status(repo)["installationId"])
        # a round finds out as well, without any webhook
        self.hub.choice = ("octocat", "User", ["octocat/one"])
        self.install(app)
        i = self.one()
        self.call("POST", base, {"githubRepoName": "octocat/one"})
        self.state(repo, "synced")
        self.hub.installations[int(i["installationId"])].gone = True
        self.hub.tokens.clear()
        self.again(repo, "failed")
        self.again(repo, "failed")
        self.until("it is gone", lambda: not self.installations())

    def test_forged_and_repeated(self):
        app, there, inst = self.connected("octocat/one")
        repo = self.mirror("octocat/one")
        synced = self.state(repo, "synced")["lastSyncAt"]
        good = json.dumps(self.hub.push_payload(inst, "octocat/one")).encode()
        for what, kw in (("unsigned", {"headers": {"X-Hub-Signature-256": None}}), ("wrong secret", {"secret": "guess"}),
                         ("another secret of the App", {"secret": there.client_secret}), ("empty", {"headers": {"X-Hub-Signature-256": ""}}),
                         ("no hex", {"headers": {"X-Hub-Signature-256": "sha256=" + "g" * 64}}), ("short", {"headers": {"X-Hub-Signature-256": "sha256=00"}}),
                         ("SHA-1", {"headers": {"X-Hub-Signature-256": None, "X-Hub-Signature": "sha1=" + "0" * 40}}),
                         ("no such App", {"url": self.base() + HUB + "/webhook/gha-" + "0" * 20}), ("no App", {"url": self.base() + HUB + "/webhook/x"})):
            with self.subTest(what):
                status, body = self.hub.deliver(there, "push", good, **kw)
                self.assertEqual((status, body["code"]), (401, "UNAUTHORIZED"))
                self.assertIn("X-Hub-Signature-256", body["message"])
        self.assertEqual(self.hub.deliver(there, "push", b"junk", secret="guess")[0], 401)  # the signature comes first
        # of another App of this account
        app2, there2 = self.make_app()
        self.assertEqual(self.hub.deliver(there, "push", good, secret=there2.webhook_secret)[0], 401)
        self.assertEqual(self.hub.deliver(there2, "push", good), (200, {}))  # not an installation of its
        # signed, but no event of ours
        for event, payload, want in (("ping", {"zen": "x", "hook_id": 1, "hook": {}}, 200), ("star", {}, 200), ("push", {}, 400), ("push", b"[1]", 400),
                                     ("push", b"junk", 400), ("push", {"installation": {"id": -1}, "repository": {"full_name": "a/b"}}, 400),
                                     ("push", {"installation": {"id": inst.id}, "repository": {"full_name": "../../x"}}, 400),
                                     ("installation", {"installation": {"id": "5000"}}, 400)):
            with self.subTest(f"{event} {payload}"):
                self.assertEqual(self.hub.deliver(there, event, payload)[0], want)
        for name in ("X-GitHub-Event", "X-GitHub-Delivery"):
            self.assertEqual(self.hub.deliver(there, "push", good, headers={name: None})[0], 400)
        self.assertEqual(self.hub.deliver(there, "push", good, headers={"X-GitHub-Delivery": "a b"})[0], 400)
        self.assertEqual(self.hub.deliver(there, "push", b" " * (1 << 20) + good)[0], 413)
        self.assertEqual(self.status(repo)["lastSyncAt"], synced)
        # once, and never again, after a restart as well
        sha = self.push_there("octocat/one", {"a": "1"})
        one = str(uuid.uuid4())
        self.assertEqual(self.hub.deliver(there, "push", good, delivery=one), (200, {}))
        self.until("it is here", lambda: self.head(repo) == sha)
        synced = self.state(repo, "synced")["lastSyncAt"]
        self.assertEqual(self.hub.deliver(there, "push", good, delivery=one), (200, {}))
        port = self.port
        self.stop()
        self.start()
        self.until("it was synced at the start", lambda: self.status(repo)["state"] == "synced")
        url = there.manifest["hook_attributes"]["url"].replace(f":{port}", f":{self.port}")
        synced = self.status(repo)["lastSyncAt"]
        self.assertEqual(self.hub.deliver(there, "push", good, delivery=one, url=url), (200, {}))
        self.assertEqual(self.hub.deliver(there, "ping", {}, url=url), (200, {}))
        self.assertEqual(self.status(repo)["lastSyncAt"], synced)

    def test_too_fast(self):
        app, there = self.make_app()
        answers = [self.hub.deliver(there, "ping", {}, delivery="same") for _ in range(60)]  # as FX_HOOK_BURST says
        self.assertEqual({s for s, _ in answers}, {200})
        for _ in range(1000):  # three a second are let through
            status, body = self.hub.deliver(there, "ping", {}, delivery="same")
            if status != 200:
                break
        self.assertEqual((status, body["code"]), (429, "LIMIT_EXCEEDED"))
        self.assertEqual(self.hub.deliver(self.make_app()[1], "ping", {})[0], 200)  # another App has its own

    def test_accounts_are_apart(self):
        key = self.account()
        app, there, inst = self.connected("octocat/one")
        mine = self.one()
        self.assertEqual((self.call("GET", f"{HUB}/apps", key=key), self.installations(key)), ({"apps": []}, []))
        for method, path, body in (("DELETE", f"/apps/{app['id']}", None), ("POST", f"/apps/{app['id']}/install", {}),
                                   ("POST", "/installations", {"appId": app["id"], "installationId": inst.id}),
                                   ("GET", f"/installations/{mine['id']}/repositories", None), ("POST", f"/installations/{mine['id']}/refresh", None),
                                   ("DELETE", f"/installations/{mine['id']}", None)):
            self.refused(404, "NOT_FOUND", method, HUB + path, body, key=key)
        for path in ("/apps", "/apps/manifest"):
            body = {"appId": str(there.id), "privateKey": there.pem, "shared": True} if path == "/apps" else {"shared": True}
            self.refused(403, "FORBIDDEN", "POST", HUB + path, body, key=key)
        # their mirror of the same repository is not ours to wake, nor to use our token
        theirs = self.mirror("octocat/one", key=key)
        self.state(theirs, "failed", key)
        with self.assertRaises(Refused):
            self.mirror("octocat/one", key=key, installationId=inst.id)
        app2, there2 = self.make_app(key)
        self.hub.choice = ("octocat", "User", ["octocat/one"])
        self.assertIn("Connected", self.install(app2, key)[1])
        self.one(key)
        self.call("POST", f"/git/v1/repo/{theirs}/github-sync", {"githubRepoName": "octocat/one"}, key=key)
        synced = self.state(theirs, "synced", key)["lastSyncAt"]
        repo = self.mirror("octocat/one")
        self.state(repo, "synced")
        sha = self.push_there("octocat/one", {"a": "1"})
        self.assertEqual(self.hub.deliver(there, "push", self.hub.push_payload(inst, "octocat/one", after=sha))[0], 200)
        self.until("it is here", lambda: self.head(repo) == sha)
        self.assertEqual((self.status(theirs, key)["lastSyncAt"], self.head(theirs, key=key)), (synced, None))
        # the installation of one App in a webhook that another App has signed
        inst2 = self.hub.installations[int(self.installations(key)[0]["installationId"])]
        self.assertEqual(self.hub.deliver(there2, "push", self.hub.push_payload(inst, "octocat/one"))[0], 200)
        self.assertEqual(self.status(theirs, key)["lastSyncAt"], synced)
        self.assertEqual(self.hub.deliver(there2, "push", self.hub.push_payload(inst2, "octocat/one"))[0], 200)
        self.until("it is there too", lambda: self.head(theirs, key=key) == sha)

    def test_one_app_for_all_accounts(self):
        """A shared App: who connects an installation must administer all that it reaches, and only one account gets it."""
        key, self.own_key = self.account(), None
        self.key = self.operator
        app, there = self.make_app(shared=True)
        self.assertEqual((there.manifest["request_oauth_on_install"], there.manifest["callback_urls"], "setup_url" in there.manifest),
                         (True, [f"{self.base()}{HUB}/installed"], False))
        (seen,) = self.call("GET", f"{HUB}/apps", key=key)["apps"]
        self.assertEqual((seen["id"], seen["own"], seen["shared"]), (app["id"], False, True))
        self.refused(404, "NOT_FOUND", "DELETE", f"{HUB}/apps/{app['id']}", key=key)
        self.refused(400, "GIT_INVALID_REQUEST", "POST", f"{HUB}/installations", {"appId": app["id"], "installationId": 5000}, key=key)
        for r in ("acme/one", "acme/two"):
            self.hub.repo(r, admin="owner")
            self.hub.access[("member", r)] = "read"
        self.hub.access[("member", "acme/one")] = "admin"
        choice = ("acme", "Organization", ["acme/one", "acme/two"])
        for user in ("member", "nobody"):
            b, page = self.install(app, key, choice, user=user)
            self.assertEqual(b.status, 403, page)
        # the number of somebody else's installation, with a code of one's own
        link = self.call("POST", f"{HUB}/apps/{app['id']}/install", {}, key=key)["url"]
        self.hub.user = "nobody"
        b = Browser()
        b.go(link)
        b.go(f"{self.base()}{HUB}/installed?installation_id=5000&setup_action=install&code={self.hub.user_code()}&state={link.rpartition('=')[2]}")
        self.assertEqual((b.status, self.installations(key)), (403, []))
        b, page = self.install(app, key, choice, user="owner")
        self.assertIn("Connected", page)
        i = self.one(key)
        self.assertEqual((i["login"], i["kind"], self.reach(i, key)), ("acme", "Organization", ["acme/one", "acme/two"]))
        b, page = self.install(app, None, choice, user="owner")  # the operator is another account
        self.assertEqual((b.status, self.installations()), (409, []))
        repo = self.mirror("acme/two", key=key)
        self.state(repo, "synced", key)
        # nobody agreed yet
        link = self.call("POST", f"{HUB}/apps/{app['id']}/install", {}, key=key)["url"]
        b.go(link)
        b.go(f"{self.base()}{HUB}/installed?setup_action=request&code=x&state={link.rpartition('=')[2]}")
        self.assertEqual(b.status, 400)
        self.assertIn("agree", b.page)
        # the operator takes the App away
        self.call("DELETE", f"{HUB}/apps/{app['id']}")
        self.assertEqual(self.installations(key), [])
        self.assertIn("is gone", self.again(repo, "failed", key)["error"])

    def test_an_app_that_exists(self):
        app, there, inst = self.connected("octocat/one")
        key = self.account()
        given = {"appId": str(there.id), "privateKey": there.pem, "webhookSecret": there.webhook_secret}
        made = self.call("POST", f"{HUB}/apps", given, key=key)
        self.assertEqual((made["appId"], made["name"], made["own"], made["clientId"]), (str(there.id), app["name"], True, there.client_id))
        wrong = self.make_app()[1].pem
        for odd in ({"privateKey": wrong}, {"privateKey": "x"}, {"appId": "999"}, {"appId": "a b"}, {"appId": ""}, {"server": "ftp://x"},
                    {"webhookSecret": "a\nb"}):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", f"{HUB}/apps", {**given, **odd}, key=key)
        self.refused(400, "GIT_INVALID_REQUEST", "POST", f"{HUB}/apps", {**given, "shared": True}, key=self.operator)
        self.refused(404, "NOT_FOUND", "POST", f"{HUB}/installations", {"appId": made["id"], "installationId": 9}, key=key)
        i = self.call("POST", f"{HUB}/installations", {"appId": made["id"], "installationId": inst.id}, key=key)
        self.assertEqual(i["login"], "octocat")
        self.until("its list", lambda: self.reach(i, key) == ["octocat/one"])
        self.call("POST", f"{HUB}/installations/{i['id']}/refresh", key=key)
        self.call("DELETE", f"{HUB}/installations/{i['id']}", key=key)
        self.assertEqual((self.installations(key), inst.gone), ([], False))
        mine = self.one()
        self.call("DELETE", f"{HUB}/installations/{mine['id']}?uninstall=true")
        self.assertEqual((self.installations(), inst.gone), ([], True))
        for body in ({"baseUrl": "https://x/y"}, {"baseUrl": "file:///"}, {"name": "a b"}, {"organization": "../x"}, {"server": "x"},
                     {"server": "https://x;sandbox"}):
            self.refused(400, "GIT_INVALID_REQUEST", "POST", f"{HUB}/apps/manifest", body)

    def test_links_end(self):
        app, there = self.make_app()
        link = self.call("POST", f"{HUB}/apps/{app['id']}/install", {})["url"]
        b = Browser()
        self.assertIn("Connect GitHub repositories", b.go(link))
        self.stop()
        self.sql("UPDATE github_links SET until_ms = 1")
        port = self.port
        self.start()
        b.go(link.replace(f":{port}", f":{self.port}"))
        self.assertEqual(b.status, 404)
        for odd in ("", "x", "0" * 64):
            b.go(f"{self.base()}{HUB}/start?link={odd}")
            self.assertEqual(b.status, 404)
        b.go(f"{self.base()}{HUB}/start")
        self.assertEqual(b.status, 404)

    def raw(self, path, headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        c.request("GET", path, headers=headers)
        r = c.getresponse()
        r.read()
        c.close()
        return r.headers

    def sql(self, text, *args):
        db = sqlite3.connect(os.path.join(self.data_dir, "pando.db"), timeout=60)
        try:
            with db:
                return db.execute(text, args).fetchall()
        finally:
            db.close()


del Base
if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
