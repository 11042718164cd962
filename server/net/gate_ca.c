/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate_ca.c - a certificate authority per VM, and the certificates it signs
 *
 * Only for domains with injected headers: the guest trusts the
 * CA, we present a certificate signed by it for the domain, and verify the
 * real one on the other side. The CA's key never leaves the host.
 */
#include <errno.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "net/gate_internal.h"

#define CA_DAYS 3650
#define LEAF_DAYS 30
#define DAY_S (24L * 3600)

struct gate_ca {
	unsigned refs;
	X509 *cert; /* owned, all of these */
	EVP_PKEY *key;
	EVP_PKEY *leaf; /* key of all certificates it signs in this process */
};

static void x509_freep(X509 **x)
{
	X509_free(*x);
}

static void pkey_freep(EVP_PKEY **k)
{
	EVP_PKEY_free(*k);
}

static void bio_freep(BIO **b)
{
	BIO_free(*b);
}

static bool extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	int ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = e && X509_add_ext(x, e, -1);
	X509_EXTENSION_free(e);
	return ok;
}

/* Version, serial number, dates, key and subject; not signed yet. */
static X509 *blank(EVP_PKEY *key, const char *cn, long days)
{
	AUTO(x509_freep) X509 *x = X509_new();
	unsigned char serial[16];
	ASN1_INTEGER *sn = x ? X509_get_serialNumber(x) : NULL;
	X509_NAME *name = x ? X509_get_subject_name(x) : NULL;
	BIGNUM *bn = NULL;
	bool ok;

	if (!x || RAND_bytes(serial, sizeof(serial)) != 1)
		return NULL;
	serial[0] &= 0x7f;
	bn = BN_bin2bn(serial, sizeof(serial), NULL);
	ok = bn && BN_to_ASN1_INTEGER(bn, sn);
	BN_free(bn);
	if (!ok || !X509_set_version(x, 2) || !X509_gmtime_adj(X509_getm_notBefore(x), -DAY_S) ||
	    !X509_gmtime_adj(X509_getm_notAfter(x), days * DAY_S) || !X509_set_pubkey(x, key) ||
	    !X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1,
	                                0))
		return NULL;
	return TAKE_PTR(x);
}

static char *bio_text(BIO *b)
{
	char *p = NULL;
	long n = BIO_get_mem_data(b, &p);

	return n > 0 ? strndup(p, (size_t)n) : NULL;
}

int gate_ca_make(const char *vm_id, char **ret_cert, char **ret_key, struct err *err)
{
	AUTO(pkey_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	AUTO(x509_freep) X509 *x = NULL;
	AUTO(bio_freep) BIO *c = BIO_new(BIO_s_mem());
	AUTO(bio_freep) BIO *k = BIO_new(BIO_s_mem());
	char cn[64];

	snprintf(cn, sizeof(cn), "Pando egress of %.24s", vm_id);
	x = key ? blank(key, cn, CA_DAYS) : NULL;
	if (!x || !c || !k || !X509_set_issuer_name(x, X509_get_subject_name(x)) ||
	    !extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
	    !extension(x, x, NID_key_usage, "critical,keyCertSign,cRLSign") ||
	    !extension(x, x, NID_subject_key_identifier, "hash") ||
	    !extension(x, x, NID_authority_key_identifier, "keyid:always") ||
	    !X509_sign(x, key, EVP_sha256()) || !PEM_write_bio_X509(c, x) ||
	    !PEM_write_bio_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL))
		return err_set(err, -EIO, "the VM's certificate authority could not be created");
	*ret_cert = bio_text(c);
	*ret_key = bio_text(k);
	return *ret_cert && *ret_key ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int gate_ca_hash(const char *cert_pem, char ret[9], struct err *err)
{
	AUTO(bio_freep) BIO *b = BIO_new_mem_buf(cert_pem, -1);
	AUTO(x509_freep) X509 *x = b ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;

	if (!x)
		return err_set(err, -EIO, "the VM's certificate authority cannot be read");
	snprintf(ret, 9, "%08lx", X509_subject_name_hash(x) & 0xffffffffUL);
	return 0;
}

struct gate_ca *gate_ca_load(const char *cert_pem, const char *key_pem, struct err *err)
{
	AUTO(bio_freep) BIO *c = BIO_new_mem_buf(cert_pem, -1);
	AUTO(bio_freep) BIO *k = BIO_new_mem_buf(key_pem, -1);
	struct gate_ca *ca = calloc(1, sizeof(*ca));

	if (ca && c && k) {
		ca->refs = 1;
		ca->cert = PEM_read_bio_X509(c, NULL, NULL, NULL);
		ca->key = PEM_read_bio_PrivateKey(k, NULL, NULL, NULL);
		ca->leaf = EVP_EC_gen("P-256");
		if (ca->cert && ca->key && ca->leaf)
			return ca;
		gate_ca_unref(ca);
		ca = NULL;
	}
	free(ca);
	err_set(err, -EIO, "the VM's certificate authority cannot be read");
	return NULL;
}

struct gate_ca *gate_ca_ref(struct gate_ca *ca)
{
	if (ca)
		__atomic_add_fetch(&ca->refs, 1, __ATOMIC_RELAXED);
	return ca;
}

void gate_ca_unref(struct gate_ca *ca)
{
	if (!ca || __atomic_sub_fetch(&ca->refs, 1, __ATOMIC_ACQ_REL))
		return;
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	EVP_PKEY_free(ca->leaf);
	free(ca);
}

/* Only HTTP/1.1 is supported; a client that offers only HTTP/2 gets no ALPN answer. */
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *len, const unsigned char *in,
                   unsigned n, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	return SSL_select_next_proto((unsigned char **)out, len, ours, sizeof(ours) - 1, in, n) ==
	                       OPENSSL_NPN_NEGOTIATED
	               ? SSL_TLSEXT_ERR_OK
	               : SSL_TLSEXT_ERR_NOACK;
}

static X509 *leaf_for(struct gate_ca *ca, const char *name)
{
	AUTO(x509_freep) X509 *x = blank(ca->leaf, "Pando egress", LEAF_DAYS);
	char san[SNIFF_NAME_MAX + 8];

	snprintf(san, sizeof(san), "DNS:%s", name); /* letters, digits, - _ . only: sniff.c */
	if (!x || !X509_set_issuer_name(x, X509_get_subject_name(ca->cert)) ||
	    !extension(x, ca->cert, NID_subject_alt_name, san) ||
	    !extension(x, ca->cert, NID_basic_constraints, "critical,CA:FALSE") ||
	    !extension(x, ca->cert, NID_key_usage, "critical,digitalSignature") ||
	    !extension(x, ca->cert, NID_ext_key_usage, "serverAuth") ||
	    !extension(x, ca->cert, NID_subject_key_identifier, "hash") ||
	    !extension(x, ca->cert, NID_authority_key_identifier, "keyid:always") ||
	    !X509_sign(x, ca->key, EVP_sha256()))
		return NULL;
	return TAKE_PTR(x);
}

SSL *gate_ca_accept(struct gate_ca *ca, const char *name, int fd, struct err *err)
{
	AUTO(x509_freep) X509 *x = leaf_for(ca, name);
	SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
	SSL *ssl = NULL;

	if (x && ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) &&
	    SSL_CTX_use_certificate(ctx, x) == 1 && SSL_CTX_use_PrivateKey(ctx, ca->leaf) == 1) {
		SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
		ssl = SSL_new(ctx); /* holds the context */
	}
	SSL_CTX_free(ctx);
	if (!ssl || SSL_set_fd(ssl, fd) != 1) {
		SSL_free(ssl);
		err_set(err, -EIO, "TLS to the guest");
		return NULL;
	}
	SSL_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	return ssl;
}

SSL_CTX *gate_ca_client(const char *ca_file, struct err *err)
{
	static const unsigned char ours[] = "\x08http/1.1";
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	if (ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) &&
	    (ca_file ? SSL_CTX_load_verify_locations(ctx, ca_file, NULL)
	             : SSL_CTX_set_default_verify_paths(ctx)) == 1 &&
	    SSL_CTX_set_alpn_protos(ctx, ours, sizeof(ours) - 1) == 0) {
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
		SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
		                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
		return ctx;
	}
	SSL_CTX_free(ctx);
	err_set(err, -EINVAL, "CA certificates to verify servers with cannot be read: %s",
	        ca_file ? ca_file : "the system's");
	return NULL;
}
