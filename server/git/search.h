/* SPDX-License-Identifier: Apache-2.0 */
/* git/search.h - what the kinds of search share; for git/ only */
#pragma once

#include "git/git_internal.h"

#define SEARCH_S 20 /* seconds of one search, unless the operator says otherwise */

int search_limit_ms(struct repos *g);
/* The error of a search that was ended. tag: of a bad expression */
int search_too_slow(struct repos *g, const char *tag, bool regex, struct err *err);
/* Are the globs such that can be matched? */
int search_glob_check(const struct repo_search *q, const char *tag, struct err *err);

/* The globs of a search; without any, everything passes. */
struct globs {
	struct match *in, *out; /* owned; or NULL */
};
int globs_new(const struct repo_search *q, const char *tag, struct globs *ret, struct err *err);
void globs_done(struct globs *g);
bool globs_pass(const struct globs *g, const char *path);

json_t *extension_json(const char *path);
