/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_deploy.h - deployments: what was asked for, what came of it; for serverless/ and api/
 *
 * A row is there before anything is built. The snapshot of a deployment is an ordinary one of its
 * account, which cannot be deleted as long as the row is there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"
#include "store/store_domain.h"

#define DEPLOY_NAME_SIZE 65 /* with the NUL */
#define DEPLOY_WHY_SIZE 512

enum deploy_state { DEPLOY_PROVISIONING, DEPLOY_DEPLOYED, DEPLOY_FAILED, DEPLOY_STATE_MAX };
extern const char *const deploy_state_words[DEPLOY_STATE_MAX];

struct store_deploy {
	char id[ID_SIZE]; /* "dpl-..." */
	char account[ACCOUNT_SIZE];
	char name[DEPLOY_NAME_SIZE]; /* "": none */
	enum deploy_state state;
	char snapshot[ID_SIZE], build[ID_SIZE]; /* "": none yet */
	uint32_t port;
	uint32_t idle_ms;             /* without a request an instance is kept for so long */
	uint32_t instances, requests; /* at most; of one instance at a time */
	int64_t created_ms, deployed_ms;
	char why[DEPLOY_WHY_SIZE]; /* it failed */
	char *config; /* owned; sealed in the database: JSON, without the source; or NULL */
};
void store_deploy_done(struct store_deploy *d);
void store_deploys_free(struct store_deploy *v, size_t n);

/* -EDQUOT DEPLOYMENT_LIMIT_EXCEEDED: the account has `max`. */
int store_deploy_add(struct store *s, const struct store_deploy *d, uint32_t max, struct err *err);
/* State, snapshot, build, time and why. -ENOENT: it was deleted meanwhile. */
int store_deploy_put(struct store *s, const struct store_deploy *d, struct err *err);
/* account NULL: any. -ENOENT DEPLOYMENT_NOT_FOUND. Caller store_deploy_done()s. */
int store_deploy_get(struct store *s, const char *account, const char *id, struct store_deploy *ret,
                     struct err *err);
/* Newest first; search: "" or a part of id, name or one of its domains. account NULL: of all.
 * Caller store_deploys_free()s. */
int store_deploy_list(struct store *s, const char *account, const char *search,
                      struct store_deploy **ret, size_t *ret_n, struct err *err);
/* Its names are unmapped with it; schedules of it fail from now on. */
int store_deploy_delete(struct store *s, const char *account, const char *id, struct err *err);
/* What this node was building when it ended has failed. */
int store_deploy_fail_unfinished(struct store *s, const char *why, struct err *err);
/* Names that lead to it; caller frees. */
int store_deploy_domains(struct store *s, const char *id, char (**ret)[DOMAIN_SIZE], size_t *ret_n,
                         struct err *err);
