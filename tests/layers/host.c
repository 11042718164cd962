/* SPDX-License-Identifier: MIT */
/*
 * host.c - stands in for QEMU: maps guest memory as QEMU does, then does as it is told
 *
 * Theory of operation: the same calls in the same order as QEMU 7.2 makes them (open, fstat, lseek,
 * fstatfs, reserve, map fixed, madvise three times). "vCPU" threads write into memory until they
 *are paused; another thread is nearly always inside malloc, so that a writer that used malloc after
 * fork would hang sooner or later. Commands come one by one over a socket, each is answered.
 *
 *	host COMMAND-FD SHARED-FD MEMORY-BYTES
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "rig.h"

#define N_VCPUS 2

static uint8_t *ram;
static uint64_t ram_bytes;

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool run;
	unsigned parked;
	uint64_t off, len;
	atomic_ullong writes;
} vcpus = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "host: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void map_like_qemu(void)
{
	struct stat st;
	struct statfs sfs;
	uint8_t *guard, *buffer;
	int fd = open(LAYERS_RAM_PATH, O_RDWR);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || fstatfs(fd, &sfs) < 0)
		die("open guest memory");
	if (lseek(fd, 0, SEEK_END) != (off_t)ram_bytes)
		die("size of guest memory");
	guard = mmap(NULL, ram_bytes + LAYER_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (guard == MAP_FAILED)
		die("reserve");
	ram = mmap(guard, ram_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0);
	if (ram != guard)
		die("map guest memory");
	if (madvise(ram, ram_bytes, MADV_HUGEPAGE) < 0 ||
	    madvise(ram, ram_bytes, MADV_DONTFORK) < 0 ||
	    madvise(ram, ram_bytes, MADV_MERGEABLE) < 0)
		die("madvise");
	/* the translation buffer */
	buffer = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED || madvise(buffer, 64 << 20, MADV_HUGEPAGE) < 0)
		die("translation buffer");
}

/* Blocks while paused; called without the lock between two writes. */
static void vcpu_gate(void)
{
	pthread_mutex_lock(&vcpus.lock);
	if (!vcpus.run) {
		vcpus.parked++;
		pthread_cond_broadcast(&vcpus.changed);
		while (!vcpus.run)
			pthread_cond_wait(&vcpus.changed, &vcpus.lock);
		vcpus.parked--;
	}
	pthread_mutex_unlock(&vcpus.lock);
}

static void *vcpu_run(void *arg)
{
	uint64_t x = (uintptr_t)arg * 0x9e3779b97f4a7c15u + 1;

	for (;;) {
		vcpu_gate();
		for (int i = 0; i < 16; i++) {
			uint64_t page;

			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			page = vcpus.off / LAYER_PAGE + x % (vcpus.len / LAYER_PAGE);
			rig_pattern(ram + page * LAYER_PAGE, page * LAYER_PAGE, (uint32_t)x | 1);
		}
		atomic_fetch_add(&vcpus.writes, 16);
	}
	return NULL;
}

static void *malloc_run(void *arg)
{
	void *blocks[64] = { 0 };

	for (unsigned i = 0;; i++) {
		free(blocks[i % 64]);
		blocks[i % 64] = malloc(100 + i % 5000);
		if (i % 4096 == 0)
			vcpu_gate();
	}
	return NULL;
}

static void vcpus_run(uint64_t off, uint64_t len)
{
	pthread_mutex_lock(&vcpus.lock);
	vcpus.off = off;
	vcpus.len = len;
	vcpus.run = true;
	pthread_cond_broadcast(&vcpus.changed);
	pthread_mutex_unlock(&vcpus.lock);
}

/* Returns when every thread is paused. */
static void vcpus_pause(void)
{
	pthread_mutex_lock(&vcpus.lock);
	vcpus.run = false;
	while (vcpus.parked != N_VCPUS + 1)
		pthread_cond_wait(&vcpus.changed, &vcpus.lock);
	pthread_mutex_unlock(&vcpus.lock);
}

static int64_t count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int64_t n = 0;

	if (!d)
		die("/proc/self/fd");
	while (readdir(d))
		n++;
	closedir(d);
	return n - 3; /* ".", ".." and the directory */
}

/* 0, or the number of the first that did not fail as it should. */
static int64_t try_syscalls(void)
{
	static const long forbidden[] = {
		SYS_ptrace,
		SYS_process_vm_readv,
		SYS_process_vm_writev,
		SYS_mount,
		SYS_umount2,
		SYS_setns,
		SYS_unshare,
		SYS_bpf,
		SYS_chroot,
		SYS_init_module,
		SYS_io_uring_setup,
		SYS_userfaultfd,
		SYS_move_mount,
		SYS_keyctl,
		SYS_perf_event_open,
		SYS_pivot_root,
	};

	for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
		if (syscall(forbidden[i], 0, 0, 0, 0, 0) != -1 || errno != EPERM)
			return forbidden[i];
	if (syscall(SYS_clone3, NULL, 0) != -1 || errno != ENOSYS)
		return SYS_clone3;
	if (syscall(SYS_clone, CLONE_NEWUSER, NULL, NULL, NULL, NULL) != -1 || errno != EPERM)
		return SYS_clone;
	if (syscall(SYS_getpid) != getpid())
		return SYS_getpid;
	if (getenv(LAYERS_ENV_FD) || getenv(LAYERS_ENV_MEM))
		return -1;
	return 0;
}

static int64_t obey(const struct host_cmd *cmd)
{
	volatile uint8_t sum = 0;

	switch (cmd->op) {
	case HOST_FILL:
		for (uint64_t at = cmd->off; at < cmd->off + cmd->len; at += LAYER_PAGE)
			rig_pattern(ram + at, at, cmd->arg);
		return 0;
	case HOST_ZERO:
		memset(ram + cmd->off, 0, cmd->len);
		return 0;
	case HOST_READ:
		for (uint64_t at = cmd->off; at < cmd->off + cmd->len; at += LAYER_PAGE)
			sum = (uint8_t)(sum + ram[at]);
		return 0;
	case HOST_DONTNEED:
		return madvise(ram + cmd->off, cmd->len, MADV_DONTNEED);
	case HOST_SMALL_PAGES:
		return madvise(ram, ram_bytes, MADV_NOHUGEPAGE);
	case HOST_RUN:
		vcpus_run(cmd->off, cmd->len);
		return 0;
	case HOST_PAUSE:
		vcpus_pause();
		return 0;
	case HOST_SYSCALLS:
		return try_syscalls();
	case HOST_EXEC:
		execl("/bin/true", "true", (char *)NULL);
		return -errno;
	case HOST_WRITES:
		return (int64_t)atomic_load(&vcpus.writes);
	case HOST_FDS:
		return count_fds();
	default:
		return -EINVAL;
	}
}

int main(int argc, char **argv)
{
	uint8_t *shared;
	struct host_cmd cmd;
	pthread_t t;
	int fd;

	if (argc != 4)
		return 2;
	fd = (int)strtol(argv[1], NULL, 10);
	ram_bytes = strtoull(argv[3], NULL, 10);
	shared = mmap(NULL, ram_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
	              (int)strtol(argv[2], NULL, 10), 0);
	if (shared == MAP_FAILED)
		die("map shared memory");
	map_like_qemu();
	for (uintptr_t i = 1; i <= N_VCPUS; i++)
		if (pthread_create(&t, NULL, vcpu_run, (void *)i) != 0)
			die("thread");
	if (pthread_create(&t, NULL, malloc_run, NULL) != 0)
		die("thread");
	vcpus_pause();
	while (recv(fd, &cmd, sizeof(cmd), 0) == sizeof(cmd)) {
		int64_t value = 0;

		if (cmd.op == HOST_COPY)
			memcpy(shared, ram, ram_bytes);
		else if (cmd.op == HOST_LOAD)
			memcpy(ram + cmd.off, shared + cmd.off, cmd.len);
		else
			value = obey(&cmd);
		if (send(fd, &value, sizeof(value), MSG_NOSIGNAL) != sizeof(value))
			break;
	}
	return 0;
}
