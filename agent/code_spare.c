/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_spare.c - the warm Node.js process for the first context that needs one
 *
 * V8 cannot be forked, so one process with everything loaded, including the code that strips
 * types, is kept ready (AGENT_CODE_WARM: in the template). The first JavaScript or TypeScript
 * context of root takes it: it is sent the language, the directory and the variables
 * ("SET"), and is that context's kernel from then on. Contexts with variables that Node.js itself
 * reads at start are started the slow way, as are those of other users.
 *
 * One process takes about 40 MB, and a machine that only uses its default context never needs
 * another. A client that creates contexts usually creates more: after each, another spare is
 * started as soon as no cell runs, and ends if it is unused for SPARE_KEEP_MS.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/code.h"
#include "base/auto.h"
#include "base/clock.h"

#define SPARE_PAUSE_MS 1000   /* of idle time before another one is started */
#define SPARE_KEEP_MS 300000u /* how long that one waits */

static bool is_node(uint8_t lang)
{
	return lang == AGENT_LANG_JAVASCRIPT || lang == AGENT_LANG_TYPESCRIPT;
}

/* Variables that take effect before a program's first line. */
static bool needs_own_start(const struct code_ctx *x)
{
	static const char *const early[] = { "NODE_", "LD_",  "UV_",     "LANG=", "LC_",
		                             "TZ=",   "SSL_", "OPENSSL", "ICU",   "HOME=" };

	for (unsigned i = 0; i < x->n_env; i++)
		for (size_t k = 0; k < ARRAY_SIZE(early); k++)
			if (!strncmp(x->env[i], early[k], strlen(early[k])))
				return true;
	return false;
}

static struct code_ctx *find_spare(struct agent *a)
{
	for (struct code_ctx *x = a->code; x; x = x->next)
		if (x->spare)
			return x;
	return NULL;
}

struct code_ctx *spare_make(struct agent *a)
{
	struct code_ctx *x = find_spare(a), **end = &a->code;

	if (x || !(x = calloc(1, sizeof(*x))))
		return x;
	x->spare = true;
	x->lang = AGENT_LANG_JAVASCRIPT;
	x->pidfd = x->ctl = x->pipe[AGENT_OUT] = x->pipe[AGENT_ERR] = -1;
	snprintf(x->cwd, sizeof(x->cwd), "/");
	while (*end)
		end = &(*end)->next;
	*end = x;
	return x;
}

static void tell(struct code_ctx *x)
{
	autobuf struct buf b = { 0 };

	buf_printf(&b, "%s%c%s", agent_language_name(x->lang), 0, x->cwd);
	for (unsigned i = 0; i < x->n_env; i++)
		buf_printf(&b, "%c%s", 0, x->env[i]);
	buf_printf(&x->tx, "SET %zu\n", b.len);
	buf_put(&x->tx, b.p, b.len);
	x->tx.failed |= b.failed;
}

bool spare_take(struct agent *a, struct code_ctx *x)
{
	struct code_ctx *s = find_spare(a);

	if (x->spare || !is_node(x->lang) || *x->user || needs_own_start(x))
		return false;
	if (!x->is_default)
		a->spare_at = clock_ms() + SPARE_PAUSE_MS;
	if (!s || s->state != AGENT_CODE_IDLE || s->exited || s->cells || s->pid <= 0)
		return false;
	x->pid = s->pid;
	x->pidfd = TAKE_FD(s->pidfd);
	x->ctl = TAKE_FD(s->ctl);
	x->kernel = s->kernel;
	for (int i = 0; i < AGENT_CHANS; i++)
		x->readable[i] = s->readable[i];
	x->pipe[AGENT_OUT] = TAKE_FD(s->pipe[AGENT_OUT]);
	x->pipe[AGENT_ERR] = TAKE_FD(s->pipe[AGENT_ERR]);
	x->state = AGENT_CODE_IDLE;
	s->pid = 0;
	code_free(a, s);
	tell(x);
	if (x->tx.failed) { /* out of memory */
		x->broken = true;
		code_kill(x);
	}
	return true;
}

/* Is anything waiting for the processor? */
static bool working(const struct agent *a)
{
	for (const struct code_ctx *x = a->code; x; x = x->next)
		if (x->cells || x->state == AGENT_CODE_STARTING)
			return true;
	return false;
}

void spare_tick(struct agent *a, uint64_t now)
{
	struct code_ctx *s = find_spare(a);

	if (s && s->spare_until && now >= s->spare_until) {
		s->spare_until = 0;
		code_kill(s);
	}
	if (!a->spare_at || now < a->spare_at)
		return;
	a->spare_at = !s && working(a) ? now + SPARE_PAUSE_MS : 0;
	if (s || a->spare_at || !(s = spare_make(a)))
		return;
	s->spare_until = now + SPARE_KEEP_MS;
	code_start(a, s, /* warm= */ true); /* a failure leaves none */
}

uint64_t spare_next_timer(const struct agent *a)
{
	uint64_t t = a->spare_at ? a->spare_at : UINT64_MAX;

	for (const struct code_ctx *x = a->code; x; x = x->next)
		if (x->spare && x->spare_until)
			t = MIN(t, x->spare_until);
	return t;
}
