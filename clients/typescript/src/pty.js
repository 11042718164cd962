// SPDX-License-Identifier: Apache-2.0
// pty.js - terminals in a VM
//
// Theory of operation: the session lives in the VM; this end is only attached to it, by a WebSocket. A page cannot send a key with
// one, so every connection, in any runtime, is made with a ticket, which the API gives for one use. When a connection is lost without
// the program having ended (the network, a suspend, a restart of the server), it is made again for as long as it was told to; the
// first output is then a picture of the whole terminal, and 'reconnect' says so. Output waits in a queue for who iterates; of
// more than BUFFER_MAX the oldest goes.

import { requestOf } from "./calls.js";
import { ApiError, ConnectionFailed, PandoError } from "./errors.js";
import { pause } from "./transport.js";
import { openSocket } from "./websocket.js";

const BUFFER_MAX = 8 * 1024 * 1024;
const MESSAGE = 32 * 1024; // typed, per message
const ATTACH_MS = 120_000; // for one attempt: the VM may have to be resumed first
const RETRY_MAX_MS = 4000;
const REVOKED = 1008;

/**
 * @typedef {object} PtyOptions
 * @property {number} [cols] 80
 * @property {number} [rows] 24
 * @property {number} [reconnectMs] how long a lost connection is tried again: 60 000; 0: never
 */

/** @typedef {{ vmId: string, linuxUser?: string }} At */

/** A terminal session; made by sandbox.pty() and sandbox.attachPty(). Iterate over it for its output. */
export class Pty {
  /** Of the session: what sandbox.attachPty() takes. */
  id = "";
  /** Once the program has ended. @type {number | undefined} */
  exitCode;
  /** How often the connection was made again. */
  reconnects = 0;
  /** Bytes that nobody read in time. */
  dropped = 0;
  /** Called after the connection was made again: the output goes on with a picture of the whole terminal. @type {(() => void) | null} */
  onReconnect = null;

  #transport;
  #calls;
  /** @type {At} */
  #at;
  #size;
  #reconnectMs;
  /** @type {import("./websocket.js").Socket | undefined} */
  #socket;
  /** @type {Uint8Array[]} */
  #queue = [];
  #queued = 0;
  /** Sent when there is a connection again. @type {(string | Uint8Array<ArrayBuffer>)[]} */
  #late = [];
  #over = false;
  #detached = false;
  /** @type {unknown} */
  #error;
  /** @type {Set<() => void>} */
  #waiting = new Set();

  /**
   * @param {import("./transport.js").Transport} transport
   * @param {import("../gen/api.js").Calls} calls
   * @param {At} at
   * @param {PtyOptions} options
   */
  constructor(transport, calls, at, { cols = 80, rows = 24, reconnectMs = 60_000 }) {
    this.#transport = transport;
    this.#calls = calls;
    this.#at = at;
    this.#size = { cols, rows };
    this.#reconnectMs = reconnectMs;
  }

  /**
   * @internal
   * @param {{ attach?: string, command?: string, sessionId?: string }} what
   */
  async open({ attach, command, sessionId }) {
    await this.#connect(attach, { ...(command ? { exec: command } : {}), ...(sessionId ? { sessionId } : {}) });
    return this;
  }

  /**
   * @param {string | undefined} attach
   * @param {Record<string, string>} more
   */
  async #connect(attach, more = {}) {
    const { ticket } = await this.#calls.ptyTicket({ ...this.#at, body: attach ? { sessionId: attach } : {} }, { timeoutMs: ATTACH_MS });
    const args = { vmId: this.#at.vmId, ...this.#size, ticket, ...more };
    const request = attach ? requestOf("ptyAttach", { ...args, sessionId: attach }) : requestOf("ptyOpen", args);
    const socket = await openSocket(this.#transport.address(request).replace(/^http/, "ws"));
    await new Promise((resolve, reject) => {
      const failed = (/** @type {string} */ why) => {
        clearTimeout(timer);
        reject(new ConnectionFailed(`the terminal could not be ${attach ? "attached to" : "opened"}: ${why}`));
      };
      const timer = setTimeout(() => {
        failed(`no reply for ${ATTACH_MS / 1000} s`);
        socket.close();
      }, ATTACH_MS);
      socket.onerror = (e) => failed(e?.message || "the server refused the connection");
      socket.onclose = (e) => failed(e.reason || `the connection was closed (${e.code})`);
      socket.onmessage = ({ data }) => {
        const said = typeof data === "string" ? JSON.parse(data) : {};
        if (said.type !== "sessionInfo") return failed("the server did not send the session's id");
        clearTimeout(timer);
        this.id = said.sessionId;
        this.#use(socket);
        resolve(undefined);
      };
    });
  }

  /** @param {import("./websocket.js").Socket} socket */
  #use(socket) {
    this.#socket = socket;
    socket.onerror = null;
    socket.onmessage = ({ data }) => {
      if (typeof data !== "string") this.#take(new Uint8Array(data));
      else {
        const said = JSON.parse(data);
        if (said.type === "exited") this.exitCode = said.exitCode;
      }
    };
    socket.onclose = ({ code, reason }) => {
      this.#socket = undefined;
      if (this.exitCode !== undefined || this.#detached) this.#end();
      else if (code === REVOKED) this.#end(new ApiError(401, { code: "UNAUTHORIZED", message: reason || "the key or permission of this terminal was revoked" }));
      else void this.#again();
    };
    for (const data of this.#late.splice(0)) socket.send(data);
  }

  async #again() {
    const end = Date.now() + this.#reconnectMs;
    /** @type {unknown} */
    let why = new ConnectionFailed("the connection to the terminal was lost");
    for (let wait = 250; Date.now() < end && !this.#detached; wait = Math.min(wait * 2, RETRY_MAX_MS)) {
      try {
        await this.#connect(this.id);
        this.reconnects++;
        this.onReconnect?.();
        if (this.#detached) this.#hangUp();
        return;
      } catch (e) {
        why = e;
        if (e instanceof ApiError && e.status < 500 && e.status !== 429) break; // deleted, stopped, not allowed
        if (await this.#gone()) break; // a WebSocket does not say why it was refused
      }
      await pause(wait);
    }
    this.#end(this.#detached ? undefined : why);
  }

  /** Whether the session is not in the VM's list any more. */
  async #gone() {
    try {
      const { sessions } = await this.#calls.ptyList(this.#at);
      return !sessions.some((s) => s.sessionId === this.id);
    } catch (e) {
      return e instanceof ApiError && e.status < 500 && e.status !== 429;
    }
  }

  /** @param {unknown} [error] */
  #end(error) {
    this.#over = true;
    this.#error ??= error;
    this.#wake();
  }

  #wake() {
    for (const w of this.#waiting) w();
    this.#waiting.clear();
  }

  /** @param {Uint8Array} data */
  #take(data) {
    this.#queue.push(data);
    this.#queued += data.length;
    while (this.#queued > BUFFER_MAX && this.#queue.length > 1) {
      const oldest = /** @type {Uint8Array} */ (this.#queue.shift());
      this.#queued -= oldest.length;
      this.dropped += oldest.length;
    }
    this.#wake();
  }

  /** The next output; undefined when there is none any more. @returns {Promise<Uint8Array | undefined>} */
  async read() {
    for (;;) {
      const piece = this.#queue.shift();
      if (piece) {
        this.#queued -= piece.length;
        return piece;
      }
      if (this.#error) throw this.#error;
      if (this.#over) return undefined;
      await new Promise((resolve) => this.#waiting.add(() => resolve(undefined)));
    }
  }

  async *[Symbol.asyncIterator]() {
    for (let piece = await this.read(); piece; piece = await this.read()) yield piece;
  }

  /**
   * All output up to a text, and that text.
   * @param {string} text
   * @param {{ timeoutMs?: number }} [options]
   */
  async expect(text, { timeoutMs = 60_000 } = {}) {
    const decoder = new TextDecoder();
    let seen = "";
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.#wake();
    }, timeoutMs);
    try {
      for (;;) {
        const piece = this.#queue.shift();
        if (piece) {
          this.#queued -= piece.length;
          seen += decoder.decode(piece, { stream: true });
          const at = seen.indexOf(text);
          if (at < 0) continue;
          const rest = new TextEncoder().encode(seen.slice(at + text.length));
          if (rest.length) {
            this.#queue.unshift(rest);
            this.#queued += rest.length;
          }
          return seen.slice(0, at + text.length);
        }
        if (this.#error) throw this.#error;
        if (this.#over || late) throw new PandoError(`the terminal did not show ${JSON.stringify(text)} ${late ? `within ${timeoutMs / 1000} s` : "before it ended"}; it showed ${JSON.stringify(seen.slice(-500))}`);
        await new Promise((resolve) => this.#waiting.add(() => resolve(undefined)));
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string | Uint8Array<ArrayBuffer>} data */
  #send(data) {
    if (this.#over || this.#detached) throw new PandoError("the terminal has ended, or was detached from");
    if (this.#socket) this.#socket.send(data);
    else this.#late.push(data);
  }

  /** Types. @param {string | Uint8Array} data */
  write(data) {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : new Uint8Array(data);
    for (let i = 0; i < bytes.length; i += MESSAGE) this.#send(bytes.slice(i, i + MESSAGE));
  }

  /** @param {number} cols @param {number} rows */
  resize(cols, rows) {
    this.#size = { cols, rows };
    this.#send(JSON.stringify({ type: "resize", cols, rows }));
  }

  /** ^C, or the end of its program. @param {"SIGINT" | "SIGKILL"} [signal] */
  signal(signal = "SIGINT") {
    this.#send(JSON.stringify({ type: "signal", signal }));
  }

  #hangUp() {
    const socket = this.#socket;
    this.#socket = undefined;
    if (socket) {
      socket.onclose = socket.onmessage = socket.onerror = null;
      socket.close();
    }
    this.#end();
  }

  /** Leaves it running. */
  detach() {
    this.#detached = true;
    this.#hangUp();
  }

  /** Its exit code, when its program has ended. Output goes on waiting for who reads it. */
  async wait() {
    while (!this.#over) await new Promise((resolve) => this.#waiting.add(() => resolve(undefined)));
    if (this.#error) throw this.#error;
    return this.exitCode;
  }

  /** Ends all of its programs. */
  async close() {
    const closed = await this.#calls.ptyClose({ ...this.#at, sessionId: this.id });
    this.detach();
    this.exitCode ??= /** @type {any} */ (closed).exitCode;
    return this.exitCode;
  }
}
