/* SPDX-License-Identifier: MIT */
/*
 * map.c - lay a stack of layers under the guest's memory
 *
 * Theory of operation: read and check every layer -> merge the stack -> forget what QEMU wrote
 * before -> map the pieces. Nothing is touched before all layers are found good, so a bad layer
 * leaves a working QEMU behind; only a failure of the mapping itself (out of mappings) does not,
 * and the reply says so. Guest memory is anonymous underneath, that is zeros: zero extents and what
 * no layer covers need no mapping.
 *
 * A mapping costs about as much as a few page faults. A stack with very many small pieces would
 * exhaust vm.max_map_count, so beyond MAPPINGS_MAX the smallest pieces are read into memory
 * instead: slower, and a later freeze writes them again, but the guest sees the same.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "layers/layers_internal.h"

#define MAPPINGS_MAX                                                                 \
	24576u /* each piece may split a mapping in three; vm.max_map_count is 65530 \
	        */

struct layer {
	struct layer_info info;
	struct layer_extent *extents; /* owned */
};

struct stack {
	struct layer layers[LAYER_STACK_MAX];
	struct layer_piece *pieces; /* owned */
	size_t n_pieces;
	uint64_t read_below; /* pieces shorter than this are read, not mapped */
};

static int pread_all(int fd, void *buf, size_t n, uint64_t off)
{
	uint8_t *p = buf;

	while (n > 0) {
		ssize_t got = pread(fd, p, n, (off_t)off);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EBADMSG;
		p += got;
		off += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

/* *@ret_why is a constant string, set on any failure. */
static int layer_read(int fd, struct layer *ret, const char **ret_why)
{
	uint8_t page[LAYER_PAGE];
	struct stat st;
	uint8_t *table;
	int r;

	*ret_why = "cannot be read";
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size < LAYER_PAGE) {
		*ret_why = "not a layer file (size)";
		return -EBADMSG;
	}
	if ((r = pread_all(fd, page, sizeof(page), 0)) < 0)
		return r;
	if ((r = layer_header_decode(page, (uint64_t)st.st_size, &ret->info, ret_why)) < 0)
		return r;
	if (ret->info.mem_bytes != ram.bytes) {
		*ret_why = "made for another memory size";
		return -EINVAL;
	}
	*ret_why = "table cannot be read";
	table = malloc(layer_table_bytes(&ret->info) + 1);
	ret->extents = calloc(ret->info.n_extents + 1, sizeof(*ret->extents));
	r = table && ret->extents ? 0 : -ENOMEM;
	if (r == 0)
		r = pread_all(fd, table, layer_table_bytes(&ret->info),
		              layer_table_off(&ret->info));
	if (r == 0)
		r = layer_table_decode(&ret->info, table, layer_table_bytes(&ret->info),
		                       ret->extents, ret_why);
	free(table);
	return r;
}

static int stack_read(const struct control *c, struct stack *s, struct layers_reply *reply)
{
	struct layer_table tables[LAYER_STACK_MAX];
	const char *why = "";
	int r;

	for (uint32_t i = 0; i < c->n_layer_fds; i++) {
		r = layer_read(c->layer_fds[i], &s->layers[i], &why);
		if (r < 0) {
			snprintf(reply->why, sizeof(reply->why), "layer %u: %s", i, why);
			return r;
		}
		tables[i].extents = s->layers[i].extents;
		tables[i].n = s->layers[i].info.n_extents;
	}
	r = layer_stack_merge(tables, c->n_layer_fds, /* keep_zero= */ 0, &s->pieces, &s->n_pieces);
	if (r < 0)
		snprintf(reply->why, sizeof(reply->why), "merge the layers");
	return r;
}

static uint32_t pieces_from(const struct stack *s, uint64_t len)
{
	uint32_t n = 0;

	for (size_t i = 0; i < s->n_pieces; i++)
		n += s->pieces[i].len >= len;
	return n;
}

/* What is there is not part of the stack: what QEMU wrote while starting, or an earlier stack. */
static int clear(uint8_t *base, bool again)
{
	if (!again)
		return madvise(base, ram.bytes, MADV_DONTNEED) < 0 ? -errno : 0;
	if (mmap(base, ram.bytes, PROT_READ | PROT_WRITE,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -errno;
	(void)madvise(base, ram.bytes, MADV_HUGEPAGE); /* QEMU's own wish; nothing depends on it */
	return 0;
}

static int stack_apply(const struct control *c, const struct stack *s, bool again,
                       struct layers_reply *reply)
{
	uint8_t *base = ram_base();
	int cleared = clear(base, again);

	if (cleared < 0)
		return cleared;
	for (size_t i = 0; i < s->n_pieces; i++) {
		const struct layer_piece *p = &s->pieces[i];
		int fd = c->layer_fds[p->layer];

		reply->pages += p->len / LAYER_PAGE;
		if (p->len < s->read_below) {
			int r = pread_all(fd, base + p->guest_off, p->len, p->file_off);

			if (r < 0)
				return r;
			continue;
		}
		if (mmap(base + p->guest_off, p->len, PROT_READ | PROT_WRITE,
		         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
		         (off_t)p->file_off) == MAP_FAILED)
			return -errno;
		reply->n_mappings++;
	}
	if (atomic_load(&ram.dontdump) && madvise(base, ram.bytes, MADV_DONTDUMP) < 0)
		return -errno;
	return 0;
}

static void stack_done(struct stack *s)
{
	for (size_t i = 0; i < LAYER_STACK_MAX; i++)
		free(s->layers[i].extents);
	free(s->pieces);
}

/* All else is prepared before: nothing that takes a lock may be called while threads are parked. */
static int apply(const struct control *c, const struct stack *s, bool again,
                 struct layers_reply *reply)
{
	int r = again ? park_all() : 0;

	if (r < 0) {
		snprintf(reply->why, sizeof(reply->why), "stop the threads");
		return r;
	}
	r = stack_apply(c, s, again, reply);
	if (again)
		park_release();
	if (r < 0) {
		reply->flags |= LAYERS_RAM_BROKEN;
		snprintf(reply->why, sizeof(reply->why), "map the layers");
	}
	return r;
}

void map_stack(struct control *c, bool again, struct layers_reply *reply)
{
	struct stack s = { 0 };
	uint64_t began = now_us();
	int r;

	r = stack_read(c, &s, reply);
	if (r == 0) {
		while (pieces_from(&s, s.read_below) > MAPPINGS_MAX)
			s.read_below =
			        s.read_below > 0 ? s.read_below * 2 : UINT64_C(2) * LAYER_PAGE;
		r = apply(c, &s, again, reply);
		c->broken |= (reply->flags & LAYERS_RAM_BROKEN) != 0;
	}
	stack_done(&s);
	reply->status = r;
	reply->n_layers = c->n_layer_fds;
	reply->us = now_us() - began;
	if (r == 0) {
		c->mapped = true;
		c->n_layers = reply->n_layers;
		c->n_mappings = reply->n_mappings;
	}
}
