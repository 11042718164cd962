/* SPDX-License-Identifier: Apache-2.0 */
/*
 * acme.c - getting and renewing certificates with uacme
 *
 * Theory of operation: every minute, or when notified, a thread checks which names need a
 * certificate and which certificates expire soon, and runs uacme for each. uacme calls a hook, a
 * script that we write at start: for http-01 it puts the answer into a file that the edge serves,
 * for dns-01 (wildcards) it runs the operator's program, or without one puts the answer into a file
 * that our own name server serves. A name that failed is retried with
 * growing delays. One uacme runs at a time, because it manages its files itself.
 */
#include "cert/acme.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/proc.h"
#include "cert/cert.h"

#define LOOK_MS 60000
#define UACME_MS 300000                   /* one certificate */
#define OUTPUT_MAX (16u << 10)            /* of uacme's output kept */
#define FAILED_MAX 1024u                  /* failed names that are remembered */
#define AGAIN_MS 60000u                   /* after a failure, doubled each time, */
#define AGAIN_MAX_MS (6u * 3600u * 1000u) /* up to */
#define NAME_SIZE 256
#define TOKEN_MAX 128

struct failed {
	char name[NAME_SIZE];
	uint64_t again_ms;
	unsigned wait_ms;
};

struct acme {
	struct acme_conf conf;
	char dir[300], url[256], email[128], dns_hook[256], base[NAME_SIZE];
	struct certs *certs; /* weak */
	pthread_t thread;
	bool started;
	struct mutex lock;
	struct cond cond;
	bool stopping GUARDED_BY(lock), kicked GUARDED_BY(lock);
	struct mutex run; /* one uacme at a time */
	struct failed failed[FAILED_MAX] GUARDED_BY(run);
	size_t n_failed GUARDED_BY(run);
};

/* ---- the hook ---- */

static const char http_hook[] =
        "#!/bin/sh\n"
        "# uacme's hook for http-01: the answer is a file that the edge serves\n"
        "[ \"$2\" = http-01 ] || exit 1\n"
        "case $4 in '' | *[!A-Za-z0-9_-]*) exit 1 ;; esac\n"
        "case $1 in\n"
        "begin) umask 077; printf %%s \"$5\" >'%s/challenge/'\"$4\" ;;\n"
        "*) rm -f '%s/challenge/'\"$4\" ;;\n"
        "esac\n";
static const char dns_hook[] = "#!/bin/sh\n"
                               "# uacme's hook for dns-01: the operator's program sets the record\n"
                               "[ \"$2\" = dns-01 ] || exit 1\n"
                               "exec '%s' \"$@\"\n";
static const char own_dns_hook[] =
        "#!/bin/sh\n"
        "# uacme's hook for dns-01: the record is a file that the name server serves\n"
        "[ \"$2\" = dns-01 ] || exit 1\n"
        "case $3 in '' | .* | *[!a-z0-9._-]*) exit 1 ;; esac\n"
        "case $1 in\n"
        "begin) umask 077; printf %%s \"$5\" >'%s/challenge-dns/'\"$3\" ;;\n"
        "*) rm -f '%s/challenge-dns/'\"$3\" ;;\n"
        "esac\n";

static int write_hooks(struct acme *a, struct err *err)
{
	autobuf struct buf http = { 0 };
	autobuf struct buf dns = { 0 };
	char path[400];
	int r;

	if (strchr(a->dir, '\'') || strchr(a->dns_hook, '\''))
		return err_set(err, -EINVAL, "ACME: no quotation marks in '%s' and '%s'", a->dir,
		               a->dns_hook);
	buf_printf(&http, http_hook, a->dir, a->dir);
	if (*a->dns_hook)
		buf_printf(&dns, dns_hook, a->dns_hook);
	else
		buf_printf(&dns, own_dns_hook, a->dir, a->dir);
	if (http.failed || dns.failed)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(path, sizeof(path), "%s/hook-http", a->dir);
	if ((r = io_write_file(AT_FDCWD, path, http.p, http.len, 0700, err)) < 0)
		return r;
	snprintf(path, sizeof(path), "%s/hook-dns", a->dir);
	return io_write_file(AT_FDCWD, path, dns.p, dns.len, 0700, err);
}

int acme_challenge(struct acme *a, const char *token, char *ret, size_t size)
{
	autofree char *text = NULL;
	char path[440];
	size_t n = strlen(token);

	if (n == 0 || n > TOKEN_MAX ||
	    strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") != n)
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/challenge/%s", a->dir, token);
	if (io_read_file(AT_FDCWD, path, size - 1, &text, NULL) < 0)
		return -ENOENT;
	snprintf(ret, size, "%s", text);
	return 0;
}

int acme_dns_challenge(struct acme *a, const char *name, char *ret, size_t size)
{
	autofree char *text = NULL;
	char path[NAME_SIZE + 340];
	size_t n = strlen(name);

	if (n == 0 || n >= NAME_SIZE || name[0] == '.' ||
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != n)
		return -ENOENT;
	snprintf(path, sizeof(path), "%s/challenge-dns/%s", a->dir, name);
	if (io_read_file(AT_FDCWD, path, size - 1, &text, NULL) < 0)
		return -ENOENT;
	snprintf(ret, size, "%s", text);
	return 0;
}

/* ---- uacme ---- */

static int uacme(struct acme *a, const char *const *argv, struct err *err)
{
	struct proc_run_opts o = { .argv = argv,
		                   .deadline_ms = UACME_MS,
		                   .max_output = OUTPUT_MAX };
	autofree char *out = NULL;
	autofree char *said = NULL;
	int r = proc_run(&o, &out, &said, err);
	char *last;

	if (r < 0)
		return err_wrap(err, r, "uacme");
	if (r <= 1) /* 1: its certificate is still valid for long enough */
		return 0;
	while (said && *said && said[strlen(said) - 1] == '\n')
		said[strlen(said) - 1] = '\0';
	last = said ? strrchr(said, '\n') : NULL;
	return err_tag(err, -EIO, ERR_FAILED_TO_PROVISION_CERTIFICATE, "uacme: %.200s",
	               last   ? last + 1
	               : said ? said
	                      : "failed");
}

/* An account key, created once; again: the server does not know the account. */
static int need_account(struct acme *a, const char *dir, bool again, struct err *err)
{
	char key[360];
	const char *argv[] = { "uacme", "-c", dir,  "-a",  a->url,
		               "-y",    "-t", "EC", "new", *a->email ? a->email : NULL,
		               NULL };

	snprintf(key, sizeof(key), "%s/private/key.pem", dir);
	if (!again && access(key, F_OK) == 0)
		return 0;
	return uacme(a, argv, err);
}

static int issue_locked(struct acme *a, const char *name, struct err *err)
{
	bool wild = strncmp(name, "*.", 2) == 0;
	char dir[320], hook[340];
	bool base = wild && strcmp(name + 2, a->base) == 0;
	const char *argv[] = { "uacme",
		               "-c",
		               dir,
		               "-a",
		               a->url,
		               "-h",
		               hook,
		               "-f",
		               "-t",
		               "EC",
		               "issue",
		               name,
		               base ? a->base : NULL,
		               NULL };
	int r;

	if (wild && !*a->dns_hook && !a->conf.dns_own)
		return err_tag(
		        err, -ENOTSUP, ERR_FAILED_TO_PROVISION_CERTIFICATE,
		        "a wildcard certificate needs dns-01, and neither PANDO_DNS_LISTEN nor "
		        "PANDO_ACME_DNS_HOOK is set");
	snprintf(dir, sizeof(dir), "%s/acme%s", a->dir, wild ? "-wild" : "");
	snprintf(hook, sizeof(hook), "%s/hook-%s", a->dir, wild ? "dns" : "http");
	if ((r = need_account(a, dir, /* again= */ false, err)) < 0)
		return r;
	r = uacme(a, argv, err);
	if (r < 0 && strstr(err->msg, "no account associated") &&
	    need_account(a, dir, /* again= */ true, err) == 0)
		r = uacme(a, argv, err);
	if (r < 0)
		return r;
	certs_forget(a->certs);
	log_info("certificates: ACME certified %s", name);
	return 0;
}

static bool good_for_long(struct acme *a, const char *name)
{
	return certs_acme_renew_at(a->certs, name, a->conf.renew_days) > (int64_t)time(NULL);
}

int acme_wildcard(struct acme *a, const char *domain, struct err *err)
{
	char name[NAME_SIZE];

	snprintf(name, sizeof(name), "*.%s", domain);
	LOCK_SCOPE(&a->run);
	return good_for_long(a, name) ? 0 : issue_locked(a, name, err);
}

/* ---- the thread ---- */

static struct failed *failed_find(struct acme *a, const char *name) REQUIRES(&a->run)
{
	for (size_t i = 0; i < a->n_failed; i++)
		if (strcmp(a->failed[i].name, name) == 0)
			return &a->failed[i];
	return NULL;
}

static void note_failure(struct acme *a, const char *name) REQUIRES(&a->run)
{
	struct failed *f = failed_find(a, name);

	if (!f) {
		f = &a->failed[a->n_failed < FAILED_MAX ? a->n_failed++ : 0];
		*f = (struct failed){ .wait_ms = AGAIN_MS / 2 };
		snprintf(f->name, sizeof(f->name), "%s", name);
	}
	f->wait_ms = MIN(2 * f->wait_ms, AGAIN_MAX_MS);
	f->again_ms = clock_ms() + f->wait_ms;
}

static void note_success(struct acme *a, const char *name) REQUIRES(&a->run)
{
	struct failed *f = failed_find(a, name);

	if (f)
		*f = a->failed[--a->n_failed];
}

/* Its parent's wildcard covers it. */
static bool covered(struct acme *a, const char *name)
{
	const char *dot = strchr(name, '.');
	char wild[NAME_SIZE + 2];

	if (!dot || name[0] == '*')
		return false;
	snprintf(wild, sizeof(wild), "*%s", dot);
	return good_for_long(a, wild);
}

static void look(struct acme *a)
{
	char(*names)[NAME_SIZE] = NULL;
	struct err err = { 0 };
	size_t n = 0;

	if (a->conf.wanted(a->conf.ctx, &names, &n, &err) < 0) {
		log_warn("certificates: %s", err.msg);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		struct failed *f;
		struct err why = { 0 };
		int r;

		mutex_lock(&a->lock);
		bool stop = a->stopping;
		mutex_unlock(&a->lock);
		if (stop)
			break;
		if (certs_given(a->certs, names[i]) || good_for_long(a, names[i]) ||
		    covered(a, names[i]))
			continue;
		LOCK_SCOPE(&a->run);
		f = failed_find(a, names[i]);
		if (f && f->again_ms > clock_ms())
			continue;
		r = issue_locked(a, names[i], &why);
		if (r < 0) {
			log_warn("certificates: no certificate for %s: %s", names[i], why.msg);
			note_failure(a, names[i]);
		} else {
			note_success(a, names[i]);
		}
	}
	free(names);
}

static void *acme_main(void *arg)
{
	struct acme *a = arg;

	mutex_lock(&a->lock);
	while (!a->stopping) {
		uint64_t until = deadline_in(LOOK_MS);

		a->kicked = false;
		mutex_unlock(&a->lock);
		look(a);
		mutex_lock(&a->lock);
		while (!a->stopping && !a->kicked && cond_wait_until(&a->cond, &a->lock, until))
			;
	}
	mutex_unlock(&a->lock);
	return NULL;
}

void acme_kick(struct acme *a)
{
	if (!a)
		return;
	LOCK_SCOPE(&a->lock);
	a->kicked = true;
	cond_signal(&a->cond);
}

struct acme *acme_stop(struct acme *a)
{
	if (!a)
		return NULL;
	if (a->started) {
		mutex_lock(&a->lock);
		a->stopping = true;
		cond_signal(&a->cond);
		mutex_unlock(&a->lock);
		pthread_join(a->thread, NULL);
	}
	cond_destroy(&a->cond);
	mutex_destroy(&a->lock);
	mutex_destroy(&a->run);
	free(a);
	return NULL;
}

static void acme_stopp(struct acme **a)
{
	acme_stop(*a);
}

int acme_start(const struct acme_conf *c, struct certs *certs, struct acme **ret, struct err *err)
{
	AUTO(acme_stopp) struct acme *a = calloc(1, sizeof(*a));
	int r;

	if (!a)
		return err_set(err, -ENOMEM, "out of memory");
	a->conf = *c;
	a->certs = certs;
	snprintf(a->dir, sizeof(a->dir), "%s", c->dir);
	snprintf(a->url, sizeof(a->url), "%s", c->url);
	snprintf(a->email, sizeof(a->email), "%s", c->email);
	snprintf(a->dns_hook, sizeof(a->dns_hook), "%s", c->dns_hook);
	snprintf(a->base, sizeof(a->base), "%s", c->base);
	mutex_init(&a->lock, "acme");
	mutex_init(&a->run, "acme run");
	cond_init(&a->cond);
	if ((r = write_hooks(a, err)) < 0)
		return r;
	r = pthread_create(&a->thread, NULL, acme_main, a);
	if (r)
		return err_sys(err, -r, "ACME: start a thread");
	a->started = true;
	*ret = TAKE_PTR(a);
	return 0;
}
