/* SPDX-License-Identifier: Apache-2.0 */
/*
 * h2_fields.c - heads and trailers of programs that speak HTTP/2: checked as those of HTTP/1 are,
 * and written from the head that HTTP/1 would send
 */
#include "edge/h2_fields.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

void fields_clear(struct fields *f)
{
	ebuf_done(&f->text);
	f->n = 0;
}

int fields_add(struct fields *f, size_t max, const uint8_t *name, size_t nlen, const uint8_t *value,
               size_t vlen)
{
	if (f->n == H1_FIELDS_MAX || f->text.len + nlen + vlen > max ||
	    !h1_token((const char *)name, nlen) || !h1_value((const char *)value, vlen))
		return -EBADMSG;
	if (ebuf_put(&f->text, name, nlen) < 0 || ebuf_put(&f->text, value, vlen) < 0)
		return -ENOMEM;
	f->at[f->n].name_n = (uint32_t)nlen;
	f->at[f->n++].value_n = (uint32_t)vlen;
	return 0;
}

/* Points into f. */
void fields_take(const struct fields *f, struct h1_head *h)
{
	const char *p = (const char *)ebuf_at(&f->text);

	h->n_fields = f->n;
	for (size_t i = 0; i < f->n; i++) {
		h->fields[i].name = (struct h1_text){ p, f->at[i].name_n };
		p += f->at[i].name_n;
		h->fields[i].value = (struct h1_text){ p, f->at[i].value_n };
		p += f->at[i].value_n;
	}
}

static nghttp2_nv nv(struct h1_text name, struct h1_text value)
{
	return (nghttp2_nv){ .name = (uint8_t *)(uintptr_t)name.p,
		             .value = (uint8_t *)(uintptr_t)value.p,
		             .namelen = name.n,
		             .valuelen = value.n };
}

int h2_trailer_add(struct ebuf *lines, struct h1_field f)
{
	if (lines->len + f.name.n + f.value.n + 4 > H1_TRAILERS_MAX)
		return -E2BIG;
	if (ebuf_put(lines, f.name.p, f.name.n) < 0 || ebuf_put(lines, ": ", 2) < 0 ||
	    ebuf_put(lines, f.value.p, f.value.n) < 0)
		return -ENOMEM;
	return ebuf_put(lines, "\r\n", 2);
}

int h2_trailers_submit(nghttp2_session *s, int32_t stream, const struct ebuf *lines)
{
	nghttp2_nv v[H1_FIELDS_MAX];
	const char *p = (const char *)ebuf_at(lines), *end = p + lines->len;
	size_t n = 0;

	while (p < end && n < H1_FIELDS_MAX) {
		const char *colon = memmem(p, (size_t)(end - p), ": ", 2);
		const char *eol = memmem(p, (size_t)(end - p), "\r\n", 2);

		if (!colon || !eol || colon > eol)
			return -EBADMSG;
		v[n++] = nv((struct h1_text){ p, (size_t)(colon - p) },
		            (struct h1_text){ colon + 2, (size_t)(eol - colon - 2) });
		p = eol + 2;
	}
	return nghttp2_submit_trailer(s, stream, v, n) < 0 ? -ENOMEM : 0;
}

static size_t lower(char *to, struct h1_text name)
{
	for (size_t i = 0; i < name.n; i++)
		to[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + 32 : name.p[i]);
	return name.n;
}

/* The head that HTTP/1 would send, as fields of HTTP/2; names go to the buffer. */
int fields_request(const struct xchg *x, struct ebuf *names, nghttp2_nv *v, size_t *ret_n)
{
	static const struct h1_text te = H1_TEXT("te"), trailers = H1_TEXT("trailers");
	static const struct h1_text pseudo[] = { H1_TEXT(":method"), H1_TEXT(":scheme"),
		                                 H1_TEXT(":path"), H1_TEXT(":authority") };
	static const struct h1_text http = H1_TEXT("http");
	struct h1_head *h = &x->c->w->head;
	const struct h1_field *host;
	size_t scan = 0, n = 0;
	char *name;

	if (h1_request(ebuf_at(&x->head), x->head.len, &scan, h) <= 0)
		return -EBADMSG;
	host = h1_find(h, "host");
	name = (char *)ebuf_room(names, H1_HEAD_MAX + 1, SIZE_MAX / 4);
	if (!host || !name)
		return host ? -ENOMEM : -EBADMSG;
	v[n++] = nv(pseudo[0], h->method);
	v[n++] = nv(pseudo[1], http);
	v[n++] = nv(pseudo[2], h->target);
	v[n++] = nv(pseudo[3], host->value);
	for (size_t i = 0; i < h->n_fields; i++) {
		const struct h1_field *f = &h->fields[i];

		if (h1_hop_field(h, f) || h1_is(f->name, "host") || h1_is(f->name, "expect"))
			continue;
		v[n++] = nv((struct h1_text){ name, lower(name, f->name) }, f->value);
		name += f->name.n;
	}
	if (x->te_trailers)
		v[n++] = nv(te, trailers);
	*ret_n = n;
	return 0;
}
