/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls/calls.c - the system calls of pandod and of the programs it starts
 *
 * Lists of what may be used, not of what may not: a kernel gains a call now and then, and none of
 * those comes in by itself. `common` is what any program with files, pipes, threads and a libc
 * uses. What is missing everywhere, on purpose: ptrace and other processes' memory, mounts,
 * namespaces, modules, keys, bpf, perf, io_uring (which does things no filter sees), userfaultfd,
 * handles to files, clocks, swap, the kernel's log.
 *
 * clone3() hides its flags in memory, where a filter cannot look: libc falls back to clone(), whose
 * flags must not make namespaces.
 */
#include <errno.h>
#include <linux/sched.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "walls/walls.h"

#define ALLOW SYSFILTER_ALLOW
#define LOW 0xffffffffu /* of an int argument the kernel reads the lower half only */
#define NEW_NAMESPACE                                                                  \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

/* clang-format off */
#define COMMON \
	/* files */ \
	ALLOW("read"), ALLOW("write"), ALLOW("readv"), ALLOW("writev"), ALLOW("pread64"), \
	ALLOW("pwrite64"), ALLOW("preadv"), ALLOW("pwritev"), ALLOW("preadv2"), ALLOW("pwritev2"), \
	ALLOW("open"), ALLOW("openat"), ALLOW("creat"), ALLOW("close"), ALLOW("close_range"), \
	ALLOW("stat"), ALLOW("fstat"), ALLOW("lstat"), ALLOW("newfstatat"), ALLOW("statx"), \
	ALLOW("statfs"), ALLOW("fstatfs"), ALLOW("access"), ALLOW("faccessat"), ALLOW("faccessat2"), \
	ALLOW("lseek"), ALLOW("truncate"), ALLOW("ftruncate"), ALLOW("fallocate"), \
	ALLOW("fadvise64"), ALLOW("readahead"), ALLOW("fsync"), ALLOW("fdatasync"), ALLOW("syncfs"), \
	ALLOW("sync_file_range"), ALLOW("sendfile"), ALLOW("splice"), ALLOW("tee"), ALLOW("copy_file_range"), \
	ALLOW("dup"), ALLOW("dup2"), ALLOW("dup3"), ALLOW("fcntl"), ALLOW("flock"), ALLOW("ioctl"), \
	ALLOW("getdents"), ALLOW("getdents64"), ALLOW("getcwd"), ALLOW("chdir"), ALLOW("fchdir"), \
	ALLOW("mkdir"), ALLOW("mkdirat"), ALLOW("rmdir"), ALLOW("unlink"), ALLOW("unlinkat"), \
	ALLOW("rename"), ALLOW("renameat"), ALLOW("renameat2"), ALLOW("link"), ALLOW("linkat"), \
	ALLOW("symlink"), ALLOW("symlinkat"), ALLOW("readlink"), ALLOW("readlinkat"), \
	ALLOW("chmod"), ALLOW("fchmod"), ALLOW("fchmodat"), ALLOW("umask"), \
	ALLOW("utime"), ALLOW("utimes"), ALLOW("futimesat"), ALLOW("utimensat"), \
	ALLOW("getxattr"), ALLOW("lgetxattr"), ALLOW("fgetxattr"), ALLOW("listxattr"), \
	ALLOW("llistxattr"), ALLOW("flistxattr"), \
	ALLOW("pipe"), ALLOW("pipe2"), ALLOW("eventfd2"), ALLOW("memfd_create"), \
	/* waiting */ \
	ALLOW("poll"), ALLOW("ppoll"), ALLOW("select"), ALLOW("pselect6"), ALLOW("epoll_create"), \
	ALLOW("epoll_create1"), ALLOW("epoll_ctl"), ALLOW("epoll_wait"), ALLOW("epoll_pwait"), \
	ALLOW("epoll_pwait2"), ALLOW("nanosleep"), ALLOW("clock_nanosleep"), ALLOW("timerfd_create"), \
	ALLOW("timerfd_settime"), ALLOW("timerfd_gettime"), ALLOW("setitimer"), ALLOW("getitimer"), \
	ALLOW("alarm"), ALLOW("pause"), ALLOW("restart_syscall"), ALLOW("sched_yield"), \
	/* memory */ \
	ALLOW("mmap"), ALLOW("munmap"), ALLOW("mremap"), ALLOW("mprotect"), ALLOW("madvise"), \
	ALLOW("msync"), ALLOW("mincore"), ALLOW("brk"), ALLOW("mlock"), ALLOW("mlock2"), \
	ALLOW("munlock"), ALLOW("membarrier"), \
	/* threads and children */ \
	SYSFILTER_IF("clone", 0, NEW_NAMESPACE, 0), SYSFILTER_FAIL("clone3", ENOSYS), \
	ALLOW("futex"), ALLOW("futex_waitv"), ALLOW("set_robust_list"), ALLOW("get_robust_list"), \
	ALLOW("set_tid_address"), ALLOW("rseq"), ALLOW("arch_prctl"), ALLOW("gettid"), \
	ALLOW("exit"), ALLOW("exit_group"), ALLOW("wait4"), ALLOW("waitid"), ALLOW("kill"), \
	ALLOW("tkill"), ALLOW("tgkill"), ALLOW("prctl"), \
	ALLOW("rt_sigaction"), ALLOW("rt_sigprocmask"), ALLOW("rt_sigreturn"), \
	ALLOW("rt_sigtimedwait"), ALLOW("rt_sigsuspend"), ALLOW("rt_sigpending"), ALLOW("sigaltstack"), \
	ALLOW("sched_getaffinity"), ALLOW("sched_setaffinity"), ALLOW("sched_getparam"), \
	ALLOW("sched_getscheduler"), ALLOW("sched_get_priority_max"), ALLOW("sched_get_priority_min"), \
	ALLOW("getcpu"), ALLOW("getpriority"), ALLOW("setpriority"), \
	/* who and when */ \
	ALLOW("getpid"), ALLOW("getppid"), ALLOW("getpgrp"), ALLOW("getpgid"), ALLOW("getsid"), \
	ALLOW("setsid"), ALLOW("setpgid"), ALLOW("getuid"), ALLOW("geteuid"), ALLOW("getgid"), \
	ALLOW("getegid"), ALLOW("getresuid"), ALLOW("getresgid"), ALLOW("getgroups"), ALLOW("capget"), \
	ALLOW("clock_gettime"), ALLOW("clock_getres"), ALLOW("gettimeofday"), ALLOW("time"), \
	ALLOW("times"), ALLOW("getrusage"), ALLOW("getrlimit"), ALLOW("setrlimit"), ALLOW("prlimit64"), \
	ALLOW("sysinfo"), ALLOW("uname"), ALLOW("getrandom"), \
	/* sockets; not netlink, packet, vsock and the rest */ \
	SYSFILTER_IF("socket", 0, LOW, AF_UNIX), SYSFILTER_IF("socket", 0, LOW, AF_INET), \
	SYSFILTER_IF("socket", 0, LOW, AF_INET6), \
	ALLOW("socketpair"), ALLOW("connect"), ALLOW("getpeername"), ALLOW("getsockname"), \
	ALLOW("getsockopt"), ALLOW("setsockopt"), ALLOW("sendto"), ALLOW("recvfrom"), \
	ALLOW("sendmsg"), ALLOW("recvmsg"), ALLOW("sendmmsg"), ALLOW("recvmmsg"), ALLOW("shutdown"), \
	ALLOW("bind")

const struct sysfilter_rule walls_program_calls[] = {
	COMMON,
	ALLOW("execve"), ALLOW("execveat"), ALLOW("vfork"), ALLOW("fork"),
	ALLOW("chown"), ALLOW("fchown"), ALLOW("lchown"), ALLOW("fchownat"),
	ALLOW("setuid"), ALLOW("setgid"), /* a shell that gives up what it doesn't have */
	ALLOW("listen"), ALLOW("accept"), ALLOW("accept4"), /* libcurl's own socket pair */
};
const size_t walls_program_n = ARRAY_SIZE(walls_program_calls);

const struct sysfilter_rule walls_pandod_calls[] = {
	COMMON,
	ALLOW("listen"), ALLOW("accept"), ALLOW("accept4"), ALLOW("signalfd4"),
	ALLOW("pidfd_open"), ALLOW("pidfd_send_signal"), /* git's programs, QEMU */
	SYSFILTER_IF("socket", 0, LOW, AF_NETLINK), /* getaddrinfo() asks which addresses there are */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	/* The search for leaks stops all threads from a process of its own; personality() is asked
	 * whether addresses are random. */
	ALLOW("ptrace"), ALLOW("personality"), ALLOW("process_vm_readv"),
#endif
};
const size_t walls_pandod_n = ARRAY_SIZE(walls_pandod_calls);
/* clang-format on */
