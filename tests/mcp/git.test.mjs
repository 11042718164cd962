// SPDX-License-Identifier: Apache-2.0
// git.test.mjs - repositories by the official client: what is in them, commits without a clone, triggers
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { OTHER_KEY, call, overHttp, refused } from "./client.mjs";

let client, repo, first, second;

before(async () => { ({ client } = await overHttp()); });
after(async () => {
  if (repo) await call(client, "repo_delete", { repo });
  await client.close();
});

test("a repository is created and filled", async () => {
  repo = (await call(client, "repo_create", { name: "mcp" })).structuredContent.repoId;
  const commit = (message, files, more = {}) => call(client, "repo_commit", { repo, message, files, ...more })
    .then((r) => r.structuredContent.commit.sha);
  first = await commit("First needle", [{ path: "a.txt", content: "one\n" }, { path: "src/deep/b.txt", content: "two\n" }]);
  second = await commit("Second", [{ path: "a.txt", deleted: true }, { path: "c.txt", content: "three\n" }], { expectedSha: first });
  await refused(client, "repo_commit", { repo, message: "x", files: [{ path: "d", content: "" }], expectedSha: first }, /CONFLICTING_PARENT/);
  assert.ok((await call(client, "repo_list", { search: "mcp" })).structuredContent.repositories.some((r) => r.id === repo));
  assert.equal((await call(client, "repo_get", { repo })).structuredContent.defaultBranch, "main");
});

test("it is read", async () => {
  const { entries } = (await call(client, "repo_files", { repo, recursive: true })).structuredContent;
  const files = (list) => list.flatMap((e) => (e.type === "dir" ? files(e.entries) : [e.path]));
  assert.deepEqual(files(entries).sort(), ["c.txt", "src/deep/b.txt"]);
  const file = (await call(client, "repo_read", { repo, path: "src/deep/b.txt" })).structuredContent;
  assert.equal(Buffer.from(file.content, "base64").toString(), "two\n");
  const old = (await call(client, "repo_read", { repo, path: "a.txt", rev: first })).structuredContent;
  assert.equal(Buffer.from(old.content, "base64").toString(), "one\n");
  const { commits } = (await call(client, "repo_commits", { repo, limit: 10 })).structuredContent;
  assert.deepEqual(commits.map((c) => c.sha), [second, first]);
  assert.equal((await call(client, "repo_compare", { repo, base: first, head: second })).structuredContent.ahead_by, 1);
  await call(client, "repo_branch", { repo, name: "old", sha: first });
  assert.deepEqual((await call(client, "repo_branches", { repo })).structuredContent.branches.map((b) => b.name).sort(), ["main", "old"]);
  assert.deepEqual((await call(client, "repo_tags", { repo })).structuredContent.tags, []);
});

test("it is searched in all four ways", async () => {
  assert.equal((await call(client, "repo_search", { repo, query: "three" })).structuredContent.files[0].path, "c.txt");
  assert.equal((await call(client, "repo_search_names", { repo, query: "deep" })).structuredContent.totalFiles, 1);
  assert.equal((await call(client, "repo_search_commits", { repo, query: "needle" })).structuredContent.commits[0].sha, first);
  assert.equal((await call(client, "repo_search_diffs", { repo, query: "three" })).structuredContent.commits[0].sha, second);
});

test("triggers are made, listed and removed", async () => {
  const { triggerId } = (await call(client, "trigger_create", { repo, trigger: { event: "push", branches: ["never"] },
    action: { action: "vm", command: "true" } })).structuredContent;
  assert.deepEqual((await call(client, "trigger_list", { repo })).structuredContent.triggers.map((t) => t.id), [triggerId]);
  assert.deepEqual((await call(client, "trigger_log", { repo, trigger: triggerId })).structuredContent.deliveries, []);
  assert.deepEqual((await call(client, "commit_status", { repo, hash: second })).structuredContent.runs, []);
  await call(client, "trigger_delete", { repo, trigger: triggerId });
  const tag = (await call(client, "trigger_create", { repo, trigger: { event: "tag", tags: ["v*"] },
    action: { action: "vm", command: "true" } })).structuredContent.triggerId;
  assert.equal((await call(client, "trigger_list", { repo })).structuredContent.triggers[0].trigger.event, "tag");
  await call(client, "trigger_delete", { repo, trigger: tag });
  assert.deepEqual((await call(client, "github_installations", {})).structuredContent.installations, []);
  await refused(client, "github_repositories", { installation: "ghi-none" }, /NOT_FOUND/);
});

test("another account sees nothing of it", async (t) => {
  const other = await overHttp(OTHER_KEY);
  t.after(() => other.client.close());
  await refused(other.client, "repo_read", { repo, path: "c.txt" }, /REPO|NOT_FOUND|DENIED|FORBIDDEN/);
  await refused(other.client, "repo_delete", { repo }, /REPO|NOT_FOUND|DENIED|FORBIDDEN/);
});
