/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_agent_code.c - the code interpreter's part of the agent protocol
 *
 * Byte 0 picks the message. What decodes must encode to the same bytes. Events are
 * read as the agent and the host read them: one after the other out of a stream.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "wire/agent_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything up to the first event that is not whole, or not one. */
static size_t recode_events(const uint8_t *p, size_t n, struct buf *b)
{
	struct agent_code_event m;
	size_t off = 0;
	int k;

	while ((k = agent_code_event_get(p + off, n - off, &m)) > 0) {
		assert((size_t)k <= n - off && m.len <= AGENT_CODE_EVENT_MAX);
		agent_code_event_put(b, &m);
		off += (size_t)k;
	}
	return off;
}

static bool recode(uint8_t which, const uint8_t *p, size_t n, struct buf *b)
{
	static struct agent_code_create create;
	struct agent_code_run run;
	struct agent_code_result result;
	struct agent_code_ctx ctx;
	struct agent_code_context context;
	struct rd c = rd_of(p, n);

	switch (which) {
	case 0:
		if (agent_code_run_get(&c, &run) < 0)
			return false;
		agent_code_run_put(b, &run);
		return true;
	case 1:
		if (agent_code_result_get(p, n, &result) < 0)
			return false;
		agent_code_result_put(b, &result);
		return true;
	case 2:
		if (agent_code_create_get(&c, &create) < 0)
			return false;
		agent_code_create_put(b, &create);
		return true;
	case 3:
		if (agent_code_ctx_get(&c, &ctx) < 0)
			return false;
		agent_code_ctx_put(b, &ctx);
		return true;
	case 4:
		if (agent_code_context_get(&c, &context) < 0 || rd_end(&c) < 0)
			return false;
		agent_code_context_put(b, &context);
		return true;
	default:
		return false;
	}
}

/* As users write it: every name is of one language, whose own name leads back to it. */
static void try_language(const uint8_t *p, size_t n)
{
	char name[16] = "";
	unsigned language;

	memcpy(name, p, MIN(n, sizeof(name) - 1));
	language = agent_language_of(name);
	assert(language < AGENT_LANG_END);
	assert(!language || agent_language_of(agent_language_name(language)) == language);
	assert(!strcmp(agent_language_name(0), agent_language_name(AGENT_LANG_END)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { 0 };

	if (size && data[0] == 6)
		try_language(data + 1, size - 1);
	if (size && data[0] == 5) {
		size_t n = recode_events(data + 1, size - 1, &b);

		assert(!b.failed && b.len == n && (!n || !memcmp(b.p, data + 1, n)));
	} else if (size && recode(data[0], data + 1, size - 1, &b)) {
		assert(!b.failed && b.len == size - 1 && !memcmp(b.p, data + 1, b.len));
	}
	buf_done(&b);
	return 0;
}
