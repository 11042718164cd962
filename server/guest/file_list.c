/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.c - the entries of a directory, sorted by name */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct guest_dirent *)a)->name,
	              ((const struct guest_dirent *)b)->name);
}

void guest_dirents_free(struct guest_dirent *d, size_t n)
{
	for (size_t i = 0; d && i < n; i++)
		free(d[i].name);
	free(d);
}

static int collect(struct stream *s, uint64_t deadline, struct buf *all, struct err *err)
{
	autobuf struct buf tmp = { 0 };
	const uint8_t *body;
	size_t n;

	for (;;) {
		int ev = stream_wait(s, STREAM_DATA | STREAM_DONE, deadline, err), r;

		if (ev < 0)
			return ev;
		stream_take(s, AGENT_OUT, &tmp);
		if (!tmp.len && (ev & STREAM_DONE))
			return stream_result(s, &body, &n, err);
		if (!tmp.len)
			return err_set(err, -EPROTO, "the guest sent a list on the wrong channel");
		if (all->len + tmp.len > GUEST_LIST_BYTES)
			return err_set(err, -E2BIG, "the directory has too many entries");
		buf_put(all, tmp.p, tmp.len);
		if (all->failed)
			return err_set(err, -ENOMEM, "out of memory for a directory");
		r = stream_consumed(s, AGENT_OUT, tmp.len, err);
		if (r < 0)
			return r;
	}
}

/* One entry; names must not contain slashes: a guest must not smuggle in paths. */
static int entry_get(struct rd *c, struct guest_dirent *ret)
{
	const char *name;
	uint8_t kind;

	if (rd_u8(c, &kind) < 0 || agent_text_get(c, 256, &name) < 0)
		return -EPROTO;
	if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
		return -EPROTO;
	ret->kind = kind == AGENT_FILE      ? GUEST_FILE
	            : kind == AGENT_DIR     ? GUEST_DIR
	            : kind == AGENT_SYMLINK ? GUEST_SYMLINK
	                                    : GUEST_OTHER;
	ret->name = strdup(name);
	return ret->name ? 0 : -ENOMEM;
}

static int parse(const struct buf *all, struct guest_dirent **ret, size_t *ret_n, struct err *err)
{
	struct rd c = rd_of(all->p, all->len);
	struct guest_dirent *d = NULL;
	size_t n = 0, cap = 0;

	while (c.left) {
		int r = 0;

		if (n == cap) {
			struct guest_dirent *p;

			cap = cap ? cap * 2 : 64;
			p = reallocarray(d, cap, sizeof(*d));
			if (!p)
				r = -ENOMEM;
			else
				d = p;
		}
		if (r == 0)
			r = entry_get(&c, &d[n]);
		if (r < 0) {
			guest_dirents_free(d, n);
			return err_set(err, r, "the guest sent a malformed directory listing");
		}
		n++;
	}
	if (n)
		qsort(d, n, sizeof(*d), by_name);
	*ret = d;
	*ret_n = n;
	return 0;
}

int guest_list_dir(struct guest *g, const char *user, const char *path, struct guest_dirent **ret,
                   size_t *ret_n, struct err *err)
{
	struct agent_fs_req m = { .user = user, .path = path };
	uint64_t deadline = deadline_in(GUEST_CALL_MS);
	autobuf struct buf req = { 0 }, all = { 0 };
	autostream struct stream *s = NULL;
	int r;

	guest_fs_req(&req, AGENT_OP_FS_LIST, &m);
	r = stream_open(g, &req, /* opts= */ 0, deadline, &s, err);
	if (r == 0)
		r = collect(s, deadline, &all, err);
	return r < 0 ? r : parse(&all, ret, ret_n, err);
}
