// SPDX-License-Identifier: Apache-2.0
// sandbox.js - one VM and one snapshot, as objects

import { Code } from "./code.js";
import { collect, commandText, execBody, execEvents, Process } from "./commands.js";
import { StreamBroken } from "./errors.js";
import { Files } from "./files.js";
import { Pty } from "./pty.js";

/** @typedef {import("../gen/api.js").Calls} Calls */
/** @typedef {import("./transport.js").Transport} Transport */
/** @typedef {import("./commands.js").Command} Command */

const BROKEN = "the connection ended before the command did: nobody knows what became of it";
const dispose = /** @type {typeof Symbol.asyncDispose} */ (Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose"));

/** A VM. Any use of a suspended one resumes it, any use of a stopped one boots it. */
export class Sandbox {
  /** @type {string} */
  id;
  /** @type {Files} */
  files;
  /** @type {Code} */
  code;
  /** @type {EgressOfVm} */
  egress;
  #transport;
  #calls;
  #user;
  #at;

  /**
   * @param {Transport} transport
   * @param {Calls} calls
   * @param {string} id
   * @param {string} [user]
   */
  constructor(transport, calls, id, user) {
    this.id = id;
    this.#transport = transport;
    this.#calls = calls;
    this.#user = user;
    this.#at = { vmId: id, ...(user === undefined ? {} : { linuxUser: user }) };
    this.files = new Files(calls, this.#at);
    this.code = new Code(calls, this.#at);
    this.egress = new EgressOfVm(calls, id);
  }

  /** The same VM; commands, files, code and terminals are those of another Linux user. @param {string} user */
  asUser(user) {
    return new Sandbox(this.#transport, this.#calls, this.id, user);
  }

  // ---- life ----

  /** What it is and how it is. Does not wake it. */
  info() {
    return this.#calls.vmGet({ vmId: this.id });
  }

  /** running, suspended, stopped and so on. */
  async state() {
    return (await this.info()).state;
  }

  /** Name, tags, metadata, timeouts, self access. @param {import("../gen/api.js").VmChange} change */
  change(change) {
    return this.#calls.vmChange({ vmId: this.id, body: change });
  }

  /** Resumes a suspended one, boots a stopped one. @param {import("../gen/api.js").VmStart} [options] */
  async start(options = {}) {
    await this.#calls.vmStart({ vmId: this.id, body: options });
  }

  /** Freezes it with its memory. */
  async suspend() {
    await this.#calls.vmSuspend({ vmId: this.id });
  }

  /** Shuts it down; its disk stays. */
  async stop() {
    await this.#calls.vmStop({ vmId: this.id });
  }

  /** Stops it at once. */
  async kill() {
    await this.#calls.vmKill({ vmId: this.id });
  }

  /** For good. */
  async delete() {
    await this.#calls.vmDelete({ vmId: this.id });
  }

  /** await using: deletes it. */
  async [dispose]() {
    await this.delete();
  }

  /**
   * Until its machine ends: stopped, killed, suspended, deleted, exited.
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<string>}
   */
  async waitForExit({ signal } = {}) {
    for await (const { data } of this.#calls.vmAwait({ vmId: this.id }, { signal, timeoutMs: 0 })) return data.exitStatus;
    throw new StreamBroken("the connection ended before the VM did");
  }

  /** A running one is booted anew, a suspended one loses its memory. @param {import("../gen/api.js").VmResize} size */
  async resize(size) {
    await this.#calls.vmResize({ vmId: this.id, body: size });
  }

  /**
   * CPU, memory, disk and network, as they change.
   * @param {{ intervalMs?: number, signal?: AbortSignal }} [options]
   * @returns {AsyncGenerator<import("../gen/api.js").Stats, void, undefined>}
   */
  stats({ intervalMs, signal } = {}) {
    const lines = this.#calls.vmStats({ vmId: this.id, ...(intervalMs === undefined ? {} : { intervalMs }) }, { signal });
    return /** @type {AsyncGenerator<any, void, undefined>} */ (lines);
  }

  // ---- the tree ----

  /**
   * Copies that run, with the same memory: processes, variables, open files. Each goes its own way from here.
   * @param {number} [count]
   * @param {Omit<import("../gen/api.js").VmFork, "count">} [options]
   * @returns {Promise<Sandbox[]>}
   */
  async fork(count = 1, options = {}) {
    const { forks } = await this.#calls.vmFork({ vmId: this.id, body: { ...options, count } });
    return forks.map((f) => new Sandbox(this.#transport, this.#calls, f.id, this.#user));
  }

  /**
   * The VM runs on.
   * @param {string} [name]
   * @param {Omit<import("../gen/api.js").SnapshotNew, "name">} [options]
   */
  async snapshot(name, options = {}) {
    const made = await this.#calls.vmSnapshot({ vmId: this.id, body: { ...options, ...(name === undefined ? {} : { name }) } });
    return new Snapshot(this.#transport, this.#calls, made.snapshotId, name);
  }

  /**
   * Memory and disk go back to one of its earlier snapshots.
   * @param {Snapshot | string | null} snapshot null: its newest point
   * @param {{ keep?: boolean }} [options] keep (true): the present becomes a snapshot, which is returned
   */
  async rewind(snapshot, { keep = true } = {}) {
    const snapshotId = snapshot === null || typeof snapshot === "string" ? snapshot : snapshot.id;
    const { previousSnapshotId } = await this.#calls.vmRewind({ vmId: this.id, body: { snapshotId, keep } });
    return previousSnapshotId ? new Snapshot(this.#transport, this.#calls, previousSnapshotId, "before rewind") : undefined;
  }

  /** Its family: points and VMs, with parents and sizes. */
  tree() {
    return this.#calls.vmTree({ vmId: this.id });
  }

  /**
   * Files that differ from those of a related VM or snapshot.
   * @param {Sandbox | Snapshot | string} other
   * @param {{ path?: string, ignore?: readonly string[], signal?: AbortSignal }} [options]
   */
  async *diff(other, { path, ignore, signal } = {}) {
    const args = { vmId: this.id, with: typeof other === "string" ? other : other.id, ...(path ? { path } : {}), ...(ignore ? { ignore: ignore.join(",") } : {}) };
    for (let cursor = /** @type {string | null | undefined} */ (undefined); cursor !== null; ) {
      const reply = await this.#calls.vmDiff({ ...args, ...(cursor ? { cursor } : {}) }, { signal });
      yield* reply.changes;
      cursor = reply.cursor || null;
    }
  }

  // ---- commands ----

  /**
   * What a command says, as it comes. Leaving the loop ends the command.
   * @param {Command} command
   * @param {import("../common.js").ExecOptions} [options]
   */
  execStream(command, options = {}) {
    const at = options.user === undefined ? this.#at : { vmId: this.id, linuxUser: options.user };
    return execEvents(this.#calls.vmExecStream({ ...at, body: execBody(command, options) }, { signal: options.signal }), BROKEN);
  }

  /**
   * Runs a command to its end.
   * @param {Command} command
   * @param {import("../common.js").ExecOptions & import("./commands.js").RunOptions} [options]
   */
  exec(command, options = {}) {
    return collect(this.execStream(command, options), commandText(command), options);
  }

  /**
   * Starts a command and leaves it running, also when this client ends.
   * @param {Command} command
   * @param {import("../common.js").ExecOptions & { openStdin?: boolean }} [options]
   */
  async spawn(command, options = {}) {
    const at = options.user === undefined ? this.#at : { vmId: this.id, linuxUser: options.user };
    const body = { ...execBody(command, options), detach: true, ...(options.openStdin ? { openStdin: true } : {}) };
    const { processId } = await this.#calls.vmExecStreamJson({ ...at, body }, { signal: options.signal });
    return new Process(this.#calls, at, processId);
  }

  /** Those that were spawned, and commands that run. */
  async processes() {
    const { processes } = await this.#calls.processList(this.#at);
    return processes.map((p) => new Process(this.#calls, this.#at, p.processId));
  }

  // ---- terminals ----

  /**
   * Opens a terminal, with the login shell or a command in it.
   * @param {import("./pty.js").PtyOptions & { command?: string, sessionId?: string }} [options]
   */
  pty(options = {}) {
    return new Pty(this.#transport, this.#calls, this.#at, options).open({ command: options.command, sessionId: options.sessionId });
  }

  /**
   * An existing one: also in a fork, after a suspend, or beside others.
   * @param {string} sessionId
   * @param {import("./pty.js").PtyOptions} [options]
   */
  attachPty(sessionId, options = {}) {
    return new Pty(this.#transport, this.#calls, this.#at, options).open({ attach: sessionId });
  }

  async ptySessions() {
    return (await this.#calls.ptyList(this.#at)).sessions;
  }
}

/** A point to go back to, and to make VMs from. */
export class Snapshot {
  /** @type {string} */
  id;
  /** @type {string | undefined} */
  name;
  #transport;
  #calls;

  /**
   * @param {Transport} transport
   * @param {Calls} calls
   * @param {string} id
   * @param {string} [name]
   */
  constructor(transport, calls, id, name) {
    this.id = id;
    this.name = name;
    this.#transport = transport;
    this.#calls = calls;
  }

  info() {
    return this.#calls.snapshotGet({ snapshotId: this.id });
  }

  /**
   * A new VM that goes on from here.
   * @param {VmOptions} [options]
   */
  create(options = {}) {
    return createVm(this.#transport, this.#calls, { ...options, snapshotId: this.id });
  }

  /** @param {string} name */
  async rename(name) {
    await this.#calls.snapshotRename({ snapshotId: this.id, body: { name } });
    this.name = name;
  }

  async delete() {
    await this.#calls.snapshotDelete({ snapshotId: this.id });
  }
}

/** sandbox.egress: what the VM may reach. */
export class EgressOfVm {
  #calls;
  #vmId;

  /** @param {Calls} calls @param {string} vmId */
  constructor(calls, vmId) {
    this.#calls = calls;
    this.#vmId = vmId;
  }

  get() {
    return this.#calls.egressGet({ vmId: this.#vmId });
  }

  /** At once, also for a VM that runs. @param {import("../gen/api.js").Egress} policy */
  set(policy) {
    return this.#calls.egressPut({ vmId: this.#vmId, body: policy });
  }

  /** What it tried to reach and was not let. */
  async blocked() {
    return (await this.#calls.egressBlocked({ vmId: this.#vmId })).blocked;
  }
}

/** @typedef {Parameters<Calls["vmCreate"]>[0]["body"]} VmOptions */

/**
 * A repetition does not make a second one.
 * @param {Transport} transport
 * @param {Calls} calls
 * @param {VmOptions} body
 */
export async function createVm(transport, calls, body) {
  const made = await calls.vmCreate({ idempotencyKey: newKey(), body });
  if (!("id" in made)) throw new StreamBroken("the server answered as if it was asked to go on in the background");
  return new Sandbox(transport, calls, made.id);
}

/** Pages that came by plain HTTP have no randomUUID(). */
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
