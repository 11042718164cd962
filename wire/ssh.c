/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/ssh.c - messages between pandod and pando-ssh as bytes
 *
 * As wire/edge.c: both directions walk the field mask of SSHW_KINDS in one fixed order. pandod
 * decodes what a process sends that its client may have taken over: every length is checked before
 * it is used, and nothing is allocated.
 */
#include "wire/ssh.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "wire/get.h"

struct kind_desc {
	const char *name;
	enum sshw_from from;
	unsigned fields;
};

#define AS_DESC(num, NAME, who, mask) [num] = { .name = #NAME, .from = (who), .fields = (mask) },
static const struct kind_desc kinds[SSHW_KIND_END] = { SSHW_KINDS(AS_DESC) };

static const struct kind_desc *desc_of(unsigned kind)
{
	return kind < ARRAY_SIZE(kinds) && kinds[kind].name ? &kinds[kind] : NULL;
}

/* ---- writing ---- */

static void put_text(struct buf *b, const struct sshw_text *t)
{
	buf_put_blob(b, t->p, t->n);
}

static void put_start(struct buf *b, const struct sshw_msg *m)
{
	buf_put_u32(b, m->version);
	buf_put_u32(b, m->log_level);
	buf_put_u8(b, (uint8_t)m->n_keys);
	for (unsigned i = 0; i < m->n_keys; i++)
		put_text(b, &m->keys[i]);
}

static void put_login(struct buf *b, const struct sshw_msg *m)
{
	buf_put_str(b, m->user);
	buf_put_u8(b, m->has_secret);
	buf_put_str(b, m->secret);
}

int sshw_encode(const struct sshw_msg *m, struct buf *out, struct err *err)
{
	const struct kind_desc *d = desc_of(m->kind);

	if (!d || m->n_keys > SSHW_KEYS_MAX)
		return err_set(err, -EINVAL, "no message %u", m->kind);
	buf_put_u16(out, (uint16_t)m->kind);
	buf_put_u32(out, m->id);
	if (d->fields & HF_START)
		put_start(out, m);
	if (d->fields & HF_VERSION)
		buf_put_u32(out, m->version);
	if (d->fields & HF_OK)
		buf_put_u8(out, m->ok);
	if (d->fields & HF_LOGIN)
		put_login(out, m);
	if (d->fields & HF_NAME)
		buf_put_str(out, m->name);
	if (d->fields & HF_VALUE)
		buf_put_str(out, m->value);
	if (d->fields & HF_SIZE) {
		buf_put_u32(out, m->cols);
		buf_put_u32(out, m->rows);
	}
	if (d->fields & HF_RUN) {
		buf_put_u8(out, m->run);
		put_text(out, &m->command);
	}
	if (d->fields & HF_HOST)
		buf_put_str(out, m->host);
	if (d->fields & HF_PORT)
		buf_put_u16(out, m->port);
	if (d->fields & HF_FROM) {
		buf_put_str(out, m->from);
		buf_put_u16(out, m->from_port);
	}
	if (d->fields & HF_TEXT)
		buf_put_str(out, m->text);
	if (out->failed)
		return err_set(err, -ENOMEM, "%s: out of memory", d->name);
	if (out->len > SSHW_MSG_MAX)
		return err_set(err, -E2BIG, "%s: a message of %zu bytes", d->name, out->len);
	return 0;
}

/* ---- reading ---- */

static int get_text(struct rd *c, size_t max, struct sshw_text *ret)
{
	const uint8_t *p;

	if (rd_blob(c, max, &p, &ret->n) < 0 || (ret->n && memchr(p, 0, ret->n)))
		return -EBADMSG;
	ret->p = (const char *)p;
	return 0;
}

static int get_start(struct rd *c, struct sshw_msg *m)
{
	uint8_t n;

	if (rd_u32(c, &m->version) < 0 || rd_u32(c, &m->log_level) < 0 || rd_u8(c, &n) < 0 ||
	    n > SSHW_KEYS_MAX)
		return -EBADMSG;
	m->n_keys = n;
	for (unsigned i = 0; i < n; i++)
		if (get_text(c, SSHW_KEY_MAX, &m->keys[i]) < 0)
			return -EBADMSG;
	return 0;
}

static int get_login(struct rd *c, struct sshw_msg *m)
{
	if (rd_str(c, m->user, sizeof(m->user)) < 0 || get_bool(c, &m->has_secret) < 0)
		return -EBADMSG;
	return rd_str(c, m->secret, sizeof(m->secret));
}

static int get_run(struct rd *c, struct sshw_msg *m)
{
	if (rd_u8(c, &m->run) < 0 || m->run >= SSHW_RUN_END)
		return -EBADMSG;
	return get_text(c, SSHW_COMMAND_MAX, &m->command);
}

static int get_fields(struct rd *c, unsigned fields, struct sshw_msg *m)
{
	if (((fields & HF_START) && get_start(c, m) < 0) ||
	    ((fields & HF_VERSION) && rd_u32(c, &m->version) < 0) ||
	    ((fields & HF_OK) && get_bool(c, &m->ok) < 0) ||
	    ((fields & HF_LOGIN) && get_login(c, m) < 0) ||
	    ((fields & HF_NAME) && rd_str(c, m->name, sizeof(m->name)) < 0) ||
	    ((fields & HF_VALUE) && rd_str(c, m->value, sizeof(m->value)) < 0) ||
	    ((fields & HF_SIZE) && (rd_u32(c, &m->cols) < 0 || rd_u32(c, &m->rows) < 0)) ||
	    ((fields & HF_RUN) && get_run(c, m) < 0) ||
	    ((fields & HF_HOST) && rd_str(c, m->host, sizeof(m->host)) < 0) ||
	    ((fields & HF_PORT) && rd_u16(c, &m->port) < 0) ||
	    ((fields & HF_FROM) &&
	     (rd_str(c, m->from, sizeof(m->from)) < 0 || rd_u16(c, &m->from_port) < 0)) ||
	    ((fields & HF_TEXT) && rd_str(c, m->text, sizeof(m->text)) < 0))
		return -EBADMSG;
	return rd_end(c);
}

int sshw_decode(const void *p, size_t n, enum sshw_from from, struct sshw_msg *ret, struct err *err)
{
	struct rd c = rd_of(p, n);
	const struct kind_desc *d;
	uint16_t kind;

	if (rd_u16(&c, &kind) < 0 || rd_u32(&c, &ret->id) < 0)
		return err_set(err, -EBADMSG, "a message of %zu bytes", n);
	d = desc_of(kind);
	if (!d || d->from != from)
		return err_set(err, -EBADMSG, "no message %u is expected here", kind);
	ret->kind = kind;
	ret->n_keys = 0;
	if (get_fields(&c, d->fields, ret) < 0)
		return err_set(err, -EBADMSG, "%s: malformed", d->name);
	return 0;
}

/* ---- frames of a stream ---- */

static bool signal_named(const uint8_t *p, size_t n, char ret[16])
{
	if (n < 1 || n > 15)
		return false;
	for (size_t i = 0; i < n; i++)
		if ((p[i] < 'A' || p[i] > 'Z') && (p[i] < '0' || p[i] > '9'))
			return false;
	memcpy(ret, p, n);
	ret[n] = '\0';
	return true;
}

int sshw_frame_decode(const uint8_t *p, size_t n, enum sshw_from from, struct sshw_frame *ret)
{
	bool host = from == SSHW_HOST;

	if (n < 1 || n > SSHW_FRAME_MAX)
		return -EBADMSG;
	*ret = (struct sshw_frame){ .kind = (enum sshw_frame_kind)p[0], .p = p + 1, .n = n - 1 };
	switch (p[0]) {
	case SSHW_DATA:
		return n > 1 ? 0 : -EBADMSG;
	case SSHW_ERR:
		return host && n > 1 ? 0 : -EBADMSG;
	case SSHW_EOF:
		return n == 1 ? 0 : -EBADMSG;
	case SSHW_EXIT:
		ret->status = n == 2 ? p[1] : 0;
		return host && n == 2 ? 0 : -EBADMSG;
	case SSHW_KILLED:
		return host && signal_named(p + 1, n - 1, ret->name) ? 0 : -EBADMSG;
	default:
		return -EBADMSG;
	}
}
