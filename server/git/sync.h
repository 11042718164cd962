/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/sync.h - a repository that mirrors one on another server, both ways; for main.c and api/
 *
 * Nothing is ever forced. A sync fetches what is there, compares each branch and tag with what both
 * sides had when they last agreed, and moves the side that fell behind; what has diverged is left
 * alone and shown as a conflict until one side contains the other again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/store_sync.h"

struct credentials;
struct ghapps;
struct repos;
struct syncs;

struct syncs_conf {
	char base_url[256]; /* of "owner/name" */
	uint32_t poll_s;
	uint32_t hook_burst; /* signed webhooks of a GitHub App at once; 0: the default */
};
int syncs_open(const struct syncs_conf *c, struct repos *g, struct store *s, struct syncs **ret,
               struct err *err);
/* Breaks off what runs; syncs_close() waits for it. The next start continues. */
void syncs_end(struct syncs *y);
struct syncs *syncs_close(struct syncs *y);
/* What they log in with: git/credential.h. */
struct credentials *syncs_credentials(struct syncs *y);
/* GitHub Apps: git/ghapps.h. */
struct ghapps *syncs_ghapps(struct syncs *y);

struct sync_new {
	const char *remote; /* "owner/name", or NULL */
	const char *url;    /* instead of it, or NULL */
	const char *token;  /* or NULL */
	/* Of a GitHub App of the account; NULL: that which reaches it, if there is one. */
	const char *installation;
};
int sync_enable(struct syncs *y, const struct store_repo *r, const struct sync_new *n,
                struct err *err);
int sync_disable(struct syncs *y, const struct store_repo *r, struct err *err);
/* Soon; -ENOENT when it mirrors nothing. */
int sync_wake(struct syncs *y, const char *repo, const char *hook, struct err *err);
