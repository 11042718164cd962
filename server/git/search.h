/* SPDX-License-Identifier: Apache-2.0 */
/* git/search.h - what the kinds of search share; for git/ only */
#pragma once

#include "git/git_internal.h"
#include "git/texts.h"

#define SEARCH_S 20 /* seconds of one search, unless the operator says otherwise */

int search_limit_ms(struct repos *g);
/* The error of a search that was ended. tag: of a bad expression */
int search_too_slow(struct repos *g, enum err_code tag, bool regex, struct err *err);
/* Are the globs such that can be matched? */
int search_glob_check(const struct repo_search *q, enum err_code tag, struct err *err);

/* The globs of a search; without any, everything passes. */
struct globs {
	struct match *in, *out; /* owned; or NULL */
};
int globs_new(const struct repo_search *q, enum err_code tag, struct globs *ret, struct err *err);
void globs_done(struct globs *g);
bool globs_pass(const struct globs *g, const char *path); /* in and not out */
bool globs_in(const struct globs *g, const char *path);
bool globs_out(const struct globs *g, const char *path);

/* Files that match, all of them. */
struct hit {
	const char *path; /* in what the hits hold */
	const char *text; /* likewise; NULL: to be read */
	size_t size;      /* of the text */
	uint64_t lines;
};
struct hits {
	struct hit *v; /* owned */
	size_t n, cap;
	uint64_t lines;
	struct run_result answer; /* owned; git grep's */
	struct text_cache *cache;
	struct texts *texts; /* a reference, or NULL */
};
int hits_add(struct hits *h, const struct hit *one, struct err *err);
void hits_done(struct hits *h);
int search_grep(struct repos *g, const struct store_repo *r, const struct repo_search *q,
                const char *sha, struct hits *ret, struct err *err);
int search_text(struct repos *g, const struct repo_search *q, struct match *m, struct hits *ret,
                struct err *err);
