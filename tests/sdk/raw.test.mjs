// SPDX-License-Identifier: Apache-2.0
// raw.test.mjs - what the SDK does not show: statuses, headers and shapes. Makes no VM.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, it } from "node:test";
import { Errors, Freestyle } from "freestyle";
import { key, raw, SHORT, url } from "./client.mjs";

function isError(r, status, code) {
  assert.equal(r.status, status, r.text);
  assert.ok(r.json, `not JSON: ${r.text}`);
  assert.equal(r.json.code, code);
  assert.equal(r.json.error, code);
  assert.ok(r.json.message && r.json.description);
  assert.match(r.headers.get("x-freestyle-trace-id"), /^[0-9a-f]{32}$/);
}

describe("the wire", { timeout: SHORT }, () => {
  it("answers health without a key", async () => {
    const r = await raw("GET", "/v1/health", { auth: null });
    assert.equal(r.status, 200);
    assert.equal(r.json.template.state, "ready");
    assert.ok(["kvm", "tcg"].includes(r.json.accel));
  });

  it("refuses requests without a good key, in JSON with a known code", async () => {
    for (const auth of [null, "Bearer nonsense", "Basic eDp5", `Bearer ${key}x`])
      for (const [method, path, body] of [["GET", "/auth/v1/whoami"], ["POST", "/v1/vms", {}], ["GET", "/v1/vms"],
        ["POST", "/v1/vms/snapshots", {}]])
        isError(await raw(method, path, { auth, body }), 401, "UNAUTHORIZED_ERROR");
    isError(await raw("GET", "/v1/vms", { auth: null, headers: { "X-Freestyle-Identity-Access-Token": "t" } }), 401,
      "UNAUTHORIZED");
  });

  it("makes the SDK give up on a wrong key instead of trying for ever", async () => {
    const stranger = new Freestyle({ apiKey: "pando_" + "A".repeat(40), baseUrl: url });
    await assert.rejects(stranger.vms.create(), (e) => e instanceof Errors.UnauthorizedErrorError);
    await assert.rejects(stranger.whoami(), /401/);
  });

  it("knows no other routes", async () => {
    isError(await raw("GET", "/v1/nothing"), 404, "NOT_FOUND");
    isError(await raw("GET", "/v1/vms/x/y/z"), 404, "NOT_FOUND");
    const r = await raw("DELETE", "/auth/v1/whoami");
    isError(r, 405, "INVALID_REQUEST");
    assert.equal(r.headers.get("allow"), "GET");
  });

  it("lets browsers ask", async () => {
    const r = await raw("OPTIONS", "/v1/vms", { auth: null, headers: { Origin: "https://app.example" } });
    assert.equal(r.status, 204);
    assert.equal(r.headers.get("access-control-allow-origin"), "*");
    assert.match(r.headers.get("access-control-allow-headers"), /X-Freestyle-Vm-Linux-User-Id/i);
    assert.match(r.headers.get("access-control-allow-methods"), /PATCH/);
  });

  it("refuses what it cannot do, by name", async () => {
    isError(await raw("POST", "/v1/vms", { body: { spec: { aptDeps: ["-y"] } } }), 400, "CREATE_VM_BAD_REQUEST");
    isError(await raw("POST", "/v1/vms", { body: "{" }), 400, "CREATE_VM_BAD_REQUEST");
    isError(await raw("POST", "/v1/vms/snapshots", { body: { spec: { aptDeps: ["-y"] } } }), 400,
      "CREATE_SNAPSHOT_BAD_REQUEST");
    isError(await raw("GET", "/v1/vms?limit=x"), 400, "INVALID_PARAMETERS");
    isError(await raw("GET", "/v1/vms/..%2F..%2Fetc"), 400, "INVALID_VM_ID");
  });

  it("counts VMs and snapshots in every state", async () => {
    const vms = (await raw("GET", "/v1/vms")).json;
    for (const name of ["total", "running", "starting", "suspended", "stopped", "building", "suspending", "lost"])
      assert.equal(typeof vms[`${name}Count`], "number", `${name}Count`);
    const snaps = (await raw("GET", "/v1/vms/snapshots?includeDeleted=true")).json;
    for (const name of ["total", "building", "ready", "failed", "cancelled", "lost", "deleted"])
      assert.equal(typeof snaps[`${name}Count`], "number", `${name}Count`);
  });

  it("asks for a length or chunks, one of them, once", async () => {
    const post = (...headers) => bytes(["POST /v1/vms HTTP/1.1", "Host: x", ...headers, "", "{}"].join("\r\n"));
    isBytesError(await post("Content-Length: x"), 400);
    isBytesError(await post("Content-Length: -1"), 400);
    isBytesError(await post("Content-Length: 2", "Content-Length: 3"), 400);
    isBytesError(await post("Content-Length: 2", "Transfer-Encoding: chunked"), 400);
    isBytesError(await post("Transfer-Encoding: gzip"), 400);
    isBytesError(await post("Content-Length: 99999999999999999999999"), 413);
  });

  it("answers broken requests in JSON", async () => {
    isBytesError(await bytes("GET /v1/vms HTTP/1.1\r\n\r\n"), 400);
    isBytesError(await bytes("GET /v1/vms\r\n\r\n"), 400);
    isBytesError(await bytes("GET /v1/vms HTTP/9.9\r\nHost: x\r\n\r\n"), 505);
    isBytesError(await bytes("GET /v1/vms HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n"), 400);
    isBytesError(await bytes(`GET /${"a".repeat(20000)} HTTP/1.1\r\nHost: x\r\n\r\n`), 414);
    isBytesError(await bytes(`GET /v1/vms HTTP/1.1\r\nHost: x\r\nX: ${"a".repeat(100000)}\r\n\r\n`), 431);
  });

  it("refuses bodies that are too large, at once and in JSON", async () => {
    isError(await raw("POST", "/v1/vms", { body: `{"x":"${"a".repeat(9 << 20)}"}` }), 413, "INVALID_REQUEST");
    isError(await raw("POST", "/v1/vms/snapshots", { body: `{"x":"${"a".repeat(9 << 20)}"}` }), 413, "INVALID_REQUEST");
  });

  it("refuses JSON that is none, in every way", async () => {
    const bad = ["{", "[]", "7", "null", '{"a":1,"a":2}', '{"a":1}{"b":2}', "{'a':1}", '{"a":' + "[".repeat(5000),
      '{"a":"\\ud800"}', Buffer.from('{"a":"\xff"}', "latin1")];
    for (const body of bad) {
      const r = await fetch(url + "/v1/vms", { method: "POST", headers: { Authorization: `Bearer ${key}` }, body });
      const text = await r.text();
      isError({ status: r.status, headers: r.headers, text, json: JSON.parse(text) }, 400, "CREATE_VM_BAD_REQUEST");
    }
  });

  it("decodes paths once and not into others", async () => {
    for (const path of ["/v1/vms/%", "/v1/vms/%zz", "/v1/vms/%00", "/v1/vms/a%2"])
      isError(await raw("GET", path), 400, "INVALID_REQUEST");
    for (const path of ["/v1/%76ms", "/v1//vms", "/v1/vms/", "/v1/vms/a/files/", "/v1/vms/a/files/b/c"])
      isError(await raw("GET", path), 404, "NOT_FOUND");
    isBytesError(await bytes("GET /v1/vms/../health HTTP/1.1\r\nHost: x\r\n\r\n"), 404);
    isError(await raw("GET", "/v1/vms/" + "a".repeat(20) + "/files/..%2F..%2Fetc%2Fpasswd"), 404, "VM_NOT_FOUND");
  });

  it("says that ids it does not know are unknown", async () => {
    const vm = "a".repeat(20), snapshot = "sc-" + vm;
    for (const [method, path, body] of [["GET", ""], ["DELETE", ""], ["POST", "/start", {}], ["POST", "/stop"],
      ["POST", "/kill"], ["POST", "/suspend"], ["POST", "/snapshot", {}], ["POST", "/exec-await", { command: "true" }],
      ["GET", "/files/%2F"], ["PUT", "/files/%2Fx", { content: "" }]])
      isError(await raw(method, `/v1/vms/${vm}${path}`, { body }), 404, "VM_NOT_FOUND");
    for (const [method, body] of [["GET"], ["DELETE"], ["PATCH", { name: "x" }]])
      isError(await raw(method, `/v1/vms/snapshots/${snapshot}`, { body }), 404, "SNAPSHOT_NOT_FOUND");
    isError(await raw("GET", "/auth/v1/background-requests/ri-" + vm), 404, "NOT_FOUND");
  });

  it("answers 200 requests at once", async () => {
    const all = await Promise.all(Array.from({ length: 200 }, (_, i) => raw("GET", i % 2 ? "/v1/vms" : "/auth/v1/whoami")));
    for (const r of all) assert.equal(r.status, 200, r.text);
    assert.equal(new Set(all.map((r) => r.headers.get("x-freestyle-trace-id"))).size, 200);
  });

  it("answers pipelined requests in order", async () => {
    const one = (path, more = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n${more}\r\n`;
    const text = await bytes(one("/auth/v1/whoami") + one("/nothing") + one("/v1/vms", "Connection: close\r\n"));
    assert.deepEqual([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((m) => m[1]), ["200", "404", "200"]);
  });
});

/** What the server sends for these bytes, until it closes. */
function bytes(data) {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(data));
    let got = "";
    socket.setTimeout(SHORT / 2, () => socket.destroy(new Error(`no end after ${data.slice(0, 60)}`)));
    socket.on("data", (d) => {
      got += d.toString("latin1");
      if (!/Connection: close/.test(data) && complete(got)) socket.end();
    });
    socket.on("error", (e) => (got ? resolve(got) : reject(e)));
    socket.on("close", () => resolve(got));
  });
}

function complete(text) {
  const head = text.indexOf("\r\n\r\n");
  const length = text.match(/^content-length: (\d+)/im);
  return head > 0 && length && text.length >= head + 4 + Number(length[1]);
}

/** The reply is an error in JSON, whatever the library thought of the request. */
function isBytesError(text, status) {
  const m = text.match(/^HTTP\/1\.1 (\d+)/);
  assert.ok(m, `no HTTP: ${text.slice(0, 200)}`);
  assert.equal(Number(m[1]), status, text);
  assert.match(text, /^x-freestyle-trace-id: [0-9a-f]{32}/im);
  const body = JSON.parse(text.slice(text.indexOf("\r\n\r\n") + 4));
  assert.ok(body.code && body.code === body.error && body.message, text);
}
