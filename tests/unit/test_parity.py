#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_parity.py ROOT - `pando` and MCP have what the API has: every route of egress, networks, tunnels, Git, specs, schedules and the tree is used by
a command and by a tool, or the list below says why not. A route that is new fails here until it is one or the other."""
import glob
import json
import os
import re
import sys
import unittest

ROOT = sys.argv.pop(1)
AREAS = ("/v1/vpcs", "/git/v1/", "/v1/vms/{vm_id}/egress", "/v1/vms/snapshots", "/v1/vms/builds", "/v1/tree", "/v1/vms/{vm_id}/tree",
         "/v1/vms/{vm_id}/rewind", "/v1/vms/{vm_id}/diff", "/v1/cron/")
REPO = "/git/v1/repo/{}"

OBJECTS = "an object by its hash: `pando git clone` and git have them all"
ALIAS = "an older way to what another command does"
PERSON = "what reaches the repositories of others is a person's decision"
BYTES = "bytes for a file; a model uses a clone in a VM"
SECRET = "an administrator's secret: not for a model"
NOT_IN_CLI = {
    "GET /git/v1/repo/{repo}/git/refs/heads/{branch}": ALIAS,
    "POST /git/v1/repo/{repo}/git/refs/heads/{branch}": ALIAS,
    "GET /git/v1/repo/{repo}/git/refs/tags/{tag}": "`pando git tags` lists them with their commits",
    "GET /git/v1/repo/{repo}/git/tags/{hash}": OBJECTS,
    "GET /git/v1/repo/{repo}/git/blobs/{hash}": OBJECTS,
    "GET /git/v1/repo/{repo}/git/trees/{hash}": OBJECTS,
    "POST /git/v1/repo/{repo}/git/commits": "for programs that write objects themselves; `pando git commit` moves a branch, too",
    "GET /v1/cron/schedules/{schedule}/success-rate": "lists have that of the last day",
    "GET /v1/cron/schedules/{schedule}/metrics-timeline": "a picture of the dashboard",
    "POST /git/v1/sync-hook/{hook}": "for other servers",
    "POST /git/v1/github/webhook/{app}": "for GitHub",
}
NOT_IN_MCP = {
    **NOT_IN_CLI,
    "GET /git/v1/repo/{repo}/trigger/{trigger}": "trigger_list has all of each",
    "GET /git/v1/repo/{repo}/visibility": "repo_get shows it",
    "PUT /git/v1/repo/{repo}/visibility": "who may read a repository is a person's decision",
    "GET /git/v1/repo/{repo}/default-branch": "repo_get shows it",
    "PUT /git/v1/repo/{repo}/default-branch": "a setting that a person makes once",
    "GET /git/v1/repo/{repo}/tarball": BYTES,
    "GET /git/v1/repo/{repo}/zip": BYTES,
    "GET /git/v1/repo/{repo}/git/commits/{hash}": "repo_commits and repo_compare show it",
    "GET /git/v1/repo/{repo}/trigger/{trigger}/deliveries/{delivery}": "trigger_log and commit_status have what is in it",
    "POST /git/v1/repo/{repo}/trigger/{trigger}/deliveries/{delivery}/redeliver": "repeating an action of a product is a person's decision",
    "GET /git/v1/repo/{repo}/github-sync": SECRET, "POST /git/v1/repo/{repo}/github-sync": SECRET,
    "DELETE /git/v1/repo/{repo}/github-sync": SECRET, "POST /git/v1/repo/{repo}/github-sync/run": SECRET,
    "GET /git/v1/credentials": SECRET, "PUT /git/v1/credentials": SECRET, "DELETE /git/v1/credentials": SECRET,
    "POST /git/v1/signing-keys": SECRET,
    "GET /git/v1/github/apps": SECRET, "POST /git/v1/github/apps": SECRET, "DELETE /git/v1/github/apps/{app}": PERSON,
    "POST /git/v1/github/apps/manifest": PERSON, "POST /git/v1/github/apps/{app}/install": PERSON,
    "POST /git/v1/github/installations": PERSON, "DELETE /git/v1/github/installations/{installation}": PERSON,
    "POST /git/v1/github/installations/{installation}/refresh": "webhooks and the server itself do it",
    "GET /v1/vms/snapshots/{snapshot_id}": "snapshot_list has what is in it",
    "PATCH /v1/vms/snapshots/{snapshot_id}": "a label, given when it is taken",
    "DELETE /v1/vms/snapshots/{snapshot_id}": "what others' VMs start from: a person deletes it",
    "GET /v1/vms/builds/{build_id}": "build_list has what is in it",
    "GET /v1/vms/builds/{build_id}/phases": "build_list has plannedPhases",
}


def plain(path):
    return re.sub(r"\{[^}]*\}", "{}", path)


def text_of(pattern):
    for path in glob.glob(os.path.join(ROOT, pattern)):
        with open(path, encoding="utf-8") as f:
            yield f.read()


def cli_paths():
    """What commands put into their requests, with {} for each part that varies; those of pando git are below a repository."""
    found = set()
    for text in text_of("cli/*.c"):
        text = re.sub(r'"\s*\n\s*"', "", text)  # a text in pieces
        for literal in re.findall(r'"(/[^"\n]*)"', text):
            found.add(re.sub(r"%[a-z]+", "{}", literal.split("?")[0]))
    return found | {REPO} | {REPO + p for p in found} | {"/v1/vms/{}" + p for p in found} | {"/v1/vpcs/{}" + p for p in found} | {
        p + "{}" for p in found if p.endswith("/")}


class Parity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(ROOT, "docs/openapi.json"), encoding="utf-8") as f:
            paths = json.load(f)["paths"]
        cls.routes = {f"{m.upper()} {p}": p for p, ms in paths.items() if p.startswith(AREAS) for m in ms
                      if m in ("get", "post", "put", "patch", "delete")}

    def check(self, used, but):
        self.assertGreater(len(self.routes), 50)
        missing = sorted(r for r in self.routes if not used(r) and r not in but)
        self.assertEqual(missing, [], "neither used nor excused")
        self.assertEqual(sorted(r for r in but if r not in self.routes), [], "excused, but not there")
        self.assertEqual(sorted(r for r in but if used(r)), [], "excused, but used")

    def test_commands(self):
        found = cli_paths()
        by_method = {"POST /git/v1/repo/{repo}/git/commits"}  # the same path is read
        self.check(lambda r: plain(self.routes[r]) in found and r not in by_method, NOT_IN_CLI)

    def test_tools(self):
        rows = {f"{m} {plain(p)}" for text in text_of("server/mcp/*.c") for m, p in re.findall(r'METHOD_(\w+), (?:\.pattern = )?"([^"]+)"', text)}
        self.check(lambda r: plain(r) in rows, NOT_IN_MCP)


if __name__ == "__main__":
    unittest.main(verbosity=2)
