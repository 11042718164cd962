// SPDX-License-Identifier: Apache-2.0
// net.test.mjs - networks, egress, builds and the tree by the official client, on real VMs
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { after, before, test } from "node:test";
import { call, overHttp, refused } from "./client.mjs";

let client;
const vms = [];

before(async () => { ({ client } = await overHttp()); });
after(async () => {
  for (const id of vms) await call(client, "vm_delete", { vmId: id }).catch(() => {});
  await client.close();
});

async function create(args) {
  const id = (await call(client, "vm_create", args)).structuredContent.id;
  vms.push(id);
  return id;
}

test("what a VM may reach is shown, changed and counted", async () => {
  const vm = await create({ name: "mcp-net", egress: { mode: "closed" } });
  assert.equal((await call(client, "egress_get", { vmId: vm })).structuredContent.mode, "closed");
  await call(client, "exec", { vmId: vm, command: "getent hosts blocked.example.org || true" });
  const { blocked } = (await call(client, "egress_blocked", { vmId: vm })).structuredContent;
  assert.ok(blocked.some((b) => b.domain === "blocked.example.org"), JSON.stringify(blocked));
  await call(client, "egress_set", { vmId: vm, mode: "rules", rules: [{ action: "allow", domain: "example.org", ports: [443] }],
    inject: [{ domain: "example.org", headers: { "X-Key": "hunter2" } }] });
  const policy = (await call(client, "egress_get", { vmId: vm })).structuredContent;
  assert.equal(policy.rules[0].domain, "example.org");
  assert.equal(policy.inject[0].headers["X-Key"], "********");
  await refused(client, "egress_set", { vmId: vm, mode: "ajar" }, /mode/);
});

test("VMs of a private network meet, and a tunnel leads in", async () => {
  const { vpcId } = (await call(client, "vpc_create", { name: "mcp", cidr: "192.168.20.0/24" })).structuredContent;
  const one = await create({ name: "mcp-one", nics: [{ vpc: vpcId, ipv4: "192.168.20.10" }] });
  assert.deepEqual((await call(client, "vpc_get", { vpcId })).structuredContent.vms, [{ vmId: one, ipv4: "192.168.20.10" }]);
  assert.ok((await call(client, "vpc_list")).structuredContent.vpcs.some((v) => v.vpcId === vpcId));
  const t = (await call(client, "wireguard_open", { vpcId })).structuredContent;
  assert.match(t.clientConfig, /\[Interface\]/);
  const key = execFileSync("sh", ["-c", "wg genkey | wg pubkey"]).toString().trim();
  await call(client, "wireguard_peer", { vpcId, gatewayVmId: one, clientPublicKey: key });
  assert.equal((await call(client, "wireguard_list", { vpcId })).structuredContent.sessions.length, 2);
  await call(client, "wireguard_close", { vpcId, sessionId: t.sessionId });
  assert.equal((await call(client, "wireguard_list", { vpcId })).structuredContent.sessions.length, 1);
  await refused(client, "vpc_delete", { vpcId }, /VPC/);
  await call(client, "vm_delete", { vmId: vms.pop() });
  await call(client, "vpc_delete", { vpcId });
});

test("a spec becomes a snapshot, and a VM of it is compared, rewound and drawn", async () => {
  let r = (await call(client, "snapshot_build", { spec: { additionalFiles: { "/etc/made": { content: "by a spec" } } }, name: "mcp-built" }))
    .structuredContent;
  while (r.requestId && !r.snapshotId) r = (await call(client, "build_result", { requestId: r.requestId })).structuredContent;
  assert.match(r.snapshotId, /^sc-/);
  assert.ok((await call(client, "build_list", { state: "succeeded" })).structuredContent.builds.length >= 1);
  const vm = await create({ snapshotId: r.snapshotId });
  const before = (await call(client, "vm_snapshot", { vmId: vm, name: "before" })).structuredContent.snapshotId;
  await call(client, "exec", { vmId: vm, command: "cat /etc/made && echo changed >/etc/made && sync" });
  const { changes } = (await call(client, "vm_diff", { vmId: vm, with: before, path: "/etc" })).structuredContent;
  assert.ok(changes.some((c) => c.path === "/etc/made"), JSON.stringify(changes));
  await call(client, "vm_rewind", { vmId: vm, snapshotId: before });
  assert.equal((await call(client, "exec", { vmId: vm, command: "cat /etc/made" })).structuredContent.stdout, "by a spec");
  const tree = (await call(client, "vm_tree", { vmId: vm })).structuredContent;
  assert.ok(tree.nodes.some((n) => n.snapshots?.some((s) => s.snapshotId === before)), JSON.stringify(tree).slice(0, 500));
});

// Making one takes minutes on an emulated processor: tests/e2e/test_deploy.py does.
test("deployments are listed, and what is wrong with one is told", async () => {
  assert.deepEqual((await call(client, "deployment_list")).structuredContent.entries, []);
  assert.deepEqual((await call(client, "deployment_logs", { deploymentId: "dpl-none" })).structuredContent.logs, []);
  await refused(client, "deployment_create", { source: { kind: "zip" } }, /source.kind/);
  await refused(client, "deployment_get", { deploymentId: "dpl-none" }, /no deployment/);
  await refused(client, "deployment_delete", { deploymentId: "dpl-none" }, /no deployment/);
});

test("schedules: made, shown, paused, deleted", async () => {
  const said = async (name, args) => (await call(client, name, args)).structuredContent;
  const { schedule } = await said("schedule_create", { cron: "@yearly", name: "mcp", run: { code: "export default () => 1", envVars: { A: "secret" } } });
  assert.equal(schedule.active, true);
  assert.deepEqual((await said("schedule_list", {})).schedules.filter((s) => s.id === schedule.id).map((s) => [s.name, s.cron]), [["mcp", "@yearly"]]);
  await said("schedule_change", { schedule: schedule.id, active: false });
  const { schedule: now } = await said("schedule_get", { schedule: schedule.id });
  assert.deepEqual([now.active, now.nextRunAt, now.runConfig.envVars.A], [false, null, "********"]);
  assert.deepEqual((await said("schedule_executions", { schedule: schedule.id, limit: 5 })).executions, []);
  await said("schedule_delete", { schedule: schedule.id });
  await refused(client, "schedule_get", { schedule: schedule.id }, /no schedule/);
  await refused(client, "schedule_create", { cron: "@yearly" }, /needed/);
});
