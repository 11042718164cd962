/* SPDX-License-Identifier: Apache-2.0 */
/*
 * term.c - terminals: the latest output of commands, by name
 *
 * A command run with term.exec is an ordinary exec; the output of it and its background children,
 * sent to the host or not, is also kept here: the last AGENT_TERM_BYTES, and the time of each
 * piece. It is in the agent's memory, so a fork or a thaw has it. Reading is done by a
 * child, whose copy of our memory does not change.
 *
 * A terminal is identified by user and name. When the table is full, the one without writers that
 * was quiet for the longest time is replaced.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

struct mark {
	uint64_t at; /* offset of the first byte of a piece */
	uint64_t wall_ms;
};

struct term {
	char name[AGENT_TERM_NAME], user[AGENT_USER_MAX];
	unsigned writers; /* streams */
	uint64_t created_ms, changed_ms;
	uint64_t written;
	uint64_t n_marks; /* ever; the last AGENT_TERM_MARKS are kept */
	struct mark marks[AGENT_TERM_MARKS];
	uint8_t ring[AGENT_TERM_BYTES];
};

static bool name_ok(const char *s)
{
	return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                         "._-")] == '\0';
}

static struct term *find(struct agent *a, const char *name, const char *user)
{
	for (size_t i = 0; i < ARRAY_SIZE(a->terms); i++)
		if (a->terms[i] && !strcmp(a->terms[i]->name, name) &&
		    !strcmp(a->terms[i]->user, user))
			return a->terms[i];
	return NULL;
}

/* A free entry, or that of the quietest terminal; NULL if all have writers. */
static struct term **place(struct agent *a)
{
	struct term **quiet = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(a->terms); i++) {
		struct term *t = a->terms[i];

		if (!t)
			return &a->terms[i];
		if (!t->writers && (!quiet || t->changed_ms < (*quiet)->changed_ms))
			quiet = &a->terms[i];
	}
	return quiet;
}

static struct term *term_get(struct agent *a, const char *name, const char *user)
{
	struct term *t = find(a, name, user), **at;

	if (t)
		return t;
	at = place(a);
	t = at ? calloc(1, sizeof(*t)) : NULL;
	if (!t)
		return NULL;
	free(*at);
	*at = t;
	snprintf(t->name, sizeof(t->name), "%s", name);
	snprintf(t->user, sizeof(t->user), "%s", user);
	t->created_ms = t->changed_ms = (uint64_t)clock_wall_ms();
	return t;
}

void term_write(struct term *t, const void *p, size_t n)
{
	const uint8_t *from = p;

	t->changed_ms = (uint64_t)clock_wall_ms();
	t->marks[t->n_marks++ % AGENT_TERM_MARKS] = (struct mark){ t->written, t->changed_ms };
	if (n > sizeof(t->ring)) { /* only its end is kept */
		t->written += n - sizeof(t->ring);
		from += n - sizeof(t->ring);
		n = sizeof(t->ring);
	}
	while (n) {
		size_t off = t->written % sizeof(t->ring);
		size_t step = MIN(n, sizeof(t->ring) - off);

		memcpy(t->ring + off, from, step);
		t->written += step;
		from += step;
		n -= step;
	}
}

void term_leave(struct term *t)
{
	if (t)
		t->writers--;
}

void term_exec_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_exec_req r;
	const char *name;
	struct stream *s;
	struct term *t;
	struct rd look;

	if (agent_text_get(c, AGENT_TERM_NAME, &name) < 0 || !name_ok(name)) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "not a valid terminal name");
		return;
	}
	look = *c; /* the user is in the command's own request */
	if (agent_exec_req_get(&look, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed exec request");
		return;
	}
	t = term_get(a, name, *r.user ? r.user : "root");
	if (!t) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many terminals are in use");
		return;
	}
	exec_begin(a, id, AGENT_OP_EXEC, c);
	s = stream_find(a, id);
	if (s) {
		s->term = t;
		t->writers++;
	}
}

/* ---- reading, in a child ---- */

static void send(const struct job_fds *fds, const struct buf *b)
{
	int k = b->failed ? -ENOMEM : io_write_all(fds->out, b->p, b->len);

	if (k < 0)
		child_fail(fds, -k, AGENT_TAG_NONE, "terminal: %s", err_name(k));
}

static void list_child(struct agent *a, const struct job_fds *fds)
{
	struct buf rec = { 0 }, b = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(a->terms); i++) {
		const struct term *t = a->terms[i];

		if (!t)
			continue;
		buf_reset(&rec);
		agent_term_entry_put(&rec, &(struct agent_term_entry){ .name = t->name,
		                                                       .user = t->user,
		                                                       .running = t->writers,
		                                                       .created_ms = t->created_ms,
		                                                       .changed_ms = t->changed_ms,
		                                                       .written = t->written });
		buf_put_blob(&b, rec.p, rec.len);
	}
	send(fds, &b);
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}

/* u64 offset of the first byte, u32 number of marks, the marks, the bytes */
static void read_child(const struct job_fds *fds, const struct term *t)
{
	uint64_t start = t->written > sizeof(t->ring) ? t->written - sizeof(t->ring) : 0;
	uint64_t first = t->n_marks > AGENT_TERM_MARKS ? t->n_marks - AGENT_TERM_MARKS : 0;
	size_t off = start % sizeof(t->ring), n = (size_t)(t->written - start);
	size_t step = MIN(n, sizeof(t->ring) - off);
	struct buf b = { 0 };

	buf_put_u64(&b, start);
	buf_put_u32(&b, (uint32_t)(t->n_marks - first));
	for (uint64_t i = first; i < t->n_marks; i++) {
		buf_put_u64(&b, t->marks[i % AGENT_TERM_MARKS].at);
		buf_put_u64(&b, t->marks[i % AGENT_TERM_MARKS].wall_ms);
	}
	buf_put(&b, t->ring + off, step);
	buf_put(&b, t->ring, n - step);
	send(fds, &b);
	child_finish(fds, 0, AGENT_TAG_NONE, "", NULL, 0);
}

/* 1 in the child. */
static int reader(struct agent *a, uint32_t id, uint16_t op, struct job_fds *fds)
{
	struct stream *s = stream_new(a, id, op);
	int k;

	if (!s) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "too many processes are attached");
		return 0;
	}
	k = job_fork(a, s, JOB_OUT, fds);
	if (k < 0)
		stream_result(a, s, (uint32_t)-k, AGENT_TAG_SPAWN_FAILED, "cannot start a process",
		              NULL, 0);
	return k == 1;
}

void term_list_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct job_fds fds;

	if (rd_end(c) < 0)
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed list request");
	else if (reader(a, id, AGENT_OP_TERM_LIST, &fds))
		list_child(a, &fds);
}

void term_read_begin(struct agent *a, uint32_t id, struct rd *c)
{
	const char *name, *user;
	struct term *t = NULL;
	struct job_fds fds;

	if (agent_term_read_get(c, &name, &user) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed read request");
		return;
	}
	t = find(a, name, *user ? user : "root");
	for (size_t i = 0; !t && !*user && i < ARRAY_SIZE(a->terms); i++)
		if (a->terms[i] && !strcmp(a->terms[i]->name, name))
			t = a->terms[i];
	if (!t)
		stream_answer(a, id, ENOENT, AGENT_TAG_NONE, "no such terminal");
	else if (reader(a, id, AGENT_OP_TERM_READ, &fds))
		read_child(&fds, t);
}
