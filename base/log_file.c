/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_file.c - see log_file.h
 *
 * What is counted is what log.c writes; others that write to standard error (a library, a
 * sanitizer) say little. dup2() puts the new file in place of the old one for all threads at once.
 */
#include "base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"

static struct mutex turn = MUTEX_INIT("log file"); /* one thread renames */
static char file_path[512];
static uint64_t file_max;
static _Atomic uint64_t file_bytes;

static int take_file(struct err *err)
{
	autofd int fd = open(file_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || dup2(fd, STDERR_FILENO) < 0)
		return err_sys(err, -errno, "log to '%s'", file_path);
	atomic_store(&file_bytes, (uint64_t)st.st_size);
	return 0;
}

static void on_written(unsigned long bytes)
{
	char old[sizeof(file_path) + 2];

	if (atomic_fetch_add(&file_bytes, bytes) + bytes < file_max || !mutex_trylock(&turn))
		return;
	if (atomic_load(&file_bytes) >= file_max) {
		snprintf(old, sizeof(old), "%s.1", file_path);
		/* If either fails the log goes on in the old file, and is tried again later. */
		if (rename(file_path, old) < 0 || take_file(NULL) < 0)
			atomic_store(&file_bytes, 0);
	}
	mutex_unlock(&turn);
}

int log_file_open(const char *path, uint64_t max_bytes, struct err *err)
{
	int r;

	if ((size_t)snprintf(file_path, sizeof(file_path), "%s", path) >= sizeof(file_path))
		return err_set(err, -ENAMETOOLONG, "the log file's name is too long");
	file_max = max_bytes;
	if ((r = take_file(err)) < 0)
		return r;
	log_on_written(on_written);
	return 0;
}
