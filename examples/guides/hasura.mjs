// SPDX-License-Identifier: Apache-2.0
// hasura.mjs - Hasura's GraphQL engine and its Postgres in containers of a VM, behind a name, and as a snapshot in which they run
//
// Downloads: the images postgres:15 and hasura/graphql-engine (HASURA_IMAGE).
import { randomBytes } from "node:crypto";
import { machine, up } from "./containers.mjs";
import { answers, domainFor, open, sh, tell } from "./serving.mjs";

const { HASURA_IMAGE: image = "hasura/graphql-engine:v2.46.0" } = process.env;
const [password, secret] = [randomBytes(16).toString("hex"), randomBytes(16).toString("hex")];
const url = `postgres://postgres:${password}@postgres:5432/postgres`;

const { vm, vmId } = await machine("hasura-server");
await vm.fs.writeTextFile("/root/hasura/compose.yaml", `services:
  postgres:
    image: postgres:15
    restart: always
    environment:
      POSTGRES_PASSWORD: ${password}
    volumes:
      - data:/var/lib/postgresql/data
  engine:
    image: ${image}
    restart: always
    depends_on: [postgres]
    ports: ["8080:8080"]
    environment:
      HASURA_GRAPHQL_METADATA_DATABASE_URL: ${url}
      PG_DATABASE_URL: ${url}
      HASURA_GRAPHQL_ENABLE_CONSOLE: "true"
      HASURA_GRAPHQL_ADMIN_SECRET: ${secret}
      HASURA_GRAPHQL_CORS_DOMAIN: "*"
volumes:
  data:
`);
await up(vm, "/root/hasura");
await answers(vm, 8080, { path: "/healthz" });
const version = await sh(vm, "curl -s localhost:8080/v1/version");
const { snapshotId } = await vm.snapshot(); // any VM of it has both running
const domain = await open(vmId, 8080, domainFor("hasura"));
tell({ version, snapshotId, vmId, console: `https://${domain}/console`, "admin secret": secret });
