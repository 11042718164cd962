/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/agent_self.h - who a VM is, and its requests about itself; for agent/ and server/
 *
 * WHO is DATA on stream 0: agents that do not know it ignore bytes for a stream that is not open.
 * It precedes the HELLO with the same nonce; on an open connection it has that connection's nonce.
 * docs/PROTOCOL.agent.md explains it, docs/SELF.md what it is for.
 */
#pragma once

#include "wire/agent.h"

#define AGENT_WHO_CHAN 3u   /* flags of that DATA: no channel of a stream has this number */
#define AGENT_WHO_ID 32u    /* bytes with NUL of an id */
#define AGENT_KNOWS_WHO 31u /* bit of HELLO_ACK's steps: the agent took it */
#define AGENT_SELF_OPENED_LEN                                              \
	12 /* OPENED of self.take: u64 number, u32 how many wait behind it \
	    */

/* What a VM may ask for about itself: bit, NAME, word. */
#define AGENT_SELF_VERBS(M)        \
	M(0, SNAPSHOT, "snapshot") \
	M(1, FORK, "fork")         \
	M(2, SUSPEND, "suspend")   \
	M(3, REWIND, "rewind")     \
	M(4, CHILDREN, "children") \
	M(5, DELETE, "delete")
#define AGENT_SELF_ENUM(num, NAME, word) AGENT_SELF_##NAME = 1u << (num),
enum agent_self_verb { AGENT_SELF_VERBS(AGENT_SELF_ENUM) };
#define AGENT_SELF_ALL 0x3fu
#define AGENT_SELF_N 6u
const char *agent_self_word(unsigned bit); /* "?" if there is none */

/* What has happened to the machine: number, NAME, word. */
#define AGENT_EVENTS(M)                                                                 \
	M(0, CHANGED, "changed") /* nothing: only what it may do is different */        \
	M(1, HIDDEN, "hidden")   /* it is nobody's, or a copy that is only looked at */ \
	M(2, BOOTED, "boot")                                                            \
	M(3, CREATED, "create")                                                         \
	M(4, FORKED, "fork")                                                            \
	M(5, RESUMED, "resume")                                                         \
	M(6, REWOUND, "rewind")                                                         \
	M(7, RECONNECTED, "reconnect")
#define AGENT_EVENT_ENUM(num, NAME, word) AGENT_EVENT_##NAME = (num),
enum agent_event { AGENT_EVENTS(AGENT_EVENT_ENUM) AGENT_EVENT_END };
const char *agent_event_word(unsigned event); /* "?" if there is none */

struct agent_who {
	uint8_t nonce[AGENT_NONCE_LEN];
	uint8_t event;         /* enum agent_event */
	uint32_t allow;        /* bits of enum agent_self_verb; 0: self access is off */
	uint32_t index, count; /* of a fork: 1 to count; 0: it is none */
	uint64_t call;         /* the number of the request that made it; 0: none of the guest's */
	char vm[AGENT_WHO_ID], parent[AGENT_WHO_ID],
	        snapshot[AGENT_WHO_ID]; /* parent, snapshot: or "" */
};
void agent_who_put(struct buf *b, const struct agent_who *m);
/* Ids are letters, digits and hyphens. */
int agent_who_get(const uint8_t *p, size_t n, struct agent_who *ret);
