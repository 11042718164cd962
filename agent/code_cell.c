/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_cell.c - runs cells: one at a time in each context, in order of arrival
 *
 * Theory of operation: the kernel is started if there is none -> READY -> the cell
 * is sent to it, STARTED to the host -> its output and results, in order -> DONE, or
 * the kernel's end -> the files that changed -> RESULT. Bytes that were in the pipes
 * before the kernel sent an event are sent before it: the kernel flushes, then
 * sends the event, and we empty the pipes of what is in them at that time. A timeout interrupts;
 * a cell that continues for CODE_IGNORE_MS is killed with its kernel. A kernel
 * that ended is replaced at once.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/code.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define RX_MAX (AGENT_CODE_EVENT_HDR + AGENT_CODE_EVENT_MAX)
#define READ_MAX (AGENT_CODE_EVENT_MAX / 2) /* of a pipe at a time */

void code_cell_free(struct code_cell *c)
{
	if (!c)
		return;
	free(c->code);
	free(c);
}

/* The listener for the kernel's events. */
static struct stream *listener(const struct code_ctx *x)
{
	bool now = x->state == AGENT_CODE_BUSY || x->state == AGENT_CODE_STARTING;

	return now && x->cells ? x->cells->s : NULL;
}

/* The cell begins. Reported with its first output, or after a short time without any. */
static void say_started(struct code_ctx *x)
{
	uint8_t id[4];

	if (!TAKE(x->say_at, 0) || !listener(x))
		return;
	put_be32(id, x->id);
	agent_code_event_put(&x->outq, &(struct agent_code_event){ .kind = AGENT_CODE_STARTED,
	                                                           .p = id,
	                                                           .len = sizeof(id) });
}

static void tell(struct code_ctx *x, uint8_t kind, bool more, const void *p, size_t n)
{
	struct agent_code_event m = { .kind = kind, .more = more, .p = p, .len = n };

	if (!listener(x))
		return;
	say_started(x);
	agent_code_event_put(&x->outq, &m);
}

/* False if something waits for credit. */
static bool flush(struct agent *a, struct code_ctx *x)
{
	struct stream *s = listener(x);

	if (x->outq.failed) { /* out of memory: the host would wait for the rest for ever */
		buf_reset(&x->outq);
		x->outq_off = 0;
		if (s) {
			stream_result(a, s, ENOMEM, AGENT_TAG_GUEST_BUSY,
			              "the agent is out of memory", NULL, 0);
			job_orphan(a, s);
			s = NULL;
		}
	}
	while (s && x->outq_off < x->outq.len) {
		struct out_chan *o = &s->out[AGENT_OUT];
		size_t n = MIN(MIN(x->outq.len - x->outq_off, (size_t)o->credit), CHUNK_MAX);

		if (!n || port_queued(a) >= TX_HIGH)
			return false;
		port_send(a, AGENT_F_DATA, AGENT_OUT, s->id, x->outq.p + x->outq_off, n);
		o->credit -= (uint32_t)n;
		x->outq_off += n;
	}
	if (x->outq.cap > (1u << 20))
		buf_done(&x->outq);
	buf_reset(&x->outq);
	x->outq_off = 0;
	return true;
}

/* ---- the cell's output ---- */

static void cut_marker(struct code_ctx *x, int chan)
{
	char text[128];
	int n = snprintf(text, sizeof(text),
	                 "\n[output cut here: the cell wrote more than %u bytes to %s]\n",
	                 AGENT_CODE_OUTPUT_MAX, chan == AGENT_OUT ? "stdout" : "stderr");

	tell(x, chan == AGENT_OUT ? AGENT_CODE_STDOUT : AGENT_CODE_STDERR, false, text, (size_t)n);
}

static void took_output(struct code_ctx *x, int chan, const uint8_t *p, size_t n)
{
	uint8_t kind = chan == AGENT_OUT ? AGENT_CODE_STDOUT : AGENT_CODE_STDERR;
	uint64_t had = x->bytes[chan];
	size_t keep = had >= AGENT_CODE_OUTPUT_MAX
	                      ? 0
	                      : (size_t)MIN((uint64_t)n, AGENT_CODE_OUTPUT_MAX - had);

	x->owed[chan] = x->owed[chan] > n ? x->owed[chan] - n : 0;
	x->bytes[chan] += n;
	if (keep)
		tell(x, kind, false, p, keep);
	if (had <= AGENT_CODE_OUTPUT_MAX && x->bytes[chan] > AGENT_CODE_OUTPUT_MAX)
		cut_marker(x, chan);
}

/* One read of a pipe; true if there were bytes. */
static bool read_pipe(struct code_ctx *x, int chan)
{
	static uint8_t p[READ_MAX];
	ssize_t n;

	if (x->pipe[chan] < 0)
		x->readable[chan] = false;
	if (!x->readable[chan]) {
		x->owed[chan] = 0;
		return false;
	}
	do {
		n = read(x->pipe[chan], p, sizeof(p));
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		took_output(x, chan, p, (size_t)n);
		return true;
	}
	x->readable[chan] = false;
	x->owed[chan] = 0;
	if (n == 0)
		close(TAKE_FD(x->pipe[chan])); /* all writers have closed it */
	return false;
}

/* Counts what is in the pipes now, which belongs before the next event. */
static void count_owed(struct code_ctx *x)
{
	for (int i = AGENT_OUT; i <= AGENT_ERR; i++) {
		int n = 0;

		x->owed[i] = 0;
		if (x->pipe[i] >= 0 && ioctl(x->pipe[i], FIONREAD, &n) == 0 && n > 0) {
			x->owed[i] = (size_t)n;
			x->readable[i] = true;
		}
	}
	x->owing = true;
}

/* ---- the cell's end ---- */

static void ended(struct agent *a, struct code_ctx *x)
{
	struct code_cell *c = x->cells;
	int sig = x->exited && WIFSIGNALED(x->wstatus) ? WTERMSIG(x->wstatus) : 0;
	struct agent_code_result m = {
		.context = x->id,
		.language = x->lang,
		.how = x->how,
		.count = x->count,
		.duration_ms = (uint32_t)(x->started_ms ? clock_ms() - x->started_ms : 0),
		.signal = (uint32_t)sig,
		.exit_code = sig         ? 0
		             : x->exited ? (uint32_t)WEXITSTATUS(x->wstatus)
		                         : 0,
		.fresh = x->fresh,
		.files_cut = x->files_cut,
		.bytes = { 0, x->bytes[AGENT_OUT], x->bytes[AGENT_ERR] },
	};
	autobuf struct buf b = { 0 };

	agent_code_result_put(&b, &m);
	if (c->s && b.failed)
		stream_result(a, c->s, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory", NULL, 0);
	else if (c->s)
		stream_result(a, c->s, 0, AGENT_TAG_NONE, "", b.p, b.len);
	x->cells = c->next;
	x->waiting--;
	code_cell_free(c);
	x->timeout_at = x->kill_at = x->started_ms = x->say_at = x->nudge_at = 0;
	x->done = x->asked = x->signal_due = x->fresh = x->files_cut = false;
	x->how = AGENT_CODE_END_OK;
	memset(x->bytes, 0, sizeof(x->bytes));
}

void code_end_cell(struct agent *a, struct code_ctx *x, uint8_t how)
{
	x->how = how;
	flush(a, x);
	ended(a, x);
}

/* The cell is over and all its output is queued: now the files, then RESULT. */
static void finish(struct agent *a, struct code_ctx *x)
{
	bool told;

	say_started(x);
	if (!x->done)
		code_files_end(a, x);
	x->done = true;
	if (!flush(a, x))
		return;
	told = x->cells->s != NULL;
	ended(a, x);
	if (!x->exited) {
		x->state = AGENT_CODE_IDLE;
		return;
	}
	x->lost = !told && !x->killed;
	code_forget_kernel(x);
}

/* The kernel is gone, its pipes are empty. */
static void gone(struct agent *a, struct code_ctx *x)
{
	enum agent_code_state was = x->state;
	bool by_signal = WIFSIGNALED(x->wstatus) && WTERMSIG(x->wstatus) == SIGKILL;
	bool restart = was == AGENT_CODE_BUSY || x->killed;

	if (x->cells && (was == AGENT_CODE_BUSY || (was == AGENT_CODE_STARTING && !x->killed))) {
		if (x->how == AGENT_CODE_END_OK || x->how == AGENT_CODE_END_INTERRUPTED)
			x->how = x->broken                           ? AGENT_CODE_END_BROKEN
			         : was == AGENT_CODE_STARTING        ? AGENT_CODE_END_NO_START
			         : by_signal && code_oom_happened(a) ? AGENT_CODE_END_OOM
			                                             : AGENT_CODE_END_DIED;
		finish(a, x);
		if (x->state != AGENT_CODE_NONE)
			return; /* it waits for credit */
	} else {
		x->lost = !x->killed && was == AGENT_CODE_IDLE;
		code_forget_kernel(x);
	}
	if (restart && !x->deleted)
		code_start(a, x, /* warm= */ false);
}

/* ---- events from the kernel ---- */

static void broke(struct code_ctx *x, const char *why)
{
	if (x->exited || x->broken)
		return;
	log_warn("kernel %u of context %u: %s", x->kernel, x->id, why);
	x->broken = true;
	code_kill(x);
}

static void on_done(struct agent *a, struct code_ctx *x, const struct agent_code_event *m)
{
	if (m->len == 4)
		x->count = get_be32(m->p);
	finish(a, x);
}

/* 1: taken; 0: not now. */
static int take_event(struct agent *a, struct code_ctx *x, const struct agent_code_event *m)
{
	bool busy = x->state == AGENT_CODE_BUSY;

	switch (m->kind) {
	case AGENT_CODE_READY:
		if (x->state == AGENT_CODE_STARTING) {
			x->state = AGENT_CODE_IDLE;
			x->ready_by = 0;
		}
		return 1;
	case AGENT_CODE_RESULT:
	case AGENT_CODE_ERROR:
		if (busy)
			tell(x, m->kind, m->more, m->p, m->len);
		return 1;
	case AGENT_CODE_DONE:
		if (busy)
			on_done(a, x, m);
		return 1;
	default:
		broke(x, "it sent an event that kernels may not send");
		return 1;
	}
}

/* Fills rx up to one event; true if there is something new. */
static bool read_ctl(struct code_ctx *x)
{
	uint8_t *p;
	ssize_t n;

	if (x->ctl < 0)
		x->readable[0] = false;
	if (!x->readable[0] || x->rx.len >= RX_MAX)
		return false;
	p = buf_reserve(&x->rx, RX_MAX);
	if (!p)
		return false;
	do {
		n = read(x->ctl, p, RX_MAX - x->rx.len);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		x->rx.len += (size_t)n;
		return true;
	}
	x->readable[0] = false;
	if (n == 0 || errno != EAGAIN) {
		close(TAKE_FD(x->ctl));
		x->closed_by = clock_ms() +
		               CODE_CLOSED_MS; /* it is ending, or it only closed the socket */
	}
	return false;
}

/* Handles one event, after the bytes that belong before it; true if it was taken. */
static bool next_event(struct agent *a, struct code_ctx *x)
{
	struct agent_code_event m;
	uint32_t kernel = x->kernel;
	int n = x->forking ? 0 : agent_code_event_get(x->rx.p, x->rx.len, &m);

	if (n < 0) {
		x->rx.len = 0;
		broke(x, "it sent bytes that are not an event");
	}
	if (n <= 0)
		return false;
	if (!x->owing)
		count_owed(x);
	if (x->owed[AGENT_OUT] || x->owed[AGENT_ERR])
		return false;
	x->owing = false;
	take_event(a, x, &m);
	if (x->kernel == kernel && x->rx.len >= (size_t)n) {
		memmove(x->rx.p, x->rx.p + n, x->rx.len - (size_t)n);
		x->rx.len -= (size_t)n;
	}
	return true;
}

static void write_ctl(struct agent *a, struct code_ctx *x)
{
	while (x->ctl >= 0 && x->tx_off < x->tx.len) {
		ssize_t n = send(x->ctl, x->tx.p + x->tx_off, x->tx.len - x->tx_off, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break; /* full, or gone, which the reader will notice */
		x->tx_off += (size_t)n;
	}
	code_await_room(a, x, x->tx_off < x->tx.len);
	if (x->tx_off == x->tx.len || x->ctl < 0)
		code_interrupt_sent(x);
	if (x->tx_off == x->tx.len) {
		buf_done(&x->tx);
		x->tx_off = 0;
	}
}

/* ---- begin, and all of it ---- */

void code_enqueue(struct agent *a, struct code_ctx *x, struct code_cell *cell_consume)
{
	struct code_cell **p = &x->cells;

	while (*p)
		p = &(*p)->next;
	*p = cell_consume;
	x->waiting++;
}

static void begin(struct agent *a, struct code_ctx *x)
{
	struct code_cell *c = x->cells;

	x->state = AGENT_CODE_BUSY;
	x->how = AGENT_CODE_END_OK;
	x->done = x->asked = x->files_cut = false;
	x->fresh = TAKE(x->lost, false);
	memset(x->bytes, 0, sizeof(x->bytes));
	x->started_ms = clock_ms();
	x->timeout_at = c->timeout_ms ? x->started_ms + c->timeout_ms : 0;
	x->kill_at = 0;
	x->say_at = x->started_ms + CODE_SAY_MS;
	code_files_begin(a, x);
	x->used |= c->len > 0;
	if (TAKE(x->move, false)) {
		buf_printf(&x->tx, "CD %zu\n", strlen(x->cwd));
		buf_put(&x->tx, x->cwd, strlen(x->cwd));
	}
	buf_printf(&x->tx, "RUN %zu\n", c->len);
	buf_put(&x->tx, c->code, c->len);
	free(TAKE_PTR(c->code));
	if (c->interrupted) {
		x->asked = true;
		code_interrupt(x);
	}
	if (x->tx.failed) {
		buf_done(&x->tx);
		x->broken = true;
		code_kill(x);
	}
	write_ctl(a, x);
}

static void timers(struct code_ctx *x, uint64_t now)
{
	if (x->ready_by && now >= x->ready_by) {
		x->ready_by = 0;
		code_kill(x);
	}
	if (x->say_at && now >= x->say_at)
		say_started(x);
	if (x->timeout_at && now >= x->timeout_at) {
		x->timeout_at = 0;
		x->kill_at = now + CODE_IGNORE_MS;
		x->how = AGENT_CODE_END_TIMED_OUT;
		code_interrupt(x);
	}
	if (x->kill_at && now >= x->kill_at) {
		x->kill_at = 0;
		x->how = AGENT_CODE_END_KILLED;
		code_kill(x);
	}
	if (x->closed_by && now >= x->closed_by) {
		x->closed_by = 0;
		broke(x, "it closed its channel");
	}
	if (x->nudge_at && now >= x->nudge_at)
		code_nudge(x);
	if (x->asked && x->how == AGENT_CODE_END_OK)
		x->how = AGENT_CODE_END_INTERRUPTED;
}

/* The first cell needs a kernel. */
static void ensure(struct agent *a, struct code_ctx *x)
{
	int r = code_start(a, x, x->cells->warm);

	if (r < 0) {
		log_warn("cannot start a kernel: %s", strerrorname_np(-r));
		code_end_cell(a, x, AGENT_CODE_END_NO_START);
	}
}

void code_step(struct agent *a, struct code_ctx *x, uint64_t now)
{
	timers(x, now);
	write_ctl(a, x);
	for (int i = 0; i < CODE_DROP_PER_TURN; i++) {
		bool moved = false;

		if (!flush(a, x))
			return;
		if (x->done) { /* only RESULT was missing */
			finish(a, x);
			continue;
		}
		moved |= next_event(a, x);
		for (int chan = AGENT_OUT; chan <= AGENT_ERR; chan++)
			moved |= read_pipe(x, chan);
		moved |= read_ctl(x);
		if (!moved)
			break;
	}
	if (!flush(a, x))
		return;
	if (x->exited && !x->readable[0]) {
		if (!x->owing)
			count_owed(x); /* a child that outlived it may write for ever */
		if (!x->owed[AGENT_OUT] && !x->owed[AGENT_ERR])
			gone(a, x);
	}
	while (x->deleted && x->state == AGENT_CODE_NONE && x->cells)
		code_end_cell(a, x, AGENT_CODE_END_RESTARTED);
	if (x->state == AGENT_CODE_NONE && x->cells && !x->deleted)
		ensure(a, x);
	if (x->state == AGENT_CODE_IDLE && x->cells && !x->exited && !x->killed)
		begin(a, x); /* a kernel that is about to end gets no cell: its successor does */
}

bool code_can_move(const struct agent *a, const struct code_ctx *x)
{
	const struct stream *s = listener(x);

	if (x->outq_off < x->outq.len || (x->done && s))
		return s && s->out[AGENT_OUT].credit && port_queued(a) < TX_HIGH;
	return x->readable[0] || x->readable[AGENT_OUT] || x->readable[AGENT_ERR] ||
	       (x->cells &&
	        (x->state == AGENT_CODE_NONE || (x->state == AGENT_CODE_IDLE && !x->killed))) ||
	       (x->exited && x->pid <= 0 && x->state != AGENT_CODE_NONE);
}
