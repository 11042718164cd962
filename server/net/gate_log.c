/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate_log.c - what was blocked for a VM: one entry per destination
 *
 * A guest that tries the same thing a million times fills one entry; one that
 * tries a million things fills the log once and then replaces its own oldest entries.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/lock.h"
#include "net/gate_internal.h"

struct gate_log {
	struct mutex lock;
	unsigned refs GUARDED_BY(lock);
	size_t n GUARDED_BY(lock);
	struct gate_blocked entry[GATE_LOG_MAX] GUARDED_BY(lock);
};

struct gate_log *gate_log_new(void)
{
	struct gate_log *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	mutex_init(&l->lock, "gate log");
	mutex_unshared(&l->lock);
	l->refs = 1;
	return l;
}

struct gate_log *gate_log_ref(struct gate_log *l)
{
	if (l)
		__atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
	return l;
}

void gate_log_unref(struct gate_log *l)
{
	if (!l || __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL))
		return;
	mutex_destroy(&l->lock);
	free(l);
}

static bool same(const struct gate_blocked *a, const struct gate_blocked *b)
{
	return a->cause == b->cause && a->addr == b->addr && a->proto == b->proto &&
	       a->port == b->port && !strcmp(a->name, b->name);
}

void gate_log_add(struct gate_log *l, const struct gate_blocked *b)
{
	struct gate_blocked *e = NULL;

	if (!l)
		return;
	LOCK_SCOPE(&l->lock);
	for (size_t i = 0; i < l->n && !e; i++)
		if (same(&l->entry[i], b))
			e = &l->entry[i];
	if (e) {
		/* The kernel's list is read repeatedly: only a newer time counts. */
		if (b->cause != GATE_ADDRESS || b->at_ms > e->at_ms + 1000)
			e->count++;
		e->at_ms = MAX(e->at_ms, b->at_ms);
		return;
	}
	if (l->n < GATE_LOG_MAX) {
		e = &l->entry[l->n++];
	} else {
		e = &l->entry[0];
		for (size_t i = 1; i < l->n; i++)
			if (l->entry[i].at_ms < e->at_ms)
				e = &l->entry[i];
	}
	*e = *b;
	e->count = 1;
}

static int newer(const void *a, const void *b)
{
	const struct gate_blocked *x = a, *y = b;

	return (x->at_ms < y->at_ms) - (x->at_ms > y->at_ms);
}

size_t gate_log_list(struct gate_log *l, struct gate_blocked ret[GATE_LOG_MAX])
{
	size_t n;

	if (!l)
		return 0;
	mutex_lock(&l->lock);
	n = l->n;
	memcpy(ret, l->entry, n * sizeof(*ret));
	mutex_unlock(&l->lock);
	qsort(ret, n, sizeof(*ret), newer);
	return n;
}
