// SPDX-License-Identifier: Apache-2.0
import { freestyle } from "freestyle";
import assert from "node:assert/strict";
import { once } from "node:events";
import readline from "node:readline";
import { after, before, test } from "node:test";
import { WebSocket } from "ws";
import { spawnInVm } from "./spawn-in-vm.mjs";
import { serveTerminal, ticketUrl } from "./web-terminal.mjs";

const LIMIT = { timeout: 180_000 };
let vm, vmId;

before(async () => {
  ({ vm, vmId } = await freestyle.vms.create({ name: "guides", idleTimeoutSeconds: null }));
}, LIMIT);
after(() => vm?.delete(), LIMIT);

/** What came until it matches. */
function until(viewer, pattern) {
  return new Promise((resolve, reject) => {
    viewer.seen ??= "";
    const check = () => pattern.test(viewer.seen) && (resolve(viewer.seen), true);
    if (check()) return;
    viewer.on("message", (data, isBinary) => {
      if (isBinary) viewer.seen += data;
      check();
    });
    viewer.once("close", (code, why) => reject(new Error(`closed (${code} ${why}) after ${viewer.seen}`)));
  });
}

async function view(address) {
  const viewer = new WebSocket(address);
  await once(viewer, "open");
  return viewer;
}

test("a terminal in a browser, through a proxy", LIMIT, async () => {
  const proxy = await serveTerminal(vm, { exec: "bash --norc" });
  try {
    const viewer = await view(`ws://127.0.0.1:${proxy.port}`);
    viewer.send(JSON.stringify({ type: "resize", cols: 100, rows: 30 }));
    viewer.send(Buffer.from("stty size; echo $((6 * 7))-\n"));
    assert.match(await until(viewer, /42-/), /30 100/);
    viewer.send(Buffer.from("exit\n"));
    await once(viewer, "close"); // the shell's end is the terminal's
  } finally {
    await proxy.close();
  }
});

test("viewers watch and cannot type", LIMIT, async () => {
  const owner = await vm.pty.open({ exec: "bash --norc", sessionId: "shared" });
  const proxy = await serveTerminal(vm, { sessionId: "shared", writable: false });
  try {
    const viewer = await view(`ws://127.0.0.1:${proxy.port}`);
    viewer.send(Buffer.from("touch /tmp/typed\n"));
    owner.write("echo seen-$((1 + 1))\n");
    await until(viewer, /seen-2/);
    assert.equal(await vm.fs.exists("/tmp/typed"), false);
  } finally {
    await proxy.close();
    owner.detach();
  }
});

test("a terminal in a browser, without a proxy", LIMIT, async () => {
  const address = await ticketUrl(vmId, "shared");
  const viewer = await view(address);
  viewer.send(Buffer.from("echo direct-$((2 + 2))\n"));
  await until(viewer, /direct-4/);
  viewer.close();
  const again = new WebSocket(address);
  const [refused] = await once(again, "error");
  assert.match(refused.message, /401|403/); // it worked once
  await vm.pty.close({ sessionId: "shared" });
});

const ECHO = `
const lines = require("node:readline").createInterface({ input: process.stdin });
if (process.stdout.isTTY || process.stdin.isTTY) process.exit(9);
lines.on("line", (l) => {
  const { n, text } = JSON.parse(l);
  console.log(JSON.stringify({ n: n + 1, size: text.length, cwd: process.cwd(), key: process.env.KEY }));
  if (n === 3) process.exit(5);
});
`;

test("a command-line agent's process is in the VM", LIMIT, async () => {
  await vm.fs.writeTextFile("/opt/agent.js", ECHO);
  const child = spawnInVm(vm)({ command: "node", args: ["/opt/agent.js"], cwd: "/tmp", env: { KEY: "it's" } });
  child.on("error", (e) => assert.fail(e));
  const exit = once(child, "exit");
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (n, text) => {
    child.stdin.write(JSON.stringify({ n, text }) + "\n");
    return JSON.parse((await lines.next()).value);
  };
  assert.deepEqual(await ask(1, "ü"), { n: 2, size: 1, cwd: "/tmp", key: "it's" });
  assert.equal((await ask(2, "\u0003\u0004x".repeat(40_000))).size, 120_000); // nothing in it is a key press, nothing is too long
  assert.equal((await ask(3, "")).n, 4);
  assert.equal((await exit)[0], 5);
  assert.equal(child.exitCode, 5);
});

test("it can be killed", LIMIT, async () => {
  const stop = new AbortController();
  const child = spawnInVm(vm)({ command: "sh", args: ["-c", "echo up; sleep 600"], signal: stop.signal });
  const exit = once(child, "exit");
  await once(child.stdout, "data");
  stop.abort();
  assert.equal((await exit)[0], 137);
  assert.equal(child.killed, true);
});
