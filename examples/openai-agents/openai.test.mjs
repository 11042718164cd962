// SPDX-License-Identifier: Apache-2.0
// The sandbox by hand, as the SDK's shell tool calls it, and in a whole agent run with a scripted model
import { Usage, run, setTracingDisabled } from "@openai/agents";
import { urlForExposedPort } from "@openai/agents/sandbox";
import { freestyle } from "freestyle";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { computerAgent } from "./agent.mjs";
import { PandoSandboxClient } from "./pando-sandbox.mjs";

const LIMIT = { timeout: 180_000 };
const client = new PandoSandboxClient({ idleTimeoutSeconds: null });
let session;

setTracingDisabled(true);
before(async () => {
  session = await client.create();
}, LIMIT);
after(() => session?.close(), LIMIT);

const ids = async () => (await freestyle.vms.list()).vms.map((v) => v.id);

test("commands run in the workspace", LIMIT, async () => {
  await session.execCommand({ cmd: "echo 'print(sum(range(10)))' > sum.py" });
  assert.match(await session.execCommand({ cmd: "python3 sum.py" }), /exited with code 0\nOutput:\n45\n$/);
  assert.match(await session.execCommand({ cmd: "pwd" }), /\/workspace\n$/);
  assert.match(await session.execCommand({ cmd: "pwd", workdir: "/tmp" }), /\n\/tmp\n$/);
  assert.match(await session.execCommand({ cmd: "echo no >&2; exit 3" }), /code 3\nOutput:\nno\n$/);
  assert.match(await session.execCommand({ cmd: "true", workdir: "/not there" }), /exited with code 2/);
  const bash = await session.exec({ cmd: "echo ${BASH_VERSION%%.*} \"it's\"", shell: "/bin/bash", login: true });
  assert.match(bash.stdout, /^\d+ it's\n$/);
  assert.equal((await session.exec({ cmd: "id -un", runAs: "nobody", workdir: "/" })).stdout, "nobody\n");
});

test("files are created, changed, moved and deleted by patches", LIMIT, async () => {
  const editor = session.createEditor();
  await editor.createFile({ type: "create_file", path: "src/it's.txt", diff: "+one\n+two\n" });
  await editor.updateFile({ type: "update_file", path: "src/it's.txt", diff: "@@\n one\n-two\n+three\n", moveTo: "src/b.txt" });
  assert.match(new TextDecoder().decode(await session.readFile({ path: "src/b.txt" })), /^one\nthree\n?$/);
  assert.equal(await session.pathExists("src/it's.txt"), false);
  await editor.deleteFile({ type: "delete_file", path: "src/b.txt" });
  assert.equal(await session.pathExists("src/b.txt"), false);
});

test("a stored session is resumed with its memory", LIMIT, async () => {
  await session.execCommand({ cmd: "echo in memory > /dev/shm/kept" });
  const stored = JSON.parse(JSON.stringify(await client.serializeSessionState(session.state)));
  await session.vm.suspend();
  const again = await client.resume(await client.deserializeSessionState(stored));
  assert.match(await again.execCommand({ cmd: "cat /dev/shm/kept" }), /in memory\n$/);
});

test("a server inside is reached from outside", LIMIT, async (t) => {
  const r = await fetch(`${process.env.FREESTYLE_API_URL}/domains/v1/mappings`, {
    headers: { Authorization: `Bearer ${process.env.FREESTYLE_API_KEY}` },
  });
  if (r.status === 404) return t.skip("this server has no domains");
  await session.execCommand({ cmd: "systemd-run --unit=app --working-directory=/workspace python3 -m http.server 8000" });
  const endpoint = await session.resolveExposedPort(8000);
  assert.deepEqual(await session.resolveExposedPort(8000), endpoint);
  assert.equal(urlForExposedPort(endpoint, "http"), `https://${endpoint.host}/`);
});

/** A model that follows a script: each line is made from what came before it. */
class ScriptedModel {
  requests = [];

  constructor(...script) {
    this.script = script;
  }

  async getResponse(request) {
    this.requests.push(request);
    const step = this.script.shift();
    if (!step) throw new Error("the script has ended, and the agent goes on");
    const last = Array.isArray(request.input) ? request.input.at(-1) : undefined;
    const said = last?.type === "function_call_result" ? (last.output?.text ?? String(last.output)) : "";
    return { usage: new Usage(), output: [step(said)] };
  }

  async *getStreamedResponse() {
    throw new Error("not used here");
  }
}

let calls = 0;
const command = (cmd) => ({
  type: "function_call",
  callId: `call-${++calls}`,
  name: "exec_command",
  arguments: JSON.stringify({ cmd }),
  status: "completed",
});
const message = (text) => ({
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text }],
});

test("an agent drives its machine, which is gone when the run ends", LIMIT, async () => {
  const others = await ids();
  let during;
  const model = new ScriptedModel(
    () => command("nproc; echo 'print([n for n in range(2, 30) if all(n % d for d in range(2, n))])' > primes.py"),
    (said) => {
      assert.match(said, /exited with code 0\nOutput:\n\d+\n/);
      return command("python3 primes.py");
    },
    (said) => message(`The first 10 primes: ${said.split("Output:\n")[1]}`),
  );
  const observed = new PandoSandboxClient({ idleTimeoutSeconds: null });
  const create = observed.create.bind(observed);
  observed.create = async (...args) => {
    const made = await create(...args);
    during = made.state.vmId;
    return made;
  };
  const result = await run(computerAgent(model), "primes, please", { sandbox: { client: observed } });
  assert.match(result.finalOutput, /\[2, 3, 5, 7, 11, 13, 17, 19, 23, 29\]/);
  const tools = model.requests[0].tools.map((t) => t.name ?? t.type);
  assert.ok(tools.includes("exec_command"), tools.join(" "));
  assert.ok(during && !others.includes(during));
  assert.ok(!(await ids()).includes(during), "the run's VM was not deleted");
});
