/* SPDX-License-Identifier: MIT */
/*
 * sweep.c - memory that the guest has freed goes back to the host
 *
 * Theory of operation: a first look, while the guest runs, finds what may be free and is private
 * (guestmem.c, scan.c). If that is worth a stop, the client stops the guest, and what was found is
 * looked at again, run by run: what is free still is given up with MADV_DONTNEED. So the stop costs
 * what the giving up costs, not a look at all of memory, and the client says how much at a time.
 *
 * What was given up reads as the layers have it, or as zeros. Nobody reads it: it is free, and its
 * next owner clears or fills it. A freeze finds it free, or written to since.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layers/layers_internal.h"

#define BLOCK_MAX ((uint64_t)LAYER_PAGE << 10) /* the kernel's largest free blocks */

struct sweep {
	struct scan scan;           /* of the look */
	struct guestmem_free found; /* at the look, then in each piece */
	struct guestmem_free todo;  /* from next on */
	uint32_t next;
};

static void fail(struct layers_reply *reply, int code, const char *why)
{
	reply->status = code;
	snprintf(reply->why, sizeof(reply->why), "%s", why);
}

/* Private pages in [start, end), as they were at the look. */
static uint64_t private_in(const struct scan *s, uint64_t start, uint64_t end)
{
	uint64_t n = 0;

	for (uint32_t k = 0; k < s->n && s->start[k] < end; k++) {
		uint64_t a = s->start[k] > start ? s->start[k] : start;
		uint64_t b = s->end[k] < end ? s->end[k] : end;

		n += a < b ? (b - a) / LAYER_PAGE : 0;
	}
	return n;
}

/*
 * What is free and private, as whole blocks of the kernel's: what begins in the middle of one has
 * no mark of its own.
 */
static void choose(struct sweep *s)
{
	struct guestmem_free *out = &s->todo;
	uint32_t i = 0;

	out->n = 0;
	for (uint32_t k = 0; k < s->found.n; k++) {
		uint64_t start = s->found.start[k], end = s->found.end[k];

		while (i < s->scan.n && s->scan.end[i] <= start)
			i++;
		for (uint32_t j = i; j < s->scan.n && s->scan.start[j] < end; j++) {
			uint64_t a = s->scan.start[j] & ~(BLOCK_MAX - 1);
			uint64_t b = (s->scan.end[j] + BLOCK_MAX - 1) & ~(BLOCK_MAX - 1);

			a = a > start ? a : start;
			b = b < end ? b : end;
			if (out->n > 0 && a <= out->end[out->n - 1]) {
				out->end[out->n - 1] = b;
			} else if (out->n < GUESTMEM_RUNS_MAX) {
				out->start[out->n] = a;
				out->end[out->n++] = b;
			}
		}
	}
}

static void look(struct control *c, const struct guestmem *g, struct layers_reply *reply)
{
	struct sweep *s = c->sweep;
	int r = scan_private(ram_base(), ram.bytes, /* gap_pages= */ 0, /* use_ioctl= */ true,
	                     &s->scan);

	s->next = s->todo.n = 0;
	if (r < 0) {
		fail(reply, r, "find private pages");
		return;
	}
	guestmem_find(g, 0, ram.bytes, &s->found);
	choose(s);
	for (uint32_t k = 0; k < s->todo.n; k++)
		reply->pages += private_in(&s->scan, s->todo.start[k], s->todo.end[k]);
	reply->in_flight = s->todo.n;
}

/* At most so many pages, and one block more. */
static void give_up(struct control *c, const struct guestmem *g, uint64_t most,
                    struct layers_reply *reply)
{
	struct sweep *s = c->sweep;
	uint64_t done = 0;

	while (s->next < s->todo.n && done < most) {
		uint64_t *start = &s->todo.start[s->next], end = s->todo.end[s->next];
		uint64_t stop = (*start + (most - done) * LAYER_PAGE) | (BLOCK_MAX - 1);

		stop = stop < end ? stop + 1 : end;
		guestmem_find(g, *start, stop, &s->found);
		for (uint32_t k = 0; k < s->found.n; k++) {
			uint64_t a = s->found.start[k], b = s->found.end[k];

			if (syscall(SYS_madvise, ram_base() + a, b - a, MADV_DONTNEED) < 0) {
				fail(reply, -errno, "give memory back");
				return;
			}
			reply->pages += private_in(&s->scan, a, b);
		}
		done += (stop - *start) / LAYER_PAGE;
		*start = stop;
		s->next += stop >= end;
	}
	reply->in_flight = s->todo.n - s->next;
}

void sweep_serve(struct control *c, const struct layers_req *req, struct layers_reply *reply)
{
	uint64_t began = now_us();
	const char *why = "";
	struct guestmem g;
	int r;

	reply->token = req->token;
	if (req->flags != 0 || !ram_base() || c->broken || c->seed) {
		fail(reply, -EINVAL, "there is no guest to sweep");
		return;
	}
	r = guestmem_open(&g, ram_base(), ram.bytes, (uint64_t)req->n_layers << 20,
	                  (uint64_t)req->first * LAYER_PAGE, &why);
	if (r < 0) {
		fail(reply, r, why);
		return;
	}
	if (req->token == 0 && !c->sweep && !(c->sweep = calloc(1, sizeof(*c->sweep)))) {
		fail(reply, -ENOMEM, "out of memory");
		return;
	}
	if (!c->sweep)
		fail(reply, -EINVAL, "a sweep begins with a look");
	else if (req->token == 0)
		look(c, &g, reply);
	else
		give_up(c, &g, req->token, reply);
	if (c->sweep && (reply->status < 0 || (req->token > 0 && reply->in_flight == 0))) {
		free(c->sweep);
		c->sweep = NULL;
	}
	reply->us = now_us() - began;
}
