/* SPDX-License-Identifier: Apache-2.0 */
/* auth/auth_internal.h - for files of this folder only */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "auth/auth.h"
#include "base/lock.h"

/* One live key or token. */
struct cred {
	struct cred *next;
	char hash[HASH_HEX_SIZE];
	struct auth_who who;
	_Atomic int64_t used_ms;
	int64_t saved_ms; /* the audit thread's */
};
#define CRED_BUCKETS 4096

/* auth_limit.c: failed attempts of one address that are answered and logged */
#define AUTH_FAIL_BURST 100
#define AUTH_FAIL_PER_S 1
#define AUTH_FAIL_ADDRESSES 4096 /* remembered at one time */

struct auth {
	struct store *store; /* weak */
	struct mutex change; /* held over store and memory, so that they agree */

	_Atomic uint64_t epoch; /* grows with everything that is revoked */

	struct rwlock creds_lock;
	struct cred *creds[CRED_BUCKETS] GUARDED_BY(creds_lock); /* owned */

	struct rate *failures; /* owned; by address */

	struct store *audit_db; /* owned */
	struct mutex audit_lock;
	struct cond audit_cond;                            /* work, or work done */
	struct audit_record *audit GUARDED_BY(audit_lock); /* owned; waiting to be written */
	size_t n_audit GUARDED_BY(audit_lock), cap_audit GUARDED_BY(audit_lock);
	uint64_t audit_in GUARDED_BY(audit_lock), audit_out
	        GUARDED_BY(audit_lock); /* records ever added, ever written or given up */
	uint64_t audit_lost GUARDED_BY(audit_lock);
	unsigned audit_days;
	bool audit_hurry GUARDED_BY(audit_lock), audit_stop GUARDED_BY(audit_lock);
	bool has_audit_thread;
	pthread_t audit_thread;
};

/* auth.c */
int auth_hash(const char *secret, char ret_hex[HASH_HEX_SIZE], struct err *err);
void auth_make_secret(const char *prefix, char ret[AUTH_SECRET_SIZE]);

/* auth_cred.c */
int cred_load(struct auth *a, struct err *err);
int cred_add(struct auth *a, const char *hash, const char *id, const char *account,
             const char *identity, bool admin, struct err *err);
bool cred_find(struct auth *a, const char *hash, struct auth_who *ret);
bool cred_exists(struct auth *a, const char *id);
/* All of an account, an identity, or the one with that id; NULL: any. */
void cred_remove(struct auth *a, const char *account, const char *identity, const char *id);
int64_t cred_used(struct auth *a, const char *id);
/* Those used since they were saved last, at most max; then they count as saved. */
size_t cred_take_uses(struct auth *a, struct audit_use *u, size_t max);
void cred_free_all(struct auth *a);

/* auth_limit.c */
int failures_start(struct auth *a, struct err *err);

/* auth_audit.c */
int audit_start(struct auth *a, const char *data_dir, struct err *err);
void audit_end(struct auth *a);
