/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_guest.h - a guest without a machine, for fuzz_api.c
 *
 * Whoever asks the manager for the guest of VM gets the host's end of a socket pair; a thread has
 * the other end and answers each request: as the script says, as long as there is one, then always
 * the same, every third time with an error.
 */
#pragma once

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/lock.h"
#include "guest/guest_internal.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/check.h"
#include "vm/vm.h"

#define VM "aaaaaaaaaaaaaaaaaaaa"

static struct {
	struct guest *g;
	int fd;
	pthread_t thread;
	struct mutex lock;
	struct in script GUARDED_BY(&lock);
} guest = { .fd = -1 };

/*
 * The next answer of the script: frames of type, flags, length (two bytes) and payload, up to one
 * of type NEXT. False: there is none. One without a result is ended when the host has said
 * everything, or a while later, by hanging up.
 */
#define NEXT 0xff
#define HANG_UP_MS 100
static bool take_script(int fd, uint32_t stream, uint32_t *pending)
{
	autobuf struct buf b = { 0 };
	bool any, ended = false;

	mutex_lock(&guest.lock);
	any = guest.script.n > 0;
	while (guest.script.n) {
		uint8_t type = in_u8(&guest.script), flags;
		struct in p;

		if (type == NEXT)
			break;
		flags = in_u8(&guest.script);
		p = in_take(&guest.script, in_u16(&guest.script));
		agent_frame_put(&b, type, flags, stream, p.p, p.n);
		ended |= type == AGENT_F_RESULT;
	}
	mutex_unlock(&guest.lock);
	if (b.len)
		(void)!send(fd, b.p, b.len, MSG_NOSIGNAL);
	if (any && !ended)
		*pending = stream;
	return any;
}

static void set_script(struct in in)
{
	mutex_lock(&guest.lock);
	guest.script = in;
	mutex_unlock(&guest.lock);
}

static void answer(int fd, uint32_t stream, unsigned nth, uint32_t *pending)
{
	static const uint8_t body[9]; /* a command that ended with 0 */
	struct agent_result m = { .status = nth % 3 ? 0 : ENOENT,
		                  .msg = nth % 3 ? "" : "it is not there",
		                  .body = body,
		                  .body_len = nth % 3 == 1 ? sizeof(body) : 0 };
	autobuf struct buf b = { 0 }, result = { 0 };

	if (take_script(fd, stream, pending))
		return;
	agent_result_put(&result, &m);
	agent_frame_put(&b, AGENT_F_OPENED, 0, stream, "\0\0\0\1\0\0\0\2", 8);
	agent_frame_put(&b, AGENT_F_DATA, AGENT_OUT, stream, "output", 6);
	agent_frame_put(&b, AGENT_F_RESULT, 0, stream, result.p, result.len);
	(void)!send(fd, b.p, b.len, MSG_NOSIGNAL);
}

static void finish(int fd, uint32_t stream)
{
	autobuf struct buf b = { 0 }, result = { 0 };

	agent_result_put(&result, &(struct agent_result){ .msg = "" });
	agent_frame_put(&b, AGENT_F_RESULT, 0, stream, result.p, result.len);
	(void)!send(fd, b.p, b.len, MSG_NOSIGNAL);
}

static void *guest_main(void *arg)
{
	struct agent_rx rx = { 0 };
	struct agent_frame f;
	uint32_t pending = 0;
	unsigned nth = 0;

	must(agent_rx_init(&rx) == 0);
	for (;;) {
		size_t room;
		uint8_t *p = agent_rx_space(&rx, &room);
		ssize_t n;

		if (pending && io_wait(guest.fd, POLLIN, deadline_in(HANG_UP_MS)) != 1)
			shutdown(guest.fd, SHUT_RDWR);
		n = recv(guest.fd, p, room, 0);
		if (n <= 0)
			break;
		agent_rx_added(&rx, (size_t)n);
		while (agent_rx_next(&rx, &f) == 1)
			if (f.type == AGENT_F_OPEN && !(f.flags & AGENT_OPEN_MORE))
				answer(guest.fd, f.stream, nth++, &pending);
			else if (f.type == AGENT_F_EOF && f.stream == pending)
				finish(guest.fd, TAKE(pending, 0));
	}
	agent_rx_done(&rx);
	return NULL;
}

static void guest_over(void)
{
	if (!guest.g)
		return;
	guest_close(guest.g);
	pthread_join(guest.thread, NULL);
	guest_unref(guest.g);
	close(TAKE_FD(guest.fd));
	guest.g = NULL;
}

static void guest_begin(void)
{
	int pair[2];

	guest_over();
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	must(guest_new("fuzz", pair[0], &guest.g, &err) == 0);
	guest.g->hello_begun = guest.g->greeted = true;
	must(reader_start(guest.g, &err) == 0);
	guest.fd = pair[1];
	must(pthread_create(&guest.thread, NULL, guest_main, NULL) == 0);
}

static int guest_of(const char *id, struct guest **ret)
{
	if (strcmp(id, VM) != 0)
		return -ENOENT;
	if (!guest.g || !guest_alive(guest.g))
		guest_begin();
	*ret = guest_ref(guest.g);
	return 0;
}

/* Before the manager's own, all three of them. */
#define WRAPPED(name)                                                                             \
	int __real_##name(struct vmm *m, const char *account, const char *id, struct guest **ret, \
	                  struct err *e);                                                         \
	int __wrap_##name(struct vmm *m, const char *account, const char *id, struct guest **ret, \
	                  struct err *e);                                                         \
	int __wrap_##name(struct vmm *m, const char *account, const char *id, struct guest **ret, \
	                  struct err *e)                                                          \
	{                                                                                         \
		return guest_of(id, ret) == 0 ? 0 : __real_##name(m, account, id, ret, e);        \
	}
WRAPPED(vmm_guest)
WRAPPED(vmm_guest_thawed)
WRAPPED(vmm_guest_running)
