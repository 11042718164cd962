/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search_log.c - text in commit messages, and in what commits added and removed
 *
 * git log, in its jail and under a deadline, writes the history; it is read line by line and
 * matched here. Lines that could be mistaken for each other cannot be: a commit begins with a NUL,
 * which no message and no path (they are quoted) has.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "git/search.h"

#define LINE_MAX_BYTES (256u << 10) /* of a line that is looked at; the rest of it is skipped */
#define LINE_SHOWN 2000
#define MATCHES_SHOWN 200 /* lines of one commit */
#define MESSAGE_SHOWN (64u << 10)

enum part { PART_HEAD, PART_MESSAGE, PART_DIFF };

struct log {
	const struct repo_search *q;
	struct match *m;
	struct globs globs;
	bool diffs;
	json_t *commits; /* of the page */
	size_t found;    /* commits that match */
	struct buf line; /* the one that is being read */
	bool cut;
	/* the commit that is being read */
	json_t *commit;
	enum part part;
	unsigned head; /* lines of it so far */
	struct buf message;
	json_t *files, *file; /* file: borrowed, the last one of files */
	char path[PATH_MAX];
	bool path_ok, file_new;
	uint64_t old_line, new_line;
	size_t shown;
	bool hit;
};

static json_t *subject(const struct buf *m)
{
	const char *p = (char *)m->p;
	const char *nl = m->len ? memchr(p, '\n', m->len) : NULL;

	return text_json(p ? p : "", nl ? (size_t)(nl - p) : m->len);
}

/* The commit is whole: into the page, if it belongs there. */
static int commit_end(struct log *l, struct err *err)
{
	size_t a, b;
	int r;

	if (!l->commit)
		return 0;
	while (l->message.len && l->message.p[l->message.len - 1] == '\n')
		l->message.len--;
	if (!l->diffs) {
		r = match_find(l->m, l->message.p ? (char *)l->message.p : "", l->message.len, &a,
		               &b);
		if (r < 0)
			return err_set(err, -ELOOP, "too many steps");
		l->hit = r == 1;
	}
	if (l->hit && l->found++ >= l->q->offset &&
	    json_array_size(l->commits) < l->q->max_results) {
		json_object_set_new(l->commit, "message", subject(&l->message));
		if (l->diffs)
			json_object_set(l->commit, "files", l->files);
		else
			json_object_set_new(l->commit, "fullMessage",
			                    text_json((char *)l->message.p, l->message.len));
		json_array_append(l->commits, l->commit);
	}
	json_decref(l->commit);
	json_decref(l->files);
	l->commit = l->files = l->file = NULL;
	buf_reset(&l->message);
	return 0;
}

static void commit_begin(struct log *l)
{
	l->commit = json_object();
	l->files = json_array();
	l->part = PART_HEAD;
	l->head = 0;
	l->shown = 0;
	l->hit = false;
	l->path_ok = false;
}

static void head_line(struct log *l, const char *p, size_t n)
{
	static const char *const names[] = { "sha", "authorName", "authorEmail", "timestamp" };

	json_object_set_new(l->commit, names[l->head++], text_json(p, n));
	if (l->head == ARRAY_SIZE(names))
		l->part = PART_MESSAGE;
}

/* "@@ -12,3 +14,4 @@" */
static void hunk_line(struct log *l, const char *p, size_t n)
{
	char text[96];
	unsigned long long a, b;
	char *plus;

	snprintf(text, sizeof(text), "%.*s", (int)MIN(n, sizeof(text) - 1), p);
	a = strtoull(text + 4, NULL, 10);
	plus = strchr(text, '+');
	b = plus ? strtoull(plus + 1, NULL, 10) : 0;
	l->old_line = a;
	l->new_line = b;
}

/* "+++ b/path" or, of a file that went, "--- a/path" before it. */
static void path_line(struct log *l, const char *p, size_t n)
{
	if (n < 6 || memcmp(p + 4, "/dev/null", MIN(n - 4, (size_t)9)) == 0)
		return;
	snprintf(l->path, sizeof(l->path), "%.*s", (int)MIN(n - 6, sizeof(l->path) - 1), p + 6);
	n = strlen(l->path);
	if (n && l->path[n - 1] == '\t') /* git ends names with spaces in them so */
		l->path[n - 1] = '\0';
	l->path_ok = globs_pass(&l->globs, l->path);
	l->file = NULL;
}

static int changed_line(struct log *l, const char *p, size_t n, struct err *err)
{
	bool plus = *p == '+';
	uint64_t number = plus ? l->new_line++ : l->old_line++;
	size_t a, b;
	int r;

	if (!l->path_ok)
		return 0;
	r = match_find(l->m, p + 1, n - 1, &a, &b);
	if (r < 0)
		return err_set(err, -ELOOP, "too many steps");
	if (r == 0)
		return 0;
	l->hit = true;
	if (l->shown++ >= MATCHES_SHOWN)
		return 0;
	if (!l->file) {
		l->file = json_pack("{s:o, s:[]}", "path", text_json(l->path, strlen(l->path)),
		                    "matches");
		json_array_append_new(l->files, l->file);
	}
	json_array_append_new(json_object_get(l->file, "matches"),
	                      json_pack("{s:o, s:I, s:I, s:I, s:b}", "line",
	                                text_json(p + 1, MIN(n - 1, (size_t)LINE_SHOWN)),
	                                "lineNumber", (json_int_t)number, "startColumn",
	                                (json_int_t)a, "endColumn", (json_int_t)b, "isAddition",
	                                plus));
	return 0;
}

static int diff_line(struct log *l, const char *p, size_t n, struct err *err)
{
	if (n >= 11 && memcmp(p, "diff --git ", 11) == 0) {
		l->path_ok = false;
		l->file = NULL;
		l->file_new = true;
	} else if (l->file_new && n >= 4 && (!memcmp(p, "--- ", 4) || !memcmp(p, "+++ ", 4))) {
		path_line(l, p, n);
	} else if (n >= 4 && memcmp(p, "@@ -", 4) == 0) {
		l->file_new = false; /* from here on a line that begins with --- is one that went */
		hunk_line(l, p, n);
	} else if (!l->file_new && n && (*p == '+' || *p == '-')) {
		return changed_line(l, p, n, err);
	}
	return 0;
}

static int line_end(struct log *l, struct err *err)
{
	const char *p = l->line.p ? (char *)l->line.p : "";
	size_t n = l->line.len;
	int r = 0;

	if (n && p[0] == '\0') { /* a commit begins */
		if ((r = commit_end(l, err)) < 0)
			return r;
		commit_begin(l);
		p++;
		n--;
	}
	if (!l->commit)
		return 0;
	if (l->part == PART_HEAD) {
		head_line(l, p, n);
	} else if (n && p[0] == '\1') { /* the message ends */
		l->part = PART_DIFF;
	} else if (l->part == PART_MESSAGE) {
		if (l->message.len + n < MESSAGE_SHOWN) {
			buf_put(&l->message, p, n);
			buf_put_u8(&l->message, '\n');
		}
	} else {
		r = diff_line(l, p, n, err);
	}
	return r;
}

static int on_bytes(void *ctx, const uint8_t *p, size_t n, struct err *err)
{
	struct log *l = ctx;
	int r;

	while (n) {
		const uint8_t *nl = memchr(p, '\n', n);
		size_t k = nl ? (size_t)(nl - p) : n;

		if (l->line.len < LINE_MAX_BYTES)
			buf_put(&l->line, p, MIN(k, LINE_MAX_BYTES - l->line.len));
		if (l->line.failed || l->message.failed)
			return err_set(err, -ENOMEM, "out of memory");
		if (!nl)
			break;
		if ((r = line_end(l, err)) < 0)
			return r;
		buf_reset(&l->line);
		p += k + 1;
		n -= k + 1;
	}
	return 0;
}

static void log_done(struct log *l)
{
	match_free(l->m);
	globs_done(&l->globs);
	json_decref(l->commit);
	json_decref(l->files);
	json_decref(l->commits);
	buf_done(&l->line);
	buf_done(&l->message);
}

static int run_log(struct repos *g, const struct store_repo *r, struct log *l, const char *sha,
                   enum err_code tag, struct err *err)
{
	const char *argv[] = { GIT_PROGRAM,
		               "log",
		               "--no-color",
		               "--no-decorate",
		               "--format=%x00%H%n%aN%n%aE%n%aI%n%B%n%x01",
		               l->diffs ? "-p" : "-s",
		               "-U0",
		               "--no-ext-diff",
		               "--no-textconv",
		               "--no-renames",
		               "--no-mailmap",
		               "--src-prefix=a/",
		               "--dst-prefix=b/",
		               "--diff-merges=first-parent",
		               sha,
		               "--",
		               NULL };
	autorun struct run_result res = { 0 };
	char path[PATH_MAX];
	int rc;

	repo_path(g, r->id, path);
	rc = run_git(g,
	             &(struct run_opts){ .repo = path,
	                                 .argv = argv,
	                                 .limit_ms = (unsigned)search_limit_ms(g),
	                                 .each = on_bytes,
	                                 .ctx = l },
	             &res, err);
	if (rc == 0)
		rc = commit_end(l, err);
	if (rc == -ETIMEDOUT || rc == -ELOOP || (rc == 0 && res.status > 128))
		return search_too_slow(g, tag, rc == -ELOOP, err);
	if (rc == 0 && res.status != 0)
		return err_tag(err, -EIO, ERR_GIT_ERROR, "git log: %.200s", (char *)res.err_text.p);
	return rc;
}

static int search(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                  bool diffs, json_t **ret, struct err *err)
{
	enum err_code bad = diffs ? ERR_DIFF_INVALID_REGEX : ERR_COMMIT_INVALID_REGEX;
	struct match_opts mo = { .regex = q->regex,
		                 .case_sensitive = q->case_sensitive,
		                 .whole_word = q->whole_word };
	AUTO(log_done) struct log l = { .q = q, .diffs = diffs };
	char sha[REPO_SHA_SIZE];
	autorepo *repo = NULL;
	autocommit *c = NULL;
	int rc;

	if (!*q->query)
		return err_tag(err, -EINVAL, diffs ? ERR_DIFF_EMPTY_QUERY : ERR_COMMIT_EMPTY_QUERY,
		               "'query' is empty");
	if (match_new(q->query, &mo, &l.m, err) < 0) {
		err->tag = bad;
		return err->code;
	}
	if ((rc = globs_new(q, ERR_DIFF_INVALID_PATH_PATTERN, &l.globs, err)) < 0 ||
	    (rc = repo_open(g, r, &repo, err)) < 0 || (rc = rev_commit(repo, q->rev, &c, err)) < 0)
		return rc;
	git_oid_tostr(sha, sizeof(sha), git_commit_id(c));
	l.commits = json_array();
	if ((rc = run_log(g, r, &l, sha, bad, err)) < 0)
		return rc;
	*ret = json_pack("{s:I, s:b, s:O}", "totalCommits", (json_int_t)l.found, "hasMore",
	                 (size_t)q->offset + q->max_results < l.found, "commits", l.commits);
	return 0;
}

int repo_search_commits(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                        json_t **ret, struct err *err)
{
	return search(g, r, q, /* diffs= */ false, ret, err);
}

int repo_search_diffs(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      json_t **ret, struct err *err)
{
	return search(g, r, q, /* diffs= */ true, ret, err);
}
