// SPDX-License-Identifier: Apache-2.0
// vite.mjs - a Vite app whose dev server runs in every VM of a snapshot, behind a name
import { answers, builder, create, domainFor, keep, open, service, tell, work } from "./serving.mjs";

const domain = domainFor("vite");
const vm = await builder("vite");
// twice, because npm may think on a busy machine that another one has taken its lock
await work(vm, `mkdir -p /srv && cd /srv
make() { rm -rf app; npm create --yes vite@latest app -- --template vanilla; }
make || make
cd app && npm install --no-audit --no-fund`);
// it answers only names that it knows
await vm.fs.writeTextFile(
  "/srv/app/vite.config.js",
  `import { defineConfig } from "vite";

export default defineConfig({ server: { host: true, port: 5173, strictPort: true, allowedHosts: [${JSON.stringify(domain)}, ".style.dev"] } });
`,
);
await service(vm, "vite", { command: "/usr/local/bin/npm run dev", cwd: "/srv/app" });
await answers(vm, 5173);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "vite-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 5173, domain)}/` });
