// SPDX-License-Identifier: Apache-2.0
// agent.mjs - a Mastra agent with a machine of its own; needs a model's key, FREESTYLE_API_URL and FREESTYLE_API_KEY
import { Agent } from "@mastra/core/agent";
import { Workspace } from "@mastra/core/workspace";
import { PandoSandbox } from "./pando-sandbox.mjs";

/** model: "openai/gpt-5.5" and the like, or a model object. */
export function computerAgent(model, sandbox = new PandoSandbox()) {
  const workspace = new Workspace({ sandbox });
  const agent = new Agent({
    id: "computer-use",
    name: "computer-use",
    model,
    instructions: "You operate a fresh Linux machine. Use execute_command to look around, install what you need, write and run code.",
    workspace,
  });
  return { agent, workspace, sandbox };
}

if (import.meta.filename === process.argv[1]) {
  const { agent, workspace } = computerAgent(process.env.MODEL ?? "openai/gpt-5.5");
  try {
    const task = process.argv.slice(2).join(" ") || "How many CPUs does your machine have? Then print the first 10 primes with Python.";
    console.log((await agent.generate(task)).text);
  } finally {
    await workspace.destroy();
  }
}
