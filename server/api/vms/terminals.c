/* SPDX-License-Identifier: Apache-2.0 */
/*
 * terminals.c - terminals: the output of commands that were run under a name
 *
 * The guest keeps the bytes unchanged. `logs` shows them as lines of plain text: sequences that
 * only move a cursor or set a colour are left out, and a line that was overwritten after a carriage
 * return shows what was written last. `xterm-256color` returns them for a terminal emulator, with
 * escape sequences, every line ended by CR LF as a terminal's line discipline does.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "guest/guest.h"

#define TERMINAL_NAME_MAX 64
#define LINES_MAX 100000 /* of one log; the guest keeps far fewer */

bool terminal_name_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n >= 1 && n <= TERMINAL_NAME_MAX && s[n] == '\0';
}

int api_terminal_list(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	autofree struct guest_term *v = NULL;
	autojson json_t *items = json_array();
	const char *id, *user;
	size_t n = 0;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &user, err)) < 0 ||
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	if ((r = guest_term_list(g, &v, &n, err)) < 0)
		return guest_call_error(r, err);
	for (size_t i = 0; i < n; i++) {
		if (user && strcmp(user, v[i].user) != 0)
			continue;
		json_array_append_new(items,
		                      json_pack("{s:o, s:s, s:o, s:o, s:o}", "name",
		                                shape_output(v[i].name, strlen(v[i].name)),
		                                "status", v[i].running ? "running" : "idle",
		                                "created", shape_time(v[i].created_ms),
		                                "lastOutput", shape_time(v[i].changed_ms), "user",
		                                shape_output(v[i].user, strlen(v[i].user))));
	}
	return reply_json(res, json_pack("{s:O}", "terminals", items), err);
}

static int terminal_read(struct request *req, struct reply *res, struct guest_term_log *ret,
                         struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	const char *id, *user, *name = req->match.arg[1];
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &user, err)) < 0)
		return r;
	reply_extra(res, "sessionId", shape_output(name, strlen(name)));
	if (!terminal_name_valid(name))
		return err_tag(err, -ENOENT, ERR_SESSION_NOT_FOUND, "there is no such terminal");
	if ((r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	r = guest_term_read(g, user, name, ret, err);
	if (r == -ENOENT)
		return err_tag(err, r, ERR_SESSION_NOT_FOUND,
		               "there is no terminal '%s': a command run with \"terminal\": \"%s\" "
		               "creates it",
		               name, name);
	return r < 0 ? guest_call_error(r, err) : 0;
}

/* Bytes of the escape sequence at p (which is ESC), or the rest if it is incomplete. */
static size_t escape_len(const char *p, size_t n)
{
	size_t i = 2;

	if (n < 2)
		return n;
	if (p[1] == '[') { /* CSI: up to a byte from @ to ~ */
		while (i < n && (p[i] < '@' || p[i] > '~'))
			i++;
		return i < n ? i + 1 : n;
	}
	if (strchr("]PX^_", p[1])) { /* a string: up to BEL or ESC \ */
		while (i < n && p[i] != '\a' && !(p[i] == '\033' && i + 1 < n && p[i + 1] == '\\'))
			i++;
		return i >= n ? n : p[i] == '\a' ? i + 1 : i + 2;
	}
	while (i < n && p[i - 1] >= ' ' && p[i - 1] <= '/') /* intermediates, then a final byte */
		i++;
	return i;
}

/* One line of plain text. */
static void plain_line(struct buf *b, const char *p, size_t n)
{
	buf_reset(b);
	for (size_t i = 0; i < n;) {
		char c = p[i];

		if (c == '\033') {
			i += escape_len(p + i, n - i);
			continue;
		}
		if (c == '\r' && i + 1 < n && p[i + 1] != '\r')
			buf_reset(b); /* overwritten from the start */
		else if (c == '\b' && b->len)
			b->len--;
		else if ((unsigned char)c >= ' ' || c == '\t')
			buf_put(b, &c, 1);
		i++;
	}
}

int api_terminal_logs(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_term_log_done) struct guest_term_log l = { 0 };
	autojson json_t *lines = json_array();
	autobuf struct buf b = { 0 };
	size_t mark = 0;
	int r = terminal_read(req, res, &l, err);

	if (r < 0)
		return r;
	for (size_t at = 0, count = 0; at < l.len && count < LINES_MAX; count++) {
		const char *nl = memchr(l.text + at, '\n', l.len - at);
		size_t n = nl ? (size_t)(nl - (l.text + at)) : l.len - at;

		while (mark + 1 < l.n_marks && l.marks[mark + 1].at <= l.start + at)
			mark++;
		plain_line(&b, l.text + at, n);
		if (b.failed ||
		    json_array_append_new(lines,
		                          json_pack("{s:o, s:o}", "line",
		                                    shape_output(b.p ? b.p : (void *)"", b.len),
		                                    "timestamp",
		                                    l.n_marks ? shape_time(l.marks[mark].wall_ms)
		                                              : json_null())) < 0)
			return err_set(err, -ENOMEM, "out of memory");
		at += n + (nl ? 1 : 0);
	}
	return reply_json(res, json_pack("{s:O, s:b}", "logs", lines, "truncated", l.start > 0),
	                  err);
}

int api_terminal_xterm(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_term_log_done) struct guest_term_log l = { 0 };
	autobuf struct buf b = { 0 };
	int r = terminal_read(req, res, &l, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < l.len; i++) {
		if (l.text[i] == '\n' && (i == 0 || l.text[i - 1] != '\r'))
			buf_put(&b, "\r", 1);
		buf_put(&b, &l.text[i], 1);
	}
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res,
	                  json_pack("{s:o}", "output", shape_output(b.p ? b.p : (void *)"", b.len)),
	                  err);
}
