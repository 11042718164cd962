/* SPDX-License-Identifier: Apache-2.0 */
/* git/compare.h - the two ways in which files are compared; for git/ only */
#pragma once

#include "git/bounds.h"

#define COMPARE_FILES 3000  /* listed of one comparison */
#define COMPARE_RENAMES 400 /* candidates: the search is quadratic */

/* By git diff-tree, in its jail: for files that are too large to be compared in this process. */
int compare_git(struct repos *g, const struct store_repo *r, const struct repo_client *by,
                const git_tree *from, const git_tree *to, struct arena *mem,
                struct repo_comparison *ret, struct err *err);
