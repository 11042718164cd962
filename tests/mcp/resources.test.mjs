// SPDX-License-Identifier: Apache-2.0
// resources.test.mjs - resources and prompts by the official client
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { LONG, OTHER_KEY, call, overHttp, overStdio } from "./client.mjs";

let client, vm;
const read = (uri, c = client) => c.readResource({ uri }, LONG).then((r) => r.contents);

before(async () => {
  ({ client } = await overHttp());
  vm = (await call(client, "vm_create", { name: "mcp-resources" })).structuredContent.id;
});
after(async () => {
  await call(client, "vm_delete", { vmId: vm });
  await client.close();
});

test("they are announced and listed", async () => {
  const can = client.getServerCapabilities();
  assert.ok(can.resources && can.prompts);
  const { resources } = await client.listResources({}, LONG);
  for (const uri of ["pando://tree", `pando://vm/${vm}`, `pando://vm/${vm}/logs`]) {
    assert.ok(resources.some((r) => r.uri === uri), `${uri} is not among ${JSON.stringify(resources)}`);
  }
  const { resourceTemplates } = await client.listResourceTemplates({}, LONG);
  assert.ok(resourceTemplates.some((t) => t.uriTemplate === "pando://vm/{vmId}/files{+path}"));
});

test("a VM, the tree and the logs", async () => {
  const [state] = await read(`pando://vm/${vm}`);
  assert.equal(state.mimeType, "application/json");
  assert.equal(JSON.parse(state.text).id, vm);
  for (const uri of ["pando://tree", `pando://vm/${vm}/tree`]) {
    assert.ok(JSON.parse((await read(uri))[0].text).nodes.some((n) => n.id === vm), uri);
  }
  const [log] = await read(`pando://vm/${vm}/logs`);
  assert.equal(log.mimeType, "text/plain");
  assert.match(log.text, /^\d{4}-\d\d-\d\dT/);
});

test("files as text and as bytes, and directories", async () => {
  const bytes = Buffer.from([0, 1, 2, 255]);
  await call(client, "file_write", { vmId: vm, path: "/srv/a b/ä.txt", content: "text ä\n" });
  await call(client, "file_write", { vmId: vm, path: "/srv/a b/bytes", content: bytes.toString("base64"), encoding: "base64" });
  const [text] = await read(`pando://vm/${vm}/files/srv/a%20b/%C3%A4.txt`);
  assert.equal(text.text, "text ä\n");
  assert.equal(text.mimeType.split(";")[0], "text/plain");
  const [blob] = await read(`pando://vm/${vm}/files/srv/a%20b/bytes`);
  assert.deepEqual(Buffer.from(blob.blob, "base64"), bytes);
  const [dir] = await read(`pando://vm/${vm}/files/srv/a%20b/`);
  assert.deepEqual(JSON.parse(dir.text).files.map((f) => f.name).sort(), ["bytes", "ä.txt"]);
  await call(client, "exec", { vmId: vm, command: "truncate -s 5M /srv/big" });
  await assert.rejects(read(`pando://vm/${vm}/files/srv/big`), /piece by piece/);
});

test("what is not there, and what is another's", async (t) => {
  for (const uri of [`pando://vm/${vm}/files/nowhere`, `pando://vm/${vm}/files/%00`, `pando://vm/${vm}/files/%zz`, `pando://vm/${vm}/else`,
    "pando://nothing", "file:///etc/passwd", "pando://vm/aaaaaaaaaaaaaaaaaaaa"]) {
    await assert.rejects(read(uri), (e) => e.code === -32002, uri);
  }
  const other = await overHttp(OTHER_KEY);
  t.after(() => other.client.close());
  for (const tail of ["", "/tree", "/files/etc/hostname"]) await assert.rejects(read(`pando://vm/${vm}${tail}`, other.client), tail);
  assert.ok(!(await other.client.listResources({}, LONG)).resources.some((r) => r.uri.includes(vm)));
});

test("prompts are listed, filled in and checked", async () => {
  const { prompts } = await client.listPrompts({}, LONG);
  assert.ok(prompts.length >= 4);
  for (const p of prompts) {
    const args = Object.fromEntries(p.arguments.filter((a) => a.required).map((a) => [a.name, `<${a.name}>`]));
    const { messages } = await client.getPrompt({ name: p.name, arguments: args }, LONG);
    assert.equal(messages[0].role, "user");
    for (const a of p.arguments) assert.ok(!messages[0].content.text.includes(`{${a.name}}`), `${p.name} ${a.name}`);
    for (const v of Object.values(args)) assert.ok(messages[0].content.text.includes(v), `${p.name} ${v}`);
  }
  await assert.rejects(client.getPrompt({ name: "nothing" }, LONG), /no such prompt/);
  await assert.rejects(client.getPrompt({ name: "find_fault", arguments: {} }, LONG), /'vmId' is missing/);
  await assert.rejects(client.getPrompt({ name: "find_fault", arguments: { vmId: "x", more: "y" } }, LONG), /no argument 'more'/);
});

test("tools that prompts and resources name are there", async () => {
  const names = new Set((await client.listTools({}, LONG)).tools.map((t) => t.name));
  for (const p of (await client.listPrompts({}, LONG)).prompts) {
    const args = Object.fromEntries(p.arguments.map((a) => [a.name, "x"]));
    const { messages } = await client.getPrompt({ name: p.name, arguments: args }, LONG);
    for (const [word] of messages[0].content.text.matchAll(/\b[a-z]+_[a-z]+\b/g)) assert.ok(names.has(word), `${p.name} names ${word}`);
  }
});

test("the bridge passes them on", async () => {
  const { client: piped } = await overStdio();
  try {
    assert.equal(JSON.parse((await read(`pando://vm/${vm}`, piped))[0].text).id, vm);
    assert.ok((await piped.listPrompts({}, LONG)).prompts.length >= 4);
  } finally {
    await piped.close();
  }
});
