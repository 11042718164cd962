/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit.c - a commit made by the API
 *
 * Blobs first, then, as often as it takes: read the branch, make tree and commit on top of it, move
 * the branch if it still is where it was. So concurrent commits all succeed, one after another, and
 * none is lost; with expectedSha the first mismatch is an error.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "git/bounds.h"

#define TRIES_MAX 200
#define MESSAGE_MAX (256u << 10)

/* Strict: no line breaks, no text behind the padding. */
static int decode_base64(const char *p, size_t n, struct buf *ret)
{
	size_t pad = n >= 1 && p[n - 1] == '=' ? (n >= 2 && p[n - 2] == '=' ? 2 : 1) : 0;
	int k;

	if (n % 4 != 0 || n > INT32_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n - pad; i++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
		            p[i]) ||
		    !p[i])
			return -EINVAL;
	if (n == 0)
		return 0;
	if (!buf_reserve(ret, n / 4 * 3 + 1))
		return -ENOMEM;
	k = EVP_DecodeBlock(ret->p, (const unsigned char *)p, (int)n);
	if (k < 0)
		return -EINVAL;
	ret->len = (size_t)k - pad;
	return 0;
}

static int write_blob(git_repository *repo, const struct repo_change *c, git_oid *ret,
                      struct err *err)
{
	autobuf struct buf b = { 0 };
	int rc;

	if (c->base64) {
		rc = decode_base64(c->content, c->len, &b);
		if (rc == -EINVAL)
			return err_tag(err, rc, ERR_INVALID_BASE64_CONTENT,
			               "the content of '%.100s' is not base64", c->path);
		if (rc < 0)
			return err_set(err, rc, "out of memory");
		rc = git_blob_create_from_buffer(ret, repo, b.p ? (void *)b.p : "", b.len);
	} else {
		rc = git_blob_create_from_buffer(ret, repo, c->content, c->len);
	}
	return rc < 0 ? git_fail(rc, "write a file", err) : 0;
}

static int write_blobs(git_repository *repo, const struct repo_commit_new *n,
                       struct tree_edit *edits, struct repo_about *about, struct err *err)
{
	for (size_t i = 0; i < n->n_changes; i++) {
		const struct repo_change *c = &n->changes[i];
		int r = tree_path_check(c->path, err);

		edits[i] = (struct tree_edit){ .path = c->path, .keep_mode = !c->executable };
		if (r == 0 && !c->deleted) {
			edits[i].mode =
			        c->executable ? GIT_FILEMODE_BLOB_EXECUTABLE : GIT_FILEMODE_BLOB;
			r = write_blob(repo, c, &edits[i].blob, err);
		}
		if (r < 0) {
			about->path = c->path;
			return r;
		}
	}
	return 0;
}

static int sign(struct repos *g, const struct repo_commit_new *n, git_signature **ret,
                struct err *err)
{
	const char *name = n->author_name && *n->author_name ? n->author_name : "Pando";
	char mail[192];
	int rc;

	snprintf(mail, sizeof(mail), "noreply@%s",
	         *g->conf.domain ? g->conf.domain : "pando.localhost");
	rc = git_signature_now(ret, name,
	                       n->author_email && *n->author_email ? n->author_email : mail);
	return rc < 0 ? err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
	                        "the name and e-mail of an author must not contain '<', '>' or "
	                        "line breaks")
	              : 0;
}

static int conflict(const char *expected, const git_oid *actual, struct repo_about *about,
                    struct err *err)
{
	char sha[REPO_SHA_SIZE] = "";

	if (actual)
		git_oid_tostr(sha, sizeof(sha), actual);
	about->expected = expected;
	memcpy(about->actual, sha, sizeof(sha));
	return err_tag(err, -EEXIST, ERR_CONFLICTING_PARENT, "the branch is at %s, not at %s",
	               actual ? sha : "no commit", expected);
}

struct attempt {
	struct repos *g;
	const struct repo_commit_new *n;
	git_repository *repo;
	struct tree_edit *edits;
	git_signature *sig; /* owned */
	struct repo_update u;
	struct note note;
	struct hold *hold; /* owned */
};

static void attempt_done(struct attempt *a)
{
	note_close(&a->note);
	hold_keep(a->hold); /* what was written is there even if no branch moved */
	git_signature_free(a->sig);
	free(a->edits);
}

/* Where the branch is now; *ret_parent NULL: nowhere. */
static int find_parent(struct attempt *a, git_commit **ret_parent, struct repo_about *about,
                       struct err *err)
{
	struct err why = { 0 };
	int r = rev_branch(a->repo, a->u.ref + strlen("refs/heads/"), ret_parent, &why);
	const git_oid *at = r == 0 ? git_commit_id(*ret_parent) : NULL;
	char sha[REPO_SHA_SIZE] = "";

	if (r < 0 && r != -ENOENT) {
		*err = why;
		return r;
	}
	if (at)
		git_oid_tostr(sha, sizeof(sha), at);
	if (a->n->expected && strcasecmp(a->n->expected, sha) != 0)
		return conflict(a->n->expected, at, about, err);
	if (at)
		memcpy(a->u.old_sha, sha, sizeof(sha));
	else
		memset(a->u.old_sha, '0', REPO_SHA_SIZE - 1);
	return 0;
}

static int check_deleted(struct attempt *a, struct repo_about *about, struct err *err)
{
	for (size_t i = 0; i < a->n->n_changes; i++)
		if (!a->edits[i].mode && !a->edits[i].found) {
			about->path = a->edits[i].path;
			return err_tag(err, -ENOENT, ERR_PATH_NOT_FOUND,
			               "'%.100s' cannot be deleted: it does not exist",
			               a->edits[i].path);
		}
	return 0;
}

/* 1: the branch is somewhere else by now. */
static int try_once(struct attempt *a, git_oid *ret, struct repo_about *about, struct err *err)
{
	autocommit *parent = NULL;
	autotree *base = NULL, *tree = NULL;
	autoref *ref = NULL;
	const git_commit *parents[1];
	git_oid tree_id;
	int rc;

	if ((rc = find_parent(a, &parent, about, err)) < 0)
		return rc;
	if (parent && (rc = tree_get(a->repo, git_commit_tree_id(parent), &base, err)) < 0)
		return rc == -ENOENT ? git_fail(rc, "read the tree", err) : rc;
	if ((rc = tree_edit(a->repo, base, a->edits, a->n->n_changes, &tree_id, err)) < 0 ||
	    (rc = check_deleted(a, about, err)) < 0)
		return rc;
	if ((rc = git_tree_lookup(&tree, a->repo, &tree_id)) < 0)
		return git_fail(rc, "read the tree", err);
	parents[0] = parent;
	rc = git_commit_create(ret, a->repo, NULL, a->sig, a->sig, NULL, a->n->message, tree,
	                       parent ? 1 : 0, parents);
	if (rc < 0)
		return git_fail(rc, "write the commit", err);
	git_oid_tostr(a->u.new_sha, sizeof(a->u.new_sha), ret);
	if ((rc = note_plan(&a->note, &a->u, 1, err)) < 0)
		return rc;
	rc = parent ? git_reference_create_matching(&ref, a->repo, a->u.ref, ret, /* force= */ 1,
	                                            git_commit_id(parent), NULL)
	            : git_reference_create(&ref, a->repo, a->u.ref, ret, /* force= */ 0, NULL);
	if (rc == GIT_EMODIFIED || rc == GIT_EEXISTS || rc == GIT_ELOCKED)
		return 1;
	if (rc < 0 && !parent)
		return branch_clash(a->u.ref + strlen("refs/heads/"), err);
	return rc < 0 ? git_fail(rc, "move the branch", err) : 0;
}

static int check_new(const struct repo_commit_new *n, struct err *err)
{
	size_t len = strlen(n->message);

	if (len > MESSAGE_MAX || !utf8_valid(n->message, len))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "a message must have at most %u bytes of UTF-8", MESSAGE_MAX);
	if (n->n_changes > REPO_CHANGES_MAX)
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "a commit can change at most %d files", REPO_CHANGES_MAX);
	if (n->branch && !*n->branch)
		return err_tag(err, -EINVAL, ERR_BRANCH_NAME_EMPTY, "the branch has no name");
	if (n->branch && !repo_branch_valid(n->branch))
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'%.200s' is not a valid branch name", n->branch);
	return 0;
}

static int prepare(struct attempt *a, struct repo_about *about, struct err *err)
{
	char branch[REPO_REF_SIZE - 16];
	char head[REPO_REF_SIZE];
	int r;

	if (!a->n->branch && (r = rev_head(a->repo, head, err)) < 0)
		return r;
	snprintf(branch, sizeof(branch), "%s", a->n->branch ? a->n->branch : head);
	snprintf(a->u.ref, sizeof(a->u.ref), "refs/heads/%s", branch);
	a->edits = calloc(a->n->n_changes + 1, sizeof(*a->edits));
	if (!a->edits)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = sign(a->g, a->n, &a->sig, err)) < 0)
		return r;
	return write_blobs(a->repo, a->n, a->edits, about, err);
}

static int commit_marked(struct attempt *a, git_oid *ret, struct repo_about *about, struct err *err)
{
	int r = prepare(a, about, err);

	for (int i = 0; r == 0 && i < TRIES_MAX; i++) {
		r = try_once(a, ret, about, err);
		if (r <= 0)
			return r;
		usleep(1000u << MIN(i, 5)); /* whoever holds the branch's lock is quick */
		r = 0;
	}
	return r < 0 ? r
	             : err_tag(err, -EBUSY, ERR_CONFLICT,
	                       "too many concurrent commits to this branch: try again");
}

int repo_commit_create(struct repos *g, const struct store_repo *r, const struct repo_commit_new *n,
                       struct arena *mem, struct repo_commit *ret, struct repo_about *about,
                       struct err *err)
{
	AUTO(attempt_done) struct attempt a = { .g = g, .n = n, .note = NOTE_NONE };
	autorepo *repo = NULL;
	autocommit *c = NULL;
	int64_t bytes = 0;
	git_oid id;
	int rc;

	for (size_t i = 0; i < n->n_changes; i++)
		bytes += (int64_t)n->changes[i].len;
	if ((rc = check_new(n, err)) < 0 ||
	    (rc = hold_new(g, r->account, r->id, bytes, &a.hold, err)) < 0 ||
	    (rc = repo_open(g, r, &repo, err)) < 0 ||
	    (rc = note_open(g, r->id, n->by, &a.note, err)) < 0 ||
	    (rc = note_hold(&a.note, err)) < 0)
		return rc;
	a.repo = repo;
	if ((rc = commit_marked(&a, &id, about, err)) < 0)
		return rc;
	if ((rc = note_told(&a.note, r, &a.u, 1, err)) < 0)
		return rc;
	if ((rc = git_commit_lookup(&c, repo, &id)) < 0)
		return git_fail(rc, "read the commit", err);
	return commit_read(c, mem, ret, err);
}
