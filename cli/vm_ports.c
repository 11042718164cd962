/* SPDX-License-Identifier: Apache-2.0 */
/* vm_ports.c - pando vm ports, port-map, port-unmap: ports of the server that lead to ports of a VM
 */
#include <stdlib.h>

#include "base/auto.h"
#include "cli/cli.h"
#include "cli/resolve.h"

static const struct cli_col port_cols[] = {
	{ "PORT", "port" },       { "TARGET", "targetPort" }, { "PROTOCOL", "protocol" },
	{ "ADDRESS", "address" }, { "ERROR", "error" },
};

static int list(struct cli *c, const struct cli_args *a)
{
	autofree char *vm = cli_vm_id(c, a->arg[0]);
	autofree char *path = vm ? cli_path(c, "/v1/vms/%s/ports", vm) : NULL;
	autojson json_t *reply = NULL;
	int r = path ? cli_call(c, "GET", path, NULL, &reply) : CLI_REFUSED;

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "ports"), port_cols,
		          ARRAY_SIZE(port_cols));
	return r;
}

static int number(const char *s, long *ret)
{
	char *end;

	*ret = strtol(s, &end, 10);
	return *end || *ret < 1 || *ret > 65535
	               ? cli_fail(CLI_USAGE, "'%s' is not a port: give a number from 1 to 65535", s)
	               : CLI_OK;
}

static int map(struct cli *c, const struct cli_args *a)
{
	autofree char *vm = NULL, *path = NULL;
	autojson json_t *reply = NULL;
	json_t *body;
	long target;
	int r = number(a->arg[1], &target);

	if (r != CLI_OK)
		return r;
	vm = cli_vm_id(c, a->arg[0]);
	if (!vm)
		return CLI_REFUSED;
	path = cli_path(c, "/v1/vms/%s/ports", vm);
	body = json_pack("{s:I}", "targetPort", (json_int_t)target);
	if (a->opt[1] || a->opt[2])
		json_object_set_new(body, "protocol", json_string(a->opt[1] ? "udp" : "tls"));
	if (a->opt[0])
		json_object_set_new(body, "port", json_integer(a->num[0]));
	r = cli_call(c, "POST", path, body, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "%lld", json_integer_value(json_object_get(reply, "port")));
	return r;
}

static int unmap(struct cli *c, const struct cli_args *a)
{
	autofree char *vm = cli_vm_id(c, a->arg[0]);
	autofree char *path = vm ? cli_path(c, "/v1/vms/%s/ports/%s", vm, a->arg[1]) : NULL;
	autojson json_t *reply = NULL;
	int r;

	if (!path)
		return CLI_REFUSED;
	cli_query(c, &path, "protocol", a->opt[0] ? "udp" : NULL);
	r = cli_call(c, "DELETE", path, NULL, &reply);
	if (r == CLI_OK)
		cli_say(c, reply, "unmapped");
	return r;
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "ports", "VM", "list the server's ports that lead to this VM", list },
	{ "port-map", "VM TARGET", "let a port of the server lead to port TARGET of the VM; prints it", map,
	  { { "port", "PORT", "this one; 443 is the VM's own name; default: a free one", 'p', CLI_NUMBER, .min = 1, .max = 65535 },
	    { "udp", NULL, "UDP instead of TCP" },
	    { "tls", NULL, "with -p 443: pass TLS on, the VM has its own certificate" } },
	  .examples = "pando vm port-map db 5432 # a database, from outside\n"
	              "pando vm port-map web 8080 -p 443 # its own name leads to port 8080\n"
	              "pando vm port-map web 8443 -p 443 --tls # the same, TLS as it is\n" },
	{ "port-unmap", "VM PORT", "unmap a port; 443: the VM's own name leads nowhere", unmap,
	  { { "udp", NULL, "the one for UDP" } } },
};
/* clang-format on */
const struct cli_noun cli_vm_ports = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
