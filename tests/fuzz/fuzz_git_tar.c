/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_git_tar.c - any bytes as a tar archive, in pieces of any size: reported members are well
 * formed, and always the same. Names and contents that begin with '!' are refused, as a reader does
 * that has no more room: nothing is reported after that */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "git/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	bool open, refused;
	uint64_t left, entries, sum;
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

static int on_entry(void *ctx, const struct tar_entry *e, struct err *err)
{
	struct seen *s = ctx;

	must(!s->open && !s->refused);
	must(memchr(e->path, 0, sizeof(e->path)) && memchr(e->target, 0, sizeof(e->target)));
	s->entries++;
	for (const char *p = e->path; *p; p++)
		s->sum = s->sum * 31 + (unsigned char)*p;
	if (e->type == TAR_FILE) {
		s->open = true;
		s->left = e->size;
	}
	tree_path_check(e->path, err);
	s->refused = e->path[0] == '!';
	return s->refused ? err_set(err, -EDQUOT, "no room") : 0;
}

static int on_data(void *ctx, const uint8_t *p, size_t n, struct err *err)
{
	struct seen *s = ctx;

	must(s->open && n <= s->left && !s->refused);
	s->refused = n && p[0] == '!';
	if (s->refused)
		return err_set(err, -EDQUOT, "no room");
	s->left -= n;
	for (size_t i = 0; i < n; i++)
		s->sum = s->sum * 31 + p[i];
	return 0;
}

static int on_end(void *ctx, struct err *err)
{
	struct seen *s = ctx;

	must(s->open && s->left == 0 && !s->refused);
	s->open = false;
	return 0;
}

static int feed(const uint8_t *data, size_t size, size_t piece, struct seen *ret)
{
	static const struct tar_ops ops = { on_entry, on_data, on_end };
	struct tar *t = tar_new(&ops, ret);
	struct err err = { 0 };
	int r = 0;

	must(t);
	for (size_t i = 0; i < size && r == 0; i += piece)
		r = tar_feed(t, data + i, size - i < piece ? size - i : piece, &err);
	if (r == 0)
		r = tar_finish(t, &err);
	must(r == 0 || err.msg[0]);
	tar_free(t);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen a = { 0 }, b = { 0 };
	int ra = feed(data, size, size ? size : 1, &a), rb = feed(data, size, 7, &b);

	must((ra == 0) == (rb == 0));
	must(a.entries == b.entries && a.refused == b.refused && (ra < 0 || a.sum == b.sum));
	return 0;
}
