/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate_inject.c - a request over TLS gets headers its sender never sees
 *
 * The guest's TLS ends here, with a certificate of the authority it trusts; the
 * request's head is read and must be for the very name of the handshake; the
 * real server is connected to and its certificate checked for that name; only
 * then the head is sent on with the headers added. One request per connection,
 * unless it changes protocol. What went wrong is said as a reply, never
 * with a header's value in it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "h1/h1.h"
#include "net/gate_internal.h"

#define HANDSHAKE_MS 20000
#define HEAD_MS 60000 /* from the handshake to the whole head */
#define REPLY_MS 5000

static void ssl_freep(SSL **s)
{
	SSL_free(*s);
}

static int say(SSL *down, int status, const char *reason, const char *text)
{
	char out[512];
	int n = snprintf(out, sizeof(out),
	                 "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
	                 "Connection: close\r\n\r\n%s\n",
	                 status, reason, strlen(text) + 1, text);

	gate_tls_write(down, out, (size_t)n, deadline_in(REPLY_MS));
	SSL_shutdown(down);
	return -EPROTO;
}

/* Bytes read, with the head at their beginning. */
static int read_head(SSL *down, char *p, char name[SNIFF_NAME_MAX], size_t *ret_n,
                     struct h1_head *ret_head)
{
	uint64_t deadline = deadline_in(HEAD_MS);
	size_t n = 0;
	int r;

	do {
		r = gate_tls_read(down, p + n, SNIFF_MAX - n, deadline);
		if (r < 0)
			return r;
		n += (size_t)r;
		r = sniff_http(p, n, name, ret_head);
	} while (r == 0 && n < SNIFF_MAX);
	*ret_n = n;
	return r == 1 ? 0 : -EBADMSG;
}

static int upstream_tls(struct proxied *c, SSL **ret)
{
	AUTO(ssl_freep) SSL *up = NULL;
	struct err err = { 0 };
	int r = gate_upstream(c, &err);

	if (r < 0)
		return r;
	up = SSL_new(c->g->client);
	if (!up || SSL_set_fd(up, c->up) != 1 || SSL_set_tlsext_host_name(up, c->name) != 1 ||
	    SSL_set1_host(up, c->name) != 1)
		return -ENOMEM;
	r = gate_tls_do(up, SSL_connect, deadline_in(HANDSHAKE_MS));
	if (r < 0)
		return SSL_get_verify_result(up) == X509_V_OK ? r : -EKEYREJECTED;
	*ret = TAKE_PTR(up);
	return 0;
}

static int forward(struct proxied *c, const struct egress_inject *in, SSL *down, SSL *up,
                   const char *p, size_t n, const struct h1_head *head)
{
	autobuf struct buf out = { 0 };
	struct relay_end a = { .fd = c->down, .ssl = down }, b = { .fd = c->up, .ssl = up };
	int r;

	sniff_http_rewrite(head, in->headers, in->n, &out);
	if (!head->upgrade)
		buf_put(&out, p + head->len, n - head->len);
	if (out.failed)
		r = -ENOMEM;
	else if (head->upgrade)
		r = gate_upgrade(&a, &b, out.p, out.len, p + head->len, n - head->len);
	else
		r = gate_relay(&a, &b, out.p, out.len);
	if (out.p)
		explicit_bzero(out.p, out.len);
	SSL_shutdown(down);
	return r;
}

int gate_inject(struct proxied *c, const struct egress_inject *in)
{
	autofree char *p = malloc(SNIFF_MAX);
	AUTO(ssl_freep) SSL *down = NULL;
	AUTO(ssl_freep) SSL *up = NULL;
	char name[SNIFF_NAME_MAX];
	struct h1_head head;
	size_t n = 0;
	struct err err = { 0 };
	int r;

	mutex_lock(&c->g->lock);
	c->injected = true;
	mutex_unlock(&c->g->lock);
	down = p ? gate_ca_accept(c->ca, c->name, c->down, &err) : NULL;
	if (!down)
		return -ENOMEM;
	r = gate_tls_do(down, SSL_accept, deadline_in(HANDSHAKE_MS));
	if (r < 0)
		return r;
	r = read_head(down, p, name, &n, &head);
	if (r == -EBADMSG)
		return say(down, 400, "Bad Request",
		           "Headers can be added to plain HTTP/1.1 requests only.");
	if (r < 0)
		return r;
	if (strcmp(name, c->name) != 0)
		return say(down, 421, "Misdirected Request",
		           "The request names another host than the TLS handshake did.");
	r = upstream_tls(c, &up);
	if (r == -EKEYREJECTED)
		return say(down, 502, "Bad Gateway",
		           "The server's certificate could not be verified: nothing was sent.");
	if (r < 0)
		return say(down, 502, "Bad Gateway", "The server could not be reached.");
	return forward(c, in, down, up, p, n, &head);
}
