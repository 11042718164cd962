/* SPDX-License-Identifier: Apache-2.0 */
/* tmpdir.h - a temporary directory that is removed with its contents; for tests only */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/io.h"

struct tmpdir {
	char path[128];
};

static inline int tmpdir_make(struct tmpdir *t)
{
	const char *base = getenv("TMPDIR");

	snprintf(t->path, sizeof(t->path), "%s/pando-test-XXXXXX", base && *base ? base : "/tmp");
	return mkdtemp(t->path) ? 0 : -1;
}

static inline int tmpdir_remove(struct tmpdir *t)
{
	return io_remove_tree(AT_FDCWD, t->path, NULL);
}

static inline const char *tmpdir_file(const struct tmpdir *t, const char *name, char *buf,
                                      size_t size)
{
	snprintf(buf, size, "%s/%s", t->path, name);
	return buf;
}
