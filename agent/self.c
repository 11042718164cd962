/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.c - who this machine is, and the socket for programs that ask to copy or freeze it
 *
 * The host says who the machine is in front of each greeting (WHO, wire/agent_self.h). That is
 * written to SELF_JSON, given to hooks, and decides whether there is a socket.
 *
 * A connection to the socket is a request in HTTP. Nothing of it is parsed here but the request
 * line: once that is there, the host is told (RING) and takes the connection as a stream
 * (self.take), and bytes go both ways. The host is told again from time to time while requests
 * wait, so a RING that is lost with a freeze is no loss.
 *
 * A program that asks for a fork, a snapshot or its own suspension is frozen in the middle of its
 * request, and both sides of the connection are frozen with it. When the machine is greeted again,
 * connections that were at the host are in limbo: nobody there knows them any more. By then we know
 * what has become of us, and answer them ourselves (self_say.c).
 */
#include "agent/self.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"

#define LINE_MS 10000 /* for the first line of a request */
#define LINE_MAX_LEN 256
#define RING_MS 2000 /* until the host is told again */
#define JSON_SIZE 512
#define BACKLOG 64
#define GROUP_FILE_MAX (4u << 20)

static void path_of(const struct agent *a, const char *path, char *ret, size_t size)
{
	snprintf(ret, size, "%s%s", a->test_root ? a->test_root : "", path);
}

void self_open(struct agent *a)
{
	char path[PATH_MAX];

	path_of(a, SELF_JSON, path, sizeof(path));
	a->self.json_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (a->self.json_fd < 0)
		log_error("open %s: %s", path, err_name(errno));
	path_of(a, SELF_SOCK, path, sizeof(path));
	unlink(path); /* of an agent before us: nobody listens there */
}

/* One write of one size, so that nobody reads half of it. */
static void write_json(struct agent *a)
{
	char text[JSON_SIZE];
	size_t n;

	self_describe(&a->self.who, "", text, sizeof(text) - 1);
	n = strlen(text);
	memset(text + n, ' ', sizeof(text) - n);
	text[sizeof(text) - 1] = '\n';
	if (a->self.json_fd >= 0 && pwrite(a->self.json_fd, text, sizeof(text), 0) < 0)
		log_warn("cannot write %s: %s", SELF_JSON, err_name(errno));
}

/* ---- the socket ---- */

/* 0 if there is no such group: root's. */
static gid_t group_of(const char *name)
{
	autofree char *text = NULL;
	size_t n = strlen(name);

	if (io_read_file(AT_FDCWD, "/etc/group", GROUP_FILE_MAX, &text, NULL) < 0)
		return 0;
	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		const char *gid;

		if (strncmp(p, name, n) != 0 || p[n] != ':')
			continue;
		gid = p + n + 1 + strcspn(p + n + 1, ":\n");
		return *gid == ':' ? (gid_t)strtoul(gid + 1, NULL, 10) : 0;
	}
	return 0;
}

static int poll_in(struct agent *a, int fd, uint32_t number)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET,
		                  .data.u64 = (uint64_t)REF_SELF << 56 | number };

	return epoll_ctl(a->ep, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

static int socket_open(struct agent *a, struct sockaddr_un *sa)
{
	autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	gid_t gid = a->test_root ? getegid() : group_of(SELF_GROUP);
	mode_t mask;
	int r;

	if (fd < 0)
		return -errno;
	unlink(sa->sun_path);
	mask = umask(0177);
	r = bind(fd, (struct sockaddr *)sa, sizeof(*sa)) < 0 ? -errno : 0;
	umask(mask);
	if (r < 0)
		return r;
	if (chown(sa->sun_path, (uid_t)-1, gid) < 0 || chmod(sa->sun_path, 0660) < 0 ||
	    listen(fd, BACKLOG) < 0 || (r = poll_in(a, fd, 0)) < 0)
		return r < 0 ? r : -errno;
	a->self.fd = TAKE_FD(fd);
	return 0;
}

static void conn_drop(struct agent *a, unsigned i)
{
	struct self *s = &a->self;

	if (s->conn[i].fd >= 0)
		close(s->conn[i].fd);
	memmove(&s->conn[i], &s->conn[i + 1], (s->n - i - 1) * sizeof(s->conn[0]));
	s->n--;
}

/* On or off, as the host has said. */
static void socket_adjust(struct agent *a)
{
	struct self *s = &a->self;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	bool on = s->known && s->who.allow && s->who.event != AGENT_EVENT_HIDDEN;
	int r;

	if (on == (s->fd >= 0))
		return;
	path_of(a, SELF_SOCK, sa.sun_path, sizeof(sa.sun_path));
	if (on) {
		r = strlen(sa.sun_path) == sizeof(sa.sun_path) - 1 ? -ENAMETOOLONG
		                                                   : socket_open(a, &sa);
		if (r < 0)
			log_error("no self access, %s: %s", sa.sun_path, err_name(r));
		return;
	}
	unlink(sa.sun_path);
	close(TAKE_FD(s->fd));
	while (s->n) {
		self_refuse(s->conn[0].fd, "self access of this VM was switched off");
		conn_drop(a, 0);
	}
}

/* ---- connections ---- */

static unsigned waiting(const struct self *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->n; i++)
		n += s->conn[i].waits;
	return n;
}

static void ring(struct agent *a)
{
	struct self *s = &a->self;

	if (s->rung || !a->greeted || !waiting(s))
		return;
	port_send(a, AGENT_F_RING, 0, 0, NULL, 0);
	s->rung = true;
	s->ring_at = clock_ms() + RING_MS;
}

static enum self_kind kind_of(const char *line)
{
	static const struct {
		const char *start;
		enum self_kind kind;
	} kinds[] = { { "POST /v1/self/fork ", SELF_FORK },
		      { "POST /v1/self/snapshot ", SELF_SNAPSHOT },
		      { "POST /v1/self/suspend ", SELF_SUSPEND } };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strncmp(line, kinds[i].start, strlen(kinds[i].start)) == 0)
			return kinds[i].kind;
	return SELF_OTHER;
}

/* Looks, and leaves the bytes for the host. */
static void conn_look(struct agent *a, unsigned i)
{
	struct self_conn *c = &a->self.conn[i];
	char line[LINE_MAX_LEN + 1];
	ssize_t n;

	if (c->waits)
		return; /* even if its program is gone: the host sees the end */
	n = recv(c->fd, line, LINE_MAX_LEN, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		conn_drop(a, i);
		return;
	}
	line[n] = '\0';
	if (n < LINE_MAX_LEN && !memchr(line, '\n', (size_t)n))
		return;
	c->kind = kind_of(line);
	c->waits = true;
	ring(a);
}

static void take_in(struct agent *a)
{
	struct self *s = &a->self;

	while (s->fd >= 0 && s->n < SELF_CONNS) {
		struct self_conn *c = &s->conn[s->n];
		int fd = accept4(s->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		if (!(uint32_t)++s->last)
			s->last++; /* that is the socket itself */
		*c = (struct self_conn){ .fd = fd,
			                 .number = s->last,
			                 .until = clock_ms() + LINE_MS };
		s->n++;
		if (poll_in(a, fd, (uint32_t)s->last) < 0)
			conn_drop(a, s->n - 1);
	}
}

void self_on_event(struct agent *a, uint32_t number)
{
	struct self *s = &a->self;

	for (unsigned i = 0; number && i < s->n; i++)
		if ((uint32_t)s->conn[i].number == number) {
			conn_look(a, i);
			break;
		}
	take_in(a);
}

void self_take_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct self *s = &a->self;
	uint8_t opened[AGENT_SELF_OPENED_LEN];
	struct stream *st;
	unsigned i = 0;

	if (rd_end(c) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed self.take request");
		return;
	}
	while (i < s->n && !s->conn[i].waits)
		i++;
	if (i == s->n) {
		s->rung = false;
		stream_answer(a, id, ENOENT, AGENT_TAG_NONE, "no request waits");
		return;
	}
	st = stream_new(a, id, AGENT_OP_SELF_TAKE);
	if (!st) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY, "too many streams are open");
		return;
	}
	st->self_number = s->conn[i].number;
	st->self_kind = s->conn[i].kind;
	st->in.fd = TAKE_FD(s->conn[i].fd);
	conn_drop(a, i);
	put_be32(opened, (uint32_t)(st->self_number >> 32));
	put_be32(opened + 4, (uint32_t)st->self_number);
	put_be32(opened + 8, waiting(s));
	if (stream_poll(a, st, st->in.fd, REF_IN, EPOLLOUT) < 0) {
		stream_result(a, st, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory", NULL, 0);
		job_orphan(a, st);
		return;
	}
	connect_established(a, st, opened, sizeof(opened));
	take_in(a);
}

void self_orphan(struct agent *a, struct stream *st)
{
	struct self *s = &a->self;

	/* With a byte of the reply, or nobody there to hear: it just ends. */
	if (st->in.fd < 0 || st->in.fed || s->n_limbo == SELF_CONNS)
		return;
	s->limbo[s->n_limbo++] = (struct self_conn){ .fd = TAKE_FD(st->in.fd),
		                                     .number = st->self_number,
		                                     .kind = st->self_kind };
}

void self_tick(struct agent *a, uint64_t now)
{
	struct self *s = &a->self;

	for (unsigned i = s->n; i-- > 0;)
		if (!s->conn[i].waits && now >= s->conn[i].until)
			conn_drop(a, i);
	if (s->rung && now >= s->ring_at)
		s->rung = false;
	ring(a);
	if (s->n < SELF_CONNS)
		take_in(a);
}

uint64_t self_next_timer(const struct agent *a)
{
	const struct self *s = &a->self;
	uint64_t t = UINT64_MAX;

	for (unsigned i = 0; i < s->n; i++)
		if (!s->conn[i].waits)
			t = MIN(t, s->conn[i].until);
		else if (a->greeted) /* else there is nobody to ring for */
			t = MIN(t, s->ring_at);
	return t;
}

/* ---- who we are ---- */

static void settle_limbo(struct agent *a)
{
	struct self *s = &a->self;

	if (s->known && s->who.event == AGENT_EVENT_HIDDEN)
		return; /* nobody continues here */
	for (unsigned i = 0; i < s->n_limbo; i++) {
		self_answer_limbo(s->known ? &s->who : NULL, &s->limbo[i]);
		close(s->limbo[i].fd);
	}
	s->n_limbo = 0;
}

bool self_can_wait(const struct agent *a)
{
	const struct self *s = &a->self;

	return s->fd < 0 && s->n_limbo == 0 && !(s->known && s->who.allow);
}

void self_apply(struct agent *a)
{
	struct self *s = &a->self;

	if (s->known)
		write_json(a);
	socket_adjust(a);
	settle_limbo(a);
	if (s->known && s->who.event == AGENT_EVENT_FORKED)
		hooks_launch(a, "/etc/pando/fork.d", &s->who);
	s->rung = false; /* self_tick() rings, behind the answer to the greeting */
}

const struct agent_who *self_greeted(struct agent *a, const struct agent_hello *h)
{
	struct self *s = &a->self;

	s->known = s->has_next && memcmp(s->next.nonce, h->nonce, sizeof(h->nonce)) == 0;
	if (s->known)
		s->who = s->next;
	s->has_next = false;
	return s->known ? &s->who : NULL;
}

void self_on_who(struct agent *a, const struct agent_frame *f)
{
	struct self *s = &a->self;
	struct agent_who w;
	uint8_t event = s->who.event;

	if (agent_who_get(f->payload, f->len, &w) < 0)
		return;
	if (!a->greeted || !a->has_nonce || memcmp(w.nonce, a->nonce, sizeof(w.nonce)) != 0) {
		s->next = w;
		s->has_next = true;
		return;
	}
	s->known = true;
	s->who = w;
	if (w.event == AGENT_EVENT_CHANGED)
		s->who.event = event;
	write_json(a);
	socket_adjust(a);
	settle_limbo(a);
}

void self_close(struct agent *a)
{
	struct self *s = &a->self;

	while (s->n)
		conn_drop(a, 0);
	while (s->n_limbo)
		close(s->limbo[--s->n_limbo].fd);
	if (s->fd >= 0)
		close(TAKE_FD(s->fd));
	if (s->json_fd >= 0)
		close(TAKE_FD(s->json_fd));
}
