/* SPDX-License-Identifier: Apache-2.0 */
/* pem.c - keys and certificates in files */
#include <openssl/err.h>
#include <openssl/pem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "cert/cert_internal.h"
#include "secret/secret.h"

static void bio_freep(BIO **b)
{
	BIO_free(*b);
}

static time_t seconds(const ASN1_TIME *t)
{
	struct tm tm;

	return ASN1_TIME_to_tm(t, &tm) == 1 ? timegm(&tm) : 0;
}

time_t cert_since(const X509 *cert)
{
	return seconds(X509_get0_notBefore(cert));
}

time_t cert_until(const X509 *cert)
{
	return seconds(X509_get0_notAfter(cert));
}

/* Keys without a passphrase only: there is nobody to type one. */
static int no_passphrase(char *buf, int size, int rw, void *arg)
{
	return -1;
}

static int read_certs(const char *text, struct entry *ret)
{
	AUTO(bio_freep) BIO *b = BIO_new_mem_buf(text, -1);
	X509 *x;

	if (!b)
		return -ENOMEM;
	ret->cert = PEM_read_bio_X509(b, NULL, no_passphrase, NULL);
	ret->chain = sk_X509_new_null();
	if (!ret->cert || !ret->chain)
		return -EBADMSG;
	while ((x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL)))
		if (sk_X509_push(ret->chain, x) <= 0)
			X509_free(x);
	ERR_clear_error(); /* the end of the file */
	return 0;
}

void entry_clear(struct entry *e)
{
	EVP_PKEY_free(e->key);
	X509_free(e->cert);
	sk_X509_pop_free(e->chain, X509_free);
	e->key = NULL;
	e->cert = NULL;
	e->chain = NULL;
}

int pem_read(struct certs *c, const char *key_path, const char *name, const char *cert_path,
             struct entry *ret, struct err *err)
{
	autowipe char *key = NULL;
	autofree char *cert = NULL;
	int r;

	r = name ? secret_file_read(c->secrets, key_path, name, CERT_FILE_MAX, &key, err)
	         : io_read_file(AT_FDCWD, key_path, CERT_FILE_MAX, &key, err);
	if (r < 0 ||
	    (cert_path && (r = io_read_file(AT_FDCWD, cert_path, CERT_FILE_MAX, &cert, err)) < 0))
		return r;
	AUTO(bio_freep) BIO *b = BIO_new_mem_buf(key, -1);
	ret->key = b ? PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL) : NULL;
	if (!ret->key || read_certs(cert ? cert : key, ret) < 0 ||
	    X509_check_private_key(ret->cert, ret->key) != 1) {
		entry_clear(ret);
		return err_set(err, -EBADMSG, "'%s' and '%s' are not a key and its certificate",
		               key_path, cert_path ? cert_path : key_path);
	}
	ret->until = cert_until(ret->cert);
	return 0;
}

int pem_write(struct certs *c, const char *name, EVP_PKEY *key, X509 *cert, struct err *err)
{
	AUTO(bio_freep) BIO *b = BIO_new(BIO_s_secmem());
	char path[720], *text;
	long n;

	snprintf(path, sizeof(path), "%s/%s", c->dir, name);
	if (!b || PEM_write_bio_PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) != 1 ||
	    (cert && PEM_write_bio_X509(b, cert) != 1))
		return err_set(err, -ENOMEM, "certificates: cannot write '%s'", path);
	n = BIO_get_mem_data(b, &text);
	return secret_file_write(c->secrets, path, name, text, (size_t)n, err);
}

static int renew(struct certs *c, const char *name, struct err *err)
{
	char path[720];

	snprintf(path, sizeof(path), "%s/%s", c->dir, name);
	return secret_file_renew(c->secrets, path, name, CERT_FILE_MAX, err);
}

int pem_renew_all(void *certs, struct err *err)
{
	struct certs *c = certs;
	char path[460], name[300];
	const struct dirent *f;
	autodir DIR *d = NULL;
	struct err why = { 0 };
	int r;

	LOCK_SCOPE(&c->make);
	if ((r = renew(c, "ca.key", err)) < 0)
		return r;
	snprintf(path, sizeof(path), "%s/leaf", c->dir);
	d = opendir(path);
	if (!d)
		return err_sys(err, -errno, "certificates: open '%s'", path);
	while ((f = readdir(d))) {
		size_t n = strlen(f->d_name);

		if (n < 5 || strcmp(f->d_name + n - 4, ".pem") != 0)
			continue;
		snprintf(name, sizeof(name), "leaf/%s", f->d_name);
		/* One that cannot be opened is of no use, and is made again when it is needed. */
		if (renew(c, name, &why) < 0)
			log_warn("certificates: %s, ignoring", why.msg);
	}
	return 0;
}

int certs_ca_pem(struct certs *c, char **ret, struct err *err)
{
	AUTO(bio_freep) BIO *b = BIO_new(BIO_s_mem());
	char *text;
	long n;

	if (!b || PEM_write_bio_X509(b, c->ca_cert) != 1)
		return err_set(err, -ENOMEM, "out of memory");
	n = BIO_get_mem_data(b, &text);
	*ret = strndup(text, (size_t)n);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static int put_der(struct buf *out, uint8_t *der_consume, int n)
{
	if (n <= 0)
		return -EIO;
	buf_put_blob(out, der_consume, (size_t)n);
	OPENSSL_clear_free(der_consume, (size_t)n);
	return out->failed ? -ENOMEM : 0;
}

static int put_cert(struct buf *out, const X509 *x)
{
	uint8_t *der = NULL;
	int n = i2d_X509(x, &der);

	return put_der(out, der, n);
}

int der_write(const struct entry *e, struct buf *out, struct err *err)
{
	uint8_t *der = NULL;
	int n = i2d_PrivateKey(e->key, &der), r = put_der(out, der, n);

	if (r == 0)
		r = put_cert(out, e->cert);
	for (int i = 0; r == 0 && i < sk_X509_num(e->chain); i++)
		r = put_cert(out, sk_X509_value(e->chain, i));
	return r < 0 ? err_set(err, r, "copy the certificate of '%s'", e->name) : 0;
}
