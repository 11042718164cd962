// SPDX-License-Identifier: Apache-2.0
// hook.mjs - in every process of a deployment that is Node.js: random numbers of its own in each instance, and the files,
// redirects and fields of the deployment's configuration before the program sees a request
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import "./random.mjs";

const own = "/opt/pando-deploy";
const q = JSON.parse(fs.readFileSync(`${own}/conf.json`, "utf8"));
const start = JSON.parse(fs.readFileSync(`${own}/start.json`, "utf8"));

const types = {
  html: "text/html; charset=utf-8", htm: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8",
  mjs: "text/javascript; charset=utf-8", json: "application/json", map: "application/json", txt: "text/plain; charset=utf-8",
  md: "text/markdown; charset=utf-8", xml: "application/xml", svg: "image/svg+xml", png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg",
  gif: "image/gif", webp: "image/webp", avif: "image/avif", ico: "image/x-icon", woff: "font/woff", woff2: "font/woff2", ttf: "font/ttf",
  wasm: "application/wasm", pdf: "application/pdf", mp4: "video/mp4", webm: "video/webm", webmanifest: "application/manifest+json",
};

// An exact path, a regular expression, or a glob with ** and *.
const pattern = (source) => {
  const glob = /(^|[^.)\]\\])\*/.test(source);
  const text = glob ? source.replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*\*|\*/g, (m) => (m === "**" ? ".*" : "[^/]*")) : source;
  try {
    const re = new RegExp(`^(?:${text})$`);
    return (p) => (p === source ? [p] : re.exec(p));
  } catch {
    return (p) => (p === source ? [p] : null);
  }
};
const rules = (list) => (list ?? []).map((r) => ({ ...r, match: pattern(r.source) }));
const filled = (text, m) => text.replace(/\$(\d)/g, (_, n) => m[n] ?? "");
const redirects = rules(q.redirects), rewrites = rules(q.rewrites), dynamic = rules(q.dynamic), headers = rules(q.headers);
const under = (name) => path.resolve(start.dir, name);
const roots = [];
if (q.staticDir) roots.push({ dir: under(q.staticDir), prefix: (q.staticPathPrefix || "/").replace(/\/*$/, "/") });
if (q.publicDir) roots.push({ dir: under(q.publicDir), prefix: "/" });
if (q.prerenderDir) roots.push({ dir: under(q.prerenderDir), prefix: "/", pages: true });
if (start.files && !roots.length) roots.push({ dir: start.dir, prefix: "/" });

const isFile = (name) => {
  try {
    const s = fs.statSync(name);
    return s.isFile() && s;
  } catch {
    return null;
  }
};
const find = (p) => {
  for (const r of roots) {
    if (!p.startsWith(r.prefix)) continue;
    const name = path.join(r.dir, p.slice(r.prefix.length));
    if (name !== r.dir && !name.startsWith(r.dir + path.sep)) continue;
    const tries = r.pages ? [`${name.replace(/\/$/, "")}.html`, path.join(name, "index.html")] : [name, path.join(name, "index.html")];
    if (!r.pages && q.cleanUrls) tries.push(`${name}.html`);
    for (const file of tries) {
      const s = isFile(file);
      if (s) return { file, s };
    }
  }
  return null;
};
const send = (req, res, status, { file, s }) => {
  const changed = new Date(s.mtimeMs).toUTCString();
  res.setHeader("content-type", types[path.extname(file).slice(1).toLowerCase()] ?? "application/octet-stream");
  res.setHeader("last-modified", changed);
  if (status === 200 && req.headers["if-modified-since"] === changed) return void res.writeHead(304).end();
  res.writeHead(status, { "content-length": s.size });
  if (req.method === "HEAD") return void res.end();
  fs.createReadStream(file).on("error", () => res.destroy()).pipe(res);
};
const away = (res, status, to) => void res.writeHead(status, { location: to }).end();

// true: the request is answered
const web = (req, res) => {
  const at = req.url.indexOf("?");
  const query = at < 0 ? "" : req.url.slice(at);
  let p = at < 0 ? req.url : req.url.slice(0, at), plain;
  for (const r of headers) if (r.match(p)) for (const { key, value } of r.headers) res.setHeader(key, value);
  for (const r of redirects) {
    const m = r.match(p);
    if (m) return away(res, r.statusCode ?? (r.permanent === false ? 307 : 308), filled(r.destination, m) + query), true;
  }
  if (q.trailingSlash === false && p.length > 1 && p.endsWith("/")) return away(res, 308, p.replace(/\/+$/, "").replace(/^\/*/, "/") + query), true;
  if (q.trailingSlash === true && !p.endsWith("/") && !path.extname(p)) return away(res, 308, `${p.replace(/^\/*/, "/")}/${query}`), true;
  if (q.cleanUrls && p.endsWith(".html")) return away(res, 308, p.slice(0, -5).replace(/^\/*/, "/").replace(/\/index$/, "/") + query), true;
  for (const r of rewrites) {
    const m = r.match(p);
    if (!m) continue;
    p = filled(r.destination, m);
    req.url = p + query;
    break;
  }
  if (dynamic.some((r) => r.match(p) && (!r.methods || r.methods.includes(req.method)))) return false;
  if (!roots.length || (req.method !== "GET" && req.method !== "HEAD")) return false;
  try {
    plain = decodeURIComponent(p);
  } catch {
    return false;
  }
  const hit = plain.includes("\0") ? null : find(plain);
  if (!hit) return false;
  send(req, res, 200, hit);
  return true;
};
const rest = (req, res) => {
  const page = find("/404.html");
  if (page) send(req, res, 404, page);
  else res.writeHead(404, { "content-type": "text/plain; charset=utf-8" }).end("not found\n");
};

const emit = http.Server.prototype.emit;
if (roots.length || headers.length || redirects.length || rewrites.length || q.cleanUrls || typeof q.trailingSlash === "boolean")
  http.Server.prototype.emit = function (event, req, res, ...more) {
    if (event === "request" && web(req, res)) return true;
    return emit.call(this, event, req, res, ...more);
  };
if (start.files && process.argv[1]?.startsWith(`${own}/`)) http.createServer(rest).listen(q.port);
