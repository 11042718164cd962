// SPDX-License-Identifier: Apache-2.0
// serving.mjs - what the guides for servers in VMs have in common: install, run as a service, snapshot, create, give a name
//
// FROM_SNAPSHOT: a snapshot to build on, instead of the base image. DOMAIN: the name to use; else one below style.dev, which needs no proof.
import { freestyle } from "freestyle";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const quote = (word) => `'${String(word).replaceAll("'", `'\\''`)}'`;

/** A secret of this program's environment, without which it cannot go on. */
export function need(name, what) {
  const value = process.env[name];
  if (value) return value;
  console.error(`${name} is not set: ${what}`);
  process.exit(2);
}

/** A name for a guide's server, known before the server is started, because many want to be told theirs. */
export const domainFor = (guide) => process.env.DOMAIN ?? `${guide}-${randomUUID().slice(0, 8)}.style.dev`;

/** A VM in which something is installed; keep() throws it away. */
export async function builder(guide, options = {}) {
  const { vm } = await freestyle.vms.create({ name: `${guide}-builder`, snapshotId: process.env.FROM_SNAPSHOT, idleTimeoutSeconds: null, ...options });
  return vm;
}

/** stdout of a command that must succeed within minutes. */
export async function sh(vm, command) {
  const r = await vm.exec({ command: `export HOME=/root; ${command}`, timeoutMs: 280_000 });
  if (r.statusCode !== 0) throw new Error(`'${command}' ended with ${r.statusCode}: ${r.stderr || r.stdout}`);
  return r.stdout.trim();
}

/** A command that takes as long as it takes: it runs by itself, and its end is asked for. */
export async function work(vm, command) {
  const dir = `/var/tmp/work-${randomUUID()}`;
  await vm.fs.writeTextFile(`${dir}/run`, `cd /root; export HOME=/root CI=1\n( set -e\n${command}\n)\necho $? >${dir}/new; mv ${dir}/new ${dir}/status\n`);
  await sh(vm, `setsid sh ${dir}/run </dev/null >${dir}/log 2>&1 &`);
  const status = await until(`'${command}' is done`, async () => (await vm.exec(`cat ${dir}/status 2>/dev/null || true`)).stdout.trim());
  if (status !== "0") throw new Error(`'${command}' ended with ${status}:\n${await sh(vm, `tail -n 20 ${dir}/log`)}`);
}

/** What check() says, as soon as it is something. */
export async function until(what, check, { seconds = 3600, every = 2 } = {}) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const found = await check();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${seconds} seconds: ${what}`);
    await sleep(every * 1000);
  }
}

/** A program that systemd looks after. secrets go into a file that only root can read, and not into the unit. */
export async function service(vm, name, { command, cwd = "/root", secrets = {} }) {
  const file = `/etc/${name}.env`;
  await sh(vm, `install -m 600 /dev/null ${file}`);
  await vm.fs.writeTextFile(file, Object.entries(secrets).map(([k, v]) => `${k}=${v}\n`).join(""));
  await vm.fs.writeTextFile(
    `/etc/systemd/system/${name}.service`,
    `[Unit]\nAfter=network.target\n\n[Service]\nEnvironment=HOME=/root\nEnvironmentFile=${file}\nWorkingDirectory=${cwd}\nExecStart=${command}\nRestart=always\n\n[Install]\nWantedBy=multi-user.target\n`,
  );
  await sh(vm, `systemctl daemon-reload && systemctl enable --now ${quote(name)}`);
}

/** Waits until a port answers a request so. */
export async function answers(vm, port, { path = "/", status = 200, header = "X-Guide: 1" } = {}) {
  const ask = `curl -s -m 200 -o /dev/null -w '%{http_code}' -H ${quote(header)} http://localhost:${port}${path} || true`;
  await until(`port ${port} answers ${status}`, async () => (await vm.exec({ command: ask, timeoutMs: 280_000 })).stdout.trim() === String(status));
}

/** Waits until something listens on a port. */
export async function listens(vm, port) {
  await until(`port ${port} is open`, async () => (await vm.exec(`bash -c ': <>/dev/tcp/127.0.0.1/${port}' 2>/dev/null`)).statusCode === 0);
}

/** What is installed and runs there, as a snapshot; the builder goes. */
export async function keep(vm) {
  const { snapshotId } = await vm.snapshot();
  await vm.delete();
  return snapshotId;
}

/** A VM in which all of it runs already. */
export async function create(snapshotId, name, options = {}) {
  return await freestyle.vms.create({ name, snapshotId, idleTimeoutSeconds: null, ...options });
}

/** A port of a VM gets a name. */
export async function open(vmId, port, domain) {
  await freestyle.domains.mappings.create({ domain, vmId, vmPort: port });
  return domain;
}

/** A program's results, a line each. */
export function tell(results) {
  for (const [name, value] of Object.entries(results)) console.log(`${name}: ${value}`);
}
