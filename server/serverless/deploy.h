/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serverless/deploy.h - deployments: a server, frozen when it answers, thawed by requests; for
 * api/, front/ and main.c
 *
 * A deployment is a snapshot of a VM in which its server listens. Its instances are VMs made from
 * that snapshot, from none to as many as it may have, each with a bounded number of requests at a
 * time. Whoever passes a request on takes a place in an instance and gives it back.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/id.h"
#include "model/account.h"
#include "store/store_deploy.h"

struct serverless;

#define DEPLOY_PORT 3000
#define DEPLOY_FILES_MAX 5000
#define DEPLOY_REQUESTS_MAX 1000 /* of an instance at a time */
#define DEPLOY_WAITERS_MAX 32 /* threads that wait for an instance, of all deployments together */
#define DEPLOY_ANSWER_MAX (16u << 20)     /* bytes of a response that deploy_call() takes */
#define DEPLOY_SERVICE "pando-deployment" /* the unit in the guest */

/* Settings. */
struct deploy_limits {
	uint32_t deployments;       /* of an account */
	uint32_t instances;         /* of a deployment */
	uint32_t account_instances; /* of all deployments of an account */
	uint32_t requests;          /* of an instance at a time, unless the deployment says */
	uint32_t idle_s;            /* an instance without a request, unless the deployment says */
	uint32_t wait_ms;           /* for an instance */
};

/* ---- deploy.c ---- */

struct deploy_req {
	const char *account;
	const char *request_id; /* or NULL */
	const json_t *source;   /* {kind, ...} */
	const json_t *config;   /* or NULL */
	int (*may_map)(void *ctx, const char *account, const char *domain, struct err *err);
	int (*map)(void *ctx, const char *account, const char *domain, const char *deployment,
	           struct err *err);
	void *ctx;               /* of both; outlives the server */
	bool (*gone)(void *ctx); /* nobody waits for the result any more */
	void *gone_ctx;
};
struct deploy_new {
	char id[ID_SIZE];
	bool over;     /* it is deployed; else it is still being built */
	json_t *extra; /* owned; more members for the body of an error */
};
/*
 * Checks, writes the row, builds on a thread of its own and waits for that as config.await says.
 * INVALID_DEPLOYMENT_REQUEST and the like before there is a row; DEPLOYMENT_FAILED with ret->extra.
 */
int deploy_create(struct serverless *s, const struct deploy_req *q, struct deploy_new *ret,
                  struct err *err);
/* Ends its instances with their requests, then row, names and snapshot. */
int deploy_delete(struct serverless *s, const char *account, const char *id, struct err *err);

/* ---- deploy_scale.c ---- */

struct deploy_place {
	uint64_t ticket;
	char account[ACCOUNT_SIZE], vm[ID_SIZE];
	uint16_t port;
};
/*
 * A place in an instance, which is started if there is none. waiting: how many more are known to
 * wait. -ENOENT DEPLOYMENT_NOT_FOUND, -ETIMEDOUT DEPLOYMENT_BUSY, or why no instance can be
 * started.
 */
int deploy_take(struct serverless *s, const char *id, unsigned waiting, uint64_t deadline_ms,
                struct deploy_place *ret, struct err *err);
/* Never blocks. */
void deploy_done(struct serverless *s, uint64_t ticket);
/* Gives the place back, too: nobody answers in that instance, and it is replaced. Never blocks. */
void deploy_broken(struct serverless *s, uint64_t ticket);
/* A machine of that VM ended. Never blocks, calls nobody. */
void deploy_vm_ended(struct serverless *s, const char *vm);
struct deploy_way {
	struct deploy_place place;
	char instance[ID_SIZE]; /* of the machine */
	int fd;                 /* the caller's: connected, or about to be */
	uint32_t mark;          /* what `mark` said of the VM before it was looked at */
};
/* A place, and a connection to it; instances in which nobody listens are replaced on the way. The
 * caller gives the place back. mark: or NULL. */
int deploy_open(struct serverless *s, const char *id, unsigned waiting,
                uint32_t (*mark)(void *ctx, const char *vm), void *ctx, struct deploy_way *ret,
                struct err *err);
bool deploy_awake(struct serverless *s, const char *id); /* is there an instance? Never blocks. */
/* fn hears of deployments whose first instance is there, or whose last one is gone: under a lock,
 * so it must not block. Once, before requests come. */
void deploy_on_awake(struct serverless *s, void (*fn)(void *ctx, const char *id), void *ctx);

struct deploy_instance {
	char vm[ID_SIZE];
	bool ready;
	unsigned requests;
	int64_t since_ms; /* wall clock */
};
/* Caller frees. */
int deploy_instances(struct serverless *s, const char *id, struct deploy_instance **ret,
                     size_t *ret_n, struct err *err);
struct deploy_figures {
	unsigned deployments, ready, starting,
	        requests; /* awake ones; instances; requests under way */
};
void deploy_figures(struct serverless *s, struct deploy_figures *ret);

/* ---- deploy_call.c ---- */

struct deploy_call {
	const char *method, *target; /* "/path?query" */
	const char *fields;          /* "Name: value\r\n"..., or NULL */
	const void *body;            /* or NULL */
	size_t body_len;
	uint32_t timeout_ms;
};
struct deploy_answer {
	unsigned status;
	json_t *fields; /* owned: [[name, value], ...] */
	uint8_t *body;  /* owned */
	size_t len;
};
/* A request to an instance, and the whole of its response. */
int deploy_call(struct serverless *s, const char *id, const struct deploy_call *c,
                struct deploy_answer *ret, struct err *err);
void deploy_answer_done(struct deploy_answer *a);
