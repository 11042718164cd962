/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.c - requests between nodes: what one that passes a request on writes of it, and what the
 * owner reads
 *
 * The path is made from the route and its arguments, the query from its values, so what goes on is
 * what was understood here, in one spelling. The fields that name client and trace are believed on
 * connections of nodes only, and never passed on from anybody else.
 */
#include "http/http_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void put_encoded(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		if (isalnum((unsigned char)*p) || strchr("-._~", *p))
			buf_put(out, p, 1);
		else
			buf_printf(out, "%%%02X", (unsigned char)*p);
	}
}

/* Encoded already, but for spaces that were '+'. */
static void put_value(struct buf *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		if ((unsigned char)*p > 0x20 && (unsigned char)*p < 0x7f && *p != '#')
			buf_put(out, p, 1);
		else
			buf_printf(out, "%%%02X", (unsigned char)*p);
	}
}

static void put_path(const struct request *req, struct buf *out)
{
	const char *p = req->match.route->pattern;

	for (size_t i = 0; *p;) {
		size_t n = strcspn(p, "{");

		buf_put(out, p, n);
		p += n;
		if (!*p)
			break;
		put_encoded(out, i < req->match.n_args ? req->match.arg[i++] : "");
		p += strcspn(p, "}");
		p += *p == '}';
	}
}

struct query {
	struct buf *out;
	unsigned n;
};

static enum MHD_Result put_query(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
	struct query *q = ctx;

	buf_printf(q->out, q->n++ ? "&" : "?");
	put_value(q->out, name);
	if (value) {
		buf_printf(q->out, "=");
		put_value(q->out, value);
	}
	return MHD_YES;
}

void request_target_text(struct request *req, struct buf *out)
{
	struct query q = { .out = out };

	put_path(req, out);
	if (req->conn)
		MHD_get_connection_values(req->conn, MHD_GET_ARGUMENT_KIND, put_query, &q);
	for (size_t i = 0; i < req->n_values; i++)
		if (req->values[i].kind == VALUE_QUERY)
			put_query(&q, MHD_GET_ARGUMENT_KIND, req->values[i].name,
			          req->values[i].value);
}

struct each {
	void (*fn)(void *ctx, const char *name, const char *value);
	void *ctx;
};

static enum MHD_Result call_one(void *ctx, enum MHD_ValueKind kind, const char *name,
                                const char *value)
{
	struct each *e = ctx;

	e->fn(e->ctx, name, value ? value : "");
	return MHD_YES;
}

void request_each_header(struct request *req,
                         void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	struct each e = { fn, ctx };

	if (req->conn)
		MHD_get_connection_values(req->conn, MHD_HEADER_KIND, call_one, &e);
	for (size_t i = 0; i < req->n_values; i++)
		if (req->values[i].kind == VALUE_HEADER)
			fn(ctx, req->values[i].name, req->values[i].value);
}

void node_headers_read(struct request *req, const char *node)
{
	const char *trace, *client;

	if (!*node)
		return;
	snprintf(req->node, sizeof(req->node), "%s", node);
	trace = request_header(req, NODE_TRACE);
	client = request_header(req, NODE_CLIENT);
	if (trace && strlen(trace) == sizeof(req->trace) - 1 &&
	    strspn(trace, "0123456789abcdef") == sizeof(req->trace) - 1)
		memcpy(req->trace, trace, sizeof(req->trace));
	if (!client || net_forwarded(client, &req->peer) < 0)
		req->peer.ss_family = AF_UNSPEC;
}
