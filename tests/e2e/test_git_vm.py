# SPDX-License-Identifier: Apache-2.0
"""Repositories and VMs together: clones by id in specs, commands of triggers in VMs"""
import hashlib

from case import Case, wait_for
from git_checks import GitTools

BUILD_S = 400
LARGE = b"large" * 1000
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(LARGE).hexdigest()}\nsize {len(LARGE)}\n"
COMMAND = ('echo "$PANDO_REPO_ID $PANDO_BRANCH $PANDO_COMMIT" && pwd && git rev-parse HEAD && cat a.txt && '
           'if [ -e fail ]; then exit 3; fi')


class GitVm(GitTools, Case):
    server_env = {"PANDO_POOL": "0", "PANDO_BLANKS": "0"}
    keeps_specs = True
    limit_s = 600

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
