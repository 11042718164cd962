/* SPDX-License-Identifier: Apache-2.0 */
#include "base/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define CALLS_MAX 512 /* numbers of system calls: the newest is below 480 */

static void release_(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}

static uint32_t action_of(enum sysfilter_default d)
{
	switch (d) {
	case SYSFILTER_KILL:
		return SCMP_ACT_KILL_PROCESS;
	case SYSFILTER_TRAP:
		return SCMP_ACT_TRAP;
	case SYSFILTER_EPERM:
		return SCMP_ACT_ERRNO(EPERM);
	case SYSFILTER_REST:
		return SCMP_ACT_ALLOW;
	case SYSFILTER_LOG:
		return SCMP_ACT_LOG;
	}
	return SCMP_ACT_KILL_PROCESS;
}

static int add_rule(scmp_filter_ctx ctx, const struct sysfilter_rule *rule,
                    enum sysfilter_default otherwise, struct err *err)
{
	uint32_t action = rule->fail ? SCMP_ACT_ERRNO((unsigned)rule->fail) : SCMP_ACT_ALLOW;
	struct scmp_arg_cmp cmp = { rule->arg, SCMP_CMP_MASKED_EQ, rule->mask, rule->value };
	int nr = seccomp_syscall_resolve_name(rule->name);
	int r;

	if (nr == __NR_SCMP_ERROR)
		return err_set(err, -EINVAL, "there is no system call '%s'", rule->name);
	if (nr < 0 || action == action_of(otherwise)) /* of another architecture; says nothing */
		return 0;
	r = seccomp_rule_add_array(ctx, action, nr, rule->mask ? 1 : 0, &cmp);
	return r < 0 ? err_sys(err, r, "rule for the system call '%s'", rule->name) : 0;
}

/* A call that libseccomp has no name for is newer than our lists: libc knows what to do without. */
static int add_unknown(scmp_filter_ctx ctx, struct err *err)
{
	for (int nr = 0; nr < CALLS_MAX; nr++) {
		autofree char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
		int r = name ? 0 : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), nr, 0);

		if (r < 0)
			return err_sys(err, r, "rule for the system call %d", nr);
	}
	return 0;
}

/* libseccomp 2.5 writes a filter to a descriptor only. */
static int export_to(scmp_filter_ctx ctx, struct sysfilter *ret, struct err *err)
{
	autofd int fd = memfd_create("filter", MFD_CLOEXEC);
	autofree struct sock_filter *code = NULL;
	struct stat st;
	int r;

	if (fd < 0)
		return err_sys(err, -errno, "memory for a filter");
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return err_sys(err, r, "compile a filter");
	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "size of a filter");
	if (st.st_size <= 0 || st.st_size / (off_t)sizeof(*code) > BPF_MAXINSNS)
		return err_set(err, -E2BIG, "a filter of %lld bytes", (long long)st.st_size);
	code = malloc((size_t)st.st_size);
	if (!code)
		return err_set(err, -ENOMEM, "out of memory");
	r = io_pread_all(fd, code, (size_t)st.st_size, 0);
	if (r < 0)
		return err_sys(err, r, "read a filter");
	ret->prog.len = (unsigned short)((size_t)st.st_size / sizeof(*code));
	ret->prog.filter = TAKE_PTR(code);
	return 0;
}

int sysfilter_build(const struct sysfilter_rule *rules, size_t n, enum sysfilter_default otherwise,
                    struct sysfilter *ret, struct err *err)
{
	AUTO(release_) scmp_filter_ctx ctx = seccomp_init(action_of(otherwise));
	int r;

	*ret = SYSFILTER_NONE;
	if (!ctx)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) < 0 ||
	    (r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2)) < 0) /* a binary tree */
		return err_sys(err, r, "prepare a filter");
	for (size_t i = 0; i < n; i++)
		if ((r = add_rule(ctx, &rules[i], otherwise, err)) < 0)
			return r;
	if (otherwise != SYSFILTER_REST && (r = add_unknown(ctx, err)) < 0)
		return r;
	return export_to(ctx, ret, err);
}

void sysfilter_free(struct sysfilter *f)
{
	free(f->prog.filter);
	*f = SYSFILTER_NONE;
}

int sysfilter_install(const struct sysfilter *f, bool threads)
{
	long r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, threads ? SECCOMP_FILTER_FLAG_TSYNC : 0u,
	            &f->prog);
	if (r > 0)
		return -ESRCH; /* that thread has a filter of its own */
	return r < 0 ? -errno : 0;
}

bool sysfilter_available(void)
{
	uint32_t action = SECCOMP_RET_KILL_PROCESS;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

/* ---- the report of a violation ---- */

static struct {
	const char *who;
	int fd;
	char *names[CALLS_MAX]; /* written once, before any filter */
} report = { .fd = -1 };

const char *sysfilter_call_name(int nr)
{
	const char *name = nr >= 0 && nr < CALLS_MAX ? report.names[nr] : NULL;

	return name ? name : "unknown";
}

static size_t put(char *to, size_t at, size_t max, const char *text)
{
	while (*text && at < max)
		to[at++] = *text++;
	return at;
}

/* Async-signal-safe: no library function that takes a lock or allocates. */
static void on_violation(int sig, siginfo_t *si, void *ucontext)
{
	char line[200], digits[12];
	size_t n = 0, d = sizeof(digits);
	unsigned nr = (unsigned)si->si_syscall;

	(void)ucontext;
	digits[--d] = '\0';
	do
		digits[--d] = (char)('0' + nr % 10);
	while ((nr /= 10) && d);
	n = put(line, n, sizeof(line) - 1, report.who);
	n = put(line, n, sizeof(line) - 1, ": system call '");
	n = put(line, n, sizeof(line) - 1, sysfilter_call_name(si->si_syscall));
	n = put(line, n, sizeof(line) - 1, "' (");
	n = put(line, n, sizeof(line) - 1, digits + d);
	n = put(line, n, sizeof(line) - 1, ") is not allowed: ending");
	line[n++] = '\n';
	if (write(report.fd, line, n) < 0)
		_exit(128 + sig); /* nobody reads it; the end is the same */
	/* The handler was reset when it was called: once we return, this ends the process. */
	raise(sig);
}

int sysfilter_report(const char *who, int fd)
{
	struct sigaction sa = { .sa_sigaction = on_violation,
		                .sa_flags = SA_SIGINFO | (int)SA_RESETHAND };

	for (int nr = 0; nr < CALLS_MAX; nr++)
		if (!report.names[nr])
			report.names[nr] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
	report.who = who;
	report.fd = fd;
	sigemptyset(&sa.sa_mask);
	return sigaction(SIGSYS, &sa, NULL) < 0 ? -errno : 0;
}
