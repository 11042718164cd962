// SPDX-License-Identifier: Apache-2.0
// grpc.test.mjs - calls of every kind with the grpc-js package, through the edge; GRPC_HOST leads to server.mjs
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import grpc from "@grpc/grpc-js";
import { service } from "./service.mjs";

const { GRPC_HOST, EDGE_TLS_PORT, EDGE_CA } = process.env;
const limit = { timeout: 150000 }; // an emulated guest is slow
const LARGE = Number(process.env.GRPC_LARGE ?? 4 << 20);
const Client = grpc.makeClientConstructor(service, "Test");
const text = (s) => Buffer.from(String(s));

export function open(host) {
  return new Client(`127.0.0.1:${EDGE_TLS_PORT}`, grpc.credentials.createSsl(readFileSync(EDGE_CA)), {
    "grpc.ssl_target_name_override": host, "grpc.default_authority": host, "grpc.max_receive_message_length": 64 << 20, "grpc.enable_retries": 0 });
}

const named = (name) => { const m = new grpc.Metadata(); m.set("x-name", name); return m; };
const unary = (c, name, body, metadata = new grpc.Metadata(), options = {}) => new Promise((resolve) => {
  const r = { metadata: null, status: null };
  const call = c[name](text(body), metadata, options, (error, value) => { r.error = error; r.value = value && String(value); });
  call.on("metadata", (m) => { r.metadata = m; });
  call.on("status", (s) => { r.status = s; resolve(r); });
});
const all = (stream) => new Promise((resolve) => {
  const r = { got: [], status: null };
  stream.on("data", (d) => r.got.push(String(d)));
  stream.on("error", () => {});
  stream.on("status", (s) => { r.status = s; resolve(r); });
});

describe("gRPC", () => {
  let c;
  before(() => { c = open(GRPC_HOST); });
  after(() => c.close());
  const ended = async (name) => {
    for (;;) {
      const { value } = await unary(c, "ended", name);
      if (value) return value;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };

  it("a call, with metadata before and after", { timeout: 120000 }, async () => { // which may have to wake the VM
    const r = await unary(c, "echo", "hello", named("first"));
    assert.deepEqual([r.error, r.value], [null, "hello"]);
    assert.deepEqual(r.metadata.get("x-first"), ["first"]);
    assert.deepEqual(r.status.metadata.get("x-trailer"), ["5"]);
    assert.equal((await unary(c, "echo", "")).value, "");
  });

  it("an error, with its code and details", limit, async () => {
    const r = await unary(c, "fail", "sorry");
    assert.deepEqual([r.status.code, r.status.details], [grpc.status.FAILED_PRECONDITION, "not today: sorry"]);
    const none = await new Promise((resolve) => c.makeUnaryRequest("/pando.Test/None", (v) => v, (v) => v, text(""), (e) => resolve(e)));
    assert.equal(none.code, grpc.status.UNIMPLEMENTED);
  });

  it("a stream of answers", limit, async () => {
    const r = await all(c.count(text(20)));
    assert.deepEqual([r.got, r.status.code], [Array.from({ length: 20 }, (_, i) => String(i)), 0]);
  });

  it("a stream of requests", limit, async () => {
    const got = await new Promise((resolve, reject) => {
      const call = c.sum((e, v) => (e ? reject(e) : resolve(String(v))));
      for (let i = 0; i < 10; i++) call.write(Buffer.alloc(100000));
      call.end();
    });
    assert.equal(got, "1000000");
  });

  it("both at once", limit, async () => {
    const call = c.chat();
    const done = all(call);
    for (const word of ["a", "b", "c"]) {
      const answer = new Promise((resolve) => call.once("data", resolve));
      call.write(text(word));
      assert.equal(String(await answer), `you said ${word}`);
    }
    call.end();
    assert.equal((await done).status.code, 0);
  });

  it("is cancelled on both sides", limit, async () => {
    const call = c.count(text(100000), named("given up"));
    const done = all(call);
    await new Promise((resolve) => call.once("data", resolve));
    call.cancel();
    assert.equal((await done).status.code, grpc.status.CANCELLED);
    assert.equal(await ended("given up"), "cancelled");
  });

  it("keeps a deadline", limit, async () => {
    const r = await unary(c, "slow", 30000, named("late"), { deadline: Date.now() + 1500 });
    assert.equal(r.status.code, grpc.status.DEADLINE_EXCEEDED);
    assert.equal(await ended("late"), "cancelled");
    assert.equal((await unary(c, "slow", 100)).value, "late");
  });

  it("large messages, and many at once", limit, async () => {
    const r = await unary(c, "echo", "z".repeat(LARGE));
    assert.equal(r.value?.length, LARGE, r.status.details);
    const many = await Promise.all(Array.from({ length: 50 }, (_, i) => unary(c, "echo", `call ${i}`)));
    assert.deepEqual(many.map((x) => x.value), Array.from({ length: 50 }, (_, i) => `call ${i}`));
  });

  it("says what is wrong when nothing listens", limit, async () => {
    if (!process.env.GRPC_SILENT) return;
    const silent = open(process.env.GRPC_SILENT);
    const r = await unary(silent, "echo", "x");
    silent.close();
    assert.equal(r.status.code, grpc.status.UNAVAILABLE);
    assert.match(r.status.details, /nothing listens on its port/);
  });
});
