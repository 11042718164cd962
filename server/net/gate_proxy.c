/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate_proxy.c - the proxy: connections that a slot's rules redirect to us
 *
 * Theory of operation: one thread accepts for all slots and starts a thread for each
 * connection. That thread peeks at the first bytes, finds the
 * name in them, checks it against the policy in force when it was accepted, and
 * connects to the guest's destination from inside the slot, so that the slot's rules,
 * limits and counters apply to the proxy too. Then bytes are copied both ways
 * unchanged. A plain request that is allowed by its name alone is rewritten
 * so that the connection carries no second one for another name. A connection to the gateway itself
 * is for a name of this server: its bytes are passed on to the edge, together with which guest it
 * is; or, on a port of its own, for the site's proxy (gate_site.c). Connections are counted by
 * guest and by account (base/budget.h); one too many is closed at once.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "h1/h1.h"
#include "net/gate_internal.h"

#define EVENTS_MAX 32
#define STACK_SIZE (512u << 10)
#define SNIFF_MS 15000 /* for the first bytes; also long enough for a slow emulated guest */
#define PORT_HTTP 80

/* ---- looking ---- */

static int find_name(struct proxied *c, const void *p, size_t n, char name[SNIFF_NAME_MAX])
{
	struct h1_head head;
	int r;

	if (c->port != PORT_HTTP)
		return sniff_tls(p, n, name);
	r = sniff_http(p, n, name, &head);
	return r == -EBADMSG ? -ENOENT : r;
}

/* Peeks until the name is there or cannot come any more; "" is none. Consumes nothing. */
static int look(struct proxied *c, char name[SNIFF_NAME_MAX])
{
	autofree uint8_t *p = malloc(SNIFF_MAX);
	uint64_t deadline = deadline_in(SNIFF_MS);
	size_t have = 0;

	name[0] = '\0';
	while (p) {
		int low = (int)have + 1, r;
		ssize_t n;

		/* Readable means that there is more than we have seen. */
		if (setsockopt(c->down, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)) < 0)
			return -errno;
		r = io_wait(c->down, POLLIN, deadline);
		if (r < 0)
			return r;
		n = recv(c->down, p, SNIFF_MAX, MSG_PEEK | MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			return -errno;
		if (n > 0) {
			int k = find_name(c, p, (size_t)n, name);

			if (k) {
				if (k < 0)
					name[0] = '\0';
				break;
			}
		}
		/* Silence, the end, or more than a head can have: no name. */
		if (r == 0 || n <= (ssize_t)have || n == SNIFF_MAX)
			break;
		have = (size_t)n;
	}
	setsockopt(c->down, SOL_SOCKET, SO_RCVLOWAT, &(int){ 1 }, sizeof(int));
	return p ? 0 : -ENOMEM;
}

/* ---- one connection ---- */

static void reset(struct proxied *c)
{
	struct linger now = { .l_onoff = 1 };

	setsockopt(c->down, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void refuse(struct proxied *c)
{
	struct gate_blocked b = { .cause = *c->name ? GATE_NAMED : GATE_ADDRESS,
		                  .addr = c->addr,
		                  .proto = IPPROTO_TCP,
		                  .port = c->port,
		                  .at_ms = clock_wall_ms() };

	snprintf(b.name, sizeof(b.name), "%s", c->name);
	gate_log_add(c->log, &b);
	reset(c); /* as the rules would */
}

/* One request by its head, then whatever follows: what it says makes it the only one. */
static int pass_http(struct proxied *c)
{
	autofree char *p = malloc(SNIFF_MAX);
	autobuf struct buf out = { 0 };
	struct relay_end a = { .fd = c->down }, b = { .fd = c->up };
	char name[SNIFF_NAME_MAX];
	struct h1_head head;
	ssize_t n;

	if (!p)
		return -ENOMEM;
	n = recv(c->down, p, SNIFF_MAX, MSG_PEEK | MSG_DONTWAIT);
	if (n <= 0 || sniff_http(p, (size_t)n, name, &head) != 1 || strcmp(name, c->name) != 0)
		return -EBADMSG;
	if (recv(c->down, p, head.len, MSG_DONTWAIT) != (ssize_t)head.len)
		return -EIO;
	sniff_http_rewrite(&head, NULL, 0, &out);
	if (out.failed)
		return -ENOMEM;
	return head.upgrade ? gate_upgrade(&a, &b, out.p, out.len, NULL, 0)
	                    : gate_relay(&a, &b, out.p, out.len);
}

static void set_name(struct proxied *c, const char name[SNIFF_NAME_MAX])
{
	LOCK_SCOPE(&c->g->lock);
	memcpy(c->name, name, SNIFF_NAME_MAX);
}

/* One end of a new pair of sockets becomes c->up, the other one is the edge's. */
static int enter(struct proxied *c)
{
	struct gates *g = c->g;
	const struct gate_entry e = {
		.vm_id = c->vm_id, .caller = c->caller, .only = c->name, .tls = c->port != PORT_HTTP
	};
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	LOCK_SCOPE(&g->lock);
	c->up = pair[0];
	if (g->here.enter)
		return g->here.enter(g->here.ctx, &e, pair[1]);
	close(pair[1]);
	return -EHOSTUNREACH;
}

/* To a name of this server. With an open policy any name will do, and none is looked for. */
static int serve_here(struct proxied *c)
{
	struct relay_end a = { .fd = c->down }, b;
	char name[SNIFF_NAME_MAX] = "";
	int r;

	if (c->policy && c->policy->mode == PRIV_EGRESS_RULES) {
		if ((r = look(c, name)) < 0)
			return r;
		set_name(c, name);
	}
	if (!egress_here_allowed(c->policy, name, c->port)) {
		refuse(c);
		return -EPERM;
	}
	if ((r = enter(c)) < 0) {
		reset(c);
		return r;
	}
	b = (struct relay_end){ .fd = c->up };
	return gate_relay(&a, &b, NULL, 0);
}

static int serve(struct proxied *c)
{
	const struct egress_inject *in;
	char name[SNIFF_NAME_MAX];
	struct err err = { 0 };
	struct relay_end a, b;
	int r;

	if (c->here)
		return c->port == PRIV_SITE_PORT ? gate_site(c) : serve_here(c);
	if ((r = look(c, name)) < 0)
		return r;
	set_name(c, name);
	c->pinned = *name && gate_pinned(c->g, c->slot, c->gen, name, c->addr);
	if (!egress_conn_allowed(c->policy, name, c->pinned, c->addr, c->port)) {
		refuse(c);
		return -EPERM;
	}
	in = c->port != PORT_HTTP && *name && c->ca ? egress_inject_for(c->policy, name) : NULL;
	if (in)
		return gate_inject(c, in);
	r = gate_upstream(c, &err);
	if (r < 0) {
		reset(c); /* as if the other side had refused the connection */
		return r;
	}
	if (c->port == PORT_HTTP &&
	    !egress_conn_allowed(c->policy, "", /* pinned= */ false, c->addr, c->port))
		return pass_http(c);
	a = (struct relay_end){ .fd = c->down };
	b = (struct relay_end){ .fd = c->up };
	return gate_relay(&a, &b, NULL, 0);
}

int gate_proxy_limits(struct gates *g, struct err *err)
{
	const struct budget_conf all = { .all = PROXY_CONNS_MAX };
	const struct budget_conf each = { .all = PROXY_CONNS_MAX,
		                          .each = PROXY_SLOT_MAX,
		                          .greedy = true };
	int r = budget_new(&all, &g->by_holder, err);

	return r < 0 ? r : budget_new(&each, &g->by_vm, err);
}

static int count_in(struct gates *g, struct proxied *c, const struct gate *t) REQUIRES(&g->lock)
{
	int r = budget_take(g->by_vm, t->vm_id, 1);

	if (r < 0)
		return r;
	r = budget_take(g->by_holder, t->holder, 1);
	if (r < 0) {
		budget_give(g->by_vm, t->vm_id, 1);
		return r;
	}
	memcpy(c->vm_id, t->vm_id, sizeof(c->vm_id));
	memcpy(c->holder, t->holder, sizeof(c->holder));
	return 0;
}

static void count_out(struct gates *g, const struct proxied *c)
{
	budget_give(g->by_vm, c->vm_id, 1);
	budget_give(g->by_holder, c->holder, 1);
}

/* g->lock held */
static void unlist(struct gates *g, struct proxied *c) REQUIRES(&g->lock)
{
	struct proxied **p = &g->conns;

	while (*p && *p != c)
		p = &(*p)->next;
	if (*p)
		*p = c->next;
	g->n_conns--;
	count_out(g, c);
	cond_broadcast(&g->idle);
}

static void *conn_main(void *arg)
{
	struct proxied *c = arg;
	struct gates *g = c->g;
	int r = serve(c);

	log_debug("proxied connection of slot %u ended: %s", c->slot, r < 0 ? err_name(r) : "done");
	egress_unref(c->policy);
	gate_log_unref(c->log);
	gate_ca_unref(c->ca);
	LOCK_SCOPE(&g->lock);
	if (c->down >= 0)
		close(c->down);
	if (c->up >= 0)
		close(c->up);
	unlist(g, c);
	free(c);
	return NULL;
}

static bool still_allowed(const struct proxied *c, const struct egress *policy)
{
	if (c->here && c->port == PRIV_SITE_PORT) /* has not said what it wants yet */
		return false;
	if (c->site)
		return !c->injected && gate_site_allowed(c, policy);
	if (c->here)
		return egress_here_allowed(policy, c->name, c->port);
	return *c->name && !c->injected &&
	       egress_conn_allowed(policy, c->name, c->pinned, c->addr, c->port);
}

void gate_proxy_cut(struct gates *g, uint32_t slot, const struct egress *policy)
{
	for (struct proxied *c = g->conns; c; c = c->next) {
		if (c->slot != slot || (policy && still_allowed(c, policy)))
			continue;
		shutdown(c->down, SHUT_RDWR);
		if (c->up >= 0)
			shutdown(c->up, SHUT_RDWR);
	}
}

/* ---- accepting ---- */

static int original(int fd, uint32_t *ret_addr, uint16_t *ret_port)
{
	struct sockaddr_in sa = { 0 };
	socklen_t len = sizeof(sa);

	if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &sa, &len) < 0 || sa.sin_family != AF_INET)
		return -EIO;
	*ret_addr = ntohl(sa.sin_addr.s_addr);
	*ret_port = ntohs(sa.sin_port);
	return 0;
}

/* g->lock held */
static int start(struct gates *g, uint32_t slot, int fd_consume) REQUIRES(&g->lock)
{
	struct gate *t = &g->gate[slot];
	struct proxied *c = calloc(1, sizeof(*c));
	autofd int fd = fd_consume;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!c || g->stop || original(fd, &c->addr, &c->port) < 0 || count_in(g, c, t) < 0) {
		free(c);
		return -ENOSPC;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	c->g = g;
	c->slot = slot;
	c->gen = t->gen;
	c->here = c->addr == PRIV_GATEWAY;
	memcpy(c->caller, t->caller, sizeof(c->caller));
	c->policy = egress_ref(t->policy);
	c->log = gate_log_ref(t->log);
	c->ca = gate_ca_ref(t->ca);
	c->down = TAKE_FD(fd);
	c->up = -1;
	c->next = g->conns;
	g->conns = c;
	g->n_conns++;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	r = -pthread_create(&thread, &attr, conn_main, c);
	pthread_attr_destroy(&attr);
	if (r < 0) {
		unlist(g, c);
		close(c->down);
		egress_unref(c->policy);
		gate_log_unref(c->log);
		gate_ca_unref(c->ca);
		free(c);
	}
	return r;
}

void *gate_proxy_main(void *arg)
{
	struct gates *g = arg;

	for (;;) {
		struct epoll_event ev[EVENTS_MAX];
		int n = epoll_wait(g->epoll, ev, EVENTS_MAX, -1);
		LOCK_SCOPE(&g->lock);

		if (g->stop)
			return NULL;
		for (int i = 0; i < n; i++) {
			struct gate *t =
			        ev[i].data.u64 < GATES_MAX ? &g->gate[ev[i].data.u64] : NULL;
			int fd;

			if (!t || !t->used || t->listener < 0)
				continue;
			fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (fd >= 0)
				start(g, (uint32_t)ev[i].data.u64, fd);
		}
	}
}
