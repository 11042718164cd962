/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.c - contexts of the code interpreter: make, find, list, restart, delete, and their part of
 * the main loop
 *
 * A context outlives its connection and its kernels: processes in the guest
 * survive a freeze and are inherited by forks, and so is this table. The
 * default context of a language and user is created at first use.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/code.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"

#define LIST_BYTES (AGENT_RESULT_MAX - 64) /* of entries in one answer */

/* Root has only one name here. */
static const char *user_of(const char *user)
{
	return strcmp(user, "root") != 0 ? user : "";
}

/* Root may use every context, others only their own. */
static bool may_touch(const struct code_ctx *x, const char *user)
{
	return !*user_of(user) || !strcmp(x->user, user);
}

static struct code_ctx *find(struct agent *a, uint32_t id, const char *user)
{
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (x->id == id && !x->deleted && may_touch(x, user))
			return x;
	return NULL;
}

static struct code_ctx *find_default(struct agent *a, uint8_t lang, const char *user)
{
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (x->is_default && !x->deleted && x->lang == lang &&
		    !strcmp(x->user, user_of(user)))
			return x;
	return NULL;
}

void code_free(struct agent *a, struct code_ctx *x)
{
	for (struct code_ctx **p = &a->code; *p; p = &(*p)->next) {
		if (*p == x) {
			*p = x->next;
			break;
		}
	}
	while (x->cells) {
		struct code_cell *c = x->cells;

		x->cells = c->next;
		code_cell_free(c);
	}
	code_forget_kernel(x);
	for (unsigned i = 0; i < x->n_env; i++)
		free(x->env[i]);
	for (unsigned i = 0; i < x->n_files; i++)
		free(x->files[i].path);
	buf_done(&x->outq);
	free(x);
}

/* The directory a kernel starts in, or a positive errno with its tag. */
static int settle_cwd(struct code_ctx *x, const char *cwd, uint16_t *ret_tag, const char **ret_msg)
{
	static struct user u;
	struct stat st;
	int r = *x->user ? user_find(x->user, &u) : user_find_uid(0, &u);

	if (r < 0 && *x->user) {
		*ret_tag = r == -ENOENT ? AGENT_TAG_USER_NOT_FOUND : AGENT_TAG_NONE;
		*ret_msg = "there is no such user in this VM";
		return -r;
	}
	if (!*cwd) {
		cwd = r == 0 ? u.home : "/";
		if (stat(cwd, &st) < 0 || !S_ISDIR(st.st_mode) || strlen(cwd) >= sizeof(x->cwd))
			cwd = "/";
	} else if (*cwd != '/' || stat(cwd, &st) < 0 || !S_ISDIR(st.st_mode)) {
		*ret_tag = AGENT_TAG_CWD_FAILED;
		*ret_msg = "the working directory does not exist";
		return *cwd != '/' ? EINVAL : errno ? errno : ENOTDIR;
	}
	snprintf(x->cwd, sizeof(x->cwd), "%s", cwd);
	return 0;
}

/* NULL if an error was sent. */
static struct code_ctx *make(struct agent *a, uint32_t id, const struct agent_code_create *r,
                             bool is_default)
{
	const char *msg = "out of memory";
	uint16_t tag = AGENT_TAG_GUEST_BUSY;
	struct code_ctx *x, **end = &a->code;
	const char *env[AGENT_SITE_ENV_MAX + AGENT_VM_ENV_MAX];
	unsigned n = 0;
	struct timespec ts;
	int e;

	for (; *end; end = &(*end)->next)
		n += !(*end)->spare;
	if (n >= AGENT_CODE_CONTEXTS_MAX) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "this VM has the maximum number of contexts: delete one");
		return NULL;
	}
	x = calloc(1, sizeof(*x));
	if (!x) {
		stream_answer(a, id, ENOMEM, tag, msg);
		return NULL;
	}
	x->id = ++a->next_code;
	x->lang = r->language;
	x->is_default = is_default;
	x->pidfd = x->ctl = x->pipe[AGENT_OUT] = x->pipe[AGENT_ERR] = -1;
	snprintf(x->user, sizeof(x->user), "%s", user_of(r->user));
	clock_gettime(CLOCK_REALTIME, &ts);
	x->created_ns = (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
	e = settle_cwd(x, r->cwd, &tag, &msg);
	n = environ_list(env, MIN(ARRAY_SIZE(env), AGENT_CODE_ENV_MAX - r->n_env));
	for (unsigned i = 0; e == 0 && i < n + r->n_env; i++) {
		x->env[i] = strdup(i < n ? env[i] : r->env[i - n]); /* its own ones win */
		if (!x->env[i])
			e = ENOMEM;
		else
			x->n_env++;
	}
	*end = x;
	if (e) {
		stream_answer(a, id, (uint32_t)e, tag, msg);
		code_free(a, x);
		return NULL;
	}
	return x;
}

void code_describe(const struct code_ctx *x, struct agent_code_context *ret)
{
	*ret = (struct agent_code_context){ .context = x->id,
		                            .language = x->lang,
		                            .state = (uint8_t)x->state,
		                            .is_default = x->is_default,
		                            .count = x->count,
		                            .waiting = x->waiting,
		                            .pid = x->pid > 0 ? (uint32_t)x->pid : 0,
		                            .created_ns = x->created_ns,
		                            .user = x->user,
		                            .cwd = x->cwd };
}

/* The default context of language and user, created at first use. NULL if an error was sent.
 */
static struct code_ctx *default_of(struct agent *a, uint32_t id, const struct agent_code_run *r)
{
	struct agent_code_create m = { .language = r->language, .user = r->user, .cwd = "" };
	struct code_ctx *x = find_default(a, r->language, r->user);
	struct stat st;

	if (r->flags & AGENT_CODE_IF_IDLE && (!x || x->state != AGENT_CODE_IDLE)) {
		stream_answer(a, id, ENOENT, AGENT_TAG_CONTEXT_NOT_FOUND,
		              "there is no idle kernel");
		return NULL;
	}
	if (!x && !(x = make(a, id, &m, /* is_default= */ true)))
		return NULL;
	/* It may have been started before its directory was known. */
	if (*r->cwd == '/' && !x->used && strcmp(x->cwd, r->cwd) != 0 && stat(r->cwd, &st) == 0 &&
	    S_ISDIR(st.st_mode)) {
		snprintf(x->cwd, sizeof(x->cwd), "%s", r->cwd);
		x->move = true;
	}
	return x;
}

/* The context a cell is for. NULL if an error was sent. */
static struct code_ctx *target(struct agent *a, uint32_t id, const struct agent_code_run *r)
{
	struct code_ctx *x;

	if (!r->context && r->flags & AGENT_CODE_SPARE) {
		x = spare_make(a);
		if (!x)
			stream_answer(a, id, ENOMEM, AGENT_TAG_GUEST_BUSY, "out of memory");
		return x;
	}
	if (!r->context)
		return default_of(a, id, r);
	x = find(a, r->context, r->user);
	if (x && (!r->language || x->lang == r->language))
		return x;
	stream_answer(a, id, ENOENT, AGENT_TAG_CONTEXT_NOT_FOUND,
	              x ? "the context has another language" : "no such context");
	return NULL;
}

static void run_begin(struct agent *a, uint32_t id, struct rd *c)
{
	struct agent_code_run r;
	struct code_cell *cell;
	struct code_ctx *x;

	if (agent_code_run_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed code request");
		return;
	}
	x = target(a, id, &r);
	if (!x)
		return;
	if (x->waiting > AGENT_CODE_WAITING_MAX) {
		stream_answer(a, id, EBUSY, AGENT_TAG_CONTEXT_BUSY,
		              "too many cells wait for this context");
		return;
	}
	cell = calloc(1, sizeof(*cell));
	if (cell)
		cell->code = strdup(r.code);
	if (!cell || !cell->code || !(cell->s = stream_new(a, id, AGENT_OP_CODE_RUN))) {
		stream_answer(a, id, EAGAIN, AGENT_TAG_GUEST_BUSY,
		              "the agent has no room for another cell");
		code_cell_free(cell);
		return;
	}
	cell->len = strlen(r.code);
	cell->timeout_ms = r.timeout_ms;
	cell->warm = r.flags & AGENT_CODE_WARM;
	code_enqueue(a, x, cell);
}

static void create(struct agent *a, uint32_t id, struct rd *c)
{
	static struct agent_code_create r;
	struct agent_code_context m;
	autobuf struct buf b = { 0 };
	struct code_ctx *x;

	if (agent_code_create_get(c, &r) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed context request");
		return;
	}
	x = make(a, id, &r, /* is_default= */ false);
	if (!x)
		return;
	code_start(a, x,
	           /* warm= */ false); /* the first cell tries again and reports a failure */
	code_describe(x, &m);
	agent_code_context_put(&b, &m);
	stream_answer_body(a, id, b.p, b.len);
}

static void list(struct agent *a, uint32_t id, const struct agent_code_ctx *r)
{
	autobuf struct buf b = { 0 };

	for (struct code_ctx *x = a->code; x; x = x->next) {
		struct agent_code_context m;
		autobuf struct buf one = { 0 };

		if (x->deleted || x->spare || x->id < r->context || !may_touch(x, r->user))
			continue;
		code_describe(x, &m);
		agent_code_context_put(&one, &m);
		if (one.failed || b.len + one.len > LIST_BYTES)
			break;
		buf_put(&b, one.p, one.len);
	}
	stream_answer_body(a, id, b.p, b.len);
}

static void restart(struct agent *a, struct code_ctx *x)
{
	x->killed = true;
	if (x->state == AGENT_CODE_BUSY)
		x->how = AGENT_CODE_END_RESTARTED;
	if (x->pid > 0)
		code_kill(x);
	else if (!x->deleted && x->state == AGENT_CODE_NONE)
		code_start(a, x, /* warm= */ false);
	x->lost = false; /* the restart was requested */
}

void code_drop_unused(struct agent *a)
{
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (x->is_default && !x->used && !x->cells && !x->spare && !x->deleted) {
			x->deleted = true;
			restart(a, x);
		}
}

void code_call(struct agent *a, uint32_t id, uint16_t op, struct rd *c)
{
	struct agent_code_ctx ctx;
	struct code_ctx *x;

	if (op == AGENT_OP_CODE_RUN) {
		run_begin(a, id, c);
		return;
	}
	if (op == AGENT_OP_CODE_CREATE) {
		create(a, id, c);
		return;
	}
	if (agent_code_ctx_get(c, &ctx) < 0) {
		stream_answer(a, id, EBADMSG, AGENT_TAG_BAD_REQUEST, "malformed context request");
		return;
	}
	if (op == AGENT_OP_CODE_LIST) {
		list(a, id, &ctx);
		return;
	}
	x = find(a, ctx.context, ctx.user);
	if (!x) {
		stream_answer(a, id, ENOENT, AGENT_TAG_CONTEXT_NOT_FOUND, "no such context");
		return;
	}
	if (op == AGENT_OP_CODE_INTERRUPT) {
		if (x->state == AGENT_CODE_BUSY && !x->done) {
			x->asked = true;
			code_interrupt(x);
		} else if (x->state != AGENT_CODE_BUSY && x->cells) {
			x->cells->interrupted = true;
		}
	} else {
		x->deleted = op == AGENT_OP_CODE_DELETE;
		restart(a, x);
	}
	stream_answer(a, id, 0, AGENT_TAG_NONE, "");
}

void code_orphan(struct agent *a, struct stream *s, bool cancelled)
{
	for (struct code_ctx *x = a->code; x; x = x->next) {
		for (struct code_cell **p = &x->cells; *p; p = &(*p)->next) {
			struct code_cell *c = *p;

			if (c->s != s)
				continue;
			c->s = NULL;
			if (c != x->cells || x->state != AGENT_CODE_BUSY) { /* it has not begun */
				*p = c->next;
				x->waiting--;
				code_cell_free(c);
				return;
			}
			buf_reset(&x->outq);
			x->outq_off = 0;
			if (cancelled) {
				x->kill_at = clock_ms() + CODE_IGNORE_MS;
				code_interrupt(x);
			}
			return;
		}
	}
}

bool code_on_event(struct agent *a, uint64_t ref, uint32_t events)
{
	enum ref_kind kind = (enum ref_kind)(ref >> 56);

	if (kind < REF_CODE_PROC || kind > REF_CODE_ZYGOTE)
		return false;
	if (kind == REF_CODE_ZYGOTE) {
		zygote_on_event(a);
		return true;
	}
	for (struct code_ctx *x = a->code; x; x = x->next) {
		if (x->kernel != (uint32_t)ref)
			continue;
		if (kind == REF_CODE_PROC)
			code_on_exit(a, x);
		else /* the next write will tell whether it is writable */
			x->readable[kind - REF_CODE_CTL] = true;
		break;
	}
	return true;
}

void code_run(struct agent *a, uint64_t now)
{
	struct code_ctx *next;

	zygote_tick(a, now);
	spare_tick(a, now);
	code_files_tick(a, now);
	for (struct code_ctx *x = a->code; x; x = next) {
		bool over;

		code_step(a, x, now);
		next = x->next;
		over = x->deleted || (x->spare && x->state == AGENT_CODE_NONE);
		if (over && x->pid <= 0 && !x->cells && !x->forking)
			code_free(a, x);
	}
}

bool code_idle(const struct agent *a)
{
	for (const struct code_ctx *x = a->code; x; x = x->next)
		if (code_can_move(a, x))
			return false;
	return true;
}

uint64_t code_next_timer(const struct agent *a)
{
	uint64_t t = zygote_next_timer(a), fan = a->fan_off_at ? a->fan_off_at : UINT64_MAX,
	         spare = spare_next_timer(a);

	t = MIN(t, fan);
	t = MIN(t, spare);

	for (const struct code_ctx *x = a->code; x; x = x->next) {
		const uint64_t at[] = { x->ready_by, x->closed_by, x->timeout_at,
			                x->kill_at,  x->say_at,    x->nudge_at };

		for (size_t i = 0; i < ARRAY_SIZE(at); i++)
			if (at[i])
				t = MIN(t, at[i]);
	}
	return t;
}

void code_identity(struct agent *a)
{
	/* Idle kernels check the generation before the next cell. */
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (x->state == AGENT_CODE_BUSY && x->pid > 0)
			kill(x->pid, SIGURG);
}

void code_close(struct agent *a)
{
	while (a->code)
		code_free(a, a->code);
	zygote_close(a);
	code_files_close(a);
}
