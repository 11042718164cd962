/* SPDX-License-Identifier: Apache-2.0 */
/* cli/vm_set.h - options that vm create and vm set share */
#pragma once

#include "cli/cli.h"

/* Repeated NAME=VALUE as an object. CLI_OK, or a message was printed. */
int vm_pairs(const struct cli_args *a, int opt, const char *option, const char *member,
             json_t *body);
void vm_tags(const struct cli_args *a, int opt, json_t *body);
/* "never" (null) or a time in seconds; s NULL: nothing. */
int vm_never_or_time(const char *option, const char *s, const char *member, json_t *body);
