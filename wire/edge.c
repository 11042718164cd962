/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/edge.c - messages between pandod and pando-edge as bytes
 *
 * Both directions walk the field mask of EDGEW_KINDS in one fixed order, so a message is described
 * in one line. pandod decodes what a process sends that strangers may have taken over: every length
 * is checked before it is used, and nothing is allocated.
 */
#include "wire/edge.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"

#define EDGEW_ERRNO_MAX 4095u
#define EDGEW_WAY_KINDS 3u /* of enum edge_kind */
#define EDGEW_LOOKS 4u     /* of enum edge_look */
#define EDGEW_SPEAKS 3u    /* of enum edge_speaks */

struct kind_desc {
	const char *name;
	enum edgew_from from;
	unsigned fields;
};

#define AS_DESC(num, NAME, who, mask) [num] = { .name = #NAME, .from = (who), .fields = (mask) },
static const struct kind_desc kinds[EDGEW_KIND_END] = { EDGEW_KINDS(AS_DESC) };

static const struct kind_desc *desc_of(unsigned kind)
{
	return kind < ARRAY_SIZE(kinds) && kinds[kind].name ? &kinds[kind] : NULL;
}

int edgew_host_valid(const char *s)
{
	for (; *s; s++)
		if (*s <= ' ' || *s > '~' || *s == '/' || *s == '\\' || (*s >= 'A' && *s <= 'Z'))
			return 0;
	return 1;
}

/* ---- writing ---- */

static void put_start(struct buf *b, const struct edgew_start *s)
{
	const uint32_t words[] = { s->version, s->workers,    s->wait_ms,       s->hsts_s,
		                   s->head_ms, s->keep_ms,    s->stall_ms,      s->answer_ms,
		                   s->idle_ms, s->addr_conns, s->addr_requests, s->fd_reserve,
		                   s->mem_mb,  s->log_level };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		buf_put_u32(b, words[i]);
	buf_put_u8(b, s->tls);
	buf_put_u8(b, s->http);
	buf_put_str(b, s->field);
}

static void put_way(struct buf *b, const struct edgew_way *w)
{
	buf_put_u8(b, w->kind);
	buf_put_u8(b, w->look);
	buf_put_u8(b, w->speaks);
	buf_put_u8(b, w->many);
	buf_put_u16(b, w->port);
	buf_put_u32(b, w->tally);
	buf_put_u32(b, w->names);
	buf_put_u32(b, w->vm);
	buf_put_u64(b, w->cert);
	buf_put_str(b, w->place);
	buf_put_str(b, w->instance);
}

static void put_cert(struct buf *b, const struct edgew_msg *m)
{
	buf_put_u64(b, m->cert.number);
	buf_put_blob(b, m->cert.key.p, m->cert.key.n);
	buf_put_u8(b, (uint8_t)m->cert.n_chain);
	for (unsigned i = 0; i < m->cert.n_chain; i++)
		buf_put_blob(b, m->cert.chain[i].p, m->cert.chain[i].n);
}

static void put_stats(struct buf *b, const struct edgew_stats *s)
{
	buf_put_u64(b, s->connections);
	buf_put_u64(b, s->requests);
	buf_put_u64(b, s->refused);
	buf_put_u64(b, s->woken);
	buf_put_u32(b, s->open);
	buf_put_u32(b, s->most);
	buf_put_u32(b, s->fewest);
}

static void put_guest(struct buf *b, const struct edgew_guest *g)
{
	buf_put_u8(b, g->tls);
	buf_put_u64(b, g->key);
	buf_put_str(b, g->caller);
}

int edgew_encode(const struct edgew_msg *m, struct buf *out, struct err *err)
{
	const struct kind_desc *d = desc_of(m->kind);

	if (!d)
		return err_set(err, -EINVAL, "no message %u", m->kind);
	if ((d->fields & EF_CERT) && m->cert.n_chain > EDGEW_CHAIN_MAX)
		return err_set(err, -E2BIG, "%s: a chain of %u certificates", d->name,
		               m->cert.n_chain);
	buf_put_u16(out, (uint16_t)m->kind);
	buf_put_u32(out, m->id);
	if (d->fields & EF_START)
		put_start(out, &m->start);
	if (d->fields & EF_HOST)
		buf_put_str(out, m->host);
	if (d->fields & EF_TOKEN)
		buf_put_str(out, m->token);
	if (d->fields & EF_RESULT) {
		buf_put_u32(out, (uint32_t)-m->code);
		buf_put_u32(out, m->tag);
	}
	if (d->fields & EF_WAY)
		put_way(out, &m->way);
	if (d->fields & EF_FRESH)
		buf_put_u32(out, m->fresh_ms);
	if (d->fields & EF_CERT)
		put_cert(out, m);
	if (d->fields & EF_TEXT)
		buf_put_str(out, m->text);
	if (d->fields & EF_INSTANCE)
		buf_put_str(out, m->instance);
	if (d->fields & EF_STATS)
		put_stats(out, &m->stats);
	if (d->fields & EF_VERSION)
		buf_put_u32(out, m->version);
	if (d->fields & EF_GUEST)
		put_guest(out, &m->guest);
	if (d->fields & EF_LINES) {
		buf_put_u32(out, m->lines.lost);
		buf_put_blob(out, m->lines.v.p, m->lines.v.n);
	}
	if (d->fields & EF_TICKET)
		buf_put_u64(out, m->ticket);
	if (d->fields & EF_WAITING)
		buf_put_u32(out, m->waiting);
	if (out->failed)
		return err_set(err, -ENOMEM, "%s: out of memory", d->name);
	if (out->len > EDGEW_MSG_MAX)
		return err_set(err, -E2BIG, "%s: a message of %zu bytes", d->name, out->len);
	return 0;
}

/* ---- reading ---- */

static int get_start(struct rd *c, struct edgew_start *s)
{
	uint32_t *words[] = { &s->version, &s->workers,    &s->wait_ms,       &s->hsts_s,
		              &s->head_ms, &s->keep_ms,    &s->stall_ms,      &s->answer_ms,
		              &s->idle_ms, &s->addr_conns, &s->addr_requests, &s->fd_reserve,
		              &s->mem_mb,  &s->log_level };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (rd_u32(c, words[i]) < 0)
			return -EBADMSG;
	if (rd_u8(c, &s->tls) < 0 || s->tls > 1 || rd_u8(c, &s->http) < 0 || s->http > 1 ||
	    s->workers > EDGEW_LANES_MAX)
		return -EBADMSG;
	return rd_str(c, s->field, sizeof(s->field));
}

static int get_host(struct rd *c, char ret[EDGEW_HOST_SIZE])
{
	return rd_str(c, ret, EDGEW_HOST_SIZE) == 0 && edgew_host_valid(ret) ? 0 : -EBADMSG;
}

static int get_result(struct rd *c, struct edgew_msg *m)
{
	uint32_t code, tag;

	if (rd_u32(c, &code) < 0 || code > EDGEW_ERRNO_MAX || rd_u32(c, &tag) < 0 ||
	    tag >= ERR_CODE_MAX)
		return -EBADMSG;
	m->code = -(int)code;
	m->tag = tag;
	return 0;
}

static int get_way(struct rd *c, struct edgew_way *w)
{
	if (rd_u8(c, &w->kind) < 0 || w->kind >= EDGEW_WAY_KINDS || rd_u8(c, &w->look) < 0 ||
	    w->look >= EDGEW_LOOKS || rd_u8(c, &w->speaks) < 0 || w->speaks >= EDGEW_SPEAKS ||
	    rd_u8(c, &w->many) < 0 || w->many > 1 || rd_u16(c, &w->port) < 0 ||
	    rd_u32(c, &w->tally) < 0 || w->tally >= EDGEW_TALLIES || rd_u32(c, &w->names) < 0 ||
	    rd_u32(c, &w->vm) < 0 || rd_u64(c, &w->cert) < 0 ||
	    rd_str(c, w->place, sizeof(w->place)) < 0)
		return -EBADMSG;
	return rd_str(c, w->instance, sizeof(w->instance));
}

static int get_cert(struct rd *c, struct edgew_msg *m)
{
	uint8_t n;

	if (rd_u64(c, &m->cert.number) < 0 ||
	    rd_blob(c, EDGEW_KEY_MAX, &m->cert.key.p, &m->cert.key.n) < 0 || rd_u8(c, &n) < 0 ||
	    n > EDGEW_CHAIN_MAX)
		return -EBADMSG;
	m->cert.n_chain = n;
	for (unsigned i = 0; i < n; i++)
		if (rd_blob(c, EDGEW_CERT_MAX, &m->cert.chain[i].p, &m->cert.chain[i].n) < 0)
			return -EBADMSG;
	return 0;
}

static int get_stats(struct rd *c, struct edgew_stats *s)
{
	if (rd_u64(c, &s->connections) < 0 || rd_u64(c, &s->requests) < 0 ||
	    rd_u64(c, &s->refused) < 0 || rd_u64(c, &s->woken) < 0 || rd_u32(c, &s->open) < 0 ||
	    rd_u32(c, &s->most) < 0)
		return -EBADMSG;
	return rd_u32(c, &s->fewest);
}

static int get_guest(struct rd *c, struct edgew_guest *g)
{
	if (rd_u8(c, &g->tls) < 0 || g->tls > 1 || rd_u64(c, &g->key) < 0)
		return -EBADMSG;
	return rd_str(c, g->caller, sizeof(g->caller));
}

static int get_lines(struct rd *c, struct edgew_msg *m)
{
	if (rd_u32(c, &m->lines.lost) < 0)
		return -EBADMSG;
	return rd_blob(c, EDGEW_LINES_MAX, &m->lines.v.p, &m->lines.v.n);
}

static int get_fields(struct rd *c, unsigned fields, struct edgew_msg *m)
{
	if (((fields & EF_START) && get_start(c, &m->start) < 0) ||
	    ((fields & EF_HOST) && get_host(c, m->host) < 0) ||
	    ((fields & EF_TOKEN) && rd_str(c, m->token, sizeof(m->token)) < 0) ||
	    ((fields & EF_RESULT) && get_result(c, m) < 0) ||
	    ((fields & EF_WAY) && get_way(c, &m->way) < 0) ||
	    ((fields & EF_FRESH) && rd_u32(c, &m->fresh_ms) < 0) ||
	    ((fields & EF_CERT) && get_cert(c, m) < 0) ||
	    ((fields & EF_TEXT) && rd_str(c, m->text, sizeof(m->text)) < 0) ||
	    ((fields & EF_INSTANCE) && rd_str(c, m->instance, sizeof(m->instance)) < 0) ||
	    ((fields & EF_STATS) && get_stats(c, &m->stats) < 0) ||
	    ((fields & EF_VERSION) && rd_u32(c, &m->version) < 0) ||
	    ((fields & EF_GUEST) && get_guest(c, &m->guest) < 0) ||
	    ((fields & EF_LINES) && get_lines(c, m) < 0) ||
	    ((fields & EF_TICKET) && rd_u64(c, &m->ticket) < 0) ||
	    ((fields & EF_WAITING) && rd_u32(c, &m->waiting) < 0))
		return -EBADMSG;
	return rd_end(c);
}

int edgew_decode(const void *p, size_t n, enum edgew_from from, struct edgew_msg *ret,
                 struct err *err)
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
	if (get_fields(&c, d->fields, ret) < 0)
		return err_set(err, -EBADMSG, "%s: malformed", d->name);
	return 0;
}
