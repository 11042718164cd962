/* SPDX-License-Identifier: Apache-2.0 */
/* term.c - terminals of the guest: which there are, and what they hold */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

#define LIST_BYTES ((size_t)AGENT_TERMS_MAX * 256) /* of the whole list */
#define LOG_BYTES ((size_t)12 + (size_t)AGENT_TERM_MARKS * 16 + AGENT_TERM_BYTES)

static int nonsense(struct err *err)
{
	return err_set(err, -EPROTO, "the guest sent a malformed terminal list");
}

int guest_term_list(struct guest *g, struct guest_term **ret, size_t *ret_n, struct err *err)
{
	autofree struct guest_term *v = calloc(AGENT_TERMS_MAX, sizeof(*v));
	autobuf struct buf req = { 0 }, all = { 0 };
	size_t n = 0;
	struct rd c;
	int r;

	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	buf_put_u16(&req, AGENT_OP_TERM_LIST);
	r = guest_collect(g, &req, LIST_BYTES, deadline_in(GUEST_CALL_MS), &all, err);
	if (r < 0)
		return r;
	for (c = rd_of(all.p, all.len); c.left; n++) {
		struct agent_term_entry e;
		const uint8_t *p;
		size_t len;

		if (n == AGENT_TERMS_MAX || rd_blob(&c, c.left, &p, &len) < 0 ||
		    agent_term_entry_get(p, len, &e) < 0 || e.created_ms > INT64_MAX ||
		    e.changed_ms > INT64_MAX)
			return nonsense(err);
		snprintf(v[n].name, sizeof(v[n].name), "%s", e.name);
		snprintf(v[n].user, sizeof(v[n].user), "%s", e.user);
		v[n].running = e.running;
		v[n].created_ms = (int64_t)e.created_ms;
		v[n].changed_ms = (int64_t)e.changed_ms;
	}
	*ret = TAKE_PTR(v);
	*ret_n = n;
	return 0;
}

void guest_term_log_done(struct guest_term_log *l)
{
	free(l->text);
	free(l->marks);
	*l = (struct guest_term_log){ 0 };
}

int guest_term_read(struct guest *g, const char *user, const char *name, struct guest_term_log *ret,
                    struct err *err)
{
	AUTO(guest_term_log_done) struct guest_term_log l = { 0 };
	autobuf struct buf req = { 0 }, all = { 0 };
	struct rd c;
	uint32_t n;
	int r;

	buf_put_u16(&req, AGENT_OP_TERM_READ);
	agent_text_put(&req, name);
	agent_text_put(&req, user);
	r = guest_collect(g, &req, LOG_BYTES, deadline_in(GUEST_CALL_MS), &all, err);
	if (r < 0)
		return r;
	c = rd_of(all.p, all.len);
	if (rd_u64(&c, &l.start) < 0 || rd_u32(&c, &n) < 0 || n > AGENT_TERM_MARKS)
		return nonsense(err);
	l.marks = calloc(n + 1, sizeof(*l.marks));
	l.text = malloc(c.left + 1);
	if (!l.marks || !l.text)
		return err_set(err, -ENOMEM, "out of memory");
	for (; l.n_marks < n; l.n_marks++) {
		uint64_t ms;

		if (rd_u64(&c, &l.marks[l.n_marks].at) < 0 || rd_u64(&c, &ms) < 0 ||
		    ms > INT64_MAX ||
		    (l.n_marks && l.marks[l.n_marks].at < l.marks[l.n_marks - 1].at))
			return nonsense(err);
		l.marks[l.n_marks].wall_ms = (int64_t)ms;
	}
	l.len = c.left;
	if (rd_bytes(&c, l.text, l.len) < 0)
		return nonsense(err);
	l.text[l.len] = '\0';
	*ret = l;
	l = (struct guest_term_log){ 0 };
	return 0;
}
