// SPDX-License-Identifier: Apache-2.0
// copilot.mjs ["a prompt"] - Copilot's runtime in a VM of a private network, asked by a program in another VM of that network
//
// COPILOT_GITHUB_TOKEN: a fine-grained token that may make Copilot requests. Or a model of your own: COPILOT_PROVIDER_BASE_URL, COPILOT_PROVIDER_API_KEY,
// COPILOT_MODEL. The runtime speaks JSON-RPC on TCP, which no name of the edge leads to; your own machine reaches it by WireGuard (private-networks.md).
import { freestyle } from "freestyle";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { answer } from "./answer.mjs";
import { builder, create, keep, listens, need, service, tell, work } from "./serving.mjs";

const PORT = 4321;
const own = Object.fromEntries(["COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY", "COPILOT_MODEL"].flatMap((k) => (process.env[k] ? [[k, process.env[k]]] : [])));
const secrets = own.COPILOT_PROVIDER_BASE_URL ? {} : { COPILOT_GITHUB_TOKEN: need("COPILOT_GITHUB_TOKEN", "or COPILOT_PROVIDER_BASE_URL and COPILOT_MODEL for a model of your own") };
const prompt = process.argv[2] ?? "Run `hostname` with the shell tool and reply with its output.";

// one snapshot for both: the runtime, and the package that talks to it
const vm = await builder("copilot");
await work(vm, "npm install -g --no-audit --no-fund @github/copilot\nmkdir -p /root/client && cd /root/client && npm init -y >/dev/null && npm install --no-audit --no-fund --omit=optional @github/copilot-sdk");
await vm.fs.writeTextFile("/root/client/client.mjs", readFileSync(new URL("copilot-client.mjs", import.meta.url), "utf8"));
const version = (await answer(vm, "/root", "copilot --version")).split("\n")[0];
const snapshotId = await keep(vm);

const { vpcId } = await freestyle.vpc.create({ name: "copilot", cidr: "192.168.10.0/24" });
const nic = (ipv4) => ({ nics: [{ default: true, vpc: vpcId, mode: "routed", ipv4 }] });
const agent = await create(snapshotId, "copilot-agent", nic("192.168.10.10"));
const token = randomBytes(24).toString("hex"); // what every client must show
await service(agent.vm, "copilot", {
  command: `/usr/local/bin/copilot --headless --host 0.0.0.0 --port ${PORT}`,
  secrets: { ...secrets, ...own, COPILOT_CONNECTION_TOKEN: token, COPILOT_AUTO_UPDATE: "false" },
});
await listens(agent.vm, PORT);

const peer = await create(snapshotId, "copilot-peer", nic("192.168.10.11"));
const said = await ask(token);
const refused = await ask("another").then(() => "no", (e) => (/AUTHENTICATION_FAILED/.test(e.message) ? "yes" : `no: ${e.message}`));
tell({ version, snapshotId, vpcId, agent: agent.vmId, peer: peer.vmId, "another token is refused": refused, said });

async function ask(connectionToken) {
  const env = Object.entries({ ...own, COPILOT_AT: `192.168.10.10:${PORT}`, COPILOT_CONNECTION_TOKEN: connectionToken });
  return await answer(peer.vm, "/root", `cd /root/client && ${env.map(([k, v]) => `${k}='${v}'`).join(" ")} node client.mjs '${prompt.replaceAll("'", `'\\''`)}'`);
}
