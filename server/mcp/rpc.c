/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.c - JSON-RPC 2.0 as MCP uses it: messages in, replies out
 *
 * A body is one message or, in older versions of the protocol, an array of them. A
 * message that is malformed gets an error of its own and leaves the others alone. Ids are
 * strings or integers: they are compared, kept while a call runs and sent back as they came.
 */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/utf8.h"

static const char *const version_names[] = {
	[MCP_2024_11_05] = "2024-11-05",
	[MCP_2025_03_26] = "2025-03-26",
	[MCP_2025_06_18] = "2025-06-18",
	[MCP_2025_11_25] = "2025-11-25",
};
_Static_assert(ARRAY_SIZE(version_names) == MCP_VERSIONS, "version_names misses a version");

const char *mcp_version_name(enum mcp_version v)
{
	return version_names[v];
}

int mcp_version_parse(const char *s)
{
	for (int i = 0; i < MCP_VERSIONS; i++)
		if (strcmp(version_names[i], s) == 0)
			return i;
	return -EINVAL;
}

/* A string of bounded length or an integer. */
static bool is_id(const json_t *j)
{
	return json_is_integer(j) || (json_is_string(j) && json_string_length(j) <= MCP_ID_MAX);
}

static void invalid(struct mcp_msg *m, const char *fault)
{
	m->kind = MCP_INVALID;
	m->fault = fault;
}

static void read_message(json_t *j, struct mcp_msg *m)
{
	const char *version = json_string_value(json_object_get(j, "jsonrpc"));
	json_t *method = json_object_get(j, "method"), *id = json_object_get(j, "id");
	json_t *params = json_object_get(j, "params");

	*m = (struct mcp_msg){ .id = is_id(id) ? id : NULL };
	if (!json_is_object(j)) {
		invalid(m, "a message must be a JSON object");
		return;
	}
	if (!version || strcmp(version, "2.0") != 0) {
		invalid(m, "'jsonrpc' must be \"2.0\"");
		return;
	}
	if (!method && (json_object_get(j, "result") || json_object_get(j, "error"))) {
		m->kind = MCP_RESPONSE;
		return;
	}
	if (!json_is_string(method))
		invalid(m, "'method' must be a string");
	else if (id && !m->id)
		invalid(m, "'id' must be an integer or a short string");
	else if (params && !json_is_object(params))
		invalid(m, "'params' must be an object");
	else {
		m->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
		m->method = json_string_value(method);
		m->params = params;
	}
}

int mcp_parse(const void *text, size_t n, struct mcp_batch *ret, struct err *err)
{
	int r = json_text_parse(text, n, &ret->doc, err);

	if (r < 0)
		return r == -E2BIG ? -EBADMSG : r;
	ret->array = json_is_array(ret->doc);
	if (!ret->array) {
		if (!json_is_object(ret->doc))
			return err_set(err, -EINVAL,
			               "the body is neither a message nor an array of messages");
		ret->n = 1;
		read_message(ret->doc, &ret->msg[0]);
		return 0;
	}
	ret->n = json_array_size(ret->doc);
	if (ret->n == 0 || ret->n > MCP_BATCH_MAX) {
		ret->n = 0;
		return err_set(err, -EINVAL, "a batch has 1 to %d messages", MCP_BATCH_MAX);
	}
	for (size_t i = 0; i < ret->n; i++)
		read_message(json_array_get(ret->doc, i), &ret->msg[i]);
	return 0;
}

void mcp_batch_done(struct mcp_batch *b)
{
	json_decref(b->doc);
	b->doc = NULL;
	b->n = 0;
}

json_t *mcp_progress_token(const struct mcp_msg *m)
{
	json_t *token = json_object_get(json_object_get(m->params, "_meta"), "progressToken");

	return is_id(token) ? token : NULL;
}

json_t *mcp_result(json_t *id, json_t *result_consume)
{
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result_consume);
}

json_t *mcp_error(json_t *id, enum mcp_code code, const char *fmt, ...)
{
	autobuf struct buf clean = { 0 };
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	utf8_put_clean(&clean, text, strlen(text)); /* a quotation may end within a character */
	return json_pack("{s:s, s:o, s:{s:i, s:o}}", "jsonrpc", "2.0", "id",
	                 id ? json_incref(id) : json_null(), "error", "code", (int)code, "message",
	                 json_stringn((char *)clean.p, clean.len));
}
