// SPDX-License-Identifier: Apache-2.0
// mongodb.mjs - a MongoDB that runs in every VM of a snapshot
//
// Neither Debian nor npm has the server. MONGODB_REPOSITORY is an apt repository that has it, as sources.list names it ("<address> <suite> <components>"), and
// MONGODB_KEY the address of the key that it is signed with; the VM downloads both. docs/guides/mongodb.md has those of the vendor.
import { builder, create, keep, need, sh, tell, until, work } from "./serving.mjs";

const repository = need("MONGODB_REPOSITORY", "the apt repository that has mongodb-org, like '<address> <suite> <component>'");
const key = need("MONGODB_KEY", "the address of the key that this repository is signed with");
const quote = (word) => `'${word.replaceAll("'", `'\\''`)}'`;
const mongosh = "/usr/bin/mongosh --quiet --host 127.0.0.1 --port 27017 --eval";

const vm = await builder("mongodb");
await work(vm, `export DEBIAN_FRONTEND=noninteractive
apt-get update -qq && apt-get install -y -qq --no-install-recommends gpg curl ca-certificates
curl -fsS ${quote(key)} -o /root/mongodb.asc
gpg --batch --yes --dearmor -o /usr/share/keyrings/mongodb.gpg /root/mongodb.asc
echo deb '[signed-by=/usr/share/keyrings/mongodb.gpg]' ${quote(repository)} >/etc/apt/sources.list.d/mongodb.list
apt-get update -qq && apt-get install -y -qq mongodb-org`);
await sh(vm, "systemctl enable --now mongod");
await until("MongoDB answers", async () => (await vm.exec(`${mongosh} 'db.runCommand({ ping: 1 }).ok'`)).stdout.trim() === "1");

const snapshotId = await keep(vm);
const { vm: server, vmId } = await create(snapshotId, "mongodb-server");
tell({
  inserted: await sh(server, `${mongosh} 'db.users.insertOne({ name: "Ada", role: "admin" }).acknowledged'`),
  found: await sh(server, `${mongosh} 'db.users.findOne({ name: "Ada" }).role'`),
  snapshotId,
  vmId,
});
