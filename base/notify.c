/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/notify.c - sd_notify(3) without its library: one datagram to a unix socket
 *
 * The socket's name is a path, or begins with '@' for one in the abstract
 * namespace. Nothing waits for an answer; to the caller a failure is at most
 * worth a line in its log.
 */
#include "base/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/auto.h"

int notify_send(const char *state)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = name ? strlen(name) : 0;
	autofd int fd = -1;

	if (!n)
		return 0;
	if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof(to.sun_path))
		return -EINVAL;
	memcpy(to.sun_path, name, n);
	if (name[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
	           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
		return -errno;
	return 1;
}
