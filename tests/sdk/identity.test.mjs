// SPDX-License-Identifier: Apache-2.0
// identity.test.mjs - identities, tokens and permissions through the unmodified package: what a client session may
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Errors, Freestyle } from "freestyle";
import { BOOT, SHORT, cleanUp, create, freestyle, raw, remove, sh, url } from "./client.mjs";

const denied = (e) => e instanceof Errors.VmAccessDeniedError;

describe("identities", () => {
  let vm, other, identity, identityId, token, tokenId, client;
  const made = [];

  before(async () => {
    vm = await create({ name: "granted" });
    other = await create({ name: "not granted" });
    await sh(vm, "useradd -m alice && useradd -m bob");
  }, { timeout: BOOT });

  after(async () => {
    for (const id of made) await raw("DELETE", `/identity/v1/identities/${id}`);
    await cleanUp();
  }, { timeout: SHORT });

  it("are made, listed and get tokens", { timeout: SHORT }, async () => {
    ({ identity, identityId } = await freestyle.identities.create());
    made.push(identityId);
    const { identityId: second } = await freestyle.identities.create();
    made.push(second);
    const list = await freestyle.identities.list();
    assert.ok(list.total >= 2 && list.offset === 0);
    assert.deepEqual(list.identities.find((i) => i.id === second), { id: second, managed: false });
    const page = await freestyle.identities.list({ limit: 1, cursor: "1" });
    assert.equal(page.identities.length, 1);
    assert.equal(page.offset, 1);
    assert.deepEqual(await freestyle.identities.delete({ identityId: second }), {});
    await assert.rejects(freestyle.identities.delete({ identityId: second }), Errors.IdentityNotFoundError);
    ({ token, tokenId } = await identity.tokens.create());
    const tokens = (await identity.tokens.list()).tokens;
    assert.deepEqual(tokens.map((t) => t.id), [tokenId]);
    assert.ok(!JSON.stringify(tokens).includes(token));
    client = new Freestyle({ accessToken: token, baseUrl: url });
  });

  it("may nothing at first", { timeout: SHORT }, async () => {
    const me = await client.whoami();
    assert.equal(me.identityId, identityId);
    assert.equal(me.accountId, (await freestyle.whoami()).accountId);
    assert.deepEqual((await client.vms.list()).vms, []);
    await assert.rejects(client.vms.ref({ vmId: vm.vmId }).exec("true"), denied);
    await assert.rejects(client.vms.create(), Errors.ForbiddenError);
    await assert.rejects(client.identities.create(), Errors.ForbiddenError);
    await assert.rejects(client.identities.list(), Errors.ForbiddenError);
  });

  it("get permissions on VMs", { timeout: SHORT }, async () => {
    const p = await identity.permissions.vms.grant({ vmId: vm.vmId, allowedUsers: ["alice"] });
    assert.equal(p.vmId, vm.vmId);
    assert.equal(p.identityId, identityId);
    assert.deepEqual(p.allowedUsers, ["alice"]);
    assert.ok(p.id && p.grantedBy && Date.parse(p.grantedAt));
    assert.deepEqual(await identity.permissions.vms.get({ vmId: vm.vmId }), p);
    assert.deepEqual((await identity.permissions.vms.list()).permissions, [p]);
    await assert.rejects(identity.permissions.vms.grant({ vmId: vm.vmId }), Errors.PermissionAlreadyExistsError);
    await assert.rejects(identity.permissions.vms.grant({ vmId: "a".repeat(20) }), Errors.VmNotFoundError);
    await assert.rejects(identity.permissions.vms.get({ vmId: other.vmId }), Errors.VmPermissionNotFoundError);
    assert.deepEqual((await identity.permissions.git.list()).repositories, []);
    await assert.rejects(identity.permissions.git.grant({ repoId: "r", permission: "read" }),
      Errors.GitRepositoryNotFoundError);
  });

  it("act as the Linux users they were given", { timeout: SHORT }, async () => {
    const theirs = client.vms.ref({ vmId: vm.vmId });
    const alice = theirs.user({ username: "alice" });
    assert.equal((await alice.exec("id -un")).stdout.trim(), "alice");
    await alice.fs.writeTextFile("/home/alice/note", "from a browser");
    assert.equal(await alice.fs.readTextFile("/home/alice/note"), "from a browser");
    assert.equal(await sh(vm, "stat -c %U /home/alice/note"), "alice");
    await assert.rejects(theirs.exec("id"), denied); // root is not listed
    await assert.rejects(theirs.fs.readTextFile("/etc/shadow"), denied);
    await assert.rejects(theirs.user({ username: "bob" }).exec("id"), denied);
    await assert.rejects(client.vms.ref({ vmId: other.vmId }).user({ username: "alice" }).exec("id"), denied);
    await assert.rejects(client.vms.ref({ vmId: "a".repeat(20) }).user({ username: "alice" }).exec("id"), denied);
    assert.deepEqual((await client.vms.list()).vms.map((v) => v.id), [vm.vmId]);
    assert.equal((await theirs.getInfo()).id, vm.vmId);
    for (const call of [() => theirs.delete(), () => theirs.fork(), () => theirs.snapshot(), () => theirs.stop()])
      await assert.rejects(call(), denied);
  });

  it("wake their VM, by use and by start", { timeout: SHORT }, async () => {
    const theirs = client.vms.ref({ vmId: vm.vmId });
    await vm.suspend();
    assert.equal((await theirs.user({ username: "alice" }).exec("cat /home/alice/note")).stdout, "from a browser");
    await vm.suspend();
    assert.equal((await theirs.start()).id, vm.vmId);
    assert.equal((await vm.getInfo()).state, "running");
  });

  it("are changed and taken back at once", { timeout: SHORT }, async () => {
    const theirs = client.vms.ref({ vmId: vm.vmId });
    assert.equal((await identity.permissions.vms.update({ vmId: vm.vmId })).allowedUsers ?? null, null);
    assert.equal((await theirs.exec("id -un")).stdout.trim(), "root");
    assert.deepEqual(await identity.permissions.vms.revoke({ vmId: vm.vmId }), {});
    await assert.rejects(theirs.exec("id"), denied);
    await identity.permissions.vms.grant({ vmId: other.vmId });
    assert.equal((await client.vms.ref({ vmId: other.vmId }).exec("echo hi")).stdout, "hi\n");
    await remove(other);
    assert.equal((await identity.permissions.vms.list()).total, 0); // the grant went with the VM
    assert.deepEqual(await identity.tokens.revoke({ tokenId }), {});
    await assert.rejects(client.whoami(), /401/);
    await assert.rejects(client.vms.list(), Errors.UnauthorizedError);
    await assert.rejects(identity.tokens.revoke({ tokenId }), Errors.NotFoundError);
  });
});
