// SPDX-License-Identifier: Apache-2.0
// wire.test.mjs - /mcp without a client's help: versions, batches, sessions, refusals
import assert from "node:assert/strict";
import { test } from "node:test";
import { KEY, OTHER_KEY, URL_, post } from "./client.mjs";

const init = (version, id = 1) => ({
  jsonrpc: "2.0", id, method: "initialize",
  params: { protocolVersion: version, capabilities: {}, clientInfo: { name: "t", version: "1" } },
});
const ping = (id) => ({ jsonrpc: "2.0", id, method: "ping" });

async function session(version) {
  const r = await post(init(version));
  assert.equal(r.status, 200);
  return r.headers.get("mcp-session-id");
}

test("versions: a known one is taken, for others it offers its own", async () => {
  for (const v of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]) {
    const r = await (await post(init(v))).json();
    assert.equal(r.result.protocolVersion, v);
  }
  assert.equal((await (await post(init("1999-01-01"))).json()).result.protocolVersion, "2025-11-25");
  assert.equal((await (await post({ ...init("x"), params: {} })).json()).error.code, -32602);
  assert.equal((await post(ping(1), { "MCP-Protocol-Version": "1999-01-01" })).status, 400);
});

test("one without a key is not let in", async () => {
  for (const headers of [{ Authorization: "" }, { Authorization: "Bearer pando_wrong" }]) {
    const r = await post(ping(1), headers);
    assert.equal(r.status, 401);
    assert.ok((await r.json()).code.startsWith("UNAUTHORIZED"));
  }
});

test("what is no message gets JSON-RPC's error", async () => {
  for (const [body, status, code] of [
    ["{", 400, -32700], ["[]", 400, -32600], ["17", 400, -32700], ["", 400, -32600], ["{}", 400, -32600],
    ["[".repeat(100), 400, -32700],
    [{ id: 1, method: "ping" }, 400, -32600],
    [{ jsonrpc: "2.0", id: null, method: "ping" }, 400, -32600],
    [{ jsonrpc: "2.0", id: 1.5, method: "ping" }, 400, -32600],
    [{ jsonrpc: "2.0", id: "x".repeat(300), method: "ping" }, 400, -32600],
    [{ jsonrpc: "2.0", id: 1, method: "ping", params: [] }, 400, -32600],
    [{ jsonrpc: "2.0", id: 1, method: "resources/subscribe" }, 200, -32601],
    [{ jsonrpc: "2.0", id: 1, method: "tools/list", params: { cursor: "x" } }, 200, -32602],
    [{ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: 1 } }, 200, -32602],
    [{ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "exec", arguments: [] } }, 200, -32602],
  ]) {
    const r = await post(body);
    assert.equal(r.status, status, JSON.stringify(body).slice(0, 80));
    assert.equal((await r.json()).error.code, code, JSON.stringify(body).slice(0, 80));
  }
});

test("notifications and responses are taken without an answer", async () => {
  for (const m of [{ jsonrpc: "2.0", method: "notifications/initialized" },
    { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 77 } },
    { jsonrpc: "2.0", id: 5, result: {} }]) {
    const r = await post(m);
    assert.equal(r.status, 202);
    assert.equal(await r.text(), "");
  }
});

test("batches where the version has them", async () => {
  const old = { "Mcp-Session-Id": await session("2025-03-26") };
  const r = await post([ping(1), { jsonrpc: "2.0", method: "notifications/initialized" }, { jsonrpc: "1" }, ping("b"), init("2025-03-26", 9)], old);
  const replies = await r.json();
  assert.deepEqual(replies.map((m) => [m.id, m.error?.code ?? "ok"]), [[1, "ok"], [null, -32600], ["b", "ok"], [9, -32600]]);
  assert.equal((await post([{ jsonrpc: "2.0", method: "notifications/initialized" }], old)).status, 202);
  assert.equal((await post(Array(33).fill(ping(1)), old)).status, 400);
  const now = { "Mcp-Session-Id": await session("2025-06-18") };
  assert.equal((await post([ping(1)], now)).status, 400);
});

test("sessions belong to who opened them, and end", async () => {
  const id = await session("2025-11-25");
  const headers = { "Mcp-Session-Id": id };
  assert.equal((await post(ping(1), headers)).status, 200);
  const stranger = { Authorization: `Bearer ${OTHER_KEY}` };
  assert.equal((await post(ping(1), { ...headers, ...stranger })).status, 404);
  const del = (h) => fetch(new URL("/mcp", URL_), { method: "DELETE", headers: { Authorization: `Bearer ${KEY}`, ...h } });
  assert.equal((await del({ ...headers, ...stranger })).status, 404);
  assert.equal((await del({})).status, 400);
  assert.equal((await del(headers)).status, 200);
  assert.equal((await post(ping(1), headers)).status, 404);
  assert.equal((await del(headers)).status, 404);
  assert.equal((await post(ping(1), { "Mcp-Session-Id": "x".repeat(1000) })).status, 404);
});

test("an account that opens too many sessions loses its oldest", async () => {
  const first = await session("2025-11-25");
  for (let i = 0; i < 64; i++) await session("2025-11-25");
  assert.equal((await post(ping(1), { "Mcp-Session-Id": first })).status, 404);
});

test("pages from elsewhere stay out", async () => {
  for (const [origin, status] of [["https://evil.example", 403], ["http://localhost.evil.example", 403], ["null", 403],
    ["http://127.0.0.1.evil.example:80", 403], ["http://localhost:3000", 200], ["http://127.0.0.1", 200]]) {
    assert.equal((await post(ping(1), { Origin: origin })).status, status, origin);
  }
});

test("only JSON, only POST and DELETE, only so much", async () => {
  assert.equal((await post(ping(1), { "Content-Type": "text/plain" })).status, 415);
  assert.equal((await post(ping(1), { "Content-Type": "application/json; charset=utf-8" })).status, 200);
  const get = await fetch(new URL("/mcp", URL_), { headers: { Authorization: `Bearer ${KEY}` } });
  assert.equal(get.status, 405);
  assert.match(get.headers.get("allow"), /POST/);
  assert.equal((await post("x".repeat((8 << 20) + 1))).status, 413);
});
