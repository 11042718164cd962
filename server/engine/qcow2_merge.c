/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qcow2_merge.c - merges several disk layers into one
 *
 * Theory of operation: one walk over the disk, front to back. At each offset
 * the layers are asked from the top down until one has an answer; the
 * answer holds as far as all those asked agree. Each layer's last answer is
 * kept, so that a long hole in an upper layer is looked up once and not once
 * per run below it: the walk is linear in the size of the tables.
 *
 * A layer that is smaller than the one above it reads as zeros beyond its end,
 * whatever is below it: QEMU reads it the same way. Beyond the end of the bottom zeros
 * are not written, because a hole reads the same there.
 *
 * Whole clusters are copied or flagged. A cluster made of several
 * pieces (layers with smaller clusters, a layer that ends inside it) is assembled
 * in memory, with the bottom's bytes where they show through.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "engine/qcow2.h"
#include "engine/qcow2_read.h"

/* What is visible at an offset: a hole is the bottom. */
struct piece {
	struct qcow2_run run;
	int fd; /* of data; weak */
};

struct source {
	int fd;          /* weak */
	struct qcow2 *q; /* owned; NULL: raw */
	uint64_t size;
	struct qcow2_run last; /* the answer for last_off */
	uint64_t last_off;
};

struct merge {
	struct source *src; /* owned; bottom first */
	size_t n;
	struct qcow2_writer *out; /* owned */
	uint64_t size;            /* of the top, and of the result */
	uint64_t copied,
	        most; /* bytes of data; more than the files have means that a file is changing */
	uint8_t cluster[QCOW2_CLUSTER];
};

static void merge_free(struct merge **mp)
{
	struct merge *m = *mp;

	if (!m)
		return;
	for (size_t i = 0; m->src && i < m->n; i++)
		qcow2_close(m->src[i].q);
	free(m->src);
	qcow2_writer_free(m->out);
	free(m);
}

static int source_open(struct source *s, int fd, bool raw, struct err *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "disk layer");
	s->fd = fd;
	s->size = (uint64_t)st.st_size;
	if (raw)
		return 0;
	r = qcow2_open(fd, &s->q, err);
	if (r < 0)
		return r;
	s->size = qcow2_size(s->q);
	return 0;
}

static int source_map(struct source *s, uint64_t off, struct qcow2_run *ret, struct err *err)
{
	uint64_t in;

	if (off < s->last_off || off - s->last_off >= s->last.len) {
		int r = qcow2_map(s->q, off, UINT64_MAX, &s->last, err);

		if (r < 0)
			return r;
		s->last_off = off;
	}
	in = off - s->last_off;
	*ret = s->last;
	ret->len -= in;
	if (ret->kind == QCOW2_DATA)
		ret->host += in;
	return 0;
}

static int piece_at(struct merge *m, uint64_t off, uint64_t max, struct piece *ret, struct err *err)
{
	uint64_t below = m->src[0].size, len = MIN(max, m->size - off);

	*ret = (struct piece){ .run.kind = QCOW2_HOLE, .fd = -1 };
	for (size_t i = m->n - 1; i > 0 && ret->run.kind == QCOW2_HOLE; i--) {
		struct source *s = &m->src[i];
		int r;

		if (off >= s->size) {
			ret->run.kind = QCOW2_ZERO;
			break;
		}
		r = source_map(s, off, &ret->run, err);
		if (r < 0)
			return r;
		len = MIN(len, ret->run.len);
		ret->fd = s->fd;
	}
	if (ret->run.kind == QCOW2_ZERO && off >= below)
		ret->run.kind = QCOW2_HOLE;
	else if (ret->run.kind == QCOW2_ZERO)
		len = MIN(len, below - off);
	ret->run.len = len;
	return 0;
}

static int read_zero_filled(int fd, uint8_t *p, uint64_t n, uint64_t off, struct err *err)
{
	while (n) {
		ssize_t k = pread(fd, p, n, (off_t)off);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return err_sys(err, -errno, "read disk layer");
		if (k == 0)
			break;
		p += k;
		off += (uint64_t)k;
		n -= (uint64_t)k;
	}
	memset(p, 0, n);
	return 0;
}

static int read_bottom(struct source *s, uint8_t *p, uint64_t n, uint64_t off, struct err *err)
{
	struct qcow2_run run;
	int r;

	if (!s->q)
		return read_zero_filled(s->fd, p, n, off, err);
	while (n && off < s->size) {
		r = source_map(s, off, &run, err);
		if (r < 0)
			return r;
		run.len = MIN(run.len, n);
		if (run.kind != QCOW2_DATA)
			memset(p, 0, run.len);
		else if ((r = read_zero_filled(s->fd, p, run.len, run.host, err)) < 0)
			return r;
		p += run.len;
		off += run.len;
		n -= run.len;
	}
	memset(p, 0, n);
	return 0;
}

static int count_copied(struct merge *m, uint64_t n, struct err *err)
{
	m->copied += n;
	if (m->copied > m->most)
		return err_set(err, -EBADMSG, "disk layer changed while it was read");
	return 0;
}

/* One cluster made of several pieces. */
static int merge_mixed(struct merge *m, uint64_t off, struct err *err)
{
	uint64_t len = MIN(QCOW2_CLUSTER, m->size - off);
	bool data = false, zero = false, hole = false;
	struct piece p;
	int r;

	memset(m->cluster, 0, sizeof(m->cluster));
	for (uint64_t in = 0; in < len; in += p.run.len) {
		r = piece_at(m, off + in, len - in, &p, err);
		if (r < 0)
			return r;
		if (p.run.kind == QCOW2_DATA) {
			data = true;
			r = count_copied(m, p.run.len, err);
			if (r == 0)
				r = read_zero_filled(p.fd, m->cluster + in, p.run.len, p.run.host,
				                     err);
		} else if (p.run.kind == QCOW2_ZERO) {
			zero = true;
		} else if (off + in < m->src[0].size) {
			hole = true;
			r = read_bottom(&m->src[0], m->cluster + in, p.run.len, off + in, err);
		}
		if (r < 0)
			return r;
	}
	if (data || (zero && hole))
		return qcow2_writer_put(m->out, off, m->cluster, err);
	return zero ? qcow2_writer_zero(m->out, off, len, err) : 0;
}

static int merge_walk(struct merge *m, struct err *err)
{
	uint64_t off = 0;
	struct piece p;
	int r;

	while (off < m->size) {
		r = piece_at(m, off, UINT64_MAX, &p, err);
		if (r < 0)
			return r;
		/* whole clusters; the last one of the disk may be a part */
		if (off + p.run.len < m->size)
			p.run.len -= p.run.len % QCOW2_CLUSTER;
		if (!p.run.len) {
			r = merge_mixed(m, off, err);
			p.run.len = MIN(QCOW2_CLUSTER, m->size - off);
		} else if (p.run.kind == QCOW2_ZERO) {
			r = qcow2_writer_zero(m->out, off, p.run.len, err);
		} else if (p.run.kind == QCOW2_DATA) {
			r = count_copied(m, p.run.len, err);
			if (r == 0)
				r = qcow2_writer_copy(m->out, off, p.run.len, p.fd, p.run.host,
				                      err);
		}
		if (r < 0)
			return r;
		off += p.run.len;
	}
	return 0;
}

int qcow2_merge(const struct qcow2_merge *in, int out_fd, uint64_t *ret_file_bytes, struct err *err)
{
	AUTO(merge_free) struct merge *m = calloc(1, sizeof(*m));
	uint64_t data = 0;
	int r;

	if (in->n < 2)
		return err_set(err, -EINVAL, "a disk chain of %zu layers cannot be merged", in->n);
	if (!m || !(m->src = calloc(in->n, sizeof(*m->src))))
		return err_set(err, -ENOMEM, "merge disk layers: out of memory");
	m->n = in->n;
	for (size_t i = 0; i < m->n; i++) {
		r = source_open(&m->src[i], in->layers[i], i == 0 && in->bottom_raw, err);
		/* all errors in a layer are found before anything is written */
		if (r == 0 && i > 0)
			r = qcow2_measure(m->src[i].q, &data, err);
		if (r < 0)
			return err_wrap(err, r, "layer %zu of %zu", i + 1, m->n);
		m->most += data;
	}
	m->size = m->src[m->n - 1].size;
	r = qcow2_writer_new(out_fd, m->size, &m->out, err);
	if (r < 0)
		return r;
	r = merge_walk(m, err);
	return r < 0 ? r : qcow2_writer_finish(m->out, ret_file_bytes, err);
}
