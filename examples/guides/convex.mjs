// SPDX-License-Identifier: Apache-2.0
// convex.mjs - Convex's backend in containers of a VM, behind a name, with the key that its command line needs
//
// Downloads: the vendor's compose file (CONVEX_COMPOSE, an address for curl), and the two images it names.
import { randomBytes } from "node:crypto";
import { machine, sshToken, up } from "./containers.mjs";
import { answers, domainFor, open, sh, tell, work } from "./serving.mjs";

const { CONVEX_COMPOSE: compose = "https://raw.githubusercontent.com/get-convex/convex-backend/main/self-hosted/docker/docker-compose.yml" } = process.env;
const name = "convex-self-hosted";
const domain = domainFor("convex"); // the backend tells its clients, from its first start on

const { vm, vmId } = await machine("convex-server");
await work(vm, `mkdir -p /root/convex && curl -fsSL -o /root/convex/docker-compose.yml '${compose}'`);
await vm.fs.writeTextFile("/root/convex/.env", `INSTANCE_NAME=${name}
INSTANCE_SECRET=${randomBytes(32).toString("hex")}
CONVEX_CLOUD_ORIGIN=https://${domain}
CONVEX_SITE_ORIGIN=https://${domain}
NEXT_PUBLIC_DEPLOYMENT_URL=https://${domain}
`);
await up(vm, "/root/convex");
await answers(vm, 3210, { path: "/version" });
const said = await sh(vm, "cd /root/convex && docker compose exec -T backend ./generate_admin_key.sh");
const key = said.split("\n").map((line) => line.trim()).find((line) => line.startsWith(`${name}|`));
if (!key) throw new Error(`no key in: ${said}`);
await open(vmId, 3210, domain);
tell({
  vmId,
  CONVEX_SELF_HOSTED_URL: `https://${domain}`,
  CONVEX_SELF_HOSTED_ADMIN_KEY: key,
  "dashboard through SSH": `ssh -N -L 6791:localhost:6791 ${vmId}:${await sshToken(vmId)}@<this server's SSH>`,
});
