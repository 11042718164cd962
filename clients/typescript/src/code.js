// SPDX-License-Identifier: Apache-2.0
// code.js - code that keeps its variables: cells, contexts, rich results

import { ApiError, CellFailed, StreamBroken } from "./errors.js";
import { bytesOfBase64, bytesOfOutput } from "./stream.js";

/** @typedef {"python" | "javascript" | "typescript" | "bash" | "ruby" | "js" | "ts" | "sh" | "rb"} Language */

/**
 * @typedef {object} CellOptions
 * @property {Language} [language] python
 * @property {Context | string} [context] in place of the language's default one
 * @property {number} [timeoutMs] then the cell is interrupted
 * @property {AbortSignal} [signal] leaving interrupts the cell
 */

/**
 * @typedef {{ type: "started", contextId: string }
 *   | { type: "stdout" | "stderr", text: string }
 *   | { type: "result", result: RichResult }
 *   | { type: "file", file: { path: string, size: number, mime: string } }
 *   | { type: "end", cell: Cell }} CellEvent
 */

/** One thing that a cell showed, in every form that it has. */
export class RichResult {
  /** By media type; binary ones as base64. @type {Readonly<Record<string, any>>} */
  data;

  /** @param {Record<string, any>} data */
  constructor(data) {
    this.data = data;
  }

  /** @returns {string | undefined} */
  get text() {
    return this.data["text/plain"];
  }

  /** @returns {string | undefined} */
  get html() {
    return this.data["text/html"];
  }

  /** @returns {string | undefined} */
  get svg() {
    return this.data["image/svg+xml"];
  }

  get json() {
    return this.data["application/json"];
  }

  /** @returns {Uint8Array | undefined} */
  get png() {
    const text = this.data["image/png"];
    return typeof text === "string" ? bytesOfBase64(text) : undefined;
  }
}

/** The outcome of a cell. */
export class Cell {
  stdout = "";
  stderr = "";
  /** What it showed, and the value of its last expression. @type {RichResult[]} */
  results = [];
  /** How it failed. @type {{ name: string, value: string, traceback: string } | undefined} */
  error;
  /** Made or changed while it ran. @type {{ path: string, size: number, mime: string }[]} */
  files = [];
  contextId = "";
  language = "";
  executionCount = 0;
  durationMs = 0;
  timedOut = false;
  interrupted = false;
  /** Variables from before are gone. */
  kernelRestarted = false;
  truncated = false;

  get ok() {
    return this.error === undefined;
  }

  /** The last result as text: the value of the last expression. */
  get text() {
    return this.results.at(-1)?.text;
  }

  /** The first picture. */
  get png() {
    return this.results.find((r) => r.png)?.png;
  }

  /** Itself, or CellFailed if it has an error. */
  check() {
    if (this.error) throw new CellFailed(this);
    return this;
  }
}

/**
 * @param {AsyncGenerator<import("../common.js").ServerEvent, void, undefined>} events
 * @returns {AsyncGenerator<CellEvent, void, undefined>}
 */
export async function* cellEvents(events) {
  const cell = new Cell();
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const { event, data } of events) {
    if (event === "started") yield { type: "started", contextId: data.contextId };
    else if (event === "stdout" || event === "stderr") {
      const text = decoders[event].decode(bytesOfOutput(data), { stream: true });
      cell[event] += text;
      if (text) yield { type: event, text };
    } else if (event === "result") {
      const result = new RichResult(data);
      cell.results.push(result);
      yield { type: "result", result };
    } else if (event === "file") {
      yield { type: "file", file: data };
    } else if (event === "end") {
      const { stdout: _o, stderr: _e, results: _r, stdoutTruncated, stderrTruncated, ...rest } = data;
      Object.assign(cell, rest, { truncated: stdoutTruncated === true || stderrTruncated === true });
      yield { type: "end", cell };
      return;
    } else if (event === "error") throw new ApiError(409, data);
  }
  throw new StreamBroken("the connection ended before the cell did; the cell was interrupted, its context is still there");
}

/**
 * @param {AsyncGenerator<CellEvent, void, undefined>} events
 * @param {{ onStdout?: (text: string) => void, onStderr?: (text: string) => void, onResult?: (result: RichResult) => void }} hear
 * @returns {Promise<Cell>}
 */
export async function cellOf(events, { onStdout, onStderr, onResult }) {
  for await (const e of events) {
    if (e.type === "stdout") onStdout?.(e.text);
    else if (e.type === "stderr") onStderr?.(e.text);
    else if (e.type === "result") onResult?.(e.result);
    else if (e.type === "end") return e.cell;
  }
  throw new StreamBroken("the stream ended before the cell did");
}

/** @typedef {CellOptions & Parameters<typeof cellOf>[1]} RunCellOptions */

/** sandbox.code */
export class Code {
  #calls;
  #at;

  /**
   * @param {import("../gen/api.js").Calls} calls
   * @param {{ vmId: string, linuxUser?: string }} at
   */
  constructor(calls, at) {
    this.#calls = calls;
    this.#at = at;
  }

  /**
   * A cell's output and results as they come; the last event has the whole cell.
   * @param {string} code
   * @param {CellOptions} [options]
   * @returns {AsyncGenerator<CellEvent, void, undefined>}
   */
  stream(code, { language, context, timeoutMs, signal } = {}) {
    const contextId = typeof context === "object" ? context.id : context;
    /** @type {import("../gen/api.js").CellNew} */
    const body = { code, stream: true, ...(contextId ? { contextId } : { language: language ?? "python" }), ...(timeoutMs ? { timeoutMs } : {}) };
    return cellEvents(this.#calls.vmCodeStream({ ...this.#at, body }, { signal }));
  }

  /**
   * Runs a cell. Its failure is 'error' of the cell, not an exception: check() makes it one.
   * @param {string} code
   * @param {RunCellOptions} [options]
   */
  run(code, options = {}) {
    return cellOf(this.stream(code, options), options);
  }

  /**
   * A kernel of its own, next to the default one.
   * @param {Language} language
   * @param {{ cwd?: string, env?: Record<string, string> }} [options]
   */
  async createContext(language, options = {}) {
    const made = await this.#calls.contextCreate({ ...this.#at, body: { language, ...options } });
    return new Context(this.#calls, this.#at, this, made);
  }

  async contexts() {
    const { contexts } = await this.#calls.contextList(this.#at);
    return contexts.map((c) => new Context(this.#calls, this.#at, this, c));
  }
}

/** A kernel: variables, imports, open files. */
export class Context {
  /** @type {string} */
  id;
  /** As it was when it was asked for. @type {import("../gen/api.js").CodeContext} */
  info;
  #calls;
  #at;
  #code;

  /**
   * @param {import("../gen/api.js").Calls} calls
   * @param {{ vmId: string, linuxUser?: string }} at
   * @param {Code} code
   * @param {import("../gen/api.js").CodeContext} info
   */
  constructor(calls, at, code, info) {
    this.id = info.contextId;
    this.info = info;
    this.#calls = calls;
    this.#at = { ...at, contextId: info.contextId };
    this.#code = code;
  }

  /**
   * @param {string} code
   * @param {Omit<RunCellOptions, "context" | "language">} [options]
   */
  run(code, options = {}) {
    return this.#code.run(code, { ...options, context: this });
  }

  /**
   * @param {string} code
   * @param {Omit<CellOptions, "context" | "language">} [options]
   */
  stream(code, options = {}) {
    return this.#code.stream(code, { ...options, context: this });
  }

  /** A new kernel: variables are lost. */
  async restart() {
    await this.#calls.contextRestart(this.#at);
  }

  /** Interrupts the running cell. */
  async interrupt() {
    await this.#calls.contextInterrupt(this.#at);
  }

  async delete() {
    await this.#calls.contextDelete(this.#at);
  }
}
