/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/agent/raw.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/io.h"
#include "tests/agent/util.h"

void raw_init(struct raw *w, int fd)
{
	*w = (struct raw){ .fd = fd };
	assert_int_equal(agent_rx_init(&w->rx), 0);
}

void raw_done(struct raw *w)
{
	agent_rx_done(&w->rx);
	buf_done(&w->in);
}

void raw_write(struct raw *w, const void *p, size_t n)
{
	const uint8_t *s = p;
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);

	while (n) {
		ssize_t k = send(w->fd, s, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k > 0) {
			s += k;
			n -= (size_t)k;
			continue;
		}
		if (k < 0 && (errno == EPIPE || errno == ECONNRESET))
			return; /* the test sees it when it reads */
		assert_int_equal(io_wait(w->fd, POLLOUT, deadline), 1);
	}
}

void raw_send(struct raw *w, uint16_t type, uint16_t flags, uint32_t stream, const void *p,
              size_t n)
{
	autobuf struct buf b = { 0 };

	agent_frame_put(&b, type, flags, stream, p, n);
	assert_false(b.failed);
	raw_write(w, b.p, b.len);
}

bool raw_recv(struct raw *w, struct agent_frame *ret)
{
	uint64_t deadline = deadline_in(TEST_DEADLINE_MS);

	for (;;) {
		int r = agent_rx_next(&w->rx, ret);
		size_t room;
		uint8_t *p;
		ssize_t n;

		if (r == 1) {
			buf_reset(&w->in);
			buf_put(&w->in, ret->payload, ret->len);
			ret->payload = w->in.p;
			return true;
		}
		assert_int_equal(r, 0);
		p = agent_rx_space(&w->rx, &room);
		assert_int_equal(io_wait(w->fd, POLLIN, deadline), 1);
		n = recv(w->fd, p, room, 0);
		if (n <= 0)
			return false;
		agent_rx_added(&w->rx, (size_t)n);
	}
}

void raw_expect(struct raw *w, uint16_t type, struct agent_frame *ret)
{
	do {
		if (!raw_recv(w, ret))
			fail_msg("closed while waiting for %s", agent_frame_name(type));
	} while (ret->type != type);
}

void raw_hello_fill(struct agent_hello *h, uint8_t reason, uint64_t generation)
{
	*h = (struct agent_hello){ .version_min = AGENT_VERSION_MIN,
		                   .version_max = AGENT_VERSION_MAX,
		                   .reason = reason,
		                   .generation = generation,
		                   .wall_ns = 1700000000000000000u };
	random_bytes(h->nonce, sizeof(h->nonce));
	random_bytes(h->entropy, sizeof(h->entropy));
	snprintf(h->machine_id, sizeof(h->machine_id), "0123456789abcdef0123456789abcdef");
	snprintf(h->hostname, sizeof(h->hostname), "raw");
}

void raw_hello(struct raw *w, uint8_t reason, uint64_t generation, struct agent_hello_ack *ret)
{
	autobuf struct buf b = { 0 };
	struct agent_hello h;
	struct agent_frame f;

	raw_hello_fill(&h, reason, generation);
	agent_hello_put(&b, &h);
	raw_send(w, AGENT_F_HELLO, 0, 0, b.p, b.len);
	raw_expect(w, AGENT_F_HELLO_ACK, &f);
	assert_int_equal(agent_hello_ack_get(f.payload, f.len, ret), 0);
	assert_memory_equal(ret->nonce, h.nonce, sizeof(h.nonce));
}

void raw_open_exec(struct raw *w, uint32_t stream, const char *command, bool with_stdin)
{
	static struct agent_exec_req m;
	autobuf struct buf b = { 0 };

	m = (struct agent_exec_req){ .command = command, .with_stdin = with_stdin };
	buf_put_u16(&b, AGENT_OP_EXEC);
	agent_exec_req_put(&b, &m);
	raw_send(w, AGENT_F_OPEN, 0, stream, b.p, b.len);
}

uint32_t raw_result(struct raw *w, uint32_t stream, struct agent_result *ret)
{
	struct agent_result m;
	struct agent_frame f;

	do {
		raw_expect(w, AGENT_F_RESULT, &f);
	} while (f.stream != stream);
	assert_int_equal(agent_result_get(f.payload, f.len, &m), 0);
	if (ret)
		*ret = m;
	return m.status;
}

bool raw_greet(struct raw *w)
{
	struct agent_hello_ack ack = { .version = AGENT_VERSION_MAX,
		                       .agent_version = "test",
		                       .steps_done = AGENT_STEPS_ALL,
		                       .failed_step = AGENT_STEP_NONE };
	autobuf struct buf b = { 0 };
	struct agent_hello h;
	struct agent_frame f;

	do {
		if (!raw_recv(w, &f))
			return false;
	} while (f.type != AGENT_F_HELLO);
	assert_int_equal(agent_hello_get(f.payload, f.len, &h), 0);
	memcpy(ack.nonce, h.nonce, sizeof(ack.nonce));
	ack.generation = h.generation;
	agent_hello_ack_put(&b, &ack);
	raw_send(w, AGENT_F_HELLO_ACK, 0, 0, b.p, b.len);
	return true;
}

/* Copies what is there; false when that side closed. */
static bool copy_some(int from, int to)
{
	uint8_t p[16384];
	ssize_t n = recv(from, p, sizeof(p), MSG_DONTWAIT);

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	for (ssize_t off = 0; off < n;) {
		ssize_t k = send(to, p + off, (size_t)(n - off), MSG_NOSIGNAL);

		if (k <= 0)
			return false;
		off += k;
	}
	return true;
}

static void *cable_main(void *arg)
{
	struct cable *c = arg;

	for (;;) {
		struct pollfd p[3] = { { .fd = c->agent_fd, .events = POLLIN },
			               { .fd = c->host_fd, .events = POLLIN },
			               { .fd = c->stop[0], .events = POLLIN } };

		if (poll(p, 3, -1) < 0)
			continue;
		if (p[2].revents)
			return NULL;
		if (p[0].revents && !copy_some(c->agent_fd, c->host_fd))
			return NULL;
		if (p[1].revents && !copy_some(c->host_fd, c->agent_fd))
			return NULL;
	}
}

void cable_join(struct cable *c, int agent_fd, int host_fd_consume)
{
	*c = (struct cable){ .agent_fd = agent_fd, .host_fd = host_fd_consume };
	assert_int_equal(pipe(c->stop), 0);
	assert_int_equal(pthread_create(&c->thread, NULL, cable_main, c), 0);
}

int cable_plug(struct cable *c, int agent_fd)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	cable_join(c, agent_fd, pair[0]);
	return pair[1];
}

void cable_pull(struct cable *c)
{
	assert_int_equal(write(c->stop[1], "x", 1), 1);
	shutdown(c->host_fd, SHUT_RDWR); /* a send to a host that does not read ends */
	pthread_join(c->thread, NULL);
	close(c->stop[0]);
	close(c->stop[1]);
	close(c->host_fd);
}
