// SPDX-License-Identifier: Apache-2.0
// The WebSocket for Node.js before 22, and fetch() over a Unix socket, against scripted peers
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Self } from "../../src/self.js";
import { NodeWebSocket } from "../../src/websocket-node.js";

/** A server that sends these bytes after the upgrade; resolves to what the client sent and how it ended. */
async function exchange(bytes, then = () => {}) {
  let sent = Buffer.alloc(0);
  const server = http.createServer();
  server.on("upgrade", (req, socket) => {
    const accept = createHash("sha1").update(`${req.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`);
    socket.on("data", (d) => (sent = Buffer.concat([sent, d])));
    socket.on("error", () => {});
    for (const b of bytes) socket.write(Buffer.from([b])); // in the smallest pieces
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const ws = new NodeWebSocket(`ws://127.0.0.1:${server.address().port}/`);
  const got = [];
  ws.onopen = () => then(ws);
  ws.onmessage = ({ data }) => got.push(typeof data === "string" ? data : [...new Uint8Array(data)]);
  const end = await new Promise((done) => (ws.onclose = done));
  server.closeAllConnections();
  server.close();
  return { got, end, sent };
}

const unmask = (b) => b.subarray(6).map((x, i) => x ^ b[2 + (i & 3)]);

test("messages, fragments, a ping, a close", async () => {
  const r = await exchange([0x81, 2, 104, 105, 0x02, 1, 7, 0x89, 1, 9, 0x80, 1, 8, 0x88, 2, 3, 0xe9]);
  assert.deepEqual(r.got, ["hi", [7, 8]]);
  assert.equal(r.end.code, 1001);
  assert.deepEqual([r.sent[0], r.sent[1] & 0x7f, unmask(r.sent.subarray(0, 7))[0]], [0x8a, 1, 9]); // the pong
});

for (const [what, bytes, code] of [
  ["a masked frame", [0x81, 0x82, 0, 0, 0, 0, 1, 1], 1002],
  ["reserved bits", [0xc1, 0], 1002],
  ["a continuation of nothing", [0x80, 1, 1], 1002],
  ["a message in a message", [0x01, 1, 1, 0x81, 1, 1], 1002],
  ["a long ping", [0x89, 126, 0, 126], 1002],
  ["a message that is too long", [0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0], 1009],
])
  test(`${what} ends it with ${code}`, async () => assert.equal((await exchange(bytes)).end.code, code));

test("what is sent is masked, of any length", async () => {
  const r = await exchange([], (ws) => {
    ws.send(new Uint8Array(300).fill(5));
    ws.send("x".repeat(70000));
    setTimeout(() => ws.close(), 200);
  });
  assert.deepEqual([r.sent[0], r.sent[1], r.sent.readUInt16BE(2)], [0x82, 0xfe, 300]);
  assert.equal(r.sent[8] ^ r.sent[4], 5);
  const second = r.sent.subarray(8 + 300);
  assert.deepEqual([second[0], second[1], Number(second.readBigUInt64BE(2))], [0x81, 0xff, 70000]);
});

test("a refusal is a close", async () => {
  const server = http.createServer((_q, res) => res.writeHead(401).end());
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const ws = new NodeWebSocket(`ws://127.0.0.1:${server.address().port}/`);
  let why;
  ws.onerror = (e) => (why = e.message);
  assert.equal((await new Promise((done) => (ws.onclose = done))).code, 1006);
  assert.match(why, /401/);
  server.close();
});

test("self access over a Unix socket: both sides of a fork, a command, files, an error", async () => {
  const dir = mkdtempSync(join(tmpdir(), "pando-"));
  const socketPath = join(dir, "s");
  const seen = [];
  const server = http.createServer((req, res) => {
    let body = "";
    req.on("data", (d) => (body += d));
    req.on("end", () => {
      seen.push([req.method, req.url, body]);
      const json = (status, o) => res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(o));
      if (req.url === "/v1/self/fork") json(200, { role: "parent", id: "a", children: ["b", "c"] });
      else if (req.url.endsWith("/exec")) res.writeHead(200).end('event: stdout\ndata: {"data":"out"}\n\nevent: exit\ndata: {"statusCode":0}\n\n');
      else if (req.method === "PUT") json(200, { bytes: body.length });
      else if (req.url.includes("raw-files")) res.writeHead(200).end("content");
      else json(403, { code: "FORBIDDEN", message: "not allowed" });
    });
  });
  await new Promise((done) => server.listen(socketPath, done));
  const self = new Self({ socketPath });
  const side = await self.fork(2);
  assert.deepEqual([side.role, side.children.map((c) => c.id)], ["parent", ["b", "c"]]);
  const [child] = side.children;
  assert.equal((await child.exec("x")).stdout, "out");
  await child.write("/f", new Blob(["abc"]).stream());
  assert.equal(new TextDecoder().decode(await child.read("/f")), "content");
  await assert.rejects(self.suspend(), { code: "FORBIDDEN", status: 403 });
  assert.deepEqual(seen[0], ["POST", "/v1/self/fork", '{"count":2}']);
  assert.deepEqual(seen[2], ["PUT", "/v1/self/children/b/raw-files/%2Ff", "abc"]);
  server.closeAllConnections();
  server.close();
  rmSync(dir, { recursive: true });
});
