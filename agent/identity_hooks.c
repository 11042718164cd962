/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity_hooks.c - runs the hooks for a new identity, and those of users for a fork
 *
 * Every executable file of the directory is started at once, with the reason and
 * the generation in its environment; all must end with status 0 within HOOKS_MS.
 * Late ones are killed. The agent waits for them: until they are done there are no requests to
 * serve. Without the directory or hooks this costs nothing. Hooks of users (/etc/pando/fork.d) are
 * started likewise, in a fork only, and not waited for.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"

#define HOOKS_MAX 64

struct hook {
	char name[NAME_MAX + 1];
	pid_t pid;
};

/* What every hook knows. */
struct hook_env {
	char text[7][64];
	char *envp[9];
};

static void env_fill(struct hook_env *e, const char *reason, uint64_t generation,
                     const struct agent_who *who)
{
	unsigned n = 0;

	e->envp[n++] = (char *)(uintptr_t) "PATH=" BASE_PATH;
	snprintf(e->text[0], sizeof(e->text[0]), "PANDO_REASON=%s", reason);
	snprintf(e->text[1], sizeof(e->text[1]), "PANDO_GENERATION=%llu",
	         (unsigned long long)generation);
	for (; n <= 2; n++)
		e->envp[n] = e->text[n - 1];
	if (who) {
		snprintf(e->text[2], sizeof(e->text[2]), "PANDO_VM_ID=%s", who->vm);
		snprintf(e->text[3], sizeof(e->text[3]), "PANDO_PARENT_ID=%s", who->parent);
		snprintf(e->text[4], sizeof(e->text[4]), "PANDO_FORK_INDEX=%u", who->index);
		snprintf(e->text[5], sizeof(e->text[5]), "PANDO_FORK_COUNT=%u", who->count);
		snprintf(e->text[6], sizeof(e->text[6]), "PANDO_EVENT=%s",
		         agent_event_word(who->event));
		for (; n <= ARRAY_SIZE(e->text); n++)
			e->envp[n] = e->text[n - 1];
	}
	e->envp[n] = NULL;
}

static void hook_exec(const char *path, struct hook_env *env)
{
	char *argv[] = { (char *)(uintptr_t)path, NULL };
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	setsid();
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null >= 0)
		dup2(null, 0);
	dup2(2, 1); /* the journal */
	close_range(3, ~0u, 0);
	execve(path, argv, env->envp);
	_exit(127);
}

static int hook_wait(const struct hook *h, uint64_t deadline)
{
	autofd int fd = pidfd_open(h->pid, 0);
	bool late = fd < 0 || io_wait(fd, POLLIN, deadline) != 1;
	int st;

	if (late)
		session_kill(h->pid);
	while (waitpid(h->pid, &st, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (late) {
		log_error("identity hook %s: not done after %d ms", h->name, HOOKS_MS);
		return -ETIMEDOUT;
	}
	if (!WIFEXITED(st) || WEXITSTATUS(st)) {
		log_error("identity hook %s: wait status 0x%x", h->name, (unsigned)st);
		return -EIO;
	}
	return 0;
}

static bool is_hook(DIR *d, const char *name)
{
	struct stat st;

	return name[0] != '.' && fstatat(dirfd(d), name, &st, 0) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_mode & 0111);
}

int hooks_run(const char *dir, uint8_t reason, uint64_t generation, const struct agent_who *who)
{
	autodir DIR *d = opendir(dir);
	autofree struct hook *hooks = NULL;
	uint64_t deadline = deadline_in(HOOKS_MS);
	struct hook_env env;
	struct dirent *de;
	size_t n = 0;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	env_fill(&env, reason == AGENT_BOOT ? "boot" : "thaw", generation, who);
	while ((de = readdir(d)) && r == 0) {
		char path[PATH_MAX];
		pid_t pid;

		if (!is_hook(d, de->d_name))
			continue;
		if (n == HOOKS_MAX) {
			r = -E2BIG;
			break;
		}
		if (!hooks && !(hooks = calloc(HOOKS_MAX, sizeof(*hooks)))) {
			r = -ENOMEM;
			break;
		}
		snprintf(path, sizeof(path), "%s/%s", dir, de->d_name);
		pid = fork();
		if (pid == 0)
			hook_exec(path, &env);
		if (pid < 0) {
			r = -errno;
			break;
		}
		snprintf(hooks[n].name, sizeof(hooks[n].name), "%s", de->d_name);
		hooks[n++].pid = pid;
	}
	for (size_t i = 0; i < n; i++) {
		int k = hook_wait(&hooks[i], deadline);

		r = r < 0 ? r : k;
	}
	return r;
}

/* In between is a process that ends at once, so that they are init's children and not ours. */
static void launch_all(DIR *d, const char *dir, struct hook_env *env)
{
	struct dirent *de;
	size_t n = 0;

	while ((de = readdir(d)) && n < HOOKS_MAX) {
		char path[PATH_MAX];

		if (!is_hook(d, de->d_name))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, de->d_name);
		n++;
		if (fork() == 0)
			hook_exec(path, env);
	}
}

void hooks_launch(struct agent *a, const char *dir, const struct agent_who *who)
{
	char path[PATH_MAX];
	autodir DIR *d = NULL;
	struct hook_env env;
	pid_t pid;

	snprintf(path, sizeof(path), "%s%s", a->test_root ? a->test_root : "", dir);
	d = opendir(path);
	if (!d)
		return;
	env_fill(&env, "fork", a->generation, who);
	pid = fork();
	if (pid == 0) {
		child_reset(a);
		launch_all(d, path, &env);
		_exit(0);
	}
	if (pid < 0)
		log_error("hooks of %s: %m", path);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}
