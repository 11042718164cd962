// SPDX-License-Identifier: Apache-2.0
// files.js - files of a VM, whole or as streams

import { PandoError } from "./errors.js";

/** @typedef {import("../common.js").Bytes} Bytes */
/** @typedef {{ type: "create" | "modify" | "delete" | "rename" | "overflow" | "error", path: string, message?: string }} FileEvent */

/** sandbox.files */
export class Files {
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
   * @param {string} path
   * @param {{ offset?: number, length?: number, signal?: AbortSignal }} options
   */
  #get(path, { offset = 0, length, signal }) {
    if (offset < 0 || (length !== undefined && length < 1)) throw new PandoError("offset cannot be negative, and length must be at least 1");
    const range = offset || length !== undefined ? { range: `bytes=${offset}-${length === undefined ? "" : offset + length - 1}` } : {};
    return this.#calls.rawGet({ ...this.#at, path, ...range }, { signal });
  }

  /** @param {string} path @param {{ offset?: number, length?: number, signal?: AbortSignal }} [options] */
  async read(path, options = {}) {
    return new Uint8Array(await (await this.#get(path, options)).arrayBuffer());
  }

  /** @param {string} path */
  async readText(path) {
    return (await this.#get(path, {})).text();
  }

  /**
   * A file of any size, in pieces.
   * @param {string} path
   * @param {{ offset?: number, length?: number, signal?: AbortSignal }} [options]
   * @returns {Promise<ReadableStream<Uint8Array>>}
   */
  async stream(path, options = {}) {
    return (await this.#get(path, options)).body ?? new Blob([]).stream();
  }

  /**
   * The old file stays until the new one is whole; directories above it are made. Browsers collect a stream before they send it.
   * @param {string} path
   * @param {Bytes} data
   * @param {{ mode?: number, signal?: AbortSignal }} [options] mode: 0o755 and so on
   */
  async write(path, data, { mode, signal } = {}) {
    await this.#calls.rawPut({ ...this.#at, path, body: data, ...(mode === undefined ? {} : { mode: mode.toString(8).padStart(4, "0") }) }, { signal });
  }

  /**
   * The names in a directory.
   * @param {string} [path]
   * @returns {Promise<{ name: string, kind: string, path: string }[]>}
   */
  async list(path = "/") {
    const reply = /** @type {any} */ (await this.#calls.fileGet({ ...this.#at, path }));
    if (!Array.isArray(reply.files)) throw new PandoError(`${path} is not a directory`);
    const top = path.endsWith("/") ? path : `${path}/`;
    return reply.files.map((/** @type {any} */ f) => ({ name: f.name, kind: f.kind, path: top + f.name }));
  }

  /** @param {string} path @param {{ recursive?: boolean }} [options] */
  async remove(path, { recursive = false } = {}) {
    await this.#calls.rawDelete({ ...this.#at, path, ...(recursive ? { recursive: true } : {}) });
  }

  /**
   * A directory as a tar archive.
   * @param {string} path
   * @param {{ gzip?: boolean, signal?: AbortSignal }} [options]
   * @returns {Promise<ReadableStream<Uint8Array>>}
   */
  async readTar(path, { gzip = false, signal } = {}) {
    const reply = await this.#calls.tarGet({ ...this.#at, path, ...(gzip ? { gzip: true } : {}) }, { signal });
    return reply.body ?? new Blob([]).stream();
  }

  /**
   * Unpacks a tar archive below a directory, which is made when it is missing. Nothing in it can write outside of that.
   * @param {string} path
   * @param {Bytes} archive
   * @param {{ gzip?: boolean, owners?: boolean, signal?: AbortSignal }} [options] owners: those of the archive
   */
  async writeTar(path, archive, { gzip = false, owners = false, signal } = {}) {
    await this.#calls.tarPut({ ...this.#at, path, body: archive, ...(gzip ? { gzip: true } : {}), ...(owners ? { owners: true } : {}) }, { signal });
  }

  /**
   * Changes below a directory, as they happen; without one everywhere but in the system's own directories.
   * @param {string} [path]
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {AsyncGenerator<FileEvent, void, undefined>}
   */
  async *watch(path, { signal } = {}) {
    const reply = this.#calls.watchFiles({ ...this.#at, body: path === undefined ? {} : { path } }, { signal });
    for await (const { data } of reply) yield { type: data.eventType, path: data.filename, ...(data.message ? { message: data.message } : {}) };
  }
}
