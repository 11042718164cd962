/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_domain.c - names and where they lead
 *
 * A name has at most one mapping, the first one; the table's key ensures this. Mappings are deleted
 * with their VM in the transaction that deletes it (mappings_drop_locked()).
 */
#include "store/store_domain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/store_internal.h"

static const struct col verification_cols[] = {
	COL_AT(COL_TEXT, store_verification, id, "id"),
	COL_AT(COL_TEXT, store_verification, account, "account"),
	COL_AT(COL_TEXT, store_verification, domain, "domain"),
	COL_AT(COL_TEXT, store_verification, code, "code"),
	COL_AT(COL_I64, store_verification, created_ms, "created_ms"),
};
static const struct table verification_table = {
	.name = "domain_verifications",
	.cols = verification_cols,
	.n_cols = ARRAY_SIZE(verification_cols),
	.row_size = sizeof(struct store_verification),
	.missing_tag = ERR_VERIFICATION_NOT_FOUND,
	.noun = "verification",
};

static const struct col domain_cols[] = {
	COL_AT(COL_TEXT, store_domain, domain, "domain"),
	COL_AT(COL_TEXT, store_domain, id, "id"),
	COL_AT(COL_TEXT, store_domain, account, "account"),
	COL_AT(COL_I64, store_domain, created_ms, "created_ms"),
	COL_AT(COL_BOOL, store_domain, wildcard, "wildcard"),
};
static const struct table domain_table = {
	.name = "domains",
	.cols = domain_cols,
	.n_cols = ARRAY_SIZE(domain_cols),
	.row_size = sizeof(struct store_domain),
	.missing_tag = ERR_NO_DOMAIN_OWNERSHIP,
	.noun = "domain",
};

static const struct col mapping_cols[] = {
	COL_AT(COL_TEXT, store_mapping, domain, "domain"),
	COL_AT(COL_TEXT, store_mapping, id, "id"),
	COL_AT(COL_TEXT, store_mapping, account, "account"),
	COL_AT(COL_TEXT, store_mapping, vm, "vm"),
	COL_AT(COL_U32, store_mapping, port, "port"),
	COL_AT(COL_REF, store_mapping, ownership, "ownership"),
	COL_AT(COL_I64, store_mapping, created_ms, "created_ms"),
	COL_AT(COL_U32, store_mapping, speaks, "speaks"),
	COL_AT(COL_TEXT, store_mapping, deployment, "deployment"),
};
static const struct table mapping_table = {
	.name = "domain_mappings",
	.cols = mapping_cols,
	.n_cols = ARRAY_SIZE(mapping_cols),
	.row_size = sizeof(struct store_mapping),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "mapping",
};

static int too_many(const char *what, struct err *err)
{
	err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED, "an account has at most %d %s",
	        DOMAINS_PER_ACCOUNT, what);
	err_fact(err, "limit", DOMAINS_PER_ACCOUNT);
	return -EDQUOT;
}

/* ---- verifications ---- */

static int verification_find(struct store *s, const char *account, const char *key,
                             struct store_verification *ret, struct err *err)
{
	const char *args[] = { account, key };
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(s, &verification_table, "WHERE account = $1 AND (id = $2 OR domain = $2)",
	                 args, 2, &rows, &n, err);

	if (r < 0)
		return r;
	if (n == 0)
		return row_missing(&verification_table, key, err);
	memcpy(ret, rows, sizeof(*ret));
	return 0;
}

int store_verification_add(struct store *s, const struct store_verification *v,
                           struct store_verification *ret, struct err *err)
{
	autotx struct tx t = { 0 };
	struct err none = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0)
		return r;
	if (verification_find(s, v->account, v->domain, ret, &none) == 0)
		return 0;
	r = query_count(s, "SELECT COUNT(*) FROM domain_verifications WHERE account = $1",
	                v->account, err);
	if (r >= DOMAINS_PER_ACCOUNT)
		return too_many("verifications", err);
	if (r < 0 || (r = row_insert(s, &verification_table, v, err)) < 0)
		return r;
	*ret = *v;
	return tx_commit(&t, err);
}

int store_verification_get(struct store *s, const char *account, const char *id_or_domain,
                           struct store_verification *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return verification_find(s, account, id_or_domain, ret, err);
}

int store_verification_list(struct store *s, const char *account, struct store_verification **ret,
                            size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &verification_table, "WHERE account = $1 ORDER BY created_ms DESC, id",
	             &account, 1, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_verification_delete(struct store *s, const char *id, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_delete(s, &verification_table, id, err);
}

/* ---- verified domains ---- */

static bool below(const char *name, const char *domain)
{
	size_t n = strlen(name), d = strlen(domain);

	return n >= d && strcmp(name + n - d, domain) == 0 && (n == d || name[n - d - 1] == '.');
}

/* Names below the domain that belong to other accounts. */
static int unmap_others(struct store *s, const char *domain, const char *account, struct err *err)
{
	autofree void *rows = NULL;
	const struct store_mapping *m;
	size_t n = 0;
	int r = row_list(s, &mapping_table, "WHERE account <> $1", &account, 1, &rows, &n, err);

	m = rows;
	for (size_t i = 0; r >= 0 && i < n; i++)
		if (below(m[i].domain, domain))
			r = row_delete(s, &mapping_table, m[i].domain, err);
	return r;
}

int store_domain_own(struct store *s, const struct store_verification *v, struct err *err)
{
	struct store_domain d = { .created_ms = v->created_ms }, old;
	autotx struct tx t = { 0 };
	struct err none = { 0 };
	int r;

	snprintf(d.domain, sizeof(d.domain), "%s", v->domain);
	snprintf(d.account, sizeof(d.account), "%s", v->account);
	id_make("dom-", d.id);
	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_delete(s, &verification_table, v->id, err)) < 0)
		return r;
	if (row_get(s, &domain_table, v->domain, &old, &none) == 0) {
		if (strcmp(old.account, v->account) == 0)
			return tx_commit(&t, err);
		if ((r = row_delete(s, &domain_table, v->domain, err)) < 0 ||
		    (r = records_drop_locked(s, v->domain, err)) < 0)
			return r;
	}
	if ((r = row_insert(s, &domain_table, &d, err)) < 0 ||
	    (r = unmap_others(s, v->domain, v->account, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_domain_list(struct store *s, const char *account, struct store_domain **ret,
                      size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &domain_table,
	             account ? "WHERE account = $1 ORDER BY created_ms DESC, id"
	                     : "ORDER BY created_ms DESC, id",
	             &account, account ? 1 : 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_domain_above(struct store *s, const char *name, struct store_domain *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	for (const char *p = name; p; p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL) {
		int r = row_get(s, &domain_table, p, ret, err);

		if (r != -ENOENT)
			return r;
	}
	return row_missing(&domain_table, name, err);
}

int store_domain_wildcard(struct store *s, const char *domain, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return run_text(s, "UPDATE domains SET wildcard = 1 WHERE domain = $1", &domain, 1, err);
}

/* ---- mappings ---- */

/* What it is to lead to. */
static int target_there(struct store *s, const struct store_mapping *m, struct err *err)
{
	bool deployment = *m->deployment;
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    deployment ? "SELECT 1 FROM deployments WHERE id = $1 AND account = $2"
	                               : "SELECT 1 FROM vms WHERE id = $1 AND account = $2",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, deployment ? m->deployment : m->vm);
	query_bind_text(&q, m->account);
	r = query_step(&q, err);
	if (r)
		return MIN(r, 0);
	return deployment ? err_tag(err, -ENOENT, ERR_DEPLOYMENT_NOT_FOUND, "no deployment '%.60s'",
	                            m->deployment)
	                  : err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%.60s'", m->vm);
}

static int tell_mapping(struct store *s, const char *type, const struct store_mapping *m,
                        struct err *err)
{
	if (*m->deployment)
		return feed_tell_locked(
		        s, m->account, type, "", "domain",
		        json_pack("{s:s, s:s}", "domain", m->domain, "deploymentId", m->deployment),
		        err);
	return feed_tell_locked(s, m->account, type, m->vm, "domain",
	                        json_pack("{s:s, s:s, s:i}", "domain", m->domain, "vmId", m->vm,
	                                  "vmPort", (int)m->port),
	                        err);
}

static int drop(struct store *s, const char *list, const char *delete, const char *id,
                struct err *err)
{
	void *p = NULL;
	size_t n = 0;
	int r = row_list(s, &mapping_table, list, &id, 1, &p, &n, err);
	const struct store_mapping *m = p;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = tell_mapping(s, "domain.unmapped", &m[i], err);
	if (r >= 0 && n)
		r = run_text(s, delete, &id, 1, err);
	free(p);
	return r;
}

int mappings_drop_locked(struct store *s, const char *vm, struct err *err)
{
	return drop(s, "WHERE vm = $1 ORDER BY created_ms, domain",
	            "DELETE FROM domain_mappings WHERE vm = $1", vm, err);
}

int mappings_drop_deploy_locked(struct store *s, const char *deployment, struct err *err)
{
	return drop(s, "WHERE deployment = $1 ORDER BY created_ms, domain",
	            "DELETE FROM domain_mappings WHERE deployment = $1", deployment, err);
}

int store_mapping_put(struct store *s, const struct store_mapping *m, struct store_mapping *ret,
                      struct err *err)
{
	struct store_mapping row = *m, old;
	autotx struct tx t = { 0 };
	struct err none = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = target_there(s, m, err)) < 0)
		return r;
	if (row_get(s, &mapping_table, m->domain, &old, &none) == 0) {
		if (strcmp(old.account, m->account) != 0)
			return err_tag(err, -EEXIST, ERR_DOMAIN_ALREADY_EXISTS,
			               "'%s' belongs to another account", m->domain);
		snprintf(row.id, sizeof(row.id), "%s", old.id);
		row.created_ms = old.created_ms;
		r = row_update(s, &mapping_table, &row, err);
	} else {
		r = query_count(s, "SELECT COUNT(*) FROM domain_mappings WHERE account = $1",
		                m->account, err);
		if (r >= DOMAINS_PER_ACCOUNT)
			return too_many("mappings", err);
		if (r >= 0)
			r = row_insert(s, &mapping_table, &row, err);
	}
	if (r < 0 || (r = tell_mapping(s, "domain.mapped", &row, err)) < 0 ||
	    (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = row;
	return 0;
}

int store_mapping_get(struct store *s, const char *domain, struct store_mapping *ret,
                      struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &mapping_table, domain, ret, err);
}

int store_mapping_list(struct store *s, const char *account, struct store_mapping **ret,
                       size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &mapping_table,
	             account ? "WHERE account = $1 ORDER BY created_ms DESC, domain"
	                     : "ORDER BY created_ms DESC, domain",
	             &account, account ? 1 : 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_mapping_delete(struct store *s, const char *account, const char *domain, struct err *err)
{
	const char *args[] = { domain, account };
	autotx struct tx t = { 0 };
	struct store_mapping m;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_get(s, &mapping_table, domain, &m, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM domain_mappings WHERE domain = $1 AND account = $2", args,
	                  2, err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&mapping_table, domain, err);
	if ((r = tell_mapping(s, "domain.unmapped", &m, err)) < 0)
		return r;
	return tx_commit(&t, err);
}
