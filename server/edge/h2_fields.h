/* SPDX-License-Identifier: Apache-2.0 */
/* edge/h2_fields.h - heads and trailers between HTTP/1 and HTTP/2; for up_h2.c */
#pragma once

#include <nghttp2/nghttp2.h>

#include "edge/edge_internal.h"

/* Fields of a head or of trailers, in one text. */
struct fields {
	struct ebuf text;
	size_t n;
	struct {
		uint32_t name_n, value_n;
	} at[H1_FIELDS_MAX];
};

void fields_clear(struct fields *f);
/* max: bytes of all of them. */
int fields_add(struct fields *f, size_t max, const uint8_t *name, size_t nlen, const uint8_t *value,
               size_t vlen);
/* As fields of h, which point into f. */
void fields_take(const struct fields *f, struct h1_head *h);
/* The head that HTTP/1 would send, as fields of HTTP/2: at most H1_FIELDS_MAX + 8. Names go to the
 * buffer. */
int fields_request(const struct xchg *x, struct ebuf *names, nghttp2_nv *v, size_t *ret_n);
