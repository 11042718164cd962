// SPDX-License-Identifier: Apache-2.0
// repo.js - a Git repository on the server

import { base64OfBytes, bytesOfBase64 } from "./stream.js";
import { PandoError } from "./errors.js";

/** What the API has of a repository without a clone. Search, triggers and mirrors: pando.calls. */
export class Repo {
  /** @type {string} */
  id;
  #calls;

  /** @param {import("../gen/api.js").Calls} calls @param {string} id */
  constructor(calls, id) {
    this.#calls = calls;
    this.id = id;
  }

  info() {
    return this.#calls.repoGet({ repo: this.id });
  }

  async delete() {
    await this.#calls.repoDelete({ repo: this.id });
  }

  async branches() {
    return (await this.#calls.repoBranches({ repo: this.id })).branches;
  }

  /** At a commit, or at the head of the default branch. @param {string} name @param {string} [sha] */
  createBranch(name, sha) {
    return this.#calls.repoBranchCreate({ repo: this.id, body: { name, ...(sha ? { sha } : {}) } });
  }

  /** @param {{ branch?: string, limit?: number, offset?: number }} [options] */
  async commits(options = {}) {
    return (await this.#calls.repoCommits({ repo: this.id, ...options })).commits;
  }

  /** A directory's entries, or a file's content. @param {string} [path] @param {{ rev?: string, recursive?: boolean }} [options] */
  contents(path = "", options = {}) {
    return path ? this.#calls.repoContents({ repo: this.id, path, ...options }) : this.#calls.repoRoot({ repo: this.id, ...options });
  }

  /** @param {string} path @param {{ rev?: string }} [options] */
  async read(path, options = {}) {
    const entry = await this.contents(path, options);
    if (entry.type !== "file" || entry.content === undefined) throw new PandoError(`${path} is not a file`);
    return bytesOfBase64(entry.content);
  }

  /**
   * A commit on a branch without a clone: a file's content, or null to remove it.
   * @param {string} message
   * @param {Record<string, string | Uint8Array | null>} files
   * @param {{ branch?: string, expectedSha?: string, author?: { name: string, email: string } }} [options] expectedSha: only if the branch is there
   */
  async commit(message, files, options = {}) {
    const changes = Object.entries(files).map(([path, content]) => {
      if (content === null) return { path, deleted: true };
      return typeof content === "string" ? { path, content } : { path, content: base64OfBytes(content), encoding: /** @type {const} */ ("base64") };
    });
    return (await this.#calls.repoCommitCreate({ repo: this.id, body: { message, files: changes, ...options } })).commit;
  }

  /** @param {string} base @param {string} head */
  compare(base, head) {
    return this.#calls.repoCompare({ repo: this.id, base, head });
  }

  /** All files of a revision. @param {{ rev?: string, zip?: boolean }} [options] @returns {Promise<ReadableStream<Uint8Array>>} */
  async archive({ rev, zip = false } = {}) {
    const args = { repo: this.id, ...(rev ? { rev } : {}) };
    const reply = await (zip ? this.#calls.repoZip(args) : this.#calls.repoTarball(args));
    return reply.body ?? new Blob([]).stream();
  }
}
