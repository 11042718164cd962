/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flatten.c - merges a chain of layers into one
 *
 * Every layer is opened as for a thaw, with its checksums: damage must not get
 * a new, valid checksum by being copied. The result is written under a temporary
 * name, made durable, and only then renamed; a crash leaves a .part file that
 * nothing refers to. The chain itself is not changed: the caller switches to the result
 * and drops the old layers when no point needs them any more.
 *
 * Memory: the extent tables are merged by the layer library's own code, so the result
 * is by construction what MAP would have shown. Neighbours that came
 * from different layers are adjacent in the new file and become one
 * extent. A result on top of the chain's bottom layer, which all relatives
 * share, keeps its zero extents: they hide what is below. A result that is a
 * bottom layer itself needs none, and if it has too many extents to map, the
 * smallest gaps between them are filled with zeros, which is what they read as;
 * in the file these are holes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/engine_internal.h"
#include "engine/qcow2.h"
#include "layers/format.h"

#define COPY_CHUNK (1u << 20) /* bytes */
#define EXTENTS_WANTED 4096u  /* each is a mapping in QEMU; the kernel allows 65530 of them */

struct fds {
	int fd[ENGINE_CHAIN_MAX];
	size_t n;
};

static void fds_close(struct fds *f)
{
	for (size_t i = 0; i < f->n; i++)
		close(f->fd[i]);
}

/* The new file under its temporary name. */
struct part {
	int fd;                    /* owned; -1: not created */
	char path[PATH_MAX];       /* layers/<id>.part */
	char final_path[PATH_MAX]; /* layers/<id> */
};

static void part_drop(struct part *p)
{
	if (p->fd < 0)
		return;
	close(p->fd);
	if (p->path[0])
		unlink(p->path);
}

static int part_open(struct engine *e, const char *id, struct part *ret, struct err *err)
{
	int r = engine_path(e, ret->path, sizeof(ret->path), "layers", id, ".part", err);

	if (r == 0)
		r = engine_path(e, ret->final_path, sizeof(ret->final_path), "layers", id, "", err);
	if (r < 0)
		return r;
	if (access(ret->final_path, F_OK) == 0)
		return err_set(err, -EEXIST, "layer %s exists", id);
	ret->fd = open(ret->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (ret->fd < 0)
		return err_sys(err, -errno, "create layer '%s'", ret->path);
	return 0;
}

/* Makes it durable, then renames it. */
static int part_commit(struct engine *e, struct part *p, struct err *err)
{
	char dir[PATH_MAX];
	autofd int dirfd = -1;
	int r = engine_path(e, dir, sizeof(dir), "layers", "", "", err);

	if (r < 0)
		return r;
	dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return err_sys(err, -errno, "open '%s'", dir);
	if (fsync(p->fd) < 0)
		return err_sys(err, -errno, "sync '%s'", p->path);
	if (rename(p->path, p->final_path) < 0)
		return err_sys(err, -errno, "rename '%s'", p->path);
	p->path[0] = '\0';
	if (fsync(dirfd) < 0) {
		r = -errno;
		unlink(p->final_path);
		return err_sys(err, r, "sync '%s'", dir);
	}
	return 0;
}

static int open_chain(struct engine *e, const struct engine_chain *c, struct fds *ret,
                      struct err *err)
{
	if (c->n > ENGINE_CHAIN_MAX)
		return err_set(err, -EINVAL, "chain of %zu layers", c->n);
	for (size_t i = 0; i < c->n; i++) {
		int r = engine_open_layer(e, &c->l[i], &ret->fd[i], err);

		if (r < 0)
			return r;
		ret->n++;
	}
	return 0;
}

int engine_flatten_disk(struct engine *e, const struct engine_chain *c, const char *new_id,
                        uint64_t *ret_bytes, struct err *err)
{
	AUTO(part_drop) struct part part = { .fd = -1 };
	AUTO(fds_close) struct fds fds = { 0 };
	int r;

	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->l[i].format, "qcow2") != 0 &&
		    (i > 0 || strcmp(c->l[i].format, "raw") != 0))
			return err_set(err, -EINVAL, "layer %s of a disk chain has format '%s'",
			               c->l[i].id, c->l[i].format);
	if (c->n < 2)
		return err_set(err, -EINVAL, "flatten: a disk chain of %zu layers", c->n);
	if ((r = open_chain(e, c, &fds, err)) < 0 || (r = part_open(e, new_id, &part, err)) < 0)
		return r;
	r = qcow2_merge(&(struct qcow2_merge){ .layers = fds.fd,
	                                       .n = fds.n,
	                                       .bottom_raw = strcmp(c->l[0].format, "raw") == 0 },
	                part.fd, ret_bytes, err);
	if (r < 0)
		return err_wrap(err, r, "flatten disk into layer %s", new_id);
	return part_commit(e, &part, err);
}

/* ---- memory ---- */

/* The decoded tables of a chain. */
struct tables {
	struct layer_table t[ENGINE_CHAIN_MAX]; /* their extents are owned here */
	size_t n;
	uint64_t mem_bytes;
	struct layer_piece *pieces; /* owned: the merge */
	size_t n_pieces;
	bool bottom; /* nothing is below the result */
};

static void tables_free(struct tables *t)
{
	for (size_t i = 0; i < t->n; i++)
		free((void *)t->t[i].extents);
	free(t->pieces);
}

static int table_read(int fd, const char *id, struct tables *t, struct err *err)
{
	autofree struct layer_extent *extents = NULL;
	autofree uint8_t *bytes = NULL;
	uint8_t page[LAYER_PAGE];
	struct layer_info info;
	const char *why = "";
	struct stat st;
	size_t n;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "memory layer %s", id);
	r = io_pread_all(fd, page, sizeof(page), 0);
	if (r < 0)
		return err_sys(err, r, "memory layer %s: read", id);
	if (layer_header_decode(page, (uint64_t)st.st_size, &info, &why) < 0)
		return err_tag(err, -EBADMSG, ERR_POINT_DAMAGED, "memory layer %s is damaged: %s",
		               id, why);
	if (t->n > 0 && info.mem_bytes != t->mem_bytes)
		return err_set(err, -EINVAL,
		               "memory layer %s is of %llu bytes of memory, its parent of %llu", id,
		               (unsigned long long)info.mem_bytes,
		               (unsigned long long)t->mem_bytes);
	n = layer_table_bytes(&info);
	bytes = malloc(n + 1);
	extents = calloc(info.n_extents + 1, sizeof(*extents));
	if (!bytes || !extents)
		return err_set(err, -ENOMEM, "memory layer %s: out of memory", id);
	r = io_pread_all(fd, bytes, n, (off_t)layer_table_off(&info));
	if (r < 0)
		return err_sys(err, r, "memory layer %s: read", id);
	if (layer_table_decode(&info, bytes, n, extents, &why) < 0)
		return err_tag(err, -EBADMSG, ERR_POINT_DAMAGED, "memory layer %s is damaged: %s",
		               id, why);
	t->mem_bytes = info.mem_bytes;
	t->t[t->n++] = (struct layer_table){ .extents = TAKE_PTR(extents), .n = info.n_extents };
	return 0;
}

static int copy_piece(int from, uint64_t from_off, int to, uint64_t to_off, uint64_t len,
                      uint8_t *chunk, uint32_t *crc, struct err *err)
{
	while (len) {
		size_t n = MIN(len, COPY_CHUNK);
		int r = io_pread_all(from, chunk, n, (off_t)from_off);

		if (r < 0)
			return err_sys(err, r, "read memory layer");
		*crc = layer_crc32c(*crc, chunk, n);
		r = io_pwrite_all(to, chunk, n, (off_t)to_off);
		if (r < 0)
			return err_sys(err, r, "write memory layer");
		from_off += n;
		to_off += n;
		len -= n;
	}
	return 0;
}

/* Widest gap (in bytes) that must be filled to get down to the wanted number of extents. */
static uint64_t gap_to_fill(const struct tables *t)
{
	uint64_t gap = 0;

	while (t->bottom) {
		size_t n = 1;

		for (size_t i = 1; i < t->n_pieces; i++) {
			const struct layer_piece *p = &t->pieces[i - 1];

			n += t->pieces[i].guest_off - (p->guest_off + p->len) > gap;
		}
		if (n <= EXTENTS_WANTED)
			return gap;
		gap = gap ? 2 * gap : LAYER_PAGE;
	}
	return 0;
}

static uint32_t crc_zeros(uint32_t crc, uint64_t n)
{
	static const uint8_t zeros[LAYER_PAGE];

	for (; n; n -= LAYER_PAGE)
		crc = layer_crc32c(crc, zeros, LAYER_PAGE);
	return crc;
}

/* Copies the data pages one after the other; returns the rows that describe them. */
static int write_data(const struct fds *fds, const struct tables *t, int out,
                      struct layer_extent *rows, struct layer_info *info, struct err *err)
{
	autofree uint8_t *chunk = malloc(COPY_CHUNK);
	uint64_t off = LAYER_PAGE, fill = gap_to_fill(t);
	struct layer_extent *row = NULL;

	if (!chunk)
		return err_set(err, -ENOMEM, "flatten memory: out of memory");
	for (size_t i = 0; i < t->n_pieces; i++) {
		const struct layer_piece *p = &t->pieces[i];
		uint64_t gap = row ? p->guest_off - (row->guest_off + row->len) : UINT64_MAX;
		int r;

		if (p->flags & LAYER_EXTENT_ZERO) {
			rows[info->n_extents++] = (struct layer_extent){
				.guest_off = p->guest_off, .len = p->len, .flags = LAYER_EXTENT_ZERO
			};
			row = NULL;
			continue;
		}
		if (gap <= fill) {
			info->data_crc = crc_zeros(info->data_crc, gap);
			off += gap;
			row->len += gap;
		} else {
			row = &rows[info->n_extents++];
			*row = (struct layer_extent){ .guest_off = p->guest_off, .file_off = off };
		}
		r = copy_piece(fds->fd[p->layer], p->file_off, out, off, p->len, chunk,
		               &info->data_crc, err);
		if (r < 0)
			return r;
		row->len += p->len;
		off += p->len;
	}
	info->data_pages = off / LAYER_PAGE - 1;
	return 0;
}

static int write_layer(const struct fds *fds, const struct tables *t, int out,
                       struct layer_info *ret_info, struct err *err)
{
	autofree struct layer_extent *rows = calloc(t->n_pieces + 1, sizeof(*rows));
	struct layer_info info = { .mem_bytes = t->mem_bytes };
	autofree uint8_t *table = NULL;
	uint8_t page[LAYER_PAGE];
	int r;

	if (!rows)
		return err_set(err, -ENOMEM, "flatten memory: out of memory");
	r = write_data(fds, t, out, rows, &info, err);
	if (r < 0)
		return r;
	table = malloc(layer_table_bytes(&info) + 1);
	if (!table)
		return err_set(err, -ENOMEM, "flatten memory: out of memory");
	info.table_crc = layer_table_encode(rows, info.n_extents, table);
	layer_header_encode(&info, page);
	if ((r = io_pwrite_all(out, table, layer_table_bytes(&info),
	                       (off_t)layer_table_off(&info))) < 0 ||
	    (r = io_pwrite_all(out, page, sizeof(page), 0)) < 0)
		return err_sys(err, r, "write memory layer");
	*ret_info = info;
	return 0;
}

int engine_flatten_mem(struct engine *e, const struct engine_chain *c, bool keep_bottom,
                       const char *new_id, uint64_t *ret_bytes, uint32_t *ret_crc, struct err *err)
{
	AUTO(part_drop) struct part part = { .fd = -1 };
	AUTO(tables_free) struct tables tables = { .bottom = !keep_bottom };
	AUTO(fds_close) struct fds fds = { 0 };
	struct engine_chain merged = *c;
	struct layer_info info = { 0 };
	int r;

	if (c->n < (keep_bottom ? 2 : 1))
		return err_set(err, -EINVAL, "flatten: a memory chain of %zu layers", c->n);
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->l[i].format, "mem") != 0)
			return err_set(err, -EINVAL, "layer %s of a memory chain has format '%s'",
			               c->l[i].id, c->l[i].format);
	if (keep_bottom)
		memmove(merged.l, merged.l + 1, --merged.n * sizeof(*merged.l));
	r = open_chain(e, &merged, &fds, err);
	for (size_t i = 0; r == 0 && i < fds.n; i++)
		r = table_read(fds.fd[i], merged.l[i].id, &tables, err);
	if (r < 0)
		return r;
	r = layer_stack_merge(tables.t, tables.n, /* keep_zero= */ keep_bottom, &tables.pieces,
	                      &tables.n_pieces);
	if (r < 0)
		return err_sys(err, r, "flatten memory: merge of %zu layers", tables.n);
	r = part_open(e, new_id, &part, err);
	if (r < 0)
		return r;
	r = write_layer(&fds, &tables, part.fd, &info, err);
	if (r == 0)
		r = part_commit(e, &part, err);
	if (r < 0)
		return err_wrap(err, r, "flatten memory into layer %s", new_id);
	*ret_bytes = layer_table_off(&info) + layer_table_bytes(&info);
	*ret_crc = info.data_crc;
	return 0;
}
