// SPDX-License-Identifier: Apache-2.0
// nodejs.mjs - scripts of Node.js on one VM, then a server that every VM of a snapshot has running
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, tell } from "./serving.mjs";

const vm = await vmFor("node");
const node = (code, args, stdin) => run(vm, "node", code, args, stdin);
tell({
  sum: await node("console.log([1, 2, 3, 4, 5].reduce((a, b) => a + b, 0))"),
  product: await node("const [a, b] = process.argv.slice(2).map(Number); console.log(a * b)", [6, 7]),
  "at once": (await Promise.all(["a", "b", "c"].map((s) => node(`console.log("${s}".toUpperCase())`)))).join(" "),
  failed: await failure(vm, "node", "process.exitCode = 3; console.error('no more')"),
});

await vm.fs.writeTextFile(
  "/srv/server.js",
  `const http = require("http");
let visits = 0;
http.createServer((req, res) => {
  res.writeHead(200, { "Content-Type": "text/plain" });
  res.end(\`Hello from Node.js, visit \${++visits}\\n\`);
}).listen(3000, "0.0.0.0");
`,
);
await service(vm, "node-server", { command: "/usr/local/bin/node /srv/server.js", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "node-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("node"))}/` });
