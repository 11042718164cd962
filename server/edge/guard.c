/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.c - what one address may hold, and what the edge leaves to the rest of the process
 *
 * Theory of operation: each client address has an entry that counts its connections and open
 * requests on all workers; the entry lives as long as it has connections. An IPv6 client can choose
 * among all addresses of a /64, so the /64 is what is counted.
 *
 * The kernel gives out the lowest free descriptor number. The edge keeps no descriptor whose number
 * falls into the reserve at the top of the process's limit, so that many are always left for API,
 * SSH and agents, whatever clients do. Getting such a number means that the process is near its
 * limit ("tight"): until lower numbers are free again no connections are accepted, requests that
 * need a socket are refused, and clients that hold a socket without using it have shorter deadlines
 * (conn.c).
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "edge/edge_internal.h"

#define BUCKETS 1024u
#define SAY_EVERY_MS 60000
#define FDS_MAX (1 << 20) /* assumed when there is no limit */

struct client {
	struct client *next;
	uint8_t key[16]; /* IPv6 or IPv4-mapped */
	uint64_t name;   /* hash of key */
	unsigned conns;  /* guard's lock */
	atomic_uint requests;
};

struct guard {
	unsigned max_conns, max_requests; /* of one address; 0: no limit */
	int fds;                          /* descriptors below this number are the edge's */
	atomic_bool tight;
	atomic_uint_fast64_t said_ms; /* in the log */
	uint64_t seed;
	struct mutex lock;
	struct client *buckets[BUCKETS] GUARDED_BY(lock); /* owned */
};

static void key_of(const struct sockaddr_storage *sa, uint8_t ret[16])
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)sa;

	memset(ret, 0, 16);
	if (sa->ss_family == AF_INET) {
		ret[10] = ret[11] = 0xff;
		memcpy(ret + 12, &v4->sin_addr, 4);
	} else if (sa->ss_family == AF_INET6) {
		memcpy(ret, &v6->sin6_addr, IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) ? 16 : 8);
	}
}

/* Seeded, so that nobody can choose addresses that share a bucket. */
static uint64_t name_of(const struct guard *g, const uint8_t key[16])
{
	uint64_t a, b;

	memcpy(&a, key, 8);
	memcpy(&b, key + 8, 8);
	a = (a ^ g->seed) * 0x9e3779b97f4a7c15u;
	a = ((a ^ (a >> 29)) + b) * 0xbf58476d1ce4e5b9u;
	return a ^ (a >> 32);
}

struct client *guard_enter(struct guard *g, const struct sockaddr_storage *peer)
{
	uint8_t key[16];
	struct client **bucket, *c;
	uint64_t name;

	key_of(peer, key);
	name = name_of(g, key);
	LOCK_SCOPE(&g->lock);
	bucket = &g->buckets[name % BUCKETS];
	for (c = *bucket; c && memcmp(c->key, key, sizeof(key)) != 0; c = c->next)
		;
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		memcpy(c->key, key, sizeof(key));
		c->name = name;
		c->next = *bucket;
		*bucket = c;
	} else if (g->max_conns && c->conns >= g->max_conns) {
		return NULL;
	}
	c->conns++;
	return c;
}

void guard_leave(struct guard *g, struct client *c)
{
	LOCK_SCOPE(&g->lock);
	if (--c->conns)
		return;
	for (struct client **p = &g->buckets[c->name % BUCKETS]; *p; p = &(*p)->next) {
		if (*p == c) {
			*p = c->next;
			break;
		}
	}
	free(c);
}

uint64_t guard_name(const struct client *c)
{
	return c->name;
}

bool guard_begin(const struct guard *g, struct client *c)
{
	unsigned n = atomic_fetch_add_explicit(&c->requests, 1, memory_order_relaxed);

	if (!g->max_requests || n < g->max_requests)
		return true;
	guard_end(c);
	return false;
}

void guard_end(struct client *c)
{
	atomic_fetch_sub_explicit(&c->requests, 1, memory_order_relaxed);
}

/* This can change many times a second; logged at most once per SAY_EVERY_MS. */
static void say_tight(struct guard *g)
{
	uint64_t now = clock_ms(), said = atomic_load(&g->said_ms);

	if ((!said || now - said >= SAY_EVERY_MS) &&
	    atomic_compare_exchange_strong(&g->said_ms, &said, now))
		log_warn("edge: the process is near its limit of descriptors; connections and "
		         "requests have to wait until some end");
}

bool guard_fd(struct guard *g, int fd)
{
	if (fd < g->fds)
		return true;
	if (!atomic_exchange(&g->tight, true))
		say_tight(g);
	return false;
}

bool guard_tight(const struct guard *g)
{
	return atomic_load_explicit(&g->tight, memory_order_relaxed);
}

void guard_look(struct guard *g, int any_fd)
{
	int fd;

	if (!guard_tight(g))
		return;
	fd = dup(any_fd);
	if (fd >= 0 && fd < g->fds - g->fds / 16)
		atomic_store(&g->tight, false);
	if (fd >= 0)
		close(fd);
}

int guard_new(const struct edge_conf *conf, struct guard **ret, struct err *err)
{
	struct guard *g = calloc(1, sizeof(*g));
	struct rlimit rl = { .rlim_cur = RLIM_INFINITY };
	unsigned limit, reserve;

	if (!g)
		return err_set(err, -ENOMEM, "edge: out of memory");
	getrlimit(RLIMIT_NOFILE, &rl);
	limit = (unsigned)MIN(rl.rlim_cur, (rlim_t)FDS_MAX);
	reserve = conf->fd_reserve ? conf->fd_reserve : limit / 4;
	if (reserve >= limit) {
		log_warn("edge: the limit of descriptors (%u) is not above the reserve (%u); half "
		         "of them are the edge's",
		         limit, reserve);
		reserve = limit / 2;
	}
	g->fds = (int)(limit - reserve);
	g->max_conns = conf->addr_conns;
	g->max_requests = conf->addr_requests;
	if (getrandom(&g->seed, sizeof(g->seed), 0) < 0)
		g->seed = (uint64_t)(uintptr_t)g;
	mutex_init(&g->lock, "edge guard");
	*ret = g;
	return 0;
}

struct guard *guard_free(struct guard *g)
{
	if (!g)
		return NULL;
	mutex_destroy(&g->lock);
	free(g);
	return NULL;
}
