// SPDX-License-Identifier: Apache-2.0
// instantdb.mjs - InstantDB's sync engine in containers of a VM, behind a name
//
// Downloads: the vendor's Git repository (INSTANT_REPO), of which the folder self-hosting is used, and the images its compose file names.
import { randomBytes } from "node:crypto";
import { machine, sshToken, up } from "./containers.mjs";
import { answers, domainFor, open, tell, work } from "./serving.mjs";

const { INSTANT_REPO: repo = "https://github.com/instantdb/instant" } = process.env;
const dir = "/root/instant/self-hosting";
const domain = domainFor("instantdb");

const { vm, vmId } = await machine("instantdb-server", { cpu: 4, memory: 8 });
await work(vm, `git clone -q --depth 1 '${repo}' /root/instant`);
const secret = () => randomBytes(16).toString("hex");
const example = await vm.fs.readTextFile(`${dir}/.env.example`); // the last line of a name wins
await vm.fs.writeTextFile(`${dir}/.env`, `${example}
INSTANT_BACKEND_URL=https://${domain}
INSTANT_DASHBOARD_URL=http://localhost:3000
POSTGRES_PASSWORD=${secret()}
MINIO_ROOT_USER=instant
MINIO_ROOT_PASSWORD=${secret()}
JAVA_OPTS=-Xmx2g -Xms512m
`);
await up(vm, dir, "--env-file .env");
await answers(vm, 8888, { path: "/health" });
await open(vmId, 8888, domain);
tell({
  vmId,
  apiURI: `https://${domain}`,
  websocketURI: `wss://${domain}/runtime/session`,
  "dashboard through SSH": `ssh -N -L 3000:localhost:3000 ${vmId}:${await sshToken(vmId)}@<this server's SSH>`,
});
