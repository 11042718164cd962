// SPDX-License-Identifier: Apache-2.0
// options.test.mjs - options that are not part of Freestyle's protocol, through the unmodified package
//
// The package passes members of create() and fork() on that it does not know. It has no words for
// lists by tag, PATCH, ports and webhooks: those go through its own fetch().
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { VmSpec } from "freestyle";
import { BOOT, SHORT, cleanUp, create, freestyle, keep, remove, sh } from "./client.mjs";
import { receiver, verified } from "./receiver.mjs";

/** One request by the package's own client, with its login. */
async function ask(method, path, body) {
  const r = await freestyle.fetch(path, { method, body: body && JSON.stringify(body) });
  const text = await r.text();
  assert.ok(r.ok, `${method} ${path}: ${r.status} ${text}`);
  return JSON.parse(text);
}

describe("options beyond the protocol", () => {
  let vm, hook, hooks;

  before(async () => {
    hooks = await receiver();
    hook = await ask("POST", "/v1/webhooks", { url: hooks.url, events: ["vm.*"], tags: ["sdk-options"] });
    vm = await create({ name: "options", env: { COLOUR: "dark blue" }, tags: ["sdk-options", "web"], metadata: { owner: "ann" }, deleteAfterSeconds: 3600 });
  }, { timeout: SHORT });
  after(async () => {
    await cleanUp();
    if (hook) await ask("DELETE", `/v1/webhooks/${hook.id}`);
    hooks.close();
  }, { timeout: SHORT });

  it("env is what commands see", { timeout: SHORT }, async () => {
    assert.equal(await sh(vm, 'echo "$COLOUR"'), "dark blue");
  });

  it("tags, metadata and the end of life are shown, filtered by and changed", { timeout: SHORT }, async () => {
    const info = await vm.getInfo();
    assert.deepEqual([info.tags, info.metadata], [["sdk-options", "web"], { owner: "ann" }]);
    const left = Date.parse(info.deleteAt) - Date.now();
    assert.ok(left > 0 && left <= 3600_000, `${left} ms left`);
    const ids = async (query) => (await ask("GET", `/v1/vms?${query}`)).vms.map((v) => v.id);
    assert.deepEqual(await ids("tags=sdk-options,web&metadata=owner=ann"), [vm.vmId]);
    assert.deepEqual(await ids("tags=sdk-options&metadata=owner=bob"), []);
    const changed = await ask("PATCH", `/v1/vms/${vm.vmId}`, { name: "renamed", metadata: { owner: "bob" }, deleteAfterSeconds: 7200 });
    assert.deepEqual([changed.name, changed.metadata, changed.tags], ["renamed", { owner: "bob" }, ["sdk-options", "web"]]);
    assert.ok(Date.parse(changed.deleteAt) > Date.parse(info.deleteAt));
  });

  it("forks have names of their own", { timeout: SHORT }, async () => {
    const { forks } = await vm.fork({ count: 2, deleteAfterSeconds: 600 });
    for (const f of forks) keep(f.vmId);
    const children = await Promise.all(forks.map((f) => f.vm.getInfo()));
    assert.deepEqual(children.map((c) => c.name).sort(), ["renamed-1", "renamed-2"]);
    for (const c of children) {
      assert.deepEqual(c.tags, ["sdk-options", "web"]);
      assert.ok(Date.parse(c.deleteAt) - Date.now() <= 600_000);
    }
    assert.equal(await sh(forks[0].vm, 'echo "$COLOUR"'), "dark blue");
    for (const f of forks) await remove(f.vm);
  });

  it("ports say where the VM's own name leads", { timeout: SHORT }, async () => {
    const ports = async () => (await ask("GET", `/v1/vms/${vm.vmId}/ports`)).ports.map((p) => [p.port, p.targetPort, p.protocol]);
    // At create the package refuses them, and its VmSpec has no word for them.
    await assert.rejects(freestyle.vms.create({ ports: [{ port: 443, targetPort: 8080 }] }), /belong to VmSpec: ports/);
    assert.deepEqual(await ports(), [[443, 3000, "tcp"]]);
    await ask("POST", `/v1/vms/${vm.vmId}/ports`, { port: 443, targetPort: 8443, protocol: "tls" });
    assert.deepEqual(await ports(), [[443, 8443, "tls"]]);
    const m = await freestyle.domains.mappings.create({ domain: "sdk-options.style.dev", vmId: vm.vmId, vmPort: 8443, protocol: "tls" });
    assert.equal(m.protocol, "tls");
    await freestyle.domains.mappings.delete({ domain: "sdk-options.style.dev" });
  });

  it("waitForReadySignal waits for the service", { timeout: BOOT }, async () => {
    const spec = new VmSpec().waitForReadySignal(true).systemdService({ name: "slow", mode: "service", readySignal: true,
      exec: ["/bin/sh -c 'sleep 2; touch /run/told; systemd-notify --ready; exec sleep infinity'"] });
    const waited = await create({ spec });
    assert.equal(await sh(waited, "cat /run/told; systemctl is-active slow"), "active");
    await remove(waited);
  });

  it("webhooks tell what happened, signed", { timeout: SHORT }, async () => {
    const types = () => hooks.got.map((d) => JSON.parse(d.text)).filter((e) => e.vm.id === vm.vmId).map((e) => e.type);
    await hooks.until(() => types().includes("vm.forked"));
    assert.deepEqual(types().slice(0, 2), ["vm.created", "vm.forked"]);
    const { headers, text } = hooks.got[0];
    const { payload } = await verified(hooks.got[0]);
    assert.deepEqual([JSON.parse(text).vm.tags, payload.jti], [["sdk-options", "web"], headers.get("x-freestyle-delivery")]);
  });
});
