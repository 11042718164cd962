// SPDX-License-Identifier: Apache-2.0
// The sandbox in a Workspace by hand, and in a whole agent run with a scripted model
import { MastraLanguageModelV2Mock } from "@mastra/core/test-utils/llm-mock";
import { WORKSPACE_TOOLS, Workspace } from "@mastra/core/workspace";
import { freestyle } from "freestyle";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { computerAgent } from "./agent.mjs";
import { PandoSandbox } from "./pando-sandbox.mjs";

const LIMIT = { timeout: 180_000 };
const sandbox = new PandoSandbox({ idleTimeoutSeconds: null });
const workspace = new Workspace({ sandbox });

before(() => workspace.init(), LIMIT);
after(() => workspace.destroy(), LIMIT);

const ids = async () => (await freestyle.vms.list()).vms.map((v) => v.id);

test("commands, their directory, environment and time", LIMIT, async () => {
  const run = (...args) => workspace.sandbox.executeCommand(...args);
  assert.equal(sandbox.status, "running");
  assert.match((await run("uname", ["-s"])).stdout, /^Linux\n$/);
  assert.equal((await run("pwd", [], { cwd: "/tmp" })).stdout, "/tmp\n");
  const said = [];
  const r = await run("printf", ["%s|", "a b", "$HOME", "it's"], { onStdout: (s) => said.push(s) });
  assert.deepEqual([r.stdout, r.success, said.join("")], ["a b|$HOME|it's|", true, r.stdout]);
  assert.equal((await run('echo "$A"', [], { env: { A: "x ' y", B: undefined } })).stdout, "x ' y\n");
  assert.deepEqual((({ success, exitCode, stderr }) => [success, exitCode, stderr])(await run("echo no >&2; exit 3")), [false, 3, "no\n"]);
  const slow = await run("echo some; sleep 600", [], { timeout: 1500 });
  assert.deepEqual([slow.success, slow.timedOut, slow.stdout], [false, true, "some\n"]);
});

test("a stopped sandbox keeps its memory", LIMIT, async () => {
  await sandbox.executeCommand("echo kept > /dev/shm/x");
  await sandbox.stop();
  assert.equal((await sandbox.vm.getInfo()).state, "suspended");
  assert.equal((await sandbox.executeCommand("cat", ["/dev/shm/x"])).stdout, "kept\n");
});

test("what was prepared once is forked", LIMIT, async () => {
  await sandbox.executeCommand("echo ready > /dev/shm/prepared");
  const { forks } = await sandbox.vm.fork({ count: 2 });
  try {
    const said = await Promise.all(forks.map(({ vm }, i) => vm.exec(`echo $(cat /dev/shm/prepared) ${i + 1}/${forks.length}`)));
    assert.deepEqual(said.map((r) => r.stdout), ["ready 1/2\n", "ready 2/2\n"]);
  } finally {
    await Promise.all(forks.map(({ vm }) => vm.delete()));
  }
});

/** A model that follows a script: each step is made from the conversation so far. */
function scripted(...script) {
  const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
  const next = (options) => {
    const step = script.shift();
    if (!step) throw new Error("the script has ended, and the agent goes on");
    const content = step(options);
    return { content, finishReason: content[0].type === "tool-call" ? "tool-calls" : "stop", usage, warnings: [] };
  };
  return new MastraLanguageModelV2Mock({
    doGenerate: async (options) => next(options),
    doStream: async (options) => {
      const { content, finishReason } = next(options);
      const parts = content.flatMap((c, i) =>
        c.type === "text"
          ? [{ type: "text-start", id: `${i}` }, { type: "text-delta", id: `${i}`, delta: c.text }, { type: "text-end", id: `${i}` }]
          : [c],
      );
      const all = [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason, usage }];
      return { stream: ReadableStream.from(all) };
    },
  });
}

test("an agent drives its machine", LIMIT, async () => {
  let offered;
  const { agent, workspace, sandbox } = computerAgent(
    scripted(
      (options) => {
        offered = options.tools.map((t) => t.name);
        const code = "print([n for n in range(2, 30) if all(n % d for d in range(2, n))])";
        const input = JSON.stringify({ command: `echo '${code}' > /tmp/primes.py && python3 /tmp/primes.py` });
        return [{ type: "tool-call", toolCallId: "1", toolName: WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND, input }];
      },
      (options) => [{ type: "text", text: `It said ${JSON.stringify(options.prompt.at(-1))}` }],
    ),
    new PandoSandbox({ idleTimeoutSeconds: null }),
  );
  try {
    const result = await agent.generate("primes, please");
    assert.ok(offered.includes(WORKSPACE_TOOLS.SANDBOX.EXECUTE_COMMAND), offered.join(" "));
    assert.match(result.text, /\[2, 3, 5, 7, 11, 13, 17, 19, 23, 29\]/);
    const { vmId } = sandbox;
    assert.ok((await ids()).includes(vmId));
    await workspace.destroy();
    assert.ok(!(await ids()).includes(vmId), "the VM was not deleted");
  } finally {
    await sandbox.destroy();
  }
});
