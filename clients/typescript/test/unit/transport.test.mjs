// SPDX-License-Identifier: Apache-2.0
// The transport against a scripted server: what is repeated, what is not, how it ends
import assert from "node:assert/strict";
import http from "node:http";
import { after, before, test } from "node:test";
import { ApiError, ConnectionFailed, Pando, PandoError, StreamBroken } from "../../src/index.js";

let server;
let url;
/** What the next requests get; what came. @type {((req, res) => void)[]} */
let script = [];
let seen = [];

before(async () => {
  server = http.createServer((req, res) => {
    const parts = [];
    req.on("data", (d) => parts.push(d));
    req.on("end", () => {
      seen.push({ method: req.method, url: req.url, headers: req.headers, body: Buffer.concat(parts).toString() });
      script.shift()(req, res);
    });
  });
  server.keepAliveTimeout = 120_000; // a busy machine must not make it hang up between two requests
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  url = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

const says = (status, body, headers = {}) => (_req, res) => {
  res.writeHead(status, { "content-type": "application/json", ...headers });
  res.end(JSON.stringify(body));
};
const cut = (req) => req.socket.destroy();
const events = (text, end = true) => (_req, res) => {
  res.writeHead(200, { "content-type": "text/event-stream" });
  res.write(text);
  if (end) res.end();
};

function client(steps, options = {}) {
  script = steps;
  seen = [];
  return new Pando({ url, key: "k1", ...options });
}

async function all(iterable) {
  const out = [];
  for await (const x of iterable) out.push(x);
  return out;
}

test("arguments go to path, query, header and body", async () => {
  const p = client([says(200, { ok: 1 }), says(200, {})]);
  await p.calls.rawDelete({ vmId: "v/1", path: "/a b?c", recursive: true, linuxUser: "alice" });
  assert.equal(seen[0].url, "/v1/vms/v%2F1/raw-files/%2Fa%20b%3Fc?recursive=true");
  assert.equal(seen[0].headers["x-freestyle-vm-linux-user-id"], "alice");
  assert.equal(seen[0].headers.authorization, "Bearer k1");
  await p.calls.egressPut({ vmId: "v", body: { mode: "closed" } });
  assert.deepEqual([seen[1].method, seen[1].body, seen[1].headers["content-type"]], ["PUT", '{"mode":"closed"}', "application/json"]);
  await assert.rejects(p.calls.vmGet({}), /needs 'vmId'/);
  await assert.rejects(p.calls.vmGet({ vmId: "v", vmid: "v" }), /no argument 'vmid'/);
});

test("an error has code, status, reason and request id", async () => {
  const p = client([says(404, { code: "VM_NOT_FOUND", message: "there is no VM 'x'" }, { "x-freestyle-trace": "t-1" }), (_q, r) => r.writeHead(418).end("tea")]);
  const e = await p.calls.vmGet({ vmId: "x" }).catch((x) => x);
  assert.ok(e instanceof ApiError && e instanceof PandoError);
  assert.deepEqual([e.code, e.status, e.reason, e.requestId, seen.length], ["VM_NOT_FOUND", 404, "there is no VM 'x'", "t-1", 1]);
  const odd = await p.calls.vmGet({ vmId: "x" }).catch((x) => x);
  assert.deepEqual([odd.code, odd.reason], ["HTTP_418", "tea"]);
});

test("GET is repeated after a lost connection and after 503; POST is not", async () => {
  let p = client([cut, says(503, { code: "UNAVAILABLE" }, { "retry-after": "0" }), says(200, { id: "v" })]);
  assert.equal((await p.calls.vmGet({ vmId: "v" })).id, "v");
  p = client([cut]);
  await assert.rejects(p.calls.vmSuspend({ vmId: "v" }), ConnectionFailed);
  p = client([says(503, { code: "UNAVAILABLE" }, { "retry-after": "0" })]);
  await assert.rejects(p.calls.vmSuspend({ vmId: "v" }), { code: "UNAVAILABLE" });
  assert.equal(seen.length, 1);
});

test("a create is repeated with the same key", async () => {
  const p = client([cut, says(200, { id: "v1" })]);
  assert.equal((await p.create()).id, "v1");
  assert.equal(seen.length, 2);
  assert.match(seen[0].headers["idempotency-key"], /^[0-9a-f]{32}$/);
  assert.equal(seen[0].headers["idempotency-key"], seen[1].headers["idempotency-key"]);
});

test("429 with Retry-After is repeated whatever it is; not for long, not for ever, not without it", async () => {
  const full = says(429, { code: "LIMIT_EXCEEDED" }, { "retry-after": "0" });
  let p = client([full, says(200, { id: "v" })]);
  await p.calls.vmSuspend({ vmId: "v" });
  p = client([full, full, full]);
  await assert.rejects(p.calls.vmSuspend({ vmId: "v" }), { code: "LIMIT_EXCEEDED", retryAfter: 0 });
  assert.equal(seen.length, 3);
  p = client([says(429, { code: "LIMIT_EXCEEDED" }, { "retry-after": "3600" })]);
  await assert.rejects(p.calls.vmGet({ vmId: "v" }), { retryAfter: 3600 });
  p = client([says(429, { code: "LIMIT_EXCEEDED" })]);
  await assert.rejects(p.calls.vmSuspend({ vmId: "v" }), { code: "LIMIT_EXCEEDED" });
  assert.equal(seen.length, 1);
});

test("a stream as body is sent once", async () => {
  const p = client([says(200, { bytes: 4 }), cut]);
  const body = async function* () {
    yield new TextEncoder().encode("ab");
    yield new TextEncoder().encode("cd");
  };
  await p.sandbox("v").files.write("/f", body(), { mode: 0o640 });
  assert.deepEqual([seen[0].body, seen[0].url], ["abcd", "/v1/vms/v/raw-files/%2Ff?mode=0640"]);
  await assert.rejects(p.sandbox("v").files.write("/f", body()), ConnectionFailed);
});

test("time limits and signals", async () => {
  const stop = new AbortController();
  const never = () => {};
  const p = client([never, () => stop.abort(new Error("enough")), events("event: started\ndata: {}\n\n", false)], { silenceMs: 200 });
  await assert.rejects(p.calls.vmGet({ vmId: "v" }, { timeoutMs: 1500 }), /no reply for 1.5 s/); // long enough to arrive there on a busy machine
  await assert.rejects(p.calls.vmGet({ vmId: "v" }, { signal: stop.signal }), /^Error: enough$/);
  await assert.rejects(p.calls.vmGet({ vmId: "v" }, { signal: stop.signal }), /^Error: enough$/);
  assert.equal(seen.length, 2);
  await assert.rejects(all(p.sandbox("v").execStream("x")), (e) => e instanceof StreamBroken && /nothing came for 0.2 s/.test(e.message));
});

test("members that the server does not know are told", async () => {
  const heard = [];
  const p = client([says(200, { id: "v" }, { "x-pando-warning": "unknown member 'nmae'" })], { onWarning: (w, call) => heard.push([w, call]) });
  await p.create({ nmae: "x" });
  assert.deepEqual(heard, [["unknown member 'nmae'", "POST /v1/vms"]]);
});

test("a command's events: split characters, bytes, the exit; a cut stream is no end", async () => {
  const text = ': hi\n\nevent: started\ndata: {"processId":"p","pid":7}\n\nevent: stdout\ndata: {"data":"w6Q=","encoding":"base64"}\n\n'
    + 'event: stdout\r\ndata: {"data":"4oI=","encoding":"base64"}\r\n\r\nevent: stdout\ndata: {"data":"rA==","encoding":"base64"}\n\n'
    + 'event: stderr\ndata: {"data":"oh","encoding":"utf8"}\n\n';
  const exit = 'event: exit\ndata: {"statusCode":3,"durationMs":5}\n\n';
  const p = client([events(text + exit), events(text), events('event: error\ndata: {"code":"VM_NOT_RUNNING","message":"suspended"}\n\n'), events(text + exit)]);
  const said = [];
  const r = await p.sandbox("v").exec(["echo", "it's"], { onStdout: (t) => said.push(t), stdin: new Uint8Array([0, 255]) });
  assert.deepEqual([r.stdout, r.stderr, r.exitCode, r.timedOut, said.join("")], ["ä€", "oh", 3, false, "ä€"]);
  assert.deepEqual(JSON.parse(seen[0].body), { command: `echo 'it'"'"'s'`, stdin: "AP8=", stdinEncoding: "base64" });
  await assert.rejects(p.sandbox("v").exec("x"), StreamBroken);
  await assert.rejects(p.sandbox("v").exec("x"), { code: "VM_NOT_RUNNING" });
  await assert.rejects(p.sandbox("v").exec("x", { check: true }), /'x' ended with 3: oh/);
});

test("leaving a stream closes its connection", async () => {
  let closed;
  const gone = new Promise((done) => (closed = done));
  const p = client([(req, res) => {
    res.on("close", closed);
    res.writeHead(200);
    res.write('event: stdout\ndata: {"data":"a"}\n\n');
  }]);
  for await (const e of p.sandbox("v").execStream("yes")) if (e.type === "stdout") break;
  await gone;
});

test("events go on after the last one that came", async () => {
  const line = (id, type) => `id: ${id}\nevent: ${type}\ndata: {"id":${id}}\n\n`;
  const p = client([events(line(5, "hello") + line(6, "vm.created")), cut, cut, cut, events(line(7, "vm.deleted")), says(401, { code: "UNAUTHORIZED" })]);
  const got = [];
  await assert.rejects(async () => {
    for await (const e of p.events({ types: ["vm.*"] })) got.push([e.id, e.type]);
  }, { code: "UNAUTHORIZED" });
  assert.deepEqual(got, [[5, "hello"], [6, "vm.created"], [7, "vm.deleted"]]);
  assert.equal(seen[0].url, "/v1/events?types=vm.*");
  assert.equal(seen[4].url, "/v1/events?after=6&types=vm.*");
});

test("bare lines of JSON are events, too: await and watches", async () => {
  const p = client([events('{"id":"v","exitStatus":"suspended"}'), events('{"eventType":"create","filename":"/a"}\n{"eventType":"mod')]);
  assert.equal(await p.sandbox("v").waitForExit(), "suspended");
  assert.deepEqual(await all(p.sandbox("v").files.watch("/")), [{ type: "create", path: "/a" }]);
});

test("a cell: output, rich results, the end", async () => {
  const p = client([events('event: started\ndata: {"contextId":"c"}\n\nevent: stdout\ndata: {"data":"hi"}\n\nevent: result\ndata: {"text/plain":"42","image/png":"AQI="}\n\n'
    + 'event: end\ndata: {"contextId":"c","executionCount":2,"error":{"name":"E","value":"v","traceback":"t"},"files":[]}\n\n')]);
  const cell = await p.sandbox("v").code.run("x");
  assert.deepEqual([cell.stdout, cell.text, [...cell.png], cell.ok, cell.executionCount], ["hi", "42", [1, 2], false, 2]);
  assert.throws(() => cell.check(), /E: v/);
  assert.deepEqual(JSON.parse(seen[0].body), { code: "x", stream: true, language: "python" });
});

test("pages of a diff", async () => {
  const change = (path) => ({ path, change: "added" });
  const p = client([says(200, { changes: [change("/a")], cursor: "c1" }), says(200, { changes: [change("/b")], cursor: null })]);
  assert.deepEqual((await all(p.sandbox("v").diff("w", { ignore: [] }))).map((c) => c.path), ["/a", "/b"]);
  assert.equal(seen[1].url, "/v1/vms/v/diff?with=w&ignore=&cursor=c1");
});

test("pages of logs are put in order, and what comes is followed", async () => {
  const line = (at, message) => ({ timestamp: `2026-01-01T00:00:0${at}.000Z`, message });
  const p = client([says(200, { logs: [line(2, "b"), line(3, "c")], nextPageToken: "t" }), says(200, { logs: [line(1, "a")], nextPageToken: null }),
    says(200, { logs: [line(3, "c"), line(3, "d"), line(4, "e")], nextPageToken: null })]);
  const got = [];
  for await (const l of p.logs({ vmId: "v", follow: true })) {
    got.push(l.message);
    if (l.message === "e") break;
  }
  assert.equal(got.join(""), "abcde");
  assert.equal(seen[1].url, "/observability/v1/logs?vmId=v&pageToken=t");
  assert.equal(seen[2].url, `/observability/v1/logs?vmId=v&startTime=${encodeURIComponent(line(3).timestamp)}`);
});
