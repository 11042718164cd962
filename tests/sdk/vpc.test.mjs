// SPDX-License-Identifier: Apache-2.0
// vpc.test.mjs - private networks and tunnels through the unmodified package
import assert from "node:assert/strict";
import { after, describe, it } from "node:test";
import { Errors } from "freestyle";
import { BOOT, SHORT, cleanUp, create, freestyle, raw, sh } from "./client.mjs";

describe("VPCs", () => {
  let vpcId, vpc, vm;

  after(async () => {
    await cleanUp();
    await raw("DELETE", `/v1/vpcs/${vpcId}`);
  }, { timeout: SHORT });

  it("are made, and VMs join them", { timeout: BOOT }, async () => {
    ({ vpcId, vpc } = await freestyle.vpc.create({ name: "sdk", cidr: "192.168.10.0/24" }));
    assert.ok(vpcId);
    vm = await create({ name: "member", nics: [{ default: true, vpc: vpcId, mode: "routed", ipv4: "192.168.10.10" }] });
    assert.match(await sh(vm, "ip -4 -o addr show"), /192\.168\.10\.10\/32/);
    await assert.rejects(vm.fork({ count: 1 }), Errors.VpcForkUnsupportedError);
    await assert.rejects(freestyle.vpc.create({ cidr: "8.8.8.0/24" }), /400/);
  });

  it("have tunnels", { timeout: SHORT }, async () => {
    const connection = await vpc.wireguard.createEphemeral();
    for (const line of [/^\[Interface\]$/m, /^Address = 100\.96\.\d+\.\d+\/32$/m, /^PrivateKey = .{43}=$/m, /^\[Peer\]$/m,
      /^AllowedIPs = 192\.168\.10\.0\/24$/m, /^Endpoint = .+:\d+$/m, /^PersistentKeepalive = 25$/m])
      assert.match(connection.clientConfig, line);
    assert.equal(connection.vpcCidr, "192.168.10.0/24");
    await connection.close();
    const peer = await freestyle.vpc.configureWireGuardPeer(vpcId, { gatewayVmId: vm.vmId ?? vm.id,
      clientPublicKey: "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=" });
    assert.equal(peer.vpcId, vpcId);
    assert.match(peer.clientConfig, /REPLACE_WITH_YOUR_PRIVATE_KEY/);
  });
});
