/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward.c - connections of the client into the guest (-L, -D, -W, -J) and from there (-R)
 *
 * pandod makes them. The client of a connection into the guest is answered when pandod says that it
 * is established or has failed; one from the guest is there when pandod tells of it, and the client
 * is asked to accept it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sshmain/sshmain.h"

void direct_open(struct conn *c, ssh_message m_consume)
{
	const char *host = ssh_message_channel_request_open_destination(m_consume);
	int port = ssh_message_channel_request_open_destination_port(m_consume);
	struct sshw_msg q = { .kind = SSHW_DIRECT, .id = c->next_id & ~SSHW_GUESTS_ID };
	struct chan *x = host && strlen(host) < sizeof(q.host) && port >= 1 && port <= UINT16_MAX
	                         ? chan_new(c, q.id)
	                         : NULL;

	c->next_id++;
	if (!x) {
		ssh_message_reply_default(m_consume);
		ssh_message_free(m_consume);
		return;
	}
	x->asked = m_consume;
	x->state = CHAN_DIALING;
	snprintf(q.host, sizeof(q.host), "%s", host);
	q.port = (uint16_t)port;
	link_tell(c, &q);
}

void direct_dialed(struct conn *c, uint32_t id, int fd_consume)
{
	struct chan *x = chan_find(c, id);

	if (!x || x->state != CHAN_DIALING) {
		if (fd_consume >= 0)
			close(fd_consume);
		return;
	}
	x->sock = fd_consume;
	x->state = CHAN_DIALED;
}

void direct_turn(struct chan *x)
{
	if (x->state != CHAN_DIALED)
		return;
	if (x->sock < 0) {
		chan_over(x); /* answers the client with "no" */
		return;
	}
	x->ch = ssh_message_channel_request_open_reply_accept(x->asked);
	ssh_message_free(TAKE_PTR(x->asked));
	x->state = x->ch ? CHAN_OPEN : CHAN_OVER;
}

void forward_request(struct conn *c, ssh_message m)
{
	const char *bound = ssh_message_global_request_address(m);
	int port = ssh_message_global_request_port(m);
	int what = ssh_message_subtype(m);
	struct sshw_msg q = { .kind = what == SSH_GLOBAL_REQUEST_TCPIP_FORWARD ? SSHW_LISTEN
		                                                               : SSHW_CANCEL };
	uint16_t got = 0;
	bool done = false;

	if ((what == SSH_GLOBAL_REQUEST_TCPIP_FORWARD ||
	     what == SSH_GLOBAL_REQUEST_CANCEL_TCPIP_FORWARD) &&
	    bound && strlen(bound) < sizeof(q.host) && port >= 0 && port <= UINT16_MAX) {
		snprintf(q.host, sizeof(q.host), "%s", bound);
		q.port = (uint16_t)port;
		done = link_ask(c, &q, &got, NULL);
	}
	if (done)
		ssh_message_global_request_reply_success(m, got);
	else
		ssh_message_reply_default(m);
}

void forward_knock(struct conn *c, const struct sshw_msg *m, int fd_consume)
{
	struct chan *x = fd_consume >= 0 ? chan_new(c, m->id) : NULL;

	if (!x) {
		if (fd_consume >= 0)
			close(fd_consume); /* one too many */
		return;
	}
	x->sock = fd_consume;
	x->state = CHAN_KNOCKING;
	x->deadline = deadline_in(KNOCK_MS);
	memcpy(x->host, m->host, sizeof(x->host));
	memcpy(x->from, m->from, sizeof(x->from));
	x->port = m->port;
	x->from_port = m->from_port;
}

void forward_turn(struct chan *x)
{
	int r;

	if (!x->ch && !(x->ch = ssh_channel_new(x->c->s))) {
		chan_over(x);
		return;
	}
	r = ssh_channel_open_reverse_forward(x->ch, x->host, x->port, x->from, x->from_port);
	if (r == SSH_OK)
		x->state = CHAN_OPEN;
	else if (r != SSH_AGAIN || clock_ms() >= x->deadline)
		chan_over(x);
}
