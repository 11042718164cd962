/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walk.c - the records of a tree, pulled one by one
 *
 * Records arrive in pieces of any size; at most one piece and one record are kept. The guest
 * must keep the order and stay below the root: whoever merges two walks relies on it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

struct guest_walk {
	struct stream *s;
	uint64_t deadline;
	struct buf have; /* received; [at, len) not looked at yet */
	size_t at;
	struct buf piece;
	char *root, *last; /* owned */
	bool ended;
};

int guest_path_cmp(const char *a, const char *b)
{
	return agent_path_cmp(a, b);
}

void guest_walk_close(struct guest_walk *w)
{
	if (!w)
		return;
	stream_close(w->s);
	buf_done(&w->have);
	buf_done(&w->piece);
	free(w->root);
	free(w->last);
	free(w);
}

int guest_walk_open(struct guest *g, const struct guest_walk_req *req, uint64_t deadline_ms,
                    struct guest_walk **ret, struct err *err)
{
	struct agent_walk_req m = { .root = req->root, .after = req->after ? req->after : "" };
	autobuf struct buf b = { 0 };
	struct guest_walk *w = calloc(1, sizeof(*w));
	int r;

	if (w) {
		w->root = strdup(req->root);
		w->last = strdup(m.after);
	}
	if (!w || !w->root || !w->last) {
		guest_walk_close(w);
		return err_set(err, -ENOMEM, "out of memory for a walk");
	}
	for (size_t i = 0; i < req->n_ignore && m.n_ignore < AGENT_IGNORE_MAX; i++)
		m.ignore[m.n_ignore++] = req->ignore[i];
	buf_put_u16(&b, AGENT_OP_FS_WALK);
	agent_walk_req_put(&b, &m);
	w->deadline = deadline_ms;
	r = b.failed ? err_set(err, -ENOMEM, "out of memory for a walk")
	             : stream_open(g, &b, /* opts= */ 0, deadline_ms, &w->s, err);
	if (r < 0) {
		guest_walk_close(w);
		return r;
	}
	*ret = w;
	return 0;
}

/* More bytes behind what is left of those we have. 1, or 0 at the end. */
static int fill(struct guest_walk *w, struct err *err)
{
	const uint8_t *body;
	size_t n;
	int ev, r;

	if (w->at)
		memmove(w->have.p, w->have.p + w->at, w->have.len - w->at);
	w->have.len -= w->at;
	w->at = 0;
	ev = stream_wait(w->s, STREAM_DATA | STREAM_DONE, w->deadline, err);
	if (ev < 0)
		return ev;
	stream_take(w->s, AGENT_OUT, &w->piece);
	if (!w->piece.len && (ev & STREAM_DONE)) {
		r = stream_result(w->s, &body, &n, err);
		return r < 0 ? r : 0;
	}
	if (!w->piece.len)
		return err_set(err, -EPROTO, "the guest sent a file list on the wrong channel");
	buf_put(&w->have, w->piece.p, w->piece.len);
	if (w->have.failed)
		return err_set(err, -ENOMEM, "out of memory for a walk");
	r = stream_consumed(w->s, AGENT_OUT, w->piece.len, err);
	return r < 0 ? r : 1;
}

static bool below(const char *root, const char *path)
{
	size_t n = strcmp(root, "/") ? strlen(root) : 0;

	return !strncmp(root, path, n) && (path[n] == '/' || path[n] == '\0');
}

/* 1: a whole record was there. */
static int parse(struct guest_walk *w, struct agent_walk_rec *m, struct err *err)
{
	size_t left = w->have.len - w->at;
	const uint8_t *p;
	uint32_t n;

	if (!w->have.p || left < 4)
		return 0;
	p = w->have.p + w->at;
	n = get_be32(p);
	if (n > AGENT_WALK_REC_MAX)
		return err_set(err, -EPROTO, "the guest sent a malformed file list");
	if (left < 4 + (size_t)n)
		return 0;
	if (agent_walk_rec_get(p + 4, n, m) < 0 || agent_path_cmp(w->last, m->path) >= 0 ||
	    !below(w->root, m->path))
		return err_set(err, -EPROTO, "the guest sent a malformed file list");
	w->at += 4 + (size_t)n;
	return 1;
}

int guest_walk_next(struct guest_walk *w, struct guest_walk_rec *ret, struct err *err)
{
	struct agent_walk_rec m;
	char *last;
	int r;

	while ((r = parse(w, &m, err)) == 0) {
		r = w->ended ? 0 : fill(w, err);
		if (r > 0)
			continue;
		w->ended = true;
		if (r == 0 && w->have.len)
			return err_set(err, -EPROTO, "the guest's file list is truncated");
		return r;
	}
	if (r < 0)
		return r;
	last = strdup(m.path);
	if (!last)
		return err_set(err, -ENOMEM, "out of memory for a walk");
	free(w->last);
	w->last = last;
	*ret = (struct guest_walk_rec){ .kind = m.kind == AGENT_FILE      ? GUEST_FILE
		                                : m.kind == AGENT_DIR     ? GUEST_DIR
		                                : m.kind == AGENT_SYMLINK ? GUEST_SYMLINK
		                                                          : GUEST_OTHER,
		                        .mode = m.mode,
		                        .uid = m.uid,
		                        .gid = m.gid,
		                        .size = m.size,
		                        .mtime_ns = m.mtime_ns,
		                        .ctime_ns = m.ctime_ns,
		                        .ino = m.ino,
		                        .path = m.path,
		                        .link = m.link };
	return 1;
}
