/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - reading the audit log */
#include "api/call.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/auto.h"

#define AUDIT_LIMIT 100
#define AUDIT_LIMIT_MAX 1000

static json_t *shape_record(const struct audit_record *a)
{
	json_t *j;

	j = json_pack("{s:I, s:o, s:o, s:o, s:o, s:s, s:s, s:o, s:I, s:o, s:s, s:s}", "id",
	              (json_int_t)a->seq, "at", shape_time(a->at_ms), "accountId",
	              shape_text(a->account), "keyId", shape_text(a->key), "identityId",
	              shape_text(a->identity), "method", a->method, "route", a->route, "target",
	              shape_text(a->target), "status", (json_int_t)a->status, "code",
	              shape_text(a->code), "remote", a->remote, "traceId", a->trace);
	if (j && *a->operator_account)
		json_object_set_new(j, "operatorAccountId", json_string(a->operator_account));
	if (j && a->repeated)
		json_object_set_new(j, "repeated", json_integer((json_int_t)a->repeated));
	return j;
}

/* A bound is a record's id or an RFC 3339 time in UTC. */
static int read_bound(struct request *req, const char *name, int64_t *ret_seq, int64_t *ret_ms,
                      struct err *err)
{
	autofree char *s = NULL;
	struct tm tm = { 0 };
	const char *end;
	int r = request_query(req, name, &s, err);

	if (r < 0 || !s)
		return r;
	errno = 0;
	if (*s && strspn(s, "0123456789") == strlen(s)) {
		*ret_seq = strtoll(s, NULL, 10);
		if (errno == 0)
			return 0;
	} else if ((end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm))) {
		int64_t ms = 0, unit = 100;

		if (*end == '.')
			for (end++; isdigit((unsigned char)*end); end++, unit /= 10)
				ms += (*end - '0') * unit;
		if (strcmp(end, "Z") == 0 && tm.tm_year < 8000) {
			*ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
			return 0;
		}
	}
	return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
	               "'%s' must be a record's id or a time like 2026-01-31T12:00:00Z", name);
}

/*
 * The operator sees all records, or those of accountId; all others their own, and so does the
 * operator who acts as one of them.
 */
static int read_account(struct request *req, char ret[ACCOUNT_SIZE], bool *ret_all, struct err *err)
{
	autofree char *asked = NULL;
	int r = request_query(req, "accountId", &asked, err);

	*ret_all = !asked && (who_of(req)->scopes & SCOPE_ADMIN) && !*who_of(req)->operator_account;
	return r < 0 ? r : request_account(req, ret, err);
}

int api_audit(struct request *req, struct reply *res, struct err *err)
{
	struct audit_filter f = { .before = INT64_MAX, .until = INT64_MAX, .limit = AUDIT_LIMIT };
	autofree struct audit_record *v = NULL;
	autofree char *action = NULL, *target = NULL;
	autojson json_t *items = json_array();
	char account[ACCOUNT_SIZE];
	bool all = false;
	size_t n = 0;
	int r;

	if ((r = request_query_u32(req, "limit", AUDIT_LIMIT_MAX, &f.limit, err)) < 0 ||
	    (r = read_bound(req, "before", &f.before, &f.until, err)) < 0 ||
	    (r = read_bound(req, "after", &f.after, &f.since, err)) < 0 ||
	    (r = request_query(req, "action", &action, err)) < 0 ||
	    (r = request_query(req, "target", &target, err)) < 0 ||
	    (r = read_account(req, account, &all, err)) < 0)
		return r;
	f.account = all ? NULL : account;
	f.action = action && *action ? action : NULL;
	f.target = target && *target ? target : NULL;
	if ((r = auth_audit_list(deps_of(req)->auth, &f, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(items, shape_record(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O}", "records", items), err);
}
