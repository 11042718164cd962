/* SPDX-License-Identifier: Apache-2.0 */
/*
 * import_source.c - a repository from another Git server, with its history
 *
 * Asks first what there is (ls-remote), decides which references to take, then fetches these. Both
 * are git in a jail whose only way out is our proxy.
 */
#include "git/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define ASK_MS 60000
#define FETCH_MS (30 * 60000u)
#define REFS_BYTES (32u << 20)

static int ask(struct repos *g, const char *path, const char *url, const char *rev,
               struct source_refs *ret, struct repo_about *about, struct err *err)
{
	AUTO(source_auth_done) struct source_auth auth;
	const char *argv[] = {
		GIT_PROGRAM, "ls-remote", "--symref", "--quiet", "--", auth.url, NULL
	};
	autorun struct run_result res = { 0 };
	int r;

	source_auth(url, &auth);
	r = run_git(g,
	            &(struct run_opts){ .repo = path,
	                                .argv = argv,
	                                .env = auth.env,
	                                .network = true,
	                                .out_max = REFS_BYTES,
	                                .limit_ms = ASK_MS },
	            &res, err);

	if (r == -ETIMEDOUT)
		return source_failed(url, "", about, err);
	if (r < 0)
		return r;
	if (res.status != 0)
		return source_failed(url, (char *)res.err_text.p, about, err);
	source_refs_read(&res.out, rev, ret);
	return 0;
}

/* ---- fetch ---- */

int source_fetch(struct repos *g, const char *path, const char *url, const char *const *refspecs,
                 int64_t depth, struct repo_about *about, struct err *err)
{
	const char *argv[16] = { GIT_PROGRAM,
		                 "fetch",
		                 "--quiet",
		                 "--no-write-fetch-head",
		                 "--no-auto-maintenance",
		                 "--no-recurse-submodules" };
	AUTO(source_auth_done) struct source_auth auth;
	autorun struct run_result res = { 0 };
	char how_deep[32];
	size_t n = 6;
	int r;

	if (depth > 0) {
		snprintf(how_deep, sizeof(how_deep), "--depth=%" PRId64, depth);
		argv[n++] = how_deep;
	}
	source_auth(url, &auth);
	argv[n++] = "--";
	argv[n++] = auth.url;
	for (size_t i = 0; refspecs[i] && n < 15; i++)
		argv[n++] = refspecs[i];
	argv[n] = NULL;
	r = run_git(g,
	            &(struct run_opts){ .repo = path,
	                                .argv = argv,
	                                .env = auth.env,
	                                .network = true,
	                                .write = true,
	                                .mem_mb = SERVICE_MB,
	                                .net_max = IMPORT_BYTES_MAX,
	                                .out_max = 1u << 20,
	                                .limit_ms = FETCH_MS },
	            &res, err);
	if (r < 0)
		return r;
	return res.status == 0 ? 0 : source_failed(url, (char *)res.err_text.p, about, err);
}

static int set_head(const char *path, const char *branch, struct err *err)
{
	char ref[REPO_REF_SIZE + 16];
	autorepo *repo = NULL;
	int rc;

	snprintf(ref, sizeof(ref), "refs/heads/%s", branch);
	if ((rc = git_repository_open_bare(&repo, path)) < 0 ||
	    (rc = git_repository_set_head(repo, ref)) < 0)
		return git_fail(rc, "set the default branch", err);
	return 0;
}

/* A tag or a hash becomes a branch. */
static int branch_from(const char *path, const char *rev, const char *branch, struct err *err)
{
	char ref[REPO_REF_SIZE];
	autorepo *repo = NULL;
	autocommit *c = NULL;
	autoref *made = NULL;
	int rc;

	if ((rc = git_repository_open_bare(&repo, path)) < 0)
		return git_fail(rc, "open the repository", err);
	if ((rc = rev_commit(repo, rev, &c, err)) < 0)
		return rc;
	snprintf(ref, sizeof(ref), "refs/heads/%s", branch);
	rc = git_reference_create(&made, repo, ref, git_commit_id(c), /* force= */ 1, NULL);
	return rc < 0 ? git_fail(rc, "make the branch", err) : 0;
}

int source_take(struct repos *g, const char *path, const char *url, const char *rev, bool all,
                int64_t depth, const char *want, char ret_branch[REPO_REF_SIZE],
                struct repo_about *about, struct err *err)
{
	struct source_refs refs = { 0 };
	struct source_plan plan = { 0 };
	int r;

	*ret_branch = '\0';
	if ((r = ask(g, path, url, rev, &refs, about, err)) < 0)
		return r;
	if (refs.empty && !rev)
		return 0;
	if ((r = source_plan(&refs, url, rev, all, want, &plan, about, err)) < 0)
		return r;
	snprintf(ret_branch, REPO_REF_SIZE, "%s", plan.branch);
	if ((r = source_fetch(g, path, url, plan.refspecs, depth, about, err)) < 0)
		return r;
	return plan.is_tag ? branch_from(path, rev, ret_branch, err) : 0;
}

int import_source(struct repos *g, const char *account, const char *path,
                  const struct repo_source *source, const char *branch, struct repo_about *about,
                  struct err *err)
{
	const char *rev = source->rev && *source->rev ? source->rev : NULL;
	char head[REPO_REF_SIZE];
	int64_t room;
	int r;

	if (rev && !repo_branch_valid(rev)) {
		about->revision = rev;
		return err_tag(err, -EINVAL, ERR_INVALID_REVISION, "'%.100s' is not a revision",
		               rev);
	}
	if ((r = source_url_check(source->url, err)) < 0 ||
	    (r = quota_room(g, account, &room, err)) < 0 ||
	    (r = source_take(g, path, source->url, rev, source->all_branches, source->depth, branch,
	                     head, about, err)) < 0)
		return r;
	if (*head && (r = set_head(path, head, err)) < 0)
		return r;
	if (room != INT64_MAX && repo_measure(path) > room)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "the repository is larger than what the account may still store");
	return 0;
}
