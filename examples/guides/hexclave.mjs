// SPDX-License-Identifier: Apache-2.0
// hexclave.mjs - Hexclave (formerly Stack Auth) in containers of a VM: its API and its dashboard behind one name, told apart by path
//
// Downloads: the images postgres, clickhouse/clickhouse-server:25.10, stackauth/server (HEXCLAVE_IMAGE) and nginx:alpine.
import { randomBytes } from "node:crypto";
import { machine, up } from "./containers.mjs";
import { answers, domainFor, open, sh, tell } from "./serving.mjs";

const { HEXCLAVE_IMAGE: image = "stackauth/server:latest" } = process.env;
const dir = "/root/hexclave";
const domain = domainFor("hexclave"); // the dashboard is built with it when it starts
const secret = () => randomBytes(32).toString("hex");
const password = randomBytes(9).toString("base64url");
const [pg, ch] = [secret(), secret()];

const { vm, vmId } = await machine("hexclave-server", { cpu: 4, memory: 16, storage: 60 });
await vm.fs.writeTextFile(`${dir}/hexclave.env`, `NEXT_PUBLIC_STACK_API_URL=https://${domain}
NEXT_PUBLIC_STACK_DASHBOARD_URL=https://${domain}
STACK_DATABASE_CONNECTION_STRING=postgresql://postgres:${pg}@postgres:5432/stackframe
STACK_SERVER_SECRET=${randomBytes(32).toString("base64url")}
CRON_SECRET=${secret()}
STACK_CLICKHOUSE_URL=http://clickhouse:8123
STACK_CLICKHOUSE_DATABASE=analytics
STACK_CLICKHOUSE_ADMIN_USER=stackframe
STACK_CLICKHOUSE_ADMIN_PASSWORD=${ch}
STACK_CLICKHOUSE_EXTERNAL_PASSWORD=${secret()}
STACK_SEED_INTERNAL_PROJECT_PUBLISHABLE_CLIENT_KEY=${secret()}
STACK_SEED_INTERNAL_PROJECT_SECRET_SERVER_KEY=${secret()}
STACK_SEED_INTERNAL_PROJECT_SUPER_SECRET_ADMIN_KEY=${secret()}
STACK_SEED_INTERNAL_PROJECT_USER_EMAIL=admin@example.com
STACK_SEED_INTERNAL_PROJECT_USER_PASSWORD=${password}
STACK_SEED_INTERNAL_PROJECT_USER_INTERNAL_ACCESS=true
STACK_SEED_INTERNAL_PROJECT_SIGN_UP_ENABLED=false
STACK_EMAILABLE_API_KEY=disable_email_validation
STACK_RUN_MIGRATIONS=true
STACK_RUN_SEED_SCRIPT=true
`);
// restart: its server gives up when ClickHouse is not up yet, and is started again
await vm.fs.writeTextFile(`${dir}/compose.yaml`, `services:
  postgres:
    image: postgres:latest
    restart: always
    environment: { POSTGRES_USER: postgres, POSTGRES_PASSWORD: "${pg}", POSTGRES_DB: stackframe }
  clickhouse:
    image: clickhouse/clickhouse-server:25.10
    restart: always
    environment: { CLICKHOUSE_DB: analytics, CLICKHOUSE_USER: stackframe, CLICKHOUSE_PASSWORD: "${ch}", CLICKHOUSE_DEFAULT_ACCESS_MANAGEMENT: "1" }
    mem_limit: 4g
  hexclave:
    image: ${image}
    restart: always
    env_file: hexclave.env
    depends_on: [postgres, clickhouse]
  front:
    image: nginx:alpine
    restart: always
    ports: ["80:80"]
    depends_on: [hexclave]
    volumes: ["./nginx.conf:/etc/nginx/conf.d/default.conf:ro"]
`);
const to = (port) => `proxy_pass http://hexclave:${port}; proxy_set_header Host $host; proxy_set_header X-Forwarded-Proto https;`;
await vm.fs.writeTextFile(`${dir}/nginx.conf`, `server {
  listen 80;
  location /api/ { ${to(8102)} }
  location / { ${to(8101)} }
}
`);
await up(vm, dir);
await answers(vm, 80); // after migrations and the first project
const urls = await sh(vm, "curl -s localhost/api/v1/internal/backend-urls");
await open(vmId, 80, domain);
tell({ vmId, url: `https://${domain}/`, "backend urls": urls, user: "admin@example.com", password });
