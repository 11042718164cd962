/* SPDX-License-Identifier: Apache-2.0 */
/*
 * texts.c - which trees are kept as text
 *
 * A search looks here first. What is not there is left to git grep, and made in the background by
 * one thread, so that the next search finds it; the texts of a small repository are made at once,
 * which takes less time than a child to start. After a push, what was searched lately is made again
 * from what there is. All are kept by repository and hash of the tree: what is found is never out
 * of date, and after a crash there is nothing. When they cost more than the operator allows, those
 * that were not used for longest go.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "git/texts.h"

#define KEPT_MAX 256         /* trees */
#define KEPT_REPO 3          /* trees of one repository */
#define QUEUE_MAX 64         /* trees that wait to be made; more wait for their next search */
#define REFUSED_MAX 64       /* trees that are known to be too large */
#define MAKE_MS 120000       /* for one of them */
#define BLOB_MAX (64u << 20) /* bytes of a file that is read into memory */
#define SMALL_REPO (4 << 20) /* bytes on the disk of a repository whose texts are made at once */
#define SMALL_FILES 1000
#define SMALL_BYTES (8u << 20)
#define SMALL_MS 1000
#define FOLLOW_MS 1800000u /* since the last search; what nobody searches is not made again */

struct wanted {
	char repo[REPO_ID_SIZE];
	char rev[REPO_REF_SIZE];
};

struct text_cache {
	struct repos *g; /* weak */
	size_t max;      /* bytes; 0: nothing is kept */
	struct mutex lock;
	struct cond work;
	pthread_t maker;
	bool maker_runs;
	atomic_bool ending;
	struct texts *kept[KEPT_MAX] GUARDED_BY(lock);
	size_t n GUARDED_BY(lock), bytes GUARDED_BY(lock);
	struct wanted queue[QUEUE_MAX] GUARDED_BY(lock);
	size_t n_queue GUARDED_BY(lock);
	git_oid refused[REFUSED_MAX] GUARDED_BY(lock); /* a ring */
	size_t n_refused GUARDED_BY(lock);
};

/* ---- under the lock ---- */

static struct texts *find(struct text_cache *c, const char *repo, const git_oid *tree)
        REQUIRES(&c->lock)
{
	for (size_t i = 0; i < c->n; i++)
		if (git_oid_equal(&c->kept[i]->tree, tree) && strcmp(c->kept[i]->repo, repo) == 0)
			return c->kept[i];
	return NULL;
}

/* The one of a repository that was used last. */
static struct texts *newest(struct text_cache *c, const char *repo) REQUIRES(&c->lock)
{
	struct texts *t = NULL;

	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->kept[i]->repo, repo) == 0 && (!t || c->kept[i]->used_ms > t->used_ms))
			t = c->kept[i];
	return t;
}

static void put_ref(struct texts *t)
{
	if (--t->refs == 0)
		texts_free(t);
}

/* Who uses it continues using it. */
static void drop(struct text_cache *c, size_t i) REQUIRES(&c->lock)
{
	struct texts *t = c->kept[i];

	c->kept[i] = c->kept[--c->n];
	c->bytes -= t->bytes;
	put_ref(t);
}

/* The one that was used least lately: of a repository, or (NULL) of all. */
static void drop_oldest(struct text_cache *c, const char *repo) REQUIRES(&c->lock)
{
	size_t old = SIZE_MAX;

	for (size_t i = 0; i < c->n; i++)
		if ((!repo || strcmp(c->kept[i]->repo, repo) == 0) &&
		    (old == SIZE_MAX || c->kept[i]->used_ms < c->kept[old]->used_ms))
			old = i;
	if (old != SIZE_MAX)
		drop(c, old);
}

static size_t count(const struct text_cache *c, const char *repo) REQUIRES(&c->lock)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += strcmp(c->kept[i]->repo, repo) == 0;
	return n;
}

static void keep(struct text_cache *c, struct texts *t_consume) REQUIRES(&c->lock)
{
	struct texts *t = t_consume;

	/* Made twice at the same time; or its names alone are too many. */
	if (find(c, t->repo, &t->tree) || t->bytes > c->max) {
		put_ref(t);
		return;
	}
	while (c->n && (c->n == KEPT_MAX || c->bytes + t->bytes > c->max))
		drop_oldest(c, NULL);
	while (count(c, t->repo) >= KEPT_REPO)
		drop_oldest(c, t->repo);
	c->kept[c->n++] = t;
	c->bytes += t->bytes;
}

static bool is_refused(const struct text_cache *c, const git_oid *tree) REQUIRES(&c->lock)
{
	for (size_t i = 0; i < MIN(c->n_refused, (size_t)REFUSED_MAX); i++)
		if (git_oid_equal(&c->refused[i], tree))
			return true;
	return false;
}

static void want(struct text_cache *c, const char *repo, const char *rev) REQUIRES(&c->lock)
{
	struct wanted *w;

	for (size_t i = 0; i < c->n_queue; i++)
		if (!strcmp(c->queue[i].repo, repo) && !strcmp(c->queue[i].rev, rev))
			return;
	if (c->n_queue == QUEUE_MAX)
		return;
	w = &c->queue[c->n_queue++];
	snprintf(w->repo, sizeof(w->repo), "%s", repo);
	snprintf(w->rev, sizeof(w->rev), "%s", rev);
	cond_signal(&c->work);
}

/* ---- making ---- */

static int make(struct text_cache *c, const char *id, git_repository *repo, git_commit *commit,
                const char *rev, const struct texts *old, const struct texts_limits *l,
                struct texts **ret, struct err *err)
{
	char dir[PATH_MAX];
	int r;

	repos_path(c->g, "tmp", "", dir);
	r = texts_make(dir, repo, commit, old, l, ret, err);
	if (r < 0)
		return r;
	snprintf((*ret)->repo, sizeof((*ret)->repo), "%s", id);
	snprintf((*ret)->rev, sizeof((*ret)->rev), "%s", rev);
	(*ret)->used_ms = clock_ms();
	(*ret)->refs = 1;
	return 0;
}

/* In the background: what the revision is now. */
static void make_wanted(struct text_cache *c, const struct wanted *w)
{
	struct texts_limits l = { .files = TREE_ENTRIES_MAX,
		                  .bytes = c->max / 2,
		                  .blob = BLOB_MAX,
		                  .deadline = deadline_in(MAKE_MS),
		                  .ending = &c->ending };
	struct texts *old, *t = NULL;
	struct store_repo row;
	struct err err = { 0 };
	autocommit *commit = NULL;
	autorepo *repo = NULL;
	bool known;
	int r;

	if (store_repo_get(c->g->store, w->repo, &row, &err) < 0 ||
	    repo_open(c->g, &row, &repo, &err) < 0 || rev_commit(repo, w->rev, &commit, &err) < 0)
		return;
	mutex_lock(&c->lock);
	known = find(c, w->repo, git_commit_tree_id(commit)) ||
	        is_refused(c, git_commit_tree_id(commit));
	old = newest(c, w->repo);
	if (old)
		old->refs++;
	mutex_unlock(&c->lock);
	r = known ? 0 : make(c, w->repo, repo, commit, w->rev, old, &l, &t, &err);
	mutex_lock(&c->lock);
	if (t)
		keep(c, t);
	if (r == -EFBIG || r == -ETIMEDOUT)
		c->refused[c->n_refused++ % REFUSED_MAX] = *git_commit_tree_id(commit);
	if (old)
		put_ref(old);
	mutex_unlock(&c->lock);
	if (r < 0)
		log_debug("repository %s: texts are not cached: %s", w->repo, err.msg);
}

static void *maker_main(void *arg)
{
	struct text_cache *c = arg;
	struct wanted w;

	mutex_lock(&c->lock);
	for (;;) {
		while (!atomic_load(&c->ending) && c->n_queue == 0)
			cond_wait(&c->work, &c->lock);
		if (atomic_load(&c->ending))
			break;
		w = c->queue[0];
		memmove(c->queue, c->queue + 1, --c->n_queue * sizeof(*c->queue));
		mutex_unlock(&c->lock);
		make_wanted(c, &w);
		mutex_lock(&c->lock);
	}
	mutex_unlock(&c->lock);
	return NULL;
}

/* ---- what others ask ---- */

struct texts *texts_find(struct text_cache *c, const struct store_repo *r, git_repository *repo,
                         git_commit *commit, const char *rev, const struct repo_client *by)
{
	struct texts_limits small = { .files = SMALL_FILES,
		                      .bytes = MIN((size_t)SMALL_BYTES, c->max / 2),
		                      .blob = SMALL_BYTES,
		                      .deadline = deadline_in(SMALL_MS),
		                      .client = by };
	struct texts *t;
	struct err err;
	bool refused;

	if (c->max == 0)
		return NULL;
	mutex_lock(&c->lock);
	t = find(c, r->id, git_commit_tree_id(commit));
	if (t) {
		t->used_ms = clock_ms();
		t->refs++;
	}
	refused = is_refused(c, git_commit_tree_id(commit));
	mutex_unlock(&c->lock);
	if (t || refused)
		return t;
	if (r->bytes <= SMALL_REPO)
		make(c, r->id, repo, commit, rev ? rev : "", NULL, &small, &t, &err);
	mutex_lock(&c->lock);
	if (t) {
		t->refs++;
		keep(c, t);
	} else {
		want(c, r->id, rev ? rev : "");
	}
	mutex_unlock(&c->lock);
	return t;
}

void texts_unref(struct text_cache *c, struct texts *t)
{
	if (!t)
		return;
	LOCK_SCOPE(&c->lock);
	put_ref(t);
}

void texts_follow(struct text_cache *c, const char *repo)
{
	const struct texts *t;

	LOCK_SCOPE(&c->lock);
	t = newest(c, repo);
	if (t && clock_ms() - t->used_ms < FOLLOW_MS)
		want(c, repo, t->rev);
}

void texts_forget(struct text_cache *c, const char *repo)
{
	LOCK_SCOPE(&c->lock);
	while (count(c, repo))
		drop_oldest(c, repo);
}

int text_cache_new(struct repos *g, struct text_cache **ret, struct err *err)
{
	struct text_cache *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->g = g;
	c->max = (size_t)g->conf.search_mb << 20;
	mutex_init(&c->lock, "git texts");
	cond_init(&c->work);
	r = pthread_create(&c->maker, NULL, maker_main, c);
	c->maker_runs = r == 0;
	if (r != 0) {
		text_cache_free(c);
		return err_sys(err, -r, "start a thread");
	}
	*ret = c;
	return 0;
}

struct text_cache *text_cache_free(struct text_cache *c)
{
	if (!c)
		return NULL;
	if (c->maker_runs) {
		mutex_lock(&c->lock);
		atomic_store(&c->ending, true);
		cond_signal(&c->work);
		mutex_unlock(&c->lock);
		pthread_join(c->maker, NULL);
	}
	mutex_unshared(&c->lock);
	while (c->n)
		drop(c, c->n - 1);
	cond_destroy(&c->work);
	mutex_destroy(&c->lock);
	free(c);
	return NULL;
}
