/* SPDX-License-Identifier: MIT */
/*
 * seccomp.c - system calls that QEMU never needs are forbidden
 *
 * Theory of operation: freeze needs fork, so QEMU runs with -sandbox spawn=allow, which also lets
 * execve through. This filter takes it back: a process that cannot exec is no more than a thread.
 * It is installed by the constructor, before there is a second thread, so every later thread and
 * every child has it, and QEMU's own filter comes on top. Written as plain BPF: a list of numbers,
 * one compare each, generated below from the table.
 *
 * clone is allowed without new namespaces; clone3 hides its flags in memory where a filter cannot
 * look, so it fails with ENOSYS and libc falls back to clone. io_uring would do, on our behalf,
 * what the filter never sees; QEMU does without it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layers/layers_internal.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "no seccomp filter for this architecture"
#endif

#define X32_BIT 0x40000000u
#define NEW_NAMESPACE                                                                  \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)

static const struct {
	int nr;
	uint32_t action;
} rules[] = {
#define DENY(name)                                    \
	{                                             \
		SYS_##name, SECCOMP_RET_ERRNO | EPERM \
	}
	{ SYS_execve, SECCOMP_RET_KILL_PROCESS },
	{ SYS_execveat, SECCOMP_RET_KILL_PROCESS },
	{ SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS },
	/* other processes */
	DENY(ptrace),
	DENY(process_vm_readv),
	DENY(process_vm_writev),
	DENY(process_madvise),
	DENY(pidfd_getfd),
	DENY(kcmp),
	/* namespaces and mounts */
	DENY(unshare),
	DENY(setns),
	DENY(mount),
	DENY(umount2),
	DENY(pivot_root),
	DENY(chroot),
	DENY(move_mount),
	DENY(open_tree),
	DENY(fsopen),
	DENY(fsconfig),
	DENY(fsmount),
	DENY(fspick),
	DENY(mount_setattr),
	DENY(name_to_handle_at),
	DENY(open_by_handle_at),
	/* wide doors into the kernel */
	DENY(bpf),
	DENY(perf_event_open),
	DENY(userfaultfd),
	DENY(io_uring_setup),
	DENY(io_uring_enter),
	DENY(io_uring_register),
	DENY(add_key),
	DENY(request_key),
	DENY(keyctl),
	DENY(fanotify_init),
	/* the machine as a whole */
	DENY(init_module),
	DENY(finit_module),
	DENY(delete_module),
	DENY(kexec_load),
#ifdef SYS_kexec_file_load
	DENY(kexec_file_load),
#endif
	DENY(reboot),
	DENY(swapon),
	DENY(swapoff),
	DENY(acct),
	DENY(quotactl),
	DENY(syslog),
	DENY(sethostname),
	DENY(setdomainname),
	DENY(settimeofday),
	DENY(clock_settime),
	DENY(clock_adjtime),
	DENY(adjtimex),
	DENY(vhangup),
#if defined(__x86_64__)
	DENY(iopl),
	DENY(ioperm),
	DENY(modify_ldt),
	DENY(uselib),
	DENY(ustat),
	DENY(sysfs),
#endif
#undef DENY
};

/*
 * A seed's child becomes another user, so QEMU's own filter lets a seed do that; from then on
 * nothing does. A process that is no seed has QEMU's filter for it.
 */
static const int other_users[] = {
	SYS_setuid,   SYS_setgid,    SYS_setreuid, SYS_setregid, SYS_setfsuid,
	SYS_setfsgid, SYS_setgroups, SYS_setsid,   SYS_setpgid,
};

/* What reaches other processes, for a child of a seed: its siblings share its pid namespace. */
static const int others[] = {
	SYS_kill,
	SYS_tkill,
	SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo,
	SYS_pidfd_open,
	SYS_pidfd_send_signal,
	SYS_pidfd_getfd,
	SYS_setresuid,
	SYS_setresgid,
	SYS_capset,
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))
#define N_USERS (sizeof(other_users) / sizeof(other_users[0]))
#define N_OTHERS (sizeof(others) / sizeof(others[0]))
#define N_PROLOGUE 8
#define N_FILTER (N_PROLOGUE + 2 * (N_RULES + N_USERS) + 5)
#define N_CHILD (N_PROLOGUE + 2 * N_OTHERS + 32)

#define ADD(...) f[n++] = (struct sock_filter)__VA_ARGS__
#define LOAD(field) ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
#define RETURN(action) ADD(BPF_STMT(BPF_RET | BPF_K, action))
/* If the loaded word is @value the next instruction is done, else it is left out. */
#define IF_IS(value) ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), 0, 1))
#define REFUSE RETURN(SECCOMP_RET_ERRNO | EPERM)

static int install(struct sock_filter *f, size_t n)
{
	struct sock_fprog prog = { .len = (unsigned short)n, .filter = f };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

int seccomp_install(bool seed)
{
	struct sock_filter f[N_FILTER];
	size_t n = 0;

	ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)));
	ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
	ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
	ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
#if defined(__x86_64__)
	ADD(BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
	ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
#endif
	for (size_t i = 0; i < N_RULES; i++) {
		ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)rules[i].nr, 0, 1));
		ADD(BPF_STMT(BPF_RET | BPF_K, rules[i].action));
	}
	for (size_t i = 0; seed && i < N_USERS; i++) {
		IF_IS(other_users[i]);
		REFUSE;
	}
	ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0));
	ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])));
	ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_NAMESPACE, 0, 1));
	ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM));
	ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : install(f, n);
}

int seccomp_child(void)
{
	struct sock_filter f[N_CHILD];
	size_t n = 0;

	/* the first filter has seen to the architecture */
	LOAD(nr);
	for (size_t i = 0; i < N_OTHERS; i++) {
		IF_IS(others[i]);
		REFUSE;
	}
	/* signals to its own threads only */
	ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 4));
	LOAD(args[0]);
	IF_IS(getpid());
	RETURN(SECCOMP_RET_ALLOW);
	REFUSE;
	/* nor by way of a descriptor; and no mode on what siblings read, too */
	ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 1, 0));
	RETURN(SECCOMP_RET_ALLOW);
	LOAD(args[1]);
	IF_IS(F_SETOWN);
	REFUSE;
	IF_IS(F_SETOWN_EX);
	REFUSE;
	IF_IS(F_SETSIG);
	REFUSE;
	IF_IS(F_SETLEASE);
	REFUSE;
	ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_SETFL, 1, 0));
	RETURN(SECCOMP_RET_ALLOW);
	LOAD(args[2]);
	ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_ASYNC | O_DIRECT, 0, 1));
	REFUSE;
	RETURN(SECCOMP_RET_ALLOW);
	return install(f, n);
}
