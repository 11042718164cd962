// SPDX-License-Identifier: Apache-2.0
// logs.test.mjs - requests that go to the background, and the logs of a VM: SDK, CLI and bare HTTP on one VM
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { request } from "node:http";
import { after, describe, it } from "node:test";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { BOOT, SHORT, cleanUp, freestyle, keep, raw, sh } from "./client.mjs";

const cli = fileURLToPath(new URL("./node_modules/freestyle/cli.mjs", import.meta.url));
const AFTER = "x-freestyle-background-after-secs";
const ID = "x-freestyle-background-request-id";

/** A request to a name, by the edge's plain port. */
const visit = (host, path) => new Promise((resolve, reject) => {
  request({ host: "127.0.0.1", port: process.env.PANDO_EDGE_HTTP_PORT, path, headers: { host } }, (r) => r.resume().on("end", resolve))
    .on("error", reject).end();
});

/** Polls as the SDK does until the answer is not 202. */
async function result(id) {
  for (;;) {
    const r = await raw("GET", `/auth/v1/background-requests/${id}`);
    if (r.status !== 202) return r;
    assert.equal(r.headers.get(ID), id);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

describe("background requests and logs", () => {
  let vmId, requestId;

  after(cleanUp, { timeout: SHORT });

  it("answers 202 and goes on", { timeout: BOOT }, async () => {
    const r = await raw("POST", "/v1/vms", { body: { idleTimeoutSeconds: null }, headers: { [AFTER]: "0" } });
    assert.equal(r.status, 202, r.text);
    requestId = r.headers.get(ID);
    assert.match(requestId, /^ri-[a-z0-9]{20}$/);
    assert.equal(r.json.requestId, requestId);
    const done = await result(requestId);
    assert.equal(done.status, 200, done.text);
    vmId = keep(done.json.id);
    assert.deepEqual(done.json.domains, []);
    assert.equal((await result(requestId)).json.id, vmId);
  });

  it("shows what happened in it", { timeout: SHORT }, async () => {
    const { logs } = (await raw("GET", `/observability/v1/logs?requestId=${requestId}`)).json;
    assert.ok(logs.some((l) => l.resourceId === vmId && /created/.test(l.message)), JSON.stringify(logs));
    assert.ok(logs.some((l) => /is done/.test(l.message)), JSON.stringify(logs));
    for (const l of logs) assert.ok(!Number.isNaN(Date.parse(l.timestamp)));
  });

  it("fails with the code of the failure", { timeout: SHORT }, async () => {
    const body = { spec: { snapshotId: "sc-" + "a".repeat(20) } };
    const r = await raw("POST", "/v1/vms", { body, headers: { [AFTER]: "0" } });
    const end = r.status === 202 ? await result(r.headers.get(ID)) : r;
    assert.equal(end.status, 404, end.text);
    assert.equal(end.json.code, "SNAPSHOT_NOT_FOUND");
    const lost = await raw("GET", "/auth/v1/background-requests/ri-" + "a".repeat(20));
    assert.equal(lost.status, 404);
    assert.equal(lost.json.code, "NOT_FOUND");
  });

  it("works with the SDK's logger", { timeout: BOOT }, async () => {
    const lines = [];
    const { vm } = await freestyle.vms.create({ idleTimeoutSeconds: null, logger: (l) => lines.push(l) });
    keep(vm.vmId);
    await vm.delete();
  });

  it("gives the VM's own lines to the SDK", { timeout: SHORT }, async () => {
    const vm = freestyle.vms.ref({ vmId });
    const { logs } = await vm.getLogs();
    assert.ok(logs.some((l) => /created from/.test(l.message)), JSON.stringify(logs));
    assert.ok(logs.every((l) => l.resourceId === vmId));
    assert.equal((await vm.getLogs({ search: "CREATED FROM" })).logs.length, 1);
    assert.equal((await vm.getLogs({ startTime: "2999-01-01T00:00:00Z" })).logs.length, 0);
    const page = await vm.getLogs({ pageSize: 1 });
    assert.equal(page.logs.length, 1);
    assert.ok(page.nextPageToken);
  });

  it("reads a service's journal, and wakes nobody for it", { timeout: SHORT }, async () => {
    const vm = freestyle.vms.ref({ vmId });
    await sh(vm, "systemd-run --unit=talker --wait sh -c 'echo said-by-the-service'");
    const { logs } = await vm.getLogs({ vmService: "talker" });
    const line = logs.find((l) => l.message === "said-by-the-service");
    assert.ok(line, JSON.stringify(logs));
    assert.equal(line.vmService, "talker");
    await vm.suspend();
    assert.equal((await vm.getLogs({ vmService: "talker" })).logs.length, 0);
    assert.equal((await vm.getInfo()).state, "suspended");
    assert.ok((await vm.getLogs()).logs.some((l) => /state: suspended/.test(l.message)));
  });

  it("works from the command line", { timeout: SHORT }, async () => {
    const home = mkdtempSync(join(tmpdir(), "pando-logs-"));
    try {
      const run = (...args) => promisify(execFile)(process.execPath, [cli, "logs", ...args],
        { cwd: home, env: { ...process.env, HOME: home }, timeout: SHORT });
      assert.match((await run("--vm", vmId, "--since", "1h")).stdout, /created from/);
      assert.match((await run("--request", requestId, "--json")).stdout, /is done/);
      const name = `${vmId}.style.dev`;
      await visit(name, "/seen-by-the-cli?token=secret");
      let shown = "";
      while (!shown.includes("seen-by-the-cli")) ({ stdout: shown } = await run("--domain", name));
      assert.match(shown, new RegExp(`127\\.0\\.0\\.1 GET ${name}/seen-by-the-cli HTTP/1\\.1 \\d+, .*woke the VM`));
      assert.ok(!shown.includes("secret"));
      assert.ok(!(await run("--domain", "nobody.style.dev")).stdout.includes("GET"));
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  });

  it("does not make a second VM for the same Idempotency-Key", { timeout: BOOT }, async () => {
    const call = () => raw("POST", "/v1/vms", { body: {}, headers: { "Idempotency-Key": requestId } });
    const [a, b] = await Promise.all([call(), call()]);
    assert.equal(a.status, 200, a.text);
    keep(a.json.id);
    assert.equal(b.json.id, a.json.id);
  });
});
