/* SPDX-License-Identifier: Apache-2.0 */
/* search.c - search in files, names, messages and diffs: /search */
#include "api/git/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

struct texts {
	char *query, *rev, *in, *out; /* owned */
};

static void texts_done(struct texts *t)
{
	free(t->query);
	free(t->rev);
	free(t->in);
	free(t->out);
}

/* Absent and empty are the same. */
static const char *given(const char *s)
{
	return s && *s ? s : NULL;
}

static int read_query(struct request *req, struct texts *t, struct repo_search *q, struct err *err)
{
	int r;

	*q = (struct repo_search){ .max_results = REPO_SEARCH_RESULTS,
		                   .context = REPO_SEARCH_CONTEXT };
	if ((r = request_query(req, "query", &t->query, err)) < 0 ||
	    (r = request_query(req, "rev", &t->rev, err)) < 0 ||
	    (!t->rev && (r = request_query(req, "ref", &t->rev, err)) < 0) ||
	    (r = request_query(req, "pathPattern", &t->in, err)) < 0 ||
	    (r = request_query(req, "excludePattern", &t->out, err)) < 0 ||
	    (r = request_query_u32(req, "maxResults", UINT32_MAX, &q->max_results, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &q->offset, err)) < 0 ||
	    (r = request_query_u32(req, "contextLines", REPO_SEARCH_CONTEXT_MAX, &q->context,
	                           err)) < 0 ||
	    (r = request_query_bool(req, "caseSensitive", &q->case_sensitive, err)) < 0 ||
	    (r = request_query_bool(req, "isRegex", &q->regex, err)) < 0 ||
	    (r = request_query_bool(req, "wholeWord", &q->whole_word, err)) < 0)
		return r;
	q->max_results = MIN(MAX(q->max_results, 1u), (uint32_t)REPO_SEARCH_RESULTS_MAX);
	q->query = t->query ? t->query : "";
	q->rev = given(t->rev);
	q->path_pattern = given(t->in);
	q->exclude_pattern = given(t->out);
	return 0;
}

/* Of a search: the repository and the question, then what the error says. */
static int begin(struct request *req, struct texts *t, struct store_repo *repo,
                 struct repo_search *q, struct err *err)
{
	int r = request_repo(req, REPO_READ, repo, err);

	return r < 0 ? r : read_query(req, t, q, err);
}

static int failed(struct reply *res, int r, const struct err *err)
{
	return r == -EINVAL ? reply_extra_str(res, r, "reason", err->msg) : r;
}

static json_t *text_json(struct repo_text t)
{
	return shape_output(t.p, t.n);
}

static json_t *extension_json(const char *path)
{
	const char *name = strrchr(path, '/'), *dot;

	name = name ? name + 1 : path;
	dot = strrchr(name, '.');
	return dot && dot != name && dot[1] ? shape_str(dot + 1) : json_null();
}

static json_t *lines_json(const struct repo_text *v, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, text_json(v[i]));
	return a;
}

static json_t *match_json(const struct repo_text *line, const struct repo_match *m)
{
	return json_pack("{s:I, s:o, s:I, s:I, s:o, s:o}", "lineNumber", (json_int_t)m->number,
	                 "line", text_json(*line), "startColumn", (json_int_t)m->start, "endColumn",
	                 (json_int_t)m->end, "contextBefore",
	                 lines_json(line - m->before, m->before), "contextAfter",
	                 lines_json(line + 1, m->after));
}

static json_t *file_json(const struct repo_found_file *f, bool matches)
{
	json_t *j = json_pack("{s:o, s:o, s:I}", "path", shape_str(f->path), "extension",
	                      extension_json(f->path), "size", (json_int_t)f->size);
	json_t *list;

	if (!matches)
		return j;
	list = json_array();
	for (size_t i = 0; i < f->n_matches; i++)
		json_array_append_new(list,
		                      match_json(&f->lines[f->matches[i].at], &f->matches[i]));
	json_object_set_new(j, "matches", list);
	return j;
}

static json_t *files_json(const struct repo_found_files *f, bool matches)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->n; i++)
		json_array_append_new(list, file_json(&f->v[i], matches));
	return list;
}

static bool has_more(const struct repo_search *q, uint64_t total)
{
	return (uint64_t)q->offset + q->max_results < total;
}

static int search_files(struct request *req, struct reply *res, bool names, struct err *err)
{
	AUTO(texts_done) struct texts t = { 0 };
	struct repo_found_files f;
	autoarena mem = { 0 };
	struct repo_client by = request_repo_client(req);
	struct repo_search q;
	struct store_repo repo;
	json_t *j;
	int r = begin(req, &t, &repo, &q, err);

	if (r < 0)
		return r;
	q.client = &by;
	r = (names ? repo_search_files : repo_search)(deps_of(req)->repos, &repo, &q, &mem, &f,
	                                              err);
	if (r < 0)
		return failed(res, r, err);
	j = json_pack("{s:I}", "totalFiles", (json_int_t)f.total);
	if (!names)
		json_object_set_new(j, "totalMatches", json_integer((json_int_t)f.total_matches));
	json_object_set_new(j, "hasMore", json_boolean(has_more(&q, f.total)));
	json_object_set_new(j, "files", files_json(&f, /* matches= */ !names));
	return reply_json(res, j, err);
}

int api_repo_search(struct request *req, struct reply *res, struct err *err)
{
	return search_files(req, res, /* names= */ false, err);
}

int api_repo_search_files(struct request *req, struct reply *res, struct err *err)
{
	return search_files(req, res, /* names= */ true, err);
}

static json_t *changes_json(const struct repo_changed_file *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->n; i++) {
		const struct repo_changed_line *l = &f->v[i];

		json_array_append_new(list, json_pack("{s:o, s:I, s:I, s:I, s:b}", "line",
		                                      text_json(l->line), "lineNumber",
		                                      (json_int_t)l->number, "startColumn",
		                                      (json_int_t)l->start, "endColumn",
		                                      (json_int_t)l->end, "isAddition", l->added));
	}
	return json_pack("{s:o, s:o}", "path", shape_str(f->path), "matches", list);
}

static json_t *commit_json(const struct repo_found_commit *c, bool diffs)
{
	json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:o}", "sha", text_json(c->sha), "authorName",
	                      text_json(c->author_name), "authorEmail", text_json(c->author_email),
	                      "timestamp", text_json(c->time), "message", text_json(c->subject));
	json_t *list;

	if (!diffs) {
		json_object_set_new(j, "fullMessage", text_json(c->message));
		return j;
	}
	list = json_array();
	for (size_t i = 0; i < c->n_files; i++)
		json_array_append_new(list, changes_json(&c->files[i]));
	json_object_set_new(j, "files", list);
	return j;
}

static int search_history(struct request *req, struct reply *res, bool diffs, struct err *err)
{
	AUTO(texts_done) struct texts t = { 0 };
	struct repo_found_commits c;
	autoarena mem = { 0 };
	struct repo_client by = request_repo_client(req);
	struct repo_search q;
	struct store_repo repo;
	json_t *list;
	int r = begin(req, &t, &repo, &q, err);

	if (r < 0)
		return r;
	q.client = &by;
	r = (diffs ? repo_search_diffs : repo_search_commits)(deps_of(req)->repos, &repo, &q, &mem,
	                                                      &c, err);
	if (r < 0)
		return failed(res, r, err);
	list = json_array();
	for (size_t i = 0; i < c.n; i++)
		json_array_append_new(list, commit_json(&c.v[i], diffs));
	return reply_json(res,
	                  json_pack("{s:I, s:b, s:o}", "totalCommits", (json_int_t)c.total,
	                            "hasMore", has_more(&q, c.total), "commits", list),
	                  err);
}

int api_repo_search_commits(struct request *req, struct reply *res, struct err *err)
{
	return search_history(req, res, /* diffs= */ false, err);
}

int api_repo_search_diffs(struct request *req, struct reply *res, struct err *err)
{
	return search_history(req, res, /* diffs= */ true, err);
}
