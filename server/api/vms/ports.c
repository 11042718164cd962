/* SPDX-License-Identifier: Apache-2.0 */
/* ports.c - ports of this server that lead to ports of a VM, and where its own name leads */
#include "ports/ports.h"
#include "api/vms/ports.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "domains/domains.h"

struct port_body {
	int64_t port, target;
	char protocol[8];
};
static const struct json_field port_fields[] = {
	JSON_FIELD(JSON_WANT_I64, port_body, port, "port", JSON_NULLABLE, 1, UINT16_MAX, NULL,
	           "443: the VM's own name; left out: a free port of this server"),
	JSON_FIELD(JSON_WANT_I64, port_body, target, "targetPort", JSON_REQUIRED, 1, UINT16_MAX),
	JSON_FIELD_STR(port_body, protocol, "protocol", JSON_NULLABLE, "'tcp' | 'udp'"),
};
JSON_TABLE(PortMap, port_fields);

static int need(struct request *req, struct ports **ret, struct err *err)
{
	*ret = deps_of(req)->ports;
	return *ret ? 0
	            : err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
	                      "ports cannot be mapped on this server");
}

static int wish_of(struct ports *p, const struct port_body *b, struct port_wish *ret,
                   struct err *err)
{
	*ret = (struct port_wish){ .port = (uint32_t)b->port, .target = (uint32_t)b->target };
	snprintf(ret->protocol, sizeof(ret->protocol), "%s", *b->protocol ? b->protocol : "tcp");
	if (strcmp(ret->protocol, b->protocol) != 0 && *b->protocol)
		ret->protocol[0] = '?'; /* cut off: none that there is */
	return ports_check(p, ret->protocol, ret->port, ret->target, err);
}

static int read_wish(struct ports *p, const json_t *j, size_t i, struct port_wish *ret,
                     struct err *err)
{
	struct port_body b = { 0 };
	char where[24];
	int r;

	snprintf(where, sizeof(where), "ports[%zu].", i);
	r = json_fields_read(j, where, port_fields, ARRAY_SIZE(port_fields), &b, err);
	return r < 0 ? r : wish_of(p, &b, ret, err);
}

int port_wishes(struct request *req, const json_t *list, enum err_code tag, struct port_wish *ret,
                size_t *ret_n, struct err *err)
{
	struct ports *p;
	bool name = false;
	int r;

	*ret_n = 0;
	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list) || json_array_size(list) > PORT_WISHES_MAX)
		return err_tag(err, -EINVAL, tag, "'ports' must be a list of up to %d ports",
		               PORT_WISHES_MAX);
	if ((r = need(req, &p, err)) < 0)
		return r;
	for (size_t i = 0; i < json_array_size(list); i++) {
		if ((r = read_wish(p, json_array_get(list, i), i, &ret[i], err)) < 0) {
			if (r == -EINVAL && err)
				err->tag = tag;
			return r;
		}
		name |= ret[i].port == PORTS_OWN_NAME;
		*ret_n = i + 1;
	}
	if (!name) /* the list is all there is */
		ret[(*ret_n)++] = (struct port_wish){ .port = PORTS_OWN_NAME, .protocol = "tcp" };
	return 0;
}

int ports_of_new(struct request *req, const char *vm, const struct port_wish *w, size_t n,
                 struct err *err)
{
	struct ports *p = deps_of(req)->ports;
	const char *account = who_of(req)->account;
	struct port_info info;
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = ports_set(p, account, vm, w[i].protocol, w[i].port, w[i].target, &info, err);
	if (r < 0)
		vmm_delete(deps_of(req)->vmm, account, vm, NULL, NULL);
	return r;
}

static json_t *shape_port(struct request *req, const struct port_info *i)
{
	bool name = i->row.port == PORTS_OWN_NAME;
	const char *at = deps_of(req)->public_ipv4;

	if (name)
		return json_pack("{s:i, s:o, s:s, s:o}", "port", (int)i->row.port, "targetPort",
		                 i->row.target ? json_integer(i->row.target) : json_null(),
		                 "protocol", i->row.protocol, "createdAt",
		                 shape_time(i->row.created_ms));
	return json_pack("{s:i, s:i, s:s, s:o, s:b, s:o, s:o}", "port", (int)i->row.port,
	                 "targetPort", (int)i->row.target, "protocol", i->row.protocol, "address",
	                 at && *at ? json_string(at) : json_null(), "listening", i->listening,
	                 "error", shape_text(i->error), "createdAt", shape_time(i->row.created_ms));
}

json_t *shape_ports(struct request *req, const char *vm)
{
	autofree struct port_info *v = NULL;
	json_t *list = json_array();
	size_t n = 0;
	bool name = false;

	if (deps_of(req)->ports && ports_list(deps_of(req)->ports, vm, &v, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++)
		name |= v[i].row.port == PORTS_OWN_NAME;
	if (!name)
		json_array_append_new(list,
		                      json_pack("{s:i, s:i, s:s, s:n}", "port", (int)PORTS_OWN_NAME,
		                                "targetPort", DOMAINS_VM_PORT, "protocol", "tcp",
		                                "createdAt"));
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, shape_port(req, &v[i]));
	return list;
}

int api_vm_ports(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	struct ports *p;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 || (r = need(req, &p, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:o, s:o}", "ports", shape_ports(req, id), "range",
	                            shape_text(ports_range(p))),
	                  err);
}

int api_vm_port_set(struct request *req, struct reply *res, struct err *err)
{
	struct port_body b = { 0 };
	struct port_info info;
	struct port_wish w;
	struct ports *p;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 || (r = need(req, &p, err)) < 0 ||
	    (r = request_fields(req, ERR_INVALID_PARAMETERS, port_fields, ARRAY_SIZE(port_fields),
	                        &b, err)) < 0 ||
	    (r = wish_of(p, &b, &w, err)) < 0 ||
	    (r = ports_set(p, who_of(req)->account, id, w.protocol, w.port, w.target, &info, err)) <
	            0)
		return r;
	return reply_json(res, shape_port(req, &info), err);
}

int api_vm_port_delete(struct request *req, struct reply *res, struct err *err)
{
	const char *id, *text = request_arg(req, "{port}");
	autofree char *protocol = NULL;
	char *end = NULL;
	unsigned long port = strtoul(text, &end, 10);
	struct ports *p;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 || (r = need(req, &p, err)) < 0 ||
	    (r = request_query(req, "protocol", &protocol, err)) < 0)
		return r;
	if (protocol && strcmp(protocol, "tcp") != 0 && strcmp(protocol, "udp") != 0)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'protocol' must be tcp or udp");
	if (!*text || *end || port < 1 || port > UINT16_MAX)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "a port is a number from 1 to 65535");
	r = ports_delete(p, who_of(req)->account, id, protocol ? protocol : "tcp", (uint32_t)port,
	                 err);
	return r < 0 ? r
	             : reply_json(res, json_pack("{s:s, s:i}", "vmId", id, "port", (int)port), err);
}
