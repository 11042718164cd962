/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_agent_login.c - every decoder of messages about logins and connections
 *
 * Byte 0 picks the message. What decodes must encode to the same bytes.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "wire/agent_login.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool recode(uint8_t which, const uint8_t *p, size_t n, struct buf *b)
{
	static struct agent_login_req login;
	struct rd c = rd_of(p, n);
	struct agent_addr m;
	int r;

	if (which % 4 == 0) {
		if (agent_login_req_get(&c, &login) < 0)
			return false;
		agent_login_req_put(b, &login);
		return true;
	}
	r = which % 4 == 1   ? agent_dial_get(&c, &m)
	    : which % 4 == 2 ? agent_listen_get(&c, &m)
	                     : agent_peer_get(p, n, &m);
	if (r < 0)
		return false;
	agent_addr_put(b, &m);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { 0 };

	if (size && recode(data[0], data + 1, size - 1, &b))
		assert(!b.failed && b.len == size - 1 && !memcmp(b.p, data + 1, b.len));
	buf_done(&b);
	return 0;
}
