// SPDX-License-Identifier: Apache-2.0
// stdio.test.mjs - `pando mcp` with the official client: the same tools over a pipe
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { CLI, KEY, LONG, URL_, call, overStdio, post, textOf } from "./client.mjs";

let client, transport, vm;

before(async () => {
  ({ client, transport } = await overStdio());
});

after(async () => {
  if (vm) await client.callTool({ name: "vm_delete", arguments: { vmId: vm } }, undefined, LONG).catch(() => {});
  await client.close();
});

test("the same tools, and a VM", async () => {
  assert.equal(client.getServerVersion().name, "pando");
  assert.ok((await client.listTools()).tools.length >= 15);
  vm = (await call(client, "vm_create", { name: "stdio" })).structuredContent.id;
  const r = await call(client, "exec", { vmId: vm, command: "echo hallo; echo wört >&2" });
  assert.equal(r.structuredContent.stdout, "hallo\n");
});

test("a picture comes through the pipe", async () => {
  const r = await call(client, "run_code", {
    vmId: vm, code: "import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.show()" });
  assert.equal(Buffer.from(r.content.find((c) => c.type === "image").data, "base64").subarray(1, 4).toString(), "PNG");
});

test("calls run side by side, and one can be cancelled", async () => {
  const stop = new AbortController();
  const long = assert.rejects(client.callTool(
    { name: "exec", arguments: { vmId: vm, command: "echo go; exec sleep 4322" } }, undefined,
    { ...LONG, signal: stop.signal, onprogress: () => stop.abort("enough") }), /enough/);
  const quick = await call(client, "exec", { vmId: vm, command: "echo quick" });
  assert.equal(quick.structuredContent.stdout, "quick\n");
  await long;
  const r = await call(client, "exec", {
    vmId: vm, command: "for i in $(seq 100); do pgrep -f '^sleep 4322' || exit 0; sleep 0.2; done; exit 1" });
  assert.equal(r.structuredContent.exitCode, 0, "the command still runs");
});

test("a session that the server forgot is renewed unseen", async () => {
  // the account's oldest goes when it opens too many
  const init = { jsonrpc: "2.0", id: 1, method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } } };
  for (let i = 0; i < 64; i++) assert.equal((await post(init)).status, 200);
  assert.match(textOf(await call(client, "vm_list")), new RegExp(vm));
});

function bridge(env = {}) {
  const p = spawn(CLI, ["mcp"], { env: { PATH: process.env.PATH, PANDO_API_URL: URL_, PANDO_API_KEY: KEY, ...env },
    stdio: ["pipe", "pipe", "ignore"] });
  p.lines = [];
  let rest = "";
  p.stdout.on("data", (d) => {
    const parts = (rest + d).split("\n");
    rest = parts.pop();
    p.lines.push(...parts.map((l) => JSON.parse(l)));
  });
  return p;
}

test("ends with its input, after the last answer", async () => {
  const p = bridge();
  p.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n\n{"jsonrpc":"2.0","id":"two","meth\n');
  p.stdin.end('{"jsonrpc":"2.0","id":3,"method":"tools/list"}'); // no line break
  const [code] = await once(p, "close");
  assert.equal(code, 0);
  assert.deepEqual(p.lines.map((m) => m.id ?? m.error.code).sort(), [-32700, 1, 3].sort());
});

test("what keeps a request from the server is its answer", async () => {
  for (const [env, pattern] of [[{ PANDO_API_URL: "http://127.0.0.1:1" }, /no server at/], [{ PANDO_API_KEY: "pando_no" }, /UNAUTHORIZED/]]) {
    const p = bridge(env);
    p.stdin.end('{"jsonrpc":"2.0","id":1,"method":"ping"}\n');
    await once(p, "close");
    assert.equal(p.lines.length, 1);
    assert.equal(p.lines[0].id, 1);
    assert.match(p.lines[0].error.message, pattern);
  }
});
