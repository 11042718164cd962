/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zones.c - the zones in memory, and the sockets they are served on
 *
 * Theory of operation: every change goes to the store first, then the zone is read again from it; a
 * change that affects many zones (domains that changed owners) reads all of them. Changes are made
 * one at a time; queries hold the table only for a moment. Sockets and their clients are handled
 * by the DNS forwarder (net/dns.h), which asks this module instead of a resolver.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/id.h"
#include "base/lock.h"
#include "base/sock.h"
#include "net/dns.h"
#include "net/dns_msg.h"
#include "zone/zone_internal.h"

#define BUCKETS 1024u
#define CHALLENGE "_acme-challenge."
#define CHALLENGE_TTL 1u
#define BASE_TTL 300u

struct zones {
	char ns[DOMAIN_SIZE];
	struct store *store; /* weak */
	struct mutex change; /* one change, with its consequences, at a time */
	uint32_t serial GUARDED_BY(change);
	struct rwlock lock;
	struct zone *bucket[BUCKETS] GUARDED_BY(lock);
	struct zone *base; /* owned, or NULL; set before it is served */
	int (*challenge)(void *ctx, const char *name, char ret[ZONES_CHALLENGE_MAX])
	        GUARDED_BY(lock);
	void *challenge_ctx GUARDED_BY(lock);
	uint32_t sum GUARDED_BY(change); /* of all records, when they were looked at last */
	int udp, tcp;                    /* until they are served */
	bool listens;
	struct dns *dns; /* owned */
};

static unsigned hash(const char *s)
{
	return crc32c(0, s, strlen(s)) % BUCKETS;
}

/* ---- the table ---- */

struct zone *zone_make(const char *name, uint32_t serial, const struct store_record *rows, size_t n)
{
	size_t texts = 0, at = 0;
	struct zone *z;

	for (size_t i = 0; i < n; i++)
		texts += strlen(rows[i].name) + strlen(rows[i].value) + 2;
	z = calloc(1, sizeof(*z) + n * sizeof(*z->records) + texts);
	if (!z)
		return NULL;
	snprintf(z->name, sizeof(z->name), "%s", name);
	z->serial = serial;
	z->n = n;
	z->records = (struct zone_record *)(z + 1);
	z->texts = (char *)(z->records + n);
	for (size_t i = 0; i < n; i++) {
		size_t a = strlen(rows[i].name) + 1, b = strlen(rows[i].value) + 1;

		memcpy(z->texts + at, rows[i].name, a);
		memcpy(z->texts + at + a, rows[i].value, b);
		z->records[i] = (struct zone_record){ .name = z->texts + at,
			                              .value = z->texts + at + a,
			                              .ttl = rows[i].ttl,
			                              .priority = (uint16_t)rows[i].priority,
			                              .kind = rows[i].kind };
		at += a + b;
	}
	return z;
}

/* Replaces the zone of that name; NULL: removes it. */
static void replace(struct zone **bucket, const char *name, struct zone *z_consume)
{
	struct zone **p = &bucket[hash(name)];

	while (*p && strcmp((*p)->name, name) != 0)
		p = &(*p)->next;
	if (*p) {
		struct zone *old = *p;

		*p = old->next;
		free(old);
	}
	if (z_consume) {
		z_consume->next = *p;
		*p = z_consume;
	}
}

static uint32_t next_serial(struct zones *t) REQUIRES(&t->change)
{
	uint32_t now = (uint32_t)(clock_wall_ms() / 1000);

	t->serial = MAX(t->serial + 1, now);
	return t->serial;
}

/* Reads the zone from the store; NULL: it has no records, or the domain does not belong to that
 * account. */
static int load(struct zones *t, const char *account, const char *domain, struct zone **ret,
                struct err *err) REQUIRES(&t->change)
{
	autofree struct store_record *rows = NULL;
	size_t n = 0;
	int r = store_record_list(t->store, account, domain, &rows, &n, err);

	*ret = NULL;
	if (r < 0)
		return r == -EACCES ? 0 : r;
	if (n && !(*ret = zone_make(domain, next_serial(t), rows, n)))
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

static int refresh(struct zones *t, const char *account, const char *domain, struct err *err)
        REQUIRES(&t->change)
{
	struct zone *z;
	int r = load(t, account, domain, &z, err);

	if (r < 0)
		return r;
	rwlock_wrlock(&t->lock);
	replace(t->bucket, domain, z);
	rwlock_unlock(&t->lock);
	return 0;
}

static void empty(struct zone **bucket)
{
	for (size_t i = 0; bucket && i < BUCKETS; i++)
		while (bucket[i]) {
			struct zone *next = bucket[i]->next;

			free(bucket[i]);
			bucket[i] = next;
		}
}

static void table_done(struct zone ***bucket)
{
	empty(*bucket);
	free(*bucket);
}

static bool same_records(const struct zone *a, const struct zone *b)
{
	for (size_t i = 0; i < a->n && a->n == b->n; i++) {
		const struct zone_record *x = &a->records[i], *y = &b->records[i];

		if (strcmp(x->name, y->name) != 0 || strcmp(x->value, y->value) != 0 ||
		    x->ttl != y->ttl || x->priority != y->priority || x->kind != y->kind)
			return false;
	}
	return a->n == b->n;
}

/* old: those of its bucket. */
static void keep_serial(const struct zone *old, struct zone *z)
{
	while (old && strcmp(old->name, z->name) != 0)
		old = old->next;
	if (old && same_records(old, z))
		z->serial = old->serial;
}

int zones_reload(struct zones *t, struct err *err)
{
	AUTO(table_done) struct zone **fresh = calloc(BUCKETS, sizeof(struct zone *));
	autofree struct store_domain *own = NULL;
	struct zone *z;
	size_t n = 0;
	int r;

	if (!fresh)
		return err_set(err, -ENOMEM, "out of memory");
	LOCK_SCOPE(&t->change);
	if ((r = store_domain_list(t->store, NULL, &own, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if ((r = load(t, own[i].account, own[i].domain, &z, err)) < 0)
			return r;
		replace(fresh, own[i].domain, z);
	}
	rwlock_wrlock(&t->lock);
	for (size_t i = 0; i < BUCKETS; i++) {
		for (z = fresh[i]; z; z = z->next)
			keep_serial(t->bucket[i], z);
		z = t->bucket[i];
		t->bucket[i] = fresh[i];
		fresh[i] = z;
	}
	rwlock_unlock(&t->lock);
	return 0;
}

int zones_refresh(struct zones *t, struct err *err)
{
	autofree struct store_record *rows = NULL;
	uint32_t sum = 0;
	size_t n = 0;
	int r = store_record_list(t->store, NULL, NULL, &rows, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		const struct store_record *v = &rows[i];
		const uint32_t numbers[] = { v->ttl, v->priority, (uint32_t)v->kind };

		sum = crc32c(sum, v->domain, strlen(v->domain) + 1);
		sum = crc32c(sum, v->account, strlen(v->account) + 1);
		sum = crc32c(sum, v->name, strlen(v->name) + 1);
		sum = crc32c(sum, v->value, strlen(v->value) + 1);
		sum = crc32c(sum, numbers, sizeof(numbers));
	}
	mutex_lock(&t->change);
	r = sum != t->sum;
	t->sum = sum;
	mutex_unlock(&t->change);
	return r ? zones_reload(t, err) : 0;
}

/* ---- changes ---- */

int zones_put(struct zones *t, const char *account, const char *domain, const struct record_wish *w,
              struct store_record *ret, struct err *err)
{
	struct store_record rec = { .created_ms = clock_wall_ms() };
	int r = record_normal(domain, w, &rec, err);

	if (r < 0)
		return r;
	id_make("rec-", rec.id);
	snprintf(rec.account, sizeof(rec.account), "%s", account);
	LOCK_SCOPE(&t->change);
	if ((r = store_record_put(t->store, &rec, ret, err)) < 0)
		return r;
	return refresh(t, account, domain, err);
}

int zones_find(struct zones *t, const char *account, const char *domain,
               const struct record_wish *w, char ret_id[ID_SIZE], struct err *err)
{
	autofree struct store_record *rows = NULL;
	struct store_record rec;
	size_t n = 0;
	int r;

	if ((r = record_normal(domain, w, &rec, err)) < 0 ||
	    (r = store_record_list(t->store, account, domain, &rows, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (rows[i].kind == rec.kind && strcmp(rows[i].name, rec.name) == 0 &&
		    strcmp(rows[i].value, rec.value) == 0) {
			memcpy(ret_id, rows[i].id, ID_SIZE);
			return 0;
		}
	return err_tag(err, -EACCES, ERR_RECORD_OWNERSHIP_ERROR, "'%s' has no such record", domain);
}

int zones_delete(struct zones *t, const char *account, const char *domain, const char *id,
                 struct err *err)
{
	int r;

	LOCK_SCOPE(&t->change);
	if ((r = store_record_delete(t->store, account, domain, id, err)) < 0)
		return r;
	return refresh(t, account, domain, err);
}

/* ---- questions ---- */

/* The zone nearest to the name; with the table held. */
static const struct zone *zone_of(const struct zones *t, const char *name) REQUIRES_SHARED(&t->lock)
{
	for (const char *p = name; p; p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL) {
		const struct zone *z = t->bucket[hash(p)];

		while (z && strcmp(z->name, p) != 0)
			z = z->next;
		if (z)
			return z;
		if (t->base && strcmp(t->base->name, p) == 0)
			return t->base;
	}
	return NULL;
}

/* A zone of its own for one name, with the record that a challenge under way asks for; NULL: there
 * is none. Reads a file, for these names only. */
static struct zone *challenge_zone(struct zones *t, const char *name)
{
	struct store_record rec = { .kind = RECORD_TXT, .ttl = CHALLENGE_TTL, .name = "@" };
	int (*fn)(void *ctx, const char *name, char ret[ZONES_CHALLENGE_MAX]);
	char text[ZONES_CHALLENGE_MAX];
	void *ctx;

	if (strncmp(name, CHALLENGE, strlen(CHALLENGE)) != 0)
		return NULL;
	rwlock_rdlock(&t->lock);
	fn = t->challenge;
	ctx = t->challenge_ctx;
	rwlock_unlock(&t->lock);
	if (!fn || fn(ctx, name + strlen(CHALLENGE), text) < 0)
		return NULL;
	snprintf(rec.value, sizeof(rec.value), "%s", text);
	return zone_make(name, (uint32_t)(clock_wall_ms() / 1000), &rec, 1);
}

size_t zones_answer(struct zones *t, const struct dns_query *q, const struct dns_edns *e, bool tcp,
                    uint8_t *ret, size_t max)
{
	char name[DNS_NAME_MAX];
	bool plain = dns_query_name(q, name);
	autofree struct zone *once = plain ? challenge_zone(t, name) : NULL;
	size_t n;

	if (once)
		return zone_answer(once, t->ns, name, q, e, tcp, ret, max);
	rwlock_rdlock(&t->lock);
	n = zone_answer(plain ? zone_of(t, name) : NULL, t->ns, name, q, e, tcp, ret, max);
	rwlock_unlock(&t->lock);
	return n;
}

static size_t serve(void *ctx, const struct dns_query *q, const struct dns_edns *e, bool tcp,
                    uint8_t *ret, size_t max)
{
	return zones_answer(ctx, q, e, tcp, ret, max);
}

void zones_on_challenge(struct zones *t,
                        int (*fn)(void *ctx, const char *name, char ret[ZONES_CHALLENGE_MAX]),
                        void *ctx)
{
	rwlock_wrlock(&t->lock);
	t->challenge = fn;
	t->challenge_ctx = ctx;
	rwlock_unlock(&t->lock);
}

int zones_base(struct zones *t, const char *domain, const char *ipv4, const char *ipv6,
               struct err *err)
{
	static const char *const names[] = { "*", "@" }; /* sorted */
	const struct {
		enum record_kind kind;
		const char *value;
	} kinds[] = { { RECORD_A, ipv4 }, { RECORD_AAAA, ipv6 } };
	struct store_record rows[ARRAY_SIZE(names) * ARRAY_SIZE(kinds)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			if (!*kinds[k].value)
				continue;
			rows[n] = (struct store_record){ .kind = kinds[k].kind, .ttl = BASE_TTL };
			snprintf(rows[n].name, sizeof(rows[n].name), "%s", names[i]);
			snprintf(rows[n].value, sizeof(rows[n].value), "%s", kinds[k].value);
			n++;
		}
	t->base = zone_make(domain, (uint32_t)(clock_wall_ms() / 1000), rows, n);
	return t->base ? 0 : err_set(err, -ENOMEM, "out of memory");
}

/* ---- life ---- */

int zones_listen(struct zones *t, const char *text, struct err *err)
{
	int r;

	if ((r = t->tcp = sock_tcp_listen(text, err)) < 0 ||
	    (r = t->udp = sock_udp_bind(text, err)) < 0)
		return err_wrap(err, r, "name server");
	return 0;
}

int zones_serve(struct zones *t, struct err *err)
{
	struct dns_hooks hooks = { .ctx = t, .serve = serve };
	int r = 0;

	if (t->udp < 0)
		return 0;
	if ((r = dns_start(&t->dns, NULL, err)) < 0)
		return r;
	dns_set_hooks(t->dns, &hooks);
	r = dns_add(t->dns, 0, /* holder= */ NULL, TAKE_FD(t->udp), TAKE_FD(t->tcp));
	t->listens = r == 0;
	return r < 0 ? err_sys(err, r, "name server") : 0;
}

const char *zones_server(const struct zones *t)
{
	return t->listens ? t->ns : NULL;
}

struct zones *zones_free(struct zones *t)
{
	if (!t)
		return NULL;
	dns_stop(t->dns);
	if (t->udp >= 0)
		close(t->udp);
	if (t->tcp >= 0)
		close(t->tcp);
	empty(t->bucket);
	free(t->base);
	rwlock_destroy(&t->lock);
	mutex_destroy(&t->change);
	free(t);
	return NULL;
}

int zones_new(struct store *store, const char *ns, struct zones **ret, struct err *err)
{
	struct zones *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(t->ns, sizeof(t->ns), "%s", ns);
	t->store = store;
	t->udp = t->tcp = -1;
	mutex_init(&t->change, "zones change");
	rwlock_init(&t->lock, "zones");
	r = zones_reload(t, err);
	if (r < 0)
		zones_free(t);
	else
		*ret = t;
	return r;
}
