/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics/metrics.h - counters and histograms, and the page that shows them
 *
 * metrics.def lists them all. Counting is one or two relaxed atomic additions on memory of the
 * process: no lock, no allocation, no failure, so it may stand anywhere, under any lock. Like the
 * log there is one set for the process: what happened is counted, whoever has which context.
 *
 * The page is Prometheus' text format or OpenMetrics, as the client prefers; both have the same
 * series.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum metric {
#define STORED(id, kind, name, label, values, help) METRIC_##id,
#define GATHERED(id, kind, name, labels, help) METRIC_##id,
#include "metrics/metrics.def"
#undef STORED
#undef GATHERED
	METRIC_MAX
};

/* Values of labels, in the order of metrics.def. */
enum metric_source { LABEL_POOL, LABEL_TEMPLATE, LABEL_SNAPSHOT };
enum metric_reason { LABEL_REQUESTED, LABEL_IDLE, LABEL_OTHER };
enum metric_operation {
	LABEL_OP_CREATE,
	LABEL_OP_FORK,
	LABEL_OP_RESUME,
	LABEL_OP_SUSPEND,
	LABEL_OP_SNAPSHOT
};
enum metric_service { LABEL_PUSH, LABEL_FETCH };
enum metric_direction { LABEL_IN, LABEL_OUT };
enum metric_delivery { LABEL_DELIVERED, LABEL_RETRIED, LABEL_FAILED };
enum metric_forward { LABEL_FORWARD_WHOLE, LABEL_FORWARD_STREAM };
enum metric_place { LABEL_WARM, LABEL_COLD, LABEL_REFUSED };
enum metric_start { LABEL_START_OK, LABEL_START_FAILED };
enum metric_object { LABEL_OBJECT_OK, LABEL_OBJECT_RETRIED, LABEL_OBJECT_FAILED };

#define METRIC_BUCKETS 16   /* upper bounds; one more is +Inf */
#define METRIC_VALUES_MAX 8 /* of the label of a stored metric */
#define METRIC_LABELS_MAX 3 /* of a gathered one */
extern const uint64_t metric_bounds_us[METRIC_BUCKETS];

/* A counter, in bucket[0], or a histogram. */
struct metric_cell {
	_Atomic uint64_t bucket[METRIC_BUCKETS + 1];
	_Atomic uint64_t sum_us;
};
/* For tables of cells that a module keeps itself. */
void metric_cell_observe(struct metric_cell *c, uint64_t us);

/* value: of the label; 0 where there is none. */
void metrics_add(enum metric m, unsigned value, uint64_t n);
void metrics_observe(enum metric m, unsigned value, uint64_t us);
/* The time from then (clock_us()) to now. */
void metrics_since(enum metric m, unsigned value, uint64_t then_us);
uint64_t metrics_count(enum metric m, unsigned value); /* counter, or observations */

/* A histogram at one moment, all values of its label together. */
struct metric_sum {
	uint64_t bucket[METRIC_BUCKETS + 1], n;
	double seconds;
};
void metrics_sum(enum metric m, struct metric_sum *ret);
/* Of 0 to 1, in seconds, by the bucket it is in and linear there; 0 without observations. One
 * beyond the last bound is that bound. */
double metric_quantile(const struct metric_sum *s, double q);

/* ---- the page: page.c ---- */

struct metric_def {
	const char *name, *help;
	enum metric_kind kind;
	const char *labels; /* names, separated by spaces; "": none */
	const char *values; /* of a stored metric's label, likewise; NULL: it is gathered */
};
extern const struct metric_def metric_defs[METRIC_MAX];

struct metrics_page {
	struct buf out;
	bool open; /* OpenMetrics */
};
/* From the Accept header of the request, or NULL. */
bool metrics_wants_open(const char *accept);
const char *metrics_type(const struct metrics_page *p); /* for Content-Type */
/* Its help and type; then its samples. */
void metrics_family(struct metrics_page *p, enum metric m);
/* values: one per label. */
void metrics_sample(struct metrics_page *p, enum metric m, double v, const char *const *values);
void metrics_cell(struct metrics_page *p, enum metric m, const struct metric_cell *c,
                  const char *const *values);
/* A family with one sample and no label. */
void metrics_one(struct metrics_page *p, enum metric m, double v);
#define METRIC_LABELS(...) ((const char *const[METRIC_LABELS_MAX]){ __VA_ARGS__ })
void metrics_stored(struct metrics_page *p);  /* all that were counted */
void metrics_process(struct metrics_page *p); /* process.c: process_... */
void metrics_end(struct metrics_page *p);
