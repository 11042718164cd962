/** @param {string} text */
export function bytesOfBase64(text: string): Uint8Array<ArrayBuffer>;
/** @param {Uint8Array} bytes */
export function base64OfBytes(bytes: Uint8Array): string;
/** @param {{ data?: string, encoding?: string }} data of an event 'stdout' or 'stderr' */
export function bytesOfOutput(data: {
    data?: string;
    encoding?: string;
}): Uint8Array<ArrayBuffer>;
/** @param {readonly Uint8Array[]} parts */
export function joinBytes(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer>;
/**
 * Lines, without their ends. What comes after the last end is a line only if it is a whole object of JSON: a stream that was cut off
 * does not end with half a thing.
 * @param {AsyncIterable<Uint8Array>} pieces
 * @returns {AsyncGenerator<string, void, undefined>}
 */
export function linesOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, undefined>;
/** @param {string} text */
export function parsed(text: string): any;
/**
 * Server-sent events. Comments are left out, several lines of data are one. Some streams (watches, await) are bare lines of JSON: each of
 * those is an event 'message'.
 * @param {AsyncIterable<Uint8Array>} pieces
 * @returns {AsyncGenerator<import("../common.js").ServerEvent, void, undefined>}
 */
export function eventsOf(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<import("../common.js").ServerEvent, void, undefined>;
/**
 * @param {AsyncIterable<Uint8Array>} pieces
 * @returns {ReadableStream<Uint8Array>}
 */
export function streamOf(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array>;
/**
 * Something to send, as fetch() takes it. Browsers can send a stream only over HTTP/2: there it is collected first.
 * @param {import("../common.js").Bytes} body
 * @returns {Promise<{ body: BodyInit, once: boolean }>} once: it can be read only once, so the request cannot be repeated
 */
export function bodyOf(body: import("../common.js").Bytes): Promise<{
    body: BodyInit;
    once: boolean;
}>;
