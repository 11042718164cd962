/* SPDX-License-Identifier: Apache-2.0 */
/* domains.c - domains of an account: verify, map, certify */
#include "api/net/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "cert/cert.h"
#include "zone/zone.h"

static int need(struct request *req, struct domains **ret, struct err *err)
{
	*ret = deps_of(req)->domains;
	return *ret ? 0
	            : err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	                      "domains are not available on this server");
}

/* Errors name the domain, as in Freestyle's protocol. */
static int named(struct reply *res, int r, const char *domain)
{
	if (r < 0 && domain)
		reply_extra(res, "domain", json_string(domain));
	return r;
}

/* What to set in the DNS: the name's addresses, after a TXT record if code is given. */
static json_t *dns_records(struct request *req, const char *domain, const char *code)
{
	const struct api_deps *deps = deps_of(req);
	const char *address[] = { deps->public_ipv4, deps->public_ipv6 };
	json_t *list = json_array();

	if (code)
		json_array_append_new(list,
		                      json_pack("{s:s, s:s++, s:s}", "type", "TXT", "name",
		                                DOMAINS_TXT_NAME, ".", domain, "value", code));
	for (size_t i = 0; i < ARRAY_SIZE(address); i++)
		if (address[i] && *address[i])
			json_array_append_new(list,
			                      json_pack("{s:s, s:s, s:s}", "type", i ? "AAAA" : "A",
			                                "name", domain, "value", address[i]));
	return list;
}

/* ---- domains ---- */

int api_domain_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_domain *v = NULL;
	autojson json_t *items = json_array();
	bool dns = deps_of(req)->zones && zones_server(deps_of(req)->zones);
	size_t n = 0, first, end;
	uint32_t offset;
	int r;

	if ((r = store_domain_list(deps_of(req)->store, who_of(req)->account, &v, &n, err)) < 0 ||
	    (r = request_page(req, n, &first, &end, &offset, err)) < 0)
		return r;
	for (size_t i = first; i < end; i++) {
		json_t *o = json_pack("{s:s, s:s, s:s, s:o, s:b, s:b, s:b, s:b, s:b}", "domain",
		                      v[i].domain, "id", v[i].id, "accountId", v[i].account,
		                      "createdAt", shape_time(v[i].created_ms), "verifiedDns", 1,
		                      "implicitlyOwned", 0, "manageDns", dns, "deployToDomain", 1,
		                      "deployToSubdomains", 1);

		if (json_array_append_new(items, o) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res, json_incref(items), err);
}

/* ---- verifications ---- */

int api_verification_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_verification *v = NULL;
	autojson json_t *items = json_array();
	size_t n = 0;
	int r = store_verification_list(deps_of(req)->store, who_of(req)->account, &v, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(items,
		                          json_pack("{s:s, s:s, s:s, s:o}", "id", v[i].id, "domain",
		                                    v[i].domain, "verificationCode", v[i].code,
		                                    "createdAt", shape_time(v[i].created_ms))) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_incref(items), err);
}

struct verification_body {
	char domain[512], id[64], code[64];
};
static const struct json_field verification_fields[] = {
	JSON_FIELD_STR(verification_body, domain, "domain", JSON_NULLABLE),
	JSON_FIELD_STR(verification_body, id, "id", JSON_NULLABLE),
	JSON_FIELD_STR(verification_body, code, "verificationCode", JSON_NULLABLE),
};
JSON_TABLE(VerificationWish, verification_fields);

static int verification_body(struct request *req, struct verification_body *b, struct err *err)
{
	int r = request_fields(req, ERR_BAD_REQUEST, verification_fields,
	                       ARRAY_SIZE(verification_fields), b, err);

	if (r == 0 && !*b->domain && !*b->id)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'domain' is missing");
	return r;
}

int api_verification_create(struct request *req, struct reply *res, struct err *err)
{
	struct verification_body b = { 0 };
	struct store_verification v;
	struct domains *d;
	int r;

	if ((r = need(req, &d, err)) < 0 || (r = verification_body(req, &b, err)) < 0)
		return r;
	if ((r = domains_verify(d, who_of(req)->account, b.domain, &v, err)) < 0)
		return named(res, r, b.domain);
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "id", v.id, "domain",
	                            v.domain, "accountId", v.account, "verificationCode", v.code,
	                            "createdAt", shape_time(v.created_ms), "dnsRecords",
	                            dns_records(req, v.domain, v.code)),
	                  err);
}

int api_verification_complete(struct request *req, struct reply *res, struct err *err)
{
	struct verification_body b = { 0 };
	char domain[DOMAIN_SIZE];
	struct domains *d;
	int r;

	if ((r = need(req, &d, err)) < 0 || (r = verification_body(req, &b, err)) < 0)
		return r;
	r = domains_complete(d, who_of(req)->account, *b.id ? b.id : b.domain, domain, err);
	if (r < 0)
		return named(res, r, *b.domain ? b.domain : NULL);
	return reply_json(res, json_pack("{s:s}", "domain", domain), err);
}

int api_verification_cancel(struct request *req, struct reply *res, struct err *err)
{
	struct verification_body b = { 0 };
	struct store_verification v;
	struct domains *d;
	int r;

	if ((r = need(req, &d, err)) < 0 || (r = verification_body(req, &b, err)) < 0)
		return r;
	r = domains_cancel(d, who_of(req)->account, b.domain, *b.code ? b.code : NULL, &v, err);
	if (r < 0)
		return named(res, r, b.domain);
	return reply_json(
	        res, json_pack("{s:s, s:s}", "domain", v.domain, "verificationCode", v.code), err);
}

/* ---- mappings ---- */

/* By enum domain_speaks. */
static const char *const protocols[] = { "http1", "h2c", "tls" };

static json_t *shape_mapping(const struct store_mapping *m)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:n}", "protocol",
	                 protocols[MIN(m->speaks, ARRAY_SIZE(protocols) - 1)], "id", m->id,
	                 "domain", m->domain, "vmId", shape_text(m->vm), "vmPort",
	                 m->port ? json_integer(m->port) : json_null(), "deploymentId",
	                 shape_text(m->deployment), "ownershipId",
	                 *m->ownership ? m->ownership : "preview", "createdAt",
	                 shape_time(m->created_ms), "unmappedAt");
}

int api_mapping_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_mapping *v = NULL;
	autofree char *domain = NULL;
	autofree char *ownership = NULL;
	autojson json_t *items = json_array();
	size_t n = 0, kept = 0, first, end;
	uint32_t offset;
	int r;

	if ((r = request_query(req, "domain", &domain, err)) < 0 ||
	    (r = request_query(req, "domainOwnership", &ownership, err)) < 0 ||
	    (r = store_mapping_list(deps_of(req)->store, who_of(req)->account, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if ((!domain || !*domain || strcasecmp(v[i].domain, domain) == 0) &&
		    (!ownership || !*ownership || strcmp(v[i].ownership, ownership) == 0))
			v[kept++] = v[i];
	if ((r = request_page(req, kept, &first, &end, &offset, err)) < 0)
		return r;
	for (size_t i = first; i < end; i++)
		if (json_array_append_new(items, shape_mapping(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_incref(items), err);
}

/* "protocol" of a mapping. */
static int read_protocol(const char *text, enum err_code tag, enum domain_speaks *ret,
                         struct err *err)
{
	*ret = DOMAIN_HTTP1;
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		if (!*text || strcmp(text, protocols[i]) == 0) {
			*ret = (enum domain_speaks)i;
			return 0;
		}
	}
	return err_tag(
	        err, -EINVAL, tag,
	        "'protocol' must be http1, h2c for programs that speak HTTP/2 without TLS, as "
	        "gRPC's do, or tls for those that have their own certificate; not '%s'",
	        text);
}

struct mapping_body {
	char vm[64];
	int64_t port;
	char protocol[32];
	char deployment[64];
};
static const struct json_field mapping_fields[] = {
	JSON_FIELD_STR(mapping_body, vm, "vmId", JSON_NULLABLE),
	JSON_FIELD(JSON_WANT_I64, mapping_body, port, "vmPort", JSON_NULLABLE, 1, 65535),
	JSON_FIELD_STR(mapping_body, protocol, "protocol", JSON_NULLABLE),
	JSON_FIELD_STR(mapping_body, deployment, "deploymentId", JSON_NULLABLE),
};
JSON_TABLE(MappingNew, mapping_fields);

static int mapped(struct request *req, struct reply *res, const struct store_mapping *m,
                  struct err *err)
{
	json_t *o = shape_mapping(m);

	json_object_set_new(o, "dnsRecords", dns_records(req, m->domain, NULL));
	return reply_json(res, o, err);
}

int api_mapping_create(struct request *req, struct reply *res, struct err *err)
{
	struct mapping_body b = { .port = DOMAINS_PORT_DEFAULT };
	const char *domain = request_arg(req, "{domain}");
	struct store_mapping m;
	struct domains *d;
	struct vm_info v;
	enum domain_speaks speaks;
	int r;

	if ((r = need(req, &d, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, mapping_fields, ARRAY_SIZE(mapping_fields),
	                        &b, err)) < 0 ||
	    (r = read_protocol(b.protocol, ERR_BAD_REQUEST, &speaks, err)) < 0)
		return r;
	if (!*b.vm == !*b.deployment)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "either 'vmId', with 'vmPort', or 'deploymentId' is needed");
	if (*b.deployment) {
		if (speaks != DOMAIN_HTTP1)
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "'protocol' of a deployment is http1");
		r = domains_map_deployment(d, who_of(req)->account, domain, b.deployment, &m, err);
		return r < 0 ? named(res, r, domain) : mapped(req, res, &m, err);
	}
	if ((r = vmm_get(deps_of(req)->vmm, who_of(req)->account, b.vm, &v, err)) < 0) {
		reply_extra(res, "vmId", json_string(b.vm));
		return r;
	}
	r = domains_map(d, who_of(req)->account, domain, b.vm, (uint32_t)b.port, speaks, &m, err);
	return r < 0 ? named(res, r, domain) : mapped(req, res, &m, err);
}

int api_mapping_delete(struct request *req, struct reply *res, struct err *err)
{
	const char *domain = request_arg(req, "{domain}");
	struct domains *d;
	int r;

	if ((r = need(req, &d, err)) < 0)
		return r;
	r = domains_unmap(d, who_of(req)->account, domain, err);
	return r < 0 ? named(res, r, domain) : reply_json(res, json_object(), err);
}

/* ---- certificates ---- */

int api_cert_wildcard(struct request *req, struct reply *res, struct err *err)
{
	const char *domain = request_arg(req, "{domain}");
	char name[DOMAIN_SIZE];
	struct domains *d;
	int r;

	if ((r = need(req, &d, err)) < 0 ||
	    (r = domains_wildcard(d, who_of(req)->account, domain, name, err)) < 0)
		return named(res, r, domain);
	if (deps_of(req)->wildcard &&
	    (r = deps_of(req)->wildcard(deps_of(req)->front, name, err)) < 0)
		return named(res, r, name);
	return reply_json(res, json_pack("{s:s}", "domain", name), err);
}

int api_ca(struct request *req, struct reply *res, struct err *err)
{
	autofree char *pem = NULL;
	int r;

	if (!deps_of(req)->certs)
		return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
		               "domains are not available on this server");
	if ((r = certs_ca_pem(deps_of(req)->certs, &pem, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "certificate", pem), err);
}

/* ---- `domains` of VMs ---- */

struct wish_body {
	char domain[512];
	int64_t port;
	char protocol[32];
};
static const struct json_field wish_fields[] = {
	JSON_FIELD_STR(wish_body, domain, "domain", JSON_REQUIRED),
	JSON_FIELD(JSON_WANT_I64, wish_body, port, "vmPort", JSON_NULLABLE, 1, 65535),
	JSON_FIELD_STR(wish_body, protocol, "protocol", JSON_NULLABLE),
};
JSON_TABLE(DomainWish, wish_fields);

int domain_wishes(struct request *req, json_t *list, struct domain_wish *ret, size_t *ret_n,
                  struct err *err)
{
	struct domains *d;
	json_t *item;
	size_t i;
	int r;

	*ret_n = 0;
	if (!list || json_array_size(list) == 0)
		return 0;
	if (json_array_size(list) > WISHES_MAX)
		return err_tag(err, -EINVAL, ERR_INVALID_DOMAINS, "at most %d domains", WISHES_MAX);
	if ((r = need(req, &d, err)) < 0)
		return r;
	json_array_foreach(list, i, item)
	{
		struct wish_body b = { .port = DOMAINS_PORT_DEFAULT };

		if ((r = json_fields_read(item, "domains.", wish_fields, ARRAY_SIZE(wish_fields),
		                          &b, err)) < 0) {
			if (err)
				err->tag = ERR_INVALID_DOMAINS;
			return r;
		}
		if ((r = domains_may_map(d, who_of(req)->account, b.domain, err)) < 0 ||
		    (r = domain_normal(b.domain, true, ret[i].domain, err)) < 0 ||
		    (r = read_protocol(b.protocol, ERR_INVALID_DOMAINS, &ret[i].speaks, err)) < 0)
			return r;
		ret[i].port = (uint32_t)b.port;
	}
	*ret_n = i;
	return 0;
}

json_t *shape_domains(struct request *req, const char *vm)
{
	char(*names)[DOMAIN_SIZE] = NULL;
	json_t *list = json_array();
	size_t n = 0;

	if (deps_of(req)->domains &&
	    domains_names(deps_of(req)->domains, vm, &names, &n, NULL) == 0)
		for (size_t i = 0; i < n; i++)
			json_array_append_new(list, json_string(names[i]));
	free(names);
	return list;
}
