/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle.c - a repository as one file, for guests that cannot reach the server
 *
 * Git's own bundle of all references. A repository that was imported without its whole history has
 * commits whose parents are not there; which ones goes along, because without it nobody could
 * unpack the bundle.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "git/git_internal.h"

#define BUNDLE_MS (20u * 60 * 1000)
#define SHALLOW_MAX (1u << 20) /* bytes of the list of commits without parents */

void repo_url(const struct repos *g, const char *id, char *ret, size_t size)
{
	snprintf(ret, size, "https://git.%s/%s", g->conf.domain, id);
}

int repo_tip(struct repos *g, const struct store_repo *r, const char *rev, char ret[REPO_SHA_SIZE],
             struct err *err)
{
	autorepo *repo = NULL;
	autocommit *c = NULL;
	int rc;

	ret[0] = '\0';
	if ((rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	if (!(rev && *rev) && git_repository_head_unborn(repo) == 1)
		return 0;
	if ((rc = rev_commit(repo, rev, &c, err)) < 0)
		return rc;
	git_oid_tostr(ret, REPO_SHA_SIZE, git_commit_id(c));
	return 0;
}

static int write_piece(void *ctx, const uint8_t *p, size_t n, struct err *err)
{
	int r = io_write_all(*(int *)ctx, p, n);

	return r < 0 ? err_sys(err, r, "write a bundle") : 0;
}

static bool has_refs(git_repository *repo)
{
	autorefs *it = NULL;
	const char *name;

	return git_reference_iterator_new(&it, repo) == 0 &&
	       git_reference_next_name(&name, it) == 0;
}

int repo_bundle(struct repos *g, const struct store_repo *r, int *ret_fd, char **ret_shallow,
                struct err *err)
{
	const char *const argv[] = { GIT_PROGRAM, "bundle", "create",
		                     "-q",        "-",      "--exclude=refs/pando-sync/*",
		                     "--all",     NULL };
	const struct repo_client by = { .holder = r->account, .fd = -1 };
	char path[PATH_MAX], tmp[PATH_MAX];
	autorun struct run_result res = { 0 };
	autofree char *shallow = NULL;
	autorepo *repo = NULL;
	autofd int fd = -1;
	int rc;

	*ret_fd = -1;
	*ret_shallow = NULL;
	if ((rc = repo_open(g, r, &repo, err)) < 0 || !has_refs(repo))
		return rc;
	repo_path(g, r->id, path);
	snprintf(tmp, sizeof(tmp), "%s/tmp", g->root);
	fd = open(tmp, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, -errno, "open a file for a bundle");
	rc = run_git(g,
	             &(struct run_opts){ .repo = path,
	                                 .argv = argv,
	                                 .client = &by,
	                                 .mem_mb = SERVICE_MB,
	                                 .limit_ms = BUNDLE_MS,
	                                 .each = write_piece,
	                                 .ctx = &fd },
	             &res, err);
	if (rc < 0)
		return rc;
	if (res.status != 0)
		return err_tag(err, -EIO, ERR_GIT_ERROR, "cannot pack the repository: %.*s",
		               (int)MIN(res.err_text.len, (size_t)200), (char *)res.err_text.p);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), "/shallow");
	rc = io_read_file(AT_FDCWD, path, SHALLOW_MAX, &shallow, NULL);
	if (rc < 0 && rc != -ENOENT)
		return err_sys(err, rc, "read which commits have no parents");
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(err, -errno, "read a bundle");
	*ret_fd = TAKE_FD(fd);
	*ret_shallow = TAKE_PTR(shallow);
	return 0;
}
