// SPDX-License-Identifier: Apache-2.0
// http.test.mjs - /mcp with the official client: a VM's whole life, and what others may not see of it
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { KEY, LONG, OTHER_KEY, URL_, call, overHttp, post, refused, textOf } from "./client.mjs";

let client, transport, vm, fork;

// Through the edge, as a browser would: only the name says where to.
const ask = (host, path) => new Promise((resolve, reject) => {
  http.get({ host: "127.0.0.1", port: process.env.PANDO_EDGE_HTTP_PORT, path, headers: { host }, timeout: 120000 }, (r) => {
    let body = "";
    r.on("data", (d) => { body += d; });
    r.on("end", () => resolve({ status: r.statusCode, body }));
  }).on("error", reject);
});

before(async () => {
  ({ client, transport } = await overHttp());
});

after(async () => {
  for (const id of [vm, fork]) {
    if (id) await client.callTool({ name: "vm_delete", arguments: { vmId: id } }, undefined, LONG).catch(() => {});
  }
  await client.close();
});

test("says who it is and what it can do", async () => {
  assert.equal(client.getServerVersion().name, "pando");
  assert.ok(client.getServerCapabilities().tools);
  assert.match(client.getInstructions(), /vm_create/);
  assert.match(transport.sessionId, /^[0-9a-f]{32}$/);
  await client.ping();
});

test("every tool has a schema, a description and annotations", async () => {
  const { tools } = await client.listTools();
  const names = tools.map((t) => t.name);
  for (const name of ["vm_create", "vm_list", "exec", "exec_background", "run_code", "file_read", "file_write", "file_list",
    "vm_fork", "vm_snapshot", "snapshot_list", "vm_suspend", "vm_start", "vm_stop", "vm_delete"]) {
    assert.ok(names.includes(name), `${name} is not offered`);
  }
  for (const t of tools) {
    assert.equal(t.inputSchema.type, "object", t.name);
    assert.equal(t.inputSchema.additionalProperties, false, t.name);
    assert.ok(t.description.length > 20, t.name);
    assert.equal(typeof t.annotations.readOnlyHint, "boolean", t.name);
    for (const name of t.inputSchema.required ?? []) assert.ok(t.inputSchema.properties[name], `${t.name} ${name}`);
  }
  assert.equal(tools.find((t) => t.name === "vm_delete").annotations.destructiveHint, true);
  assert.equal(tools.find((t) => t.name === "vm_list").annotations.readOnlyHint, true);
});

test("creates a VM", async () => {
  const r = await call(client, "vm_create", { name: "mcp", idleTimeoutSeconds: 3600 });
  vm = r.structuredContent.id;
  assert.match(vm, /^[a-z0-9]{20}$/);
  const all = await call(client, "vm_list", { search: "mcp" });
  const found = all.structuredContent.vms.find((v) => v.id === vm);
  assert.equal(found.state, "running");
  assert.equal(found.name, "mcp");
});

test("runs commands", async () => {
  const r = await call(client, "exec", {
    vmId: vm, command: "pwd; echo $COLOUR; echo bad >&2; exit 3", cwd: "/tmp", env: { COLOUR: "grün" },
  });
  assert.deepEqual({ ...r.structuredContent, durationMs: 0 },
    { exitCode: 3, stdout: "/tmp\ngrün\n", stderr: "bad\n", durationMs: 0 });
  assert.match(textOf(r), /grün[^]*\[stderr\]\nbad[^]*\[exit code 3\]/);
});

test("output that is too long keeps its beginning and its end", async () => {
  const r = await call(client, "exec", { vmId: vm, command: "seq 1 20000", maxOutputBytes: 2000 });
  const out = r.structuredContent.stdout;
  assert.ok(out.length < 2100);
  assert.match(out, /^1\n2\n[^]*\n\[\.\.\. \d+ bytes left out \.\.\.\]\n[^]*\n20000\n$/);
  assert.equal(r.structuredContent.stdoutTruncated, true);
});

test("reports progress, with what is said on the way", async () => {
  const seen = [];
  await call(client, "exec", { vmId: vm, command: "for i in 1 2 3; do echo step $i; sleep 1; done" },
    { onprogress: (p) => seen.push(p) });
  assert.ok(seen.length >= 2, JSON.stringify(seen));
  for (let i = 1; i < seen.length; i++) assert.ok(seen[i].progress > seen[i - 1].progress, JSON.stringify(seen));
  assert.ok(seen.some((p) => /step/.test(p.message ?? "")), JSON.stringify(seen));
});

test("a command that runs too long is ended, and what it said is there", async () => {
  const r = await refused(client, "exec", { vmId: vm, command: "echo begun; sleep 1000", timeoutMs: 1500 }, /begun/);
  assert.equal(r.structuredContent.timedOut, true);
});

test("a cancelled call ends the command in the VM", async () => {
  const stop = new AbortController();
  const running = client.callTool(
    { name: "exec", arguments: { vmId: vm, command: "echo go; exec sleep 4321" } }, undefined,
    { ...LONG, signal: stop.signal, onprogress: () => stop.abort("enough") });
  await assert.rejects(running, /enough/);
  const r = await call(client, "exec", {
    vmId: vm, command: "for i in $(seq 100); do pgrep -f '^sleep 4321' || exit 0; sleep 0.2; done; exit 1" });
  assert.equal(r.structuredContent.exitCode, 0, "the command still runs");
});

test("a client that takes no events gets JSON; ending its session ends the command", async () => {
  const init = await post({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  const headers = { Accept: "application/json", "Mcp-Session-Id": init.headers.get("mcp-session-id") };
  const exec = (command) => ({ jsonrpc: "2.0", id: 2, method: "tools/call", params: { name: "exec", arguments: { vmId: vm, command } } });
  const quick = await post(exec("echo hallo"), headers);
  assert.equal(quick.headers.get("content-type"), "application/json");
  assert.equal((await quick.json()).result.structuredContent.stdout, "hallo\n");
  const long = post(exec("touch /run/begun; exec sleep 4323"), headers);
  await call(client, "exec", { vmId: vm, command: "for i in $(seq 100); do [ -e /run/begun ] && exit 0; sleep 0.2; done; exit 1" });
  await fetch(new URL("/mcp", URL_), { method: "DELETE", headers: { Authorization: `Bearer ${KEY}`, ...headers } });
  assert.equal((await (await long).json()).error.code, -32800);
  const r = await call(client, "exec", {
    vmId: vm, command: "for i in $(seq 100); do pgrep -f '^sleep 4323' || exit 0; sleep 0.2; done; exit 1" });
  assert.equal(r.structuredContent.exitCode, 0, "the command still runs");
});

test("a command in the background goes on after the call", async () => {
  const r = await call(client, "exec_background", { vmId: vm, command: "sleep 1; echo later >/tmp/later" });
  assert.match(r.structuredContent.processId, /^proc-\d+$/);
  const seen = await call(client, "exec", {
    vmId: vm, command: "for i in $(seq 100); do [ -s /tmp/later ] && cat /tmp/later && exit 0; sleep 0.2; done; exit 1" });
  assert.equal(seen.structuredContent.stdout, "later\n");
});

test("code keeps its variables", async () => {
  await call(client, "run_code", { vmId: vm, code: "x = 41" });
  const r = await call(client, "run_code", { vmId: vm, code: "print('out'); x + 1" });
  assert.equal(r.structuredContent.stdout, "out\n");
  assert.equal(r.structuredContent.results[0]["text/plain"], "42");
  assert.match(textOf(r), /out[^]*42/);
  const other = await call(client, "run_code", { vmId: vm, code: "echo $((6*7))", language: "bash" });
  assert.equal(other.structuredContent.stdout, "42\n");
});

test("a plot comes as an image", async () => {
  const r = await call(client, "run_code", {
    vmId: vm, code: "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9])\nplt.show()" });
  const image = r.content.find((c) => c.type === "image");
  assert.equal(image.mimeType, "image/png");
  assert.equal(Buffer.from(image.data, "base64").subarray(1, 4).toString(), "PNG");
  assert.ok(!JSON.stringify(r.structuredContent).includes(image.data.slice(0, 100)), "the picture is there twice");
});

test("an error in the code is an error with its traceback", async () => {
  const r = await refused(client, "run_code", { vmId: vm, code: "1 / 0" }, /ZeroDivisionError/);
  assert.equal(r.structuredContent.error.name, "ZeroDivisionError");
});

test("files: written, read, listed, also bytes and pieces", async () => {
  await call(client, "file_write", { vmId: vm, path: "/root/dir/hello.txt", content: "hallo, wört\n" });
  assert.equal(textOf(await call(client, "file_read", { vmId: vm, path: "/root/dir/hello.txt" })), "hallo, wört\n");
  const bytes = Buffer.from([0, 1, 2, 253, 254, 255]).toString("base64");
  await call(client, "file_write", { vmId: vm, path: "/root/dir/raw.bin", content: bytes, encoding: "base64" });
  const raw = await call(client, "file_read", { vmId: vm, path: "/root/dir/raw.bin" });
  assert.equal(raw.content[0].resource.blob, bytes);
  assert.equal(raw.content[0].resource.uri, "file:///root/dir/raw.bin");
  const list = await call(client, "file_list", { vmId: vm, path: "/root/dir" });
  assert.deepEqual(list.structuredContent.files.map((f) => f.name).sort(), ["hello.txt", "raw.bin"]);
  const piece = await call(client, "file_read", { vmId: vm, path: "/root/dir/hello.txt", offset: 1, maxBytes: 8 });
  assert.equal(piece.content[0].text, "allo, w", "a character in two is left for the next piece");
  assert.match(piece.content[1].text, /continue with offset 8/);
  await refused(client, "file_read", { vmId: vm, path: "/root/nothing" }, /FILE_NOT_FOUND/);
  await refused(client, "file_read", { vmId: vm, path: "/root" }, /directory/);
  await refused(client, "file_write", { vmId: vm, path: "/root/x", content: "%%%", encoding: "base64" }, /base64/);
});

test("forks have the variables and go their own ways", async () => {
  const r = await call(client, "vm_fork", { vmId: vm });
  fork = r.structuredContent.forks[0].id;
  await call(client, "run_code", { vmId: fork, code: "x = 1000" });
  const there = await call(client, "run_code", { vmId: fork, code: "x" });
  const here = await call(client, "run_code", { vmId: vm, code: "x" });
  assert.equal(there.structuredContent.results[0]["text/plain"], "1000");
  assert.equal(here.structuredContent.results[0]["text/plain"], "41");
  await call(client, "vm_delete", { vmId: fork });
  fork = undefined;
});

test("a suspended VM wakes with its memory, also from a snapshot", async () => {
  const s = await call(client, "vm_snapshot", { vmId: vm, name: "mcp-point" });
  const id = s.structuredContent.snapshotId;
  const all = await call(client, "snapshot_list");
  assert.ok(all.structuredContent.snapshots.some((n) => n.snapshotId === id && n.name === "mcp-point"));
  await call(client, "vm_suspend", { vmId: vm });
  assert.equal((await call(client, "vm_list", { state: "suspended" })).structuredContent.vms[0].id, vm);
  const r = await call(client, "run_code", { vmId: vm, code: "x" });
  assert.equal(r.structuredContent.results[0]["text/plain"], "41");
  await call(client, "vm_delete", { vmId: vm });
  vm = (await call(client, "vm_create", { snapshotId: id, ephemeral: true })).structuredContent.id;
  const again = await call(client, "run_code", { vmId: vm, code: "x" });
  assert.equal(again.structuredContent.results[0]["text/plain"], "41");
});

test("a port gets a name that answers, and loses it", async () => {
  await call(client, "exec_background", { vmId: vm, command: "cd /etc && exec python3 -m http.server 8123" });
  await call(client, "exec", { vmId: vm, command: "until ss -ltn | grep -q :8123; do sleep 0.2; done" });
  for (const wanted of [undefined, "mcp-test.pando.localhost"]) {
    const r = await call(client, "port_expose", { vmId: vm, port: 8123, domain: wanted });
    const { domain } = r.structuredContent;
    assert.equal(domain, wanted ?? `${vm}-8123.pando.localhost`);
    assert.deepEqual(await ask(domain, "/hostname"), { status: 200, body: (await call(client, "exec", { vmId: vm, command: "cat /etc/hostname" })).structuredContent.stdout });
    await call(client, "port_unexpose", { domain });
    assert.equal((await ask(domain, "/hostname")).status, 404);
  }
});

test("another account sees nothing of it", async () => {
  const other = await overHttp(OTHER_KEY);
  try {
    assert.equal((await call(other.client, "vm_list")).structuredContent.totalCount, 0);
    for (const [name, args] of Object.entries({
      exec: { command: "id" }, run_code: { code: "1" }, file_read: { path: "/etc/passwd" }, file_list: { path: "/" },
      file_write: { path: "/root/x", content: "" }, vm_fork: {}, vm_snapshot: {}, vm_suspend: {}, vm_start: {}, vm_stop: {},
      exec_background: { command: "id" }, vm_delete: {},
    })) {
      await refused(other.client, name, { vmId: vm, ...args }, /VM_NOT_FOUND/);
    }
  } finally {
    await other.client.close();
  }
});

test("what is wrong with arguments is said", async () => {
  await refused(client, "exec", { vmId: vm }, /'command' is missing/);
  await refused(client, "exec", { vmId: vm, command: "id", colour: 1 }, /no argument 'colour'/);
  await refused(client, "exec", { vmId: vm, command: 7 }, /'command' must be a string/);
  await refused(client, "exec", { vmId: 7, command: "id" }, /must be a string/);
  await refused(client, "exec", { vmId: "../x", command: "id" }, /INVALID_VM_ID/);
  await refused(client, "exec", { vmId: vm, command: "id", timeoutMs: -1 }, /timeoutMs/);
  await refused(client, "exec", { vmId: vm, command: "id", user: "no body" }, /Linux user/);
  await refused(client, "run_code", { vmId: vm, code: "1", language: "cobol" }, /language/);
  await refused(client, "run_code", { vmId: vm, code: "1", contextId: "ctx-999" }, /ctx-999|context/);
  await refused(client, "vm_create", { snapshotId: "sc-00000000000000000000" }, /SNAPSHOT_NOT_FOUND/);
  await refused(client, "vm_fork", { vmId: vm, count: 101 }, /count/);
  await refused(client, "vm_list", { limit: "many" }, /limit/);
  await assert.rejects(client.callTool({ name: "rm" }), (e) => e.code === -32602);
});

test("a deleted VM is gone", async () => {
  await call(client, "vm_delete", { vmId: vm });
  await refused(client, "exec", { vmId: vm, command: "id" }, /VM_DELETED/);
  vm = undefined;
});

test("a session that was ended is gone", async () => {
  const one = await overHttp();
  await one.transport.terminateSession();
  assert.equal(one.transport.sessionId, undefined);
  await one.client.close();
});
