/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls.c - what is left to pando-edge
 *
 * Everything it needs it was handed: listening sockets, sockets to pandod, connected sockets to
 * VMs. So it can do without making sockets, connecting them, opening files and starting programs,
 * and the filter has none of the calls for that. Namespaces are a second wall behind it: an empty
 * root, a network without interfaces; sockets that were made elsewhere keep theirs.
 *
 * A new call in edge/, OpenSSL or libc shows as "system call '...' is not allowed" in the log, and
 * as a process that ends with signal 31: it belongs in the list below, with a reason if it could be
 * used to reach something.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "base/seccomp.h"
#include "edgemain/edgemain.h"

#define OOM_SCORE "500" /* before pandod and VMs, which lose more */
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

#ifndef LOCK_CHECK
/* clang-format off */
static const struct sysfilter_rule rules[] = {
	/* events */
	SYSFILTER_ALLOW("epoll_wait"), SYSFILTER_ALLOW("epoll_pwait"), SYSFILTER_ALLOW("epoll_ctl"),
	SYSFILTER_ALLOW("epoll_create1"), SYSFILTER_ALLOW("eventfd2"), SYSFILTER_ALLOW("poll"),
	SYSFILTER_ALLOW("ppoll"),
	/* sockets it has, and those that come to its listening ones */
	SYSFILTER_ALLOW("accept4"), SYSFILTER_ALLOW("recvfrom"), SYSFILTER_ALLOW("recvmsg"),
	SYSFILTER_IF("sendto", 4, ~0ull, 0), /* without an address: with one it could connect */
	SYSFILTER_ALLOW("shutdown"), SYSFILTER_ALLOW("getsockopt"),
	SYSFILTER_FAIL("setsockopt", EPERM), /* the listening sockets outlive this process */
	SYSFILTER_ALLOW("getsockname"), SYSFILTER_ALLOW("getpeername"),
	SYSFILTER_ALLOW("read"), SYSFILTER_ALLOW("write"), SYSFILTER_ALLOW("writev"),
	SYSFILTER_ALLOW("close"), SYSFILTER_ALLOW("dup"),
	SYSFILTER_IF("fcntl", 1, ~0ull, F_GETFL), SYSFILTER_IF("fcntl", 1, ~0ull, F_SETFL),
	SYSFILTER_IF("ioctl", 1, ~0ull, 0x5411 /* SIOCOUTQ: has the client read it? */),
	/* memory: never executable */
	SYSFILTER_IF("mmap", 2, PROT_EXEC, 0), SYSFILTER_IF("mprotect", 2, PROT_EXEC, 0),
	SYSFILTER_ALLOW("munmap"), SYSFILTER_ALLOW("mremap"), SYSFILTER_ALLOW("madvise"),
	SYSFILTER_ALLOW("brk"),
	/* threads, but no processes */
	SYSFILTER_IF("clone", 0, THREAD_FLAGS, THREAD_FLAGS),
	SYSFILTER_FAIL("clone3", ENOSYS), /* its flags are out of sight: libc takes clone then */
	SYSFILTER_ALLOW("futex"), SYSFILTER_ALLOW("set_robust_list"), SYSFILTER_ALLOW("rseq"),
	SYSFILTER_ALLOW("sched_yield"), SYSFILTER_ALLOW("sched_getaffinity"),
	SYSFILTER_ALLOW("exit"), SYSFILTER_ALLOW("exit_group"),
	SYSFILTER_ALLOW("gettid"), SYSFILTER_ALLOW("getpid"),
	/* time, chance, limits */
	SYSFILTER_ALLOW("clock_gettime"), SYSFILTER_ALLOW("clock_nanosleep"),
	SYSFILTER_ALLOW("nanosleep"), SYSFILTER_ALLOW("gettimeofday"), SYSFILTER_ALLOW("time"),
	SYSFILTER_ALLOW("getrandom"),
	SYSFILTER_IF("prlimit64", 2, ~0ull, 0), /* reads only */
	SYSFILTER_ALLOW("getrlimit"),
	SYSFILTER_FAIL("sysinfo", EPERM), SYSFILTER_FAIL("openat", EACCES), /* malloc, for the number of processors */
	/* signals: of its own threads, by which abort() ends it */
	SYSFILTER_ALLOW("rt_sigaction"), SYSFILTER_ALLOW("rt_sigprocmask"),
	SYSFILTER_ALLOW("rt_sigreturn"), SYSFILTER_ALLOW("restart_syscall"),
};
/* clang-format on */

static int filter(struct err *err)
{
	struct sysfilter_rule all[ARRAY_SIZE(rules) + 1];
	struct sysfilter f = SYSFILTER_NONE;
	int r;

	memcpy(all, rules, sizeof(rules));
	all[ARRAY_SIZE(rules)] =
	        (struct sysfilter_rule)SYSFILTER_IF("tgkill", 0, ~0ull, (uint64_t)getpid());
	if ((r = sysfilter_report("pando-edge", STDERR_FILENO)) < 0)
		return err_sys(err, r, "report of forbidden system calls");
	if ((r = sysfilter_build(all, ARRAY_SIZE(all), SYSFILTER_TRAP, &f, err)) < 0)
		return r;
	r = sysfilter_install(&f, /* threads= */ false);
	sysfilter_free(&f);
	return r < 0 ? err_sys(err, r, "install the filter of system calls") : 0;
}
#endif

static int put(const char *path, const char *text)
{
	autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -errno : 0;
}

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

/* Those that a user namespace brought, and those of whoever started it. */
static int drop_caps(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };

	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

void walls_begin(void)
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

int walls_close(unsigned mem_mb, struct err *err)
{
#ifndef LOCK_CHECK /* sanitizers map terabytes and read /proc */
	struct rlimit mem = { (rlim_t)mem_mb << 20, (rlim_t)mem_mb << 20 };

	if (mem_mb && setrlimit(RLIMIT_DATA, &mem) < 0)
		return err_sys(err, -errno, "limit the memory");
	return filter(err);
#else
	return 0;
#endif
}
