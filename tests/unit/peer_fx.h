/* SPDX-License-Identifier: Apache-2.0 */
/* peer_fx.h - two nodes of one database that are connected (node_fx.h); for test_peer*.c */
#pragma once

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/sock.h"
#include "peer/peer_internal.h"
#include "tests/unit/node_fx.h"

#define WAIT_MS 30000

/* What the second node does with requests: it keeps the socket, and says them back if it is told
 * to. */
static struct {
	struct mutex lock;
	struct cond changed;
	unsigned n;
	char node[ID_SIZE];
	bool echo;
	int fds[8];
} taken;

static inline void *echo_main(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char buf[4096];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		if (send(fd, buf, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	close(fd);
	return NULL;
}

static inline int on_requests(void *ctx, int fd_consume, const char *node, struct err *e)
{
	LOCK_SCOPE(&taken.lock);

	snprintf(taken.node, sizeof(taken.node), "%s", node);
	if (taken.echo)
		assert_true(peers_thread(echo_main, (void *)(intptr_t)fd_consume));
	else
		taken.fds[taken.n % 8] = fd_consume;
	taken.n++;
	cond_broadcast(&taken.changed);
	return 0;
}

static inline unsigned taken_now(void)
{
	LOCK_SCOPE(&taken.lock);
	return taken.n;
}

struct pair {
	struct fx *f;
	struct peers *p, *q; /* of the first node, of the second */
};

static inline void free_address(char ret[NODE_ADDRESS_SIZE])
{
	/* not 127.0.0.1, from which others connect */
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 0x770000) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(sa);

	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
	close(fd);
	snprintf(ret, NODE_ADDRESS_SIZE, "127.119.0.1:%u", ntohs(sa.sin_port));
}

static inline void over(void *ctx)
{
}

static inline struct peers *join(struct fx *f, struct tmpdir *dir, const char *name,
                                 struct store **s, struct node **n, unsigned cert_s)
{
	char id[ID_SIZE], address[NODE_ADDRESS_SIZE];
	struct peers_conf pc = { .cert_s = cert_s };
	struct peers_hooks h = { .requests = on_requests };
	struct node_conf c;
	struct peers *p;
	bool fresh;

	free_address(address);
	open_store(f, dir, s, id, &fresh);
	c = conf_of(*s, id, name, address, fresh);
	c.over = over;
	OK(node_open(&c, n, &err));
	begin(*n);
	pc.address = address;
	pc.node = *n;
	pc.store = *s;
	OK(peers_open(&pc, &p, &err));
	OK(peers_begin(p, &h, &err));
	return p;
}

static inline enum node_health health_of(struct node *n, const char *id)
{
	enum node_health ret = NODE_DEAD;
	struct node_seen *v;
	size_t k;

	OK(node_list(n, &v, &k, &err));
	for (size_t i = 0; i < k; i++)
		if (strcmp(v[i].row.id, id) == 0)
			ret = v[i].health;
	free(v);
	return ret;
}

static inline void await_health(struct node *n, const char *id, bool dead)
{
	uint64_t until = deadline_in(WAIT_MS);

	while ((health_of(n, id) == NODE_DEAD) != dead) {
		assert_true(clock_ms() < until);
		usleep(20000);
	}
}

static inline struct pair both(void **state, unsigned cert_s)
{
	struct pair b = { .f = *state };

	memset(&taken, 0, sizeof(taken));
	mutex_init(&taken.lock, "test: taken");
	cond_init(&taken.changed);
	b.p = join(b.f, &b.f->dir, "one", &b.f->s, &b.f->n, cert_s);
	b.q = join(b.f, &b.f->other, "two", &b.f->t, &b.f->m, 0);
	await_health(b.f->n, node_id(b.f->m), /* dead= */ false);
	await_health(b.f->m, node_id(b.f->n), /* dead= */ false);
	return b;
}

static inline void end(struct pair *b)
{
	for (size_t i = 0; i < 8; i++)
		if (taken.fds[i] > 0)
			close(taken.fds[i]);
	b->p = peers_free(b->p);
	b->q = peers_free(b->q);
}
