/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.c - the lease of this node, and the watch on the others
 *
 * Two threads. The lease's has a database connection of its own, whose answers have a short
 * deadline, and does nothing but what lease_next() tells: renew, move pando-priv's deadline on,
 * and end the process when the lease is over. It takes no lock of the store's, so that a long
 * transaction of this node does not cost it its lease.
 *
 * The watch reads all nodes' rows every renew_ms and takes over those whose generation and beat
 * have not changed for lease_ms. It uses the store, and may wait for it.
 *
 * Time is clock_boot_ms() here and in pando-priv. The time before a request is taken before it is
 * sent, as lease.h wants it.
 */
#include "node/node.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "cluster/lease.h"
#include "cluster/placement.h"
#include "privc/privc.h"
#include "store/store_cluster.h"

#define JOIN_MS 60000        /* at start: for the database to answer */
#define CLOCK_APART_MS 60000 /* of this machine and the database */
#define SILENT_BEATS 2       /* without so many a node counts as silent */

struct seen {
	struct store_node row;
	struct watch watch;
	bool listed;
};

struct node {
	struct store_node self;
	struct lease_conf times;
	struct store *store;  /* weak */
	struct store *beside; /* owned; the lease thread's */
	struct privc *priv;   /* weak */
	void (*over)(void *ctx);
	void *over_ctx;
	struct mutex lock;
	struct cond cond; /* stopping */
	struct lease lease GUARDED_BY(lock);
	struct node_hooks hooks GUARDED_BY(lock);
	struct seen seen[NODES_MAX] GUARDED_BY(lock);
	size_t n_seen GUARDED_BY(lock);
	struct node_counts counts GUARDED_BY(lock);
	bool draining GUARDED_BY(lock), stopping GUARDED_BY(lock);
	bool has_lease, has_watch, has_drain;
	pthread_t lease_thread, watch_thread, drain_thread;
};

const char *node_health_name(enum node_health h)
{
	static const char *const words[NODE_HEALTH_MAX] = { "alive", "silent", "dead" };

	return words[h];
}

const char *node_id(const struct node *n)
{
	return n ? n->self.id : "";
}

bool node_draining(struct node *n)
{
	if (!n)
		return false;
	LOCK_SCOPE(&n->lock);
	return n->draining;
}

/* ---- the lease ---- */

static void end_process(void *ctx)
{
	log_error("the lease of this node is over: pandod ends, and joins again");
	_exit(1);
}

/* pando-priv ends the VMs at that time, unless it is moved on again. */
static int move_fence(struct node *n, uint64_t deadline, struct err *err)
{
	return n->priv ? privc_fence(n->priv, deadline, err) : 0;
}

/* ret_gen: what the row has now. */
static int join_once(struct node *n, struct store *s, uint64_t *seen, struct err *err)
{
	uint64_t before = clock_boot_ms(), number, deadline, gen;
	int r;

	mutex_lock(&n->lock);
	number = lease_sent(&n->lease, before);
	mutex_unlock(&n->lock);
	r = store_node_join(s, &n->self, *seen, &gen, err);
	if (r == -ESTALE)
		*seen = gen;
	if (r < 0)
		return r;
	mutex_lock(&n->lock);
	lease_joined(&n->lease, number, gen, clock_boot_ms());
	deadline = n->lease.state == LEASE_HELD ? n->lease.deadline : 0;
	mutex_unlock(&n->lock);
	if (!deadline)
		return err_tag(err, -ETIMEDOUT, ERR_DATABASE_ERROR,
		               "the database took too long to answer");
	n->self.gen = gen;
	return move_fence(n, deadline, err);
}

static int join(struct node *n, struct store *s, uint64_t seen, struct err *err)
{
	uint64_t until = deadline_in(JOIN_MS);
	int r;

	do {
		r = join_once(n, s, &seen, err);
		if (r == -ETIMEDOUT) { /* lease_next() wants the state to be left first */
			LOCK_SCOPE(&n->lock);
			lease_init(&n->lease, &n->times);
		}
	} while ((r == -ESTALE || r == -ETIMEDOUT) && clock_ms() < until);
	return err_wrap(err, r, "join the cluster");
}

static void renew(struct node *n)
{
	uint64_t before = clock_boot_ms(), number, deadline = 0;
	struct node_hooks h;
	struct node_load load = { 0 };
	struct store_beat beat;
	struct err err = { 0 };
	int r;

	mutex_lock(&n->lock);
	h = n->hooks;
	number = lease_sent(&n->lease, before);
	mutex_unlock(&n->lock);
	if (h.load)
		h.load(h.ctx, &load);
	n->self.free_mb = load.free_mb;
	n->self.running = load.running;
	n->self.pending = load.pending;
	r = store_node_renew(n->beside, &n->self, &beat, &err);
	mutex_lock(&n->lock);
	if (r >= 0) {
		lease_renewed(&n->lease, number, beat.ours, clock_boot_ms());
		n->draining = beat.ours ? beat.draining : n->draining;
		n->counts.renewals++;
	} else {
		n->counts.failed++;
	}
	if (r >= 0 && n->lease.state == LEASE_HELD)
		deadline = n->lease.deadline;
	cond_broadcast(&n->cond); /* the watch looks at draining */
	mutex_unlock(&n->lock);
	if (r < 0)
		log_warn("the lease was not renewed: %s", err.msg);
	else if (!beat.ours)
		log_error("another node has taken over this one");
	if (deadline && move_fence(n, deadline, &err) < 0)
		log_warn("pando-priv did not take the deadline of the lease: %s", err.msg);
}

static void *lease_main(void *arg)
{
	struct node *n = arg;

	mutex_lock(&n->lock);
	while (!n->stopping) {
		uint64_t now = clock_boot_ms();
		enum lease_todo todo = lease_next(&n->lease, now);

		if (todo == LEASE_NOTHING) {
			uint64_t at = lease_wakeup(&n->lease, now);

			cond_wait_until(&n->cond, &n->lock,
			                deadline_in((unsigned)(MAX(at, now + 1) - now)));
			continue;
		}
		mutex_unlock(&n->lock);
		if (todo == LEASE_RENEW)
			renew(n);
		else
			n->over(n->over_ctx);
		mutex_lock(&n->lock);
		if (todo != LEASE_RENEW)
			break;
	}
	mutex_unlock(&n->lock);
	return NULL;
}

/* ---- the others ---- */

static struct seen *seen_of(struct node *n, const char *id) REQUIRES(&n->lock)
{
	for (size_t i = 0; i < n->n_seen; i++)
		if (strcmp(n->seen[i].row.id, id) == 0)
			return &n->seen[i];
	if (n->n_seen == NODES_MAX)
		return NULL;
	n->seen[n->n_seen] = (struct seen){ 0 };
	return &n->seen[n->n_seen++];
}

/* Those that are dead are copied to dead[]; their number. */
static size_t take_in(struct node *n, const struct store_node *rows, size_t n_rows,
                      struct store_node *dead)
{
	uint64_t now = clock_boot_ms();
	size_t n_dead = 0, kept = 0;
	LOCK_SCOPE(&n->lock);

	for (size_t i = 0; i < n->n_seen; i++)
		n->seen[i].listed = false;
	for (size_t i = 0; i < n_rows; i++) {
		struct seen *s = seen_of(n, rows[i].id);

		if (!s)
			continue;
		s->row = rows[i];
		s->listed = true;
		watch_saw(&s->watch, rows[i].gen, rows[i].beat, now);
		if (rows[i].alive && strcmp(rows[i].id, n->self.id) != 0 &&
		    watch_dead(&s->watch, &n->times, now))
			dead[n_dead++] = rows[i];
	}
	for (size_t i = 0; i < n->n_seen; i++)
		if (n->seen[i].listed)
			n->seen[kept++] = n->seen[i];
	n->n_seen = kept;
	return n_dead;
}

static void reap(struct node *n, const struct store_node *dead)
{
	struct err err = { 0 };
	unsigned lost = 0;
	int r = store_node_reap(n->store, dead, &lost, &err);

	if (r < 0)
		log_warn("node '%s' is dead and was not taken over: %s", dead->name, err.msg);
	if (r <= 0)
		return;
	log_error("node '%s' is dead: %u of its VMs were running, and are lost", dead->name, lost);
	LOCK_SCOPE(&n->lock);
	n->counts.reaped++;
	n->counts.lost += lost;
}

static int look(struct node *n, struct err *err)
{
	autofree struct store_node *rows = NULL, *dead = NULL;
	size_t n_rows = 0, n_dead;
	int r = store_node_list(n->store, &rows, &n_rows, err);

	if (r < 0)
		return r;
	dead = calloc(n_rows + 1, sizeof(*dead));
	if (!dead)
		return err_set(err, -ENOMEM, "out of memory");
	n_dead = take_in(n, rows, n_rows, dead);
	for (size_t i = 0; i < n_dead; i++)
		reap(n, &dead[i]);
	return 0;
}

static void *drain_main(void *arg)
{
	struct node *n = arg;
	struct node_hooks h;

	mutex_lock(&n->lock);
	h = n->hooks;
	mutex_unlock(&n->lock);
	if (h.drain)
		h.drain(h.ctx, true);
	return NULL;
}

static void drain_end(struct node *n)
{
	if (n->has_drain)
		pthread_join(n->drain_thread, NULL);
	n->has_drain = false;
}

static void drain_begin(struct node *n)
{
	drain_end(n);
	log_info("this node is being drained: it takes no new VMs, and suspends its own");
	n->has_drain = pthread_create(&n->drain_thread, NULL, drain_main, n) == 0;
}

static void *watch_main(void *arg)
{
	struct node *n = arg;
	bool drained = false, said = false;

	mutex_lock(&n->lock);
	while (!n->stopping) {
		uint64_t next = deadline_in(n->times.renew_ms);
		struct node_hooks h = n->hooks;
		bool drain = n->draining;
		struct err err = { 0 };
		int r;

		mutex_unlock(&n->lock);
		r = look(n, &err);
		if (r < 0 && !said)
			log_warn("the other nodes cannot be watched: %s", err.msg);
		said = r < 0;
		if (h.changed)
			h.changed(h.ctx);
		if (drain && !drained)
			drain_begin(n);
		else if (!drain && drained && h.drain)
			h.drain(h.ctx, false);
		drained = drain;
		mutex_lock(&n->lock);
		while (!n->stopping && n->draining == drained &&
		       cond_wait_until(&n->cond, &n->lock, next))
			;
	}
	mutex_unlock(&n->lock);
	return NULL;
}

int node_list(struct node *n, struct node_seen **ret, size_t *ret_n, struct err *err)
{
	uint64_t now = clock_boot_ms();
	struct node_seen *v;
	LOCK_SCOPE(&n->lock);

	v = calloc(n->n_seen + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n->n_seen; i++) {
		const struct seen *s = &n->seen[i];

		v[i].row = s->row;
		v[i].silent_ms = now - s->watch.since;
		v[i].health =
		        !s->row.alive || watch_dead(&s->watch, &n->times, now) ? NODE_DEAD
		        : v[i].silent_ms > SILENT_BEATS * n->times.renew_ms + n->times.retry_ms
		                ? NODE_SILENT
		                : NODE_ALIVE;
	}
	*ret_n = n->n_seen;
	*ret = v;
	return 0;
}

int node_address(struct node *n, const char *id, char ret[NODE_ADDRESS_SIZE],
                 char ret_name[NODE_NAME_SIZE], struct err *err)
{
	autofree struct node_seen *v = NULL;
	size_t k = 0;
	int r = node_list(n, &v, &k, err);

	for (size_t i = 0; r == 0 && i < k; i++) {
		const struct store_node *row = &v[i].row;

		if (strcmp(row->id, id) != 0)
			continue;
		snprintf(ret, NODE_ADDRESS_SIZE, "%s", row->address);
		snprintf(ret_name, NODE_NAME_SIZE, "%s", row->name);
		if (v[i].health != NODE_DEAD)
			return 0;
		return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
		               "node '%s' is down: start it again, or see docs/CLUSTER.md for what "
		               "can be done without it",
		               row->name);
	}
	return r < 0 ? r
	             : err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	                       "node %s is not known here (yet): try again in a few seconds", id);
}

bool node_roomiest(struct node *n, struct node_seen *ret)
{
	autofree struct node_seen *v = NULL;
	size_t k = 0;
	autofree struct placement_node *p = NULL;
	size_t best;

	if (!n || node_list(n, &v, &k, NULL) < 0 || !(p = calloc(k + 1, sizeof(*p))))
		return false;
	for (size_t i = 0; i < k; i++)
		p[i] = (struct placement_node){ .id = v[i].row.id,
			                        .open = v[i].health == NODE_ALIVE &&
			                                !v[i].row.draining &&
			                                strcmp(v[i].row.id, n->self.id) != 0,
			                        .fits = true,
			                        .free_mb = v[i].row.free_mb,
			                        .running = v[i].row.running };
	best = placement_best(p, k, /* need_mb= */ 0, /* spread= */ false);
	if (best == SIZE_MAX)
		return false;
	*ret = v[best];
	return true;
}

void node_counts(struct node *n, struct node_counts *ret)
{
	uint64_t now = clock_boot_ms();
	LOCK_SCOPE(&n->lock);

	*ret = n->counts;
	ret->left_ms = lease_valid(&n->lease, now) ? n->lease.deadline - now : 0;
}

/* ---- start and end ---- */

static int check_clock(struct store *s, struct err *err)
{
	int64_t ahead, apart;
	int r = store_clock_ahead(s, &ahead, err);

	if (r < 0)
		return r;
	apart = ahead < 0 ? -ahead : ahead;
	if (apart <= CLOCK_APART_MS)
		return 0;
	return err_set(err, -EINVAL,
	               "this machine's clock is %" PRId64 " s %s the database's: sessions, "
	               "certificates and logs would be wrong, so set the clocks (chrony, NTP)",
	               apart / 1000, ahead > 0 ? "behind" : "ahead of");
}

static struct node *node_new(const struct node_conf *c)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->self = c->self;
	n->times = c->times ? *c->times : lease_default;
	n->store = c->store;
	n->priv = c->priv;
	n->over = c->over ? c->over : end_process;
	n->over_ctx = c->ctx;
	mutex_init(&n->lock, "node");
	cond_init(&n->cond);
	mutex_unshared(&n->lock);
	lease_init(&n->lease, &n->times);
	return n;
}

static int open_all(struct node *n, const struct node_conf *c, struct err *err)
{
	uint64_t seen;
	int r;

	if ((r = check_clock(n->store, err)) < 0 ||
	    (r = store_open_beside(store_where(n->store), n->times.retry_ms, &n->beside, err)) <
	            0 ||
	    (r = store_node_register(n->store, &n->self, c->adopt, &seen, err)) < 0 ||
	    (r = join(n, n->beside, seen, err)) < 0)
		return r;
	store_be_node(n->store, n->self.id, n->self.gen, &c->quota);
	if ((r = look(n, err)) < 0)
		return r;
	r = pthread_create(&n->lease_thread, NULL, lease_main, n);
	if (r)
		return err_sys(err, -r, "start a thread");
	n->has_lease = true;
	log_info("node '%s' (%s), generation %" PRIu64, n->self.name, n->self.id, n->self.gen);
	return 0;
}

int node_open(const struct node_conf *c, struct node **ret,
              struct err *err) NO_THREAD_SAFETY_ANALYSIS
{
	struct node *n = node_new(c);
	int r;

	if (!n)
		return err_set(err, -ENOMEM, "out of memory");
	r = open_all(n, c, err);
	if (r < 0)
		n = node_close(n);
	*ret = n;
	return r;
}

int node_begin(struct node *n, const struct node_hooks *h, struct err *err)
{
	int r;

	if (!n)
		return 0;
	mutex_lock(&n->lock);
	n->hooks = *h;
	mutex_unlock(&n->lock);
	r = pthread_create(&n->watch_thread, NULL, watch_main, n);
	if (r)
		return err_sys(err, -r, "start a thread");
	n->has_watch = true;
	return 0;
}

struct node *node_close(struct node *n)
{
	struct err err = { 0 };

	if (!n)
		return NULL;
	mutex_lock(&n->lock);
	n->stopping = true;
	cond_broadcast(&n->cond);
	mutex_unlock(&n->lock);
	if (n->has_watch)
		pthread_join(n->watch_thread, NULL);
	drain_end(n);
	if (n->has_lease)
		pthread_join(n->lease_thread, NULL);
	if (n->has_lease && store_node_leave(n->store, &n->self, &err) < 0)
		log_warn("the other nodes will wait for the end of the lease: %s", err.msg);
	store_close(n->beside);
	cond_destroy(&n->cond);
	mutex_destroy(&n->lock);
	free(n);
	return NULL;
}
