// SPDX-License-Identifier: Apache-2.0
// postgres.mjs - a PostgreSQL that runs in every VM of a snapshot
import { builder, create, keep, sh, tell, until, work } from "./serving.mjs";

const vm = await builder("postgres");
await work(vm, "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql");
await sh(vm, "systemctl enable --now postgresql");
await until("Postgres answers", async () => (await vm.exec("su postgres -c pg_isready || true")).stdout.includes("accepting connections"));

const snapshotId = await keep(vm);
const { vm: server, vmId } = await create(snapshotId, "postgres-server");
/** Statements come from a file, so that nothing has to be quoted. */
const sql = async (statements) => {
  await server.fs.writeTextFile("/tmp/query.sql", statements);
  return sh(server, "cd /; su postgres -c 'psql -AtqX -v ON_ERROR_STOP=1 -f /tmp/query.sql'");
};
await sql("CREATE TABLE fruits (id serial PRIMARY KEY, name text); INSERT INTO fruits (name) VALUES ('apple'), ('banana');");
console.log(await sql("SELECT id, name FROM fruits ORDER BY id;"));
tell({ snapshotId, vmId });
