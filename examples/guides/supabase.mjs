// SPDX-License-Identifier: Apache-2.0
// supabase.mjs - Supabase's stack in containers of a VM, all of it behind one name
//
// Downloads: the vendor's Git repository (SUPABASE_REPO), of which the folder docker is used, and the images its compose file names, about 4 GB.
import { machine, up } from "./containers.mjs";
import { answers, domainFor, open, sh, tell, work } from "./serving.mjs";

const { SUPABASE_REPO: repo = "https://github.com/supabase/supabase" } = process.env;
const dir = "/root/supabase";
const domain = domainFor("supabase");

const { vm, vmId } = await machine("supabase-server", { cpu: 4, memory: 16, storage: 60 });
await work(vm, `git clone -q --depth 1 '${repo}' /root/supabase-src
mkdir -p ${dir} && cp -rf /root/supabase-src/docker/. ${dir}/ && cp ${dir}/.env.example ${dir}/.env
cd ${dir} && sh utils/generate-keys.sh --update-env && sh utils/add-new-auth-keys.sh --update-env`);
const get = (key) => sh(vm, `sed -n 's/^${key}=//p' ${dir}/.env | tail -n 1`);
for (const key of ["SUPABASE_PUBLIC_URL", "API_EXTERNAL_URL", "SITE_URL"]) await sh(vm, `sed -i 's|^${key}=.*|${key}=https://${domain}|' ${dir}/.env`);
await sh(vm, `sed -i 's|^DASHBOARD_USERNAME=.*|DASHBOARD_USERNAME=supabase|' ${dir}/.env`);
const anonKey = await get("ANON_KEY");

await up(vm, dir); // the first start also makes the database
await answers(vm, 8000, { path: "/auth/v1/health", header: `apikey: ${anonKey}` });
const { snapshotId } = await vm.snapshot(); // with the images, and all of it running
await open(vmId, 8000, domain);
tell({ snapshotId, vmId, url: `https://${domain}/`, "anon key": anonKey, user: "supabase", password: await get("DASHBOARD_PASSWORD") });
