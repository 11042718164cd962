// SPDX-License-Identifier: Apache-2.0
// websocket-node.js - a WebSocket client (RFC 6455) for Node.js before 22, which has none
//
// Theory of operation: node:http makes the upgrade; after it the socket is ours. What comes is gathered in a buffer and taken from it
// frame by frame. Pings are answered, a close is answered and then the socket ended. Text and binary messages may come in fragments.
// A frame that breaks the rules, or a message over MESSAGE_MAX, ends the connection with the code for that. No extensions are offered, so
// none may be used.

import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const MESSAGE_MAX = 64 * 1024 * 1024; // the picture of a terminal with its scrollback is one message
const CLOSE_WAIT_MS = 5000;
const [CONTINUED, TEXT, BINARY, CLOSE, PING, PONG] = [0, 1, 2, 8, 9, 10];

export class NodeWebSocket {
  binaryType = "arraybuffer";
  /** @type {(() => void) | null} */
  onopen = null;
  /** @type {((event: { data: any }) => void) | null} */
  onmessage = null;
  /** @type {((event: { code: number, reason: string }) => void) | null} */
  onclose = null;
  /** @type {((event: any) => void) | null} */
  onerror = null;

  /** @type {import("node:stream").Duplex | undefined} */
  #socket;
  #request;
  /** @type {Buffer} */
  #buffer = Buffer.alloc(0);
  /** @type {Buffer[]} */
  #parts = [];
  #partsSize = 0;
  #kind = 0;
  #closing = false;
  #closed = false;
  #code = 1006;
  #reason = "";

  /** @param {string} url */
  constructor(url) {
    const at = new URL(url.replace(/^ws/, "http"));
    const key = randomBytes(16).toString("base64");
    this.#request = (at.protocol === "https:" ? https : http).request(at, {
      agent: false,
      headers: { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": key },
    });
    this.#request.on("upgrade", (reply, socket, head) => {
      if (reply.headers["sec-websocket-accept"] !== createHash("sha1").update(key + GUID).digest("base64")) {
        socket.destroy();
        this.#failed(new Error("the server did not answer as a WebSocket"));
        return;
      }
      this.#socket = socket;
      socket.on("data", (piece) => this.#take(piece));
      socket.on("error", () => socket.destroy());
      socket.on("close", () => this.#over());
      this.onopen?.();
      if (head.length) this.#take(head);
    });
    this.#request.on("response", (reply) => {
      reply.resume();
      this.#failed(new Error(`the server answered ${reply.statusCode}`));
    });
    this.#request.on("error", (e) => this.#failed(e));
    this.#request.end();
  }

  /** @param {Error} e */
  #failed(e) {
    if (this.#closed) return;
    this.onerror?.({ message: e.message, error: e });
    this.#over();
  }

  #over() {
    if (this.#closed) return;
    this.#closed = true;
    this.#socket?.destroy();
    this.#request.destroy();
    this.onclose?.({ code: this.#code, reason: this.#reason });
  }

  /** @param {string | Uint8Array} data */
  send(data) {
    if (typeof data === "string") this.#frame(TEXT, Buffer.from(data));
    else this.#frame(BINARY, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  }

  /** @param {number} [code] @param {string} [reason] */
  close(code = 1000, reason = "") {
    if (!this.#socket) {
      this.#over();
      return;
    }
    if (this.#closing) return;
    const body = Buffer.alloc(2 + Buffer.byteLength(reason));
    body.writeUInt16BE(code);
    body.write(reason, 2);
    this.#frame(CLOSE, body);
    this.#closing = true;
    setTimeout(() => this.#over(), CLOSE_WAIT_MS).unref();
  }

  /** @param {number} opcode @param {Buffer} body */
  #frame(opcode, body) {
    if (!this.#socket || this.#closing || this.#closed) return;
    const wide = body.length > 65535 ? 8 : body.length > 125 ? 2 : 0;
    const head = Buffer.alloc(2 + wide + 4);
    head[0] = 0x80 | opcode;
    head[1] = 0x80 | (wide === 8 ? 127 : wide === 2 ? 126 : body.length);
    if (wide === 8) head.writeBigUInt64BE(BigInt(body.length), 2);
    else if (wide === 2) head.writeUInt16BE(body.length, 2);
    const mask = randomBytes(4);
    mask.copy(head, 2 + wide);
    const masked = Buffer.allocUnsafe(body.length);
    for (let i = 0; i < body.length; i++) masked[i] = /** @type {number} */ (body[i]) ^ /** @type {number} */ (mask[i & 3]);
    this.#socket.write(Buffer.concat([head, masked]));
  }

  /** @param {number} code @param {string} why */
  #broken(code, why) {
    this.close(code, why);
    this.#code = code;
    this.#reason = why;
    this.#over();
  }

  /** @param {Buffer} piece */
  #take(piece) {
    this.#buffer = this.#buffer.length ? Buffer.concat([this.#buffer, piece]) : piece;
    while (!this.#closed) {
      const b = this.#buffer;
      if (b.length < 2) return;
      const [first, second] = [b.readUInt8(0), b.readUInt8(1)];
      const short = second & 0x7f;
      const head = short === 127 ? 10 : short === 126 ? 4 : 2;
      if (b.length < head) return;
      const size = short === 127 ? Number(b.readBigUInt64BE(2)) : short === 126 ? b.readUInt16BE(2) : short;
      const opcode = first & 0x0f;
      if (first & 0x70 || second & 0x80) return this.#broken(1002, "a frame with reserved bits or a mask");
      if (opcode >= CLOSE && (size > 125 || !(first & 0x80))) return this.#broken(1002, "a control frame that is too long or in pieces");
      if (size + this.#partsSize > MESSAGE_MAX) return this.#broken(1009, "a message that is too long");
      if (b.length < head + size) return;
      this.#buffer = b.subarray(head + size);
      this.#got(opcode, (first & 0x80) !== 0, b.subarray(head, head + size));
    }
  }

  /** @param {number} opcode @param {boolean} last @param {Buffer} body */
  #got(opcode, last, body) {
    if (opcode === PING) return this.#frame(PONG, body);
    if (opcode === PONG) return;
    if (opcode === CLOSE) {
      this.#code = body.length >= 2 ? body.readUInt16BE(0) : 1005;
      this.#reason = body.subarray(2).toString();
      this.#frame(CLOSE, body.subarray(0, 2));
      this.#closing = true;
      this.#socket?.end();
      setTimeout(() => this.#over(), CLOSE_WAIT_MS).unref();
      return;
    }
    if (opcode > BINARY || (opcode === CONTINUED) !== (this.#kind !== 0)) return this.#broken(1002, "a frame out of order");
    if (opcode !== CONTINUED) this.#kind = opcode;
    this.#parts.push(body);
    this.#partsSize += body.length;
    if (!last) return;
    const whole = this.#parts.length === 1 ? body : Buffer.concat(this.#parts);
    const kind = this.#kind;
    this.#parts = [];
    this.#partsSize = this.#kind = 0;
    this.onmessage?.({ data: kind === TEXT ? whole.toString() : new Uint8Array(whole).buffer });
  }
}
