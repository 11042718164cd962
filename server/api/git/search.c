/* SPDX-License-Identifier: Apache-2.0 */
/* search.c - search in files, names, messages and diffs */
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

typedef int (*search_fn)(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                         json_t **ret, struct err *err);

static int search(struct request *req, struct reply *res, search_fn fn, struct err *err)
{
	AUTO(texts_done) struct texts t = { 0 };
	struct repo_search q;
	struct store_repo repo;
	json_t *j = NULL;
	int r;

	if ((r = request_repo(req, REPO_READ, &repo, err)) < 0 ||
	    (r = read_query(req, &t, &q, err)) < 0)
		return r;
	r = fn(deps_of(req)->repos, &repo, &q, &j, err);
	if (r == -EINVAL)
		reply_extra(res, "reason", shape_output(err->msg, strlen(err->msg)));
	return r < 0 ? r : reply_json(res, j, err);
}

int api_repo_search(struct request *req, struct reply *res, struct err *err)
{
	return search(req, res, repo_search, err);
}

int api_repo_search_files(struct request *req, struct reply *res, struct err *err)
{
	return search(req, res, repo_search_files, err);
}

int api_repo_search_commits(struct request *req, struct reply *res, struct err *err)
{
	return search(req, res, repo_search_commits, err);
}

int api_repo_search_diffs(struct request *req, struct reply *res, struct err *err)
{
	return search(req, res, repo_search_diffs, err);
}
