// SPDX-License-Identifier: Apache-2.0
// client.mjs - the SDK as a user would make it, and a list of what must be deleted afterwards
//
// FREESTYLE_API_URL and FREESTYLE_API_KEY name a pandod that runs and is ready. Guests may be
// emulated: a cold boot takes half a minute, so limits are generous and VMs few.
import { Freestyle } from "freestyle";

export const url = process.env.FREESTYLE_API_URL;
export const key = process.env.FREESTYLE_API_KEY;
if (!url || !key)
  throw new Error("set FREESTYLE_API_URL and FREESTYLE_API_KEY to those of a running pandod");

export const SECOND = 1000;
export const SHORT = 120 * SECOND; // a call that thaws a VM at most
export const BOOT = 400 * SECOND; // a call that cold boots one

export const freestyle = new Freestyle();

const made = new Set();
const snapshots = new Set();

/** Remembers a VM so that it is deleted at the end, whatever happens. */
export function keep(vmId) {
  made.add(vmId);
  return vmId;
}

export function keepSnapshot(snapshotId) {
  snapshots.add(snapshotId);
  return snapshotId;
}

/** A VM that does not suspend by itself: the tests decide when it sleeps. */
export async function create(options = {}) {
  const r = await freestyle.vms.create({ idleTimeoutSeconds: null, ...options });
  keep(r.vmId ?? r.vm.vmId);
  return r.vm;
}

export async function remove(vm) {
  const r = await vm.delete();
  made.delete(vm.vmId);
  return r;
}

export async function cleanUp() {
  const failed = [];
  for (const vmId of made) {
    const r = await raw("DELETE", `/v1/vms/${vmId}`);
    if (r.status !== 200 && r.status !== 404) failed.push(`VM ${vmId}: ${r.status} ${r.text}`);
  }
  for (const id of snapshots) {
    const r = await raw("DELETE", `/v1/vms/snapshots/${id}`);
    if (![200, 404, 409].includes(r.status)) failed.push(`snapshot ${id}: ${r.status} ${r.text}`);
  }
  made.clear();
  snapshots.clear();
  if (failed.length) throw new Error("could not delete " + failed.join("; "));
}

/** One request without the SDK: {status, headers, text, json}. */
export async function raw(method, path, { body, headers = {}, auth = `Bearer ${key}` } = {}) {
  const r = await fetch(url + path, {
    method,
    headers: { ...(auth ? { Authorization: auth } : {}), ...headers },
    body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
  });
  const text = await r.text();
  let json;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: r.status, headers: r.headers, text, json };
}

/** stdout of a command that must succeed. */
export async function sh(vm, command, timeoutMs = 60 * SECOND) {
  const r = await vm.exec({ command, timeoutMs });
  if (r.statusCode !== 0)
    throw new Error(`'${command}' ended with ${r.statusCode}: ${r.stdout}${r.stderr}`);
  return r.stdout.trim();
}
