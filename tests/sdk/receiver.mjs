// SPDX-License-Identifier: Apache-2.0
// receiver.mjs - a small server that webhooks are delivered to, and whether they are signed by the server under test

import assert from "node:assert/strict";
import crypto from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { SHORT, url } from "./client.mjs";

/** Listens on the loopback; `got` has the deliveries so far, each with its headers and its text. */
export async function receiver() {
  const got = [];
  const server = createServer((req, res) => {
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
  return {
    got,
    url: `http://127.0.0.1:${server.address().port}/`,
    /** Waits for deliveries until there is what the caller wants. */
    async until(there) {
      while (!there(got)) await once(server, "delivery", { signal: AbortSignal.timeout(SHORT) });
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** The server's keys as they are published now. */
export const keys = () => createRemoteJWKSet(new URL(`${url}/.well-known/jwks.json`));

/** The signature of a delivery must be of those keys and of its very text. */
export async function verified({ headers, text }, jwks = keys()) {
  const signature = headers.get("x-freestyle-signature");
  const { payload, protectedHeader } = await jwtVerify(signature, jwks, { algorithms: ["EdDSA"] });
  assert.equal(payload.body_sha256, crypto.createHash("sha256").update(text).digest("hex"));
  return { signature, payload, protectedHeader };
}
