/* SPDX-License-Identifier: Apache-2.0 */
/* fs_read.c - sends a file or a range of it */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define READ_CHUNK (256u << 10) /* bytes of one read: the pipe's size */

void fs_read(const struct job_fds *fds, const struct agent_fs_req *r)
{
	static uint8_t chunk[READ_CHUNK];
	uint64_t left = r->len ? r->len : UINT64_MAX;
	int fd = open(r->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		child_fail(fds, errno, AGENT_TAG_NONE, "open '%.200s': %s", r->path,
		           err_name(errno));
	if (S_ISDIR(st.st_mode))
		child_fail(fds, EISDIR, AGENT_TAG_NONE, "'%.200s' is a directory", r->path);
	if (!S_ISREG(st.st_mode))
		child_fail(fds, EINVAL, AGENT_TAG_NONE, "'%.200s' is not a regular file", r->path);
	if (r->off && lseek(fd, (off_t)r->off, SEEK_SET) < 0)
		child_fail(fds, errno, AGENT_TAG_NONE, "seek '%.200s': %s", r->path,
		           err_name(errno));
	while (left) {
		ssize_t n = read(fd, chunk, MIN(left, sizeof(chunk)));
		int k;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			child_fail(fds, errno, AGENT_TAG_NONE, "read '%.200s': %s", r->path,
			           err_name(errno));
		if (n == 0)
			break;
		k = io_write_all(fds->out, chunk, (size_t)n);
		if (k < 0)
			child_fail(fds, -k, AGENT_TAG_NONE, "send '%.200s': %s", r->path,
			           err_name(k));
		left -= (uint64_t)n;
	}
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
