/* SPDX-License-Identifier: Apache-2.0 */
/*
 * edge.h - the edge's own connection code over socket pairs, in one thread; for fuzz_edge_*.c
 *
 * Theory of operation: loop.c is included, so that one worker can be run by hand: step by step,
 * until nothing moves, with a clock that the input advances. Clients are socket pairs; the machine
 * behind the edge is a listening socket without a name in the file system. What would take threads
 * (the opener, the mint) answers at once, from here.
 *
 * An input is a byte with flags, then steps: a byte, a length (two bytes), that many bytes; see
 * enum step. A step after which the worker never comes to rest is a finding, as is anything left
 * over at the end.
 */
#pragma once

#include <errno.h>
#include <sys/un.h>

#include "base/buf.h"
#include "base/log.h"
#include "server/edge/loop.c"
#include "tests/fuzz/fuzz.h"

#define TURNS_MAX 20000 /* of the worker, until it must have come to rest */
#define STEPS_MAX 64

enum step {
	STEP_CLIENT,  /* bytes of the client */
	STEP_FRAME,   /* HTTP/2: type, flags, stream, payload; in a frame of the right length */
	STEP_HEAD,    /* HTTP/2: flags, stream, lines "name: value"; as a HEADERS frame */
	STEP_MACHINE, /* bytes of the program behind the edge, on every open connection */
	STEP_CLOSE,   /* it closes them */
	STEP_TIME,    /* time passes: the length is in tenths of a second */
	STEP_SHUT,    /* the client sends no more; with a length: it is gone */
	STEP_ENDED,   /* the machine is not there any more; with a length: another is */
	STEP_N,
};

enum flag {
	FLAG_H2 = 1,
	FLAG_TLS = 2,     /* bytes go to the TLS library */
	FLAG_VM = 4,      /* the name leads to a VM, not to an address */
	FLAG_ASLEEP = 8,  /* which is asleep */
	FLAG_SILENT = 16, /* nothing listens there */
	FLAG_BUSY = 32,   /* the opener has no room, or fails */
	FLAG_DEAF = 64,   /* the client reads nothing */
	FLAG_SMALL = 128, /* its bytes arrive in small pieces */
};

static struct stand {
	struct edge e;
	struct worker w;
	int listener, client;
	int ups[64];
	size_t n_ups;
	uint8_t flags;
	bool h2c; /* the program behind the edge speaks HTTP/2; frames and heads are its own */
	unsigned machine;
	bool gone;
	struct sockaddr_un addr, nobody;
} st = { .listener = -1, .client = -1 };

static const socklen_t addr_len = offsetof(struct sockaddr_un, sun_path) + 16;

static void route(void *ctx, const char *host, struct edge_target *ret)
{
	must(strlen(host) <= H1_HOST_MAX);
	*ret = (struct edge_target){ .kind = st.flags & FLAG_VM ? EDGE_VM : EDGE_ADDR,
		                     .port = 80,
		                     .h2c = st.h2c,
		                     .raw = strncmp(host, "raw", 3) == 0,
		                     .field = "X-Pando-Edge: secret\r\n" };
	snprintf(ret->vm, sizeof(ret->vm), "vm");
	if (strcmp(host, "nowhere.test") == 0)
		ret->kind = EDGE_NOWHERE;
}

static enum edge_look look(void *ctx, struct edge_target *t)
{
	snprintf(t->instance, sizeof(t->instance), "m%u", st.machine);
	return st.gone ? EDGE_GONE : st.flags & FLAG_ASLEEP ? EDGE_ASLEEP : EDGE_RUNNING;
}

static int no_cert(void *ctx, const char *name, SSL *ssl)
{
	return strchr(name, 'w') ? -EAGAIN : -ENOENT;
}

static int challenge(void *ctx, const char *token, char ret[EDGE_ACME_TEXT_MAX])
{
	if (strcmp(token, "token") != 0)
		return -ENOENT;
	snprintf(ret, EDGE_ACME_TEXT_MAX, "answer");
	return 0;
}

static void connect_up(struct opened *r)
{
	const struct sockaddr_un *to = st.flags & FLAG_SILENT ? &st.nobody : &st.addr;

	r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(r->fd >= 0);
	if (connect(r->fd, (const struct sockaddr *)to, addr_len) == 0)
		return;
	err_set(&r->err, errno == EAGAIN ? -EBUSY : -errno, "connect"); /* its queue is full */
	close(TAKE_FD(r->fd));
}

/* Instead of the threads of opener.c: the answer is there at the next turn. */
int opener_ask(struct opener *o, struct worker *w, uint64_t xchg, uint64_t client,
               const struct edge_target *t)
{
	static const int errors[] = { ENOENT, EBUSY, EIO };
	struct opened *r;

	if ((st.flags & FLAG_BUSY) && xchg % 4 == 0)
		return -EAGAIN;
	r = calloc(1, sizeof(*r));
	must(r != NULL);
	r->xchg = xchg;
	r->t = *t;
	r->fd = -1;
	snprintf(r->t.instance, sizeof(r->t.instance), "m%u", st.machine);
	st.flags &= (uint8_t)~FLAG_ASLEEP;
	if (st.flags & FLAG_BUSY)
		err_set(&r->err, -errors[xchg % ARRAY_SIZE(errors)], "no way");
	else
		connect_up(r);
	worker_tell(w, r);
	return 0;
}

void opener_forget(struct opener *o, const struct worker *w, uint64_t xchg, uint64_t client,
                   const char *vm)
{
}

void opener_connected(struct opener *o, struct line *l_consume)
{
}

/* Instead of mint.c. */
int mint_ask(struct mint *m, const struct worker *w, const char *name)
{
	struct minted *r = calloc(1, sizeof(*r));

	must(r != NULL);
	snprintf(r->name, sizeof(r->name), "%s", name);
	worker_tell_minted(&st.w, r);
	return 0;
}

static void stand_open(void)
{
	struct err err = { 0 };

	if (st.listener >= 0)
		return;
	log_init("fuzz", LOG_LV_ERROR);
	st.e.conf = (struct edge_conf){ .tls_fd = -1,
		                        .http_fd = -1,
		                        .workers = 1,
		                        .wait_ms = 10000,
		                        .hsts_s = 60,
		                        .head_ms = EDGE_HEAD_MS,
		                        .keep_ms = EDGE_IDLE_MS,
		                        .stall_ms = EDGE_STALL_MS,
		                        .answer_ms = EDGE_ANSWER_MS,
		                        .idle_ms = EDGE_OPEN_IDLE_MS,
		                        .addr_conns = 4,
		                        .addr_requests = 20 };
	st.e.ops = (struct edge_ops){
		.route = route, .look = look, .cert = no_cert, .challenge = challenge
	};
	must(guard_new(&st.e.conf, &st.e.guard, &err) == 0 && tls_new(&st.e, &err) == 0);
	st.e.workers = &st.w;
	st.e.n_workers = 1;
	st.w.e = &st.e;
	must(worker_open(&st.w, &err) == 0);
	st.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	st.addr.sun_family = st.nobody.sun_family = AF_UNIX;
	snprintf(st.addr.sun_path + 1, 16, "fuzz-edge%06d", getpid() % 1000000);
	snprintf(st.nobody.sun_path + 1, 16, "fuzz-none%06d", getpid() % 1000000);
	must(bind(st.listener, (struct sockaddr *)&st.addr, addr_len) == 0 &&
	     listen(st.listener, 128) == 0);
}

/* The program behind the edge takes what it is sent; true: something moved. */
static bool machine_run(void)
{
	static uint8_t trash[1 << 16];
	bool moved = false;
	int fd;

	while (st.n_ups < ARRAY_SIZE(st.ups) &&
	       (fd = accept4(st.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		st.ups[st.n_ups++] = fd;
		moved = true;
	}
	for (size_t i = 0; i < st.n_ups; i++)
		while (recv(st.ups[i], trash, sizeof(trash), 0) > 0)
			moved = true;
	if (!(st.flags & FLAG_DEAF) && st.client >= 0)
		while (recv(st.client, trash, sizeof(trash), MSG_DONTWAIT) > 0)
			moved = true;
	return moved;
}

/* Until nothing moves. */
static void rest(void)
{
	struct worker *w = &st.w;
	struct epoll_event ev[EVENTS_MAX];

	for (unsigned i = 0;; i++) {
		int n = epoll_wait(w->epoll, ev, EVENTS_MAX, 0);

		must(i < TURNS_MAX); /* it spins */
		for (int k = 0; k < n; k++)
			on_event(w, ev[k].data.ptr, ev[k].events);
		run_again(w);
		run_retries(w);
		tick(w);
		bury(w);
		if (n <= 0 && !w->again && !machine_run())
			return;
	}
}

static void send_client(const void *p, size_t n)
{
	const uint8_t *at = p;
	size_t piece = st.flags & FLAG_SMALL ? n / 32 + 1 : n;

	for (size_t i = 0; i < n && st.client >= 0; i += piece) {
		if (send(st.client, at + i, MIN(piece, n - i), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		rest();
	}
}

static void send_machine(const void *p, size_t n)
{
	for (size_t i = 0; i < st.n_ups && n; i++)
		(void)!send(st.ups[i], p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
	rest();
}

static void send_frame(uint8_t type, uint8_t flags, uint32_t stream, const void *p, size_t n)
{
	uint8_t *frame = malloc(9 + n);

	must(frame != NULL);
	frame[0] = (uint8_t)(n >> 16);
	frame[1] = (uint8_t)(n >> 8);
	frame[2] = (uint8_t)n;
	frame[3] = type;
	frame[4] = flags;
	put_be32(frame + 5, stream);
	if (n)
		memcpy(frame + 9, p, n);
	if (st.h2c)
		send_machine(frame, 9 + n);
	else
		send_client(frame, 9 + n);
	free(frame);
}

/* A string of HPACK, not compressed. */
static void put_string(struct buf *b, struct in s)
{
	size_t n = s.n;

	if (n < 127) {
		buf_put_u8(b, (uint8_t)n);
	} else {
		buf_put_u8(b, 127);
		for (n -= 127; n >= 128; n >>= 7)
			buf_put_u8(b, (uint8_t)(n | 128));
		buf_put_u8(b, (uint8_t)n);
	}
	buf_put(b, s.p, s.n);
}

static void send_head(struct in in)
{
	uint8_t flags = in_u8(&in), stream = in_u8(&in);
	autobuf struct buf b = { 0 };

	while (in.n) {
		struct in line = in_until(&in, '\n'), name = line;
		const uint8_t *colon = line.n > 1 ? memmem(line.p + 1, line.n - 1, ": ", 2) : NULL;

		if (colon) {
			name = in_take(&line, (size_t)(colon - line.p));
			in_take(&line, 2);
		} else {
			line.n = 0;
		}
		buf_put_u8(&b, 0); /* a literal field that is not indexed */
		put_string(&b, name);
		put_string(&b, line);
	}
	must(!b.failed);
	send_frame(1, flags, stream, b.p, b.len);
}

/* As edge_ended(). */
static void machine_ended(bool another)
{
	struct ended *d = calloc(1, sizeof(*d));

	must(d != NULL);
	snprintf(d->instance, sizeof(d->instance), "m%u", st.machine);
	st.machine += another;
	st.gone = !another;
	mutex_lock(&st.w.lock);
	if (another) {
		d->next = st.w.ended;
		st.w.ended = TAKE_PTR(d);
	} else {
		st.w.look_all = true;
	}
	mutex_unlock(&st.w.lock);
	free(d);
	(void)eventfd_write(st.w.wake.fd, 1);
}

static void step(enum step what, struct in in, uint16_t n)
{
	switch (what) {
	case STEP_CLIENT:
		send_client(in.p, in.n);
		break;
	case STEP_FRAME: {
		uint8_t type = in_u8(&in), flags = in_u8(&in), stream = in_u8(&in);

		send_frame(type, flags, stream, in.p, in.n);
		break;
	}
	case STEP_HEAD:
		send_head(in);
		break;
	case STEP_MACHINE:
		send_machine(in.p, in.n);
		break;
	case STEP_CLOSE:
		while (st.n_ups)
			close(st.ups[--st.n_ups]);
		break;
	case STEP_TIME:
		st.w.now += n * UINT64_C(100);
		break;
	case STEP_SHUT:
		if (st.client >= 0 && n)
			close(TAKE_FD(st.client));
		else if (st.client >= 0)
			shutdown(st.client, SHUT_WR);
		break;
	default:
		machine_ended(n);
		break;
	}
	rest();
	st.gone = false;
}

static void begin(bool h2)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	struct sockaddr_storage peer = { .ss_family = AF_INET };
	struct client *client = guard_enter(st.e.guard, &peer);
	int pair[2];

	must(client &&
	     socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	st.client = pair[1];
	st.w.n_conns++;
	conn_new(&st.w, &(struct handed){ .fd = pair[0],
	                                  .tls = st.flags & FLAG_TLS,
	                                  .client = client,
	                                  .peer = peer });
	must(st.w.conns != NULL);
	if (h2 && !(st.flags & FLAG_TLS)) {
		must(h2_open(st.w.conns) == 0);
		st.w.conns->tls =
		        true; /* HTTP/2 is spoken over TLS only; the input is what was in it */
		send_client(preface, sizeof(preface) - 1);
		send_frame(4, 0, 0, NULL, 0);
	}
	rest();
}

/* Two requests of the client, one with a body that is still to come; bytes of the input follow. */
static void ask_h2c(void)
{
	static const struct {
		uint8_t flags, stream;
		const char *lines;
	} heads[] = {
		{ 5, 1,
		  ":method: GET\n:scheme: https\n:path: /a\n:authority: x.test\nte: trailers" },
		{ 4, 3, ":method: POST\n:scheme: https\n:path: /b\n:authority: x.test" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		autobuf struct buf b = { 0 };

		st.h2c = false; /* as the client's */
		buf_put_u8(&b, heads[i].flags);
		buf_put_u8(&b, heads[i].stream);
		buf_put(&b, heads[i].lines, strlen(heads[i].lines));
		send_head((struct in){ b.p, b.len });
		st.h2c = true;
	}
}

static void end(void)
{
	struct worker *w = &st.w;

	while (w->conns)
		conn_close(w->conns);
	while (w->ups)
		up_close(w->ups);
	rest();
	must(w->n_conns == 0 && !w->waiting && w->n_pool == 0 && !w->pool && !w->dead_conns);
	must(st.e.open == 0 && st.n_ups <= ARRAY_SIZE(st.ups));
	if (st.client >= 0)
		close(TAKE_FD(st.client));
	while (st.n_ups)
		close(st.ups[--st.n_ups]);
	for (int fd; (fd = accept4(st.listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;)
		close(fd);
}

static int edge_one(const uint8_t *data, size_t size, bool h2)
{
	struct in in = { data, size };

	stand_open();
	st.flags = in_u8(&in);
	st.machine = 1;
	st.w.now = clock_ms();
	st.w.tick_at = st.w.now + EDGE_TICK_MS;
	begin(h2);
	if (st.h2c)
		ask_h2c();
	for (int i = 0; in.n && i < STEPS_MAX; i++) {
		enum step what = in_u8(&in) % STEP_N;
		uint16_t n = in_u16(&in);

		step(what, in_take(&in, what == STEP_TIME || what >= STEP_SHUT ? 0 : n), n);
	}
	end();
	return 0;
}
