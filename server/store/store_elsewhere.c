/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_elsewhere.c - what other nodes have: VMs, points, what they take of quotas; and what all
 * nodes have together: the CA, the database's clock
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"
#include "store/store_node.h"

static int one_text(struct store *s, const char *sql, const char *arg, char *ret, size_t size,
                    struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	ret[0] = '\0';
	if (r < 0)
		return r;
	query_bind_text(&q, arg);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	query_read_text(&q, ret, size);
	r = query_read_end(&q, err);
	return r < 0 ? r : 1;
}

/* ---- what is where ---- */

int store_point_node(struct store *s, const char *point, char ret[ID_SIZE], struct err *err)
{
	LOCK_SCOPE(&s->lock);
	int r = one_text(s, "SELECT node FROM points WHERE id = $1", point, ret, ID_SIZE, err);

	return r == 0 ? row_missing(&point_table, point, err) : MIN(r, 0);
}

int store_vm_owner(struct store *s, const char *vm, struct store_owner *ret, struct err *err)
{
	struct store_vm row;
	int r;

	LOCK_SCOPE(&s->lock);
	if ((r = row_get(s, &vm_table, vm, &row, err)) < 0)
		return r;
	memcpy(ret->node, row.node, sizeof(ret->node));
	memcpy(ret->account, row.info.account, sizeof(ret->account));
	ret->state = row.info.state;
	return 0;
}

int store_vm_list_elsewhere(struct store *s, const char *account, struct store_vm **ret,
                            size_t *ret_n, struct err *err)
{
	const char *args[] = { account, s->node };
	void *p = NULL;
	int r = 0;

	*ret = NULL;
	*ret_n = 0;
	if (!*s->node)
		return 0;
	LOCK_SCOPE(&s->lock);
	r = row_list(s, &vm_table, "WHERE account = $1 AND node <> $2 ORDER BY created_ms DESC, id",
	             args, 2, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

static int read_usage(struct query *q, struct vm_quota *ret, struct err *err)
{
	int r = query_step(q, err);

	if (r < 0)
		return r;
	ret->vms = query_read_i64(q, 0, INT64_MAX);
	ret->disk_mb = query_read_i64(q, 0, INT64_MAX);
	ret->running = query_read_i64(q, 0, INT64_MAX);
	ret->vcpus = query_read_i64(q, 0, INT64_MAX);
	ret->mem_mb = query_read_i64(q, 0, INT64_MAX);
	return query_read_end(q, err);
}

/* Of the account's VMs on other nodes than that one. */
static int usage_locked(struct store *s, const char *account, const char *but, struct vm_quota *ret,
                        struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(
	        &q, s,
	        "SELECT COUNT(*), CAST(COALESCE(SUM(disk_mb), 0) AS BIGINT),"
	        " CAST(COALESCE(SUM(CASE WHEN state IN ('suspended', 'stopped', 'lost') THEN 0 "
	        "ELSE 1 END), 0) AS BIGINT),"
	        " CAST(COALESCE(SUM(CASE WHEN state IN ('suspended', 'stopped', 'lost') THEN 0 "
	        "ELSE vcpus END), 0) AS BIGINT),"
	        " CAST(COALESCE(SUM(CASE WHEN state IN ('suspended', 'stopped', 'lost') THEN 0 "
	        "ELSE mem_mb END), 0) AS BIGINT)"
	        " FROM vms WHERE account = $1 AND node <> $2",
	        err);

	*ret = (struct vm_quota){ 0 };
	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_text(&q, but);
	return read_usage(&q, ret, err);
}

int store_usage_elsewhere(struct store *s, const char *account, struct vm_quota *ret,
                          struct err *err)
{
	*ret = (struct vm_quota){ 0 };
	if (!*s->node)
		return 0;
	LOCK_SCOPE(&s->lock);
	return usage_locked(s, account, s->node, ret, err);
}

/* Two nodes may have made the last VM at the same time; the second one's transaction sees it. */
int node_quota_locked(struct store *s, const char *account, struct err *err)
{
	struct store_account a;
	struct vm_quota all;
	struct {
		const char *what;
		int64_t has, own, server;
	} d[4];
	int r;

	if (!*s->node || !*account)
		return 0;
	if ((r = account_locked(s, account, &a, err)) < 0 ||
	    (r = usage_locked(s, account, "", &all, err)) < 0)
		return r;
	d[0].what = "VMs", d[0].has = all.vms, d[0].own = a.quota.vms,
	d[0].server = s->node_quota.vms;
	d[1].what = "running VMs", d[1].has = all.running, d[1].own = a.quota.running,
	d[1].server = s->node_quota.running;
	d[2].what = "vCPUs", d[2].has = all.vcpus, d[2].own = a.quota.vcpus,
	d[2].server = s->node_quota.vcpus;
	d[3].what = "MB of memory", d[3].has = all.mem_mb, d[3].own = a.quota.mem_mb,
	d[3].server = s->node_quota.mem_mb;
	for (size_t i = 0; i < ARRAY_SIZE(d); i++) {
		int64_t limit = d[i].own != QUOTA_DEFAULT ? d[i].own
		                : a.admin                 ? QUOTA_NONE
		                                          : d[i].server;

		if (limit != QUOTA_NONE && d[i].has > limit)
			return err_tag(err, -EDQUOT, ERR_TOTAL_VM_LIMIT_EXCEEDED,
			               "this account may have %" PRId64 " %s on all nodes "
			               "together, and another node has just used the rest",
			               limit, d[i].what);
	}
	return 0;
}

int store_request_node(struct store *s, const char *account, const char *idem_key,
                       char ret[ID_SIZE], struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r;

	ret[0] = '\0';
	r = query_begin(&q, s,
	                "SELECT node FROM background_requests WHERE account = $1 AND "
	                "idem_key = $2 AND done_ms = 0 ORDER BY created_ms DESC, id LIMIT 1",
	                err);
	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_text(&q, idem_key);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	query_read_text(&q, ret, ID_SIZE);
	return query_read_end(&q, err);
}

/* ---- the cluster's CA ---- */

static const struct secret_place ca_place = { "node_keys.secret", "ca" };

static int read_ca(struct store *s, struct store_ca *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	autowipe char *key = NULL;
	int r = query_begin(&q, s, "SELECT secret, cert FROM node_keys WHERE id = 'ca'", err);

	if (r < 0 || (r = query_step(&q, err)) <= 0)
		return r;
	key = query_read_secret(&q, ca_place);
	query_read_text(&q, ret->cert, sizeof(ret->cert));
	if ((r = query_read_end(&q, err)) < 0)
		return r;
	if (!key || strlen(key) >= sizeof(ret->key))
		return err_tag(err, -EUCLEAN, ERR_DATABASE_ERROR, "the cluster's CA is damaged");
	memcpy(ret->key, key, strlen(key) + 1);
	return 1;
}

int store_node_ca(struct store *s, int (*make)(struct store_ca *ca, struct err *err),
                  struct store_ca *ret, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = read_ca(s, ret, err)) != 0)
		return MIN(r, 0);
	if ((r = make(ret, err)) < 0 ||
	    (r = query_begin(&q, s,
	                     "INSERT INTO node_keys (id, secret, cert) VALUES ('ca', $1, $2)",
	                     err)) < 0)
		return r;
	query_bind_secret(&q, ca_place, ret->key);
	query_bind_text(&q, ret->cert);
	if ((r = query_run(&q, err)) < 0)
		return r;
	query_done(&q);
	return tx_commit(&t, err);
}

/* ---- other secrets that nodes have together ---- */

static int read_shared(struct store *s, const char *id, char **ret, char **ret_cert,
                       struct err *err)
{
	const struct secret_place place = { "node_keys.secret", id };
	autoquery struct query q = { 0 };
	autowipe char *text = NULL;
	autofree char *cert = NULL;
	int r = query_begin(&q, s, "SELECT secret, cert FROM node_keys WHERE id = $1", err);

	if (r < 0)
		return r;
	query_bind_text(&q, id);
	if ((r = query_step(&q, err)) <= 0)
		return r;
	text = query_read_secret(&q, place);
	cert = query_read_strdup(&q);
	if ((r = query_read_end(&q, err)) < 0)
		return r;
	if (!text || !cert)
		return err_tag(err, -EUCLEAN, ERR_DATABASE_ERROR,
		               "the secret '%s' of the cluster is damaged", id);
	*ret = TAKE_PTR(text);
	*ret_cert = TAKE_PTR(cert);
	return 1;
}

int store_node_shared(struct store *s, const char *id, const char *mine, const char *cert,
                      char **ret, char **ret_cert, struct err *err)
{
	const struct secret_place place = { "node_keys.secret", id };
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if (*s->node) {
		if ((r = tx_begin(&t, s, err)) < 0 ||
		    (r = read_shared(s, id, ret, ret_cert, err)) != 0)
			return MIN(r, 0);
		if ((r = query_begin(&q, s,
		                     "INSERT INTO node_keys (id, secret, cert) VALUES ($1, $2, $3)",
		                     err)) < 0)
			return r;
		query_bind_text(&q, id);
		query_bind_secret(&q, place, mine);
		query_bind_text(&q, cert);
		if ((r = query_run(&q, err)) < 0)
			return r;
		query_done(&q);
		if ((r = tx_commit(&t, err)) < 0)
			return r;
	}
	*ret = strdup(mine);
	*ret_cert = strdup(cert);
	return *ret && *ret_cert ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* ---- clocks ---- */

int store_clock_ahead(struct store *s, int64_t *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int64_t before = clock_wall_ms(), theirs;
	int r;

	*ret = 0;
	if (!s->db->ops->clock)
		return 0;
	if ((r = query_begin(&q, s, s->db->ops->clock, err)) < 0 || (r = query_step(&q, err)) < 0)
		return r;
	theirs = query_read_i64(&q, 0, INT64_MAX);
	*ret = theirs - (before + (clock_wall_ms() - before) / 2);
	return query_read_end(&q, err);
}
