/* SPDX-License-Identifier: MIT */
/*
 * merge.c - which layer of a stack provides each part of memory
 *
 * Theory of operation: start with nothing and lay one layer after the other over it, bottom first.
 * Laying a layer over the pieces so far is one pass over two sorted lists: the layer's own extents
 * are taken whole, a piece from below is taken where they leave it uncovered. A step adds at most
 * two pieces per extent, so its output is sized beforehand. Neighbours that continue each other in
 * the same file become one piece, so that one mapping serves them.
 */
#include "layers/format.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

struct pieces {
	struct layer_piece *v;
	size_t n;
};

static void push(struct pieces *out, const struct layer_piece *p)
{
	struct layer_piece *last = out->n > 0 ? &out->v[out->n - 1] : NULL;

	if (last && last->flags == p->flags && last->guest_off + last->len == p->guest_off &&
	    ((p->flags & LAYER_EXTENT_ZERO) ||
	     (last->layer == p->layer && last->file_off + last->len == p->file_off))) {
		last->len += p->len;
		return;
	}
	out->v[out->n++] = *p;
}

/* The part of @p from @from on, up to @to (guest offsets within it). */
static struct layer_piece cut(const struct layer_piece *p, uint64_t from, uint64_t to)
{
	struct layer_piece c = *p;

	c.guest_off = from;
	c.len = to - from;
	if (!(c.flags & LAYER_EXTENT_ZERO))
		c.file_off += from - p->guest_off;
	return c;
}

static void overlay(const struct pieces *below, const struct layer_table *above, uint32_t layer,
                    struct pieces *out)
{
	uint64_t done = 0; /* memory before this offset is settled */
	size_t b = 0;

	for (size_t a = 0; a <= above->n; a++) {
		const struct layer_extent *e = a < above->n ? &above->extents[a] : NULL;
		uint64_t stop = e ? e->guest_off : UINT64_MAX;

		/* what lies below and before the next extent */
		for (; b < below->n && below->v[b].guest_off < stop; b++) {
			const struct layer_piece *p = &below->v[b];
			uint64_t end = p->guest_off + p->len;
			uint64_t from = p->guest_off > done ? p->guest_off : done;
			uint64_t to = end < stop ? end : stop;

			if (from < to) {
				struct layer_piece c = cut(p, from, to);

				push(out, &c);
			}
			if (end > stop)
				break; /* it continues under or after the extent */
		}
		if (!e)
			break;
		push(out, &(struct layer_piece){ .guest_off = e->guest_off,
		                                 .file_off = e->file_off,
		                                 .len = e->len,
		                                 .layer = layer,
		                                 .flags = e->flags });
		done = e->guest_off + e->len;
	}
}

int layer_stack_merge(const struct layer_table *stack, size_t n_layers, int keep_zero,
                      struct layer_piece **ret_pieces, size_t *ret_n)
{
	struct pieces now = { 0 };

	assert(n_layers <= LAYER_STACK_MAX);
	for (size_t l = 0; l < n_layers; l++) {
		size_t max = now.n + 2 * stack[l].n;
		struct pieces next = { 0 };

		if (max > LAYER_PIECES_MAX) {
			free(now.v);
			return -E2BIG;
		}
		next.v = calloc(max > 0 ? max : 1, sizeof(*next.v));
		if (!next.v) {
			free(now.v);
			return -ENOMEM;
		}
		overlay(&now, &stack[l], (uint32_t)l, &next);
		assert(next.n <= max);
		free(now.v);
		now = next;
	}
	if (!keep_zero) {
		size_t n = 0;

		for (size_t i = 0; i < now.n; i++)
			if (!(now.v[i].flags & LAYER_EXTENT_ZERO))
				now.v[n++] = now.v[i];
		now.n = n;
	}
	*ret_pieces = now.v;
	*ret_n = now.n;
	return 0;
}
