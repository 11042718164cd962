/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cell.c - turns a cell of the code interpreter into JSON: its output, its results and how it
 * ended
 *
 * Theory of operation: events come from the guest one at a time. Collected, they become one object
 * at the end; streamed, each becomes an event for the client as soon as it is complete. Nothing
 * here trusts the guest: its output is bounded, results must be JSON objects, and how it
 * may end is a fixed list.
 */
#include "api/vms/cell.h"
#include "api/vms/shared.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/utf8.h"

#define OUTPUT_MAX (AGENT_CODE_OUTPUT_MAX + 4096u) /* bytes; the agent truncates before that */
#define RESULT_BYTES (24u << 20)                   /* of one result as JSON */
#define RESULTS_BYTES (32u << 20)                  /* of all results of one cell */
#define RESULTS_MAX 300u                           /* results of one cell */
#define FILES_MAX 512u                             /* files of one cell */

static const char *const chan_names[] = { "", "stdout", "stderr" };

struct cell *cell_new(bool streamed, unsigned timeout_ms)
{
	struct cell *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->streamed = streamed;
	x->timeout_ms = timeout_ms;
	x->deadline = deadline_in(GUEST_CODE_WAIT_MS);
	x->results = json_array();
	x->files = json_array();
	if (!x->results || !x->files) {
		cell_free(x);
		return NULL;
	}
	return x;
}

void cell_free(void *ctx)
{
	struct cell *x = ctx;

	if (!x)
		return;
	guest_flow_close(x->f);
	if (x->on_free)
		x->on_free(x->on_free_arg);
	buf_done(&x->sse.out);
	buf_done(&x->piece);
	buf_done(&x->out[1]);
	buf_done(&x->out[2]);
	json_decref(x->results);
	json_decref(x->files);
	json_decref(x->error);
	free(x);
}

void cell_context_id(uint32_t context, char ret[CONTEXT_ID_SIZE])
{
	snprintf(ret, CONTEXT_ID_SIZE, "ctx-%u", context);
}

/* ---- files ---- */

const char *mime_of_path(const char *path)
{
	static const struct {
		const char *ext, *mime;
	} known[] = {
		{ "csv", "text/csv" },
		{ "css", "text/css" },
		{ "gif", "image/gif" },
		{ "gz", "application/gzip" },
		{ "html", "text/html" },
		{ "htm", "text/html" },
		{ "ipynb", "application/x-ipynb+json" },
		{ "jpeg", "image/jpeg" },
		{ "jpg", "image/jpeg" },
		{ "js", "text/javascript" },
		{ "json", "application/json" },
		{ "log", "text/plain" },
		{ "md", "text/markdown" },
		{ "mjs", "text/javascript" },
		{ "mp3", "audio/mpeg" },
		{ "mp4", "video/mp4" },
		{ "parquet", "application/vnd.apache.parquet" },
		{ "pdf", "application/pdf" },
		{ "png", "image/png" },
		{ "py", "text/x-python" },
		{ "sh", "application/x-sh" },
		{ "svg", "image/svg+xml" },
		{ "tar", "application/x-tar" },
		{ "tex", "text/x-tex" },
		{ "ts", "text/x-typescript" },
		{ "tsv", "text/tab-separated-values" },
		{ "txt", "text/plain" },
		{ "wav", "audio/wav" },
		{ "webp", "image/webp" },
		{ "xml", "application/xml" },
		{ "yaml", "application/yaml" },
		{ "yml", "application/yaml" },
		{ "zip", "application/zip" },
		{ "docx",
		  "application/vnd.openxmlformats-officedocument.wordprocessingml.document" },
		{ "pptx",
		  "application/vnd.openxmlformats-officedocument.presentationml.presentation" },
		{ "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
	};
	const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');

	for (size_t i = 0; dot && i < ARRAY_SIZE(known); i++)
		if (!strcasecmp(dot + 1, known[i].ext))
			return known[i].mime;
	return "application/octet-stream";
}

static void add_file(struct cell *x, const uint8_t *p, size_t n)
{
	struct rd c = rd_of(p, n);
	uint64_t size;
	char path[PATH_MAX];
	json_t *j;

	if (rd_u64(&c, &size) < 0 || !c.left || c.left >= sizeof(path) || memchr(c.p, 0, c.left) ||
	    size > INT64_MAX || json_array_size(x->files) >= FILES_MAX)
		return;
	snprintf(path, sizeof(path), "%.*s", (int)c.left, (const char *)c.p);
	j = json_pack("{s:o, s:I, s:s}", "path", shape_output(path, strlen(path)), "size",
	              (json_int_t)size, "mime", mime_of_path(path));
	if (x->streamed)
		sse_event(&x->sse, "file", json_incref(j));
	json_array_append_new(x->files, j);
}

/* ---- output, results, errors ---- */

static void add_output(struct cell *x, int chan, const uint8_t *p, size_t n)
{
	size_t room = OUTPUT_MAX - MIN((size_t)OUTPUT_MAX, x->taken[chan]);

	n = MIN(n, room);
	x->taken[chan] += n;
	if (!x->streamed) {
		buf_put(&x->out[chan], p, n);
		return;
	}
	while (n) {
		size_t k = MIN(n, (size_t)SSE_PIECE);

		sse_output(&x->sse, &x->text[chan], chan_names[chan], p, k, -1, /* last= */ false);
		p += k;
		n -= k;
	}
}

static json_t *left_out(const char *why, size_t n)
{
	char text[128];

	snprintf(text, sizeof(text), "[result left out: %s %zu bytes]", why, n);
	return json_pack("{s:s}", "text/plain", text);
}

static void add_result(struct cell *x, json_t *j_consume)
{
	if (x->streamed) {
		sse_event(&x->sse, "result", j_consume);
		return;
	}
	json_array_append_new(x->results, j_consume);
}

/* NULL: not JSON, or with more values than anything that is shown has. */
static json_t *load_piece(const struct cell *x)
{
	size_t values;

	if (json_text_check(x->piece.p, x->piece.len, VALUES_MANY, &values, NULL) < 0)
		return NULL;
	return json_loadb((char *)x->piece.p, x->piece.len, JSON_ALLOW_NUL, NULL);
}

static void result_whole(struct cell *x)
{
	json_t *j = NULL;

	x->results_bytes += x->piece.len;
	if (++x->n_results > RESULTS_MAX)
		return;
	if (x->piece_lost || x->results_bytes > RESULTS_BYTES)
		j = left_out("the cell showed more than", RESULTS_BYTES);
	else
		j = load_piece(x);
	if (!json_is_object(j)) {
		json_decref(j);
		j = left_out("no JSON object is in its", x->piece.len);
	}
	add_result(x, j);
}

static void error_whole(struct cell *x)
{
	json_t *j = load_piece(x);
	const char *name, *value, *trace;

	if (j && json_unpack(j, "{s:s, s:s, s:s}", "name", &name, "value", &value, "traceback",
	                     &trace) == 0) {
		json_decref(x->error);
		x->error = json_pack("{s:s, s:s, s:s}", "name", name, "value", value, "traceback",
		                     trace);
	}
	json_decref(j);
}

/* A result or an error may come in pieces. */
static void add_piece(struct cell *x, const struct agent_code_event *e)
{
	if (x->piece_kind != e->kind) {
		buf_reset(&x->piece);
		x->piece_kind = e->kind;
		x->piece_lost = false;
	}
	if (x->piece.len + e->len > RESULT_BYTES)
		x->piece_lost = true;
	else
		buf_put(&x->piece, e->p, e->len);
	if (e->more)
		return;
	if (e->kind == AGENT_CODE_RESULT)
		result_whole(x);
	else if (!x->piece_lost)
		error_whole(x);
	x->piece_kind = 0;
	if (x->piece.cap > (1u << 20))
		buf_done(&x->piece);
	buf_reset(&x->piece);
}

static void take(struct cell *x, const struct agent_code_event *e)
{
	switch (e->kind) {
	case AGENT_CODE_STDOUT:
	case AGENT_CODE_STDERR:
		add_output(x, e->kind == AGENT_CODE_STDOUT ? 1 : 2, e->p, e->len);
		break;
	case AGENT_CODE_RESULT:
	case AGENT_CODE_ERROR:
		add_piece(x, e);
		break;
	case AGENT_CODE_FILE:
		add_file(x, e->p, e->len);
		break;
	case AGENT_CODE_STARTED:
		if (x->started || e->len != 4)
			break;
		x->started = true;
		x->deadline = x->timeout_ms ? deadline_in(x->timeout_ms + GUEST_CODE_OVER_MS)
		                            : UINT64_MAX;
		if (x->streamed) {
			char id[CONTEXT_ID_SIZE];

			cell_context_id(get_be32(e->p), id);
			sse_event(&x->sse, "started", json_pack("{s:s}", "contextId", id));
		}
		break;
	default:
		break;
	}
}

/* ---- the end ---- */

static void set_error(struct cell *x, const char *name, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static void set_error(struct cell *x, const char *name, const char *fmt, ...)
{
	char value[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	json_decref(x->error);
	x->error = json_pack("{s:s, s:s, s:s}", "name", name, "value", value, "traceback", value);
}

#define GONE "a new one was started, variables are gone"

static void explain_end(struct cell *x, const struct agent_code_result *m)
{
	const char *sig = m->signal ? sigabbrev_np((int)m->signal) : NULL;

	switch (m->how) {
	case AGENT_CODE_END_TIMED_OUT:
		if (!x->error)
			set_error(x, "TimeoutError",
			          "the cell was interrupted after its timeout of %u ms",
			          x->timeout_ms);
		break;
	case AGENT_CODE_END_KILLED:
		set_error(x, "KernelKilled",
		          "the cell continued after the interrupt at its timeout of %u ms; its "
		          "kernel "
		          "was killed, " GONE,
		          x->timeout_ms);
		break;
	case AGENT_CODE_END_DIED:
		if (m->signal)
			set_error(x, "KernelDied", "the kernel was ended by SIG%s; " GONE,
			          sig ? sig : "?");
		else
			set_error(x, "KernelDied", "the kernel ended with exit code %u; " GONE,
			          m->exit_code);
		break;
	case AGENT_CODE_END_OOM:
		set_error(x, "OutOfMemory",
		          "the machine ran out of memory and the kernel was ended; " GONE);
		break;
	case AGENT_CODE_END_BROKEN:
		set_error(x, "KernelDied",
		          "the cell closed or damaged the kernel's own channel; " GONE);
		break;
	case AGENT_CODE_END_RESTARTED:
		set_error(x, "KernelRestarted", "the context was restarted or deleted meanwhile");
		break;
	case AGENT_CODE_END_NO_START:
		set_error(x, "KernelNotStarted",
		          "no kernel for %s could be started in this VM; stderr may say why",
		          agent_language_name(m->language));
		break;
	default:
		break;
	}
}

static json_t *shape_end(struct cell *x, const struct agent_code_result *m)
{
	bool lost = m->fresh || m->how == AGENT_CODE_END_KILLED || m->how == AGENT_CODE_END_DIED ||
	            m->how == AGENT_CODE_END_OOM || m->how == AGENT_CODE_END_BROKEN ||
	            m->how == AGENT_CODE_END_RESTARTED;
	char id[CONTEXT_ID_SIZE];
	json_t *j;

	cell_context_id(m->context, id);
	j = json_pack("{s:s, s:s, s:I, s:I}", "contextId", id, "language",
	              agent_language_name(m->language), "executionCount", (json_int_t)m->count,
	              "durationMs", (json_int_t)m->duration_ms);
	if (x->error)
		json_object_set(j, "error", x->error);
	if (m->how == AGENT_CODE_END_TIMED_OUT || m->how == AGENT_CODE_END_KILLED)
		json_object_set_new(j, "timedOut", json_true());
	if (m->how == AGENT_CODE_END_INTERRUPTED)
		json_object_set_new(j, "interrupted", json_true());
	if (lost)
		json_object_set_new(j, "kernelRestarted", json_true());
	for (int i = 1; i <= 2; i++)
		if (m->bytes[i] > AGENT_CODE_OUTPUT_MAX)
			json_object_set_new(j, i == 1 ? "stdoutTruncated" : "stderrTruncated",
			                    json_true());
	if (m->files_cut)
		json_object_set_new(j, "filesTruncated", json_true());
	return j;
}

int cell_error(int r, struct err *err)
{
	r = guest_call_error(r, err);
	if (r == -ENOTSUP)
		return err_tag(
		        err, r, ERR_CONFLICT, "%s",
		        "this VM was created by an older version of Pando: stop and start it");
	if (err->tag == ERR_CONTEXT_NOT_FOUND)
		err->tag = ERR_NOT_FOUND;
	else if (err->tag == ERR_CONTEXT_BUSY || err->tag == ERR_GUEST_BUSY)
		err->tag = ERR_CONFLICT;
	else if (err->tag == ERR_CWD_FAILED)
		err->tag = ERR_BAD_REQUEST;
	return r;
}

int cell_step(struct cell *x, json_t **ret, struct err *err)
{
	struct agent_code_event e;
	struct agent_code_result m;
	int r = guest_code_next(x->f, &e, err);

	/* A stream goes at its client's pace: only silence counts there. */
	if ((r == 0 || (r == 1 && !x->streamed)) && clock_ms() >= x->deadline)
		r = err_tag(err, -ETIMEDOUT, ERR_EXEC_TIMED_OUT,
		            "the guest did not answer in time");
	if (r == 1)
		take(x, &e);
	if (r == 0 || r == 1)
		return r;
	if (r == -ENODATA)
		r = guest_code_result(x->f, &m, err);
	if (r != 0)
		return cell_error(r, err);
	explain_end(x, &m);
	*ret = shape_end(x, &m);
	return *ret ? -ENODATA : err_set(err, -ENOMEM, "out of memory");
}

json_t *cell_collected(struct cell *x, json_t *end_consume)
{
	json_t *j = end_consume;

	json_object_set_new(j, "stdout", shape_output(x->out[1].p, x->out[1].len));
	json_object_set_new(j, "stderr", shape_output(x->out[2].p, x->out[2].len));
	json_object_set(j, "results", x->results);
	json_object_set(j, "files", x->files);
	return j;
}
