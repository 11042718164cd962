/* SPDX-License-Identifier: Apache-2.0 */
/* egress.c - what a VM may reach, and what was blocked */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/vms/shared.h"
#include "base/auto.h"
#include "base/clock.h"
#include "net/egress.h"
#include "net/egress_json.h"
#include "net/gate.h"
#include "vm/network.h"

/* egress_parse() reads them itself. */
static const struct json_field members[] = {
	JSON_NAME("mode", "'open' | 'closed' | 'rules'"),
	JSON_NAME("rules", "EgressRule[] | null"),
	JSON_NAME("inject", "{domain: string, headers: {*: string}}[] | null"),
	JSON_NAME("bandwidth", "{upMbps?: number | null, downMbps?: number | null} | null"),
};
JSON_TABLE(Egress, members);

int api_create_egress(const json_t *j, enum err_code tag, struct egress **ret, struct err *err)
{
	AUTO(egress_unrefp) struct egress *e = NULL;
	int r;

	if (!j || json_is_null(j))
		return 0;
	json_fields_know(j, "egress.", members, ARRAY_SIZE(members));
	r = egress_parse(j, &e, err);
	if (r == 0)
		r = egress_keep_secrets(e, NULL, err); /* a new VM has none */
	if (r == -EINVAL && err)
		err->tag = tag;
	if (r == 0)
		*ret = TAKE_PTR(e);
	return r;
}

int api_egress_get(struct request *req, struct reply *res, struct err *err)
{
	AUTO(egress_unrefp) struct egress *e = NULL;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_egress_get(deps_of(req)->vmm, who_of(req)->account, id, &e, err)) < 0)
		return r;
	return reply_json(res, egress_json(e, /* secrets= */ false), err);
}

int api_egress_put(struct request *req, struct reply *res, struct err *err)
{
	AUTO(egress_unrefp) struct egress *e = NULL;
	struct vm_info info;
	json_t *body;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_json(req, ERR_BAD_REQUEST, &body, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &info, err)) < 0)
		return r;
	json_fields_know(body, "", members, ARRAY_SIZE(members));
	r = egress_parse(body, &e, err);
	if (r == 0)
		r = vmm_egress_set(deps_of(req)->vmm, who_of(req)->account, id, e, err);
	if (r == -EINVAL && err && !err->tag)
		err->tag = ERR_BAD_REQUEST;
	return r < 0 ? r : reply_json(res, egress_json(e, /* secrets= */ false), err);
}

static const char *proto_word(uint8_t proto)
{
	switch (proto) {
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	case IPPROTO_ICMP:
		return "icmp";
	case 0:
		return NULL;
	default:
		return "other";
	}
}

static json_t *shape_blocked(const struct gate_blocked *b)
{
	static const char *const cause[] = {
		[GATE_DNS] = "dns", [GATE_ADDRESS] = "address", [GATE_NAMED] = "name"
	};
	char addr[INET_ADDRSTRLEN], at[CLOCK_RFC3339_LEN];
	struct in_addr a = { .s_addr = htonl(b->addr) };

	inet_ntop(AF_INET, &a, addr, sizeof(addr));
	return json_pack("{s:s, s:s*, s:s*, s:s*, s:o*, s:I, s:s}", "kind", cause[b->cause],
	                 "domain", *b->name ? b->name : NULL, "address", b->addr ? addr : NULL,
	                 "protocol", proto_word(b->proto), "port",
	                 b->port ? json_integer(b->port) : NULL, "count", (json_int_t)b->count,
	                 "lastAt", clock_rfc3339(b->at_ms, at));
}

int api_egress_blocked(struct request *req, struct reply *res, struct err *err)
{
	autofree struct gate_blocked *v = NULL;
	autojson json_t *list = json_array();
	const char *id;
	size_t n = 0;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_egress_blocked(deps_of(req)->vmm, who_of(req)->account, id, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, shape_blocked(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:s, s:O}", "vmId", id, "blocked", list), err);
}
