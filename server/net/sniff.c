/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/sniff.c - ClientHello and request head
 *
 * Strict on purpose: what does not read as exactly one thing has no name, and a
 * connection without a name gets only what addresses alone allow.
 */
#include "net/sniff.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "base/buf.h"
#include "h1/h1.h"
#include "net/egress.h"

#define RECORD_HANDSHAKE 22u
#define HANDSHAKE_CLIENT_HELLO 1u
#define EXT_SERVER_NAME 0u
#define RECORD_MAX 16384u

/* A host name, made lower case; not an address, which is no name to judge by. */
static int take_name(const uint8_t *p, size_t n, char ret[SNIFF_NAME_MAX])
{
	bool letters = false;

	if (n && p[n - 1] == '.')
		n--;
	if (!n || n >= SNIFF_NAME_MAX)
		return -ENOENT;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum(p[i]) && p[i] != '-' && p[i] != '_' && p[i] != '.')
			return -ENOENT;
		if (p[i] == '.' && (i == 0 || p[i - 1] == '.'))
			return -ENOENT;
		letters |= isalpha(p[i]) != 0;
		ret[i] = (char)tolower(p[i]);
	}
	ret[n] = '\0';
	return letters ? 1 : -ENOENT;
}

/* ---- TLS ---- */

/* A cursor over the next n bytes of c, which moves past them. */
static int part(struct rd *c, size_t n, struct rd *ret)
{
	if (n > c->left)
		return -EBADMSG;
	*ret = rd_of(c->p, n);
	c->p += n;
	c->left -= n;
	return 0;
}

static int part8(struct rd *c, struct rd *ret)
{
	uint8_t n;

	return rd_u8(c, &n) < 0 ? -EBADMSG : part(c, n, ret);
}

static int part16(struct rd *c, struct rd *ret)
{
	uint16_t n;

	return rd_u16(c, &n) < 0 ? -EBADMSG : part(c, n, ret);
}

static int server_name(struct rd ext, char ret[SNIFF_NAME_MAX])
{
	struct rd list, name;
	uint8_t type;

	if (part16(&ext, &list) < 0 || rd_u8(&list, &type) < 0 || type != 0 ||
	    part16(&list, &name) < 0 || list.left || ext.left)
		return -ENOENT; /* exactly one name of the only type there is */
	return take_name(name.p, name.left, ret);
}

static int client_hello(struct rd c, char ret[SNIFF_NAME_MAX])
{
	struct rd skip, session, suites, methods, exts;
	bool seen = false;
	int r = -ENOENT;

	if (part(&c, 2 + 32, &skip) < 0 || part8(&c, &session) < 0 || part16(&c, &suites) < 0 ||
	    part8(&c, &methods) < 0 || part16(&c, &exts) < 0 || c.left)
		return -ENOENT;
	while (exts.left) {
		struct rd ext;
		uint16_t type;

		if (rd_u16(&exts, &type) < 0 || part16(&exts, &ext) < 0)
			return -ENOENT;
		if (type != EXT_SERVER_NAME)
			continue;
		if (seen)
			return -ENOENT; /* servers differ in which one they take */
		seen = true;
		r = server_name(ext, ret);
	}
	return r;
}

/* Joins the handshake of as many records as it takes. */
int sniff_tls(const void *p, size_t n, char ret_name[SNIFF_NAME_MAX])
{
	uint8_t hello[SNIFF_MAX];
	struct rd c = rd_of(p, n);
	size_t have = 0, want = 4;

	while (have < want) {
		uint8_t type, major, minor;
		uint16_t len;
		struct rd body;

		if (c.left && c.p[0] != RECORD_HANDSHAKE)
			return -ENOENT;
		if (c.left < 5)
			return 0;
		if (rd_u8(&c, &type) < 0 || rd_u8(&c, &major) < 0 || rd_u8(&c, &minor) < 0 ||
		    rd_u16(&c, &len) < 0 || major != 3 || !len || len > RECORD_MAX)
			return -ENOENT;
		if (part(&c, len, &body) < 0)
			return 0;
		if (have + len > sizeof(hello))
			return -ENOENT;
		memcpy(hello + have, body.p, len);
		have += len;
		if (hello[0] != HANDSHAKE_CLIENT_HELLO)
			return -ENOENT;
		if (have >= 4)
			want = 4 + ((size_t)hello[1] << 16 | (size_t)hello[2] << 8 | hello[3]);
		if (want > sizeof(hello))
			return -ENOENT;
	}
	return client_hello(rd_of(hello + 4, want - 4), ret_name);
}

/* ---- HTTP ---- */

int sniff_http(const void *p, size_t n, char ret_name[SNIFF_NAME_MAX], struct h1_head *ret_head)
{
	size_t scan = 0;
	int r;

	n = MIN(n, SNIFF_MAX);
	r = h1_request(p, n, &scan, ret_head);
	if (r < 0 || (r == 0 && n == SNIFF_MAX))
		return -EBADMSG;
	if (r == 0)
		return 0;
	return take_name((const uint8_t *)ret_head->host.p, ret_head->host.n, ret_name);
}

void sniff_http_rewrite(const struct h1_head *h, const struct egress_header *add, size_t n_add,
                        struct buf *out)
{
	struct h1_text skip[EGRESS_HEADERS_MAX] = { { 0 } };

	n_add = MIN(n_add, ARRAY_SIZE(skip));
	for (size_t i = 0; i < n_add; i++)
		skip[i] = (struct h1_text){ add[i].name, strlen(add[i].name) };
	h1_forward(h, skip, n_add, out);
	for (size_t i = 0; i < n_add; i++)
		buf_printf(out, "%s: %s\r\n", add[i].name, add[i].value);
	buf_printf(out, h->upgrade ? "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
	                           : "Connection: close\r\n\r\n");
}
