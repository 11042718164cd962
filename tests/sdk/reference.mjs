// SPDX-License-Identifier: Apache-2.0
// reference.mjs - runs the snippets of the SDK's reference pages, as they are written, against a running pandod
//
// REFERENCE_TEXT names a file with the pages as Markdown ("# Page", "Source: address", "## Section", fenced blocks), up to the page "Guides". The
// snippets of a page run in order and see what the ones before them declared, as a reader would type them. What a page takes for granted (a VM, a
// repository with files in it, a verified domain) is made first: `given`, by page and section. Placeholders ("your-vm-id") get real values, and so do
// those that the text has lost; host names stay, except those that lead outside. A command in a VM that fails fails its snippet. Snippets that
// are not for this server (installing tools, a person at a terminal) are skipped, each with its reason.
import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import https from "node:https";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Vm } from "freestyle";
import { transform } from "sucrase";
import { BOOT, cleanUp, create, freestyle, key, keep, raw, url } from "./client.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const AsyncFunction = (async () => {}).constructor;
const home = mkdtempSync(join(tmpdir(), "pando-reference-"));

// ---- the text ----

function parse(text) {
  const pages = [];
  let section = "", block = null;
  for (const line of text.split("\n")) {
    if (block) {
      if (line.startsWith("```")) block = null;
      else block.lines.push(line);
    } else if (line.startsWith("```")) {
      const [lang, ...rest] = line.slice(3).split(" ");
      block = { section, lang, note: rest.join(" "), lines: [] };
      pages.at(-1)?.blocks.push(block);
    } else if (/^# /.test(line)) {
      if (line === "# Guides") break;
      pages.push({ title: line.slice(2), blocks: [] });
      section = "";
    } else if (/^## /.test(line)) section = line.slice(3);
  }
  return pages.filter((p) => p.blocks.length);
}

// ---- what the pages take for granted ----

const FILES = [
  { path: "README.md", content: "# A repository\n" },
  { path: "src/index.ts", content: "// TODO: more\nexport function main() {}\n" },
  { path: "src/deep/other.ts", content: "async function other() {} // TODO\n" },
];
const made = { repos: [], vpcs: [] };

async function repository(s, files = FILES) {
  const r = await freestyle.git.repos.create({ name: "reference" });
  made.repos.push(r.repoId);
  const { commit } = await r.repo.commits.create({ branch: "main", message: "fix: deprecatedMethod is gone", files });
  Object.assign(s, { repoId: r.repoId, repo: r.repo, sha: commit.sha });
}

async function machine(s) {
  s.vm = await create();
  s.vmId = s.vm.vmId;
}

function txt(domain, value) {
  execFileSync("knsupdate", ["-t", "60"], { input: `server ${process.env.REFERENCE_DNS}\nzone example.com.\n` +
    `add _freestyle_custom_hostname.${domain}. 1 TXT "${value}"\nsend\nquit\n` });
}

/** Begins a verification whose record is there. */
async function verification(domain) {
  const v = await freestyle.domains.verifications.create({ domain });
  txt(domain, v.record.value);
  return v;
}

async function domain() {
  if ((await freestyle.domains.list({ limit: 50 })).some((d) => d.domain === "example.com")) return;
  await verification("example.com");
  await freestyle.domains.verifications.complete({ domain: "example.com" });
}

async function user(s, ...names) {
  for (const n of names) await s.vm.exec(`id ${n} || useradd --create-home --shell /bin/bash ${n}`);
}

const fresh = async (s) => { await domain(); await machine(s); };
const given = {
  "Freestyle VMs/Route Web Traffic": fresh,
  "SSH Access/Multiple Developers": machine,
  "VM Domains/Create A VM And Map A Domain": async (s) => { await domain(); s.replace = [['VM\n");', 'VM");']]; }, // a tag that the text has lost
  "Domain Verification/Complete Verification": async (s) => {
    // by domain first, by id then
    if (s.byId) s.verificationId = (await verification("second.example.com")).verificationId;
    else txt("example.com", s.record.value);
    s.byId = true;
  },
  "Domain Verification/Cancel A Verification": async (s) => {
    const v = await freestyle.domains.verifications.create({ domain: "third.example.com" });
    s.replace = [['"example.com"', '"third.example.com"'], ['verificationCode: ""', `verificationCode: "${v.record.value}"`]];
  },
  "Domain DNS/Route Traffic": fresh,
  "Domain Mappings/Create A Mapping": fresh,
  "Domains CLI/Verify A Domain": async (s) => {
    // a name of its own: example.com has been verified by then
    s.replace = [["example.com", "cli.example.com"]];
    if (s.text.includes("--verification-id")) s.cliId = (await verification("cli2.example.com")).verificationId;
    if (s.text.includes("--domain")) txt("cli.example.com", (await freestyle.domains.verifications.list()).find((v) => v.domain === "cli.example.com").verificationCode);
    s.replace.push(["--verification-id", `--verification-id ${s.cliId}`]);
  },
  "Domains CLI/Map A Domain To A VM": async (s) => { if (!s.vm) await fresh(s); s.replace = [["--vm-id", `--vm-id ${s.vmId}`]]; },
  "VPNs/Close The Session": async (s) => {
    const { vpcId, vpc } = await freestyle.vpc.create({ name: "reference", cidr: "192.168.11.0/24" });
    made.vpcs.push(vpcId);
    s.connection = await vpc.wireguard.createEphemeral();
  },
  "PTY Sessions/Open A Session": machine,
  "PTY Sessions/Send Input, Resize, Signal": async (s) => { s.session = await s.vm.pty.open({ exec: "/bin/sh" }); },
  "PTY Sessions/List And Close": async (s) => { s.sessionId = s.session.sessionId; },
  "PTY Sessions/Multi-User Isolation": (s) => user(s, "alice", "bob"),
  "Freestyle Git/Clone A Repository": (s) => { s.replace = [["x-access-token:@", `x-access-token:${s.token}@`], ["git.freestyle.sh/", `git.freestyle.sh/${s.repoId}`]]; },
  "Freestyle Git/Read Files By API": (s) => s.repo.commits.create({ branch: "main", message: "README", files: FILES }),
  "Repositories/Create From A Source Repository": async (s) => {
    const source = {};
    await repository(source);
    s.replace = [["https://github.com/user/repo.git", `${url.replace("://", `://x-access-token:${key}@`)}/${source.repoId}`]];
  },
  "Repositories/Delete A Repository": async (s) => { const r = {}; await repository(r); s.replace = [["your-repo-id", r.repoId]]; },
  "Repositories/Authenticate Native Git": (s) => { s.replace = [["git.freestyle.sh/", `git.freestyle.sh/${s.repoId}`]]; },
  "Git API/Get File Or Directory Contents": async (s) => { if (!s.repo) await repository(s); },
  "Git API/Branches": (s) => { s.replace = [["a1b2c3d4e5f6", s.sha]]; },
  "Git API/Tags": async (s) => { await git("clone", remote(s.repoId), "tagged"); await git("-C", "tagged", "-c", "user.name=t", "-c", "user.email=t@example.org",
    "tag", "-a", "-m", "one", "v1.0.0"); await git("-C", "tagged", "push", "origin", "v1.0.0"); },
  "Search/Content Search": async (s) => { if (!s.repo) await repository(s); },
  "Triggers/Delete A Trigger": (s) => { s.replace = [["trigger-id", s.triggerId]]; },
  "VM CLI/Operate On An Existing VM": async (s) => { await machine(s); s.replace = [["vm exec", `vm exec ${s.vmId}`], ["vm delete", `vm delete ${s.vmId}`]]; },
  "Git CLI/Create Repositories": async (s) => {
    const source = {};
    await repository(source);
    s.replace = [["https://github.com/owner/repo.git", `${url.replace("://", `://x-access-token:${key}@`)}/${source.repoId}`]];
  },
  "Git CLI/Delete A Repository": async (s) => { const r = {}; await repository(r); s.replace = [["git delete", `git delete ${r.repoId}`]]; },
};

const OTHERS = "installs something on the reader's machine";
const PERSON = "a person at a terminal; test_ssh.py and cli.test.mjs do the same with one";
const skipped = [
  [/\b(pnpm|bun|yarn|brew|dnf) |npm install|apt-get install -y wireguard/, OTHERS],
  [/^export FREESTYLE_API_KEY="your-api-key"$/, "the key is in the environment"],
  [/--ssh|^ssh /m, PERSON],
  [/freestyle login/, "needs a page to log in at"],
  [/wg-quick|^sudo wg|^ping /m, "changes the routes of this machine; test_wireguard.py does it in a network of its own"],
  [/AuthorizedKeysCommand/, "SSH needs no sshd in the guest here"],
  [/^dig /, "asks this machine's own name server"],
  [/^tailscale /, "a service of others"],
  [/^freestyle --help$/, "needs a global installation; npx freestyle --help runs"],
  [/^git push origin main$/m, "needs a working copy; git.test.mjs pushes"],
];
/** Commands that may fail: what they run is not there. */
const mayFail = /npm test/;
/** What this version of the package cannot do: it does not send the name. The answer says so. */
const refused = [[/branches\.create/, /does not send the branch's name/]];

// ---- running them ----

const remote = (id) => `${url.replace("://", `://x-access-token:${key}@`)}/${id}`;
const env = { ...process.env, HOME: home, GIT_TERMINAL_PROMPT: "0" };
const git = (...args) => promisify(execFile)("git", args, { cwd: home, env, timeout: BOOT });

/** Not only that calls return: commands in VMs have to succeed. */
function watchCommands() {
  const { exec } = Vm.prototype;
  Vm.prototype.exec = async function (...args) {
    let r = await exec.apply(this, args);
    // the program behind the port was started by the snippet before, and an emulated guest needs a moment
    for (let i = 0; i < 60 && r.statusCode === 7 && /^curl /.test(args[0]); i++) r = await exec.call(this, `sleep 1; ${args[0]}`);
    if (r.statusCode) throw new Error(`in the VM: ${JSON.stringify(args[0])} ended with ${r.statusCode}: ${r.stderr ?? ""}`);
    return r;
  };
}

/** Declarations become var, so that the next snippet sees them; imports become calls. */
function script(code) {
  const names = new Set();
  let js = transform(code, { transforms: ["typescript"], disableESTransforms: true, keepUnusedImports: true }).code;
  js = js.replace(/^import (\w+) from ("[^"]+");?$/gm, "const { default: $1 } = await import($2);")
    .replace(/^import (\{[^}]*\}) from ("[^"]+");?$/gm, "const $1 = await import($2);");
  js = js.replace(/^(?:const|let) (\{[^}]*\}|\[.*?\] |\w+)/gm, (_, what) => {
    for (const part of what.replace(/[{}[\]]/g, " ").split(",")) {
      const name = part.split(":").at(-1).trim();
      if (name) names.add(name);
    }
    return `var ${what}`;
  });
  return `with (scope) { ${js}\n;scope.export({ ${[...names].map((n) => `${n}: typeof ${n} === "undefined" ? undefined : ${n}`).join(", ")} }); }`;
}

function filled(text, s) {
  for (const [from, to] of s.replace ?? []) text = text.replaceAll(from, to);
  return text.replaceAll("your-vm-id", s.vmId).replaceAll("your-repo-id", s.repoId);
}

async function runScript(text, s) {
  const scope = Object.assign(Object.create(null), s, { console: { log() {} }, process: { ...process, stdout: { write() {} } } });
  scope.export = (names) => Object.assign(s, names);
  const returned = await new AsyncFunction("scope", script(filled(text, s)))(scope);
  if (returned) Object.assign(s, returned);
}

async function runShell(text, s) {
  // the CLI is the one of this folder; git and curl come from outside a VM, so names lead to where the server listens
  text = filled(text, s).replaceAll("https://git.freestyle.sh", url).replaceAll("https://x-access-token:", `${url.split("://")[0]}://x-access-token:`)
    .replaceAll("@git.freestyle.sh", `@${url.split("://")[1]}`).replaceAll("https://api.freestyle.sh", url);
  const folder = /^npx/.test(text) ? here : mkdtempSync(join(home, "sh-"));
  try {
    await promisify(execFile)("bash", ["-euc", text], { cwd: folder, env: { ...env, REPO_ID: s.repoId ?? "" }, timeout: BOOT });
  } catch (e) {
    if (!mayFail.test(text)) throw new Error(`${text}: ${e.stderr || e.stdout || e.message}`);
  }
}

/** What a visitor sees at a name of the edge. */
function visit(name) {
  return new Promise((resolve, reject) => {
    https.get({ host: "127.0.0.1", port: process.env.REFERENCE_EDGE, servername: name, headers: { host: name }, rejectUnauthorized: false },
      (res) => { let text = ""; res.on("data", (d) => { text += d; }).on("end", () => resolve(`${res.statusCode} ${text}`)); }).on("error", reject);
  });
}

const checks = {
  "Quickstart/Create A VM": (s) => assert.equal(s.result.stdout, "hello from freestyle\n"),
  "Freestyle VMs/Work With Files": (s) => assert.equal(s.content, "Hello from Freestyle"),
  "Freestyle VMs/Size A VM": async (s) => assert.equal((await s.vm.exec("nproc")).stdout.trim(), "8"),
  "Freestyle VMs/Clone A Repository": async (s) => { await s.vm.exec("test -d /workspace/.git"); },
  "VM Domains/Create A VM And Map A Domain": async () => {
    for (let i = 0; ; i++) {
      const seen = await visit("app.example.com");
      if (seen.includes("Hello from a Freestyle VM")) break;
      assert.ok(i < 60, seen);
      await new Promise((r) => setTimeout(r, 1000));
    }
  },
  "VPCs/Test Private Connectivity": (s) => assert.match(s.result.stdout, /3 received/),
};

const text = readFileSync(process.env.REFERENCE_TEXT, "utf8");
const pages = parse(text);
// the page that verifies a domain comes before those that need one
pages.sort((a, b) => (b.title === "Domain Verification") - (a.title === "Domain Verification"));
watchCommands();

for (const page of pages)
  describe(page.title, () => {
    const s = { freestyle };
    before(() => assert.ok(pages.length > 20, `only ${pages.length} pages in ${process.env.REFERENCE_TEXT}`));
    after(async () => {
      for (const { id } of (await raw("GET", "/v1/vms")).json.vms) keep(id);
      await cleanUp();
      for (const id of made.vpcs.splice(0)) await raw("DELETE", `/v1/vpcs/${id}`);
    }, { timeout: BOOT });
    page.blocks.forEach((b, n) => {
      const code = b.lines.join("\n");
      const shell = b.lang === "bash", ts = b.lang === "ts";
      const why = !shell && !ts ? "not code" : /^\{/.test(code) ? "a value, not code" : skipped.find(([re]) => re.test(code))?.[1];
      it(`${n + 1} ${b.section}`, { timeout: BOOT * 2, skip: why ?? false }, async () => {
        const place = `${page.title}/${b.section}`;
        s.text = code;
        s.replace = [];
        if (s.vm && !s.vmId) s.vmId = s.vm.vmId;
        await given[place]?.(s);
        const answer = refused.find(([re]) => re.test(code))?.[1];
        if (answer) return assert.rejects(runScript(code, s), answer);
        if (shell) await runShell(code, s);
        else await runScript(code, s);
        if (s.vm) s.vmId = s.vm.vmId;
        await checks[place]?.(s);
      });
    });
  });

after(async () => {
  for (const { id } of (await freestyle.git.repos.list({ limit: 100 })).repositories) await raw("DELETE", `/git/v1/repo/${id}`);
  rmSync(home, { recursive: true, force: true });
  for (const name of ["repo.tar", "repo.zip"]) rmSync(name, { force: true }); // of the page on archives
});
