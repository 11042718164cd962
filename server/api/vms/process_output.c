/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_output.c - the output of a detached process, from a byte offset on
 *
 * As raw bytes of one stream, or as events of one or both that carry offsets. The guest keeps the
 * newest megabytes: raw bytes that were overwritten before they could be sent break the
 * connection, since the client could not tell otherwise; an event's offset shows the gap. A client
 * that was cut off asks again with the offset it had reached.
 */
#include "api/vms/shared.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "guest/guest.h"

struct follow {
	struct guest_flow *f; /* owned */
	struct sse sse;       /* unused when raw */
	struct sse_text text[3];
	uint64_t at; /* raw: the offset that must come next */
	uint64_t reached[3];
	bool ended;
};

static const char *const chan_names[] = { "stdin", "stdout", "stderr" };

static void follow_free(void *ctx)
{
	struct follow *x = ctx;

	guest_flow_close(x->f);
	buf_done(&x->sse.out);
	free(x);
}

static int follow_fd(void *ctx)
{
	return guest_flow_fd(((struct follow *)ctx)->f);
}

static ssize_t raw_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct follow *x = ctx;
	struct guest_proc end;
	uint64_t off;
	int chan;
	ssize_t k = guest_output_read(x->f, &chan, &off, (uint8_t *)p, max, err);

	if (k == -ENODATA) {
		int r = guest_output_result(x->f, &end, err);

		return r < 0 ? r : -ENODATA;
	}
	if (k > 0 && off != x->at)
		return err_set(err, -EOVERFLOW, "output was overwritten before it could be sent");
	if (k > 0)
		x->at += (uint64_t)k;
	return k;
}

static void flush_text(struct follow *x)
{
	for (int i = 1; i <= 2; i++)
		if (x->text[i].n)
			sse_output(&x->sse, &x->text[i], chan_names[i], NULL, 0,
			           (int64_t)x->reached[i], /* last= */ true);
}

/* The process has ended, or there is nothing more and the client does not follow. */
static void finish(struct follow *x, struct err *err)
{
	struct guest_proc p;
	json_t *j;

	x->ended = true;
	flush_text(x);
	if (err->code < 0 || guest_output_result(x->f, &p, err) < 0) {
		process_error(err->code, err);
		sse_failed(&x->sse, err);
		return;
	}
	if (p.running) {
		sse_event(&x->sse, "end",
		          json_pack("{s:I, s:I}", "stdoutBytes", (json_int_t)p.end[1],
		                    "stderrBytes", (json_int_t)p.end[2]));
		return;
	}
	j = json_pack("{s:i, s:I}", "statusCode", p.exit_code, "durationMs",
	              (json_int_t)p.duration_ms);
	if (p.signal)
		json_object_set_new(j, "signal", shape_signal(p.signal));
	if (p.timed_out)
		json_object_set_new(j, "timedOut", json_true());
	sse_event(&x->sse, "exit", j);
}

static void add_output(struct follow *x, int chan, uint64_t off, const uint8_t *p, size_t n)
{
	/* A gap: the rest of the character that was begun is lost. */
	if (x->text[chan].n && off != x->reached[chan])
		sse_output(&x->sse, &x->text[chan], chan_names[chan], NULL, 0,
		           (int64_t)x->reached[chan], /* last= */ true);
	x->reached[chan] = off + n;
	sse_output(&x->sse, &x->text[chan], chan_names[chan], p, n, (int64_t)off,
	           /* last= */ false);
}

static ssize_t event_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct follow *x = ctx;

	for (;;) {
		uint8_t piece[SSE_PIECE];
		ssize_t k = sse_drain(&x->sse, p, max);
		uint64_t off;
		int chan;

		if (k)
			return k < 0 ? err_set(err, (int)k, "out of memory") : k;
		if (x->ended)
			return -ENODATA;
		k = guest_output_read(x->f, &chan, &off, piece, sizeof(piece), err);
		if (k == 0)
			return 0;
		if (k < 0)
			finish(x, err);
		else
			add_output(x, chan, off, piece, (size_t)k);
	}
}

static const struct outflow_ops raw_ops = {
	.next = raw_next, .fd = follow_fd, .free = follow_free, .endless = true
};
static const struct outflow_ops event_ops = {
	.next = event_next, .fd = follow_fd, .free = follow_free, .beat = ": \n\n", .endless = true
};

int reply_follow(struct request *req, struct reply *res, struct guest_flow *flow_consume,
                 json_t *started_consume, struct err *err)
{
	struct follow *x = calloc(1, sizeof(*x));

	if (!x) {
		guest_flow_close(flow_consume);
		json_decref(started_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	x->f = flow_consume;
	if (started_consume)
		sse_event(&x->sse, "started", started_consume);
	else
		buf_put(&x->sse.out, ": \n\n", 4); /* so that the headers leave at once */
	return reply_flow(req, res, &event_ops, x, OUTFLOW_UNKNOWN, "text/event-stream", err);
}

static int reply_raw(struct request *req, struct reply *res, struct guest_flow *flow_consume,
                     uint64_t from, struct err *err)
{
	struct follow *x = calloc(1, sizeof(*x));
	char text[24];
	int r;

	if (!x) {
		guest_flow_close(flow_consume);
		return err_set(err, -ENOMEM, "out of memory");
	}
	x->f = flow_consume;
	x->at = from;
	r = reply_flow(req, res, &raw_ops, x, OUTFLOW_UNKNOWN, "application/octet-stream", err);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)from);
	reply_header(res, "X-Pando-Offset", text);
	return 0;
}

static int query_offset(struct request *req, uint64_t *ret, struct err *err)
{
	autofree char *s = NULL;
	char *end;
	int r = request_query(req, "offset", &s, err);

	if (r < 0 || !s)
		return r;
	errno = 0;
	*ret = strtoull(s, &end, 10);
	if (!isdigit((unsigned char)*s) || *end || errno || *ret > INT64_MAX)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'offset' must be a whole number, 0 or more");
	return 0;
}

/* 2 stdout, 4 stderr, 6 both: only events can tell them apart. */
static int query_chans(struct request *req, bool events, unsigned *ret, struct err *err)
{
	autofree char *s = NULL;
	int r = request_query(req, "stream", &s, err);

	if (r < 0)
		return r;
	*ret = !s                         ? (events ? 6 : 2)
	       : strcmp(s, "stdout") == 0 ? 2
	       : strcmp(s, "stderr") == 0 ? 4
	                                  : 0;
	if (!*ret)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'stream' must be stdout or stderr");
	return 0;
}

int api_process_output(struct request *req, struct reply *res, struct err *err)
{
	const char *accept = request_header(req, "Accept");
	bool events = accept && strstr(accept, "text/event-stream"), follow = false;
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct guest_flow *f;
	struct guest_proc p;
	uint64_t off = 0;
	unsigned chans;
	uint32_t proc;
	int r;

	if ((r = query_offset(req, &off, err)) < 0 ||
	    (r = query_chans(req, events, &chans, err)) < 0 ||
	    (r = request_query_bool(req, "follow", &follow, err)) < 0)
		return r;
	if ((r = process_find(req, &g, &proc, err)) < 0 || (r = guest_proc(g, proc, &p, err)) < 0 ||
	    (r = guest_output(g, proc, chans, off, follow, &f, err)) < 0)
		return process_error(r, err);
	if (p.attached) {
		guest_flow_close(f);
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
		               "the process is not detached: its output goes to its caller");
	}
	if (events)
		return reply_follow(req, res, f, NULL, err);
	return reply_raw(req, res, f, MAX(off, p.first[chans == 2 ? 1 : 2]), err);
}
