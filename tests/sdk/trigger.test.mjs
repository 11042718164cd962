// SPDX-License-Identifier: Apache-2.0
// trigger.test.mjs - triggers and mirrors through the unmodified package; signatures as the guide verifies them, with jose
import assert from "node:assert/strict";
import crypto from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, it } from "node:test";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { SHORT, freestyle, raw, url } from "./client.mjs";

describe("triggers", { timeout: SHORT }, () => {
  let server, endpoint, repo, repoId, triggerId;
  const got = [];

  before(async () => {
    server = createServer((req, res) => {
      const parts = [];
      req.on("data", (d) => parts.push(d));
      req.on("end", () => {
        got.push({ headers: new Headers(req.headers), text: Buffer.concat(parts).toString() });
        res.end();
        server.emit("delivery");
      });
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    endpoint = `http://127.0.0.1:${server.address().port}/`;
    ({ repo, repoId } = await freestyle.git.repos.create({ name: "automation" }));
  });
  after(async () => {
    await raw("DELETE", `/git/v1/repo/${repoId}`);
    server.close();
    server.closeAllConnections();
  });

  it("are made and listed", async () => {
    ({ triggerId } = await repo.triggers.create({
      trigger: { event: "push", branches: ["main"], globs: ["*.js"] },
      action: { action: "webhook", endpoint },
    }));
    const { triggers } = await repo.triggers.list();
    assert.equal(triggers.length, 1);
    assert.equal(triggers[0].id, triggerId);
    assert.deepEqual(triggers[0].trigger, { event: "push", branches: ["main"], globs: ["*.js"] });
    assert.deepEqual(triggers[0].action, { action: "webhook", endpoint });
  });

  it("send what jose verifies", async () => {
    const jwks = createRemoteJWKSet(new URL(`${url}/.well-known/jwks.json`));
    const { commit } = await repo.commits.create({ message: "m", files: [{ path: "a.js", content: "1" }] });
    while (!got.length) await once(server, "delivery", { signal: AbortSignal.timeout(SHORT) });
    const { headers, text } = got[0];
    const { payload, protectedHeader } = await jwtVerify(headers.get("x-freestyle-signature"), jwks, { algorithms: ["EdDSA"] });
    assert.equal(protectedHeader.alg, "EdDSA");
    assert.equal(payload.body_sha256, crypto.createHash("sha256").update(text).digest("hex"));
    assert.deepEqual(JSON.parse(text), { event: "branchUpdate", repoId, branch: "main", commit: commit.sha });
    const parts = headers.get("x-freestyle-signature").split(".");
    const forged = [parts[0], Buffer.from(JSON.stringify({ ...payload, body_sha256: "00" })).toString("base64url"), parts[2]].join(".");
    await assert.rejects(jwtVerify(forged, jwks, { algorithms: ["EdDSA"] }));
    // Another key signs from now on; what the old one has signed is still believed, also by who fetches the list only now.
    const { kid } = (await raw("POST", "/git/v1/signing-keys")).json;
    assert.notEqual(kid, protectedHeader.kid);
    const later = createRemoteJWKSet(new URL(`${url}/.well-known/jwks.json`));
    await jwtVerify(headers.get("x-freestyle-signature"), later, { algorithms: ["EdDSA"] });
    await repo.commits.create({ message: "m", files: [{ path: "a.js", content: "2" }] });
    while (got.length < 2) await once(server, "delivery", { signal: AbortSignal.timeout(SHORT) });
    const next = await jwtVerify(got[1].headers.get("x-freestyle-signature"), later, { algorithms: ["EdDSA"] });
    assert.equal(next.protectedHeader.kid, kid);
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
