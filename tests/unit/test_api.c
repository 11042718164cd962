/* SPDX-License-Identifier: Apache-2.0 */
/* test_api.c - handlers over real HTTP: the shape of every reply, the code of every error */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "tests/unit/api_fx.h"

#define autoreply AUTO(http_reply_done)

static json_t *at(const json_t *j, const char *name)
{
	json_t *v = json_object_get(j, name);

	if (!v)
		fail_msg("'%s' is missing", name);
	return v;
}

static void health_needs_no_key(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };

	assert_int_equal(http_call(f->port, "GET", "/v1/health", NULL, NULL, 0, &r), 0);
	assert_int_equal(r.status, 200);
	assert_string_equal(fx_str(r.json, "accel"), "tcg");
	assert_string_equal(fx_str(at(r.json, "template"), "state"), "ready");
	assert_string_equal(fx_str(r.json, "version"), PANDO_VERSION);
	assert_null(http_header(&r, "access-control-allow-origin"));
}

static void a_key_is_needed_for_everything_else(void **state)
{
	static const struct {
		const char *method, *path, *body;
	} calls[] = { { "GET", "/auth/v1/whoami", NULL },
		      { "POST", "/v1/vms", "{}" },
		      { "GET", "/v1/vms", NULL },
		      { "DELETE", "/v1/vms/abc", NULL },
		      { "PUT", "/v1/vms/abc/files/x", "{\"content\":\"\"}" } };
	static const struct {
		const char *headers, *code;
	} keys[] = { { "", "UNAUTHORIZED_ERROR" },
		     { "Authorization: Bearer nonsense\r\n", "UNAUTHORIZED_ERROR" },
		     { "Authorization: Basic eDp5\r\n", "UNAUTHORIZED_ERROR" },
		     { "X-Freestyle-Identity-Access-Token: t\r\n", "UNAUTHORIZED" } };
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
			autoreply struct http_reply r = { 0 };

			assert_int_equal(http_call(f->port, calls[i].method, calls[i].path,
			                           keys[k].headers, calls[i].body,
			                           calls[i].body ? strlen(calls[i].body) : 0, &r),
			                 0);
			assert_int_equal(r.status, 401);
			assert_string_equal(fx_str(r.json, "code"), keys[k].code);
			assert_non_null(http_header(&r, "x-freestyle-trace-id"));
		}
	}
}

static void whoami(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };

	fx_call(f, "GET", "/auth/v1/whoami", NULL, 200, &r);
	assert_int_equal(strlen(fx_str(r.json, "accountId")), 36);
	assert_true(json_is_null(at(r.json, "identityId")));
}

static void unknown_routes_and_methods(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };

	fx_refused(f, "GET", "/nothing", NULL, 404, "NOT_FOUND", "no route GET /");
	fx_refused(f, "POST", "/v2/vms", "{}", 404, "NOT_FOUND", "/v2/vms");
	fx_refused(f, "GET", "/v1/vms/%00", NULL, 400, "INVALID_REQUEST", "encoded");
	fx_call(f, "PUT", "/v1/vms", "{}", 405, &r);
	assert_string_equal(fx_str(r.json, "code"), "INVALID_REQUEST");
	assert_string_equal(http_header(&r, "allow"), "GET, POST");
	fx_refused(f, "TRACE", "/v1/vms", NULL, 405, "INVALID_REQUEST", "TRACE");
}

static void preflight_is_answered_without_a_key(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, get = { 0 };

	assert_int_equal(http_call(f->port, "OPTIONS", "/v1/vms/abc/exec-await",
	                           "Origin: https://app.example\r\n"
	                           "Access-Control-Request-Method: POST\r\n",
	                           NULL, 0, &r),
	                 0);
	assert_int_equal(r.status, 204);
	assert_string_equal(http_header(&r, "access-control-allow-origin"), "*");
	assert_non_null(strstr(http_header(&r, "access-control-allow-headers"),
	                       "X-Freestyle-Vm-Linux-User-Id"));
	assert_non_null(strstr(http_header(&r, "access-control-allow-methods"), "PATCH"));
	fx_call(f, "GET", "/v1/vms", NULL, 200, &get);
	assert_string_equal(http_header(&get, "access-control-allow-origin"), "*");
	assert_non_null(
	        strstr(http_header(&get, "access-control-expose-headers"), "x-freestyle-trace-id"));
}

static void create_and_look(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply made = { 0 }, got = { 0 }, list = { 0 };
	const json_t *item;
	char path[64];

	fx_call(f, "POST", "/v1/vms",
	        "{\"name\":\"n\xc3\xa9\",\"idleTimeoutSeconds\":null,\"persistence\":"
	        "{\"type\":\"ephemeral\",\"deleteEvent\":\"OnStop\"},\"somethingNew\":{\"a\":1}}",
	        200, &made);
	assert_true(json_is_array(at(made.json, "domains")));
	assert_true(json_is_null(at(made.json, "snapshotId")));
	snprintf(path, sizeof(path), "/v1/vms/%s", fx_str(made.json, "id"));
	fx_call(f, "GET", path, NULL, 200, &got);
	assert_string_equal(fx_str(got.json, "name"), "n\xc3\xa9");
	assert_string_equal(fx_str(got.json, "state"), "running");
	assert_true(json_is_false(at(got.json, "recreate")));
	assert_true(json_is_null(at(got.json, "idleTimeoutSeconds")));
	assert_true(json_is_null(at(got.json, "lastNetworkActivity")));
	fx_call(f, "GET", "/v1/vms", NULL, 200, &list);
	item = json_array_get(at(list.json, "vms"), 0);
	assert_string_equal(fx_str(item, "id"), fx_str(made.json, "id"));
	assert_string_equal(fx_str(at(item, "persistence"), "type"), "ephemeral");
	assert_string_equal(fx_str(at(item, "persistence"), "deleteEvent"), "OnStop");
	assert_int_equal(strlen(fx_str(item, "createdAt")), strlen("2023-11-14T22:13:20.000Z"));
	assert_int_equal(json_integer_value(at(at(item, "sizing"), "vcpuCount")), 2);
	assert_int_equal(json_integer_value(at(list.json, "totalCount")), 1);
	assert_int_equal(json_integer_value(at(list.json, "runningCount")), 1);
	for (size_t i = 0; i < 6; i++)
		at(list.json,
		   ((const char *[]){ "startingCount", "suspendedCount", "stoppedCount",
		                      "buildingCount", "suspendingCount", "lostCount" })[i]);
}

static int64_t idle_after(struct fx *f, const char *body)
{
	autoreply struct http_reply made = { 0 }, got = { 0 };
	const json_t *idle;
	char path[64];

	fx_call(f, "POST", "/v1/vms", body, 200, &made);
	snprintf(path, sizeof(path), "/v1/vms/%s", fx_str(made.json, "id"));
	fx_call(f, "GET", path, NULL, 200, &got);
	idle = at(got.json, "idleTimeoutSeconds");
	return json_is_null(idle) ? -1 : json_integer_value(idle);
}

static void idle_timeouts(void **state)
{
	struct fx *f = *state;

	assert_int_equal(idle_after(f, NULL), 300);
	assert_int_equal(idle_after(f, "{}"), 300);
	assert_int_equal(idle_after(f, "{\"idleTimeoutSeconds\":60}"), 60);
	assert_int_equal(idle_after(f, "{\"idleTimeoutSeconds\":null}"), -1);
	assert_int_equal(idle_after(f, "{\"spec\":{\"idleTimeoutSeconds\":7}}"), 7);
	assert_int_equal(
	        idle_after(f, "{\"idleTimeoutSeconds\":9,\"spec\":{\"idleTimeoutSeconds\":7}}"), 9);
}

static void empty_specs_are_fine(void **state)
{
	static const char *const bodies[] = {
		"{\"spec\":{\"aptDeps\":[],\"name\":null}}",
		"{\"spec\":{\"aptDeps\":[],\"name\":\"x\",\"discriminator\":\"d\",\"skipCache\":"
		"true}}",
		"{\"spec\":{\"snapshot\":{\"snapshot\":{\"systemd\":{\"services\":[]}}}}}",
		"{\"git\":{\"config\":{}},\"users\":[],\"additionalFiles\":{},\"nics\":null}",
		"{\"template\":{\"vcpuCount\":2,\"memSizeGb\":2,\"rootfsSizeGb\":20}}",
		"{\"template\":null,\"spec\":null,\"snapshotId\":null,\"name\":null,\"recreate\":"
		"false}",
		"{\"waitForReadySignal\":true,\"readySignalTimeoutSeconds\":120}",
	};
	struct fx *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		autoreply struct http_reply r = { 0 };

		fx_call(f, "POST", "/v1/vms", bodies[i], 200, &r);
	}
}

static void what_cannot_be_done_is_refused_by_name(void **state)
{
	static const struct {
		const char *body, *code, *says;
	} cases[] = {
		{ "{\"spec\":{\"aptDeps\":[\"--x\"]}}", "CREATE_VM_BAD_REQUEST", "spec.aptDeps" },
		{ "{\"spec\":{\"snapshot\":{\"aptDeps\":[7]}}}", "CREATE_VM_BAD_REQUEST",
		  "'spec.snapshot.aptDeps" },
		{ "{\"additionalFiles\":{\"/a\":{}}}", "CREATE_VM_BAD_REQUEST", "additionalFiles" },
		{ "{\"template\":{\"systemd\":{\"services\":[{\"name\":\"a\"}]}}}", "EXEC_EMPTY",
		  "template.systemd" },
		{ "{\"git\":{\"config\":{},\"repos\":[{\"repo\":\"u\",\"path\":\"p\"}]}}",
		  "INVALID_GIT_REPO_SPEC_ERROR", "'u'" },
		{ "{\"users\":[{}]}", "CREATE_VM_BAD_REQUEST", "users" },
		{ "{\"recreate\":\"yes\"}", "CREATE_VM_BAD_REQUEST", "recreate" },
		{ "{\"domains\":{}}", "CREATE_VM_BAD_REQUEST", "domains" },
		{ "{\"spec\":{\"workdir\":\"srv\"}}", "CREATE_VM_BAD_REQUEST", "spec.workdir" },
		{ "{\"spec\":{\"baseImage\":{\"dockerfileContent\":\"FROM x\"}}}",
		  "CREATE_VM_BAD_REQUEST", "spec.baseImage" },
		{ "{\"template\":{\"vcpuCount\":3}}", "CREATE_VM_VCPU_NOT_POWER_OF_TWO",
		  "template.vcpuCount" },
		{ "{\"template\":{\"memSizeGb\":\"8\"}}", "CREATE_VM_BAD_REQUEST",
		  "must be a number" },
		{ "{\"name\":7}", "CREATE_VM_BAD_REQUEST", "'name'" },
		{ "{\"idleTimeoutSeconds\":\"soon\"}", "CREATE_VM_BAD_REQUEST",
		  "idleTimeoutSeconds" },
		{ "{\"idleTimeoutSeconds\":0}", "CREATE_VM_BAD_REQUEST", "idleTimeoutSeconds" },
		{ "{\"spec\":[]}", "CREATE_VM_BAD_REQUEST", "'spec' must be an object" },
		{ "{\"persistence\":{\"type\":\"forever\"}}", "CREATE_VM_BAD_REQUEST",
		  "persistence.type" },
		{ "{\"persistence\":{\"type\":\"sticky\",\"priority\":11}}",
		  "CREATE_VM_BAD_REQUEST", "persistence.priority" },
		{ "{\"snapshotId\":\"nope\"}", "INVALID_SNAPSHOT_ID", "snapshotId" },
		{ "{\"snapshotId\":\"sc-00000000000000000000\",\"spec\":{\"snapshotId\":"
		  "\"sc-11111111111111111111\"}}",
		  "CONFLICTING_SPEC_SOURCES_ERROR", "spec.snapshotId" },
		{ "{", "CREATE_VM_BAD_REQUEST", "not valid JSON" },
		{ "[]", "CREATE_VM_BAD_REQUEST", "must be a JSON object" },
		{ "\xff\xfe", "CREATE_VM_BAD_REQUEST", "not valid JSON" },
	};
	struct fx *f = *state;
	autoreply struct http_reply list = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		fx_refused(f, "POST", "/v1/vms", cases[i].body, 400, cases[i].code, cases[i].says);
	fx_call(f, "GET", "/v1/vms", NULL, 200, &list);
	assert_int_equal(json_integer_value(at(list.json, "totalCount")), 0);
}

static void list_filters(void **state)
{
	struct fx *f = *state;
	struct http_reply r[6] = { 0 };
	char id[32], path[96];

	for (int i = 0; i < 5; i++)
		fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/stop", id);
	fx_call(f, "POST", path, NULL, 200, &r[0]);
	fx_call(f, "GET", "/v1/vms?limit=2&offset=1", NULL, 200, &r[1]);
	assert_int_equal(json_array_size(at(r[1].json, "vms")), 2);
	assert_int_equal(json_integer_value(at(r[1].json, "totalCount")), 5);
	fx_call(f, "GET", "/v1/vms?vmState=stopped", NULL, 200, &r[2]);
	assert_int_equal(json_integer_value(at(r[2].json, "totalCount")), 1);
	assert_int_equal(json_integer_value(at(r[2].json, "runningCount")), 4);
	snprintf(path, sizeof(path), "/v1/vms?search=%%%02x%s", (unsigned char)id[0], id + 1);
	fx_call(f, "GET", path, NULL, 200, &r[3]);
	assert_int_equal(json_integer_value(at(r[3].json, "totalCount")), 1);
	fx_call(f, "GET", "/v1/vms?vmState=building", NULL, 200, &r[4]);
	assert_int_equal(json_integer_value(at(r[4].json, "totalCount")), 0);
	fx_call(f, "GET", "/v1/vms?search=no+such%20vm", NULL, 200, &r[5]);
	assert_int_equal(json_integer_value(at(r[5].json, "totalCount")), 0);
	fx_refused(f, "GET", "/v1/vms?vmState=odd", NULL, 400, "INVALID_PARAMETERS", "vmState");
	fx_refused(f, "GET", "/v1/vms?limit=-1", NULL, 400, "INVALID_PARAMETERS", "limit");
	fx_refused(f, "GET", "/v1/vms?search=%zz", NULL, 400, "INVALID_PARAMETERS", "search");
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		http_reply_done(&r[i]);
}

static void lifecycle_shapes(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }, e = { 0 },
	                            g = { 0 };
	char id[32], path[96];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/suspend", id);
	fx_call(f, "POST", path, NULL, 200, &a);
	assert_string_equal(fx_str(a.json, "id"), id);
	assert_memory_equal(fx_str(a.json, "snapshotLayerId"), "pt-", 3);
	assert_int_equal(strlen(fx_str(a.json, "vmInstanceId")), 20);
	snprintf(path, sizeof(path), "/v1/vms/%s/start", id);
	fx_call(f, "POST", path, "{\"idleTimeoutSeconds\":12}", 200, &b);
	assert_true(json_is_null(at(b.json, "console_url")));
	at(b.json, "domains");
	snprintf(path, sizeof(path), "/v1/vms/%s/stop", id);
	fx_call(f, "POST", path, NULL, 200, &c);
	assert_string_equal(fx_str(c.json, "vmId"), id);
	at(c.json, "vmInstanceId");
	snprintf(path, sizeof(path), "/v1/vms/%s/suspend", id);
	fx_refused(f, "POST", path, NULL, 400, "VM_NOT_RUNNING", "stopped");
	snprintf(path, sizeof(path), "/v1/vms/%s/kill", id);
	fx_call(f, "POST", path, "{}", 200, &d);
	assert_string_equal(fx_str(d.json, "id"), id);
	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_call(f, "GET", path, NULL, 200, &g);
	assert_int_equal(json_integer_value(at(g.json, "idleTimeoutSeconds")), 12);
	fx_call(f, "DELETE", path, NULL, 200, &e);
	assert_true(json_is_false(at(e.json, "recreate")));
	fx_refused(f, "DELETE", path, NULL, 404, "VM_NOT_FOUND", id);
}

static void unknown_vms(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };

	fx_call(f, "GET", "/v1/vms/aaaaaaaaaaaaaaaaaaaa", NULL, 404, &r);
	assert_string_equal(fx_str(r.json, "code"), "VM_NOT_FOUND");
	assert_string_equal(fx_str(r.json, "vmId"), "aaaaaaaaaaaaaaaaaaaa");
	fx_refused(f, "GET", "/v1/vms/..%2Fetc", NULL, 400, "INVALID_VM_ID", "VM id");
	fx_refused(f, "GET", "/v1/vms/%FF%FE", NULL, 400, "INVALID_VM_ID", "VM id");
	fx_refused(f, "POST", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/exec-await", "{\"command\":\"true\"}",
	           404, "VM_NOT_FOUND", "");
}

static void forks(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, one = { 0 };
	char id[32], path[96];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", id);
	fx_call(f, "POST", path, "{\"count\":3,\"persistence\":{\"type\":\"persistent\"}}", 200,
	        &r);
	assert_string_equal(fx_str(r.json, "vmId"), id);
	assert_int_equal(json_array_size(at(r.json, "forks")), 3);
	at(json_array_get(at(r.json, "forks"), 2), "domains");
	fx_call(f, "POST", path, "{}", 200, &one);
	assert_int_equal(json_array_size(at(one.json, "forks")), 1);
	fx_refused(f, "POST", path, "{\"count\":0}", 400, "BAD_REQUEST", "count");
	fx_refused(f, "POST", path, "{\"count\":101}", 400, "BAD_REQUEST", "count");
}

static void snapshots(void **state)
{
	struct fx *f = *state;
	struct http_reply r[8] = { 0 };
	char id[32], path[96], snap[32], body[128];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/snapshot", id);
	fx_refused(f, "POST", path, "{\"persistence\":{\"type\":\"ephemeral\"}}", 400,
	           "SNAPSHOT_VM_BAD_REQUEST", "persistence.type");
	fx_call(f, "POST", path, "{\"name\":\"first\"}", 200, &r[0]);
	snprintf(snap, sizeof(snap), "%s", fx_str(r[0].json, "snapshotId"));
	assert_string_equal(fx_str(r[0].json, "sourceVmId"), id);
	snprintf(path, sizeof(path), "/v1/vms/snapshots/%s", snap);
	fx_call(f, "PATCH", path, "{\"name\":\"second\"}", 200, &r[1]);
	fx_refused(f, "PATCH", path, "{}", 400, "BAD_REQUEST", "'name' is missing");
	fx_call(f, "GET", path, NULL, 200, &r[2]);
	assert_string_equal(fx_str(r[2].json, "name"), "second");
	assert_string_equal(fx_str(r[2].json, "state"), "ready");
	assert_string_equal(fx_str(at(r[2].json, "snapshotPersistence"), "type"), "sticky");
	assert_true(json_is_false(at(r[2].json, "failed")));
	assert_true(json_is_false(at(r[2].json, "deleted")));
	snprintf(body, sizeof(body), "{\"spec\":{\"snapshotId\":\"%s\"}}", snap);
	fx_call(f, "POST", "/v1/vms", body, 200, &r[3]);
	assert_string_equal(fx_str(r[3].json, "snapshotId"), snap);
	fx_call(f, "DELETE", path, NULL, 200, &r[4]);
	assert_string_equal(fx_str(r[4].json, "snapshot_id"), snap);
	assert_string_equal(fx_str(r[4].json, "snapshotId"), snap);
	fx_refused(f, "DELETE", path, NULL, 409, "SNAPSHOT_ALREADY_DELETED", "");
	fx_refused(f, "POST", "/v1/vms", body, 410, "SOURCE_SNAPSHOT_DELETED", "");
	fx_call(f, "GET", "/v1/vms/snapshots", NULL, 200, &r[5]);
	assert_int_equal(json_array_size(at(r[5].json, "snapshots")), 0);
	assert_int_equal(json_integer_value(at(r[5].json, "deletedCount")), 1);
	fx_call(f, "GET", "/v1/vms/snapshots?includeDeleted=true&includeFailed=false", NULL, 200,
	        &r[6]);
	assert_int_equal(json_array_size(at(r[6].json, "snapshots")), 1);
	fx_refused(f, "GET", "/v1/vms/snapshots?includeDeleted=1", NULL, 400, "INVALID_PARAMETERS",
	           "includeDeleted");
	fx_refused(f, "POST", "/v1/vms/snapshots", "{\"spec\":{\"aptDeps\":[\"x\"]}}", 400,
	           "CREATE_SNAPSHOT_BAD_REQUEST", "spec.aptDeps");
	fx_refused(f, "GET", "/v1/vms/snapshots/sc-00000000000000000000", NULL, 404,
	           "SNAPSHOT_NOT_FOUND", "");
	fx_refused(f, "GET", "/v1/vms/snapshots/nonsense", NULL, 404, "SNAPSHOT_NOT_FOUND", "");
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		http_reply_done(&r[i]);
}

static void commands(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }, e = { 0 };
	char id[32], path[96], headers[256];
	static const char who[] = "{\"command\":\"whoami\",\"terminal\":null,\"timeoutMs\":null}";

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", id);
	fx_call(f, "POST", path, "{\"command\":\"echo hi\",\"terminal\":\"t1\",\"timeoutMs\":null}",
	        200, &a);
	assert_string_equal(fx_str(a.json, "stdout"), "hi\n");
	assert_string_equal(fx_str(a.json, "stderr"), "");
	assert_int_equal(json_integer_value(at(a.json, "statusCode")), 0);
	fx_call(f, "POST", path, "{\"command\":\"printf 'no good' >&2; exit 3\"}", 200, &b);
	assert_string_equal(fx_str(b.json, "stderr"), "no good");
	assert_int_equal(json_integer_value(at(b.json, "statusCode")), 3);
	/* Bytes that are not UTF-8 become U+FFFD, one each; NUL stays NUL. */
	fx_call(f, "POST", path,
	        "{\"command\":\"printf "
	        "'a\\\\377\\\\376\\\\0b\\\\342\\\\202\\\\254\\\\342\\\\202'\"}",
	        200, &c);
	assert_int_equal(json_string_length(at(c.json, "stdout")), 18);
	assert_memory_equal(json_string_value(at(c.json, "stdout")),
	                    "a\xef\xbf\xbd\xef\xbf\xbd\0b\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd", 18);
	fx_call(f, "POST", path, "{\"command\":\"printf partial; sleep 600\",\"timeoutMs\":1000}",
	        408, &d);
	assert_string_equal(fx_str(d.json, "code"), "EXEC_TIMED_OUT");
	assert_string_equal(fx_str(d.json, "stdout"), "partial");
	assert_string_equal(fx_str(d.json, "stderr"), "");
	assert_int_equal(json_integer_value(at(d.json, "timeoutMs")), 1000);
	assert_string_equal(fx_str(d.json, "vmId"), id);

	snprintf(headers, sizeof(headers), "%sX-Freestyle-Vm-Linux-User-Id: nobody\r\n",
	         f->auth_header);
	assert_int_equal(http_call(f->port, "POST", path, headers, who, strlen(who), &e), 0);
	assert_string_equal(fx_str(e.json, "stdout"), "nobody\n");
	http_reply_done(&e);
	snprintf(headers, sizeof(headers), "%sX-Freestyle-Vm-Linux-User-Id: no-such-user\r\n",
	         f->auth_header);
	assert_int_equal(http_call(f->port, "POST", path, headers, who, strlen(who), &e), 0);
	assert_int_equal(e.status, 404);
	assert_string_equal(fx_str(e.json, "code"), "USER_NOT_FOUND");
	http_reply_done(&e);
	snprintf(headers, sizeof(headers), "%sX-Freestyle-Vm-Linux-User-Id: a b\r\n",
	         f->auth_header);
	assert_int_equal(http_call(f->port, "POST", path, headers, who, strlen(who), &e), 0);
	assert_int_equal(e.status, 400);

	fx_refused(f, "POST", path, "{}", 400, "BAD_REQUEST", "'command' is missing");
	fx_refused(f, "POST", path, NULL, 400, "BAD_REQUEST", "'command' is missing");
	fx_refused(f, "POST", path, "{\"command\":\"x\",\"timeoutMs\":600001}", 400, "BAD_REQUEST",
	           "timeoutMs");
	fx_refused(f, "POST", path, "{\"command\":\"x\",\"terminal\":\"a b\"}", 400, "BAD_REQUEST",
	           "terminal");
}

struct long_exec {
	struct fx *f;
	char path[96], body[512];
	struct http_reply reply;
};

static void *call_block(void *arg)
{
	struct long_exec *x = arg;

	http_call(x->f->port, "POST", x->path, x->f->auth_header, x->body, strlen(x->body),
	          &x->reply);
	return NULL;
}

static void a_suspend_ends_the_command_that_runs(void **state)
{
	struct fx *f = *state;
	struct long_exec x = { .f = f };
	uint64_t end = deadline_in(60000);
	char id[32], command[320];
	pthread_t t;

	fx_vm(f, id);
	snprintf(x.path, sizeof(x.path), "/v1/vms/%s/exec-await", id);
	snprintf(x.body, sizeof(x.body), "{\"command\":\"%s\"}",
	         fx_block(f, command, sizeof(command)));
	assert_int_equal(pthread_create(&t, NULL, call_block, &x), 0);
	while (!fx_blocked(f) && clock_ms() < end)
		poll(NULL, 0, 5);
	fx_suspend(f, id);
	pthread_join(t, NULL);
	assert_int_equal(x.reply.status, 400);
	assert_string_equal(fx_str(x.reply.json, "code"), "VM_NOT_RUNNING");
	assert_non_null(strstr(fx_str(x.reply.json, "message"), "suspended"));
	http_reply_done(&x.reply);
	fx_state(f, id, "suspended");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(health_needs_no_key),
		T(a_key_is_needed_for_everything_else),
		T(whoami),
		T(unknown_routes_and_methods),
		T(preflight_is_answered_without_a_key),
		T(create_and_look),
		T(idle_timeouts),
		T(empty_specs_are_fine),
		T(what_cannot_be_done_is_refused_by_name),
		T(list_filters),
		T(lifecycle_shapes),
		T(unknown_vms),
		T(forks),
		T(snapshots),
		T(commands),
		T(a_suspend_ends_the_command_that_runs),
	};

	return FX_RUN(tests);
}
