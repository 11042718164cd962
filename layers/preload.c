/* SPDX-License-Identifier: MIT */
/*
 * preload.c - the library's way into an unmodified QEMU
 *
 * Theory of operation: the constructor runs before QEMU's main(). Without PANDO_LAYERS_FD in the
 * environment the library does nothing, for good. Otherwise it confines the process (seccomp.c) and
 * starts the control thread. QEMU then opens LAYERS_RAM_PATH as its memory's backing file and is
 * given an empty memfd of the right size; when it maps that descriptor it gets anonymous memory at
 * the place it asked for, because a page of anonymous memory costs nothing until it is written,
 * whereas a read of a hole in a memfd allocates. The memfd is only there to answer QEMU's questions
 * about the file. MADV_DONTFORK must not reach that memory, or the writer of a layer would see
 * nothing; and what a writer does not need (the translation buffer) is kept from it, so that fork
 * has less to copy.
 *
 * The functions go to the kernel directly. They are called before other libraries are ready, and
 * the calls concerned have no more to them than that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layers/layers_internal.h"

static_assert(sizeof(void *) == 8 && sizeof(off_t) == 8, "open64 and mmap64 are open and mmap");

#define EXPORT __attribute__((visibility("default")))

struct ram ram;

static dev_t ram_dev; /* of the placeholder, once QEMU has opened it */
static ino_t ram_ino;

uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* --- open --- */

static int open_ram(void)
{
	struct stat st;
	int fd = memfd_create("pando-ram", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)ram.bytes) < 0 || fstat(fd, &st) < 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	ram_dev = st.st_dev;
	ram_ino = st.st_ino;
	return fd;
}

bool ram_is_file(const struct stat *st)
{
	return ram_ino != 0 && st->st_dev == ram_dev && st->st_ino == ram_ino;
}

int ram_new_file(void)
{
	int fd = open_ram();

	return fd < 0 ? -errno : fd;
}

static int do_openat(int dirfd, const char *path, int flags, mode_t mode)
{
	if (ram.bytes > 0 && path && strcmp(path, LAYERS_RAM_PATH) == 0)
		return open_ram();
	return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

static mode_t open_mode(int flags, va_list ap)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define DEFINE_OPEN(name)                                      \
	EXPORT int name(const char *path, int flags, ...);     \
	int name(const char *path, int flags, ...)             \
	{                                                      \
		va_list ap;                                    \
		mode_t mode;                                   \
                                                               \
		va_start(ap, flags);                           \
		mode = open_mode(flags, ap);                   \
		va_end(ap);                                    \
		return do_openat(AT_FDCWD, path, flags, mode); \
	}

#define DEFINE_OPENAT(name)                                           \
	EXPORT int name(int dirfd, const char *path, int flags, ...); \
	int name(int dirfd, const char *path, int flags, ...)         \
	{                                                             \
		va_list ap;                                           \
		mode_t mode;                                          \
                                                                      \
		va_start(ap, flags);                                  \
		mode = open_mode(flags, ap);                          \
		va_end(ap);                                           \
		return do_openat(dirfd, path, flags, mode);           \
	}

/* What _FORTIFY_SOURCE makes of an open without a mode. */
#define DEFINE_OPEN_2(name)                                 \
	EXPORT int name(const char *path, int flags);       \
	int name(const char *path, int flags)               \
	{                                                   \
		return do_openat(AT_FDCWD, path, flags, 0); \
	}

#define DEFINE_OPENAT_2(name)                                    \
	EXPORT int name(int dirfd, const char *path, int flags); \
	int name(int dirfd, const char *path, int flags)         \
	{                                                        \
		return do_openat(dirfd, path, flags, 0);         \
	}

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)
DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

/* --- mmap --- */

static bool is_ram_fd(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && ram_is_file(&st);
}

static void *map_ram(void *addr, size_t len, int prot, int flags, off_t off)
{
	void *p;

	/* anything else and freeze would not see all of memory, or not the truth */
	if (len != ram.bytes || off != 0 || (flags & MAP_TYPE) != MAP_PRIVATE || ram_base()) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	p = (void *)syscall(SYS_mmap, addr, len, prot,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (flags & MAP_FIXED), -1,
	                    (off_t)0);
	if (p == MAP_FAILED)
		return p;
	atomic_store_explicit(&ram.base, p, memory_order_release);
	return p;
}

EXPORT void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	if (ram.bytes > 0 && is_ram_fd(fd))
		return map_ram(addr, len, prot, flags, off);
	return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, off);
}

EXPORT void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off);
void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t off)
{
	return mmap64(addr, len, prot, flags, fd, off);
}

/* --- madvise --- */

/*
 * Advice on guest memory that would harm: DONTFORK hides it from the writer of a layer, MERGEABLE
 * lets one guest find out what another has in memory (and costs a scan). HUGEPAGE is welcome: fork
 * copies one entry instead of 512, see README.md.
 */
static bool unwanted_for_ram(int advice)
{
	return advice == MADV_DONTFORK || advice == MADV_MERGEABLE;
}

static bool in_ram(const void *addr)
{
	const uint8_t *base = ram_base(), *p = addr;

	return base && p >= base && p < base + ram.bytes;
}

/*
 * In a process that may become a seed, what else must not be in a writer: its children need it, and
 * keep it from their own writers.
 */
#define OTHERS_MAX 32

static struct {
	struct {
		void *addr;
		size_t len;
	} others[OTHERS_MAX];
	_Atomic uint32_t n;
} keep;

static void keep_from_writers(void *addr, size_t len)
{
	uint32_t i;

	if (!park_wanted()) {
		(void)syscall(SYS_madvise, addr, len, MADV_DONTFORK);
		return;
	}
	i = atomic_fetch_add(&keep.n, 1);
	if (i < OTHERS_MAX) {
		keep.others[i].addr = addr;
		keep.others[i].len = len;
	}
}

int ram_keep_others(void)
{
	for (uint32_t i = 0; i < atomic_load(&keep.n) && i < OTHERS_MAX; i++)
		if (syscall(SYS_madvise, keep.others[i].addr, keep.others[i].len, MADV_DONTFORK) <
		    0)
			return -errno;
	return 0;
}

EXPORT int madvise(void *addr, size_t len, int advice);
int madvise(void *addr, size_t len, int advice)
{
	if (ram.bytes > 0 && in_ram(addr)) {
		if (unwanted_for_ram(advice))
			return 0;
		if (advice == MADV_DONTDUMP)
			atomic_store(&ram.dontdump, true);
	} else if (ram.bytes > 0 && advice == MADV_HUGEPAGE) {
		/*
		 * QEMU's translation buffer and small memory blocks: no writer needs them, and huge
		 * pages make the buffer of an idle guest megabytes larger than what is in it.
		 */
		keep_from_writers(addr, len);
		advice = MADV_NOHUGEPAGE;
	} else if (ram.bytes > 0 && advice == MADV_DONTFORK && park_wanted()) {
		return 0;
	}
	return (int)syscall(SYS_madvise, addr, len, advice);
}

/* --- start --- */

/* A decimal number from the environment, 1 to max; 0 if it is anything else. */
static uint64_t env_number(const char *name, uint64_t max)
{
	const char *s = getenv(name);
	uint64_t n = 0;

	if (!s || *s == '\0')
		return 0;
	for (; *s != '\0'; s++) {
		if (*s < '0' || *s > '9' || n > max / 10)
			return 0;
		n = n * 10 + (uint64_t)(*s - '0');
	}
	return n <= max ? n : 0;
}

/* QEMU without its layers would run, and lose what it does: better not to start. */
static _Noreturn void refuse(const char *why)
{
	static const char prefix[] = "pando-layers: ";

	if (write(STDERR_FILENO, prefix, sizeof(prefix) - 1) < 0 ||
	    write(STDERR_FILENO, why, strlen(why)) < 0 || write(STDERR_FILENO, "\n", 1) < 0)
		_exit(126);
	_exit(125);
}

__attribute__((constructor)) static void start(void)
{
	uint64_t fd, bytes;
	bool seed;

	if (!getenv(LAYERS_ENV_FD))
		return;
	fd = env_number(LAYERS_ENV_FD, 1 << 20);
	bytes = env_number(LAYERS_ENV_MEM, LAYER_MEM_MAX);
	seed = env_number(LAYERS_ENV_SEED, 1) == 1;
	unsetenv(LAYERS_ENV_SEED);
	unsetenv(LAYERS_ENV_FD);
	unsetenv(LAYERS_ENV_MEM);
	if (fd < 3)
		refuse(LAYERS_ENV_FD " is not a descriptor number");
	if (bytes == 0 || bytes % LAYER_PAGE != 0 || sysconf(_SC_PAGESIZE) != LAYER_PAGE)
		refuse(LAYERS_ENV_MEM " is not a size in pages of 4096 bytes");
	if (seccomp_install(seed) < 0)
		refuse("cannot install the seccomp filter");
	layer_crc32c(0, "", 0); /* makes the tables: the forked writer must not */
	ram.bytes = bytes;
	if (seed)
		park_enable(); /* where it cannot, FORK says so */
	if (control_start((int)fd) < 0)
		refuse("cannot start the control thread");
}
