/* SPDX-License-Identifier: Apache-2.0 */
/* ca.c - the local CA: created once, signs leaf certificates */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/id.h"
#include "base/io.h"
#include "base/log.h"
#include "cert/cert_internal.h"
#include "secret/secret.h"

#define CA_DAYS 3650
#define LEAF_DAYS 365
#define BACKDATE_S 86400 /* in case a client's clock is behind */

static int fail(struct err *err, const char *what)
{
	return err_set(err, -EIO, "certificates: OpenSSL cannot %s", what);
}

static int add_ext(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *e;
	int r;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	if (!e)
		return -EIO;
	r = X509_add_ext(cert, e, -1) == 1 ? 0 : -EIO;
	X509_EXTENSION_free(e);
	return r;
}

/* Version, serial number, times, key. */
static int begin(X509 *cert, EVP_PKEY *key, int days)
{
	unsigned char serial[16];
	ASN1_INTEGER *n = X509_get_serialNumber(cert);

	random_bytes(serial, sizeof(serial));
	serial[0] = (unsigned char)((serial[0] & 0x7f) | 1);
	return X509_set_version(cert, X509_VERSION_3) == 1 &&
	                       ASN1_STRING_set(n, serial, sizeof(serial)) == 1 &&
	                       X509_gmtime_adj(X509_getm_notBefore(cert), -BACKDATE_S) &&
	                       X509_gmtime_adj(X509_getm_notAfter(cert), (long)days * 86400) &&
	                       X509_set_pubkey(cert, key) == 1
	               ? 0
	               : -EIO;
}

static int set_name(X509_NAME *name, const char *cn)
{
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1,
	                                  -1, 0) == 1
	               ? 0
	               : -EIO;
}

static int make_ca(struct certs *c, struct err *err)
{
	unsigned char tag[4];
	char hex[9], cn[64];
	X509 *cert = X509_new();

	c->ca_key = EVP_EC_gen("P-256");
	c->ca_cert = cert;
	if (!c->ca_key || !cert)
		return fail(err, "make a key");
	random_bytes(tag, sizeof(tag));
	hex_encode(tag, sizeof(tag), hex);
	snprintf(cn, sizeof(cn), "Pando local CA %s", hex);
	if (begin(cert, c->ca_key, CA_DAYS) < 0 || set_name(X509_get_subject_name(cert), cn) < 0 ||
	    X509_set_issuer_name(cert, X509_get_subject_name(cert)) != 1 ||
	    add_ext(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") < 0 ||
	    add_ext(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") < 0 ||
	    add_ext(cert, cert, NID_subject_key_identifier, "hash") < 0 ||
	    X509_sign(cert, c->ca_key, EVP_sha256()) == 0)
		return fail(err, "make the CA's certificate");
	return 0;
}

static int save_ca(struct certs *c, struct err *err)
{
	char path[460];
	autofree char *pem = NULL;
	int r;

	r = pem_write(c, "ca.key", c->ca_key, NULL, err);
	if (r < 0 || (r = certs_ca_pem(c, &pem, err)) < 0)
		return r;
	snprintf(path, sizeof(path), "%s/ca.crt", c->dir);
	return io_write_file(AT_FDCWD, path, pem, strlen(pem), 0644, err);
}

int ca_open(struct certs *c, struct err *err)
{
	char key[460], cert[460];
	struct entry e = { 0 };
	int r;

	snprintf(key, sizeof(key), "%s/ca.key", c->dir);
	snprintf(cert, sizeof(cert), "%s/ca.crt", c->dir);
	if (access(cert, F_OK) < 0) { /* the certificate is written last */
		if ((r = make_ca(c, err)) < 0 || (r = save_ca(c, err)) < 0)
			return r;
		log_info("certificates: created a local CA; 'pando ca' prints its certificate");
		return 0;
	}
	/* Plain before keys were sealed, or put there by hand. */
	if (c->secrets &&
	    (r = secret_file_renew(c->secrets, key, "ca.key", CERT_FILE_MAX, err)) < 0)
		return err_wrap(err, r, "the local CA");
	r = pem_read(c, key, "ca.key", cert, &e, err);
	if (r < 0)
		return err_wrap(err, r, "the local CA");
	c->ca_key = e.key;
	c->ca_cert = e.cert;
	sk_X509_pop_free(e.chain, X509_free);
	return 0;
}

static void bio_freep(BIO **b)
{
	BIO_free(*b);
}

int certs_ca_export(struct certs *c, char **ret_key, char **ret_cert, struct err *err)
{
	AUTO(bio_freep) BIO *b = BIO_new(BIO_s_secmem());
	autowipe char *key = NULL;
	char *p;
	long n;
	int r;

	if (!b || PEM_write_bio_PrivateKey(b, c->ca_key, NULL, NULL, 0, NULL, NULL) != 1)
		return fail(err, "write the CA's key");
	n = BIO_get_mem_data(b, &p);
	key = n > 0 ? strndup(p, (size_t)n) : NULL;
	if (!key)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = certs_ca_pem(c, ret_cert, err)) < 0)
		return r;
	*ret_key = TAKE_PTR(key);
	return 0;
}

int certs_ca_replace(struct certs *c, const char *key, const char *cert, struct err *err)
{
	AUTO(bio_freep) BIO *k = BIO_new_mem_buf(key, -1);
	AUTO(bio_freep) BIO *x = BIO_new_mem_buf(cert, -1);
	EVP_PKEY *new_key = k ? PEM_read_bio_PrivateKey(k, NULL, NULL, NULL) : NULL;
	X509 *new_cert = x ? PEM_read_bio_X509(x, NULL, NULL, NULL) : NULL;

	if (!new_key || !new_cert || X509_check_private_key(new_cert, new_key) != 1) {
		EVP_PKEY_free(new_key);
		X509_free(new_cert);
		return err_set(err, -EUCLEAN, "the local CA of the other nodes cannot be read");
	}
	EVP_PKEY_free(c->ca_key);
	X509_free(c->ca_cert);
	c->ca_key = new_key;
	c->ca_cert = new_cert;
	return save_ca(c, err);
}

int ca_issue(struct certs *c, const char *name, bool wildcard, EVP_PKEY **ret_key, X509 **ret_cert,
             struct err *err)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	char cn[65], alt[2 * CERT_NAME_MAX + 32];

	snprintf(cn, sizeof(cn), "%.64s", name);
	snprintf(alt, sizeof(alt), wildcard ? "DNS:%s,DNS:*.%s" : "DNS:%s", name, name);
	if (!key || !cert || begin(cert, key, LEAF_DAYS) < 0 ||
	    set_name(X509_get_subject_name(cert), cn) < 0 ||
	    X509_set_issuer_name(cert, X509_get_subject_name(c->ca_cert)) != 1 ||
	    add_ext(cert, c->ca_cert, NID_basic_constraints, "critical,CA:FALSE") < 0 ||
	    add_ext(cert, c->ca_cert, NID_key_usage, "critical,digitalSignature") < 0 ||
	    add_ext(cert, c->ca_cert, NID_ext_key_usage, "serverAuth") < 0 ||
	    add_ext(cert, c->ca_cert, NID_subject_alt_name, alt) < 0 ||
	    add_ext(cert, c->ca_cert, NID_authority_key_identifier, "keyid") < 0 ||
	    X509_sign(cert, c->ca_key, EVP_sha256()) == 0) {
		EVP_PKEY_free(key);
		X509_free(cert);
		return fail(err, "sign a certificate");
	}
	*ret_key = key;
	*ret_cert = cert;
	return 0;
}
