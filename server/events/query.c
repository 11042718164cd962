/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c - one page of lines, from all sources
 *
 * Each source gives its newest lines before the place where the page begins, at
 * most one more than a page; they are sorted and cut. The place of the last line
 * is where the next page begins, so lines that arrive in the meantime shift nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "events/logs_internal.h"

const char *log_place_text(const struct log_place *p, char buf[LOG_PLACE_TEXT])
{
	snprintf(buf, LOG_PLACE_TEXT, "%" PRId64 ".%d.%" PRId64, p->at_ms, (int)p->from, p->seq);
	return buf;
}

int log_place_parse(const char *s, struct log_place *ret)
{
	long long v[3];
	char *end;

	for (int i = 0; i < 3; i++) {
		if (!isdigit((unsigned char)*s))
			return -EINVAL;
		errno = 0;
		v[i] = strtoll(s, &end, 10);
		if (errno || *end != (i < 2 ? '.' : '\0'))
			return -EINVAL;
		s = end + 1;
	}
	if (v[1] >= LOG_SOURCE_MAX)
		return -EINVAL;
	*ret = (struct log_place){ v[0], (enum log_source)v[1], v[2] };
	return 0;
}

void log_place_for(const struct log_place *place, enum log_source from, int64_t *ret_ms,
                   int64_t *ret_seq)
{
	*ret_ms = place->at_ms;
	*ret_seq = from < place->from ? INT64_MAX : from == place->from ? place->seq : INT64_MIN;
}

bool log_holds(const char *text, const char *part)
{
	return !*part || strcasestr(text, part);
}

bool logs_service_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@-");

	return n > 0 && n < LOGS_SERVICE_SIZE && s[n] == '\0' && s[0] != '-';
}

void log_page_done(struct log_page *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].message);
		free(p->v[i].access);
	}
	free(p->v);
	*p = (struct log_page){ 0 };
}

struct log_line *log_page_add(struct log_page *p)
{
	if ((p->n & (p->n - 1)) == 0) { /* full at every power of two */
		struct log_line *v = realloc(p->v, (p->n ? p->n * 2 : 1) * sizeof(*v));

		if (!v)
			return NULL;
		p->v = v;
	}
	p->v[p->n] = (struct log_line){ 0 };
	return &p->v[p->n++];
}

static int add_events(struct logs *l, const struct log_query *q, struct log_page *ret,
                      struct err *err)
{
	autofree struct store_event *v = NULL;
	struct store_event_query w = { .account = q->account,
		                       .vm = q->vm,
		                       .instance = q->instance,
		                       .build = q->build,
		                       .request = q->request,
		                       .search = q->search,
		                       .from_ms = q->from_ms,
		                       .to_ms = q->to_ms,
		                       .limit = q->limit + 1 };
	size_t n = 0;
	int r;

	log_place_for(&q->before, LOG_FROM_EVENTS, &w.before_ms, &w.before_seq);
	logs_flush(l);
	if ((r = store_event_list(l->store, &w, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		struct log_line *line = log_page_add(ret);

		if (!line || !(line->message = strdup(v[i].message)))
			return err_set(err, -ENOMEM, "out of memory");
		line->place = (struct log_place){ v[i].at_ms, LOG_FROM_EVENTS, v[i].seq };
		snprintf(line->level, sizeof(line->level), "%s", v[i].level);
		snprintf(line->source, sizeof(line->source), "%s", v[i].source);
		snprintf(line->vm, sizeof(line->vm), "%s", v[i].vm);
		snprintf(line->instance, sizeof(line->instance), "%s", v[i].instance);
		snprintf(line->build, sizeof(line->build), "%s", v[i].build);
		snprintf(line->request, sizeof(line->request), "%s", v[i].request);
	}
	return 0;
}

/* Lines of a build, or of all builds of a request; not of an instance of a VM. */
static int add_build(struct logs *l, const struct log_query *q, struct log_page *ret,
                     struct err *err)
{
	autofree struct store_build_log *v = NULL;
	struct store_build_log_query w = { .account = q->account,
		                           .build = q->build,
		                           .request = q->request,
		                           .search = q->search,
		                           .from_ms = q->from_ms,
		                           .to_ms = q->to_ms,
		                           .limit = (uint32_t)q->limit + 1 };
	size_t n = 0;
	int r;

	if ((!*q->build && !*q->request) || *q->vm || *q->instance)
		return 0;
	log_place_for(&q->before, LOG_FROM_BUILD, &w.before_ms, &w.before_seq);
	if ((r = store_build_log_list(l->store, &w, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		struct log_line *line = log_page_add(ret);

		if (!line || !(line->message = strdup(v[i].message)))
			return err_set(err, -ENOMEM, "out of memory");
		line->place = (struct log_place){ v[i].at_ms, LOG_FROM_BUILD, v[i].seq };
		snprintf(line->level, sizeof(line->level), "info");
		snprintf(line->source, sizeof(line->source), "build");
		snprintf(line->build, sizeof(line->build), "%s", v[i].build_id);
		snprintf(line->request, sizeof(line->request), "%s", q->request);
	}
	return 0;
}

static int compare(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static int newest_first(const void *a, const void *b)
{
	const struct log_place *x = &((const struct log_line *)a)->place;
	const struct log_place *y = &((const struct log_line *)b)->place;
	int r = compare(y->at_ms, x->at_ms);

	if (r == 0)
		r = compare(y->from, x->from);
	return r ? r : compare(y->seq, x->seq);
}

int logs_query(struct logs *l, const struct log_query *q, struct log_page *ret, struct err *err)
{
	AUTO(log_page_done) struct log_page p = { 0 };
	int r;

	/* Access logs have lines of nothing else; only the journal has lines of services. */
	if (*q->domain || q->access)
		r = *q->service || *q->instance || *q->build || *q->request
		            ? 0
		            : access_query(l->access, q, &p, err);
	else if (*q->service)
		r = q->guest && !*q->build && !*q->request ? journal_read(q, &p, err) : 0;
	else if ((r = add_events(l, q, &p, err)) == 0)
		r = add_build(l, q, &p, err);
	if (r < 0)
		return r;
	if (p.n)
		qsort(p.v, p.n, sizeof(*p.v), newest_first);
	while (p.n > q->limit) {
		free(p.v[--p.n].message);
		free(p.v[p.n].access);
		p.more = true;
	}
	*ret = p;
	p = (struct log_page){ 0 };
	return 0;
}
