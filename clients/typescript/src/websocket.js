// SPDX-License-Identifier: Apache-2.0
// websocket.js - the runtime's WebSocket, or one of our own where there is none (Node.js before 22)
//
// Browsers, Bun, Deno and newer Node.js have one, and only that part of its interface is used which ours has too: send(), close(),
// binaryType and the four handlers. websocket-node.js is loaded only when it is needed, so that browsers never ask for it.

/**
 * @typedef {object} Socket
 * @property {string} binaryType
 * @property {(data: string | Uint8Array<ArrayBuffer>) => void} send
 * @property {(code?: number, reason?: string) => void} close
 * @property {(() => void) | null} onopen
 * @property {((event: { data: any }) => void) | null} onmessage
 * @property {((event: { code: number, reason: string }) => void) | null} onclose
 * @property {((event: any) => void) | null} onerror
 */

/**
 * @param {string} url ws: or wss:
 * @returns {Promise<Socket>}
 */
export async function openSocket(url) {
  const g = /** @type {any} */ (globalThis);
  const Kind = g.WebSocket ?? (await import("./websocket-node.js")).NodeWebSocket;
  const socket = new Kind(url);
  socket.binaryType = "arraybuffer";
  return socket;
}
