// SPDX-License-Identifier: Apache-2.0
// deploy.test.mjs - freestyle.serverless.deployments, `freestyle deploy`, `freestyle cron schedule` and `freestyle logs` for them
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { SHORT, freestyle, raw } from "./client.mjs";

const cli = fileURLToPath(new URL("./node_modules/freestyle/cli.mjs", import.meta.url));
const LONG = 280_000;
const HOST = "from-the-sdk.style.dev";
const code = `
import http from "node:http";
const ticks = [];
http.createServer((req, res) => {
  let body = "";
  req.on("data", (d) => (body += d)).on("end", () => {
    if (req.url === "/tick") { ticks.push(JSON.parse(body)); console.log("tick of", JSON.parse(body).who); }
    res.setHeader("content-type", "application/json");
    res.end(JSON.stringify({ word: process.env.WORD, url: req.url, method: req.method, body, given: req.headers["x-given"], ticks }));
  });
}).listen(Number(process.env.PORT));
`;

const byName = (host, path = "/") => new Promise((resolve, reject) => {
  const at = new URL(process.env.PANDO_EDGE_HTTP);
  request({ host: at.hostname, port: at.port, path, headers: { host } }, (res) => {
    let text = "";
    res.on("data", (d) => (text += d)).on("end", () => resolve({ status: res.statusCode, text }));
  }).on("error", reject).end();
});

describe("deployments", () => {
  const made = [];
  let home, deployment, id;

  const ok = (...args) => new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [cli, ...args], { cwd: home, env: { ...process.env, HOME: home }, stdio: ["ignore", "pipe", "pipe"], timeout: LONG });
    let out = "";
    child.stdout.on("data", (d) => (out += d));
    child.stderr.on("data", (d) => (out += d));
    child.on("error", reject);
    child.on("close", (status) => (status ? reject(new Error(`freestyle ${args.join(" ")}: ${out}`)) : resolve(out)));
  });

  before(() => {
    home = mkdtempSync(join(tmpdir(), "pando-deploy-"));
  });
  after(async () => {
    for (const d of made) await raw("DELETE", `/web/v1/deployments/${d}`);
    rmSync(home, { recursive: true, force: true });
  });

  it("are made of code", { timeout: LONG }, async () => {
    const r = await freestyle.serverless.deployments.create({ code, envVars: { WORD: "one" }, domains: [HOST], waitForRollout: true, timeoutMs: 20_000 });
    ({ deployment, deploymentId: id } = r);
    made.push(id);
    assert.deepEqual(r.domains, [HOST]);
    const { info, events } = await deployment.getDetails();
    assert.equal(info.deploymentId, id);
    assert.equal(info.state, "deployed");
    assert.equal(info.timeout, 20_000);
    assert.deepEqual(info.domains, [HOST]);
    assert.ok(events.length > 0);
    const list = await freestyle.serverless.deployments.list({ search: HOST });
    assert.deepEqual(list.entries.map((e) => e.deploymentId), [id]);
    assert.equal(list.entries[0].timeout, "20000");
  });

  it("answer fetch() and requests for their names", { timeout: SHORT }, async () => {
    const r = await deployment.fetch("https://example.org/api?x=1", { method: "POST", headers: { "X-Given": "yes" }, body: "text" });
    assert.equal(r.headers.get("content-type"), "application/json");
    assert.deepEqual(await r.json(), { word: "one", url: "/api?x=1", method: "POST", body: "text", given: "yes", ticks: [] });
    assert.equal((await deployment.fetch("/x")).status, 200);
    assert.equal(JSON.parse((await byName(HOST, "/y")).text).url, "/y");
  });

  it("are called by a schedule of the CLI", { timeout: LONG }, async () => {
    await ok("cron", "schedule", "--deployment-id", id, "--cron", "* * * * *", "--path", "/tick", "--payload", '{"who":"me"}');
    const { jobs } = await freestyle.cron.list({ deploymentId: id });
    assert.equal(jobs.length, 1);
    assert.equal(jobs[0].schedule.deploymentId, id);
    assert.match(await ok("cron", "list", "--deployment-id", id), new RegExp(id));
    for (let page; ;) {
      page = await jobs[0].executions({ limit: 1 });
      if (page.executions[0]?.status === "succeeded") break;
      assert.notEqual(page.executions[0]?.status, "failed", page.executions[0]?.lastError);
      await sleep(1000);
    }
    assert.equal((await jobs[0].successRate({ start: new Date(Date.now() - 3600_000), end: new Date() })).failed, 0);
    await raw("DELETE", `/v1/cron/schedules/${jobs[0].schedule.id}`);
    assert.match(await ok("logs", "--deployment", id), /tick of me/);
    const { logs } = await deployment.getLogs();
    assert.ok(logs.some((l) => l.message === "tick of me" && l.resourceType === "deployment"));
  });

  it("are made of a directory by the CLI, with packages, and take over a name", { timeout: LONG }, async () => {
    const dir = join(home, "site");
    mkdirSync(dir);
    const name = process.env.PANDO_RUN_MODULE;
    writeFileSync(join(dir, "package.json"), JSON.stringify({ type: "module", dependencies: { [name]: "1.0.0" }, scripts: { start: "node serve.js" } }));
    writeFileSync(join(dir, "serve.js"), `import http from "node:http"; import n from "${name}";
      http.createServer((req, res) => res.end(JSON.stringify({ n, word: process.env.WORD }))).listen(process.env.PORT);`);
    const out = await ok("deploy", "--dir", dir, "--domain", HOST, "--env", "WORD=two");
    made.push(out.match(/Deployment ID: (\S+)/)[1]);
    assert.deepEqual(JSON.parse((await byName(HOST)).text), { n: 43, word: "two" });
    assert.deepEqual((await deployment.getDetails()).info.domains, []);
    await ok("domains", "map", HOST, "--deployment-id", id);
    assert.equal(JSON.parse((await byName(HOST)).text).word, "one");
    assert.match(await ok("domains", "mappings"), new RegExp(id));
    await ok("domains", "unmap", HOST);
  });

  it("say why they fail", { timeout: LONG }, async () => {
    await assert.rejects(freestyle.serverless.deployments.create({ code: "throw new Error('no such luck')" }), (e) => e.constructor.name === "DeploymentFailedError" && /no such luck/.test(e.message));
    const { entries } = await freestyle.serverless.deployments.list();
    made.push(entries[0].deploymentId);
    assert.equal(entries[0].state, "failed");
    await assert.rejects(freestyle.serverless.deployments.create({ files: [{ path: "a.txt", content: "" }] }), (e) => e.constructor.name === "NoEntrypointFoundError");
    await assert.rejects(freestyle.serverless.deployments.create({ code, domains: ["not-mine.example.org"] }), /not-mine/);
    await assert.rejects(freestyle.serverless.deployments.ref({ deploymentId: "dpl-none" }).getDetails(), (e) => e.constructor.name === "DeploymentNotFoundError");
  });
});
