/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - one TLS context for all names: the certificate is chosen when the client has said which
 */
#include <ctype.h>
#include <errno.h>
#include <openssl/err.h>
#include <string.h>

#include "edge/edge_internal.h"

static const unsigned char session_id[] = "pando-edge";

static int on_cert(SSL *ssl, void *arg)
{
	struct edge *e = arg;
	const char *sni = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
	char name[H1_HOST_MAX + 1];
	size_t n = 0;
	bool ok;

	if (!sni)
		sni = "";
	for (; sni[n] && n < sizeof(name) - 1; n++)
		name[n] = (char)tolower((unsigned char)sni[n]);
	name[n] = '\0';
	if (sni[n] || (n && !h1_host_name(name, n)))
		return 0; /* the handshake fails */
	ok = e->ops.cert && e->ops.cert(e->ops.ctx, name, ssl) == 0;
	ERR_clear_error(); /* what reading files left there is not this connection's */
	return ok;
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

int tls_new(struct edge *e, struct err *err)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

	if (!ctx)
		return err_set(err, -ENOMEM, "edge: no TLS context");
	e->ssl_ctx = ctx;
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
	SSL_CTX_set_cert_cb(ctx, on_cert, e);
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, e);
	return 0;
}
