/* SPDX-License-Identifier: Apache-2.0 */
/* tools_net.c - the tools for networks: what a VM may reach, private networks, tunnels into them */
#include "mcp/mcp_internal.h"
#include "mcp/schema.h"

#include "base/auto.h"

/* clang-format off */
#define VPC_ID STRING("vpcId", "Id of the private network")
#define POLICY_TEXT "A closed VM reaches nothing; with rules the first one that fits decides, and what none allows is denied."

const struct mcp_tool mcp_net_tools[] = {
	{ "egress_get", "Show what a VM may reach", "Shows the egress policy of a VM. Values of injected headers are masked.",
	  METHOD_GET, "/v1/vms/{vm_id}/egress", MCP_READS, OBJECT("\"vmId\"", VM_ID), NULL },
	{ "egress_set", "Change what a VM may reach",
	  "Replaces the egress policy of a VM, at once and for open connections too. " POLICY_TEXT,
	  METHOD_PUT, "/v1/vms/{vm_id}/egress", MCP_DESTROYS | MCP_IDEMPOTENT,
	  OBJECT("\"vmId\",\"mode\"",
		VM_ID "," ENUM("mode", "\"open\",\"closed\",\"rules\"", "open: the internet; closed: nothing; rules: what they allow") ","
		LIST_OF("rules", "[{action: allow or deny, domain: *.example.org or cidr: 203.0.113.0/24, ports: [443]}]", "object") ","
		LIST_OF("inject", "[{domain, headers: {name: value}}]: headers added on the way out; the VM never sees them. A value of "
			"******** keeps what was there", "object") ","
		OBJECT_OF("bandwidth", "{upMbps, downMbps}")),
	  NULL },
	{ "egress_blocked", "List blocked destinations", "Lists what a VM tried to reach and was not allowed to, newest first.",
	  METHOD_GET, "/v1/vms/{vm_id}/egress/blocked", MCP_READS, OBJECT("\"vmId\"", VM_ID), NULL },
	{ "vpc_create", "Create a private network",
	  "Creates a network between VMs. A VM joins when it is created, by vm_create's nics; inside, <vm name>.internal resolves.",
	  METHOD_POST, "/v1/vpcs", 0,
	  OBJECT("", STRING("name", "A label") "," STRING("cidr", "Its private addresses, /8 to /29; default 10.0.0.0/16")),
	  NULL, .keep = "vpcId name cidr" },
	{ "vpc_list", "List private networks", "Lists the private networks of this account.",
	  METHOD_GET, "/v1/vpcs", MCP_READS, OBJECT("", ""), NULL, .list = "vpcs", .keep = "vpcId name cidr" },
	{ "vpc_get", "Show a private network", "Shows a private network with its VMs and their addresses.",
	  METHOD_GET, "/v1/vpcs/{vpc_id}", MCP_READS, OBJECT("\"vpcId\"", VPC_ID), NULL },
	{ "vpc_delete", "Delete a private network", "Deletes a private network that has no VMs.",
	  METHOD_DELETE, "/v1/vpcs/{vpc_id}", MCP_DESTROYS | MCP_IDEMPOTENT, OBJECT("\"vpcId\"", VPC_ID), NULL },
	{ "wireguard_list", "List tunnels", "Lists the open WireGuard tunnels into a private network.",
	  METHOD_GET, "/v1/vpcs/{vpc_id}/wireguard", MCP_READS, OBJECT("\"vpcId\"", VPC_ID), NULL },
	{ "wireguard_open", "Open a tunnel",
	  "Opens a temporary WireGuard tunnel into a private network and returns clientConfig, a file for wg-quick with a private key in it.",
	  METHOD_POST, "/v1/vpcs/{vpc_id}/wireguard/ephemeral", MCP_OPEN_WORLD, OBJECT("\"vpcId\"", VPC_ID), NULL,
	  .keep = "sessionId clientConfig clientTunnelIp vpcCidr expiresAt" },
	{ "wireguard_peer", "Open a permanent tunnel",
	  "Opens a WireGuard tunnel for a public key that the client has already; it is removed with the VM it names.",
	  METHOD_POST, "/v1/vpcs/{vpc_id}/wireguard/peers", MCP_OPEN_WORLD,
	  OBJECT("\"vpcId\",\"gatewayVmId\",\"clientPublicKey\"",
		VPC_ID "," STRING("gatewayVmId", "A VM of the network") "," STRING("clientPublicKey", "In base64, as wg pubkey prints it")),
	  NULL, .keep = "clientConfig clientTunnelIp vpcCidr" },
	{ "wireguard_close", "Close a tunnel", "Closes a temporary tunnel at once.",
	  METHOD_DELETE, "/v1/vpcs/{vpc_id}/wireguard/ephemeral", MCP_DESTROYS | MCP_IDEMPOTENT,
	  OBJECT("\"vpcId\",\"sessionId\"", VPC_ID "," STRING("sessionId", "Of wireguard_open or wireguard_list")), NULL },
};
/* clang-format on */
const size_t mcp_n_net_tools = ARRAY_SIZE(mcp_net_tools);
