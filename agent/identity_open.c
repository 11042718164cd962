/* SPDX-License-Identifier: Apache-2.0 */
/*
 * identity_open.c - opens the files that the identity steps write to, once at the start
 *
 * /run/pando has the current machine id and the generation; both are in
 * memory, so that a thaw does not touch the disk. The machine id's file is bound over
 * /etc/machine-id, as systemd itself does on a read-only root; a restarted
 * agent finds it there. Where it cannot be bound (a test root, an
 * /etc without the file) the file itself is written in place.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"

#define RUN_DIR "/run/pando"
#define RUN_MACHINE_ID RUN_DIR "/machine-id"
#define ETC_MACHINE_ID "/etc/machine-id"

static void path_of(const struct agent *a, const char *path, char ret[PATH_MAX])
{
	snprintf(ret, PATH_MAX, "%s%s", a->test_root ? a->test_root : "", path);
}

static int open_file(const struct agent *a, const char *path, mode_t mode)
{
	char full[PATH_MAX];
	int fd;

	path_of(a, path, full);
	fd = open(full, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		log_error("open %s: %s", full, err_name(errno));
	return fd;
}

/* The file of /run, bound over the one of /etc unless it is already. */
static int bind_machine_id(struct agent *a)
{
	autofree char *now = NULL;
	struct stat etc, run;
	autofd int fd = -1;

	if (stat(RUN_MACHINE_ID, &run) == 0 && stat(ETC_MACHINE_ID, &etc) == 0 &&
	    run.st_ino == etc.st_ino && run.st_dev == etc.st_dev)
		return open_file(a, RUN_MACHINE_ID, 0444);
	if (io_read_file(AT_FDCWD, ETC_MACHINE_ID, 64, &now, NULL) < 0)
		return -1;
	fd = open_file(a, RUN_MACHINE_ID, 0444);
	if (fd < 0 || pwrite(fd, now, strlen(now), 0) < 0)
		return -1;
	if (mount(RUN_MACHINE_ID, ETC_MACHINE_ID, NULL, MS_BIND, NULL) < 0) {
		log_warn("bind %s: %s; the file itself is written instead", ETC_MACHINE_ID,
		         err_name(errno));
		return -1;
	}
	return TAKE_FD(fd);
}

static void read_generation(struct agent *a)
{
	char line[32] = "";
	ssize_t n = a->generation_fd < 0 ? -1 : pread(a->generation_fd, line, sizeof(line) - 1, 0);

	if (n <= 0 || !strchr(line, '\n'))
		return;
	a->generation = strtoull(line, NULL, 10);
	a->has_generation = a->generation != 0;
}

void identity_open(struct agent *a)
{
	autofree char *boot_id = NULL;
	char dir[PATH_MAX];

	path_of(a, RUN_DIR, dir);
	io_mkdirs(dir, 0755, NULL);
	a->urandom_fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
	a->machine_id_fd = a->test_root ? -1 : bind_machine_id(a);
	if (a->machine_id_fd < 0)
		a->machine_id_fd = open_file(a, ETC_MACHINE_ID, 0444);
	a->generation_fd = open_file(a, RUN_DIR "/generation", 0644);
	read_generation(a);
	if (io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &boot_id, NULL) == 0)
		snprintf(a->boot_id, sizeof(a->boot_id), "%.*s", (int)strcspn(boot_id, "\n"),
		         boot_id);
}

void identity_close(struct agent *a)
{
	int *fds[] = { &a->urandom_fd, &a->machine_id_fd, &a->generation_fd };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (*fds[i] >= 0)
			close(TAKE_FD(*fds[i]));
}
