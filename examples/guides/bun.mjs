// SPDX-License-Identifier: Apache-2.0
// bun.mjs - TypeScript on Bun: scripts on one VM, then a server that every VM of a snapshot has running
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, tell } from "./serving.mjs";

const vm = await vmFor("bun");
const bun = (code, args, stdin) => run(vm, "bun", code, args, stdin);
tell({
  hello: await bun('const greet = (name: string): string => `Hello, ${name}!`; console.log(greet("Bun"))'),
  sum: await bun("const n: number[] = Bun.argv.slice(2).map(Number); console.log(n.reduce((a, b) => a + b, 0))", [3, 4, 5]),
  "at once": (await Promise.all([1, 2, 3].map((n) => bun(`console.log(${n} * 111)`)))).join(" "),
  failed: await failure(vm, "bun", "console.error('no more'); process.exit(3)"),
});

await vm.fs.writeTextFile(
  "/srv/server.ts",
  `let visits = 0;
Bun.serve({
  port: 3000,
  hostname: "0.0.0.0",
  fetch: (req) => Response.json({ message: "Hello from Bun", path: new URL(req.url).pathname, visits: ++visits }),
});
`,
);
await service(vm, "bun-server", { command: "/usr/local/bin/bun /srv/server.ts", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "bun-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("bun"))}/` });
