/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_audit.h - the audit log: who did what, when, and with which result; for auth/
 *
 * A separate database (audit.db; in PostgreSQL: tables and a connection of its own), so that
 * writing the log never waits for, nor delays, the writes that requests wait for. Rows are added
 * and, when they are older than the operator wants to keep, deleted; there is no function that
 * changes one. The time a key or token was last used is here too: it changes with every request and
 * nothing depends on it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "model/account.h"

struct err;
struct store;

#define AUDIT_ROUTE_SIZE 96
#define AUDIT_TARGET_SIZE 64
#define AUDIT_CODE_SIZE 48
#define AUDIT_REMOTE_SIZE 48

struct audit_record {
	int64_t seq; /* set by the store */
	int64_t at_ms;
	char account[ACCOUNT_SIZE]; /* "": not authenticated */
	char key[ID_SIZE];          /* API key or token, by id */
	char identity[ID_SIZE];
	char operator_account[ACCOUNT_SIZE]; /* the operator's, who acted as `account`; else "" */
	char method[8];
	char route[AUDIT_ROUTE_SIZE]; /* pattern: never a path, never a query */
	char target[AUDIT_TARGET_SIZE];
	uint32_t status;
	char code[AUDIT_CODE_SIZE]; /* "" on success */
	char remote[AUDIT_REMOTE_SIZE];
	char trace[33];
	uint64_t
	        repeated; /* it stands for so many like it, failed within a minute; 0: for itself */
};

struct audit_filter {
	const char *account;   /* NULL: all */
	const char *action;    /* "POST", "/v1/vms" or "POST /v1/vms"; NULL: any */
	const char *target;    /* NULL: any */
	int64_t before, after; /* seq; INT64_MAX, 0: no bound */
	int64_t until, since;  /* at_ms, likewise */
	uint32_t limit;
};

struct audit_use { /* a key or token was used */
	char id[ID_SIZE];
	int64_t at_ms;
};

int store_audit_open(const char *path, struct store **ret, struct err *err);
/* All in one transaction. */
int store_audit_add(struct store *s, const struct audit_record *r, size_t n,
                    const struct audit_use *u, size_t n_uses, struct err *err);
/* Newest first. Caller frees. */
int store_audit_list(struct store *s, const struct audit_filter *f, struct audit_record **ret,
                     size_t *ret_n, struct err *err);
int store_audit_prune(struct store *s, int64_t before_ms, struct err *err);
/* When it was last used, or 0. */
int64_t store_audit_last_use(struct store *s, const char *id);
