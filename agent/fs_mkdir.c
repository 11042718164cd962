/* SPDX-License-Identifier: Apache-2.0 */
/* fs_mkdir.c - creates a directory; with `deep` also missing parents, and an existing one is fine
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "base/err.h"

static int make(const struct agent_fs_req *r)
{
	size_t len = strlen(r->path);
	struct stat st;
	int e;

	while (len > 1 && r->path[len - 1] == '/')
		len--;
	if (r->deep) {
		size_t dir = len;

		while (dir > 1 && r->path[dir - 1] != '/')
			dir--;
		e = fs_make_parents(r->path, dir > 1 ? dir - 1 : 1);
		if (e)
			return e;
	}
	if (mkdir(r->path, 0755) < 0) {
		e = errno;
		return r->deep && e == EEXIST && stat(r->path, &st) == 0 && S_ISDIR(st.st_mode) ? 0
		                                                                                : e;
	}
	return r->mode && chmod(r->path, r->mode) < 0 ? errno : 0;
}

void fs_mkdir(const struct job_fds *fds, const struct agent_fs_req *r)
{
	int e = make(r);

	if (e)
		child_fail(fds, e, AGENT_TAG_NONE, "make directory '%.200s': %s", r->path,
		           err_name(e));
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
