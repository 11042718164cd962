/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/trigger.h - what happens after a push: webhooks and commands in VMs; for main.c and api/
 *
 * A push leaves one delivery in the store for every trigger it concerns, before the client has its
 * answer. Workers take deliveries that are due (deliver.c); a webhook that is not answered with 2xx
 * is tried again over a day. How they are signed and sent: hook/hook.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store_trigger.h"

struct err;
struct repos;
struct signer;
struct store;
struct triggers;

#define TRIGGERS_MAX 100 /* of one repository */
#define TRIGGER_FILTERS_MAX 64
#define TRIGGER_OUTPUT_MAX (64u << 10) /* bytes kept of what a command said */
#define DELIVERIES_KEPT 200            /* of one trigger that are over */
#define DELIVERIES_WAITING_MAX 1000    /* of one repository */

/* Runs commands in VMs; git/ knows nothing of them. */
struct trigger_vm {
	/*
	 * Starts a VM (noting it down in d->vm and the store before anything runs in it), runs the
	 * command and deletes the VM. 0: it came to an end, d->status is its exit status.
	 * *ret_output: caller frees.
	 */
	int (*run)(void *ctx, struct store_delivery *d, const struct store_trigger *t,
	           char **ret_output, struct err *err);
	/* A VM of a run that was interrupted. */
	void (*drop)(void *ctx, const char *account, const char *vm);
	/* Is there such a snapshot? -ENOENT SNAPSHOT_NOT_FOUND. */
	int (*check)(void *ctx, const char *account, const char *snapshot, struct err *err);
	void *ctx;
};

struct triggers_conf {
	bool allow_private;   /* webhooks may go to loopback, private and link-local addresses */
	uint32_t retry_s;     /* before the first repetition; later ones follow from it */
	char issuer[160];     /* "iss" of signatures */
	struct trigger_vm vm; /* run NULL: there are no VMs */
};

int triggers_open(const struct triggers_conf *c, struct repos *g, struct store *s,
                  struct triggers **ret, struct err *err);
/* Nothing new is begun; what runs is told to end. */
void triggers_end(struct triggers *t);
/* What was interrupted is taken up at the next start. */
struct triggers *triggers_close(struct triggers *t);

struct trigger_filters { /* none: everything passes */
	const char *v[TRIGGER_FILTERS_MAX];
	size_t n;
};
struct trigger_new {
	enum trigger_event event;
	struct trigger_filters names, globs; /* names: of branches or tags */
	enum trigger_action action;
	const char *endpoint;           /* of a webhook */
	const char *command, *snapshot; /* of a VM; snapshot NULL: the template */
};
int trigger_create(struct triggers *t, const struct store_repo *r, const struct trigger_new *n,
                   struct store_trigger *ret, struct err *err);
/* Once more from the beginning; -EBUSY while it is being tried. */
int trigger_redeliver(struct triggers *t, const char *trigger, const char *id,
                      struct store_delivery *ret, struct err *err);

/* Signs for others too; as long as t is there. */
struct signer *triggers_signer(struct triggers *t);
