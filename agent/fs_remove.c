/* SPDX-License-Identifier: Apache-2.0 */
/* fs_remove.c - removes a file, an empty directory, or with `deep` a whole tree; links are not
 * followed */
#include <errno.h>
#include <fts.h>
#include <stdint.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/err.h"

/* fts(3) changes into directories and checks that they are still the same: no path limit, no race.
 */
static int remove_tree(const char *path)
{
	char *paths[] = { (char *)(uintptr_t)path, NULL };
	FTS *f = fts_open(paths, FTS_PHYSICAL, NULL);
	int first = 0;
	FTSENT *e;

	if (!f)
		return errno;
	while (errno = 0, (e = fts_read(f))) {
		int err_no = 0;

		switch (e->fts_info) {
		case FTS_D:
			continue; /* comes again as FTS_DP when it is empty */
		case FTS_DNR:
		case FTS_ERR:
		case FTS_NS:
			err_no = e->fts_errno;
			break;
		case FTS_DP:
			err_no = rmdir(e->fts_accpath) < 0 ? errno : 0;
			break;
		default:
			err_no = unlink(e->fts_accpath) < 0 ? errno : 0;
			break;
		}
		/* Reports the first failure: parents that are not empty are only a consequence. */
		if (!first && err_no && !(err_no == ENOENT && e->fts_level > 0))
			first = err_no;
	}
	if (!first)
		first = errno;
	fts_close(f);
	return first;
}

void fs_remove(const struct job_fds *fds, const struct agent_fs_req *r)
{
	int e;

	if (r->deep)
		e = remove_tree(r->path);
	else if (unlink(r->path) == 0)
		e = 0;
	else if (errno == EISDIR || errno == EPERM)
		e = rmdir(r->path) < 0 ? (errno == ENOTDIR ? EPERM : errno) : 0;
	else
		e = errno;
	if (e)
		child_fail(fds, e, AGENT_TAG_NONE, "remove '%.200s': %s", r->path, err_name(e));
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}
