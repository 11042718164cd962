/* SPDX-License-Identifier: Apache-2.0 */
/* cli/ephemeral.h - a temporary VM for one command; for cli/ */
#pragma once

#include "cli/cli.h"

struct ephemeral;

/*
 * Creates a VM (from a snapshot, or NULL). From here on signals are blocked and only read from a
 * descriptor, so that the VM is always deleted; if we are killed, the server deletes it a few
 * minutes later. CLI_OK, or another status after an error message.
 */
int ephemeral_new(struct cli *c, const char *snapshot, struct ephemeral **ret);
const char *ephemeral_id(const struct ephemeral *e);
/* Deletes the VM. NULL is fine. */
void ephemeral_free(struct ephemeral *e);
