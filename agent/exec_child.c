/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_child.c - in the child: a command's user, directory and environment
 *
 * Part of the agent, whose forked child then executes the shell, and of the library in a
 * preloaded shell (ready_main.c), which already is that shell.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/err.h"

#define BASE_ENV (6 + TRUST_ENV_N)

_Static_assert(sizeof(((struct exec_image *)0)->env) / sizeof(char *) ==
                       BASE_ENV + AGENT_ENV_MAX + 1,
               "room for both, and the end");

/* A later value of the same name replaces the earlier one. */
static void env_set(struct exec_image *e, const char *kv)
{
	size_t key = (size_t)(strchr(kv, '=') - kv) + 1;

	for (size_t i = 0; i < e->n_env; i++) {
		if (!strncmp(e->env[i], kv, key)) {
			e->env[i] = (char *)(uintptr_t)kv;
			return;
		}
	}
	e->env[e->n_env++] = (char *)(uintptr_t)kv;
}

void exec_account(const struct job_fds *fds, const char *name, struct exec_account *ret)
{
	child_become(fds, name, &ret->user);
	node_find(ret->node);
}

void exec_prepare(const struct job_fds *fds, const struct agent_exec_req *r,
                  const struct exec_account *who, struct exec_image *ret)
{
	static char home[AGENT_PATH_MAX + 8], shell[AGENT_PATH_MAX + 8];
	static char path[NODE_DIR_MAX + 128];
	static char user[AGENT_USER_MAX + 8], logname[AGENT_USER_MAX + 10];
	const char *cwd = *r->cwd ? r->cwd : "/";

	if (chdir(cwd) < 0)
		child_fail(fds, errno, AGENT_TAG_CWD_FAILED, "enter directory '%.128s': %s", cwd,
		           err_name(errno));
	snprintf(home, sizeof(home), "HOME=%s", who->user.home);
	snprintf(shell, sizeof(shell), "SHELL=%s", who->user.shell);
	snprintf(user, sizeof(user), "USER=%s", who->user.name);
	snprintf(logname, sizeof(logname), "LOGNAME=%s", who->user.name);
	snprintf(path, sizeof(path), "PATH=%s%s%s", who->node, *who->node ? ":" : "", BASE_PATH);
	const char *base[BASE_ENV] = {
		path, "LANG=C.UTF-8", home, user, logname, shell, TRUST_ENV
	};
	for (size_t i = 0; i < BASE_ENV; i++)
		env_set(ret, base[i]);
	for (size_t i = 0; i < r->n_env; i++)
		env_set(ret, r->env[i]);
	ret->argv[0] = (char *)(uintptr_t)EXEC_SHELL;
	ret->argv[1] = (char *)(uintptr_t) "-c";
	ret->argv[2] = (char *)(uintptr_t)r->command;
}
