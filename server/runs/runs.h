/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runs/runs.h - commands of triggers in VMs; for main.c
 *
 * Connects triggers, which do not know about VMs, with VMs, which do not know about repositories.
 */
#pragma once

#include "git/trigger.h"

struct repos;
struct store;
struct vmm;

#define RUN_DIR "/root/repo" /* the clone, and the command's working directory */

struct runs { /* all weak */
	struct vmm *vmm;
	struct repos *repos;
	struct store *store;
	uint32_t timeout_s; /* of one command */
};
/* For triggers_open(); r outlives the triggers. */
struct trigger_vm runs_of(struct runs *r);
