/* SPDX-License-Identifier: Apache-2.0 */
/* serverless/deploy_internal.h - deployments; for files of this folder only */
#pragma once

#include <pthread.h>

#include "base/lock.h"
#include "serverless/deploy.h"
#include "serverless/serverless_internal.h"

#define SCALER_BUCKETS 1024u
#define SCALER_THREADS 4 /* that start and end instances */

/*
 * enum inst_state - where an instance stands
 * @INST_STARTING: its VM is being made. Next: READY; gone if that failed.
 * @INST_READY: takes requests, unless it is broken. Next: GOING.
 * @INST_GOING: its VM is being deleted. Next: gone.
 */
enum inst_state { INST_STARTING, INST_READY, INST_GOING };

struct inst {
	struct inst *next;
	struct inst *task; /* next in the line of those that are to be started or ended */
	struct dep *d;
	enum inst_state state;
	bool broken;
	bool gone; /* its VM is deleted; there are tickets left */
	char vm[ID_SIZE];
	unsigned number, open;
	uint64_t idle_since;
	int64_t since_ms;
};

struct dep {
	struct dep *next;
	char id[ID_SIZE], account[ACCOUNT_SIZE], snapshot[ID_SIZE];
	uint16_t port;
	uint32_t instances, requests, idle_ms;
	char *egress;      /* owned: JSON; NULL: open */
	struct inst *inst; /* owned */
	unsigned waiters, next_number;
	uint64_t failed_ms; /* the last start failed at; 0: it did not */
	struct err why;
	bool deleted;
};

struct ticket {
	struct ticket *next;
	uint64_t number;
	struct inst *i;
};

struct scaler {
	struct serverless *s; /* weak */
	struct mutex lock;
	struct cond changed; /* of instances and deployments */
	struct cond tasks;
	struct cond keeper_cond;
	pthread_t keeper;
	bool keeps;
	struct dep *deps GUARDED_BY(lock);
	struct ticket *tickets[SCALER_BUCKETS] GUARDED_BY(lock);
	uint64_t next_ticket GUARDED_BY(lock);
	struct inst *first GUARDED_BY(lock), *last GUARDED_BY(lock); /* to be started or ended */
	unsigned n_tasks GUARDED_BY(lock), n_threads GUARDED_BY(lock), n_idle GUARDED_BY(lock);
	unsigned waiters GUARDED_BY(lock);
	bool stopping GUARDED_BY(lock);
	void (*awake)(void *ctx, const char *id) GUARDED_BY(lock);
	void *awake_ctx GUARDED_BY(lock);
};

/* deploy_scale.c */
struct dep *dep_find(struct scaler *c, const char *id) REQUIRES(&c->lock);
/* The deployment, from its row if it is not known yet; releases the lock in between. It is dropped
 * when it has neither instances nor waiters. */
int dep_get(struct scaler *c, const char *id, struct dep **ret, struct err *err) REQUIRES(&c->lock);
void dep_drop_if_unused(struct scaler *c, struct dep *d) REQUIRES(&c->lock);
void dep_free(struct dep *d);
/* Instances that take requests, or will. */
unsigned dep_count(const struct dep *d);
/* It takes no more requests, and ends. */
void inst_go(struct scaler *c, struct inst *i) REQUIRES(&c->lock);
/* After its VM or its last request is gone; may free its deployment. */
void inst_drop(struct scaler *c, struct inst *i) REQUIRES(&c->lock);
void inst_ended(struct scaler *c, const char *vm) REQUIRES(&c->lock);
void dep_tell_awake(struct scaler *c, const struct dep *d) REQUIRES(&c->lock);

/* deploy_pool.c */
void pool_task(struct scaler *c, struct inst *i) REQUIRES(&c->lock);
int scaler_new(struct serverless *s, struct err *err);
void scaler_end(struct serverless *s);  /* starts no more instances; ends those that are to end */
void scaler_free(struct serverless *s); /* instances go on */
/* All of its instances end, with what they are doing; returns when their VMs are deleted. */
void scaler_drop(struct serverless *s, const char *id);

/* deploy_conf.c */
/* The policy of its instances as JSON; *ret NULL: open. Caller frees. */
int deploy_egress_text(const struct store_deploy *row, char **ret, struct err *err);

/* deploy_logs.c: what the server in an instance printed, before the VM is deleted. */
void deploy_keep_logs(struct serverless *s, const struct inst *i);
