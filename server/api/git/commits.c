/* SPDX-License-Identifier: Apache-2.0 */
/* commits.c - commits made by the API: POST /commits, POST /git/commits */
#include "api/git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"

#define TAG ERR_GIT_INVALID_REQUEST

struct commit_body {
	const char *message, *branch, *expected;
	json_t *files, *author;
};
static const struct json_field commit_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, commit_body, message, "message", JSON_REQUIRED, 0, INT32_MAX),
	JSON_FIELD(JSON_WANT_STRREF, commit_body, branch, "branch", JSON_NULLABLE, 0, 300),
	JSON_FIELD(JSON_WANT_STRREF, commit_body, expected, "expectedSha", JSON_NULLABLE, 0, 64),
	JSON_FIELD(JSON_WANT_ARRAY, commit_body, files, "files", JSON_REQUIRED, 0, 0,
	           "FileChange[]"),
	JSON_FIELD(JSON_WANT_OBJECT, commit_body, author, "author", JSON_NULLABLE, 0, 0,
	           "{name?: string, email?: string}"),
};
JSON_TABLE(CommitNew, commit_fields);

static int bad_change(struct reply *res, const char *path, const char *why, struct err *err)
{
	if (path)
		reply_extra(res, "path", shape_output(path, strlen(path)));
	return err_tag(err, -EINVAL, ERR_INVALID_FILE_CHANGE, "file '%.100s': %s", path ? path : "",
	               why);
}

static int read_change(struct reply *res, const json_t *o, struct repo_change *ret, struct err *err)
{
	const json_t *path = json_object_get(o, "path"), *content = json_object_get(o, "content");
	const json_t *enc = json_object_get(o, "encoding"), *del = json_object_get(o, "deleted");
	const char *encoding = json_string_value(enc);

	ret->path = json_string_value(path);
	if (!ret->path)
		return bad_change(res, NULL, "each entry needs a 'path'", err);
	if (strlen(ret->path) != json_string_length(path))
		return err_tag(err, -EINVAL, ERR_INVALID_FILE_PATH, "a path must not contain NUL");
	if (json_is_null(content))
		content = NULL;
	if ((content && !json_is_string(content)) || (enc && !json_is_null(enc) && !encoding) ||
	    (del && !json_is_boolean(del) && !json_is_null(del)))
		return bad_change(
		        res, ret->path,
		        "'content' and 'encoding' must be strings, 'deleted' true or false", err);
	ret->deleted = json_is_true(del);
	if (ret->deleted == (content != NULL))
		return bad_change(res, ret->path,
		                  "it must have either 'content' or 'deleted: true'", err);
	ret->base64 = encoding && strcmp(encoding, "base64") == 0;
	if (encoding && !ret->base64 && strcmp(encoding, "utf8") != 0 &&
	    strcmp(encoding, "utf-8") != 0)
		return bad_change(res, ret->path, "'encoding' must be \"utf8\" or \"base64\"", err);
	ret->executable = json_is_true(json_object_get(o, "executable"));
	ret->content = json_string_value(content);
	ret->len = json_string_length(content);
	return 0;
}

static int read_changes(struct reply *res, const json_t *files, struct repo_change **ret,
                        struct err *err)
{
	autofree struct repo_change *v = NULL;
	size_t i, n = json_array_size(files);
	const json_t *o;
	int r;

	if (n > REPO_CHANGES_MAX)
		return err_tag(err, -EINVAL, TAG, "a commit can change at most %d files",
		               REPO_CHANGES_MAX);
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	json_array_foreach(files, i, o) if ((r = read_change(res, o, &v[i], err)) < 0) return r;
	*ret = TAKE_PTR(v);
	return 0;
}

static int reply_commit(struct reply *res, const struct repo_commit *c, struct err *err)
{
	return reply_json(res, json_pack("{s:o}", "commit", shape_commit(c)), err);
}

int api_repo_commit_create(struct request *req, struct reply *res, struct err *err)
{
	autofree struct repo_change *changes = NULL;
	struct commit_body b = { 0 };
	struct repo_commit_new n = { .by = who_of(req)->key };
	struct repo_about about = { 0 };
	autoarena mem = { 0 };
	struct repo_commit c;
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = request_fields(req, TAG, commit_fields, ARRAY_SIZE(commit_fields), &b, err)) < 0 ||
	    (r = read_changes(res, b.files, &changes, err)) < 0)
		return r;
	n.branch = b.branch;
	n.message = b.message;
	n.expected = b.expected;
	n.author_name = json_string_value(json_object_get(b.author, "name"));
	n.author_email = json_string_value(json_object_get(b.author, "email"));
	n.changes = changes;
	n.n_changes = json_array_size(b.files);
	r = repo_commit_create(deps_of(req)->repos, &repo, &n, &mem, &c, &about, err);
	return r < 0 ? reply_about(res, r, &about) : reply_commit(res, &c, err);
}

/* "author" or "committer"; JSON null and NULL are nobody in particular. */
static int read_person(const json_t *o, struct repo_person *p, const struct repo_person **ret,
                       struct err *err)
{
	const char *date = json_string_value(json_object_get(o, "date"));
	int64_t ms = clock_wall_ms();

	*ret = NULL;
	if (!o || json_is_null(o))
		return 0;
	p->name = json_string_value(json_object_get(o, "name"));
	p->email = json_string_value(json_object_get(o, "email"));
	if (!p->name || !p->email || (date && clock_rfc3339_parse(date, &ms) < 0))
		return err_tag(err, -EINVAL, TAG,
		               "author and committer must be {name, email, date?}, the date in RFC "
		               "3339 format");
	p->when_s = ms / 1000;
	*ret = p;
	return 0;
}

int api_repo_commit_object(struct request *req, struct reply *res, struct err *err)
{
	struct repo_person author = { 0 }, committer = { 0 };
	const char *parents[REPO_PARENTS_MAX];
	struct repo_commit_object n = { .parents = parents };
	const json_t *list, *item, *who;
	autoarena mem = { 0 };
	struct repo_commit c;
	struct store_repo repo;
	json_t *body;
	size_t i;
	int r;

	if ((r = request_repo(req, REPO_WRITE, &repo, err)) < 0 ||
	    (r = request_json(req, TAG, &body, err)) < 0)
		return r;
	n.message = json_string_value(json_object_get(body, "message"));
	n.tree = json_string_value(json_object_get(body, "tree"));
	list = json_object_get(body, "parents");
	n.n_parents = json_array_size(list);
	if (!n.tree || !n.message || (list && !json_is_array(list)) ||
	    n.n_parents > REPO_PARENTS_MAX)
		return err_tag(err, -EINVAL, TAG,
		               "a commit must be {message, tree, parents: at most %d}",
		               REPO_PARENTS_MAX);
	json_array_foreach(list, i, item) parents[i] =
	        json_is_string(item) ? json_string_value(item) : "";
	who = json_object_get(body, "committer");
	if (!who)
		who = json_object_get(body, "author");
	if ((r = read_person(json_object_get(body, "author"), &author, &n.author, err)) < 0 ||
	    (r = read_person(who, &committer, &n.committer, err)) < 0 ||
	    (r = repo_commit_object(deps_of(req)->repos, &repo, &n, &mem, &c, err)) < 0)
		return r;
	return reply_commit(res, &c, err);
}
