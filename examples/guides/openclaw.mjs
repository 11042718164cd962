// SPDX-License-Identifier: Apache-2.0
// openclaw.mjs - OpenClaw's gateway in a VM, behind a name; its agent's model is one of OpenAI's, or any server with that protocol
//
// OPENAI_API_KEY; MODEL (openai/gpt-5.2). OPENAI_BASE_URL: another server, of which MODEL is a model. PAIRING=off: the token alone lets a browser in.
import { randomBytes } from "node:crypto";
import { answer } from "./answer.mjs";
import { answers, builder, create, domainFor, keep, need, open, service, tell, work } from "./serving.mjs";

const key = need("OPENAI_API_KEY", "the gateway's agent asks a model with it");
const { OPENAI_BASE_URL: baseUrl, PAIRING: pairing } = process.env;
const model = process.env.MODEL ?? (baseUrl ? need("MODEL", "a model of OPENAI_BASE_URL") : "openai/gpt-5.2");
const domain = domainFor("openclaw");
const token = randomBytes(24).toString("hex");
const set = (vm, name, value) => answer(vm, "/root", `openclaw config set ${name} '${JSON.stringify(value)}'`);

const made = await builder("openclaw");
await work(made, "npm install -g --no-audit --no-fund openclaw");
if (baseUrl) await set(made, "models.providers.own", { baseUrl, apiKey: "${OPENAI_API_KEY}", api: "openai-completions", models: [{ id: model, name: model }] });
await set(made, "agents.defaults.model.primary", baseUrl ? `own/${model}` : model);
const snapshotId = await keep(made);

const { vm, vmId } = await create(snapshotId, "openclaw-server");
await set(vm, "gateway.controlUi.allowedOrigins", [`https://${domain}`]); // the page opens a WebSocket from there
if (pairing === "off") await set(vm, "gateway.controlUi.dangerouslyDisableDeviceAuth", true);
await service(vm, "openclaw", {
  command: `/usr/local/bin/openclaw gateway --allow-unconfigured --bind lan --auth token --token ${token} --port 18789`,
  secrets: { OPENAI_API_KEY: key },
});
await answers(vm, 18789);
tell({ snapshotId, vmId, url: `https://${await open(vmId, 18789, domain)}/?token=${token}` });
