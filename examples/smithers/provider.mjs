// SPDX-License-Identifier: Apache-2.0
// provider.mjs - a Smithers sandbox provider on Pando, through the unmodified freestyle package
//
// Smithers hands over a request; the provider makes a VM, writes the setup files and the request as JSON, runs a command that
// answers it in a file, and gives that back. Smithers checks it, and reviews and applies its diffs. The VM goes with cleanup(), or
// at once when the run is cancelled.
const DEFAULTS = {
  id: "pando",
  command: "node /workspace/run-smithers-sandbox.js",
  requestPath: "/workspace/smithers-request.json",
  resultPath: "/workspace/smithers-result.json",
  idleTimeoutSeconds: 60,
  setupFiles: {},
};

/**
 * options: freestyle (a client), command, setupFiles {path: {content}}, idleTimeoutSeconds, create (more for vms.create:
 * snapshotId, nics, ...), requestPath, resultPath.
 */
export function createPandoSandboxProvider({ freestyle, create = {}, ...options }) {
  const o = { ...DEFAULTS, ...options };
  const machines = new Map(); // of requests that run
  const key = ({ runId, sandboxId }) => `${runId}/${sandboxId}`;

  async function remove(request) {
    const vmId = machines.get(key(request));
    if (machines.delete(key(request))) await freestyle.vms.delete({ vmId });
  }

  async function answer(request, vm, vmId) {
    for (const [path, { content }] of Object.entries(o.setupFiles)) await vm.fs.writeTextFile(path, content);
    const { runId, sandboxId, input, config, allowNetwork } = request;
    await vm.fs.writeTextFile(o.requestPath, JSON.stringify({ runId, sandboxId, input, config, allowNetwork }));
    request.heartbeat({ sandboxId, stage: "running", vmId });
    const r = await vm.exec({ command: o.command, timeoutMs: request.toolTimeoutMs });
    if (r.statusCode !== 0)
      throw new Error(`'${o.command}' ended with ${r.statusCode}: ${(r.stderr || r.stdout || "").slice(0, request.maxOutputBytes)}`);
    const result = JSON.parse(await vm.fs.readTextFile(o.resultPath));
    return { remoteRunId: result.runId, workspaceId: vmId, ...result };
  }

  return {
    id: o.id,

    async run(request) {
      request.signal?.throwIfAborted();
      const { vm, vmId } = await freestyle.vms.create({
        name: `smithers ${request.sandboxId}`,
        idleTimeoutSeconds: o.idleTimeoutSeconds,
        ...create,
      });
      machines.set(key(request), vmId);
      request.heartbeat({ sandboxId: request.sandboxId, stage: "created", vmId });
      const { promise: cancelled, reject } = withResolvers();
      const cancel = () => reject(request.signal.reason);
      request.signal?.addEventListener("abort", cancel, { once: true });
      if (request.signal?.aborted) cancel();
      try {
        return await Promise.race([answer(request, vm, vmId), cancelled]);
      } catch (e) {
        await remove(request);
        throw e;
      } finally {
        request.signal?.removeEventListener("abort", cancel);
      }
    },

    cleanup: remove,
  };
}

function withResolvers() {
  let resolve, reject;
  const promise = new Promise((a, b) => ([resolve, reject] = [a, b]));
  promise.catch(() => {}); // nobody may be waiting
  return { promise, resolve, reject };
}
