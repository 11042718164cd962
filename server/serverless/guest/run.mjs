// SPDX-License-Identifier: Apache-2.0
// run.mjs - the server of a deployment: its file in this process, or its command in another one
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const own = "/opt/pando-deploy";
const q = JSON.parse(fs.readFileSync(`${own}/conf.json`, "utf8"));
const start = JSON.parse(fs.readFileSync(`${own}/start.json`, "utf8"));

// For a program whose default export has fetch(), as of Bun, Deno and workers.
const serve = (handler) => http.createServer(async (req, res) => {
  try {
    const init = { method: req.method, headers: new Headers() };
    for (let i = 0; i < req.rawHeaders.length; i += 2) init.headers.append(req.rawHeaders[i], req.rawHeaders[i + 1]);
    if (req.method !== "GET" && req.method !== "HEAD") Object.assign(init, { body: Readable.toWeb(req), duplex: "half" });
    const r = await handler.fetch(new Request(`http://${req.headers.host ?? "localhost"}${req.url}`, init));
    for (const [name, value] of r.headers) if (name !== "set-cookie") res.setHeader(name, value);
    if (r.headers.getSetCookie().length) res.setHeader("set-cookie", r.headers.getSetCookie());
    res.writeHead(r.status);
    if (r.body) for await (const piece of r.body) res.write(piece);
    res.end();
  } catch (e) {
    console.error(e);
    if (!res.headersSent) res.writeHead(500);
    res.end();
  }
}).listen(q.port);

process.chdir(start.dir);
Object.assign(process.env, { HOME: "/root", NODE_ENV: "production", PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" }, q.env, { PORT: String(q.port) });
if (start.command) {
  const child = spawn("/bin/bash", ["-c", start.command], {
    stdio: "inherit", env: { ...process.env, NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ""} --import=${own}/hook.mjs`.trim() } });
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  child.on("exit", (code, signal) => {
    console.error(`'${start.command}' ended: ${signal ?? `exit code ${code}`}`);
    process.exit(code || 1);
  });
} else {
  await import(`${own}/hook.mjs`);
  if (start.file) {
    const file = path.resolve(start.dir, start.file);
    process.argv[1] = file;
    if (/\.[mc]?tsx?$/.test(file) && !process.features.typescript) {
      console.error(`this image's Node.js (${process.version}) does not take TypeScript: build it to JavaScript first, with 'build'`);
      process.exit(1);
    }
    const { default: given } = await import(pathToFileURL(file).href);
    if (typeof given?.fetch === "function") serve(given);
  }
}
