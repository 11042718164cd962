/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.c - one connection from outside to a port of a VM
 *
 * A thread per connection, as for the API: it wakes the VM, which may take long, tries its port
 * until that can be expected to listen, and then passes bytes on in both directions. Nothing is
 * ever looked at, so there is nothing to be parsed wrongly, and no process of its own is needed.
 * What one side does not take the other must keep: 32 KiB are in between. A side that has finished
 * sending is told on; the other may go on. When the VM's machine ends its sockets would stay silent
 * for ever: port_conn_cut() ends them.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/rate.h"
#include "ports/ports_internal.h"
#include "vm/vm.h"

#define BUFFER (32u << 10)
#define CONNECT_MS 10000 /* for a port of the VM to answer */
#define AGAIN_MS 100     /* between attempts while its programs start */
#define KEEP_S 60        /* silence after which clients are asked whether they are there */

struct way { /* one direction */
	int from, to;
	char *buf;
	size_t at, n;
	bool ended, told; /* from sends no more; to knows */
};

struct port_conn *port_conn_new(const struct store_port *row, const struct sockaddr_storage *from,
                                socklen_t len)
{
	struct port_conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct port_conn){ .row = *row,
		                 .from = *from,
		                 .from_len = len,
		                 .client = -1,
		                 .up = -1,
		                 .feed = -1,
		                 .back = -1 };
	sock_net_text((const struct sockaddr *)from, c->address);
	return c;
}

void port_conn_free(struct port_conn *c)
{
	const int fds[] = { c->client, c->up, c->feed, c->back };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	free(c);
}

void port_conn_cut(struct port_conn *c)
{
	c->cut = true;
	shutdown(c->client, SHUT_RDWR);
	if (c->up >= 0)
		shutdown(c->up, SHUT_RDWR);
}

static bool is_cut(struct port_conn *c)
{
	LOCK_SCOPE(&c->p->lock);
	return c->cut;
}

static void port_conn_end(struct port_conn *c)
{
	struct ports *p = c->p;

	budget_give(p->by_account, c->row.account, 1);
	budget_give(p->by_address, c->address, 1);
	LOCK_SCOPE(&p->lock);
	*c->ref = c->next;
	if (c->next)
		c->next->ref = c->ref;
	port_conn_free(c);
	cond_broadcast(&p->quiet);
}

/* ---- the way to the VM ---- */

/* 0: connected; *ret_fresh: how long its programs may still be starting. */
static int try_open(struct port_conn *c, unsigned *ret_fresh, struct err *err)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
		                  .sin_port = htons((uint16_t)c->row.target),
		                  .sin_addr.s_addr = inet_addr(VM_GUEST_ADDR) };
	struct vm_socket s = { .fd = -1, .udp = port_is_udp(&c->row) };
	struct place at = place_of_vm(c->p->peers, c->row.vm, err);
	struct vm_info v;
	socklen_t len = sizeof(int);
	int so = 0, r;

	*ret_fresh = 0;
	if (at.kind != PLACE_HERE)
		return at.kind == PLACE_NODE ? port_far_open(c, at.node, err) : -ENOTCONN;
	r = vmm_socket(c->p->vmm, c->row.account, c->row.vm, &s, err);
	if (r < 0)
		return r;
	autofd int fd = s.fd;
	*ret_fresh = s.fresh_ms;
	r = sock_connect_soon(fd, (const struct sockaddr *)&sa, sizeof(sa), CONNECT_MS);
	if (r < 0 || io_wait(fd, POLLOUT, deadline_in(0)) != 1 ||
	    getsockopt(fd, SOL_SOCKET, SO_ERROR, &so, &len) < 0 || so)
		return err_set(err, r < 0 ? r : -ECONNREFUSED,
		               "nothing answers at port %u of VM %s", c->row.target, c->row.vm);
	mutex_lock(&c->p->lock);
	c->up = TAKE_FD(fd);
	snprintf(c->instance, sizeof(c->instance), "%s", s.instance);
	mutex_unlock(&c->p->lock);
	/* Whoever ends the machine from here on finds us; it may have ended just before. */
	if (vmm_get(c->p->vmm, c->row.account, c->row.vm, &v, err) == 0 && v.state == VM_RUNNING &&
	    strcmp(v.instance, s.instance) == 0)
		return 0;
	mutex_lock(&c->p->lock);
	close(TAKE_FD(c->up));
	c->instance[0] = '\0';
	mutex_unlock(&c->p->lock);
	return err_set(err, -EAGAIN, "VM %s stopped", c->row.vm);
}

static bool client_left(struct port_conn *c, unsigned ms)
{
	struct pollfd p = { .fd = c->client, .events = POLLRDHUP };

	/* One that has sent everything it has to say is still there to hear. */
	return poll(&p, 1, (int)ms) > 0 && (p.revents & (POLLERR | POLLHUP));
}

static int open_up(struct port_conn *c, struct err *err)
{
	uint64_t begin = clock_ms(), until = begin + c->p->wait_ms;
	unsigned fresh;

	for (;;) {
		int r = try_open(c, &fresh, err);
		uint64_t now = clock_ms();

		if (r == 0)
			return 0;
		if ((r != -ECONNREFUSED && r != -EHOSTUNREACH && r != -ENETUNREACH &&
		     r != -EAGAIN) ||
		    (r != -EAGAIN && !fresh) || now >= until || is_cut(c) ||
		    client_left(c, AGAIN_MS))
			return r;
	}
}

/* ---- bytes ---- */

/* False: it is over. */
static bool push(struct way *w)
{
	while (w->n) {
		ssize_t k = send(w->to, w->buf + w->at, w->n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k < 0)
			return errno == EAGAIN || errno == EINTR;
		w->at += (size_t)k;
		w->n -= (size_t)k;
	}
	w->at = 0;
	if (w->ended && !w->told) {
		w->told = true;
		shutdown(w->to, SHUT_WR);
	}
	return true;
}

/* Bytes that moved, 0: none, -1: it is over. */
static ssize_t pull(struct way *w)
{
	ssize_t k;

	if (w->n || w->ended)
		return 0;
	k = recv(w->from, w->buf, BUFFER, MSG_DONTWAIT);
	if (k < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (k == 0)
		w->ended = true;
	w->at = 0;
	w->n = (size_t)k;
	return k;
}

static void relay(struct port_conn *c, char *mem)
{
	struct way v[2] = { { .from = c->client, .to = c->up, .buf = mem },
		            { .from = c->up, .to = c->client, .buf = mem + BUFFER } };
	uint64_t until = deadline_in(c->p->idle_ms);

	while (!(v[0].told && v[1].told)) {
		struct pollfd p[2] = { { .fd = c->client }, { .fd = c->up } };
		int left;

		for (int i = 0; i < 2; i++) {
			if (!v[i].n && !v[i].ended)
				p[i].events |= POLLIN;
			if (v[i].n)
				p[!i].events |= POLLOUT;
		}
		for (int i = 0; i < 2; i++) /* one that is gone altogether would not let us wait */
			if (!p[i].events)
				p[i].fd = -1;
		left = deadline_left(until);
		if (left <= 0)
			return;
		if (poll(p, 2, left) < 0 && errno != EINTR)
			return;
		if ((p[0].revents | p[1].revents) & (POLLERR | POLLNVAL))
			return;
		for (int i = 0; i < 2; i++) {
			size_t before = v[i].n;
			ssize_t k = pull(&v[i]);

			if (k < 0 || !push(&v[i]))
				return;
			if (k > 0 || v[i].n != before)
				until = deadline_in(c->p->idle_ms);
		}
	}
}

static void *serve(void *arg)
{
	struct port_conn *c = arg;
	autofree char *mem = malloc((size_t)2 * BUFFER);
	struct err err = { 0 };
	int r = mem ? open_up(c, &err) : -ENOMEM;

	if (r == 0 && port_is_udp(&c->row))
		udp_relay(c, mem, (size_t)2 * BUFFER);
	else if (r == 0)
		relay(c, mem);
	else
		log_debug("port %u: %s", c->row.port, err.msg);
	port_conn_end(c);
	return NULL;
}

static void keep_alive(int fd)
{
	int on = 1, idle = KEEP_S, tries = 5;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof(tries));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* Within what its address and the VM's account may have; else it is closed. */
static bool admit(struct ports *p, const char *address, const char *account)
{
	if (!rate_take(p->rate, address, NULL) || budget_take(p->by_address, address, 1) < 0)
		return false;
	if (budget_take(p->by_account, account, 1) == 0)
		return true;
	budget_give(p->by_address, address, 1);
	return false;
}

static void enlist(struct ports *p, struct port_conn *c)
{
	LOCK_SCOPE(&p->lock);
	c->next = p->conns;
	c->ref = &p->conns;
	if (c->next)
		c->next->ref = &c->next;
	p->conns = c;
	if (atomic_load(&p->ending)) /* after the others were */
		port_conn_cut(c);
}

void port_conn_begin(struct ports *p, struct port_conn *c_consume)
{
	struct port_conn *c = c_consume;
	pthread_attr_t a;
	pthread_t t;
	int r;

	if (!admit(p, c->address, c->row.account)) {
		port_conn_free(c);
		return;
	}
	c->p = p;
	if (!port_is_udp(&c->row))
		keep_alive(c->client);
	enlist(p, c);
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &a, serve, c);
	pthread_attr_destroy(&a);
	if (r) {
		log_warn("port %u: no thread can be started: %s", c->row.port, err_name(r));
		port_conn_end(c);
	}
}
