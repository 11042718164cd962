/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rev.c - what a client calls a revision, and the commit it means
 *
 * A branch, a tag, HEAD, or a hash of at least four digits. Nothing of Git's revision language: no
 * "^", "~", "@{...}" or ":", so that a name costs what a lookup costs, and nothing that could be
 * taken for an option.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"

#define HASH_MIN 4

static bool is_hex(const char *s)
{
	return s[strspn(s, "0123456789abcdefABCDEF")] == '\0';
}

static int invalid(const char *rev, struct err *err)
{
	return err_tag(err, -EINVAL, ERR_INVALID_REVISION,
	               "'%.100s' is not a branch, a tag or a commit's hash", rev);
}

int rev_oid(const char *hash, git_oid *ret, struct err *err)
{
	if (strlen(hash) != REPO_SHA_SIZE - 1 || !is_hex(hash) || git_oid_fromstr(ret, hash) < 0)
		return err_tag(err, -EINVAL, ERR_INVALID_OBJECT_ID,
		               "'%.60s' is not a hash of 40 hexadecimal digits", hash);
	return 0;
}

bool repo_branch_valid(const char *name)
{
	char ref[REPO_REF_SIZE];
	int ok = 0;

	if (!*name || *name == '-' || strlen(name) > 250 || strcmp(name, "HEAD") == 0)
		return false;
	snprintf(ref, sizeof(ref), "refs/heads/%s", name);
	return git_reference_name_is_valid(&ok, ref) == 0 && ok;
}

int rev_head(git_repository *repo, char ret[REPO_REF_SIZE], struct err *err)
{
	autoref *head = NULL;
	const char *target;
	int rc = git_reference_lookup(&head, repo, "HEAD");

	if (rc < 0)
		return git_fail(rc, "read HEAD", err);
	target = git_reference_symbolic_target(head);
	if (!target || strncmp(target, "refs/heads/", 11) != 0)
		return err_tag(err, -ENOENT, ERR_NO_DEFAULT_BRANCH,
		               "the repository has no default branch");
	snprintf(ret, REPO_REF_SIZE, "%s", target + 11);
	return 0;
}

/* The commit that a reference leads to; -ENOENT without a message when there is none. */
static int by_ref(git_repository *repo, const char *prefix, const char *name, git_commit **ret,
                  struct err *err)
{
	char full[REPO_REF_SIZE];
	autoref *ref = NULL, *real = NULL;
	int n = snprintf(full, sizeof(full), "%s%s", prefix, name), ok = 0;

	if (n < 0 || (size_t)n >= sizeof(full) || git_reference_name_is_valid(&ok, full) < 0 || !ok)
		return -ENOENT;
	if (git_reference_lookup(&ref, repo, full) < 0 || git_reference_resolve(&real, ref) < 0)
		return -ENOENT;
	return commit_peel(repo, git_reference_target(real), ret, err);
}

static int by_hash(git_repository *repo, const char *hash, git_commit **ret, struct err *err)
{
	autoodb *odb = NULL;
	git_oid id, full;
	int rc = git_oid_fromstrn(&id, hash, strlen(hash));

	if (rc == 0 && (rc = git_repository_odb(&odb, repo)) == 0)
		rc = git_odb_exists_prefix(&full, odb, &id, strlen(hash));
	if (rc == GIT_EAMBIGUOUS)
		return err_tag(err, -EINVAL, ERR_AMBIGUOUS, "more than one object begins with '%s'",
		               hash);
	rc = rc < 0 ? -ENOENT : commit_peel(repo, &full, ret, err);
	if (rc == -ENOENT)
		return err_tag(err, -ENOENT, ERR_COMMIT_NOT_FOUND, "there is no commit '%s'", hash);
	return rc;
}

int rev_commit(git_repository *repo, const char *rev, git_commit **ret, struct err *err)
{
	char head[REPO_REF_SIZE];
	size_t n;
	int r;

	if (!rev || !*rev || strcmp(rev, "HEAD") == 0) {
		if ((r = rev_head(repo, head, err)) < 0)
			return r;
		r = by_ref(repo, "refs/heads/", head, ret, err);
		if (r == -ENOENT)
			return err_tag(err, -ENOENT, ERR_REFERENCE_NOT_FOUND,
			               "the default branch '%s' has no commits yet", head);
		return r;
	}
	n = strlen(rev);
	if (*rev == '-' || n >= REPO_REF_SIZE - 16 || rev[strcspn(rev, " ~^:?*[\\\x7f")] ||
	    strstr(rev, "..") || strstr(rev, "@{"))
		return invalid(rev, err);
	r = strncmp(rev, "refs/", 5) == 0 ? by_ref(repo, "", rev, ret, err) : -ENOENT;
	if (r == -ENOENT)
		r = by_ref(repo, "refs/heads/", rev, ret, err);
	if (r == -ENOENT)
		r = by_ref(repo, "refs/tags/", rev, ret, err);
	if (r != -ENOENT)
		return r;
	if (is_hex(rev) && n >= HASH_MIN && n <= REPO_SHA_SIZE - 1)
		return by_hash(repo, rev, ret, err);
	return err_tag(err, -ENOENT, ERR_REFERENCE_NOT_FOUND, "there is no branch or tag '%.200s'",
	               rev);
}

int rev_branch(git_repository *repo, const char *name, git_commit **ret, struct err *err)
{
	int r;

	if (!*name)
		return err_tag(err, -EINVAL, ERR_BRANCH_NAME_EMPTY, "the branch has no name");
	if (!repo_branch_valid(name))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'%.200s' is not a valid branch name", name);
	r = by_ref(repo, "refs/heads/", name, ret, err);
	if (r == -ENOENT)
		return err_tag(err, -ENOENT, ERR_BRANCH_NOT_FOUND, "there is no branch '%s'", name);
	return r;
}
