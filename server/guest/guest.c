/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest.c - a connection's life: new, shared, ended, freed
 *
 * References are of two kinds. Users are the owner and those it lends the guest to; when the last
 * one drops its reference, the connection is closed. Our threads (reader, relays) keep the memory
 * until they have noticed that. The descriptor is shut down at the end of the connection and closed
 * when the memory is freed, so no thread ever polls a number that has been reused.
 */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/err.h"
#include "guest/guest_internal.h"

int guest_new(const char *vm_id, int fd_consume, struct guest **ret, struct err *err)
{
	autofd int fd = fd_consume;
	struct guest *g = calloc(1, sizeof(*g));

	if (!g || agent_rx_init(&g->rx) < 0) {
		free(g);
		return err_set(err, -ENOMEM, "out of memory for the agent channel");
	}
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
		agent_rx_done(&g->rx);
		free(g);
		return err_sys(err, -errno, "agent channel");
	}
	snprintf(g->vm_id, sizeof(g->vm_id), "%s", vm_id);
	mutex_init(&g->lock, "guest");
	cond_init(&g->turn);
	mutex_unshared(&g->lock);
	g->refs = g->users = 1;
	g->silence_ms = GUEST_SILENCE_MS;
	g->fd = TAKE_FD(fd);
	*ret = g;
	return 0;
}

void guest_hold(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	g->refs++;
}

static void guest_free(struct guest *g)
{
	mutex_unshared(&g->lock);
	for (size_t i = 0; i < AGENT_STREAMS_MAX; i++)
		if (g->streams[i])
			stream_free(g->streams[i]); /* abandoned: a caller would have a reference */
	close(g->fd);
	agent_rx_done(&g->rx);
	mutex_destroy(&g->lock);
	cond_destroy(&g->turn);
	free(g);
}

void guest_drop(struct guest *g)
{
	bool last;

	mutex_lock(&g->lock);
	last = --g->refs == 0;
	mutex_unlock(&g->lock);
	if (last)
		guest_free(g);
}

struct guest *guest_ref(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	g->users++;
	g->refs++;
	return g;
}

void guest_unref(struct guest *g)
{
	bool last;

	if (!g)
		return;
	mutex_lock(&g->lock);
	last = --g->users == 0;
	mutex_unlock(&g->lock);
	if (last)
		guest_close(g);
	guest_drop(g);
}

bool guest_alive(struct guest *g)
{
	silence_check(g);
	LOCK_SCOPE(&g->lock);
	return g->greeted && !g->dead;
}

bool guest_activity(struct guest *g, uint64_t *ret_marks)
{
	bool open = false;

	LOCK_SCOPE(&g->lock);
	for (size_t i = 0; i < AGENT_STREAMS_MAX && !open; i++)
		open = g->streams[i] && !g->streams[i]->abandoned && !g->streams[i]->done;
	*ret_marks = g->next_seq;
	return open && !g->dead;
}

static bool end_once(struct guest *g)
{
	LOCK_SCOPE(&g->lock);
	if (g->dead)
		return false;
	g->dead = true;
	cond_broadcast(&g->turn);
	for (size_t i = 0; i < AGENT_STREAMS_MAX; i++)
		if (g->streams[i])
			stream_wake(g->streams[i]);
	return true;
}

void guest_end(struct guest *g, enum log_level lv, const char *fmt, ...)
{
	char why[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (!end_once(g))
		return;
	guest_log(g, lv, "agent channel ended: %s", why);
	shutdown(g->fd, SHUT_RDWR);
}

int guest_gone(struct guest *g, struct err *err)
{
	return *g->why ? err_tag(err, -ECONNRESET, ERR_VM_NOT_RUNNING, "%s", g->why)
	               : err_set(err, -ECONNRESET, "the connection to the guest ended");
}

void guest_expect_end(struct guest *g, const char *why)
{
	LOCK_SCOPE(&g->lock);
	snprintf(g->why, sizeof(g->why), "%s", why);
}

void guest_close(struct guest *g)
{
	guest_end(g, LOG_LV_DEBUG, "closed by us");
}
