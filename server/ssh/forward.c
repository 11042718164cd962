/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - connections from the guest to the client: -R
 *
 * The agent listens on the guest's loopback, whatever address the client named. For each port one
 * accept is pending in the guest; when it succeeds, the client is asked to accept the connection
 * and the next accept is started; further connections wait in the guest's kernel. The process waits
 * for the answer to a listen, so we wait for the agent: it answers at once.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "ssh/ssh_internal.h"

void forward_free(struct forward *w)
{
	if (!w)
		return;
	guest_flow_close(w->next);
	guest_flow_close(w->listener);
	free(w);
}

static int await_listener(struct forward *w, struct err *err)
{
	uint64_t until = deadline_in(SSHD_LISTEN_MS);

	for (;;) {
		int r = guest_flow_opened(w->listener, err);

		if (r == 1)
			return guest_listen_port(w->listener, &w->port, err);
		if (r < 0)
			return r;
		r = io_wait(guest_flow_fd(w->listener), POLLIN, until);
		if (r == 0)
			return err_set(err, -ETIMEDOUT, "the guest does not answer");
		guest_flow_seen(w->listener);
	}
}

static bool listen_to(struct conn *c, const char *bound, int port, uint16_t *ret_port)
{
	struct forward *w = c->n_forwards < SSHD_FORWARDS_MAX ? calloc(1, sizeof(*w)) : NULL;
	const char *user = *c->name.user ? c->name.user : NULL;
	struct err err = { 0 };

	if (!w)
		return false;
	snprintf(w->bound, sizeof(w->bound), "%s", bound);
	if (guest_listen(c->g, user, (uint16_t)port, &w->listener, &err) < 0 ||
	    await_listener(w, &err) < 0 || guest_accept(w->listener, &w->next, &err) < 0) {
		conn_log(c, LOG_LV_DEBUG, "listen on port %d of the guest: %s", port, err.msg);
		forward_free(w);
		return false;
	}
	*ret_port = w->port;
	c->forwards[c->n_forwards++] = w;
	return true;
}

static bool forget(struct conn *c, const char *bound, int port)
{
	for (size_t i = 0; i < c->n_forwards; i++) {
		struct forward *w = c->forwards[i];

		if (w->port != port || strcmp(w->bound, bound) != 0)
			continue;
		c->forwards[i] = c->forwards[--c->n_forwards];
		forward_free(w);
		return true;
	}
	return false;
}

void forward_request(struct conn *c, const struct sshw_msg *m)
{
	uint16_t got = 0;
	bool done = m->kind == SSHW_LISTEN ? listen_to(c, m->host, m->port, &got)
	                                   : forget(c, m->host, m->port);

	link_answer(c, done, got, -1);
}

/* A connection arrived: the client is asked to accept it, with the stream. */
static void knock(struct chan *x, const struct forward *w)
{
	struct sshw_msg m = { .kind = SSHW_KNOCK, .id = x->id, .port = w->port };
	struct err err = { 0 };
	autofd int fd = -1;

	snprintf(m.host, sizeof(m.host), "%s", w->bound);
	if (guest_accept_peer(x->f, m.from, &m.from_port, &err) < 0 || (fd = chan_stream(x)) < 0) {
		chan_over(x);
		return;
	}
	link_send(x->c, &m, fd);
	x->state = CHAN_OPEN;
}

/* Takes the connection and starts the next accept. false: the port can no longer be used. */
static bool knocked(struct conn *c, struct forward *w)
{
	struct guest_flow *f = TAKE_PTR(w->next);
	struct err err = { 0 };
	struct chan *x = chan_new(c, SSHW_GUESTS_ID | (c->next_knock++ & ~SSHW_GUESTS_ID));

	if (x) {
		x->f = f;
		knock(x, w);
	} else {
		guest_flow_close(f); /* one too many: closed */
	}
	return guest_accept(w->listener, &w->next, &err) == 0;
}

void forward_turn(struct conn *c)
{
	for (size_t i = 0; i < c->n_forwards; i++) {
		struct forward *w = c->forwards[i];
		struct err err = { 0 };
		int r;

		guest_flow_seen(w->next);
		r = guest_flow_opened(w->next, &err);
		if (r == 0 || (r == 1 && knocked(c, w)))
			continue;
		conn_log(c, LOG_LV_DEBUG, "port %u of the guest: %s", w->port, err.msg);
		c->forwards[i--] = c->forwards[--c->n_forwards];
		forward_free(w);
	}
}
