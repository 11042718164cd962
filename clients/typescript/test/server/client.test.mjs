// SPDX-License-Identifier: Apache-2.0
// The client against a server with real VMs; run by tests/e2e/test_typescript_client.py, which sets PANDO_URL and PANDO_API_KEY
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { ApiError, CommandFailed, Pando } from "pando";

const WAIT = { timeoutMs: 120_000 };
const warnings = [];
const pando = new Pando({ onWarning: (w) => warnings.push(w) });
let vm;

async function all(iterable) {
  const out = [];
  for await (const x of iterable) out.push(x);
  return out;
}

before(async () => {
  vm = await pando.create({ name: "typescript", idleTimeoutSeconds: null, selfAccess: true });
});
after(async () => {
  await vm?.delete();
});

test("commands: to their end, as events, left running", async () => {
  const r = await vm.exec(["sh", "-c", "cat; echo \"$A $PWD\" >&2; exit 3"], { stdin: new Uint8Array([0, 255, 10]), env: { A: "it's" }, cwd: "/tmp" });
  assert.deepEqual([r.exitCode, [...r.stdoutBytes], r.stderr], [3, [0, 255, 10], "it's /tmp\n"]);
  await assert.rejects(vm.exec("exit 4", { check: true }), (e) => e instanceof CommandFailed && e.result.exitCode === 4);
  const types = (await all(vm.execStream("echo ä; echo b >&2"))).map((e) => e.type);
  assert.equal(types[0], "started");
  assert.equal(types.at(-1), "exit");
  assert.deepEqual([...new Set(types.slice(1, -1))].sort(), ["stderr", "stdout"]);
  for await (const e of vm.execStream("echo $$ >/tmp/pid; echo up; exec sleep 600")) if (e.type === "stdout") break; // ends it
  await vm.exec("while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.1; done", { check: true, ...WAIT });
  const p = await vm.spawn("read x; echo got $x; exit 5", { openStdin: true });
  await p.write("this\n", { eof: true });
  assert.equal(await p.wait(), 5);
  assert.equal(new TextDecoder().decode(await p.output()), "got this\n");
  assert.equal((await p.info()).running, false);
  assert.equal((await vm.asUser("nobody").exec("id -un")).stdout, "nobody\n");
});

test("errors and warnings", async () => {
  const e = await pando.connect("0".repeat(20)).catch((x) => x);
  assert.ok(e instanceof ApiError);
  assert.deepEqual([e.code, e.status], ["VM_NOT_FOUND", 404]);
  await vm.change({ nmae: "x" });
  assert.match(warnings.join(), /nmae/);
});

test("files as streams, a watch", async () => {
  const big = new Uint8Array(300_000).map((_, i) => i * 7);
  await vm.files.write("/root/ts/big", new Blob([big]).stream(), { mode: 0o600 });
  const parts = [];
  for await (const piece of await vm.files.stream("/root/ts/big")) parts.push(piece);
  assert.deepEqual(Buffer.concat(parts), Buffer.from(big));
  assert.deepEqual(await vm.files.read("/root/ts/big", { offset: 10, length: 3 }), big.slice(10, 13));
  await vm.files.write("/root/ts/a", "text");
  assert.equal(await vm.files.readText("/root/ts/a"), "text");
  assert.deepEqual((await vm.files.list("/root/ts")).map((f) => f.name).sort(), ["a", "big"]);
  await vm.files.writeTar("/root/copy", await vm.files.readTar("/root/ts", { gzip: true }), { gzip: true });
  assert.equal(await vm.files.readText("/root/copy/a"), "text");
  await vm.files.remove("/root/copy", { recursive: true });
  await assert.rejects(vm.files.read("/root/copy/a"), (e) => e instanceof ApiError && e.status === 404);
  const made = (async () => {
    for await (const c of vm.files.watch("/root/ts")) if (c.path === "/root/ts/new") return c.type;
  })();
  const touching = (async () => {
    for (let over = false; !over; ) { // the watch may begin later
      await vm.exec("rm -f /root/ts/new; touch /root/ts/new");
      over = await Promise.race([made.then(() => true), new Promise((done) => setTimeout(done, 300, false))]);
    }
  })();
  assert.ok(["create", "modify", "delete"].includes(await made));
  await touching;
});

test("code keeps its variables, contexts, rich results", async () => {
  (await vm.code.run("x = 41")).check();
  const heard = [];
  const cell = await vm.code.run("print('hi'); x + 1", { onStdout: (t) => heard.push(t) });
  assert.deepEqual([cell.text, cell.stdout, heard.join("")], ["42", "hi\n", "hi\n"]);
  assert.equal((await vm.code.run("1 / 0")).error.name, "ZeroDivisionError");
  const shown = (await vm.code.run("from IPython.display import HTML; HTML('<b>b</b>')")).results.at(-1);
  assert.equal(shown.html, "<b>b</b>");
  const own = await vm.code.createContext("python", { cwd: "/tmp" });
  let last;
  for await (const e of own.stream("import os, time; print(os.getcwd(), 'x' in globals(), flush=True); time.sleep(600)", WAIT)) {
    if (e.type === "stdout") await own.interrupt();
    if (e.type === "end") last = e.cell;
  }
  assert.deepEqual([last.stdout, last.error.name], ["/tmp False\n", "KeyboardInterrupt"]);
  await own.delete();
});

test("fork, diff, snapshot, rewind, tree; events as they happened", async () => {
  const before = await all(pando.events({ follow: false }));
  assert.equal(before[0].type, "hello");
  const [child] = await vm.fork(1);
  try {
    assert.equal((await child.code.run("x")).text, "41");
    await child.files.write("/root/ts/only", "here");
    assert.deepEqual((await all(child.diff(vm, { path: "/root/ts" }))).map((c) => [c.path, c.change]), [["/root/ts/only", "added"]]);
    const point = await child.snapshot("point");
    await child.files.remove("/root/ts/only");
    assert.equal(await child.rewind(null, { keep: false }), undefined); // its newest point
    assert.equal(await child.files.readText("/root/ts/only"), "here");
    await child.files.remove("/root/ts/only");
    const present = await child.rewind(point);
    assert.equal(await child.files.readText("/root/ts/only"), "here");
    assert.ok((await child.tree()).nodes.some((n) => n.id === child.id));
    await present.delete();
    await point.delete();
  } finally {
    await child.delete();
  }
  const types = [];
  for await (const e of pando.events({ after: before[0].id, types: ["vm.*", "snapshot.*"] })) {
    types.push(e.type);
    if (e.type === "vm.deleted" && e.data.vm.id === child.id) break;
  }
  assert.ok(types.includes("vm.forked") || types.includes("vm.created"), types.join());
});

test("egress, stats, logs", async () => {
  assert.equal((await vm.egress.get()).mode, "open");
  const shown = await vm.egress.set({ mode: "rules", rules: [{ action: "allow", domain: "example.com", ports: [443] }] });
  assert.equal(shown.rules[0].domain, "example.com");
  assert.ok(Array.isArray(await vm.egress.blocked()));
  await vm.egress.set({ mode: "open" });
  for await (const s of vm.stats({ intervalMs: 200 })) {
    assert.equal(typeof s, "object");
    break;
  }
  await all(pando.logs({ vmId: vm.id, pageSize: 10 }));
});

test("a terminal: resize, detach, attach, suspend under it, close", async () => {
  const t = await vm.pty({ command: "bash --norc", cols: 100, rows: 30, sessionId: "ts" });
  t.write("stty size; v=kept\n");
  await t.expect("30 100", WAIT);
  t.resize(90, 20);
  t.write("stty size\n");
  await t.expect("20 90", WAIT);
  t.detach();
  assert.equal(await t.read().then(() => t.exitCode), undefined);
  const again = await vm.attachPty("ts");
  const back = new Promise((done) => (again.onReconnect = done));
  await vm.suspend();
  await back; // attaching woke it
  again.write("echo $v-still\n");
  await again.expect("kept-still", WAIT);
  assert.equal((await vm.ptySessions()).length, 1);
  again.write("exit 6\n");
  assert.equal(await again.wait(), 6);
});

test("a repository without a clone", async () => {
  const repo = await pando.createRepo({ name: "ts" });
  try {
    const commit = await repo.commit("first", { "a/b.txt": "text", "raw.bin": new Uint8Array([0, 255]) }, { branch: "main", author: { name: "A", email: "a@example.com" } });
    assert.ok(commit.sha);
    assert.deepEqual([...(await repo.read("raw.bin"))], [0, 255]);
    assert.equal(new TextDecoder().decode(await repo.read("a/b.txt")), "text");
    assert.deepEqual((await repo.commits()).map((c) => c.message.trim()), ["first"]);
    assert.equal((await repo.branches()).length, 1);
    await repo.commit("second", { "raw.bin": null }, { branch: "main", expectedSha: commit.sha });
    await assert.rejects(repo.read("raw.bin"), (e) => e instanceof ApiError && e.status === 404);
    const tar = new Uint8Array(await new Response(await repo.archive()).arrayBuffer());
    assert.ok(tar.length > 512);
  } finally {
    await repo.delete();
  }
});

test("inside the VM: both sides of a fork, and the copy from its parent", async () => {
  const top = fileURLToPath(new URL("../../", import.meta.url));
  await vm.files.write("/root/pando/package.json", readFileSync(`${top}package.json`));
  for (const dir of ["src", "gen"])
    for (const name of readdirSync(top + dir)) if (name.endsWith(".js")) await vm.files.write(`/root/pando/${dir}/${name}`, readFileSync(`${top}${dir}/${name}`));
  await vm.files.write("/root/pando/both.mjs", `
import { Self } from "pando/self";
import { writeFileSync } from "node:fs";
const self = new Self();
const secret = Math.random();
const side = await self.fork(1);
if (side.role === "child") {
  writeFileSync("/root/side", "child " + side.index + " " + secret);
} else {
  const [child] = side.children;
  const said = await child.exec("until test -s /root/side; do sleep 0.1; done; cat /root/side");
  await child.write("/root/in", "from the parent");
  const back = new TextDecoder().decode(await child.read("/root/in"));
  await child.delete();
  console.log(said.stdout === "child 1 " + secret, back, (await self.info()).id);
}
`);
  const r = await vm.exec("node /root/pando/both.mjs", { check: true, ...WAIT });
  assert.equal(r.stdout, `true from the parent ${vm.id}\n`, r.stderr);
});
