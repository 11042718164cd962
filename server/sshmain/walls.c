/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls.c - the system calls that are left to pando-ssh (base/seclude.h)
 *
 * Everything it needs it was handed: the client's socket, one to pandod, and a stream per channel,
 * which come as messages. It starts no thread and makes no descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "base/auto.h"
#include "base/seccomp.h"
#include "base/seclude.h"
#include "sshmain/sshmain.h"

/* clang-format off */
static const struct sysfilter_rule rules[] = {
	/* sockets it has */
	SYSFILTER_ALLOW("poll"), SYSFILTER_ALLOW("ppoll"),
	SYSFILTER_ALLOW("recvfrom"), SYSFILTER_ALLOW("recvmsg"),
	SYSFILTER_IF("sendto", 4, ~0ull, 0), /* without an address: with one it could connect */
	SYSFILTER_ALLOW("shutdown"), SYSFILTER_ALLOW("getsockopt"),
	SYSFILTER_FAIL("setsockopt", EPERM), /* pandod has the client's socket as well */
	SYSFILTER_ALLOW("getsockname"), SYSFILTER_ALLOW("getpeername"),
	SYSFILTER_ALLOW("read"), SYSFILTER_ALLOW("write"), SYSFILTER_ALLOW("writev"),
	SYSFILTER_ALLOW("close"),
	SYSFILTER_IF("fcntl", 1, ~0ull, F_GETFL), SYSFILTER_IF("fcntl", 1, ~0ull, F_SETFL),
	SYSFILTER_IF("ioctl", 1, ~0ull, FIONBIO), /* libssh */
	/* memory: never executable */
	SYSFILTER_IF("mmap", 2, PROT_EXEC, 0), SYSFILTER_IF("mprotect", 2, PROT_EXEC, 0),
	SYSFILTER_ALLOW("munmap"), SYSFILTER_ALLOW("mremap"), SYSFILTER_ALLOW("madvise"),
	SYSFILTER_ALLOW("brk"), SYSFILTER_ALLOW("futex"),
	SYSFILTER_ALLOW("exit"), SYSFILTER_ALLOW("exit_group"),
	SYSFILTER_ALLOW("gettid"), SYSFILTER_ALLOW("getpid"),
	/* time, chance, limits */
	SYSFILTER_ALLOW("clock_gettime"), SYSFILTER_ALLOW("gettimeofday"), SYSFILTER_ALLOW("time"),
	SYSFILTER_ALLOW("getrandom"),
	SYSFILTER_IF("prlimit64", 2, ~0ull, 0), /* reads only */
	SYSFILTER_ALLOW("getrlimit"),
	SYSFILTER_FAIL("sysinfo", EPERM), SYSFILTER_FAIL("openat", EACCES), /* libc: processors, time zone */
	SYSFILTER_FAIL("newfstatat", EACCES),
	/* signals: its own, by which abort() ends it */
	SYSFILTER_ALLOW("rt_sigaction"), SYSFILTER_ALLOW("rt_sigprocmask"),
	SYSFILTER_ALLOW("rt_sigreturn"), SYSFILTER_ALLOW("restart_syscall"),
};
/* clang-format on */

int walls_close(struct err *err)
{
	return seclude_close("pando-ssh", rules, ARRAY_SIZE(rules), MEMORY_MB, err);
}
