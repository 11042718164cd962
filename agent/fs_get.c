/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_get.c - sends a file or a part of it, with its attributes when it was opened
 *
 * The head has size and time of the very file that the bytes come from, so the
 * host can announce a length before it sends the first byte. Exactly that many
 * follow: what is appended meanwhile is left out, and a file that shrinks is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define GET_CHUNK (256u << 10) /* bytes of one read: the pipe's size */

static void pick(const struct agent_get_req *r, struct agent_got *g)
{
	uint64_t size = g->st.size;

	g->satisfiable = true;
	g->off = 0;
	g->len = size;
	if (r->range == AGENT_RANGE_FROM) {
		g->satisfiable = r->off < size;
		g->off = g->satisfiable ? r->off : 0;
		g->len = r->len ? MIN(r->len, size - g->off) : size - g->off;
	} else if (r->range == AGENT_RANGE_LAST) {
		g->satisfiable = r->len > 0 && size > 0;
		g->off = r->len < size ? size - r->len : 0;
		g->len = size - g->off;
	}
	if (!g->satisfiable)
		g->off = g->len = 0;
}

static void send_bytes(const struct job_fds *fds, const char *path, int fd, uint64_t left)
{
	static uint8_t chunk[GET_CHUNK];

	while (left) {
		ssize_t n = read(fd, chunk, MIN(left, sizeof(chunk)));
		int k;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			child_fail(fds, n < 0 ? errno : EIO, AGENT_TAG_NONE, "read '%.200s': %s",
			           path, n < 0 ? err_name(errno) : "the file has shrunk");
		k = io_write_all(fds->out, chunk, (size_t)n);
		if (k < 0)
			child_fail(fds, -k, AGENT_TAG_NONE, "send '%.200s': %s", path, err_name(k));
		left -= (uint64_t)n;
	}
}

void fs_get(const struct job_fds *fds, const struct agent_get_req *r)
{
	int fd = open(r->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct agent_got g = { 0 };
	struct buf b = { 0 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		child_fail(fds, errno, AGENT_TAG_NONE, "open '%.200s': %s", r->path,
		           err_name(errno));
	if (S_ISDIR(st.st_mode))
		child_fail(fds, EISDIR, AGENT_TAG_NONE, "'%.200s' is a directory", r->path);
	if (!S_ISREG(st.st_mode))
		child_fail(fds, EINVAL, AGENT_TAG_NONE, "'%.200s' is not a regular file", r->path);
	fs_stat_of(&st, &g.st);
	pick(r, &g);
	agent_got_put(&b, &g);
	if (b.failed || io_write_all(fds->out, b.p, b.len) < 0)
		child_fail(fds, EIO, AGENT_TAG_NONE, "send '%.200s'", r->path);
	if (g.off && lseek(fd, (off_t)g.off, SEEK_SET) < 0)
		child_fail(fds, errno, AGENT_TAG_NONE, "seek '%.200s': %s", r->path,
		           err_name(errno));
	send_bytes(fds, r->path, fd, g.len);
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
