/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_stream.c - POST /v1/vms/{vm_id}/exec: a command whose output is sent while it runs
 *
 * Theory of operation: the command is started -> `started` -> its output as it comes,
 * its stdin as it takes it -> `exit`. Attached, it ends with its client: closing the
 * flow kills its session. Detached, it lives in the guest and the stream only
 * follows it; a client that wants JSON gets its number and no stream. What goes wrong
 * before it runs is an ordinary error; afterwards it is an `error` event.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest.h"

#define TIMEOUT_MAX 86400000    /* ms: a day */
#define COMMAND_MAX (128 << 10) /* bytes: what a shell takes as one argument */
#define STDIN_MAX (16 << 20)    /* bytes of JSON text */
#define STDIN_MS 60000          /* for the guest to accept a detached command's stdin */

struct run_body {
	const char *command, *cwd, *stdin_text, *stdin_encoding;
	json_t *env;
	bool detach, open_stdin;
	int64_t timeout_ms;
};
static const struct json_field run_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, run_body, command, "command", JSON_REQUIRED, 0, COMMAND_MAX),
	JSON_FIELD(JSON_WANT_STRREF, run_body, stdin_text, "stdin", JSON_NULLABLE, 0, STDIN_MAX),
	JSON_FIELD(JSON_WANT_STRREF, run_body, stdin_encoding, "stdinEncoding", JSON_NULLABLE, 0,
	           16, "'utf-8' | 'base64'"),
	JSON_FIELD(JSON_WANT_OBJECT, run_body, env, "env", JSON_NULLABLE, 0, 0, "{*: string}"),
	JSON_FIELD(JSON_WANT_STRREF, run_body, cwd, "cwd", JSON_NULLABLE, 0, PATH_MAX - 1),
	JSON_FIELD(JSON_WANT_BOOL, run_body, detach, "detach", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_BOOL, run_body, open_stdin, "openStdin", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_I64, run_body, timeout_ms, "timeoutMs", JSON_NULLABLE, 1, TIMEOUT_MAX),
};
JSON_TABLE(ExecStream, run_fields);

/* A command and everything that is needed while it runs. */
struct run {
	struct guest_flow *f; /* owned */
	struct sse sse;
	struct sse_text text[3];
	uint8_t *in; /* owned; its stdin */
	size_t in_len, in_off;
	bool in_done, ended;
	uint64_t start_ms;
};

static void run_free(void *ctx)
{
	struct run *x = ctx;

	if (!x)
		return;
	guest_flow_close(x->f);
	buf_done(&x->sse.out);
	free(x->in);
	free(x);
}

static void run_freep(struct run **x)
{
	run_free(*x);
}

static int feed(struct run *x, struct err *err)
{
	while (!x->in_done && x->in_off < x->in_len) {
		ssize_t k = guest_flow_feed(x->f, x->in + x->in_off, x->in_len - x->in_off, err);

		if (k <= 0)
			return (int)k;
		x->in_off += (size_t)k;
	}
	if (x->in_done)
		return 0;
	x->in_done = true;
	return guest_flow_feed_eof(x->f, err);
}

static const char *const chan_names[] = { "stdin", "stdout", "stderr" };

/* The last events. */
static void finish(struct run *x, struct err *err)
{
	struct guest_exec_result m;
	json_t *j;

	x->ended = true;
	for (int i = 1; i <= 2; i++)
		sse_output(&x->sse, &x->text[i], chan_names[i], NULL, 0, -1, /* last= */ true);
	if (err->code < 0 || guest_run_result(x->f, &m, err) < 0) {
		guest_call_error(err->code, err);
		sse_failed(&x->sse, err);
		return;
	}
	j = json_pack("{s:i, s:I}", "statusCode", m.exit_code, "durationMs",
	              (json_int_t)(clock_ms() - x->start_ms));
	if (m.signal)
		json_object_set_new(j, "signal", shape_signal(m.signal));
	if (m.timed_out)
		json_object_set_new(j, "timedOut", json_true());
	sse_event(&x->sse, "exit", j);
}

static ssize_t run_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct run *x = ctx;

	for (;;) {
		uint8_t piece[SSE_PIECE];
		ssize_t k = sse_drain(&x->sse, p, max);
		int chan = 1;

		if (k)
			return k < 0 ? err_set(err, (int)k, "out of memory") : k;
		if (x->ended)
			return -ENODATA;
		feed(x, NULL); /* the next read reports errors of the channel */
		k = guest_flow_read(x->f, &chan, piece, sizeof(piece), err);
		if (k == 0)
			return 0;
		if (k < 0)
			finish(x, err);
		else
			sse_output(&x->sse, &x->text[chan], chan_names[chan], piece, (size_t)k, -1,
			           /* last= */ false);
	}
}

static int run_fd(void *ctx)
{
	return guest_flow_fd(((struct run *)ctx)->f);
}

static const struct outflow_ops run_ops = {
	.next = run_next, .fd = run_fd, .free = run_free, .beat = ": \n\n", .endless = true
};

static int bad(struct err *err, const char *what)
{
	return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "%s", what);
}

static int decode_stdin(const struct run_body *b, struct run *x, struct err *err)
{
	size_t n = b->stdin_text ? strlen(b->stdin_text) : 0;
	bool base64 = b->stdin_encoding && strcmp(b->stdin_encoding, "base64") == 0;

	if (b->stdin_encoding && !base64 && strcmp(b->stdin_encoding, "utf8") != 0)
		return bad(err, "'stdinEncoding' must be utf8 or base64");
	if (!b->stdin_text)
		return 0;
	if (base64)
		return parse_base64(b->stdin_text, n, "stdin", &x->in, &x->in_len, err);
	x->in = malloc(n + 1);
	if (!x->in)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(x->in, b->stdin_text, n);
	x->in_len = n;
	return 0;
}

static json_t *shape_started(const struct guest_started *s)
{
	char id[24];

	snprintf(id, sizeof(id), "proc-%u", s->proc);
	return json_pack("{s:s, s:I}", "processId", id, "pid", (json_int_t)s->pid);
}

static bool wants_json(struct request *req)
{
	const char *a = request_header(req, "Accept");

	return a && strstr(a, "application/json") && !strstr(a, "text/event-stream");
}

static int start_detached(struct request *req, struct reply *res, struct guest *g,
                          const struct guest_exec_req *q, const struct run_body *b, struct run *x,
                          struct err *err)
{
	struct guest_flow *f = NULL;
	struct guest_started s;
	int r = guest_start(g, q, x->in || b->open_stdin, &s, err);
	bool started = r == 0;

	if (r == 0 && x->in) {
		r = guest_proc_stdin(g, s.proc, !b->open_stdin, &f, err);
		if (r == 0)
			r = guest_flow_write(f, x->in, x->in_len, deadline_in(STDIN_MS), err);
		if (r == 0 || r == -ENODATA)
			r = guest_flow_finish(f, deadline_in(STDIN_MS), err);
		guest_flow_close(TAKE_PTR(f));
		if (r == -EPIPE)
			r = 0; /* it does not read its stdin: the same as with a pipe */
	}
	if (r < 0 && started)
		guest_proc_signal(g, s.proc, SIGKILL, NULL); /* nobody would know about it */
	if (r < 0)
		return process_error(r, err);
	if (wants_json(req))
		return reply_json(res, shape_started(&s), err);
	r = guest_output(g, s.proc, /* stdout and stderr */ 6, 0, /* follow= */ true, &f, err);
	return r < 0 ? process_error(r, err) : reply_follow(req, res, f, shape_started(&s), err);
}

static int run_attached(struct request *req, struct reply *res, struct guest *g,
                        const struct guest_exec_req *q, struct run *x_consume, struct err *err)
{
	AUTO(run_freep) struct run *x = x_consume;
	struct guest_started s;
	int r;

	x->start_ms = clock_ms();
	r = guest_run(g, q, x->in != NULL, &x->f, &s, err);
	if (r < 0)
		return process_error(r, err);
	x->in_done = !x->in;
	sse_event(&x->sse, "started", shape_started(&s));
	return reply_flow(req, res, &run_ops, TAKE_PTR(x), OUTFLOW_UNKNOWN, "text/event-stream",
	                  err);
}

int api_vm_exec_stream(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(run_freep) struct run *x = calloc(1, sizeof(*x));
	AUTO(env_list_done) struct env_list env = { 0 };
	struct run_body b = { 0 };
	struct guest_exec_req q = { .env = (const char *const *)env.v };
	struct vm_info v;
	const char *id;
	int r;

	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &q.user, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, run_fields, ARRAY_SIZE(run_fields), &b,
	                        err)) < 0 ||
	    (r = decode_stdin(&b, x, err)) < 0 ||
	    (r = parse_env(b.env, ENV_LIST_MAX, &env, err)) < 0)
		return r;
	if (b.open_stdin && !b.detach)
		return bad(err, "'openStdin' needs 'detach'");
	if (b.cwd && b.cwd[0] != '/')
		return bad(err, "'cwd' must be an absolute path");
	q.command = b.command;
	q.timeout_ms = (unsigned)b.timeout_ms;
	if ((r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	q.cwd = b.cwd ? b.cwd : *v.workdir ? v.workdir : NULL;
	if (b.detach)
		return start_detached(req, res, g, &q, &b, x, err);
	return run_attached(req, res, g, &q, TAKE_PTR(x), err);
}
