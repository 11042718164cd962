/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_mcp.c - any body as MCP messages: each is one of the four kinds, and can be answered. And as
 * the version of a client that introduces itself: one that we speak has the name it was found by */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "mcp/mcp_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
	if (!ok)
		abort();
}

static void check_reply(json_t *j)
{
	autofree char *text = json_dumps(j, JSON_COMPACT);

	must(text != NULL && strchr(text, '\n') == NULL);
	json_decref(j);
}

static void check_version(const json_t *j)
{
	const char *s = json_string_value(j);
	int v = s ? mcp_version_parse(s) : -1;

	must(v < 0 || (v < MCP_VERSIONS && strcmp(mcp_version_name((enum mcp_version)v), s) == 0));
}

static void check(const struct mcp_msg *m)
{
	const json_t *token = mcp_progress_token(m);

	must(!m->id || json_is_integer(m->id) ||
	     (json_is_string(m->id) && json_string_length(m->id) <= MCP_ID_MAX));
	must(!token || json_is_integer(token) || json_is_string(token));
	must(!m->params || json_is_object(m->params));
	switch (m->kind) {
	case MCP_REQUEST:
		must(m->id && m->method);
		check_version(json_object_get(m->params, "protocolVersion"));
		check_reply(mcp_result(m->id, json_object()));
		check_reply(
		        mcp_error(m->id, MCP_NO_METHOD, "there is no method '%.100s'", m->method));
		break;
	case MCP_NOTIFICATION:
		must(!m->id && m->method);
		break;
	case MCP_RESPONSE:
		must(!m->method);
		break;
	case MCP_INVALID:
		must(m->fault != NULL);
		check_reply(mcp_error(m->id, MCP_INVALID_REQUEST, "%s", m->fault));
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO(mcp_batch_done) struct mcp_batch b = { 0 };
	struct err err = { 0 };

	if (mcp_parse(data, size, &b, &err) < 0) {
		must(err.code < 0 && err.msg[0] && b.n == 0);
		return 0;
	}
	must(b.n >= 1 && b.n <= MCP_BATCH_MAX && (b.array || b.n == 1));
	for (size_t i = 0; i < b.n; i++)
		check(&b.msg[i]);
	return 0;
}
