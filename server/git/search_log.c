/* SPDX-License-Identifier: Apache-2.0 */
/*
 * search_log.c - text in commit messages, and in what commits added and removed
 *
 * git log, in its jail and under a deadline, writes the history; it is read line by line and
 * matched here. Lines cannot be mistaken for each other: a commit begins with a NUL, which neither
 * messages nor paths (they are quoted) contain.
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
	struct arena *mem;
	struct repo_found_commits *commits; /* the page */
	struct buf line;                    /* the one that is being read */
	/* the current commit */
	bool reading;
	struct repo_found_commit commit;
	struct arena_mark mark; /* what it needs is behind this */
	enum part part;
	unsigned head; /* lines of it so far */
	struct buf message;
	char path[PATH_MAX];
	bool path_ok, file_new;
	bool listed; /* path is the last one of the commit's files */
	uint64_t old_line, new_line;
	size_t shown;
	bool hit;
};

static struct repo_text keep(struct log *l, const void *p, size_t n)
{
	return (struct repo_text){ arena_copy(l->mem, p, n), n };
}

static int take_commit(struct log *l, struct err *err)
{
	struct repo_found_commits *c = l->commits;
	const char *nl = l->message.len ? memchr(l->message.p, '\n', l->message.len) : NULL;

	l->commit.subject =
	        keep(l, l->message.p, nl ? (size_t)(nl - (char *)l->message.p) : l->message.len);
	if (!l->diffs)
		l->commit.message = keep(l, l->message.p, l->message.len);
	c->v = arena_more(l->mem, c->v, c->n, sizeof(*c->v));
	if (c->v)
		c->v[c->n++] = l->commit;
	return arena_check(l->mem, err);
}

/* The commit is whole: into the page, if it belongs there. */
static int commit_end(struct log *l, struct err *err)
{
	size_t a, b;
	int r = 0;

	if (!l->reading)
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
	if (l->hit && l->commits->total++ >= l->q->offset && l->commits->n < l->q->max_results)
		r = take_commit(l, err);
	else
		arena_back(l->mem, l->mark);
	l->reading = false;
	buf_reset(&l->message);
	return MIN(r, 0);
}

static void commit_begin(struct log *l)
{
	l->reading = true;
	l->commit = (struct repo_found_commit){ 0 };
	l->mark = arena_mark(l->mem);
	l->part = PART_HEAD;
	l->head = 0;
	l->shown = 0;
	l->hit = false;
	l->path_ok = false;
	l->listed = false;
}

static void head_line(struct log *l, const char *p, size_t n)
{
	struct repo_text *const to[] = { &l->commit.sha, &l->commit.author_name,
		                         &l->commit.author_email, &l->commit.time };

	*to[l->head++] = keep(l, p, n);
	if (l->head == ARRAY_SIZE(to))
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

/* "+++ b/path" or, of a deleted file, "--- a/path" before it. */
static void path_line(struct log *l, const char *p, size_t n)
{
	if (n < 6 || memcmp(p + 4, "/dev/null", MIN(n - 4, (size_t)9)) == 0)
		return;
	snprintf(l->path, sizeof(l->path), "%.*s", (int)MIN(n - 6, sizeof(l->path) - 1), p + 6);
	n = strlen(l->path);
	if (n && l->path[n - 1] == '\t') /* how git ends names that contain spaces */
		l->path[n - 1] = '\0';
	l->path_ok = globs_pass(&l->globs, l->path);
	l->listed = false;
}

static int add_line(struct log *l, const struct repo_changed_line *one, struct err *err)
{
	struct repo_found_commit *c = &l->commit;
	struct repo_changed_file *f;

	if (!l->listed) {
		c->files = arena_more(l->mem, c->files, c->n_files, sizeof(*c->files));
		if (!c->files)
			return arena_check(l->mem, err);
		c->files[c->n_files++] =
		        (struct repo_changed_file){ .path = arena_str(l->mem, l->path) };
		l->listed = true;
	}
	f = &c->files[c->n_files - 1];
	f->v = arena_more(l->mem, f->v, f->n, sizeof(*f->v));
	if (f->v)
		f->v[f->n++] = *one;
	return arena_check(l->mem, err);
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
	return add_line(
	        l,
	        &(struct repo_changed_line){ .line = keep(l, p + 1, MIN(n - 1, (size_t)LINE_SHOWN)),
	                                     .number = number,
	                                     .start = a,
	                                     .end = b,
	                                     .added = plus },
	        err);
}

static int diff_line(struct log *l, const char *p, size_t n, struct err *err)
{
	if (n >= 11 && memcmp(p, "diff --git ", 11) == 0) {
		l->path_ok = false;
		l->listed = false;
		l->file_new = true;
	} else if (l->file_new && n >= 4 && (!memcmp(p, "--- ", 4) || !memcmp(p, "+++ ", 4))) {
		path_line(l, p, n);
	} else if (n >= 4 && memcmp(p, "@@ -", 4) == 0) {
		l->file_new = false; /* from here on a line that begins with --- was removed */
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
	if (!l->reading)
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
	                                 .client = l->q->client,
	                                 .limit_ms = (unsigned)search_limit_ms(g),
	                                 .each = on_bytes,
	                                 .ctx = l },
	             &res, err);
	if (rc == 0)
		rc = commit_end(l, err);
	if (rc == -ETIMEDOUT || rc == -ELOOP || (rc == 0 && run_exhausted(&res)))
		return search_too_slow(g, tag, rc == -ELOOP, err);
	if (rc == 0 && res.status != 0)
		return err_tag(err, -EIO, ERR_GIT_ERROR, "git log: %.200s", (char *)res.err_text.p);
	return rc;
}

static int search(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                  bool diffs, struct arena *mem, struct repo_found_commits *ret, struct err *err)
{
	enum err_code bad = diffs ? ERR_DIFF_INVALID_REGEX : ERR_COMMIT_INVALID_REGEX;
	struct match_opts mo = { .regex = q->regex,
		                 .case_sensitive = q->case_sensitive,
		                 .whole_word = q->whole_word };
	AUTO(log_done) struct log l = { .q = q, .diffs = diffs, .mem = mem, .commits = ret };
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
	*ret = (struct repo_found_commits){ 0 };
	return run_log(g, r, &l, sha, bad, err);
}

int repo_search_commits(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                        struct arena *mem, struct repo_found_commits *ret, struct err *err)
{
	return search(g, r, q, /* diffs= */ false, mem, ret, err);
}

int repo_search_diffs(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                      struct arena *mem, struct repo_found_commits *ret, struct err *err)
{
	return search(g, r, q, /* diffs= */ true, mem, ret, err);
}
