/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs/clone.h - copies repositories of this server into VMs; for build/ and runs.c
 *
 * A guest cannot reach the server, and must not hold a secret that outlives the clone. So none is
 * needed: the server packs the repository, passes it to the guest through the agent and has it
 * unpacked there; the clone's remote is the public address.
 */
#pragma once

#include <stdint.h>

#include "git/git.h"

struct guest;

struct clone {
	char bundle[64]; /* path of the bundle in the guest */
	char branch[REPO_REF_SIZE];
	char url[256];
};
/* Packs it and copies it into the guest. -ENOENT as repo_find(). */
int clone_put(struct repos *g, struct guest *guest, const struct store_repo *r,
              uint64_t deadline_ms, struct clone *ret, struct err *err);
/* For bash: creates DEST from BUNDLE, BRANCH, URL, and checks out REV (or "") and COMMIT (or "").
 */
extern const char clone_script[];
