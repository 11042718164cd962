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

int source_url_check(const char *url, struct err *err)
{
	size_t n = url ? strlen(url) : 0;

	if (n == 0 || n > SOURCE_URL_MAX ||
	    (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'url' must be an address that begins with https:// or http://");
	for (const char *p = url; *p; p++)
		if ((unsigned char)*p <= ' ' || *p == 0x7f || *p == '\\')
			return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
			               "'url' has a space or a control character");
	return 0;
}

/* Without the user and the password. */
void source_hide(const char *url, char *ret, size_t size)
{
	const char *host = strstr(url, "://"), *at, *slash;

	host = host ? host + 3 : url;
	slash = host + strcspn(host, "/?#");
	at = memchr(host, '@', (size_t)(slash - host));
	for (const char *p = at; p; p = memchr(p + 1, '@', (size_t)(slash - p - 1)))
		at = p;
	snprintf(ret, size, "%.*s%s", (int)(host - url), url, at ? at + 1 : host);
}

int source_failed(const char *url, const char *says, struct repo_about *about, struct err *err)
{
	static const char *const denied[] = { "Authentication failed", "could not read Username",
		                              "could not read Password", "error: 401",
		                              "error: 403" };
	const char *proxy = strstr(says, "proxy: ");
	enum err_code tag = ERR_SOURCE_NOT_FOUND;
	const char *plain = about->url;

	source_hide(url, about->url, sizeof(about->url));
	for (size_t i = 0; i < ARRAY_SIZE(denied); i++)
		if (strstr(says, denied[i]))
			tag = ERR_SOURCE_UNAUTHORIZED;
	if (proxy)
		return err_tag(err, -EINVAL, ERR_SOURCE_NOT_FOUND,
		               "'%.100s' cannot be reached: %.150s", plain, proxy + 7);
	return err_tag(err, -EINVAL, tag, "'%.150s' %s", plain,
	               tag == ERR_SOURCE_NOT_FOUND ? "is not a Git repository, or does not exist"
	                                           : "needs a valid user name and password");
}

/* ---- what there is ---- */

struct plan {
	char head[REPO_REF_SIZE]; /* the source's default branch, or "" */
	bool is_branch, is_tag, is_hash, empty;
};

static bool line_is(const char *line, size_t n, const char *prefix, const char *name)
{
	const char *tab = memchr(line, '\t', n);
	size_t k = strlen(prefix), m = strlen(name);

	if (!tab)
		return false;
	tab++;
	return (size_t)(line + n - tab) == k + m && memcmp(tab, prefix, k) == 0 &&
	       memcmp(tab + k, name, m) == 0;
}

static void read_refs(const struct buf *out, const char *rev, struct plan *ret)
{
	const char *p = (char *)out->p, *end = p + out->len;

	ret->empty = out->len == 0;
	while (p && p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = nl ? (size_t)(nl - p) : (size_t)(end - p);

		if (n > 16 && memcmp(p, "ref: refs/heads/", 16) == 0) {
			/* The last line may be cut off anywhere. */
			const char *tab = memchr(p + 16, '\t', n - 16);
			size_t len = tab ? (size_t)(tab - p - 16) : n - 16;

			snprintf(ret->head, sizeof(ret->head), "%.*s",
			         (int)MIN(len, sizeof(ret->head) - 1), p + 16);
		}
		ret->is_branch |= rev && line_is(p, n, "refs/heads/", rev);
		ret->is_tag |= rev && line_is(p, n, "refs/tags/", rev);
		p = nl ? nl + 1 : end;
	}
	ret->is_hash =
	        rev && strlen(rev) == REPO_SHA_SIZE - 1 && !rev[strspn(rev, "0123456789abcdef")];
	if (!repo_branch_valid(ret->head))
		ret->head[0] = '\0';
}

static int ask(struct repos *g, const char *path, const char *url, const char *rev,
               struct plan *ret, struct repo_about *about, struct err *err)
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
	read_refs(&res.out, rev, ret);
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
	char spec[2 * REPO_REF_SIZE + 64];
	const char *refspecs[4] = { spec, NULL, NULL, NULL };
	struct plan plan = { 0 };
	int r;

	if ((r = ask(g, path, url, rev, &plan, about, err)) < 0)
		return r;
	*ret_branch = '\0';
	if (plan.empty && !rev)
		return 0;
	if (rev && !plan.is_branch && !plan.is_tag && !plan.is_hash) {
		about->revision = rev;
		return err_tag(err, -EINVAL, ERR_INVALID_REVISION,
		               "the source has no branch, tag or commit '%.100s'", rev);
	}
	if (!rev && !*plan.head && !all)
		return source_failed(url, "", about, err);
	/* The branch that this becomes: the one it is there; of a tag or a commit, the one asked
	 * for. */
	snprintf(ret_branch, REPO_REF_SIZE, "%s",
	         plan.is_branch ? rev
	         : rev          ? (want         ? want
	                           : *plan.head ? plan.head
	                                        : "main")
	         : *plan.head   ? plan.head
	                        : (want ? want : "main"));
	if (plan.is_branch || !rev)
		snprintf(spec, sizeof(spec), "+refs/heads/%s:refs/heads/%s", ret_branch,
		         ret_branch);
	else if (plan.is_tag)
		snprintf(spec, sizeof(spec), "+refs/tags/%s:refs/tags/%s", rev, rev);
	else
		snprintf(spec, sizeof(spec), "+%s:refs/heads/%s", rev, ret_branch);
	if (all) {
		if (plan.is_branch || !rev)
			snprintf(spec, sizeof(spec), "+refs/heads/*:refs/heads/*");
		else
			refspecs[2] = "+refs/heads/*:refs/heads/*";
		refspecs[1] = "+refs/tags/*:refs/tags/*";
	}
	if ((r = source_fetch(g, path, url, refspecs, depth, about, err)) < 0)
		return r;
	return rev && !plan.is_branch && plan.is_tag ? branch_from(path, rev, ret_branch, err) : 0;
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
