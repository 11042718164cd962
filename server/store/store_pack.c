/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_pack.c - references and packs of repositories that are stored
 *
 * Whatever changes them first makes sure, in its transaction, that the node's generation is that of
 * this process, and that the repository has this node, the epoch and the version that its owner
 * knows. So a node that lost a repository changes nothing, however late its transaction comes, and
 * two of one node never build on the same version. References are compared with what a push expects
 * here, because Git compares them only after that.
 *
 * Large files (Git LFS) are files of the node that received them and nothing else: a repository
 * that has some stays with it.
 *
 * A pack's row is there before its first object, and its objects become garbage in the transaction
 * that deletes the row.
 */
#include "store/store_pack.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/store_internal.h"

static const struct col pack_cols[] = {
	COL_AT(COL_TEXT, store_pack, id, "id"),
	COL_AT(COL_TEXT, store_pack, repo, "repo"),
	COL_AT(COL_TEXT, store_pack, account, "account"),
	COL_AT(COL_TEXT, store_pack, node, "node"),
	COL_AT(COL_U64, store_pack, bytes, "bytes"),
	COL_AT(COL_U32, store_pack, chunks, "chunks"),
	COL_AT(COL_U64, store_pack, version, "version"),
};
static const struct table pack_table = {
	.name = "git_packs",
	.cols = pack_cols,
	.n_cols = ARRAY_SIZE(pack_cols),
	.row_size = sizeof(struct store_pack),
	.noun = "pack",
};

#define NO_LARGE "NOT EXISTS (SELECT 1 FROM git_lfs WHERE git_lfs.repo = git_repos.id)"

static bool is_zero(const char *sha)
{
	return sha[strspn(sha, "0")] == '\0';
}

/* ---- packs ---- */

const char *pack_object_name(const char *id, char buf[STORE_OBJECT_SIZE])
{
	snprintf(buf, STORE_OBJECT_SIZE, "packs/%s", id);
	return buf;
}

int store_pack_begin(struct store *s, const struct store_pack *p, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_pack row = *p;
	int r;

	memcpy(row.node, s->node, sizeof(row.node));
	row.version = 0;
	if ((r = tx_begin(&t, s, err)) < 0 || (r = row_insert(s, &pack_table, &row, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

/* Their rows go, and their objects are garbage from now on. */
static int drop_where(struct store *s, const char *tail, const char *const *args, size_t n_args,
                      struct err *err)
{
	autofree void *rows = NULL;
	size_t n = 0;
	int r = row_list(s, &pack_table, tail, args, n_args, &rows, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		const struct store_pack *p = (const struct store_pack *)rows + i;
		char name[STORE_OBJECT_SIZE];

		r = object_garbage_locked(s, pack_object_name(p->id, name), p->chunks,
		                          clock_wall_ms(), err);
		if (r >= 0)
			r = row_delete(s, &pack_table, p->id, err);
	}
	return MIN(r, 0);
}

static int drop(struct store *s, const char *tail, const char *arg, struct err *err)
{
	autotx struct tx t = { 0 };
	int r;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = drop_where(s, tail, &arg, 1, err)) < 0)
		return r;
	return tx_commit(&t, err);
}

int store_pack_drop(struct store *s, const char *id, struct err *err)
{
	return drop(s, "WHERE id = $1 AND version = 0", id, err);
}

int store_packs_recover(struct store *s, struct err *err)
{
	return drop(s, "WHERE node = $1 AND version = 0", s->node, err);
}

int packs_drop_locked(struct store *s, const char *repo, struct err *err)
{
	int r = run_text(s, "DELETE FROM git_refs WHERE repo = $1", &repo, 1, err);

	return r < 0 ? r : drop_where(s, "WHERE repo = $1", &repo, 1, err);
}

int store_packs_since(struct store *s, const char *repo, uint64_t version, struct store_pack **ret,
                      size_t *ret_n, struct err *err)
{
	char since[24];
	const char *args[] = { repo, since };
	void *p = NULL;
	int r;

	snprintf(since, sizeof(since), "%llu", (unsigned long long)version);
	LOCK_SCOPE(&s->lock);
	r = row_list(s, &pack_table,
	             "WHERE repo = $1 AND version > CAST($2 AS BIGINT) ORDER BY version, id", args,
	             2, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return MIN(r, 0);
}

/* ---- references ---- */

void store_refs_done(struct store_refs *r)
{
	free(r->v);
	free(r->head);
	free(r->shallow);
	*r = (struct store_refs){ 0 };
}

static int read_head(struct store *s, const char *repo, struct store_refs *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s, "SELECT head, shallow FROM git_repos WHERE id = $1", err);

	if (r < 0)
		return r;
	query_bind_text(&q, repo);
	if ((r = query_step(&q, err)) <= 0)
		return r < 0 ? r : row_missing(&git_repo_table, repo, err);
	ret->head = query_read_strdup(&q);
	ret->shallow = query_read_strdup(&q);
	if (!ret->head || !ret->shallow)
		return err_set(err, -ENOMEM, "out of memory");
	return query_read_end(&q, err);
}

static int read_refs(struct store *s, const char *repo, struct store_refs *ret, struct err *err)
{
	autoquery struct query q = { 0 };
	size_t cap = 0;
	int r = query_begin(&q, s,
	                    "SELECT name, target FROM git_refs WHERE repo = $1 ORDER BY name", err);

	if (r < 0)
		return r;
	query_bind_text(&q, repo);
	while ((r = query_step(&q, err)) > 0) {
		if (ret->n == cap) {
			void *p = reallocarray(ret->v, cap ? 2 * cap : 16, sizeof(*ret->v));

			if (!p)
				return err_set(err, -ENOMEM, "out of memory");
			ret->v = p;
			cap = cap ? 2 * cap : 16;
		}
		query_read_text(&q, ret->v[ret->n].name, STORE_REF_SIZE);
		query_read_text(&q, ret->v[ret->n++].target, STORE_SHA_SIZE);
	}
	return r < 0 ? r : query_read_end(&q, err);
}

int store_refs_get(struct store *s, const char *repo, struct store_refs *ret, struct err *err)
{
	int r;

	*ret = (struct store_refs){ 0 };
	LOCK_SCOPE(&s->lock);
	if ((r = read_head(s, repo, ret, err)) < 0 || (r = read_refs(s, repo, ret, err)) < 0)
		store_refs_done(ret);
	return r;
}

/* 1: it is at that hash; 0: elsewhere, or not there. */
static int is_at(struct store *s, const char *repo, const char *name, const char *sha,
                 struct err *err)
{
	autoquery struct query q = { 0 };
	char now[STORE_SHA_SIZE] = "";
	int r = query_begin(&q, s, "SELECT target FROM git_refs WHERE repo = $1 AND name = $2",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, repo);
	query_bind_text(&q, name);
	if ((r = query_step(&q, err)) < 0)
		return r;
	if (r == 0)
		return is_zero(sha);
	query_read_text(&q, now, sizeof(now));
	return (r = query_read_end(&q, err)) < 0 ? r : strcmp(now, sha) == 0;
}

static int move_ref(struct store *s, const char *repo, const struct store_ref_move *m,
                    struct err *err)
{
	const char *args[] = { repo, m->name, m->to };
	int r = is_at(s, repo, m->name, m->was, err);

	if (r == 0)
		return err_tag(err, -EEXIST, ERR_CONFLICT,
		               "'%.200s' has moved meanwhile: fetch first", m->name);
	if (r > 0)
		r = is_zero(m->to)
		            ? run_text(s, "DELETE FROM git_refs WHERE repo = $1 AND name = $2",
		                       args, 2, err)
		            : run_text(s,
		                       "INSERT INTO git_refs (repo, name, target) VALUES ($1, $2, "
		                       "$3) ON CONFLICT (repo, name) DO UPDATE SET target = "
		                       "excluded.target",
		                       args, 3, err);
	return MIN(r, 0);
}

/* ---- writing ---- */

static int changed(const char *id, struct err *err)
{
	return err_tag(err, -ESTALE, ERR_NODE_UNAVAILABLE,
	               "repository %s has changed hands: nothing was stored; try again", id);
}

/* Still this node's, in that version: which becomes the next one. */
static int raise_version(struct store *s, const struct store_repo_write *w, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE git_repos SET version = version + $1, stored = 1 "
	                    "WHERE id = $2 AND node = $3 AND epoch = $4 AND version = $5 "
	                    "AND (stored = 1 OR $6 = 1)",
	                    err);

	if (r < 0)
		return r;
	query_bind_i64(&q, w->repack ? 0 : 1);
	query_bind_text(&q, w->repo->id);
	query_bind_text(&q, s->node);
	query_bind_i64(&q, (int64_t)w->repo->epoch);
	query_bind_i64(&q, (int64_t)w->repo->version);
	query_bind_i64(&q, w->all);
	r = query_run(&q, err);
	return r == 0 ? changed(w->repo->id, err) : MIN(r, 0);
}

static int join_pack(struct store *s, const char *id, uint64_t version, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE git_packs SET version = $1 WHERE id = $2 AND version = 0", err);

	if (r < 0)
		return r;
	query_bind_i64(&q, (int64_t)version);
	query_bind_text(&q, id);
	r = query_run(&q, err);
	return r == 0 ? err_set(err, -ESTALE, "pack %s is gone: nothing was stored", id)
	              : MIN(r, 0);
}

static int set_text(struct store *s, const char *sql, const char *value, const char *id,
                    struct err *err)
{
	const char *args[] = { value, id };
	int r = value ? run_text(s, sql, args, 2, err) : 0;

	return MIN(r, 0);
}

int store_repo_write(struct store *s, const struct store_repo_write *w, uint64_t *ret_version,
                     struct err *err)
{
	uint64_t version = w->repo->version + (w->repack ? 0 : 1);
	const char *id = w->repo->id;
	autotx struct tx t = { 0 };
	int r;

	assert(!(w->all && w->repack));
	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_holds_locked(s, err)) < 0 ||
	    (r = raise_version(s, w, err)) < 0)
		return r;
	if (w->all || w->repack) /* but not what is on its way: the new one */
		r = drop_where(s, "WHERE repo = $1 AND version > 0", &id, 1, err);
	if (r >= 0 && w->all)
		r = run_text(s, "DELETE FROM git_refs WHERE repo = $1", &id, 1, err);
	if (r >= 0 && w->pack)
		r = join_pack(s, w->pack, version, err);
	for (size_t i = 0; r >= 0 && i < w->n_moves; i++)
		r = move_ref(s, id, &w->moves[i], err);
	if (r < 0 ||
	    (r = set_text(s, "UPDATE git_repos SET head = $1 WHERE id = $2", w->head, id, err)) <
	            0 ||
	    (r = set_text(s, "UPDATE git_repos SET shallow = $1 WHERE id = $2", w->shallow, id,
	                  err)) < 0)
		return r;
	if ((r = tx_commit(&t, err)) < 0)
		return r;
	*ret_version = version;
	return 0;
}

/* ---- whose it is ---- */

int repo_free_locked(struct store *s, const char *repo, struct err *err)
{
	struct store_repo row;
	int r;

	if (!*s->node)
		return 0;
	if ((r = node_holds_locked(s, err)) < 0 ||
	    (r = row_get(s, &git_repo_table, repo, &row, err)) < 0 ||
	    (r = node_gone_locked(s, row.node, err)) < 0)
		return r;
	return r > 0 ? 0 : changed(repo, err);
}

int repos_give_up_locked(struct store *s, const char *node, struct err *err)
{
	int r = run_text(s,
	                 "UPDATE git_repos SET node = '', epoch = epoch + 1 "
	                 "WHERE node = $1 AND stored = 1 AND " NO_LARGE,
	                 &node, 1, err);

	return MIN(r, 0);
}

static int take_locked(struct store *s, const struct store_repo *row, struct err *err)
{
	autoquery struct query q = { 0 };
	int r = query_begin(&q, s,
	                    "UPDATE git_repos SET node = $1, epoch = epoch + 1 "
	                    "WHERE id = $2 AND node = $3 AND epoch = $4",
	                    err);

	if (r < 0)
		return r;
	query_bind_text(&q, s->node);
	query_bind_text(&q, row->id);
	query_bind_text(&q, row->node);
	query_bind_i64(&q, (int64_t)row->epoch);
	r = query_run(&q, err);
	return r == 0 ? changed(row->id, err) : MIN(r, 0);
}

static int not_yet(const struct store_repo *row, bool alive, struct err *err)
{
	if (!alive && row->stored)
		return err_tag(err, -EAGAIN, ERR_NODE_UNAVAILABLE,
		               "only node %s has the large files of repository %s, and it is not "
		               "there",
		               row->node, row->id);
	return err_tag(err, -EAGAIN, ERR_NODE_UNAVAILABLE,
	               alive ? "repository %s is on another node: ask that one"
	                     : "repository %s is only on node %s, which is not there",
	               row->id, row->node);
}

int store_repo_take(struct store *s, const char *id, struct store_repo *ret, struct err *err)
{
	autotx struct tx t = { 0 };
	struct store_repo row;
	int r, large = 0;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_holds_locked(s, err)) < 0 ||
	    (r = row_get(s, &git_repo_table, id, &row, err)) < 0)
		return r;
	if (strcmp(row.node, s->node) == 0) {
		*ret = row;
		return 0;
	}
	if ((r = node_gone_locked(s, row.node, err)) < 0)
		return r;
	if (r > 0 && *row.node)
		large = query_count(s, "SELECT COUNT(*) FROM git_lfs WHERE repo = $1", id, err);
	if (large < 0)
		return large;
	if (r == 0 || !row.stored || large)
		return not_yet(&row, r == 0, err);
	/* What was on its way there does not arrive: its transaction has an old epoch. */
	if ((r = take_locked(s, &row, err)) < 0 ||
	    (r = drop_where(s, "WHERE repo = $1 AND version = 0", &id, 1, err)) < 0 ||
	    (r = row_get(s, &git_repo_table, id, &row, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	*ret = row;
	return 0;
}

/* Of this node's, one that is stored. */
static int change_own(struct store *s, const char *sql, const char *id, struct err *err)
{
	const char *args[] = { id, s->node };
	autotx struct tx t = { 0 };
	int r, k;

	if ((r = tx_begin(&t, s, err)) < 0 || (r = node_holds_locked(s, err)) < 0 ||
	    (k = r = run_text(s, sql, args, 2, err)) < 0 || (r = tx_commit(&t, err)) < 0)
		return r;
	return k;
}

int store_repo_give_up(struct store *s, const char *id, struct err *err)
{
	return change_own(s,
	                  "UPDATE git_repos SET node = '', epoch = epoch + 1 "
	                  "WHERE id = $1 AND node = $2 AND stored = 1 AND " NO_LARGE,
	                  id, err);
}

int store_repo_unstore(struct store *s, const char *id, struct err *err)
{
	return change_own(s,
	                  "UPDATE git_repos SET stored = 0 "
	                  "WHERE id = $1 AND node = $2 AND stored = 1",
	                  id, err);
}

int store_repos_own(struct store *s, bool stored, const char *after, unsigned limit,
                    struct store_repo **ret, size_t *ret_n, struct err *err)
{
	char lim[16];
	const char *args[] = { s->node, stored ? "1" : "0", after, lim };
	void *p = NULL;
	int r;

	snprintf(lim, sizeof(lim), "%u", limit);
	LOCK_SCOPE(&s->lock);
	r = row_list(s, &git_repo_table,
	             "WHERE node = $1 AND stored = CAST($2 AS BIGINT) AND id > $3 "
	             "ORDER BY id LIMIT CAST($4 AS BIGINT)",
	             args, 4, &p, ret_n, err);
	if (r >= 0)
		*ret = p;
	return MIN(r, 0);
}
