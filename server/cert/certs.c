/* SPDX-License-Identifier: Apache-2.0 */
/*
 * certs.c - which certificate a name gets
 *
 * Theory of operation: names are in memory with their key and certificate once they were asked
 * for. A name that is not there gets the certificate the operator gave, if that is valid for it; or
 * it is looked for in uacme's directory, by itself and as a wildcard of its parent or its own;
 * otherwise a local leaf certificate is read, or created and written. Children of the
 * suffixes share one wildcard certificate, and unknown names get the default one, so a client that
 * asks for a million names creates no file.
 *
 * Looking up (certs_number) and creating (certs_get) are two calls, because whoever looks up has
 * others waiting. The table's lock is held only while names are compared. Entries are
 * reference-counted, so one can be copied that was just dropped.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/log.h"
#include "cert/cert_internal.h"
#include "secret/secret.h"

#define RENEW_S (30L * 86400) /* before its expiry a leaf is replaced */
#define AGAIN_S                                                                           \
	3600 /* a local leaf: check whether ACME has one by now; certs_forget() is sooner \
	      */

#define TRIES_MAX 3 /* to create one while others drop what it is made from */

struct entry *entry_new(const char *name)
{
	struct entry *e = calloc(1, sizeof(*e));

	if (e) {
		e->refs = 1;
		snprintf(e->name, sizeof(e->name), "%s", name);
	}
	return e;
}

struct entry *entry_ref(struct entry *e)
{
	if (e)
		atomic_fetch_add(&e->refs, 1);
	return e;
}

struct entry *entry_unref(struct entry *e)
{
	if (e && atomic_fetch_sub(&e->refs, 1) == 1) {
		entry_clear(e);
		free(e);
	}
	return NULL;
}

void entry_unrefp(struct entry **e)
{
	entry_unref(*e);
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

/* uacme stores "*.name" as "name", so wildcards have a separate directory. */
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
	return pem_read(c, key, NULL, cert, ret, err); /* uacme reads it, too */
}

/* The given number of days before expiry, but not before two thirds of its lifetime. */
int64_t certs_acme_renew_at(struct certs *c, const char *name, unsigned days_before)
{
	AUTO(entry_unrefp) struct entry *e = entry_new(name);
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
	entry_clear(ret);
	/* the base domain is in the certificate of its wildcard (acme.c) */
	snprintf(wild, sizeof(wild), "*.%.*s", CERT_NAME_MAX, name);
	if (strlen(name) < CERT_NAME_MAX && acme_read(c, wild, ret, NULL) == 0 &&
	    ret->until > now && X509_check_host(ret->cert, name, 0, 0, NULL) == 1)
		return 0;
	entry_clear(ret);
	if (!dot)
		return -ENOENT;
	snprintf(wild, sizeof(wild), "*%s", dot);
	return acme_read(c, wild, ret, NULL) == 0 && ret->until > now ? 0 : -ENOENT;
}

/* A copy of the given one under that name, if it is valid for it. */
static int try_given(struct certs *c, const char *name, struct entry *ret)
{
	AUTO(entry_unrefp) struct entry *e = given_for(c->given, name);

	if (!e)
		return -ENOENT;
	EVP_PKEY_up_ref(e->key);
	X509_up_ref(e->cert);
	ret->key = e->key;
	ret->cert = e->cert;
	ret->chain = e->chain ? X509_chain_up_ref(e->chain) : NULL;
	ret->until = e->until;
	return 0;
}

/* A local leaf certificate: from its file, or newly created. */
static int local_leaf(struct certs *c, const char *file, const char *name, bool wildcard,
                      struct entry *ret, struct err *err)
{
	char path[720], below[CERT_NAME_MAX + 16];
	time_t now = time(NULL);
	int r;

	snprintf(below, sizeof(below), "leaf/%s.pem", file);
	snprintf(path, sizeof(path), "%s/%s", c->dir, below);
	if (access(path, F_OK) == 0 && pem_read(c, path, below, NULL, ret, err) == 0) {
		/* of an earlier CA, or too old: create another */
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
	return pem_write(c, below, ret->key, ret->cert, err);
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

/* ---- requested wildcards ---- */

static bool wild_known(const struct certs *c, const char *wild) REQUIRES(&c->lock)
{
	for (size_t i = 0; i < c->n_wild; i++)
		if (strcmp(c->wild[i], wild) == 0)
			return true;
	return false;
}

/* Does one cover the name? ret: "*.parent" */
static bool wildcard_of(struct certs *c, const char *name, char ret[WILD_SIZE])
{
	const char *dot = strchr(name, '.');

	if (strncmp(name, "*.", 2) == 0 || !dot)
		return false;
	snprintf(ret, WILD_SIZE, "*%s", dot);
	LOCK_SCOPE(&c->lock);
	return wild_known(c, ret);
}

static int wild_add(struct certs *c, const char *wild, struct err *err)
{
	char(*more)[WILD_SIZE];

	LOCK_SCOPE(&c->lock);
	if (wild_known(c, wild))
		return 0;
	more = reallocarray(c->wild, c->n_wild + 1, sizeof(*more));
	if (!more)
		return err_set(err, -ENOMEM, "out of memory");
	c->wild = more;
	snprintf(c->wild[c->n_wild++], WILD_SIZE, "%s", wild);
	return 0;
}

static void dir_closep(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* Those on disk: "*.example.org.pem" in leaf/, example.org/cert.pem in acme-wild/. They are never
 * removed. */
static int wild_load(struct certs *c, struct err *err)
{
	static const char *const below[] = { "leaf", "acme-wild" };

	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		char path[1024], wild[WILD_SIZE];
		const struct dirent *f;
		AUTO(dir_closep) DIR *d = NULL;
		int r;

		snprintf(path, sizeof(path), "%s/%s", c->dir, below[i]);
		d = opendir(path);
		if (!d)
			return err_sys(err, -errno, "certificates: open '%s'", path);
		while ((f = readdir(d))) {
			size_t n = strlen(f->d_name);

			if (n > CERT_NAME_MAX || f->d_name[0] == '.')
				continue;
			if (i == 0) {
				if (f->d_name[0] != '*' || n < 4 ||
				    strcmp(f->d_name + n - 4, ".pem") != 0)
					continue;
				snprintf(wild, sizeof(wild), "%.*s", (int)(n - 4), f->d_name);
			} else {
				snprintf(wild, sizeof(wild), "*.%s", f->d_name);
				snprintf(path, sizeof(path), "%s/acme-wild/%s/cert.pem", c->dir,
				         f->d_name);
				if (access(path, F_OK) < 0)
					continue;
			}
			if ((r = wild_add(c, wild, err)) < 0)
				return r;
		}
	}
	return 0;
}

/* ---- the table ---- */

/* c->make held */
static int make_entry(struct certs *c, const char *name, struct entry **ret, struct err *err)
{
	AUTO(entry_unrefp) struct entry *e = entry_new(name);
	const char *suffix = suffix_of(c, name);
	char wild[WILD_SIZE];
	int r;

	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	if (try_given(c, name, e) < 0 && try_acme(c, name, e) < 0) {
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

/* Removes *at. */
static void drop(struct certs *c, struct entry **at) REQUIRES(&c->lock)
{
	struct entry *e = *at;

	*at = e->next;
	e->next = NULL;
	c->n--;
	entry_unref(e);
}

static void forget_all(struct certs *c)
{
	LOCK_SCOPE(&c->lock);
	c->forgets++;
	for (size_t i = 0; i < BUCKETS; i++)
		while (c->bucket[i])
			drop(c, &c->bucket[i]);
	if (c->changed)
		c->changed(c->changed_ctx);
}

void certs_forget(struct certs *c)
{
	struct err err = { 0 };

	if (wild_load(c, &err) < 0)
		log_warn("certificates: new wildcards are found at the next start: %s", err.msg);
	forget_all(c);
}

/* A reference, or NULL. */
static struct entry *lookup(struct certs *c, const char *name)
{
	LOCK_SCOPE(&c->lock);
	for (struct entry *e = c->bucket[hash(name)]; e; e = e->next) {
		if (strcmp(e->name, name) != 0)
			continue;
		if (e->until <= time(NULL))
			return NULL;
		e->used = ++c->lookups;
		return entry_ref(e);
	}
	return NULL;
}

/* Drops the least recently used entry. */
static void make_room(struct certs *c) REQUIRES(&c->lock)
{
	struct entry **oldest = NULL;

	for (size_t i = 0; i < BUCKETS; i++)
		for (struct entry **p = &c->bucket[i]; *p; p = &(*p)->next)
			if (!oldest || (*p)->used < (*oldest)->used)
				oldest = p;
	if (oldest)
		drop(c, oldest);
}

/* false: what it was made from may have changed in the meantime. */
static bool insert(struct certs *c, struct entry *e_consume, uint64_t forgets)
{
	struct entry *e = e_consume, **p = &c->bucket[hash(e->name)];

	LOCK_SCOPE(&c->lock);
	if (c->forgets != forgets) {
		entry_unref(e);
		return false;
	}
	while (*p && strcmp((*p)->name, e->name) != 0)
		p = &(*p)->next;
	if (*p)
		drop(c, p);
	if (c->n >= CERTS_CACHED_MAX)
		make_room(c);
	p = &c->bucket[hash(e->name)];
	e->next = *p;
	e->used = ++c->lookups;
	e->number = ++c->numbers;
	*p = e;
	c->n++;
	return true;
}

/* The name whose certificate is used for `name`. */
static const char *shown_as(struct certs *c, const char *name, bool own, char wild[WILD_SIZE])
{
	const char *suffix = suffix_of(c, name);

	if (!name_safe(name))
		return c->suffix[0];
	if (own)
		return name;
	if (suffix && strcmp(name, suffix) != 0) {
		snprintf(wild, WILD_SIZE, "*.%s", suffix);
		return wild;
	}
	if (suffix)
		return suffix;
	return wildcard_of(c, name, wild) ? wild : c->suffix[0];
}

uint64_t certs_number(struct certs *c, const char *name, bool own)
{
	char wild[WILD_SIZE];
	AUTO(entry_unrefp) struct entry *e = lookup(c, shown_as(c, name, own, wild));

	return e ? e->number : 0;
}

static uint64_t forgets_of(struct certs *c)
{
	LOCK_SCOPE(&c->lock);
	return c->forgets;
}

static int make_named(struct certs *c, const char *as, struct err *err)
{
	AUTO(entry_unrefp) struct entry *there = NULL;

	LOCK_SCOPE(&c->make);
	there = lookup(c, as);
	if (there)
		return 0; /* another thread was quicker */
	for (int i = 0; i < TRIES_MAX; i++) {
		uint64_t forgets = forgets_of(c);
		struct entry *e = NULL;
		int r = make_entry(c, as, &e, err);

		if (r < 0) {
			err_wrap(err, r, "no certificate for '%s'", as);
			return r;
		}
		if (insert(c, e, forgets))
			return 0;
	}
	return err_set(err, -EBUSY,
	               "no certificate for '%s': the files it is made from kept changing", as);
}

int certs_get(struct certs *c, const char *name, bool own, struct buf *ret, uint64_t *ret_number,
              struct err *err)
{
	for (int i = 0; i < TRIES_MAX; i++) {
		char wild[WILD_SIZE];
		const char *as = shown_as(c, name, own, wild);
		AUTO(entry_unrefp) struct entry *e = NULL;
		int r = make_named(c, as, err);

		if (r < 0)
			return r;
		e = lookup(c, as);
		if (!e)
			continue; /* dropped again already */
		*ret_number = e->number;
		return der_write(e, ret, err);
	}
	return err_set(err, -EBUSY, "no certificate for '%s': it kept being dropped", name);
}

void certs_on_change(struct certs *c, void (*fn)(void *ctx), void *ctx)
{
	LOCK_SCOPE(&c->lock);
	c->changed = fn;
	c->changed_ctx = ctx;
}

int certs_local_wildcard(struct certs *c, const char *domain, struct err *err)
{
	char name[WILD_SIZE];
	int r;

	snprintf(name, sizeof(name), "*.%s", domain);
	if (!name_safe(name))
		return err_set(err, -EINVAL, "'%s' is not a domain name", domain);
	if ((r = make_named(c, name, err)) < 0 || (r = wild_add(c, name, err)) < 0)
		return r;
	forget_all(c); /* names below it had their own leaf certificates */
	return 0;
}

static void certs_freep(struct certs **c)
{
	certs_free(*c);
}

struct certs *certs_free(struct certs *c)
{
	if (!c)
		return NULL;
	if (c->secrets)
		secrets_drop(c->secrets, c);
	given_free(c->given);
	forget_all(c);
	mutex_unshared(&c->lock);
	free(c->wild);
	EVP_PKEY_free(c->ca_key);
	X509_free(c->ca_cert);
	mutex_destroy(&c->make);
	mutex_destroy(&c->lock);
	free(c);
	return NULL;
}

int certs_open(const char *dir, const char *const *suffixes, size_t n, struct certs **ret,
               struct err *err)
{
	return certs_open_sealed(dir, suffixes, n, NULL, ret, err);
}

int certs_open_sealed(const char *dir, const char *const *suffixes, size_t n, struct secrets *k,
                      struct certs **ret, struct err *err)
{
	static const char *const below[] = { "",           "/leaf",      "/acme",
		                             "/acme-wild", "/challenge", "/challenge-dns" };
	AUTO(certs_freep) struct certs *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&c->make, "certs make");
	mutex_init(&c->lock, "certs");
	snprintf(c->dir, sizeof(c->dir), "%s", dir);
	c->secrets = k;
	for (size_t i = 0; i < n && i < SUFFIXES_MAX; i++)
		snprintf(c->suffix[c->n_suffixes++], CERT_NAME_MAX + 1, "%s", suffixes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(below); i++) {
		char path[460];

		snprintf(path, sizeof(path), "%s%s", dir, below[i]);
		if ((r = io_mkdirs(path, 0700, err)) < 0)
			return r;
	}
	if ((r = ca_open(c, err)) < 0 || (r = wild_load(c, err)) < 0)
		return r;
	if (k &&
	    ((r = pem_renew_all(c, err)) < 0 || (r = secrets_hold(k, pem_renew_all, c, err)) < 0))
		return r;
	*ret = TAKE_PTR(c);
	return 0;
}
