/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff_merge.c - two walks side by side; what is not the same
 *
 * Both trees come from one ancestor. A file whose inode and change time are the same on both
 * sides, and whose change time lies before the ancestor was frozen, was not touched by either. Any
 * other pair of files of equal size and mode is doubtful, and what is in them decides: times alone
 * are no difference. Doubtful pairs are collected and asked for many at a time, because every
 * question costs a process in the guest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "vm/diff.h"

#define BATCH_BYTES (UINT64_C(256) << 20) /* of file contents between two looks at the clock */
/* Guest clocks and ours differ a little, and a tick of the guest's is some milliseconds. */
#define CLOCK_SLACK_NS INT64_C(10000000000)

struct side {
	struct guest_walk *w;
	struct guest_walk_rec rec;
	bool has; /* rec is there */
};

struct pair {
	struct vm_change c;
	bool doubtful;
};

struct merge {
	const struct diff_in *in;
	struct side s[2];
	struct pair batch[2 * GUEST_HASH_MAX];
	size_t n_batch, n_doubtful;
	uint64_t batch_bytes;
	char *reached; /* owned; last path looked at */
	struct vm_diff out;
	size_t cap;
};

static int advance(struct side *s, struct err *err)
{
	int r = guest_walk_next(s->w, &s->rec, err);

	s->has = r == 1;
	return r < 0 ? r : 0;
}

/* Untouched since the ancestor, as far as times can tell. */
static bool untouched(const struct merge *m, const struct guest_walk_rec *a,
                      const struct guest_walk_rec *b)
{
	return a->ino == b->ino && a->ctime_ns == b->ctime_ns && a->mtime_ns == b->mtime_ns &&
	       a->ctime_ns < m->in->ancestor_ms * 1000000 - CLOCK_SLACK_NS;
}

/* 1: different, 0: the same, 2: ask what is in them. */
static int compare(const struct merge *m, const struct guest_walk_rec *a,
                   const struct guest_walk_rec *b)
{
	if (a->mode != b->mode || a->uid != b->uid || a->gid != b->gid)
		return 1;
	if (a->kind == GUEST_DIR)
		return 0;
	if (a->kind == GUEST_SYMLINK)
		return strcmp(a->link, b->link) != 0;
	if (a->size != b->size)
		return 1;
	return a->kind != GUEST_FILE || !a->size || untouched(m, a, b) ? 0 : 2;
}

static int note(struct merge *m, enum change_kind k, const struct guest_walk_rec *a,
                const struct guest_walk_rec *b, bool doubtful, struct err *err)
{
	const struct guest_walk_rec *shown = a ? a : b;
	struct pair *p = &m->batch[m->n_batch];

	*p = (struct pair){ .doubtful = doubtful,
		            .c = { .change = k,
		                   .kind = (int)shown->kind,
		                   .here = a != NULL,
		                   .there = b != NULL,
		                   .mtime_ms = shown->mtime_ns / 1000000 } };
	if (a && a->kind == GUEST_FILE)
		p->c.size = a->size;
	if (b && b->kind == GUEST_FILE)
		p->c.other_size = b->size;
	p->c.path = strdup(shown->path);
	if (!p->c.path)
		return err_set(err, -ENOMEM, "out of memory for a comparison");
	m->n_batch++;
	m->n_doubtful += doubtful;
	if (doubtful)
		m->batch_bytes += shown->size;
	return 0;
}

/* One path of either side or both. */
static int step(struct merge *m, struct err *err)
{
	struct side *a = &m->s[0], *b = &m->s[1];
	int c = !a->has ? 1 : !b->has ? -1 : guest_path_cmp(a->rec.path, b->rec.path);
	int r = 0, d;

	free(m->reached);
	m->reached = strdup(c <= 0 ? a->rec.path : b->rec.path);
	if (!m->reached)
		return err_set(err, -ENOMEM, "out of memory for a comparison");
	if (c < 0) {
		r = note(m, CHANGE_ADDED, &a->rec, NULL, false, err);
	} else if (c > 0) {
		r = note(m, CHANGE_REMOVED, NULL, &b->rec, false, err);
	} else if ((a->rec.mode ^ b->rec.mode) & 0170000) {
		r = note(m, CHANGE_TYPE, &a->rec, &b->rec, false, err);
	} else {
		d = compare(m, &a->rec, &b->rec);
		if (d)
			r = note(m, CHANGE_MODIFIED, &a->rec, &b->rec, d == 2, err);
	}
	if (r == 0 && c <= 0)
		r = advance(a, err);
	if (r == 0 && c >= 0)
		r = advance(b, err);
	return r;
}

static int ask(struct merge *m, struct err *err)
{
	struct guest_hash h[2][GUEST_HASH_MAX];
	const char *paths[GUEST_HASH_MAX];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < m->n_batch; i++)
		if (m->batch[i].doubtful)
			paths[n++] = m->batch[i].c.path;
	for (int k = 0; k < 2 && n && r == 0; k++)
		r = guest_hash_files(m->in->g[k], paths, n, h[k], m->in->deadline_ms, err);
	if (r < 0)
		return r;
	n = 0;
	for (size_t i = 0; i < m->n_batch; i++) {
		struct pair *p = &m->batch[i];

		if (!p->doubtful)
			continue;
		/* What became unreadable meanwhile is no equal. */
		if (h[0][n].ok && h[1][n].ok && !memcmp(h[0][n].bytes, h[1][n].bytes, 16)) {
			free(p->c.path);
			p->c.path = NULL;
		}
		n++;
	}
	return 0;
}

static int put_out(struct merge *m, struct vm_change *c, struct err *err)
{
	if (m->out.n == m->cap) {
		size_t cap = m->cap ? 2 * m->cap : 64;
		void *p = reallocarray(m->out.v, cap, sizeof(*m->out.v));

		if (!p)
			return err_set(err, -ENOMEM, "out of memory for a comparison");
		m->out.v = p;
		m->cap = cap;
	}
	m->out.v[m->out.n++] = *c;
	c->path = NULL;
	return 0;
}

/* The batch is settled and goes out; what is over the limit is dropped and found again later. */
static int settle(struct merge *m, bool *ret_full, struct err *err)
{
	int r = ask(m, err);

	for (size_t i = 0; i < m->n_batch; i++) {
		struct vm_change *c = &m->batch[i].c;

		if (r == 0 && c->path && m->out.n < m->in->limit)
			r = put_out(m, c, err);
		else if (r == 0 && c->path)
			*ret_full = true;
		free(c->path);
	}
	m->n_batch = m->n_doubtful = 0;
	m->batch_bytes = 0;
	return r;
}

static int stop_at(struct merge *m, const char *path, struct err *err)
{
	m->out.cursor = strdup(path);
	return m->out.cursor ? 0 : err_set(err, -ENOMEM, "out of memory for a comparison");
}

static int run(struct merge *m, struct err *err)
{
	bool full = false;
	int r = 0;

	for (int k = 0; k < 2 && r == 0; k++)
		r = advance(&m->s[k], err);
	while (r == 0) {
		bool more = m->s[0].has || m->s[1].has;
		bool late = m->reached && clock_ms() >= m->in->soft_ms;

		if (more && !late && m->n_batch < ARRAY_SIZE(m->batch) &&
		    m->n_doubtful < GUEST_HASH_MAX && m->batch_bytes < BATCH_BYTES &&
		    m->out.n + m->n_batch - m->n_doubtful <= m->in->limit) {
			r = step(m, err);
			continue;
		}
		r = settle(m, &full, err);
		if (r == 0 && full)
			return stop_at(m, m->out.v[m->out.n - 1].path, err);
		if (r == 0 && !more)
			return 0;
		if (r == 0 && m->reached && (late || m->out.n >= m->in->limit))
			return stop_at(m, m->reached, err);
	}
	return r;
}

int diff_merge(const struct diff_in *in, struct vm_diff *ret, struct err *err)
{
	struct merge *m = calloc(1, sizeof(*m));
	int r = 0;

	if (!m)
		return err_set(err, -ENOMEM, "out of memory for a comparison");
	m->in = in;
	for (int k = 0; k < 2 && r == 0; k++)
		r = guest_walk_open(in->g[k], &in->walk, in->deadline_ms, &m->s[k].w, err);
	if (r == 0)
		r = run(m, err);
	for (int k = 0; k < 2; k++)
		guest_walk_close(m->s[k].w);
	for (size_t i = 0; i < m->n_batch; i++)
		free(m->batch[i].c.path);
	free(m->reached);
	if (r < 0)
		vm_diff_done(&m->out);
	else
		*ret = m->out;
	free(m);
	return r;
}

void vm_diff_done(struct vm_diff *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].path);
	free(d->v);
	free(d->cursor);
	*d = (struct vm_diff){ 0 };
}
