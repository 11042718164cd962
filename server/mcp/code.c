/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c - the tool run_code: a cell, its output as text and its pictures as images
 *
 * If a result comes in several types, the one that a model reads best is shown: a PNG or
 * JPEG as an image, else plain text, else the next best. Pictures are in the content only;
 * structuredContent says where one was.
 */
#include "api/vms/cell.h"
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define IMAGES_BYTES (8u << 20)   /* of base64, of all pictures of a cell */
#define RESULT_BYTES (256u << 10) /* of one result as text */

struct code_args {
	const char *language, *code, *context;
	int64_t timeout_ms, max;
};
static const struct json_field code_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, code_args, language, "language", JSON_NULLABLE, 0, 32),
	JSON_FIELD(JSON_WANT_STRREF, code_args, code, "code", JSON_REQUIRED, 0, AGENT_CODE_MAX - 1),
	JSON_FIELD(JSON_WANT_STRREF, code_args, context, "contextId", JSON_NULLABLE, 0, 64),
	JSON_FIELD(JSON_WANT_I64, code_args, timeout_ms, "timeoutMs", JSON_NULLABLE, 1,
	           MCP_TIMEOUT_MAX),
	JSON_FIELD(JSON_WANT_I64, code_args, max, "maxOutputBytes", JSON_NULLABLE, 256,
	           MCP_OUTPUT_MAX),
};

struct code {
	struct cell *cell; /* owned */
	size_t max;
	json_t *end; /* owned; set at the end */
};

static void code_free(void *ctx)
{
	struct code *x = ctx;

	if (!x)
		return;
	cell_free(x->cell);
	json_decref(x->end);
	free(x);
}

static void code_freep(struct code **x)
{
	code_free(*x);
}

static int code_step(void *ctx, struct err *err)
{
	struct code *x = ctx;

	return cell_step(x->cell, &x->end, err);
}

static int code_fd(void *ctx)
{
	return guest_flow_fd(((struct code *)ctx)->cell->f);
}

static const struct buf *code_latest(void *ctx)
{
	return &((struct code *)ctx)->cell->out[1];
}

/* ---- the result ---- */

static json_t *clipped(const char *p, size_t n, size_t max, bool *ret_cut)
{
	AUTO(mcp_clip_done) struct mcp_clip c = { .max = max };

	mcp_clip_put(&c, p, n);
	*ret_cut = mcp_clip_cut(&c);
	return mcp_clip_text(&c);
}

static void add_stream(struct code *x, json_t *whole, json_t *content, const char *name,
                       const char *label, const char *cut_name)
{
	const json_t *all = json_object_get(whole, name);
	bool cut = false;
	json_t *text = clipped(json_string_value(all), json_string_length(all), x->max, &cut);

	mcp_add_text(content, label, text);
	json_object_set_new(whole, name, text);
	if (cut)
		json_object_set_new(whole, cut_name, json_true());
}

static const char *const pictures[] = { "image/png", "image/jpeg", "image/gif", "image/webp" };

/* The picture of a result, if it has one: into the content, and out of the result. */
static bool add_picture(json_t *result, json_t *content, size_t *bytes)
{
	for (size_t i = 0; i < ARRAY_SIZE(pictures); i++) {
		json_t *data = json_object_get(result, pictures[i]);
		bool fits;

		if (!json_is_string(data))
			continue;
		*bytes += json_string_length(data);
		fits = *bytes <= IMAGES_BYTES;
		if (fits)
			json_array_append_new(content,
			                      mcp_image(json_string_value(data), pictures[i]));
		else
			json_array_append_new(content,
			                      mcp_text("[an image is omitted: too large]", 34));
		json_object_set_new(result, pictures[i],
		                    json_string(fits ? "[in the content]" : "[left out]"));
		return true;
	}
	return false;
}

static void add_words(const json_t *result, json_t *content)
{
	static const char *const best[] = { "text/plain",       "text/markdown", "text/latex",
		                            "application/json", "image/svg+xml", "text/html" };

	for (size_t i = 0; i < ARRAY_SIZE(best); i++) {
		const json_t *data = json_object_get(result, best[i]);
		autofree char *text = NULL;
		autojson json_t *kept = NULL;
		bool cut;

		if (!data)
			continue;
		text = json_is_string(data) ? strdup(json_string_value(data))
		                            : json_dumps(data, JSON_COMPACT | JSON_ENCODE_ANY);
		if (!text)
			return;
		kept = clipped(text, strlen(text), RESULT_BYTES, &cut);
		mcp_add_text(content, "", kept);
		return;
	}
}

/* The part of a result for structuredContent: no type longer than what a model is shown. */
static void shorten(json_t *result)
{
	const char *mime;
	json_t *data;
	void *tmp;

	json_object_foreach_safe(result, tmp, mime, data)
	{
		bool cut;

		if (json_is_string(data) && json_string_length(data) > RESULT_BYTES)
			json_object_set_new(result, mime,
			                    clipped(json_string_value(data),
			                            json_string_length(data), RESULT_BYTES, &cut));
	}
}

static void add_results(json_t *whole, json_t *content)
{
	json_t *result;
	size_t i, bytes = 0;

	json_array_foreach(json_object_get(whole, "results"), i, result)
	{
		if (!add_picture(result, content, &bytes))
			add_words(result, content);
		shorten(result);
	}
}

static void add_files(const json_t *whole, json_t *content)
{
	autobuf struct buf b = { 0 };
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(whole, "files"), i, file)
	{
		buf_printf(&b, "%s%s",
		           i ? ", " : "[files: ", json_string_value(json_object_get(file, "path")));
	}
	if (!b.len || b.failed)
		return;
	buf_printf(&b, "]");
	json_array_append_new(content, mcp_text(b.p, b.len));
}

static json_t *code_result(void *ctx)
{
	struct code *x = ctx;
	json_t *whole = cell_collected(x->cell, TAKE_PTR(x->end)), *content = json_array();
	const json_t *error = json_object_get(whole, "error");

	add_stream(x, whole, content, "stdout", "", "stdoutTruncated");
	add_stream(x, whole, content, "stderr", "[stderr]\n", "stderrTruncated");
	add_results(whole, content);
	mcp_add_text(content, "", json_object_get(error, "traceback"));
	add_files(whole, content);
	return mcp_tool_result(content, whole, /* failed= */ error != NULL);
}

static const struct mcp_job_ops code_ops = { .step = code_step,
	                                     .fd = code_fd,
	                                     .result = code_result,
	                                     .latest = code_latest,
	                                     .free = code_free };

int mcp_code_open(struct request *req, struct mcp_work *ret, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(code_freep) struct code *x = calloc(1, sizeof(*x));
	struct code_args a = { .timeout_ms = MCP_TIMEOUT_DEFAULT, .max = MCP_OUTPUT_DEFAULT };
	struct guest_code_req q = { 0 };
	const char *id;
	int r;

	if (!x)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &q.user, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, code_fields, ARRAY_SIZE(code_fields), &a,
	                        err)) < 0 ||
	    (a.context && (r = code_context(a.context, &q.context, err)) < 0) ||
	    /* a context has a language; without context and language it is Python */
	    ((a.language || !a.context) &&
	     (r = code_language(a.language ? a.language : "python", &q.language, err)) < 0) ||
	    (r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0)
		return r;
	q.code = a.code;
	q.timeout_ms = (unsigned)a.timeout_ms;
	x->max = (size_t)a.max;
	x->cell = cell_new(/* streamed= */ false, q.timeout_ms);
	if (!x->cell)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = guest_code_run(g, &q, &x->cell->f, err)) < 0)
		return cell_error(r, err);
	*ret = (struct mcp_work){ &code_ops, TAKE_PTR(x), (uint64_t)a.timeout_ms };
	return 0;
}
