/* SPDX-License-Identifier: Apache-2.0 */
/* repos.c - repositories: create, list, show, change, delete */
#include "api/git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define LIST_LIMIT 100
#define LIST_LIMIT_MAX 1000

struct create_body {
	const char *name, *branch;
	bool is_public;
	json_t *source, *import;
};
static const struct json_field create_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, create_body, name, "name", JSON_NULLABLE, 0,
	           REPO_NAME_SIZE - 1),
	JSON_FIELD(JSON_WANT_STRREF, create_body, branch, "defaultBranch", JSON_NULLABLE, 0, 250),
	JSON_FIELD(JSON_WANT_BOOL, create_body, is_public, "public", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_OBJECT, create_body, source, "source", JSON_NULLABLE, 0, 0,
	           "RepoSource"),
	JSON_FIELD(JSON_WANT_OBJECT, create_body, import, "import", JSON_NULLABLE, 0, 0,
	           "RepoImport"),
};
JSON_TABLE(RepoNew, create_fields);

static const char *text_of(const json_t *o, const char *name)
{
	return json_string_value(json_object_get(o, name));
}

/* "rev", or "branch" as older clients call it. */
static const char *rev_of(const json_t *o)
{
	const char *rev = text_of(o, "rev");

	return rev ? rev : text_of(o, "branch");
}

static int read_source(const json_t *o, struct repo_source *ret, struct err *err)
{
	const json_t *d = json_object_get(o, "depth");
	json_int_t depth = json_integer_value(d);

	if (d && !json_is_null(d) && (!json_is_integer(d) || depth < 1 || depth > INT32_MAX))
		return err_tag(err, -EINVAL, TAG, "'depth' must be a number from 1");
	*ret = (struct repo_source){ .url = text_of(o, "url"),
		                     .rev = rev_of(o),
		                     .all_branches =
		                             json_is_true(json_object_get(o, "allBranches")),
		                     .depth = depth };
	return 0;
}

/* "import.files": paths and texts. Caller frees *ret. */
static int read_files(struct reply *res, json_t *files, struct repo_import_file **ret,
                      size_t *ret_n, struct err *err)
{
	autofree struct repo_import_file *v = NULL;
	const char *path;
	json_t *text;
	size_t n = 0;

	if (!json_is_object(files))
		return err_tag(err, -EINVAL, TAG,
		               "'import.files' must be an object of paths and texts");
	v = calloc(json_object_size(files) + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	json_object_foreach(files, path, text)
	{
		if (!json_is_string(text))
			return reply_extra_str(
			        res,
			        err_tag(err, -EINVAL, ERR_INVALID_FILE_CHANGE,
			                "the content of file '%.100s' must be a string", path),
			        "path", path);
		v[n++] = (struct repo_import_file){ path, json_string_value(text),
			                            json_string_length(text) };
	}
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}

/* Caller frees *ret_files, which *ret refers to. */
static int read_import(struct reply *res, const json_t *o, struct repo_import *ret,
                       struct repo_import_file **ret_files, struct err *err)
{
	const char *type = text_of(o, "type");
	int r = 0;

	*ret = (struct repo_import){ .url = text_of(o, "url"),
		                     .dir = text_of(o, "dir"),
		                     .rev = rev_of(o),
		                     .message = text_of(o, "commitMessage"),
		                     .author_name = text_of(o, "authorName"),
		                     .author_email = text_of(o, "authorEmail") };
	if (type && strcmp(type, "files") == 0) {
		ret->kind = REPO_IMPORT_FILES;
		r = read_files(res, json_object_get(o, "files"), ret_files, &ret->n_files, err);
		ret->files = *ret_files;
	} else if (type && (strcmp(type, "tar") == 0 || strcmp(type, "zip") == 0)) {
		ret->kind = REPO_IMPORT_ARCHIVE;
	} else if (type && strcmp(type, "git") == 0) {
		ret->kind = REPO_IMPORT_GIT;
	} else {
		r = err_tag(err, -EINVAL, TAG,
		            "'import.type' must be \"files\", \"tar\", \"zip\" or \"git\"");
	}
	return r;
}

int api_repo_create(struct request *req, struct reply *res, struct err *err)
{
	struct repo_new n = { .account = who_of(req)->account, .by = who_of(req)->key };
	autofree struct repo_import_file *files = NULL;
	struct repo_about about = { 0 };
	struct repo_source source;
	struct repo_import import;
	struct create_body b = { 0 };
	struct store_repo repo;
	int r;

	if ((r = request_fields(req, TAG, create_fields, ARRAY_SIZE(create_fields), &b, err)) < 0)
		return r;
	if (b.source && b.import)
		return err_tag(err, -EINVAL, ERR_SOURCE_IMPORT_CONFLICT,
		               "'source' and 'import' cannot be used together");
	if ((b.source && (r = read_source(b.source, &source, err)) < 0) ||
	    (b.import && (r = read_import(res, b.import, &import, &files, err)) < 0))
		return r;
	n.name = b.name;
	n.default_branch = b.branch && *b.branch ? b.branch : NULL;
	n.is_public = b.is_public;
	n.source = b.source ? &source : NULL;
	n.import = b.import ? &import : NULL;
	r = repo_create(deps_of(req)->repos, &n, &repo, &about, err);
	return r < 0 ? reply_about(res, r, &about)
	             : reply_json(res, json_pack("{s:s}", "repoId", repo.id), err);
}

/* What an identity was granted; there are few of them. A page of those with that text, as
 * store_repo_list(). */
static int list_granted(struct request *req, const char *search, uint32_t limit, uint32_t offset,
                        struct store_repo **ret, size_t *ret_n, int64_t *ret_total, struct err *err)
{
	autofree struct store_grant *g = NULL;
	struct store_repo *v;
	size_t n = 0, k = 0;
	int r = auth_grant_list(deps_of(req)->auth, who_of(req)->account, who_of(req)->identity,
	                        GRANT_GIT, &g, &n, err);

	if (r < 0)
		return r;
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		if (store_repo_get(deps_of(req)->store, g[i].target, &v[k], err) == 0 &&
		    (!search || strcasestr(v[k].name, search) || strcasestr(v[k].id, search)))
			k++;
	*ret_total = (int64_t)k;
	offset = (uint32_t)MIN((size_t)offset, k);
	*ret_n = MIN(k - offset, (size_t)limit);
	memmove(v, v + offset, *ret_n * sizeof(*v));
	*ret = v;
	return 0;
}

static void by_name(json_t *map, const char *name, json_t *item_consume)
{
	autojson json_t *key = shape_str(name);

	json_object_set_new(map, json_string_value(key), item_consume);
}

/* An item of the list. */
static json_t *item_json(const struct store_repo *r, const struct repo_item *it)
{
	json_t *branches = json_object(), *tags = json_object();

	for (size_t i = 0; i < it->branches.n; i++) {
		const struct repo_branch *b = &it->branches.v[i];

		by_name(branches, b->name,
		        json_pack("{s:o, s:o, s:b}", "name", shape_str(b->name), "target",
		                  shape_sha(b->sha), "default",
		                  strcmp(b->name, it->default_branch) == 0));
	}
	for (size_t i = 0; i < it->tags.n; i++) {
		const struct repo_tag *t = &it->tags.v[i];

		by_name(tags, t->name,
		        json_pack("{s:o, s:s, s:o}", "name", shape_str(t->name), "target",
		                  t->target, "message", shape_str(t->message)));
	}
	return json_pack("{s:s, s:s, s:o, s:s, s:s, s:o, s:I, s:o, s:o, s:o}", "id", r->id,
	                 "repoId", r->id, "name", shape_text(r->name), "accountId", r->account,
	                 "visibility", r->is_public ? "public" : "private", "defaultBranch",
	                 shape_str(it->default_branch), "bytes", (json_int_t)r->bytes, "branches",
	                 branches, "tags", tags, "createdAt", shape_time(r->created_ms));
}

int api_repo_list(struct request *req, struct reply *res, struct err *err)
{
	uint32_t limit = LIST_LIMIT, offset = 0;
	autofree struct store_repo *v = NULL;
	autojson json_t *items = json_array();
	autofree char *search = NULL;
	int64_t total = 0;
	size_t n = 0;
	int r;

	if ((r = request_query_u32(req, "limit", UINT32_MAX, &limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &offset, err)) < 0 ||
	    (r = request_query(req, "search", &search, err)) < 0)
		return r;
	limit = MIN(limit, (uint32_t)LIST_LIMIT_MAX);
	if (*who_of(req)->identity)
		r = list_granted(req, search, limit, offset, &v, &n, &total, err);
	else
		r = store_repo_list(deps_of(req)->store, who_of(req)->account, search, limit,
		                    offset, &v, &n, &total, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		autoarena mem = { 0 };
		struct repo_item it;

		r = repo_item(deps_of(req)->repos, &v[i], &mem, &it, err);
		if (r == -ENOENT) /* deleted meanwhile */
			continue;
		if (r < 0)
			return r;
		if (json_array_append_new(items, item_json(&v[i], &it)) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res,
	                  json_pack("{s:O, s:I, s:I}", "repositories", items, "total",
	                            (json_int_t)total, "offset", (json_int_t)offset),
	                  err);
}

int api_repo_get(struct request *req, struct reply *res, struct err *err)
{
	char branch[REPO_REF_SIZE];
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = repo_default_branch(deps_of(req)->repos, &repo, branch, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:I}", "id", repo.id,
	                            "name", shape_text(repo.name), "accountId", repo.account,
	                            "visibility", repo.is_public ? "public" : "private",
	                            "defaultBranch", branch, "createdAt",
	                            shape_time(repo.created_ms), "pushedAt",
	                            shape_time(repo.pushed_ms), "bytes", (json_int_t)repo.bytes),
	                  err);
}

int api_repo_delete(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_OWN, &repo, err)) < 0 ||
	    (r = repo_delete(deps_of(req)->repos, &repo, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}

int api_repo_visibility(struct request *req, struct reply *res, struct err *err)
{
	struct store_repo repo;
	int r = request_repo(req, REPO_READ, &repo, err);

	return r < 0 ? r
	             : reply_json(res,
	                          json_pack("{s:s}", "visibility",
	                                    repo.is_public ? "public" : "private"),
	                          err);
}

struct visibility_body {
	const char *visibility;
};
static const struct json_field visibility_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, visibility_body, visibility, "visibility", JSON_REQUIRED, 0,
	           16, "'public' | 'private'"),
};
JSON_TABLE(RepoVisibility, visibility_fields);

int api_repo_set_visibility(struct request *req, struct reply *res, struct err *err)
{
	struct visibility_body b = { 0 };
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_OWN, &repo, err)) < 0 ||
	    (r = request_fields(req, TAG, visibility_fields, ARRAY_SIZE(visibility_fields), &b,
	                        err)) < 0)
		return r;
	if (strcmp(b.visibility, "public") != 0 && strcmp(b.visibility, "private") != 0)
		return err_tag(err, -EINVAL, TAG, "'visibility' must be \"public\" or \"private\"");
	r = store_repo_set_public(deps_of(req)->store, repo.id, strcmp(b.visibility, "public") == 0,
	                          err);
	if (r < 0)
		return r;
	auth_changed(deps_of(req)->auth); /* those who read it because it was public */
	return reply_json(res, json_object(), err);
}

int api_repo_default_branch(struct request *req, struct reply *res, struct err *err)
{
	char branch[REPO_REF_SIZE];
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = repo_default_branch(deps_of(req)->repos, &repo, branch, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "defaultBranch", branch), err);
}

struct branch_name_body {
	const char *branch;
};
static const struct json_field branch_name_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, branch_name_body, branch, "defaultBranch", JSON_REQUIRED, 0,
	           250),
};
JSON_TABLE(RepoDefaultBranch, branch_name_fields);

int api_repo_set_default_branch(struct request *req, struct reply *res, struct err *err)
{
	struct branch_name_body b = { 0 };
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = request_fields(req, TAG, branch_name_fields, ARRAY_SIZE(branch_name_fields), &b,
	                        err)) < 0 ||
	    (r = repo_set_default_branch(deps_of(req)->repos, &repo, b.branch, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}
