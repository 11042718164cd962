// SPDX-License-Identifier: Apache-2.0
// redis.mjs - a Redis that runs in every VM of a snapshot
import { builder, create, keep, sh, tell, until, work } from "./serving.mjs";

const vm = await builder("redis");
await work(vm, "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server");
await sh(vm, "systemctl enable --now redis-server");
await until("Redis answers", async () => (await vm.exec("redis-cli PING")).stdout.includes("PONG"));

const snapshotId = await keep(vm);
const { vm: server, vmId } = await create(snapshotId, "redis-server");
const redis = (command) => sh(server, `redis-cli ${command}`);
tell({
  PING: await redis("PING"),
  SET: await redis("SET greeting hello"),
  GET: await redis("GET greeting"),
  INCR: await redis("INCR counter"),
  snapshotId,
  vmId,
});
