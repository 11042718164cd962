/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizes_ahead.c - templates of sizes that the operator listed, made before anyone asks; and what
 * others want to know of sizes
 *
 * One after the other, when no VM has been started for a while and there is disk and memory to
 * spare. Whoever starts a VM ends the machine that boots for it (sizes_make_way()); each attempt
 * waits longer than the one before.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/sizes.h"
#include "vm/template_own.h"

#define SIZE_QUIET 10      /* times m->t.quiet without a start before one is made ahead */
#define SIZE_BACKOFF_MAX 6 /* doublings of m->t.retry */

/* Listed, not there, and due; NULL: none. The time of the next look in *ret_wait. */
static struct size *next_ahead(struct vmm *m, uint64_t *ret_wait) REQUIRES(&m->lock)
{
	struct sizes *z = m->sizes;
	uint64_t now = clock_ms(), at = m->started_ms + (uint64_t)m->t.quiet * SIZE_QUIET;
	uint64_t soonest = UINT32_MAX;

	*ret_wait = UINT32_MAX;
	if (strcmp(m->template_state, "ready") != 0)
		return NULL; /* its end is told */
	for (size_t i = 0; i < z->n; i++) {
		const struct size *s = &z->s[i];

		if (s->state == SIZE_IN_MAKING)
			return NULL; /* for someone; its end is told */
		if (s->listed && s->state == SIZE_NONE)
			soonest = MIN(soonest, s->not_before_ms > now ? s->not_before_ms - now : 0);
	}
	if (soonest == UINT32_MAX)
		return NULL;
	if (m->n_starting || at > now)
		soonest = MAX(soonest, at > now ? at - now : m->t.quiet);
	*ret_wait = soonest;
	for (size_t i = 0; i < z->n && !soonest; i++)
		if (z->s[i].listed && z->s[i].state == SIZE_NONE && z->s[i].not_before_ms <= now)
			return &z->s[i];
	return NULL;
}

/* What is there: to be used by others, too. */
static bool fits(struct vmm *m, const struct size *s)
{
	uint64_t sum = (uint64_t)vmm_template_mb(s->mem_mb) << 20;

	if (!*s->point && !vmm_spare(m, s->mem_mb))
		return false;
	LOCK_SCOPE(&m->lock);
	for (size_t i = 0; i < m->sizes->n; i++)
		if (&m->sizes->s[i] != s && m->sizes->s[i].listed)
			sum += m->sizes->s[i].bytes + m->sizes->s[i].own.bytes;
	return sum <= sizes_budget(m);
}

static struct size *await_next(struct vmm *m)
{
	struct size *s = NULL;
	uint64_t wait;
	LOCK_SCOPE(&m->lock);

	while (!m->stopping && !m->sizes->ending) {
		s = next_ahead(m, &wait);
		vmm_at_work(m, &m->making_size, s != NULL);
		if (s) {
			s->state = SIZE_IN_MAKING;
			s->ahead = true;
			s->cut = false;
			return s;
		}
		cond_wait_until(&m->cond, &m->lock, clock_ms() + wait);
	}
	vmm_at_work(m, &m->making_size, false);
	return NULL;
}

void *sizes_main(void *arg)
{
	struct vmm *m = arg;
	struct size *s;

	while ((s = await_next(m))) {
		struct err err = { 0 };
		uint64_t pause = 0;

		if (!fits(m, s)) {
			pause = SIZE_LOOK_AGAIN_MS;
			mutex_lock(&m->lock);
			s->state = SIZE_NONE;
			s->cut = true; /* who joined it in this moment makes it */
			snprintf(s->note, sizeof(s->note), "no room to make it ahead of need");
			mutex_unlock(&m->lock);
		} else if (size_make(m, s, &err) < 0) {
			bool was_cut = size_cut(m, s);

			pause = (uint64_t)m->t.retry << MIN(s->failures, SIZE_BACKOFF_MAX);
			log_obj(was_cut ? LOG_LV_INFO : LOG_LV_WARN, "template", s->key,
			        "of %u vCPUs and %u MB %s; trying again in %llu s", s->vcpus,
			        s->mem_mb, was_cut ? "makes way for a VM that is started" : err.msg,
			        (unsigned long long)pause / 1000);
		}
		mutex_lock(&m->lock);
		s->not_before_ms = MAX(s->not_before_ms, clock_ms() + pause);
		cond_broadcast(&m->cond);
		mutex_unlock(&m->lock);
	}
	return NULL;
}

/* ---- for others of this folder; m->lock held ---- */

bool size_of_point(const struct vmm *m, const char *point, uint32_t *ret_vcpus,
                   uint32_t *ret_mem_mb)
{
	const struct sizes *z = m->sizes;

	for (size_t i = 0; i < z->n; i++) {
		const struct size *s = &z->s[i];

		if (!*s->point ||
		    (strcmp(s->point, point) != 0 && strcmp(s->own.point, point) != 0))
			continue;
		*ret_vcpus = s->vcpus;
		*ret_mem_mb = s->mem_mb;
		return true;
	}
	return false;
}

bool size_own_pending(struct vmm *m, const char *point)
{
	const struct sizes *z = m->sizes;

	for (size_t i = 0; i < z->n; i++)
		if (z->s[i].state == SIZE_READY &&
		    (!strcmp(z->s[i].point, point) || !strcmp(z->s[i].own.point, point)))
			return own_pending(m, &z->s[i].own);
	return false;
}

bool size_recent(const struct size *s)
{
	return s->state == SIZE_READY && s->used_ms && clock_ms() - s->used_ms <= SIZE_RECENT_MS;
}

void size_point(const struct vmm *m, uint32_t vcpus, uint32_t mem_mb, char ret_point[ID_SIZE])
{
	const struct sizes *z = m->sizes;

	ret_point[0] = '\0';
	for (size_t i = 0; i < z->n; i++)
		if (z->s[i].vcpus == vcpus && z->s[i].mem_mb == mem_mb &&
		    z->s[i].state == SIZE_READY)
			snprintf(ret_point, ID_SIZE, "%s", own_or(&z->s[i].own, z->s[i].point));
}

void sizes_status(const struct vmm *m, struct vmm_status *ret)
{
	const struct sizes *z = m->sizes;

	for (size_t i = 0; i < z->n; i++) {
		const struct size *s = &z->s[i];
		struct vmm_size_status *t = &ret->sizes[ret->n_sizes++];

		*t = (struct vmm_size_status){ .vcpus = s->vcpus,
			                       .mem_mb = s->mem_mb,
			                       .listed = s->listed,
			                       .disk_mb = (uint32_t)((s->bytes + s->own.bytes) >>
			                                             20) };
		snprintf(t->point, sizeof(t->point), "%s", s->point);
		snprintf(t->state, sizeof(t->state), "%s",
		         s->state == SIZE_IN_MAKING ? "building"
		         : *s->point                ? "ready"
		         : s->failures && !s->cut   ? "failed"
		                                    : "none");
		if (s->state == SIZE_IN_MAKING || (!*s->point && !s->failures))
			snprintf(t->note, sizeof(t->note), "%s", s->note);
		else if (!*s->point && !s->cut)
			snprintf(t->note, sizeof(t->note), "%s", s->err.msg);
	}
}
