/* SPDX-License-Identifier: Apache-2.0 */
/* code.c - contexts of the code interpreter and the events of a cell */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "guest/guest_code.h"
#include "guest/guest_internal.h"

#define READ_BYTES (32u << 10)

static int no_sense(struct err *err)
{
	return err_set(err, -EPROTO, "the guest sent a malformed reply");
}

/* An agent from before this operation was known. */
static int explain(int r, struct err *err)
{
	if (r == -EOPNOTSUPP)
		return err_set(
		        err, -ENOTSUP,
		        "this VM was created by an older version of Pando: stop and start it");
	return r;
}

int guest_code_run(struct guest *g, const struct guest_code_req *req, struct guest_flow **ret,
                   struct err *err)
{
	/* Not sent to an older agent that does not support it. */
	bool cwd = req->cwd && *req->cwd && !req->context && strlen(req->cwd) < AGENT_CODE_CWD_MAX;
	struct agent_code_run m = { .context = req->context,
		                    .language = (uint8_t)req->language,
		                    .flags = (uint8_t)((req->warm ? AGENT_CODE_WARM : 0) |
		                                       (req->if_idle ? AGENT_CODE_IF_IDLE : 0) |
		                                       (req->spare ? AGENT_CODE_SPARE : 0) |
		                                       (cwd ? AGENT_CODE_CWD : 0)),
		                    .timeout_ms = req->timeout_ms,
		                    .user = req->user,
		                    .code = req->code,
		                    .cwd = req->cwd };
	autobuf struct buf b = { 0 };

	if (strlen(req->code) >= AGENT_CODE_MAX)
		return err_tag(err, -E2BIG, ERR_BAD_REQUEST,
		               "the cell has %zu bytes, more than the maximum of %u",
		               strlen(req->code), AGENT_CODE_MAX - 1);
	buf_put_u16(&b, AGENT_OP_CODE_RUN);
	agent_code_run_put(&b, &m);
	return flow_open(g, &b, deadline_in(GUEST_NO_ANSWER_MS), ret, err);
}

static void forget_taken(struct guest_flow *f)
{
	if (!f->acc_off)
		return;
	memmove(f->acc.p, f->acc.p + f->acc_off, f->acc.len - f->acc_off);
	f->acc.len -= f->acc_off;
	f->acc_off = 0;
}

int guest_code_next(struct guest_flow *f, struct agent_code_event *ret, struct err *err)
{
	for (;;) {
		ssize_t k;
		uint8_t *p;
		const uint8_t *at = f->acc.p ? f->acc.p + f->acc_off : NULL;
		int n = agent_code_event_get(at, f->acc.len - f->acc_off, ret);

		if (n < 0)
			return no_sense(err);
		if (n > 0) {
			f->acc_off += (size_t)n;
			return 1;
		}
		forget_taken(f);
		p = buf_reserve(&f->acc, READ_BYTES);
		if (!p)
			return err_set(err, -ENOMEM, "out of memory");
		k = guest_flow_read(f, NULL, p, READ_BYTES, err);
		if (k <= 0)
			return (int)k;
		f->acc.len += (size_t)k;
	}
}

int guest_code_result(struct guest_flow *f, struct agent_code_result *ret, struct err *err)
{
	const uint8_t *body;
	size_t n;
	int r = stream_result(f->s, &body, &n, err);

	if (r < 0)
		return explain(r, err);
	return agent_code_result_get(body, n, ret) < 0 ? no_sense(err) : 0;
}

int guest_code_warm(struct guest *g, const struct guest_code_req *req, unsigned timeout_ms,
                    struct err *err)
{
	uint64_t deadline = deadline_in(timeout_ms);
	autoflow struct guest_flow *f = NULL;
	struct agent_code_result m;
	int r = guest_code_run(g, req, &f, err);
	autobuf struct buf said = { 0 };

	while (r >= 0) {
		struct agent_code_event e;

		r = guest_code_next(f, &e, err);
		if (r == 1 && e.kind == AGENT_CODE_STDERR && said.len < 200)
			buf_put(&said, e.p, MIN(e.len, (size_t)200));
		if ((r == 0 && io_wait(guest_flow_fd(f), POLLIN, deadline) != 1) ||
		    (r == 1 && deadline_left(deadline) == 0)) /* it always has more to say */
			return err_set(err, -ETIMEDOUT, "the %s kernel did not start",
			               agent_language_name(req->language));
	}
	if (r != -ENODATA)
		return r;
	r = guest_code_result(f, &m, err);
	if (r == 0 && m.how != AGENT_CODE_END_OK)
		r = err_set(err, -EIO, "the %s kernel could not be started: %.*s",
		            agent_language_name(req->language), (int)said.len,
		            said.len ? (char *)said.p : "");
	return r;
}

static void context_of(const struct agent_code_context *m, struct guest_context *ret)
{
	*ret = (struct guest_context){ .context = m->context,
		                       .language = m->language,
		                       .state = (enum agent_code_state)m->state,
		                       .is_default = m->is_default,
		                       .count = m->count,
		                       .waiting = m->waiting,
		                       .created_ms = m->created_ns / 1000000 };
	snprintf(ret->user, sizeof(ret->user), "%s", m->user);
	snprintf(ret->cwd, sizeof(ret->cwd), "%s", m->cwd);
}

int guest_context_create(struct guest *g, const struct guest_context_req *req,
                         struct guest_context *ret, struct err *err)
{
	autobuf struct buf b = { 0 }, body = { 0 };
	autofree struct agent_code_create *m = calloc(1, sizeof(*m));
	struct agent_code_context got;
	struct rd c;
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "out of memory for a request");
	m->language = (uint8_t)req->language;
	m->user = req->user;
	m->cwd = req->cwd;
	for (; req->env && req->env[m->n_env]; m->n_env++) {
		if (m->n_env == AGENT_CODE_ENV_MAX)
			return err_tag(err, -E2BIG, ERR_BAD_REQUEST, "more than %u variables",
			               AGENT_CODE_ENV_MAX);
		m->env[m->n_env] = req->env[m->n_env];
	}
	buf_put_u16(&b, AGENT_OP_CODE_CREATE);
	agent_code_create_put(&b, m);
	if (b.len > AGENT_OPEN_MAX)
		return err_tag(err, -E2BIG, ERR_BAD_REQUEST, "the variables are too long");
	r = guest_call(g, &b, deadline_in(GUEST_CALL_MS), &body, err);
	if (r < 0)
		return explain(r, err);
	c = rd_of(body.p, body.len);
	if (agent_code_context_get(&c, &got) < 0 || rd_end(&c) < 0)
		return no_sense(err);
	context_of(&got, ret);
	return 0;
}

/* One answer's worth of contexts; *n grows. */
static int list_some(struct guest *g, const char *user, uint32_t from, struct guest_context *all,
                     size_t *n, struct err *err)
{
	autobuf struct buf b = { 0 }, body = { 0 };
	struct rd c;
	int r;

	buf_put_u16(&b, AGENT_OP_CODE_LIST);
	agent_code_ctx_put(&b, &(struct agent_code_ctx){ .context = from, .user = user });
	r = guest_call(g, &b, deadline_in(GUEST_CALL_MS), &body, err);
	if (r < 0)
		return explain(r, err);
	c = rd_of(body.p, body.len);
	while (c.left) {
		struct agent_code_context m;

		if (agent_code_context_get(&c, &m) < 0 || *n == AGENT_CODE_CONTEXTS_MAX ||
		    m.context < from || (*n && m.context <= all[*n - 1].context))
			return no_sense(err);
		context_of(&m, &all[(*n)++]);
	}
	return 0;
}

int guest_contexts(struct guest *g, const char *user, struct guest_context **ret, size_t *ret_n,
                   struct err *err)
{
	autofree struct guest_context *all = calloc(AGENT_CODE_CONTEXTS_MAX, sizeof(*all));
	size_t n = 0, before;

	if (!all)
		return err_set(err, -ENOMEM, "out of memory");
	do {
		int r;

		before = n;
		r = list_some(g, user, n ? all[n - 1].context + 1 : 0, all, &n, err);
		if (r < 0)
			return r;
	} while (n > before && n < AGENT_CODE_CONTEXTS_MAX);
	*ret = TAKE_PTR(all);
	*ret_n = n;
	return 0;
}

static int simple(struct guest *g, uint16_t op, const char *user, uint32_t context, struct err *err)
{
	autobuf struct buf b = { 0 };

	buf_put_u16(&b, op);
	agent_code_ctx_put(&b, &(struct agent_code_ctx){ .context = context, .user = user });
	return explain(guest_call(g, &b, deadline_in(GUEST_CALL_MS), NULL, err), err);
}

int guest_context_restart(struct guest *g, const char *user, uint32_t context, struct err *err)
{
	return simple(g, AGENT_OP_CODE_RESTART, user, context, err);
}

int guest_context_interrupt(struct guest *g, const char *user, uint32_t context, struct err *err)
{
	return simple(g, AGENT_OP_CODE_INTERRUPT, user, context, err);
}

int guest_context_delete(struct guest *g, const char *user, uint32_t context, struct err *err)
{
	return simple(g, AGENT_OP_CODE_DELETE, user, context, err);
}
