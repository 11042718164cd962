// SPDX-License-Identifier: Apache-2.0
// agent.mjs - an agent with a machine of its own; needs OPENAI_API_KEY, FREESTYLE_API_URL and FREESTYLE_API_KEY
import { run } from "@openai/agents";
import { SandboxAgent, filesystem, shell } from "@openai/agents/sandbox";
import { PandoSandboxClient } from "./pando-sandbox.mjs";

/** model: a name the SDK knows, or an object with its Model interface. */
export function computerAgent(model) {
  return new SandboxAgent({
    name: "computer-use",
    model,
    instructions: "You have a fresh Linux machine. Use exec_command to look around, install what you need, write and run code.",
    capabilities: [shell(), filesystem()],
  });
}

if (import.meta.filename === process.argv[1]) {
  const task = process.argv.slice(2).join(" ") || "How many CPUs does your machine have? Then print the first 10 primes with Python.";
  const result = await run(computerAgent(process.env.MODEL ?? "gpt-5.5"), task, { sandbox: { client: new PandoSandboxClient() } });
  console.log(result.finalOutput);
}
