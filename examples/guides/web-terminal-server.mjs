// SPDX-License-Identifier: Apache-2.0
// web-terminal-server.mjs - a server for terminals in browsers that runs in every VM of a snapshot, behind a name
//
// It is Debian's shellinabox. TTYD: the address of a static ttyd, which the VM downloads and uses instead. Whoever knows the name has a shell of root:
// CREDENTIAL=user:password for ttyd, or a proxy of your own (web-terminal.mjs), for all that is not to be public.
import { answers, builder, create, domainFor, keep, open, service, sh, tell, work } from "./serving.mjs";

const { TTYD: ttyd, CREDENTIAL: credential } = process.env;
const quote = (word) => `'${word.replaceAll("'", `'\\''`)}'`;
if (credential && !ttyd) throw new Error("CREDENTIAL is for ttyd only: shellinabox would need a login of the VM's own");
const vm = await builder("web-terminal");
if (ttyd) {
  await work(vm, `curl -fsSL ${quote(ttyd)} -o /usr/local/bin/ttyd && chmod 755 /usr/local/bin/ttyd`);
  await service(vm, "web-terminal", { command: `/usr/local/bin/ttyd --port 7681 --writable ${credential ? "--credential ${CREDENTIAL} " : ""}bash`, secrets: { CREDENTIAL: credential ?? "" } });
} else {
  await work(vm, "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends shellinabox");
  await sh(vm, "systemctl disable --now shellinabox"); // it would ask for a login and make a certificate
  await service(vm, "web-terminal", { command: "/usr/bin/shellinaboxd --disable-ssl --no-beep --port=7681 --service=/:root:root:/root:/bin/bash" });
}
await answers(vm, 7681, credential ? { status: 401 } : {});

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "web-terminal-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 7681, domainFor("web-terminal"))}/` });
