/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - run a command in the guest, with its input and output
 *
 * One loop on the caller's thread: whatever output is there goes to the caller or
 * into the result, input goes out as far as there is credit. Output beyond
 * max_output is taken and dropped, so the command runs to its end. The guest
 * enforces the timeout; the backstop here is for a guest that does not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "guest/guest_internal.h"

_Static_assert(GUEST_ENV_MAX == AGENT_VM_ENV_MAX, "one limit of variables");
_Static_assert(GUEST_SITE_ENV_MAX == AGENT_SITE_ENV_MAX, "one limit of the site's");

int guest_set_env(struct guest *g, const char *const *env, struct err *err)
{
	autobuf struct buf b = { 0 };
	uint16_t n = 0;
	int r;

	while (env[n] && n < GUEST_ENV_MAX)
		n++;
	buf_put_u16(&b, AGENT_OP_ENV_SET);
	agent_env_put(&b, env, n);
	r = guest_call(g, &b, deadline_in(GUEST_CALL_MS), NULL, err);
	if (r == -EOPNOTSUPP)
		return err_set(
		        err, -ENOTSUP,
		        "this VM was created by an older version of Pando: stop and start it");
	return r;
}

int guest_set_site(struct guest *g, const char *stamp, const char *const *env, uint64_t deadline_ms,
                   struct err *err)
{
	autobuf struct buf b = { 0 };
	uint16_t n = 0;

	while (env[n] && n < AGENT_SITE_ENV_MAX)
		n++;
	buf_put_u16(&b, AGENT_OP_SITE_SET);
	agent_text_put(&b, stamp);
	agent_env_put(&b, env, n);
	return guest_call(g, &b, deadline_ms, NULL, err);
}

struct run {
	const struct guest_exec_req *req;
	struct stream *s;
	struct buf kept[AGENT_CHANS];
	bool truncated[AGENT_CHANS];
	size_t max, stdin_off;
	bool stdin_done;
};

static int deliver(struct run *x, int chan, const struct buf *b, struct err *err)
{
	struct buf *k = &x->kept[chan];
	size_t room;
	int r;

	if (x->req->on_output) {
		r = x->req->on_output(x->req->ctx, chan, b->p, b->len);
		return r < 0 ? err_set(err, r, "the caller cancelled the command") : 0;
	}
	room = x->max - k->len;
	x->truncated[chan] |= b->len > room;
	buf_put(k, b->p, MIN(b->len, room));
	return k->failed ? err_set(err, -ENOMEM, "out of memory for output") : 0;
}

/* 1 when there was any. */
static int take_output(struct run *x, struct buf *tmp, struct err *err)
{
	int any = 0;

	for (int chan = AGENT_OUT; chan <= AGENT_ERR; chan++) {
		int r;

		stream_take(x->s, chan, tmp);
		if (!tmp->len)
			continue;
		any = 1;
		r = deliver(x, chan, tmp, err);
		if (r == 0)
			r = stream_consumed(x->s, chan, tmp->len, err);
		if (r < 0)
			return r;
	}
	return any;
}

static int feed(struct run *x, uint64_t deadline, struct err *err)
{
	size_t n = stream_room(x->s, x->req->stdin_len - x->stdin_off);
	int r = 0;

	if (n)
		r = stream_send(x->s, x->req->stdin_data + x->stdin_off, n, deadline, err);
	x->stdin_off += n;
	if (r == 0 && x->stdin_off == x->req->stdin_len) {
		x->stdin_done = true;
		r = stream_send_eof(x->s, deadline, err);
	}
	return r;
}

static int run_to_end(struct run *x, uint64_t deadline, struct err *err)
{
	autobuf struct buf tmp = { 0 };

	for (;;) {
		unsigned want = STREAM_DATA | STREAM_DONE | (x->stdin_done ? 0 : STREAM_CREDIT);
		int ev = stream_wait(x->s, want, deadline, err), r;

		if (ev < 0)
			return ev;
		r = take_output(x, &tmp, err);
		if (r < 0)
			return r;
		if (ev & STREAM_DONE) { /* all output came before it */
			if (r == 0)
				return 0;
			continue;
		}
		if (ev & STREAM_CREDIT) {
			r = feed(x, deadline, err);
			if (r < 0)
				return r;
		}
	}
}

static int fill(struct run *x, struct guest_exec_result *ret, struct err *err)
{
	struct agent_exec_result m;
	const uint8_t *body;
	size_t n;
	int r = stream_result(x->s, &body, &n, err);

	if (r < 0)
		return r;
	if (agent_exec_result_get(body, n, &m) < 0)
		return err_set(err, -EPROTO, "the guest sent a malformed reply");
	*ret = (struct guest_exec_result){ .exit_code = (int)m.exit_code,
		                           .signal = (int)m.signal,
		                           .timed_out = m.timed_out,
		                           .out_len = x->kept[AGENT_OUT].len,
		                           .errout_len = x->kept[AGENT_ERR].len };
	memcpy(ret->truncated, x->truncated, sizeof(ret->truncated));
	ret->out = buf_take_str(&x->kept[AGENT_OUT]);
	ret->errout = buf_take_str(&x->kept[AGENT_ERR]);
	if (!ret->out || !ret->errout) {
		guest_exec_result_done(ret);
		return err_set(err, -ENOMEM, "out of memory for output");
	}
	return 0;
}

int exec_request(const struct guest_exec_req *req, uint16_t op, bool with_stdin, struct buf *b,
                 struct err *err)
{
	autofree struct agent_exec_req *m = calloc(1, sizeof(*m));

	if (!m)
		return err_set(err, -ENOMEM, "out of memory for a request");
	m->command = req->command;
	m->user = req->user;
	m->cwd = req->cwd;
	m->timeout_ms = req->timeout_ms;
	m->with_stdin = with_stdin;
	if (strlen(req->command) >= AGENT_COMMAND_MAX)
		return err_tag(err, -E2BIG, ERR_COMMAND_TOO_LONG,
		               "the command has %zu bytes, more than the maximum of %u",
		               strlen(req->command), AGENT_COMMAND_MAX - 1);
	for (; req->env && req->env[m->n_env]; m->n_env++) {
		if (m->n_env == AGENT_ENV_MAX)
			return err_set(err, -E2BIG, "more than %u variables", AGENT_ENV_MAX);
		m->env[m->n_env] = req->env[m->n_env];
	}
	buf_put_u16(b, req->terminal && op == AGENT_OP_EXEC ? AGENT_OP_TERM_EXEC : op);
	if (req->terminal && op == AGENT_OP_EXEC)
		agent_text_put(b, req->terminal);
	agent_exec_req_put(b, m);
	return 0;
}

int guest_exec(struct guest *g, const struct guest_exec_req *req, struct guest_exec_result *ret,
               struct err *err)
{
	uint64_t deadline =
	        req->timeout_ms ? clock_ms() + req->timeout_ms + GUEST_BACKSTOP_MS : GUEST_NEVER;
	struct run x = { .req = req,
		         .max = req->max_output ? req->max_output : GUEST_OUTPUT_DEFAULT,
		         .stdin_done = !req->stdin_data };
	autobuf struct buf b = { 0 };
	int r = exec_request(req, AGENT_OP_EXEC, req->stdin_data != NULL, &b, err);

	if (r == 0)
		r = stream_open(g, &b, /* opts= */ 0, deadline, &x.s, err);
	if (r == 0)
		r = run_to_end(&x, deadline, err);
	if (r == 0)
		r = fill(&x, ret, err);
	stream_close(x.s);
	for (int i = 0; i < AGENT_CHANS; i++)
		buf_done(&x.kept[i]);
	return r;
}

void guest_exec_result_done(struct guest_exec_result *r)
{
	free(r->out);
	free(r->errout);
	*r = (struct guest_exec_result){ 0 };
}
