/* SPDX-License-Identifier: Apache-2.0 */
/* cli/git.h - parts of pando git; for cli/git*.c only */
#pragma once

#include "cli/cli.h"

/* The id of the repository with this id or name; NULL after an error message. Caller frees. */
char *git_repo_id(struct cli *c, const char *name);
/* A call on a repository; tail is appended to its path. */
int git_on_repo(struct cli *c, const char *name, const char *method, const char *tail,
                json_t *body_consume, json_t **ret);
/* pando git credential ACTION [SERVER] */
enum { CRED_TOKEN, CRED_APP, CRED_INSTALLATION, CRED_KEY, CRED_API };
int git_credential(struct cli *c, const struct cli_args *a);
/* pando git app ACTION [ID] [NUMBER] */
enum {
	APP_NAME,
	APP_ORGANIZATION,
	APP_SHARED,
	APP_PRIVATE,
	APP_BASE,
	APP_ID,
	APP_KEY,
	APP_HOOK,
	APP_CLIENT,
	APP_CLIENT_SECRET,
	APP_SERVER,
	APP_API,
	APP_UNINSTALL
};
int git_app(struct cli *c, const struct cli_args *a);
