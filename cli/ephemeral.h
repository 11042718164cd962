/* SPDX-License-Identifier: Apache-2.0 */
/* cli/ephemeral.h - a VM for the time of one command; for cli/ */
#pragma once

#include "cli/cli.h"

struct ephemeral;

/*
 * Makes a VM (from a snapshot, or NULL). From here on signals are only seen by those who look
 * for them, so that the VM is deleted whatever happens; should we be killed, it is deleted by the
 * server a few minutes later. CLI_OK, or another status after a sentence.
 */
int ephemeral_new(struct cli *c, const char *snapshot, struct ephemeral **ret);
const char *ephemeral_id(const struct ephemeral *e);
/* Deletes the VM. NULL is fine. */
void ephemeral_free(struct ephemeral *e);
