/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.c - see feed.h
 *
 * The store calls on_event() with its lock held, while a verb waits: it only makes descriptors
 * readable. Readers then ask the store, at most every READ_MS, so that a burst of events costs one
 * question for each and not one for each event. A thread writes what was only noted
 * (store_feed_note()) and what no transaction has taken along within FLUSH_MS.
 */
#include "events/feed.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/log.h"
#include "store/store_node.h"

#define READ_MS 25  /* between two questions of a reader */
#define FLUSH_MS 50 /* that a note waits for a transaction */
#define RETRY_MS 1000
#define OTHERS_MS 1000 /* between two looks at what other nodes have written */

struct feed_reader {
	TAILQ_ENTRY(feed_reader) link;
	struct feed *f; /* weak */
	char account[ACCOUNT_SIZE];
	int fd; /* owned */
	int64_t place;
	uint64_t read_ms; /* clock_ms() of the last question */
	bool more;        /* the last one was answered with a full batch */
};

struct feed {
	struct store *store; /* weak */
	char run[ID_SIZE];
	struct mutex lock;
	struct cond cond;
	TAILQ_HEAD(, feed_reader) readers GUARDED_BY(lock);
	unsigned n GUARDED_BY(lock);
	bool noted GUARDED_BY(lock), stop GUARDED_BY(lock);
	pthread_t thread;
	bool has_thread;
};

static void wake(const struct feed_reader *r)
{
	eventfd_write(r->fd, 1); /* can only fail if it is readable anyway */
}

/* The store's lock is held; account NULL: something waits to be written. */
static void on_event(void *ctx, const char *account)
{
	struct feed *f = ctx;
	struct feed_reader *r;

	LOCK_SCOPE(&f->lock);
	if (!account && !f->noted) {
		f->noted = true;
		cond_broadcast(&f->cond);
	}
	TAILQ_FOREACH(r, &f->readers, link)
	{
		if (account && strcmp(r->account, account) == 0)
			wake(r);
	}
}

/* What other nodes write wakes nobody here, so their readers look now and then. */
static void wait_noted(struct feed *f) REQUIRES(&f->lock)
{
	struct feed_reader *r;

	if (!*store_node_id(f->store)) {
		cond_wait(&f->cond, &f->lock);
		return;
	}
	if (cond_wait_until(&f->cond, &f->lock, deadline_in(OTHERS_MS)))
		return;
	TAILQ_FOREACH(r, &f->readers, link)
	{
		wake(r);
	}
}

static void *feed_main(void *arg)
{
	struct feed *f = arg;

	mutex_lock(&f->lock);
	while (!f->stop) {
		struct err err = { 0 };
		uint64_t until;
		int r;

		if (!f->noted) {
			wait_noted(f);
			continue;
		}
		until = deadline_in(FLUSH_MS);
		while (!f->stop && clock_ms() < until)
			cond_wait_until(&f->cond, &f->lock, until);
		f->noted = false;
		mutex_unlock(&f->lock);
		r = store_feed_flush(f->store, &err);
		if (r < 0)
			log_warn("events were not written, trying again: %s", err.msg);
		mutex_lock(&f->lock);
		until = deadline_in(RETRY_MS);
		while (r < 0 && !f->stop && clock_ms() < until)
			cond_wait_until(&f->cond, &f->lock, until);
		f->noted |= r < 0;
	}
	mutex_unlock(&f->lock);
	return NULL;
}

int feed_new(struct store *s, struct feed **ret, struct err *err)
{
	struct feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	f->store = s;
	id_make("run-", f->run);
	mutex_init(&f->lock, "event feed");
	cond_init(&f->cond);
	TAILQ_INIT(&f->readers);
	r = pthread_create(&f->thread, NULL, feed_main, f);
	if (r) {
		feed_free(f);
		return err_sys(err, -r, "start a thread");
	}
	f->has_thread = true;
	store_feed_notify(s, on_event, f);
	*ret = f;
	return 0;
}

struct feed *feed_free(struct feed *f)
{
	if (!f)
		return NULL;
	store_feed_notify(f->store, NULL, NULL);
	mutex_lock(&f->lock);
	f->stop = true;
	cond_broadcast(&f->cond);
	mutex_unlock(&f->lock);
	if (f->has_thread)
		pthread_join(f->thread, NULL);
	cond_destroy(&f->cond);
	mutex_destroy(&f->lock);
	free(f);
	return NULL;
}

const char *feed_run(const struct feed *f)
{
	return f->run;
}

/* ---- readers ---- */

static int too_many(bool own, struct err *err)
{
	err_tag(err, -EAGAIN, own ? ERR_LIMIT_EXCEEDED : ERR_UNAVAILABLE,
	        own ? "this account follows its events %d times already: close some pages or "
	              "streams"
	            : "the server has %d streams of events already: try again later",
	        own ? FEED_READERS_PER_ACCOUNT : FEED_READERS_MAX);
	err_fact(err, ERR_FACT_RETRY, 5);
	return -EAGAIN;
}

static int enter(struct feed *f, struct feed_reader *r, struct err *err)
{
	const struct feed_reader *o;
	unsigned own = 0;

	LOCK_SCOPE(&f->lock);
	TAILQ_FOREACH(o, &f->readers, link)
	{
		own += strcmp(o->account, r->account) == 0;
	}
	if (own >= FEED_READERS_PER_ACCOUNT || f->n >= FEED_READERS_MAX)
		return too_many(own >= FEED_READERS_PER_ACCOUNT, err);
	TAILQ_INSERT_TAIL(&f->readers, r, link);
	f->n++;
	return 0;
}

int feed_open(struct feed *f, const char *account, int64_t after, struct feed_reader **ret,
              struct err *err)
{
	struct feed_reader *r = calloc(1, sizeof(*r));
	int64_t last, lost;
	int rc;

	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	r->f = f;
	r->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	snprintf(r->account, sizeof(r->account), "%s", account);
	rc = r->fd < 0 ? err_sys(err, -errno, "eventfd") : enter(f, r, err);
	if (rc < 0) {
		if (r->fd >= 0)
			close(r->fd);
		free(r);
		return rc;
	}
	r->place = after;
	/* It is in the list: what happens from now on wakes it. */
	if (after <= 0 && (rc = store_feed_range(f->store, account, &last, &lost, err)) < 0) {
		feed_close_reader(r);
		return rc;
	}
	if (after <= 0)
		r->place = after < 0 ? last : lost;
	*ret = r;
	return 0;
}

void feed_close_reader(struct feed_reader *r)
{
	if (!r)
		return;
	mutex_lock(&r->f->lock);
	TAILQ_REMOVE(&r->f->readers, r, link);
	r->f->n--;
	mutex_unlock(&r->f->lock);
	close(r->fd);
	free(r);
}

int feed_fd(const struct feed_reader *r)
{
	return r->fd;
}

int64_t feed_place(const struct feed_reader *r)
{
	return r->place;
}

int feed_read(struct feed_reader *r, struct store_feed_event **ret, size_t *ret_n, bool *ret_gap,
              int64_t *ret_last, struct err *err)
{
	uint64_t since = clock_ms() - r->read_ms;
	struct store_feed_event *v = NULL;
	size_t n_v = 0;
	int64_t lost;
	eventfd_t n;
	int rc;

	*ret = NULL;
	*ret_n = 0;
	*ret_gap = false;
	if (!r->more && eventfd_read(r->fd, &n) < 0)
		return 0;
	if (!r->more && since < READ_MS)
		usleep((useconds_t)(READ_MS - since) * 1000);
	r->read_ms = clock_ms();
	/* In this order: what is not lost after it was read was all there. */
	if ((rc = store_feed_list(r->f->store, r->account, r->place, FEED_BATCH, &v, &n_v, err)) <
	            0 ||
	    (rc = store_feed_range(r->f->store, r->account, ret_last, &lost, err)) < 0) {
		store_feed_free(v, n_v);
		return rc;
	}
	if (r->place < lost || r->place > *ret_last) {
		store_feed_free(v, n_v);
		*ret_gap = true;
		r->place = *ret_last;
		r->more = true; /* there may be something behind it already */
		return 0;
	}
	*ret = v;
	*ret_n = n_v;
	r->more = *ret_n == FEED_BATCH;
	if (*ret_n)
		r->place = (*ret)[*ret_n - 1].seq;
	return 0;
}
