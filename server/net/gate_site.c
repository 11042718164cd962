/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate_site.c - the way from a guest to the proxy and the mirrors of the site it runs at
 *
 * Guests cannot reach private addresses, and a company's proxy has one. So their gateway is their
 * proxy (PRIV_SITE_PORT): what they ask it for is checked against their policy, by name, and then
 * asked of the site's proxy, with the site's password, from the host and not from the slot. No rule
 * of the slot has to open for it, and the only addresses that can be reached this way are the ones
 * that the operator has named.
 *
 * A mirror is connected to directly if there is no proxy or if it is in the site's own
 * network, as companies have it. Addresses of that network, given as such, are not
 * passed to the proxy either; what names lead there is the proxy's to know, and to deny.
 *
 * CONNECT becomes a tunnel; headers are injected into it as into any other connection
 * (gate_inject.c). A plain request is written anew, as the only one of its connection: a second one
 * could be for another name.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"
#include "h1/h1.h"
#include "net/gate_internal.h"

#define HEAD_MS 30000
#define CONNECT_MS 20000
#define REPLY_MS 5000

/* Where a request goes. */
struct way {
	struct gate_host to; /* the proxy, or the mirror itself */
	bool direct;
	char auth[sizeof(((struct gate_site *)0)->auth)];
};

static int say(struct proxied *c, int status, const char *reason, const char *text)
{
	struct relay_end down = { .fd = c->down };
	char out[1024];
	int n = snprintf(out, sizeof(out),
	                 "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
	                 "Connection: close\r\n\r\n%s\n",
	                 status, reason, strlen(text) + 1, text);

	gate_write(&down, out, (size_t)n, deadline_in(REPLY_MS));
	return -EPROTO;
}

static int read_head(struct proxied *c, char *p, size_t *ret_n, struct h1_head *head)
{
	struct relay_end down = { .fd = c->down };
	uint64_t deadline = deadline_in(HEAD_MS);
	size_t n = 0, scan = 0;
	int r = 0;

	while (r == 0) {
		ssize_t k =
		        n < SNIFF_MAX ? gate_read(&down, p + n, SNIFF_MAX - n, deadline) : -E2BIG;

		if (k <= 0)
			return k < 0 ? (int)k : -ECONNRESET;
		n += (size_t)k;
		r = h1_proxy_request(p, n, &scan, head);
	}
	*ret_n = n;
	return r < 0 ? r : 0;
}

/* What it wants, in c: a name and addr 0, or an address and no name; and the port. */
static int take_target(struct proxied *c, const struct h1_head *h)
{
	char name[SNIFF_NAME_MAX], port[8];
	bool tunnel = h1_is(h->method, "CONNECT");
	struct in_addr a = { 0 };
	unsigned long n;

	if (!h->host.n || h->host.n >= sizeof(name) || h->host.p[0] == '[' || h->port.n > 5)
		return -EBADMSG;
	snprintf(name, sizeof(name), "%.*s", (int)h->host.n, h->host.p);
	snprintf(port, sizeof(port), "%.*s", (int)h->port.n, h->port.p);
	for (char *s = name; *s; s++)
		*s = (char)tolower((unsigned char)*s);
	n = *port ? strtoul(port, NULL, 10) : tunnel ? 443 : 80;
	if (n == 0 || n > 65535)
		return -EBADMSG;
	/* inet_aton() reads 0x7f.1 and 2130706433 as addresses, as the proxy may: no names */
	if (inet_aton(name, &a) && inet_pton(AF_INET, name, &a) != 1)
		return -EBADMSG;
	LOCK_SCOPE(&c->g->lock);
	c->site = true;
	c->here = false;
	c->addr = ntohl(a.s_addr);
	c->port = (uint16_t)n;
	memcpy(c->name, c->addr ? "" : name, c->addr ? 1 : sizeof(name));
	return 0;
}

static void host_text(const struct proxied *c, char ret[SNIFF_NAME_MAX])
{
	struct in_addr a = { .s_addr = htonl(c->addr) };

	if (c->addr)
		inet_ntop(AF_INET, &a, ret, SNIFF_NAME_MAX);
	else
		memcpy(ret, c->name, SNIFF_NAME_MAX);
}

bool gate_site_allowed(const struct proxied *c, const struct egress *policy)
{
	return c->addr ? egress_conn_allowed(policy, "", /* pinned= */ false, c->addr, c->port)
	               : egress_here_allowed(policy, c->name, c->port);
}

static struct addrinfo *resolve(const struct gate_host *h)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	char port[8];

	snprintf(port, sizeof(port), "%u", h->port);
	return getaddrinfo(h->name, port, &hints, &list) == 0 ? list : NULL;
}

static void addrinfo_freep(struct addrinfo **a)
{
	if (*a)
		freeaddrinfo(*a);
}

static bool is_internal(const struct gate_host *h)
{
	AUTO(addrinfo_freep) struct addrinfo *list = resolve(h);

	return list && sock_is_internal(list->ai_addr);
}

/* -ENOENT: there is no proxy, and it is no mirror; -EACCES: an address of the site's network. */
static int find_way(struct proxied *c, struct way *w)
{
	struct gate_site s;
	struct gate_host want = { .port = c->port };
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(c->addr) };
	bool mirror = false;

	mutex_lock(&c->g->lock);
	s = c->g->site;
	mutex_unlock(&c->g->lock);
	host_text(c, want.name);
	for (size_t i = 0; i < s.n_mirrors; i++)
		mirror |= s.mirrors[i].port == c->port && !strcmp(s.mirrors[i].name, want.name);
	if (mirror && (!*s.proxy.name || is_internal(&want))) {
		*w = (struct way){ .to = want, .direct = true };
		return 0;
	}
	if (!*s.proxy.name)
		return -ENOENT;
	if (c->addr && sock_is_internal((struct sockaddr *)&sa))
		return -EACCES;
	*w = (struct way){ .to = s.proxy };
	memcpy(w->auth, s.auth, sizeof(w->auth));
	return 0;
}

static int dial(struct proxied *c, const struct gate_host *to, struct err *err)
{
	AUTO(addrinfo_freep) struct addrinfo *list = resolve(to);
	int r = -EHOSTUNREACH, so;
	socklen_t len = sizeof(so);

	if (!list)
		return err_set(err, -EHOSTUNREACH, "'%.200s' cannot be resolved", to->name);
	for (struct addrinfo *a = list; a && r < 0; a = a->ai_next) {
		autofd int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd < 0)
			return err_sys(err, -errno, "make a socket");
		r = sock_connect_soon(fd, a->ai_addr, a->ai_addrlen, CONNECT_MS);
		so = 0;
		if (r == 0 && io_wait(fd, POLLOUT, deadline_in(1)) != 1)
			r = -ETIMEDOUT;
		if (r == 0 && (getsockopt(fd, SOL_SOCKET, SO_ERROR, &so, &len) < 0 || so))
			r = so ? -so : -EIO;
		if (r < 0)
			continue;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		LOCK_SCOPE(&c->g->lock);
		if (c->up >= 0)
			close(c->up);
		c->up = TAKE_FD(fd);
	}
	return r < 0 ? err_sys(err, r, "connect to '%.200s' port %u", to->name, to->port) : 0;
}

static int read_answer(struct proxied *c, struct err *err)
{
	autofree char *p = malloc(SNIFF_MAX);
	struct relay_end up = { .fd = c->up };
	uint64_t deadline = deadline_in(HEAD_MS);
	size_t n = 0, scan = 0;
	struct h1_head h;
	int r = p ? 0 : -ENOMEM;

	/* Byte by byte at its end would be slow; what follows a head is the tunnel's first bytes,
	 * and no server speaks first before the guest has said anything through it. */
	while (r == 0) {
		ssize_t k = n < SNIFF_MAX ? gate_read(&up, p + n, SNIFF_MAX - n, deadline) : -E2BIG;

		if (k <= 0)
			return err_set(err, k < 0 ? (int)k : -ECONNRESET,
			               "the site's proxy did not answer");
		n += (size_t)k;
		r = h1_response(p, n, &scan, /* to_head= */ true, &h);
	}
	if (r < 0)
		return err_set(err, r, "the site's proxy did not answer in HTTP");
	if (h.status / 100 != 2)
		return err_set(err, -ECONNREFUSED, "the site's proxy answered %u", h.status);
	return n == h.len ? 0 : err_set(err, -EPROTO, "the site's proxy sent more than an answer");
}

int gate_site_upstream(struct proxied *c, struct err *err)
{
	autobuf struct buf b = { 0 };
	char host[SNIFF_NAME_MAX];
	struct relay_end up;
	struct way w;
	int r;

	if ((r = find_way(c, &w)) < 0 || (r = dial(c, &w.to, err)) < 0 || w.direct)
		return r;
	host_text(c, host);
	buf_printf(&b, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", host, c->port, host, c->port);
	if (*w.auth)
		buf_printf(&b, "Proxy-Authorization: %s\r\n", w.auth);
	buf_put(&b, "\r\n", 2);
	if (b.failed)
		return -ENOMEM;
	up = (struct relay_end){ .fd = c->up };
	r = gate_write(&up, b.p, b.len, deadline_in(REPLY_MS));
	explicit_bzero(b.p, b.len);
	return r < 0 ? r : read_answer(c, err);
}

static int serve_tunnel(struct proxied *c, const char *rest, size_t n_rest)
{
	static const char ok[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	struct relay_end a = { .fd = c->down }, b;
	const struct egress_inject *in;
	struct err err = { 0 };
	int r;

	in = c->ca && *c->name && c->port == 443 && !n_rest ? egress_inject_for(c->policy, c->name)
	                                                    : NULL;
	if (!in && (r = gate_site_upstream(c, &err)) < 0)
		return say(c, 502, "Bad Gateway", *err.msg ? err.msg : "The proxy failed.");
	r = gate_write(&a, ok, sizeof(ok) - 1, deadline_in(REPLY_MS));
	if (r < 0)
		return r;
	if (in)
		return gate_inject(c, in);
	b = (struct relay_end){ .fd = c->up };
	return gate_relay(&a, &b, rest, n_rest);
}

static int serve_plain(struct proxied *c, const struct way *w, struct h1_head *h, const char *rest,
                       size_t n_rest)
{
	static const struct h1_text skip[] = { H1_TEXT("proxy-authorization"),
		                               H1_TEXT("proxy-connection") };
	autobuf struct buf out = { 0 }, target = { 0 };
	struct relay_end a = { .fd = c->down }, b;
	char host[SNIFF_NAME_MAX];
	struct err err = { 0 };
	int r = dial(c, &w->to, &err);

	if (r < 0)
		return say(c, 502, "Bad Gateway", err.msg);
	host_text(c, host);
	if (!w->direct) { /* h1 has made a path of it */
		buf_printf(&target, "http://%s", host);
		if (c->port != 80)
			buf_printf(&target, ":%u", c->port);
		buf_put(&target, h->target.p, h->target.n);
		if (target.failed)
			return -ENOMEM;
		h->target = (struct h1_text){ (const char *)target.p, target.len };
	}
	h1_forward(h, skip, ARRAY_SIZE(skip), &out);
	if (*w->auth)
		buf_printf(&out, "Proxy-Authorization: %s\r\n", w->auth);
	buf_printf(&out, "Connection: close\r\n\r\n");
	buf_put(&out, rest, n_rest);
	if (out.failed)
		return -ENOMEM;
	b = (struct relay_end){ .fd = c->up };
	r = gate_relay(&a, &b, out.p, out.len);
	explicit_bzero(out.p, out.len);
	return r;
}

static int refuse(struct proxied *c)
{
	struct gate_blocked b = { .cause = *c->name ? GATE_NAMED : GATE_ADDRESS,
		                  .addr = c->addr,
		                  .proto = IPPROTO_TCP,
		                  .port = c->port,
		                  .at_ms = clock_wall_ms() };

	snprintf(b.name, sizeof(b.name), "%s", c->name);
	gate_log_add(c->log, &b);
	return say(c, 403, "Forbidden", "The egress policy of this VM does not allow it.");
}

int gate_site(struct proxied *c)
{
	autofree char *p = malloc(SNIFF_MAX);
	struct h1_head head;
	struct way w;
	size_t n = 0;
	int r = p ? read_head(c, p, &n, &head) : -ENOMEM;

	if (r == 0)
		r = take_target(c, &head);
	if (r == -EBADMSG || r == -E2BIG || r == -EPROTONOSUPPORT || r == -ENOTSUP)
		return say(c, 400, "Bad Request", "This is not a request to a proxy.");
	if (r < 0)
		return r;
	if (!gate_site_allowed(c, c->policy))
		return refuse(c);
	r = find_way(c, &w);
	if (r == -EACCES)
		return refuse(c);
	if (r < 0)
		return say(c, 403, "Forbidden",
		           "This server's guests have no proxy (PANDO_GUEST_PROXY), only package "
		           "mirrors.");
	if (h1_is(head.method, "CONNECT"))
		return serve_tunnel(c, p + head.len, n - head.len);
	return serve_plain(c, &w, &head, p + head.len, n - head.len);
}
