/* SPDX-License-Identifier: Apache-2.0 */
/* agent_pty.c - encoder and decoder of every message about terminal sessions */
#include "wire/agent_pty.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"

#define EXIT_MAX 255u

bool agent_pty_id_valid(const char *id)
{
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n < AGENT_PTY_ID && id[n] == '\0';
}

bool agent_pty_size_valid(unsigned cols, unsigned rows)
{
	return cols >= 1 && rows >= 1 && cols <= AGENT_PTY_COLS_MAX && rows <= AGENT_PTY_ROWS_MAX &&
	       cols * rows <= AGENT_PTY_CELLS_MAX;
}

/* An id, or "" if empty_ok. */
static int id_get(struct rd *c, bool empty_ok, const char **ret)
{
	if (agent_text_get(c, AGENT_PTY_ID, ret) < 0)
		return -EBADMSG;
	return (empty_ok && !**ret) || agent_pty_id_valid(*ret) ? 0 : -EBADMSG;
}

static int size_get(struct rd *c, uint16_t *ret_cols, uint16_t *ret_rows)
{
	if (rd_u16(c, ret_cols) < 0 || rd_u16(c, ret_rows) < 0)
		return -EBADMSG;
	return agent_pty_size_valid(*ret_cols, *ret_rows) ? 0 : -EBADMSG;
}

void agent_pty_open_put(struct buf *b, const struct agent_pty_open *m)
{
	agent_text_put(b, m->id);
	agent_text_put(b, m->user);
	agent_text_put(b, m->cwd);
	agent_text_put(b, m->exec);
	buf_put_u16(b, m->cols);
	buf_put_u16(b, m->rows);
	agent_env_put(b, m->env, m->n_env);
}

int agent_pty_open_get(struct rd *c, struct agent_pty_open *ret)
{
	if (id_get(c, /* empty_ok= */ true, &ret->id) < 0 ||
	    agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_PATH_MAX, &ret->cwd) < 0 ||
	    agent_text_get(c, AGENT_COMMAND_MAX, &ret->exec) < 0 ||
	    size_get(c, &ret->cols, &ret->rows) < 0 ||
	    agent_env_get(c, AGENT_ENV_MAX, ret->env, &ret->n_env) < 0)
		return -EBADMSG;
	return rd_end(c);
}

void agent_pty_req_put(struct buf *b, const struct agent_pty_req *m)
{
	agent_text_put(b, m->id);
	agent_text_put(b, m->user);
	buf_put_u16(b, m->cols);
	buf_put_u16(b, m->rows);
}

int agent_pty_req_get(struct rd *c, struct agent_pty_req *ret)
{
	if (id_get(c, /* empty_ok= */ false, &ret->id) < 0 ||
	    agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 || rd_u16(c, &ret->cols) < 0 ||
	    rd_u16(c, &ret->rows) < 0)
		return -EBADMSG;
	if ((ret->cols || ret->rows) && !agent_pty_size_valid(ret->cols, ret->rows))
		return -EBADMSG;
	return rd_end(c);
}

void agent_pty_resize_put(struct buf *b, const struct agent_pty_resize *m)
{
	buf_put_u32(b, m->stream);
	buf_put_u16(b, m->cols);
	buf_put_u16(b, m->rows);
}

int agent_pty_resize_get(struct rd *c, struct agent_pty_resize *ret)
{
	if (rd_u32(c, &ret->stream) < 0 || size_get(c, &ret->cols, &ret->rows) < 0)
		return -EBADMSG;
	return rd_end(c);
}

void agent_pty_put(struct buf *b, const struct agent_pty *m)
{
	buf_put_u32(b, m->serial);
	agent_text_put(b, m->id);
	agent_text_put(b, m->user);
	agent_text_put(b, m->exec);
	buf_put_u16(b, m->cols);
	buf_put_u16(b, m->rows);
	buf_put_u8(b, m->running);
	buf_put_u32(b, m->exit_code);
	buf_put_u64(b, m->created_ms);
	buf_put_u64(b, m->exited_ms);
	buf_put_u16(b, m->clients);
}

int agent_pty_get(struct rd *c, struct agent_pty *ret)
{
	uint8_t running;

	if (rd_u32(c, &ret->serial) < 0 || id_get(c, /* empty_ok= */ false, &ret->id) < 0 ||
	    agent_text_get(c, AGENT_USER_MAX, &ret->user) < 0 ||
	    agent_text_get(c, AGENT_PTY_EXEC, &ret->exec) < 0 ||
	    size_get(c, &ret->cols, &ret->rows) < 0 || rd_u8(c, &running) < 0 ||
	    rd_u32(c, &ret->exit_code) < 0 || rd_u64(c, &ret->created_ms) < 0 ||
	    rd_u64(c, &ret->exited_ms) < 0 || rd_u16(c, &ret->clients) < 0)
		return -EBADMSG;
	if (running > 1 || ret->exit_code > EXIT_MAX || ret->created_ms > INT64_MAX ||
	    ret->exited_ms > INT64_MAX)
		return -EBADMSG;
	ret->running = running;
	return 0;
}

void agent_pty_end_put(struct buf *b, const struct agent_pty_end *m)
{
	buf_put_u8(b, m->running);
	buf_put_u32(b, m->exit_code);
}

int agent_pty_end_get(const uint8_t *p, size_t n, struct agent_pty_end *ret)
{
	struct rd c = rd_of(p, n);
	uint8_t running;

	if (rd_u8(&c, &running) < 0 || rd_u32(&c, &ret->exit_code) < 0 || rd_end(&c) < 0)
		return -EBADMSG;
	if (running > 1 || ret->exit_code > EXIT_MAX)
		return -EBADMSG;
	ret->running = running;
	return 0;
}

void agent_piece_hdr_put(uint8_t p[AGENT_PIECE_HDR], const struct agent_piece_hdr *m)
{
	p[0] = m->kind;
	put_be32(p + 1, m->len);
}

int agent_piece_hdr_get(const uint8_t p[AGENT_PIECE_HDR], struct agent_piece_hdr *ret)
{
	ret->kind = p[0];
	ret->len = get_be32(p + 1);
	if (ret->kind < AGENT_PTY_INFO || ret->kind > AGENT_PTY_OUTPUT ||
	    ret->len > AGENT_PIECE_BYTES || (!ret->len && ret->kind != AGENT_PTY_PICTURED))
		return -EBADMSG;
	return 0;
}
