/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy.c - the only way out of a child that fetches
 *
 * The child has a network namespace with nothing but a loopback; the socket that listens there is
 * the server's. We implement as much of an HTTP proxy as Git's HTTP library needs: CONNECT for
 * https, absolute addresses for http. Names are resolved and connections made here, so every
 * address is checked before anything is sent to it, redirects included, and the checked address is
 * the one connected to. Heads are read by h1, as the edge's and the guests' are, and written anew.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/sock.h"
#include "git/git_internal.h"
#include "h1/h1.h"
#include "hook/outbound.h"

#define CONNECTIONS_MAX 256 /* of one child, in its life */
#define HEAD_BUF (H1_HEAD_MAX + 1)
#define HEAD_MS 30000
#define CONNECT_MS 15000
#define STALL_MS 180000 /* a connection on which nothing moves */
#define PIECE 65536u

struct conn {
	struct proxy *p;
	pthread_t thread;
	int fd; /* owned */
};

struct proxy {
	int listen_fd, end_fd; /* owned */
	bool allow_private;
	int64_t max;          /* bytes that servers may send; 0: any number */
	_Atomic int64_t came; /* bytes they have sent */
	pthread_t thread;
	struct mutex lock;
	char refusal[160] GUARDED_BY(lock);
	struct conn conns[CONNECTIONS_MAX]; /* of the accepting thread, in order */
	unsigned n;
};

static void refused(struct proxy *p, const char *host, const char *why)
{
	LOCK_SCOPE(&p->lock);
	snprintf(p->refusal, sizeof(p->refusal), "%.80s: %s", host, why);
}

static int connect_one(const struct addrinfo *a)
{
	autofd int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int so = 0;
	socklen_t len = sizeof(so);

	if (fd < 0)
		return -errno;
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0 && errno != EINPROGRESS)
		return -errno;
	if (io_wait(fd, POLLOUT, deadline_in(CONNECT_MS)) != 1)
		return -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &so, &len) < 0 || so)
		return so ? -so : -EIO;
	return TAKE_FD(fd);
}

static int connect_to(struct proxy *p, const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	int fd = -EHOSTUNREACH;
	bool any = false;

	if (getaddrinfo(host, port, &hints, &list) != 0) {
		refused(p, host, "the name cannot be resolved");
		return -EHOSTUNREACH;
	}
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		if (!p->allow_private && sock_is_internal(a->ai_addr))
			continue;
		any = true;
		fd = connect_one(a);
	}
	freeaddrinfo(list);
	if (!any)
		refused(p, host, "the address is internal, which this server does not allow");
	else if (fd < 0)
		refused(p, host, "cannot connect");
	return fd;
}

/* For getaddrinfo(): without the brackets of an IPv6 address. */
static void copy_host(struct h1_text t, char ret[H1_HOST_MAX + 1])
{
	size_t off = t.n && t.p[0] == '[';

	snprintf(ret, H1_HOST_MAX + 1, "%.*s", (int)(t.n - 2 * off), t.p + off);
}

/* 1: the head is whole, and *ret_n bytes are there with it; else as h1_request(). */
static int read_head(int fd, char *buf, struct h1_head *ret, size_t *ret_n)
{
	uint64_t deadline = deadline_in(HEAD_MS);
	size_t n = 0, scan = 0;
	int r = 0;

	while (r == 0) {
		ssize_t k;

		if (io_wait(fd, POLLIN, deadline) != 1)
			return -ETIMEDOUT;
		k = recv(fd, buf + n, HEAD_BUF - n, 0);
		if (k <= 0)
			return -ECONNRESET;
		n += (size_t)k;
		r = h1_proxy_request(buf, n, &scan, ret);
	}
	*ret_n = n;
	return r;
}

static int send_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k;

		if (io_wait(fd, POLLOUT, deadline_in(STALL_MS)) != 1)
			return -ETIMEDOUT;
		k = send(fd, p, n, MSG_NOSIGNAL);
		if (k < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (k <= 0)
			return -EPIPE;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

/* May the far end send so many more? */
static bool takes(struct proxy *p, size_t n)
{
	char why[64];

	if (!p->max || atomic_fetch_add(&p->came, (int64_t)n) + (int64_t)n <= p->max)
		return true;
	snprintf(why, sizeof(why), "it sends more than the %lld MiB that are allowed",
	         (long long)(p->max >> 20));
	refused(p, "the other server", why);
	return false;
}

/* Both ways, until the far end is done. */
static void relay(struct proxy *p, int near, int far)
{
	autofree char *buf = malloc(PIECE);
	bool near_open = true;

	while (buf) {
		struct pollfd f[] = { { .fd = far, .events = POLLIN },
			              { .fd = near_open ? near : -1, .events = POLLIN },
			              { .fd = p->end_fd, .events = POLLIN } };
		ssize_t k;

		if (poll(f, ARRAY_SIZE(f), STALL_MS) <= 0 || f[2].revents)
			return;
		if (f[1].revents) {
			k = recv(near, buf, PIECE, 0);
			if (k <= 0) {
				near_open = false;
				shutdown(far, SHUT_WR);
			} else if (send_all(far, buf, (size_t)k) < 0) {
				return;
			}
		}
		if (f[0].revents) {
			k = recv(far, buf, PIECE, 0);
			if (k <= 0 || !takes(p, (size_t)k) || send_all(near, buf, (size_t)k) < 0)
				return;
		}
	}
}

static void answer(int fd, const char *status)
{
	char text[128];
	int n = snprintf(text, sizeof(text), "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", status);

	send_all(fd, text, (size_t)n);
}

/* "GET http://host/path HTTP/1.1" is sent on as "GET /path HTTP/1.1", one request per connection.
 */
static int forward_plain(int far, const struct h1_head *h, const char *rest, size_t n_rest)
{
	autobuf struct buf b = { 0 };

	h1_forward(h, NULL, 0, &b);
	buf_printf(&b, "Connection: close\r\n\r\n");
	buf_put(&b, rest, n_rest);
	return b.failed ? -ENOMEM : send_all(far, (char *)b.p, b.len);
}

static void serve(struct conn *c, const struct h1_head *h, const char *rest, size_t n_rest)
{
	bool tunnel = h1_is(h->method, "CONNECT");
	char host[H1_HOST_MAX + 1], port[8];
	autofd int far = -1;

	copy_host(h->host, host);
	snprintf(port, sizeof(port), "%.*s", (int)h->port.n, h->port.p);
	if (!*port)
		snprintf(port, sizeof(port), "%s", tunnel ? "443" : "80");
	far = connect_to(c->p, host, port);
	if (far < 0) {
		answer(c->fd, "403 Forbidden");
		return;
	}
	if (tunnel)
		answer(c->fd, "200 Connection established");
	if (tunnel ? send_all(far, rest, n_rest) < 0 : forward_plain(far, h, rest, n_rest) < 0)
		return;
	relay(c->p, c->fd, far);
}

static void *conn_main(void *arg)
{
	struct conn *c = arg;
	autofree char *buf = malloc(HEAD_BUF);
	struct h1_head head;
	size_t n = 0;
	int r = buf ? read_head(c->fd, buf, &head, &n) : -ENOMEM;

	if (r == 1)
		serve(c, &head, buf + head.len, n - head.len);
	else if (r != -ETIMEDOUT && r != -ECONNRESET && r != -ENOMEM)
		answer(c->fd, "400 Bad Request");
	shutdown(c->fd, SHUT_RDWR);
	return NULL;
}

static void *proxy_main(void *arg)
{
	struct proxy *p = arg;

	for (;;) {
		struct pollfd f[] = { { .fd = p->n < CONNECTIONS_MAX ? p->listen_fd : -1,
			                .events = POLLIN },
			              { .fd = p->end_fd, .events = POLLIN } };
		struct conn *c = &p->conns[p->n];

		if (poll(f, ARRAY_SIZE(f), -1) < 0 && errno != EINTR)
			break;
		if (f[1].revents)
			break;
		if (!f[0].revents)
			continue;
		c->p = p;
		c->fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC);
		if (c->fd < 0)
			continue;
		if (pthread_create(&c->thread, NULL, conn_main, c) != 0)
			close(c->fd);
		else
			p->n++;
	}
	for (unsigned i = 0; i < p->n; i++) {
		shutdown(p->conns[i].fd, SHUT_RDWR);
		pthread_join(p->conns[i].thread, NULL);
		close(p->conns[i].fd);
	}
	return NULL;
}

int proxy_start(int listen_fd_consume, bool allow_private, int64_t max, struct proxy **ret,
                struct err *err)
{
	struct proxy *p = calloc(1, sizeof(*p));

	if (!p) {
		close(listen_fd_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	p->listen_fd = listen_fd_consume;
	p->allow_private = allow_private;
	p->max = max;
	p->end_fd = eventfd(0, EFD_CLOEXEC);
	mutex_init(&p->lock, "git proxy");
	if (p->end_fd < 0 || fcntl(p->listen_fd, F_SETFL, O_NONBLOCK) < 0 ||
	    pthread_create(&p->thread, NULL, proxy_main, p) != 0) {
		close(p->listen_fd);
		if (p->end_fd >= 0)
			close(p->end_fd);
		free(p);
		return err_set(err, -EAGAIN, "cannot start the proxy of a git program");
	}
	*ret = p;
	return 0;
}

struct proxy *proxy_stop(struct proxy *p, char *ret_refusal, size_t size)
{
	if (!p)
		return NULL;
	eventfd_write(p->end_fd, 1);
	pthread_join(p->thread, NULL);
	snprintf(ret_refusal, size, "%s", p->refusal);
	close(p->listen_fd);
	close(p->end_fd);
	mutex_destroy(&p->lock);
	free(p);
	return NULL;
}
