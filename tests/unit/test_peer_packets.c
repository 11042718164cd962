/* SPDX-License-Identifier: Apache-2.0 */
/* test_peer_packets.c - packets and streams between nodes: peer/packets.c */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/peer_fx.h"

/* One end of a connection, with the socket whose packets it carries. */
struct side {
	struct peer *c;
	int carried, ours; /* owned */
	struct peer_carry how;
	pthread_t thread;
	int r;
};

static void *side_main(void *arg)
{
	struct side *s = arg;
	struct err e = { 0 };

	s->r = peer_carry(s->c, s->carried, &s->how, &e);
	close(s->carried);
	return NULL;
}

static void side_pair(struct side *s)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	s->carried = pair[0];
	s->ours = pair[1];
}

static void on_port(void *ctx, struct peer *c)
{
	struct side *s = ctx;
	struct err e = { 0 };
	uint32_t asked;

	OK(peer_hear(c, &asked, sizeof(asked), &e));
	if (asked != 7) {
		err_tag(&e, -ENOENT, ERR_NOT_FOUND, "there is no %u", asked);
		OK(peer_tell(c, -ENOENT, &e, 0));
		return;
	}
	OK(peer_tell(c, 0, NULL, asked + 1));
	s->c = c;
	side_main(s);
}

static void side_begin(struct pair *b, struct side *mine, struct side *other)
{
	uint32_t seven = 7, six = 6, value;

	side_pair(mine);
	side_pair(other);
	peers_serve(b->q, PEER_PORT, on_port, other);
	OK(peer_dial(b->p, node_id(b->f->m), PEER_PORT, &mine->c, &err));
	assert_int_equal(peer_ask(mine->c, &six, sizeof(six), &value, &err), -ENOENT);
	assert_string_equal(err.msg, "there is no 6");
	peer_drop(mine->c);
	OK(peer_dial(b->p, node_id(b->f->m), PEER_PORT, &mine->c, &err));
	OK(peer_ask(mine->c, &seven, sizeof(seven), &value, &err));
	assert_int_equal(value, 8);
	assert_int_equal(pthread_create(&mine->thread, NULL, side_main, mine), 0);
}

/* The next packet, which must be that text; with a descriptor if ret_fd is not NULL. */
static void hear(int fd, const char *want, int *ret_fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int fds[1] = { -1 };
	char buf[64];
	size_t n = 0;

	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(sock_recv_fds(fd, buf, sizeof(buf), fds, 1, &n), strlen(want));
	assert_memory_equal(buf, want, strlen(want));
	assert_int_equal(n, ret_fd ? 1 : 0);
	if (ret_fd)
		*ret_fd = fds[0];
}

static void says(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* As many packets as go in until nobody takes any for a while; each begins with its number. */
static uint32_t fill(int fd)
{
	char packet[4096] = { 0 };
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	uint32_t n = 0;

	for (; n < 10000; n++) {
		memcpy(packet, &n, sizeof(n));
		if (send(fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		    (poll(&p, 1, 1000) <= 0 ||
		     send(fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_NOSIGNAL) < 0))
			break;
	}
	return n;
}

static void packets_and_streams(void **state)
{
	struct pair b = both(state, 0);
	struct side mine = { .how = { .takes = true } }, other = { .how = { .opens = true } };
	struct pollfd p = { .events = POLLIN };
	int one[2], two[2], got_one, got_two;
	char buf[8192];
	uint32_t n, k, i = 0;

	side_begin(&b, &mine, &other);
	says(mine.ours, "hello");
	hear(other.ours, "hello", NULL);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, one), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, two), 0);
	assert_int_equal(sock_send_fds(other.ours, "one", 3, &one[1], 1), 3);
	assert_int_equal(sock_send_fds(other.ours, "two", 3, &two[1], 1), 3);
	close(one[1]);
	close(two[1]);
	hear(mine.ours, "one", &got_one);
	hear(mine.ours, "two", &got_two);
	/* One that nobody reads holds up no other, and a bounded number of bytes. */
	n = fill(one[0]);
	assert_in_range(n, 32, 1000);
	says(two[0], "there");
	hear(got_two, "there", NULL);
	says(got_two, "and back");
	hear(two[0], "and back", NULL);
	says(other.ours, "still");
	hear(mine.ours, "still", NULL);
	/* Its end comes after all of it, in order. */
	close(one[0]);
	for (p.fd = got_one; poll(&p, 1, WAIT_MS) == 1 && recv(got_one, buf, sizeof(buf), 0) > 0;
	     i++) {
		memcpy(&k, buf, sizeof(k));
		assert_int_equal(k, i);
	}
	assert_int_equal(i, n);
	close(got_one);
	/* Whoever got it may end it as well. */
	close(got_two);
	p.fd = two[0];
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(recv(two[0], buf, sizeof(buf), 0), 0);
	close(two[0]);
	/* What was said before the end arrives. */
	says(mine.ours, "bye");
	close(mine.ours);
	hear(other.ours, "bye", NULL);
	p.fd = other.ours;
	assert_int_equal(poll(&p, 1, WAIT_MS), 1);
	assert_int_equal(recv(other.ours, buf, sizeof(buf), 0), 0);
	pthread_join(mine.thread, NULL);
	assert_int_equal(mine.r, 0);
	peer_drop(mine.c);
	end(&b); /* and waits for the other side */
	assert_int_equal(other.r, -ENODATA);
	close(other.ours);
}

/* 0: its end. Of a socket that was closed with unread data the first answer is an error. */
static ssize_t next_packet(int fd, char *buf, size_t size)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		assert_int_equal(poll(&p, 1, WAIT_MS), 1);
		n = recv(fd, buf, size, 0);
		if (n >= 0 || errno != ECONNRESET)
			return n;
	}
}

/* Also if something arrives for whoever has closed it already: a few hundred times, as threads race
 * for it. */
static void last_words_of_a_stream(void **state)
{
	struct pair b = both(state, 0);
	struct side mine = { .how = { .takes = true } }, other = { .how = { .opens = true } };

	side_begin(&b, &mine, &other);
	for (int i = 0; i < 300; i++) {
		int one[2], got;
		char buf[64];

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, one), 0);
		assert_int_equal(sock_send_fds(other.ours, "one", 3, &one[1], 1), 3);
		close(one[1]);
		hear(mine.ours, "one", &got);
		for (int k = 0; k < 4; k++)
			says(got, "input");
		says(one[0], "output");
		says(one[0], "exit");
		close(one[0]);
		assert_int_equal(next_packet(got, buf, sizeof(buf)), 6);
		assert_memory_equal(buf, "output", 6);
		assert_int_equal(next_packet(got, buf, sizeof(buf)), 4);
		assert_memory_equal(buf, "exit", 4);
		assert_int_equal(next_packet(got, buf, sizeof(buf)), 0);
		close(got);
	}
	close(mine.ours);
	pthread_join(mine.thread, NULL);
	peer_drop(mine.c);
	end(&b);
	close(other.ours);
}

/* The side that only gets streams cannot make any. */
static void a_stream_from_the_wrong_side(void **state)
{
	struct pair b = both(state, 0);
	struct side mine = { .how = { .opens = true } }, other = { .how = { .opens = true } };
	int one[2];
	char c;

	side_begin(&b, &mine, &other);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, one), 0);
	assert_int_equal(sock_send_fds(mine.ours, "one", 3, &one[1], 1), 3);
	close(one[1]);
	assert_int_equal(recv(one[0], &c, 1, 0), 0); /* it is over */
	assert_int_equal(recv(other.ours, &c, 1, 0), 0);
	pthread_join(mine.thread, NULL);
	assert_true(mine.r < 0);
	close(one[0]);
	close(mine.ours);
	peer_drop(mine.c);
	end(&b);
	assert_int_equal(other.r, -EHOSTUNREACH);
	close(other.ours);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(packets_and_streams, setup, teardown),
		cmocka_unit_test_setup_teardown(last_words_of_a_stream, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stream_from_the_wrong_side, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN); /* as in pandod */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
