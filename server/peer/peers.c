/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c - the listener for other nodes, and its connections
 *
 * One thread accepts, and between connections renews the certificate and closes idle ones. Each
 * connection of another node has a thread from its first byte on: it shakes hands, looks who that
 * is, and then only copies bytes between TLS and a socket. What reads HTTP is the HTTP server,
 * which gets the other end of a socket pair and is told which node is behind it; what asks for a
 * socket of a VM is in socket.c. Clients of SSH and of mapped ports are served by ssh/ and ports/,
 * on that thread.
 *
 * Bounds: PEER_IN_MAX connections, PEER_NEW_MAX of them without a certificate yet, HANDSHAKE_MS for
 * that; nothing is read from anybody who has none.
 */
#include "peer/peer_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sock.h"
#include "node/node.h"

#define RENEW_AGAIN_S 60 /* when it failed */

struct visit { /* a connection of another node */
	struct peers *p;
	int fd; /* owned */
};

SSL_CTX *peers_ctx(struct peers *p)
{
	LOCK_SCOPE(&p->lock);

	SSL_CTX_up_ref(p->ctx);
	return p->ctx;
}

bool peers_thread(void *(*fn)(void *), void *arg)
{
	pthread_attr_t at;
	pthread_t t;
	int r;

	pthread_attr_init(&at);
	pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&at, STACK_SIZE);
	r = pthread_create(&t, &at, fn, arg);
	pthread_attr_destroy(&at);
	return r == 0;
}

/* ---- connections of other nodes ---- */

static int serve_requests(struct peers *p, struct peer *c, struct err *err)
{
	struct peers_hooks h;
	int fd[2], r;

	mutex_lock(&p->lock);
	h = p->hooks;
	mutex_unlock(&p->lock);
	if (!h.requests)
		return err_set(err, -ENOTSUP, "no requests are taken here");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
		return err_sys(err, -errno, "make a socket pair");
	r = h.requests(h.ctx, fd[1], c->node, err);
	if (r == 0)
		peer_relay(c, fd[0]);
	close(fd[0]);
	return r;
}

/* Who serves it reads what is asked for, and answers. */
static void serve_use(struct peers *p, struct peer *c)
{
	void (*fn)(void *, struct peer *);
	void *ctx;

	mutex_lock(&p->lock);
	fn = p->serve[c->use].fn;
	ctx = p->serve[c->use].ctx;
	mutex_unlock(&p->lock);
	if (fn)
		fn(ctx, c);
}

static void count_refused(struct peers *p)
{
	LOCK_SCOPE(&p->lock);
	p->refused++;
}

/* Who it is. NULL: it was refused. */
static struct peer *greet(struct peers *p, int fd_consume)
{
	struct peer *c = NULL;
	struct err err = { 0 };
	int r = tls_begin(p, fd_consume, /* server= */ true, PEER_REQUESTS, &c, &err);

	if (r == 0 && place_is_member(p, c->node))
		return c;
	count_refused(p);
	if (r == 0)
		log_warn("a connection was refused: node %s is no living member of this cluster",
		         c->node);
	else
		log_info("a connection to the address for nodes was refused: %s", err.msg);
	return peer_drop(c);
}

static void *visit_main(void *arg)
{
	struct visit *v = arg;
	struct peers *p = v->p;
	struct peer *c = greet(p, v->fd);
	struct err err = { 0 };

	free(v);
	mutex_lock(&p->lock);
	p->n_new--;
	mutex_unlock(&p->lock);
	if (c && c->use == PEER_SOCKET)
		socket_serve(p, c);
	else if (c && c->use != PEER_REQUESTS)
		serve_use(p, c);
	else if (c && serve_requests(p, c, &err) < 0)
		log_warn("requests of node %s are not taken: %s", c->node, err.msg);
	peer_drop(c);
	LOCK_SCOPE(&p->lock);
	p->n_in--;
	cond_broadcast(&p->changed);
	return NULL;
}

static bool admit(struct peers *p)
{
	LOCK_SCOPE(&p->lock);

	if (p->n_in >= PEER_IN_MAX || p->n_new >= PEER_NEW_MAX) {
		p->refused++;
		return false;
	}
	p->n_in++;
	p->n_new++;
	return true;
}

static void take(struct peers *p, int fd_consume)
{
	autofd int fd = fd_consume;
	struct visit *v;

	if (!admit(p))
		return;
	v = malloc(sizeof(*v));
	if (v)
		*v = (struct visit){ p, fd };
	if (v && peers_thread(visit_main, v)) {
		TAKE_FD(fd);
		return;
	}
	free(v);
	LOCK_SCOPE(&p->lock);
	p->n_in--;
	p->n_new--;
	p->refused++;
}

static void renew(struct peers *p)
{
	time_t until = 0, now = time(NULL);
	struct err err = { 0 };
	SSL_CTX *ctx, *old;
	bool due;

	mutex_lock(&p->lock);
	due = now >= p->renew_at;
	mutex_unlock(&p->lock);
	if (!due)
		return;
	if (cert_make(p, &ctx, &until, &err) < 0) {
		log_warn("the certificate of this node is not renewed yet: %s", err.msg);
		LOCK_SCOPE(&p->lock);
		p->renew_at = now + RENEW_AGAIN_S;
		return;
	}
	mutex_lock(&p->lock);
	old = p->ctx;
	p->ctx = ctx;
	p->until = until;
	p->renew_at = now + (until - now) * 2 / 3;
	mutex_unlock(&p->lock);
	SSL_CTX_free(old);
}

static void drop_old(struct peers *p)
{
	struct peer *old = NULL;

	mutex_lock(&p->lock);
	for (struct peer **at = &p->idle; *at;) {
		struct peer *c = *at;

		if (!atomic_load(&p->ending) && deadline_left(c->idle_since + PEER_IDLE_MS)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		c->next = old;
		old = c;
		p->n_idle--;
	}
	mutex_unlock(&p->lock);
	while (old) {
		struct peer *c = old;

		old = c->next;
		peer_drop(c);
	}
}

static void *listen_main(void *arg)
{
	struct peers *p = arg;

	while (!atomic_load(&p->ending)) {
		struct pollfd q = { .fd = p->listen_fd, .events = POLLIN };
		int fd;

		if (poll(&q, 1, LOOK_MS) > 0 &&
		    (fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
			take(p, fd);
		renew(p);
		drop_old(p);
	}
	return NULL;
}

/* ---- connections that this node makes ---- */

static struct peer *take_idle(struct peers *p, const char *node)
{
	LOCK_SCOPE(&p->lock);

	for (struct peer **at = &p->idle; *at; at = &(*at)->next) {
		struct peer *c = *at;

		if (strcmp(c->node, node) != 0)
			continue;
		*at = c->next;
		c->next = NULL;
		p->n_idle--;
		return c;
	}
	return NULL;
}

/* The other side says nothing while it is unused, but that it ends. */
static bool is_fresh(const struct peer *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return deadline_left(c->idle_since + PEER_IDLE_MS) && poll(&p, 1, 0) == 0;
}

static int dial(struct peers *p, const char *node, enum peer_use use, struct peer **ret,
                struct err *err)
{
	char address[NODE_ADDRESS_SIZE], name[NODE_NAME_SIZE];
	struct sockaddr_storage sa;
	autofd int fd = -1;
	socklen_t len, size = sizeof(int);
	int e = 0, r = node_address(p->conf.node, node, address, name, err);

	if (r < 0 || (r = sock_parse(address, &sa, &len, err)) < 0)
		return r;
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(err, -errno, "make a socket");
	r = sock_connect_soon(fd, (struct sockaddr *)&sa, len, CONNECT_MS);
	if (r == 0) { /* connected, or still trying */
		struct pollfd q = { .fd = fd, .events = POLLOUT };

		if (poll(&q, 1, 0) <= 0)
			e = ETIMEDOUT;
		else
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &size);
		r = -e;
	}
	if (r < 0)
		return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
		               "node '%s' cannot be reached at %s (%s): try again in a few seconds",
		               name, address, err_name(r));
	r = tls_begin(p, TAKE_FD(fd), /* server= */ false, use, ret, err);
	if (r < 0)
		return r;
	if (strcmp((*ret)->node, node) == 0)
		return 0;
	*ret = peer_drop(*ret);
	return err_tag(
	        err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	        "at %s, the address of node '%s', is another one: try again in a few seconds",
	        address, name);
}

int peer_get(struct peers *p, const char *node, bool fresh, struct peer **ret, bool *ret_used,
             struct err *err)
{
	struct peer *c;
	int r;

	*ret_used = false;
	while (!fresh && (c = take_idle(p, node))) {
		*ret_used = is_fresh(c);
		if (*ret_used) {
			*ret = c;
			return 0;
		}
		peer_drop(c);
	}
	if (atomic_load(&p->ending))
		return err_tag(err, -ESHUTDOWN, ERR_UNAVAILABLE, "the server is shutting down");
	if (atomic_fetch_add(&p->n_out, 1) >= PEER_OUT_MAX)
		r = err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		            "too many requests to other nodes at once: try again in a moment");
	else
		r = dial(p, node, PEER_REQUESTS, ret, err);
	if (r < 0) {
		atomic_fetch_sub(&p->n_out, 1);
		return r;
	}
	(*ret)->ours = true;
	LOCK_SCOPE(&p->lock);
	p->made++;
	return 0;
}

void peer_put(struct peer *c)
{
	struct peers *p = c->peers;

	c->idle_since = clock_ms();
	if (!c->finished) {
		LOCK_SCOPE(&p->lock);

		if (p->n_idle < PEER_IDLE_MAX && !atomic_load(&p->ending)) {
			c->next = p->idle;
			p->idle = c;
			p->n_idle++;
			return;
		}
	}
	peer_drop(c);
}

int peer_dial(struct peers *p, const char *node, enum peer_use use, struct peer **ret,
              struct err *err)
{
	int r;

	if (atomic_fetch_add(&p->n_out, 1) >= PEER_OUT_MAX)
		r = err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		            "too many connections to other nodes at once: try again in a moment");
	else
		r = dial(p, node, use, ret, err);
	if (r < 0) {
		atomic_fetch_sub(&p->n_out, 1);
		return r;
	}
	(*ret)->ours = true;
	return 0;
}

/* ---- life ---- */

void peers_counts(struct peers *p, struct peers_counts *ret)
{
	*ret = (struct peers_counts){ 0 };
	if (!p)
		return;
	LOCK_SCOPE(&p->lock);
	*ret = (struct peers_counts){ .in = p->n_in,
		                      .out = atomic_load(&p->n_out),
		                      .idle = p->n_idle,
		                      .made = p->made,
		                      .refused = p->refused,
		                      .cert_until_s = (int64_t)p->until };
}

int peers_open(const struct peers_conf *c, struct peers **ret, struct err *err)
{
	struct peers *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	p->conf = *c;
	snprintf(p->address, sizeof(p->address), "%s", c->address);
	mutex_init(&p->lock, "peers");
	cond_init(&p->changed);
	mutex_unshared(&p->lock);
	p->listen_fd = sock_tcp_listen(c->address, err);
	r = p->listen_fd < 0 ? err_wrap(err, p->listen_fd, "PANDO_NODE_ADDRESS")
	                     : cert_make(p, &p->ctx, &p->until, err);
	/* Whoever leaves between poll and accept must not block the thread. */
	if (r == 0 && fcntl(p->listen_fd, F_SETFL, O_NONBLOCK) < 0)
		r = err_sys(err, -errno, "listen without blocking");
	p->renew_at = time(NULL) + (p->until - time(NULL)) * 2 / 3;
	if (r < 0)
		p = peers_free(p);
	*ret = p;
	return r;
}

int peers_begin(struct peers *p, const struct peers_hooks *h, struct err *err)
{
	int r;

	if (!p)
		return 0;
	mutex_lock(&p->lock);
	p->hooks = *h;
	mutex_unlock(&p->lock);
	r = pthread_create(&p->thread, NULL, listen_main, p);
	if (r)
		return err_sys(err, -r, "start a thread");
	p->has_thread = true;
	return 0;
}

void peers_serve(struct peers *p, enum peer_use use, void (*fn)(void *ctx, struct peer *c),
                 void *ctx)
{
	if (!p)
		return;
	LOCK_SCOPE(&p->lock);
	p->serve[use].fn = fn;
	p->serve[use].ctx = ctx;
}

void peers_on_open(struct peers *p,
                   int (*open)(void *ctx, const char *name, struct peer_socket *ret, int *ret_fd,
                               struct err *err),
                   void *ctx)
{
	if (!p)
		return;
	LOCK_SCOPE(&p->lock);
	p->open = open;
	p->open_ctx = ctx;
	while (!open && p->opening)
		cond_wait(&p->changed, &p->lock);
}

void peers_end(struct peers *p)
{
	if (!p)
		return;
	atomic_store(&p->ending, true);
	shutdown(p->listen_fd, SHUT_RDWR); /* its thread need not wait */
	if (p->has_thread)
		pthread_join(p->thread, NULL);
	p->has_thread = false;
	drop_old(p);
	LOCK_SCOPE(&p->lock);
	while (p->n_in || p->n_carriers)
		cond_wait(&p->changed, &p->lock);
}

struct peers *peers_free(struct peers *p)
{
	if (!p)
		return NULL;
	peers_end(p);
	if (p->listen_fd >= 0)
		close(p->listen_fd);
	mutex_unshared(&p->lock);
	SSL_CTX_free(p->ctx);
	cond_destroy(&p->changed);
	mutex_destroy(&p->lock);
	free(p);
	return NULL;
}
