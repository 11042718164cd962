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
	int64_t saved_ms; /* used by the audit thread only */
};
#define CRED_BUCKETS 4096

/* One live web session. */
struct session {
	struct session *next;
	struct cred *cred; /* weak: the session ends with it */
	struct store_session row;
	_Atomic int64_t used_ms;
};
#define SESSION_BUCKETS 1024
#define SESSION_SAVE_MS 60000 /* a use is written down at most this often */

/* A program that asks for a key. */
struct login {
	struct auth_login info;
	char hash[HASH_HEX_SIZE]; /* of its secret */
	char net[64];             /* where it came from */
	uint64_t until_ms;        /* clock_ms(); over: the row is free */
	struct auth_lease by;     /* who decided */
};

/* auth_limit.c: failed attempts of one address that are answered and logged */
#define AUTH_FAIL_BURST 100
#define AUTH_FAIL_PER_S 1
#define AUTH_FAIL_ADDRESSES 4096 /* remembered at one time */

/* auth_same.c: failures that repeat */
#define AUDIT_SAME_KEEP 20   /* of one key or address with one code that are recorded each, */
#define AUDIT_SAME_MS 60000  /* in this time */
#define AUDIT_SAME_SLOTS 512 /* of those that are counted at one time */
struct audit_same {
	uint64_t name, begin_ms, n; /* n 0: free */
	struct audit_record last;
};

struct auth {
	struct store *store; /* weak */
	struct mutex change; /* held while store and memory change, so that they agree */

	_Atomic uint64_t epoch;        /* increased by every revocation */
	_Atomic uint64_t refreshed_ms; /* clock_ms() of the last auth_refresh() */

	struct rwlock creds_lock;
	struct cred *creds[CRED_BUCKETS] GUARDED_BY(creds_lock);          /* owned */
	struct session *sessions[SESSION_BUCKETS] GUARDED_BY(creds_lock); /* owned */
	size_t n_sessions GUARDED_BY(creds_lock);
	int64_t session_idle_ms, session_max_ms; /* tests shorten them */

	struct mutex logins_lock;
	struct login *logins GUARDED_BY(logins_lock); /* owned; AUTH_LOGINS_MAX */

	struct rate *failures; /* owned; by address */

	struct store *audit_db; /* owned */
	struct mutex audit_lock;
	struct cond audit_cond;                            /* new work, or work done */
	struct audit_record *audit GUARDED_BY(audit_lock); /* owned; waiting to be written */
	size_t n_audit GUARDED_BY(audit_lock), cap_audit GUARDED_BY(audit_lock);
	uint64_t audit_in GUARDED_BY(audit_lock), audit_out
	        GUARDED_BY(audit_lock); /* records ever added; ever written or dropped */
	uint64_t audit_lost GUARDED_BY(audit_lock);
	uint64_t same_seed;
	struct audit_same same[AUDIT_SAME_SLOTS] GUARDED_BY(audit_lock);
	unsigned audit_days;
	bool audit_hurry GUARDED_BY(audit_lock), audit_stop GUARDED_BY(audit_lock);
	bool has_audit_thread;
	pthread_t audit_thread;
};

/* auth.c */
bool auth_well_formed(const char *prefix, const char *secret);
int auth_hash(const char *secret, char ret_hex[HASH_HEX_SIZE], struct err *err);
void auth_make_secret(const char *prefix, char ret[AUTH_SECRET_SIZE]);

/* auth_cred.c */
int cred_load(struct auth *a, struct err *err);
/* As the store has them now; a->change is held. */
int cred_reload(struct auth *a, struct err *err);
int cred_add(struct auth *a, const char *hash, const char *id, const char *account,
             const char *identity, bool admin, struct err *err);
bool cred_find(struct auth *a, const char *hash, struct auth_who *ret);
bool cred_exists(struct auth *a, const char *id);
/* Those of an account, of an identity, or with that id; NULL: any. */
void cred_remove(struct auth *a, const char *account, const char *identity, const char *id);
int64_t cred_used(struct auth *a, const char *id);
/* Those used since they were last saved, at most max; marks them as saved. */
size_t cred_take_uses(struct auth *a, struct audit_use *u, size_t max);
void cred_free_all(struct auth *a);

unsigned cred_bucket(const char *hash, unsigned n);

/* auth_session.c */
/* As the store has them; at start, or with a->change held. */
int sessions_load(struct auth *a, struct err *err);
/* Those of the credential, which is about to be freed; NULL: all. */
void sessions_forget(struct auth *a, const struct cred *c) REQUIRES(&a->creds_lock);
/* Those in which the operator acts as that account. */
void sessions_forget_acting(struct auth *a, const char *account) REQUIRES(&a->creds_lock);
/* Does the session exist, and act as the account that it did? */
bool session_holds(struct auth *a, const struct auth_who *who);
/* Ends those that have expired, and writes down uses; now and then, on the audit log's thread. */
void sessions_tend(struct auth *a);

/* auth_limit.c */
int failures_start(struct auth *a, struct err *err);

/* auth_audit.c */
/* To the queue of the thread that writes. */
void audit_add(struct auth *a, const struct audit_record *r) REQUIRES(&a->audit_lock);
/* auth_same.c: true when it is only counted; those whose minute is over, or all, are recorded. */
bool audit_same_counted(struct auth *a, const struct audit_record *r) REQUIRES(&a->audit_lock);
void audit_same_flush(struct auth *a, bool all) REQUIRES(&a->audit_lock);
int audit_start(struct auth *a, const char *data_dir, struct err *err);
void audit_end(struct auth *a);
