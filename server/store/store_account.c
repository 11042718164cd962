/* SPDX-License-Identifier: Apache-2.0 */
/* store_account.c - accounts and their quotas */
#include "store/store_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

static const struct col account_cols[] = {
	COL_AT(COL_TEXT, store_account, id, "id"),
	COL_AT(COL_TEXT, store_account, name, "name"),
	COL_AT(COL_I64, store_account, created_ms, "created_ms"),
	COL_AT(COL_BOOL, store_account, admin, "admin"),
	COL_AT(COL_I64, store_account, quota.vms, "quota_vms"),
	COL_AT(COL_I64, store_account, quota.running, "quota_running"),
	COL_AT(COL_I64, store_account, quota.vcpus, "quota_vcpus"),
	COL_AT(COL_I64, store_account, quota.mem_mb, "quota_mem_mb"),
	COL_AT(COL_I64, store_account, quota.disk_mb, "quota_disk_mb"),
	COL_AT(COL_I64, store_account, quota.snapshots, "quota_snapshots"),
	COL_AT(COL_I64, store_account, git_repos, "quota_git_repos"),
	COL_AT(COL_I64, store_account, git_mb, "quota_git_mb"),
};
static const struct table account_table = {
	.name = "accounts",
	.cols = account_cols,
	.n_cols = ARRAY_SIZE(account_cols),
	.row_size = sizeof(struct store_account),
	.missing_tag = ERR_NOT_FOUND,
	.noun = "account",
};

int run_text(struct store *s, const char *sql, const char *const *args, size_t n, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		query_bind_text(&q, args[i]);
	return query_run(&q, err);
}

int store_account_add(struct store *s, struct store_account *a, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_count(s, "SELECT COUNT(*) FROM accounts", NULL, err)) < 0)
		return r;
	a->admin = r == 0;
	a->created_ms = clock_wall_ms();
	if ((r = row_insert(s, &account_table, a, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_account_create(struct store *s, const char *account, const char *name, struct err *err)
{
	struct store_account a = STORE_ACCOUNT_NEW;

	if (strlen(account) >= sizeof(a.id) || strlen(name) >= sizeof(a.name))
		return err_set(err, -EINVAL, "a name has at most %zu bytes", sizeof(a.name) - 1);
	snprintf(a.id, sizeof(a.id), "%s", account);
	snprintf(a.name, sizeof(a.name), "%s", name);
	return store_account_add(s, &a, err);
}

int store_account_first(struct store *s, char ret_account[ACCOUNT_SIZE], struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &account_table, "ORDER BY created_ms, id LIMIT 1", NULL, 0, &rows, &n, err);
	if (r < 0)
		return r;
	if (n == 0)
		return err_set(err, -ENOENT, "there is no account yet");
	snprintf(ret_account, ACCOUNT_SIZE, "%s", ((struct store_account *)rows)->id);
	return 0;
}

int store_probe(struct store *s, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s, "UPDATE accounts SET name = name WHERE admin = 1", err)) < 0 ||
	    (r = query_run(&q, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int account_locked(struct store *s, const char *id, struct store_account *ret, struct err *err)
{
	return row_get(s, &account_table, id, ret, err);
}

int store_account_get(struct store *s, const char *id, struct store_account *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &account_table, id, ret, err);
}

int store_account_list(struct store *s, struct store_account **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &account_table, "ORDER BY created_ms, id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_account_update(struct store *s, const struct store_account *a, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_account row;
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = row_get(s, &account_table, a->id, &row, err)) < 0)
		return r;
	snprintf(row.name, sizeof(row.name), "%s", a->name);
	row.quota = a->quota;
	row.git_repos = a->git_repos;
	row.git_mb = a->git_mb;
	if ((r = row_update(s, &account_table, &row, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_account_delete(struct store *s, const char *id, struct err *err)
{
	static const char *const gone[] = {
		("DELETE FROM grants WHERE identity IN "
		 "(SELECT id FROM identities WHERE account = $1)"),
		"DELETE FROM identity_tokens WHERE account = $1",
		"DELETE FROM identities WHERE account = $1",
		"DELETE FROM domain_verifications WHERE account = $1",
		"DELETE FROM domains WHERE account = $1",
		"DELETE FROM domain_mappings WHERE account = $1",
		"DELETE FROM dns_records WHERE account = $1",
		"DELETE FROM git_credentials WHERE account = $1",
		("DELETE FROM github_repos WHERE installation IN (SELECT id FROM "
		 "github_installations WHERE account = $1 OR app IN "
		 "(SELECT id FROM github_apps WHERE account = $1))"),
		("DELETE FROM github_installations WHERE account = $1 OR app IN "
		 "(SELECT id FROM github_apps WHERE account = $1)"),
		("DELETE FROM github_deliveries WHERE app IN "
		 "(SELECT id FROM github_apps WHERE account = $1)"),
		"DELETE FROM github_links WHERE account = $1",
		"DELETE FROM github_apps WHERE account = $1",
		("DELETE FROM build_logs WHERE build_id IN "
		 "(SELECT id FROM builds WHERE account = $1)"),
		("DELETE FROM build_phases WHERE build_id IN "
		 "(SELECT id FROM builds WHERE account = $1)"),
		"DELETE FROM builds WHERE account = $1",
		"DELETE FROM hook_deliveries WHERE account = $1",
		"DELETE FROM hooks WHERE account = $1",
		"DELETE FROM script_runs WHERE account = $1",
		("DELETE FROM cron_attempts WHERE schedule IN "
		 "(SELECT id FROM cron_schedules WHERE account = $1)"),
		"DELETE FROM cron_executions WHERE account = $1",
		"DELETE FROM cron_schedules WHERE account = $1",
		"DELETE FROM deployments WHERE account = $1",
		"DELETE FROM feed WHERE account = $1",
		"DELETE FROM feed_marks WHERE account = $1",
		"DELETE FROM web_sessions WHERE account = $1 OR acting = $1",
		"DELETE FROM api_keys WHERE account = $1",
	};
	autotx struct tx t = { 0 };
	struct store_account row;
	int r, vms = 0, snaps = 0, repos = 0;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_get(s, &account_table, id, &row, err)) < 0 ||
	    (vms = query_count(s, "SELECT COUNT(*) FROM vms WHERE account = $1", id, err)) < 0 ||
	    (snaps = query_count(
	             s, "SELECT COUNT(*) FROM snapshots WHERE account = $1 AND deleted = 0", id,
	             err)) < 0 ||
	    (repos = query_count(s, "SELECT COUNT(*) FROM git_repos WHERE account = $1", id, err)) <
	            0)
		return MIN(MIN(r, repos), MIN(vms, snaps));
	if (vms || snaps || repos)
		return err_tag(err, -EBUSY, ERR_CONFLICT,
		               "account '%s' still has %d VMs, %d snapshots and %d repositories: "
		               "delete them first",
		               id, vms, snaps, repos);
	s->hooks_counted = false;
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		if ((r = run_text(s, gone[i], &id, 1, err)) < 0)
			return r;
	if ((r = row_delete(s, &account_table, id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_snapshot_count(struct store *s, const char *account, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return query_count(s,
	                   "SELECT COUNT(*) FROM snapshots WHERE account = $1 AND deleted = 0"
	                   " AND state <> 'lost'",
	                   account, err);
}
