/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ways.c - where names lead, remembered until pandod says that it has changed
 *
 * Theory of operation: each worker has a table of answers of its own, so nothing is locked. An
 * answer depends on two of pandod's counters and says what they were before it was true; they are
 * compared before it is used. Names that lead nowhere are not
 * remembered: there is no end to them. An answer is forgotten after a while in any case, so that
 * certificates are replaced in time.
 *
 * Certificates are known by their number, which names a certificate for good; they are shared by
 * all workers. One that is not here is fetched by the mint's thread.
 */
#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/lock.h"
#include "edgemain/edgemain.h"

#define WAYS 1024u     /* names that one worker remembers */
#define KEEP_MS 10000  /* for so long */
#define CERT_SETS 512u /* certificates in memory: so many sets */
#define CERT_PLACES 4u /* of so many; the one that was not used for longest makes room */

struct known {
	char host[EDGEW_HOST_SIZE];
	bool valid;
	uint64_t until_ms;
	struct edgew_way way;
};

struct leaf {
	uint64_t number; /* 0: none */
	uint64_t used;
	EVP_PKEY *key;
	X509 *cert;
	STACK_OF(X509) * chain; /* without cert */
};

struct ways {
	struct link *link;
	struct lines *lines; /* owned */
	const struct edgew_tallies *tallies;
	char field[EDGEW_FIELD_SIZE];
	uint64_t seed;
	struct known *known[EDGEW_LANES_MAX]; /* owned; each is one worker's */
	atomic_uint next_lane;
	struct mutex lock;
	uint64_t lookups GUARDED_BY(lock);
	struct leaf leaf[CERT_SETS][CERT_PLACES] GUARDED_BY(lock);
};

/* ---- names ---- */

/* The edge has as many workers as there are lanes, and only workers ask. */
static unsigned lane_of(struct ways *w)
{
	static _Thread_local unsigned lane = UINT32_MAX;

	if (lane == UINT32_MAX)
		lane = atomic_fetch_add(&w->next_lane, 1) % link_lanes(w->link);
	return lane;
}

static uint32_t tally(const struct ways *w, uint32_t i)
{
	return atomic_load_explicit(&w->tallies->tally[i], memory_order_acquire);
}

static struct known *ask(struct ways *w, unsigned lane, struct known *k, const char *host)
{
	struct edgew_msg q = { .kind = EDGEW_WAY }, a;

	snprintf(q.host, sizeof(q.host), "%s", host);
	link_ask(w->link, lane, &q, &a);
	k->way = a.way;
	snprintf(k->host, sizeof(k->host), "%s", host);
	k->until_ms = clock_ms() + KEEP_MS;
	k->valid = k->way.kind != EDGE_NOWHERE;
	return k;
}

/* again: even if it is remembered. */
static const struct edgew_way *way_of(struct ways *w, const char *host, bool again)
{
	unsigned lane = lane_of(w);
	struct known *k = &w->known[lane][hash_text(host, w->seed) % WAYS];

	if (again || !k->valid || strcmp(k->host, host) != 0 || tally(w, 0) != k->way.names ||
	    (k->way.tally && tally(w, k->way.tally) != k->way.vm) || clock_ms() >= k->until_ms)
		k = ask(w, lane, k, host);
	return &k->way;
}

static void set_target(const struct ways *w, const struct edgew_way *way, struct edge_target *t)
{
	t->kind = (enum edge_kind)way->kind;
	t->port = way->port;
	t->h2c = way->speaks == EDGE_H2C;
	t->raw = way->speaks == EDGE_TLS;
	t->many = way->many;
	t->ticket = 0;
	t->mark[0] = t->mark[1] = 0;
	t->field = t->kind == EDGE_ADDR && *w->field ? w->field : NULL;
	memcpy(t->vm, way->place, sizeof(t->vm));
	memcpy(t->instance, way->instance, sizeof(t->instance));
}

static void op_route(void *ctx, const char *host, struct edge_target *ret)
{
	struct ways *w = ctx;

	*ret = (struct edge_target){ .kind = EDGE_NOWHERE };
	set_target(w, way_of(w, host, false), ret);
}

static enum edge_look op_look(void *ctx, struct edge_target *t)
{
	struct ways *w = ctx;
	const struct edgew_way *way;

	/* What a counter says may also be about another VM with the same one: then a connection is
	 * made once more for nothing. */
	if (t->many && t->mark[0])
		return tally(w, t->mark[0]) == t->mark[1] ? EDGE_RUNNING : EDGE_GONE;
	way = way_of(w, t->host, false);
	if (strcmp(way->place, t->vm) != 0)
		return EDGE_RUNNING; /* the name leads to another VM by now; nothing is known of
		                        this */
	memcpy(t->instance, way->instance, sizeof(t->instance));
	return (enum edge_look)way->look;
}

static void op_done(void *ctx, uint64_t ticket)
{
	struct ways *w = ctx;
	struct edgew_msg m = { .kind = EDGEW_DONE, .ticket = ticket };

	link_give(w->link, &m);
}

static int op_open(void *ctx, struct edge_target *t, int *ret_fd, struct err *err)
{
	struct ways *w = ctx;
	struct edgew_msg q = { .kind = EDGEW_OPEN, .waiting = t->waiting }, a = { 0 };
	int r;

	snprintf(q.host, sizeof(q.host), "%s", t->host);
	r = link_call(w->link, &q, &a, ret_fd);
	if (r < 0)
		return err_set(err, r, "pandod is gone");
	if (a.way.kind != EDGE_NOWHERE)
		set_target(w, &a.way, t);
	t->fresh_ms = a.fresh_ms;
	if (a.ticket && a.code < 0) /* its descriptor got lost */
		op_done(w, a.ticket);
	if (t->many && a.code == 0) {
		t->ticket = a.ticket;
		t->mark[0] = a.way.tally;
		t->mark[1] = a.way.vm;
	}
	if (a.code < 0)
		return err_tag(err, a.code, (enum err_code)a.tag, "pandod: %s", err_name(a.code));
	return 0;
}

static int op_challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX])
{
	struct ways *w = ctx;
	struct edgew_msg q = { .kind = EDGEW_CHALLENGE }, a;

	snprintf(q.token, sizeof(q.token), "%s", token);
	link_ask(w->link, lane_of(w), &q, &a);
	snprintf(ret, EDGE_ACME_TEXT_MAX, "%s", a.text);
	return *ret ? 0 : -ENOENT;
}

static void op_log(void *ctx, const struct edge_line *l)
{
	struct ways *w = ctx;

	if (l)
		lines_add(w->lines, lane_of(w), l);
	else
		lines_flush(w->lines, lane_of(w));
}

/* ---- certificates ---- */

static void leaf_clear(struct leaf *l)
{
	EVP_PKEY_free(l->key);
	X509_free(l->cert);
	sk_X509_pop_free(l->chain, X509_free);
	*l = (struct leaf){ 0 };
}

static struct leaf *leaf_find(struct ways *w, uint64_t number) REQUIRES(&w->lock)
{
	struct leaf *set = w->leaf[number % CERT_SETS];

	for (size_t i = 0; number && i < CERT_PLACES; i++)
		if (set[i].number == number)
			return &set[i];
	return NULL;
}

/* 0, -ENOENT, or -EIO if OpenSSL does not take it. */
static int leaf_use(struct ways *w, uint64_t number, SSL *ssl)
{
	struct leaf *l;

	LOCK_SCOPE(&w->lock);
	l = leaf_find(w, number);
	if (!l)
		return -ENOENT;
	l->used = ++w->lookups;
	return SSL_use_cert_and_key(ssl, l->cert, l->key, l->chain, 1) == 1 ? 0 : -EIO;
}

static int leaf_parse(const struct edgew_msg *m, struct leaf *ret)
{
	const uint8_t *p = m->cert.key.p;

	*ret = (struct leaf){ .number = m->cert.number, .chain = sk_X509_new_null() };
	ret->key = d2i_AutoPrivateKey(NULL, &p, (long)m->cert.key.n);
	if (!ret->key || !ret->chain || !ret->number || !m->cert.n_chain)
		return -EBADMSG;
	for (unsigned i = 0; i < m->cert.n_chain; i++) {
		X509 *x;

		p = m->cert.chain[i].p;
		x = d2i_X509(NULL, &p, (long)m->cert.chain[i].n);
		if (x && i == 0)
			ret->cert = x;
		else if (!x || sk_X509_push(ret->chain, x) <= 0) {
			X509_free(x);
			return -EBADMSG;
		}
	}
	return 0;
}

void ways_cert(struct ways *w, const struct edgew_msg *m)
{
	struct leaf fresh, *set = w->leaf[m->cert.number % CERT_SETS], *to = set;

	if (leaf_parse(m, &fresh) < 0) {
		leaf_clear(&fresh);
		return; /* its connections ask for it again, until their deadline */
	}
	LOCK_SCOPE(&w->lock);
	if (leaf_find(w, m->cert.number)) {
		leaf_clear(&fresh);
		return;
	}
	for (size_t i = 0; i < CERT_PLACES; i++)
		if (set[i].used < to->used)
			to = &set[i];
	leaf_clear(to);
	*to = fresh;
	to->used = ++w->lookups;
}

static int op_cert(void *ctx, const char *name, SSL *ssl)
{
	struct ways *w = ctx;
	int r = leaf_use(w, way_of(w, name, false)->cert, ssl);

	if (r == -ENOENT)
		r = leaf_use(w, way_of(w, name, true)->cert, ssl);
	return r == -ENOENT ? -EAGAIN : r;
}

static int op_cert_make(void *ctx, const char *name, struct err *err)
{
	struct ways *w = ctx;
	struct edgew_msg q = { .kind = EDGEW_CERT }, a = { 0 };
	int r;

	snprintf(q.host, sizeof(q.host), "%s", name);
	r = link_call(w->link, &q, &a, NULL); /* ways_cert() was called before it returns */
	if (r == 0)
		r = a.code;
	return r < 0 ? err_set(err, r, "pandod has none: %s", err_name(r)) : 0;
}

/* ---- life ---- */

struct edge_ops ways_ops(struct ways *w)
{
	return (struct edge_ops){ op_route,     op_look,      op_open, op_done, op_cert,
		                  op_cert_make, op_challenge, op_log,  w };
}

static void ways_freep(struct ways **w)
{
	ways_free(*w);
}

struct ways *ways_free(struct ways *w)
{
	if (!w)
		return NULL;
	for (size_t i = 0; i < EDGEW_LANES_MAX; i++)
		free(w->known[i]);
	mutex_unshared(&w->lock);
	for (size_t i = 0; i < CERT_SETS; i++)
		for (size_t k = 0; k < CERT_PLACES; k++)
			leaf_clear(&w->leaf[i][k]);
	mutex_destroy(&w->lock);
	lines_free(w->lines);
	free(w);
	return NULL;
}

int ways_new(struct link *l, const struct link_start *s, struct ways **ret, struct err *err)
{
	AUTO(ways_freep) struct ways *w = calloc(1, sizeof(*w));

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->link = l;
	w->tallies = s->tallies;
	mutex_init(&w->lock, "edge leaves");
	memcpy(w->field, s->start.field, sizeof(w->field));
	if (getrandom(&w->seed, sizeof(w->seed), 0) < 0)
		w->seed = (uint64_t)(uintptr_t)w;
	w->lines = lines_new(l);
	if (!w->lines)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < link_lanes(l); i++) {
		w->known[i] = calloc(WAYS, sizeof(**w->known));
		if (!w->known[i])
			return err_set(err, -ENOMEM, "out of memory");
	}
	*ret = TAKE_PTR(w);
	return 0;
}
