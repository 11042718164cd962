// SPDX-License-Identifier: Apache-2.0
// coding-agent.mjs ["a prompt"] - a vendor's command-line agent in a VM: asked once, left alone with a directory as an ordinary user, and driven by its SDK from here
//
// AGENT_PACKAGE: the npm package; AGENT_COMMAND: the command it brings, which takes -p, --allowedTools and --dangerously-skip-permissions; AGENT_SDK: the vendor's SDK, a
// package installed here whose query() takes spawnClaudeCodeProcess (without it this part is left out). ANTHROPIC_API_KEY; ANTHROPIC_BASE_URL: where the model is, if not
// at its vendor's. The key goes along with each call and is in no snapshot.
import { answer } from "./answer.mjs";
import { builder, create, keep, need, tell, work } from "./serving.mjs";
import { spawnInVm } from "./spawn-in-vm.mjs";

const name = need("AGENT_PACKAGE", "the npm package of the agent");
const cli = `/usr/local/bin/${need("AGENT_COMMAND", "the command that the package brings")}`;
const key = need("ANTHROPIC_API_KEY", "the agent asks its model with it");
const env = { ANTHROPIC_API_KEY: key, ...(process.env.ANTHROPIC_BASE_URL && { ANTHROPIC_BASE_URL: process.env.ANTHROPIC_BASE_URL }) };
const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;
const set = Object.entries({ ...env, DISABLE_AUTOUPDATER: "1", TERM: "xterm-256color" }).map(([k, v]) => `${k}=${quote(v)}`).join(" ");

const made = await builder("coding-agent");
await work(made, `npm install -g --no-audit --no-fund ${name}
useradd -m -s /bin/bash agent
install -d -o agent -g agent /srv/app`);
const version = await answer(made, "/root", `${cli} --version`);
const snapshotId = await keep(made);
const { vm, vmId } = await create(snapshotId, "coding-agent");

/** One prompt, one answer. */
const once = (prompt) => answer(vm, "/root", `cd /root && ${set} ${cli} -p ${quote(prompt)} --allowedTools Bash`);

/** It edits and runs what it likes, which it does not do as root. */
const alone = (prompt) => answer(vm.user({ username: "agent" }), "/home/agent", `cd /srv/app && ${set} ${cli} -p ${quote(prompt)} --dangerously-skip-permissions`);

/** The SDK runs here, the program and its tools in the VM; each call of a tool is decided here. */
async function driven(prompt) {
  const { query } = await import(process.env.AGENT_SDK);
  const asked = [];
  const messages = query({
    prompt,
    options: {
      pathToClaudeCodeExecutable: cli,
      spawnClaudeCodeProcess: ({ command, args, signal }) => spawnInVm(vm)({ command, args, signal, env: { ...env, HOME: "/root" } }),
      env,
      cwd: "/root",
      canUseTool: async (tool, input) => {
        asked.push(tool);
        return { behavior: "allow", updatedInput: input };
      },
    },
  });
  for await (const message of messages) if (message.type === "result") return { driven: message.result, asked: asked.join(" ") };
}

const prompt = process.argv[2] ?? "Run `id -un; pwd` and say what it printed.";
tell({ version, snapshotId, vmId });
tell({ once: await once(prompt) });
tell({ alone: await alone(prompt) });
if (process.env.AGENT_SDK) tell(await driven(prompt));
process.exit(0); // the process in the VM is not waited for
