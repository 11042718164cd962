/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_pty.c - pando vm pty: a terminal in a VM on this terminal
 *
 * Theory of operation: the session lives in the VM; we are a window on it. Our terminal is set to
 * raw mode, bytes go both ways, and the window size is sent at the beginning and on each change.
 * When the connection is lost we attach again, a few times, and the server redraws the screen. This
 * does not wake a VM that was suspended in the meantime: we wait for a key. The terminal is
 * restored however the program ends.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/config.h"
#include "cli/exec.h"
#include "cli/pty.h"
#include "cli/resolve.h"
#include "cli/stream.h"
#include "cli/ws_client.h"

#define QUEUE_MAX (256u << 10) /* typed or pasted input not yet accepted */
#define RETRIES 6
#define RETRY_MS 500 /* doubles each time */

/* Leaves what full-screen programs turn on: alternate screen, mouse, paste, hidden cursor, colours.
 */
#define TIDY                                                                              \
	"\033[?1049l\033[?1000l\033[?1002l\033[?1003l\033[?1006l\033[?2004l\033[?1l\033>" \
	"\033[?25h\033[0m"
#define CLEAR "\033[H\033[2J"

struct pty {
	struct cli *c;
	const char *vm, *user;
	struct wsc *ws;
	struct pty_escape escape;
	char session[128]; /* percent-encoded by nature: [a-zA-Z0-9._-] */
	struct termios saved;
	bool raw, exited, detached, stdin_open, gone;
	int code, signals;
	uint8_t ahead[64]; /* typed while there was no connection */
	size_t n_ahead;
};

static void window(unsigned *cols, unsigned *rows)
{
	struct winsize w = { 0 };

	*cols = 80;
	*rows = 24;
	if ((ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 ||
	     ioctl(STDIN_FILENO, TIOCGWINSZ, &w) == 0) &&
	    w.ws_col && w.ws_row) {
		*cols = MIN(w.ws_col, 1000);
		*rows = MIN(w.ws_row, 200);
	}
}

static void note(const struct pty *p, const char *text)
{
	fprintf(stderr, "%s[pando: %s]%s", p->raw ? "\r\n" : "", text, p->raw ? "\r\n" : "\n");
}

static void go_raw(struct pty *p)
{
	struct termios t;

	if (p->raw || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &p->saved) < 0)
		return;
	t = p->saved;
	cfmakeraw(&t);
	p->raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &t) == 0;
}

static void go_back(struct pty *p)
{
	if (!p->raw)
		return;
	if (isatty(STDOUT_FILENO) && (p->detached || !p->exited))
		exec_write(STDOUT_FILENO, TIDY, sizeof(TIDY) - 1);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &p->saved);
	p->raw = false;
}

static void on_message(void *ctx, bool text, const uint8_t *bytes, size_t n)
{
	struct pty *p = ctx;
	autojson json_t *j = NULL;
	const char *type;

	if (!text) {
		p->gone |= !exec_write(STDOUT_FILENO, bytes, n);
		return;
	}
	j = json_loadb((const char *)bytes, n, 0, NULL);
	type = cli_str(j, "type");
	if (strcmp(type, "sessionInfo") == 0)
		snprintf(p->session, sizeof(p->session), "%s", cli_str(j, "sessionId"));
	if (strcmp(type, "exited") == 0) {
		p->exited = true;
		p->code = (int)json_integer_value(json_object_get(j, "exitCode"));
	}
}

static void send_json(struct pty *p, json_t *j_consume)
{
	autofree char *text = json_dumps(j_consume, JSON_COMPACT);

	json_decref(j_consume);
	if (text)
		wsc_send(p->ws, true, text, strlen(text));
}

static void tell_size(struct pty *p)
{
	unsigned cols, rows;

	window(&cols, &rows);
	send_json(p, json_pack("{s:s, s:i, s:i}", "type", "resize", "cols", (int)cols, "rows",
	                       (int)rows));
}

/* Handles typed input. */
static void take_keys(struct pty *p)
{
	uint8_t keys[4096];
	autobuf struct buf out = { 0 };
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	size_t at = 0;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		p->stdin_open = false;
		p->detached |= p->raw; /* the terminal is gone */
		return;
	}
	while (at < (size_t)n && !p->detached) {
		size_t used = 0;

		switch (pty_escape_feed(&p->escape, keys + at, (size_t)n - at, &out, &used)) {
		case PTY_DETACH:
			p->detached = true;
			break;
		case PTY_KILL:
			send_json(p,
			          json_pack("{s:s, s:s}", "type", "signal", "signal", "SIGKILL"));
			break;
		case PTY_HELP:
			note(p, "after the escape key: d detaches, k kills the session, the key "
			        "again sends it");
			break;
		case PTY_NOTHING:
			break;
		}
		at += used;
	}
	if (out.len)
		wsc_send(p->ws, false, out.p, out.len);
}

static void take_signals(struct pty *p)
{
	int sig;

	while ((sig = signals_take(p->signals))) {
		if (sig == SIGWINCH)
			tell_size(p);
		else if (sig == SIGINT)
			send_json(p, json_pack("{s:s, s:s}", "type", "signal", "signal", "SIGINT"));
		else
			p->detached = true;
	}
}

/* Runs until the session or the connection ends, or the user leaves. */
static void talk(struct pty *p)
{
	bool alive = wsc_run(p->ws);

	while (alive && !p->exited && !p->detached && !p->gone) {
		bool keys = p->stdin_open && wsc_queued(p->ws) < QUEUE_MAX;
		struct pollfd f[] = {
			{ .fd = wsc_fd(p->ws), .events = wsc_events(p->ws) },
			{ .fd = p->signals, .events = POLLIN },
			{ .fd = keys ? STDIN_FILENO : -1, .events = POLLIN },
		};

		if (poll(f, ARRAY_SIZE(f), -1) < 0 && errno != EINTR)
			return;
		if (f[1].revents)
			take_signals(p);
		if (f[2].revents)
			take_keys(p);
		alive = wsc_run(p->ws);
	}
}

static char *attach_path(struct pty *p)
{
	unsigned cols, rows;
	char *path = cli_path(p->c, "/v1/vms/%s/pty/sessions/%s", p->vm, p->session);
	char n[16];

	window(&cols, &rows);
	snprintf(n, sizeof(n), "%u", cols);
	cli_query(p->c, &path, "cols", n);
	snprintf(n, sizeof(n), "%u", rows);
	cli_query(p->c, &path, "rows", n);
	return path;
}

/*
 * Waits for a key or ms; false if the user wants to leave: by a signal, Ctrl-C, Ctrl-D or the
 * escape key. Other input is kept for the session, the key that wakes it too.
 */
static bool wait_key(struct pty *p, int ms, bool *ret_key)
{
	struct pollfd f[] = {
		{ .fd = p->signals, .events = POLLIN },
		{ .fd = p->raw ? STDIN_FILENO : -1, .events = POLLIN },
	};
	uint8_t keys[sizeof(p->ahead)];
	size_t keep;
	ssize_t n;

	*ret_key = false;
	if (poll(f, ARRAY_SIZE(f), ms) <= 0)
		return true;
	for (int sig; f[0].revents && (sig = signals_take(p->signals));)
		if (sig != SIGWINCH)
			return false;
	if (!f[1].revents)
		return true;
	n = read(STDIN_FILENO, keys, sizeof(keys));
	if (n <= 0 || keys[0] == 3 || keys[0] == 4 || keys[0] == p->escape.key)
		return false;
	*ret_key = true;
	keep = MIN((size_t)n, sizeof(p->ahead) - p->n_ahead);
	memcpy(p->ahead + p->n_ahead, keys, keep);
	p->n_ahead += keep;
	return true;
}

/* A sleeping VM stays asleep until it is needed. */
static bool sleeps(struct pty *p)
{
	autofree char *path = cli_path(p->c, "/v1/vms/%s", p->vm);
	autojson json_t *reply = NULL;
	const char *state;

	if (cli_try(p->c, NULL, "GET", path, NULL, &reply, NULL) != 200)
		return false;
	state = cli_str(reply, "state");
	return strcmp(state, "suspended") == 0 || strcmp(state, "suspending") == 0;
}

/* Restores the terminal before the last message. */
static int lost(struct pty *p, const char *why)
{
	go_back(p);
	return cli_fail(CLI_REFUSED, "the terminal's connection was lost, and %s", why);
}

/* CLI_OK when attached again. */
static int reconnect(struct pty *p)
{
	bool key, slept = false;
	int ms = RETRY_MS;

	wsc_free(p->ws);
	p->ws = NULL;
	while (p->raw && sleeps(p)) {
		if (!slept)
			note(p, "the VM is suspended; type to wake it, Ctrl-C to leave");
		slept = true;
		if (!wait_key(p, 60000, &key))
			return -1;
		if (key)
			break;
	}
	for (int i = 0; i < RETRIES; i++, ms *= 2) {
		autofree char *path = attach_path(p);
		long http = 0;

		if (wsc_open(p->c, p->user, path, on_message, p, /* quiet= */ true, &p->ws,
		             &http) == CLI_OK) {
			if (p->raw)
				exec_write(STDOUT_FILENO, TIDY CLEAR, sizeof(TIDY CLEAR) - 1);
			if (p->n_ahead)
				wsc_send(p->ws, false, p->ahead, p->n_ahead);
			p->n_ahead = 0;
			return CLI_OK;
		}
		if (http == 404 || http == 410)
			return lost(p, "the session or the VM has ended meanwhile");
		if (http == 401 || http == 403)
			return lost(p, "the key no longer has permission");
		if (i == 0)
			note(p, "the connection was lost; trying again");
		if (!wait_key(p, ms, &key))
			return -1;
	}
	go_back(p);
	return cli_fail(CLI_UNREACHABLE,
	                "the terminal's connection was lost and could not be restored");
}

static int run_session(struct pty *p, const char *path)
{
	long http;
	int r = wsc_open(p->c, p->user, path, on_message, p, /* quiet= */ false, &p->ws, &http);

	if (r != CLI_OK)
		return r;
	p->stdin_open = true;
	p->signals = signals_open();
	go_raw(p);
	tell_size(p);
	for (;;) {
		talk(p);
		if (p->exited || p->detached || p->gone)
			break;
		r = reconnect(p);
		if (r == -1) {
			p->detached = true;
			break;
		}
		if (r != CLI_OK)
			break;
	}
	if (p->ws && p->detached)
		wsc_close(p->ws);
	go_back(p);
	signals_close(p->signals);
	wsc_free(p->ws);
	if (p->exited)
		return p->code;
	if (p->gone)
		return 128 + SIGPIPE;
	if (p->detached) {
		fprintf(stderr,
		        "\n[pando: detached; come back with 'pando vm pty %s --attach %s']\n",
		        p->vm, p->session);
		return CLI_OK;
	}
	return r;
}

enum { O_ATTACH, O_SESSION, O_LIST, O_CLOSE, O_USER, O_ESCAPE };

static int list_sessions(struct cli *c, const char *id, const char *user)
{
	static const struct cli_col cols[] = {
		{ "SESSION", "sessionId" },
		{ "RUNNING", "running" },
		{ "SUSPENDED", "suspended" },
		{ "EXIT", "exitCode" },
		{ "COLS", "cols" },
		{ "ROWS", "rows" },
		{ "CLIENTS", "attachedCount" },
		{ "USER", "user" },
		{ "COMMAND", "exec" },
	};
	autofree char *path = cli_path(c, "/v1/vms/%s/pty/sessions", id);
	autojson json_t *reply = NULL;
	int r = cli_call_as(c, user, "GET", path, NULL, &reply);

	if (r == CLI_OK)
		cli_table(c, reply, json_object_get(reply, "sessions"), cols, ARRAY_SIZE(cols));
	return r;
}

static int close_session(struct cli *c, const char *id, const char *user, const char *session)
{
	autofree char *path = cli_path(c, "/v1/vms/%s/pty/sessions/%s", id, session);
	autojson json_t *reply = NULL;
	int r = cli_call_as(c, user, "DELETE", path, NULL, &reply);

	if (r == CLI_OK)
		cli_say(c, reply, "closed");
	return r;
}

static int escape_key(const char *given, int *ret)
{
	struct err *none = NULL;
	struct config cf;
	const char *s = given;

	if (!s && config_load(&cf, none) == 0 && cf.value[CONFIG_ESCAPE][0])
		s = cf.value[CONFIG_ESCAPE];
	if (pty_escape_parse(s ? s : "ctrl-]", ret) < 0)
		return cli_fail(CLI_USAGE,
		                "the escape key must be like 'ctrl-]', or 'none', not '%s'", s);
	return CLI_OK;
}

static int pty(struct cli *c, const struct cli_args *a)
{
	autofree char *id = cli_vm_id(c, a->arg[0]), *path = NULL, *command = NULL;
	struct pty p = { .c = c, .vm = id, .user = a->opt[O_USER], .signals = -1 };
	unsigned cols, rows;
	char n[16];
	int r;

	if (!id)
		return CLI_REFUSED;
	if (a->opt[O_LIST])
		return list_sessions(c, id, p.user);
	if (a->opt[O_CLOSE])
		return close_session(c, id, p.user, a->opt[O_CLOSE]);
	if ((r = escape_key(a->opt[O_ESCAPE], &p.escape.key)) != CLI_OK)
		return r;
	if (a->opt[O_ATTACH]) {
		snprintf(p.session, sizeof(p.session), "%s", a->opt[O_ATTACH]);
		path = attach_path(&p);
		return run_session(&p, path);
	}
	path = cli_path(c, "/v1/vms/%s/pty", id);
	window(&cols, &rows);
	snprintf(n, sizeof(n), "%u", cols);
	cli_query(c, &path, "cols", n);
	snprintf(n, sizeof(n), "%u", rows);
	cli_query(c, &path, "rows", n);
	cli_query(c, &path, "sessionId", a->opt[O_SESSION]);
	if (a->n_rest) {
		command = exec_command(a->rest, a->n_rest);
		cli_query(c, &path, "exec", command);
	}
	return run_session(&p, path);
}

/* clang-format off */
static const struct cli_verb verbs[] = {
	{ "pty", "VM [COMMAND]...", "open a terminal in the VM: a shell, or a command", pty,
	  { { "attach", "SESSION", "attach to a session", 'a' },
	    { "session", "NAME", "open a session with this name", 's' },
	    { "list", NULL, "list the sessions", 'l' },
	    { "close", "SESSION", "kill a session" },
	    { "user", "USER", "as this Linux user (root)", 'u' },
	    { "escape", "KEY", "the escape key, like ctrl-] (default), or none" } },
	  CLI_STOP,
	  "The session lives in the VM with its screen: it survives this program, suspend and "
	           "resume, and forks copy it. Ctrl-] d detaches, Ctrl-] k kills the session, Ctrl-] ? "
	           "shows this, Ctrl-] Ctrl-] types the key. A lost connection is restored. A suspended "
	           "VM stays suspended until a key is typed, which reaches the session. Exits with the status of the session's "
	           "program.",
	  "pando vm pty web # a shell\n"
	  "pando vm pty web -s work htop # a named session\n"
	  "pando vm pty web -a work # back to it, from anywhere" },
};
/* clang-format on */
const struct cli_noun cli_vm_pty = { "vm", NULL, verbs, ARRAY_SIZE(verbs) };
