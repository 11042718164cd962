/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c - counters, histograms and their two texts; what counting costs */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"

#define THREADS 4
#define ROUNDS 200000

/* The text of a page; caller frees. */
static char *page(bool open)
{
	struct metrics_page p = { .open = open };

	metrics_stored(&p);
	metrics_end(&p);
	return buf_take_str(&p.out);
}

static void test_counter(void **state)
{
	autofree char *text = NULL;

	metrics_add(METRIC_VM_FAILURES, LABEL_OP_FORK, 3);
	metrics_add(METRIC_VM_FAILURES, LABEL_OP_FORK, 1);
	metrics_add(METRIC_VM_FORK_COPIES, 0, 7);
	assert_int_equal(metrics_count(METRIC_VM_FAILURES, LABEL_OP_FORK), 4);
	text = page(false);
	assert_non_null(strstr(text, "\n# TYPE pando_vm_failures_total counter\n"));
	assert_non_null(strstr(text, "\npando_vm_failures_total{operation=\"fork\"} 4\n"));
	assert_non_null(strstr(text, "\npando_vm_failures_total{operation=\"create\"} 0\n"));
	assert_non_null(strstr(text, "\npando_vm_fork_copies_total 7\n"));
	assert_null(strstr(text, "# EOF"));
}

static void test_open_metrics(void **state)
{
	autofree char *text = page(true);
	size_t n = strlen(text);

	assert_non_null(strstr(text, "\n# TYPE pando_vm_failures counter\n"));
	assert_non_null(strstr(text, "\npando_vm_failures_total{operation=\"fork\"} 4\n"));
	assert_null(strstr(text, "# TYPE pando_vm_failures_total"));
	assert_string_equal(text + n - strlen("\n# EOF\n"), "\n# EOF\n");
}

static void test_histogram(void **state)
{
	autofree char *text = NULL;
	struct metric_sum s;

	metrics_observe(METRIC_VM_CREATE, LABEL_POOL, 1000); /* a bound belongs to its bucket */
	metrics_observe(METRIC_VM_CREATE, LABEL_POOL, 1001);
	metrics_observe(METRIC_VM_CREATE, LABEL_SNAPSHOT, 1000000);
	metrics_observe(METRIC_VM_CREATE, LABEL_SNAPSHOT, 3600000000); /* beyond all bounds */
	metrics_sum(METRIC_VM_CREATE, &s);
	assert_int_equal(s.n, 4);
	assert_true(s.seconds > 3601.001 && s.seconds < 3601.003);
	text = page(false);
#define BUCKET "\npando_vm_create_duration_seconds_bucket{source="
	assert_non_null(strstr(text, BUCKET "\"pool\",le=\"0.001\"} 1\n"));
	assert_non_null(strstr(text, BUCKET "\"pool\",le=\"0.0025\"} 2\n"));
	assert_non_null(strstr(text, BUCKET "\"pool\",le=\"+Inf\"} 2\n"));
	assert_non_null(strstr(text, BUCKET "\"snapshot\",le=\"0.5\"} 0\n"));
	assert_non_null(strstr(text, BUCKET "\"snapshot\",le=\"1.0\"} 1\n"));
	assert_non_null(strstr(text, BUCKET "\"snapshot\",le=\"300.0\"} 1\n"));
	assert_non_null(strstr(text, BUCKET "\"snapshot\",le=\"+Inf\"} 2\n"));
	assert_non_null(
	        strstr(text, "\npando_vm_create_duration_seconds_sum{source=\"pool\"} 0.002001\n"));
	assert_non_null(
	        strstr(text, "\npando_vm_create_duration_seconds_count{source=\"pool\"} 2\n"));
}

static void test_quantile(void **state)
{
	struct metric_sum s = { 0 };

	assert_true(metric_quantile(&s, 0.5) == 0);
	s.bucket[4] = 10; /* 10 to 25 ms */
	s.n = 10;
	assert_true(metric_quantile(&s, 0.5) > 0.0174 && metric_quantile(&s, 0.5) < 0.0176);
	assert_true(metric_quantile(&s, 1) > 0.0249 && metric_quantile(&s, 1) < 0.0251);
	s.bucket[METRIC_BUCKETS] = 90; /* nobody knows how long those took */
	s.n = 100;
	assert_true(metric_quantile(&s, 0.99) == 300);
	assert_true(metric_quantile(&s, 0.05) < 0.025);
}

/* Texts of users never are labels; a version may be anything all the same. */
static void test_escaped(void **state)
{
	struct metrics_page p = { 0 };
	autofree char *text = NULL;

	metrics_sample(&p, METRIC_BUILD_INFO, 1, METRIC_LABELS("a\"b\\c\nd", "kvm"));
	text = buf_take_str(&p.out);
	assert_string_equal(text,
	                    "pando_build_info{version=\"a\\\"b\\\\c\\nd\",accel=\"kvm\"} 1\n");
}

static void test_accept(void **state)
{
	static const struct {
		const char *accept;
		bool open;
	} t[] = {
		{ NULL, false },
		{ "", false },
		{ "*/*", false },
		{ "text/plain", false },
		{ "application/json, text/*", false },
		{ "application/openmetrics-text", true },
		{ "Application/OpenMetrics-Text; version=1.0.0", true },
		/* Prometheus' own */
		{ "application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
		  "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		  true },
		{ "application/openmetrics-text;q=0.4, text/plain;q=0.5", false },
		{ "application/openmetrics-text;q=0, */*;q=0.1", false },
		{ "application/openmetrics-text;q=0.2,*/*;q=0.1", true },
		{ "application/openmetrics-textual", false },
		{ ",,;;q=,  ,", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		if (metrics_wants_open(t[i].accept) != t[i].open)
			fail_msg("Accept: %s", t[i].accept ? t[i].accept : "(none)");
}

static void *count(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		metrics_add(METRIC_GIT_CHILDREN, 0, 1);
		metrics_observe(METRIC_VM_EXEC, 0, i % 5000);
	}
	return NULL;
}

/* Nothing is lost when threads count at once; and what one count costs is printed. */
static void test_threads(void **state)
{
	pthread_t t[THREADS];
	uint64_t t0 = clock_us();
	struct metric_sum s;

	count(NULL);
	printf("one thread: %.1f ns for a counter and a histogram\n",
	       (double)(clock_us() - t0) * 1e3 / ROUNDS);
	t0 = clock_us();
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count, NULL), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	printf("%d threads on the same ones: %.1f ns\n", THREADS,
	       (double)(clock_us() - t0) * 1e3 / ROUNDS / THREADS);
	assert_int_equal(metrics_count(METRIC_GIT_CHILDREN, 0), ROUNDS * (THREADS + 1));
	metrics_sum(METRIC_VM_EXEC, &s);
	assert_int_equal(s.n, ROUNDS * (THREADS + 1));
}

/* What the table promises to code that counts by position. */
static void test_table(void **state)
{
	for (unsigned m = 0; m < METRIC_MAX; m++) {
		const struct metric_def *d = &metric_defs[m];
		size_t n = strlen(d->name), words = 1;

		if ((d->kind == METRIC_COUNTER) != (n > 6 && !strcmp(d->name + n - 6, "_total")))
			fail_msg("%s: a counter, and only a counter, ends with _total", d->name);
		if (d->kind == METRIC_HISTOGRAM &&
		    (n < 8 || strcmp(d->name + n - 8, "_seconds") != 0))
			fail_msg("%s: histograms are of seconds", d->name);
		for (const char *p = d->values; p && *p; p++)
			words += *p == ' ';
		if (words > METRIC_VALUES_MAX)
			fail_msg("%s has more than %d values", d->name, METRIC_VALUES_MAX);
		for (unsigned k = 0; k < m; k++)
			assert_string_not_equal(d->name, metric_defs[k].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counter),   cmocka_unit_test(test_open_metrics),
		cmocka_unit_test(test_histogram), cmocka_unit_test(test_quantile),
		cmocka_unit_test(test_escaped),   cmocka_unit_test(test_accept),
		cmocka_unit_test(test_threads),   cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
