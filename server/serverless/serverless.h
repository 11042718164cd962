/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serverless/serverless.h - code that runs without anybody keeping a VM for it; for api/ and main.c
 *
 * A run is one execution of a script in a VM of its own, which is deleted afterwards.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "serverless/deploy.h"
#include "store/store_cron.h"
#include "store/store_run.h"

struct builder;
struct logs;
struct serverless;
struct store;
struct vmm;

#define RUN_SCRIPT_MAX (1u << 20) /* bytes */
#define RUN_TIMEOUT_S 60          /* of a run that says nothing */
#define RUN_TIMEOUT_MAX_S 280     /* below the clients' own 300 s without headers */
#define RUN_MODULES_MAX 100
#define RUN_ENV_MAX 128
#define RUN_TAGS_MAX 32
#define RUN_RESULT_MAX (1u << 20) /* bytes of a result as JSON */
#define RUN_LOGS_MAX 1000         /* messages */
#define RUN_LOG_BYTES (256u << 10)

struct serverless_conf {
	struct store *store; /* these three: weak */
	struct vmm *vmm;
	struct builder *builder;
	struct logs *logs; /* weak; NULL: what instances print is not kept */
	struct deploy_limits deploy;
};
/* Ends what an earlier process left unfinished. */
int serverless_new(const struct serverless_conf *c, struct serverless **ret, struct err *err);
/* Begins no more executions; one that runs goes on until its VM ends. */
void serverless_end(struct serverless *s);
struct serverless *serverless_free(struct serverless *s);

/* What a script is run with: config of a request, checked. */
struct run_conf {
	json_t *env, *modules, *headers; /* owned; objects of strings; NULL: none */
	json_t *tags;                    /* owned; array of strings; NULL: none */
	json_t *egress;                  /* owned; as egress_parse() takes it; NULL: open */
	uint32_t timeout_s;
	bool infer, no_peers, keep_nothing;
};
/* where: "config." for messages. -EINVAL BAD_REQUEST. Caller run_conf_done()s in any case. */
int run_conf_parse(const json_t *config, const char *where, struct run_conf *ret, struct err *err);
void run_conf_done(struct run_conf *c);
/* "networkPermissions" and "egress" of the protocol as a policy of ours; both may be NULL. */
int run_egress(const json_t *permissions, const json_t *egress, const char *where, json_t **ret,
               struct err *err);
/* Adds the packages that the script imports and that are not in *modules, as "latest". */
int run_infer(const char *script, json_t **modules, struct err *err);

struct run_req {
	const char *account;
	const char *script;
	const char *name;       /* the caller's executionId; NULL: none */
	const char *schedule;   /* NULL: nobody's */
	const char *request_id; /* or NULL */
	const struct run_conf *conf;
	const json_t *payload;   /* argument of the default export; NULL: none */
	bool (*gone)(void *ctx); /* nobody waits for it any more; NULL: somebody always does */
	void *ctx;
};
struct run_done {
	char name[RUN_NAME_SIZE];
	json_t *result, *logs; /* owned */
	json_t *extra;         /* owned; more members for the body of an error */
};
void run_done_free(struct run_done *d);
/*
 * Blocks until the script has ended and its VM is deleted. EXECUTION_ERROR when it threw, timed out
 * or had no result that is JSON; NODE_MODULES_INSTALL_FAILED. ret->name is set once there is a row.
 */
int run_script(struct serverless *s, const struct run_req *q, struct run_done *ret,
               struct err *err);

/* ---- schedules: cron_run.c ---- */

#define CRON_RETRIES_MAX 10
#define CRON_PAYLOAD_MAX (64u << 10) /* bytes as JSON */
#define CRON_LATE_MS 3600000 /* a time that the server was down at is made up for until then */

/* Members of a schedule that a request may set. */
struct schedule_change {
	const char *name, *cron, *timezone, *path; /* NULL: as it is */
	int64_t retries;                           /* -1: as it is */
	int active;                                /* -1: as it is */
	const json_t *payload;                     /* NULL: as it is */
	const json_t *run;      /* {code, and the members of a run's config}; NULL: as it is */
	const char *deployment; /* instead of `run`; NULL: as it is */
};
/* A new one; "cron" and one of "run" and "deployment" are needed. -EINVAL BAD_REQUEST. Caller
 * store_schedule_done()s. */
int schedule_create(struct serverless *s, const char *account, const struct schedule_change *c,
                    struct store_schedule *ret, struct err *err);
int schedule_change(struct serverless *s, const char *account, const char *id,
                    const struct schedule_change *c, struct err *err);
