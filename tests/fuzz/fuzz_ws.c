/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ws.c - a client's end of a WebSocket
 *
 * The input is steps: a byte with the frame's first byte, a length (two bytes), a payload; made a
 * masked frame. RAW as the first byte sends the payload as it is. What we get back is a message
 * within its limit, texts are UTF-8, and replies, parts and pings go out meanwhile.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "pty/ws.h"
#include "tests/fuzz/fuzz.h"

#define RAW 0x70 /* reserved bits: nobody sends such a frame by mistake */
#define STEPS_MAX 64

struct side {
	struct ws *w;
	unsigned messages;
};

static void on_message(void *ctx, bool text, const uint8_t *p, size_t n)
{
	struct side *s = ctx;

	must(n <= WS_MESSAGE_MAX && (!text || utf8_valid((const char *)p, n)));
	switch (s->messages++ % 4) {
	case 0:
		(void)ws_text(s->w, "text", 4);
		(void)ws_binary(s->w, p, n);
		break;
	case 1:
		(void)ws_part(s->w, p, n, n % 2);
		break;
	case 2:
		(void)ws_ping(s->w);
		break;
	default:
		(void)ws_close(s->w, WS_POLICY, "enough");
	}
}

static void send_frame(int fd, uint8_t first, struct in p)
{
	static const uint8_t mask[4] = { 1, 2, 3, 4 };
	autobuf struct buf b = { 0 };

	if (first == RAW) {
		(void)!send(fd, p.p, p.n, MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	buf_put_u8(&b, first);
	if (p.n < 126) {
		buf_put_u8(&b, (uint8_t)(0x80 | p.n));
	} else {
		buf_put_u8(&b, 0x80 | 126);
		buf_put_u16(&b, (uint16_t)p.n);
	}
	buf_put(&b, mask, sizeof(mask));
	for (size_t i = 0; i < p.n; i++)
		buf_put_u8(&b, p.p[i] ^ mask[i % 4]);
	(void)!send(fd, b.p, b.len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = { data, size };
	struct in early = in_take(&in, in_u8(&in) % 16);
	struct side s = { 0 };
	uint8_t trash[4096];
	int pair[2], r = 0;

	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	s.w = ws_new(pair[0], early.p, early.n, on_message, &s);
	must(s.w != NULL);
	for (int i = 0; in.n && r == 0 && i < STEPS_MAX; i++) {
		uint8_t first = in_u8(&in);

		send_frame(pair[1], first, in_take(&in, in_u16(&in)));
		r = ws_move(s.w, true);
		must(r == 0 || r == -EPIPE || r == -ENOTCONN);
		(void)ws_events(s.w, true);
		must(ws_queued(s.w) <= 8u << 20 && ws_heard_ms(s.w) > 0);
		while (recv(pair[1], trash, sizeof(trash), MSG_DONTWAIT) > 0)
			;
	}
	shutdown(pair[1], SHUT_RDWR);
	if (r == 0)
		(void)ws_move(s.w, true);
	ws_free(s.w);
	close(pair[0]);
	close(pair[1]);
	return 0;
}
