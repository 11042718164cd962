// SPDX-License-Identifier: Apache-2.0
// The same program under Node.js, Bun and Deno, and in Debian's Chromium, against a server with real VMs
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { EXPECTED } from "./program.mjs";

const URL_BASE = process.env.PANDO_URL;
const TOP = fileURLToPath(new URL("../../", import.meta.url));
const HERE = fileURLToPath(new URL("./", import.meta.url));
const run = promisify(execFile);
let dir;
let agent;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), "pando-"));
  agent = http.createServer((req, res) => {
    req.resume();
    if (req.url === "/v1/self/fork") res.writeHead(200).end('{"role":"parent","id":"a","children":["b","c"]}');
    else res.writeHead(200).end('event: stdout\ndata: {"data":"out"}\n\nevent: exit\ndata: {"statusCode":0}\n\n');
  });
  await new Promise((done) => agent.listen(join(dir, "s"), done));
});
after(() => {
  agent.closeAllConnections();
  agent.close();
  rmSync(dir, { recursive: true });
});

for (const [name, argv] of [
  ["Node.js", [process.execPath]],
  ["Bun", [join(HERE, "node_modules/@oven/bun-linux-x64-baseline/bin/bun"), "run"]],
  ["Deno", [join(HERE, "node_modules/@deno/linux-x64-glibc/deno"), "run", "-A", "--no-config"]],
])
  test(name, async () => {
    const { stdout } = await run(argv[0], [...argv.slice(1), join(HERE, "main.mjs")], { env: { ...process.env, SELF_SOCKET: join(dir, "s") }, timeout: 300_000 });
    assert.deepEqual(JSON.parse(stdout.trim().split("\n").at(-1)), { saw: EXPECTED, self: ["parent", 2, "out"], http: "function" });
  });

test("Chromium, a page of another origin", async () => {
  const asked = [];
  const site = http.createServer((req, res) => {
    const path = req.url === "/" ? null : req.url.slice(1);
    asked.push(path);
    if (path === null) return res.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>page</title>");
    if (!/^(src|gen|test\/runtimes)\/[\w-]+\.m?js$/.test(path)) return res.writeHead(404).end();
    res.writeHead(200, { "content-type": "text/javascript" }).end(readFileSync(TOP + path));
  });
  await new Promise((done) => site.listen(0, "127.0.0.1", done));
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
  try {
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${site.address().port}/`);
    const saw = await page.evaluate(async (options) => {
      const { program } = await import("/test/runtimes/program.mjs");
      return program(await import("/src/index.js"), options);
    }, { url: URL_BASE, key: process.env.PANDO_API_KEY });
    assert.deepEqual(saw, EXPECTED);
    assert.deepEqual(asked.filter((p) => p?.includes("self.js") || p?.includes("websocket-node")), []); // pages never load these
  } finally {
    await browser.close();
    site.closeAllConnections();
    site.close();
  }
});
