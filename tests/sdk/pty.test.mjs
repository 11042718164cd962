// SPDX-License-Identifier: Apache-2.0
// pty.test.mjs - terminal sessions through the unmodified freestyle package, and its own reconnect
//
// Connections go through a small proxy of ours, so that one can be cut like a cable. With PANDOD_PID
// the server is killed in the middle of a session; whoever started it starts it again.
import assert from "node:assert/strict";
import net from "node:net";
import { after, before, describe, it } from "node:test";
import { Freestyle } from "freestyle";
import { BOOT, SECOND, SHORT, cleanUp, create, keep, key, raw, url } from "./client.mjs";

const text = new TextDecoder();
const noSocket = typeof WebSocket === "undefined" ? "this Node has no WebSocket" : false;

/** A TCP proxy to the server whose connections can be cut. */
async function cable() {
  const to = new URL(url);
  const open = new Set();
  const server = net.createServer((a) => {
    const b = net.connect(Number(to.port), to.hostname);
    for (const [x, y] of [[a, b], [b, a]]) {
      open.add(x);
      x.on("data", (d) => y.write(d));
      x.on("end", () => y.end());
      x.on("error", () => y.destroy());
      x.on("close", () => { open.delete(x); y.destroy(); });
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut() { for (const s of open) s.resetAndDestroy(); },
    close() { this.cut(); server.close(); },
  };
}

/** A session and what it printed; wait(text) until that came. */
class Screen {
  out = "";
  exit = null;
  closed = null;
  reconnects = 0;
  #waiting = [];
  events = {
    onData: (bytes) => { this.out += typeof bytes === "string" ? bytes : text.decode(bytes); this.#look(); },
    onExit: (code) => { this.exit = code; this.#look(); },
    onClose: (info) => { this.closed = info; this.#look(); },
    onReconnect: () => { this.reconnects++; this.#look(); },
  };
  #look() {
    this.#waiting = this.#waiting.filter(({ check, done }) => !check() || done());
  }
  until(what, check, ms = 60 * SECOND) {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`never: ${what}; screen: ${JSON.stringify(this.out.slice(-2000))}`)), ms);
      this.#waiting.push({ check, done: () => { clearTimeout(late); resolve(); } });
      this.#look();
    });
  }
  wait(word, ms) {
    return this.until(word, () => this.out.includes(word), ms);
  }
}

describe("terminal sessions", { skip: noSocket }, () => {
  let vm, proxy;
  const through = (id) => new Freestyle({ baseUrl: proxy.url, apiKey: key }).vms.ref({ vmId: id });
  const patient = { baseDelayMs: 200, maxDelayMs: 2000, maxAttempts: 60 };

  before(async () => {
    proxy = await cable();
    vm = await create({ name: "pty test" });
  }, { timeout: BOOT });

  after(async () => {
    proxy?.close();
    await cleanUp();
  }, { timeout: SHORT });

  it("opens, types, resizes, exits", { timeout: SHORT }, async () => {
    const s = new Screen();
    const pty = await vm.pty.open({ exec: "bash --norc", sessionId: "sdk-1", cols: 100, rows: 30, ...s.events });
    assert.equal(pty.sessionId, "sdk-1");
    pty.write("stty size; echo $TERM $((6*7))\n");
    await s.wait("30 100");
    await s.wait("xterm-256color 42");
    // readline reads the size and sets it again before it reads a line: a new one may get lost in between
    await s.until("the shell reads", () => / 42\r\n[^]*\x1b\[\?2004h/.test(s.out));
    pty.resize({ cols: 60, rows: 20 });
    pty.write("stty size; printf 'gr\\u00fcn \\u6f22\\u5b57\\n'\n");
    await s.wait("20 60");
    await s.wait("grün 漢字");
    const { sessions } = await vm.pty.list();
    const one = sessions.find((x) => x.sessionId === "sdk-1");
    assert.equal(one.running, true);
    assert.deepEqual([one.cols, one.rows, one.attachedCount, one.exec], [60, 20, 1, "bash --norc"]);
    pty.write("exit 3\n");
    await s.until("exit code", () => s.exit === 3 || s.exit?.exitCode === 3);
    await s.until("close", () => s.closed);
  });

  it("detaches and attaches again, with the screen", { timeout: SHORT }, async () => {
    const s = new Screen(), t = new Screen();
    const pty = await vm.pty.open({ exec: "bash --norc", sessionId: "sdk-2", ...s.events });
    pty.write("for i in $(seq 1 100); do echo row-$i; done\n");
    await s.wait("row-100");
    pty.detach();
    const again = await vm.pty.attach({ sessionId: "sdk-2", ...t.events });
    await t.wait("row-100");
    assert.ok(t.out.includes("row-1\r\n"), "scrollback came along");
    again.signal("SIGINT");
    // a terminal drops what was typed when it is interrupted: not before the shell reads again
    await t.until("the shell reads again", () => /\^C[^]*\x1b\[\?2004h/.test(t.out));
    again.write("echo st''ill\n");
    await t.wait("still");
    const r = await vm.pty.close({ sessionId: "sdk-2" });
    assert.deepEqual(r, { sessionId: "sdk-2", exitCode: 137 });
    await t.until("its end", () => t.closed);
    await assert.rejects(vm.pty.attach({ sessionId: "sdk-2" }));
    await assert.rejects(vm.pty.attach({ sessionId: "no-such" }));
  });

  it("reconnects by itself when the connection is cut", { timeout: SHORT }, async () => {
    const s = new Screen();
    const pty = await through(vm.vmId).pty.open({ exec: "bash --norc", sessionId: "sdk-3", reconnect: patient, ...s.events });
    pty.write("word=kept\n");
    await s.wait("word=kept");
    proxy.cut();
    await s.until("a reconnect", () => s.reconnects === 1);
    pty.write("echo $word-on\n");
    await s.wait("kept-on");
  });

  it("and when the VM is suspended: the attach wakes it", { timeout: SHORT }, async () => {
    const s = new Screen();
    const pty = await through(vm.vmId).pty.attach({ sessionId: "sdk-3", reconnect: patient, ...s.events });
    await s.wait("kept-on");
    await vm.suspend();
    await s.until("a reconnect", () => s.reconnects >= 1);
    pty.write("echo $word-awake\n");
    await s.wait("kept-awake");
    assert.equal((await vm.getInfo()).state, "running");
  });

  it("and when the server is killed", { timeout: SHORT, skip: process.env.PANDOD_PID ? false : "PANDOD_PID names no server" }, async () => {
    const s = new Screen();
    const pty = await through(vm.vmId).pty.attach({ sessionId: "sdk-3", reconnect: patient, ...s.events });
    await s.wait("kept-awake");
    process.kill(Number(process.env.PANDOD_PID), "SIGKILL");
    await s.until("a reconnect", () => s.reconnects >= 1);
    pty.write("echo $word-alive\n");
    await s.wait("kept-alive");
    pty.detach();
  });

  it("forks inherit sessions", { timeout: SHORT }, async () => {
    const { forks } = await vm.fork();
    const child = forks[0].vm;
    keep(child.vmId);
    const s = new Screen();
    const pty = await child.pty.attach({ sessionId: "sdk-3", ...s.events });
    await s.wait("kept-awake");
    pty.write("echo $word-too; exit 4\n");
    await s.wait("kept-too");
    await s.until("exit code", () => s.exit === 4 || s.exit?.exitCode === 4);
    const { sessions } = await vm.pty.list();
    assert.ok(sessions.find((x) => x.sessionId === "sdk-3").running, "the parent's goes on");
  });

  it("runs as another user, who sees only theirs", { timeout: SHORT }, async () => {
    const s = new Screen();
    const nobody = vm.user({ username: "nobody" });
    const pty = await nobody.pty.open({ exec: "sh", sessionId: "sdk-4", ...s.events });
    pty.write("id -un\n");
    await s.wait("nobody\r\n");
    assert.deepEqual((await nobody.pty.list()).sessions.map((x) => x.sessionId), ["sdk-4"]);
    const r = await raw("DELETE", `/v1/vms/${vm.vmId}/pty/sessions/sdk-3`, { headers: { "X-Freestyle-Vm-Linux-User-Id": "nobody" } });
    assert.equal(r.status, 403);
    assert.equal(r.json.code, "SESSION_USER_MISMATCH");
    pty.write("exit\n");
    await s.until("its end", () => s.closed);
  });

  it("a ticket lets a page in, without a header", { timeout: SHORT }, async () => {
    const r = await raw("POST", `/v1/vms/${vm.vmId}/pty/tickets`, { body: { sessionId: "sdk-3" } });
    assert.equal(r.status, 200, r.text);
    assert.ok(Date.parse(r.json.expiresAt) > Date.now());
    const first = await new Promise((resolve, reject) => {
      const ws = new WebSocket(r.json.url);
      ws.addEventListener("message", (e) => { resolve(e.data); ws.close(); });
      ws.addEventListener("error", reject);
    });
    assert.deepEqual(JSON.parse(first), { type: "sessionInfo", sessionId: "sdk-3" });
    await new Promise((resolve, reject) => {
      const ws = new WebSocket(r.json.url); // once
      ws.addEventListener("open", () => reject(new Error("a ticket worked twice")));
      ws.addEventListener("error", resolve);
    });
  });
});
