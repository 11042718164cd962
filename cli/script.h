/* SPDX-License-Identifier: Apache-2.0 */
/* cli/script.h - what `pando script` and `pando cron` share */
#pragma once

#include "cli/cli.h"

/* Options of a script's config, in this order at the beginning of a verb's options. */
enum { SCRIPT_ENV, SCRIPT_MODULE, SCRIPT_INFER, SCRIPT_TIMEOUT, SCRIPT_OPTS };
/* clang-format off */
#define SCRIPT_CONFIG_OPTS \
	{ "env", "NAME=VALUE", "a variable of the script", 'e', CLI_LIST }, \
	{ "module", "NAME@VERSION", "a package of npm", 'm', CLI_LIST }, \
	{ "infer", NULL, "also the packages it imports, as latest" }, \
	{ "timeout", "TIME", "60s if absent, at most 280s", 0, CLI_DURATION }
/* clang-format on */
/* Caller json_decref()s. CLI_OK or a status after a message. */
int script_config(const struct cli_args *a, json_t **ret);
/* The file, "-" is stdin; caller frees. */
int script_text(const char *file, char **ret);
