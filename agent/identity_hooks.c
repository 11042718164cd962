/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity_hooks.c - runs the hooks for a new identity
 *
 * Every executable file of the directory is started at once, with the reason and
 * the generation in its environment; all must end with status 0 within HOOKS_MS.
 * Late ones are killed. The agent waits for them: until they are done there are no requests to
 * serve. Without the directory or hooks this costs nothing.
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

static void hook_exec(const char *path, uint8_t reason, uint64_t generation)
{
	char r[64], g[64];
	char *argv[] = { (char *)(uintptr_t)path, NULL };
	char *envp[] = { (char *)(uintptr_t) "PATH=/usr/sbin:/usr/bin:/sbin:/bin", r, g, NULL };
	int null = open("/dev/null", O_RDWR);
	sigset_t none;

	snprintf(r, sizeof(r), "PANDO_REASON=%s", reason == AGENT_BOOT ? "boot" : "thaw");
	snprintf(g, sizeof(g), "PANDO_GENERATION=%llu", (unsigned long long)generation);
	setsid();
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null >= 0)
		dup2(null, 0);
	dup2(2, 1); /* the journal */
	close_range(3, ~0u, 0);
	execve(path, argv, envp);
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

int hooks_run(const char *dir, uint8_t reason, uint64_t generation)
{
	autodir DIR *d = opendir(dir);
	autofree struct hook *hooks = NULL;
	uint64_t deadline = deadline_in(HOOKS_MS);
	struct dirent *de;
	size_t n = 0;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while ((de = readdir(d)) && r == 0) {
		char path[PATH_MAX];
		struct stat st;
		pid_t pid;

		if (de->d_name[0] == '.' || fstatat(dirfd(d), de->d_name, &st, 0) < 0 ||
		    !S_ISREG(st.st_mode) || !(st.st_mode & 0111))
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
			hook_exec(path, reason, generation);
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
