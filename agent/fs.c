/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.c - file requests: each in a child that has become the user
 *
 * The child blocks on disks, FIFOs and long directories as it likes; the agent
 * does not. Permissions are the kernel's, for that user with all its groups.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/err.h"

uint8_t fs_kind(mode_t mode)
{
	return S_ISREG(mode)   ? AGENT_FILE
	       : S_ISDIR(mode) ? AGENT_DIR
	       : S_ISLNK(mode) ? AGENT_SYMLINK
	                       : AGENT_OTHER;
}

int fs_make_parents(const char *path, size_t len)
{
	char dir[AGENT_PATH_MAX];

	if (len >= sizeof(dir))
		return ENAMETOOLONG;
	memcpy(dir, path, len);
	dir[len] = '\0';
	for (size_t i = 1; i <= len; i++) {
		if (i < len && dir[i] != '/')
			continue;
		dir[i] = '\0';
		if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
			/* A directory above that we may not write to is fine when it is there. */
			int e = errno;
			struct stat st;

			if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
				return e;
		}
		if (i < len)
			dir[i] = '/';
	}
	return 0;
}

static void fs_child(const struct job_fds *fds, uint16_t op, const struct agent_fs_req *r)
{
	static struct user u;

	if (op == AGENT_OP_SYNC) {
		sync();
		child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
	}
	child_become(fds, r->user, &u);
	if (r->path[0] != '/')
		child_fail(fds, EINVAL, AGENT_TAG_NONE, "the path '%.128s' is not absolute",
		           r->path);
	switch (op) {
	case AGENT_OP_FS_READ:
		fs_read(fds, r);
	case AGENT_OP_FS_WRITE:
		fs_write(fds, r);
	case AGENT_OP_FS_LIST:
		fs_list(fds, r);
	case AGENT_OP_FS_STAT:
		fs_stat(fds, r);
	case AGENT_OP_FS_REMOVE:
		fs_remove(fds, r);
	default:
		fs_mkdir(fds, r);
	}
}

void fs_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c)
{
	struct agent_fs_req r = { .user = "", .path = "/" };
	struct job_fds fds;
	unsigned pipes = 0;
	struct stream *s;
	int k;

	if (op == AGENT_OP_SYNC ? rd_end(c) < 0 : agent_fs_req_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed file request");
		return;
	}
	s = stream_new(a, id, op);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return;
	}
	if (op == AGENT_OP_FS_READ || op == AGENT_OP_FS_LIST)
		pipes = JOB_OUT;
	if (op == AGENT_OP_FS_WRITE)
		pipes = JOB_IN | JOB_COMMIT;
	k = job_fork(a, s, pipes, &fds);
	if (k == 1)
		fs_child(&fds, op, &r);
	if (k < 0)
		stream_result(a, s, (uint32_t)-k, AGENT_TAG_SPAWN_FAILED, "cannot start a process",
		              NULL, 0);
}
