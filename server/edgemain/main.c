/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - pando-edge: the edge, in a process that holds nothing but its sockets
 *
 * Started by pandod with one socket; ends when pandod closes it. Exit status: 0 told to end,
 * 1 anything else.
 */
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "base/seclude.h"
#include "edgemain/edgemain.h"

struct app {
	struct link *link;
	struct ways *ways;
	struct edge *edge;
	struct edgew_stats told;
};

static void on_ended(void *ctx, const char *instance)
{
	edge_ended(((struct app *)ctx)->edge, instance);
}

static void on_cert(void *ctx, const struct edgew_msg *m)
{
	ways_cert(((struct app *)ctx)->ways, m);
}

static void on_guest(void *ctx, const struct edgew_msg *m, int fd_consume)
{
	struct edge_guest g = { .tls = m->guest.tls, .key = m->guest.key };

	snprintf(g.caller, sizeof(g.caller), "%s", m->guest.caller);
	snprintf(g.only, sizeof(g.only), "%s", m->host);
	edge_guest(((struct app *)ctx)->edge, &g, fd_consume);
}

static bool same(const struct edgew_stats *a, const struct edgew_stats *b)
{
	return a->connections == b->connections && a->requests == b->requests &&
	       a->refused == b->refused && a->woken == b->woken && a->open == b->open &&
	       a->most == b->most && a->fewest == b->fewest;
}

static void on_idle(void *ctx)
{
	struct app *a = ctx;
	struct edgew_msg m = { .kind = EDGEW_STATS };
	struct edge_stats s;

	edge_stats(a->edge, &s);
	m.stats = (struct edgew_stats){ s.connections, s.requests, s.refused, s.woken,
		                        s.open,        s.most,     s.fewest };
	if (same(&m.stats, &a->told))
		return;
	a->told = m.stats;
	link_tell(a->link, &m);
}

static struct edge_conf conf_of(const struct link_start *s)
{
	const struct edgew_start *w = &s->start;

	return (struct edge_conf){ .tls_fd = s->tls_fd,
		                   .http_fd = s->http_fd,
		                   .workers = w->workers,
		                   .wait_ms = w->wait_ms,
		                   .hsts_s = w->hsts_s,
		                   .head_ms = w->head_ms,
		                   .keep_ms = w->keep_ms,
		                   .stall_ms = w->stall_ms,
		                   .answer_ms = w->answer_ms,
		                   .idle_ms = w->idle_ms,
		                   .addr_conns = w->addr_conns,
		                   .addr_requests = w->addr_requests,
		                   .fd_reserve = w->fd_reserve };
}

static int run(struct app *a, struct err *err)
{
	struct link_events ev = { on_ended, on_cert, on_idle, on_guest, a };
	struct edgew_msg ready = { .kind = EDGEW_READY, .version = EDGEW_VERSION };
	struct link_start s;
	struct edge_conf conf;
	struct edge_ops ops;
	int r;

	(void)OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG, NULL); /* while there is /etc/ssl */
	seclude_begin();
	if ((r = link_open(EDGEW_FD, &a->link, &s, err)) < 0)
		return r;
	log_init("pando-edge", (enum log_level)MIN(s.start.log_level, (uint32_t)LOG_LV_ERROR));
	(void)edge_listener(s.tls_fd);
	(void)edge_listener(s.http_fd);
	if ((r = ways_new(a->link, &s, &a->ways, err)) < 0 ||
	    (r = walls_close(s.start.mem_mb, err)) < 0)
		return r;
	conf = conf_of(&s);
	ops = ways_ops(a->ways);
	if ((r = edge_start(&conf, &ops, &a->edge, err)) < 0)
		return r;
	link_tell(a->link, &ready);
	link_serve(a->link, &ev);
	return 0;
}

int main(int argc, char **argv)
{
	static struct app a;
	struct err err = { 0 };
	int r;

	signal(SIGPIPE, SIG_IGN);
	log_init("pando-edge", LOG_LV_INFO);
	if (argc > 1) {
		printf("pando-edge: the edge of Pando, which parses what strangers send; started "
		       "by pandod, not by hand\n");
		return strcmp(argv[1], "--help") == 0 ? 0 : 1;
	}
	r = run(&a, &err);
	if (r < 0)
		log_error("%s", err.msg);
	edge_free(a.edge);
	ways_free(a.ways);
	link_free(a.link);
	return r < 0 ? 1 : 0;
}
