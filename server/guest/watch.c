/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - changes to the guest's files, record by record */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

#define RECORD_MAX (5u + AGENT_PATH_MAX) /* bytes: kind, length, path */
#define WATCH_BEGIN_MS 120000            /* a large tree, an emulated machine */

static int no_sense(struct err *err)
{
	return err_set(err, -EPROTO, "the guest sent a malformed list of changes");
}

/* A whole record out of what is there: 1, 0 when more is needed, -EBADMSG. */
static int parse(struct guest_flow *f, unsigned *ret_kind, const char **ret_path)
{
	struct rd c = rd_of(f->acc.p ? f->acc.p + f->acc_off : NULL, f->acc.len - f->acc_off);
	uint8_t kind;

	if (c.left < 5)
		return 0;
	if (get_be32(c.p + 1) > AGENT_PATH_MAX)
		return -EBADMSG;
	if (c.left < 5 + (size_t)get_be32(c.p + 1))
		return 0;
	if (rd_u8(&c, &kind) < 0 || agent_text_get(&c, AGENT_PATH_MAX, ret_path) < 0 || !kind ||
	    kind >= AGENT_CHANGE_END)
		return -EBADMSG;
	*ret_kind = kind;
	f->acc_off = f->acc.len - c.left;
	return 1;
}

int guest_watch_next(struct guest_flow *f, struct guest_change *ret, struct err *err)
{
	for (;;) {
		unsigned kind;
		const char *path;
		uint8_t chunk[RECORD_MAX];
		ssize_t k;
		int r = parse(f, &kind, &path);

		if (r < 0)
			return no_sense(err);
		if (r > 0 && kind == AGENT_CHANGE_READY) {
			if (f->watching) /* or a guest could keep us in here */
				return no_sense(err);
			f->watching = true;
			continue;
		}
		if (r > 0) {
			ret->type = agent_change_name(kind);
			snprintf(ret->path, sizeof(ret->path), "%s", path);
			return 1;
		}
		k = guest_flow_read(f, NULL, chunk, sizeof(chunk), err);
		if (k <= 0)
			return (int)k;
		if (f->acc_off)
			memmove(f->acc.p, f->acc.p + f->acc_off, f->acc.len - f->acc_off);
		f->acc.len -= f->acc_off;
		f->acc_off = 0;
		buf_put(&f->acc, chunk, (size_t)k);
		if (f->acc.failed)
			return err_set(err, -ENOMEM, "out of memory");
	}
}

int guest_watch(struct guest *g, const char *user, const char *path, struct guest_flow **ret,
                struct err *err)
{
	struct agent_fs_req m = { .user = user, .path = path };
	uint64_t deadline = deadline_in(WATCH_BEGIN_MS);
	autoflow struct guest_flow *f = NULL;
	autobuf struct buf b = { 0 };
	int r;

	guest_fs_req(&b, AGENT_OP_FS_WATCH, &m);
	r = flow_open(g, &b, deadline, &f, err);
	if (r == 0)
		r = flow_first(f, deadline,
		               err); /* the first record comes when all watches are set up */
	if (r == 0)
		return no_sense(err);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(f);
	return 0;
}
