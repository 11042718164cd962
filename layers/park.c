/* SPDX-License-Identifier: MIT */
/*
 * park.c - all other threads stand still, and come back: here, or in a forked child
 *
 * Theory of operation: every other thread gets a real-time signal. Its handler notes where the
 * thread is (its id, its thread pointer, the address of the frame that the kernel saved for it) and
 * waits on a futex. All threads may then be anywhere, with any lock held; that is no matter as long
 * as all of them come back, and as long as whoever parked them takes no lock meanwhile.
 *
 * They come back in this process by a wake of the futex: the handlers return. In a child, which has
 * only the thread that forked, each is created again by clone with its thread pointer, the place of
 * its id in the C library's own structure, and the saved frame as its stack pointer; its first
 * instruction is rt_sigreturn, which loads registers, signal mask and floating point state from
 * that frame. It continues where it was, mostly in a futex or poll that returns EINTR.
 *
 * QEMU's threads block all signals: pthread_sigmask and sigprocmask leave ours open. None of this
 * is on, and no signal is taken, unless the process was started as one that may be forked.
 *
 * What this believes of the C library is checked: the place of a thread's id is looked for in two
 * threads at the start, and compared for every thread that is parked.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layers/layers_internal.h"

#define PARK_SIGNAL 61         /* SIGRTMAX - 3; QEMU and the C library use others */
#define PARK_MS 5000           /* for all threads to stand still: a busy host */
#define TID_SEARCH_BYTES 0x900 /* of the C library's structure of a thread */
#define TASK_BYTES 4096        /* of directory entries read at once */

#if defined(__x86_64__)

struct parked {
	uintptr_t tp;       /* thread pointer */
	void *frame;        /* ucontext of the interrupted thread */
	_Atomic(pid_t) tid; /* written last; 0: not parked yet */
};

static struct {
	bool enabled;
	int tid_at; /* offset of the id from the thread pointer; -1: not found */
	pid_t keeper;
	struct parked threads[PARK_THREADS_MAX];
	atomic_bool on;       /* else a signal is a late one, and nobody waits for its thread */
	_Atomic uint32_t n;   /* entries in use */
	_Atomic uint32_t gen; /* what they wait for to change */
} park = { .tid_at = -1 };

static pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static uintptr_t own_tp(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

static int *tid_place(uintptr_t tp)
{
	return (int *)(tp + (uintptr_t)park.tid_at); /* NOLINT(performance-no-int-to-ptr) */
}

/* --- signal masks, as QEMU calls them --- */

#define EXPORT __attribute__((visibility("default")))

/* The signals that the C library keeps for itself, and ours. */
#define MASK_BIT(sig) (UINT64_C(1) << ((sig)-1))
#define ALWAYS_OPEN (MASK_BIT(32) | MASK_BIT(33))

static int set_mask(int how, const sigset_t *set, sigset_t *old)
{
	uint64_t mask = 0, before = 0;

	if (set) {
		memcpy(&mask, set, sizeof(mask));
		if (how != SIG_UNBLOCK)
			mask &= ~(ALWAYS_OPEN | (park.enabled ? MASK_BIT(PARK_SIGNAL) : 0));
	}
	if (syscall(SYS_rt_sigprocmask, how, set ? &mask : NULL, &before, sizeof(mask)) < 0)
		return errno;
	if (old) {
		memset(old, 0, sizeof(*old));
		memcpy(old, &before, sizeof(before));
	}
	return 0;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	int saved = errno, r = set_mask(how, set, old);

	errno = saved;
	return r;
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old);
int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	int r = set_mask(how, set, old);

	if (r != 0)
		errno = r;
	return r ? -1 : 0;
}

/* --- parking --- */

static void on_park(int sig, siginfo_t *si, void *frame)
{
	uint32_t gen = atomic_load(&park.gen), i;
	int saved = errno;

	if (!atomic_load(&park.on))
		return;
	i = atomic_fetch_add(&park.n, 1);
	if (i < PARK_THREADS_MAX) {
		park.threads[i].tp = own_tp();
		park.threads[i].frame = frame;
		atomic_store(&park.threads[i].tid, own_tid());
	}
	while (atomic_load(&park.gen) == gen)
		syscall(SYS_futex, &park.gen, FUTEX_WAIT, gen, NULL, NULL, 0);
	errno = saved;
}

static int find_tid_place(void)
{
	uintptr_t tp = own_tp();
	pid_t tid = own_tid();

	for (int at = 0; at < TID_SEARCH_BYTES; at += (int)sizeof(int))
		if (*(const int *)(tp + (uintptr_t)at) ==
		    tid) /* NOLINT(performance-no-int-to-ptr) */
			return at;
	return -1;
}

void park_enable(void)
{
	struct sigaction sa = { .sa_sigaction = on_park, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigfillset(&sa.sa_mask);
	park.tid_at = find_tid_place();
	park.enabled = park.tid_at >= 0 && sigaction(PARK_SIGNAL, &sa, NULL) == 0;
}

bool park_wanted(void)
{
	return park.enabled;
}

bool park_enabled(void)
{
	/* called by the control thread: the second of the two that must agree */
	return park.enabled && *tid_place(own_tp()) == own_tid();
}

static uint32_t count(void)
{
	uint32_t n = atomic_load(&park.n);

	return n < PARK_THREADS_MAX ? n : PARK_THREADS_MAX;
}

static bool is_parked(pid_t tid)
{
	for (uint32_t i = 0; i < count(); i++)
		if (atomic_load(&park.threads[i].tid) == tid)
			return true;
	return false;
}

struct dirent_head {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

static pid_t number(const char *s)
{
	pid_t n = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		n = n * 10 + (*s - '0');
	return n;
}

/* Calls fn for each number in a directory of /proc; 0 or -errno. System calls only. */
int proc_numbers(enum proc_dir which, int (*fn)(int n, void *ctx), void *ctx)
{
	const char *dir = which == PROC_FD ? "/proc/self/fd" : "/proc/self/task";
	_Alignas(struct dirent_head) uint8_t buf[TASK_BYTES];
	int fd = (int)syscall(SYS_openat, AT_FDCWD, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	long n = 0;

	if (fd < 0)
		return -errno;
	while (r == 0 && (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; r == 0 && at < n;) {
			const struct dirent_head *d = (const void *)(buf + at);

			/* the directory's own descriptor is no news */
			if (d->name[0] >= '0' && d->name[0] <= '9' &&
			    !(which == PROC_FD && number(d->name) == fd))
				r = fn(number(d->name), ctx);
			at += d->len;
		}
	}
	if (n < 0)
		r = -errno;
	close(fd);
	return r;
}

struct round {
	bool fresh; /* signal those that are not parked */
	uint32_t missing;
};

static int on_task(int tid, void *ctx)
{
	struct round *rd = ctx;

	if (tid == park.keeper || is_parked(tid))
		return 0;
	rd->missing++;
	if (rd->fresh && syscall(SYS_tgkill, getpid(), tid, PARK_SIGNAL) < 0 && errno != ESRCH)
		return -errno;
	return 0;
}

static void nap(void)
{
	struct timespec ts = { .tv_nsec = 100000 };

	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &ts, NULL);
}

/* A thread may end meanwhile, and another begin: it is over when a look at all finds none loose. */
static int park_rounds(void)
{
	uint64_t deadline = now_us() + PARK_MS * UINT64_C(1000), again = 0;
	struct round rd;
	int r;

	do {
		uint64_t now = now_us();

		rd = (struct round){ .fresh = now >= again };
		if (rd.fresh)
			again = now + 200000;
		if ((r = proc_numbers(PROC_TASK, on_task, &rd)) < 0)
			return r;
		if (atomic_load(&park.n) > PARK_THREADS_MAX)
			return -E2BIG;
		if (rd.missing && now > deadline)
			return -ETIMEDOUT;
		if (rd.missing)
			nap();
	} while (rd.missing);
	return 0;
}

int park_all(void)
{
	int r;

	if (!park_enabled())
		return -ENOSYS;
	park.keeper = own_tid();
	for (uint32_t i = 0; i < PARK_THREADS_MAX; i++)
		atomic_store(&park.threads[i].tid, 0);
	atomic_store(&park.n, 0);
	atomic_store(&park.on, true);
	r = park_rounds();
	for (uint32_t i = 0; r == 0 && i < count(); i++)
		if (*tid_place(park.threads[i].tp) != atomic_load(&park.threads[i].tid))
			r = -ENOSYS; /* another C library than we know */
	if (r < 0) {
		park_release();
		park.enabled = false; /* some may still be on their way: never again */
	}
	return r;
}

void park_release(void)
{
	atomic_store(&park.on, false);
	atomic_fetch_add(&park.gen, 1);
	syscall(SYS_futex, &park.gen, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* The new thread's first instruction is rt_sigreturn with the frame as its stack. */
static long clone_at(unsigned long flags, const struct parked *t, int *tid)
{
	register int *child_tid __asm__("r10") = tid;
	register uintptr_t tls __asm__("r8") = t->tp;
	long ret;

	__asm__ volatile("syscall\n\t"
	                 "test %%rax, %%rax\n\t"
	                 "jnz 1f\n\t"
	                 "mov %[sigreturn], %%eax\n\t"
	                 "syscall\n\t"
	                 "hlt\n"
	                 "1:"
	                 : "=a"(ret)
	                 : "a"(SYS_clone), "D"(flags), "S"(t->frame), "d"(tid), "r"(child_tid),
	                   "r"(tls), [sigreturn] "i"(SYS_rt_sigreturn)
	                 : "rcx", "r11", "memory", "cc");
	return ret;
}

void park_own_child(void)
{
	*tid_place(own_tp()) = own_tid();
}

int park_revive(void)
{
	const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
	                            CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS |
	                            CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;

	atomic_store(&park.on, false);
	atomic_fetch_add(&park.gen, 1);
	for (uint32_t i = 0; i < count(); i++) {
		const struct parked *t = &park.threads[i];
		long r = clone_at(flags, t, tid_place(t->tp));

		if (r < 0)
			return (int)r;
	}
	return 0;
}

#else /* the frame and the way back are known for one architecture */

void park_enable(void)
{
}

bool park_wanted(void)
{
	return false;
}

bool park_enabled(void)
{
	return false;
}

int park_all(void)
{
	return -ENOSYS;
}

void park_release(void)
{
}

void park_own_child(void)
{
}

int park_revive(void)
{
	return -ENOSYS;
}

int proc_numbers(enum proc_dir which, int (*fn)(int n, void *ctx), void *ctx)
{
	return -ENOSYS;
}

#endif
