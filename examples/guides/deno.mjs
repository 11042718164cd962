// SPDX-License-Identifier: Apache-2.0
// deno.mjs - TypeScript on Deno: scripts on one VM that may do only what they were allowed to, then a server in every VM of a snapshot
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, sh, tell } from "./serving.mjs";

const vm = await vmFor("deno");
const deno = (code, args, stdin) => run(vm, "deno", code, args, stdin);
const file = "/tmp/allowed.ts";
await vm.fs.writeTextFile(file, "console.log((await Deno.readTextFile('/etc/hostname')).length > 0)\n");
tell({
  hello: await deno('const greet = (name: string): string => `Hello, ${name}!`; console.log(greet("Deno"))'),
  args: await deno('console.log(Deno.args.join(", "))', ["alpha", "beta"]),
  "at once": (await Promise.all([1, 2, 3].map((n) => deno(`console.log(${n} * 111)`)))).join(" "),
  failed: await failure(vm, "deno", "console.error('no more'); Deno.exit(3)"),
  "without --allow-read": (await failure(vm, "deno", "try { await Deno.readTextFile('/etc/hostname') } catch (e) { console.error(e.name); Deno.exit(1) }")),
  "with --allow-read": await sh(vm, `deno run --no-check --allow-read=/etc ${file}`),
});

await vm.fs.writeTextFile(
  "/srv/server.ts",
  `let visits = 0;
Deno.serve({ port: 3000, hostname: "0.0.0.0" }, (req) =>
  Response.json({ message: "Hello from Deno", path: new URL(req.url).pathname, visits: ++visits }));
`,
);
await service(vm, "deno-server", { command: "/usr/local/bin/deno run --no-check --allow-net /srv/server.ts", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "deno-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("deno"))}/` });
