/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth/auth.h - authentication and permissions; for main.c and api/
 *
 * Two kinds of credentials, each a prefix and 40 random letters and digits (238 bits): an
 * API key ("pando_...") acts for its account; an access token ("pandoid_...") acts for an
 * identity of an account and works on exactly the VMs (and Linux users in them) that
 * the identity was granted. Only SHA-256 hashes are stored: a credential is found by its hash,
 * so nothing secret is ever compared byte by byte, and a copy of the database gives
 * no access.
 *
 * A browser exchanges either for a session (auth_session.c), whose secret is in a cookie; a session
 * has the permissions of its key or token and ends with it.
 *
 * All live credentials are in memory (auth_cred.c), so a check costs a hash and a lookup and
 * never waits for a disk. Every change goes through this module: store first, then memory, before
 * the caller gets its answer. A revocation is in force from then on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h" /* ACCOUNT_SIZE */
#include "store/store_account.h"
#include "store/store_audit.h"
#include "store/store_session.h"

struct auth;
struct err;
struct store;

#define AUTH_KEY_PREFIX "pando_"
#define AUTH_TOKEN_PREFIX "pandoid_"
#define AUTH_SESSION_PREFIX "pandows_"
#define AUTH_LOGIN_PREFIX "pandolr_"
#define AUTH_KEY_RANDOM 40
#define AUTH_KEY_SIZE (6 + AUTH_KEY_RANDOM + 1)
#define AUTH_SECRET_SIZE (8 + AUTH_KEY_RANDOM + 1) /* a key, a token or a session */

/*
 * First start: creates the account and its key and writes the key to
 * <data_dir>/api-key, mode 0600. Later starts only check. *ret_new_key (may be
 * NULL) tells the caller that there is a new key to report.
 */
int auth_open(struct store *s, const char *data_dir, struct auth **ret, bool *ret_new_key,
              struct err *err);
struct auth *auth_close(struct auth *a);
/* Another node may have made or revoked keys, tokens and sessions: reads them again. */
int auth_refresh(struct auth *a, struct err *err);

/*
 * The permission a route needs; each route has exactly one. A key may do everything but
 * SCOPE_ADMIN, which requires a key of the operator's account; a token only what is in SCOPE_TOKEN.
 */
enum auth_scope {
	SCOPE_PUBLIC = 1 << 0,  /* no authentication */
	SCOPE_SELF = 1 << 1,    /* any credential; the handler shows only what belongs to it */
	SCOPE_VM_LOOK = 1 << 2, /* view or start a VM: any grant on it is enough */
	SCOPE_VM_EXEC = 1 << 3, /* inside a VM as the Linux user of the header, or root */
	SCOPE_VM_ROOT = 1 << 4, /* inside a VM, as root whatever the header says */
	SCOPE_VM_READ = 1 << 5,
	SCOPE_VM_WRITE = 1 << 6,
	SCOPE_ACCOUNT = 1 << 7, /* the account itself: keys, identities, audit log */
	SCOPE_ADMIN = 1 << 8,   /* other accounts */
	SCOPE_GIT_READ = 1 << 9,
	SCOPE_GIT_WRITE = 1 << 10,
	SCOPE_GIT_HTTP = 1 << 11, /* Git's own protocol: authenticated in Git's way */
	SCOPE_FROM_VM = 1 << 12,  /* a VM about itself, through its agent: no key and no token */
	SCOPE_TOKEN = SCOPE_SELF | SCOPE_VM_LOOK | SCOPE_VM_EXEC | SCOPE_VM_ROOT | SCOPE_GIT_READ |
	              SCOPE_GIT_WRITE | SCOPE_GIT_HTTP,
	SCOPE_KEY = SCOPE_TOKEN | SCOPE_VM_READ | SCOPE_VM_WRITE | SCOPE_ACCOUNT,
	SCOPE_ALL = SCOPE_PUBLIC | SCOPE_KEY | SCOPE_ADMIN,
};

struct auth_who {
	char account[ACCOUNT_SIZE];
	char key[ID_SIZE];      /* id of the API key or the token */
	char identity[ID_SIZE]; /* "" for an API key */
	char vm[ID_SIZE];       /* a VM that asks about itself, or ""; key is then "vm:<id>" */
	char session[ID_SIZE];  /* of the web session, or "" */
	char operator_account[ACCOUNT_SIZE]; /* the operator's, who acts as `account`; else "" */
	unsigned scopes;                     /* of enum auth_scope */
};

/*
 * Identifies the caller from a request's headers; NULL for a header that was not sent.
 * -EACCES with tag UNAUTHORIZED_ERROR (key missing, malformed or unknown) or UNAUTHORIZED
 * (identity token malformed or unknown).
 */
int auth_check(struct auth *a, const char *authorization, const char *identity_token,
               struct auth_who *ret, struct err *err);
/*
 * May the caller use this route? target: the VM or repository it is about, or NULL; user: the
 * requested Linux user, or NULL. -EACCES with VM_ACCESS_DENIED, the same for a VM that is not
 * granted and for one that does not exist, or FORBIDDEN; for a repository -ENOENT
 * REPOSITORY_NOT_FOUND, or -EACCES REPOSITORY_ACCESS_DENIED when it may be read but not written.
 * For a key the target is not checked here: the handler looks it up in the key's account.
 */
int auth_permit(struct auth *a, const struct auth_who *who, enum auth_scope scope,
                const char *target, const char *user, struct err *err);
/*
 * For a stream or a terminal, which outlives the check: taken after auth_permit() succeeded, then
 * checked now and then. While nothing was revoked, a check costs one atomic read.
 */
struct auth_lease {
	struct auth_who who;
	enum auth_scope scope;
	char target[GRANT_TARGET_SIZE], user[40];
	uint64_t epoch; /* of the last successful check */
};
void auth_lease_take(struct auth *a, const struct auth_who *who, enum auth_scope scope,
                     const char *target, const char *user, struct auth_lease *ret);
/* False once the key, token, identity or grant it depends on was revoked. */
bool auth_lease_holds(struct auth *a, struct auth_lease *l);

/* Something else that leases depend on has changed: check them again. */
void auth_changed(struct auth *a);

/* Replaces everything in the text that looks like a credential by '*'. */
void auth_mask(char *text);

/* ---- failed attempts: auth_limit.c ---- */
struct sockaddr;
/* Counts a failure from this address; false if it had too many recently: do not log it. */
bool auth_failure(struct auth *a, const struct sockaddr *from);

/* ---- accounts and keys: auth_key.c ---- */
#define AUTH_KEYS_MAX 100 /* live keys of one account */

/* *n has its name and quotas (STORE_ACCOUNT_NEW); the rest is set here. */
int auth_account_create(struct auth *a, struct store_account *n, struct err *err);
/* After the account was deleted: its credentials are worth nothing from now on. */
void auth_account_forget(struct auth *a, const char *account);

struct auth_key {
	char id[ID_SIZE];
	char name[VM_NAME_MAX];
	int64_t created_ms, last_used_ms; /* 0: never */
};
/* The secret is shown here and never again. */
int auth_key_create(struct auth *a, const char *account, const char *name, struct auth_key *ret,
                    char ret_secret[AUTH_SECRET_SIZE], struct err *err);
int auth_key_list(struct auth *a, const char *account, struct auth_key **ret, size_t *ret_n,
                  struct err *err);
/* -EBUSY for the last key of the operator's account. */
int auth_key_revoke(struct auth *a, const char *account, const char *id, struct err *err);

/* ---- identities, tokens, grants: auth_identity.c; of another account: IDENTITY_NOT_FOUND ---- */
#define AUTH_IDENTITIES_MAX 10000 /* of one account */
#define AUTH_TOKENS_MAX 100       /* of one identity */

int auth_identity_create(struct auth *a, const char *account, struct store_identity *ret,
                         struct err *err);
int auth_identity_get(struct auth *a, const char *account, const char *id,
                      struct store_identity *ret, struct err *err);
int auth_identity_list(struct auth *a, const char *account, struct store_identity **ret,
                       size_t *ret_n, struct err *err);
int auth_identity_delete(struct auth *a, const char *account, const char *id, struct err *err);
int auth_token_create(struct auth *a, const char *account, const char *identity,
                      char ret_id[ID_SIZE], char ret_secret[AUTH_SECRET_SIZE], struct err *err);
int auth_token_list(struct auth *a, const char *account, const char *identity,
                    struct store_token **ret, size_t *ret_n, struct err *err);
int auth_token_revoke(struct auth *a, const char *account, const char *identity, const char *id,
                      struct err *err);
/* Fills in id, granted_ms and granted_by. */
int auth_grant(struct auth *a, const char *account, struct store_grant *g, struct err *err);
int auth_grant_get(struct auth *a, const char *account, const char *identity, enum grant_kind kind,
                   const char *target, struct store_grant *ret, struct err *err);
/* Changes users and level; *g is then the whole grant. */
int auth_grant_update(struct auth *a, const char *account, struct store_grant *g, struct err *err);
int auth_grant_revoke(struct auth *a, const char *account, const char *identity,
                      enum grant_kind kind, const char *target, struct err *err);
int auth_grant_list(struct auth *a, const char *account, const char *identity, enum grant_kind kind,
                    struct store_grant **ret, size_t *ret_n, struct err *err);

/* ---- web sessions: auth_session.c ---- */
#define AUTH_SESSION_IDLE_MS (INT64_C(12) * 3600 * 1000)
#define AUTH_SESSION_MAX_MS (INT64_C(7) * 24 * 3600 * 1000)
#define AUTH_SESSIONS_PER_KEY 32 /* more: the one of the same key used least recently ends */
#define AUTH_SESSIONS_PER_ACCOUNT 256
#define AUTH_SESSIONS_MAX 16384 /* of all accounts */
#define AUTH_CSRF_SIZE HASH_HEX_SIZE

struct auth_session {
	char id[ID_SIZE];
	char account[ACCOUNT_SIZE], identity[ID_SIZE]; /* of its key or token */
	char acting[ACCOUNT_SIZE]; /* the account that the operator acts as, or "" */
	char remote[SESSION_REMOTE_SIZE], client[SESSION_CLIENT_SIZE];
	int64_t created_ms, used_ms, expires_ms; /* expires_ms: unless it is used before */
};
/*
 * Opens one for who, whom auth_check() has identified. The secret is for the cookie and is never
 * stored. -EDQUOT with LIMIT_EXCEEDED when the account has too many.
 */
int auth_session_open(struct auth *a, const struct auth_who *who, const char *remote,
                      const char *client, char ret_secret[AUTH_SECRET_SIZE], struct auth_who *ret,
                      struct err *err);
/* Whose session is it? It counts as used. -EACCES with UNAUTHORIZED. */
int auth_session_check(struct auth *a, const char *secret, struct auth_who *ret, struct err *err);
/* The token that requests which change something must repeat: made from the secret. */
int auth_session_csrf(const char *secret, char ret[AUTH_CSRF_SIZE], struct err *err);
/* -ENOENT: it is over. */
int auth_session_get(struct auth *a, const char *id, struct auth_session *ret, struct err *err);
/* Those of the account's keys, or with an identity of its tokens; oldest first. Caller frees. */
int auth_session_list(struct auth *a, const char *account, const char *identity,
                      struct auth_session **ret, size_t *ret_n, struct err *err);
int auth_session_end(struct auth *a, const char *id, struct err *err);
/* All that auth_session_list() shows. */
int auth_session_end_all(struct auth *a, const char *account, const char *identity, size_t *ret_n,
                         struct err *err);
/* The operator acts as that account, or NULL: as its own again. Streams and terminals end. */
int auth_session_act(struct auth *a, const char *id, const char *account, struct err *err);

/* ---- programs that ask for a key: auth_login.c ---- */
#define AUTH_LOGIN_MS 600000 /* until a person must have decided, and the program asked */
#define AUTH_LOGINS_MAX 1024
#define AUTH_LOGINS_EACH 32 /* of one address */
#define AUTH_CODE_SIZE 10   /* "ABCD-EFGH" and the NUL */
#define AUTH_CLIENT_SIZE 64 /* its name, which becomes the key's */

enum login_state { LOGIN_PENDING, LOGIN_CONFIRMED, LOGIN_DENIED };
struct auth_login {
	char id[ID_SIZE];
	char code[AUTH_CODE_SIZE];
	char client[AUTH_CLIENT_SIZE], remote[SESSION_REMOTE_SIZE];
	int64_t created_ms, expires_ms;
	enum login_state state;
};
/* net: by which it is counted. -EAGAIN with LIMIT_EXCEEDED or UNAVAILABLE. */
int auth_login_begin(struct auth *a, const char *client, const char *remote, const char *net,
                     struct auth_login *ret, char ret_secret[AUTH_SECRET_SIZE], struct err *err);
/* -ENOENT with LOGIN_REQUEST_NOT_FOUND, both. */
int auth_login_find(struct auth *a, const char *code, struct auth_login *ret, struct err *err);
/* For the account of by. -EBUSY: somebody already has. */
int auth_login_decide(struct auth *a, const char *code, const struct auth_who *by, bool confirmed,
                      struct auth_login *ret, struct err *err);
/*
 * 1: it was confirmed, here is its new key, and the request is used up. 0: not yet. -EACCES
 * LOGIN_REQUEST_DENIED; -ESTALE LOGIN_REQUEST_EXPIRED, also for a wrong secret.
 */
int auth_login_poll(struct auth *a, const char *id, const char *secret, struct auth_key *ret,
                    char ret_account[ACCOUNT_SIZE], char ret_secret[AUTH_SECRET_SIZE],
                    struct err *err);

/* ---- the audit log: auth_audit.c ---- */
/*
 * Adds a record without waiting for the disk; a thread writes them in batches. Failures that repeat
 * become one record within a minute (auth_same.c). A record may be
 * lost when the process is killed within a tenth of a second, or when the disk is full for long.
 */
void auth_audit(struct auth *a, const struct audit_record *r);
/* Waits until everything added before is written. */
int auth_audit_list(struct auth *a, const struct audit_filter *f, struct audit_record **ret,
                    size_t *ret_n, struct err *err);
/* Deletes records older than that; 0: they are kept for ever. */
void auth_audit_keep(struct auth *a, unsigned days);
