// SPDX-License-Identifier: Apache-2.0
// web-terminal.mjs - a VM's terminal in a browser: through a proxy, and without one
//
// A page cannot send headers with a WebSocket, so it cannot show a key. A proxy holds the key, and can refuse to type for a viewer. Or
// the page asks its backend for a ticket, an address that works once, and speaks to Pando itself.
import { WebSocketServer } from "ws";

/**
 * Serves terminals of a VM to browsers: binary frames are bytes, text {type: "resize", cols, rows}. With a sessionId all see one terminal.
 * writable: may a viewer type? Whatever the page does, what it types is dropped here when not.
 */
export async function serveTerminal(vm, { port = 0, host = "127.0.0.1", writable = true, sessionId, exec } = {}) {
  const server = new WebSocketServer({ port, host });
  await new Promise((resolve, reject) => server.once("listening", resolve).once("error", reject));
  server.on("connection", async (browser) => {
    const waiting = [];
    let session;
    const take = (data, isBinary) => {
      if (isBinary) return writable && session.write(new Uint8Array(data));
      try {
        const { type, cols, rows } = JSON.parse(data.toString());
        if (type === "resize") session.resize({ cols, rows });
      } catch {
        // not for us
      }
    };
    browser.on("message", (data, isBinary) => (session ? take(data, isBinary) : waiting.push([data, isBinary])));
    browser.on("close", () => session?.detach());
    const options = {
      onData: (bytes) => browser.readyState === browser.OPEN && browser.send(bytes),
      onExit: () => browser.close(),
    };
    try {
      session = await (sessionId ? vm.pty.attach({ sessionId, ...options }) : vm.pty.open({ exec, ...options }));
      for (const [data, isBinary] of waiting.splice(0)) take(data, isBinary);
      if (browser.readyState !== browser.OPEN) session.detach();
    } catch (e) {
      browser.close(1011, String(e.message).slice(0, 100));
    }
  });
  const close = () => {
    for (const browser of server.clients) browser.terminate();
    return new Promise((resolve) => server.close(resolve));
  };
  return { port: server.address().port, close };
}

/** An address for `new WebSocket(...)` in a page: works once, within a minute, for this VM (and session). No proxy. */
export async function ticketUrl(vmId, sessionId, { url = process.env.FREESTYLE_API_URL, key = process.env.FREESTYLE_API_KEY } = {}) {
  const r = await fetch(`${url}/v1/vms/${vmId}/pty/tickets`, {
    method: "POST",
    headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
    body: JSON.stringify({ sessionId }),
  });
  const reply = await r.json();
  if (!r.ok) throw new Error(`${reply.code}: ${reply.message}`);
  return new URL(reply.url, url.replace(/^http/, "ws")).href;
}
