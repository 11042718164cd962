/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.c - chunked bodies, parsed strictly, byte by byte; trailers are read and dropped */
#include <errno.h>

#include "base/auto.h"
#include "h1/h1.h"

static int hex(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One byte of a line with a size. */
static int chunk_line(struct h1_chunks *c, uint8_t b)
{
	int digit = hex(b);

	if (++c->line > H1_CHUNK_LINE_MAX)
		return -EBADMSG;
	if (c->cr) {
		if (b != '\n' || c->digits == 0)
			return -EBADMSG;
		c->state = c->left ? CHUNK_DATA : CHUNK_TRAILER;
		c->cr = false;
		c->line = 0;
		return 0;
	}
	if (b == '\r') {
		c->cr = true;
		return 0;
	}
	if (c->state == CHUNK_EXT)
		return b < 0x20 && b != '\t' ? -EBADMSG : 0;
	if (digit >= 0) {
		if (++c->digits > 15)
			return -EBADMSG;
		c->left = c->left << 4 | (uint64_t)digit;
		return 0;
	}
	if (b != ';' || c->digits == 0)
		return -EBADMSG;
	c->state = CHUNK_EXT;
	return 0;
}

/* Trailers are read and dropped; an empty line ends them. */
static int chunk_trailer(struct h1_chunks *c, uint8_t b)
{
	if (++c->trailers > H1_TRAILERS_MAX)
		return -EBADMSG;
	if (c->cr) {
		if (b != '\n')
			return -EBADMSG;
		c->cr = false;
		if (c->line == 0)
			c->state = CHUNK_OVER;
		c->line = 0;
		return 0;
	}
	if (b == '\r') {
		c->cr = true;
		return 0;
	}
	c->line++;
	return b < 0x20 && b != '\t' ? -EBADMSG : 0;
}

/* The CRLF after the data. */
static int chunk_data_end(struct h1_chunks *c, uint8_t b)
{
	if (b != (c->cr ? '\n' : '\r'))
		return -EBADMSG;
	if (c->cr)
		*c = (struct h1_chunks){ .trailers = c->trailers };
	else
		c->cr = true;
	return 0;
}

int64_t h1_chunks_feed(struct h1_chunks *c, const uint8_t *p, size_t n, const uint8_t **ret_data,
                       size_t *ret_len)
{
	size_t at = 0;

	*ret_data = NULL;
	*ret_len = 0;
	while (at < n && c->state != CHUNK_OVER) {
		int r = 0;

		switch (c->state) {
		case CHUNK_SIZE:
		case CHUNK_EXT:
			r = chunk_line(c, p[at++]);
			break;
		case CHUNK_DATA:
			*ret_data = p + at;
			*ret_len = (size_t)MIN(c->left, (uint64_t)(n - at));
			c->left -= *ret_len;
			if (c->left == 0)
				c->state = CHUNK_DATA_END;
			return (int64_t)(at + *ret_len);
		case CHUNK_DATA_END:
			r = chunk_data_end(c, p[at++]);
			break;
		case CHUNK_TRAILER:
			r = chunk_trailer(c, p[at++]);
			break;
		case CHUNK_OVER:
			break;
		}
		if (r < 0)
			return r;
	}
	return (int64_t)at;
}
