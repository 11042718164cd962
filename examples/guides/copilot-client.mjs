// SPDX-License-Identifier: Apache-2.0
// copilot-client.mjs "a prompt" - asks a Copilot runtime elsewhere in the private network, and prints what the agent says; copilot.mjs puts it into a VM
//
// COPILOT_AT (host:port), COPILOT_CONNECTION_TOKEN. With COPILOT_PROVIDER_BASE_URL, COPILOT_PROVIDER_API_KEY and COPILOT_MODEL the agent asks that model
// server, for which no account is needed; without them the runtime uses the account whose token it has.
import { CopilotClient, RuntimeConnection, approveAll } from "@github/copilot-sdk";

const { COPILOT_AT: at, COPILOT_CONNECTION_TOKEN: connectionToken, COPILOT_PROVIDER_BASE_URL: baseUrl, COPILOT_PROVIDER_API_KEY: apiKey, COPILOT_MODEL: model } = process.env;
const client = new CopilotClient({ connection: RuntimeConnection.forUri(at, { connectionToken }) });
await client.start();
const session = await client.createSession({
  onPermissionRequest: approveAll, // its tools act on the runtime's machine, not on this one
  ...(model && { model }),
  ...(baseUrl && { provider: { type: "openai", baseUrl, apiKey } }),
});
const idle = new Promise((resolve, reject) => {
  session.on("assistant.message", (event) => event.data.content && console.log(event.data.content));
  session.on("session.error", (event) => reject(new Error(event.data.message)));
  session.on("session.idle", resolve);
});
await session.send({ prompt: process.argv[2] });
await idle;
await session.disconnect();
await client.stop();
