/* SPDX-License-Identifier: Apache-2.0 */
/* agent_self.c - encoder and decoder of who a VM is */
#include "wire/agent_self.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

#define AGENT_SELF_WORD(num, NAME, word) [num] = (word),
const char *agent_self_word(unsigned bit)
{
	static const char *const words[] = { AGENT_SELF_VERBS(AGENT_SELF_WORD) };

	_Static_assert(ARRAY_SIZE(words) == AGENT_SELF_N, "a verb is not counted");
	_Static_assert(AGENT_SELF_ALL == (1u << AGENT_SELF_N) - 1, "a verb is not among all");
	return bit < ARRAY_SIZE(words) ? words[bit] : "?";
}

#define AGENT_EVENT_WORD(num, NAME, word) [num] = (word),
const char *agent_event_word(unsigned event)
{
	static const char *const words[] = { AGENT_EVENTS(AGENT_EVENT_WORD) };

	return event < ARRAY_SIZE(words) ? words[event] : "?";
}

void agent_who_put(struct buf *b, const struct agent_who *m)
{
	buf_put(b, m->nonce, sizeof(m->nonce));
	buf_put_u8(b, m->event);
	buf_put_u32(b, m->allow);
	buf_put_u32(b, m->index);
	buf_put_u32(b, m->count);
	buf_put_u64(b, m->call);
	buf_put_str(b, m->vm);
	buf_put_str(b, m->parent);
	buf_put_str(b, m->snapshot);
}

static bool is_id(const char *s)
{
	return !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

int agent_who_get(const uint8_t *p, size_t n, struct agent_who *ret)
{
	struct rd c = rd_of(p, n);

	if (rd_bytes(&c, ret->nonce, sizeof(ret->nonce)) < 0 || rd_u8(&c, &ret->event) < 0 ||
	    rd_u32(&c, &ret->allow) < 0 || rd_u32(&c, &ret->index) < 0 ||
	    rd_u32(&c, &ret->count) < 0 || rd_u64(&c, &ret->call) < 0 ||
	    rd_str(&c, ret->vm, sizeof(ret->vm)) < 0 ||
	    rd_str(&c, ret->parent, sizeof(ret->parent)) < 0 ||
	    rd_str(&c, ret->snapshot, sizeof(ret->snapshot)) < 0 || rd_end(&c) < 0)
		return -EBADMSG;
	if (ret->event >= AGENT_EVENT_END || (ret->allow & ~AGENT_SELF_ALL) || !*ret->vm ||
	    !is_id(ret->vm) || !is_id(ret->parent) || !is_id(ret->snapshot))
		return -EBADMSG;
	return 0;
}
