/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - one connection, from the first byte to the last
 *
 * Theory of operation: key exchange and login have one deadline. A login wakes the VM; from then on
 * the connection belongs to the machine that runs: when that ends (suspend, stop, delete) the
 * connection ends, and the client may come again and wake it. The loop: take what the client asks
 * for, give every channel a turn, wait in one poll for client, guest, or the next look.
 *
 * Memory is bounded both ways. The guest may send a window per flow. From the client the library
 * takes up to 1.25 MB per channel before it holds the client up; when the guest does not take
 * SSHD_HELD_MAX of that, we read nothing more from the client until it does. While bytes wait for
 * a client that does not read, none are added.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "ssh/ssh_internal.h"

#define MESSAGES_PER_TURN 32
#define GOODBYE_MS 1000 /* for the last bytes to leave */
/* client, stop, and for each channel and each forward a flow */
#define POLL_MAX (2 + SSHD_CHANNELS_MAX + SSHD_FORWARDS_MAX)

void conn_end(struct conn *c, const char *fmt, ...)
{
	va_list ap;

	if (c->leave)
		return;
	c->leave = true;
	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
}

static bool closed(const struct conn *c)
{
	return ssh_get_status(c->s) & (SSH_CLOSED | SSH_CLOSED_ERROR);
}

bool conn_write_waits(const struct conn *c)
{
	return ssh_get_poll_flags(c->s) & SSH_WRITE_PENDING;
}

static int begin(struct conn *c)
{
	int r;

	c->s = ssh_new();
	if (!c->s)
		return -ENOMEM;
	mutex_lock(&c->d->lock);
	r = ssh_bind_accept_fd(c->d->bind, c->s, c->fd);
	mutex_unlock(&c->d->lock);
	if (r != SSH_OK) {
		if (ssh_get_fd(c->s) != c->fd)
			close(c->fd); /* it did not get as far as taking it */
		return -EIO;
	}
	ssh_set_blocking(c->s, 0);
	ssh_set_auth_methods(c->s, SSH_AUTH_METHOD_PASSWORD | SSH_AUTH_METHOD_INTERACTIVE);
	/* Sends our banner; the rest happens whenever the library reads the socket. */
	return ssh_handle_key_exchange(c->s) == SSH_ERROR ? -EPROTO : 0;
}

/* Key exchange and login, until the deadline. */
static bool log_in(struct conn *c)
{
	unsigned grace = c->d->deps.grace_ms ? c->d->deps.grace_ms : SSHD_GRACE_MS;
	uint64_t until = c->began + grace;

	while (!c->leave && !closed(c)) {
		struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN },
			               { .fd = c->d->stop_fd, .events = POLLIN } };
		ssh_message m = ssh_message_get(c->s);

		if (m && login_message(c, m))
			return true;
		if (m)
			continue;
		if (closed(c))
			break;
		if (conn_write_waits(c))
			p[0].events |= POLLOUT;
		if (clock_ms() >= until) {
			conn_end(c, "no login within %u s", grace / 1000);
			break;
		}
		if (poll(p, ARRAY_SIZE(p), deadline_left(until)) < 0 && errno != EINTR)
			break;
		if (p[1].revents)
			conn_end(c, "the server is shutting down");
	}
	return false;
}

/* Any use of a VM wakes it. */
static bool wake(struct conn *c)
{
	struct sshd_deps *deps = &c->d->deps;
	struct err err = { 0 };

	if (*c->name.repo) /* there is no machine behind it */
		return true;
	if (vmm_guest(deps->vmm, c->who.account, c->name.vm, &c->g, &err) < 0) {
		conn_end(c, "VM %s cannot be used: %s", c->name.vm, err.msg);
		return false;
	}
	vmm_touch(deps->vmm, c->who.account, c->name.vm);
	return true;
}

/* Rights may be withdrawn and the VM may go away while nothing moves. */
static void look(struct conn *c)
{
	struct sshd_deps *deps = &c->d->deps;
	uint64_t now = clock_ms();
	struct vm_info vm;

	/* Costs next to nothing: a push must not come to its end in the second it has left. */
	if ((*c->name.repo || now >= c->look_at) && !auth_lease_holds(deps->auth, &c->lease))
		conn_end(c, "your access was revoked");
	if (now < c->look_at)
		return;
	c->look_at = now + SSHD_LOOK_MS;
	if (*c->name.repo)
		return;
	if (TAKE(c->moved, false))
		vmm_touch(deps->vmm, c->who.account, c->name.vm);
	if (guest_alive(c->g))
		return;
	if (vmm_get(deps->vmm, c->who.account, c->name.vm, &vm, NULL) < 0)
		conn_end(c, "VM %s was deleted", c->name.vm);
	else
		conn_end(c, "the connection to VM %s ended: it is %s", c->name.vm,
		         vm_state_name(vm.state));
}

/* True: more may be waiting than was looked at. */
static bool hear(struct conn *c)
{
	for (int i = 0; i < MESSAGES_PER_TURN; i++) {
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
	forward_turn(c);
	sweep(c);
	c->moved |= moved;
	return moved;
}

/* false: it is over. at_once: something is left to do. */
static bool rest(struct conn *c, bool at_once)
{
	struct pollfd p[POLL_MAX] = { { .fd = c->fd }, { .fd = c->d->stop_fd, .events = POLLIN } };
	nfds_t n = 2;

	if (c->held < SSHD_HELD_MAX)
		p[0].events |= POLLIN;
	if (conn_write_waits(c))
		p[0].events |= POLLOUT;
	for (size_t i = 0; i < c->n_chans; i++)
		if (c->chans[i]->f || c->chans[i]->talk)
			p[n++] = (struct pollfd){ .fd = chan_fd(c->chans[i]), .events = POLLIN };
	for (size_t i = 0; i < c->n_forwards; i++)
		if (c->forwards[i]->next)
			p[n++] = (struct pollfd){ .fd = guest_flow_fd(c->forwards[i]->next),
				                  .events = POLLIN };
	if (poll(p, n, at_once ? 0 : deadline_left(c->look_at)) < 0 && errno != EINTR)
		return false;
	if (p[1].revents)
		conn_end(c, "the server is shutting down");
	return !(p[0].revents & (POLLERR | POLLNVAL));
}

static void serve(struct conn *c)
{
	bool more = true;

	while (!c->leave && !closed(c)) {
		bool busy = false;

		if (c->held < SSHD_HELD_MAX || conn_write_waits(c))
			busy = hear(c);
		more = turn(c);
		look(c);
		if (c->leave || closed(c) || !rest(c, busy || more))
			break;
	}
}

/* The library writes at once only when it has heard that the socket takes it; then it closes. */
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
	/* Clients print the reason only if it is sent last. */
	for (size_t i = 0; i < c->n_chans && c->leave && !c->broken && !closed(c); i++)
		if (c->chans[i]->program && c->chans[i]->state == CHAN_OPEN)
			chan_say(c->chans[i], "pando: %s", c->why);
	for (size_t i = 0; i < c->n_chans; i++)
		chan_free(c->chans[i]);
	for (size_t i = 0; i < c->n_forwards; i++)
		forward_free(c->forwards[i]);
	if (!c->s) {
		close(c->fd);
	} else {
		if (c->leave && !c->broken && !closed(c))
			say_goodbye(c);
		ssh_free(c->s);
	}
	guest_unref(c->g);
}

void *conn_main(void *arg)
{
	struct conn *c = arg;

	if (begin(c) == 0 && log_in(c) && wake(c))
		serve(c);
	if (c->leave)
		conn_log(c, c->in ? LOG_LV_INFO : LOG_LV_DEBUG, "ended: %s", c->why);
	else if (c->in)
		conn_log(c, LOG_LV_DEBUG, "left %s%s", c->name.vm, c->name.repo);
	finish(c);
	sshd_door_leave(c);
	return NULL;
}
