/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.c - run one of git's programs, with a limit on its time and output
 *
 * Input comes from memory or a descriptor; output is kept up to a limit, or handed on piece by
 * piece. A child that reaches a limit is ended, and its caller is told which one it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "git/bounds.h"

#define ERR_TEXT_MAX 4096 /* bytes kept of what it complains about */
#define PIECE 65536

struct pump {
	const struct run_opts *o;
	struct run_result *res;
	int in, out, err_fd; /* owned */
	size_t sent;
	uint64_t deadline;
};

bool run_exhausted(const struct run_result *r)
{
	return r->status > 128 ||
	       (r->err_text.len && strcasestr((char *)r->err_text.p, "out of memory"));
}

void run_result_done(struct run_result *r)
{
	buf_done(&r->out);
	buf_done(&r->err_text);
}

static void pump_done(struct pump *p)
{
	int all[] = { p->in, p->out, p->err_fd };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i] >= 0)
			close(all[i]);
}

static int take_out(struct pump *p, struct err *err)
{
	uint8_t piece[PIECE];
	ssize_t n = read(p->out, piece, sizeof(piece));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		close(TAKE_FD(p->out));
		return 0;
	}
	if (p->o->each)
		return p->o->each(p->o->ctx, piece, (size_t)n, err);
	if (p->res->out.len + (size_t)n > p->o->out_max)
		return err_set(err, -EFBIG, "git printed more than %zu bytes", p->o->out_max);
	buf_put(&p->res->out, piece, (size_t)n);
	return p->res->out.failed ? err_set(err, -ENOMEM, "out of memory") : 0;
}

static void take_err(struct pump *p)
{
	uint8_t piece[2048];
	ssize_t n = read(p->err_fd, piece, sizeof(piece));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(TAKE_FD(p->err_fd));
		return;
	}
	if (p->res->err_text.len < ERR_TEXT_MAX)
		buf_put(&p->res->err_text, piece,
		        MIN((size_t)n, ERR_TEXT_MAX - p->res->err_text.len));
}

static void give_in(struct pump *p)
{
	ssize_t n = write(p->in, (const uint8_t *)p->o->in + p->sent, p->o->in_len - p->sent);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		p->sent += (size_t)n;
	if (n < 0 || p->sent == p->o->in_len)
		close(TAKE_FD(p->in));
}

static int pump(struct pump *p, struct err *err)
{
	int r;

	while (p->out >= 0 || p->err_fd >= 0) {
		struct pollfd f[] = {
			{ .fd = p->out, .events = POLLIN },
			{ .fd = p->err_fd, .events = POLLIN },
			{ .fd = p->in, .events = POLLOUT },
			{ .fd = p->o->stop_fd > 0 ? p->o->stop_fd : -1, .events = POLLIN },
			{ .fd = p->o->client ? p->o->client->fd : -1, .events = POLLRDHUP }
		};
		int n = poll(f, ARRAY_SIZE(f), deadline_left(p->deadline));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(err, n < 0 ? -errno : -ETIMEDOUT,
			               "git took longer than %u seconds", p->o->limit_ms / 1000);
		if (f[3].revents)
			return err_set(err, -ECANCELED, "git was cancelled");
		if (f[4].revents)
			return client_left(err);
		if (f[0].revents && (r = take_out(p, err)) != 0)
			return r;
		if (f[1].revents)
			take_err(p);
		if (f[2].revents)
			give_in(p);
	}
	return 0;
}

static int make_pipe(int ours, int p[2])
{
	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	return fcntl(p[ours], F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static void close_all(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(TAKE_FD(fds[i]));
}

/* The child with its three pipes. */
static int start(struct repos *g, const struct run_opts *o, struct pump *p, struct child *c,
                 int *ret_listen, struct err *err)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, ep[2] = { -1, -1 }, r;
	struct child_opts co = { .argv = o->argv,
		                 .repo = o->repo,
		                 .work = o->work,
		                 .env = o->env,
		                 .in = -1,
		                 .extra = -1,
		                 .write = o->write,
		                 .network = o->network,
		                 .client = o->client,
		                 .mem_mb = o->mem_mb,
		                 .cpu_s = o->limit_ms / 1000 + 1 };

	if ((o->in && (r = make_pipe(1, in)) < 0) || (r = make_pipe(0, out)) < 0 ||
	    (r = make_pipe(0, ep)) < 0) {
		r = err_sys(err, -errno, "make a pipe");
	} else {
		co.in = o->in ? in[0] : o->in_fd > 0 ? o->in_fd : -1;
		co.out = out[1];
		co.err = ep[1];
		r = child_start(g, &co, c, ret_listen, err);
	}
	close_all((int[]){ in[0], out[1], ep[1] }, 3);
	p->in = in[1];
	p->out = out[0];
	p->err_fd = ep[0];
	return r;
}

int run_git(struct repos *g, const struct run_opts *o, struct run_result *ret, struct err *err)
{
	AUTO(pump_done)
	struct pump p = { .o = o,
		          .res = ret,
		          .in = -1,
		          .out = -1,
		          .err_fd = -1,
		          .deadline = deadline_in(o->limit_ms) };
	struct child c = CHILD_NONE;
	struct proxy *proxy = NULL;
	char refusal[160] = "";
	int listen_fd = -1, r, st;

	r = start(g, o, &p, &c, &listen_fd, err);
	if (r < 0)
		return r;
	if (o->network &&
	    (r = proxy_start(listen_fd, g->conf.allow_private, o->net_max, &proxy, err)) < 0) {
		child_end(&c);
		return r;
	}
	r = pump(&p, err);
	if (r != 0)
		child_end(&c);
	else if ((st = child_wait(&c, p.deadline)) < 0)
		r = err_set(err, -ETIMEDOUT, "git took longer than %u seconds", o->limit_ms / 1000);
	else
		ret->status = st;
	proxy_stop(proxy, refusal, sizeof(refusal));
	if (*refusal)
		buf_printf(&ret->err_text, "\nproxy: %s", refusal);
	buf_put(&ret->err_text, "", 1); /* it is a text */
	return r;
}
