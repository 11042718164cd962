/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.c - the access log on its way to pandod
 *
 * Theory of operation: each worker collects its lines in a packet of its own, which is sent when it
 * is full or the edge says so. The socket is used for nothing else, and a packet that does not fit
 * into it is dropped: the next one says how many lines that were. Nothing here waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "edgemain/edgemain.h"

struct lines {
	struct link *link; /* weak */
	struct {
		struct buf b;
		uint32_t n, lost;
	} lane[EDGEW_LANES_MAX];
};

static uint8_t flags_of(const struct edge_line *l)
{
	return (uint8_t)((l->tls ? EDGEW_LINE_TLS : 0) | (l->woke ? EDGEW_LINE_WOKE : 0) |
	                 (l->guest ? EDGEW_LINE_GUEST : 0) | (l->left ? EDGEW_LINE_LEFT : 0) |
	                 (l->cut ? EDGEW_LINE_CUT : 0));
}

void lines_add(struct lines *s, unsigned lane, const struct edge_line *l)
{
	struct buf *b = &s->lane[lane].b;
	struct edgew_line w = { .at_ms = (uint64_t)MAX(l->at_ms, 0),
		                .in = l->in,
		                .out = l->out,
		                .ms = l->ms,
		                .tag = l->code,
		                .status = (uint16_t)l->status,
		                .proto = (uint8_t)l->proto,
		                .flags = flags_of(l) };

	snprintf(w.host, sizeof(w.host), "%s", l->host);
	snprintf(w.place, sizeof(w.place), "%s", l->vm);
	snprintf(w.method, sizeof(w.method), "%s", l->method);
	snprintf(w.path, sizeof(w.path), "%s", l->path);
	snprintf(w.client, sizeof(w.client), "%s", l->client);
	edgew_line_put(b, &w);
	s->lane[lane].n++;
	if (b->failed || b->len + EDGEW_LINE_MAX > EDGEW_LINES_MAX)
		lines_flush(s, lane);
}

void lines_flush(struct lines *s, unsigned lane)
{
	struct buf *b = &s->lane[lane].b;
	struct edgew_msg m = { .kind = EDGEW_LINES };

	if (!s->lane[lane].n)
		return;
	m.lines.lost = s->lane[lane].lost;
	m.lines.v = (struct edgew_blob){ b->p, b->len };
	if (b->failed || link_log(s->link, &m) < 0)
		s->lane[lane].lost += s->lane[lane].n;
	else
		s->lane[lane].lost = 0;
	s->lane[lane].n = 0;
	buf_reset(b);
}

struct lines *lines_new(struct link *l)
{
	struct lines *s = calloc(1, sizeof(*s));

	if (s)
		s->link = l;
	return s;
}

struct lines *lines_free(struct lines *s)
{
	for (size_t i = 0; s && i < EDGEW_LANES_MAX; i++)
		buf_done(&s->lane[i].b);
	free(s);
	return NULL;
}
