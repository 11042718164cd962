/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_hook.h - webhooks of accounts, and what is to be sent to them; for hook/ and api/
 *
 * An event is written in the transaction of the change that it tells of (store_outbox.c), as one
 * delivery per webhook that wants it: whoever knows of the change can rely on the event. It stays
 * as the log of the result. "active" means that it is being tried right now.
 *
 * Deliveries of one webhook and one subject (a VM with its snapshots, or a build) are tried in the
 * order in which they were written: while one waits for its next attempt, those behind it wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"
#include "store/store_trigger.h"

#define HOOKS_MAX 10          /* of an account */
#define HOOK_WAITING_MAX 1000 /* deliveries of an account that are not over; more are dropped */
#define HOOK_KEPT 100         /* deliveries of a webhook that are over */
#define HOOK_FILTER_SIZE 4096 /* a list of filters as JSON */
#define HOOK_SECRET_SIZE 129  /* with the NUL */
#define HOOK_TYPE_SIZE 24     /* "vm.suspended" */

struct store_hook {
	char id[ID_SIZE]; /* "whk-..." */
	char account[ACCOUNT_SIZE];
	char url[TRIGGER_ENDPOINT_SIZE];
	char secret[HOOK_SECRET_SIZE];   /* or "" */
	char events[HOOK_FILTER_SIZE];   /* JSON array of names and "vm.*"; "": all */
	char vm[ID_SIZE];                /* only of this VM, or "" */
	char tags[HOOK_FILTER_SIZE];     /* JSON array: VMs that have all of them; "": any VM */
	char metadata[HOOK_FILTER_SIZE]; /* JSON object, likewise */
	bool enabled;
	int64_t created_ms, updated_ms;
	int64_t dropped; /* events for which there was no room */
};
/* Is there such an event? "vm.*" and "*" count. */
bool hook_event_known(const char *pattern);
/* The same for those who follow an account (store_feed.h), for whom there are more. */
bool event_known(const char *pattern);
/* Is the type one of those? "vm.suspended", "vm.*", "*" */
bool event_covers(const char *pattern, const char *type);
/* Its name, or NULL: no more. */
const char *hook_event_name(size_t i);

/* -EDQUOT LIMIT_EXCEEDED: the account has HOOKS_MAX. */
int store_hook_add(struct store *s, const struct store_hook *h, struct err *err);
/* -ENOENT if the account has no such webhook. */
int store_hook_get(struct store *s, const char *account, const char *id, struct store_hook *ret,
                   struct err *err);
/* Caller wipes and frees. */
int store_hook_list(struct store *s, const char *account, struct store_hook **ret, size_t *ret_n,
                    struct err *err);
/* All but the count of events that were dropped. */
int store_hook_update(struct store *s, const struct store_hook *h, struct err *err);
/* With its deliveries. */
int store_hook_delete(struct store *s, const char *account, const char *id, struct err *err);

struct store_hook_delivery {
	char id[ID_SIZE]; /* "dlv-..." */
	int64_t seq;      /* order of events; given when it is written */
	char hook[ID_SIZE];
	char account[ACCOUNT_SIZE];
	char event[ID_SIZE]; /* "evt-...", the same for all webhooks */
	char type[HOOK_TYPE_SIZE];
	char subject[ID_SIZE]; /* whose order counts */
	enum delivery_state state;
	uint32_t attempts;
	int64_t next_ms, created_ms, updated_ms;
	int status; /* of the last HTTP reply; -1: none */
	char note[DELIVERY_NOTE_SIZE];
};
/* A test: for this webhook, whatever it filters. */
int store_hook_ping(struct store *s, const struct store_hook *h, struct store_hook_delivery *ret,
                    struct err *err);
/* Takes one that is due and makes it active; per_account: limit of active ones. -ENOENT: none. */
int store_hook_claim(struct store *s, int64_t now_ms, unsigned per_account,
                     struct store_hook_delivery *ret, struct err *err);
/* When the next one is due; INT64_MAX: none is waiting. */
int store_hook_next(struct store *s, int64_t *ret, struct err *err);
/* Writes the whole row; one deleted meanwhile is not an error. Drops old ones that are over. */
int store_hook_settle(struct store *s, const struct store_hook_delivery *d, struct err *err);
/* At start: those that were active are pending and due. Number of them, or -errno. */
int store_hook_recover(struct store *s, struct err *err);
/* Newest first. Caller frees. */
int store_hook_log(struct store *s, const char *hook, int64_t limit, int64_t offset,
                   struct store_hook_delivery **ret, size_t *ret_n, struct err *err);
/* -ENOENT if this webhook has no such delivery. *ret_body: caller frees; may be NULL. */
int store_hook_delivery(struct store *s, const char *hook, const char *id,
                        struct store_hook_delivery *ret, char **ret_body, struct err *err);
/* Called in the transaction's thread, with the store locked, after an event was written. */
void store_hook_notify(struct store *s, void (*fn)(void *ctx), void *ctx);
