// SPDX-License-Identifier: Apache-2.0
// trigger.test.mjs - triggers and mirrors through the unmodified package; signatures as the guide verifies them, with jose
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { jwtVerify } from "jose";
import { SHORT, freestyle, raw } from "./client.mjs";
import { keys, receiver, verified } from "./receiver.mjs";

describe("triggers", { timeout: SHORT }, () => {
  let hooks, repo, repoId, triggerId;

  before(async () => {
    hooks = await receiver();
    ({ repo, repoId } = await freestyle.git.repos.create({ name: "automation" }));
  });
  after(async () => {
    await raw("DELETE", `/git/v1/repo/${repoId}`);
    hooks.close();
  });

  it("are made and listed", async () => {
    ({ triggerId } = await repo.triggers.create({
      trigger: { event: "push", branches: ["main"], globs: ["*.js"] },
      action: { action: "webhook", endpoint: hooks.url },
    }));
    const { triggers } = await repo.triggers.list();
    assert.equal(triggers.length, 1);
    assert.equal(triggers[0].id, triggerId);
    assert.deepEqual(triggers[0].trigger, { event: "push", branches: ["main"], globs: ["*.js"] });
    assert.deepEqual(triggers[0].action, { action: "webhook", endpoint: hooks.url });
  });

  it("send what jose verifies", async () => {
    const jwks = keys();
    const { commit } = await repo.commits.create({ message: "m", files: [{ path: "a.js", content: "1" }] });
    await hooks.until((got) => got.length);
    const { signature, payload, protectedHeader } = await verified(hooks.got[0], jwks);
    assert.equal(protectedHeader.alg, "EdDSA");
    assert.deepEqual(JSON.parse(hooks.got[0].text), { event: "branchUpdate", repoId, branch: "main", commit: commit.sha });
    const parts = signature.split(".");
    const forged = [parts[0], Buffer.from(JSON.stringify({ ...payload, body_sha256: "00" })).toString("base64url"), parts[2]].join(".");
    await assert.rejects(jwtVerify(forged, jwks, { algorithms: ["EdDSA"] }));
    // Another key signs from now on; what the old one has signed is still believed, also by who fetches the list only now.
    const { kid } = (await raw("POST", "/git/v1/signing-keys")).json;
    assert.notEqual(kid, protectedHeader.kid);
    const later = keys();
    await verified(hooks.got[0], later);
    await repo.commits.create({ message: "m", files: [{ path: "a.js", content: "2" }] });
    await hooks.until((got) => got.length >= 2);
    const next = await verified(hooks.got[1], later);
    assert.equal(next.protectedHeader.kid, kid);
  });

  it("can be for tags, which Freestyle's types do not have", async () => {
    const made = await repo.triggers.create({ trigger: { event: "tag", tags: ["v*"] }, action: { action: "webhook", endpoint: hooks.url } });
    const { triggers } = await repo.triggers.list();
    assert.deepEqual(triggers.find((t) => t.id === made.triggerId).trigger, { event: "tag", tags: ["v*"], globs: null });
    await repo.triggers.delete({ triggerId: made.triggerId });
  });

  it("are deleted", async () => {
    assert.deepEqual(await repo.triggers.delete({ triggerId }), {});
    assert.deepEqual((await repo.triggers.list()).triggers, []);
  });

  it("mirrors are configured", async () => {
    assert.equal(await repo.githubSync.get(), null);
    await repo.githubSync.enable({ githubRepoName: "owner/repo" });
    assert.equal((await repo.githubSync.get()).githubRepoName, "owner/repo");
    await repo.githubSync.disable();
    assert.equal(await repo.githubSync.get(), null);
  });
});
