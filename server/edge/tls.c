/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls.c - one TLS context for all names, and TLS over a socket that is polled edge-triggered
 *
 * Theory of operation: the certificate is chosen when the client has said which name it wants. One
 * that is not in memory is requested from the mint; OpenSSL suspends the handshake until on_cert()
 * is called again (SSL_ERROR_WANT_X509_LOOKUP), while the connection's deadline runs. What a client
 * sends before that name is known is kept, because the name may lead to a program that speaks TLS
 * itself: it gets every byte from the first (raw.c). Between
 * OpenSSL and the socket stands a BIO of our own, for two reasons. It knows when a read has emptied
 * the socket, which saves a call that would only return EAGAIN. And it collects the records of one
 * response in a buffer of the worker ("cork") and sends them with one call; what the socket has no
 * room for waits in conn->wire, and nothing more is encrypted until that is sent.
 */
#include <ctype.h>
#include <errno.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "edge/edge_internal.h"

static const unsigned char session_id[] = "pando-edge";

/* The name in lower case; "": none was sent. */
static int wanted_name(const SSL *ssl, char ret[H1_HOST_MAX + 1])
{
	const char *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	size_t n = 0;

	if (!sni)
		sni = "";
	for (; sni[n] && n < H1_HOST_MAX; n++)
		ret[n] = (char)tolower((unsigned char)sni[n]);
	ret[n] = '\0';
	return sni[n] || (n && !h1_host_name(ret, n)) ? -EBADMSG : 0;
}

/* ---- names that lead to programs with their own certificate ---- */

/* The one host name of a server_name extension, in lower case; false: it is not as it should be,
 * which OpenSSL will say. */
static bool hello_name(SSL *ssl, char ret[H1_HOST_MAX + 1])
{
	const unsigned char *p;
	size_t n;

	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &p, &n) != 1)
		return false;
	/* length of the list, type, length of the name */
	if (n < 6 || (size_t)(p[0] << 8 | p[1]) != n - 2 || p[2] != TLSEXT_NAMETYPE_host_name ||
	    (size_t)(p[3] << 8 | p[4]) != n - 5 || n - 5 > H1_HOST_MAX)
		return false;
	for (size_t i = 0; i < n - 5; i++)
		ret[i] = (char)tolower(p[5 + i]);
	ret[n - 5] = '\0';
	return h1_host_name(ret, n - 5);
}

/* Of the first message. It stops here if somebody else is to answer it: see tls_handshake(). */
static int on_hello(SSL *ssl, int *alert, void *arg)
{
	struct edge *e = arg;
	struct conn *c = SSL_get_app_data(ssl);
	char sent[H1_HOST_MAX + 1], name[EDGE_HOST_SIZE];
	struct edge_target t;

	if (c->hello)
		return SSL_CLIENT_HELLO_SUCCESS;
	c->hello = true;
	if (hello_name(ssl, sent)) {
		conn_asks(c, sent, name);
		e->ops.route(e->ops.ctx, name, &t);
		c->raw = t.kind == EDGE_VM && t.raw;
	}
	if (c->raw && c->in.len < EDGE_HELLO_MAX) {
		memcpy(c->w->hello, sent, sizeof(sent));
		return SSL_CLIENT_HELLO_RETRY;
	}
	ebuf_done(&c->in);
	*alert = SSL_AD_INTERNAL_ERROR; /* there may be more of it than was kept */
	return c->raw ? SSL_CLIENT_HELLO_ERROR : SSL_CLIENT_HELLO_SUCCESS;
}

/* OpenSSL is not needed any more. */
static void let_go(struct conn *c)
{
	SSL_free(TAKE_PTR(c->ssl));
	c->shaken = true;
	raw_begin(c, c->w->hello);
}

/* 1: go on, 0: fail with an alert, -1: call again. */
static int on_cert(SSL *ssl, void *arg)
{
	struct edge *e = arg;
	struct conn *c = SSL_get_app_data(ssl);
	char sent[H1_HOST_MAX + 1], name[EDGE_HOST_SIZE];
	int r;

	if (c->cert != CERT_UNASKED)
		return c->cert == CERT_WAITS ? -1 : 0;
	if (!e->ops.cert || wanted_name(ssl, sent) < 0)
		return 0;
	conn_asks(c, sent, name);
	r = e->ops.cert(e->ops.ctx, name, ssl);
	ERR_clear_error(); /* errors left by the lookup are not this connection's */
	if (r != -EAGAIN)
		return r == 0;
	c->cert_name = strdup(name);
	if (!c->cert_name || mint_ask(e->mint, c->w, name) < 0) {
		free(TAKE_PTR(c->cert_name));
		return 0;
	}
	c->cert = CERT_WAITS;
	return -1;
}

void tls_cert_over(struct conn *c, bool ok)
{
	free(TAKE_PTR(c->cert_name));
	c->cert = ok ? CERT_UNASKED : CERT_FAILED;
}

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1";
	unsigned char *chosen;

	if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* ---- the BIO ---- */

static int bio_read(BIO *b, char *p, int n)
{
	struct conn *c = BIO_get_data(b);
	ssize_t r;

	BIO_clear_retry_flags(b);
	if (!c->io.readable) {
		BIO_set_retry_read(b);
		return -1;
	}
	if (!c->hello && c->in.len < EDGE_HELLO_MAX)
		n = MIN(n, (int)(EDGE_HELLO_MAX - c->in.len));
	do
		r = recv(c->io.fd, p, (size_t)n, 0);
	while (r < 0 && errno == EINTR);
	if (r < 0 && errno == EAGAIN) {
		c->io.readable = false;
		BIO_set_retry_read(b);
	} else if (r > 0 && r < n && !c->io.ended) {
		c->io.readable = false;
	}
	if (r > 0 && !c->hello && c->in.len < EDGE_HELLO_MAX && ebuf_put(&c->in, p, (size_t)r) < 0)
		return -1;
	return (int)r;
}

/* Bytes the socket took, 0: it has no room, -1: broken. */
static ssize_t put(struct conn *c, const uint8_t *p, size_t n)
{
	ssize_t r;

	if (!c->io.writable)
		return 0;
	do
		r = send(c->io.fd, p, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	if (r < 0 && errno != EAGAIN)
		return -1;
	if (r < (ssize_t)n)
		c->io.writable = false;
	if (r > 0)
		c->moved_ms = c->w->now;
	return MAX(r, 0);
}

/* Sends what waits in wire; returns as put(). */
static ssize_t put_wire(struct conn *c)
{
	ssize_t n = c->wire.len ? put(c, ebuf_at(&c->wire), c->wire.len) : 0;

	if (n > 0)
		ebuf_take(&c->wire, (size_t)n);
	if (!c->wire.len)
		ebuf_done(&c->wire); /* most clients never need it */
	return n;
}

static int bio_write(BIO *b, const char *p, int n)
{
	struct conn *c = BIO_get_data(b);
	struct worker *w = c->w;
	ssize_t r = 0;

	BIO_clear_retry_flags(b);
	if (c->corked && (size_t)n <= sizeof(w->cork) - w->cork_len) {
		memcpy(w->cork + w->cork_len, p, (size_t)n);
		w->cork_len += (size_t)n;
		return n;
	}
	if (!c->corked && put_wire(c) < 0)
		return -1;
	if (!c->corked && !c->wire.len)
		r = put(c, (const uint8_t *)p, (size_t)n);
	if (r == 0)
		BIO_set_retry_write(b);
	return r == 0 ? -1 : (int)r;
}

static long bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	return cmd == BIO_CTRL_FLUSH; /* there is nothing to flush, and nothing else to do */
}

static int bio_new(BIO *b)
{
	BIO_set_init(b, 1);
	return 1;
}

static BIO_METHOD *method_new(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "edge");

	if (m && BIO_meth_set_read(m, bio_read) == 1 && BIO_meth_set_write(m, bio_write) == 1 &&
	    BIO_meth_set_ctrl(m, bio_ctrl) == 1 && BIO_meth_set_create(m, bio_new) == 1)
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* ---- a connection ---- */

int tls_open(struct conn *c)
{
	struct edge *e = c->w->e;
	BIO *b;

	c->ssl = SSL_new(e->ssl_ctx);
	b = c->ssl ? BIO_new(e->bio) : NULL;
	if (!b)
		return -ENOMEM; /* the caller frees c->ssl */
	BIO_set_data(b, c);
	SSL_set_bio(c->ssl, b, b);
	SSL_set_app_data(c->ssl, c);
	SSL_set_accept_state(c->ssl);
	return 0;
}

/* What a failed call means; 0: wait, -1: broken, or at its end. */
static int result(struct conn *c, int r)
{
	int e = SSL_get_error(c->ssl, r);

	return e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE ||
	                       e == SSL_ERROR_WANT_X509_LOOKUP
	               ? 0
	               : -1;
}

int tls_handshake(struct conn *c)
{
	int r;

	if (c->cert == CERT_WAITS)
		return c->io.ended ? -1 : 0; /* the client has left */
	ERR_clear_error();
	r = SSL_do_handshake(c->ssl);
	if (r != 1 && SSL_get_error(c->ssl, r) == SSL_ERROR_WANT_CLIENT_HELLO_CB) {
		let_go(c);
		return c->dead ? -1 : 1;
	}
	return r == 1 ? 1 : result(c, r);
}

int tls_read(struct conn *c, uint8_t *p, size_t n)
{
	int r;

	ERR_clear_error();
	r = SSL_read(c->ssl, p, (int)n);
	return r > 0 ? r : result(c, r);
}

int tls_flush(struct conn *c)
{
	struct worker *w = c->w;
	ssize_t done = put_wire(c), n;
	int r = 1;

	if (done < 0 || c->wire.len)
		return (int)done;
	w->cork_len = 0;
	c->corked = true;
	ERR_clear_error();
	while (r > 0 && c->out.len && w->cork_len + EDGE_CORK / 4 <= EDGE_CORK) {
		r = SSL_write(c->ssl, ebuf_at(&c->out), (int)MIN(c->out.len, EDGE_RECORD));
		if (r > 0)
			ebuf_take(&c->out, (size_t)r);
	}
	c->corked = false;
	if (r <= 0 && result(c, r) < 0)
		return -1;
	n = put(c, w->cork, w->cork_len);
	if (n < 0 || ((size_t)n < w->cork_len &&
	              ebuf_put(&c->wire, w->cork + n, w->cork_len - (size_t)n) < 0))
		return -1;
	return (int)(done + n);
}

int tls_new(struct edge *e, struct err *err)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx)
		return err_set(err, -ENOMEM, "edge: no TLS context");
	e->ssl_ctx = ctx;
	e->bio = method_new();
	if (!e->bio)
		return err_set(err, -ENOMEM, "edge: no TLS context");
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL:!eNULL") != 1 ||
	    SSL_CTX_set_session_id_context(ctx, session_id, sizeof(session_id) - 1) != 1)
		return err_set(err, -EINVAL, "edge: OpenSSL refuses the TLS settings");
	SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
	                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                              SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); /* tickets only: no memory */
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, 32u << 10);
	SSL_CTX_set_client_hello_cb(ctx, on_hello, e);
	SSL_CTX_set_cert_cb(ctx, on_cert, e);
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, e);
	return 0;
}
