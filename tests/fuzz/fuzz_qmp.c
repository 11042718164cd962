/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_qmp.c - what QEMU's monitor sends: one line through the parser, and all of it as a session
 *
 * A QEMU that its guest has taken over can send anything. The input is what it has sent when the
 * session begins, and then it hangs up: every call must return. The first byte says what we ask, or
 * that the rest is repeated beyond what a line may have; what we sent is checked to be one command
 * at a time, with rising numbers.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "engine/qmp.h"

#define INPUT_MAX 100000u
#define ENDLESS 0xff /* as the first byte: the rest again and again, longer than a line may be */
#define STEPS 4

static void try_line(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct qmp_msg m;

	if (qmp_parse((const char *)data, size, &m, &err) == 0) {
		must(m.body && strlen(m.name) < sizeof(m.name) && strlen(m.desc) < sizeof(m.desc));
		qmp_msg_done(&m);
	} else {
		must(err.msg[0]);
	}
}

/* Everything that was sent to the peer: objects, one behind the other, with ids from 1. */
static void check_sent(int fd)
{
	static char text[65536];
	ssize_t n = recv(fd, text, sizeof(text), MSG_DONTWAIT);
	size_t at = 0, want = 1;

	while (n > 0 && at < (size_t)n) {
		json_error_t je;
		json_t *j = json_loadb(text + at, (size_t)n - at, JSON_DISABLE_EOF_CHECK, &je);

		must(j && json_object_get(j, "execute"));
		must((size_t)json_integer_value(json_object_get(j, "id")) == want++);
		at += (size_t)je.position;
		json_decref(j);
	}
}

static int one_step(struct qmp *q, uint8_t what, uint64_t until, struct err *err)
{
	json_t *body = NULL;
	int r;

	switch (what % 4) {
	case 0:
		r = qmp_cmd(q, "query-status", NULL, until, &body, err);
		break;
	case 1:
		r = qmp_cmd(q, "cont", json_pack("{s:s}", "a", "b"), until, NULL, err);
		break;
	case 2:
		r = qmp_wait_event(q, "STOP", until, &body, err);
		break;
	default:
		r = qmp_wait_event(q, "RESUME", until, NULL, err);
		break;
	}
	json_decref(body);
	must(r == 0 || err->msg[0]);
	return r;
}

static void try_session(uint8_t asks, const uint8_t *data, size_t size)
{
	/* none of these waits for an answer that could still come: the peer has hung up */
	uint64_t until = deadline_in(10000);
	struct err err = { 0 };
	struct qmp *q = NULL;
	size_t times = asks == ENDLESS && size ? (QMP_LINE_MAX + 65536) / size : 1;
	int sv[2], room = 4 << 20;

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	must(setsockopt(sv[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) == 0 ||
	     setsockopt(sv[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0);
	if (times > 1) {
		autofree uint8_t *all = malloc(times * size);

		must(all != NULL);
		for (size_t i = 0; i < times; i++)
			memcpy(all + i * size, data, size);
		/* as much as there is room for: without root that is less */
		must(send(sv[1], all, times * size, MSG_DONTWAIT) > 0);
	} else {
		must(!size || send(sv[1], data, size, 0) == (ssize_t)size);
	}
	must(shutdown(sv[1], SHUT_WR) == 0);
	if (qmp_open(sv[0], until, &q, &err) == 0)
		for (int i = 0; i < STEPS; i++) {
			err = (struct err){ 0 };
			/* a command that failed by itself is not the end */
			if (one_step(q, (uint8_t)(asks >> 2 * i), until, &err) < 0 &&
			    err.code != -EREMOTEIO)
				break;
		}
	else
		must(err.msg[0]);
	qmp_free(q);
	check_sent(sv[1]);
	close(sv[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size < INPUT_MAX ? size : INPUT_MAX };
	uint8_t asks;

	try_line(data, size);
	asks = in_u8(&in);
	try_session(asks, in.p, in.n);
	return 0;
}
