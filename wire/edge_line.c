/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/edge_line.c - lines of the access log as bytes
 *
 * Texts have a length of two bytes before them: most of a line is text, and there are many lines.
 */
#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/edge.h"

static void put_text(struct buf *b, const char *s, size_t size)
{
	size_t n = strnlen(s, size - 1);

	buf_put_u16(b, (uint16_t)n);
	buf_put(b, s, n);
}

void edgew_line_put(struct buf *b, const struct edgew_line *l)
{
	buf_put_u64(b, l->at_ms);
	buf_put_u64(b, l->in);
	buf_put_u64(b, l->out);
	buf_put_u32(b, l->ms);
	buf_put_u32(b, l->tag);
	buf_put_u16(b, l->status);
	buf_put_u8(b, l->proto);
	buf_put_u8(b, l->flags);
	put_text(b, l->host, sizeof(l->host));
	put_text(b, l->place, sizeof(l->place));
	put_text(b, l->method, sizeof(l->method));
	put_text(b, l->path, sizeof(l->path));
	put_text(b, l->client, sizeof(l->client));
}

static int get_text(struct rd *c, char *dst, size_t size)
{
	uint16_t n;

	if (rd_u16(c, &n) < 0 || n >= size || rd_bytes(c, dst, n) < 0 || memchr(dst, '\0', n))
		return -EBADMSG;
	dst[n] = '\0';
	return 0;
}

int edgew_line_next(struct edgew_blob *v, struct edgew_line *ret)
{
	struct rd c = rd_of(v->p, v->n);

	if (!v->n)
		return 0;
	if (rd_u64(&c, &ret->at_ms) < 0 || rd_u64(&c, &ret->in) < 0 || rd_u64(&c, &ret->out) < 0 ||
	    rd_u32(&c, &ret->ms) < 0 || rd_u32(&c, &ret->tag) < 0 || ret->tag >= ERR_CODE_MAX ||
	    rd_u16(&c, &ret->status) < 0 || ret->status > 999 || rd_u8(&c, &ret->proto) < 0 ||
	    (ret->proto && ret->proto != 10 && ret->proto != 11 && ret->proto != 20) ||
	    rd_u8(&c, &ret->flags) < 0 || ret->flags > EDGEW_LINE_FLAGS ||
	    get_text(&c, ret->host, sizeof(ret->host)) < 0 || !edgew_host_valid(ret->host) ||
	    get_text(&c, ret->place, sizeof(ret->place)) < 0 ||
	    get_text(&c, ret->method, sizeof(ret->method)) < 0 ||
	    get_text(&c, ret->path, sizeof(ret->path)) < 0 ||
	    get_text(&c, ret->client, sizeof(ret->client)) < 0)
		return -EBADMSG;
	v->p = c.p;
	v->n = c.left;
	return 1;
}
