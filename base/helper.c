/* SPDX-License-Identifier: Apache-2.0 */
#include "base/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/proc.h"
#include "base/starter.h"

#define ENV_MAX 8
#define STACK_BYTES (1u << 20) /* of each thread: they count as memory of the process */

int helper_find(const char *name, char *ret, size_t size, struct err *err)
{
	static const char *const at[] = { "", "../libexec/pando/" };
	char exe[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return err_sys(err, -errno, "%s: find this program", name);
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return err_set(err, -ENOENT, "%s: this program is '%s'", name, exe);
	slash[1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		snprintf(ret, size, "%s%s%s", exe, at[i], name);
		if (access(ret, X_OK) == 0)
			return 0;
	}
	return err_set(err, -ENOENT,
	               "the program '%s' is neither in '%s' nor in '%s../libexec/pando': install "
	               "Pando again",
	               name, exe, exe);
}

/* ---- for the starter, and in the child ---- */

const char *helper_check(const struct starter_job *j, const char *path)
{
	if (j->n_fds != HELPER_FD + 1)
		return "descriptors are missing";
	if (strcmp(j->argv[0], path) != 0 || j->argv[1])
		return "this program must not be started";
	return NULL;
}

static int limit(int what, rlim_t n)
{
	struct rlimit now, r = { n, n };

	if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < n)
		r.rlim_cur = r.rlim_max = now.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &r);
}

const char *helper_exec(struct starter_job *j, const char *name)
{
	char *const argv[] = { (char *)name, NULL };

	starter_reset_signals();
	/* It ends with its server, whatever it is doing. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || starter_arrange_fds(j) < 0)
		return "prepare it";
	if (limit(RLIMIT_CORE, 0) < 0 || limit(RLIMIT_NOFILE, j->numbers[0]) < 0 || chdir("/") < 0)
		return "set limits";
#ifndef LOCK_CHECK /* sanitizers need more */
	if (limit(RLIMIT_STACK, STACK_BYTES) < 0)
		return "set limits";
#endif
	setpgid(0, 0); /* ^C is for pandod; in its session, or it would be scheduled apart */
	execve(j->argv[0], argv, (char *const *)j->env);
	return "run it";
}

/* ---- in the parent ---- */

static void sanitizer_env(const char **ret)
{
	static const char *const names[] = { "ASAN_OPTIONS=", "LSAN_OPTIONS=", "UBSAN_OPTIONS=",
		                             "TSAN_OPTIONS=", "LOCK_ORDER_DIR=" };
	size_t n = 0;

	for (char **e = environ; e && *e && n < ENV_MAX; e++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strncmp(*e, names[i], strlen(names[i])) == 0 && n < ENV_MAX)
				ret[n++] = *e;
	ret[n] = NULL;
}

int helper_start(const char *kind, const char *path, unsigned nofile, int sock, int errs,
                 struct proc *ret, struct err *err)
{
	autofd int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int k = starter_kind(kind);
	struct starter_job j = { .argv = { path },
		                 .numbers = { nofile },
		                 .fds = { null, null, errs, sock },
		                 .n_fds = HELPER_FD + 1 };

	if (null < 0)
		return err_sys(err, -errno, "%s: open /dev/null", kind);
	if (k < 0)
		return err_set(err, k, "%s: there is no starter", kind);
	j.kind = (uint32_t)k;
	sanitizer_env(j.env);
	return starter_run(&j, ret, NULL, err);
}
