// SPDX-License-Identifier: Apache-2.0
// jupyter.mjs - a JupyterLab that runs in every VM of a snapshot, behind a name
//
// TOKEN: what a visitor has to show; without it everybody who knows the name can run code in the VM.
import { answers, builder, create, domainFor, keep, open, service, tell, work } from "./serving.mjs";

const token = process.env.TOKEN ?? "";
const vm = await builder("jupyter");
await work(vm, "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends jupyterlab python3-ipykernel");
await service(vm, "jupyter", {
  command: "/usr/bin/jupyter-lab --ip=0.0.0.0 --port=8888 --no-browser --allow-root --ServerApp.allow_remote_access=True --ServerApp.allow_origin=*" +
    (token ? "" : " --IdentityProvider.token= --ServerApp.disable_check_xsrf=True"),
  secrets: { JUPYTER_TOKEN: token },
});
await answers(vm, 8888, { path: "/api" });

const snapshotId = await keep(vm);
const { vmId } = await create(snapshotId, "jupyter-server");
tell({ snapshotId, vmId, url: `https://${await open(vmId, 8888, domainFor("jupyter"))}/lab${token && `?token=${token}`}` });
