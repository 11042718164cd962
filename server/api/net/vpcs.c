/* SPDX-License-Identifier: Apache-2.0 */
/* vpcs.c - private networks */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/net/shared.h"
#include "base/auto.h"
#include "base/clock.h"
#include "vm/network.h"

#define CIDR_DEFAULT "10.0.0.0/16"

struct vpc_body {
	char name[sizeof(((struct vpc_info *)0)->name)];
	const char *cidr;
};
static const struct json_field vpc_fields[] = {
	JSON_FIELD_STR(vpc_body, name, "name", JSON_NULLABLE),
	JSON_FIELD(JSON_WANT_STRREF, vpc_body, cidr, "cidr", JSON_NULLABLE, 1, 64),
};
JSON_TABLE(VpcNew, vpc_fields);

struct nic_body {
	const char *vpc;
	char mode[16];
	bool is_default;
	json_t *ipv4;
};
static const struct json_field nic_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, nic_body, vpc, "vpc", JSON_REQUIRED, 1, 64),
	JSON_FIELD_STR(nic_body, mode, "mode", JSON_NULLABLE, "'routed'"),
	JSON_FIELD(JSON_WANT_BOOL, nic_body, is_default, "default", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_ANY, nic_body, ipv4, "ipv4", 0, 0, 0, "string | bool | null",
	           "an address of the VPC; true: any"),
};
JSON_TABLE(Nic, nic_fields);

static int nic_read(const json_t *nic, struct vm_nic *ret, struct err *err)
{
	struct nic_body b = { .mode = "routed" };
	struct in_addr a;
	int r;

	if (!json_is_object(nic))
		return err_set(err, -EINVAL, "'nics[0]' must be an object");
	r = json_fields_read(nic, "nics[0].", nic_fields, ARRAY_SIZE(nic_fields), &b, err);
	if (r < 0)
		return r;
	if (strcmp(b.mode, "routed") != 0)
		return err_set(err, -EINVAL, "'nics[0].mode' must be \"routed\"");
	*ret = (struct vm_nic){ .vpc = b.vpc, .is_default = b.is_default };
	if (!b.ipv4 || json_is_null(b.ipv4) || json_is_true(b.ipv4))
		return 0;
	if (!json_is_string(b.ipv4) || inet_pton(AF_INET, json_string_value(b.ipv4), &a) != 1)
		return err_set(err, -EINVAL,
		               "'nics[0].ipv4' must be an address of the VPC, or true for any");
	ret->addr = ntohl(a.s_addr);
	return 0;
}

int api_create_nic(const json_t *j, enum err_code tag, struct vm_nic *ret, bool *ret_has,
                   struct err *err)
{
	int r = 0;

	*ret_has = json_array_size(j) == 1;
	if (!j || json_is_null(j) || (json_is_array(j) && !json_array_size(j)))
		return 0;
	if (!*ret_has)
		r = err_set(err, -EINVAL, "'nics' must be a list with one NIC: a VM has only one");
	else
		r = nic_read(json_array_get(j, 0), ret, err);
	if (r == -EINVAL && err)
		err->tag = tag;
	return r;
}

static const char *addr_text(uint32_t addr, char ret[INET_ADDRSTRLEN])
{
	struct in_addr a = { .s_addr = htonl(addr) };

	return inet_ntop(AF_INET, &a, ret, INET_ADDRSTRLEN);
}

static json_t *shape_vpc(const struct vpc_info *v)
{
	char cidr[48], ip[INET_ADDRSTRLEN], at[CLOCK_RFC3339_LEN];

	snprintf(cidr, sizeof(cidr), "%s/%u", addr_text(v->net, ip), v->prefix);
	return json_pack("{s:s, s:s, s:o, s:s, s:s}", "vpcId", v->id, "id", v->id, "name",
	                 shape_text(v->name), "cidr", cidr, "createdAt",
	                 clock_rfc3339(v->created_ms, at));
}

int api_vpc_create(struct request *req, struct reply *res, struct err *err)
{
	struct vpc_body b = { .cidr = CIDR_DEFAULT };
	struct vpc_info v;
	int r;

	if ((r = request_fields(req, ERR_BAD_REQUEST, vpc_fields, ARRAY_SIZE(vpc_fields), &b,
	                        err)) < 0 ||
	    (r = vmm_vpc_create(deps_of(req)->vmm, who_of(req)->account, b.name, b.cidr, &v, err)) <
	            0)
		return r;
	return reply_json(res, shape_vpc(&v), err);
}

int api_vpc_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct vpc_info *v = NULL;
	autojson json_t *list = json_array();
	size_t n = 0;
	int r = vmm_vpc_list(deps_of(req)->vmm, who_of(req)->account, &v, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, shape_vpc(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O, s:I}", "vpcs", list, "totalCount", (json_int_t)n),
	                  err);
}

int api_vpc_get(struct request *req, struct reply *res, struct err *err)
{
	struct vpc_info v = { 0 };
	autojson json_t *vms = json_array();
	char ip[INET_ADDRSTRLEN];
	json_t *j;
	int r = vmm_vpc_get(deps_of(req)->vmm, who_of(req)->account, req->match.arg[0], &v, err);

	for (size_t i = 0; r == 0 && i < v.n_vms; i++)
		if (json_array_append_new(vms, json_pack("{s:s, s:s}", "vmId", v.vms[i].vm_id,
		                                         "ipv4", addr_text(v.vms[i].addr, ip))) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
	free(v.vms);
	if (r < 0)
		return r;
	j = shape_vpc(&v);
	json_object_set(j, "vms", vms);
	return reply_json(res, j, err);
}

int api_vpc_delete(struct request *req, struct reply *res, struct err *err)
{
	int r = vmm_vpc_delete(deps_of(req)->vmm, who_of(req)->account, req->match.arg[0], err);

	return r < 0 ? r : reply_json(res, json_pack("{s:s}", "vpcId", req->match.arg[0]), err);
}
