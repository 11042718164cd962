/* SPDX-License-Identifier: MIT */
/*
 * fds.c - a child of a seed gets descriptors of its own
 *
 * Theory of operation: a fork shares every open file with its parent. With the threads parked the
 * seed looks at all of its descriptors and decides what the child needs in the place of each: a
 * fresh eventfd with the same count, a fresh epoll or signalfd, a socket, file or tap that was
 * given with the request. What can only be read stays. Anything else is a reason to refuse the
 * fork: no descriptor that can be written to is ever shared. The child carries the plan out with
 * dup3, so that QEMU finds what it knows under the number it knows.
 *
 * Everything here runs with threads parked, or in the child: system calls only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "layers/layers_internal.h"

#define PLAN_MAX 512   /* descriptors that are exchanged */
#define INFO_BYTES 512 /* of a descriptor's fdinfo: the lines that matter come first */
#define TUN_MAJOR 10
#define TUN_MINOR 200

enum action { USE_GIVEN, NEW_EVENTFD, NEW_EPOLL, NEW_SIGNALFD, NEW_RAM, NEW_TAP };

struct entry {
	int fd;
	enum action action;
	int given;      /* USE_GIVEN: index */
	uint64_t value; /* count of an eventfd, mask of a signalfd */
	bool nonblock, cloexec;
};

static struct {
	struct entry entries[PLAN_MAX];
	size_t n;
	const int *given;
	char *why;
	dev_t console_dev; /* of the one file that is written to and has no other role */
	ino_t console_ino;
} plan;

static int refuse(int fd, const char *what)
{
	snprintf(plan.why, FDS_WHY_SIZE, "descriptor %d is %.60s", fd, what);
	return -EBUSY;
}

static int add(int fd, enum action action, int given, uint64_t value)
{
	struct entry *e = &plan.entries[plan.n];

	if (plan.n == PLAN_MAX)
		return refuse(fd, "one too many");
	*e = (struct entry){
		.fd = fd,
		.action = action,
		.given = given,
		.value = value,
		.nonblock = fcntl(fd, F_GETFL) & O_NONBLOCK,
		.cloexec = fcntl(fd, F_GETFD) & FD_CLOEXEC,
	};
	plan.n++;
	return 0;
}

static ssize_t read_info(int fd, char buf[INFO_BYTES])
{
	char path[64];
	ssize_t n;
	int in;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	in = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return -errno;
	n = read(in, buf, INFO_BYTES - 1);
	n = n < 0 ? -errno : n;
	close(in);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

/* The number, in hexadecimal, behind a name of fdinfo. */
static bool info_number(int fd, const char *name, uint64_t *ret)
{
	char buf[INFO_BYTES];
	const char *at;
	uint64_t n = 0;

	if (read_info(fd, buf) <= 0 || !(at = strstr(buf, name)))
		return false;
	for (at += strlen(name); *at == ' ' || *at == '\t'; at++)
		;
	for (; (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f'); at++)
		n = n * 16 + (uint64_t)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
	*ret = n;
	return true;
}

static int plan_anon(int fd, const char *link)
{
	uint64_t value = 0;
	char buf[INFO_BYTES];

	if (!strcmp(link, "anon_inode:[eventfd]"))
		return info_number(fd, "eventfd-count:", &value)
		               ? add(fd, NEW_EVENTFD, 0, value)
		               : refuse(fd, "an eventfd whose count is not shown");
	if (!strcmp(link, "anon_inode:[signalfd]"))
		return info_number(fd, "sigmask:", &value)
		               ? add(fd, NEW_SIGNALFD, 0, value)
		               : refuse(fd, "a signalfd whose mask is not shown");
	if (!strcmp(link, "anon_inode:[eventpoll]"))
		return read_info(fd, buf) > 0 && !strstr(buf, "tfd:")
		               ? add(fd, NEW_EPOLL, 0, 0)
		               : refuse(fd, "an epoll that watches something");
	return refuse(fd, link);
}

static int plan_socket(int fd)
{
	static const struct {
		const char *name;
		int connected, listening;
	} roles[] = {
		{ "/qmp", LAYERS_FORK_QMP, LAYERS_FORK_QMP_LISTEN },
		{ "/agent", LAYERS_FORK_AGENT, LAYERS_FORK_AGENT_LISTEN },
		{ "/layers", LAYERS_FORK_LAYERS, LAYERS_FORK_LAYERS_LISTEN },
	};
	struct sockaddr_un un = { 0 };
	socklen_t len = sizeof(un) - 1, int_len = sizeof(int);
	int listening = 0;
	size_t n;

	if (getsockname(fd, (struct sockaddr *)&un, &len) < 0 || un.sun_family != AF_UNIX ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &int_len) < 0)
		return refuse(fd, "a socket of an unknown kind");
	n = strlen(un.sun_path);
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
		size_t k = strlen(roles[i].name);

		if (n >= k && !strcmp(un.sun_path + n - k, roles[i].name))
			return add(fd, USE_GIVEN,
			           listening ? roles[i].listening : roles[i].connected, 0);
	}
	return refuse(fd, "a socket without a known name");
}

static bool same_file(int fd, const struct stat *st)
{
	struct stat other;

	return fstat(fd, &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

static int plan_file(int fd, const struct stat *st, const char *link)
{
	int flags = fcntl(fd, F_GETFL);

	if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(TUN_MAJOR, TUN_MINOR))
		return add(fd, NEW_TAP, 0, 0);
	if (ram_is_file(st))
		return add(fd, NEW_RAM, 0, 0);
	if (same_file(plan.given[LAYERS_FORK_DISK], st))
		return add(fd, USE_GIVEN, LAYERS_FORK_DISK, 0);
	if (same_file(plan.given[LAYERS_FORK_STATE], st))
		return add(fd, USE_GIVEN, LAYERS_FORK_STATE, 0);
	if (flags < 0)
		return -errno;
	if ((flags & O_ACCMODE) == O_RDONLY)
		return 0;
	if (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3))
		return 0; /* /dev/null */
	if (!S_ISREG(st->st_mode))
		return refuse(fd, link);
	if (same_file(STDERR_FILENO, st))
		return add(fd, USE_GIVEN, LAYERS_FORK_LOG, 0);
	if ((flags & O_APPEND) && plan.console_ino == 0) {
		plan.console_dev = st->st_dev;
		plan.console_ino = st->st_ino;
	}
	if (st->st_dev == plan.console_dev && st->st_ino == plan.console_ino)
		return add(fd, USE_GIVEN, LAYERS_FORK_CONSOLE, 0);
	return refuse(fd, link);
}

static int plan_one(int fd, void *ctx)
{
	char path[64], link[96];
	struct stat st;
	ssize_t n;

	for (int i = 0; i < LAYERS_FORK_FDS; i++)
		if (plan.given[i] == fd)
			return 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, link, sizeof(link) - 1);
	if (n < 0 || fstat(fd, &st) < 0)
		return refuse(fd, "not to be looked at");
	link[n] = '\0';
	if (S_ISSOCK(st.st_mode))
		return plan_socket(fd);
	if (!strncmp(link, "anon_inode:", 11))
		return plan_anon(fd, link);
	return plan_file(fd, &st, link);
}

int fds_plan(const struct control *c, const int given[LAYERS_FORK_FDS], char why[FDS_WHY_SIZE])
{
	int r;

	plan.n = 0;
	plan.given = given;
	plan.why = why;
	plan.console_ino = 0;
	r = proc_numbers(PROC_FD, plan_one, NULL);
	if (r < 0 && !why[0])
		snprintf(why, FDS_WHY_SIZE, "look at the descriptors");
	return r;
}

/* The descriptor that takes e's place; *@ret_own: it is ours to close. */
static int replacement(const struct entry *e, const int given[LAYERS_FORK_FDS], int tap_fd,
                       bool *ret_own)
{
	int fd = -1;

	*ret_own = true;
	switch (e->action) {
	case USE_GIVEN:
		*ret_own = false;
		return given[e->given];
	case NEW_TAP:
		*ret_own = false;
		return tap_fd < 0 ? -ENODEV : tap_fd;
	case NEW_EVENTFD:
		fd = (int)syscall(SYS_eventfd2, (unsigned)e->value, EFD_CLOEXEC);
		break;
	case NEW_EPOLL:
		fd = epoll_create1(EPOLL_CLOEXEC);
		break;
	case NEW_SIGNALFD:
		fd = (int)syscall(SYS_signalfd4, -1, &e->value, sizeof(e->value), O_CLOEXEC);
		break;
	case NEW_RAM:
		return ram_new_file();
	}
	return fd < 0 ? -errno : fd;
}

static int set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK) == !on)
		return 0;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fds_exchange(const int given[LAYERS_FORK_FDS], int tap_fd)
{
	int r = tap_fd >= 0 ? tap_same(tap_fd) : 0;

	for (size_t i = 0; r == 0 && i < plan.n; i++) {
		const struct entry *e = &plan.entries[i];
		bool own;
		int fd = replacement(e, given, tap_fd, &own);

		if (fd < 0)
			return fd;
		r = set_nonblock(fd, e->nonblock);
		if (r == 0 && dup3(fd, e->fd, e->cloexec ? O_CLOEXEC : 0) < 0)
			r = -errno;
		if (own)
			close(fd);
	}
	for (int i = 0; r == 0 && i < LAYERS_FORK_FDS; i++)
		if (close(given[i]) < 0)
			r = -errno;
	if (r == 0 && tap_fd >= 0 && close(tap_fd) < 0)
		r = -errno;
	return r;
}
