/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crew.c - threads that take due jobs from the store, do them, and sleep until the next
 *
 * A job that the end of the server interrupts stays claimed; who owns the rows makes it due again
 * at the next start.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/lock.h"
#include "hook/hook.h"

#define CREW_MAX 16
#define IDLE_MS 60000   /* without news: the longest nap */
#define TROUBLE_MS 2000 /* after the store failed */

/* Before repetition n, in units of the first wait: with 10 s, the last one is a day later. */
static const uint32_t backoff[] = { 1, 3, 12, 60, 180, 360, 720, 1440, 2880, 2988 };

struct crew {
	struct crew_ops ops;
	void *ctx;
	struct mutex lock;
	struct cond more;
	uint64_t news GUARDED_BY(lock); /* grows when there may be something to do */
	atomic_bool ending;
	pthread_t threads[CREW_MAX];
	unsigned n;
};

int64_t hook_wait_ms(uint32_t attempts, uint32_t retry_s)
{
	size_t n = attempts ? attempts - 1 : 0;

	return n < ARRAY_SIZE(backoff) ? (int64_t)backoff[n] * retry_s * 1000 : -1;
}

void crew_wake(struct crew *c)
{
	if (!c)
		return;
	LOCK_SCOPE(&c->lock);
	c->news++;
	cond_broadcast(&c->more);
}

static unsigned nap_ms(struct crew *c)
{
	struct err err = { 0 };
	int64_t next, now = clock_wall_ms();

	if (c->ops.next(c->ctx, &next, &err) < 0)
		return TROUBLE_MS;
	if (next <= now || next - now > IDLE_MS) /* due, but its account has enough: news follow */
		return IDLE_MS;
	return (unsigned)(next - now) + 1;
}

static void *worker(void *arg)
{
	struct crew *c = arg;
	autofree void *job = malloc(c->ops.job_size);

	while (!atomic_load(&c->ending)) {
		struct err err = { 0 };
		uint64_t until, seen;
		int r;

		mutex_lock(&c->lock);
		seen = c->news;
		mutex_unlock(&c->lock);
		r = job ? c->ops.claim(c->ctx, job, &err) : -ENOMEM;
		if (r == 0) {
			c->ops.work(c->ctx, job);
			crew_wake(c);
			continue;
		}
		if (!job)
			job = malloc(c->ops.job_size);
		until = deadline_in(r == -ENOENT ? nap_ms(c) : TROUBLE_MS);
		LOCK_SCOPE(&c->lock);
		while (c->news == seen && !atomic_load(&c->ending) &&
		       cond_wait_until(&c->more, &c->lock, until))
			;
	}
	return NULL;
}

int crew_start(const struct crew_ops *ops, void *ctx, unsigned n, struct crew **ret,
               struct err *err)
{
	struct crew *c = calloc(1, sizeof(*c));
	int r = 0;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	c->ops = *ops;
	c->ctx = ctx;
	mutex_init(&c->lock, "hook crew");
	cond_init(&c->more);
	while (r == 0 && c->n < MIN(n, CREW_MAX)) {
		r = -pthread_create(&c->threads[c->n], NULL, worker, c);
		if (r == 0)
			c->n++;
	}
	if (r < 0) {
		crew_close(c);
		return err_sys(err, r, "start a thread");
	}
	*ret = c;
	return 0;
}

void crew_end(struct crew *c)
{
	if (!c)
		return;
	atomic_store(&c->ending, true);
	crew_wake(c);
}

struct crew *crew_close(struct crew *c)
{
	if (!c)
		return NULL;
	crew_end(c);
	for (unsigned i = 0; i < c->n; i++)
		pthread_join(c->threads[i], NULL);
	cond_destroy(&c->more);
	mutex_destroy(&c->lock);
	free(c);
	return NULL;
}
