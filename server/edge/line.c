/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line.c - the access log: one line for each request that had a VM
 *
 * Theory of operation: the path is copied when the request begins, because its head is gone when it
 * ends; never its query or a field, since these hold secrets. Whoever runs the edge collects the
 * lines (edge_ops.log) and is told when they should go out. Names that lead nowhere have nobody who
 * could read their lines, and requests to the API have the audit log.
 */
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/clock.h"
#include "edge/edge_internal.h"

void line_begin(struct xchg *x)
{
	size_t skip = strlen(x->method) + 1, n = 0;
	const char *p = (const char *)ebuf_at(&x->head) + skip;
	const char *end = (const char *)ebuf_at(&x->head) + x->head.len;
	const char *slash;

	if (x->head.len <= skip)
		return;
	if (end - p > 7 && strncasecmp(p, "http://", 7) == 0) { /* a target with its host */
		slash = memchr(p + 7, '/', (size_t)(end - p - 7));
		p = slash ? slash : end;
	}
	while (p + n < end && n < EDGE_PATH_MAX && p[n] != ' ' && p[n] != '?' && p[n] != '#')
		n++;
	memcpy(x->path, p, n);
	x->path[n] = '\0';
}

void line_end(const struct xchg *x)
{
	struct worker *w = x->c->w;
	const struct edge_ops *ops = &w->e->ops;

	if (!ops->log || x->t.kind != EDGE_VM)
		return;
	struct edge_line l = { .at_ms = clock_wall_ms(),
		               .host = x->t.host,
		               .vm = x->t.vm,
		               .method = x->method,
		               .path = x->path,
		               .client = x->c->peer,
		               .in = x->bytes_in,
		               .out = x->bytes_out,
		               .ms = (unsigned)(w->now - x->since),
		               .status = x->status,
		               .proto = x->raw      ? 0
		                        : x->c->h2  ? 20
		                        : x->http10 ? 10
		                                    : 11,
		               .code = x->code,
		               .tls = x->c->tls,
		               .woke = x->was_asleep,
		               .guest = x->c->guest != NULL,
		               .left = x->cut || !x->resp_over,
		               .cut = x->resp_broken && !x->cut };
	ops->log(ops->ctx, &l);
	w->log_at = MIN(w->log_at, w->now + EDGE_LOG_MS);
}

void line_flush(struct worker *w, bool all)
{
	if (w->log_at == UINT64_MAX || (!all && w->now < w->log_at))
		return;
	w->log_at = UINT64_MAX;
	w->e->ops.log(w->e->ops.ctx, NULL);
}
