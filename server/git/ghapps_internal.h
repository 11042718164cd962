/* SPDX-License-Identifier: Apache-2.0 */
/* git/ghapps_internal.h - GitHub Apps; for git/ only */
#pragma once

#include <stdatomic.h>

#include "git/app_token.h"
#include "git/ghapps.h"
#include "git/github.h"
#include "hook/hook.h"

struct rate;
struct store_sync;

struct ghapps {
	struct store *store; /* weak */
	char server[256];    /* the default */
	struct github_net net;
	struct app_tokens *tokens; /* owned */
	struct rate *rate;         /* owned; signed webhooks, by App */
	unsigned hooks_per_s;      /* of those */
	struct crew *crew;         /* owned; looks at installations */
	/* A repository there has changed: its mirrors of the account are woken. Number of them. */
	int (*changed)(void *ctx, const char *account, const char *server, const char *name,
	               struct err *err);
	void *ctx;
};

/* ---- ghapps.c ---- */
int ghapps_new(struct store *s, const char *server, const struct github_net *net,
               int (*changed)(void *ctx, const char *account, const char *server, const char *name,
                              struct err *err),
               void *ctx, uint32_t hook_burst, struct ghapps **ret, struct err *err);
/* Nothing new is begun. */
void ghapps_end(struct ghapps *h);
struct ghapps *ghapps_free(struct ghapps *h);
/* For a new mirror: the account's installation that reaches it; number NULL: any. */
int ghapps_choose(struct ghapps *h, const char *account, const char *url, const char *number,
                  char ret[ID_SIZE], struct err *err);
/* The password of a mirror that has an installation. */
int ghapps_token(struct ghapps *h, const struct store_sync *y, char ret[CREDENTIAL_TOKEN_SIZE],
                 struct err *err);
/* It was refused. */
void ghapps_refused(struct ghapps *h, const struct store_sync *y);
struct github_who ghapps_who(const struct store_github_app *a);
int ghapps_app_check_new(struct ghapps *h, const char *account, struct err *err);
/* Asks GitHub for the App itself and fills in its name and page. */
int ghapps_app_ask(struct ghapps *h, struct store_github_app *a, struct err *err);
/* Is it there? Then it is the account's. */
int ghapps_installation_take(struct ghapps *h, const struct store_github_app *a,
                             const char *account, const char *number,
                             struct store_installation *ret, struct err *err);
/* A call of GitHub failed with r: says so in the error. Returns r. */
int ghapps_unreachable(int r, struct err *err);

/* ---- ghapps_look.c ---- */
int ghapps_look_start(struct ghapps *h, struct err *err);
/* What GitHub says of an installation; -ENOENT: it is gone. */
int ghapps_ask(struct ghapps *h, const struct store_github_app *a, struct store_installation *i,
               struct err *err);

/* ---- ghapps_read.c ---- */
/* "sha256=<hex>" of the body. In constant time. */
bool ghapps_signed(const char *secret, const char *header, const void *body, size_t n);
enum ghapps_event_kind { GHAPPS_OTHER, GHAPPS_REFS, GHAPPS_INSTALLATION };
struct ghapps_event {
	enum ghapps_event_kind kind;
	char number[CREDENTIAL_INSTALLATION_SIZE];
	char repo[GITHUB_REPO_SIZE]; /* of GHAPPS_REFS */
};
/* -EINVAL: it does not say what such an event says. */
int ghapps_event_read(const char *event, const json_t *body, struct ghapps_event *ret,
                      struct err *err);
/* "owner/name", as GitHub has them. */
bool ghapps_repo_name_ok(const char *name);
/* That of an address on the server; -ENOENT: it is none. */
int ghapps_repo_of(const char *server, const char *url, char ret[GITHUB_REPO_SIZE]);
bool ghapps_number_ok(const char *s);
