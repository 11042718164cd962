/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_cron.h - schedules, and what came of each of their times; for serverless/ and api/
 *
 * A time is taken by one transaction that moves the schedule on to its next time and writes the
 * execution: whoever's comes second finds the schedule elsewhere, so no time is executed twice,
 * also by two servers on one database. The newest CRON_KEPT executions of a schedule are kept.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

#define SCHEDULES_MAX 100  /* of an account */
#define CRON_KEPT 2000     /* executions of a schedule */
#define CRON_RUNNING_MAX 2 /* executions of an account at a time */
#define CRON_NOTE_SIZE 512

struct store_schedule {
	char id[ID_SIZE]; /* "sch-..." */
	char account[ACCOUNT_SIZE];
	char deployment[ID_SIZE]; /* "": it is of runs */
	char name[129], path[1025], cron[257], timezone[65];
	uint32_t retries;
	bool active;
	int64_t created_ms, updated_ms;
	int64_t next_ms; /* INT64_MAX: never */
	char *payload;   /* owned; JSON */
	char *run;       /* owned; JSON, sealed in the database */
};
void store_schedule_done(struct store_schedule *s);
void store_schedules_free(struct store_schedule *v, size_t n);

enum cron_state {
	CRON_QUEUED,
	CRON_RUNNING,
	CRON_SUCCEEDED,
	CRON_FAILED,
	CRON_RETRY,
	CRON_STATE_MAX
};
extern const char *const cron_state_words[CRON_STATE_MAX];

struct store_execution {
	char id[ID_SIZE]; /* "exe-..." */
	char account[ACCOUNT_SIZE], schedule[ID_SIZE];
	int64_t run_at_ms;
	enum cron_state state;
	uint32_t attempts, max_attempts;
	int64_t next_ms, locked_ms; /* of the next attempt; the last one began; 0: none */
	char run[65], error[CRON_NOTE_SIZE];
	int64_t started_ms, completed_ms, created_ms, updated_ms;
};
struct store_attempt {
	char id[ID_SIZE]; /* "att-..." */
	char execution[ID_SIZE], schedule[ID_SIZE];
	uint32_t number;
	enum cron_state state;
	char run[65], error[CRON_NOTE_SIZE];
	int64_t started_ms, completed_ms;
};

/* -EDQUOT LIMIT_EXCEEDED: the account has SCHEDULES_MAX. */
int store_schedule_add(struct store *s, const struct store_schedule *x, struct err *err);
/* All but id, account and created_ms. -ENOENT SCHEDULE_NOT_FOUND. */
int store_schedule_put(struct store *s, const struct store_schedule *x, struct err *err);
int store_schedule_get(struct store *s, const char *account, const char *id,
                       struct store_schedule *ret, struct err *err);
/* Oldest first. Caller store_schedules_free()s. */
int store_schedule_list(struct store *s, const char *account, struct store_schedule **ret,
                        size_t *ret_n, struct err *err);
int store_schedule_delete(struct store *s, const char *account, const char *id, struct err *err);

/* The one whose time came first and whose account has room for an execution. -ENOENT: none. */
int store_cron_due(struct store *s, int64_t now_ms, struct store_schedule *ret, struct err *err);
/* Takes that time: the schedule goes on to next_ms, and x is written if it is not NULL. -ESTALE: it
 * was taken or changed meanwhile. */
int store_cron_take(struct store *s, const struct store_schedule *sch, int64_t next_ms,
                    const struct store_execution *x, struct err *err);
/* An execution whose next attempt is due; it is running from now on. -ENOENT: none. */
int store_cron_retry(struct store *s, int64_t now_ms, struct store_execution *ret, struct err *err);
/* The next time of any schedule or attempt; INT64_MAX: none. */
int store_cron_next(struct store *s, int64_t *ret_ms, struct err *err);
/* After an attempt; a is added. */
int store_cron_done(struct store *s, const struct store_execution *x, const struct store_attempt *a,
                    struct err *err);
/* Those that were running when the server ended. Caller frees. */
int store_cron_running(struct store *s, struct store_execution **ret, size_t *ret_n,
                       struct err *err);

/* Newest first. Caller frees. */
int store_execution_list(struct store *s, const char *schedule, uint32_t limit, uint32_t offset,
                         struct store_execution **ret, size_t *ret_n, uint32_t *ret_total,
                         struct err *err);
/* Those of a time from start_ms to before end_ms, oldest first. Caller frees. */
int store_execution_range(struct store *s, const char *schedule, int64_t start_ms, int64_t end_ms,
                          struct store_execution **ret, size_t *ret_n, struct err *err);
/* Of these executions of a schedule, in order. Caller frees. */
int store_attempt_list(struct store *s, const char *execution, struct store_attempt **ret,
                       size_t *ret_n, struct err *err);
