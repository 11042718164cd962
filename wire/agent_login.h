/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/agent_login.h - messages for remote shells and TCP connections; for agent/ and server/guest/
 *
 * login runs a user's own shell, on pipes or on a terminal; dial is a TCP connection from the
 * guest to any address; listen and accept are for connections to the guest. docs/PROTOCOL.agent.md
 * explains them.
 */
#pragma once

#include "wire/agent.h"

#define AGENT_LOGIN_ENV 128u /* variables of one login */
#define AGENT_ADDR_MAX 46u   /* bytes with NUL of a numeric address */

struct agent_login_req {     /* login */
	const char *user;    /* "": the agent's own */
	const char *command; /* run by the user's shell; "": a login shell */
	uint16_t cols, rows; /* of its terminal; both 0: none, three pipes */
	uint16_t n_env;
	const char *env[AGENT_LOGIN_ENV];
};
void agent_login_req_put(struct buf *b, const struct agent_login_req *m);
int agent_login_req_get(struct rd *c, struct agent_login_req *ret);

/* dial: where to; listen: "user, port"; OPENED of accept: the other side */
struct agent_addr {
	const char *text; /* dial, accept: numeric address; listen: user, "" is root */
	uint16_t port;
};
void agent_addr_put(struct buf *b, const struct agent_addr *m);
int agent_dial_get(struct rd *c, struct agent_addr *ret);
int agent_listen_get(struct rd *c, struct agent_addr *ret);
/* OPENED of accept */
int agent_peer_get(const uint8_t *p, size_t n, struct agent_addr *ret);
