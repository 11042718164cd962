/* SPDX-License-Identifier: Apache-2.0 */
/* agent_code.c - messages of the code interpreter */
#include "wire/agent_code.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"

#define EXIT_MAX 255u
#define SIGNAL_MAX 127u

#define LANGUAGE_NAME(num, NAME, name) [num] = (name),
static const char *const language_names[] = { AGENT_LANGUAGES(LANGUAGE_NAME) };

const char *agent_language_name(unsigned language)
{
	return language > 0 && language < AGENT_LANG_END ? language_names[language] : "?";
}

unsigned agent_language_of(const char *name)
{
	static const struct {
		const char *name;
		unsigned language;
	} more[] = { { "python3", AGENT_LANG_PYTHON }, { "py", AGENT_LANG_PYTHON },
		     { "js", AGENT_LANG_JAVASCRIPT },  { "node", AGENT_LANG_JAVASCRIPT },
		     { "ts", AGENT_LANG_TYPESCRIPT },  { "sh", AGENT_LANG_BASH },
		     { "shell", AGENT_LANG_BASH },     { "rb", AGENT_LANG_RUBY } };

	for (unsigned i = 1; i < AGENT_LANG_END; i++)
		if (!strcmp(name, language_names[i]))
			return i;
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		if (!strcmp(name, more[i].name))
			return more[i].language;
	return 0;
}

static int bad(struct rd *c)
{
	c->bad = true;
	return -EBADMSG;
}

static int flag_get(struct rd *c, bool *ret)
{
	uint8_t v;

	if (rd_u8(c, &v) < 0)
		return -EBADMSG;
	if (v > 1)
		return bad(c);
	*ret = v;
	return 0;
}

void agent_code_event_put(struct buf *b, const struct agent_code_event *m)
{
	buf_put_u32(b, (uint32_t)m->len + 2);
	buf_put_u8(b, m->kind);
	buf_put_u8(b, m->more);
	if (m->len)
		buf_put(b, m->p, m->len);
}

int agent_code_event_get(const uint8_t *p, size_t n, struct agent_code_event *ret)
{
	uint32_t len;

	if (n < 4)
		return 0;
	len = get_be32(p);
	if (len < 2 || len > AGENT_CODE_EVENT_MAX + 2)
		return -EBADMSG;
	if (n < AGENT_CODE_EVENT_HDR)
		return 0;
	if (p[4] == 0 || p[4] >= AGENT_CODE_KIND_END || p[5] > 1)
		return -EBADMSG;
	if (n < 4 + (size_t)len)
		return 0;
	*ret = (struct agent_code_event){
		.kind = p[4], .more = p[5], .p = p + AGENT_CODE_EVENT_HDR, .len = len - 2
	};
	return (int)(4 + len);
}

void agent_code_run_put(struct buf *b, const struct agent_code_run *m)
{
	buf_put_u32(b, m->context);
	buf_put_u8(b, m->language);
	buf_put_u8(b, m->flags);
	buf_put_u32(b, m->timeout_ms);
	agent_text_put(b, m->user);
	agent_text_put(b, m->code);
	if (m->flags & AGENT_CODE_CWD)
		agent_text_put(b, m->cwd);
}

int agent_code_run_get(struct rd *c, struct agent_code_run *ret)
{
	if (rd_u32(c, &ret->context) < 0 || rd_u8(c, &ret->language) < 0 ||
	    rd_u8(c, &ret->flags) < 0 || rd_u32(c, &ret->timeout_ms) < 0 ||
	    agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_CODE_MAX, &ret->code) < 0)
		return -EBADMSG;
	if (ret->language >= AGENT_LANG_END || (!ret->language && !ret->context) ||
	    (ret->flags & ~AGENT_CODE_FLAGS))
		return bad(c);
	ret->cwd = "";
	if (ret->flags & AGENT_CODE_CWD && agent_text_get(c, AGENT_CODE_CWD_MAX, &ret->cwd) < 0)
		return -EBADMSG;
	return rd_end(c);
}

void agent_code_result_put(struct buf *b, const struct agent_code_result *m)
{
	buf_put_u32(b, m->context);
	buf_put_u8(b, m->language);
	buf_put_u8(b, m->how);
	buf_put_u32(b, m->count);
	buf_put_u32(b, m->duration_ms);
	buf_put_u32(b, m->exit_code);
	buf_put_u32(b, m->signal);
	buf_put_u8(b, m->fresh);
	buf_put_u8(b, m->files_cut);
	buf_put_u64(b, m->bytes[AGENT_OUT]);
	buf_put_u64(b, m->bytes[AGENT_ERR]);
}

int agent_code_result_get(const uint8_t *p, size_t n, struct agent_code_result *ret)
{
	struct rd c = rd_of(p, n);

	*ret = (struct agent_code_result){ 0 };
	if (rd_u32(&c, &ret->context) < 0 || rd_u8(&c, &ret->language) < 0 ||
	    rd_u8(&c, &ret->how) < 0 || rd_u32(&c, &ret->count) < 0 ||
	    rd_u32(&c, &ret->duration_ms) < 0 || rd_u32(&c, &ret->exit_code) < 0 ||
	    rd_u32(&c, &ret->signal) < 0 || flag_get(&c, &ret->fresh) < 0 ||
	    flag_get(&c, &ret->files_cut) < 0 || rd_u64(&c, &ret->bytes[AGENT_OUT]) < 0 ||
	    rd_u64(&c, &ret->bytes[AGENT_ERR]) < 0)
		return -EBADMSG;
	if (!ret->language || ret->language >= AGENT_LANG_END || ret->how >= AGENT_CODE_HOW_END ||
	    ret->exit_code > EXIT_MAX || ret->signal > SIGNAL_MAX)
		return -EBADMSG;
	return rd_end(&c);
}

void agent_code_create_put(struct buf *b, const struct agent_code_create *m)
{
	buf_put_u8(b, m->language);
	agent_text_put(b, m->user);
	agent_text_put(b, m->cwd);
	agent_env_put(b, m->env, m->n_env);
}

int agent_code_create_get(struct rd *c, struct agent_code_create *ret)
{
	if (rd_u8(c, &ret->language) < 0 || agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_CODE_CWD_MAX, &ret->cwd) < 0 || !ret->language ||
	    ret->language >= AGENT_LANG_END ||
	    agent_env_get(c, AGENT_CODE_ENV_MAX, ret->env, &ret->n_env) < 0)
		return bad(c);
	return rd_end(c);
}

void agent_code_ctx_put(struct buf *b, const struct agent_code_ctx *m)
{
	buf_put_u32(b, m->context);
	agent_text_put(b, m->user);
}

int agent_code_ctx_get(struct rd *c, struct agent_code_ctx *ret)
{
	if (rd_u32(c, &ret->context) < 0 || agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0)
		return -EBADMSG;
	return rd_end(c);
}

void agent_code_context_put(struct buf *b, const struct agent_code_context *m)
{
	buf_put_u32(b, m->context);
	buf_put_u8(b, m->language);
	buf_put_u8(b, m->state);
	buf_put_u8(b, m->is_default);
	buf_put_u32(b, m->count);
	buf_put_u32(b, m->waiting);
	buf_put_u32(b, m->pid);
	buf_put_u64(b, (uint64_t)m->created_ns);
	agent_text_put(b, m->user);
	agent_text_put(b, m->cwd);
}

int agent_code_context_get(struct rd *c, struct agent_code_context *ret)
{
	uint64_t created;

	if (rd_u32(c, &ret->context) < 0 || rd_u8(c, &ret->language) < 0 ||
	    rd_u8(c, &ret->state) < 0 || flag_get(c, &ret->is_default) < 0 ||
	    rd_u32(c, &ret->count) < 0 || rd_u32(c, &ret->waiting) < 0 ||
	    rd_u32(c, &ret->pid) < 0 || rd_u64(c, &created) < 0 ||
	    agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_CODE_CWD_MAX, &ret->cwd) < 0)
		return -EBADMSG;
	if (!ret->language || ret->language >= AGENT_LANG_END || ret->state > AGENT_CODE_BUSY)
		return bad(c);
	ret->created_ns = (int64_t)created;
	return 0;
}
