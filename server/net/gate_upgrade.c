/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate_upgrade.c - a request that may change the protocol of its connection
 *
 * Such a request cannot say "Connection: close", so what follows it is held back here: nothing of
 * the guest is passed on before the server agreed (101), because it could be a request for another
 * name. Any other answer is passed on to its end, and so is the connection's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "h1/h1.h"
#include "net/gate_internal.h"

#define ANSWER_MS 60000 /* for the head of the answer, and between pieces of its body */
#define PIECE (32u << 10)

/* Where the body of an answer ends. */
struct body {
	enum h1_framing framing;
	uint64_t left;
	struct h1_chunks chunks;
	bool over;
};

/* How many of these bytes are the body's; -EBADMSG. */
static ssize_t body_take(struct body *b, const uint8_t *p, size_t n)
{
	const uint8_t *data;
	size_t took = 0, len;

	if (b->framing == H1_BODY_CLOSE)
		return (ssize_t)n;
	if (b->framing == H1_BODY_LENGTH) {
		took = (size_t)MIN((uint64_t)n, b->left);
		b->left -= took;
		b->over = !b->left;
	}
	while (b->framing == H1_BODY_CHUNKED && took < n && !b->over) {
		int64_t k = h1_chunks_feed(&b->chunks, p + took, n - took, &data, &len);

		if (k < 0)
			return -EBADMSG;
		took += (size_t)k;
		b->over = b->chunks.state == CHUNK_OVER;
		if (!k)
			break;
	}
	return (ssize_t)took;
}

/* p has n bytes of the body already, and room for PIECE. */
static int pass_body(struct relay_end *a, struct relay_end *b, struct body *body, uint8_t *p,
                     size_t n)
{
	while (!body->over) {
		ssize_t k = body_take(body, p, n);
		int r = k < 0 ? (int)k : gate_write(a, p, (size_t)k, deadline_in(ANSWER_MS));

		if (r < 0 || body->over)
			return r;
		k = gate_read(b, p, PIECE, deadline_in(ANSWER_MS));
		if (k <= 0)
			return (int)k;
		n = (size_t)k;
	}
	return 0;
}

int gate_upgrade(struct relay_end *a, struct relay_end *b, const void *pre, size_t n_pre,
                 const void *rest, size_t n_rest)
{
	autofree uint8_t *p = malloc(PIECE);
	autofree struct h1_head *head = calloc(1, sizeof(*head));
	uint64_t deadline = deadline_in(ANSWER_MS);
	struct body body = { 0 };
	size_t n = 0, scan = 0;
	int r = p && head ? gate_write(b, pre, n_pre, deadline) : -ENOMEM;

	while (r == 0) {
		ssize_t k = gate_read(b, p + n, PIECE - n, deadline);

		if (k <= 0)
			return k < 0 ? (int)k : -ECONNRESET;
		n += (size_t)k;
		while ((r = h1_response(p, n, &scan, /* to_head= */ false, head)) == 1 &&
		       head->status < 200 && head->status != 101) {
			if ((r = gate_write(a, p, head->len, deadline)) < 0)
				return r;
			n -= head->len;
			memmove(p, p + head->len, n);
			scan = 0;
		}
		if (r == 0 && n == PIECE)
			r = -EMSGSIZE;
	}
	if (r < 0)
		return r;
	if (head->status == 101) {
		r = gate_write(a, p, n, deadline);
		return r < 0 ? r : gate_relay(a, b, rest, n_rest);
	}
	body = (struct body){ .framing = head->framing,
		              .left = head->length,
		              .over = head->framing == H1_BODY_NONE ||
		                      (head->framing == H1_BODY_LENGTH && !head->length) };
	r = gate_write(a, p, head->len, deadline);
	n -= head->len;
	memmove(p, p + head->len, n);
	return r < 0 ? r : pass_body(a, b, &body, p, n);
}
