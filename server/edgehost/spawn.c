/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.c - starts pando-edge with one socket and nothing else
 *
 * What else it needs (listening sockets, lanes, the page of counters) comes with the first message.
 * The starter clones it (base/helper.h) and starts no other program in this way.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/helper.h"
#include "base/sock.h"
#include "base/starter.h"
#include "edgehost/host_internal.h"

#define PROGRAM "pando-edge"

/* ---- for the starter, and in the child ---- */

static char program[512];

static const char *check(const struct starter_job *j, uint64_t *ret_flags)
{
	*ret_flags = 0;
	return helper_check(j, program);
}

static const char *run(struct starter_job *j)
{
	return helper_exec(j, PROGRAM);
}

const struct starter_kind edgehost_kind = { "edge", NULL, check, run };

int edgehost_kind_init(const char *path, struct err *err)
{
	if (!path)
		return helper_find(PROGRAM, program, sizeof(program), err);
	snprintf(program, sizeof(program), "%s", path);
	return 0;
}

/* ---- in the parent ---- */

static void close_all(int *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (v[i] >= 0)
			close(v[i]);
		v[i] = -1;
	}
}

static struct edgew_start start_of(const struct edgehost *h)
{
	const struct edge_conf *c = &h->conf;
	struct edgew_start s = { .version = EDGEW_VERSION,
		                 .workers = h->conf.workers,
		                 .wait_ms = c->wait_ms,
		                 .hsts_s = c->hsts_s,
		                 .head_ms = c->head_ms,
		                 .keep_ms = c->keep_ms,
		                 .stall_ms = c->stall_ms,
		                 .answer_ms = c->answer_ms,
		                 .idle_ms = c->idle_ms,
		                 .addr_conns = c->addr_conns,
		                 .addr_requests = c->addr_requests,
		                 .fd_reserve = c->fd_reserve,
		                 .mem_mb = h->mem_mb,
		                 .log_level = (uint32_t)h->log,
		                 .tls = c->tls_fd >= 0,
		                 .http = c->http_fd >= 0 };

	memcpy(s.field, h->field, sizeof(s.field));
	return s;
}

/* The last process may have shut it down, which is the same socket here. */
static int listening(int fd)
{
	if (listen(fd, SOMAXCONN) < 0)
		log_warn("edge: listen again: %s, ignoring", err_name(errno));
	return fd;
}

/* START, with the page of counters, the lanes, the log's socket and the listening ones. */
static int send_start(const struct edgehost *h, int control, const int *lanes, int log,
                      struct err *err)
{
	int fds[EDGEW_LANES_MAX + 4];
	autobuf struct buf b = { 0 };
	struct edgew_msg m = { .kind = EDGEW_START, .start = start_of(h) };
	size_t n = 0;
	ssize_t k;
	int r;

	fds[n++] = h->tallies_fd;
	for (unsigned i = 0; i < h->conf.workers; i++)
		fds[n++] = lanes[i];
	fds[n++] = log;
	if (h->conf.tls_fd >= 0)
		fds[n++] = listening(h->conf.tls_fd);
	if (h->conf.http_fd >= 0)
		fds[n++] = listening(h->conf.http_fd);
	r = edgew_encode(&m, &b, err);
	if (r < 0)
		return r;
	k = sock_send_fds(control, b.p, b.len, fds, n);
	return k < 0 ? err_sys(err, (int)k, "edge: send the settings") : 0;
}

int spawn_edge(struct edgehost *h, struct proc *ret, int *ret_control, int *ret_err, int *ret_log,
               int ret_lanes[EDGEW_LANES_MAX], struct err *err)
{
	int pair[2] = { -1, -1 }, log[2] = { -1, -1 }, errs[2] = { -1, -1 };
	int theirs[EDGEW_LANES_MAX];
	int r = 0;

	for (unsigned i = 0; i < EDGEW_LANES_MAX; i++)
		theirs[i] = ret_lanes[i] = -1;
	for (unsigned i = 0; i < h->conf.workers && r == 0; i++) {
		int l[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, l) < 0) {
			r = err_sys(err, -errno, "edge: make a socket");
			break;
		}
		ret_lanes[i] = l[0];
		theirs[i] = l[1];
	}
	if (r == 0 && (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ||
	               socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, log) < 0 ||
	               pipe2(errs, O_CLOEXEC) < 0 || fcntl(pair[0], F_SETFL, O_NONBLOCK) < 0 ||
	               fcntl(errs[0], F_SETFL, O_NONBLOCK) < 0))
		r = err_sys(err, -errno, "edge: make a socket");
	if (r == 0)
		r = send_start(h, pair[0], theirs, log[1], err);
	close_all(theirs, EDGEW_LANES_MAX);
	close_all(&log[1], 1);
	if (r == 0)
		r = helper_start(edgehost_kind.name, program, h->nofile, pair[1], errs[1], ret,
		                 err);
	close_all(&pair[1], 1);
	close_all(&errs[1], 1);
	if (r < 0) {
		close_all(&pair[0], 1);
		close_all(&errs[0], 1);
		close_all(&log[0], 1);
		close_all(ret_lanes, EDGEW_LANES_MAX);
		return r;
	}
	*ret_control = pair[0];
	*ret_err = errs[0];
	*ret_log = log[0];
	return 0;
}
