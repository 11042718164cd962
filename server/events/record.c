/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c - published events are written to the store, asynchronously
 *
 * The publisher (which may hold a VM's lock) only copies its line into a bounded queue.
 * One thread writes the collected lines, in one transaction, half a second after the
 * first line, or at once if a reader waits. No reply depends on these lines: a server that is
 * killed may lose the last half second of them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/utf8.h"
#include "events/events.h"
#include "events/logs_internal.h"

static void copy(char *dst, size_t size, const char *src)
{
	snprintf(dst, size, "%s", src ? src : "");
}

/* UTF-8, on one line, cut at a character. */
static void copy_message(char *dst, size_t size, const char *src)
{
	autobuf struct buf b = { 0 };
	size_t n = 0;

	utf8_put_clean(&b, src ? src : "", src ? strlen(src) : 0);
	while (!b.failed && n < b.len) {
		size_t k = utf8_char_len(b.p + n, b.len - n);

		if (k == 0 || n + k >= size)
			break;
		n += k;
	}
	if (n)
		memcpy(dst, b.p, n);
	dst[n] = '\0';
}

static bool queue_room(struct logs *l) REQUIRES(&l->lock)
{
	size_t cap = l->cap_queue ? l->cap_queue * 2 : 64;
	struct store_event *p;

	if (l->n_queue < l->cap_queue)
		return true;
	if (l->n_queue >= QUEUE_MAX)
		return false;
	p = realloc(l->queue, cap * sizeof(*p));
	if (!p)
		return false;
	l->queue = p;
	l->cap_queue = cap;
	return true;
}

static void on_event(const struct event *e, void *ctx)
{
	struct logs *l = ctx;
	struct store_event *q;

	LOCK_SCOPE(&l->lock);
	if (!queue_room(l)) {
		l->dropped++;
		return;
	}
	q = &l->queue[l->n_queue++];
	*q = (struct store_event){ .at_ms = e->at_ms };
	copy(q->account, sizeof(q->account), e->account);
	copy(q->level, sizeof(q->level), event_level_name(e->level));
	copy(q->source, sizeof(q->source), e->source);
	copy(q->vm, sizeof(q->vm), e->vm);
	copy(q->instance, sizeof(q->instance), e->instance);
	copy(q->build, sizeof(q->build), e->build);
	copy(q->request, sizeof(q->request), e->request);
	copy_message(q->message, sizeof(q->message), e->message);
	if (l->queued++ == l->written)
		cond_broadcast(&l->cond);
}

static void write_batch(struct logs *l, const struct store_event *v, size_t n, uint64_t dropped)
{
	struct err err = { 0 };

	for (size_t i = 0; i < n; i += QUEUE_BATCH)
		if (store_event_add(l->store, v + i, MIN(n - i, (size_t)QUEUE_BATCH), &err) < 0) {
			log_warn("%zu log lines were lost: %s", n - i, err.msg);
			break;
		}
	if (dropped)
		log_warn("%llu log lines arrived too fast and were lost",
		         (unsigned long long)dropped);
}

static void *record_main(void *arg)
{
	struct logs *l = arg;

	mutex_lock(&l->lock);
	for (;;) {
		struct store_event *v;
		uint64_t until;
		uint64_t dropped;
		size_t n;

		while (!l->stop && l->n_queue == 0)
			cond_wait(&l->cond, &l->lock);
		until = deadline_in(QUEUE_LINGER_MS);
		while (!l->stop && !l->flushers && l->n_queue < QUEUE_BATCH &&
		       cond_wait_until(&l->cond, &l->lock, until))
			;
		if (l->stop && l->n_queue == 0)
			break;
		v = TAKE_PTR(l->queue);
		n = l->n_queue;
		l->n_queue = l->cap_queue = 0;
		dropped = TAKE(l->dropped, 0);
		mutex_unlock(&l->lock);
		write_batch(l, v, n, dropped);
		free(v);
		mutex_lock(&l->lock);
		l->written += n;
		cond_broadcast(&l->cond);
	}
	mutex_unlock(&l->lock);
	return NULL;
}

void logs_flush(struct logs *l)
{
	uint64_t until = deadline_in(QUEUE_FLUSH_MS);
	uint64_t want;

	LOCK_SCOPE(&l->lock);
	want = l->queued;
	l->flushers++;
	cond_broadcast(&l->cond);
	while (l->written < want && cond_wait_until(&l->cond, &l->lock, until))
		;
	l->flushers--;
}

int logs_new(struct store *store, struct events *events, struct logs **ret, struct err *err)
{
	struct logs *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->access = access_new();
	if (!l->access) {
		free(l);
		return err_set(err, -ENOMEM, "out of memory");
	}
	l->store = store;
	l->events = events;
	mutex_init(&l->lock, "logs");
	cond_init(&l->cond);
	r = pthread_create(&l->thread, NULL, record_main, l);
	if (r != 0) {
		cond_destroy(&l->cond);
		mutex_destroy(&l->lock);
		access_free(l->access);
		free(l);
		return err_sys(err, -r, "start a thread");
	}
	r = events_subscribe(events, on_event, l, err);
	if (r < 0) {
		logs_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

struct access *logs_access(struct logs *l)
{
	return l->access;
}

struct logs *logs_free(struct logs *l)
{
	if (!l)
		return NULL;
	events_unsubscribe(l->events, on_event, l);
	mutex_lock(&l->lock);
	l->stop = true;
	cond_broadcast(&l->cond);
	mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	mutex_unshared(&l->lock);
	cond_destroy(&l->cond);
	mutex_destroy(&l->lock);
	free(l->queue);
	access_free(l->access);
	free(l);
	return NULL;
}
