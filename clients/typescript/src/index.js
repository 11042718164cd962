// SPDX-License-Identifier: Apache-2.0
// index.js - the client of Pando
//
//     import { Pando } from "pando";
//     const pando = new Pando();
//     const vm = await pando.create();
//     console.log((await vm.exec("uname -a")).stdout);
//
// Pando.calls has every call of the API, with the types of its description; the rest of this package is written on top of it.

import { callsOver } from "./calls.js";
import { cellEvents, cellOf } from "./code.js";
import { ApiError, ConnectionFailed, StreamBroken } from "./errors.js";
import { Repo } from "./repo.js";
import { createVm, Sandbox, Snapshot } from "./sandbox.js";
import { pause, Transport } from "./transport.js";

export { API_VERSION } from "../gen/api.js";
export { Cell, Code, Context, RichResult } from "./code.js";
export { Process } from "./commands.js";
export { ApiError, CellFailed, CommandFailed, ConnectionFailed, PandoError, StreamBroken } from "./errors.js";
export { Files } from "./files.js";
export { Pty } from "./pty.js";
export { Repo, Sandbox, Snapshot, Transport };

const LOG_POLL_MS = 1000;
const EVENT_WAIT_MAX_MS = 15_000;

/**
 * @typedef {object} PandoEvent
 * @property {number} id
 * @property {string} type vm.suspended and so on; 'hello' first, 'gap' when some are not kept any more
 * @property {any} data
 */

/** A server, as one key sees it. */
export class Pando {
  /** Every call of the API. @type {import("../gen/api.js").Calls} */
  calls;
  /** @type {Transport} */
  transport;

  /** @param {import("../common.js").TransportOptions} [options] */
  constructor(options = {}) {
    this.transport = new Transport(options);
    this.calls = callsOver(this.transport);
  }

  // ---- VMs and snapshots ----

  /**
   * A VM, from the base image, a snapshot or a spec.
   * @param {import("./sandbox.js").VmOptions} [options]
   */
  create(options = {}) {
    return createVm(this.transport, this.calls, options);
  }

  /** A VM whose id is known; nothing is asked. @param {string} id */
  sandbox(id) {
    return new Sandbox(this.transport, this.calls, id);
  }

  /** The same, if there is one: else ApiError VM_NOT_FOUND. @param {string} id */
  async connect(id) {
    await this.calls.vmGet({ vmId: id });
    return this.sandbox(id);
  }

  /** @param {Parameters<import("../gen/api.js").Calls["vmList"]>[0]} [query] */
  async list(query = {}) {
    return (await this.calls.vmList(query)).vms.map((v) => this.sandbox(v.id));
  }

  /** @param {string} id */
  snapshot(id) {
    return new Snapshot(this.transport, this.calls, id);
  }

  async snapshots() {
    const { snapshots } = await this.calls.snapshotList();
    return snapshots.map((s) => new Snapshot(this.transport, this.calls, s.snapshotId, s.name ?? undefined));
  }

  /** All points and VMs of the account. */
  tree() {
    return this.calls.tree();
  }

  /**
   * One cell in a VM that is made for it and deleted after it.
   * @param {string} code
   * @param {Omit<import("./code.js").RunCellOptions, "context">} [options]
   */
  runOnce(code, options = {}) {
    const { language = "python", timeoutMs, signal } = options;
    const body = { code, language, stream: true, ...(timeoutMs ? { timeoutMs } : {}) };
    return cellOf(cellEvents(this.calls.codeStream({ body }, { signal })), options);
  }

  // ---- what happens ----

  /**
   * What happens to the account's VMs, snapshots, builds, repositories and networks. A lost connection is made again, and goes on after the
   * last event that came: none is missed, none comes twice.
   * @param {{ types?: readonly string[], after?: number, follow?: boolean, signal?: AbortSignal }} [options] after: an event's id, 0: all that
   *   are kept; without it those from now on. follow: false ends with what is there
   * @returns {AsyncGenerator<PandoEvent, void, undefined>}
   */
  async *events({ types, after, follow = true, signal } = {}) {
    let last = after;
    for (let wait = 250; ; wait = Math.min(wait * 2, EVENT_WAIT_MAX_MS)) {
      try {
        const args = { ...(types ? { types: types.join(",") } : {}), ...(last === undefined ? {} : { after: String(last) }), ...(follow ? {} : { follow: false }) };
        for await (const { event, id, data } of this.calls.events(args, { signal })) {
          wait = 250;
          if (id !== undefined) last = Number(id);
          yield { id: Number(id ?? last ?? 0), type: event, data };
        }
        if (!follow) return;
      } catch (e) {
        const passing = e instanceof StreamBroken || e instanceof ConnectionFailed || (e instanceof ApiError && (e.status >= 500 || e.status === 429));
        if (!passing || !follow) throw e;
      }
      await pause(wait, signal);
    }
  }

  /**
   * Lines of logs, oldest first; with follow those that come, too. All that are there are read before the first is given: startTime bounds them.
   * @param {Parameters<import("../gen/api.js").Calls["logs"]>[0] & { follow?: boolean }} [query]
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {AsyncGenerator<import("../gen/api.js").LogLine, void, undefined>}
   */
  async *logs({ follow = false, ...query } = {}, { signal } = {}) {
    let from = query.startTime;
    /** Those that were given and have the time 'from'. @type {Set<string>} */
    let given = new Set();
    for (;;) {
      const pages = [];
      for (let pageToken = query.pageToken; ; ) {
        const reply = await this.calls.logs({ ...query, ...(from ? { startTime: from } : {}), ...(pageToken ? { pageToken } : {}) }, { signal });
        pages.unshift(reply.logs); // the newest page comes first
        if (!reply.nextPageToken) break;
        pageToken = reply.nextPageToken;
      }
      for (const line of pages.flat()) {
        const mark = JSON.stringify(line);
        if (line.timestamp !== from) {
          given = new Set();
          from = line.timestamp;
        } else if (given.has(mark)) continue;
        given.add(mark);
        yield line;
      }
      if (!follow) return;
      await pause(LOG_POLL_MS, signal);
    }
  }

  // ---- Git ----

  /** @param {import("../gen/api.js").RepoNew} [options] */
  async createRepo(options = {}) {
    return new Repo(this.calls, (await this.calls.repoCreate({ body: options })).repoId);
  }

  /** @param {string} id */
  repo(id) {
    return new Repo(this.calls, id);
  }

  /** @param {Parameters<import("../gen/api.js").Calls["repoList"]>[0]} [query] */
  async repos(query = {}) {
    return (await this.calls.repoList(query)).repositories.map((r) => new Repo(this.calls, r.id));
  }
}
