/* SPDX-License-Identifier: Apache-2.0 */
/* store_audit.c - see store_audit.h */
#include "store/store_audit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

/* Same rules as store_schema.c: a released step is never edited. */
static const char migration_1[] =
        "CREATE TABLE audit ("
        "  seq INTEGER PRIMARY KEY AUTOINCREMENT," /* PostgreSQL: BIGSERIAL */
        "  at_ms BIGINT NOT NULL,"
        "  account TEXT,"
        "  key TEXT,"
        "  identity TEXT,"
        "  method TEXT NOT NULL,"
        "  route TEXT NOT NULL,"
        "  target TEXT,"
        "  status BIGINT NOT NULL,"
        "  code TEXT,"
        "  remote TEXT NOT NULL,"
        "  trace TEXT NOT NULL"
        ");"
        "CREATE INDEX audit_account ON audit (account, seq);"
        "CREATE INDEX audit_target ON audit (target, seq);"
        "CREATE INDEX audit_at ON audit (at_ms);"
        "CREATE TABLE uses ("
        "  id TEXT PRIMARY KEY,"
        "  at_ms BIGINT NOT NULL"
        ");";
static const char migration_2[] =
        "ALTER TABLE audit ADD COLUMN repeated BIGINT NOT NULL DEFAULT 0;";
/* The operator's account, where it acted as another one. */
static const char migration_3[] = "ALTER TABLE audit ADD COLUMN operator TEXT;";
const char *const audit_migrations[] = { migration_1, migration_2, migration_3 };
const unsigned audit_n_migrations = ARRAY_SIZE(audit_migrations);

int store_audit_open(const char *where, struct store **ret, struct err *err)
{
	return store_open_log(where, audit_migrations, audit_n_migrations, ret, err);
}

static int add_record(struct store *s, const struct audit_record *a, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO audit (at_ms, account, key, identity, method, route, "
	                    "target, status, code, remote, trace, repeated, operator) "
	                    "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
	                    err);

	if (r < 0)
		return r;
	query_bind_i64(&q, a->at_ms);
	query_bind_ref(&q, a->account);
	query_bind_ref(&q, a->key);
	query_bind_ref(&q, a->identity);
	query_bind_text(&q, a->method);
	query_bind_text(&q, a->route);
	query_bind_ref(&q, a->target);
	query_bind_i64(&q, a->status);
	query_bind_ref(&q, a->code);
	query_bind_text(&q, a->remote);
	query_bind_text(&q, a->trace);
	query_bind_i64(&q, (int64_t)a->repeated);
	query_bind_ref(&q, a->operator_account);
	return query_run(&q, err);
}

static int add_use(struct store *s, const struct audit_use *u, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "INSERT INTO uses (id, at_ms) VALUES ($1, $2) "
	                    "ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, u->id);
	query_bind_i64(&q, u->at_ms);
	return query_run(&q, err);
}

int store_audit_add(struct store *s, const struct audit_record *a, size_t n,
                    const struct audit_use *u, size_t n_uses, struct err *err)
{
	autotx struct tx t = { 0 };
	int r = tx_begin(&t, s, err);

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = add_record(s, &a[i], err);
	for (size_t i = 0; r >= 0 && i < n_uses; i++)
		r = add_use(s, &u[i], err);
	return r < 0 ? r : tx_commit(&t, err);
}

static void read_record(struct query *q, struct audit_record *a)
{
	a->seq = query_read_i64(q, 0, INT64_MAX);
	a->at_ms = query_read_i64(q, INT64_MIN, INT64_MAX);
	query_read_text(q, a->account, sizeof(a->account));
	query_read_text(q, a->key, sizeof(a->key));
	query_read_text(q, a->identity, sizeof(a->identity));
	query_read_text(q, a->method, sizeof(a->method));
	query_read_text(q, a->route, sizeof(a->route));
	query_read_text(q, a->target, sizeof(a->target));
	a->status = (uint32_t)query_read_i64(q, 0, 999);
	query_read_text(q, a->code, sizeof(a->code));
	query_read_text(q, a->remote, sizeof(a->remote));
	query_read_text(q, a->trace, sizeof(a->trace));
	a->repeated = (uint64_t)query_read_i64(q, 0, INT64_MAX);
	query_read_text(q, a->operator_account, sizeof(a->operator_account));
}

int store_audit_list(struct store *s, const struct audit_filter *f, struct audit_record **ret,
                     size_t *ret_n, struct err *err)
{
	autofree struct audit_record *v = calloc(f->limit ? f->limit : 1, sizeof(*v));
	size_t n = 0;
	int r;

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	r = query_begin(
	        &q, s,
	        "SELECT seq, at_ms, account, key, identity, method, route, target, status, "
	        "code, remote, trace, repeated, operator FROM audit WHERE seq < $1 AND seq > $2 "
	        "AND at_ms < $3 AND at_ms > $4 AND (CAST($5 AS TEXT) IS NULL OR "
	        "account = $5) "
	        "AND (CAST($6 AS TEXT) IS NULL OR method = $6 OR route = $6 OR "
	        "     method || ' ' || route = $6) "
	        "AND (CAST($7 AS TEXT) IS NULL OR target = $7 OR target LIKE $7 || '/%' OR "
	        "     target LIKE '%/' || $7) ORDER BY seq DESC LIMIT $8",
	        err);
	if (r < 0)
		return r;
	query_bind_i64(&q, f->before);
	query_bind_i64(&q, f->after);
	query_bind_i64(&q, f->until);
	query_bind_i64(&q, f->since);
	query_bind_text(&q, f->account);
	query_bind_text(&q, f->action);
	query_bind_text(&q, f->target);
	query_bind_i64(&q, f->limit);
	while (n < f->limit && (r = query_step(&q, err)) > 0)
		read_record(&q, &v[n++]);
	if (r >= 0)
		r = query_read_end(&q, err);
	query_done(&q); /* before the lock is released */
	if (r < 0)
		return r;
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}

int store_audit_prune(struct store *s, int64_t before_ms, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r, n;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s, "DELETE FROM audit WHERE at_ms < $1", err)) < 0)
		return r;
	query_bind_i64(&q, before_ms);
	if ((n = query_run(&q, err)) < 0)
		return n;
	query_done(&q);
	r = tx_commit(&t, err);
	return r < 0 ? r : n;
}

int64_t store_audit_last_use(struct store *s, const char *id)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };

	if (query_begin(&q, s, "SELECT at_ms FROM uses WHERE id = $1", NULL) < 0)
		return 0;
	query_bind_text(&q, id);
	return query_step(&q, NULL) > 0 ? query_read_i64(&q, 0, INT64_MAX) : 0;
}
