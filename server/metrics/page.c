/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.c - metrics as text: Prometheus' format 0.0.4, or OpenMetrics 1.0.0
 *
 * The two differ in three places: a counter's family is named without _total in OpenMetrics, its
 * page ends with "# EOF", and the content type. Bounds of buckets are always written with a point
 * ("1.0"), as OpenMetrics wants them: a series must not change its labels with the client's
 * preference.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/auto.h"
#include "metrics/metrics_internal.h"

#define LABEL_MAX 32 /* bytes of a label's name, and of a listed value */

const struct metric_def metric_defs[METRIC_MAX] = {
#define STORED(id, kind, name, label, values, help) \
	[METRIC_##id] = { name, help, METRIC_##kind, label, values },
#define GATHERED(id, kind, name, labels, help) \
	[METRIC_##id] = { name, help, METRIC_##kind, labels, NULL },
#include "metrics/metrics.def"
#undef STORED
#undef GATHERED
};

static const char *const kind_names[] = { "counter", "gauge", "histogram" };

const char *metrics_type(const struct metrics_page *p)
{
	return p->open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
	               : "text/plain; version=0.0.4; charset=utf-8";
}

/* The q of one part of an Accept header, which ends at n. */
static double quality(const char *part, size_t n)
{
	for (const char *p = memchr(part, ';', n); p && p < part + n;
	     p = memchr(p + 1, ';', (size_t)(part + n - p - 1))) {
		const char *q = p + 1 + strspn(p + 1, " \t");

		if (strncasecmp(q, "q=", 2) == 0)
			return strtod(q + 2, NULL);
	}
	return 1;
}

bool metrics_wants_open(const char *accept)
{
	double open = -1, plain = -1, any = -1;

	for (const char *p = accept; p && *p;) {
		size_t n = strcspn(p, ","), skip = strspn(p, " \t");
		const char *t = p + MIN(skip, n);
		size_t k = strcspn(t, ",; \t");
		double q = quality(p, n);

		if (k == 28 && strncasecmp(t, "application/openmetrics-text", k) == 0)
			open = MAX(open, q);
		else if (k == 10 && strncasecmp(t, "text/plain", k) == 0)
			plain = MAX(plain, q);
		else if (k == 3 && strncmp(t, "*/*", k) == 0)
			any = MAX(any, q);
		p += n + (p[n] == ',');
	}
	return open > 0 && open >= (plain < 0 ? any : plain);
}

/* The i-th word of a list. */
static const char *word(const char *list, size_t i, char ret[LABEL_MAX])
{
	for (; i && *list; i--) {
		list += strcspn(list, " ");
		list += strspn(list, " ");
	}
	snprintf(ret, LABEL_MAX, "%.*s", (int)strcspn(list, " "), list);
	return ret;
}

static void put_escaped(struct buf *b, const char *s, bool quotes)
{
	for (; *s; s++) {
		if (*s == '\\' || (*s == '"' && quotes))
			buf_printf(b, "\\%c", *s);
		else if (*s == '\n')
			buf_printf(b, "\\n");
		else
			buf_put(b, s, 1);
	}
}

static void put_number(struct buf *b, double v)
{
	buf_printf(b, "%.15g\n", v);
}

/* Length of the family's name: OpenMetrics has a counter's without its suffix. */
static int family_len(const struct metrics_page *p, const struct metric_def *d)
{
	return (int)(strlen(d->name) -
	             (p->open && d->kind == METRIC_COUNTER ? strlen("_total") : 0));
}

void metrics_family(struct metrics_page *p, enum metric m)
{
	const struct metric_def *d = &metric_defs[m];
	int n = family_len(p, d);

	buf_printf(&p->out, "# HELP %.*s ", n, d->name);
	put_escaped(&p->out, d->help, /* quotes= */ p->open);
	buf_printf(&p->out, ".\n# TYPE %.*s %s\n", n, d->name, kind_names[d->kind]);
}

/* {a="b",c="d"}, with le as the last where it is given. */
static void put_labels(struct buf *b, const struct metric_def *d, const char *const *values,
                       const char *le)
{
	char name[LABEL_MAX], sep = '{';

	for (size_t i = 0; values && *word(d->labels, i, name) && values[i]; i++, sep = ',') {
		buf_printf(b, "%c%s=\"", sep, name);
		put_escaped(b, values[i], /* quotes= */ true);
		buf_printf(b, "\"");
	}
	if (le)
		buf_printf(b, "%cle=\"%s\"", sep, le);
	if (le || sep == ',')
		buf_printf(b, "}");
	buf_printf(b, " ");
}

void metrics_sample(struct metrics_page *p, enum metric m, double v, const char *const *values)
{
	buf_printf(&p->out, "%s", metric_defs[m].name);
	put_labels(&p->out, &metric_defs[m], values, NULL);
	put_number(&p->out, v);
}

void metrics_one(struct metrics_page *p, enum metric m, double v)
{
	metrics_family(p, m);
	metrics_sample(p, m, v, NULL);
}

static void bound_text(size_t i, char ret[LABEL_MAX])
{
	if (i == METRIC_BUCKETS)
		snprintf(ret, LABEL_MAX, "+Inf");
	else
		snprintf(ret, LABEL_MAX, metric_bounds_us[i] % 1000000 ? "%g" : "%g.0",
		         (double)metric_bounds_us[i] / 1e6);
}

static void put_histogram(struct metrics_page *p, const struct metric_def *d,
                          const struct metric_cell *c, const char *const *values)
{
	uint64_t n = 0;
	char le[LABEL_MAX];

	for (size_t i = 0; i <= METRIC_BUCKETS; i++) {
		n += atomic_load_explicit(&c->bucket[i], memory_order_relaxed);
		bound_text(i, le);
		buf_printf(&p->out, "%s_bucket", d->name);
		put_labels(&p->out, d, values, le);
		put_number(&p->out, (double)n);
	}
	buf_printf(&p->out, "%s_sum", d->name);
	put_labels(&p->out, d, values, NULL);
	put_number(&p->out, (double)atomic_load_explicit(&c->sum_us, memory_order_relaxed) / 1e6);
	buf_printf(&p->out, "%s_count", d->name);
	put_labels(&p->out, d, values, NULL);
	put_number(&p->out, (double)n);
}

void metrics_cell(struct metrics_page *p, enum metric m, const struct metric_cell *c,
                  const char *const *values)
{
	const struct metric_def *d = &metric_defs[m];

	if (d->kind == METRIC_HISTOGRAM)
		put_histogram(p, d, c, values);
	else
		metrics_sample(p, m,
		               (double)atomic_load_explicit(&c->bucket[0], memory_order_relaxed),
		               values);
}

void metrics_stored(struct metrics_page *p)
{
	char value[LABEL_MAX];

	for (unsigned m = 0; m < METRIC_MAX; m++) {
		const struct metric_def *d = &metric_defs[m];

		if (!d->values)
			continue;
		metrics_family(p, m);
		if (!*d->labels)
			metrics_cell(p, m, metrics_cell_of(m, 0), NULL);
		for (unsigned i = 0; *d->labels && *word(d->values, i, value); i++)
			metrics_cell(p, m, metrics_cell_of(m, i), METRIC_LABELS(value));
	}
}

void metrics_end(struct metrics_page *p)
{
	if (p->open)
		buf_printf(&p->out, "# EOF\n");
}
