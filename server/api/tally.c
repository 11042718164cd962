/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tally.c - counts requests by route and by the class of their status, and how long they took
 *
 * One row for each route of the table and one for requests that no route takes, so the number of
 * series is that of the routes, whatever clients send. Counting is three atomic additions.
 */
#include "api/tally.h"

#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "http/http.h"
#include "metrics/metrics.h"

#define CLASSES 6 /* 1xx to 5xx; 0 stays empty */

struct tally {
	const struct route *routes, *more; /* weak */
	size_t n, n_more;
	struct tally_row {
		_Atomic uint64_t by_class[CLASSES];
		struct metric_cell took;
	} rows[]; /* the last one: no route */
};

int tally_new(const struct route *routes, size_t n, const struct route *more, size_t n_more,
              struct tally **ret, struct err *err)
{
	struct tally *t = calloc(1, sizeof(*t) + (n + n_more + 1) * sizeof(t->rows[0]));

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->routes = routes;
	t->more = more;
	t->n = n;
	t->n_more = n_more;
	*ret = t;
	return 0;
}

struct tally *tally_free(struct tally *t)
{
	free(t);
	return NULL;
}

void tally_count(struct tally *t, const struct request *req, unsigned status)
{
	size_t last = t->n + t->n_more;
	int i = http_route_index(req);
	struct tally_row *row = &t->rows[i < 0 || (size_t)i > last ? last : (size_t)i];
	unsigned class = status / 100;
	uint64_t now = clock_us();

	atomic_fetch_add_explicit(&row->by_class[class < CLASSES ? class : 0], 1,
	                          memory_order_relaxed);
	metric_cell_observe(&row->took, now > req->start_us ? now - req->start_us : 0);
}

/* Method and pattern of a row. */
static void name_row(const struct tally *t, size_t i, const char *ret[2])
{
	const struct route *r = i < t->n               ? &t->routes[i]
	                        : i < t->n + t->n_more ? &t->more[i - t->n]
	                                               : NULL;

	ret[0] = r ? method_name(r->method) : "other";
	ret[1] = r ? r->pattern : "other";
}

void tally_show(struct tally *t, struct metrics_page *p)
{
	static const char *const classes[CLASSES] = { "other", "1xx", "2xx", "3xx", "4xx", "5xx" };
	size_t n = t->n + t->n_more + 1;
	const char *name[2];

	metrics_family(p, METRIC_HTTP_REQUESTS);
	for (size_t i = 0; i < n; i++) {
		name_row(t, i, name);
		for (size_t k = 0; k < CLASSES; k++) {
			uint64_t c =
			        atomic_load_explicit(&t->rows[i].by_class[k], memory_order_relaxed);

			if (c)
				metrics_sample(p, METRIC_HTTP_REQUESTS, (double)c,
				               METRIC_LABELS(name[0], name[1], classes[k]));
		}
	}
	metrics_family(p, METRIC_HTTP_DURATION);
	for (size_t i = 0; i < n; i++) {
		bool used = false;

		for (size_t k = 0; k < CLASSES; k++)
			used |= atomic_load_explicit(&t->rows[i].by_class[k],
			                             memory_order_relaxed) != 0;
		name_row(t, i, name);
		if (used)
			metrics_cell(p, METRIC_HTTP_DURATION, &t->rows[i].took,
			             METRIC_LABELS(name[0], name[1]));
	}
}
