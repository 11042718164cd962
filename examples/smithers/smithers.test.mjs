// SPDX-License-Identifier: Apache-2.0
// The provider in Smithers' own execution of a <Sandbox>: request bundle, provider, checked result bundle, diffs, events
import { withTaskRuntime } from "@smithers-orchestrator/driver/task-runtime";
import { executeSandbox } from "@smithers-orchestrator/sandbox/execute";
import { Effect } from "effect";
import { freestyle } from "freestyle";
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createPandoSandboxProvider } from "./provider.mjs";

const LIMIT = { timeout: 180_000 };
const RUNNER = "/workspace/run-smithers-sandbox.js";
const runner = (body) => ({
  [RUNNER]: {
    content: `
      const fs = require("node:fs");
      const req = JSON.parse(fs.readFileSync("/workspace/smithers-request.json", "utf8"));
      const answer = (result) => fs.writeFileSync("/workspace/smithers-result.json", JSON.stringify(result));
      ${body}
    `,
  },
});
let root;

before(async () => {
  root = await mkdtemp(join(tmpdir(), "smithers-"));
});
after(async () => {
  await rm(root, { recursive: true, force: true });
  assert.deepEqual((await freestyle.vms.list()).vms.filter((v) => v.name?.startsWith("smithers ")), [], "a VM was left behind");
});

/** What Smithers keeps in its database, in memory: its rows of sandboxes and its events. */
function memory() {
  const rows = new Map();
  return {
    rows,
    events: [],
    async listSandboxes(runId) {
      return [...rows.values()].filter((r) => r.runId === runId);
    },
    async upsertSandbox(row) {
      rows.set(row.sandboxId, { ...rows.get(row.sandboxId), ...row });
    },
    async insertEventWithNextSeq(event) {
      this.events.push(event.type);
    },
    beats: 0,
    heartbeatSandbox() {
      return Effect.sync(() => this.beats++);
    },
  };
}

async function execute(provider, more = {}, signal = new AbortController().signal) {
  const db = memory();
  const stages = [];
  const runtime = {
    runId: "run-1", stepId: "remote-edit", attempt: 1, iteration: 0, rootDir: root, signal, db, lastHeartbeat: null,
    heartbeat: (d) => stages.push(d?.stage),
  };
  const options = {
    sandboxId: "remote-edit", provider, workflow: { build() {} }, executeChildWorkflow: () => assert.fail("not on this machine"),
    input: { prompt: "rename it" }, rootDir: root, allowNetwork: false, maxOutputBytes: 10_000, toolTimeoutMs: 60_000, reviewDiffs: false,
    ...more,
  };
  const done = withTaskRuntime(runtime, () => executeSandbox(options));
  const output = await done.catch((e) => e);
  return { output, db, stages };
}

test("a request is answered in a VM", LIMIT, async () => {
  const provider = createPandoSandboxProvider({
    freestyle,
    command: `node ${RUNNER}`,
    setupFiles: runner('answer({ status: "finished", output: { summary: "handled " + req.input.prompt }, runId: "pando:" + req.sandboxId });'),
  });
  const { output, db, stages } = await execute(provider);
  assert.deepEqual(output, { summary: "handled rename it" });
  assert.equal(db.rows.get("remote-edit").status, "finished");
  assert.equal(db.rows.get("remote-edit").remoteRunId, "pando:remote-edit");
  assert.match(db.rows.get("remote-edit").workspaceId, /^[a-z0-9]{20}$/);
  assert.deepEqual(db.events, ["SandboxCreated", "SandboxShipped", "SandboxBundleReceived", "SandboxCompleted"]);
  assert.equal(db.beats, 2);
  assert.ok(stages.includes("running") && stages.includes("completed"), stages.join(" "));
});

test("file changes go through Smithers' review", LIMIT, async () => {
  const diff = { seq: 1, baseRef: "HEAD", patches: [{ path: "a.txt", operation: "add", diff: "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1 @@\n+one\n" }] };
  const provider = createPandoSandboxProvider({
    freestyle,
    setupFiles: runner(`answer({ status: "finished", output: {}, diffBundle: ${JSON.stringify(diff)} });`),
  });
  const refused = await execute(provider, { reviewDiffs: true });
  assert.match(String(refused.output), /review/i);
  const applied = [];
  const { output } = await execute(provider, { reviewDiffs: true, autoAcceptDiffs: true, applyDiffBundle: async (b) => applied.push(b) });
  assert.deepEqual([output, applied], [{}, [diff]]);
});

test("a command that fails, and an answer that is none, are the run's errors", LIMIT, async () => {
  const fails = createPandoSandboxProvider({ freestyle, command: "echo broken >&2; exit 7" });
  const { output, db } = await execute(fails);
  assert.match(String(output), /ended with 7: broken/);
  assert.equal(db.rows.get("remote-edit").status, "failed");
  const silent = createPandoSandboxProvider({ freestyle, command: "true" });
  assert.ok((await execute(silent)).output instanceof Error);
});

test("a run that is cancelled takes its VM along", LIMIT, async () => {
  const stop = new AbortController();
  const provider = createPandoSandboxProvider({ freestyle, command: "sleep 600" });
  const run = provider.run;
  provider.run = (request) =>
    run({ ...request, heartbeat: (d) => d.stage === "running" && setTimeout(() => stop.abort(new Error("enough")), 500) });
  const { output } = await execute(provider, {}, stop.signal);
  assert.match(String(output), /enough/);
});
