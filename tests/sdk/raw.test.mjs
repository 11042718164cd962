// SPDX-License-Identifier: Apache-2.0
// raw.test.mjs - what the SDK does not show: statuses, headers and shapes. Makes no VM.
import assert from "node:assert/strict";
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
    isError(await raw("GET", "/"), 404, "NOT_FOUND");
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
});
