// SPDX-License-Identifier: Apache-2.0
// runs.test.mjs - freestyle.serverless.runs and `freestyle run`
//
// PANDO_RUN_MODULE names a package that the guests' registry has, which exports a number; without it the tests of packages skip.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { BOOT, SHORT, freestyle, raw } from "./client.mjs";

const cli = fileURLToPath(new URL("./node_modules/freestyle/cli.mjs", import.meta.url));
const runs = freestyle.serverless.runs;
const module = process.env.PANDO_RUN_MODULE;

async function fails(code, config, name, pattern) {
  const e = await runs.create({ code, ...config }).then(() => null, (e) => e);
  assert.ok(e, "it did not fail");
  assert.equal(e.name ?? e.constructor.name, name, String(e));
  assert.match(String(e.message), pattern);
  return e;
}

describe("runs of scripts", () => {
  it("answers what the default export returns, and what it printed", { timeout: SHORT }, async () => {
    const r = await runs.create({
      code: `
        import { platform } from "node:os";
        console.log("on", platform());
        console.error({ a: 1 });
        process.stdout.write("plain\\n");
        export default async () => ({ sum: 6 * 7, who: process.env.WHO, none: undefined });`,
      envVars: { WHO: "me" },
    });
    assert.deepEqual(r.result, { sum: 42, who: "me" });
    assert.deepEqual(r.logs.filter((l) => l.message !== "plain"), [
      { message: "on linux", type: "log" }, { message: "{ a: 1 }", type: "error" },
    ]);
    assert.ok(r.logs.some((l) => l.message === "plain" && l.type === "log"));
  });

  it("takes TypeScript, values that are no objects, and exports that are no functions", { timeout: SHORT }, async () => {
    const typed = await runs.create({ code: "enum E { A = 4 }\ninterface P { n: number }\nexport default (): number => ({ n: E.A } as P).n;" });
    assert.equal(typed.result, 4);
    assert.equal((await runs.create({ code: "export default 'text'" })).result, "text");
    assert.equal((await runs.create({ code: "console.log(1)" })).result, null);
  });

  it("says what a script threw, with its logs", { timeout: SHORT }, async () => {
    const e = await fails("console.log('before'); export default () => { throw new TypeError('no such thing'); }", {}, "ExecutionErrorError", /TypeError: no such thing/);
    assert.deepEqual(e.body.logs, [{ message: "before", type: "log" }]);
    assert.match(e.body.stack, /script:1/);
    assert.match(e.body.runId, /^run-/);
    await fails("export default () => {", {}, "ExecutionErrorError", /SyntaxError/);
    await fails("export default () => 1n", {}, "ExecutionErrorError", /BigInt/);
    await fails("process.exit(3)", {}, "ExecutionErrorError", /process\.exit\(3\)/);
    assert.equal((await runs.create({ code: "process.exit(0)" })).result, null);
  });

  it("ends a script after its timeout", { timeout: SHORT }, async () => {
    await fails("export default () => new Promise(() => setInterval(() => {}, 1000))", { timeout: 1 }, "ExecutionErrorError", /timeout of 1 s/);
    await fails("for (;;);", { timeout: 1 }, "ExecutionErrorError", /timeout of 1 s/);
  });

  it("gives two runs different random numbers and no files of each other", { timeout: SHORT }, async () => {
    const code = `
      import fs from "node:fs"; import { randomUUID } from "node:crypto";
      const was = fs.existsSync("/tmp/was"); fs.writeFileSync("/tmp/was", "");
      export default () => ({ was, a: Math.random(), b: randomUUID() });`;
    const [x, y] = [(await runs.create({ code })).result, (await runs.create({ code })).result];
    assert.equal(x.was || y.was, false);
    assert.notEqual(x.a, y.a);
    assert.notEqual(x.b, y.b);
  });

  it("lets out what its permissions allow", { timeout: SHORT }, async () => {
    const code = `
      import dns from "node:dns/promises";
      export default async () => { try { await dns.lookup("blocked.example.test"); return "found"; } catch (e) { return e.code; } };`;
    const r = await runs.create({ code, networkPermissions: [{ action: "allow", query: "other.example.test", behavior: "exact" }] });
    assert.notEqual(r.result, "found");
    await fails("1", { networkPermissions: [{ action: "deny", query: "(a|b)+", behavior: "regex" }] }, "BadRequestError", /regular expressions/);
    await fails("1", { proxy: "http://127.0.0.1:1" }, "BadRequestError", /proxy/);
  });

  it("lists runs page by page, shows them, and keeps nothing of those that ask for that", { timeout: SHORT }, async () => {
    const code = "console.log('a line'); export default () => 7";
    const kept = await runs.create({ code, envVars: { A: "b" }, tags: ["t"] });
    const secret = await runs.create({ code, envVars: { A: "b" }, zeroRetention: true });
    const first = await runs.list({ limit: 1 });
    assert.equal(first.runs.length, 1);
    assert.equal(first.runs[0].runId, secret.runId);
    assert.equal(first.runs[0].status, "complete");
    const second = await runs.list({ limit: 1, cursor: first.nextCursor });
    assert.equal(second.runs[0].runId, kept.runId);
    const all = [];
    for (let cursor; ;) {
      const page = await runs.list({ limit: 3, cursor });
      all.push(...page.runs);
      if (!(cursor = page.nextCursor)) break;
    }
    assert.equal(all.length, first.totalCount);
    const shown = (await raw("GET", `/execute/v1/deployments/${kept.runId}`)).json;
    assert.deepEqual(shown.metadata.envVars, { A: "b" });
    assert.equal(shown.code.code, code);
    const out = (await raw("GET", `/execute/v1/deployments/${kept.runId}/output`)).json;
    assert.deepEqual(out, { status: "succeeded", result: 7, error: null, logs: [{ message: "a line", type: "log" }] });
    assert.deepEqual((await raw("GET", `/execute/v1/deployments/${secret.runId}`)).json.code, null);
    assert.deepEqual((await raw("GET", `/execute/v1/deployments/${secret.runId}/output`)).json.logs, []);
    const logs = await runs.getLogs({ runId: kept.runId });
    assert.deepEqual(logs.logs.map((l) => [l.message, l.resourceType, l.resourceId]), [["a line", "run", kept.runId]]);
    assert.equal((await raw("GET", "/execute/v1/deployments/nobody")).status, 404);
  });

  it("leaves no VM behind", { timeout: SHORT }, async () => {
    const { vms } = await freestyle.vms.list();
    assert.deepEqual(vms.filter((v) => v.name?.startsWith("run-")), []);
  });

  it("installs packages once", { timeout: BOOT, skip: !module }, async () => {
    const code = `import n from "${module}"; export default () => n;`;
    const a = await runs.create({ code, nodeModules: { [module]: "1.0.0" } });
    const builds = (await raw("GET", "/v1/vms/builds")).json?.builds?.length;
    const b = await runs.create({ code, nodeModules: { [module]: "1.0.0" } });
    assert.equal(typeof a.result, "number");
    assert.equal(b.result, a.result);
    assert.equal((await raw("GET", "/v1/vms/builds")).json?.builds?.length, builds);
    const inferred = await runs.create({ code, inferNodeModules: true });
    assert.equal(inferred.result, a.result);
    await fails("1", { nodeModules: { "pando-there-is-no-such-package": "1.0.0" } }, "NodeModulesInstallFailedError", /pando-node-modules/);
  });

  it("is what the command line runs", { timeout: SHORT }, async () => {
    const home = mkdtempSync(join(tmpdir(), "pando-run-"));
    try {
      const file = join(home, "hello.ts");
      writeFileSync(file, "console.log('hello', process.env.WHO); export default (): number => 42;");
      const r = await new Promise((resolve, reject) => {
        const child = spawn(process.execPath, [cli, "run", "-f", file, "-e", "WHO=you"], { cwd: home, env: { ...process.env, HOME: home }, stdio: ["ignore", "pipe", "pipe"], timeout: SHORT });
        let out = "";
        child.stdout.on("data", (d) => (out += d));
        child.stderr.on("data", (d) => (out += d));
        child.on("error", reject);
        child.on("close", (code) => resolve({ code, out }));
      });
      assert.equal(r.code, 0, r.out);
      assert.match(r.out, /Run ID: run-[a-z0-9]{20}/);
      assert.match(r.out, /Output: hello you\n42/);
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  });
});
