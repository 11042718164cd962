/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cert.c - the cluster's CA and the certificates of nodes
 *
 * The CA's key is in the database, sealed, and made by the first node that needs it. Whoever can
 * read it (the database and the key of secrets) is a node anyway. A node's own key is made anew
 * with each certificate and is never written down.
 */
#include "peer/peer_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/auto.h"
#include "node/node.h"

#define CA_DAYS 3650
#define NODE_S (30u * 86400)
#define BACKDATE_S 3600 /* clocks of nodes are a minute apart at most */

static void pkey_freep(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}

static void x509_freep(X509 **x)
{
	X509_free(*x);
}

static void bio_freep(BIO **b)
{
	BIO_free(*b);
}

static void ctx_freep(SSL_CTX **c)
{
	SSL_CTX_free(*c);
}

static int fail(struct err *err, const char *what)
{
	char why[160];

	return err_set(err, -EIO, "certificates of nodes: OpenSSL cannot %s: %s", what,
	               tls_why(why, sizeof(why)));
}

static bool add_ext(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e && X509_add_ext(cert, e, -1) == 1;
	X509_EXTENSION_free(e);
	return ok;
}

static bool begin(X509 *cert, EVP_PKEY *key, long seconds, const char *name)
{
	unsigned char serial[16];

	random_bytes(serial, sizeof(serial));
	serial[0] = (unsigned char)((serial[0] & 0x7f) | 1);
	return X509_set_version(cert, X509_VERSION_3) == 1 &&
	       ASN1_STRING_set(X509_get_serialNumber(cert), serial, sizeof(serial)) == 1 &&
	       X509_gmtime_adj(X509_getm_notBefore(cert), -BACKDATE_S) &&
	       X509_gmtime_adj(X509_getm_notAfter(cert), seconds) &&
	       X509_set_pubkey(cert, key) == 1 &&
	       X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
	                                  (const unsigned char *)name, -1, -1, 0) == 1;
}

static bool take_text(BIO *b, char *dst, size_t size)
{
	char *p;
	long n = BIO_get_mem_data(b, &p);

	if (n <= 0 || (size_t)n >= size)
		return false;
	memcpy(dst, p, (size_t)n);
	dst[n] = '\0';
	return true;
}

static int make_ca(struct store_ca *ca, struct err *err)
{
	AUTO(pkey_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	AUTO(x509_freep) X509 *cert = X509_new();
	AUTO(bio_freep) BIO *k = BIO_new(BIO_s_secmem());
	AUTO(bio_freep) BIO *c = BIO_new(BIO_s_mem());

	if (!key || !cert || !k || !c || !begin(cert, key, CA_DAYS * 86400L, "Pando cluster CA") ||
	    X509_set_issuer_name(cert, X509_get_subject_name(cert)) != 1 ||
	    !add_ext(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
	    !add_ext(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
	    !add_ext(cert, cert, NID_subject_key_identifier, "hash") ||
	    X509_sign(cert, key, EVP_sha256()) == 0 ||
	    PEM_write_bio_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL) != 1 ||
	    PEM_write_bio_X509(c, cert) != 1 || !take_text(k, ca->key, sizeof(ca->key)) ||
	    !take_text(c, ca->cert, sizeof(ca->cert)))
		return fail(err, "make the cluster's CA");
	return 0;
}

static int read_ca(const struct store_ca *ca, EVP_PKEY **ret_key, X509 **ret_cert, struct err *err)
{
	AUTO(bio_freep) BIO *k = BIO_new_mem_buf(ca->key, -1);
	AUTO(bio_freep) BIO *c = BIO_new_mem_buf(ca->cert, -1);

	*ret_key = k ? PEM_read_bio_PrivateKey(k, NULL, NULL, NULL) : NULL;
	*ret_cert = c ? PEM_read_bio_X509(c, NULL, NULL, NULL) : NULL;
	return *ret_key && *ret_cert ? 0 : fail(err, "read the cluster's CA");
}

static bool issue(X509 *cert, EVP_PKEY *key, X509 *ca, EVP_PKEY *ca_key, const char *node,
                  unsigned seconds)
{
	return begin(cert, key, (long)seconds, node) &&
	       X509_set_issuer_name(cert, X509_get_subject_name(ca)) == 1 &&
	       add_ext(cert, ca, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_ext(cert, ca, NID_key_usage, "critical,digitalSignature") &&
	       add_ext(cert, ca, NID_ext_key_usage, "serverAuth,clientAuth") &&
	       add_ext(cert, ca, NID_authority_key_identifier, "keyid") &&
	       X509_sign(cert, ca_key, EVP_sha256()) != 0;
}

/* By length and text: the names of what a connection is for. */
static const unsigned char uses[] = "\x0epando-requests\x0cpando-socket\x09pando-ssh\x0apando-port";

static int on_alpn(SSL *ssl, const unsigned char **ret, unsigned char *ret_n,
                   const unsigned char *in, unsigned n, void *arg)
{
	unsigned char *out;

	if (SSL_select_next_proto(&out, ret_n, uses, sizeof(uses) - 1, in, n) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = out;
	return SSL_TLSEXT_ERR_OK;
}

static bool set_up(SSL_CTX *ctx, X509 *cert, EVP_PKEY *key, X509 *ca)
{
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_verify_depth(ctx, 1);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                              SSL_MODE_RELEASE_BUFFERS);
	/* Every connection shows a certificate, so none outlives its node's membership. */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
	SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
	return SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
	       SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
	       SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
	       X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca) == 1;
}

int cert_make(struct peers *p, SSL_CTX **ret, time_t *ret_until, struct err *err)
{
	unsigned seconds = p->conf.cert_s ? p->conf.cert_s : NODE_S;
	AUTO(pkey_freep) EVP_PKEY *ca_key = NULL, *key = EVP_EC_gen("P-256");
	AUTO(x509_freep) X509 *ca_cert = NULL, *cert = X509_new();
	AUTO(ctx_freep) SSL_CTX *ctx = SSL_CTX_new(TLS_method());
	struct store_ca ca;
	int r;

	r = store_node_ca(p->conf.store, make_ca, &ca, err);
	if (r == 0)
		r = read_ca(&ca, &ca_key, &ca_cert, err);
	OPENSSL_cleanse(&ca, sizeof(ca));
	if (r < 0)
		return r;
	if (!key || !cert || !ctx ||
	    !issue(cert, key, ca_cert, ca_key, node_id(p->conf.node), seconds))
		return fail(err, "make the certificate of this node");
	if (!set_up(ctx, cert, key, ca_cert))
		return fail(err, "use the certificate of this node");
	*ret_until = time(NULL) + (time_t)seconds;
	*ret = TAKE_PTR(ctx);
	return 0;
}

int cert_node(SSL *ssl, char ret[ID_SIZE])
{
	AUTO(x509_freep) X509 *cert = SSL_get1_peer_certificate(ssl);
	char name[64];
	int n;

	if (!cert || SSL_get_verify_result(ssl) != X509_V_OK)
		return -EACCES;
	n = X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name,
	                              sizeof(name));
	if (n <= 0 || (size_t)n != strlen(name) || !id_valid(NODE_ID_PREFIX, name))
		return -EACCES;
	snprintf(ret, ID_SIZE, "%s", name);
	return 0;
}
