// SPDX-License-Identifier: Apache-2.0
// self.js - for programs inside a VM: copy, freeze and rewind the VM that one runs in, and work with the copies (docs/SELF.md)
//
//     import { Self } from "pando/self";
//     const self = new Self();
//     const side = await self.fork(3);
//     if (side.role === "child") work(side.index);
//
// Requests go to a Unix socket of the VM's agent, one per connection, so they need no network. Node.js, Bun and Deno only.

import http from "node:http";
import { Readable } from "node:stream";
import { callsOver } from "./calls.js";
import { collect, commandText, execBody, execEvents } from "./commands.js";
import { StreamBroken } from "./errors.js";
import { Transport } from "./transport.js";

const SOCKET = "/run/pando/self.sock";
const NO_BODY = [204, 205, 304];

/**
 * fetch() over a Unix socket, as far as the transport uses it.
 * @param {string} socketPath
 * @returns {(url: string, init: RequestInit) => Promise<Response>}
 */
export function unixFetch(socketPath) {
  return (url, init) =>
    new Promise((resolve, reject) => {
      const { pathname, search } = new URL(url);
      const body = init.body;
      /** @type {Record<string, string>} */
      const headers = { ...(/** @type {any} */ (init.headers)), host: "self", connection: "close" };
      const plain = typeof body === "string" || ArrayBuffer.isView(body) || body instanceof ArrayBuffer;
      const bytes = typeof body === "string" ? Buffer.from(body) : ArrayBuffer.isView(body) ? Buffer.from(body.buffer, body.byteOffset, body.byteLength)
        : body instanceof ArrayBuffer ? Buffer.from(body) : undefined;
      if (bytes) headers["content-length"] = String(bytes.length);
      else if (!body && init.method !== "GET") headers["content-length"] = "0";
      const signal = init.signal ?? undefined;
      const request = http.request({ socketPath, path: pathname + search, method: init.method, headers, agent: false });
      const stop = () => request.destroy(new Error("aborted"));
      if (signal?.aborted) stop();
      signal?.addEventListener("abort", stop, { once: true });
      request.on("error", reject);
      request.on("close", () => signal?.removeEventListener("abort", stop));
      request.on("response", (reply) => {
        const given = new Headers();
        for (let i = 0; i + 1 < reply.rawHeaders.length; i += 2) given.append(/** @type {string} */ (reply.rawHeaders[i]), /** @type {string} */ (reply.rawHeaders[i + 1]));
        const status = reply.statusCode ?? 500;
        const web = NO_BODY.includes(status) ? null : /** @type {ReadableStream<Uint8Array>} */ (/** @type {unknown} */ (Readable.toWeb(reply)));
        resolve(new Response(web, { status, headers: given }));
      });
      if (plain || !body) request.end(bytes);
      else {
        const stream = body instanceof Blob ? body.stream() : body;
        Readable.fromWeb(/** @type {any} */ (stream)).on("error", (e) => request.destroy(e)).pipe(request);
      }
    });
}

/** @typedef {{ role: "parent", id: string, children: Child[] } | { role: "child", id: string, parent: string, index: number, count: number }} ForkSide */
/** @typedef {{ role: "original", id: string, snapshotId: string } | { role: "restored", id: string, snapshot: string }} SnapshotSide */

/** The VM that this program runs in. */
export class Self {
  #calls;

  /** @param {{ socketPath?: string }} [options] */
  constructor({ socketPath = SOCKET } = {}) {
    // a request that was frozen is answered on the other side: never repeated, and no clock can tell how long it takes
    this.#calls = callsOver(new Transport({ url: "http://self", key: "", fetch: unixFetch(socketPath), retries: 0, timeoutMs: 0 }));
  }

  /** Who this VM is, and what it may. */
  info() {
    return this.#calls.selfInfo();
  }

  /**
   * Returns in this VM and in each copy, as fork(2) does.
   * @param {number} [count]
   * @param {{ inherit?: boolean }} [options] inherit (true): the copies have self access, too
   * @returns {Promise<ForkSide>}
   */
  async fork(count = 1, options = {}) {
    const side = /** @type {any} */ (await this.#calls.selfFork({ body: { count, ...options } }));
    return side.role === "parent" ? { ...side, children: side.children.map((/** @type {string} */ id) => this.child(id)) } : side;
  }

  /**
   * Returns in this VM, and in whatever is made from the snapshot, as setjmp(3) does.
   * @param {string} [name]
   * @returns {Promise<SnapshotSide>}
   */
  async snapshot(name) {
    return /** @type {any} */ (await this.#calls.selfSnapshot({ body: name === undefined ? {} : { name } }));
  }

  /** Returns when the VM runs again. */
  suspend() {
    return this.#calls.selfSuspend();
  }

  /**
   * The VM goes back: this program is no more. Rejects when it was refused.
   * @param {string | null} snapshotId null: to its newest point
   * @param {{ keep?: boolean }} [options] keep (true): the present becomes a snapshot
   */
  async rewind(snapshotId, { keep = true } = {}) {
    await this.#calls.selfRewind({ body: { snapshotId, keep } });
  }

  /** A copy whose id is known. @param {string} id */
  child(id) {
    return new Child(this.#calls, id);
  }

  /** Copies that it made, and theirs. */
  async children() {
    return (await this.#calls.selfChildren()).children.map((c) => this.child(c.id));
  }
}

/** A copy of the VM that this program runs in. */
export class Child {
  /** @type {string} */
  id;
  #calls;

  /** @param {import("../gen/api.js").Calls} calls @param {string} id */
  constructor(calls, id) {
    this.id = id;
    this.#calls = calls;
  }

  info() {
    return this.#calls.selfChild({ vmId: this.id });
  }

  /** @param {import("./commands.js").Command} command @param {Omit<import("../common.js").ExecOptions, "user">} [options] */
  execStream(command, options = {}) {
    return execEvents(this.#calls.selfVmExecStream({ vmId: this.id, body: execBody(command, options) }, { signal: options.signal }),
      "the connection ended before the command did");
  }

  /** @param {import("./commands.js").Command} command @param {Omit<import("../common.js").ExecOptions, "user"> & import("./commands.js").RunOptions} [options] */
  exec(command, options = {}) {
    return collect(this.execStream(command, options), commandText(command), options);
  }

  /** @param {string} path */
  async read(path) {
    return new Uint8Array(await (await this.#calls.selfRawGet({ vmId: this.id, path })).arrayBuffer());
  }

  /** @param {string} path @param {import("../common.js").Bytes} data */
  async write(path, data) {
    await this.#calls.selfRawPut({ vmId: this.id, path, body: data });
  }

  async start() {
    await this.#calls.selfVmStart({ vmId: this.id, body: {} });
  }

  async suspend() {
    await this.#calls.selfVmSuspend({ vmId: this.id });
  }

  /** Until its machine ends: suspended, stopped, deleted and so on. @returns {Promise<string>} */
  async wait() {
    for await (const { data } of this.#calls.selfVmAwait({ vmId: this.id })) return data.exitStatus;
    throw new StreamBroken("the connection ended before the VM did");
  }

  async delete() {
    await this.#calls.selfVmDelete({ vmId: this.id });
  }
}
