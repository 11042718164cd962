/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_trigger.h - triggers of repositories, their deliveries, signing keys; for
 * git/
 *
 * A delivery is one trigger's reaction to one push: it is stored before it is first tried,
 * and stays as the log of the result. "active" means that it is being tried right now; deliveries
 * that are active when the server starts were interrupted and become pending again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_git.h"

#define TRIGGER_TEXT_SIZE 4096 /* a list of filters as JSON */
#define TRIGGER_ENDPOINT_SIZE 2048
#define TRIGGER_COMMAND_SIZE 8192
#define DELIVERY_BRANCH_SIZE 512
#define DELIVERY_NOTE_SIZE 256
#define SIGNING_SECRET_SIZE 65 /* 32 bytes in hex */
#define SHA_TEXT_SIZE 41

enum trigger_action { TRIGGER_WEBHOOK, TRIGGER_VM, TRIGGER_ACTION_MAX };
/* What happened to a branch or tag: moved or made; made; deleted. */
enum trigger_event {
	TRIGGER_PUSH,
	TRIGGER_BRANCH_CREATE,
	TRIGGER_BRANCH_DELETE,
	TRIGGER_TAG,
	TRIGGER_TAG_DELETE,
	TRIGGER_EVENT_MAX
};
enum delivery_state {
	DELIVERY_PENDING,
	DELIVERY_ACTIVE,
	DELIVERY_DONE,
	DELIVERY_FAILED,
	DELIVERY_STATE_MAX
};
extern const char *const trigger_action_words[TRIGGER_ACTION_MAX];
extern const char *const trigger_event_words[TRIGGER_EVENT_MAX];
extern const char *const delivery_state_words[DELIVERY_STATE_MAX];

static inline bool trigger_is_tag(enum trigger_event e)
{
	return e == TRIGGER_TAG || e == TRIGGER_TAG_DELETE;
}
static inline bool trigger_is_delete(enum trigger_event e)
{
	return e == TRIGGER_BRANCH_DELETE || e == TRIGGER_TAG_DELETE;
}

struct store_trigger {
	char id[ID_SIZE];
	char repo[REPO_ID_SIZE];
	char account[ACCOUNT_SIZE];
	enum trigger_event event;
	/* JSON arrays; "": all. branches: names of what the event is about, tags too */
	char branches[TRIGGER_TEXT_SIZE], globs[TRIGGER_TEXT_SIZE];
	enum trigger_action action;
	char endpoint[TRIGGER_ENDPOINT_SIZE]; /* webhook */
	char snapshot[ID_SIZE];               /* vm; "": the template */
	char command[TRIGGER_COMMAND_SIZE];   /* vm */
	int64_t created_ms;
};
int store_trigger_add(struct store *s, const struct store_trigger *t, struct err *err);
/* -ENOENT if this repository has no such trigger. */
int store_trigger_get(struct store *s, const char *repo, const char *id, struct store_trigger *ret,
                      struct err *err);
int store_trigger_list(struct store *s, const char *repo, struct store_trigger **ret, size_t *ret_n,
                       struct err *err);
/* With its deliveries. */
int store_trigger_delete(struct store *s, const char *repo, const char *id, struct err *err);

struct store_delivery {
	char id[ID_SIZE];
	char trigger[ID_SIZE];
	char repo[REPO_ID_SIZE];
	char account[ACCOUNT_SIZE];
	enum trigger_action action;
	enum trigger_event event;
	char branch[DELIVERY_BRANCH_SIZE]; /* or tag */
	char old_sha[SHA_TEXT_SIZE],
	        new_sha[SHA_TEXT_SIZE]; /* commits; zeros: none, "": a tag of none */
	char push[ID_SIZE];             /* the push it belongs to */
	enum delivery_state state;
	uint32_t attempts;
	int64_t next_ms, created_ms, updated_ms;
	int judged; /* how often its paths began to be looked at; -1: it concerns its trigger */
	int status; /* of the last HTTP reply, or the command's exit code; -1: none */
	char vm[ID_SIZE]; /* running it now, or "" */
	char note[DELIVERY_NOTE_SIZE];
};
int store_delivery_add(struct store *s, const struct store_delivery *d, struct err *err);
/* Has this trigger a delivery for that push of that branch? 1 or 0. */
int store_delivery_known(struct store *s, const char *trigger, const char *push, const char *branch,
                         struct err *err);
/* Writes the whole row; a row deleted meanwhile is not an error. output NULL: unchanged. */
int store_delivery_put(struct store *s, const struct store_delivery *d, const char *output,
                       struct err *err);
int store_delivery_drop(struct store *s, const char *id, struct err *err);
/* Takes one that is due and makes it active; per_account: limit of active ones. -ENOENT: none. */
int store_delivery_claim(struct store *s, enum trigger_action action, int64_t now_ms,
                         unsigned per_account, struct store_delivery *ret, struct err *err);
/* When the next one is due; INT64_MAX: none is waiting. */
int store_delivery_next(struct store *s, enum trigger_action action, int64_t *ret, struct err *err);
/* At start: makes those that were active pending and due, and lists them. Caller frees. */
int store_delivery_recover(struct store *s, struct store_delivery **ret, size_t *ret_n,
                           struct err *err);
/* Newest first. Caller frees. */
int store_delivery_list(struct store *s, const char *trigger, int64_t limit, int64_t offset,
                        struct store_delivery **ret, size_t *ret_n, struct err *err);
/* Those of a commit, of triggers with that action. */
int store_delivery_of_commit(struct store *s, const char *repo, const char *sha,
                             enum trigger_action action, struct store_delivery **ret, size_t *ret_n,
                             struct err *err);
/* -ENOENT if this trigger has no such delivery. *ret_output: caller frees; may be NULL. */
int store_delivery_get(struct store *s, const char *trigger, const char *id,
                       struct store_delivery *ret, char **ret_output, struct err *err);
/* Number of deliveries of a repository that are not finished. */
int store_delivery_waiting(struct store *s, const char *repo, int64_t *ret, struct err *err);
/* Deletes all but the newest finished ones of a trigger. */
int store_delivery_trim(struct store *s, const char *trigger, unsigned keep, struct err *err);

struct store_signing_key {
	char id[ID_SIZE];
	char secret[SIGNING_SECRET_SIZE];
	int64_t created_ms, retired_ms; /* 0: in use */
};
/* The newest first; what was retired before gone_ms is deleted. Caller frees. */
int store_signing_keys(struct store *s, int64_t gone_ms, struct store_signing_key **ret,
                       size_t *ret_n, struct err *err);
/* Adds it and retires all others, in one transaction. */
int store_signing_key_add(struct store *s, const struct store_signing_key *k, struct err *err);
