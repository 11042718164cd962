/* SPDX-License-Identifier: Apache-2.0 */
/* exec.c - run a shell command as a user, in a session of its own */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"

#define BASE_ENV 6

struct env {
	char *v[BASE_ENV + AGENT_ENV_MAX + 1];
	size_t n;
};

/* A later value of the same name replaces the earlier one. */
static void env_set(struct env *e, const char *kv)
{
	size_t key = (size_t)(strchr(kv, '=') - kv) + 1;

	for (size_t i = 0; i < e->n; i++) {
		if (!strncmp(e->v[i], kv, key)) {
			e->v[i] = (char *)(uintptr_t)kv;
			return;
		}
	}
	e->v[e->n++] = (char *)(uintptr_t)kv;
}

static void exec_child(const struct job_fds *fds, const struct agent_exec_req *r)
{
	static char home[AGENT_PATH_MAX + 8], shell[AGENT_PATH_MAX + 8];
	static char path[NODE_DIR_MAX + 128], node[NODE_DIR_MAX];
	static char user[AGENT_USER_MAX + 8], logname[AGENT_USER_MAX + 10];
	static struct user u;
	static struct env env;
	const char *cwd = *r->cwd ? r->cwd : "/";
	char *argv[] = { (char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
		         (char *)(uintptr_t)r->command, NULL };

	child_become(fds, r->user, &u);
	if (chdir(cwd) < 0)
		child_fail(fds, errno, AGENT_TAG_CWD_FAILED, "enter directory '%.128s': %s", cwd,
		           err_name(errno));
	snprintf(home, sizeof(home), "HOME=%s", u.home);
	snprintf(shell, sizeof(shell), "SHELL=%s", u.shell);
	snprintf(user, sizeof(user), "USER=%s", u.name);
	snprintf(logname, sizeof(logname), "LOGNAME=%s", u.name);
	node_find(node);
	snprintf(path, sizeof(path), "PATH=%s%s%s", node, *node ? ":" : "", BASE_PATH);
	const char *base[BASE_ENV] = { path, "LANG=C.UTF-8", home, user, logname, shell };
	for (size_t i = 0; i < BASE_ENV; i++)
		env_set(&env, base[i]);
	for (size_t i = 0; i < r->n_env; i++)
		env_set(&env, r->env[i]);
	execve(argv[0], argv, env.v);
	child_fail(fds, errno, AGENT_TAG_SPAWN_FAILED, "run /bin/sh: %s", err_name(errno));
}

/* The process gets its number; a detached one also keeps its stdin. */
static int make_proc(struct agent *a, struct stream *s, const struct agent_exec_req *r)
{
	int e = 0;

	if (s->op == AGENT_OP_EXEC)
		return 0;
	s->proc = proc_new(a, r, s->op == AGENT_OP_PROC_RUN, &e);
	if (s->proc)
		s->proc->s = s;
	return e;
}

static void adopt_proc(struct stream *s)
{
	s->proc->pid = s->pid;
	if (s->proc->attached)
		return;
	s->proc->in_fd = TAKE_FD(s->in.fd); /* -1 without stdin */
}

void exec_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c)
{
	struct agent_exec_req r;
	struct job_fds fds;
	struct stream *s;
	int k;

	if (agent_exec_req_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed exec request");
		return;
	}
	s = stream_new(a, id, op);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return;
	}
	k = make_proc(a, s, &r);
	if (k) {
		stream_result(a, s, (uint32_t)k, AGENT_TAG_GUEST_BUSY,
		              k == EAGAIN ? "too many detached processes run"
		                          : "cannot keep the output of a process",
		              NULL, 0);
		return;
	}
	k = job_fork(a, s, (r.with_stdin ? JOB_IN : 0) | JOB_OUT | JOB_ERR, &fds);
	if (k == 1)
		exec_child(&fds, &r);
	if (k < 0) {
		stream_result(a, s, (uint32_t)-k, AGENT_TAG_SPAWN_FAILED, "cannot start a process",
		              NULL, 0);
		if (s->proc)
			proc_free(a, s->proc);
		return;
	}
	if (s->proc)
		adopt_proc(s);
	if (r.timeout_ms)
		s->timeout_at = clock_ms() + r.timeout_ms;
}
