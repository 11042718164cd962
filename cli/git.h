/* SPDX-License-Identifier: Apache-2.0 */
/* cli/git.h - parts of pando git; for cli/git*.c only */
#pragma once

#include "cli/cli.h"

/* A file's text; "-" is stdin. NULL after an error message; caller frees. */
char *git_read_secret(const char *file);
/* pando git credential ACTION [SERVER] */
enum { CRED_TOKEN, CRED_APP, CRED_INSTALLATION, CRED_KEY, CRED_API };
int git_credential(struct cli *c, const struct cli_args *a);
