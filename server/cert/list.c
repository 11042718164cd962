/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.c - which certificates there are, and when they end
 *
 * Looked up in the files, because only names that were asked for are in memory. Nothing is created,
 * and no key is shown.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "cert/cert_internal.h"

#define FIRST_MS 60000 /* how long an answer of certs_first_to_end() is good for */

struct list {
	struct cert_info *v; /* owned */
	size_t n, cap;
};

static int add(struct list *l, const char *name, const char *source, const X509 *cert,
               struct err *err)
{
	struct cert_info *to;

	if (l->n == CERTS_LISTED_MAX)
		return 0;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct cert_info *more = reallocarray(l->v, cap, sizeof(*more));

		if (!more)
			return err_set(err, -ENOMEM, "out of memory");
		l->v = more;
		l->cap = cap;
	}
	to = &l->v[l->n++];
	*to = (struct cert_info){ .source = source,
		                  .not_before = cert_since(cert),
		                  .not_after = cert_until(cert) };
	snprintf(to->name, sizeof(to->name), "%s", name);
	return 0;
}

static void names_free(GENERAL_NAMES **n)
{
	GENERAL_NAMES_free(*n);
}

/* The given one is listed under each DNS name that it has. */
static int add_given(struct certs *c, struct list *l, struct err *err)
{
	AUTO(entry_unrefp) struct entry *e = given_entry(c->given);
	AUTO(names_free) GENERAL_NAMES *names = NULL;
	int r = 0;

	if (!e)
		return 0;
	names = X509_get_ext_d2i(e->cert, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; r == 0 && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *g = sk_GENERAL_NAME_value(names, i);
		char name[CERT_NAME_MAX + 3];

		if (g->type != GEN_DNS)
			continue;
		snprintf(name, sizeof(name), "%.*s",
		         MIN(ASN1_STRING_length(g->d.dNSName), CERT_NAME_MAX),
		         (const char *)ASN1_STRING_get0_data(g->d.dNSName));
		r = add(l, name, "given", e->cert, err);
	}
	return r;
}

static void x509_freep(X509 **x)
{
	X509_free(*x);
}

static void bio_freep(BIO **b)
{
	BIO_free(*b);
}

/* uacme's certificate, without its key. */
static int add_acme(struct list *l, const char *dir, const char *ident, bool wild, struct err *err)
{
	char path[1024], name[CERT_NAME_MAX + 3];
	autofree char *text = NULL;
	AUTO(bio_freep) BIO *b = NULL;
	AUTO(x509_freep) X509 *x = NULL;

	snprintf(path, sizeof(path), "%s/%s/cert.pem", dir, ident);
	if (io_read_file(AT_FDCWD, path, CERT_FILE_MAX, &text, NULL) < 0)
		return 0; /* not a certificate's directory, or it is being replaced */
	b = BIO_new_mem_buf(text, -1);
	x = b ? PEM_read_bio_X509(b, NULL, NULL, NULL) : NULL;
	if (!x)
		return 0;
	snprintf(name, sizeof(name), "%s%.*s", wild ? "*." : "", CERT_NAME_MAX, ident);
	return add(l, name, "acme", x, err);
}

static int add_leaf(struct certs *c, struct list *l, const char *file, struct err *err)
{
	AUTO(entry_unrefp) struct entry *e = entry_new("");
	char path[1024], below[CERT_NAME_MAX + 16], name[CERT_NAME_MAX + 3];
	size_t n = strlen(file), i;

	if (n < 5 || n > CERT_NAME_MAX + 4 || strcmp(file + n - 4, ".pem") != 0 || *file == '@' ||
	    !e)
		return 0;
	snprintf(below, sizeof(below), "leaf/%s", file);
	snprintf(path, sizeof(path), "%s/%s", c->dir, below);
	if (pem_read(c, path, below, NULL, e, NULL) < 0)
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(n - 4), file);
	for (i = 0; i < c->n_suffixes && strcmp(c->suffix[i], name) != 0; i++)
		;
	if (i < c->n_suffixes) /* it is for the children, too */
		snprintf(name, sizeof(name), "*.%.*s", (int)(n - 4), file);
	return add(l, name, "local", e->cert, err);
}

static int add_dir(struct certs *c, struct list *l, const char *below, struct err *err)
{
	bool leaf = strcmp(below, "leaf") == 0, wild = strcmp(below, "acme-wild") == 0;
	const struct dirent *f;
	autodir DIR *d = NULL;
	char dir[512];
	int r = 0;

	snprintf(dir, sizeof(dir), "%s/%s", c->dir, below);
	d = opendir(dir);
	while (r == 0 && d && (f = readdir(d)))
		if (f->d_name[0] != '.')
			r = leaf ? add_leaf(c, l, f->d_name, err)
			         : add_acme(l, dir, f->d_name, wild, err);
	return r;
}

static int by_name(const void *a, const void *b)
{
	const struct cert_info *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : strcmp(x->source, y->source);
}

static int list(struct certs *c, bool local, struct list *l, struct err *err)
{
	int r;

	if ((r = add_given(c, l, err)) == 0 && (r = add_dir(c, l, "acme", err)) == 0 &&
	    (r = add_dir(c, l, "acme-wild", err)) == 0 && local)
		r = add_dir(c, l, "leaf", err);
	if (r < 0) {
		free(l->v);
		return r;
	}
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_name);
	return 0;
}

int certs_list(struct certs *c, struct cert_info **ret, size_t *ret_n, struct err *err)
{
	struct list l = { 0 };
	int r = list(c, /* local= */ true, &l, err);

	if (r < 0)
		return r;
	*ret = l.v;
	*ret_n = l.n;
	return 0;
}

int certs_first_to_end(struct certs *c, struct cert_info *ret)
{
	struct list l = { 0 };
	int r = -ENOENT;

	mutex_lock(&c->lock);
	if (c->first_ms && clock_ms() - c->first_ms < FIRST_MS) {
		*ret = c->first;
		r = c->first.source ? 0 : -ENOENT;
		mutex_unlock(&c->lock);
		return r;
	}
	mutex_unlock(&c->lock);
	*ret = (struct cert_info){ 0 };
	if (list(c, /* local= */ false, &l, NULL) == 0)
		for (size_t i = 0; i < l.n; i++)
			if (!ret->source || l.v[i].not_after < ret->not_after) {
				*ret = l.v[i];
				r = 0;
			}
	free(l.v);
	LOCK_SCOPE(&c->lock);
	c->first = *ret;
	c->first_ms = clock_ms();
	return r;
}
