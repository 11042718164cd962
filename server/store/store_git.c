/* SPDX-License-Identifier: Apache-2.0 */
/* store_git.c - owners and sizes of repositories, and their large files */
#include "store/store_git.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "store/store_internal.h"

static const struct col repo_cols[] = {
	COL_AT(COL_TEXT, store_repo, id, "id"),
	COL_AT(COL_TEXT, store_repo, account, "account"),
	COL_AT(COL_TEXT, store_repo, name, "name"),
	COL_AT(COL_BOOL, store_repo, is_public, "is_public"),
	COL_AT(COL_I64, store_repo, created_ms, "created_ms"),
	COL_AT(COL_I64, store_repo, pushed_ms, "pushed_ms"),
	COL_AT(COL_I64, store_repo, bytes, "bytes"),
	COL_AT(COL_TEXT, store_repo, node, "node"),
	COL_AT(COL_U64, store_repo, epoch, "epoch"),
	COL_AT(COL_U64, store_repo, version, "version"),
	COL_AT(COL_BOOL, store_repo, stored, "stored"),
};
const struct table git_repo_table = {
	.name = "git_repos",
	.cols = repo_cols,
	.n_cols = ARRAY_SIZE(repo_cols),
	.row_size = sizeof(struct store_repo),
	.missing_tag = ERR_REPOSITORY_NOT_FOUND,
	.noun = "repository",
};

static const struct col lfs_cols[] = {
	COL_AT(COL_TEXT, store_lfs, repo, "repo"),
	COL_AT(COL_TEXT, store_lfs, oid, "oid"),
	COL_AT(COL_TEXT, store_lfs, account, "account"),
	COL_AT(COL_I64, store_lfs, bytes, "bytes"),
};
static const struct table lfs_table = {
	.name = "git_lfs",
	.cols = lfs_cols,
	.n_cols = ARRAY_SIZE(lfs_cols),
	.row_size = sizeof(struct store_lfs),
	.noun = "large file",
};

int store_repo_add(struct store *s, const struct store_repo *r, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_repo row = *r;
	int rc;

	memcpy(row.node, s->node, sizeof(row.node));
	if ((rc = tx_begin(&t, s, err)) < 0 || (rc = row_insert(s, &git_repo_table, &row, err)) < 0)
		return rc;
	return tx_commit(&t, err);
}

int store_repo_claim(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = node_mark_locked(s,
	                          "UPDATE git_repos SET node = $1 WHERE id = $2 AND node = '' "
	                          "AND epoch = 0", /* not what was given up */
	                          id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_repo_get(struct store *s, const char *id, struct store_repo *ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	return row_get(s, &git_repo_table, id, ret, err);
}

int store_repo_set_public(struct store *s, const char *id, bool is_public, struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(&q, s, "UPDATE git_repos SET is_public = $1 WHERE id = $2", err)) < 0)
		return r;
	query_bind_i64(&q, is_public);
	query_bind_text(&q, id);
	if ((r = query_run(&q, err)) < 0)
		return r;
	if (r == 0)
		return row_missing(&git_repo_table, id, err);
	query_done(&q);
	return tx_commit(&t, err);
}

int store_repo_measured(struct store *s, const char *id, int64_t bytes, int64_t pushed_ms,
                        struct err *err)
{
	autotx struct tx t = { 0 };
	autoquery struct query q = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 ||
	    (r = query_begin(
	             &q, s,
	             "UPDATE git_repos SET bytes = CASE WHEN $1 < 0 THEN bytes ELSE $1 END, "
	             "pushed_ms = CASE WHEN pushed_ms < $2 THEN $2 ELSE pushed_ms END "
	             "WHERE id = $3",
	             err)) < 0)
		return r;
	query_bind_i64(&q, bytes);
	query_bind_i64(&q, pushed_ms);
	query_bind_text(&q, id);
	if ((r = query_run(&q, err)) < 0)
		return r;
	query_done(&q);
	return tx_commit(&t, err);
}

static int delete_locked(struct store *s, const char *id, struct err *err)
{
	int r;

	if ((r = grants_drop_locked(s, GRANT_GIT, id, err)) < 0 ||
	    (r = run_text(s, "DELETE FROM git_lfs WHERE repo = $1", &id, 1, err)) < 0 ||
	    (r = triggers_drop_locked(s, id, err)) < 0 || (r = sync_drop_locked(s, id, err)) < 0 ||
	    (r = packs_drop_locked(s, id, err)) < 0)
		return r;
	return row_delete(s, &git_repo_table, id, err);
}

int store_repo_delete(struct store *s, const char *id, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = repo_free_locked(s, id, err)) < 0 ||
	    (r = delete_locked(s, id, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int repos_lose_locked(struct store *s, const char *node, struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(s, &git_repo_table, "WHERE node = $1 AND stored = 0", &node, 1, &rows, &n,
	                 err);

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = delete_locked(s, ((const struct store_repo *)rows)[i].id, err);
	return MIN(r, 0);
}

/* A pattern for LIKE ... ESCAPE '\' that finds the text anywhere, in lower case: SQLite's LIKE does
 * not tell ASCII letters apart by case, PostgreSQL's does. */
static void like_anywhere(const char *text, struct buf *ret)
{
	buf_put_u8(ret, '%');
	for (; *text; text++) {
		if (strchr("%_\\", *text))
			buf_put_u8(ret, '\\');
		buf_put_u8(ret, (uint8_t)tolower((unsigned char)*text));
	}
	buf_put(ret, "%", 2);
}

static int count_repos(struct store *s, const char *account, const char *like, int64_t *ret,
                       struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "SELECT COUNT(*) FROM git_repos WHERE account = $1 AND "
	                    "(LOWER(name) LIKE $2 ESCAPE '\\' OR id LIKE $2 ESCAPE '\\')",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_text(&q, like);
	if ((r = query_step(&q, err)) < 0)
		return r;
	*ret = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

int store_repo_list(struct store *s, const char *account, const char *search, int64_t limit,
                    int64_t offset, struct store_repo **ret, size_t *ret_n, int64_t *ret_total,
                    struct err *err)
{
	autobuf struct buf like = { 0 };
	char lim[24], off[24];
	void *p = NULL;
	int r;

	like_anywhere(search ? search : "", &like);
	if (like.failed)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(lim, sizeof(lim), "%lld", (long long)limit);
	snprintf(off, sizeof(off), "%lld", (long long)offset);
	LOCK_SCOPE(&s->lock);
	if ((r = count_repos(s, account, (const char *)like.p, ret_total, err)) < 0)
		return r;
	const char *args[] = { account, (const char *)like.p, lim, off };
	r = row_list(
	        s, &git_repo_table,
	        "WHERE account = $1 "
	        "AND (LOWER(name) LIKE $2 ESCAPE '\\' OR id LIKE $2 ESCAPE '\\') "
	        "ORDER BY created_ms DESC, id LIMIT CAST($3 AS BIGINT) OFFSET CAST($4 AS BIGINT)",
	        args, 4, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

int store_repo_ids(struct store *s, struct store_repo **ret, size_t *ret_n, struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &git_repo_table, "ORDER BY id", NULL, 0, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}

static int sum(struct store *s, const char *sql, const char *account, int64_t *ret_n,
               int64_t *ret_sum, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, sql, err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	if ((r = query_step(&q, err)) < 0)
		return r;
	*ret_n = query_read_i64(&q, 0, INT64_MAX);
	*ret_sum = query_read_i64(&q, 0, INT64_MAX);
	return query_read_end(&q, err);
}

int store_repo_usage(struct store *s, const char *account, struct store_repo_usage *ret,
                     struct err *err)
{
	int64_t n;
	int r;

	LOCK_SCOPE(&s->lock);
	r = sum(s, "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM git_repos WHERE account = $1",
	        account, &ret->repos, &ret->bytes, err);
	if (r < 0)
		return r;
	return sum(s,
	           "SELECT COUNT(*), COALESCE(SUM(bytes), 0) FROM "
	           "(SELECT DISTINCT oid, bytes FROM git_lfs WHERE account = $1) AS f",
	           account, &n, &ret->lfs_bytes, err);
}

int store_lfs_get(struct store *s, const char *repo, const char *oid, struct store_lfs *ret,
                  struct err *err)
{
	const char *args[] = { repo, oid };
	autofree void *rows = NULL;
	size_t n = 0;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &lfs_table, "WHERE repo = $1 AND oid = $2", args, 2, &rows, &n, err);
	if (r < 0)
		return r;
	if (n == 0)
		return err_tag(err, -ENOENT, ERR_CONTENT_NOT_FOUND, "no large file '%.64s'", oid);
	memcpy(ret, rows, sizeof(*ret));
	return 0;
}

int store_lfs_add(struct store *s, const struct store_lfs *l, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0)
		return r;
	r = row_insert(s, &lfs_table, l, err);
	if (r == -EEXIST)
		return 0;
	return r < 0 ? r : tx_commit(&t, err);
}

int store_lfs_known(struct store *s, const char *account, const char *oid, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT 1 FROM git_lfs WHERE account = $1 AND oid = $2", err);

	if (r < 0)
		return r;
	query_bind_text(&q, account);
	query_bind_text(&q, oid);
	return query_step(&q, err);
}

int store_lfs_of(struct store *s, const char *repo, struct store_lfs **ret, size_t *ret_n,
                 struct err *err)
{
	void *p = NULL;
	int r;

	LOCK_SCOPE(&s->lock);
	r = row_list(s, &lfs_table, "WHERE repo = $1 ORDER BY oid", &repo, 1, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return r;
}
