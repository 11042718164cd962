/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_record.c - DNS records of verified domains
 *
 * Records belong to a domain that their account has verified; an account that takes a domain over
 * starts without records (records_drop_locked()). That a CNAME is the only record is checked in the
 * transaction that adds a record, so that two concurrent requests cannot violate it.
 */
#include "store/store_record.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

const char *const record_kind_words[RECORD_KIND_MAX] = {
	[RECORD_A] = "A",     [RECORD_AAAA] = "AAAA", [RECORD_CNAME] = "CNAME",
	[RECORD_TXT] = "TXT", [RECORD_NS] = "NS",     [RECORD_MX] = "MX",
};

static const struct col record_cols[] = {
	COL_AT(COL_TEXT, store_record, id, "id"),
	COL_AT(COL_TEXT, store_record, account, "account"),
	COL_AT(COL_TEXT, store_record, domain, "domain"),
	COL_WORD_AT(store_record, kind, "kind", record_kind_words),
	COL_AT(COL_TEXT, store_record, name, "name"),
	COL_AT(COL_TEXT, store_record, value, "value"),
	COL_AT(COL_U32, store_record, ttl, "ttl"),
	COL_AT(COL_U32, store_record, priority, "priority"),
	COL_AT(COL_I64, store_record, created_ms, "created_ms"),
};
static const struct table record_table = {
	.name = "dns_records",
	.cols = record_cols,
	.n_cols = ARRAY_SIZE(record_cols),
	.row_size = sizeof(struct store_record),
	.missing_tag = ERR_RECORD_OWNERSHIP_ERROR,
	.noun = "record",
};

/* Does not reveal whether another account has the domain. */
static int owned(struct store *s, const char *account, const char *domain, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT 1 FROM domains WHERE domain = $1 AND account = $2", err);

	if (r < 0)
		return r;
	query_bind_text(&q, domain);
	query_bind_text(&q, account);
	r = query_step(&q, err);
	return r ? MIN(r, 0)
	         : err_tag(err, -EACCES, ERR_DOMAIN_OWNERSHIP_ERROR,
	                   "'%s' is not a domain that this account has verified", domain);
}

/* Existing records at the name: the same one, or one that conflicts with it. */
static int beside(struct store *s, const struct store_record *rec, struct store_record *ret_same,
                  bool *ret_found, struct err *err)
{
	const char *args[] = { rec->domain, rec->name };
	autofree void *rows = NULL;
	const struct store_record *v;
	size_t n = 0;
	int r = row_list(s, &record_table, "WHERE domain = $1 AND name = $2", args, 2, &rows, &n,
	                 err);

	v = rows;
	*ret_found = false;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (v[i].kind == rec->kind && strcmp(v[i].value, rec->value) == 0) {
			*ret_same = v[i];
			*ret_found = true;
		} else if (v[i].kind == RECORD_CNAME || rec->kind == RECORD_CNAME) {
			return err_tag(err, -EEXIST, ERR_CONFLICT,
			               "'%s' has other records: a CNAME must be the only one",
			               rec->name);
		}
	}
	return MIN(r, 0);
}

static int insert(struct store *s, const struct store_record *rec, struct err *err)
{
	int r = query_count(s, "SELECT COUNT(*) FROM dns_records WHERE account = $1", rec->account,
	                    err);

	if (r >= RECORDS_PER_ACCOUNT) {
		err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED, "an account has at most %d records",
		        RECORDS_PER_ACCOUNT);
		err_fact(err, "limit", RECORDS_PER_ACCOUNT);
		return -EDQUOT;
	}
	return r < 0 ? r : row_insert(s, &record_table, rec, err);
}

int store_record_put(struct store *s, const struct store_record *rec, struct store_record *ret,
                     struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_record row;
	bool same;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = owned(s, rec->account, rec->domain, err)) < 0 ||
	    (r = beside(s, rec, &row, &same, err)) < 0)
		return r;
	if (same) {
		row.ttl = rec->ttl;
		row.priority = rec->priority;
		r = row_update(s, &record_table, &row, err);
	} else {
		row = *rec;
		r = insert(s, rec, err);
	}
	if (r < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = row;
	return 0;
}

int store_record_list(struct store *s, const char *account, const char *domain,
                      struct store_record **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	if (domain && (r = owned(s, account, domain, err)) < 0)
		return r;
	r = row_list(s, &record_table,
	             domain ? "WHERE domain = $1 ORDER BY name, kind, value"
	                    : "ORDER BY domain, name, kind, value",
	             &domain, domain ? 1 : 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return MIN(r, 0);
}

int store_record_delete(struct store *s, const char *account, const char *domain, const char *id,
                        struct err *err)
{
	const char *args[] = { id, domain, account };
	int r;

	LOCK_SCOPE(&s->lock);
	if ((r = owned(s, account, domain, err)) < 0)
		return r;
	r = run_text(s, "DELETE FROM dns_records WHERE id = $1 AND domain = $2 AND account = $3",
	             args, 3, err);
	return r ? MIN(r, 0)
	         : err_tag(err, -EACCES, ERR_RECORD_OWNERSHIP_ERROR, "'%s' has no record '%.60s'",
	                   domain, id);
}

int records_drop_locked(struct store *s, const char *domain, struct err *err)
{
	return run_text(s, "DELETE FROM dns_records WHERE domain = $1", &domain, 1, err);
}
