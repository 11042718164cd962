/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls.c - the system calls that are left to pando-edge (base/seclude.h)
 *
 * Everything it needs it was handed: listening sockets, sockets to pandod, connected sockets to
 * VMs.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "base/seccomp.h"
#include "base/seclude.h"
#include "edgemain/edgemain.h"

#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

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

int walls_close(unsigned mem_mb, struct err *err)
{
	return seclude_close("pando-edge", rules, ARRAY_SIZE(rules), mem_mb, err);
}
