/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guestlog.c - files that a guest can make grow: its console, and what QEMU says because of it
 *
 * Theory of operation: QEMU appends to both by itself, also while pandod is away, so the kernel
 * must hold the bound. It has one for all files of a process, RLIMIT_FSIZE, but QEMU writes disks,
 * too: pando-priv sets it to PRIVC_FILE_MAX, above every disk. It limits offsets, not blocks. So
 * these files begin GUESTLOG_MAX bytes below it, after a hole that takes no space: there is room
 * for that much, then writes fail with EFBIG, which QEMU ignores (and SIGXFSZ with it). pandod cuts
 * a file back to its hole well before (guestlog_trim()), so that the newest words are there.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "privc/privc.h"

#define GUESTLOG_MAX (2u << 20)  /* bytes that QEMU can write */
#define GUESTLOG_TRIM (1u << 20) /* beyond so many it begins again */
#define GUESTLOG_HOLE ((off_t)(PRIVC_FILE_MAX - GUESTLOG_MAX))

int guestlog_create(struct engine *e, const char *instance, const char *name, struct err *err)
{
	char path[PATH_MAX];
	int r = machine_run_path(e, instance, name, path, sizeof(path), err);
	autofd int fd = -1;

	if (r < 0)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, GUESTLOG_HOLE) < 0)
		return err_sys(err, -errno, "create '%s'", path);
	return TAKE_FD(fd);
}

void guestlog_tail(struct engine *e, const char *instance, const char *name, char *buf, size_t size)
{
	char path[PATH_MAX];
	autofd int fd = -1;
	struct stat st;
	off_t from;
	ssize_t k;

	buf[0] = '\0';
	if (machine_run_path(e, instance, name, path, sizeof(path), NULL) < 0)
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	/* One that an older version left has no hole. */
	from = st.st_size >= GUESTLOG_HOLE ? GUESTLOG_HOLE : 0;
	k = pread(fd, buf, size - 1, MAX(from, st.st_size - (off_t)(size - 1)));
	buf[k > 0 ? k : 0] = '\0';
}

void guestlog_trim(struct engine *e, const char *instance, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	off_t hole;

	if (machine_run_path(e, instance, name, path, sizeof(path), NULL) < 0 ||
	    stat(path, &st) < 0)
		return;
	/* QEMU appends: what it writes next is at the new end. */
	hole = st.st_size >= GUESTLOG_HOLE ? GUESTLOG_HOLE : 0;
	if (st.st_size - hole > GUESTLOG_TRIM && truncate(path, hole) < 0)
		log_warn("'%s' was not cut, ignoring: %s", path, err_name(errno));
}
