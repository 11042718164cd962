/* SPDX-License-Identifier: Apache-2.0 */
/* port_open.c - finds the virtio-serial port, and waits for it while the guest boots */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"

#define PORT_WAIT_MS 60000 /* for the driver to appear while the guest boots */

/* Without udev: the port's device node, by the name the host gave the port. */
static int open_by_sysfs(void)
{
	autodir DIR *d = opendir("/sys/class/virtio-ports");
	struct dirent *de;

	while (d && (de = readdir(d))) {
		char path[PATH_MAX];
		autofree char *name = NULL;

		if (de->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/sys/class/virtio-ports/%s/name", de->d_name);
		if (io_read_file(AT_FDCWD, path, 256, &name, NULL) < 0)
			continue;
		name[strcspn(name, "\n")] = '\0';
		if (strcmp(name, AGENT_PORT_NAME) != 0)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", de->d_name);
		return open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	}
	errno = ENOENT;
	return -1;
}

int port_open(struct agent *a, const char *path)
{
	uint64_t deadline = deadline_in(PORT_WAIT_MS);
	autofd int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int fd;

	if (watch < 0 || inotify_add_watch(watch, "/dev", IN_CREATE | IN_ATTRIB) < 0)
		return -errno;
	for (;;) {
		char events[4096];

		fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT &&
		    !strcmp(path, "/dev/virtio-ports/" AGENT_PORT_NAME))
			fd = open_by_sysfs();
		if (fd >= 0)
			return port_attach(a, fd);
		if (errno != ENOENT)
			return -errno;
		if (io_wait(watch, POLLIN, deadline) != 1)
			return -ENOENT;
		while (read(watch, events, sizeof(events)) > 0)
			;
	}
}
