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
#include "net/egress.h"

#define RECORD_HANDSHAKE 22u
#define HANDSHAKE_CLIENT_HELLO 1u
#define EXT_SERVER_NAME 0u
#define RECORD_MAX 16384u
#define METHOD_MAX 20u

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

/* The next line without its end; false: none is whole. Ends are CR LF, nothing else. */
static bool next_line(const char *p, size_t n, size_t *at, const char **ret, size_t *ret_len)
{
	const char *from = p + *at, *lf = memchr(from, '\n', n - *at);

	if (!lf)
		return false;
	*ret = from;
	*ret_len = (size_t)(lf - from);
	*at += *ret_len + 1;
	return true;
}

/* Without CR; -1: the line is not one of ours. */
static int line_ok(const char *s, size_t *n)
{
	if (!*n || s[*n - 1] != '\r')
		return -1;
	(*n)--;
	for (size_t i = 0; i < *n; i++)
		if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
			return -1;
	return 0;
}

static bool request_line(const char *s, size_t n)
{
	size_t m = 0, version = n >= 9 ? n - 9 : 0;
	const char *target;

	while (m < n && m < METHOD_MAX && (isupper((unsigned char)s[m]) || s[m] == '-'))
		m++;
	if (!m || m + 1 >= version || s[m] != ' ')
		return false;
	target = s + m + 1;
	if (memcmp(s + version, " HTTP/1.", 8) != 0 || (s[n - 1] != '0' && s[n - 1] != '1'))
		return false;
	/* A target with a host of its own would be a second answer to the same question. */
	return *target == '/' && !memchr(target, ' ', version - (m + 1));
}

static size_t header_name(const char *s, size_t n)
{
	size_t k = 0;

	while (k < n && (isalnum((unsigned char)s[k]) || strchr("!#$%&'*+-.^_`|~", s[k])) && s[k])
		k++;
	return k < n && s[k] == ':' ? k : 0;
}

static bool named(const char *s, size_t name, const char *want)
{
	return strlen(want) == name && !strncasecmp(s, want, name);
}

static void trim(const char **s, size_t *n)
{
	while (*n && (**s == ' ' || **s == '\t')) {
		(*s)++;
		(*n)--;
	}
	while (*n && ((*s)[*n - 1] == ' ' || (*s)[*n - 1] == '\t'))
		(*n)--;
}

/* "name" or "name:port" */
static int host_value(const char *s, size_t n, char ret[SNIFF_NAME_MAX])
{
	const char *colon = memchr(s, ':', n);

	if (colon) {
		for (const char *p = colon + 1; p < s + n; p++)
			if (!isdigit((unsigned char)*p))
				return -EBADMSG;
		n = (size_t)(colon - s);
	}
	return take_name((const uint8_t *)s, n, ret);
}

int sniff_http(const void *p, size_t n, char ret_name[SNIFF_NAME_MAX], size_t *ret_head)
{
	const char *text = p, *line;
	size_t at = 0, len;
	int r = -ENOENT;
	bool host = false;

	n = MIN(n, SNIFF_MAX);
	/* Said early, so that other protocols are not waited for. */
	if (n && !isupper((unsigned char)text[0]))
		return -EBADMSG;
	if (!next_line(text, n, &at, &line, &len))
		return n == SNIFF_MAX ? -EBADMSG : 0;
	if (line_ok(line, &len) < 0 || !request_line(line, len))
		return -EBADMSG;
	for (;;) {
		size_t name;

		if (!next_line(text, n, &at, &line, &len))
			return n == SNIFF_MAX ? -EBADMSG : 0;
		if (line_ok(line, &len) < 0)
			return -EBADMSG;
		if (!len)
			break;
		name = header_name(line, len);
		if (!name)
			return -EBADMSG; /* also a folded line */
		if (!named(line, name, "host"))
			continue;
		if (host)
			return -EBADMSG;
		host = true;
		line += name + 1;
		len -= name + 1;
		trim(&line, &len);
		r = host_value(line, len, ret_name);
		if (r == -EBADMSG)
			return r;
	}
	*ret_head = at;
	return r;
}

static bool replaced(const char *s, size_t name, const struct egress_header *add, size_t n_add)
{
	static const char *const hop[] = { "connection", "keep-alive", "proxy-connection" };

	for (size_t i = 0; i < ARRAY_SIZE(hop); i++)
		if (named(s, name, hop[i]))
			return true;
	for (size_t i = 0; i < n_add; i++)
		if (named(s, name, add[i].name))
			return true;
	return false;
}

void sniff_http_rewrite(const char *head, size_t n, const struct egress_header *add, size_t n_add,
                        struct buf *out)
{
	const char *line;
	size_t at = 0, len;
	bool upgrade = false;

	if (!next_line(head, n, &at, &line, &len))
		return;
	buf_put(out, line, len + 1);
	while (next_line(head, n, &at, &line, &len) && len > 1) {
		size_t name = header_name(line, len);

		upgrade |= named(line, name, "upgrade");
		if (!replaced(line, name, add, n_add))
			buf_put(out, line, len + 1);
	}
	for (size_t i = 0; i < n_add; i++)
		buf_printf(out, "%s: %s\r\n", add[i].name, add[i].value);
	buf_printf(out, "Connection: %s\r\n\r\n", upgrade ? "Upgrade" : "close");
}
