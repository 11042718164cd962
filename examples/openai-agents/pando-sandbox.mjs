// SPDX-License-Identifier: Apache-2.0
// pando-sandbox.mjs - the OpenAI Agents SDK's SandboxClient on Pando, through the unmodified freestyle package
//
// A session is a VM. The SDK wants little of it: a state with the manifest, execCommand() for the exec_command tool
// (the string is what the model reads), and close(). On top of that: createEditor() for apply_patch, readFile() and
// pathExists(), the port of a server inside as an address outside, and states that can be stored and resumed: the VM is
// suspended meanwhile, with its memory.
import { applyDiff } from "@openai/agents";
import {
  getRecordedExposedPortEndpoint,
  normalizeSandboxClientCreateArgs,
  recordExposedPortEndpoint,
} from "@openai/agents/sandbox";
import { freestyle as defaultClient } from "freestyle";
import { randomUUID } from "node:crypto";
import { posix } from "node:path";

const TIMEOUT_MS = 280_000; // below the five minutes after which fetch gives up
const OUTPUT_MAX = 100_000; // characters that the model is shown

/** One word for a POSIX shell, whatever is in it. */
export const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;

export class PandoSandboxClient {
  backendId = "pando";

  /** options: those of vms.create (snapshotId, name, ...), and domainSuffix for exposed ports. */
  constructor({ freestyle = defaultClient, domainSuffix = "style.dev", ...options } = {}) {
    this.freestyle = freestyle;
    this.domainSuffix = domainSuffix;
    this.options = options;
  }

  async create(args, manifestOptions) {
    const { manifest } = normalizeSandboxClientCreateArgs(args, manifestOptions);
    const { vm, vmId } = await this.freestyle.vms.create({ name: "openai-agents", ...this.options });
    const session = new PandoSandboxSession(this, vm, { manifest, vmId });
    try {
      await session.sh(`mkdir -p ${quote(manifest.root)}`);
    } catch (e) {
      await session.close();
      throw e;
    }
    return session;
  }

  // A stored state names the VM; its memory is in the server.
  async serializeSessionState(state) {
    return { vmId: state.vmId, exposedPorts: state.exposedPorts };
  }

  async deserializeSessionState(data) {
    const { manifest } = normalizeSandboxClientCreateArgs();
    return { manifest, ...data };
  }

  async resume(state) {
    return new PandoSandboxSession(this, this.freestyle.vms.ref({ vmId: state.vmId }), state);
  }

  async delete(state) {
    await this.freestyle.vms.delete({ vmId: state.vmId });
  }
}

export class PandoSandboxSession {
  #client;
  #closed = false;

  constructor(client, vm, state) {
    this.#client = client;
    this.vm = vm; // everything else the platform can do: fork, snapshot, terminals
    this.state = state;
  }

  path(name) {
    return posix.resolve(this.state.manifest.root, name);
  }

  /** stdout of a command that must succeed. */
  async sh(command) {
    const r = await this.vm.exec({ command, timeoutMs: TIMEOUT_MS });
    if (r.statusCode !== 0) throw new Error(`'${command}' ended with ${r.statusCode}: ${r.stderr}`);
    return r.stdout;
  }

  async exec({ cmd, workdir, shell, login, runAs }) {
    const vm = runAs ? this.vm.user({ username: runAs }) : this.vm;
    const inner = shell ? `${quote(shell)} ${login ? "-lc" : "-c"} ${quote(cmd)}` : cmd;
    const begin = performance.now();
    const r = await vm.exec({ command: `cd ${quote(this.path(workdir ?? "."))} || exit\n${inner}`, timeoutMs: TIMEOUT_MS });
    const [stdout, stderr] = [r.stdout ?? "", r.stderr ?? ""];
    return { output: stdout + stderr, stdout, stderr, exitCode: r.statusCode, wallTimeSeconds: (performance.now() - begin) / 1000 };
  }

  async execCommand(args) {
    let r;
    try {
      r = await this.exec(args);
    } catch (e) {
      // a timeout carries what the command said until then; the model should see it
      const said = [e.body?.stdout, e.body?.stderr].filter(Boolean).join("");
      r = { exitCode: 124, wallTimeSeconds: 0, output: `${said}${said ? "\n" : ""}${e.message}` };
    }
    const cut = r.output.length > OUTPUT_MAX ? `${r.output.slice(0, OUTPUT_MAX)}\n... ${r.output.length - OUTPUT_MAX} more` : r.output;
    return `Wall time: ${r.wallTimeSeconds.toFixed(4)} seconds\nProcess exited with code ${r.exitCode}\nOutput:\n${cut}`;
  }

  async readFile({ path, maxBytes }) {
    const data = await this.vm.fs.readFile(this.path(path));
    return maxBytes === undefined ? data : data.subarray(0, maxBytes);
  }

  async pathExists(path) {
    return await this.vm.fs.exists(this.path(path));
  }

  /** For the filesystem() capability: apply_patch as reads and writes of files in the VM. */
  createEditor() {
    const { vm } = this;
    const write = async (path, text) => {
      await this.sh(`mkdir -p ${quote(posix.dirname(this.path(path)))}`);
      await vm.fs.writeTextFile(this.path(path), text);
    };
    return {
      createFile: async ({ path, diff }) => {
        await write(path, applyDiff("", diff, "create"));
        return { status: "completed" };
      },
      updateFile: async ({ path, diff, moveTo }) => {
        await write(moveTo ?? path, applyDiff(await vm.fs.readTextFile(this.path(path)), diff));
        if (moveTo && moveTo !== path) await this.sh(`rm -f -- ${quote(this.path(path))}`);
        return { status: "completed" };
      },
      deleteFile: async ({ path }) => {
        await this.sh(`rm -f -- ${quote(this.path(path))}`);
        return { status: "completed" };
      },
    };
  }

  /** A port inside as an address outside: a domain that is mapped to the VM. */
  async resolveExposedPort(port) {
    const known = getRecordedExposedPortEndpoint(this.state, port);
    if (known) return known;
    const domain = `sandbox-${randomUUID().slice(0, 8)}.${this.#client.domainSuffix}`;
    await this.#client.freestyle.domains.mappings.create({ domain, vmId: this.state.vmId, vmPort: port });
    return recordExposedPortEndpoint(this.state, { host: domain, port: 443, tls: true }, port);
  }

  async running() {
    return !this.#closed && (await this.vm.getInfo()).state === "running";
  }

  async close() {
    if (this.#closed) return;
    this.#closed = true;
    await this.#client.delete(this.state);
  }
}
