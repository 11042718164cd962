// SPDX-License-Identifier: Apache-2.0
// cron.test.mjs - freestyle.cron for runs, and `freestyle cron`
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { SHORT, freestyle, raw } from "./client.mjs";

const cli = fileURLToPath(new URL("./node_modules/freestyle/cli.mjs", import.meta.url));
const LONG = 240_000;

describe("schedules", () => {
  let job, home;

  const run = (...args) => new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cli, ...args], { cwd: home, env: { ...process.env, HOME: home }, stdio: ["ignore", "pipe", "pipe"], timeout: SHORT });
    let out = "";
    child.stdout.on("data", (d) => (out += d));
    child.stderr.on("data", (d) => (out += d));
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, out }));
  });
  const ok = async (...args) => {
    const r = await run(...args);
    assert.equal(r.code, 0, `freestyle ${args.join(" ")}: ${r.out}`);
    return r.out;
  };

  before(async () => {
    home = mkdtempSync(join(tmpdir(), "pando-cron-"));
  });
  after(async () => {
    if (job) await raw("DELETE", `/v1/cron/schedules/${job.schedule.id}`);
    rmSync(home, { recursive: true, force: true });
  });

  it("are made with a run, and not with a deployment", { timeout: SHORT }, async () => {
    ({ job } = await freestyle.cron.schedule({
      run: { code: "export default (payload) => { console.log('tick', payload.who); if (payload.who !== 'me') throw new Error('who?'); }", envVars: { A: "b" } },
      name: "each minute", cron: "* * * * *", timezone: "Europe/Berlin", payload: { who: "me" },
    }));
    assert.match(job.schedule.id, /^sch-/);
    assert.equal(job.schedule.active, true);
    assert.deepEqual(job.schedule.runConfig.envVars, { A: "********" });
    await assert.rejects(freestyle.cron.schedule({ deploymentId: "d", cron: "* * * * *" }), (e) => e.constructor.name === "DeploymentNotFoundError");
    await assert.rejects(freestyle.cron.schedule({ run: { code: "1" }, cron: "never" }), /'cron'/);
    assert.deepEqual((await freestyle.cron.list()).jobs.map((j) => j.schedule.id), [job.schedule.id]);
    assert.deepEqual((await freestyle.cron.list({ deploymentId: "d" })).jobs, []);
  });

  it("execute at their time", { timeout: LONG }, async () => {
    let page;
    for (;;) {
      page = await job.executions({ limit: 1 });
      if (page.executions[0] && page.executions[0].status !== "running") break;
      await sleep(500);
    }
    const [x] = page.executions;
    assert.equal(x.status, "succeeded", x.lastError);
    assert.equal(new Date(x.runAt).getUTCSeconds(), 0);
    assert.equal(x.attempts, 1);
    assert.equal(x.attemptHistory.length, 1);
    const { logs } = await freestyle.serverless.runs.getLogs({ runId: x.instanceId });
    assert.deepEqual(logs.map((l) => l.message), ["tick me"]);
    const rate = await job.successRate({ start: new Date(Date.now() - 3600_000), end: new Date(Date.now() + 1000) });
    assert.ok(rate.total >= 1 && rate.failed === 0 && rate.successRate === 1, JSON.stringify(rate));
  });

  it("can be changed, paused and resumed", { timeout: SHORT }, async () => {
    await job.update({ name: "renamed", retries: 3 });
    await job.disable();
    let [now] = (await freestyle.cron.list()).jobs;
    assert.equal(now.schedule.name, "renamed");
    assert.equal(now.schedule.retries, 3);
    assert.equal(now.schedule.active, false);
    await job.enable();
    [now] = (await freestyle.cron.list()).jobs;
    assert.equal(now.schedule.active, true);
  });

  it("are what the command line shows", { timeout: SHORT }, async () => {
    const id = job.schedule.id;
    assert.match(await ok("cron", "list"), new RegExp(`${id}.*renamed.*Europe/Berlin.*active`));
    assert.match(await ok("cron", "disable", id), /Disabled/);
    assert.match(await ok("cron", "enable", id), /Enabled/);
    assert.match(await ok("cron", "executions", id), /succeeded: [1-9]/);
    const out = await ok("cron", "success-rate", id, "--start", new Date(Date.now() - 3600_000).toISOString(), "--end", new Date(Date.now() + 1000).toISOString());
    assert.match(out, /Failed: 0/);
    const r = await run("cron", "schedule", "--deployment-id", "d", "--cron", "* * * * *");
    assert.notEqual(r.code, 0);
    assert.match(r.out, /DEPLOYMENT_NOT_FOUND/);
  });
});
