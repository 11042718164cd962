// SPDX-License-Identifier: Apache-2.0
// transport.js - HTTP to one server: address, key, time limits, repetitions, errors
//
// Theory of operation: each request has an AbortController of its own. The caller's signal aborts it, and so does a clock, which is
// wound anew for each phase: until the reply begins, until it is there as a whole, or between two pieces of a stream (the
// server sends something at least every half minute). Whatever fetch() throws then, the caller hears the signal's reason or a
// ConnectionFailed that says how long was waited.
//
// A request is repeated only if that is harmless: GET and HEAD, and whatever has an Idempotency-Key, when there was no reply or one
// that says that the server is busy (429, 502, 503, 504); any other only after 429, which says that nothing was done. Retry-After is obeyed
// up to half a minute; beyond that the caller gets the error.

import { ApiError, ConnectionFailed, StreamBroken } from "./errors.js";
import { bodyOf, eventsOf, linesOf, parsed } from "./stream.js";

const DEFAULT_URL = "http://127.0.0.1:8787";
const TIMEOUT_MS = 900_000; // a create may wait for a build, a command for its end
const SILENCE_MS = 120_000;
const RETRIES = 2;
const RETRY_AFTER_MAX_S = 30;
const BUSY = [429, 502, 503, 504];

/**
 * @typedef {object} Request
 * @property {string} method
 * @property {string} path begins with a slash; its segments are encoded
 * @property {Record<string, string | number | boolean | null | undefined>} [query]
 * @property {Record<string, string>} [headers]
 * @property {unknown} [json] the body, as JSON
 * @property {import("../common.js").Bytes} [body]
 * @property {string} [accept]
 */

/** @param {string} name */
function environment(name) {
  const g = /** @type {any} */ (globalThis);
  try {
    return g.process?.env?.[name] || undefined;
  } catch {
    return undefined; // Deno without --allow-env
  }
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const over = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", over);
      resolve();
    }, ms);
    signal?.addEventListener("abort", over, { once: true });
  });
}

/** The end of one request: by the caller's signal or by the clock. */
class Limit {
  #controller = new AbortController();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #outer;
  #onAbort;
  /** Why the clock ended it, if it did. @type {string | undefined} */
  late;

  /** @param {AbortSignal | undefined} outer */
  constructor(outer) {
    this.#outer = outer;
    this.#onAbort = () => this.#controller.abort(outer?.reason);
    if (outer?.aborted) this.#onAbort();
    else outer?.addEventListener("abort", this.#onAbort, { once: true });
  }

  get signal() {
    return this.#controller.signal;
  }

  /**
   * Winds the clock; 0 stops it.
   * @param {number} ms
   * @param {string} why
   */
  wind(ms, why) {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (ms > 0)
      this.#timer = setTimeout(() => {
        this.late = `${why} for ${ms / 1000} s`;
        this.#controller.abort();
      }, ms);
  }

  /** Nothing is waited for any more. */
  release() {
    this.wind(0, "");
    this.#outer?.removeEventListener("abort", this.#onAbort);
  }

  /** Ends what is still under way. */
  end() {
    this.release();
    this.#controller.abort();
  }

  /**
   * What to tell the caller when something threw.
   * @param {unknown} e
   * @param {(text: string) => Error} make
   */
  explain(e, make) {
    if (this.#outer?.aborted) return this.#outer.reason;
    if (this.late) return make(this.late);
    const cause = /** @type {any} */ (e)?.cause;
    return make(String(cause?.message || cause?.code || /** @type {any} */ (e)?.message || e));
  }
}

export class Transport {
  /** Without a slash at its end. @type {string} */
  url;
  /** @type {string | undefined} */
  #key;
  #fetch;
  #timeoutMs;
  #silenceMs;
  #retries;
  #onWarning;

  /** @param {import("../common.js").TransportOptions} [options] */
  constructor(options = {}) {
    const page = /** @type {any} */ (globalThis).location?.origin;
    const own = typeof page === "string" && page.startsWith("http") ? page : DEFAULT_URL;
    this.url = (options.url ?? environment("PANDO_URL") ?? environment("FREESTYLE_API_URL") ?? own).replace(/\/+$/, "");
    this.#key = options.key ?? environment("PANDO_API_KEY") ?? environment("FREESTYLE_API_KEY");
    this.#fetch = options.fetch ?? ((/** @type {string} */ url, /** @type {RequestInit} */ init) => fetch(url, init));
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS;
    this.#silenceMs = options.silenceMs ?? SILENCE_MS;
    this.#retries = options.retries ?? RETRIES;
    this.#onWarning = options.onWarning ?? ((/** @type {string} */ w, /** @type {string} */ call) => console.warn(`pando: ${call}: ${w}`));
  }

  /**
   * The address of a request.
   * @param {Pick<Request, "path" | "query">} r
   */
  address({ path, query = {} }) {
    const q = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== null) q.append(name, String(value));
    const text = q.toString();
    return this.url + path + (text ? `?${text}` : "");
  }

  /**
   * The reply, once it has begun and is not an error.
   * @param {Request} r
   * @param {import("../common.js").CallOptions} options
   * @returns {Promise<{ response: Response, limit: Limit, call: string }>}
   */
  async #open(r, options) {
    const call = `${r.method} ${r.path}`;
    /** @type {Record<string, string>} */
    const headers = { accept: r.accept ?? "application/json", ...r.headers, ...options.headers };
    if (this.#key) headers.authorization = `Bearer ${this.#key}`;
    let once = false;
    /** @type {BodyInit | undefined} */
    let body;
    if (r.json !== undefined) {
      body = JSON.stringify(r.json);
      headers["content-type"] ??= "application/json";
    } else if (r.body !== undefined) {
      ({ body, once } = await bodyOf(r.body));
      headers["content-type"] ??= "application/octet-stream";
    }
    const harmless = r.method === "GET" || r.method === "HEAD" || Object.keys(headers).some((h) => h.toLowerCase() === "idempotency-key");
    for (let left = once ? 0 : (options.retries ?? this.#retries), wait = 250; ; left--, wait *= 2) {
      const limit = new Limit(options.signal);
      limit.wind(options.timeoutMs ?? this.#timeoutMs, "no reply");
      let response;
      try {
        /** @type {RequestInit & { duplex?: "half" }} */
        const init = { method: r.method, headers, body, signal: limit.signal };
        if (once) init.duplex = "half";
        response = await this.#fetch(this.address(r), init);
        if (response.ok) {
          const warning = response.headers.get("x-pando-warning");
          if (warning) this.#onWarning(warning, call);
          return { response, limit, call };
        }
      } catch (e) {
        limit.release();
        const error = limit.explain(e, (why) => new ConnectionFailed(`${call} to ${this.url}: ${why}`, { cause: e }));
        if (options.signal?.aborted || !harmless || limit.late || left <= 0) throw error;
        await pause(wait, options.signal);
        continue;
      }
      const error = await this.#refused(response, limit, call);
      const again = response.status === 429 || (harmless && BUSY.includes(response.status));
      const after = error.retryAfter ?? (harmless ? wait / 1000 : Infinity);
      if (!again || left <= 0 || after > RETRY_AFTER_MAX_S) throw error;
      await pause(after * 1000, options.signal);
    }
  }

  /**
   * @param {Response} response
   * @param {Limit} limit
   * @param {string} call
   */
  async #refused(response, limit, call) {
    let text = "";
    try {
      text = await response.text();
    } catch {
      // the status says enough
    }
    limit.release();
    const after = Number(response.headers.get("retry-after") ?? NaN);
    return new ApiError(response.status, parsed(text), {
      call,
      requestId: response.headers.get("x-freestyle-trace") ?? undefined,
      retryAfter: Number.isFinite(after) ? after : undefined,
    });
  }

  /**
   * @param {Request} r
   * @param {import("../common.js").CallOptions} [options]
   * @returns {Promise<string>}
   */
  async text(r, options = {}) {
    const { response, limit, call } = await this.#open(r, options);
    try {
      return await response.text();
    } catch (e) {
      throw limit.explain(e, (why) => new StreamBroken(`the reply to ${call} was cut off: ${why}`, { cause: e }));
    } finally {
      limit.release();
    }
  }

  /**
   * @param {Request} r
   * @param {import("../common.js").CallOptions} [options]
   * @returns {Promise<any>}
   */
  async json(r, options = {}) {
    const text = await this.text(r, options);
    try {
      return text === "" ? {} : JSON.parse(text);
    } catch (e) {
      throw new StreamBroken(`the reply to ${r.method} ${r.path} is not JSON: ${text.slice(0, 200)}`, { cause: e });
    }
  }

  /**
   * The reply as fetch() gives it: its body is read by the caller, at the caller's pace.
   * @param {Request} r
   * @param {import("../common.js").CallOptions} [options]
   */
  async response(r, options = {}) {
    const { response, limit } = await this.#open(r, options);
    limit.wind(0, ""); // the caller's signal still ends it
    return response;
  }

  /**
   * The pieces of a reply. Leaving the loop closes the connection, and the server ends what it was doing for it.
   * @param {Request} r
   * @param {import("../common.js").CallOptions} [options]
   * @returns {AsyncGenerator<Uint8Array, void, undefined>}
   */
  async *pieces(r, options = {}) {
    const { response, limit, call } = await this.#open(r, options);
    const reader = response.body?.getReader();
    try {
      while (reader) {
        limit.wind(this.#silenceMs, "nothing came");
        let piece;
        try {
          piece = await reader.read();
        } catch (e) {
          throw limit.explain(e, (why) => new StreamBroken(`the stream of ${call} was cut off: ${why}`, { cause: e }));
        }
        if (piece.done) return;
        limit.wind(0, ""); // a slow caller is no silence of the server's
        yield piece.value;
      }
    } finally {
      limit.end();
    }
  }

  /**
   * @param {Request} r
   * @param {import("../common.js").CallOptions} [options]
   */
  async *events(r, options = {}) {
    yield* eventsOf(this.pieces({ ...r, accept: "text/event-stream" }, options));
  }

  /**
   * Lines of JSON.
   * @param {Request} r
   * @param {import("../common.js").CallOptions} [options]
   * @returns {AsyncGenerator<any, void, undefined>}
   */
  async *lines(r, options = {}) {
    for await (const line of linesOf(this.pieces(r, options))) if (line && !line.startsWith(":")) yield parsed(line);
  }
}
