/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - the SSH protocol with one client, from the first byte to the last
 *
 * Theory of operation: the loop hears pandod, handles the client's requests, gives every channel a
 * turn, and waits in one poll for the client, pandod and the streams. Deadlines are pandod's: it
 * says LEAVE, or kills us.
 *
 * Memory is bounded both ways. The library buffers up to 1.25 MB per channel from the client before
 * it stops it; when pandod has not taken HELD_MAX of that, we read nothing more from the client
 * until it does. While bytes wait for a client that does not read, none are added.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "base/clock.h"
#include "sshmain/sshmain.h"

#define MESSAGES_PER_TURN 32
#define GOODBYE_MS 1000                  /* for the last bytes to leave */
#define LOOK_MS 1000                     /* how often everything is looked at, whatever poll says */
#define POLL_MAX (2 + SSHW_CHANNELS_MAX) /* client, pandod, streams */

void conn_end(struct conn *c, const char *why)
{
	if (c->leave)
		return;
	c->leave = true;
	snprintf(c->why, sizeof(c->why), "%s", why);
}

static bool closed(const struct conn *c)
{
	return ssh_get_status(c->s) & (SSH_CLOSED | SSH_CLOSED_ERROR);
}

bool conn_write_waits(const struct conn *c)
{
	return ssh_get_poll_flags(c->s) & SSH_WRITE_PENDING;
}

static bool begin(struct conn *c)
{
	c->s = ssh_new();
	if (!c->s || ssh_bind_accept_fd(c->bind, c->s, c->fd) != SSH_OK)
		return false;
	ssh_set_blocking(c->s, 0);
	ssh_set_counters(c->s, NULL, &c->seen);
	ssh_set_auth_methods(c->s, SSH_AUTH_METHOD_PASSWORD | SSH_AUTH_METHOD_INTERACTIVE);
	/* Sends our banner; the rest happens when the library reads the socket. */
	return ssh_handle_key_exchange(c->s) != SSH_ERROR;
}

/* Key exchange and login. */
static bool log_in(struct conn *c)
{
	while (!c->leave && !closed(c)) {
		struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN },
			               { .fd = c->sock, .events = POLLIN } };
		ssh_message m = ssh_message_get(c->s);

		if (m && login_message(c, m))
			return true;
		if (m)
			continue;
		if (closed(c))
			break;
		if (conn_write_waits(c))
			p[0].events |= POLLOUT;
		if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents)
			link_hear(c);
	}
	return false;
}

/* True: more messages may be waiting. */
static bool hear(struct conn *c)
{
	for (int i = 0; i < MESSAGES_PER_TURN && !c->leave; i++) {
		ssh_message m = ssh_message_get(c->s);

		if (!m)
			return false;
		session_message(c, m);
	}
	return true;
}

static void sweep(struct conn *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_chans; i++) {
		if (c->chans[i]->state == CHAN_OVER)
			chan_free(c->chans[i]);
		else
			c->chans[n++] = c->chans[i];
	}
	c->n_chans = n;
}

static bool turn(struct conn *c)
{
	bool moved = false;

	c->held = 0;
	c->turn++;
	for (size_t i = 0; i < c->n_chans; i++)
		moved |= chan_turn(c->chans[(i + c->turn) % c->n_chans]);
	sweep(c);
	return moved;
}

/* false: it is over. at_once: do not wait, something is left to do. */
static bool rest(struct conn *c, bool at_once)
{
	struct pollfd p[POLL_MAX] = { { .fd = c->fd }, { .fd = c->sock, .events = POLLIN } };
	nfds_t n = 2;

	if (c->held < HELD_MAX)
		p[0].events |= POLLIN;
	if (conn_write_waits(c))
		p[0].events |= POLLOUT;
	for (size_t i = 0; i < c->n_chans; i++) {
		short events = chan_events(c->chans[i]);

		if (events)
			p[n++] = (struct pollfd){ .fd = c->chans[i]->sock, .events = events };
	}
	if (poll(p, n, at_once ? 0 : LOOK_MS) < 0 && errno != EINTR)
		return false;
	return !(p[0].revents & (POLLERR | POLLNVAL));
}

/*
 * Whichever channel is read, the library takes packets of all of them from the socket: as long as
 * it did so in this turn, there may be something for a channel that had its turn before.
 */
static void serve(struct conn *c)
{
	while (!c->leave && !closed(c)) {
		uint64_t seen = c->seen.in_packets;
		bool busy = false, more;

		link_hear(c);
		if (!c->leave && (c->held < HELD_MAX || conn_write_waits(c)))
			busy = hear(c);
		if (c->leave)
			break;
		more = turn(c) || c->seen.in_packets != seen;
		if (c->leave || closed(c) || !rest(c, busy || more))
			break;
	}
}

/* The library writes at once only if it knows that the socket is writable; then it closes. */
static void say_goodbye(struct conn *c)
{
	uint64_t until = deadline_in(GOODBYE_MS);

	while (conn_write_waits(c) && !closed(c) && clock_ms() < until) {
		struct pollfd p = { .fd = c->fd, .events = POLLOUT };

		if (poll(&p, 1, deadline_left(until)) > 0)
			ssh_message_free(ssh_message_get(c->s));
	}
	if (closed(c))
		return;
	ssh_session_set_disconnect_message(c->s, c->why);
	ssh_disconnect(c->s);
}

static void finish(struct conn *c)
{
	char text[SSHW_TEXT_SIZE + 16];

	c->over = true;
	if (!c->leave)
		shutdown(c->sock, SHUT_RDWR); /* what the client used is free from now on */
	snprintf(text, sizeof(text), "pando: %s", c->why);
	/* Clients print the reason only if it is sent last. */
	for (size_t i = 0; i < c->n_chans && c->leave && !c->broken && !closed(c); i++)
		if (c->chans[i]->program && c->chans[i]->state == CHAN_OPEN)
			chan_say(c->chans[i], text);
	for (size_t i = 0; i < c->n_chans; i++)
		chan_free(c->chans[i]);
	if (!c->s)
		return;
	if (c->leave && !c->broken && !closed(c))
		say_goodbye(c);
	ssh_free(c->s);
}

void conn_run(struct conn *c)
{
	if (begin(c) && log_in(c))
		serve(c);
	finish(c);
}
