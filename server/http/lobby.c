/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lobby.c - connections that wait: strangers, who have shown no key yet, and those between requests
 *
 * A connection costs a thread, and anyone can open one. What asks with a key, or is allowed to ask
 * without, is counted in limits.c; everything else is here, so that it is bounded as well:
 *
 *   stranger   has not asked for anything that was admitted: new, its headers incomplete, or
 *              refused and still sending its body
 *   idle       had a request with a key and may have another
 *
 * A client that means well is a stranger for a moment, so whoever is one for long makes room for
 * newcomers. As with OpenSSH's MaxStartups this begins before the room is full: from `start`
 * strangers on a newcomer takes somebody's place with a probability of `rate` percent, which grows
 * to certainty at `full`. Unlike there the newcomer is let in: who goes is the oldest of the
 * address that has the most strangers, if it was here for GRACE_MS, and if nothing that it sent
 * is still to be read: then it is this server that is slow. If there is nobody like that the room
 * is full of newcomers, and the next one waits in the listen queue until one of them has grown old.
 *
 * One address may have `each` strangers, but for this host and the operator's proxies, behind which
 * there are many; the more one of these has beyond that, the shorter is the time they are spared,
 * so that others do not wait for it. When too many connections are idle, the one that was for
 * longest is closed.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "base/sock.h"

#define GRACE_MS 500 /* nobody makes room before */
#define UNREAD_MS 20 /* until it is looked at again whether somebody was read */
#define UNREAD_MAX_MS 10000

enum visitor_state { VISITOR_STRANGER, VISITOR_IDLE, VISITOR_BUSY, VISITOR_OUT };

struct visitor {
	struct visitor *prev, *next; /* in the list of its state, oldest first */
	enum visitor_state state;
	int fd; /* weak: the HTTP library's */
	uint64_t since_ms;
	bool heard; /* a request came: nothing but its reply may be sent */
	char net[SOCK_NET_SIZE];
};

struct queue {
	struct visitor head;
	unsigned n;
};

struct lobby {
	struct http_strangers conf;
	const struct http *http;   /* weak */
	struct budget *by_address; /* owned; strangers */
	struct mutex lock;
	struct cond moved; /* a stranger left, or is none any more */
	struct queue strangers GUARDED_BY(lock), idle GUARDED_BY(lock);
	bool stopping GUARDED_BY(lock);
};

static void queue_init(struct queue *q)
{
	q->head.prev = q->head.next = &q->head;
}

static void queue_add(struct queue *q, struct visitor *v)
{
	v->next = &q->head;
	v->prev = q->head.prev;
	v->prev->next = v->next->prev = v;
	q->n++;
}

static void queue_remove(struct queue *q, struct visitor *v)
{
	v->prev->next = v->next;
	v->next->prev = v->prev;
	q->n--;
}

int lobby_new(const struct http *h, struct lobby **ret, struct err *err)
{
	struct lobby *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return err_set(err, -ENOMEM, "out of memory");
	d->http = h;
	d->conf = h->conf.limits.strangers;
	/* Those that were told to leave are still in for a moment. */
	r = budget_new(&(struct budget_conf){ .all = CONNECTIONS_MAX(h), .greedy = true },
	               &d->by_address, err);
	if (r < 0) {
		free(d);
		return r;
	}
	mutex_init(&d->lock, "http lobby");
	cond_init(&d->moved);
	mutex_unshared(&d->lock);
	queue_init(&d->strangers);
	queue_init(&d->idle);
	*ret = d;
	return 0;
}

void lobby_free(struct lobby *d)
{
	if (!d)
		return;
	budget_free(d->by_address);
	cond_destroy(&d->moved);
	mutex_destroy(&d->lock);
	free(d);
}

void lobby_stop(struct lobby *d)
{
	LOCK_SCOPE(&d->lock);
	d->stopping = true;
	cond_broadcast(&d->moved);
}

/* Out of its list, whichever that is. */
static void unlist(struct lobby *d, struct visitor *v) REQUIRES(&d->lock)
{
	if (v->state == VISITOR_STRANGER) {
		queue_remove(&d->strangers, v);
		budget_give(d->by_address, v->net, 1);
		cond_broadcast(&d->moved);
	} else if (v->state == VISITOR_IDLE) {
		queue_remove(&d->idle, v);
	}
}

/* Its own thread sees the end and cleans up; until then the socket's number is nobody else's. */
static void turn_out(struct lobby *d, struct visitor *v) REQUIRES(&d->lock)
{
	unlist(d, v);
	v->state = VISITOR_OUT;
	if (!v->heard)
		refuse_unheard(v->fd);
	shutdown(v->fd, SHUT_RDWR);
}

/* On a busy machine what came is not read at once. After a request that was refused it never is. */
static bool has_unread(const struct visitor *v, uint64_t now)
{
	int n = 0;

	return !v->heard && now < v->since_ms + UNREAD_MAX_MS && ioctl(v->fd, FIONREAD, &n) == 0 &&
	       n > 0;
}

/* When it may be asked to make room; n: strangers of its address. */
static uint64_t spared_until(const struct lobby *d, const struct visitor *v, uint64_t n)
{
	return v->since_ms + (n > d->conf.each ? (uint64_t)GRACE_MS * d->conf.each / n : GRACE_MS);
}

/* Who makes room: NULL for nobody, and *ret_next is when to look again, or before. net: of that
 * address only, or NULL. */
static struct visitor *choose(struct lobby *d, const char *net, uint64_t *ret_next)
        REQUIRES(&d->lock)
{
	struct visitor *head = &d->strangers.head, *best = NULL;
	uint64_t now = clock_ms(), most = 0;

	*ret_next = UINT64_MAX;
	for (struct visitor *v = head->next; v != head; v = v->next) {
		uint64_t n = budget_used(d->by_address, v->net), until = spared_until(d, v, n);

		if ((net && strcmp(v->net, net) != 0) || n <= most)
			continue;
		if (until <= now && has_unread(v, now))
			until = now + UNREAD_MS;
		*ret_next = MIN(*ret_next, until);
		if (until > now)
			continue;
		most = n;
		best = v;
	}
	return best;
}

static bool by_chance(const struct http_strangers *c, unsigned n)
{
	unsigned percent, span = c->full - c->start;
	uint32_t dice;

	if (n < c->start)
		return false;
	percent = span ? c->rate + (100 - c->rate) * (n - c->start) / span : 100;
	random_bytes(&dice, sizeof(dice));
	return dice % 100 < percent;
}

/* False: one too many of its address, all of them new. */
static bool room_for_address(struct lobby *d, const struct sockaddr *sa, const char *net)
        REQUIRES(&d->lock)
{
	struct visitor *v;
	uint64_t next;

	if (remote_is_trusted(d->http, sa) || budget_used(d->by_address, net) < d->conf.each)
		return true;
	v = choose(d, net, &next);
	if (v)
		turn_out(d, v);
	return v;
}

bool lobby_admit(struct lobby *d, const struct sockaddr *sa)
{
	uint64_t until = deadline_in(2 * GRACE_MS), next;
	char net[SOCK_NET_SIZE];
	struct visitor *v;
	LOCK_SCOPE(&d->lock);

	if (!room_for_address(d, sa, sock_net_text(sa, net)))
		return false;
	if (by_chance(&d->conf, d->strangers.n) && (v = choose(d, NULL, &next)))
		turn_out(d, v);
	while (d->strangers.n >= d->conf.full && !d->stopping && clock_ms() < until) {
		v = choose(d, NULL, &next);
		if (v)
			turn_out(d, v);
		else
			cond_wait_until(&d->moved, &d->lock, MIN(next, until));
	}
	return d->strangers.n < d->conf.full;
}

struct visitor *lobby_enter(struct lobby *d, int fd, const struct sockaddr *sa)
{
	struct visitor *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	v->fd = fd;
	v->since_ms = clock_ms();
	sock_net_text(sa, v->net);
	if (budget_take(d->by_address, v->net, 1) < 0) {
		free(v);
		return NULL;
	}
	LOCK_SCOPE(&d->lock);
	queue_add(&d->strangers, v);
	return v;
}

void lobby_leave(struct lobby *d, struct visitor *v)
{
	if (!v)
		return;
	mutex_lock(&d->lock);
	unlist(d, v);
	mutex_unlock(&d->lock);
	free(v);
}

bool lobby_heard(struct lobby *d, struct visitor *v)
{
	LOCK_SCOPE(&d->lock);
	v->heard = true;
	return v->state != VISITOR_OUT;
}

bool lobby_busy(struct lobby *d, struct visitor *v)
{
	LOCK_SCOPE(&d->lock);
	if (v->state == VISITOR_OUT)
		return false;
	unlist(d, v);
	v->state = VISITOR_BUSY;
	return true;
}

void lobby_over(struct lobby *d, struct visitor *v, bool known)
{
	LOCK_SCOPE(&d->lock);
	if (v->state != VISITOR_BUSY)
		return; /* it was refused: it is what it was before */
	v->since_ms = clock_ms();
	if (known) {
		v->state = VISITOR_IDLE;
		queue_add(&d->idle, v);
		if (d->idle.n > HTTP_IDLE_MAX)
			turn_out(d, d->idle.head.next);
	} else if (budget_take(d->by_address, v->net, 1) == 0) {
		v->state = VISITOR_STRANGER;
		queue_add(&d->strangers, v);
	}
}
