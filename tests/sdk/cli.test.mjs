// SPDX-License-Identifier: Apache-2.0
// cli.test.mjs - the unmodified freestyle command line: VMs, snapshots and builds; logs are in logs.test.mjs
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { BOOT, SHORT, cleanUp, keep, keepSnapshot, raw } from "./client.mjs";

const cli = fileURLToPath(new URL("./node_modules/freestyle/cli.mjs", import.meta.url));

describe("the freestyle command line", () => {
  let home, vmId;

  /** Runs it in a home of its own: {code, out, err}. */
  function run(...args) {
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [cli, ...args], {
        cwd: home,
        env: { ...process.env, HOME: home },
        stdio: ["ignore", "pipe", "pipe"],
        timeout: SHORT,
      });
      let out = "", err = "";
      child.stdout.on("data", (d) => (out += d));
      child.stderr.on("data", (d) => (err += d));
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, out, err }));
    });
  }

  async function ok(...args) {
    const r = await run(...args);
    assert.equal(r.code, 0, `freestyle ${args.join(" ")}: ${r.out}${r.err}`);
    return r.out;
  }

  /** The VM's id in what it printed; a snapshot's has letters before it. */
  function vmIdIn(out) {
    const id = out.match(/(?<![a-z0-9-])[a-z0-9]{20}(?![a-z0-9])/)?.[0];
    assert.ok(id, out);
    return id;
  }

  before(() => {
    home = mkdtempSync(join(tmpdir(), "pando-cli-"));
  });
  after(async () => {
    rmSync(home, { recursive: true, force: true });
    await cleanUp();
  }, { timeout: SHORT });

  it("says who it is", { timeout: SHORT }, async () => {
    assert.match(await ok("whoami"), /[0-9a-f]{8}-[0-9a-f]{4}-4/);
  });

  it("creates a VM and runs a command in it", { timeout: BOOT }, async () => {
    const out = await ok("vm", "create", "--exec", "echo from-the-guest");
    vmId = keep(vmIdIn(out));
    assert.match(out, /from-the-guest/);
    assert.match(await ok("vm", "list"), new RegExp(vmId));
    assert.match(await ok("vm", "exec", vmId, "uname -s"), /Linux/);
    const json = await ok("vm", "exec", vmId, "echo out; echo err >&2; exit 3", "--json");
    assert.deepEqual(JSON.parse(json.slice(json.indexOf("{"))), { stdout: "out\n", stderr: "err\n", statusCode: 3 });
  });

  it("takes packages, a name and a domain, and deletes on request", { timeout: BOOT }, async () => {
    const out = await ok("vm", "create", "--name", "cli", "--apt", "python3", "git", "--domain", "cli-test.style.dev",
      "--port", "8080", "--exec", "command -v git", "--delete");
    const id = keep(vmIdIn(out));
    assert.match(out, /https:\/\/cli-test\.style\.dev/);
    assert.match(out, /\/usr\/bin\/git/);
    assert.ok(!(await ok("vm", "list", "--json")).includes(id));
    assert.deepEqual((await raw("GET", "/domains/v1/mappings?domain=cli-test.style.dev")).json, []); // went with it
  });

  it("lists, renames and deletes snapshots", { timeout: SHORT }, async () => {
    const made = await raw("POST", `/v1/vms/${vmId}/snapshot`, { body: { name: "cli" } });
    const id = keepSnapshot(made.json.snapshotId);
    assert.match(await ok("vm", "snapshot", "list"), new RegExp(id));
    await ok("vm", "snapshot", "rename", id, "--name", "better");
    assert.match(await ok("vm", "snapshot", "get", id), /better/);
    assert.ok(JSON.parse(await ok("vm", "snapshot", "list", "--json")).snapshots.some((n) => n.snapshotId === id));
    const booted = keep(vmIdIn(await ok("vm", "snapshot", "boot", id)));
    assert.match(await ok("vm", "exec", booted, "echo booted"), /booted/);
    const child = keep(vmIdIn(await ok("vm", "create", "--snapshot", id)));
    const listed = JSON.parse(await ok("vm", "list", "--json")).vms.find((v) => v.id === child);
    assert.equal(listed.snapshotId, id);
    await ok("vm", "delete", child);
    await ok("vm", "delete", booted);
    await ok("vm", "snapshot", "delete", id);
    assert.match(await ok("vm", "snapshot", "list", "--show-deleted"), new RegExp(id));
  });

  it("shows builds of VMs and snapshots", { timeout: BOOT }, async () => {
    const spec = { additionalFiles: { "/srv/cli.txt": { content: "from the command line" } } };
    const made = await raw("POST", "/v1/vms", { body: { spec } });
    const id = keep(made.json.id);
    assert.match(await ok("vm", "build", "get", id), /succeeded/);
    assert.match(await ok("vm", "build", "phases", id), /bph-[a-z0-9]{20}/);
    await ok("vm", "build", "wait", id);
    await ok("vm", "delete", id);
    const snap = keepSnapshot((await raw("POST", "/v1/vms/snapshots", { body: { name: "built", spec } })).json.snapshotId);
    assert.match(await ok("vm", "snapshot", "build", "get", snap), /succeeded/);
    assert.match(await ok("vm", "snapshot", "build", "phases", snap), /freeze/);
    assert.match(await ok("vm", "snapshot", "build", "wait", snap), /succeeded/);
    const none = await run("vm", "snapshot", "build", "debug", snap);
    assert.notEqual(none.code, 0);
    assert.match(none.err, /nothing to debug/);
    await ok("vm", "snapshot", "delete", snap);
  });

  it("deletes the VM, and fails when it is gone", { timeout: SHORT }, async () => {
    await ok("vm", "delete", vmId);
    const r = await run("vm", "exec", vmId, "true");
    assert.notEqual(r.code, 0);
    assert.match(r.out + r.err, /VM_DELETED/);
  });
});
