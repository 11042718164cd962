// SPDX-License-Identifier: Apache-2.0
// systemd.test.mjs - services and terminals of a VM through the unmodified freestyle package
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { Errors } from "freestyle";
import { BOOT, SECOND, SHORT, cleanUp, create } from "./client.mjs";

/** Asks until it is so. */
async function until(what, ask, limit = 60 * SECOND) {
  const end = Date.now() + limit;
  for (;;) {
    const got = await ask();
    if (got) return got;
    assert.ok(Date.now() < end, `not in time: ${what}`);
    await pause(200);
  }
}

describe("services and terminals", () => {
  let vm;
  const spec = { name: "sdk-service", mode: "service", exec: ["/bin/sh -c 'echo says $WORD; exec sleep 1000'"], env: { WORD: "hello" } };

  before(async () => {
    vm = await create({ name: "sdk systemd" });
  }, { timeout: BOOT });

  after(cleanUp, { timeout: SHORT });

  it("creates a service", { timeout: SHORT }, async () => {
    const r = await vm.systemd.create(spec);
    assert.deepEqual([r.success, r.serviceName], [true, "sdk-service"]);
    assert.equal(typeof r.message, "string");
    await assert.rejects(vm.systemd.create(spec), (e) => {
      assert.ok(e instanceof Errors.ServiceAlreadyExistsError, e);
      assert.equal(e.body.serviceName, "sdk-service");
      return true;
    });
  });

  it("lists it and knows its state", { timeout: SHORT }, async () => {
    const { services } = await vm.systemd.list();
    assert.ok(services.some((s) => s.name === "sdk-service"));
    const s = await vm.systemd.service("sdk-service").status();
    assert.deepEqual([s.name, s.activeState, s.subState, s.loadState, s.description],
      ["sdk-service", "active", "running", "loaded", "sdk-service"]);
  });

  it("reads its log", { timeout: SHORT }, async () => {
    const line = await until("its output is in the journal", async () => {
      const { logs } = await vm.systemd.getLogs({ serviceId: "sdk-service", lines: 20 });
      return logs.find((l) => l.message === "says hello");
    });
    assert.ok(!Number.isNaN(Date.parse(line.timestamp)));
    assert.equal(line.priority, 6);
    assert.equal(line.unit, "sdk-service.service");
    const none = await vm.systemd.getLogs({ serviceId: "sdk-service", since: new Date(Date.now() + 3600e3).toISOString() });
    assert.deepEqual(none.logs, []);
  });

  it("stops, starts and restarts", { timeout: SHORT }, async () => {
    const stop = await vm.systemd.stop({ services: [{ id: "sdk-service" }, { id: "no-such-thing" }] });
    assert.deepEqual(stop.results.map((r) => [r.serviceId, r.success]), [["sdk-service", true], ["no-such-thing", false]]);
    assert.equal((await vm.systemd.getStatus({ serviceId: "sdk-service" })).activeState, "inactive");
    for (const verb of ["start", "restart"]) {
      const r = await vm.systemd[verb]({ services: [{ id: "sdk-service" }] });
      assert.deepEqual(r.results.map((x) => x.success), [true], JSON.stringify(r));
    }
  });

  it("deletes it", { timeout: SHORT }, async () => {
    assert.equal((await vm.systemd.delete({ serviceId: "sdk-service" })).success, true);
    for (const call of ["getStatus", "delete"])
      await assert.rejects(vm.systemd[call]({ serviceId: "sdk-service" }), Errors.ServiceNotFoundError);
    await assert.rejects(vm.systemd.create({ ...spec, name: "no good" }), Errors.ServiceNameInvalidCharsError);
    await assert.rejects(vm.systemd.create({ ...spec, exec: [] }), Errors.ExecEmptyError);
  });

  it("keeps what commands say in a terminal", { timeout: SHORT }, async () => {
    await vm.exec({ command: "echo one; printf '\\033[1mtwo\\033[0m\\n'", terminal: "main" });
    const { terminals } = await vm.terminals.list();
    assert.deepEqual(terminals.map((t) => [t.name, t.status]), [["main", "idle"]]);
    const { logs } = await vm.terminals.getLogs({ terminalId: "main" });
    assert.deepEqual(logs.map((l) => l.line), ["one", "two"]);
    const { output } = await vm.terminals.getOutput({ terminalId: "main" });
    assert.equal(output, "one\r\n\x1b[1mtwo\x1b[0m\r\n");
    await assert.rejects(vm.terminals.getLogs({ terminalId: "none" }), Errors.SessionNotFoundError);
  });
});
