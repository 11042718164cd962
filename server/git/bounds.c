/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c - limits on what is read of a repository for one question */
#include "git/bounds.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

#define LOOK_STEPS 64u /* between two looks at the clock and the client */

int client_left(struct err *err)
{
	return err_tag(err, -ECANCELED, ERR_UNAVAILABLE, "the client left before the answer");
}

int client_check(const struct repo_client *c, struct err *err)
{
	struct pollfd f = { .fd = c ? c->fd : -1, .events = POLLRDHUP };

	return f.fd >= 0 && poll(&f, 1, 0) == 1 ? client_left(err) : 0;
}

struct bounds bounds_begin(const struct repo_client *client, unsigned limit_ms)
{
	return (struct bounds){ .client = client,
		                .deadline = deadline_in(limit_ms),
		                .limit_s = limit_ms / 1000,
		                .trees = BOUNDS_TREES,
		                .entries = BOUNDS_ENTRIES };
}

int bounds_look(struct bounds *b, struct err *err)
{
	if (b->deadline && deadline_left(b->deadline) == 0)
		return err_tag(err, -ETIMEDOUT, ERR_GIT_TOO_LARGE,
		               "the repository is too large for this: it took longer than %u "
		               "seconds",
		               b->limit_s);
	return client_check(b->client, err);
}

int bounds_step(struct bounds *b, struct err *err)
{
	return b->steps++ % LOOK_STEPS ? 0 : bounds_look(b, err);
}

int meta_check(git_repository *repo, const git_oid *id, git_object_t *ret_type, struct err *err)
{
	autoodb *odb = NULL;
	size_t len = 0, max;
	int rc = git_repository_odb(&odb, repo);

	if (rc < 0)
		return git_fail(rc, "read objects", err);
	if (git_odb_read_header(&len, ret_type, odb, id) < 0)
		return -ENOENT;
	max = *ret_type == GIT_OBJECT_TREE ? TREE_BYTES_MAX : META_BYTES_MAX;
	if (*ret_type != GIT_OBJECT_BLOB && len > max)
		return err_tag(err, -EFBIG, ERR_GIT_TOO_LARGE,
		               "a %s has %zu bytes, more than the %zu that are read here: clone "
		               "the repository instead",
		               git_object_type2string(*ret_type), len, max);
	return 0;
}

int tree_get(git_repository *repo, const git_oid *id, git_tree **ret, struct err *err)
{
	git_object_t type;
	int r = meta_check(repo, id, &type, err);

	if (r < 0)
		return r;
	return type != GIT_OBJECT_TREE || git_tree_lookup(ret, repo, id) < 0 ? -ENOENT : 0;
}

int commit_get(git_repository *repo, const git_oid *id, git_commit **ret, struct err *err)
{
	git_object_t type;
	int r = meta_check(repo, id, &type, err);

	if (r < 0)
		return r;
	return type != GIT_OBJECT_COMMIT || git_commit_lookup(ret, repo, id) < 0 ? -ENOENT : 0;
}

int commit_peel(git_repository *repo, const git_oid *id, git_commit **ret, struct err *err)
{
	git_oid at = *id;

	for (unsigned i = 0; i < TAGS_DEEP; i++) {
		git_object_t type;
		git_tag *tag = NULL;
		int r = meta_check(repo, &at, &type, err);

		if (r < 0)
			return r;
		if (type != GIT_OBJECT_TAG)
			return commit_get(repo, &at, ret, err);
		if (git_tag_lookup(&tag, repo, &at) < 0)
			return -ENOENT;
		at = *git_tag_target_id(tag);
		git_tag_free(tag);
	}
	return -ENOENT;
}

int tree_path(git_repository *repo, const git_oid *root, const char *path, git_tree_entry **ret,
              struct err *err)
{
	git_oid id = *root;

	for (;;) {
		size_t n = strcspn(path, "/");
		const git_tree_entry *e;
		autotree *t = NULL;
		char name[PATH_MAX];
		int r;

		if (n == 0 || n >= sizeof(name))
			return -ENOENT;
		if ((r = tree_get(repo, &id, &t, err)) < 0)
			return r;
		memcpy(name, path, n);
		name[n] = '\0';
		e = git_tree_entry_byname(t, name);
		if (!e)
			return -ENOENT;
		if (!path[n])
			return git_tree_entry_dup(ret, e) < 0
			               ? err_set(err, -ENOMEM, "out of memory")
			               : 0;
		if (git_tree_entry_type(e) != GIT_OBJECT_TREE)
			return -ENOENT;
		id = *git_tree_entry_id(e);
		path += n + 1;
	}
}

int bounds_tree(struct bounds *b, git_repository *repo, const git_oid *id, git_tree **ret,
                struct err *err)
{
	int r = bounds_step(b, err);
	size_t n;

	if (r < 0)
		return r;
	if (b->trees == 0)
		return err_tag(err, -EFBIG, ERR_GIT_TOO_LARGE,
		               "the repository is too large for this: more than %d directories "
		               "would have to be read",
		               BOUNDS_TREES);
	b->trees--;
	if ((r = tree_get(repo, id, ret, err)) < 0)
		return r;
	n = git_tree_entrycount(*ret);
	if (n > b->entries) {
		git_tree_free(*ret);
		*ret = NULL;
		return err_tag(err, -EFBIG, ERR_GIT_TOO_LARGE,
		               "the repository is too large for this: more than %d names would "
		               "have to be read",
		               BOUNDS_ENTRIES);
	}
	b->entries -= n;
	return 0;
}
