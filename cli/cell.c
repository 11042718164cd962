/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cell.c - runs code in a kernel of a VM and shows its results
 *
 * Events of POST .../code as they arrive: output is printed, and of a result the best form that
 * fits a terminal is shown. Images that cannot be shown are saved, and their names printed. Ctrl-C
 * interrupts the cell and waits for its remaining output; a second Ctrl-C exits, which the server
 * also treats as an interrupt.
 */
#include "cli/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "cli/exec.h"
#include "cli/stream.h"

#define SAVES_MAX 100000

struct run {
	struct cli *c;
	const struct cell_opts *o;
	char context[64];
	int signals;
	bool ended, failed;
};

static const struct {
	const char *name, *language;
} names[] = {
	{ "python", "python" },
	{ "python3", "python" },
	{ "py", "python" },
	{ "javascript", "javascript" },
	{ "js", "javascript" },
	{ "mjs", "javascript" },
	{ "cjs", "javascript" },
	{ "node", "javascript" },
	{ "typescript", "typescript" },
	{ "ts", "typescript" },
	{ "mts", "typescript" },
	{ "bash", "bash" },
	{ "sh", "bash" },
	{ "ruby", "ruby" },
	{ "rb", "ruby" },
};

const char *cell_language(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(names[i].name, name) == 0)
			return names[i].language;
	return NULL;
}

const char *cell_language_of_file(const char *path)
{
	const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');

	return dot && (!slash || dot > slash) ? cell_language(dot + 1) : NULL;
}

/* Uses the next free name. */
static void save(const struct run *x, const char *extension, const void *p, size_t n)
{
	const char *dir = x->o->save_dir ? x->o->save_dir : ".";
	autofree char *path = NULL;
	autofd int fd = -1;

	for (int i = 1; fd < 0 && i < SAVES_MAX; i++) {
		free(path);
		if (asprintf(&path, "%s/pando-%d.%s", dir, i, extension) < 0)
			cli_oom();
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0 || io_write_all(fd, p, n) < 0)
		cli_fail(0, "cannot save an image in %s: %s", dir, strerror(errno));
	else
		printf("[saved as %s]\n", path);
}

static bool show_picture(const struct run *x, const json_t *result)
{
	static const struct {
		const char *mime, *extension;
	} kinds[] = { { "image/png", "png" }, { "image/jpeg", "jpg" }, { "image/gif", "gif" } };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const char *text = json_string_value(json_object_get(result, kinds[i].mime));
		size_t n = 0;
		autofree unsigned char *p = text ? base64_decode(text, &n) : NULL;

		if (!p)
			continue;
		if (i || image_put(stdout, x->o->images, p, n) < 0)
			save(x, kinds[i].extension, p, n);
		return true;
	}
	if (json_is_string(json_object_get(result, "image/svg+xml"))) {
		const char *text = cli_str(result, "image/svg+xml");

		save(x, "svg", text, strlen(text));
		return true;
	}
	return false;
}

static void show_result(const struct run *x, const json_t *result)
{
	static const char *const texts[] = { "text/plain", "text/markdown", "text/latex",
		                             "text/html" };
	const json_t *json = json_object_get(result, "application/json");

	if (show_picture(x, result))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const json_t *v = json_object_get(result, texts[i]);

		if (json_is_string(v)) {
			fwrite(json_string_value(v), 1, json_string_length(v), stdout);
			putchar('\n');
			return;
		}
	}
	if (json)
		cli_dump(json);
}

static void show_end(struct run *x, const json_t *data)
{
	const json_t *error = json_object_get(data, "error");
	const char *text = cli_str(error, "traceback");
	size_t i;
	json_t *file;

	x->ended = true;
	x->failed = json_is_object(error);
	if (x->failed && *text)
		fprintf(stderr, "%s\n", text);
	else if (x->failed)
		fprintf(stderr, "%s: %s\n", cli_str(error, "name"), cli_str(error, "value"));
	if (json_is_true(json_object_get(data, "timedOut")))
		cli_fail(0, "the cell was interrupted: it timed out");
	if (json_is_true(json_object_get(data, "kernelRestarted")))
		cli_fail(0, "the kernel was restarted: earlier variables are gone");
	json_array_foreach(json_object_get(data, "files"), i, file) if (x->o->files)
	        printf("[wrote %s]\n", cli_str(file, "path"));
}

static int on_event(void *ctx, const char *event, const json_t *data)
{
	struct run *x = ctx;
	bool out = strcmp(event, "stdout") == 0;

	if (strcmp(event, "started") == 0)
		snprintf(x->context, sizeof(x->context), "%s", cli_str(data, "contextId"));
	if (out || strcmp(event, "stderr") == 0) {
		size_t n = 0;
		autofree unsigned char *p = sse_bytes(data, &n);

		fflush(stdout);
		if (p && !exec_write(out ? STDOUT_FILENO : STDERR_FILENO, p, n))
			return 128 + SIGPIPE;
	}
	if (strcmp(event, "result") == 0)
		show_result(x, data);
	if (strcmp(event, "end") == 0)
		show_end(x, data);
	if (fflush(stdout) != 0)
		return 128 + SIGPIPE;
	if (strcmp(event, "error") == 0)
		return cli_fail(CLI_REFUSED, "%s: %s", cli_str(data, "code"),
		                cli_str(data, "message"));
	return 0;
}

static int on_signal(void *ctx, int sig)
{
	struct run *x = ((struct sse_reader *)ctx)->ctx;
	autofree char *path = NULL;

	if (sig != SIGINT || x->signals++ || !*x->context)
		return 128 + sig;
	path = cli_path(x->c, "/v1/vms/%s/code/contexts/%s/interrupt", x->o->vm, x->context);
	return cli_tell(x->c, x->o->user, path, NULL) == 200 ? 0 : 128 + sig;
}

static json_t *make_body(const struct cell_opts *o, const char *code, bool stream)
{
	json_t *body = json_pack("{s:s, s:b}", "code", code, "stream", stream);

	if (!body)
		return NULL; /* not UTF-8 */
	if (o->language)
		json_object_set_new(body, "language", json_string(o->language));
	if (o->context)
		json_object_set_new(body, "contextId", json_string(o->context));
	if (o->timeout_ms)
		json_object_set_new(body, "timeoutMs", json_integer(o->timeout_ms));
	return body;
}

int cell_run(struct cli *c, const struct cell_opts *o, const char *code)
{
	struct run x = { .c = c, .o = o };
	struct sse_reader sse = { .fn = on_event, .ctx = &x };
	autofree char *path = cli_path(c, "/v1/vms/%s/code", o->vm);
	autojson json_t *body = make_body(o, code, !cli_json(c)), *reply = NULL;
	struct cli_stream s = {
		.method = "POST",
		.path = path,
		.user = o->user,
		.body = body,
		.data = sse_data,
		.signalled = on_signal,
		.ctx = &sse,
	};
	int r;

	if (!body)
		return cli_fail(CLI_USAGE, "the code is not UTF-8");
	if (cli_json(c)) {
		r = cli_call_as(c, o->user, "POST", path, json_incref(body), &reply);
		if (r == CLI_OK)
			cli_dump(reply);
		return r == CLI_OK && json_is_object(json_object_get(reply, "error")) ? 1 : r;
	}
	r = cli_stream(c, &s);
	sse_done(&sse);
	if (r != CLI_OK)
		return r;
	if (!x.ended)
		return cli_fail(CLI_UNREACHABLE, "the connection ended before the cell did");
	return x.failed ? 1 : CLI_OK;
}
