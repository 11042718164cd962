// SPDX-License-Identifier: Apache-2.0
// domains.test.mjs - names: verifications, mappings and preview domains through the package; tests/e2e/test_domains.py completes one
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Errors } from "freestyle";
import { SHORT, cleanUp, create, freestyle, keep } from "./client.mjs";

describe("domains", () => {
  let vm;
  const name = `preview-${crypto.randomUUID().slice(0, 8)}.style.dev`;

  before(async () => {
    vm = await create({ name: "sdk domains" });
  }, { timeout: SHORT });
  after(cleanUp, { timeout: SHORT });

  it("maps a preview name to a port", { timeout: SHORT }, async () => {
    const m = await freestyle.domains.mappings.create({ domain: name, vmId: vm.vmId, vmPort: 3000 });
    assert.equal(m.domain, name);
    const { mappings } = await freestyle.domains.mappings.list();
    const mine = mappings.find((x) => x.domain === name);
    assert.equal(mine.vmId, vm.vmId);
    assert.equal(mine.vmPort, 3000);
    await freestyle.domains.mappings.create({ domain: name, vmId: vm.vmId, vmPort: 3001 });
    assert.equal((await freestyle.domains.mappings.list({ domain: name })).mappings[0].vmPort, 3001);
    await freestyle.domains.mappings.delete({ domain: name });
    assert.deepEqual((await freestyle.domains.mappings.list({ domain: name })).mappings, []);
  });

  it("maps names of a VM that is made with them", { timeout: SHORT }, async () => {
    const r = await freestyle.vms.create({ idleTimeoutSeconds: null, domains: [{ domain: name, vmPort: 8000 }] });
    keep(r.vmId ?? r.vm.vmId);
    assert.deepEqual(r.domains, [name]);
    await assert.rejects(freestyle.vms.create({ domains: [{ domain: "www.not-mine.example", vmPort: 1 }] }),
      Errors.DomainOwnershipNotVerifiedError);
  });

  it("begins, lists and cancels a verification", { timeout: SHORT }, async () => {
    const domain = "sdk-verification.example";
    const v = await freestyle.domains.verifications.create({ domain });
    assert.ok(JSON.stringify(v).includes("_freestyle_custom_hostname"));
    const code = v.verificationCode ?? v.record?.value;
    const list = await freestyle.domains.verifications.list();
    assert.ok(list.some((x) => x.domain === domain && x.verificationCode === code));
    await freestyle.domains.verifications.cancel({ domain, verificationCode: code });
    assert.ok(!(await freestyle.domains.verifications.list()).some((x) => x.domain === domain));
    await assert.rejects(freestyle.domains.verifications.complete({ domain }), Errors.VerificationNotFoundError);
    assert.ok(Array.isArray((await freestyle.domains.list()).domains ?? (await freestyle.domains.list())));
  });

  it("refuses what is not one's own", { timeout: SHORT }, async () => {
    await assert.rejects(freestyle.domains.mappings.create({ domain: "www.not-mine.example", vmId: vm.vmId, vmPort: 1 }),
      Errors.DomainOwnershipNotVerifiedError);
    await assert.rejects(freestyle.domains.mappings.create({ domain: "api.pando.localhost", vmId: vm.vmId, vmPort: 1 }),
      Errors.DomainAlreadyExistsError);
    await assert.rejects(freestyle.domains.mappings.create({ domain: name, vmId: "a".repeat(20), vmPort: 1 }), Errors.VmNotFoundError);
  });
});
