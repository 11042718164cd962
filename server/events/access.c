/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access.c - lines of the access log in memory, bounded by name and VM, by account, and in all
 *
 * Theory of operation: a ring is one block of records, oldest first, that grows up to its limit;
 * then the oldest quarter makes room. Memory is counted for the account that owns a ring: an
 * account over its share loses the ring it wrote to longest ago, and when all are over theirs it is
 * the account with the most. So a busy name can push out lines of its own account and no other's.
 *
 * Lines arrive in packets of several threads of the edge, a little out of order. They are given
 * times that never go back, because readers continue at the time of the last line they saw.
 */
#include "events/access.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/hash.h"
#include "events/access_internal.h"

#define RING_FIRST 1024u /* bytes of a ring that begins */

static struct ring **bucket_of(struct access *a, const char *account, const char *name,
                               const char *vm) REQUIRES(&a->lock)
{
	uint64_t h = hash_text(name, hash_text(vm, hash_text(account, a->seed)));

	return &a->bucket[h % ACCESS_BUCKETS];
}

struct owner *access_owner(struct access *a, const char *account, bool make)
{
	struct owner *o = a->owners;

	while (o && strcmp(o->account, account) != 0)
		o = o->next;
	if (o || !make || !(o = calloc(1, sizeof(*o))))
		return o;
	snprintf(o->account, sizeof(o->account), "%s", account);
	o->next = a->owners;
	a->owners = o;
	return o;
}

static void unlink_ring(struct ring *r)
{
	struct owner *o = r->owner;

	*(r->prev ? &r->prev->next : &o->first) = r->next;
	*(r->next ? &r->next->prev : &o->last) = r->prev;
	r->prev = r->next = NULL;
}

static void link_first(struct ring *r)
{
	struct owner *o = r->owner;

	r->next = o->first;
	*(o->first ? &o->first->prev : &o->last) = r;
	o->first = r;
}

static void count(struct access *a, struct owner *o, size_t less, size_t more) REQUIRES(&a->lock)
{
	o->bytes = o->bytes - less + more;
	a->bytes = a->bytes - less + more;
}

static void drop_ring(struct access *a, struct ring *r) REQUIRES(&a->lock)
{
	struct ring **p = bucket_of(a, r->owner->account, r->name, r->vm);

	while (*p != r)
		p = &(*p)->bucket_next;
	*p = r->bucket_next;
	unlink_ring(r);
	count(a, r->owner, sizeof(*r) + r->cap, 0);
	free(r->p);
	free(r);
}

static void drop_owner_if_empty(struct access *a, struct owner *o) REQUIRES(&a->lock)
{
	struct owner **p = &a->owners;

	if (o->first)
		return;
	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	free(o);
}

struct ring *access_ring(struct access *a, struct owner *o, const char *name, const char *vm)
{
	struct ring **b = bucket_of(a, o->account, name, vm), *r = *b;

	while (r && (r->owner != o || strcmp(r->name, name) != 0 || strcmp(r->vm, vm) != 0))
		r = r->bucket_next;
	if (r) {
		unlink_ring(r);
		link_first(r);
		return r;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->owner = o;
	snprintf(r->name, sizeof(r->name), "%s", name);
	snprintf(r->vm, sizeof(r->vm), "%s", vm);
	r->bucket_next = *b;
	*b = r;
	link_first(r);
	count(a, o, 0, sizeof(*r));
	return r;
}

/* The oldest lines go, at least n bytes of them. */
static void drop_oldest(struct ring *r, size_t n)
{
	size_t at = 0;
	uint32_t size;

	while (at < r->len && at < n) {
		memcpy(&size, r->p + at, sizeof(size));
		at += size;
	}
	memmove(r->p, r->p + at, r->len - at);
	r->len -= at;
}

int access_grow(struct access *a, struct ring *r, size_t n)
{
	size_t cap = r->cap ? r->cap : RING_FIRST;
	uint8_t *p;

	if (n > ACCESS_RING_MAX)
		return -E2BIG;
	if (r->len + n > ACCESS_RING_MAX)
		drop_oldest(r, MAX(n, ACCESS_RING_MAX / 4));
	while (cap < r->len + n)
		cap *= 2;
	if (cap == r->cap)
		return 0;
	p = realloc(r->p, cap);
	if (!p)
		return -ENOMEM;
	count(a, r->owner, r->cap, cap);
	r->p = p;
	r->cap = cap;
	return 0;
}

/* The ring that was written last stays. */
void access_shrink(struct access *a, struct owner *o)
{
	while (o->bytes > ACCESS_ACCOUNT_MAX && o->last != o->first)
		drop_ring(a, o->last);
	while (a->bytes > ACCESS_ALL_MAX) {
		struct owner *most = NULL;

		for (struct owner *p = a->owners; p; p = p->next)
			if (!most || p->bytes > most->bytes)
				most = p;
		if (!most || !most->last)
			return;
		drop_ring(a, most->last);
		drop_owner_if_empty(a, most);
	}
}

static void put(struct ring *r, const struct access_line *l, const char *host, uint32_t size)
{
	uint8_t *p = r->p + r->len;
	struct rec rec = { .size = size,
		           .ms = l->ms,
		           .at_ms = l->at_ms,
		           .seq = l->seq,
		           .in = l->in,
		           .out = l->out,
		           .status = l->status,
		           .n_host = (uint16_t)strlen(host),
		           .n_path = (uint16_t)strlen(l->path),
		           .proto = l->proto,
		           .flags = (uint8_t)((l->tls ? REC_TLS : 0) | (l->woke ? REC_WOKE : 0) |
		                              (l->guest ? REC_GUEST : 0)),
		           .n_method = (uint8_t)strlen(l->method),
		           .n_client = (uint8_t)strlen(l->client),
		           .n_error = (uint8_t)strlen(l->error) };
	const char *texts[] = { host, l->path, l->method, l->client, l->error };

	memcpy(p, &rec, sizeof(rec));
	p += sizeof(rec);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		size_t n = strlen(texts[i]);

		memcpy(p, texts[i], n);
		p += n;
	}
	memcpy(p, &size, sizeof(size));
	r->len += size;
}

void access_add(struct access *a, const char *account, const char *name,
                const struct access_line *line)
{
	struct access_line l = *line;
	const char *host = strcmp(l.host, name) == 0 ? "" : l.host;
	uint32_t size = (uint32_t)(REC_MIN + strlen(host) + strlen(l.path) + strlen(l.method) +
	                           strlen(l.client) + strlen(l.error));
	int64_t now = clock_wall_ms();
	struct owner *o;
	struct ring *r;

	LOCK_SCOPE(&a->lock);
	if (!(o = access_owner(a, account, /* make= */ true)))
		return;
	r = access_ring(a, o, name, l.vm);
	if (!r || access_grow(a, r, size) < 0) {
		drop_owner_if_empty(a, o);
		return;
	}
	/* Not in the future either, whatever the edge claims; nor far behind. */
	l.at_ms = MAX(MIN(l.at_ms, now), a->last_ms);
	a->last_ms = l.at_ms;
	l.seq = ++a->seq;
	put(r, &l, host, size);
	access_shrink(a, o);
}

void access_forget(struct access *a, const char *account)
{
	struct owner *o;

	LOCK_SCOPE(&a->lock);
	o = access_owner(a, account, /* make= */ false);
	while (o && o->first)
		drop_ring(a, o->first);
	if (o)
		drop_owner_if_empty(a, o);
}

size_t access_before(const struct ring *r, size_t end, struct rec *ret)
{
	uint32_t size;

	if (end < REC_MIN)
		return 0;
	memcpy(&size, r->p + end - sizeof(size), sizeof(size));
	memcpy(ret, r->p + end - size, sizeof(*ret));
	return size;
}

void access_path(const char *path, char ret[ACCESS_PATH_SIZE])
{
	static const char hex[] = "0123456789ABCDEF";
	size_t n = 0;

	for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
		bool plain = *p > ' ' && *p <= '~' && *p != '"' && *p != '\\';

		if (n + (plain ? 1 : 3) >= ACCESS_PATH_SIZE)
			break;
		if (plain) {
			ret[n++] = (char)*p;
		} else {
			ret[n++] = '%';
			ret[n++] = hex[*p >> 4];
			ret[n++] = hex[*p & 15];
		}
	}
	ret[n] = '\0';
}

struct access *access_new(void)
{
	struct access *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	mutex_init(&a->lock, "access log");
	random_bytes(&a->seed, sizeof(a->seed));
	return a;
}

struct access *access_free(struct access *a)
{
	if (!a)
		return NULL;
	mutex_unshared(&a->lock);
	while (a->owners) {
		struct owner *o = a->owners;

		while (o->first)
			drop_ring(a, o->first);
		drop_owner_if_empty(a, o);
	}
	mutex_destroy(&a->lock);
	free(a);
	return NULL;
}
