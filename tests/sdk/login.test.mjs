// SPDX-License-Identifier: Apache-2.0
// login.test.mjs - `freestyle login` of the unmodified command line, confirmed by a web session; then it works without an API key
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { BOOT, SHORT, cleanUp, keep, key, raw, url } from "./client.mjs";

const cli = fileURLToPath(new URL("./node_modules/freestyle/cli.mjs", import.meta.url));

describe("freestyle login", () => {
  let home, session;

  /** Starts it without an API key; onOut sees what it has printed so far. */
  function run(args, onOut = () => {}) {
    return new Promise((resolve, reject) => {
      const env = { ...process.env, HOME: home, PATH: `${home}:${process.env.PATH}`, FREESTYLE_STACK_API_URL: url,
        FREESTYLE_STACK_APP_URL: url, FREESTYLE_DASHBOARD_URL: url };
      delete env.FREESTYLE_API_KEY;
      const child = spawn(process.execPath, [cli, ...args], { cwd: home, env, stdio: ["ignore", "pipe", "pipe"], timeout: SHORT });
      let out = "", err = "";
      child.stdout.on("data", (d) => onOut((out += d)));
      child.stderr.on("data", (d) => (err += d));
      child.on("error", reject);
      child.on("close", (code) => resolve({ code, out, err }));
    });
  }

  async function ok(...args) {
    const r = await run(args);
    assert.equal(r.code, 0, `freestyle ${args.join(" ")}: ${r.out}${r.err}`);
    return r.out;
  }

  /** Signs in as a page would, and decides about the code in what the CLI printed. */
  async function decide(out, verb) {
    const page = out.match(/http\S+\/handler\/cli-auth-confirm\?login_code=\S+/)[0];
    const at = await fetch(page, { redirect: "manual" });
    assert.equal(at.status, 302);
    const code = at.headers.get("location").match(/^\/ui\/confirm\/(.*)$/)[1];
    const seen = await raw("GET", `/v1/login-requests/by-code/${code}`, { auth: null, headers: session });
    assert.equal(seen.json.client, "freestyle CLI", seen.text);
    const done = await raw("POST", `/v1/login-requests/by-code/${code}/${verb}`, { auth: null, headers: session });
    assert.equal(done.status, 200, done.text);
  }

  async function logIn(verb) {
    let decided;
    const r = await run(["login", "--force"], (out) => {
      if (!decided && /login_code=\S+\s/.test(out)) decided = decide(out, verb);
    });
    await decided;
    return r;
  }

  before(async () => {
    home = mkdtempSync(join(tmpdir(), "pando-login-"));
    writeFileSync(join(home, "xdg-open"), "#!/bin/sh\n"); // which the command line wants to start
    chmodSync(join(home, "xdg-open"), 0o755);
    const r = await raw("POST", "/v1/session", { auth: null, body: { credential: key } });
    session = { cookie: r.headers.get("set-cookie").split(";")[0], "x-pando-csrf": r.json.csrf };
  });
  after(async () => {
    for (const k of (await raw("GET", "/v1/keys")).json.keys)
      if (k.name === "freestyle CLI") await raw("DELETE", `/v1/keys/${k.id}`);
    await raw("DELETE", "/v1/session", { auth: null, headers: session });
    rmSync(home, { recursive: true, force: true });
    await cleanUp();
  }, { timeout: SHORT });

  it("is refused when somebody denies it", { timeout: SHORT }, async () => {
    const r = await logIn("deny");
    assert.notEqual(r.code, 0, r.out);
    assert.match(r.out + r.err, /denied/);
  });

  it("logs in when somebody confirms it", { timeout: SHORT }, async () => {
    const r = await logIn("confirm");
    assert.equal(r.code, 0, r.out + r.err);
    const kept = JSON.parse(readFileSync(join(home, ".freestyle/stack-auth.json"), "utf8"));
    assert.equal(kept.defaultTeamId, (await raw("GET", "/auth/v1/whoami")).json.accountId);
  });

  it("works without an API key", { timeout: BOOT }, async () => {
    assert.match(await ok("whoami"), /[0-9a-f]{8}-[0-9a-f]{4}-4/);
    const out = await ok("vm", "create", "--exec", "echo by-login");
    const vmId = keep(out.match(/(?<![a-z0-9-])[a-z0-9]{20}(?![a-z0-9])/)?.[0]);
    assert.match(out, /by-login/);
    assert.match(await ok("vm", "list"), new RegExp(vmId));
    assert.match(await ok("vm", "exec", vmId, "uname -s"), /Linux/);
    await ok("vm", "delete", vmId);
    const bad = await run(["vm", "exec", "nosuchvm", "true"]);
    assert.notEqual(bad.code, 0);
  });

  it("ends when its key is revoked", { timeout: SHORT }, async () => {
    const mine = (await raw("GET", "/v1/keys")).json.keys.find((k) => k.name === "freestyle CLI");
    await raw("DELETE", `/v1/keys/${mine.id}`);
    let asked;
    await run(["whoami"], (out) => { // it asks for another login, which is denied
      if (!asked && /login_code=\S+\s/.test(out)) asked = decide(out, "deny");
    });
    assert.ok(asked);
    await asked;
  });
});
