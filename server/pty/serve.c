/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c - the bridge between one client's WebSocket and one session in a guest
 *
 * Theory of operation: one loop on the connection's own thread. Output is taken from the
 * guest while less than OUT_MAX waits for the client; beyond that the guest gets no credit, and
 * decides itself how long it waits for us. Input is read from the client while
 * less than IN_MAX waits for the guest. sessionInfo is the first frame. The program's end is
 * reported by "exited", then the connection is closed; when the VM goes away (suspend, stop,
 * delete, a lost agent) it is closed without that, and the client attaches again. Dead clients are
 * found by pings, and by TCP itself while we do not read.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/log.h"
#include "pty/pty_internal.h"
#include "pty/ws.h"

#define OUT_MAX (256u << 10) /* bytes waiting for the client */
#define IN_MAX (64u << 10)   /* bytes waiting for the guest, plus one message */
#define CONTROL_MAX 4096u    /* bytes of a text frame */
#define PING_MS 20000
#define STILL_MS 1000   /* how often the client's permission is checked */
#define DEAD_MS 60000   /* nothing received, not even an answer to a ping */
#define GOODBYE_MS 3000 /* for the client to read the last bytes and close */

struct bridge {
	struct hub *h;
	struct pty_client *c;
	struct ws *w;
	struct buf in; /* input not yet accepted by the guest */
	size_t in_off;
	bool closing; /* our close frame is queued */
	uint64_t still_at, ping_at, leave_by;
};

static void say_goodbye(struct bridge *b, enum ws_code code, const char *why)
{
	if (b->closing)
		return;
	b->closing = true;
	b->leave_by = deadline_in(GOODBYE_MS);
	ws_close(b->w, code, why);
}

static int say(struct bridge *b, json_t *j_consume)
{
	autojson json_t *j = j_consume;
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	return text ? ws_text(b->w, text, strlen(text)) : -ENOMEM;
}

static void on_resize(struct bridge *b, const json_t *j)
{
	json_int_t cols = json_integer_value(json_object_get(j, "cols"));
	json_int_t rows = json_integer_value(json_object_get(j, "rows"));
	struct err err = { 0 };

	if (cols < 1 || rows < 1 || cols > UINT16_MAX || rows > UINT16_MAX ||
	    !guest_pty_size_valid((unsigned)cols, (unsigned)rows))
		return;
	if (guest_pty_resize(b->c->pty, (unsigned)cols, (unsigned)rows, &err) < 0)
		log_obj(LOG_LV_DEBUG, "vm", b->c->vm_id, "resize of %s: %s", b->c->session,
		        err.msg);
}

static void on_signal(struct bridge *b, const json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "signal"));

	if (name && strcmp(name, "SIGINT") == 0)
		buf_put_u8(&b->in, 0x03);
	else if (name && strcmp(name, "SIGKILL") == 0)
		guest_pty_signal(b->c->pty, SIGKILL, NULL);
}

/* Unknown messages are ignored: newer clients may send more. */
static void on_control(struct bridge *b, const uint8_t *p, size_t n)
{
	autojson json_t *j = NULL;
	const char *type;

	if (!n || n > CONTROL_MAX || json_text_parse(p, n, &j, NULL) < 0)
		return;
	type = json_string_value(json_object_get(j, "type"));
	if (type && strcmp(type, "resize") == 0)
		on_resize(b, j);
	else if (type && strcmp(type, "signal") == 0)
		on_signal(b, j);
}

static void on_message(void *ctx, bool text, const uint8_t *p, size_t n)
{
	struct bridge *b = ctx;

	if (b->closing)
		return;
	if (text)
		on_control(b, p, n);
	else
		buf_put(&b->in, p, n);
	if (b->in.failed)
		say_goodbye(b, WS_INTERNAL, "out of memory");
}

static void program_ended(struct bridge *b)
{
	struct err err = { 0 };
	int code = guest_pty_exit_code(b->c->pty, &err);

	if (code < 0) {
		say_goodbye(b, WS_INTERNAL, "the session ended without a status");
		return;
	}
	hub_note_end(b->h, b->c->vm_id, b->c->session);
	if (say(b, json_pack("{s:s, s:i}", "type", "exited", "exitCode", code)) < 0)
		say_goodbye(b, WS_INTERNAL, "out of memory");
	else
		say_goodbye(b, WS_NORMAL, "exited");
}

/* Guest to client, while there is room. */
static int move_output(struct bridge *b)
{
	while (!b->closing && ws_queued(b->w) < OUT_MAX) {
		enum guest_pty_piece kind;
		struct err err = { 0 };
		const uint8_t *p;
		ssize_t n = guest_pty_read(b->c->pty, &kind, &p, &err);
		int r;

		if (n == -EAGAIN)
			return 0;
		if (n == -ENODATA) {
			program_ended(b);
			return 0;
		}
		if (n < 0) {
			say_goodbye(b, WS_GOING_AWAY, "the connection to the VM ended");
			return 0;
		}
		r = kind == GUEST_PTY_OUTPUT
		            ? ws_binary(b->w, p, (size_t)n)
		            : ws_part(b->w, p, (size_t)n, kind == GUEST_PTY_PICTURED);
		if (r < 0)
			return r;
		r = ws_move(b->w, /* want_read= */ false);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Client to guest, as much as it accepts. */
static void move_input(struct bridge *b)
{
	while (!b->closing && b->in.len > b->in_off) {
		struct err err = { 0 };
		ssize_t k = guest_pty_write(b->c->pty, b->in.p + b->in_off, b->in.len - b->in_off,
		                            &err);

		if (k < 0)
			say_goodbye(b, WS_GOING_AWAY, "the connection to the VM ended");
		if (k <= 0)
			break;
		b->in_off += (size_t)k;
	}
	if (b->in_off == b->in.len || b->closing) {
		if (b->in.cap > IN_MAX)
			buf_done(&b->in);
		buf_reset(&b->in);
		b->in_off = 0;
	}
}

static void keep_alive(struct bridge *b, bool listening)
{
	uint64_t now = clock_ms();

	if (now < b->still_at || b->closing)
		return;
	b->still_at = now + STILL_MS;
	if (b->c->still && !b->c->still(b->c->ctx)) {
		say_goodbye(b, WS_POLICY, "your access was revoked");
		return;
	}
	if (now < b->ping_at)
		return;
	b->ping_at = now + PING_MS;
	if (listening && now - ws_heard_ms(b->w) > DEAD_MS)
		b->leave_by = now; /* the client is gone: no close frame */
	else
		ws_ping(b->w);
}

static void talk(struct bridge *b, int fd, int wake)
{
	for (;;) {
		bool listening = b->in.len - b->in_off < IN_MAX;
		struct pollfd p[3] = { { .fd = fd },
			               { .fd = -1, .events = POLLIN },
			               { .fd = wake, .events = POLLIN } };
		uint64_t until;

		if (move_output(b) < 0)
			return;
		move_input(b);
		if (ws_move(b->w, listening) < 0)
			return;
		move_input(b);
		listening = b->in.len - b->in_off < IN_MAX;
		keep_alive(b, listening);
		if (b->leave_by && clock_ms() >= b->leave_by)
			return;
		p[0].events = ws_events(b->w, listening);
		if (!b->closing && ws_queued(b->w) < OUT_MAX)
			p[1].fd = guest_pty_fd(b->c->pty);
		if (b->closing)
			p[2].fd = -1;
		until = b->leave_by ? b->leave_by : b->still_at;
		if (poll(p, ARRAY_SIZE(p), deadline_left(until)) < 0 && errno != EINTR)
			return;
		if (p[2].revents)
			say_goodbye(b, WS_GOING_AWAY, "the server is shutting down");
		if (p[0].revents & (POLLERR | POLLNVAL))
			return;
	}
}

static void tune(int fd)
{
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int));
	/* Limits unacknowledged bytes, even if it is only a ping. */
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &(unsigned){ DEAD_MS }, sizeof(unsigned));
}

void pty_serve(struct hub *h, struct pty_client *c, int fd, const void *early, size_t n_early)
{
	struct bridge b = { .h = h, .c = c, .ping_at = deadline_in(PING_MS) };
	autofd int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct seat seat = { .wake = wake };

	tune(fd);
	b.w = wake >= 0 ? ws_new(fd, early, n_early, on_message, &b) : NULL;
	if (b.w && seat_take(h, &seat)) {
		if (say(&b, json_pack("{s:s, s:s}", "type", "sessionInfo", "sessionId",
		                      c->session)) == 0)
			talk(&b, fd, wake);
		seat_leave(h, &seat);
	}
	guest_pty_detach(TAKE_PTR(c->pty));
	ws_free(b.w);
	buf_done(&b.in);
}
