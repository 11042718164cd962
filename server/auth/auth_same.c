/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_same.c - failures that repeat are recorded together
 *
 * A client in a loop fails thousands of times a second, and nobody reads thousands of records. The
 * first AUDIT_SAME_KEEP failures of one key (or, without one, of one address) with one code are
 * recorded each; those that follow within a minute are counted, and become one record: the last of
 * them, with `repeated` for how many there were.
 *
 * A table of fixed size; when two need the same place, what the older one has counted is written
 * and it begins again. What succeeded has changed something and is always recorded.
 */
#include <stdio.h>

#include "auth/auth_internal.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/hash.h"

#define SAME_PROBES 4

static void write_out(struct auth *a, struct audit_same *s) REQUIRES(&a->audit_lock)
{
	if (s->n <= AUDIT_SAME_KEEP)
		return;
	s->last.repeated = s->n - AUDIT_SAME_KEEP;
	audit_add(a, &s->last);
}

static struct audit_same *place_of(struct auth *a, uint64_t name, uint64_t now)
        REQUIRES(&a->audit_lock)
{
	struct audit_same *oldest = NULL;

	for (uint64_t i = 0; i < SAME_PROBES; i++) {
		struct audit_same *s = &a->same[(name + i) % AUDIT_SAME_SLOTS];

		if (s->n && s->name == name && now - s->begin_ms < AUDIT_SAME_MS)
			return s;
		if (!oldest || s->begin_ms < oldest->begin_ms)
			oldest = s;
	}
	write_out(a, oldest);
	*oldest = (struct audit_same){ .name = name, .begin_ms = now };
	return oldest;
}

bool audit_same_counted(struct auth *a, const struct audit_record *r)
{
	struct audit_same *s;
	char name[256];

	if (r->status < 400)
		return false;
	snprintf(name, sizeof(name), "%s|%u|%s", *r->key ? r->key : r->remote, r->status, r->code);
	s = place_of(a, hash_text(name, a->same_seed), clock_ms());
	if (++s->n <= AUDIT_SAME_KEEP)
		return false;
	s->last = *r;
	return true;
}

void audit_same_flush(struct auth *a, bool all)
{
	uint64_t now = clock_ms();

	for (size_t i = 0; i < AUDIT_SAME_SLOTS; i++) {
		struct audit_same *s = &a->same[i];

		if (!s->n || (!all && now - s->begin_ms < AUDIT_SAME_MS))
			continue;
		write_out(a, s);
		*s = (struct audit_same){ 0 };
	}
}
