/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_spare.c - the warm Node.js that waits for the first context that wants one
 *
 * V8 cannot be forked, so one process with everything loaded, the remover of types
 * included, is kept (AGENT_CODE_WARM: in the template). The first JavaScript or TypeScript
 * context of root takes it: it is told the language, the directory and the variables
 * ("SET"), and is that context's kernel from then on. Others start the slow way,
 * as do those whose variables Node.js itself looks at when it starts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/code.h"
#include "base/auto.h"

static bool is_node(uint8_t lang)
{
	return lang == AGENT_LANG_JAVASCRIPT || lang == AGENT_LANG_TYPESCRIPT;
}

/* Variables that have their effect before a program's first line. */
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

	if (!s || x->spare || !is_node(x->lang) || *x->user || needs_own_start(x) ||
	    s->state != AGENT_CODE_IDLE || s->exited || s->cells || s->pid <= 0)
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
