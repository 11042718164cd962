// SPDX-License-Identifier: Apache-2.0
// edge_h2c.mjs - a client of HTTP/2 in front of the edge, with h2c_app.mjs behind it; run by test_edge_h2c.py
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect, constants } from "node:http2";
import { request } from "node:http";
import { after, before, describe, it } from "node:test";
import { connect as tls } from "node:tls";

const { EDGE_TLS, EDGE_HTTP, EDGE_CA, APP_PORT, H1_PORT } = process.env;
const host = `h2c-${APP_PORT}.edge.test`;
const limit = { timeout: 60000 };

function open(name) {
  const socket = tls({ host: "127.0.0.1", port: Number(EDGE_TLS), ca: readFileSync(EDGE_CA), servername: name, ALPNProtocols: ["h2"] });
  return connect(`https://${name}`, { createConnection: () => socket });
}

/** All of a response. */
function result(stream) {
  return new Promise((resolve) => {
    const r = { headers: null, trailers: null, body: "", code: null, endStream: false, error: null };
    stream.on("response", (h, flags) => { r.headers = h; r.endStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0; });
    stream.on("trailers", (t) => { r.trailers = t; });
    stream.on("data", (d) => { r.body += d; });
    stream.on("error", (e) => { r.error = e; });
    stream.on("close", () => { r.code = stream.rstCode; resolve(r); });
  });
}

describe("HTTP/2 to the VM", () => {
  let c;
  const ask = (path, headers = {}, body = undefined) => {
    const s = c.request({ ":authority": host, ":path": path, ":method": body === undefined ? "GET" : "POST", ...headers }, { endStream: body === undefined });
    if (body !== undefined) s.end(body);
    return result(s);
  };
  const seen = async (path) => JSON.parse((await ask(`/seen?path=${encodeURIComponent(path)}`)).body);

  before(() => { c = open(host); });
  after(() => c.destroy());

  it("passes the head on", limit, async () => {
    const r = await ask("/echo?a=b", { te: "trailers", "x-real-ip": "6.6.6.6", cookie: "a=1", "x-own": "Value" });
    const got = JSON.parse(r.body);
    assert.equal(r.headers[":status"], 200);
    assert.deepEqual([got[":method"], got[":scheme"], got[":path"], got[":authority"]], ["GET", "http", "/echo?a=b", host]);
    assert.deepEqual([got.te, got["x-own"], got.cookie, got["x-real-ip"]], ["trailers", "Value", "a=1", undefined]);
    assert.deepEqual([got["x-forwarded-for"], got["x-forwarded-proto"], got["x-forwarded-host"]], ["127.0.0.1", "https", host]);
    assert.equal(got.host, undefined);
    assert.equal(JSON.parse((await ask("/echo")).body).te, undefined);
  });

  it("passes trailers both ways", limit, async () => {
    const s = c.request({ ":path": "/trailers", ":method": "POST", te: "trailers" }, { endStream: false, waitForTrailers: true });
    s.on("wantTrailers", () => s.sendTrailers({ "x-sent": "by the client", "x-real-ip": "6.6.6.6" }));
    s.end("12345");
    const r = await result(s);
    assert.equal(r.body, "12345");
    assert.deepEqual([r.trailers["x-sum"], r.trailers["x-got"]], ["5", "by the client"]);
    assert.equal((await ask("/trailers", {}, "")).trailers["x-got"], "none");
  });

  it("passes an answer that is a head alone as one", limit, async () => {
    const r = await ask("/only", { "content-type": "application/grpc" }, "x");
    assert.deepEqual([r.headers["grpc-status"], r.endStream, r.body, r.headers["content-length"]], ["5", true, "", undefined]);
    assert.equal((await ask("/none")).headers[":status"], 204);
    assert.equal((await ask("/interim")).body, '"after"');
  });

  it("passes resets both ways", limit, async () => {
    for (const [path, code] of [["/reset?code=8", 8], ["/reset?code=11", 11]]) {
      const r = await ask(path, {}, "x");
      assert.equal(r.code, code, path);
    }
    const path = `/hold?${Math.random()}`;
    const s = c.request({ ":path": path, ":method": "POST" }, { endStream: false });
    s.on("error", () => {});
    await new Promise((resolve) => s.once("data", resolve));
    s.close(constants.NGHTTP2_CANCEL);
    while (await seen(path) === null) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(await seen(path), "aborted");
  });

  it("streams in both directions at once", limit, async () => {
    const s = c.request({ ":path": "/duplex", ":method": "POST" }, { endStream: false });
    const next = () => new Promise((resolve) => s.once("data", (d) => resolve(String(d))));
    for (const word of ["one", "two", "three"]) {
      const got = next();
      s.write(word);
      assert.equal(await got, word);
    }
    s.end();
    await new Promise((resolve) => s.once("end", resolve));
  });

  it("takes no more than is read", limit, async () => {
    const s = c.request({ ":path": `/big?n=${64 << 20}` });
    s.pause();
    await new Promise((resolve) => s.once("response", resolve));
    await new Promise((resolve) => setTimeout(resolve, 500));
    const other = open(host); // the window of this connection is the stream's
    assert.equal((await result(other.request({ ":path": "/echo" }))).headers[":status"], 200);
    other.destroy();
    let n = 0;
    s.on("data", (d) => { n += d.length; });
    s.resume();
    await new Promise((resolve) => s.once("end", resolve));
    assert.equal(n, 64 << 20);
  });

  it("carries much in both directions", limit, async () => {
    const body = Buffer.alloc(32 << 20, "y");
    assert.equal((await ask("/count", {}, body)).body, String(body.length));
    const r = await ask("/big?n=5000000&length=1");
    assert.deepEqual([r.body.length, r.headers["content-length"]], [5000000, "5000000"]);
    const all = await Promise.all(Array.from({ length: 50 }, (_, i) => ask(`/big?n=${i * 10000}`)));
    const lost = all.filter((x, i) => x.body.length !== i * 10000).map((x) => [x.headers, x.code, x.body.slice(0, 200)]);
    assert.deepEqual(lost, []);
  });

  it("passes an early answer", limit, async () => {
    const s = c.request({ ":path": "/early", ":method": "POST" }, { endStream: false });
    s.write("begun");
    const r = await result(s);
    assert.deepEqual([r.headers[":status"], r.body, r.code], [413, "too much", 0]);
    for (const path of ["/only", "/early-trailers"]) {
      const t = c.request({ ":path": path, ":method": "POST" }, { endStream: false });
      t.write("begun");
      const a = await result(t);
      assert.deepEqual([(a.trailers ?? a.headers)["grpc-status"], a.code], ["5", 0], path);
    }
  });

  it("uses a connection again, and another after GOAWAY", limit, async () => {
    const first = JSON.parse((await ask("/sessions")).body);
    for (let i = 0; i < 20; i++) await ask("/echo");
    assert.ok(JSON.parse((await ask("/sessions")).body) <= first + 1);
    for (let i = 0; i < 5; i++) assert.equal((await ask("/goaway")).body, '"last"');
    assert.equal((await ask("/echo")).headers[":status"], 200);
  });

  it("explains errors as gRPC does", limit, async () => {
    const silent = open("silent.edge.test");
    const s = silent.request({ ":path": "/x.Y/Z", ":method": "POST", "content-type": "application/grpc+proto", te: "trailers" });
    s.end("x");
    const r = await result(s);
    silent.destroy();
    assert.deepEqual([r.headers[":status"], r.headers["grpc-status"], r.endStream], [200, "14", true]);
    assert.match(decodeURIComponent(r.headers["grpc-message"]), /nothing listens on its port/);
    const old = open(`h2c-${H1_PORT}.edge.test`); // a program that speaks HTTP/1 alone
    const q = await result(old.request({ ":path": "/echo" }));
    old.destroy();
    assert.equal(q.headers[":status"], 502);
    assert.match(q.body, /BAD_ANSWER.*h2c/s);
  });

  const plain = (options, body) => new Promise((resolve, reject) => {
    const r = request({ host: "127.0.0.1", port: Number(EDGE_HTTP), ...options, headers: { host, ...options.headers } }, (a) => {
      let text = "";
      a.on("data", (d) => { text += d; });
      a.on("end", () => resolve({ status: a.statusCode, headers: a.headers, trailers: a.trailers, body: text }));
      a.on("error", reject);
      a.on("aborted", () => reject(new Error("aborted")));
    });
    r.on("error", reject);
    if (body?.length) for (const p of body) r.write(p);
    r.end();
  });

  it("serves clients of HTTP/1", limit, async () => {
    assert.equal(JSON.parse((await plain({ path: "/echo" })).body)[":path"], "/echo");
    const r = await plain({ path: "/trailers", method: "POST", headers: { te: "trailers", connection: "TE" } }, ["123", "45"]);
    assert.deepEqual([r.status, r.body, r.trailers["x-sum"]], [200, "12345", "5"]);
    assert.deepEqual((await plain({ path: "/trailers", method: "POST" }, ["1"])).trailers, {});
    const only = await plain({ path: "/only", method: "POST" }, ["1"]);
    assert.deepEqual([only.status, only.body, only.headers["grpc-status"], only.headers["content-length"]], [200, "", "5", "0"]);
    assert.equal((await plain({ path: "/none" })).status, 204);
    assert.equal((await plain({ path: "/echo", method: "HEAD" })).status, 200);
    assert.equal((await plain({ path: "/reset?code=8" })).status, 502);
    assert.equal((await plain({ path: "/big?n=1000000" })).body.length, 1000000);
    const ws = await plain({ path: "/", headers: { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" } });
    assert.equal(ws.status, 501);
    assert.match(ws.body, /protocol http1/);
  });
});
