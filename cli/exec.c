/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - runs a command in a VM as if it ran here
 *
 * Events of POST .../exec become our output. Attached, the command ends with us. When our stdin
 * continues while it runs, it is started detached, because only such a process has a stdin that can
 * be written to later; then we end it when we are asked to exit, and remove it from the process
 * list afterwards. The first Ctrl-C goes to the command, the second ends us.
 */
#include "cli/exec.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/utf8.h"
#include "cli/exec_internal.h"
#include "cli/stream.h"

struct run {
	struct cli *c;
	const struct exec_opts *o;
	struct exec_stdin *in; /* not emptied while a thread reads it */
	char *process;         /* owned; the path of the process, once it has started */
	bool detached;
	int signals;
	int status;              /* of the command, -1: not yet */
	long long next[3], lost; /* offsets of the outputs; bytes the guest no longer had */
	json_t *result;          /* owned; --json */
	struct buf out, err;
};

bool exec_write(int fd, const void *p, size_t n)
{
	return io_write_all(fd, p, n) == 0;
}

/* Does it contain no character that is special to a shell? */
static bool is_plain(const char *s)
{
	return *s && s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	                         "_-./:=@%+,")] == '\0';
}

char *exec_command(const char *const *words, size_t n)
{
	struct buf b = { 0 };
	char *s;

	if (n == 1)
		buf_put(&b, words[0], strlen(words[0]));
	for (size_t i = 0; n > 1 && i < n; i++) {
		if (i)
			buf_put(&b, " ", 1);
		if (is_plain(words[i])) {
			buf_put(&b, words[i], strlen(words[i]));
			continue;
		}
		buf_put(&b, "'", 1);
		for (const char *p = words[i]; *p; p++) {
			if (*p == '\'')
				buf_put(&b, "'\\''", 4);
			else
				buf_put(&b, p, 1);
		}
		buf_put(&b, "'", 1);
	}
	s = buf_take_str(&b);
	if (!s)
		cli_oom();
	return s;
}

json_t *exec_env(const struct cli_list *env)
{
	autojson json_t *j = json_object();

	for (size_t i = 0; env && i < env->n; i++) {
		const char *eq = strchr(env->v[i], '=');
		autofree char *name = strndup(env->v[i], strcspn(env->v[i], "="));
		const char *value = eq ? eq + 1 : name ? getenv(name) : NULL;

		if (!name)
			cli_oom();
		if (!*name || !value) {
			cli_fail(CLI_USAGE,
			         "--env must be NAME=value, or the name of a variable that is set "
			         "here, not '%s'",
			         env->v[i]);
			return NULL;
		}
		json_object_set_new(j, name, json_string(value));
	}
	return json_incref(j);
}

static int on_output(struct run *x, int fd, const json_t *data)
{
	const json_t *offset = json_object_get(data, "offset"); /* of detached processes */
	size_t n = 0;
	autofree unsigned char *p = sse_bytes(data, &n);

	if (!p)
		return cli_fail(CLI_UNREACHABLE, "the server sent malformed output");
	if (json_is_integer(offset)) {
		x->lost += MAX(json_integer_value(offset) - x->next[fd], 0);
		x->next[fd] = json_integer_value(offset) + (long long)n;
	}
	if (cli_json(x->c)) {
		buf_put(fd == STDOUT_FILENO ? &x->out : &x->err, p, n);
		return 0;
	}
	return exec_write(fd, p, n) ? 0 : 128 + SIGPIPE;
}

static int on_started(struct run *x, const json_t *data)
{
	const json_t *id = json_object_get(data, "processId");
	char text[64];

	if (json_is_integer(id))
		snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(id));
	else
		snprintf(text, sizeof(text), "%s", json_is_string(id) ? json_string_value(id) : "");
	free(x->process);
	x->process = cli_path(x->c, "/v1/vms/%s/processes/%s", x->o->vm, text);
	if (x->detached) {
		autofree char *path = NULL;

		if (asprintf(&path, "%s/stdin", x->process) < 0)
			cli_oom();
		if (exec_stdin_pump(x->in, x->c, x->o->user, path) < 0)
			return cli_fail(CLI_UNREACHABLE, "cannot start a thread for stdin");
	}
	return 0;
}

static int on_event(void *ctx, const char *event, const json_t *data)
{
	struct run *x = ctx;

	if (strcmp(event, "started") == 0)
		return on_started(x, data);
	if (strcmp(event, "stdout") == 0)
		return on_output(x, STDOUT_FILENO, data);
	if (strcmp(event, "stderr") == 0)
		return on_output(x, STDERR_FILENO, data);
	if (strcmp(event, "exit") == 0) {
		x->status = (int)json_integer_value(json_object_get(data, "statusCode"));
		x->result = json_incref((json_t *)data);
		if (json_is_true(json_object_get(data, "timedOut")) && !cli_json(x->c))
			cli_fail(0, "the command was ended: it timed out");
	}
	if (strcmp(event, "error") == 0)
		return cli_fail(CLI_REFUSED, "%s: %s", cli_str(data, "code"),
		                cli_str(data, "message"));
	return 0;
}

/* True if the command got it. */
static bool send_signal(struct run *x, const char *name)
{
	autofree char *path = NULL;

	if (!x->process)
		return false;
	if (asprintf(&path, "%s/signal", x->process) < 0)
		cli_oom();
	return cli_tell(x->c, x->o->user, path, json_pack("{s:s}", "signal", name)) == 200;
}

static int on_signal(void *ctx, int sig)
{
	struct sse_reader *r = ctx;
	struct run *x = r->ctx;

	if (sig == SIGINT && x->signals++ == 0 && send_signal(x, "INT"))
		return 0;
	if (x->detached)
		send_signal(x, "KILL");
	return 128 + sig;
}

static json_t *make_body(const struct run *x)
{
	const struct exec_opts *o = x->o;
	autojson json_t *body = json_pack("{s:s}", "command", o->command);
	json_t *env = exec_env(o->env);

	if (!env)
		return NULL;
	json_object_set_new(body, "env", env);
	if (o->cwd)
		json_object_set_new(body, "cwd", json_string(o->cwd));
	if (o->timeout_ms)
		json_object_set_new(body, "timeoutMs", json_integer(o->timeout_ms));
	if (x->in->given && x->in->whole && x->in->first.len) {
		autofree char *text = base64_encode(x->in->first.p, x->in->first.len);

		json_object_set_new(body, "stdin", json_string(text));
		json_object_set_new(body, "stdinEncoding", json_string("base64"));
	}
	if (x->detached) {
		json_object_set_new(body, "detach", json_true());
		json_object_set_new(body, "openStdin", json_true());
	}
	return json_incref(body);
}

json_t *cli_output_text(const struct buf *out)
{
	autobuf struct buf b = { 0 };

	utf8_put_clean(&b, out->p, out->len);
	if (b.failed)
		cli_oom();
	return json_stringn_nocheck(b.p ? (const char *)b.p : "", b.len);
}

static void show_json(struct run *x)
{
	autojson json_t *j = json_object();

	json_object_set_new(j, "stdout", cli_output_text(&x->out));
	json_object_set_new(j, "stderr", cli_output_text(&x->err));
	json_object_update(j, x->result);
	cli_dump(j);
}

static int finish(struct run *x, int r)
{
	autojson json_t *reply = NULL;

	if (x->detached && x->process && x->status >= 0)
		cli_try(x->c, x->o->user, "DELETE", x->process, NULL, &reply, NULL);
	if (r != CLI_OK)
		return r;
	if (x->status < 0)
		return cli_fail(CLI_UNREACHABLE, "the connection ended before the command did");
	if (x->lost)
		cli_fail(0,
		         "%lld bytes of output were lost: the command wrote faster than they were "
		         "read",
		         x->lost);
	if (cli_json(x->c))
		show_json(x);
	return x->status;
}

int cli_exec(struct cli *c, const struct exec_opts *o)
{
	static struct exec_stdin
	        state; /* its thread may still wait for our stdin when we are done */
	struct exec_stdin *in = &state;
	struct run x = { .c = c, .o = o, .in = in, .status = -1 };
	struct sse_reader sse = { .fn = on_event, .ctx = &x };
	struct cli_stream s = {
		.method = "POST",
		.user = o->user,
		.header = { "Accept: text/event-stream" },
		.data = sse_data,
		.signalled = on_signal,
		.ctx = &sse,
	};
	autofree char *path = cli_path(c, "/v1/vms/%s/exec", o->vm);
	autojson json_t *body = NULL;
	int r;

	exec_stdin_begin(in, o->no_stdin);
	x.detached = in->given && !in->whole;
	body = make_body(&x);
	s.path = path;
	s.body = body;
	r = body ? finish(&x, cli_stream(c, &s)) : CLI_USAGE;
	sse_done(&sse);
	json_decref(x.result);
	buf_done(&x.out);
	buf_done(&x.err);
	free(x.process);
	if (!x.detached)
		buf_done(&in->first);
	return r;
}
