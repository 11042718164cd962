/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_reserve.c - space reserved for transactions on a full disk
 *
 * VMs can fill the file system that the database is on. Deleting one takes a few pages of the
 * database's log, so without them nothing could be deleted any more. A file beside the database
 * reserves some space. Before a transaction that would find none, a small part of it is released,
 * and only a small part, because VMs compete for the same bytes. It is taken back when there is
 * plenty. Without the file everything works, except on a full disk.
 */
#include "store/store_internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/log.h"

#define RESERVE_BYTES (INT64_C(16) << 20)
#define RESERVE_STEP (INT64_C(512) << 10) /* released at a time */
#define RESERVE_LOW (UINT64_C(256) << 10) /* free bytes that a transaction may need */
#define RESERVE_HIGH (UINT64_C(64) << 20) /* free bytes above which the reserve is refilled */

static uint64_t free_bytes(int fd)
{
	struct statvfs fs;

	return fstatvfs(fd, &fs) == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : RESERVE_LOW;
}

void reserve_open(struct store *s, const char *path)
{
	char name[512];
	struct stat st;

	if (snprintf(name, sizeof(name), "%s-reserve", path) >= (int)sizeof(name))
		return;
	s->reserve_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->reserve_fd >= 0 && fstat(s->reserve_fd, &st) == 0)
		s->reserved = st.st_size;
}

void reserve_look(struct store *s)
{
	uint64_t left;

	if (s->reserve_fd < 0)
		return;
	left = free_bytes(s->reserve_fd);
	if (s->reserved && left < RESERVE_LOW) {
		off_t less = MAX(s->reserved - RESERVE_STEP, 0);

		log_warn("the disk is full: the database uses its reserve, %lld KB are left",
		         (long long)less >> 10);
		if (ftruncate(s->reserve_fd, less) == 0)
			s->reserved = less;
	} else if (s->reserved < RESERVE_BYTES && left > RESERVE_HIGH) {
		if (posix_fallocate(s->reserve_fd, 0, RESERVE_BYTES) == 0)
			s->reserved = RESERVE_BYTES;
	}
}

void reserve_close(struct store *s)
{
	if (s->reserve_fd >= 0)
		close(s->reserve_fd);
}
