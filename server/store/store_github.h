/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/store_github.h - GitHub Apps, their installations, links and webhooks; for git/
 *
 * An App belongs to the account that brought it; one of the operator's may be shared. An
 * installation belongs to one App, and there to exactly one account.
 */
#pragma once

#include "store/store_credential.h"

#define GITHUB_NAME_SIZE 104   /* of an App, a user or an organization */
#define GITHUB_SECRET_SIZE 256 /* of a webhook, of a client */
#define GITHUB_REPO_SIZE 208   /* "owner/name" */
#define GITHUB_NOTE_SIZE 256
#define GITHUB_DETAIL_SIZE 2048 /* JSON */
#define GITHUB_LINKS_MAX 200    /* of an account, that can still be used */

struct store_github_app {
	char id[ID_SIZE]; /* "gha-..." */
	char account[ACCOUNT_SIZE];
	bool shared;                      /* all accounts may have installations of it */
	char server[CREDENTIAL_URL_SIZE]; /* "https://host:port", nothing behind it */
	char api_url[CREDENTIAL_URL_SIZE];
	char app_id[CREDENTIAL_APP_SIZE];
	char name[GITHUB_NAME_SIZE];
	char page[CREDENTIAL_URL_SIZE]; /* where browsers find it */
	char client_id[CREDENTIAL_APP_SIZE];
	char private_key[CREDENTIAL_SECRET_SIZE];
	char client_secret[GITHUB_SECRET_SIZE];  /* or "" */
	char webhook_secret[GITHUB_SECRET_SIZE]; /* or "": no webhook is accepted */
	int64_t created_ms, heard_ms;            /* heard_ms: the last webhook; 0: none yet */
};
int store_github_app_add(struct store *s, const struct store_github_app *a, struct err *err);
int store_github_app_get(struct store *s, const char *id, struct store_github_app *ret,
                         struct err *err);
/* Its own and the shared ones. The caller wipes and frees. */
int store_github_app_list(struct store *s, const char *account, struct store_github_app **ret,
                          size_t *ret_n, struct err *err);
/* With its installations. -ENOENT: the account has no such App. */
int store_github_app_delete(struct store *s, const char *account, const char *id, struct err *err);

struct store_installation {
	char id[ID_SIZE];                          /* "ghi-..." */
	char app[ID_SIZE];                         /* "gha-..." */
	char number[CREDENTIAL_INSTALLATION_SIZE]; /* GitHub's */
	char account[ACCOUNT_SIZE];
	char login[GITHUB_NAME_SIZE]; /* whose repositories they are */
	char kind[32];                /* "User", "Organization" */
	char selection[16];           /* "all", "selected" */
	bool suspended;
	char note[GITHUB_NOTE_SIZE];            /* why it could not be looked at, or "" */
	int64_t created_ms, checked_ms, due_ms; /* due_ms: when it is looked at next */
	uint32_t tries;                         /* that failed since */
};
/* -EEXIST: another account has it; if it is the account's own, *i becomes that row. */
int store_installation_add(struct store *s, struct store_installation *i, struct err *err);
int store_installation_get(struct store *s, const char *id, struct store_installation *ret,
                           struct err *err);
/* By App and number. */
int store_installation_find(struct store *s, const char *app, const char *number,
                            struct store_installation *ret, struct err *err);
/* The account's on that server that reaches the repository; number NULL: any. -ENOENT */
int store_installation_for(struct store *s, const char *account, const char *server,
                           const char *name, const char *number, struct store_installation *ret,
                           struct err *err);
int store_installation_list(struct store *s, const char *account, struct store_installation **ret,
                            size_t *ret_n, struct err *err);
int store_installation_delete(struct store *s, const char *id, struct err *err);
/* Number of rows: 0 or 1. */
int store_installation_due(struct store *s, const char *id, int64_t at_ms, struct err *err);
/* Takes one that is due, for hold_ms. -ENOENT: none. */
int store_installation_claim(struct store *s, int64_t now_ms, int64_t hold_ms,
                             struct store_installation *ret, struct err *err);
int store_installation_next(struct store *s, int64_t *ret, struct err *err);
/*
 * What was found; names NULL: the repositories stay as they are. due_ms of the row only counts if
 * nobody made it due since it was claimed for held_ms.
 */
int store_installation_found(struct store *s, const struct store_installation *i, int64_t held_ms,
                             const char *const *names, size_t n, struct err *err);
/* In alphabetical order. The caller frees *ret, which holds all names. */
struct store_github_repo {
	char name[GITHUB_REPO_SIZE];
};
int store_github_repo_list(struct store *s, const char *installation, int64_t limit, int64_t offset,
                           struct store_github_repo **ret, size_t *ret_n, struct err *err);

/* ---- store_github_link.c: links that are used once, webhooks that were heard ---- */

struct store_github_link {
	char hash[65]; /* of the secret in it; store_github_link_add() fills it in */
	char account[ACCOUNT_SIZE];
	char kind[16];                   /* "app", "install" */
	char app[ID_SIZE];               /* of the App; for "app": that it will have */
	char detail[GITHUB_DETAIL_SIZE]; /* JSON */
	char browser[65];                /* hash of the cookie of who opened it, or "" */
	int64_t until_ms;
};
/* Drops expired ones. -EDQUOT: the account has too many. */
int store_github_link_add(struct store *s, const char *secret, const struct store_github_link *l,
                          int64_t now_ms, struct err *err);
/* Whoever opens it, with a secret of his own, is the one who may use it. -ENOENT: there is none, or
 * not any more. */
int store_github_link_open(struct store *s, const char *secret, const char *browser, int64_t now_ms,
                           struct store_github_link *ret, struct err *err);
/* Uses it up. -ENOENT: as above, or another browser opened it. */
int store_github_link_take(struct store *s, const char *secret, const char *browser, int64_t now_ms,
                           struct store_github_link *ret, struct err *err);

#define GITHUB_DELIVERIES_KEPT 10000 /* of an App */
#define GITHUB_DELIVERIES_MS (INT64_C(30) * 86400 * 1000)
/* Was this webhook of the App handled? 1 or 0. */
int store_github_heard(struct store *s, const char *app, const char *delivery, struct err *err);
/* It was; forgets old ones now and then. */
int store_github_hear(struct store *s, const char *app, const char *delivery, int64_t now_ms,
                      struct err *err);
