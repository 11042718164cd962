// SPDX-License-Identifier: Apache-2.0
// containers.mjs - a snapshot in which Docker's engine runs, and what guides for stacks of containers have in common. As a program: makes the snapshot
//
// DOCKER_SNAPSHOT: one that is there already, perhaps with images in it. SIZE=default: VMs keep the server's default size.
import { freestyle } from "freestyle";
import { builder, create, keep, sh, tell, until, work } from "./serving.mjs";

/** A snapshot with the engine running. */
export async function dockerSnapshot() {
  if (process.env.DOCKER_SNAPSHOT) return process.env.DOCKER_SNAPSHOT;
  const vm = await builder("docker");
  await work(vm, "apt-get update -qq\nDEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io docker-cli docker-compose");
  await sh(vm, "systemctl enable --now docker");
  await ready(vm);
  return await keep(vm);
}

async function ready(vm) {
  await until("the engine answers", async () => (await vm.exec("docker info >/dev/null 2>&1")).statusCode === 0);
}

/** A VM with the engine, as large as a stack needs (cpu, memory and storage in GB). */
export async function machine(name, size) {
  const made = await create(await dockerSnapshot(), name);
  if (size && process.env.SIZE !== "default") await made.vm.resize(size); // with a boot
  await ready(made.vm);
  return made;
}

/** Starts a stack of Compose; images that are not there are fetched. */
export async function up(vm, dir, options = "") {
  await work(vm, `cd ${dir} && docker compose ${options} up -d`);
}

/** A token with which SSH leads to this VM and nothing else: for an admin's page, which is better not given a name. */
export async function sshToken(vmId) {
  const { identity } = await freestyle.identities.create();
  await identity.permissions.vms.grant({ vmId });
  return (await identity.tokens.create()).token;
}

if (import.meta.filename === process.argv[1]) tell({ snapshotId: await dockerSnapshot() });
