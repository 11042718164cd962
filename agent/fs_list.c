/* SPDX-License-Identifier: Apache-2.0 */
/* fs_list.c - a directory as a stream of entries: kind (u8), name (text) */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

#define LIST_CHUNK (32u << 10) /* bytes collected before they are sent */

static uint8_t entry_kind(DIR *d, const struct dirent *de)
{
	struct stat st;

	switch (de->d_type) {
	case DT_REG:
		return AGENT_FILE;
	case DT_DIR:
		return AGENT_DIR;
	case DT_LNK:
		return AGENT_SYMLINK;
	case DT_UNKNOWN:
		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			return fs_kind(st.st_mode);
		return AGENT_OTHER;
	default:
		return AGENT_OTHER;
	}
}

void fs_list(const struct job_fds *fds, const struct agent_fs_req *r)
{
	DIR *d = opendir(r->path);
	struct buf b = { 0 };
	int k = 0;

	if (!d)
		child_fail(fds, errno, AGENT_TAG_NONE, "list '%.200s': %s", r->path,
		           err_name(errno));
	for (;;) {
		struct dirent *de;

		errno = 0;
		de = readdir(d);
		if (!de && errno)
			child_fail(fds, errno, AGENT_TAG_NONE, "list '%.200s': %s", r->path,
			           err_name(errno));
		if (de && (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..")))
			continue;
		if (de) {
			buf_put_u8(&b, entry_kind(d, de));
			agent_text_put(&b, de->d_name);
		}
		if (b.failed)
			child_fail(fds, ENOMEM, AGENT_TAG_NONE, "list '%.200s': out of memory",
			           r->path);
		if (b.len >= LIST_CHUNK || !de) {
			k = io_write_all(fds->out, b.p, b.len);
			buf_reset(&b);
		}
		if (k < 0)
			child_fail(fds, -k, AGENT_TAG_NONE, "list '%.200s': %s", r->path,
			           err_name(k));
		if (!de)
			break;
	}
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
