// SPDX-License-Identifier: Apache-2.0
// nextjs.mjs - a Next.js app whose dev server runs in every VM of a snapshot, behind a name
import { answers, builder, create, domainFor, keep, open, service, tell, work } from "./serving.mjs";

const domain = domainFor("nextjs");
const vm = await builder("nextjs");
// twice, because npm may think on a busy machine that another one has taken its lock
await work(vm, `mkdir -p /srv && cd /srv
make() { rm -rf app; npx --yes create-next-app@latest app --yes --ts --use-npm; }
make || make`);
// requests that a page makes to the dev server carry the name as their origin
await vm.fs.writeTextFile(
  "/srv/app/next.config.ts",
  `import type { NextConfig } from "next";

const config: NextConfig = { allowedDevOrigins: [${JSON.stringify(domain)}, "*.style.dev"] };
export default config;
`,
);
await service(vm, "nextjs", { command: "/usr/local/bin/npm run dev -- -H 0.0.0.0 -p 3000", cwd: "/srv/app" });
await answers(vm, 3000); // compiles the page

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "nextjs-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domain)}/` });
