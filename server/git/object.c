/* SPDX-License-Identifier: Apache-2.0 */
/* object.c - commits, tags, blobs and trees, by hash */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "git/bounds.h"

static void read_person(const git_signature *s, struct arena *mem, struct repo_person *ret)
{
	*ret = (struct repo_person){ 0 };
	if (s)
		*ret = (struct repo_person){ .name = arena_str(mem, s->name),
			                     .email = arena_str(mem, s->email),
			                     .when_s = s->when.time,
			                     .offset_min = s->when.offset };
}

int commit_read(git_commit *c, struct arena *mem, struct repo_commit *ret, struct err *err)
{
	const char *msg = git_commit_message(c);
	unsigned n = git_commit_parentcount(c);

	*ret = (struct repo_commit){ .message = msg ? arena_str(mem, msg) : "" };
	git_oid_tostr(ret->sha, sizeof(ret->sha), git_commit_id(c));
	git_oid_tostr(ret->tree, sizeof(ret->tree), git_commit_tree_id(c));
	read_person(git_commit_author(c), mem, &ret->author);
	read_person(git_commit_committer(c), mem, &ret->committer);
	ret->parents = arena_array(mem, n, sizeof(*ret->parents));
	for (unsigned i = 0; ret->parents && i < n; i++)
		git_oid_tostr(ret->parents[i], REPO_SHA_SIZE, git_commit_parent_id(c, i));
	ret->n_parents = n;
	return arena_check(mem, err);
}

/* Opens the repository and finds an object of that type. */
static int lookup(struct repos *g, const struct store_repo *r, const char *hash, git_object_t type,
                  enum err_code tag, git_repository **repo, git_object **ret, struct err *err)
{
	git_object_t is;
	git_oid id;
	int rc;

	if ((rc = rev_oid(hash, &id, err)) < 0 || (rc = repo_open(g, r, repo, err)) < 0)
		return rc;
	if ((rc = meta_check(*repo, &id, &is, err)) < 0 && rc != -ENOENT)
		return rc;
	if (rc < 0 || is != type || git_object_lookup(ret, *repo, &id, type) < 0)
		return err_tag(err, -ENOENT, tag, "there is no %s '%s'",
		               git_object_type2string(type), hash);
	return 0;
}

int repo_commit(struct repos *g, const struct store_repo *r, const char *hash, struct arena *mem,
                struct repo_commit *ret, struct err *err)
{
	autorepo *repo = NULL;
	autoobject *o = NULL;
	int rc = lookup(g, r, hash, GIT_OBJECT_COMMIT, ERR_COMMIT_NOT_FOUND, &repo, &o, err);

	return rc < 0 ? rc : commit_read((git_commit *)o, mem, ret, err);
}

int blob_size_check(git_object_size_t n, struct err *err)
{
	if (n <= CONTENT_MAX)
		return 0;
	return err_tag(err, -EFBIG, ERR_GET_CONTENT_FAILED,
	               "the file has %llu bytes, more than the %u of a reply: clone the repository "
	               "instead",
	               (unsigned long long)n, CONTENT_MAX);
}

int repo_blob(struct repos *g, const struct store_repo *r, const char *hash, struct arena *mem,
              struct repo_blob *ret, struct err *err)
{
	autorepo *repo = NULL;
	autoblob *b = NULL;
	autoodb *odb = NULL;
	git_object_t type;
	size_t len = 0;
	git_oid id;
	int rc;

	if ((rc = rev_oid(hash, &id, err)) < 0 || (rc = repo_open(g, r, &repo, err)) < 0)
		return rc;
	/* Asked before it is read. */
	if (git_repository_odb(&odb, repo) == 0 &&
	    git_odb_read_header(&len, &type, odb, &id) == 0 && type == GIT_OBJECT_BLOB &&
	    (rc = blob_size_check(len, err)) < 0)
		return rc;
	if (git_blob_lookup(&b, repo, &id) < 0)
		return err_tag(err, -ENOENT, ERR_BLOB_NOT_FOUND, "there is no blob '%s'", hash);
	git_oid_tostr(ret->sha, sizeof(ret->sha), &id);
	ret->size = git_blob_rawsize(b);
	ret->content = arena_copy(mem, git_blob_rawcontent(b), ret->size);
	return arena_check(mem, err);
}

void entry_read(git_odb *odb, const git_tree_entry *e, struct repo_entry *ret)
{
	git_object_t type;
	size_t len = 0;

	git_oid_tostr(ret->sha, sizeof(ret->sha), git_tree_entry_id(e));
	ret->dir = git_tree_entry_type(e) == GIT_OBJECT_TREE;
	if (!ret->dir && git_odb_read_header(&len, &type, odb, git_tree_entry_id(e)) < 0)
		len = 0; /* a submodule: its commit is elsewhere */
	ret->size = len;
}

int repo_tree(struct repos *g, const struct store_repo *r, const char *hash, struct arena *mem,
              struct repo_tree *ret, struct err *err)
{
	autorepo *repo = NULL;
	autoobject *o = NULL;
	autoodb *odb = NULL;
	int rc = lookup(g, r, hash, GIT_OBJECT_TREE, ERR_TREE_NOT_FOUND, &repo, &o, err);

	if (rc < 0)
		return rc;
	if ((rc = git_repository_odb(&odb, repo)) < 0)
		return git_fail(rc, "read objects", err);
	git_oid_tostr(ret->sha, sizeof(ret->sha), git_object_id(o));
	ret->n = git_tree_entrycount((git_tree *)o);
	if (ret->n > TREE_ENTRIES_MAX)
		return err_tag(err, -EFBIG, ERR_GIT_TOO_LARGE,
		               "the tree has %zu entries, more than the %d of a reply: clone the "
		               "repository instead",
		               ret->n, TREE_ENTRIES_MAX);
	ret->v = arena_array(mem, ret->n, sizeof(*ret->v));
	for (size_t i = 0; ret->v && i < ret->n; i++) {
		const git_tree_entry *e = git_tree_entry_byindex((git_tree *)o, i);

		entry_read(odb, e, &ret->v[i]);
		ret->v[i].path = arena_str(mem, git_tree_entry_name(e));
	}
	return arena_check(mem, err);
}

static void read_tag(git_tag *t, struct arena *mem, struct repo_tag *ret)
{
	const char *msg = git_tag_message(t);

	*ret = (struct repo_tag){ .name = arena_str(mem, git_tag_name(t)),
		                  .message = msg ? arena_str(mem, msg) : NULL };
	read_person(git_tag_tagger(t), mem, &ret->tagger);
	git_oid_tostr(ret->target, sizeof(ret->target), git_tag_target_id(t));
	git_oid_tostr(ret->sha, sizeof(ret->sha), git_tag_id(t));
}

int repo_tag_object(struct repos *g, const struct store_repo *r, const char *hash,
                    struct arena *mem, struct repo_tag *ret, struct err *err)
{
	autorepo *repo = NULL;
	autoobject *o = NULL;
	int rc = lookup(g, r, hash, GIT_OBJECT_TAG, ERR_TAG_NOT_FOUND, &repo, &o, err);

	if (rc < 0)
		return rc;
	read_tag((git_tag *)o, mem, ret);
	return arena_check(mem, err);
}

bool tag_ref_read(git_repository *repo, git_reference *ref, struct arena *mem, struct repo_tag *ret)
{
	const git_oid *id = git_reference_target(ref);
	autoobject *o = NULL;
	git_object_t type;
	struct err why; /* one that is too large is named, and not read */

	if (!id)
		return false;
	*ret = (struct repo_tag){ 0 };
	if (meta_check(repo, id, &type, &why) == 0 && type == GIT_OBJECT_TAG &&
	    git_object_lookup(&o, repo, id, GIT_OBJECT_TAG) == 0) {
		read_tag((git_tag *)o, mem, ret);
	} else {
		git_oid_tostr(ret->target, sizeof(ret->target), id);
		git_oid_tostr(ret->sha, sizeof(ret->sha), id);
	}
	ret->name = arena_str(mem, git_reference_shorthand(ref));
	return true;
}
