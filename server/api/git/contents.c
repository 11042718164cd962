/* SPDX-License-Identifier: Apache-2.0 */
/* contents.c - files of a revision: /contents, /tarball, /zip, /compare */
#include "api/git/shared.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/auto.h"

#define ENTRIES_FREE 1000 /* of a listing; for more, memory is reserved: */
#define ENTRY_COST 1024   /* bytes of one as JSON values and as text */

/* rev, or ref as older clients call it. */
static int query_rev(struct request *req, char **ret, struct err *err)
{
	int r = request_query(req, "rev", ret, err);

	return r < 0 || *ret ? r : request_query(req, "ref", ret, err);
}

static json_t *entry_json(const struct repo_entry *e)
{
	const char *slash = strrchr(e->path, '/');
	json_t *list, *j = json_pack("{s:s, s:o, s:o, s:s}", "type", e->dir ? "dir" : "file",
	                             "name", shape_str(slash ? slash + 1 : e->path), "path",
	                             shape_str(e->path), "sha", e->sha);

	if (!e->dir) {
		json_object_set_new(j, "size", json_integer((json_int_t)e->size));
		return j;
	}
	list = json_array();
	for (size_t i = 0; i < e->n_entries; i++)
		json_array_append_new(list, entry_json(&e->entries[i]));
	json_object_set_new(j, "entries", list);
	return j;
}

int api_repo_contents(struct request *req, struct reply *res, struct err *err)
{
	const char *path = req->match.n_args > 1 ? req->match.arg[1] : "";
	autofree char *rev = NULL;
	struct repo_client by = request_repo_client(req);
	struct repo_contents c;
	bool recursive = false;
	autoarena mem = { 0 };
	struct store_repo repo;
	json_t *j;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = query_rev(req, &rev, err)) < 0 ||
	    (r = request_query_bool(req, "recursive", &recursive, err)) < 0)
		return r;
	r = repo_contents(deps_of(req)->repos, &repo, &by, path, rev, recursive, &mem, &c, err);
	if (r < 0) {
		reply_extra_str(res, r, "path", path);
		return reply_extra_str(res, r, "revision", rev);
	}
	if (c.n_below > ENTRIES_FREE &&
	    (r = request_hold_output(req, (uint64_t)c.n_below * ENTRY_COST, err)) < 0)
		return r;
	j = entry_json(&c.at);
	if (!c.at.dir &&
	    json_object_set_new(j, "content", shape_base64(c.content, c.at.size)) < 0) {
		json_decref(j);
		j = NULL;
	}
	return reply_json(res, j, err);
}

static int archive(struct request *req, struct reply *res, const char *format, const char *type,
                   struct err *err)
{
	struct repo_client by = request_repo_client(req);
	autofree char *rev = NULL;
	struct store_repo repo;
	struct svc *s;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = query_rev(req, &rev, err)) < 0)
		return r;
	r = svc_archive(deps_of(req)->repos, &repo, &by, format, rev, &s, err);
	return r < 0 ? reply_extra_str(res, r, "revision", rev)
	             : reply_service(req, res, s, NULL, type, err);
}

int api_repo_tarball(struct request *req, struct reply *res, struct err *err)
{
	return archive(req, res, "tar", "application/x-tar", err);
}

int api_repo_zip(struct request *req, struct reply *res, struct err *err)
{
	return archive(req, res, "zip", "application/zip", err);
}

static const char *const status_words[] = {
	[REPO_DIFF_ADDED] = "added",       [REPO_DIFF_REMOVED] = "removed",
	[REPO_DIFF_RENAMED] = "renamed",   [REPO_DIFF_COPIED] = "copied",
	[REPO_DIFF_CHANGED] = "changed",   [REPO_DIFF_UNCHANGED] = "unchanged",
	[REPO_DIFF_MODIFIED] = "modified",
};
static_assert(ARRAY_SIZE(status_words) == REPO_DIFF_STATUS_MAX, "a status has no word");

static json_t *comparison_json(const struct repo_comparison *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->n; i++) {
		const struct repo_diff_file *f = &c->v[i];

		json_array_append_new(
		        list, json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:o}", "sha",
		                        shape_sha(f->sha), "filename", shape_str(f->path), "status",
		                        status_words[f->status], "additions", (json_int_t)f->added,
		                        "deletions", (json_int_t)f->removed, "changes",
		                        (json_int_t)f->added + (json_int_t)f->removed,
		                        "previous_filename", shape_str(f->old_path)));
	}
	return json_pack("{s:s, s:I, s:I, s:I, s:o}", "status",
	                 c->ahead && c->behind ? "diverged"
	                 : c->ahead            ? "ahead"
	                 : c->behind           ? "behind"
	                                       : "identical",
	                 "ahead_by", (json_int_t)c->ahead, "behind_by", (json_int_t)c->behind,
	                 "total_commits", (json_int_t)c->ahead, "files", list);
}

int api_repo_compare(struct request *req, struct reply *res, struct err *err)
{
	autofree char *base = NULL, *head = NULL;
	struct repo_client by = request_repo_client(req);
	struct repo_comparison c;
	autoarena mem = { 0 };
	struct store_repo repo;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = request_query(req, "base", &base, err)) < 0 ||
	    (r = request_query(req, "head", &head, err)) < 0)
		return r;
	if (!base || !head)
		return err_tag(err, -EINVAL, ERR_GIT_INVALID_REQUEST,
		               "'base' and 'head' must name revisions");
	r = repo_compare(deps_of(req)->repos, &repo, &by, base, head, &mem, &c, err);
	return r < 0 ? r : reply_json(res, comparison_json(&c), err);
}
