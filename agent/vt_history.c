/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vt_history.c - lines that scrolled off, as the bytes that draw them
 *
 * Bounded three ways: lines and bytes of one terminal, bytes of all of them. The
 * oldest lines of the growing terminal are dropped first.
 */
#include "agent/vt_internal.h"

#include <stdlib.h>
#include <string.h>

static size_t total; /* bytes of all terminals; the agent has one thread */

static size_t cost(const struct line *l)
{
	return l->len + sizeof(*l);
}

static void drop_first(struct vt *t)
{
	struct line *l = &t->history[t->h_first];

	t->h_bytes -= cost(l);
	total -= cost(l);
	free(l->p);
	*l = (struct line){ 0 };
	t->h_first = (t->h_first + 1) % VT_LINES_MAX;
	t->h_n--;
}

void history_push(struct vt *t, const struct cell *row)
{
	static struct buf b; /* kept, to be reused for each line */
	struct line *l;

	if (!t->history && !(t->history = calloc(VT_LINES_MAX, sizeof(*t->history))))
		return;
	buf_reset(&b);
	row_draw(row, t->cols, &b);
	if (b.failed)
		return;
	while (t->h_n && (t->h_n == VT_LINES_MAX || t->h_bytes + b.len > VT_BYTES_MAX ||
	                  total + b.len > VT_TOTAL_MAX))
		drop_first(t);
	if (total + b.len > VT_TOTAL_MAX)
		return; /* other terminals use all of it */
	l = &t->history[(t->h_first + t->h_n) % VT_LINES_MAX];
	l->p = b.len ? malloc(b.len) : NULL;
	if (b.len && !l->p)
		return;
	if (b.len)
		memcpy(l->p, b.p, b.len);
	l->len = (uint32_t)b.len;
	t->h_n++;
	t->h_bytes += cost(l);
	total += cost(l);
}

void history_free(struct vt *t)
{
	while (t->h_n)
		drop_first(t);
	free(t->history);
	t->history = NULL;
}
