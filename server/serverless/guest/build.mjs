// SPDX-License-Identifier: Apache-2.0
// build.mjs - puts the source of a deployment in place, installs, builds, and decides what is started
import fs from "node:fs";
import path from "node:path";
import { spawnSync } from "node:child_process";

const own = "/opt/pando-deploy";
const q = JSON.parse(fs.readFileSync(`${own}/conf.json`, "utf8"));
let dir = "/opt/deployment";

const fail = (text) => {
  console.error(text);
  process.exit(1);
};
const run = (what, command, args, env = {}) => {
  console.log(`$ ${what}`);
  const r = spawnSync(command, args, { cwd: dir, stdio: "inherit", env: { ...process.env, ...env } });
  if (r.status !== 0) fail(`'${what}' failed: ${r.error?.message ?? r.signal ?? `exit code ${r.status}`}`);
};
const exists = (name) => fs.existsSync(path.join(dir, name));
const some = (o) => o && Object.keys(o).length > 0;
const readPackage = () => {
  if (!exists("package.json")) return {};
  try {
    return JSON.parse(fs.readFileSync(path.join(dir, "package.json"), "utf8"));
  } catch (e) {
    return fail(`package.json: ${e.message}`);
  }
};

process.env.HOME = "/root";
process.env.PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
fs.mkdirSync(dir, { recursive: true });

if (q.source.kind === "files") {
  const files = JSON.parse(fs.readFileSync(`${own}/files.json`, "utf8"));
  for (const [name, f] of Object.entries(files)) {
    const to = path.join(dir, name);
    fs.mkdirSync(path.dirname(to), { recursive: true });
    fs.writeFileSync(to, Buffer.from(f.content, f.encoding === "base64" ? "base64" : "utf8"));
    fs.chmodSync(to, f.executable ? 0o755 : 0o644);
  }
  fs.rmSync(`${own}/files.json`);
} else if (q.source.kind === "tar") {
  const file = "/var/tmp/pando-deploy.tar";
  run(`curl ${q.source.url}`, "curl", ["-fsSL", "--retry", "2", "--max-time", "600", "-o", file, "--", q.source.url]);
  run("tar -x", "tar", ["-x", "--no-same-owner", "-f", file]);
  fs.rmSync(file);
  const names = fs.readdirSync(dir);
  if (names.length === 1 && fs.statSync(path.join(dir, names[0])).isDirectory()) dir = path.join(dir, names[0]);
}
if (q.source.dir) {
  dir = path.join(dir, q.source.dir);
  if (!exists(".")) fail(`the source has no directory '${q.source.dir}'`);
}

let pkg = readPackage();
if (!exists("node_modules") && (some(pkg.dependencies) || (q.build && some(pkg.devDependencies)))) {
  const how = exists("package-lock.json") || exists("npm-shrinkwrap.json") ? "ci" : "install";
  run(`npm ${how}`, "npm", [how, "--no-audit", "--no-fund", "--no-progress", ...(q.build ? [] : ["--omit=dev"])]);
}
if (some(q.nodeModules)) {
  const list = Object.entries(q.nodeModules).map(([name, version]) => `${name}@${version}`);
  run(`npm install ${list.join(" ")}`, "npm", ["install", "--no-save", "--no-audit", "--no-fund", "--no-progress", ...list]);
}
if (q.build?.command) run(q.build.command, "/bin/bash", ["-c", q.build.command], q.build.envVars ?? {});
else if (q.build && pkg.scripts?.build) run("npm run build", "npm", ["run", "build"]);
else if (q.build) console.log("package.json has no script 'build': nothing is built");
if (q.build?.outDir) {
  dir = path.join(dir, q.build.outDir);
  if (!exists(".")) fail(`the build made no directory '${q.build.outDir}'`);
  pkg = readPackage();
}

const usual = ["main", "server", "index", "app", "src/main", "src/server", "src/index", "dist/main", "dist/server", "dist/index"]
  .flatMap((name) => ["ts", "mts", "js", "mjs", "cjs"].map((end) => `${name}.${end}`));
const decide = () => {
  if (q.staticOnly) return { files: true };
  if (q.entrypoint) return exists(q.entrypoint) ? { file: q.entrypoint } : fail(`the source has no file '${q.entrypoint}', which 'entrypoint' names`);
  if (pkg.scripts?.start) return { command: "npm start" };
  const file = [pkg.main, ...usual].find((name) => name && exists(name) && fs.statSync(path.join(dir, name)).isFile());
  if (file) return { file };
  if (exists("index.html")) return { files: true };
  return fail(`the source has no server: name its file with 'entrypoint', or give package.json a script 'start'. Looked for ${usual.join(", ")}`);
};
const start = decide();
console.log(`starts ${start.file ?? start.command ?? "a server for its files"}`);
fs.writeFileSync(`${own}/start.json`, JSON.stringify({ dir, ...start }));
