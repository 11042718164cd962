// SPDX-License-Identifier: Apache-2.0
// run-code.mjs - scripts on one long-lived VM, and a server that every VM of a snapshot has running
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;

/** Runs a script with arguments in a file of its own, so that many can run at once; throws when it fails. */
export async function runPython(vm, code, args = []) {
  const file = `/tmp/main-${randomUUID()}.py`;
  await vm.fs.writeTextFile(file, code);
  const r = await vm.exec(`python3 ${file} ${args.map(quote).join(" ")}; s=$?; rm -f ${file}; exit $s`);
  if (r.statusCode !== 0) throw new Error(`Python exited with ${r.statusCode}:\n${r.stderr || r.stdout}`);
  return r.stdout;
}

/** A program as a service; returns when it answers on its port. */
export async function serve(vm, name, { command, cwd = "/srv", port, tries = 120 }) {
  await vm.fs.writeTextFile(
    `/etc/systemd/system/${name}.service`,
    `[Unit]\nAfter=network.target\n\n[Service]\nExecStart=${command}\nWorkingDirectory=${cwd}\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n`,
  );
  const r = await vm.exec(`mkdir -p ${quote(cwd)} && systemctl daemon-reload && systemctl enable --now ${quote(name)}`);
  if (r.statusCode !== 0) throw new Error(r.stderr);
  while (!(await answers(vm, port))) {
    if (--tries < 0) throw new Error(`${name} does not answer on port ${port}`);
    await sleep(500);
  }
}

export async function answers(vm, port) {
  const r = await vm.exec(`curl -s -o /dev/null -w '%{http_code}' http://localhost:${Number(port)}/`);
  return r.stdout.trim() === "200";
}
