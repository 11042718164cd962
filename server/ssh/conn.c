/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.c - one connection, from the first byte to the last
 *
 * Theory of operation: the connection is handed to a process of its own, which speaks SSH with the
 * client (sshmain/) and asks here for a login and for channels. Until the login there is one
 * deadline and one thing that may be asked. A login wakes the VM; from then on the connection
 * belongs to the running machine: when that ends (suspend, stop, delete) the connection ends, and
 * the client may connect again and wake it. The loop: handle the process's messages, give every
 * channel a turn, wait in one poll for the process, the guest or the next check. When the process
 * ends, so does the connection, and nothing else. If another node has the VM, that one does all of
 * it after the login (other.c).
 *
 * Memory is bounded both ways: the guest may send a window per flow, a stream holds
 * SSHW_STREAM_BYTES each way, and a channel one chunk of its own.
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
/* process, its log, stop, for each channel its stream and a flow, for each forward a flow */
#define POLL_MAX (3 + 2 * SSHD_CHANNELS_MAX + SSHD_FORWARDS_MAX)

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

/* The client is handed to a process; the next one is prepared. */
static bool begin(struct conn *c)
{
	struct sshw_msg m = { .kind = SSHW_CONNECT };
	struct err err = { 0 };
	char how[64];

	for (int i = 0; i < 2; i++) {
		if (speaker_take(c->d, &c->speaker, &err) < 0) {
			conn_log(c, LOG_LV_ERROR, "%s", err.msg);
			return false;
		}
		link_send(c, &m, c->fd);
		if (!c->gone)
			break;
		speaker_end(&c->speaker, 0, how); /* it ended while it waited */
		c->gone = i == 1;
	}
	speaker_prepare(c->d);
	return !c->gone;
}

/* What every wait is for: the process, what it logs, the end of the server. */
static void wait_for(struct conn *c, struct pollfd p[3], bool hear)
{
	p[0] = (struct pollfd){ .fd = hear ? c->speaker.sock : -1, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = c->speaker.errs, .events = POLLIN };
	p[2] = (struct pollfd){ .fd = c->d->stop_fd, .events = POLLIN };
}

static void waited(struct conn *c, const struct pollfd p[3])
{
	if (p[1].revents)
		link_take_lines(c);
	if (p[2].revents)
		conn_end(c, "the server is shutting down");
}

/* Key exchange and login, until the deadline. */
static bool log_in(struct conn *c)
{
	unsigned grace = c->d->deps.grace_ms ? c->d->deps.grace_ms : SSHD_GRACE_MS;
	uint64_t until = c->began + grace;

	while (!c->leave && !c->gone) {
		struct pollfd p[3];
		struct sshw_msg m;
		int got = link_hear(c, &m), ms;
		bool hear = link_may_ask(c, &ms);

		if (got && login_message(c, &m))
			return true;
		if (got)
			continue;
		if (clock_ms() >= until) {
			conn_end(c, "no login within %u s", grace / 1000);
			break;
		}
		wait_for(c, p, hear);
		ms = hear ? deadline_left(until) : MIN(ms, deadline_left(until));
		if (!c->gone && poll(p, ARRAY_SIZE(p), ms) > 0)
			waited(c, p);
	}
	return false;
}

/* Any use of a VM wakes it. */
static bool wake(struct conn *c)
{
	struct sshd_deps *deps = &c->d->deps;
	struct err err = { 0 };

	if (*c->unreachable) {
		conn_end(c, "%s %s cannot be used: %s", *c->name.repo ? "repository" : "VM",
		         *c->name.repo ? c->name.repo : c->name.vm, c->unreachable);
		return false;
	}
	if (*c->name.repo) /* there is no machine behind it */
		return true;
	if (vmm_guest(deps->vmm, c->who.account, c->name.vm, &c->g, &err) < 0) {
		conn_end(c, "VM %s cannot be used: %s", c->name.vm, err.msg);
		return false;
	}
	vmm_touch(deps->vmm, c->who.account, c->name.vm);
	return true;
}

/* Access may be revoked and the VM may go away while the connection is idle. */
static void look(struct conn *c)
{
	struct sshd_deps *deps = &c->d->deps;
	uint64_t now = clock_ms();
	struct vm_info vm;

	/* Checked at every turn, because it costs next to nothing: a push must not finish after
	 * access was revoked. */
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

/* True: more messages may be waiting. */
static bool hear(struct conn *c)
{
	for (int i = 0; i < MESSAGES_PER_TURN; i++) {
		struct sshw_msg m;

		if (!link_hear(c, &m))
			return false;
		session_message(c, &m);
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

	c->turn++;
	for (size_t i = 0; i < c->n_chans; i++)
		moved |= chan_turn(c->chans[(i + c->turn) % c->n_chans]);
	sweep(c);
	c->moved |= moved;
	return moved;
}

void conn_turn(struct conn *c)
{
	turn(c);
}

/* at_once: do not wait, something is left to do. */
static void rest(struct conn *c, bool at_once)
{
	struct pollfd p[POLL_MAX];
	nfds_t n = 3, at[SSHD_CHANNELS_MAX] = { 0 };
	int asks_ms, ms = deadline_left(c->look_at);
	bool may = link_may_ask(c, &asks_ms);

	wait_for(c, p, may);
	for (size_t i = 0; i < c->n_chans; i++) {
		const struct chan *x = c->chans[i];

		if (x->f || x->talk)
			p[n++] = (struct pollfd){ .fd = chan_fd(x), .events = POLLIN };
		/* without events its end is still reported */
		if (x->sock >= 0 && !x->closed) {
			at[i] = n;
			p[n++] = (struct pollfd){ .fd = x->sock, .events = chan_events(x) };
		}
	}
	for (size_t i = 0; i < c->n_forwards; i++)
		if (c->forwards[i]->next)
			p[n++] = (struct pollfd){ .fd = guest_flow_fd(c->forwards[i]->next),
				                  .events = POLLIN };
	if (poll(p, n, at_once ? 0 : may ? ms : MIN(ms, asks_ms)) <= 0)
		return;
	waited(c, p);
	for (size_t i = 0; i < c->n_chans; i++)
		if (at[i] && p[at[i]].revents & (POLLHUP | POLLERR))
			chan_hung_up(c->chans[i]);
}

static void serve(struct conn *c)
{
	while (!c->leave && !c->gone) {
		bool busy = hear(c), more = turn(c);

		forward_turn(c);
		look(c);
		if (c->leave || c->gone)
			break;
		rest(c, busy || more);
	}
}

static void free_chans(struct conn *c)
{
	for (size_t i = 0; i < c->n_chans; i++)
		chan_free(c->chans[i]);
	c->n_chans = 0;
}

static void finish(struct conn *c)
{
	for (size_t i = 0; i < c->n_forwards; i++)
		forward_free(c->forwards[i]);
	if (!c->leave) { /* the client has left, or its process died: what it ran is hung up on */
		if (c->fd >= 0)
			shutdown(c->fd, SHUT_RDWR);
		free_chans(c);
	}
	/* Otherwise it is told why first, as long as its streams are there. */
	link_end(c);
	if (c->fd >= 0)
		close(c->fd);
	free_chans(c);
	guest_unref(c->g);
}

void *conn_main(void *arg)
{
	struct conn *c = arg;

	/* One of another node is handed to a process there. */
	if ((c->fd < 0 || begin(c)) && log_in(c)) {
		if (c->other)
			other_serve(c);
		else if (wake(c))
			serve(c);
	}
	if (c->leave)
		conn_log(c, c->in ? LOG_LV_INFO : LOG_LV_DEBUG, "ended: %s", c->why);
	else if (c->in)
		conn_log(c, LOG_LV_DEBUG, "left %s%s", c->name.vm, c->name.repo);
	finish(c);
	sshd_door_leave(c);
	return NULL;
}
