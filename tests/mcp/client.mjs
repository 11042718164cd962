// SPDX-License-Identifier: Apache-2.0
// client.mjs - the official client, connected; and what tests ask of results
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

export const URL_ = process.env.PANDO_API_URL;
export const KEY = process.env.PANDO_API_KEY;
export const OTHER_KEY = process.env.PANDO_OTHER_KEY;
export const CLI = process.env.PANDO_CLI;
export const LONG = { timeout: 120_000 }; // a guest may be emulated and the machine busy

assert.ok(URL_ && KEY && OTHER_KEY && CLI, "run by tests/e2e/test_mcp.py");

const me = { name: "pando-tests", version: "1.0.0" };

export async function overHttp(key = KEY) {
  const client = new Client(me);
  const transport = new StreamableHTTPClientTransport(new URL("/mcp", URL_), {
    requestInit: { headers: { Authorization: `Bearer ${key}` } },
  });
  await client.connect(transport, LONG);
  return { client, transport };
}

export async function overStdio(key = KEY) {
  const client = new Client(me);
  const transport = new StdioClientTransport({
    command: CLI, args: ["mcp"], stderr: "inherit",
    env: { PATH: process.env.PATH, PANDO_API_URL: URL_, PANDO_API_KEY: key },
  });
  await client.connect(transport, LONG);
  return { client, transport };
}

// The result of a tool that must work.
export async function call(client, name, args = {}, options = {}) {
  const r = await client.callTool({ name, arguments: args }, undefined, { ...LONG, ...options });
  assert.ok(!r.isError, `${name}: ${JSON.stringify(r.content)}`);
  return r;
}

// The sentence of a tool that must fail.
export async function refused(client, name, args, pattern) {
  const r = await client.callTool({ name, arguments: args }, undefined, LONG);
  assert.equal(r.isError, true, `${name} should have failed: ${JSON.stringify(r.content)}`);
  assert.match(textOf(r), pattern);
  return r;
}

export function textOf(r) {
  return r.content.filter((c) => c.type === "text").map((c) => c.text).join("\n");
}

// One POST without the client's help.
export function post(body, headers = {}) {
  return fetch(new URL("/mcp", URL_), {
    method: "POST",
    headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json",
      Accept: "application/json, text/event-stream", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}
