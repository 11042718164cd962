/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_guest.c - what a guest may send, against the host end of the agent channel
 *
 * Byte 0 picks a call; then come the guest's frames: type, flags, stream, length (two bytes),
 * payload. A thread plays the guest and sends them once it was asked; WAIT as a type waits for the
 * next request, AWAIT for the next frame of the type that follows; MUCH is data, as many bytes as
 * its payload says. It greets properly, or, for the call HELLO, as the input says. At the end it
 * hangs up: whatever it sent, the call must return then. What calls give back is touched, so that
 * the sanitizers see it.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "guest/guest_code.h"
#include "guest/guest_internal.h"
#include "guest/guest_login.h"
#include "guest/guest_pty.h"
#include "tests/fuzz/fuzz.h"

#define WAIT 0xff
#define AWAIT 0xfd
#define MUCH 0xfc
#define WAIT_MS 100 /* for that; it may never come */
#define WAITS_MAX 4
#define DEADLINE_MS 5000 /* never reached: the guest hangs up */

struct peer {
	int fd;
	struct in in;
	bool greet; /* the input is the greeting */
};

/* The next frame of the host of that kind; false: it is gone, or does not come. */
static bool wait_for(int fd, struct agent_rx *rx, uint16_t type, unsigned ms,
                     struct agent_frame *ret)
{
	uint64_t deadline = deadline_in(ms);

	for (;;) {
		size_t room;
		uint8_t *p;
		ssize_t n;
		int r;

		while ((r = agent_rx_next(rx, ret)) == 1)
			if (ret->type == type)
				return true;
		must(r == 0); /* what the host sends is well formed */
		p = agent_rx_space(rx, &room);
		if (io_wait(fd, POLLIN, deadline) != 1)
			return false;
		n = recv(fd, p, room, 0);
		if (n <= 0)
			return false;
		agent_rx_added(rx, (size_t)n);
	}
}

static void say(int fd, const struct buf *b)
{
	must(!b->failed);
	(void)!send(fd, b->p, b->len, MSG_NOSIGNAL);
}

/* The input's HELLO_ACK with the nonce that we were sent, unless its flags say otherwise. */
static void put_frame(struct buf *b, struct in *in, uint8_t type, const uint8_t *nonce)
{
	uint8_t flags = in_u8(in), sel = in_u8(in);
	struct in p = in_take(in, in_u16(in));
	uint32_t stream = (uint32_t)(sel >> 4) * AGENT_STREAMS_MAX + (sel & 15);
	autofree uint8_t *copy = malloc(p.n + 1);

	must(copy != NULL);
	if (p.n)
		memcpy(copy, p.p, p.n);
	if (type == AGENT_F_HELLO_ACK && flags == 0 && p.n >= AGENT_NONCE_LEN)
		memcpy(copy, nonce, AGENT_NONCE_LEN);
	if (type == MUCH) {
		static const uint8_t zeros[AGENT_PAYLOAD_MAX];
		size_t n = p.n < 2 ? p.n : get_be16(p.p);

		agent_frame_put(b, AGENT_F_DATA, flags, stream, zeros, MIN(n, sizeof(zeros)));
	} else if (type == WAIT - 1) { /* no frame at all */
		buf_put(b, copy, p.n);
	} else {
		agent_frame_put(b, type, flags, stream, copy, p.n);
	}
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;
	struct agent_rx rx = { 0 };
	struct agent_hello hello = { 0 };
	uint16_t asked = p->greet ? AGENT_F_HELLO : AGENT_F_OPEN;
	struct agent_frame f;
	unsigned waits = 0;

	must(agent_rx_init(&rx) == 0);
	if (wait_for(p->fd, &rx, asked, DEADLINE_MS, &f) && p->greet)
		must(agent_hello_get(f.payload, f.len, &hello) == 0);
	while (p->in.n) {
		autobuf struct buf b = { 0 };
		uint8_t type = in_u8(&p->in);

		if (type == WAIT || type == AWAIT) {
			uint16_t next = type == WAIT ? asked : in_u8(&p->in);

			if (waits++ == WAITS_MAX || !wait_for(p->fd, &rx, next, WAIT_MS, &f))
				break;
			continue;
		}
		put_frame(&b, &p->in, type, hello.nonce);
		say(p->fd, &b);
	}
	shutdown(p->fd, SHUT_RDWR);
	agent_rx_done(&rx);
	return NULL;
}

/* ---- calls ---- */

static void touch(const void *p, size_t n)
{
	static volatile uint8_t sink;

	for (size_t i = 0; i < n; i++)
		sink = (uint8_t)(sink + ((const uint8_t *)p)[i]);
}

static int sink(void *ctx, const uint8_t *p, size_t n)
{
	touch(p, n);
	return 0;
}

typedef ssize_t (*read_fn)(struct guest_flow *f, struct err *err);

static ssize_t read_plain(struct guest_flow *f, struct err *err)
{
	uint8_t p[300];
	int chan = 0;
	ssize_t k = guest_flow_read(f, &chan, p, sizeof(p), err);

	if (k > 0)
		touch(p, (size_t)k);
	return k;
}

static ssize_t read_output(struct guest_flow *f, struct err *err)
{
	uint64_t off = 0;
	uint8_t p[300];
	int chan = 0;
	ssize_t k = guest_output_read(f, &chan, &off, p, sizeof(p), err);

	if (k > 0)
		touch(p, (size_t)k);
	must(k <= 0 || chan == AGENT_OUT || chan == AGENT_ERR);
	return k;
}

static ssize_t read_change(struct guest_flow *f, struct err *err)
{
	struct guest_change c;
	int r = guest_watch_next(f, &c, err);

	if (r == 1)
		touch(c.path, strlen(c.path) + strlen(c.type) * 0);
	return r;
}

static ssize_t read_event(struct guest_flow *f, struct err *err)
{
	struct agent_code_event e;
	int r = guest_code_next(f, &e, err);

	if (r == 1)
		touch(e.p, e.len);
	return r;
}

/* To its end. */
static void drain(struct guest_flow *f, read_fn read)
{
	struct guest_exec_result run = { 0 };
	struct agent_code_result code;
	struct guest_proc proc;
	struct err err = { 0 };
	ssize_t k;

	while ((k = read(f, &err)) >= 0)
		if (k == 0 && io_wait(guest_flow_fd(f), POLLIN, deadline_in(DEADLINE_MS)) != 1)
			abort(); /* it has hung up, and nobody was told */
	if (k == -ENODATA) {
		(void)guest_flow_result(f, &err);
		(void)guest_run_result(f, &run, &err);
		(void)guest_output_result(f, &proc, &err);
		(void)guest_code_result(f, &code, &err);
		guest_exec_result_done(&run);
	}
	(void)guest_flow_eof(f, AGENT_OUT);
	guest_flow_close(f);
}

static void call_exec(struct guest *g, struct err *err)
{
	struct guest_exec_result r = { 0 };
	struct guest_exec_req q = { .command = "x",
		                    .stdin_data = (const uint8_t *)"in",
		                    .stdin_len = 2,
		                    .max_output = 100 };

	if (guest_exec(g, &q, &r, err) == 0) {
		touch(r.out, r.out_len);
		touch(r.errout, r.errout_len);
	}
	guest_exec_result_done(&r);
}

static void call_run(struct guest *g, struct err *err)
{
	struct guest_exec_req q = { .command = "x" };
	struct guest_started s;
	struct guest_flow *f;

	if (guest_run(g, &q, true, &f, &s, err) < 0)
		return;
	(void)guest_flow_write(f, (const uint8_t *)"x", 1, deadline_in(DEADLINE_MS), err);
	drain(f, read_plain);
}

/* More than a guest takes at once; then its end is waited for. */
static void call_feed(struct guest *g, struct err *err)
{
	static const uint8_t much[3000];
	struct guest_exec_req q = { .command = "x" };
	struct guest_started s;
	struct guest_flow *f;

	if (guest_run(g, &q, true, &f, &s, err) < 0)
		return;
	for (size_t at = 0; at < sizeof(much);) {
		ssize_t k = guest_flow_feed(f, much + at, sizeof(much) - at, err);

		must(k <= (ssize_t)(sizeof(much) - at));
		if (k <= 0)
			break;
		at += (size_t)k;
	}
	if (guest_flow_write(f, much, sizeof(much), deadline_in(DEADLINE_MS), err) == 0)
		(void)guest_flow_feed_eof(f, err);
	(void)guest_flow_finish(f, deadline_in(DEADLINE_MS), err);
	guest_flow_close(f);
}

/* Whoever reads has had enough. */
static int refuse(void *ctx, const uint8_t *p, size_t n)
{
	touch(p, n);
	return -ECANCELED;
}

static void call_read_refused(struct guest *g, struct err *err)
{
	must(guest_read_file(g, NULL, "/x", 0, 0, refuse, NULL, deadline_in(DEADLINE_MS), err) <=
	     0);
	(void)guest_ping(g, deadline_in(DEADLINE_MS), err);
}

static void call_read(struct guest *g, struct err *err)
{
	(void)guest_read_file(g, NULL, "/x", 0, 0, sink, NULL, deadline_in(DEADLINE_MS), err);
}

static void call_write(struct guest *g, struct err *err)
{
	struct guest_bytes b = { "content", 7 };

	(void)guest_write_file(g, NULL, "/x", 0600, guest_bytes_source, &b,
	                       deadline_in(DEADLINE_MS), err);
}

static void call_list(struct guest *g, struct err *err)
{
	struct guest_dirent *d;
	size_t n;

	if (guest_list_dir(g, NULL, "/", &d, &n, err) == 0)
		guest_dirents_free(d, n);
}

static void call_stat(struct guest *g, struct err *err)
{
	struct guest_stat st;

	(void)guest_stat(g, NULL, "/x", &st, err);
}

static void call_get(struct guest *g, struct err *err)
{
	struct guest_get get = { .range = GUEST_RANGE_FROM, .off = 1, .len = 5 };
	struct guest_flow *f;

	if (guest_get_file(g, NULL, "/x", &get, &f, err) == 0)
		drain(f, read_plain);
}

static void call_tar(struct guest *g, struct err *err)
{
	struct guest_flow *f;

	if (guest_tar(g, NULL, "/x", true, &f, err) == 0)
		drain(f, read_plain);
}

static void call_watch(struct guest *g, struct err *err)
{
	struct guest_flow *f;

	if (guest_watch(g, NULL, "/x", &f, err) == 0)
		drain(f, read_change);
}

static void call_output(struct guest *g, struct err *err)
{
	struct guest_flow *f;

	if (guest_output(g, 1, 6, 0, true, &f, err) == 0)
		drain(f, read_output);
}

static void call_walk(struct guest *g, struct err *err)
{
	static const char *const ignore[] = { "/r/x" };
	struct guest_walk_req q = { .root = "/r", .ignore = ignore, .n_ignore = 1 };
	struct guest_walk_rec rec;
	struct guest_walk *w;

	if (guest_walk_open(g, &q, deadline_in(DEADLINE_MS), &w, err) < 0)
		return;
	while (guest_walk_next(w, &rec, err) == 1) {
		must(strncmp(rec.path, "/r", 2) == 0);
		touch(rec.link, strlen(rec.link));
	}
	guest_walk_close(w);
}

static void call_hash(struct guest *g, struct err *err)
{
	const char *const paths[] = { "/a", "/b" };
	struct guest_hash h[2];

	if (guest_hash_files(g, paths, 2, h, deadline_in(DEADLINE_MS), err) == 0)
		touch(h, sizeof(h));
}

static void call_procs(struct guest *g, struct err *err)
{
	struct guest_proc *v = NULL, one;
	size_t n = 0;

	if (guest_procs(g, &v, &n, err) == 0)
		free(v);
	(void)guest_proc(g, 1, &one, err);
}

static void call_terms(struct guest *g, struct err *err)
{
	struct guest_term *v;
	size_t n;

	if (guest_term_list(g, &v, &n, err) == 0)
		free(v);
}

static void call_term(struct guest *g, struct err *err)
{
	struct guest_term_log l;

	if (guest_term_read(g, NULL, "t", &l, err) < 0)
		return;
	touch(l.text, l.len + 1);
	touch(l.marks, l.n_marks * sizeof(*l.marks));
	guest_term_log_done(&l);
}

static void call_cell(struct guest *g, struct err *err)
{
	struct guest_code_req q = { .language = 1, .code = "1" };
	struct guest_flow *f;

	if (guest_code_run(g, &q, &f, err) == 0)
		drain(f, read_event);
}

static void call_warm(struct guest *g, struct err *err)
{
	struct guest_code_req q = { .language = 1, .code = "" };

	(void)guest_code_warm(g, &q, DEADLINE_MS, err);
}

static void call_contexts(struct guest *g, struct err *err)
{
	struct guest_context *v, one;
	size_t n;

	if (guest_contexts(g, NULL, &v, &n, err) == 0)
		free(v);
	(void)guest_context_create(g, &(struct guest_context_req){ .language = 1 }, &one, err);
}

static void call_pty(struct guest *g, struct err *err)
{
	struct guest_pty_req q = { .id = "s", .cols = 80, .rows = 24 };
	struct guest_pty_info i;
	struct guest_pty *t;
	ssize_t n;

	if (guest_pty_attach(g, &q, deadline_in(DEADLINE_MS), &t, &i, err) < 0)
		return;
	do {
		enum guest_pty_piece kind;
		const uint8_t *p;

		n = guest_pty_read(t, &kind, &p, err);
		if (n > 0)
			touch(p, (size_t)n);
		if (n == -EAGAIN && io_wait(guest_pty_fd(t), POLLIN, deadline_in(DEADLINE_MS)) != 1)
			abort();
	} while (n >= 0 || n == -EAGAIN);
	if (n == -ENODATA)
		(void)guest_pty_exit_code(t, err);
	guest_pty_detach(t);
}

static void call_ptys(struct guest *g, struct err *err)
{
	struct guest_pty_info *v;
	size_t n;
	int code;

	if (guest_pty_list(g, &v, &n, err) == 0)
		free(v);
	(void)guest_pty_close(g, "s", NULL, &code, err);
}

static void call_login(struct guest *g, struct err *err)
{
	struct guest_flow *f;

	if (guest_login(g, &(struct guest_login_req){ .command = "x", .cols = 80, .rows = 24 }, &f,
	                err) == 0)
		drain(f, read_plain);
}

static void call_listen(struct guest *g, struct err *err)
{
	struct guest_flow *f, *a = NULL;
	char addr[GUEST_ADDR_SIZE];
	uint16_t port;
	int r;

	if (guest_listen(g, NULL, 0, &f, err) < 0)
		return;
	while ((r = guest_flow_opened(f, err)) == 0) {
		if (io_wait(guest_flow_fd(f), POLLIN, deadline_in(DEADLINE_MS)) != 1)
			abort();
		guest_flow_seen(f);
	}
	if (r == 1) {
		(void)guest_listen_port(f, &port, err);
		(void)guest_accept_peer(f, addr, &port, err);
		if (guest_accept(f, &a, err) == 0)
			drain(a, read_plain);
	}
	guest_flow_close(f);
}

static void call_plain(struct guest *g, struct err *err)
{
	struct guest_started s;

	(void)guest_ping(g, deadline_in(DEADLINE_MS), err);
	(void)guest_set_clock(g, deadline_in(DEADLINE_MS), err);
	(void)guest_start(g, &(struct guest_exec_req){ .command = "x" }, false, &s, err);
	if (guest_quiesce(g, deadline_in(DEADLINE_MS), err) == 0)
		guest_resume(g);
}

static void greet(struct guest *g, enum guest_reason reason, struct err *err)
{
	struct guest_identity id = { .reason = reason,
		                     .generation = 9,
		                     .machine_id = "0123456789abcdef0123456789abcdef",
		                     .hostname = "h" };
	struct guest_info info;

	if (guest_hello(g, &id, deadline_in(DEADLINE_MS), &info, err) == 0)
		touch(info.agent_version, strlen(info.agent_version) + strlen(info.boot_id));
	must(guest_hello(g, &id, deadline_in(DEADLINE_MS), &info, err) < 0); /* only once */
}

static void call_hello(struct guest *g, struct err *err)
{
	greet(g, GUEST_THAW, err);
}

static void call_hello_boot(struct guest *g, struct err *err)
{
	greet(g, GUEST_BOOT, err);
}

static void call_hello_again(struct guest *g, struct err *err)
{
	greet(g, GUEST_RECONNECT, err);
}

static void (*const calls[])(struct guest *, struct err *) = {
	call_hello,        call_exec,       call_run,         call_read,     call_write,
	call_list,         call_stat,       call_get,         call_tar,      call_watch,
	call_output,       call_walk,       call_hash,        call_procs,    call_terms,
	call_term,         call_cell,       call_warm,        call_contexts, call_pty,
	call_ptys,         call_login,      call_listen,      call_plain,    call_feed,
	call_read_refused, call_hello_boot, call_hello_again,
};

/* The reader has gone, so that nothing of this run is left for the next. */
static void settle(struct guest *g)
{
	unsigned refs;

	guest_close(g);
	do {
		mutex_lock(&g->lock);
		refs = g->refs;
		mutex_unlock(&g->lock);
		if (refs > 1)
			sched_yield();
	} while (refs > 1);
	guest_unref(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct peer peer = { .in = { data, size } };
	uint8_t which = in_u8(&peer.in) % ARRAY_SIZE(calls);
	struct err err = { 0 };
	struct guest *g;
	pthread_t thread;
	int pair[2];

	log_init("fuzz", LOG_LV_ERROR);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	must(guest_new("fuzz", pair[0], &g, &err) == 0);
	peer.fd = pair[1];
	peer.greet = calls[which] == call_hello || calls[which] == call_hello_boot ||
	             calls[which] == call_hello_again;
	if (!peer.greet) { /* greeted without the random numbers of a greeting */
		g->hello_begun = g->greeted = true;
		must(reader_start(g, &err) == 0);
	}
	must(pthread_create(&thread, NULL, peer_main, &peer) == 0);
	calls[which](g, &err);
	guest_close(g);
	pthread_join(thread, NULL);
	settle(g);
	close(pair[1]);
	return 0;
}
