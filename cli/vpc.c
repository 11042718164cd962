/* SPDX-License-Identifier: Apache-2.0 */
/* vpc.c - pando vpc: private networks, and WireGuard tunnels into them */
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/resolve.h"

static const struct cli_col list_cols[] = {
	{ "ID", "vpcId" },
	{ "NAME", "name" },
	{ "RANGE", "cidr" },
	{ "CREATED", "createdAt" },
};
static const struct cli_col get_cols[] = {
	{ "id", "vpcId" },
	{ "name", "name" },
	{ "range", "cidr" },
	{ "created", "createdAt" },
};
static const struct cli_col vm_cols[] = { { "VM", "vmId" }, { "ADDRESS", "ipv4" } };
static const struct cli_col tunnel_cols[] = {
	{ "SESSION", "sessionId" },         { "CLIENT", "clientTunnelIp" },
	{ "KEY", "clientPublicKey" },       { "OF VM", "gatewayVmId" },
	{ "HANDSHAKE", "lastHandshakeAt" }, { "FROM CLIENT", "rxBytes" },
	{ "TO CLIENT", "txBytes" },         { "ENDS", "expiresAt" },
};

/* A call on the VPC named by the first argument; tail is appended to its path. */
static int on_vpc(struct cli *c, const struct cli_args *a, const char *method, const char *tail,
                  json_t *body_consume, json_t **ret)
{
	autofree char *id = cli_vpc_id(c, a->arg[0]), *path = NULL;

	if (!id) {
		json_decref(body_consume);
		return CLI_REFUSED;
	}
	path = cli_path(c, "/v1/vpcs/%s", id);
	if (*tail) {
		autofree char *head = path;

		path = NULL;
		if (asprintf(&path, "%s%s", head, tail) < 0)
			cli_oom();
	}
	return cli_call(c, method, path, body_consume, ret);
}

static int create(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	json_t *body = json_object();
	int r;

	if (a->arg[0])
		json_object_set_new(body, "name", json_string(a->arg[0]));
	if (a->opt[0])
		json_object_set_new(body, "cidr", json_string(a->opt[0]));
	r = cli_call(c, "POST", "/v1/vpcs", body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%s", cli_str(reply, "vpcId"));
	return r;
}

static int list(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = cli_call(c, "GET", "/v1/vpcs", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "vpcs"), list_cols,
		          ARRAY_SIZE(list_cols));
	return r;
}

static int get(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	const json_t *vms;
	int r = on_vpc(c, a, "GET", "", NULL, &reply);

	if (r != CLI_OK)
		return r;
	cli_show(c, reply, get_cols, ARRAY_SIZE(get_cols));
	vms = json_object_get(reply, "vms");
	if (!cli_json(c) && json_array_size(vms))
		cli_table(c, reply, vms, vm_cols, ARRAY_SIZE(vm_cols));
	return CLI_OK;
}

static int delete_vpc(struct cli *c, const struct cli_args *a)
{
	return cli_for_each(c, a, cli_vpc_id, "DELETE", "/v1/vpcs/", "", "deleted");
}

static int tunnels(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = on_vpc(c, a, "GET", "/wireguard", NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "sessions"), tunnel_cols,
		          ARRAY_SIZE(tunnel_cols));
	return r;
}

/* The configuration alone on stdout, so that it can be written to a file. */
static int open_tunnel(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	autofree char *vm = NULL;
	json_t *body;
	int r;

	if (!a->opt[0] != !a->opt[1])
		return cli_fail(CLI_USAGE, "a permanent tunnel needs both --key and --vm");
	if (!a->opt[0]) {
		r = on_vpc(c, a, "POST", "/wireguard/ephemeral", NULL, &reply);
	} else {
		vm = cli_vm_id(c, a->opt[1]);
		if (!vm)
			return CLI_REFUSED;
		body = json_pack("{s:s, s:s}", "gatewayVmId", vm, "clientPublicKey", a->opt[0]);
		r = on_vpc(c, a, "POST", "/wireguard/peers", body, &reply);
	}
	if (r != CLI_OK)
		return r;
	if (cli_json(c)) {
		cli_dump(reply);
		return CLI_OK;
	}
	fputs(cli_str(reply, "clientConfig"), stdout);
	if (*cli_str(reply, "sessionId"))
		fprintf(stderr, "session %s, until %s\n", cli_str(reply, "sessionId"),
		        cli_str(reply, "expiresAt"));
	return CLI_OK;
}

static int close_tunnel(struct cli *c, const struct cli_args *a)
{
	autojson json_t *reply = NULL;
	int r = on_vpc(c, a, "DELETE", "/wireguard/ephemeral",
	               json_pack("{s:s}", "sessionId", a->arg[1]), &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "closed");
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "create", "[NAME]", "create a private network and print its id", create,
	  { { "range", "CIDR", "its addresses: private, /8 to /29; default: 10.0.0.0/16" } } },
	{ "list", "", "list the account's private networks", list },
	{ "get", "VPC", "show one with its VMs and their addresses", get },
	{ "delete", "VPC...", "delete it; it must have no VMs", delete_vpc },
	{ "tunnels", "VPC", "list its WireGuard tunnels", tunnels },
	{ "tunnel", "VPC", "open a WireGuard tunnel and print the client's configuration", open_tunnel,
	  { { "key", "KEY", "a permanent tunnel for this public key of yours" },
	    { "vm", "VM", "with --key: it is removed with this VM of the network" } },
	  .about = "Without options the tunnel is temporary: its key is made by the server, is in the "
	           "configuration and nowhere else, and the tunnel ends by itself. With --key, put your "
	           "private key into the configuration.",
	  .examples = "pando vpc tunnel lab >lab.conf && wg-quick up ./lab.conf # reach the VMs of 'lab'\n"
	              "pando vpc tunnel lab --vm db --key \"$(wg pubkey <private.key)\" # a permanent one\n" },
	{ "tunnel-close", "VPC SESSION", "close a temporary tunnel at once", close_tunnel },
};
/* clang-format on */
const struct cli_noun cli_vpc = {
	"vpc", "private networks between VMs, and tunnels into them", verbs, ARRAY_SIZE(verbs),
	"VPC is an id, a unique prefix of one, or a name. A VM joins with "
	"'pando vm create --vpc VPC'."
};
