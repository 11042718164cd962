/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c - long calls: a command or a cell, followed until it ends
 *
 * A job waits on one descriptor (epoll) for its source, for a cancellation and for a timer. At
 * each tick it checks that the caller still has access, and reports progress if that was requested
 * (elapsed milliseconds and the latest output), because some clients give up if they hear
 * nothing. It runs on the connection's thread, as server-sent events or to one reply. When the
 * client disconnects, cancels or loses access, the command or cell in the guest is ended.
 */
#include "mcp/mcp_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"

#define TICK_MS 2000      /* between permission checks, and between keep-alives */
#define PROGRESS_MS 250   /* minimum between two reports */
#define MESSAGE_MAX 1024u /* bytes of output in one report */

struct mcp_job {
	struct api *api; /* weak */
	struct mcp_work work;
	struct mcp_running *running; /* owned */
	struct auth_lease lease;
	json_t *id, *token; /* owned; token NULL: no progress */
	int epoll, timer;   /* owned */
	uint64_t start_ms, reported_ms;
	json_t *reply; /* owned; set at the end */
	bool over;     /* reply NULL: it was cancelled, or out of memory */
	struct sse sse;
};

static void job_free(void *ctx)
{
	struct mcp_job *j = ctx;

	if (!j)
		return;
	if (j->work.ops)
		j->work.ops->free(j->work.x);
	mcp_running_end(j->running);
	if (j->epoll >= 0)
		close(j->epoll);
	if (j->timer >= 0)
		close(j->timer);
	buf_done(&j->sse.out);
	json_decref(j->id);
	json_decref(j->token);
	json_decref(j->reply);
	free(j);
}

static void job_freep(struct mcp_job **j)
{
	job_free(*j);
}

static int poll_fd(struct mcp_job *j, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(j->epoll, EPOLL_CTL_ADD, fd, &e);
}

int mcp_job_new(struct request *req, json_t *id, json_t *token, struct mcp_work *work_consume,
                struct mcp_running *running_consume, const struct auth_lease *lease,
                struct mcp_job **ret, struct err *err)
{
	static const struct itimerspec tick = {
		.it_interval = { .tv_sec = TICK_MS / 1000 },
		.it_value = { .tv_sec = TICK_MS / 1000 },
	};
	struct mcp_job *j = calloc(1, sizeof(*j));

	if (!j) {
		work_consume->ops->free(work_consume->x);
		mcp_running_end(running_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	j->api = api_of(req);
	j->work = *work_consume;
	j->running = running_consume;
	j->lease = *lease;
	j->id = json_incref(id);
	j->token = json_incref(token);
	j->start_ms = clock_ms();
	j->epoll = epoll_create1(EPOLL_CLOEXEC);
	j->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (j->epoll < 0 || j->timer < 0 || timerfd_settime(j->timer, 0, &tick, NULL) < 0 ||
	    poll_fd(j, j->timer) < 0 || poll_fd(j, mcp_running_fd(j->running)) < 0 ||
	    poll_fd(j, j->work.ops->fd(j->work.x)) < 0) {
		job_free(j);
		return err_set(err, -EMFILE, "cannot create a descriptor to wait on");
	}
	*ret = j;
	return 0;
}

/* Ends it: nothing of it continues in the guest, and it no longer counts. */
static void finish(struct mcp_job *j, json_t *result_consume)
{
	j->over = true;
	j->reply = result_consume ? mcp_result(j->id, result_consume) : NULL;
	j->work.ops->free(j->work.x);
	j->work.ops = NULL;
	mcp_running_end(TAKE_PTR(j->running));
}

static bool ticked(struct mcp_job *j)
{
	uint64_t n;

	return read(j->timer, &n, sizeof(n)) == sizeof(n);
}

/* One step: true if something arrived, or it is over. */
static bool step(struct mcp_job *j, bool *ret_tick)
{
	struct err err = { 0 };
	int r;

	*ret_tick = ticked(j);
	if (mcp_running_cancelled(j->running)) {
		finish(j, NULL);
		return true;
	}
	if (*ret_tick && !auth_lease_holds(j->api->deps.auth, &j->lease)) {
		err_tag(&err, -EACCES, ERR_FORBIDDEN,
		        "the key, token or permission has been revoked");
		finish(j, mcp_failed(&err));
		return true;
	}
	r = j->work.ops->step(j->work.x, &err);
	if (r == -ENODATA)
		finish(j, j->work.ops->result(j->work.x));
	else if (r < 0)
		finish(j, mcp_failed(&err));
	return r != 0;
}

static void report(struct mcp_job *j, bool tick)
{
	const struct buf *said;
	uint64_t now = clock_ms();
	json_t *params;

	if (!j->token || j->over || (!tick && now - j->reported_ms < PROGRESS_MS))
		return;
	/* It must increase with each report. */
	j->reported_ms = MAX(now, j->reported_ms + 1);
	said = j->work.ops->latest ? j->work.ops->latest(j->work.x) : NULL;
	params = json_pack("{s:O, s:I, s:I}", "progressToken", j->token, "progress",
	                   (json_int_t)(j->reported_ms - j->start_ms), "total",
	                   (json_int_t)j->work.timeout_ms);
	if (said && said->len) {
		size_t n = MIN(said->len, (size_t)MESSAGE_MAX);

		json_object_set_new(params, "message", shape_output(said->p + said->len - n, n));
	}
	sse_event(&j->sse, "message",
	          json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", "notifications/progress",
	                    "params", params));
}

/* ---- to one reply ---- */

json_t *mcp_job_run(struct request *req, struct mcp_job *j_consume)
{
	AUTO(job_freep) struct mcp_job *j = j_consume;
	int client = request_client_fd(req);
	bool tick;

	while (!j->over) {
		struct pollfd p[] = { { .fd = j->epoll, .events = POLLIN },
			              { .fd = client, .events = POLLRDHUP } };

		if (step(j, &tick))
			continue;
		poll(p, ARRAY_SIZE(p), TICK_MS);
		if (p[1].revents) /* the client disconnected */
			finish(j, NULL);
	}
	return j->reply ? json_incref(j->reply)
	                : mcp_error(j->id, MCP_CANCELLED, "the call was cancelled");
}

/* ---- as events ---- */

static ssize_t job_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct mcp_job *j = ctx;

	for (;;) {
		ssize_t k = sse_drain(&j->sse, p, max);
		bool more, tick;

		if (k)
			return k < 0 ? err_set(err, (int)k, "out of memory") : k;
		if (j->over && !j->reply)
			return -ENODATA; /* a cancelled call gets no reply */
		if (j->over) {
			sse_event(&j->sse, "message", TAKE_PTR(j->reply));
			continue;
		}
		more = step(j, &tick);
		if (more || tick)
			report(j, tick);
		else
			return 0;
	}
}

static int job_fd(void *ctx)
{
	return ((struct mcp_job *)ctx)->epoll;
}

static const struct outflow_ops job_ops = {
	.next = job_next, .fd = job_fd, .free = job_free, .beat = ": \n\n", .endless = true
};

int mcp_job_reply(struct request *req, struct reply *res, struct mcp_job *j_consume,
                  struct err *err)
{
	return reply_flow(req, res, &job_ops, j_consume, OUTFLOW_UNKNOWN, "text/event-stream", err);
}
