# SPDX-License-Identifier: Apache-2.0
"""Repositories and VMs together: clones by id in specs, commands of triggers in VMs"""
import hashlib
import html
import os
import re

from case import Case, wait_for
from git_checks import GitTools
from github_server import Browser, GitHub

BUILD_S = 400
LARGE = b"large" * 1000
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(LARGE).hexdigest()}\nsize {len(LARGE)}\n"
COMMAND = ('echo "$PANDO_REPO_ID $PANDO_BRANCH $PANDO_COMMIT" && pwd && git rev-parse HEAD && cat a.txt && '
           'if [ -e fail ]; then exit 3; fi')


class GitVm(GitTools, Case):
    keeps_specs = True
    limit_s = 600

    @classmethod
    def setUpClass(cls):
        cls.hub = GitHub()
        cls.server_env = {"PANDO_POOL": "0", "PANDO_BLANKS": "0", "PANDO_GITHUB_URL": cls.hub.url, "PANDO_GIT_ALLOW_PRIVATE": "1"}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.hub.close()

    def setUp(self):
        self.port, self.key, self.data_dir = self.s.port, self.s.key(), self.s.dir
        self.make_top()

    def make(self, **body):
        return self.s.api("POST", "/v1/vms", {"idleTimeoutSeconds": None, **body}, timeout=BUILD_S)["id"]

    def test_clone_by_id(self):
        repo, empty = self.new(name="app"), self.new()
        self.call("PUT", f"/{repo}/info/lfs/objects/{hashlib.sha256(LARGE).hexdigest()}", LARGE)
        first = self.commit(repo, {"a.txt": "one\n", "dir/b.txt": "two\n", "large.bin": POINTER,
                                   ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})["sha"]
        self.commit(repo, {"c.txt": "side\n"}, branch="side")
        vm = self.make(gitRepos=[{"repo": repo, "path": "/srv/app"}, {"repo": repo, "path": "/srv/side", "rev": "side"},
                                 {"repo": repo, "path": "/srv/old", "rev": first}, {"repo": empty, "path": "/srv/empty"}])
        out = self.s.sh(vm, "cd /srv/app && git rev-parse HEAD && git branch --show-current && cat a.txt dir/b.txt && "
                            "git status --porcelain && git remote get-url origin && cat /srv/side/c.txt && "
                            "git -C /srv/old rev-parse HEAD && git -C /srv/empty remote get-url origin && ls /var/tmp")
        lines = out.split("\n")
        self.assertEqual(lines[:4], [first, "main", "one", "two"])
        self.assertEqual(lines[4], f"https://git.pando.localhost/{repo}")
        self.assertEqual(lines[5:7], ["side", first])
        self.assertEqual(lines[7], f"https://git.pando.localhost/{empty}")
        self.assertNotIn("pando-", "\n".join(lines[8:]))
        # large files are pointers, and none of them looks changed
        self.assertEqual(self.s.sh(vm, "cat /srv/app/large.bin && git -C /srv/app status --porcelain"), POINTER.strip())
        # no secret stayed behind
        self.assertEqual(self.s.sh(vm, f"grep -rIl -e '{self.key}' /srv /root /var/tmp /etc/gitconfig 2>/dev/null | wc -l").strip(), "0")
        self.s.api("DELETE", f"/v1/vms/{vm}")
        # another commit is another layer; the cache does not give yesterday's
        second = self.commit(repo, {"a.txt": "three\n"})["sha"]
        vm = self.make(spec={"git": {"repos": [{"repo": repo, "path": "/srv/app"}]}})
        self.assertEqual(self.s.sh(vm, "git -C /srv/app rev-parse HEAD").strip(), second)
        self.s.api("DELETE", f"/v1/vms/{vm}")

    def test_not_everyones(self):
        repo = self.new()
        other = self.stranger()
        e = self.refused_call(other, repo)
        self.assertEqual(e.status, 404, e)
        e = self.refused_call(self.key, "00000000-0000-4000-8000-000000000000")
        self.assertEqual((e.status, e.code), (404, "REPOSITORY_NOT_FOUND"))

    def refused_call(self, key, repo):
        with self.assertRaises(Exception) as c:
            self.call("POST", "/v1/vms", {"gitRepos": [{"repo": repo, "path": "/srv/app"}]}, key=key)
        return c.exception

    def test_trigger_runs_a_command(self):
        repo = self.new()
        t = self.api(repo, "POST", "/trigger", {"trigger": {"event": "push", "branches": ["main"]},
                                                "action": {"action": "vm", "command": COMMAND}})["triggerId"]
        sha = self.commit(repo, {"a.txt": "hello\n"})["sha"]

        def status(commit):
            s = self.api(repo, "GET", f"/git/commits/{commit}/status")
            return s if s["state"] not in ("pending", "running", None) else None
        s = wait_for("the run", lambda: status(sha), 300)
        self.assertEqual(s["state"], "success", s)
        d = self.api(repo, "GET", f"/trigger/{t}/deliveries/{s['runs'][0]['id']}")
        self.assertEqual(d["output"].split("\n"), [f"{repo} main {sha}", "/root/repo", sha, "hello", ""])
        self.assertEqual((d["exitCode"], d["status"], d["vmId"]), (0, "success", None))
        # the same in a VM of a snapshot, and it fails
        vm = self.make()
        self.s.sh(vm, "touch /root/from-the-snapshot")
        snapshot = self.s.api("POST", f"/v1/vms/{vm}/snapshot", {})["snapshotId"]
        self.s.api("DELETE", f"/v1/vms/{vm}")
        self.api(repo, "DELETE", f"/trigger/{t}")
        t = self.api(repo, "POST", "/trigger", {"trigger": {"event": "push"}, "action": {
            "action": "vm", "command": "ls /root/from-the-snapshot; " + COMMAND, "snapshotId": snapshot}})["triggerId"]
        bad = self.commit(repo, {"fail": "1"})["sha"]
        s = wait_for("the second run", lambda: status(bad), 300)
        self.assertEqual((s["state"], s["runs"][0]["exitCode"]), ("failure", 3), s)
        d = self.api(repo, "GET", f"/trigger/{t}/deliveries/{s['runs'][0]['id']}")
        self.assertEqual(d["output"].split("\n")[:2], ["/root/from-the-snapshot", f"{repo} main {bad}"])
        self.assertEqual(self.s.api("GET", "/v1/vms")["vms"], [])
        self.s.api("DELETE", f"/v1/vms/snapshots/{snapshot}")
        base = f"/git/v1/repo/{repo}/trigger"
        with self.assertRaises(Exception) as c:
            self.call("POST", base, {"trigger": {"event": "push"}, "action": {"action": "vm", "command": "true",
                                                                             "snapshotId": "sc-" + "a" * 20}})
        self.assertEqual(c.exception.status, 404)

    def test_a_tag_on_github_runs_a_command(self):
        """An App, installed; a mirror; a tag that is pushed there, a webhook, and a VM here that has it."""
        b = Browser()
        page = b.go(self.call("POST", "/git/v1/github/apps/manifest", {})["url"])
        action, manifest = (html.unescape(v) for v in re.search(r'action="([^"]+)"><input type="hidden" name="manifest" value="([^"]+)"', page).groups())
        b.go(action, form={"manifest": manifest})
        (app,) = self.call("GET", "/git/v1/github/apps")["apps"]
        bare = self.hub.repo("octocat/app")
        self.hub.choice = ("octocat", "User", ["octocat/app"])
        link = self.call("POST", f"/git/v1/github/apps/{app['id']}/install", {})["url"]
        self.assertIn("Connected", b.go(html.unescape(re.search(r'href="([^"]+)"', b.go(link)).group(1))))
        wait_for("the installation", lambda: self.call("GET", "/git/v1/github/installations")["installations"][0]["checkedAt"], 60)
        repo = self.new()
        t = self.api(repo, "POST", "/trigger", {"trigger": {"event": "tag", "tags": ["v*"]}, "action": {
            "action": "vm", "command": 'echo "$PANDO_EVENT $PANDO_TAG $PANDO_COMMIT ${PANDO_BRANCH-none}" && git describe --tags && cat a.txt'}})["triggerId"]
        self.api(repo, "POST", "/github-sync", {"githubRepoName": "octocat/app"})
        wait_for("the first round", lambda: self.api(repo, "GET", "/github-sync")["state"] == "synced", 60)
        far = os.path.join(self.top, "far")
        self.git("clone", "-q", bare, far)
        sha = self.save(far, {"a.txt": "hello\n"})
        self.git("tag", "-a", "-m", "one", "v1", cwd=far)
        self.git("push", "-q", "origin", "HEAD:main", "v1", cwd=far)
        (installation,) = self.hub.installations.values()
        payload = self.hub.push_payload(installation, "octocat/app", ref="refs/tags/v1", after=sha)
        self.assertEqual(self.hub.deliver(self.hub.apps[app["appId"]], "push", payload), (200, {}))

        def done():
            return [d for d in self.api(repo, "GET", f"/trigger/{t}/deliveries")["deliveries"] if d["state"] in ("delivered", "failed")]
        (d,) = wait_for("the run", done, 300)
        d = self.api(repo, "GET", f"/trigger/{t}/deliveries/{d['id']}")
        self.assertEqual(d["output"].split("\n"), [f"tag v1 {sha} none", "v1", "hello", ""])
        self.assertEqual((d["event"], d["tag"], d["commit"], d["status"]), ("tag", "v1", sha, "success"))
        self.assertEqual(self.api(repo, "GET", f"/git/commits/{sha}/status")["state"], "success")
