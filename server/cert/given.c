/* SPDX-License-Identifier: Apache-2.0 */
/*
 * given.c - a certificate that the operator gives as files, for the names it is valid for
 *
 * Whoever renews it replaces the files, often through symbolic links and on network file systems,
 * so a thread looks at what the paths lead to every few seconds. Key and certificate are two
 * files: for a moment they may not belong together. Then, and whenever else they cannot be used,
 * the certificate that was read before stays.
 */
#include <errno.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "cert/cert_internal.h"

#define LOOK_MS 5000

struct stamp {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

struct given {
	char cert[CERT_PATH_MAX], key[CERT_PATH_MAX];
	struct certs *certs; /* weak */
	pthread_t thread;
	struct mutex lock;
	struct cond cond;
	bool stopping GUARDED_BY(lock);
	struct entry *entry GUARDED_BY(lock); /* ref'd */
	struct stamp read[2];                 /* the thread's: what was looked at last */
};

static void stamp_of(const char *path, struct stamp *ret)
{
	struct stat st;

	*ret = (struct stamp){ 0 };
	if (stat(path, &st) == 0)
		*ret = (struct stamp){ st.st_dev, st.st_ino, st.st_size, st.st_ctim };
}

static bool same(const struct stamp *a, const struct stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static int read_files(struct given *g, struct entry **ret, struct err *err)
{
	AUTO(entry_unrefp) struct entry *e = entry_new("");
	int r;

	if (!e)
		return err_set(err, -ENOMEM, "out of memory");
	r = pem_read(g->certs, g->key, /* name= */ NULL, g->cert, e, err);
	if (r < 0)
		return r;
	if (e->until <= time(NULL))
		return err_set(err, -EINVAL, "the certificate in '%s' has expired", g->cert);
	*ret = TAKE_PTR(e);
	return 0;
}

static void look(struct given *g)
{
	struct entry *e = NULL, *old;
	struct stamp now[2];
	struct err err = { 0 };

	stamp_of(g->cert, &now[0]);
	stamp_of(g->key, &now[1]);
	if (same(&now[0], &g->read[0]) && same(&now[1], &g->read[1]))
		return;
	memcpy(g->read, now, sizeof(now));
	if (read_files(g, &e, &err) < 0) {
		log_warn("certificates: the one in use stays: %s", err.msg);
		return;
	}
	mutex_lock(&g->lock);
	old = g->entry;
	g->entry = e;
	mutex_unlock(&g->lock);
	entry_unref(old);
	certs_forget(g->certs);
	log_info("certificates: '%s' was read again", g->cert);
}

static void *given_main(void *arg)
{
	struct given *g = arg;

	mutex_lock(&g->lock);
	while (!g->stopping) {
		uint64_t until = deadline_in(LOOK_MS);

		while (!g->stopping && cond_wait_until(&g->cond, &g->lock, until))
			;
		if (g->stopping)
			break;
		mutex_unlock(&g->lock);
		look(g);
		mutex_lock(&g->lock);
	}
	mutex_unlock(&g->lock);
	return NULL;
}

static struct entry *current(struct given *g)
{
	LOCK_SCOPE(&g->lock);
	return entry_ref(g->entry);
}

/* "*.name" is covered if any child of it is. */
static bool covers(X509 *cert, const char *name)
{
	char child[CERT_NAME_MAX + 8];

	snprintf(child, sizeof(child), "%s%s", name[0] == '*' ? "a" : "", name + (name[0] == '*'));
	return X509_check_host(cert, child, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1;
}

struct entry *given_entry(struct given *g)
{
	return g ? current(g) : NULL;
}

struct entry *given_for(struct given *g, const char *name)
{
	struct entry *e = g ? current(g) : NULL;

	return e && e->until > time(NULL) && covers(e->cert, name) ? e : entry_unref(e);
}

bool certs_given(struct certs *c, const char *name)
{
	AUTO(entry_unrefp) struct entry *e = given_for(c->given, name);

	return e;
}

struct given *given_free(struct given *g)
{
	if (!g)
		return NULL;
	mutex_lock(&g->lock);
	g->stopping = true;
	cond_signal(&g->cond);
	mutex_unlock(&g->lock);
	pthread_join(g->thread, NULL);
	mutex_unshared(&g->lock);
	entry_unref(g->entry);
	cond_destroy(&g->cond);
	mutex_destroy(&g->lock);
	free(g);
	return NULL;
}

int certs_give(struct certs *c, const char *cert, const char *key, struct err *err)
{
	autofree struct given *g = calloc(1, sizeof(*g));
	struct entry *e = NULL;
	int r;

	if (!g)
		return err_set(err, -ENOMEM, "out of memory");
	g->certs = c;
	snprintf(g->cert, sizeof(g->cert), "%s", cert);
	snprintf(g->key, sizeof(g->key), "%s", key);
	stamp_of(g->cert,
	         &g->read[0]); /* before it is read: what changes meanwhile is seen later */
	stamp_of(g->key, &g->read[1]);
	if ((r = read_files(g, &e, err)) < 0)
		return err_wrap(err, r, "PANDO_TLS_CERT and PANDO_TLS_KEY");
	mutex_init(&g->lock, "cert given");
	cond_init(&g->cond);
	mutex_lock(&g->lock);
	g->entry = e;
	mutex_unlock(&g->lock);
	r = pthread_create(&g->thread, NULL, given_main, g);
	if (r) {
		entry_unref(e);
		cond_destroy(&g->cond);
		mutex_destroy(&g->lock);
		return err_sys(err, -r, "certificates: start a thread");
	}
	c->given = TAKE_PTR(g);
	certs_forget(c);
	return 0;
}
