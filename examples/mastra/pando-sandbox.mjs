// SPDX-License-Identifier: Apache-2.0
// pando-sandbox.mjs - Mastra's workspace sandbox on Pando, through the unmodified freestyle package
//
// start() makes a VM, executeCommand() runs in it, stop() suspends it with its memory, destroy() deletes it; the base class keeps
// the status and starts it when a command comes first. The VM itself stays in reach as `vm`: fork, snapshot, terminals.
import { MastraSandbox } from "@mastra/core/workspace";
import { freestyle as defaultClient } from "freestyle";
import { randomUUID } from "node:crypto";

/** One word for a POSIX shell, whatever is in it. */
const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;

export class PandoSandbox extends MastraSandbox {
  id = `pando-${randomUUID().slice(0, 8)}`;
  name = "PandoSandbox";
  provider = "pando";
  status = "pending";
  vm;
  vmId;
  #freestyle;
  #options;

  /** options: those of vms.create: snapshotId, name, idleTimeoutSeconds, nics, ... */
  constructor({ freestyle = defaultClient, ...options } = {}) {
    super({ name: "PandoSandbox" });
    this.#freestyle = freestyle;
    this.#options = options;
  }

  async start() {
    if (this.vm) {
      await this.vm.start(); // it was stopped: its memory comes back
      return;
    }
    const { vm, vmId } = await this.#freestyle.vms.create({ name: "mastra", ...this.#options });
    this.vm = vm;
    this.vmId = vmId;
  }

  async stop() {
    await this.vm?.suspend();
  }

  async destroy() {
    const { vmId } = this;
    this.vm = this.vmId = undefined;
    if (vmId) await this.#freestyle.vms.delete({ vmId });
  }

  async executeCommand(command, args = [], { env, cwd, timeout, onStdout, onStderr } = {}) {
    await this.ensureRunning();
    const set = Object.entries(env ?? {}).filter(([, v]) => v != null);
    const line = [
      ...(cwd ? [`cd ${quote(cwd)} || exit`] : []),
      ...set.map(([k, v]) => `export ${k}=${quote(v)}`),
      [command, ...args.map(quote)].join(" "),
    ].join("\n");
    const begin = performance.now();
    let r;
    try {
      r = await this.vm.exec({ command: line, timeoutMs: timeout });
    } catch (e) {
      if (e.body?.code !== "EXEC_TIMED_OUT") throw e;
      r = { ...e.body, statusCode: 124, timedOut: true };
    }
    const [stdout, stderr] = [r.stdout ?? "", r.stderr ?? ""];
    if (stdout) onStdout?.(stdout);
    if (stderr) onStderr?.(stderr);
    return {
      command,
      args,
      success: r.statusCode === 0,
      exitCode: r.statusCode,
      stdout,
      stderr,
      timedOut: r.timedOut ?? false,
      executionTimeMs: performance.now() - begin,
    };
  }

  getInstructions() {
    return "You have a Debian Linux machine of your own. Run shell commands with execute_command to look around, install packages, write and run code.";
  }

  async getInfo() {
    return { id: this.id, name: this.name, provider: this.provider, status: this.status, metadata: { vmId: this.vmId } };
  }
}
