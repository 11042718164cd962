/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty.c - terminal sessions: open, attach, list, close, resize; output, end
 *
 * Theory of operation: the program's output is read when its clients have room,
 * goes through the vt, and to every client. The program's end is noticed by pidfd; the terminal
 * is then read to its end, each client gets the rest and a RESULT with the exit
 * code, and the session stays for pty_retain_ms so that clients can still learn how it ended. While
 * nobody is attached the vt answers the program's terminal queries; otherwise the clients'
 * terminals do.
 */
#include "agent/pty.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/vt.h"
#include "base/auto.h"
#include "base/clock.h"

static char expired[PTY_EXPIRED_MAX][AGENT_PTY_ID]; /* ring */
static unsigned n_expired;

void pty_refuse(struct agent *a, uint32_t id, uint32_t status, uint16_t tag, const char *fmt, ...)
{
	char msg[AGENT_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	stream_answer(a, id, status, tag, msg);
}

static void answer_body(struct agent *a, uint32_t id, const struct buf *b)
{
	struct stream *s = b->failed ? NULL : stream_new(a, id, AGENT_OP_PTY_LIST);

	if (!s) {
		pty_refuse(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "out of memory or streams");
		return;
	}
	stream_result(a, s, 0, AGENT_TAG_NONE, "", b->p, b->len);
}

struct pty *pty_find(struct agent *a, const char *id)
{
	for (struct pty *p = a->ptys; p; p = p->next)
		if (!p->closing && !strcmp(p->id, id))
			return p;
	return NULL;
}

static struct pty *find_serial(struct agent *a, uint32_t serial)
{
	for (struct pty *p = a->ptys; p; p = p->next)
		if (p->serial == serial)
			return p;
	return NULL;
}

bool pty_over(const struct pty *p)
{
	return p->exited && p->master < 0;
}

void pty_fill(const struct pty *p, struct agent_pty *ret)
{
	*ret = (struct agent_pty){ .serial = p->serial,
		                   .id = p->id,
		                   .user = p->user,
		                   .exec = p->exec,
		                   .cols = p->cols,
		                   .rows = p->rows,
		                   .running = !p->exited,
		                   .exit_code = p->exit_code,
		                   .created_ms = (uint64_t)p->created_wall,
		                   .exited_ms = (uint64_t)p->exited_wall,
		                   .clients = (uint16_t)p->clients };
}

void pty_fit(struct agent *a, struct pty *p)
{
	uint16_t cols = UINT16_MAX, rows = UINT16_MAX;

	for (unsigned i = 0; i < a->n_streams; i++) {
		const struct pty_client *c = a->slot[i]->pty;

		if (!c || c->p != p)
			continue;
		cols = MIN(cols, c->cols);
		rows = MIN(rows, c->rows);
	}
	if (cols != UINT16_MAX && !p->exited && (cols != p->cols || rows != p->rows))
		pty_set_size(p, cols, rows);
}

/* The vt's answer to a program's query, if no client's terminal answers. */
static void on_say(void *ctx, const char *s, size_t n)
{
	struct pty *p = ctx;

	/* A program that does not read its answers loses them. */
	if (!p->clients && p->master >= 0 && write(p->master, s, n) < 0)
		p->readable = true;
}

static void pty_free(struct pty *p)
{
	if (p->master >= 0)
		close(p->master);
	if (p->pidfd >= 0)
		close(p->pidfd);
	vt_free(p->vt);
	free(p);
}

static void pty_remove(struct agent *a, struct pty *p)
{
	for (struct pty **at = &a->ptys; *at; at = &(*at)->next) {
		if (*at != p)
			continue;
		*at = p->next;
		break;
	}
	pty_free(p);
}

/* A closed session that has ended only waits until its client is notified. */
static unsigned count(const struct agent *a)
{
	unsigned n = 0;

	for (const struct pty *p = a->ptys; p; p = p->next)
		n += !(p->closing && p->exited);
	return n;
}

static void pick_id(struct agent *a, const char *wanted, struct pty *p)
{
	snprintf(p->id, sizeof(p->id), "%s", wanted);
	for (unsigned n = p->serial; !*p->id; n++) {
		char id[AGENT_PTY_ID];

		snprintf(id, sizeof(id), "pty-%u", n);
		if (!pty_find(a, id))
			snprintf(p->id, sizeof(p->id), "%s", id);
	}
}

static struct pty *pty_new(struct agent *a, const struct agent_pty_open *m)
{
	struct pty *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->master = p->pidfd = -1;
	p->serial = ++a->next_pty;
	p->cols = m->cols;
	p->rows = m->rows;
	p->created_wall = clock_wall_ms();
	pick_id(a, m->id, p);
	snprintf(p->exec, sizeof(p->exec), "%s", m->exec);
	p->vt = vt_new(m->cols, m->rows, on_say, p);
	if (!p->vt) {
		pty_free(p);
		return NULL;
	}
	return p;
}

static void forget_expired(const char *id)
{
	for (unsigned i = 0; i < PTY_EXPIRED_MAX; i++)
		if (!strcmp(expired[i], id))
			expired[i][0] = '\0';
}

static void begin_open(struct agent *a, uint32_t id, struct rd *c)
{
	static struct agent_pty_open m; /* large */
	struct pty_failure f = { .tag = AGENT_TAG_NONE };
	struct pty *p, **end = &a->ptys;
	int r;

	if (agent_pty_open_get(c, &m) < 0) {
		pty_refuse(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed pty.open request");
		return;
	}
	if (*m.id && pty_find(a, m.id)) {
		pty_refuse(a, id, EEXIST, AGENT_TAG_SESSION_ALREADY_EXISTS,
		           "there is already a session '%s'", m.id);
		return;
	}
	if (count(a) >= AGENT_PTYS_MAX) {
		pty_refuse(a, id, EAGAIN, AGENT_TAG_SESSION_CAP_REACHED,
		           "this VM has %u terminal sessions, the maximum: close one",
		           AGENT_PTYS_MAX);
		return;
	}
	p = pty_new(a, &m);
	if (!p) {
		pty_refuse(a, id, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory");
		return;
	}
	r = pty_spawn(a, p, &m, &f);
	if (r < 0) {
		pty_refuse(a, id, (uint32_t)-r, f.tag, "%s", f.msg);
		if (p->pid > 0) {
			session_kill(p->pid);
			waitpid(p->pid, NULL, 0);
		}
		pty_free(p);
		return;
	}
	forget_expired(p->id);
	while (*end)
		end = &(*end)->next;
	*end = p;
	pty_attach(a, id, p, m.cols, m.rows);
}

/* The session of that name if the user may use it; otherwise an error has been sent. */
static struct pty *find_for(struct agent *a, uint32_t id, const struct agent_pty_req *m)
{
	struct pty *p = pty_find(a, m->id);

	if (!p) {
		bool was = false;

		for (unsigned i = 0; i < PTY_EXPIRED_MAX; i++)
			was |= !strcmp(expired[i], m->id);
		if (was)
			pty_refuse(a, id, ESTALE, AGENT_TAG_SESSION_EXPIRED,
			           "session '%s' ended a while ago", m->id);
		else
			pty_refuse(a, id, ENOENT, AGENT_TAG_SESSION_NOT_FOUND,
			           "there is no session '%s'", m->id);
		return NULL;
	}
	if (*m->user && strcmp(m->user, p->user) != 0) {
		pty_refuse(a, id, EPERM, AGENT_TAG_SESSION_USER_MISMATCH,
		           "session '%s' belongs to another user", m->id);
		return NULL;
	}
	return p;
}

static void put_end(const struct pty *p, struct buf *b)
{
	agent_pty_end_put(
	        b, &(struct agent_pty_end){ .running = !p->exited, .exit_code = p->exit_code });
}

static void begin_close(struct agent *a, uint32_t id, struct pty *p)
{
	autobuf struct buf b = { 0 };
	struct stream *s;

	if (p->exited) {
		put_end(p, &b);
		answer_body(a, id, &b);
		p->closing = true;
		return;
	}
	s = stream_new(a, id, AGENT_OP_PTY_CLOSE);
	if (!s) {
		pty_refuse(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	s->pty_serial = p->serial;
	p->closing = true;
	p->close_by = clock_ms() + PTY_CLOSE_MS;
	session_kill(p->pid);
}

static void begin_list(struct agent *a, uint32_t id, struct rd *c)
{
	autobuf struct buf b = { 0 };
	const size_t room = AGENT_RESULT_MAX - 64; /* the rest of a RESULT */
	uint32_t after;

	if (rd_u32(c, &after) < 0 || rd_end(c) < 0) {
		pty_refuse(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed pty.list request");
		return;
	}
	for (const struct pty *p = a->ptys; p; p = p->next) {
		size_t before = b.len;
		struct agent_pty m;

		if (p->closing || p->serial <= after)
			continue;
		pty_fill(p, &m);
		agent_pty_put(&b, &m);
		if (b.len > room) {
			b.len = before;
			break;
		}
	}
	answer_body(a, id, &b);
}

static void begin_resize(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_pty_resize m;
	struct stream *s;

	if (agent_pty_resize_get(c, &m) < 0) {
		pty_refuse(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed pty.resize request");
		return;
	}
	s = stream_find(a, m.stream);
	if (s && login_resize(s, m.cols, m.rows)) {
		stream_answer(a, id, 0, AGENT_TAG_NONE, "");
		return;
	}
	if (!s || !s->pty) {
		pty_refuse(a, id, ENOENT, AGENT_TAG_SESSION_NOT_FOUND, "no such client");
		return;
	}
	s->pty->cols = m.cols;
	s->pty->rows = m.rows;
	pty_fit(a, s->pty->p);
	stream_answer(a, id, 0, AGENT_TAG_NONE, "");
}

void pty_begin(struct agent *a, uint32_t id, uint16_t op, struct rd *c)
{
	struct agent_pty_req m;
	struct pty *p;

	switch (op) {
	case AGENT_OP_PTY_OPEN:
		begin_open(a, id, c);
		return;
	case AGENT_OP_PTY_LIST:
		begin_list(a, id, c);
		return;
	case AGENT_OP_PTY_RESIZE:
		begin_resize(a, id, c);
		return;
	default:
		break;
	}
	if (agent_pty_req_get(c, &m) < 0 || (op == AGENT_OP_PTY_ATTACH) != (m.cols != 0)) {
		pty_refuse(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed request");
		return;
	}
	p = find_for(a, id, &m);
	if (!p)
		return;
	if (op == AGENT_OP_PTY_ATTACH)
		pty_attach(a, id, p, m.cols, m.rows);
	else
		begin_close(a, id, p);
}

static void on_exit_event(struct pty *p)
{
	int st;

	if (p->pid <= 0 || waitpid(p->pid, &st, WNOHANG) != p->pid)
		return;
	p->pid = 0;
	close(TAKE_FD(p->pidfd));
	p->exited = true;
	p->exit_code = WIFSIGNALED(st) ? 128u + (uint32_t)WTERMSIG(st) : (uint32_t)WEXITSTATUS(st);
	p->exited_wall = clock_wall_ms();
	p->exited_at = clock_ms();
	p->settle_at = p->exited_at + PTY_SETTLE_MS;
	p->readable = p->master >= 0;
}

void pty_on_event(struct agent *a, uint64_t ref, uint32_t events)
{
	struct pty *p = find_serial(a, (uint32_t)ref);

	if (!p)
		return;
	if ((enum ref_kind)(ref >> 56) == REF_PTY_PROC)
		on_exit_event(p);
	else
		p->readable = p->master >= 0;
}

/*
 * The kernel returns 4 KiB at a time. A program that writes much has more ready by then, and a
 * turn of the loop (a message, a wake-up of the host) costs more than a read: so several
 * reads make one turn. A key press is one read.
 */
static void read_some(struct agent *a, struct pty *p)
{
	static uint8_t bytes[PTY_READ_MAX];
	size_t have = 0;
	ssize_t n;
	int e;

	do {
		n = read(p->master, bytes + have, sizeof(bytes) - have);
		e = n < 0 ? errno : 0;
		have += n > 0 ? (size_t)n : 0;
	} while (e == EINTR || (n >= (ssize_t)PTY_READ_MORE && have < sizeof(bytes)));
	if (have) {
		vt_feed(p->vt, bytes, have);
		pty_spread(a, p, bytes, have);
		if (p->exited)
			p->settle_at = clock_ms() + PTY_SETTLE_MS;
	}
	if (n > 0)
		return;
	p->readable = false;
	/* The other side is closed: for good after the program ended, before that a process may
	 * open it again.
	 */
	if (e != EAGAIN && p->exited)
		close(TAKE_FD(p->master));
}

void pty_pump(struct agent *a)
{
	uint64_t now = clock_ms();

	for (struct pty *p = a->ptys; p; p = p->next)
		if (p->master >= 0 && p->readable && pty_room(a, p, now, NULL))
			read_some(a, p);
	for (unsigned i = 0; i < a->n_streams; i++) {
		struct stream *s = a->slot[(i + a->turn) % a->n_streams];

		if (s->pty)
			pty_client_pump(a, s);
	}
}

bool pty_idle(const struct agent *a)
{
	uint64_t now = clock_ms();

	for (const struct pty *p = a->ptys; p; p = p->next)
		if (p->master >= 0 && p->readable && pty_room(a, p, now, NULL))
			return false;
	for (unsigned i = 0; i < a->n_streams; i++)
		if (a->slot[i]->pty && !pty_client_idle(a, a->slot[i]))
			return false;
	return true;
}

/* The program ended and the client has all output: sends RESULT. */
static void client_end(struct agent *a, struct stream *s)
{
	const struct pty_client *c = s->pty;
	autobuf struct buf b = { 0 };

	if (!s->id || !pty_over(c->p) || c->behind || c->q.len > c->q_off)
		return;
	put_end(c->p, &b);
	if (b.failed)
		return;
	stream_result(a, s, 0, AGENT_TAG_NONE, "", b.p, b.len);
	job_orphan(a, s);
}

static void close_answer(struct agent *a, struct pty *p)
{
	autobuf struct buf b = { 0 };

	put_end(p, &b);
	for (unsigned i = 0; !b.failed && i < a->n_streams; i++) {
		struct stream *s = a->slot[i];

		if (s->id && s->op == AGENT_OP_PTY_CLOSE && s->pty_serial == p->serial)
			stream_result(a, s, 0, AGENT_TAG_NONE, "", b.p, b.len);
	}
}

static void retire(struct agent *a, struct pty *p)
{
	if (!p->closing)
		snprintf(expired[n_expired++ % PTY_EXPIRED_MAX], AGENT_PTY_ID, "%s", p->id);
	pty_remove(a, p);
}

void pty_tick(struct agent *a, uint64_t now)
{
	for (struct pty *p = a->ptys, *next; p; p = next) {
		next = p->next;
		if (p->exited && p->master >= 0 && !p->readable && now >= p->settle_at)
			close(TAKE_FD(p->master)); /* a background process may hold it for long */
		if (p->closing && (p->exited || now >= p->close_by))
			close_answer(a, p);
		if (pty_over(p) && !p->clients &&
		    (p->closing || now - p->exited_at >= a->pty_retain_ms))
			retire(a, p);
	}
	for (unsigned i = 0; i < a->n_streams; i++) {
		if (!a->slot[i]->pty)
			continue;
		pty_client_tick(a->slot[i], now);
		client_end(a, a->slot[i]);
	}
}

uint64_t pty_next_timer(const struct agent *a)
{
	uint64_t t = UINT64_MAX, now = clock_ms();

	for (const struct pty *p = a->ptys; p; p = p->next) {
		if (p->exited && p->master >= 0 && !p->readable)
			t = MIN(t, p->settle_at);
		else if (pty_over(p) && !p->clients)
			t = MIN(t, p->closing ? now : p->exited_at + a->pty_retain_ms);
		else if (!p->exited && p->closing && p->close_by > now)
			t = MIN(t, p->close_by);
		if (p->master >= 0 && p->readable)
			pty_room(a, p, now, &t);
	}
	return t;
}

/* A copy of a machine keeps running sessions, but not those that ended in the original. */
void pty_on_hello(struct agent *a, const struct agent_hello *h)
{
	bool copy = a->machine_id[0] && strcmp(a->machine_id, h->machine_id) != 0;

	for (struct pty *p = a->ptys, *next; copy && p; p = next) {
		next = p->next;
		if (p->exited && !p->clients)
			pty_remove(a, p);
	}
	snprintf(a->machine_id, sizeof(a->machine_id), "%s", h->machine_id);
}

void pty_end_all(struct agent *a)
{
	while (a->ptys) {
		session_kill(a->ptys->pid);
		pty_remove(a, a->ptys);
	}
}
