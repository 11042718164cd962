/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs.c - file requests: each runs in a child as the user
 *
 * The child may block on disks, FIFOs and long directories; the agent
 * does not. Permissions are checked by the kernel, for that user with all its groups.
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
			/* An existing directory above that we may not write to is fine. */
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

/* Any of the requests, for the child. */
struct fs_work {
	uint16_t op;
	struct agent_fs_req r;
	struct agent_get_req get;
};

static void fs_child(const struct job_fds *fds, const struct fs_work *w)
{
	static struct user u;

	child_become(fds, w->r.user, &u);
	if (w->op == AGENT_OP_FS_WATCH && !w->r.path[0])
		fs_watch(fds, &w->r);
	if (w->r.path[0] != '/')
		child_fail(fds, EINVAL, AGENT_TAG_NONE, "the path '%.128s' is not absolute",
		           w->r.path);
	switch (w->op) {
	case AGENT_OP_FS_READ:
		fs_read(fds, &w->r);
	case AGENT_OP_FS_WRITE:
		fs_write(fds, &w->r);
	case AGENT_OP_FS_LIST:
		fs_list(fds, &w->r);
	case AGENT_OP_FS_STAT:
		fs_stat(fds, &w->r);
	case AGENT_OP_FS_REMOVE:
		fs_remove(fds, &w->r);
	case AGENT_OP_FS_WATCH:
		fs_watch(fds, &w->r);
	case AGENT_OP_FS_GET:
		fs_get(fds, &w->get);
	case AGENT_OP_FS_TAR:
		fs_tar(fds, &w->r);
	default:
		fs_mkdir(fds, &w->r);
	}
}

static int fs_decode(uint16_t op, struct rd *c, struct fs_work *ret)
{
	*ret = (struct fs_work){ .op = op, .r = { .user = "", .path = "/" } };
	if (op != AGENT_OP_FS_GET)
		return agent_fs_req_get(c, &ret->r);
	if (agent_get_req_get(c, &ret->get) < 0)
		return -EBADMSG;
	ret->r.user = ret->get.user;
	ret->r.path = ret->get.path;
	return 0;
}

static unsigned fs_pipes(uint16_t op)
{
	switch (op) {
	case AGENT_OP_FS_READ:
	case AGENT_OP_FS_LIST:
	case AGENT_OP_FS_GET:
	case AGENT_OP_FS_TAR:
	case AGENT_OP_FS_WATCH:
		return JOB_OUT;
	case AGENT_OP_FS_WRITE:
	case AGENT_OP_FS_UNTAR:
		return JOB_IN | JOB_COMMIT;
	default:
		return 0;
	}
}

void fs_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c)
{
	struct fs_work w;
	struct job_fds fds;
	struct stream *s;
	int k;

	if (fs_decode(op, c, &w) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed file request");
		return;
	}
	s = stream_new(a, id, op);
	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return;
	}
	k = job_fork(a, s, fs_pipes(op), &fds);
	if (k == 1 && op == AGENT_OP_FS_UNTAR)
		fs_untar(&fds, &w.r); /* becomes the user once it is confined */
	if (k == 1)
		fs_child(&fds, &w);
	if (k < 0)
		stream_result(a, s, (uint32_t)-k, AGENT_TAG_SPAWN_FAILED, "cannot start a process",
		              NULL, 0);
}
