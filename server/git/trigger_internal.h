/* SPDX-License-Identifier: Apache-2.0 */
/* git/trigger_internal.h - workers, signatures, sending; for git/ only */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "git/git_internal.h"
#include "git/trigger.h"

#define WEBHOOK_WORKERS 8 /* at a time */
#define WEBHOOK_PER_ACCOUNT 2
#define VM_WORKERS 2
#define VM_PER_ACCOUNT 1
#define WORKERS (WEBHOOK_WORKERS + VM_WORKERS)

struct signer; /* signing.c */

struct worker {
	struct triggers *t;
	enum trigger_action action;
	unsigned per_account;
	pthread_t thread;
};

struct triggers {
	struct triggers_conf conf;
	struct repos *g;     /* weak */
	struct store *store; /* weak */
	struct signer *signer;
	struct mutex lock;
	struct cond more;
	uint64_t news GUARDED_BY(lock); /* grows when there may be something to do */
	atomic_bool ending;
	struct worker workers[WORKERS];
	unsigned n_workers;
};

/* ---- deliver.c ---- */
int workers_start(struct triggers *t, struct err *err);
void workers_wake(struct triggers *t);
/* After so many attempts that failed: how long until the next; -1: there is none. */
int64_t delivery_wait_ms(uint32_t attempts, uint32_t retry_s);

/* ---- signing.c ---- */
int signer_open(struct store *s, struct signer **ret, struct err *err);
struct signer *signer_close(struct signer *s);
/* A compact JWT with body_sha256; caller frees. */
int signer_sign(struct signer *s, const char *issuer, const char *id, const void *body, size_t n,
                char **ret, struct err *err);
int signer_keys(struct signer *s, struct signing_public **ret, size_t *ret_n, struct err *err);
int signer_rotate(struct signer *s, char ret_kid[ID_SIZE], struct err *err);

/* ---- webhook_url.c ---- */
/* http or https, with a host; judged again when it is connected to. */
int webhook_url_check(const char *url, bool allow_private, struct err *err);

/* ---- webhook.c ---- */
struct webhook {
	const char *url, *id, *signature, *body;
	bool allow_private;
	const atomic_bool *ending;
};
/* 0 with the reply's status, or -errno with why there is none. */
int webhook_send(const struct webhook *w, int *ret_status, struct err *err);

/* ---- touched.c ---- */
/* Did the push change a path that one of the globs (a JSON array) names? */
int repo_touched(struct repos *g, const struct store_repo *r, const char *old_sha,
                 const char *new_sha, const json_t *globs, bool *ret, struct err *err);
/* Branch names: * is any text, also with slashes. */
bool branch_matches(const char *pattern, const char *name);
