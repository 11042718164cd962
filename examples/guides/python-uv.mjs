// SPDX-License-Identifier: Apache-2.0
// python-uv.mjs - scripts of Python that uv runs on one VM, with packages that only they have, then a uv project as a server in every VM of a snapshot
//
// Neither Debian nor npm has uv. UV_INSTALLER is the address of its installer, which the VM downloads and runs; then uv itself downloads Python and packages.
// docs/guides/python-uv.md has all of these addresses. UV_OPTIONS ("NAME=value ...") are for uv, like UV_DEFAULT_INDEX=... or UV_PYTHON_PREFERENCE=only-system.
import { randomUUID } from "node:crypto";
import { builder, create, domainFor, keep, listens, need, open, service, sh, tell, work } from "./serving.mjs";

const installer = need("UV_INSTALLER", "the address of uv's installer, a shell script");
const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;
const options = (process.env.UV_OPTIONS ?? "").split(" ").filter(Boolean);
const uv = `${options.map((o) => `export ${quote(o)}; `).join("")}/root/.local/bin/uv`;
const PYTHON = process.env.UV_PYTHON ?? "3.12";

const vm = await builder("python-uv");
await work(vm, `curl -LsSf ${quote(installer)} -o /root/install-uv.sh\nsh /root/install-uv.sh\n${uv} python find ${PYTHON} || ${uv} python install ${PYTHON}`);

/** What a script prints; its packages are there for this one run. */
async function run(code, { args = [], packages = [] } = {}) {
  const file = `/tmp/main-${randomUUID()}.py`;
  await vm.fs.writeTextFile(file, code);
  return sh(vm, `cd /tmp; ${uv} run --python ${PYTHON} ${packages.map((p) => `--with ${quote(p)}`).join(" ")} ${file} ${args.map(quote).join(" ")}`);
}
tell({
  sum: await run("print(2 + 2)"),
  args: await run("import sys; print(' '.join(sys.argv[1:]))", { args: ["alpha", "beta"] }),
  package: await run("import cowsay; print(cowsay.__name__)", { packages: ["cowsay"] }),
  "at once": (await Promise.all(["one", "two"].map((word) => run("import sys; print(sys.argv[1])", { args: [word] })))).join(" "),
});

await vm.fs.writeTextFile(
  "/srv/server.py",
  `from flask import Flask

app = Flask(__name__)
visits = 0

@app.get("/")
def index():
    global visits
    visits += 1
    return f"Hello from uv, visit {visits}\\n"

app.run(host="0.0.0.0", port=3000)
`,
);
await work(vm, `cd /srv; ${uv} init --python ${PYTHON} --no-readme --bare; ${uv} add flask`);
await service(vm, "python-uv-server", { command: "/srv/.venv/bin/python server.py", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "python-uv-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("python-uv"))}/` });
