/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns.c - DNS records of verified domains
 *
 * The `freestyle` package cannot name the record it wants to delete: its query has "[object
 * Object]" instead of the record. Such a request is rejected with an explanation; we do not guess
 * which one was meant. A record is named by id, by kind, name and value, or as JSON in `record`.
 */
#include "api/net/shared.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "domains/domains.h"
#include "zone/zone.h"

#define BAD ERR_BAD_REQUEST

static int need(struct request *req, struct zones **ret, struct err *err)
{
	*ret = deps_of(req)->zones;
	return *ret ? 0
	            : err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	                      "domains are not available on this server");
}

/* Errors name the domain and its owner, as in Freestyle's protocol. */
static int named(struct request *req, struct reply *res, int r, const char *domain)
{
	if (r < 0) {
		reply_extra(res, "domain", json_string(domain));
		reply_extra(res, "accountId", json_string(who_of(req)->account));
	}
	return r;
}

static json_t *shape_record(const struct store_record *v)
{
	char ttl[16];

	snprintf(ttl, sizeof(ttl), "%" PRIu32, v->ttl);
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:b, s:o}", "id", v->id, "kind",
	                 record_kind_words[v->kind], "name", v->name, "value", v->value, "ttl", ttl,
	                 "priority", v->kind == RECORD_MX ? json_integer(v->priority) : json_null(),
	                 "managed", 0, "createdAt", shape_time(v->created_ms));
}

/* The domain of the query, in canonical form. */
static int query_domain(struct request *req, char ret[DOMAIN_SIZE], struct err *err)
{
	autofree char *domain = NULL;
	int r = request_query(req, "domain", &domain, err);

	if (r < 0)
		return r;
	if (!domain || !*domain)
		return err_tag(err, -EINVAL, BAD, "'domain' is missing");
	return domain_normal(domain, /* star= */ false, ret, err);
}

int api_record_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_record *v = NULL;
	autojson json_t *items = json_array();
	char domain[DOMAIN_SIZE];
	const char *server;
	struct zones *z;
	size_t n = 0;
	int r;

	if ((r = need(req, &z, err)) < 0 || (r = query_domain(req, domain, err)) < 0)
		return r;
	r = store_record_list(deps_of(req)->store, who_of(req)->account, domain, &v, &n, err);
	if (r < 0)
		return named(req, res, r, domain);
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(items, shape_record(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	server = zones_server(z);
	return reply_json(res,
	                  json_pack("{s:O, s:o}", "records", items, "nameServer",
	                            server ? json_string(server) : json_null()),
	                  err);
}

/* ---- a requested record ---- */

struct record_body {
	char kind[16], name[512], value[RECORD_VALUE_SIZE];
	json_t *ttl;
	int64_t priority;
};
static const struct json_field record_fields[] = {
	JSON_FIELD_STR(record_body, kind, "kind", JSON_REQUIRED),
	JSON_FIELD_STR(record_body, name, "name", JSON_NULLABLE),
	JSON_FIELD_STR(record_body, value, "value", JSON_REQUIRED),
	JSON_FIELD(JSON_WANT_ANY, record_body, ttl, "ttl", 0, 0, 0, "string | int | null"),
	JSON_FIELD(JSON_WANT_I64, record_body, priority, "priority", JSON_NULLABLE, 0,
	           RECORD_PRIORITY_MAX),
};
JSON_TABLE(DnsRecordNew, record_fields);

/* Seconds, as a number or, as in Freestyle's protocol, as text. */
static int read_ttl(json_t *v, int64_t *ret, struct err *err)
{
	const char *text = json_string_value(v);
	char *end = NULL;

	*ret = -1;
	if (!v || json_is_null(v))
		return 0;
	if (json_is_integer(v)) {
		*ret = json_integer_value(v);
	} else if (text && *text >= '0' && *text <= '9') {
		errno = 0;
		*ret = strtoll(text, &end, 10);
	}
	if (*ret < 0 || (end && (*end || errno)))
		return err_tag(err, -EINVAL, BAD, "'record.ttl' must be a number of seconds");
	return 0;
}

static int read_record(json_t *record, struct record_body *b, struct record_wish *ret,
                       struct err *err)
{
	int64_t ttl;
	int r;

	b->priority = -1;
	if (!json_is_object(record))
		return err_tag(err, -EINVAL, BAD, "'record' must be an object");
	if ((r = json_fields_read(record, "record.", record_fields, ARRAY_SIZE(record_fields), b,
	                          err)) < 0) {
		if (err)
			err->tag = BAD;
		return r;
	}
	if ((r = read_ttl(b->ttl, &ttl, err)) < 0)
		return r;
	*ret = (struct record_wish){ .kind = b->kind,
		                     .name = b->name,
		                     .value = b->value,
		                     .ttl = ttl,
		                     .priority = b->priority };
	return 0;
}

/* ---- create ---- */

struct create_body {
	char domain[512];
	json_t *record;
};
static const struct json_field create_fields[] = {
	JSON_FIELD_STR(create_body, domain, "domain", JSON_REQUIRED),
	JSON_FIELD(JSON_WANT_ANY, create_body, record, "record", JSON_REQUIRED, 0, 0,
	           "DnsRecordNew"),
};
JSON_TABLE(DnsRecordAdd, create_fields);

int api_record_create(struct request *req, struct reply *res, struct err *err)
{
	struct create_body b = { 0 };
	struct record_body rb = { 0 };
	struct record_wish w;
	struct store_record rec;
	char domain[DOMAIN_SIZE];
	struct zones *z;
	int r;

	if ((r = need(req, &z, err)) < 0 ||
	    (r = request_fields(req, BAD, create_fields, ARRAY_SIZE(create_fields), &b, err)) < 0 ||
	    (r = domain_normal(b.domain, /* star= */ false, domain, err)) < 0 ||
	    (r = read_record(b.record, &rb, &w, err)) < 0)
		return r;
	r = zones_put(z, who_of(req)->account, domain, &w, &rec, err);
	if (r < 0)
		return named(req, res, r, domain);
	return reply_json(res, json_pack("{s:o}", "record", shape_record(&rec)), err);
}

/* ---- delete ---- */

/* The record as JSON in the query. */
static int read_query_record(const char *text, struct record_body *b, struct record_wish *ret,
                             struct err *err)
{
	autojson json_t *record = NULL;

	if (strcmp(text, "[object Object]") == 0)
		return err_tag(err, -EINVAL, BAD,
		               "the request does not name a record: the client sent '[object "
		               "Object]'. Send recordId, or record as JSON");
	record = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	return read_record(record, b, ret, err);
}

static int which(struct request *req, struct zones *z, const char *domain, char ret_id[ID_SIZE],
                 struct err *err)
{
	autofree char *id = NULL;
	autofree char *text = NULL;
	struct record_body b = { 0 };
	struct record_wish w;
	int r;

	if ((r = request_query(req, "recordId", &id, err)) < 0 ||
	    (r = request_query(req, "record", &text, err)) < 0)
		return r;
	if (id) {
		snprintf(ret_id, ID_SIZE, "%s", id);
		return 0;
	}
	if (!text)
		return err_tag(err, -EINVAL, BAD, "'recordId' or 'record' is missing");
	if ((r = read_query_record(text, &b, &w, err)) < 0)
		return r;
	return zones_find(z, who_of(req)->account, domain, &w, ret_id, err);
}

int api_record_delete(struct request *req, struct reply *res, struct err *err)
{
	char domain[DOMAIN_SIZE], id[ID_SIZE] = "";
	struct zones *z;
	int r;

	if ((r = need(req, &z, err)) < 0 || (r = query_domain(req, domain, err)) < 0)
		return r;
	if ((r = which(req, z, domain, id, err)) < 0 ||
	    (r = zones_delete(z, who_of(req)->account, domain, id, err)) < 0) {
		if (*id)
			reply_extra(res, "recordId", json_string(id));
		return named(req, res, r, domain);
	}
	return reply_json(res, json_pack("{s:s, s:s}", "message", "deleted", "id", id), err);
}
