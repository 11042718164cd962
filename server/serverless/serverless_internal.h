/* SPDX-License-Identifier: Apache-2.0 */
/* serverless/serverless_internal.h - for files of this folder only */
#pragma once

#include "serverless/serverless.h"

struct guest;

#define RUN_DIR_IN_GUEST "/opt/pando-run"      /* node_modules, and the script */
#define RUN_REQUEST_FILE "/run/pando-run.json" /* a long request: the cell reads and removes it */
#define RUN_RESULT_MIME "application/x-pando-run" /* of the result that the cell shows */

struct crew;
struct serverless {
	struct serverless_conf conf;
	struct crew *cron; /* owned; NULL: nothing is scheduled */
	struct scaler *scaler;
	struct deployer *deployer; /* both owned */
};

/* deploy.c */
int deployer_new(struct serverless *s, struct err *err);
void deployer_end(struct serverless *s);  /* nobody waits for a build any more */
void deployer_free(struct serverless *s); /* waits for those that are under way */

/* cron_run.c */
int cron_start(struct serverless *s, struct err *err);

/* run_cell_js.c: the cell that runs the script of RUN_REQUEST_FILE. */
extern const char run_cell_js[];

/* How a script ended. */
struct run_outcome {
	json_t *logs;   /* owned; array of {message, type, callstack?} */
	json_t *result; /* owned; NULL: there is none */
	json_t *error;  /* owned; {name, message, stack}; NULL: it did not fail */
	size_t log_bytes;
	unsigned n_logs;
};
void run_outcome_done(struct run_outcome *o);
/* Runs the cell; request: the bytes of RUN_REQUEST_FILE. 0 also when the script failed. */
int run_cell(struct guest *g, const char *request, const struct run_req *q, struct run_outcome *ret,
             struct err *err);
/* run_spec.c: the layer with the modules; *ret NULL: none are needed. */
json_t *run_spec(const struct run_conf *c, const json_t *modules);
