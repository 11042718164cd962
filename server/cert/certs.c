/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certs.c - which certificate a name gets
 *
 * Theory of operation: names are in memory with their key and certificate once they were asked
 * for. A name that is not there is looked for in uacme's directory, by itself and as a wildcard of
 * its parent; failing that a leaf of ours is read, or made and written. Children of the suffixes
 * share one wildcard leaf, and names nobody knows are shown the default one, so a client that asks
 * for a million names makes no file.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/log.h"
#include "cert/cert_internal.h"

#define RENEW_S (30L * 86400) /* before its end a leaf is made anew */
#define AGAIN_S 3600 /* a leaf of ours: whether ACME has one by now; certs_forget() is sooner */

static struct entry *entry_free(struct entry *e)
{
	if (!e)
		return NULL;
	entry_clear(e);
	free(e);
	return NULL;
}

static void entry_freep(struct entry **e)
{
	entry_free(*e);
}

static unsigned hash(const char *s)
{
	unsigned h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619u;
	return h % BUCKETS;
}

/* Letters, digits, '-', '.', '_' and a '*' in front: safe as a file's name. */
static bool name_safe(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || n > CERT_NAME_MAX || s[0] == '.' || strstr(s, ".."))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9') || s[i] == '-' ||
		      s[i] == '.' || s[i] == '_' || (s[i] == '*' && i == 0)))
			return false;
	return true;
}

/* uacme keeps "*.name" as "name": wildcards have a directory of their own. */
static int acme_read(struct certs *c, const char *ident, struct entry *ret, struct err *err)
{
	bool wild = strncmp(ident, "*.", 2) == 0;
	const char *below = wild ? "acme-wild" : "acme";
	char key[720], cert[720];

	ident += wild ? 2 : 0;
	snprintf(key, sizeof(key), "%s/%s/private/%s/key.pem", c->dir, below, ident);
	snprintf(cert, sizeof(cert), "%s/%s/%s/cert.pem", c->dir, below, ident);
	if (access(cert, F_OK) < 0)
		return -ENOENT;
	return pem_read(key, cert, ret, err);
}

/* So many days before its end, but not before two thirds of its life are over. */
int64_t certs_acme_renew_at(struct certs *c, const char *name, unsigned days_before)
{
	AUTO(entry_freep) struct entry *e = calloc(1, sizeof(*e));
	int64_t life;

	if (!e || !name_safe(name) || acme_read(c, name, e, NULL) < 0)
		return -ENOENT;
	life = e->until - cert_since(e->cert);
	return e->until - MIN((int64_t)days_before * 86400, life / 3);
}

static int try_acme(struct certs *c, const char *name, struct entry *ret)
{
	const char *dot = strchr(name, '.');
	char wild[CERT_NAME_MAX + 3];
	time_t now = time(NULL);

	if (acme_read(c, name, ret, NULL) == 0 && ret->until > now)
		return 0;
	if (!dot)
		return -ENOENT;
	snprintf(wild, sizeof(wild), "*%s", dot);
	entry_clear(ret);
	return acme_read(c, wild, ret, NULL) == 0 && ret->until > now ? 0 : -ENOENT;
}

/* A leaf of ours: from its file, else made. */
static int local_leaf(struct certs *c, const char *file, const char *name, bool wildcard,
                      struct entry *ret, struct err *err)
{
	char path[720];
	time_t now = time(NULL);
	int r;

	snprintf(path, sizeof(path), "%s/leaf/%s.pem", c->dir, file);
	if (access(path, F_OK) == 0 && pem_read(path, path, ret, err) == 0) {
		/* of an earlier CA, or too old: another one */
		if (ret->until > now + RENEW_S &&
		    X509_verify(ret->cert, X509_get0_pubkey(c->ca_cert)) == 1) {
			ret->until = MIN(ret->until - RENEW_S, now + AGAIN_S);
			return 0;
		}
		entry_clear(ret);
	}
	r = ca_issue(c, name, wildcard, &ret->key, &ret->cert, err);
	if (r < 0)
		return r;
	ret->until = now + AGAIN_S;
	return pem_write(path, ret->key, ret->cert, err);
}

/* The suffix whose wildcard covers the name, or the suffix itself. */
static const char *suffix_of(const struct certs *c, const char *name)
{
	const char *dot = strchr(name, '.');

	for (size_t i = 0; i < c->n_suffixes; i++)
		if (strcmp(name, c->suffix[i]) == 0 || (dot && strcmp(dot + 1, c->suffix[i]) == 0))
			return c->suffix[i];
	return NULL;
}

/* Does a wildcard certificate that was asked for cover the name? ret: "*.parent" */
static bool wildcard_of(const struct certs *c, const char *name, char ret[CERT_NAME_MAX + 3])
{
	const char *dot = strchr(name, '.');
	char path[720];

	if (strncmp(name, "*.", 2) == 0 || !dot)
		return false;
	snprintf(ret, CERT_NAME_MAX + 3, "*%s", dot);
	snprintf(path, sizeof(path), "%s/acme-wild/%s/cert.pem", c->dir, ret + 2);
	if (access(path, F_OK) == 0)
		return true;
	snprintf(path, sizeof(path), "%s/leaf/%s.pem", c->dir, ret);
	return access(path, F_OK) == 0;
}

static int make_entry(struct certs *c, const char *name, struct entry **ret, struct err *err)
{
	AUTO(entry_freep) struct entry *e = calloc(1, sizeof(*e));
	const char *suffix = suffix_of(c, name);
	char wild[CERT_NAME_MAX + 3];
	int r;

	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(e->name, sizeof(e->name), "%s", name);
	if (try_acme(c, name, e) < 0) {
		if (suffix)
			r = local_leaf(c, suffix, suffix, true, e, err);
		else if (strncmp(name, "*.", 2) == 0)
			r = local_leaf(c, name, name + 2, true, e, err);
		else if (wildcard_of(c, name, wild))
			r = local_leaf(c, wild, wild + 2, true, e, err);
		else
			r = local_leaf(c, name, name, false, e, err);
		if (r < 0)
			return r;
	}
	*ret = TAKE_PTR(e);
	return 0;
}

static void forget_locked(struct certs *c) REQUIRES(&c->lock)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		while (c->bucket[i]) {
			struct entry *e = c->bucket[i];

			c->bucket[i] = e->next;
			entry_free(e);
		}
	}
	c->n = 0;
}

void certs_forget(struct certs *c)
{
	LOCK_SCOPE(&c->lock);
	forget_locked(c);
}

static int find(struct certs *c, const char *name, struct entry **ret, struct err *err)
        REQUIRES(&c->lock)
{
	struct entry **p = &c->bucket[hash(name)];
	struct entry *e = NULL;
	int r;

	for (; *p; p = &(*p)->next) {
		if (strcmp((*p)->name, name) != 0)
			continue;
		if ((*p)->until > time(NULL)) {
			*ret = *p;
			return 0;
		}
		e = *p;
		*p = e->next;
		entry_free(e);
		c->n--;
		break;
	}
	r = make_entry(c, name, &e, err);
	if (r < 0)
		return r;
	if (c->n >= CERTS_CACHED_MAX)
		forget_locked(c);
	p = &c->bucket[hash(name)];
	e->next = *p;
	*p = e;
	c->n++;
	*ret = e;
	return 0;
}

int certs_use(struct certs *c, const char *name, bool own, SSL *ssl, struct err *err)
{
	const char *suffix = suffix_of(c, name);
	char wild[CERT_NAME_MAX + 3];
	const char *as = c->suffix[0];
	struct entry *e = NULL;
	int r;

	if (name_safe(name))
		as = own ? name : suffix ? suffix : wildcard_of(c, name, wild) ? wild : as;
	LOCK_SCOPE(&c->lock);
	r = find(c, as, &e, err);
	if (r < 0) {
		log_warn("certificates: no certificate for '%s': %s", as, err ? err->msg : "");
		return r;
	}
	if (SSL_use_cert_and_key(ssl, e->cert, e->key, e->chain, 1) != 1)
		return err_set(err, -EIO, "OpenSSL does not take the certificate of '%s'", as);
	return 0;
}

int certs_local_wildcard(struct certs *c, const char *domain, struct err *err)
{
	char name[CERT_NAME_MAX + 3];
	struct entry *e = NULL;

	snprintf(name, sizeof(name), "*.%s", domain);
	if (!name_safe(name))
		return err_set(err, -EINVAL, "'%s' is not a domain name", domain);
	LOCK_SCOPE(&c->lock);
	forget_locked(c); /* names below it had leaves of their own */
	return find(c, name, &e, err);
}

static void certs_freep(struct certs **c)
{
	certs_free(*c);
}

struct certs *certs_free(struct certs *c)
{
	if (!c)
		return NULL;
	mutex_unshared(&c->lock);
	forget_locked(c);
	EVP_PKEY_free(c->ca_key);
	X509_free(c->ca_cert);
	mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

int certs_open(const char *dir, const char *const *suffixes, size_t n, struct certs **ret,
               struct err *err)
{
	static const char *const below[] = { "", "/leaf", "/acme", "/acme-wild", "/challenge" };
	AUTO(certs_freep) struct certs *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&c->lock, "certs");
	snprintf(c->dir, sizeof(c->dir), "%s", dir);
	for (size_t i = 0; i < n && i < SUFFIXES_MAX; i++)
		snprintf(c->suffix[c->n_suffixes++], CERT_NAME_MAX + 1, "%s", suffixes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		char path[460];

		snprintf(path, sizeof(path), "%s%s", dir, below[i]);
		if ((r = io_mkdirs(path, 0700, err)) < 0)
			return r;
	}
	if ((r = ca_open(c, err)) < 0)
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}
