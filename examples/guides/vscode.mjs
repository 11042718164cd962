// SPDX-License-Identifier: Apache-2.0
// vscode.mjs - VS Code in the browser (code-server) in every VM of a snapshot, behind a name and a password
//
// Downloads: the vendor's installer and the package it fetches (CODE_SERVER_INSTALL: where from). PASSWORD=none: whoever knows the name gets in.
import { randomBytes } from "node:crypto";
import { answers, builder, create, domainFor, keep, open, service, tell, work } from "./serving.mjs";

const { CODE_SERVER_INSTALL: installer = "https://code-server.dev/install.sh", PASSWORD: password = randomBytes(16).toString("hex") } = process.env;
const isOpen = password === "none";

const vm = await builder("vscode");
await work(vm, `curl -fsSL -o install.sh '${installer}' && sh install.sh`);
await service(vm, "code-server", {
  command: `/usr/bin/code-server --bind-addr 0.0.0.0:8080 --auth ${isOpen ? "none" : "password"} --disable-telemetry`,
  secrets: isOpen ? {} : { PASSWORD: password },
});
await answers(vm, 8080, { path: "/healthz" }); // which asks for no password

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "vscode-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 8080, domainFor("vscode"))}/`, password });
