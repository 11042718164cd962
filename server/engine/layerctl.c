/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layerctl.c - client of the layer library inside QEMU
 *
 * One packet, one answer, in order; DONE arrives on its own when a freeze's writer
 * has finished. The library lives in QEMU's process, which may be controlled
 * by its guest: every field is checked, every wait has a deadline.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sock.h"
#include "engine/engine_internal.h"
#include "layers/control.h"
#include "layers/format.h"

static int reply_read_fd(int fd, uint64_t deadline_ms, struct layers_reply *ret, int *ret_fd,
                         struct err *err)
{
	size_t n_fds = 0;
	ssize_t n;
	int r = io_wait(fd, POLLIN, deadline_ms);

	if (r == 0)
		return err_set(err, -ETIMEDOUT, "the layer library did not answer in time");
	if (r < 0)
		return err_sys(err, r, "wait for the layer library");
	n = sock_recv_fds(fd, ret, sizeof(*ret), ret_fd, ret_fd ? 1 : 0, ret_fd ? &n_fds : NULL);
	if (n == 0 || n == -ECONNRESET)
		return err_set(err, -EPIPE, "QEMU has ended");
	if (n < 0)
		return err_sys(err, (int)n, "read from the layer library");
	if (n != sizeof(*ret))
		return err_set(err, -EBADMSG, "the layer library sent %zd bytes", n);
	ret->why[sizeof(ret->why) - 1] = '\0';
	return 0;
}

static int reply_read(int fd, uint64_t deadline_ms, struct layers_reply *ret, struct err *err)
{
	return reply_read_fd(fd, deadline_ms, ret, NULL, err);
}

/* Reads the answer to a request; skips a DONE of an aborted freeze.
 */
static int answer(int fd, uint32_t type, uint64_t deadline_ms, struct layers_reply *ret,
                  struct err *err)
{
	do {
		int r = reply_read(fd, deadline_ms, ret, err);

		if (r < 0)
			return r;
	} while (ret->type == LAYERS_DONE);
	if (ret->type != type)
		return err_set(err, -EBADMSG, "the layer library sent an unexpected reply");
	if (ret->status < 0)
		return err_sys(err, ret->status, "layer library: %s", ret->why);
	return 0;
}

static int ask(int fd, const struct layers_req *req, const int *fds, size_t n_fds, struct err *err)
{
	ssize_t n = sock_send_fds(fd, req, sizeof(*req), fds, n_fds);

	if (n < 0)
		return err_sys(err, n == -ECONNRESET ? -EPIPE : (int)n, "ask the layer library");
	return 0;
}

int layerctl_map(int fd, const int *layer_fds, size_t n, struct err *err)
{
	struct layers_req req = { .type = LAYERS_MAP, .n_layers = (uint32_t)n };
	int r = ask(fd, &req, layer_fds, n, err);

	return r < 0 ? err_wrap(err, r, "map memory layers") : 0;
}

int layerctl_mapped(int fd, uint64_t deadline_ms, struct err *err)
{
	struct layers_reply reply;
	int r = answer(fd, LAYERS_MAP, deadline_ms, &reply, err);

	return r < 0 ? err_wrap(err, r, "map memory layers") : 0;
}

int layerctl_seed(int fd, const int *layer_fds, size_t n, uint64_t deadline_ms, struct err *err)
{
	struct layers_req req = { .type = LAYERS_SEED, .n_layers = (uint32_t)n };
	struct layers_reply reply;
	int r = ask(fd, &req, layer_fds, n, err);

	if (r == 0)
		r = answer(fd, LAYERS_SEED, deadline_ms, &reply, err);
	return r < 0 ? err_wrap(err, r, "map memory layers again") : 0;
}

int layerctl_fork(int fd, const int *given, uint64_t deadline_ms, int *ret_pidfd, struct err *err)
{
	struct layers_req req = { .type = LAYERS_FORK, .n_layers = LAYERS_FORK_FDS };
	struct layers_reply reply;
	int r = ask(fd, &req, given, LAYERS_FORK_FDS, err);

	*ret_pidfd = -1;
	if (r == 0)
		r = reply_read_fd(fd, deadline_ms, &reply, ret_pidfd, err);
	if (r < 0)
		return r;
	if (reply.type != LAYERS_FORK)
		return err_set(err, -EBADMSG, "the layer library sent an unexpected reply");
	if (reply.status < 0)
		return err_sys(err, reply.status, "layer library: %s", reply.why);
	return *ret_pidfd < 0 ? err_set(err, -EBADMSG, "the layer library named no process") : 0;
}

int layerctl_forked(int fd, uint64_t deadline_ms, struct err *err)
{
	struct layers_reply reply;
	int r = answer(fd, LAYERS_FORK, deadline_ms, &reply, err);

	return r < 0 ? err_wrap(err, r, "the forked process") : 0;
}

static void say_kernel(struct layers_req *req, const struct layer_kernel *k)
{
	req->first = (uint32_t)(k->note / LAYER_PAGE);
	req->n_layers = k->low_mb;
}

int layerctl_knows_free(int fd, uint64_t deadline_ms, struct err *err)
{
	struct layers_req req = { .type = LAYERS_STAT };
	struct layers_reply reply;
	int r = ask(fd, &req, NULL, 0, err);

	if (r == 0)
		r = answer(fd, LAYERS_STAT, deadline_ms, &reply, err);
	return r < 0 ? r : (reply.can & LAYERS_CAN_FREE) != 0;
}

int layerctl_sweep(int fd, const struct layer_kernel *k, uint64_t pages, uint64_t deadline_ms,
                   uint64_t *ret_pages, uint32_t *ret_left, struct err *err)
{
	struct layers_req req = { .type = LAYERS_SWEEP, .token = pages };
	struct layers_reply reply;
	int r;

	say_kernel(&req, k);
	r = ask(fd, &req, NULL, 0, err);
	if (r == 0)
		r = answer(fd, LAYERS_SWEEP, deadline_ms, &reply, err);
	if (r < 0)
		return err_wrap(err, r, "look for free memory");
	*ret_pages = reply.pages;
	*ret_left = reply.in_flight;
	return 0;
}

int layerctl_freeze(int fd, int out_fd, uint64_t token, bool fsync_it, const struct layer_kernel *k,
                    uint64_t deadline_ms, uint64_t *ret_fork_us, struct err *err)
{
	struct layers_req req = { .type = LAYERS_FREEZE,
		                  .token = token,
		                  .flags = fsync_it ? LAYERS_FREEZE_FSYNC : 0 };
	struct layers_reply reply;
	int r;

	if (k->note) {
		req.flags |= LAYERS_FREEZE_FREE;
		say_kernel(&req, k);
	}
	r = ask(fd, &req, &out_fd, 1, err);
	if (r == 0)
		r = answer(fd, LAYERS_FREEZE, deadline_ms, &reply, err);
	if (r < 0)
		return err_wrap(err, r, "fork the memory writer");
	*ret_fork_us = reply.us;
	return 0;
}

int layerctl_wait_done(int fd, uint64_t token, uint64_t deadline_ms, struct layer_done *ret,
                       struct err *err)
{
	struct layers_reply reply;

	for (;;) {
		int r = reply_read(fd, deadline_ms, &reply, err);

		if (r < 0)
			return err_wrap(err, r, "write memory layer");
		if (reply.type == LAYERS_DONE && reply.token == token)
			break;
	}
	*ret = (struct layer_done){ .error = -reply.status,
		                    .pages = reply.pages,
		                    .bytes = reply.bytes,
		                    .extents = reply.n_extents,
		                    .write_us = reply.us,
		                    .free_bytes = reply.mem_bytes };
	return 0;
}
