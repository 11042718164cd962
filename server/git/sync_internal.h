/* SPDX-License-Identifier: Apache-2.0 */
/* git/sync_internal.h - one sync; for git/ only */
#pragma once

#include <jansson.h>

#include "git/git_internal.h"
#include "git/sync.h"

#define SYNC_BY "sync" /* who moved a reference; such pushes are not synced back */
#define SYNC_REFS "refs/pando-sync/"
#define SYNC_THERE SYNC_REFS "there/" /* what the other side has */
#define FORGET_BATCH 1000u
#define SYNC_BASE SYNC_REFS "base/" /* what both had when they last agreed */

/*
 * One round; token: password there, or "". *conflicts gets what could not be decided. -ECANCELED
 * once stop_fd is readable: the repository keeps its mark, and the next start looks after it.
 */
int sync_round(struct repos *g, const struct store_repo *r, const struct store_sync *y, int stop_fd,
               const char *token, json_t *conflicts, struct err *err);
/* Forgets what the other side had. */
int sync_forget(struct repos *g, const struct store_repo *r, struct err *err);
