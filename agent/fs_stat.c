/* SPDX-License-Identifier: Apache-2.0 */
/* fs_stat.c - attributes of a file, following links; of a dangling link, its own */
#include <errno.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"

void fs_stat_of(const struct stat *st, struct agent_stat *ret)
{
	*ret = (struct agent_stat){
		.kind = fs_kind(st->st_mode),
		.size = (uint64_t)st->st_size,
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
	};
}

void fs_stat(const struct job_fds *fds, const struct agent_fs_req *r)
{
	struct agent_stat m;
	struct buf b = { 0 };
	struct stat st;

	if (stat(r->path, &st) < 0 && (errno != ENOENT || lstat(r->path, &st) < 0))
		child_fail(fds, errno, AGENT_TAG_NONE, "stat '%.200s': %s", r->path,
		           err_name(errno));
	fs_stat_of(&st, &m);
	agent_stat_put(&b, &m);
	if (b.failed)
		child_fail(fds, ENOMEM, AGENT_TAG_NONE, "stat '%.200s': out of memory", r->path);
	child_finish(fds, 0, AGENT_TAG_NONE, "", b.p, b.len);
}
