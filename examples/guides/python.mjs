// SPDX-License-Identifier: Apache-2.0
// python.mjs - scripts of Python on one VM, then a Flask server in a virtual environment that every VM of a snapshot has running
import { failure, run, vmFor } from "./languages.mjs";
import { create, domainFor, keep, listens, open, service, sh, tell, work } from "./serving.mjs";

const vm = await vmFor("python");
const python = (code, args, stdin) => run(vm, "python", code, args, stdin);
tell({
  sum: await python("print(sum(range(10)))"),
  total: await python("import sys; print(sum(int(x) for x in sys.argv[1:]))", [3, 4, 5]),
  lines: await python("import sys; print('|'.join(line.strip().upper() for line in sys.stdin))", [], "one\ntwo\n"),
  "at once": (await Promise.all([111, 222].map((n) => python(`print(${n} * 2)`)))).join(" "),
  failed: await failure(vm, "python", "raise ValueError('boom')"),
});

// Packages of Debian, seen from an environment to which pip can add others, wherever its index is.
await work(vm, "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-flask python3-venv");
await sh(vm, "python3 -m venv --system-site-packages --without-pip /opt/venv");
await vm.fs.writeTextFile(
  "/srv/server.py",
  `from flask import Flask, Response

app = Flask(__name__)
visits = 0

@app.get("/")
def index():
    global visits
    visits += 1
    return f"Hello from Flask, visit {visits}\\n"

@app.get("/stream")
def stream():
    return Response((f"data: {i}\\n\\n" for i in range(3)), mimetype="text/event-stream")

app.run(host="0.0.0.0", port=3000)
`,
);
await service(vm, "python-server", { command: "/opt/venv/bin/python /srv/server.py", cwd: "/srv" });
await listens(vm, 3000);

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "python-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 3000, domainFor("python"))}/` });
