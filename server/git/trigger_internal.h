/* SPDX-License-Identifier: Apache-2.0 */
/* git/trigger_internal.h - what the workers do; for git/ only */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "git/git_internal.h"
#include "git/trigger.h"
#include "hook/hook.h"

#define WEBHOOK_WORKERS 8 /* at a time */
#define WEBHOOK_PER_ACCOUNT 2
#define VM_WORKERS 2
#define VM_PER_ACCOUNT 1

struct lane { /* one kind of action, and who does it */
	struct triggers *t;
	enum trigger_action action;
	unsigned per_account;
	struct crew *crew;
};

struct triggers {
	struct triggers_conf conf;
	struct repos *g;     /* weak */
	struct store *store; /* weak */
	struct signer *signer;
	atomic_bool ending;
	struct lane lanes[TRIGGER_ACTION_MAX];
};

/* ---- deliver.c ---- */
int workers_start(struct triggers *t, struct err *err);
void workers_wake(struct triggers *t);

/* ---- touched.c ---- */
/* Did the push change a path that one of the globs (a JSON array) names? */
int repo_touched(struct repos *g, const struct store_repo *r, const char *old_sha,
                 const char *new_sha, const json_t *globs, bool *ret, struct err *err);
/* The commit that a tag's object stands for; -ENOENT: it is none. */
int repo_tagged(struct repos *g, const struct store_repo *r, const char *sha,
                char ret[SHA_TEXT_SIZE], struct err *err);
/* Names of branches and tags: * is any text, also with slashes. */
bool branch_matches(const char *pattern, const char *name);
