/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shared.c - whose a repository is, who may write to it, and whether its copy here is up to date
 *
 * A reader looks at three numbers that the row it has just read says: node, epoch, version. If this
 * process knows its copy to be at least that, it goes on; that is a look into a table. Else it
 * takes the slot, reads the row again, takes the repository over if its owner is gone (one
 * transaction), fetches what is missing and goes on. A writer holds the slot from before it looks
 * at references until they have moved. So between the transaction that stores a push and the moves
 * here nobody else decides anything, and a copy is behind only after a crash or on another node.
 *
 * A thread stores what is not stored yet (repositories of before there was an object store), and
 * gives up what is, while the node is drained.
 */
#include "git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "store/store_node.h"

#define BUCKETS 1024u
#define SLOT_MS 600000      /* for others to write */
#define TICK_MS 2000u       /* between two looks of the thread */
#define AGAIN_MS 1000u      /* the first pause after a failure */
#define AGAIN_MAX_MS 60000u /* the longest */
#define AT_ONCE 64u         /* repositories of one look */
#define UNKNOWN UINT64_MAX

struct copy {
	struct copy *next;
	char id[REPO_ID_SIZE];
	bool busy; /* somebody has the slot */
	pthread_t by;
	uint64_t epoch, version; /* of what is here; UNKNOWN */
};

struct shared {
	struct mutex lock;
	struct cond free, work;
	struct copy *copies[BUCKETS] GUARDED_BY(lock); /* owned */
	bool ending GUARDED_BY(lock);
	pthread_t thread;
	bool has_thread;
};

/* ---- the table ---- */

static unsigned bucket_of(const char *id)
{
	unsigned h = 5381;

	for (; *id; id++)
		h = h * 33 + (unsigned char)*id;
	return h % BUCKETS;
}

static struct copy *find(struct shared *s, const char *id) REQUIRES(s->lock);
static struct copy *find(struct shared *s, const char *id)
{
	struct copy *c = s->copies[bucket_of(id)];

	while (c && strcmp(c->id, id) != 0)
		c = c->next;
	return c;
}

static struct copy *find_or_add(struct shared *s, const char *id) REQUIRES(s->lock);
static struct copy *find_or_add(struct shared *s, const char *id)
{
	struct copy *c = find(s, id);

	if (!c && (c = calloc(1, sizeof(*c)))) {
		snprintf(c->id, sizeof(c->id), "%s", id);
		c->version = UNKNOWN;
		c->next = s->copies[bucket_of(id)];
		s->copies[bucket_of(id)] = c;
	}
	return c;
}

/* ---- slots ---- */

static int reserve(struct repos *g, const char *id, struct copy **ret, struct err *err)
{
	struct shared *s = g->shared;
	uint64_t until = deadline_in(SLOT_MS);
	struct copy *c;
	LOCK_SCOPE(&s->lock);

	c = find_or_add(s, id);
	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	while (c->busy && !s->ending)
		if (!cond_wait_until(&s->free, &s->lock, until))
			return err_tag(err, -EBUSY, ERR_CONFLICT,
			               "repository %s is being written to for a long time: try "
			               "again later",
			               id);
	if (s->ending)
		return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE, "the server is stopping");
	c->busy = true;
	c->by = pthread_self();
	*ret = c;
	return 0;
}

int slot_only(struct repos *g, const char *repo, struct slot **ret, struct err *err)
{
	struct slot *s;
	int r;

	*ret = NULL;
	if (!is_shared(g))
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->g = g;
	if ((r = reserve(g, repo, &s->copy, err)) < 0) {
		free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct slot *slot_give(struct slot *s)
{
	if (!s)
		return NULL;
	mutex_lock(&s->g->shared->lock);
	s->copy->busy = false;
	cond_broadcast(&s->g->shared->free);
	mutex_unlock(&s->g->shared->lock);
	free(s);
	return NULL;
}

static void set_known(struct slot *s, uint64_t version)
{
	LOCK_SCOPE(&s->g->shared->lock);

	s->copy->epoch = s->row.epoch;
	s->copy->version = version;
}

static uint64_t known(struct slot *s)
{
	LOCK_SCOPE(&s->g->shared->lock);
	return s->copy->version;
}

/* It is this node's, and what is here is what is stored. */
static int make_current(struct slot *s, struct err *err)
{
	char path[PATH_MAX];
	uint64_t here;
	int r;

	if ((r = store_repo_get(s->g->store, s->copy->id, &s->row, err)) < 0)
		return r;
	if (strcmp(s->row.node, store_node_id(s->g->store)) != 0) {
		if ((r = store_repo_take(s->g->store, s->copy->id, &s->row, err)) < 0)
			return r;
		log_info("repository %s: taken over", s->row.id);
	}
	if (!s->row.stored) /* its files are all there is */
		return 0;
	repo_path(s->g, s->row.id, path);
	here = known(s);
	if (here == UNKNOWN)
		here = copy_version(path);
	/* A copy of what the database does not know, as it was restored, is worth nothing. */
	if (here != s->row.version && (r = get_all(s, here > s->row.version ? 0 : here, err)) < 0)
		return r;
	set_known(s, s->row.version);
	return 0;
}

void slot_moved(struct slot *s)
{
	char path[PATH_MAX];
	struct err err = { 0 };

	if (!s || !s->to)
		return;
	repo_path(s->g, s->row.id, path);
	if (copy_set_version(path, s->to, &err) < 0) /* then it is fetched again one day */
		log_warn("repository %s: %s", s->row.id, err.msg);
	set_known(s, s->to);
	s->to = 0;
}

int slot_take(struct repos *g, const char *repo, struct slot **ret, struct err *err)
{
	char path[PATH_MAX];
	struct slot *s = NULL;
	int r = slot_only(g, repo, &s, err);

	*ret = NULL;
	if (r < 0 || !s)
		return r;
	r = make_current(s, err);
	if (r == 0 && !s->row.stored) {
		repo_path(g, repo, path);
		if ((r = put_all(s, path, err)) == 0)
			slot_moved(s);
	}
	if (r < 0) {
		slot_give(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* 1: there is nothing to do. */
static int is_current(struct repos *g, const struct store_repo *r)
{
	struct copy *c;

	if (strcmp(r->node, store_node_id(g->store)) != 0)
		return 0;
	if (!r->stored)
		return 1;
	LOCK_SCOPE(&g->shared->lock);
	c = find(g->shared, r->id);
	if (c && c->busy && pthread_equal(c->by, pthread_self()))
		return 1; /* a writer, which knows */
	return c && c->version != UNKNOWN && c->epoch == r->epoch && c->version >= r->version;
}

int shared_ready(struct repos *g, const struct store_repo *r, struct err *err)
{
	struct slot *s = NULL;
	int rc;

	if (!is_shared(g) || is_current(g, r))
		return 0;
	if ((rc = slot_only(g, r->id, &s, err)) < 0)
		return rc;
	rc = make_current(s, err);
	slot_give(s);
	return rc;
}

/* ---- the thread ---- */

static bool ending(struct repos *g)
{
	LOCK_SCOPE(&g->shared->lock);
	return g->shared->ending;
}

static int store_one(struct repos *g, const char *id, struct err *err)
{
	struct slot *s = NULL;
	int r = slot_take(g, id, &s, err);

	slot_give(s);
	return r;
}

/* A repository that cannot be read keeps the others from nothing. */
static bool is_its_own(int r)
{
	return r == -ENOENT || r == -EIO || r == -EINVAL || r == -EFBIG || r == -ETIMEDOUT;
}

static int store_left(struct repos *g, struct err *err)
{
	char after[REPO_ID_SIZE] = "";
	size_t n = AT_ONCE;

	while (n == AT_ONCE && !ending(g)) {
		autofree struct store_repo *v = NULL;
		int r = store_repos_own(g->store, /* stored= */ false, after, AT_ONCE, &v, &n, err);

		for (size_t i = 0; r == 0 && i < n && !ending(g); i++) {
			struct err own = { 0 };

			memcpy(after, v[i].id, sizeof(after));
			r = store_one(g, v[i].id, &own);
			if (r == 0)
				log_info("repository %s: stored", v[i].id);
			else if (is_its_own(r))
				log_debug("repository %s is not stored: %s", v[i].id, own.msg);
			else
				*err = own;
			r = is_its_own(r) ? 0 : r;
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int give_up_all(struct repos *g, struct err *err)
{
	char after[REPO_ID_SIZE] = "";
	size_t n = AT_ONCE;

	while (n == AT_ONCE && !ending(g)) {
		autofree struct store_repo *v = NULL;
		int r = store_repos_own(g->store, /* stored= */ true, after, AT_ONCE, &v, &n, err);

		for (size_t i = 0; r >= 0 && i < n && !ending(g); i++) {
			struct slot *s = NULL;

			memcpy(after, v[i].id, sizeof(after));
			if ((r = slot_only(g, v[i].id, &s, err)) == 0)
				r = store_repo_give_up(g->store, v[i].id, err);
			slot_give(s);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int look(struct repos *g, struct err *err)
{
	struct store_node self;
	int r = store_left(g, err);

	if (r < 0 || (r = store_node_find(g->store, store_node_id(g->store), &self, err)) < 0)
		return r;
	return self.draining ? give_up_all(g, err) : 0;
}

static bool rest(struct repos *g, unsigned ms)
{
	struct shared *s = g->shared;
	uint64_t until = deadline_in(ms);
	LOCK_SCOPE(&s->lock);

	while (!s->ending && cond_wait_until(&s->work, &s->lock, until))
		;
	return !s->ending;
}

static void *shared_main(void *arg)
{
	struct repos *g = arg;
	unsigned again = AGAIN_MS;
	bool go_on = true;

	while (go_on) {
		struct err err = { 0 };
		int r = look(g, &err);

		if (r < 0 && again == AGAIN_MS)
			log_warn("repositories are not stored: %s", err.msg);
		go_on = rest(g, r < 0 ? again : TICK_MS);
		again = r < 0 ? MIN(again * 2, AGAIN_MAX_MS) : AGAIN_MS;
	}
	return NULL;
}

/* ---- begin and end ---- */

/* Nodes without an object store: what is here counts, and may change without the database. */
static int unstore_own(struct repos *g, struct err *err)
{
	char after[REPO_ID_SIZE] = "", path[PATH_MAX];
	size_t n = AT_ONCE;

	while (n == AT_ONCE) {
		autofree struct store_repo *v = NULL;
		int r = store_repos_own(g->store, /* stored= */ true, after, AT_ONCE, &v, &n, err);

		for (size_t i = 0; r >= 0 && i < n; i++) {
			memcpy(after, v[i].id, sizeof(after));
			repo_path(g, v[i].id, path);
			if (copy_version(path) == v[i].version)
				r = store_repo_unstore(g->store, v[i].id, err);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

int shared_open(struct repos *g, struct err *err)
{
	struct shared *s;

	if (!*store_node_id(g->store))
		return 0;
	if (!g->conf.objects)
		return unstore_own(g, err);
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&s->lock, "git shared");
	cond_init(&s->free);
	cond_init(&s->work);
	g->shared = s;
	return store_packs_recover(g->store, err);
}

int shared_begin(struct repos *g, struct err *err)
{
	int r;

	if (!is_shared(g))
		return 0;
	r = pthread_create(&g->shared->thread, NULL, shared_main, g);
	if (r)
		return err_sys(err, -r, "start a thread");
	g->shared->has_thread = true;
	return 0;
}

void shared_end(struct repos *g)
{
	struct shared *s = g->shared;

	if (!s)
		return;
	mutex_lock(&s->lock);
	s->ending = true;
	cond_broadcast(&s->work);
	cond_broadcast(&s->free);
	mutex_unlock(&s->lock);
	if (s->has_thread)
		pthread_join(s->thread, NULL);
	s->has_thread = false;
}

void shared_close(struct repos *g)
{
	struct shared *s = g->shared;

	if (!s)
		return;
	shared_end(g);
	mutex_unshared(&s->lock);
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct copy *c = s->copies[i], *next; c; c = next) {
			next = c->next;
			free(c);
		}
	cond_destroy(&s->free);
	cond_destroy(&s->work);
	mutex_destroy(&s->lock);
	free(s);
	g->shared = NULL;
}
