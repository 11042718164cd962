/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_cell.c - a script in a guest, from its request to how it ended
 *
 * Nothing here trusts the guest: what it prints and shows is bounded, and read as text or JSON of a
 * known form. A script may write what only our cell should; it deceives nobody but its own caller.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json_field.h"
#include "base/utf8.h"
#include "guest/guest.h"
#include "guest/guest_code.h"
#include "serverless/serverless_internal.h"

#define INLINE_MAX (128u << 10)     /* bytes of a request that goes with the cell */
#define POLL_MS 500                 /* between looks at whether somebody waits */
#define LINE_MAX_BYTES (512u << 10) /* of a message */
#define SHOWN_MAX (RUN_RESULT_MAX + (64u << 10))
#define SHOWN_VALUES 200000
#define MARK 0x1e

struct cell {
	struct run_outcome *o;
	struct buf line[3]; /* [1] stdout, [2] stderr: an incomplete line */
	struct buf shown;
	bool shown_lost;
	bool ended; /* the script's own result was shown */
};

void run_outcome_done(struct run_outcome *o)
{
	json_decref(o->logs);
	json_decref(o->result);
	json_decref(o->error);
	*o = (struct run_outcome){ 0 };
}

static void put_log(struct run_outcome *o, const char *p, size_t n, const char *type)
{
	if (o->n_logs > RUN_LOGS_MAX + 1 || o->log_bytes > RUN_LOG_BYTES + LINE_MAX_BYTES)
		return;
	o->n_logs++;
	o->log_bytes += n;
	json_array_append_new(o->logs,
	                      json_pack("{s:o, s:s}", "message", json_text(p, n), "type", type));
}

static void line_done(struct cell *c, int chan)
{
	struct buf *b = &c->line[chan];
	const char *p = (const char *)b->p, *message, *type;
	autojson json_t *j = NULL;

	if (b->len && b->p[0] == MARK && json_text_parse(p + 1, b->len - 1, &j, NULL) == 0 &&
	    json_unpack(j, "{s:s, s:s}", "message", &message, "type", &type) == 0)
		put_log(c->o, message, strlen(message), strcmp(type, "error") ? "log" : "error");
	else
		put_log(c->o, p ? p : "", b->len, chan == 2 ? "error" : "log");
	buf_reset(b);
}

static void take_output(struct cell *c, int chan, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n')
			line_done(c, chan);
		else if (c->line[chan].len < LINE_MAX_BYTES)
			buf_put(&c->line[chan], &p[i], 1);
	}
}

static void shown_whole(struct cell *c)
{
	autojson json_t *j = NULL;
	size_t values;
	json_t *out;

	if (c->shown_lost ||
	    json_text_check(c->shown.p, c->shown.len, SHOWN_VALUES, &values, NULL) < 0 ||
	    json_text_load(c->shown.p, c->shown.len, &j, NULL) < 0)
		return;
	out = json_object_get(j, RUN_RESULT_MIME);
	if (!json_is_object(out))
		return;
	c->ended = true;
	json_decref(c->o->result);
	json_decref(c->o->error);
	c->o->result = json_incref(json_object_get(out, "result"));
	c->o->error = json_incref(json_object_get(out, "error"));
	if (c->o->error && !json_is_string(json_object_get(c->o->error, "message"))) {
		json_decref(c->o->error);
		c->o->error = json_pack("{s:s}", "message", "it failed and did not say why");
	}
}

static void take_error(struct cell *c)
{
	autojson json_t *j = NULL;
	const char *name, *value, *trace;

	if (json_text_parse(c->shown.p, c->shown.len, &j, NULL) < 0 || c->ended ||
	    json_unpack(j, "{s:s, s:s, s:s}", "name", &name, "value", &value, "traceback", &trace) <
	            0)
		return;
	json_decref(c->o->error);
	c->o->error = json_pack("{s:s, s:s, s:s}", "name", name, "message", value, "stack", trace);
}

static void take(struct cell *c, const struct agent_code_event *e)
{
	switch (e->kind) {
	case AGENT_CODE_STDOUT:
	case AGENT_CODE_STDERR:
		take_output(c, e->kind == AGENT_CODE_STDOUT ? 1 : 2, e->p, e->len);
		break;
	case AGENT_CODE_RESULT:
	case AGENT_CODE_ERROR:
		if (c->shown.len + e->len > SHOWN_MAX)
			c->shown_lost = true;
		else
			buf_put(&c->shown, e->p, e->len);
		if (e->more)
			break;
		if (e->kind == AGENT_CODE_RESULT)
			shown_whole(c);
		else if (!c->shown_lost)
			take_error(c);
		buf_reset(&c->shown);
		c->shown_lost = false;
		break;
	default:
		break;
	}
}

static void set_error(struct run_outcome *o, const char *name, const char *message)
{
	json_decref(o->error);
	json_decref(o->result);
	o->result = NULL;
	o->error = json_pack("{s:s, s:s, s:s}", "name", name, "message", message, "stack", "");
}

static void explain(struct cell *c, const struct agent_code_result *m, unsigned seconds)
{
	struct run_outcome *o = c->o;
	char text[200];

	switch (m->how) {
	case AGENT_CODE_END_TIMED_OUT:
	case AGENT_CODE_END_KILLED:
		snprintf(text, sizeof(text),
		         "the script did not end within its timeout of %u s: give it more with "
		         "'timeout', at most %d",
		         seconds, RUN_TIMEOUT_MAX_S);
		set_error(o, "TimeoutError", text);
		return;
	case AGENT_CODE_END_OOM:
		set_error(o, "OutOfMemory", "the VM ran out of memory");
		return;
	case AGENT_CODE_END_NO_START:
		set_error(o, "KernelNotStarted", "Node.js could not be started in this VM");
		return;
	default:
		break;
	}
	if (!c->ended && !o->error)
		set_error(o, "KernelDied", "the script ended its process before it had a result");
}

/* Until the cell is over. */
static int collect(struct cell *c, struct guest_flow *f, const struct run_req *q,
                   struct agent_code_result *m, struct err *err)
{
	uint64_t until = deadline_in(GUEST_CODE_WAIT_MS);

	for (;;) {
		struct pollfd p = { .fd = guest_flow_fd(f), .events = POLLIN };
		struct agent_code_event e;
		int r = guest_code_next(f, &e, err);

		if (r == -ENODATA)
			return guest_code_result(f, m, err);
		if (r < 0)
			return r;
		if (r == 1 && e.kind == AGENT_CODE_STARTED)
			until = deadline_in(q->conf->timeout_s * 1000 + GUEST_CODE_OVER_MS);
		if (r == 1) {
			take(c, &e);
			continue;
		}
		if (clock_ms() >= until)
			return err_tag(err, -ETIMEDOUT, ERR_EXEC_TIMED_OUT,
			               "the guest did not answer in time");
		if (q->gone && q->gone(q->ctx))
			return err_set(err, -ECANCELED, "the client left before the script ended");
		poll(&p, 1, POLL_MS);
	}
}

/* A request that is not long spares the way of a file. */
static char *cell_text(const char *request, size_t n)
{
	autowipe char *b64 = malloc(n / 3 * 4 + 8);
	char *text = NULL;

	if (!b64)
		return NULL;
	EVP_EncodeBlock((unsigned char *)b64, (const unsigned char *)request, (int)n);
	if (asprintf(&text, "globalThis.__pandoRun = '%s';\n%s", b64, run_cell_js) < 0)
		return NULL;
	return text;
}

static int put_request(struct guest *g, const char *request, struct err *err)
{
	struct guest_bytes bytes = { request, strlen(request) };

	return guest_write_file(g, NULL, RUN_REQUEST_FILE, 0600, guest_bytes_source, &bytes,
	                        deadline_in(GUEST_CODE_OVER_MS), err);
}

int run_cell(struct guest *g, const char *request, const struct run_req *q, struct run_outcome *ret,
             struct err *err)
{
	struct guest_code_req code = { .language = AGENT_LANG_JAVASCRIPT,
		                       .code = run_cell_js,
		                       .timeout_ms = q->conf->timeout_s * 1000 };
	autowipe char *text = NULL;
	struct cell c = { .o = ret };
	struct agent_code_result m = { 0 };
	struct guest_flow *f = NULL;
	int r;

	*ret = (struct run_outcome){ .logs = json_array() };
	if (strlen(request) <= INLINE_MAX) {
		text = cell_text(request, strlen(request));
		if (!text)
			return err_set(err, -ENOMEM, "out of memory");
		code.code = text;
	} else if ((r = put_request(g, request, err)) < 0) {
		return r;
	}
	if ((r = guest_code_run(g, &code, &f, err)) < 0)
		return r;
	r = collect(&c, f, q, &m, err);
	guest_flow_close(f);
	for (int i = 1; i <= 2; i++) {
		if (c.line[i].len)
			line_done(&c, i);
		buf_done(&c.line[i]);
	}
	buf_done(&c.shown);
	if (r == 0)
		explain(&c, &m, q->conf->timeout_s);
	return r;
}
