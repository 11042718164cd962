#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of `pando git`, as text and as JSON, on a server without machines; usage: test_cli_git.py SERVE_GIT PANDO [TEST...]"""
import html
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../e2e"))
from git_checks import GitTools  # noqa: E402
from github_server import Browser, GitHub  # noqa: E402
from served import ServedGit, listen  # noqa: E402

PANDO = sys.argv[2]
USAGE, REFUSED = 2, 1


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(200)
        self.end_headers()
        self.server.got.set()

    def log_message(self, *args):
        pass


class Tools(ServedGit, GitTools):
    def setUp(self):
        super().setUp()
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("PANDO_", "FREESTYLE_", "XDG_", "GIT_"))}
        self.env.update(HOME=self.top, LC_ALL="C.UTF-8", PANDO_URL=f"http://127.0.0.1:{self.port}", PANDO_API_KEY=self.key)

    def pando(self, *args, code=0, stdin=""):
        r = subprocess.run([PANDO, "git", *args], env=self.env, input=stdin, capture_output=True, text=True, timeout=100, cwd=self.top)
        self.assertEqual(r.returncode, code, f"pando git {' '.join(args)}: {r.returncode} {r.stdout}{r.stderr}")
        return r.stdout if code == 0 else r.stderr

    def json(self, *args, **kw):
        return json.loads(self.pando(*args, "--json", **kw))

    def make(self, name, *args):
        repo = self.pando("create", name, *args).strip()
        self.repos.append(repo)
        return repo


class Cli(Tools, unittest.TestCase):
    def test_repositories(self):
        repo = self.make("first")
        self.assertRegex(repo, r"^[0-9a-f-]{36}$")
        self.commit(repo, {"a.txt": "one\nneedle here\n", "b/c.txt": "Needle\nneedles\n"})
        made = self.json("create", "second", "--public", "--branch", "trunk")
        self.repos.append(made["repoId"])
        self.assertEqual(self.json("get", "second")["visibility"], "public")
        self.assertIn("trunk", self.pando("get", made["repoId"]))
        third = self.make("third", "--from", self.url(repo), "--rev", "main", "--all-branches")
        self.assertEqual(self.json("get", "third")["defaultBranch"], "main")
        text = self.pando("list")
        for name in ("first", "second", "third"):
            self.assertIn(name, text)
        self.assertEqual([r["name"] for r in self.json("list", "thi")["repositories"]], ["third"])
        self.assertEqual(len(self.json("list", "--limit", "1")["repositories"]), 1)
        self.assertIn("there is no repository", self.pando("get", "nowhere", code=REFUSED))
        self.pando("create", "x", "--from", "file:///etc", code=REFUSED)
        self.assertIn("deleted", self.pando("delete", "third"))
        self.json("delete", made["repoId"])
        self.assertEqual([r["id"] for r in self.json("list")["repositories"]], [repo])
        self.pando("delete", third, code=REFUSED)

    def test_clone(self):
        repo = self.make("app")
        sha = self.commit(repo, {"a.txt": "one\n"})["sha"]
        self.pando("clone", "app")
        self.pando("clone", repo, "elsewhere")
        for d in ("app", "elsewhere"):
            path = os.path.join(self.top, d)
            self.assertEqual(self.git("rev-parse", "HEAD", cwd=path).strip(), sha)
            with open(os.path.join(path, ".git/config")) as f:
                self.assertNotIn(self.key, f.read())
        self.pando("clone", "nowhere", code=REFUSED)

    def test_search(self):
        repo = self.make("app")
        self.commit(repo, {"a.txt": "one\nneedle here\n", "b/c.txt": "Needle\nneedles\n"})
        self.assertEqual(self.pando("search", "app", "needle"), "a.txt:2: needle here\nb/c.txt:1: Needle\nb/c.txt:2: needles\n")
        self.assertEqual(self.pando("search", repo, "needle", "--case", "--word"), "a.txt:2: needle here\n")
        self.assertEqual(self.pando("search", "app", "^needle.$", "--regex", "--path", "b/**", "--rev", "main"), "b/c.txt:2: needles\n")
        self.assertEqual(self.json("search", "app", "needle")["totalMatches"], 3)
        self.assertEqual(self.pando("search", "app", "not there"), "")
        self.pando("search", "app", "(", "--regex", code=REFUSED)
        self.pando("search", "app", "x", "--rev", "none", code=REFUSED)

    def test_search_in_names_and_history(self):
        repo = self.make("app")
        sha = self.commit(repo, {"a.txt": "one\n", "needle.txt": "x\n"})["sha"]
        self.assertIn("needle.txt", self.pando("search", "app", "needle", "--in", "names"))
        self.assertEqual(self.pando("search", "app", "one", "--in", "diffs"), f"{sha[:12]} a.txt: + one\n")
        message = self.json("show", "app", sha)["message"].split()[0]
        self.assertIn(sha, self.pando("search", "app", message, "--in", "commits"))

    def test_contents_without_a_clone(self):
        self.make("app")
        with open(os.path.join(self.top, "run.sh"), "w") as f:
            f.write("#!/bin/sh\n")
        os.chmod(f.name, 0o755)
        first = self.pando("commit", "app", "-m", "First\n\nmore", "run.sh", "src/deep/a.bin=-", stdin="\x00\x01").strip()
        second = self.json("commit", "app", "-m", "Second", "b.txt=run.sh", "--delete", "run.sh", "--expect", first)["commit"]["sha"]
        self.assertIn("CONFLICTING_PARENT", self.pando("commit", "app", "-m", "Third", "run.sh", "--expect", first, code=REFUSED))
        log = self.pando("commits", "app")
        self.assertLess(log.index(second), log.index(first))
        self.assertIn("First", log)
        self.assertNotIn("more", log)
        self.assertEqual([k["sha"] for k in self.json("commits", "app", "-n", "1", "--skip", "1")["commits"]], [first])
        self.assertIn("parent " + first, self.pando("show", "app", second))
        self.assertEqual([e["path"] for e in self.json("ls", "app")["entries"]], ["b.txt", "src"])
        self.assertIn("src/deep/a.bin", self.pando("ls", "app", "src/deep"))
        self.assertIn("run.sh", self.pando("ls", "app", "--rev", first))
        self.assertEqual([line.split()[-1] for line in self.pando("ls", "app", "-r").splitlines()[1:]], ["b.txt", "src", "src/deep", "src/deep/a.bin"])
        self.assertEqual(self.pando("cat", "app", "src/deep/a.bin"), "\x00\x01")
        self.assertIn("is a directory", self.pando("cat", "app", "src", code=REFUSED))
        self.assertIn("1 ahead, 0 behind", self.pando("compare", "app", first, second))
        self.assertEqual({f["filename"] for f in self.json("compare", "app", first, second)["files"]} & {"b.txt"}, {"b.txt"})
        self.assertEqual(self.pando("branch", "app", "old", "--from", first).strip(), first)
        self.assertEqual({b["name"]: b["commit"] for b in self.json("branches", "app")["branches"]}, {"main": second, "old": first})
        self.assertIn("old", self.pando("branches", "app"))
        self.pando("clone", "app", "clone")
        clone = os.path.join(self.top, "clone")
        self.git("tag", "v1", first, cwd=clone)
        self.git("-c", f"http.extraHeader=Authorization: Bearer {self.key}", "push", "origin", "v1", cwd=clone)
        self.assertIn("v1", self.pando("tags", "app"))
        for kind, magic in (((), None), (("--zip",), b"PK")):
            r = subprocess.run([PANDO, "git", "archive", "app", *kind], env=self.env, capture_output=True, timeout=100)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertTrue(r.stdout.startswith(magic) if magic else b"src/deep/a.bin" in r.stdout)
        self.assertEqual(self.json("status", "app", second)["runs"], [])
        self.assertEqual(self.pando("default-branch", "app"), "main\n")
        self.pando("default-branch", "app", "old")
        self.assertEqual(self.json("get", "app")["defaultBranch"], "old")
        self.pando("visibility", "app", "public")
        self.assertEqual(self.pando("visibility", "app"), "public\n")
        for bad in (("commit", "app", "run.sh"), ("commit", "app", "-m", "x"), ("commit", "app", "-m", "x", "nowhere"), ("commit", "app", "-m", "x", "a=.")):
            self.pando(*bad, code=USAGE)

    def test_grants(self):
        repo = self.make("app")
        who = json.loads(subprocess.run([PANDO, "identity", "create", "--json"], env=self.env, check=True, capture_output=True).stdout)["id"]
        self.assertIn("may read", self.pando("grant", "app", who))
        self.assertIn("may write", self.pando("grant", repo, who, "--write", "--update"))
        self.assertEqual([(r["id"], r["permissions"]) for r in self.json("grants", who)["repositories"]], [(repo, "write")])
        self.assertIn("revoked", self.pando("revoke", "app", who))
        self.assertEqual(self.json("grants", who)["repositories"], [])

    def test_trigger(self):
        hook = listen(self, Hook, got=threading.Event())
        repo, url = self.make("app"), f"http://127.0.0.1:{hook.server_port}/h"
        one = self.pando("trigger", "create", "app", "--webhook", url, "--branch", "main", "--glob", "*.txt").strip()
        two = self.json("trigger", "create", repo, "--webhook", url, "--branch", "never")["triggerId"]
        self.assertIn("no VMs", self.pando("trigger", "create", repo, "--command", "make test", code=REFUSED))  # as this server is
        listed = {t["id"]: t for t in self.json("trigger", "list", "app")["triggers"]}
        self.assertEqual(set(listed), {one, two})
        self.assertEqual(listed[one]["trigger"]["globs"], ["*.txt"])
        self.assertIn(url, self.pando("trigger", "list", "app"))
        self.commit(repo, {"a.txt": "1"})
        self.assertTrue(hook.got.wait(60))
        log = self.json("trigger", "log", "app", one)["deliveries"]
        self.assertEqual(len(log), 1)
        self.assertIn(log[0]["id"], self.pando("trigger", "log", "app", one))
        self.assertIn(log[0]["commit"], self.pando("trigger", "show", "app", one, log[0]["id"]))
        hook.got.clear()
        self.assertIn("queued for redelivery", self.pando("trigger", "redeliver", "app", one, log[0]["id"]))
        self.assertTrue(hook.got.wait(60))
        self.assertIn("deleted", self.pando("trigger", "delete", "app", one))
        self.assertEqual([t["id"] for t in self.json("trigger", "list", "app")["triggers"]], [two])
        for bad in (("create", "app"), ("create", "app", "--webhook", url, "--command", "x"), ("log", "app"), ("redeliver", "app", two), ("dance", "app", two)):
            self.pando("trigger", *bad, code=USAGE)
        self.pando("trigger", "delete", "app", one, code=REFUSED)

    def test_sync_and_credential(self):
        repo, there = self.make("app"), self.make("there")
        sha = self.commit(repo, {"a.txt": "1"})["sha"]
        self.assertEqual(self.pando("sync", "status", "app"), "not mirrored\n")
        self.assertIsNone(self.json("sync", "status", "app"))
        with open(os.path.join(self.top, "token"), "w") as f:
            f.write(self.key + "\n")
        self.assertIn("enabled", self.pando("sync", "enable", "app", f"http://127.0.0.1:{self.port}/{there}", "--token-file", "token"))
        self.wait_synced("app", there, sha)
        self.assertIn("synced", self.pando("sync", "status", "app"))
        self.assertIn("begun", self.pando("sync", "now", "app"))
        self.assertIn("disabled", self.pando("sync", "disable", "app"))
        self.pando("sync", "now", "app", code=REFUSED)
        # the account's password instead of the mirror's own
        sha = self.commit(repo, {"b.txt": "2"})["sha"]
        server = f"http://127.0.0.1:{self.port}"
        self.assertIn(server, self.pando("credential", "set", server, "--token-file", "-", stdin=self.key + "\n"))
        listed = self.json("credential", "list")["credentials"]
        self.assertEqual([(c["server"], c["kind"]) for c in listed], [(server, "token")])
        self.assertNotIn(self.key, self.pando("credential", "list"))
        self.json("sync", "enable", "app", f"{server}/{there}")
        self.wait_synced("app", there, sha)
        self.json("sync", "disable", "app")
        self.assertIn("removed", self.pando("credential", "remove", server))
        self.pando("credential", "remove", server, code=REFUSED)
        key = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"], check=True,
                             capture_output=True, text=True, timeout=60).stdout
        self.json("credential", "set", "--app", "12", "--installation", "34", "--key-file", "-", stdin=key)
        self.assertEqual([c["appId"] for c in self.json("credential", "list")["credentials"]], ["12"])
        self.pando("credential", "remove")
        for bad in (("sync", "enable", "app"), ("sync", "dance", "app"), ("credential", "set"), ("credential", "dance"),
                    ("credential", "set", "--app", "1"), ("credential", "set", "--token-file", "nowhere")):
            self.pando(*bad, code=USAGE)

    def wait_synced(self, name, there, sha):
        for _ in range(600):
            state = self.json("sync", "status", name)
            tips = self.git("ls-remote", self.url(there), "refs/heads/main")
            if state["state"] == "synced" and tips.startswith(sha):
                return
        self.fail(f"{state}; {tips}")


class Apps(Tools, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hub = GitHub()
        cls.addClassCleanup(cls.hub.close)
        cls.server_env = {"FX_GITHUB": cls.hub.url}
        super().setUpClass()

    def test_apps_and_installations(self):
        link = self.pando("app", "new", "--name", "cli-app", "--private").strip()
        b = Browser()
        page = b.go(link)
        action, manifest = (html.unescape(v) for v in re.search(r'action="([^"]+)"><input type="hidden" name="manifest" value="([^"]+)"', page).groups())
        self.assertFalse(json.loads(manifest)["public"])
        b.go(action, form={"manifest": manifest})
        (app,) = self.json("app", "list")["apps"]
        there = self.hub.apps[app["appId"]]
        self.assertIn("cli-app", self.pando("app", "list"))
        self.hub.repo("octocat/one")
        self.hub.choice = ("octocat", "User", ["octocat/one"])
        b.go(html.unescape(re.search(r'href="([^"]+)"', b.go(self.pando("app", "install").strip())).group(1)))
        (i,) = self.json("app", "installations")["installations"]
        number = i["installationId"]
        self.assertIn("octocat", self.pando("app", "installations"))
        self.assertEqual(self.pando("app", "refresh", number), "begun\n")
        while not self.json("app", "repos", number)["repositories"]:
            pass
        self.assertEqual(self.pando("app", "repos", i["id"]), "octocat/one\n")
        self.make("mirror")
        self.pando("sync", "enable", "mirror", "octocat/one", "--installation", number)
        self.assertEqual(self.json("sync", "status", "mirror")["installationId"], number)
        self.pando("sync", "disable", "mirror")
        self.assertEqual(self.pando("app", "forget", number, "--uninstall"), "forgotten\n")
        self.assertTrue(self.hub.installations[int(number)].gone)
        # one that exists, with values from files
        for name, text in (("key", there.pem), ("hook", there.webhook_secret + "\n"), ("client", there.client_secret + "\n")):
            with open(os.path.join(self.top, name), "w", encoding="utf-8") as f:
                f.write(text)
        said = self.pando("app", "add", "--app", str(there.id), "--key-file", "key", "--webhook-secret-file", "hook", "--client", there.client_id,
                          "--client-secret-file", "client", "--shared")
        self.assertIn("/git/v1/github/webhook/gha-", said)
        self.hub.user = "octocat"
        second = self.hub.install(there)
        self.assertRegex(self.pando("app", "adopt", app["id"], str(second.id)), "^ghi-")
        for bad, code in ((("app", "dance"), USAGE), (("app", "add"), USAGE), (("app", "adopt", app["id"]), USAGE), (("app", "install"), REFUSED),
                          (("app", "repos", "nowhere"), REFUSED), (("app", "adopt", app["id"], "99"), REFUSED)):
            self.pando(*bad, code=code)
        for a in self.json("app", "list")["apps"]:
            self.assertIn("forgotten", self.pando("app", "remove", a["id"]))
        self.assertEqual(self.json("app", "installations")["installations"], [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
