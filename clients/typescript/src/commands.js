// SPDX-License-Identifier: Apache-2.0
// commands.js - commands in a VM: waited for, followed, or left running

import { ApiError, CommandFailed, StreamBroken } from "./errors.js";
import { base64OfBytes, bytesOfOutput, joinBytes } from "./stream.js";

const OUTPUT_MAX = 64 * 1024 * 1024; // bytes of each output that a result keeps; callbacks get all of it

/** @typedef {string | readonly string[]} Command a line for the shell, or words, which are quoted */
/** @typedef {import("../common.js").ExecOptions} ExecOptions */
/** @typedef {import("../common.js").ExecEvent} ExecEvent */

/**
 * @typedef {object} CommandResult
 * @property {number} exitCode 128 and the signal's number when one ended it
 * @property {string} stdout
 * @property {string} stderr
 * @property {Uint8Array} stdoutBytes
 * @property {Uint8Array} stderrBytes
 * @property {number} durationMs
 * @property {string} [signal] SIGTERM and so on, when a signal ended it
 * @property {boolean} timedOut
 * @property {boolean} truncated an output was larger than what is kept
 */

/**
 * @typedef {object} RunOptions
 * @property {(text: string) => void} [onStdout] gets the output while the command runs
 * @property {(text: string) => void} [onStderr]
 * @property {boolean} [check] CommandFailed unless it ends with 0
 * @property {number} [maxOutput] bytes of each output that the result keeps
 */

/** @param {Command} command */
export function commandText(command) {
  if (typeof command === "string") return command;
  return command.map((w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replaceAll("'", `'"'"'`)}'`)).join(" ");
}

/**
 * @param {Command} command
 * @param {ExecOptions} options
 * @returns {import("../gen/api.js").ExecStream}
 */
export function execBody(command, { stdin, env, cwd, timeoutMs }) {
  return {
    command: commandText(command),
    ...(typeof stdin === "string" ? { stdin } : stdin ? { stdin: base64OfBytes(stdin), stdinEncoding: "base64" } : {}),
    ...(env ? { env } : {}),
    ...(cwd === undefined ? {} : { cwd }),
    ...(timeoutMs === undefined ? {} : { timeoutMs: Math.max(1, Math.round(timeoutMs)) }),
  };
}

/**
 * What a command says, as it comes. Characters that were split between two pieces come whole in 'text'.
 * @param {AsyncGenerator<import("../common.js").ServerEvent, void, undefined>} events
 * @param {string} broken
 * @returns {AsyncGenerator<ExecEvent, void, undefined>}
 */
export async function* execEvents(events, broken) {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const { event, data } of events) {
    if (event === "started") yield { type: "started", processId: data.processId, pid: data.pid };
    else if (event === "stdout" || event === "stderr") {
      const bytes = bytesOfOutput(data);
      yield { type: event, data: bytes, text: decoders[event].decode(bytes, { stream: true }) };
    } else if (event === "exit") {
      yield { type: "exit", exitCode: data.statusCode ?? 0, durationMs: data.durationMs ?? 0, timedOut: data.timedOut === true, ...(data.signal ? { signal: data.signal } : {}) };
      return;
    } else if (event === "error") throw new ApiError(409, data);
  }
  throw new StreamBroken(broken);
}

class Kept {
  /** @type {Uint8Array[]} */
  #parts = [];
  #room;
  truncated = false;

  /** @param {number} room */
  constructor(room) {
    this.#room = room;
  }

  /** @param {Uint8Array} data */
  add(data) {
    const part = data.length > this.#room ? data.subarray(0, this.#room) : data;
    this.truncated ||= part.length < data.length;
    this.#room -= part.length;
    if (part.length) this.#parts.push(part);
  }

  get bytes() {
    return joinBytes(this.#parts);
  }
}

/**
 * @param {AsyncGenerator<ExecEvent, void, undefined>} events
 * @param {string} command
 * @param {RunOptions} options
 * @returns {Promise<CommandResult>}
 */
export async function collect(events, command, { onStdout, onStderr, check = false, maxOutput = OUTPUT_MAX }) {
  const kept = { stdout: new Kept(maxOutput), stderr: new Kept(maxOutput) };
  for await (const e of events) {
    if (e.type === "stdout" || e.type === "stderr") {
      kept[e.type].add(e.data);
      if (e.text) (e.type === "stdout" ? onStdout : onStderr)?.(e.text);
    } else if (e.type === "exit") {
      const [stdoutBytes, stderrBytes] = [kept.stdout.bytes, kept.stderr.bytes];
      const text = (/** @type {Uint8Array} */ b) => new TextDecoder().decode(b);
      const result = {
        exitCode: e.exitCode, stdout: text(stdoutBytes), stderr: text(stderrBytes), stdoutBytes, stderrBytes, durationMs: e.durationMs,
        ...(e.signal ? { signal: e.signal } : {}), timedOut: e.timedOut, truncated: kept.stdout.truncated || kept.stderr.truncated,
      };
      if (check && (result.exitCode !== 0 || result.timedOut)) throw new CommandFailed(command, result);
      return result;
    }
  }
  throw new StreamBroken("the stream ended before the command did");
}

/** A command that runs by itself in a VM: it outlives this client, suspend and resume; forks have their own copy of it. */
export class Process {
  /** @type {string} */
  id;
  #calls;
  #at;

  /**
   * @param {import("../gen/api.js").Calls} calls
   * @param {{ vmId: string, linuxUser?: string }} at
   * @param {string} id
   */
  constructor(calls, at, id) {
    this.#calls = calls;
    this.id = id;
    this.#at = { ...at, processId: id };
  }

  /** What it is and how it is: running, statusCode, stdoutBytes and more. */
  info() {
    return this.#calls.processGet(this.#at);
  }

  /**
   * What it said from an offset on, while it runs and until it has ended.
   * @param {{ offset?: number, stream?: "stdout" | "stderr", signal?: AbortSignal }} [options]
   */
  follow({ offset = 0, stream, signal } = {}) {
    const events = this.#calls.processOutputStream({ ...this.#at, offset, follow: true, ...(stream ? { stream } : {}) }, { signal });
    return execEvents(events, "the connection ended before the process did: follow() it again");
  }

  /**
   * Its output so far: the newest 4 MiB.
   * @param {"stdout" | "stderr"} [stream]
   */
  async output(stream = "stdout") {
    return new Uint8Array(await (await this.#calls.processOutput({ ...this.#at, stream })).arrayBuffer());
  }

  /** Its exit code, when it has ended. @param {{ signal?: AbortSignal }} [options] */
  async wait(options = {}) {
    let code = 0;
    for await (const e of this.follow(options)) if (e.type === "exit") code = e.exitCode;
    return code;
  }

  /** To it and its group. @param {string | number} [signal] */
  async signal(signal = "TERM") {
    await this.#calls.processSignal({ ...this.#at, body: { signal } });
  }

  /**
   * To its stdin, if it was spawned with openStdin.
   * @param {import("../common.js").Bytes} data
   * @param {{ eof?: boolean }} [options] eof: that was all
   */
  async write(data, { eof = false } = {}) {
    await this.#calls.processStdin({ ...this.#at, body: data, ...(eof ? { eof: true } : {}) });
  }

  /** Removes a finished one from the list. */
  async forget() {
    await this.#calls.processDelete(this.#at);
  }
}
