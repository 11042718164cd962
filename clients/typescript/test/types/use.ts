// SPDX-License-Identifier: Apache-2.0
// use.ts - a program in TypeScript as a user writes one: only checked, by tsc against what the package declares
import { ApiError, Pando, type Sandbox } from "pando";
import { Self } from "pando/self";

const pando = new Pando({ url: "http://127.0.0.1:8787", key: "k", timeoutMs: 1000, onWarning: (w: string) => console.warn(w) });
const vm: Sandbox = await pando.create({ name: "web", idleTimeoutSeconds: null, selfAccess: true });

for await (const e of vm.execStream(["make", "test"], { cwd: "/src", signal: AbortSignal.timeout(1000) })) {
  if (e.type === "stdout") e.text.trim();
  if (e.type === "exit") e.exitCode.toFixed();
}
const state: "running" | "suspended" | (string & {}) = await vm.state();
const children: Sandbox[] = await vm.fork(3);
for await (const c of vm.diff(children[0]!, { path: "/src" })) c.change.toUpperCase();
const cell = (await vm.code.run("x + 1", { language: "python" })).check();
const png: Uint8Array | undefined = cell.png;
await vm.egress.set({ mode: "rules", rules: [{ action: "allow", domain: "example.com", ports: [443] }] });
try {
  await pando.calls.vmGet({ vmId: "x" });
} catch (e) {
  if (e instanceof ApiError && e.code === "VM_NOT_FOUND") console.log(e.status.toFixed(), e.requestId);
}

// @ts-expect-error: there is no such mode
await vm.egress.set({ mode: "ajar" });
// @ts-expect-error: vmGet needs vmId
await pando.calls.vmGet({});
// @ts-expect-error: no such call
await pando.calls.vmFlyAway({ vmId: "x" });

const side = await new Self().fork(2);
if (side.role === "child") side.index.toFixed();
else for (const c of side.children) await c.exec("true");
console.log(state, png);
