/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_run.h - runs of scripts: what was asked for, how it went; for serverless/ and api/
 *
 * A row is there before the run has a VM, and knows the VM before anything runs in it: after a
 * crash the VMs of unfinished runs are found and deleted. The newest RUNS_KEPT of an account are
 * kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

#define RUNS_KEPT 1000   /* of an account */
#define RUN_NAME_SIZE 65 /* with the NUL */

enum run_state { RUN_STARTING, RUN_RUNNING, RUN_COMPLETE, RUN_STATE_MAX };
extern const char *const run_state_words[RUN_STATE_MAX];

struct store_run {
	char id[ID_SIZE]; /* "run-..." */
	char account[ACCOUNT_SIZE];
	char name[RUN_NAME_SIZE]; /* the caller's executionId, or the id */
	enum run_state state;
	bool failed;
	int64_t created_ms, started_ms, ended_ms; /* 0: not yet */
	char vm[ID_SIZE];                         /* "": none */
	char schedule[ID_SIZE];                   /* of cron, or "" */
	char *config; /* owned; sealed in the database: JSON, with the script; or "" */
	char *output; /* owned; JSON, or ""; NULL: not read */
};
void store_run_done(struct store_run *r);
void store_runs_free(struct store_run *v, size_t n);

/* -EEXIST CONFLICT: the account has a run of that name. Drops the account's oldest. */
int store_run_add(struct store *s, const struct store_run *r, struct err *err);
/* State, times, VM and output of a row that is there. */
int store_run_put(struct store *s, const struct store_run *r, struct err *err);
/* By id or name. -ENOENT RUN_NOT_FOUND, also for one of another account. */
int store_run_get(struct store *s, const char *account, const char *name, struct store_run *ret,
                  struct err *err);
/* Newest first, without output. Caller store_runs_free()s. */
int store_run_list(struct store *s, const char *account, uint32_t limit, uint32_t offset,
                   struct store_run **ret, size_t *ret_n, uint32_t *ret_total, struct err *err);
/* Those of all accounts that are not complete, without config and output. */
int store_run_unfinished(struct store *s, struct store_run **ret, size_t *ret_n, struct err *err);
