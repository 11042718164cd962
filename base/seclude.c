/* SPDX-License-Identifier: Apache-2.0 */
#include "base/seclude.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "base/seccomp.h"

#define OOM_SCORE "500" /* before pandod and VMs, which lose more */
#define RULES_MAX 128

static int put(const char *path, const char *text)
{
	autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -errno : 0;
}

#ifndef LOCK_CHECK
/* An empty read-only file system as its root; in a mount namespace of its own. */
static int empty_root(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
	          "size=4k,mode=0555") < 0 ||
	    chdir("/proc") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
	    umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}

static int filter(const char *who, const struct sysfilter_rule *rules, size_t n, struct err *err)
{
	struct sysfilter_rule all[RULES_MAX];
	struct sysfilter f = SYSFILTER_NONE;
	int r;

	if (n >= ARRAY_SIZE(all))
		return err_set(err, -E2BIG, "%zu rules for system calls", n);
	memcpy(all, rules, n * sizeof(*rules));
	all[n] = (struct sysfilter_rule)SYSFILTER_IF("tgkill", 0, ~0ull, (uint64_t)getpid());
	if ((r = sysfilter_report(who, STDERR_FILENO)) < 0)
		return err_sys(err, r, "report of forbidden system calls");
	if ((r = sysfilter_build(all, n + 1, SYSFILTER_TRAP, &f, err)) < 0)
		return r;
	r = sysfilter_install(&f, /* threads= */ false);
	sysfilter_free(&f);
	return r < 0 ? err_sys(err, r, "install the filter of system calls") : 0;
}
#endif

/* Those that a user namespace brought, and those of whoever started it. */
static int drop_caps(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

void seclude_begin(void)
{
	int r = put("/proc/self/oom_score_adj", OOM_SCORE);

	if (r < 0)
		log_warn("oom_score_adj: %s, ignoring", err_name(r));
#ifndef LOCK_CHECK /* sanitizers read /proc at the end */
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		log_warn("namespaces of its own: %s; the filter of system calls is its only wall",
		         err_name(errno));
	else if ((r = empty_root()) < 0)
		log_warn("an empty root: %s; the filter of system calls is its only wall",
		         err_name(r));
#endif
	r = drop_caps();
	if (r < 0)
		log_warn("drop capabilities: %s, ignoring", err_name(r));
	/* pandod asked for it already; a change of credentials may have undone it. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no core, and nobody of its user looks inside */
}

int seclude_close(const char *who, const struct sysfilter_rule *rules, size_t n, unsigned mem_mb,
                  struct err *err)
{
#ifndef LOCK_CHECK /* sanitizers map terabytes and read /proc */
	struct rlimit mem = { (rlim_t)mem_mb << 20, (rlim_t)mem_mb << 20 };

	if (mem_mb && setrlimit(RLIMIT_DATA, &mem) < 0)
		return err_sys(err, -errno, "limit the memory");
	return filter(who, rules, n, err);
#else
	return 0;
#endif
}
