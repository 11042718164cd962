// SPDX-License-Identifier: Apache-2.0
// life.test.mjs - what the package can ask of a VM's life beyond start and stop: exit, sizes, usage, persistence
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Errors } from "freestyle";
import { SHORT, cleanUp, create, freestyle, keep, raw, remove, sh } from "./client.mjs";

describe("the life of a VM", () => {
  let vm;

  before(async () => {
    vm = await create({ name: "sdk life", persistence: { type: "sticky", priority: 3 }, selfAccess: { allow: ["snapshot"] } });
  }, { timeout: SHORT });
  after(cleanUp, { timeout: SHORT });

  it("has sizes, usage and persistence", { timeout: SHORT }, async () => {
    const item = (await freestyle.vms.list()).vms.find((v) => v.id === vm.vmId);
    assert.deepEqual(item.persistence, { type: "sticky", priority: 3 });
    assert.equal(typeof item.metrics.wallTimeSeconds, "number");
    assert.equal(item.metrics.isActiveToday, true);
    await sh(vm, "echo x >/root/x; sync");
    const info = await vm.getInfo();
    assert.ok(info.cpuTimeSeconds > 0);
    assert.equal(info.usage.cpuSeconds, info.cpuTimeSeconds);
    assert.ok(info.usage.diskWriteBytes > 0);
  });

  it("passes on what it does not know itself", { timeout: SHORT }, async () => {
    assert.deepEqual((await vm.getInfo()).selfAccess, { allow: ["snapshot"], inherit: true });
    assert.deepEqual(JSON.parse(await sh(vm, "pando self info --json")).selfAccess, ["snapshot"]);
  });

  it("tidies up on request", { timeout: SHORT }, async () => {
    const r = await vm.optimize();
    assert.equal(r.id, vm.vmId);
    assert.match(r.message, /trimmed/);
  });

  it("honours persistence in a fork", { timeout: SHORT }, async () => {
    const { forks } = await vm.fork({ count: 1, persistence: { type: "ephemeral", deleteEvent: "OnSuspend" } });
    const { vm: child, vmId } = forks[0];
    keep(vmId);
    assert.equal((await child.getInfo()).parentVmId, vm.vmId);
    const exit = child.waitForExit();
    await child.suspend();
    assert.match((await exit).exitStatus, /^(suspended|deleted)$/);
    await assert.rejects(child.exec("true"), Errors.VmDeletedError);
  });

  it("waits for the end of the machine", { timeout: SHORT }, async () => {
    const exit = vm.waitForExit();
    await sh(vm, "true");
    await vm.kill();
    assert.deepEqual(await exit, { id: vm.vmId, exitStatus: "killed" });
    assert.equal((await vm.waitForExit()).exitStatus, "killed"); // and at once when it is over
  });

  it("is resized at rest; what cannot be is refused by class", { timeout: SHORT }, async () => {
    await vm.resize({ cpu: 1, storage: 21 });
    const { sizing, state } = await vm.getInfo();
    assert.deepEqual([sizing.vcpuCount, sizing.rootfsSizeMb, state], [1, 21 * 1024, "stopped"]);
    await assert.rejects(vm.resize({ cpu: 3 }), (e) => e instanceof Errors.ResizeVmVcpuNotPowerOfTwoError && e.body.got === 3);
    await assert.rejects(vm.resize({ memory: 1024 }), Errors.ResizeVmMemOutOfRangeError);
    await assert.rejects(vm.resize({ storage: 1 }), Errors.ResizeVmRootfsShrinkNotSupportedError);
    const empty = await raw("POST", `/v1/vms/${vm.vmId}/resize`, { body: {} });
    assert.deepEqual([empty.status, empty.json.code], [400, "RESIZE_VM_EMPTY_REQUEST"]);
  });

  it("is remembered after its end", { timeout: SHORT }, async () => {
    await remove(vm);
    await assert.rejects(vm.exec("true"), Errors.VmDeletedError);
    const { json } = await raw("GET", "/v1/vms?includeDeleted=true");
    const gone = json.vms.find((v) => v.id === vm.vmId);
    assert.deepEqual([gone.deleted, gone.deleteReason], [true, "deleted"]);
  });
});
