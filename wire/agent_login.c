/* SPDX-License-Identifier: Apache-2.0 */
/* agent_login.c - encoder and decoder of the messages of logins and TCP connections */
#include "wire/agent_login.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "wire/agent_pty.h"

void agent_login_req_put(struct buf *b, const struct agent_login_req *m)
{
	agent_text_put(b, m->user);
	agent_text_put(b, m->command);
	buf_put_u16(b, m->cols);
	buf_put_u16(b, m->rows);
	agent_env_put(b, m->env, m->n_env);
}

int agent_login_req_get(struct rd *c, struct agent_login_req *ret)
{
	if (agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_COMMAND_MAX, &ret->command) < 0 || rd_u16(c, &ret->cols) < 0 ||
	    rd_u16(c, &ret->rows) < 0 ||
	    agent_env_get(c, AGENT_LOGIN_ENV, ret->env, &ret->n_env) < 0)
		return -EBADMSG;
	if ((ret->cols || ret->rows) && !agent_pty_size_valid(ret->cols, ret->rows))
		return -EBADMSG;
	return rd_end(c);
}

void agent_addr_put(struct buf *b, const struct agent_addr *m)
{
	agent_text_put(b, m->text);
	buf_put_u16(b, m->port);
}

static bool numeric(const char *text)
{
	struct in6_addr a;

	return inet_pton(AF_INET, text, &a) == 1 || inet_pton(AF_INET6, text, &a) == 1;
}

int agent_dial_get(struct rd *c, struct agent_addr *ret)
{
	if (agent_text_get(c, AGENT_ADDR_MAX, &ret->text) < 0 || rd_u16(c, &ret->port) < 0 ||
	    !ret->port || !numeric(ret->text))
		return -EBADMSG;
	return rd_end(c);
}

int agent_listen_get(struct rd *c, struct agent_addr *ret)
{
	if (agent_text_get(c, AGENT_USER_MAX, &ret->text) < 0 || rd_u16(c, &ret->port) < 0)
		return -EBADMSG;
	return rd_end(c);
}

int agent_peer_get(const uint8_t *p, size_t n, struct agent_addr *ret)
{
	struct rd c = rd_of(p, n);

	if (agent_text_get(&c, AGENT_ADDR_MAX, &ret->text) < 0 || rd_u16(&c, &ret->port) < 0 ||
	    !numeric(ret->text))
		return -EBADMSG;
	return rd_end(&c);
}
