/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c - POST /v1/vms/{vm_id}/code: a cell in a persistent kernel; POST /v1/code: in a new VM
 *
 * A client that disconnects while its cell runs interrupts it; the kernel and its variables stay.
 * The VM of /v1/code is deleted when the cell is over, whatever happened to it or to the client.
 */
#include "api/vms/cell.h"
#include "api/vms/shared.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"

#define CODE_DEFAULT_MS 290000      /* below the clients' own 300 s without headers */
#define CODE_MAX_MS 600000          /* ditto: nobody waits longer for a reply */
#define CODE_STREAM_MAX_MS 86400000 /* a day */
#define POLL_MS 1000                /* between checks of the deadline */

static void cell_freep(struct cell **x)
{
	cell_free(*x);
}

struct code_body {
	const char *language, *code, *context;
	int64_t timeout_ms;
	bool stream;
};
static const struct json_field code_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, code_body, language, "language", JSON_NULLABLE, 0, 32),
	JSON_FIELD(JSON_WANT_STRREF, code_body, code, "code", JSON_REQUIRED, 0, AGENT_CODE_MAX - 1),
	JSON_FIELD(JSON_WANT_STRREF, code_body, context, "contextId", JSON_NULLABLE, 0, 64),
	JSON_FIELD(JSON_WANT_I64, code_body, timeout_ms, "timeoutMs", JSON_NULLABLE, 1,
	           CODE_STREAM_MAX_MS),
	JSON_FIELD(JSON_WANT_BOOL, code_body, stream, "stream", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(CellNew, code_fields);

int code_language(const char *name, unsigned *ret, struct err *err)
{
	*ret = agent_language_of(name);
	if (*ret)
		return 0;
	return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
	               "'language' must be python, javascript, typescript, bash or ruby");
}

int code_context(const char *id, uint32_t *ret, struct err *err)
{
	size_t digits = strncmp(id, "ctx-", 4) == 0 ? strspn(id + 4, "0123456789") : 0;
	unsigned long long v = digits && digits < 11 ? strtoull(id + 4, NULL, 10) : 0;

	if (!v || v > UINT32_MAX || id[4 + digits])
		return err_tag(err, -ENOENT, ERR_NOT_FOUND, "there is no context '%.40s'", id);
	*ret = (uint32_t)v;
	return 0;
}

static int read_body(struct request *req, struct code_body *b, struct guest_code_req *q,
                     struct err *err)
{
	int r = request_fields(req, ERR_BAD_REQUEST, code_fields, ARRAY_SIZE(code_fields), b, err);

	if (r < 0)
		return r;
	if (!b->stream && b->timeout_ms > CODE_MAX_MS)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "'timeoutMs' is at most %d without 'stream'", CODE_MAX_MS);
	q->code = b->code;
	q->timeout_ms = (unsigned)b->timeout_ms;
	if (b->context && (r = code_context(b->context, &q->context, err)) < 0)
		return r;
	if (!b->language)
		return b->context ? 0
		                  : err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		                            "'language' or 'contextId' is required");
	return code_language(b->language, &q->language, err);
}

/* ---- to its end, then one object ---- */

static bool client_gone(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

static int collect(struct request *req, struct cell *x, json_t **ret, struct err *err)
{
	int client = request_client_fd(req);
	int r;

	while ((r = cell_step(x, ret, err)) >= 0) {
		struct pollfd p[] = { { .fd = guest_flow_fd(x->f), .events = POLLIN },
			              { .fd = client, .events = POLLRDHUP } };

		if (r == 1)
			continue;
		poll(p, ARRAY_SIZE(p), POLL_MS);
		if (client >= 0 && client_gone(client))
			return err_set(err, -ECANCELED, "the client left before the cell ended");
	}
	if (r != -ENODATA)
		return r;
	*ret = cell_collected(x, *ret);
	return 0;
}

/* ---- as events ---- */

static void finish_stream(struct cell *x, json_t *end, int r, struct err *err)
{
	x->ended = true;
	for (int i = 1; i <= 2; i++)
		sse_output(&x->sse, &x->text[i], i == 1 ? "stdout" : "stderr", NULL, 0, -1,
		           /* last= */ true);
	if (r != -ENODATA) {
		sse_failed(&x->sse, err);
		return;
	}
	json_object_set(end, "files", x->files);
	sse_event(&x->sse, "end", end);
}

static ssize_t stream_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct cell *x = ctx;

	for (;;) {
		struct err failure = { 0 };
		json_t *end = NULL;
		ssize_t k = sse_drain(&x->sse, p, max);
		int r;

		if (k)
			return k < 0 ? err_set(err, (int)k, "out of memory") : k;
		if (x->ended)
			return -ENODATA;
		r = cell_step(x, &end, &failure);
		if (r == 0)
			return 0;
		if (r < 0)
			finish_stream(x, end, r, &failure);
	}
}

static int stream_fd(void *ctx)
{
	return guest_flow_fd(((struct cell *)ctx)->f);
}

static const struct outflow_ops stream_ops = {
	.next = stream_next, .fd = stream_fd, .free = cell_free, .beat = ": \n\n"
};

/* Waits for the first event, so that a cell that cannot start is an ordinary error. */
static int await_start(struct cell *x, struct err *err)
{
	while (!x->started && !x->ended) {
		json_t *end = NULL;
		int r = cell_step(x, &end, err);

		if (r == -ENODATA) {
			finish_stream(x, end, r, err);
			return 0;
		}
		if (r < 0)
			return r;
		if (r == 0) {
			struct pollfd p = { .fd = guest_flow_fd(x->f), .events = POLLIN };

			poll(&p, 1, POLL_MS);
		}
	}
	return 0;
}

static int run(struct request *req, struct reply *res, struct guest *g,
               const struct guest_code_req *q, struct cell *x_consume, struct err *err)
{
	AUTO(cell_freep) struct cell *x = x_consume;
	json_t *j = NULL;
	int r = guest_code_run(g, q, &x->f, err);

	if (r < 0)
		return cell_error(r, err);
	if (x->streamed) {
		r = await_start(x, err);
		return r < 0 ? r
		             : reply_flow(req, res, &stream_ops, TAKE_PTR(x), OUTFLOW_UNKNOWN,
		                          "text/event-stream", err);
	}
	r = collect(req, x, &j, err);
	return r < 0 ? r : reply_json(res, j, err);
}

int api_vm_code(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct code_body b = { .timeout_ms = CODE_DEFAULT_MS };
	struct guest_code_req q = { 0 };
	struct vm_info v;
	struct cell *x;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &q.user, err)) < 0 ||
	    (r = read_body(req, &b, &q, err)) < 0 ||
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	q.cwd = v.workdir;
	x = cell_new(b.stream, q.timeout_ms);
	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	return run(req, res, g, &q, x, err);
}

/* ---- POST /v1/code ---- */

static void once_end(void *arg)
{
	vm_once_free(arg);
}

int api_code(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(cell_freep) struct cell *x = NULL;
	struct code_body b = { .timeout_ms = CODE_DEFAULT_MS };
	struct guest_code_req q = { 0 };
	struct vm_once *vm;
	int r = read_body(req, &b, &q, err);

	if (r < 0)
		return r;
	if (b.context)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "'contextId' cannot be used here: each call gets a new VM");
	x = cell_new(b.stream, q.timeout_ms);
	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = vmm_create_once(deps_of(req)->vmm, who_of(req)->account, &vm, &g, err)) < 0)
		return r;
	x->on_free = once_end;
	x->on_free_arg = vm;
	return run(req, res, g, &q, TAKE_PTR(x), err);
}
