/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access_query.c - lines of the access log as lines of the logs, newest first
 *
 * Rings are read backwards, side by side, until the page is full: each step takes the newest line
 * among their ends.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "events/access_internal.h"
#include "events/logs_internal.h"

static const uint8_t *take(char *dst, size_t size, const uint8_t *p, size_t n)
{
	size_t k = MIN(n, size - 1);

	memcpy(dst, p, k);
	dst[k] = '\0';
	return p + n;
}

void access_read_rec(const struct ring *r, size_t at, const struct rec *rec,
                     struct access_line *ret)
{
	const uint8_t *p = r->p + at + sizeof(*rec);

	*ret = (struct access_line){ .at_ms = rec->at_ms,
		                     .seq = rec->seq,
		                     .in = rec->in,
		                     .out = rec->out,
		                     .ms = rec->ms,
		                     .status = rec->status,
		                     .proto = rec->proto,
		                     .tls = rec->flags & REC_TLS,
		                     .woke = rec->flags & REC_WOKE,
		                     .guest = rec->flags & REC_GUEST };
	p = take(ret->host, sizeof(ret->host), p, rec->n_host);
	p = take(ret->path, sizeof(ret->path), p, rec->n_path);
	p = take(ret->method, sizeof(ret->method), p, rec->n_method);
	p = take(ret->client, sizeof(ret->client), p, rec->n_client);
	take(ret->error, sizeof(ret->error), p, rec->n_error);
	if (!rec->n_host)
		snprintf(ret->host, sizeof(ret->host), "%s", r->name);
	snprintf(ret->vm, sizeof(ret->vm), "%s", r->vm);
}

const char *access_protocol(const struct access_line *l)
{
	return l->proto == 20   ? "HTTP/2"
	       : l->proto == 11 ? "HTTP/1.1"
	       : l->proto == 10 ? "HTTP/1.0"
	                        : "TLS";
}

void access_text(const struct access_line *l, char ret[ACCESS_TEXT_SIZE])
{
	char status[8] = "-";

	if (l->status)
		snprintf(status, sizeof(status), "%u", l->status);
	snprintf(ret, ACCESS_TEXT_SIZE,
	         "%s %s %s%s %s %s, %" PRIu64 " B in, %" PRIu64 " B out, %" PRIu32 " ms%s%s%s",
	         l->client, l->method, l->host, l->path, access_protocol(l), status, l->in, l->out,
	         l->ms, l->woke ? ", woke the VM" : "", *l->error ? ", " : "", l->error);
}

struct cursor {
	const struct ring *r;
	size_t end, size; /* of the record that is next; size 0: there is none */
	struct rec rec;
};

static void step(struct cursor *c)
{
	c->size = access_before(c->r, c->end, &c->rec);
	c->end -= c->size;
}

static struct cursor *newest(struct cursor *v, size_t n)
{
	struct cursor *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].size && (!best || v[i].rec.seq > best->rec.seq))
			best = &v[i];
	return best;
}

static bool older(const struct rec *rec, int64_t before_ms, int64_t before_seq)
{
	return rec->at_ms < before_ms ||
	       (rec->at_ms == before_ms &&
	        (before_seq == INT64_MAX || (int64_t)rec->seq < before_seq));
}

static int add_line(const struct access_line *l, const char *text, struct log_page *ret)
{
	struct log_line *line = log_page_add(ret);

	if (!line || !(line->message = strdup(text)) || !(line->access = malloc(sizeof(*l))))
		return -ENOMEM;
	*line->access = *l;
	line->place = (struct log_place){ l->at_ms, LOG_FROM_ACCESS, (int64_t)l->seq };
	snprintf(line->level, sizeof(line->level), "%s",
	         *l->error || l->status >= 500 ? "error" : "info");
	snprintf(line->source, sizeof(line->source), "access");
	snprintf(line->vm, sizeof(line->vm), "%s", l->vm);
	return 0;
}

static int read_some(struct cursor *v, size_t n, const struct log_query *q, struct log_page *ret)
{
	int64_t from_ms = MAX(q->from_ms, clock_wall_ms() - ACCESS_KEEP_MS), before_ms, before_seq;
	char text[ACCESS_TEXT_SIZE];
	struct access_line l;
	struct cursor *c;
	size_t found = 0;

	log_place_for(&q->before, LOG_FROM_ACCESS, &before_ms, &before_seq);
	while (found <= q->limit && (c = newest(v, n))) {
		if (c->rec.at_ms < from_ms)
			break;
		if (c->rec.at_ms <= q->to_ms && older(&c->rec, before_ms, before_seq)) {
			access_read_rec(c->r, c->end, &c->rec, &l);
			access_text(&l, text);
			if ((!*q->domain || strcmp(q->domain, l.host) == 0 ||
			     strcmp(q->domain, c->r->name) == 0) &&
			    log_holds(text, q->search)) {
				if (add_line(&l, text, ret) < 0)
					return -ENOMEM;
				found++;
			}
		}
		step(c);
	}
	return 0;
}

/* Can a line of this ring be asked for? Lines of a wildcard have hosts of their own. */
static bool wanted(const struct ring *r, const struct log_query *q)
{
	const char *dot = strchr(q->domain, '.');

	if (*q->vm && strcmp(q->vm, r->vm) != 0)
		return false;
	return !*q->domain || strcmp(r->name, q->domain) == 0 ||
	       (*r->name == '*' && dot && strcmp(r->name + 1, dot) == 0);
}

int access_query(struct access *a, const struct log_query *q, struct log_page *ret, struct err *err)
{
	autofree struct cursor *v = NULL;
	const struct owner *o;
	size_t n = 0, k = 0;

	LOCK_SCOPE(&a->lock);
	o = access_owner(a, q->account, /* make= */ false);
	for (const struct ring *r = o ? o->first : NULL; r; r = r->next)
		n += wanted(r, q);
	if (!n)
		return 0;
	v = calloc(n, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (const struct ring *r = o->first; r; r = r->next) {
		if (!wanted(r, q))
			continue;
		v[k] = (struct cursor){ .r = r, .end = r->len };
		step(&v[k++]);
	}
	return read_some(v, n, q, ret) < 0 ? err_set(err, -ENOMEM, "out of memory") : 0;
}
