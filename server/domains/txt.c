/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txt.c - does a name have a certain TXT record?
 *
 * Theory of operation: one query to the resolver, over UDP from a random port and with a random
 * id, repeated if there is no answer, and over TCP if the answer was truncated. What is in the
 * messages is known to txt_msg.c.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "domains/domains.h"
#include "net/dns_msg.h"
#include "net/resolv.h"

#define TRIES 3
#define TRY_MS 2500
#define TCP_MS 8000

struct asked {
	struct sockaddr_storage server;
	socklen_t len;
	struct buf q;
	struct dns_query parsed;
	uint16_t id;
};

static int over_udp(const struct asked *a, const char *value)
{
	uint8_t answer[DNS_QUERY_MAX];
	autofd int fd = socket(a->server.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r = -ETIMEDOUT;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&a->server, a->len) < 0)
		return -errno;
	for (int i = 0; i < TRIES; i++) {
		uint64_t until = deadline_in(TRY_MS);

		if (send(fd, a->q.p, a->q.len, 0) < 0 && errno != ECONNREFUSED)
			return -errno;
		while (io_wait(fd, POLLIN, until) > 0) {
			ssize_t n = recv(fd, answer, sizeof(answer), 0);

			if (n < 0) {
				r = -errno;
				if (r == -ECONNREFUSED)
					return r;
				break;
			}
			if (dns_answer_matches(answer, (size_t)n, &a->parsed, a->id))
				return txt_answer(answer, (size_t)n, value);
		}
	}
	return r;
}

/* All n bytes of a non-blocking socket, or -errno. */
static int read_all(int fd, void *p, size_t n, uint64_t until)
{
	uint8_t *at = p;

	while (n > 0) {
		ssize_t got;

		if (io_wait(fd, POLLIN, until) <= 0)
			return -ETIMEDOUT;
		got = recv(fd, at, n, 0);
		if (got == 0)
			return -EPIPE;
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (got > 0) {
			at += got;
			n -= (size_t)got;
		}
	}
	return 0;
}

static int over_tcp(const struct asked *a, const char *value)
{
	uint64_t until = deadline_in(TCP_MS);
	autofd int fd = socket(a->server.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	autobuf struct buf q = { 0 };
	autofree uint8_t *answer = NULL;
	uint8_t len[2];
	int r;

	if (fd < 0 ||
	    (connect(fd, (const struct sockaddr *)&a->server, a->len) < 0 && errno != EINPROGRESS))
		return -errno;
	if (io_wait(fd, POLLOUT, until) <= 0)
		return -ETIMEDOUT;
	buf_put_u16(&q, (uint16_t)a->q.len);
	buf_put(&q, a->q.p, a->q.len);
	if (q.failed)
		return -ENOMEM;
	if (send(fd, q.p, q.len, MSG_NOSIGNAL) != (ssize_t)q.len)
		return -EPIPE;
	if ((r = read_all(fd, len, sizeof(len), until)) < 0)
		return r;
	answer = malloc((size_t)get_be16(len) + 1);
	if (!answer)
		return -ENOMEM;
	if ((r = read_all(fd, answer, get_be16(len), until)) < 0)
		return r;
	if (!dns_answer_matches(answer, get_be16(len), &a->parsed, a->id))
		return -EBADMSG;
	r = txt_answer(answer, get_be16(len), value);
	return r == -EAGAIN ? -EBADMSG : r;
}

int txt_has(const char *resolver, const char *name, const char *value, struct err *err)
{
	struct asked a = { 0 };
	int r;

	if (resolv_server(resolver, &a.server, &a.len) < 0)
		return err_set(err, -ENOENT, "no name server is configured (PANDO_RESOLVER)");
	random_bytes(&a.id, sizeof(a.id));
	r = txt_question(name, a.id, &a.q);
	if (r == 0)
		r = dns_query_parse(a.q.p, a.q.len, &a.parsed);
	if (r == 0)
		r = over_udp(&a, value);
	if (r == -EAGAIN)
		r = over_tcp(&a, value);
	buf_done(&a.q);
	return r < 0 ? err_sys(err, r, "look up the TXT records of '%s'", name) : r;
}
