/* SPDX-License-Identifier: Apache-2.0 */
/* login.c - remote shells, connections from the guest, its ports: requests and their OPENED
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"
#include "guest/guest_login.h"
#include "wire/agent_login.h"
#include "wire/agent_pty.h"

#define RESIZE_MS 10000
#define COLS_DEFAULT 80 /* if the client does not know */
#define ROWS_DEFAULT 24

static int no_sense(struct err *err)
{
	return err_set(err, -EPROTO, "the guest sent a malformed reply");
}

static int begin(struct guest *g, const struct buf *req, struct guest_flow **ret, struct err *err)
{
	return flow_open(g, req, deadline_in(GUEST_NO_ANSWER_MS), ret, err);
}

int guest_login(struct guest *g, const struct guest_login_req *req, struct guest_flow **ret,
                struct err *err)
{
	struct agent_login_req m = { .user = req->user,
		                     .command = req->command,
		                     .cols = (uint16_t)req->cols,
		                     .rows = (uint16_t)req->rows };
	autobuf struct buf b = { 0 };

	if (req->command && strlen(req->command) >= AGENT_COMMAND_MAX)
		return err_set(err, -E2BIG, "the command is longer than a shell takes");
	for (; req->env && req->env[m.n_env]; m.n_env++) {
		if (m.n_env == AGENT_LOGIN_ENV)
			return err_set(err, -E2BIG, "more than %u variables", AGENT_LOGIN_ENV);
		m.env[m.n_env] = req->env[m.n_env];
	}
	buf_put_u16(&b, AGENT_OP_LOGIN);
	agent_login_req_put(&b, &m);
	return begin(g, &b, ret, err);
}

void guest_login_fit(unsigned *cols, unsigned *rows)
{
	*cols = MIN(*cols ? *cols : COLS_DEFAULT, AGENT_PTY_COLS_MAX);
	*rows = MIN(*rows ? *rows : ROWS_DEFAULT, AGENT_PTY_CELLS_MAX / *cols);
	*rows = MIN(*rows, AGENT_PTY_ROWS_MAX);
}

int guest_login_resize(struct guest_flow *f, unsigned cols, unsigned rows, struct err *err)
{
	autobuf struct buf b = { 0 };

	guest_login_fit(&cols, &rows);
	buf_put_u16(&b, AGENT_OP_PTY_RESIZE);
	agent_pty_resize_put(&b, &(struct agent_pty_resize){ .stream = f->s->id,
	                                                     .cols = (uint16_t)cols,
	                                                     .rows = (uint16_t)rows });
	return guest_call(f->g, &b, deadline_in(RESIZE_MS), NULL, err);
}

int guest_flow_signal(struct guest_flow *f, unsigned sig, struct err *err)
{
	uint8_t p[4];

	put_be32(p, sig);
	return guest_send(f->g, AGENT_F_SIGNAL, 0, f->s->id, p, sizeof(p),
	                  deadline_in(GUEST_SEND_MS), err);
}

int guest_dial(struct guest *g, const char *addr, uint16_t port, struct guest_flow **ret,
               struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, addr ? AGENT_OP_DIAL : AGENT_OP_CONNECT);
	if (addr)
		agent_addr_put(&b, &(struct agent_addr){ .text = addr, .port = port });
	else
		buf_put_u16(&b, port);
	return begin(g, &b, ret, err);
}

int guest_listen(struct guest *g, const char *user, uint16_t port, struct guest_flow **ret,
                 struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, AGENT_OP_LISTEN);
	agent_addr_put(&b, &(struct agent_addr){ .text = user ? user : "", .port = port });
	return begin(g, &b, ret, err);
}

int guest_accept(struct guest_flow *listener, struct guest_flow **ret, struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, AGENT_OP_ACCEPT);
	buf_put_u32(&b, listener->s->id);
	return begin(listener->g, &b, ret, err);
}

void guest_flow_seen(struct guest_flow *f)
{
	eventfd_t count;

	eventfd_read(f->s->event_fd, &count); /* nothing there is fine */
}

int guest_flow_opened(struct guest_flow *f, struct err *err)
{
	bool opened, done;
	int gone = 0;

	mutex_lock(&f->g->lock);
	opened = f->s->opened;
	done = f->s->done;
	if (f->g->dead)
		gone = guest_gone(f->g, err);
	mutex_unlock(&f->g->lock);
	if (opened)
		return 1;
	if (done) {
		int r = guest_flow_result(f, err);

		if (r == -EOPNOTSUPP)
			return err_set(err, -ENOTSUP,
			               "this VM was created by an older version of Pando: stop and "
			               "start it");
		return r < 0 ? r : no_sense(err);
	}
	return gone;
}

int guest_listen_port(struct guest_flow *f, uint16_t *ret, struct err *err)
{
	struct rd c = rd_of(f->s->opened_with, f->s->opened_len);
	LOCK_SCOPE(&f->g->lock); /* a guest may repeat it */

	return rd_u16(&c, ret) < 0 || rd_end(&c) < 0 || !*ret ? no_sense(err) : 0;
}

int guest_accept_peer(struct guest_flow *f, char ret_addr[GUEST_ADDR_SIZE], uint16_t *ret_port,
                      struct err *err)
{
	struct agent_addr m;
	LOCK_SCOPE(&f->g->lock);

	if (agent_peer_get(f->s->opened_with, f->s->opened_len, &m) < 0)
		return no_sense(err);
	snprintf(ret_addr, GUEST_ADDR_SIZE, "%s", m.text);
	*ret_port = m.port;
	return 0;
}

bool guest_flow_eof(struct guest_flow *f, int chan)
{
	LOCK_SCOPE(&f->g->lock);

	return (f->s->rx[chan].eof || f->s->done) && !f->s->rx[chan].b.len &&
	       f->off[chan] == f->got[chan].len;
}
