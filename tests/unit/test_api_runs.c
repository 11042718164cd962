/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_runs.c - runs and schedules over the real manager, whose machines are those of
 * tests/vm/rig.h
 *
 * Their kernels are all Bash, so a script fails: what is tested here is what becomes of rows, VMs
 * and times. What scripts do is tested with real VMs (tests/e2e/test_runs.py).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "serverless/serverless.h"
#include "tests/unit/api_fx.h"

#define WAIT_MS 60000
#define RUN "\"run\":{\"code\":\"export default 1\",\"envVars\":{\"A\":\"secret\"}}"

static void run_fails(struct fx *f, const char *body, const char *says)
{
	fx_refused(f, "POST", "/execute/v3/script", body, 400, "BAD_REQUEST", says);
}

static void what_a_run_may_ask_for(void **state)
{
	struct fx *f = *state;

	run_fails(f, "{}", "'script'");
	run_fails(f, "{\"script\":\"1\",\"executionId\":\"a b\"}", "'executionId'");
	run_fails(f, "{\"script\":\"1\",\"config\":{\"timeout\":281}}", "'config.timeout'");
	run_fails(f, "{\"script\":\"1\",\"config\":{\"proxy\":\"http://p\"}}", "'config.proxy'");
	run_fails(f, "{\"script\":\"1\",\"config\":{\"envVars\":{\"A\":1}}}", "'config.envVars.A'");
	run_fails(f, "{\"script\":\"1\",\"config\":{\"envVars\":{\"A=B\":\"\"}}}", "not allowed");
	run_fails(f, "{\"script\":\"1\",\"config\":{\"nodeModules\":{\"../x\":\"1\"}}}",
	          "'config.nodeModules'");
	run_fails(f, "{\"script\":\"1\",\"config\":{\"nodeModules\":{\"-g\":\"1\"}}}",
	          "not allowed");
	run_fails(f,
	          "{\"script\":\"1\",\"config\":{\"networkPermissions\":[{\"action\":\"allow\","
	          "\"query\":\"a|b\",\"behavior\":\"regex\"}]}}",
	          "regular expressions");
	run_fails(f,
	          "{\"script\":\"1\",\"config\":{\"egress\":{\"allow\":{\"domains\":{\"*\":[{"
	          "\"transform\":[{\"headers\":{\"a\":\"b\"}}]}]}}}}}",
	          "are named");
}

/* The policy that a body becomes, as text; caller frees. */
static char *policy(const char *permissions, const char *egress)
{
	autojson json_t *p = permissions ? json_loads(permissions, 0, NULL) : NULL;
	autojson json_t *e = egress ? json_loads(egress, 0, NULL) : NULL;
	autojson json_t *out = NULL;
	struct err why = { 0 };

	assert_int_equal(run_egress(p, e, "", &out, &why), 0);
	return out ? json_dumps(out, JSON_COMPACT) : strdup("open");
}

static void policy_is(const char *permissions, const char *egress, const char *want)
{
	autofree char *got = policy(permissions, egress);

	assert_string_equal(got, want);
}

#define RULES(rules, inject) "{\"mode\":\"rules\",\"rules\":[" rules "],\"inject\":[" inject "]}"
#define ALL "{\"action\":\"allow\",\"cidr\":\"0.0.0.0/0\"}"

static void permissions_become_a_policy(void **state)
{
	policy_is(NULL, NULL, "open");
	policy_is("[]", "{}", "open");
	policy_is("[{\"action\":\"deny\",\"query\":\"a.b\"}]", NULL,
	          RULES("{\"action\":\"deny\",\"domain\":\"a.b\"}," ALL, ""));
	policy_is("[{\"action\":\"allow\",\"query\":\"a.b\"}]", NULL,
	          RULES("{\"action\":\"allow\",\"domain\":\"a.b\"}", ""));
	policy_is(
	        "[{\"action\":\"allow\",\"query\":\"^(.*\\\\.)?a\\\\.b$\",\"behavior\":\"regex\"}]",
	        NULL,
	        RULES("{\"action\":\"allow\",\"domain\":\"a.b\"},"
	              "{\"action\":\"allow\",\"domain\":\"*.a.b\"}",
	              ""));
	policy_is("[{\"action\":\"allow\",\"query\":\".*\",\"behavior\":\"regex\"}]", NULL,
	          RULES(ALL, ""));
	policy_is(NULL, "{\"allow\":{\"domains\":{}}}", RULES("", ""));
	policy_is(NULL, "{\"deny\":{\"ips\":{\"1.2.3.0/24\":[]}}}",
	          RULES("{\"action\":\"deny\",\"cidr\":\"1.2.3.0/24\"}," ALL, ""));
	policy_is(NULL,
	          "{\"allow\":{\"domains\":{\"a.b\":[{\"transform\":[{\"headers\":{\"K\":\"v\"}}]}]"
	          "}}}",
	          RULES("{\"action\":\"allow\",\"domain\":\"a.b\"}",
	                "{\"domain\":\"a.b\",\"headers\":{\"K\":\"v\"}}"));
}

static void packages_are_found_in_imports(void **state)
{
	static const char script[] =
	        "import a from 'a/b';\nimport * as c from \"@s/c/d\";\n"
	        "import './own.js'; import 'e';\n"
	        "const f = require('f'), g = await import(`g`);\n"
	        "import fs from 'fs'; import h from 'node:h';\n"
	        "// import x from 'x'\n/* require('y') */\n"
	        "const s = \"import z from 'z'\"; platform('q'); x.require('r')";
	autojson json_t *got = NULL;
	autofree char *text = NULL;

	OK(run_infer(script, &got, &err));
	text = json_dumps(got, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text, "{\"@s/c\":\"latest\",\"a\":\"latest\",\"e\":\"latest\","
	                          "\"f\":\"latest\",\"g\":\"latest\"}");
}

static size_t vms(struct fx *f)
{
	struct vm_info *v = NULL;
	size_t n = 0;
	char account[ACCOUNT_SIZE];

	OK(store_account_first(f->store, account, &err));
	OK(vmm_list(f->vmm, account, &v, &n, &err));
	free(v);
	return n;
}

static void a_run_leaves_a_row_and_no_vm(void **state)
{
	struct fx *f = *state;
	struct http_reply r;

	fx_call(f, "POST", "/execute/v3/script",
	        "{\"script\":\"1\",\"executionId\":\"mine\",\"config\":{\"envVars\":{\"A\":\"b\"},"
	        "\"tags\":[\"t\"]}}",
	        500, &r);
	assert_string_equal(fx_str(r.json, "code"), "EXECUTION_ERROR");
	assert_string_equal(fx_str(r.json, "runId"), "mine");
	http_reply_done(&r);
	assert_int_equal(vms(f), 0);
	fx_call(f, "GET", "/execute/v1/deployments/mine", NULL, 200, &r);
	assert_string_equal(fx_str(json_object_get(r.json, "metadata"), "state"), "complete");
	assert_true(json_is_true(json_object_get(json_object_get(r.json, "metadata"), "failed")));
	assert_string_equal(fx_str(json_object_get(r.json, "code"), "code"), "1");
	http_reply_done(&r);
	fx_call(f, "GET", "/execute/v1/deployments/mine/output", NULL, 200, &r);
	assert_string_equal(fx_str(r.json, "status"), "failed");
	http_reply_done(&r);
	fx_call(f, "GET", "/observability/v1/logs?runId=mine", NULL, 200, &r);
	http_reply_done(&r);
	fx_refused(f, "POST", "/execute/v1/script", "{\"script\":\"1\",\"executionId\":\"mine\"}",
	           409, "CONFLICT", "mine");
	fx_refused(f, "GET", "/execute/v1/deployments/other", NULL, 404, "RUN_NOT_FOUND", "other");
	fx_call(f, "GET", "/execute/v1/deployments?limit=1", NULL, 200, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "total")), 1);
	assert_int_equal(json_integer_value(json_object_get(r.json, "offset")), 1);
	http_reply_done(&r);
}

/* The server ended while it ran. */
static void an_interrupted_run_is_settled_at_the_next_start(void **state)
{
	struct fx *f = *state;
	struct serverless *again = NULL;
	struct store_run row = { .state = RUN_RUNNING, .created_ms = 1, .config = strdup("{}") };
	AUTO(store_run_done) struct store_run got = { 0 };
	char vm[32];

	fx_vm(f, vm);
	id_make("run-", row.id);
	snprintf(row.name, sizeof(row.name), "%s", row.id);
	snprintf(row.vm, sizeof(row.vm), "%s", vm);
	OK(store_account_first(f->store, row.account, &err));
	OK(store_run_add(f->store, &row, &err));
	OK(store_run_put(f->store, &row, &err));
	OK(serverless_new(&(struct serverless_conf){ .store = f->store,
	                                             .vmm = f->vmm,
	                                             .builder = f->builder },
	                  &again, &err));
	serverless_free(again);
	OK(store_run_get(f->store, row.account, row.id, &got, &err));
	assert_int_equal(got.state, RUN_COMPLETE);
	assert_true(got.failed);
	assert_non_null(strstr(got.output, "stopped while it ran"));
	assert_int_equal(vms(f), 0);
	store_run_done(&row);
}

/* ---- schedules ---- */

static void schedule_fails(struct fx *f, const char *body, const char *says)
{
	fx_refused(f, "POST", "/v1/cron/schedules", body, 400, "BAD_REQUEST", says);
}

static void schedule_new(struct fx *f, const char *body, char ret_id[ID_SIZE])
{
	struct http_reply r;

	fx_call(f, "POST", "/v1/cron/schedules", body, 200, &r);
	snprintf(ret_id, ID_SIZE, "%s", fx_str(json_object_get(r.json, "schedule"), "id"));
	http_reply_done(&r);
}

static void what_a_schedule_may_be(void **state)
{
	struct fx *f = *state;

	schedule_fails(f, "{\"cron\":\"* * * * *\"}", "'run'");
	schedule_fails(f, "{" RUN "}", "'cron'");
	schedule_fails(f, "{\"cron\":\"* * * *\"," RUN "}", "five fields");
	schedule_fails(f, "{\"cron\":\"0 0 30 2 *\"," RUN "}", "never comes");
	schedule_fails(f, "{\"cron\":\"@daily\",\"timezone\":\"Nowhere\"," RUN "}", "'timezone'");
	schedule_fails(f, "{\"cron\":\"@daily\",\"retries\":11," RUN "}", "'retries'");
	schedule_fails(f, "{\"cron\":\"@daily\",\"run\":{}}", "'run.code'");
	schedule_fails(f, "{\"cron\":\"@daily\",\"run\":{\"code\":\"1\",\"timeout\":0}}",
	               "'run.timeout'");
	fx_refused(f, "POST", "/v1/cron/schedules",
	           "{\"cron\":\"@daily\",\"deploymentId\":\"d\",\"run\":null}", 404,
	           "DEPLOYMENT_NOT_FOUND", "no deployment 'd'");
}

static void a_schedule_is_shown_changed_paused_and_deleted(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[ID_SIZE], path[96];
	json_t *s;

	schedule_new(f,
	             "{\"cron\":\"30 8 * * *\",\"timezone\":\"Europe/Berlin\",\"name\":\"n\","
	             "\"payload\":{\"a\":1},\"retries\":2," RUN "}",
	             id);
	snprintf(path, sizeof(path), "/v1/cron/schedules/%s", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	s = json_object_get(r.json, "schedule");
	assert_string_equal(fx_str(s, "name"), "n");
	assert_true(json_is_true(json_object_get(s, "active")));
	assert_true(json_is_string(json_object_get(s, "nextRunAt")));
	assert_string_equal(
	        fx_str(json_object_get(json_object_get(s, "runConfig"), "envVars"), "A"),
	        "********");
	http_reply_done(&r);
	fx_call(f, "PATCH", path, "{\"active\":false,\"name\":null,\"cron\":\"@hourly\"}", 200, &r);
	http_reply_done(&r);
	fx_call(f, "GET", "/v1/cron/schedules", NULL, 200, &r);
	s = json_array_get(json_object_get(r.json, "schedules"), 0);
	assert_string_equal(fx_str(s, "name"), "n");
	assert_string_equal(fx_str(s, "cron"), "@hourly");
	assert_true(json_is_false(json_object_get(s, "active")));
	assert_true(json_is_null(json_object_get(s, "nextRunAt")));
	assert_int_equal(json_integer_value(json_object_get(s, "executionCount")), 0);
	http_reply_done(&r);
	fx_call(f, "GET", "/v1/cron/schedules?deploymentId=d", NULL, 200, &r);
	assert_int_equal(json_array_size(json_object_get(r.json, "schedules")), 0);
	http_reply_done(&r);
	fx_refused(f, "PATCH", path, "{\"cron\":\"x\"}", 400, "BAD_REQUEST", "'cron'");
	fx_call(f, "DELETE", path, NULL, 200, &r);
	http_reply_done(&r);
	fx_refused(f, "GET", path, NULL, 404, "SCHEDULE_NOT_FOUND", id);
	fx_refused(f, "PATCH", path, "{}", 404, "SCHEDULE_NOT_FOUND", id);
	fx_refused(f, "DELETE", path, NULL, 404, "SCHEDULE_NOT_FOUND", id);
}

/* Its next time as if it were that. */
static void set_next(struct fx *f, const char *id, int64_t next_ms, struct store_schedule *ret)
{
	char account[ACCOUNT_SIZE];

	OK(store_account_first(f->store, account, &err));
	OK(store_schedule_get(f->store, account, id, ret, &err));
	ret->next_ms = next_ms;
	OK(store_schedule_put(f->store, ret, &err));
}

static struct store_execution execution_at(const struct store_schedule *s, int64_t at)
{
	struct store_execution x = { .run_at_ms = at, .state = CRON_RUNNING, .max_attempts = 1 };

	id_make("exe-", x.id);
	snprintf(x.account, sizeof(x.account), "%s", s->account);
	snprintf(x.schedule, sizeof(x.schedule), "%s", s->id);
	return x;
}

static void a_time_is_taken_once(void **state)
{
	struct fx *f = *state;
	AUTO(store_schedule_done) struct store_schedule a = { 0 }, b = { 0 };
	struct store_execution x, y;
	struct err why = { 0 };
	char id[ID_SIZE];

	schedule_new(f, "{\"cron\":\"@yearly\"," RUN "}", id);
	set_next(f, id, INT64_MAX - 1, &a);
	store_schedule_done(&a);
	set_next(f, id, INT64_MAX - 1, &a);
	set_next(f, id, INT64_MAX - 1, &b);
	x = execution_at(&a, 1000);
	y = execution_at(&b, 1000);
	OK(store_cron_take(f->store, &a, INT64_MAX - 2, &x, &err));
	assert_int_equal(store_cron_take(f->store, &b, INT64_MAX - 2, &y, &why), -ESTALE);
	/* and if its next time were set back: the row is there already */
	store_schedule_done(&b);
	set_next(f, id, INT64_MAX - 1, &b);
	assert_true(store_cron_take(f->store, &b, INT64_MAX - 2, &y, &why) < 0);
}

/* Waits until the schedule has n executions that are over. */
static void await_executions(struct fx *f, const char *id, size_t n, struct http_reply *r)
{
	uint64_t until = deadline_in(WAIT_MS);
	char path[96];

	snprintf(path, sizeof(path), "/v1/cron/schedules/%s/executions", id);
	for (;; http_reply_done(r)) {
		json_t *v, *x;
		size_t i, over = 0;

		fx_call(f, "GET", path, NULL, 200, r);
		v = json_object_get(r->json, "executions");
		json_array_foreach(v, i, x) over += strcmp(fx_str(x, "status"), "running") != 0;
		if (over >= n)
			return;
		if (clock_ms() > until)
			fail_msg("%zu executions after %d ms, not %zu", over, WAIT_MS, n);
		usleep(50000);
	}
}

static void make_due(struct fx *f, const char *id, int64_t next_ms)
{
	AUTO(store_schedule_done) struct store_schedule s = { 0 };
	struct http_reply r;
	char path[96];

	set_next(f, id, next_ms, &s);
	/* a change of another one wakes those who wait */
	snprintf(path, sizeof(path), "/v1/cron/schedules");
	fx_call(f, "POST", path, "{\"cron\":\"@yearly\"," RUN "}", 200, &r);
	http_reply_done(&r);
}

static void what_is_due_is_executed_and_counted(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[ID_SIZE], path[160];
	json_t *x, *p;

	schedule_new(f, "{\"cron\":\"0 0 1 1 *\"," RUN "}", id);
	/* A time of the last minute is executed; it fails, because these machines have no Node.js.
	 */
	make_due(f, id, clock_wall_ms() - 1000);
	await_executions(f, id, 1, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "total")), 1);
	x = json_array_get(json_object_get(r.json, "executions"), 0);
	assert_string_equal(fx_str(x, "status"), "failed");
	assert_int_equal(json_integer_value(json_object_get(x, "attempts")), 1);
	assert_int_equal(json_array_size(json_object_get(x, "attemptHistory")), 1);
	assert_non_null(strstr(fx_str(x, "instanceId"), "run-"));
	http_reply_done(&r);
	snprintf(path, sizeof(path),
	         "/v1/cron/schedules/%s/success-rate?start=2020-01-01T00:00:00Z&"
	         "end=2100-01-01T00:00:00Z",
	         id);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "total")), 1);
	assert_int_equal(json_integer_value(json_object_get(r.json, "failed")), 1);
	http_reply_done(&r);
	snprintf(path, sizeof(path),
	         "/v1/cron/schedules/%s/metrics-timeline?start=2020-01-01T00:00:00Z&"
	         "end=2100-01-01T00:00:00Z&bucketMinutes=525600",
	         id);
	fx_call(f, "GET", path, NULL, 200, &r);
	p = json_object_get(r.json, "dataPoints");
	assert_in_range(json_array_size(p), 80, 82);
	http_reply_done(&r);
	/* One from before the server was started too long ago is left out. */
	make_due(f, id, clock_wall_ms() - CRON_LATE_MS - 60000);
	make_due(f, id, clock_wall_ms() - 500);
	await_executions(f, id, 2, &r);
	assert_int_equal(json_integer_value(json_object_get(r.json, "total")), 2);
	http_reply_done(&r);
}

static void a_failed_attempt_is_tried_again(void **state)
{
	struct fx *f = *state;
	struct store_execution x;
	struct http_reply r;
	struct err why = { 0 };
	char id[ID_SIZE];
	json_t *j;

	schedule_new(f, "{\"cron\":\"0 0 1 1 *\",\"retries\":1," RUN "}", id);
	make_due(f, id, clock_wall_ms() - 1000);
	await_executions(f, id, 1, &r);
	j = json_array_get(json_object_get(r.json, "executions"), 0);
	assert_string_equal(fx_str(j, "status"), "retry");
	assert_true(json_is_string(json_object_get(j, "nextRetryAt")));
	http_reply_done(&r);
	assert_int_equal(store_cron_retry(f->store, clock_wall_ms(), &x, &why), -ENOENT);
	/* its time comes; a server that starts now finds it running, and without attempts left */
	OK(store_cron_retry(f->store, clock_wall_ms() + 3600000, &x, &err));
	fx_stop(f); /* it uses what is freed now */
	f->api = NULL;
	f->serverless = serverless_free(f->serverless);
	OK(serverless_new(&(struct serverless_conf){ .store = f->store,
	                                             .vmm = f->vmm,
	                                             .builder = f->builder },
	                  &f->serverless, &err));
	assert_int_equal(store_cron_retry(f->store, clock_wall_ms() + 7200000, &x, &why), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(permissions_become_a_policy),
		cmocka_unit_test(packages_are_found_in_imports),
		cmocka_unit_test_setup_teardown(what_a_run_may_ask_for, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_run_leaves_a_row_and_no_vm, fx_setup,
		                                fx_teardown),
		cmocka_unit_test_setup_teardown(an_interrupted_run_is_settled_at_the_next_start,
		                                fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(what_a_schedule_may_be, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_schedule_is_shown_changed_paused_and_deleted,
		                                fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_time_is_taken_once, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(what_is_due_is_executed_and_counted, fx_setup,
		                                fx_teardown),
		cmocka_unit_test_setup_teardown(a_failed_attempt_is_tried_again, fx_setup,
		                                fx_teardown),
	};

	return FX_RUN(tests);
}
