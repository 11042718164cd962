/* SPDX-License-Identifier: Apache-2.0 */
/* serverless/deploy_build.h - from a request to a deployment; for files of this folder only */
#pragma once

#include "serverless/deploy_internal.h"

/* A request for a deployment, checked. */
struct deploy_plan {
	json_t *conf;                    /* owned: what the programs in the guest read */
	json_t *files;                   /* owned; NULL: from a URL */
	json_t *egress;                  /* owned; NULL: open */
	json_t *domains;                 /* owned */
	const char *name, *url, *branch; /* weak: of the request; or NULL */
	bool git;
	bool wait; /* for the end of the build */
	uint32_t port, idle_ms, instances, requests;
};
/* INVALID_DEPLOYMENT_REQUEST, ENTRYPOINT_NOT_FOUND, TIMEOUT_LIMIT_EXCEEDED. Caller
 * deploy_plan_done()s in any case. */
int deploy_plan_read(const json_t *source, const json_t *config, const struct deploy_limits *l,
                     struct deploy_plan *ret, struct err *err);
void deploy_plan_done(struct deploy_plan *p);
