// SPDX-License-Identifier: Apache-2.0
// stream.js - bytes that come and go in pieces: lines, server-sent events, base64, bodies

import { StreamBroken } from "./errors.js";

const LINE_MAX = 64 * 1024 * 1024; // characters of one line or event; a picture in a result is one

/** @param {string} text */
export function bytesOfBase64(text) {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
  return out;
}

/** @param {Uint8Array} bytes */
export function base64OfBytes(bytes) {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(binary);
}

/** @param {{ data?: string, encoding?: string }} data of an event 'stdout' or 'stderr' */
export function bytesOfOutput(data) {
  return data.encoding === "base64" ? bytesOfBase64(data.data ?? "") : new TextEncoder().encode(data.data ?? "");
}

/** @param {readonly Uint8Array[]} parts */
export function joinBytes(parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/**
 * Lines, without their ends. What comes after the last end is a line only if it is a whole object of JSON: a stream that was cut off
 * does not end with half a thing.
 * @param {AsyncIterable<Uint8Array>} pieces
 * @returns {AsyncGenerator<string, void, undefined>}
 */
export async function* linesOf(pieces) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of pieces) {
    const text = decoder.decode(piece, { stream: true });
    if (!text.includes("\n")) {
      rest += text;
      if (rest.length > LINE_MAX) throw new StreamBroken(`a line of the reply has more than ${LINE_MAX} characters`);
      continue;
    }
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield line.endsWith("\r") ? line.slice(0, -1) : line;
  }
  if (rest.startsWith("{") && typeof parsed(rest) === "object") yield rest;
}

/** @param {string} text */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Server-sent events. Comments are left out, several lines of data are one. Some streams (watches, await) are bare lines of JSON: each of
 * those is an event 'message'.
 * @param {AsyncIterable<Uint8Array>} pieces
 * @returns {AsyncGenerator<import("../common.js").ServerEvent, void, undefined>}
 */
export async function* eventsOf(pieces) {
  let event = "";
  /** @type {string | undefined} */
  let id;
  /** @type {string[]} */
  let data = [];
  let size = 0;
  for await (const line of linesOf(pieces)) {
    if (line === "") {
      if (data.length) yield { event: event || "message", ...(id === undefined ? {} : { id }), data: parsed(data.join("\n")) };
      event = "";
      data = [];
      size = 0;
      continue;
    }
    if (line.startsWith(":")) continue;
    if (line.startsWith("{")) {
      yield { event: "message", data: parsed(line) };
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") event = value;
    else if (field === "id") id = value;
    else if (field === "data") {
      size += value.length;
      if (size > LINE_MAX) throw new StreamBroken(`an event has more than ${LINE_MAX} characters`);
      data.push(value);
    }
  }
}

/**
 * @param {AsyncIterable<Uint8Array>} pieces
 * @returns {ReadableStream<Uint8Array>}
 */
export function streamOf(pieces) {
  const it = pieces[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      const { value, done } = await it.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await it.return?.();
    },
  });
}

/**
 * Something to send, as fetch() takes it. Browsers can send a stream only over HTTP/2: there it is collected first.
 * @param {import("../common.js").Bytes} body
 * @returns {Promise<{ body: BodyInit, once: boolean }>} once: it can be read only once, so the request cannot be repeated
 */
export async function bodyOf(body) {
  if (typeof body === "string" || body instanceof Blob || body instanceof ArrayBuffer) return { body, once: false };
  if (ArrayBuffer.isView(body)) return { body: /** @type {BodyInit} */ (body), once: false };
  const stream = body instanceof ReadableStream ? body : streamOf(body);
  const page = "document" in globalThis || "importScripts" in globalThis;
  if (page && !("Deno" in globalThis)) return { body: await new Response(stream).blob(), once: false };
  return { body: stream, once: true };
}
