/* SPDX-License-Identifier: Apache-2.0 */
/* edge.c - starts and stops the edge: its workers and helper threads */
#include "edge/edge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/lock.h"
#include "edge/edge_internal.h"

#define WORKERS_MAX 4u
#define KEEPALIVE_S 60 /* quiet connections are probed, so that vanished clients are found */
#define KEEPALIVE_EVERY_S 15
#define KEEPALIVE_TRIES 4

void edge_ended(struct edge *e, const char *instance)
{
	for (unsigned i = 0; i < e->n_workers; i++) {
		struct worker *w = &e->workers[i];
		struct ended *d = instance ? calloc(1, sizeof(*d)) : NULL;

		mutex_lock(&w->lock);
		if (d) {
			snprintf(d->instance, sizeof(d->instance), "%s", instance);
			d->next = w->ended;
			w->ended = d;
		} else {
			w->look_all = true; /* also if there was no memory for the entry */
		}
		mutex_unlock(&w->lock);
		(void)eventfd_write(w->wake.fd, 1);
	}
}

static int nonblock(int fd)
{
	int fl = fd < 0 ? 0 : fcntl(fd, F_GETFL);

	return fd < 0 || (fl >= 0 && fcntl(fd, F_SETFL, fl | O_NONBLOCK) == 0) ? 0 : -errno;
}

/* Guests have addresses of their own (fd50:<key>::2): one that is counted, limited and told to
 * programs as any other client's, and that no other client can have. */
static void guest_address(uint64_t key, struct sockaddr_storage *ret)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

	v6->sin6_family = AF_INET6;
	v6->sin6_addr.s6_addr[0] = 0xfd;
	v6->sin6_addr.s6_addr[1] = 'P';
	v6->sin6_addr.s6_addr[15] = 2;
	for (size_t i = 0; i < 6; i++)
		v6->sin6_addr.s6_addr[2 + i] = (uint8_t)(key >> 8 * i);
}

void edge_guest(struct edge *e, const struct edge_guest *g, int fd_consume)
{
	struct handed *h = calloc(1, sizeof(*h));
	struct edge_guest *copy = malloc(sizeof(*copy));

	if (!h || !copy || nonblock(fd_consume) < 0) {
		free(h);
		free(copy);
		close(fd_consume);
		return;
	}
	*copy = *g;
	*h = (struct handed){ .fd = fd_consume, .tls = g->tls, .guest = copy };
	guest_address(g->key, &h->peer);
	worker_enter(e, h);
}

void edge_stop(struct edge *e)
{
	if (!e || atomic_exchange(&e->stopping, true))
		return;
	if (e->opener)
		opener_stop(e->opener); /* nobody answers after this */
	if (e->mint)
		mint_stop(e->mint);
	for (unsigned i = 0; i < e->n_workers; i++)
		worker_stop(&e->workers[i]);
	for (unsigned i = 0; i < e->n_workers; i++)
		worker_close(&e->workers[i]);
}

struct edge *edge_free(struct edge *e)
{
	if (!e)
		return NULL;
	edge_stop(e);
	opener_free(e->opener);
	mint_free(e->mint);
	guard_free(e->guard);
	free(e->workers);
	SSL_CTX_free(e->ssl_ctx);
	BIO_meth_free(e->bio);
	if (e->conf.tls_fd >= 0)
		close(e->conf.tls_fd);
	if (e->conf.http_fd >= 0)
		close(e->conf.http_fd);
	free(e);
	return NULL;
}

static void edge_freep(struct edge **e)
{
	edge_free(*e);
}

int edge_listener(int fd)
{
	static const struct {
		int level, name, value;
	} opts[] = { { IPPROTO_TCP, TCP_NODELAY, 1 },
		     { SOL_SOCKET, SO_KEEPALIVE, 1 },
		     { IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S },
		     { IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_EVERY_S },
		     { IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TRIES } };

	for (size_t i = 0; fd >= 0 && i < ARRAY_SIZE(opts); i++)
		(void)setsockopt(fd, opts[i].level, opts[i].name, &opts[i].value, sizeof(int));
	return nonblock(fd);
}

static void set_default(unsigned *ms, unsigned value)
{
	if (!*ms)
		*ms = value;
}

int edge_start(const struct edge_conf *conf, const struct edge_ops *ops, struct edge **ret,
               struct err *err)
{
	AUTO(edge_freep) struct edge *e = calloc(1, sizeof(*e));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r;

	if (!e)
		return err_set(err, -ENOMEM, "edge: out of memory");
	e->conf = *conf;
	e->ops = *ops;
	set_default(&e->conf.head_ms, EDGE_HEAD_MS);
	set_default(&e->conf.keep_ms, EDGE_IDLE_MS);
	set_default(&e->conf.stall_ms, EDGE_STALL_MS);
	set_default(&e->conf.answer_ms, EDGE_ANSWER_MS);
	set_default(&e->conf.idle_ms, EDGE_OPEN_IDLE_MS);
	if (!e->conf.workers)
		e->conf.workers = (unsigned)MAX(cpus, 1);
	e->conf.workers = MIN(e->conf.workers, WORKERS_MAX);
	if (edge_listener(conf->tls_fd) < 0 || edge_listener(conf->http_fd) < 0)
		return err_sys(err, -errno, "edge: listening socket");
	if ((r = guard_new(&e->conf, &e->guard, err)) < 0 || (r = tls_new(e, err)) < 0 ||
	    (r = opener_new(e, &e->opener, err)) < 0 || (r = mint_new(e, &e->mint, err)) < 0)
		return r;
	e->workers = calloc(e->conf.workers, sizeof(*e->workers));
	if (!e->workers)
		return err_set(err, -ENOMEM, "edge: out of memory");
	for (unsigned i = 0; i < e->conf.workers; i++) {
		e->workers[i].e = e;
		e->workers[i].idx = i;
		e->n_workers++;
		if ((r = worker_open(&e->workers[i], err)) < 0)
			return r;
	}
	for (unsigned i = 0; i < e->n_workers; i++)
		if ((r = worker_start(&e->workers[i], err)) < 0)
			return r;
	*ret = TAKE_PTR(e);
	return 0;
}

void edge_stats(struct edge *e, struct edge_stats *ret)
{
	*ret = (struct edge_stats){ .connections = atomic_load(&e->connections),
		                    .requests = atomic_load(&e->requests),
		                    .refused = atomic_load(&e->refused),
		                    .woken = atomic_load(&e->woken),
		                    .open = atomic_load(&e->open),
		                    .fewest = UINT_MAX };
	for (unsigned i = 0; i < e->n_workers; i++) {
		unsigned n = atomic_load(&e->workers[i].n_conns);

		ret->most = MAX(ret->most, n);
		ret->fewest = MIN(ret->fewest, n);
	}
}
