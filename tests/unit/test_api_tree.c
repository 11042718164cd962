/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_tree.c - handlers of the tree, services and terminals; and the unit files they make */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/vms/shared.h"
#include "base/auto.h"
#include "build/service.h"
#include "tests/unit/api_fx.h"

static void tree(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[32], path[128];
	json_t *nodes, *n;

	fx_vm(f, id);
	fx_call(f, "GET", "/v1/tree", NULL, 200, &r);
	nodes = json_object_get(r.json, "nodes");
	assert_int_equal(json_array_size(nodes), 2);
	assert_int_equal(json_array_size(json_object_get(r.json, "roots")), 1);
	n = json_array_get(nodes, 0);
	assert_string_equal(fx_str(n, "kind"), "template");
	assert_true(json_is_true(json_object_get(n, "shared")));
	assert_true(json_is_null(json_object_get(n, "parent")));
	assert_true(json_is_null(json_object_get(n, "snapshotId")));
	n = json_array_get(nodes, 1);
	assert_string_equal(fx_str(n, "id"), id);
	assert_string_equal(fx_str(n, "type"), "vm");
	assert_string_equal(fx_str(n, "state"), "running");
	assert_int_equal(
	        json_integer_value(json_object_get(json_object_get(n, "disk"), "ownBytes")), 7);
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/v1/vms/%s/tree", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	http_reply_done(&r);
	fx_refused(f, "GET", "/v1/vms/aaaaaaaaaaaaaaaaaaaa/tree", NULL, 404, "VM_NOT_FOUND", "");
	fx_refused(f, "GET", "/v1/vms/A_/tree", NULL, 400, "INVALID_VM_ID", "");
}

static void go_back(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[32], path[128], body[128];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/snapshot", id);
	fx_call(f, "POST", path, "{}", 200, &r);
	snprintf(body, sizeof(body), "{\"snapshotId\":\"%s\"}", fx_str(r.json, "snapshotId"));
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/v1/vms/%s/rewind", id);
	fx_call(f, "POST", path, body, 200, &r);
	assert_string_equal(fx_str(r.json, "previousSnapshotId"), "sc-aaaaaaaaaaaaaaaaaaaa");
	http_reply_done(&r);
	body[strlen(body) - 1] = '\0';
	strncat(body, ",\"keep\":false}", sizeof(body) - strlen(body) - 1);
	fx_call(f, "POST", path, body, 200, &r);
	assert_true(json_is_null(json_object_get(r.json, "previousSnapshotId")));
	http_reply_done(&r);
	fx_refused(f, "POST", path, "{}", 400, "BAD_REQUEST", "snapshotId");
	fx_refused(f, "POST", path, "{\"snapshotId\":null}", 400, "BAD_REQUEST", "snapshotId");
	fx_refused(f, "POST", path, "{\"snapshotId\":\"sc-x\"}", 400, "INVALID_SNAPSHOT_ID", "sc-");
	fx_refused(f, "POST", path, "{\"snapshotId\":\"sc-aaaaaaaaaaaaaaaaaaaa\",\"keep\":1}", 400,
	           "BAD_REQUEST", "keep");
	fx_refused(f, "POST", path, "{\"snapshotId\":\"sc-bbbbbbbbbbbbbbbbbbbb\"}", 404,
	           "SNAPSHOT_NOT_FOUND", "");
}

/* The fake answers with what it was asked for. */
static void diff(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[32], path[256];
	json_t *c;
	static const char *const bad[] = { "",
		                           "?with=",
		                           "?with=/etc",
		                           "?with=a&cursor=2",
		                           "?with=a&cursor=2f00",
		                           "?with=a&cursor=41",
		                           "?with=a&path=x",
		                           "?with=a&path=/../x",
		                           "?with=a&limit=10001",
		                           "?with=a&ignore=x",
		                           "?with=a&ignore=/x/" };

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/diff?with=%s", id, id);
	fx_call(f, "GET", path, NULL, 200, &r);
	c = json_object_get(r.json, "changes");
	assert_int_equal(json_array_size(c), 1 + 5);
	assert_string_equal(fx_str(json_array_get(c, 0), "path"), "/");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(c, 0), "size")), 1000);
	assert_true(json_is_null(json_object_get(json_array_get(c, 0), "otherSize")));
	assert_string_equal(fx_str(json_array_get(c, 5), "path"), "/tmp");
	assert_string_equal(fx_str(r.json, "cursor"), "2f61ff");
	http_reply_done(&r);
	snprintf(path, sizeof(path),
	         "/v1/vms/%s/diff?with=%s&path=//tmp//a/&cursor=2f61&limit=5&ignore=/b,/c", id, id);
	fx_call(f, "GET", path, NULL, 200, &r);
	c = json_object_get(r.json, "changes");
	assert_int_equal(json_array_size(c), 4);
	assert_string_equal(fx_str(json_array_get(c, 0), "path"), "/tmp/a");
	assert_string_equal(fx_str(json_array_get(c, 1), "path"), "/a");
	assert_string_equal(fx_str(json_array_get(c, 3), "path"), "/c");
	http_reply_done(&r);
	/* asked for by name, it is not ignored */
	snprintf(path, sizeof(path), "/v1/vms/%s/diff?with=%s&path=/run/x", id, id);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_int_equal(json_array_size(json_object_get(r.json, "changes")), 1 + 4);
	http_reply_done(&r);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(path, sizeof(path), "/v1/vms/%s/diff%s", id, bad[i]);
		fx_refused(f, "GET", path, NULL, 400, "INVALID_PARAMETERS", "'");
	}
}

static void terminals(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[32], path[256];
	json_t *l;
	static const char *const want[] = { "plain", "red", "done", "ac", "tail" };

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/terminals", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_int_equal(json_array_size(json_object_get(r.json, "terminals")), 2);
	assert_string_equal(
	        fx_str(json_array_get(json_object_get(r.json, "terminals"), 0), "status"),
	        "running");
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/v1/vms/%s/terminals/one/logs", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	l = json_object_get(r.json, "logs");
	assert_int_equal(json_array_size(l), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_string_equal(fx_str(json_array_get(l, i), "line"), want[i]);
	assert_string_equal(fx_str(json_array_get(l, 0), "timestamp"), "1970-01-01T00:00:01.000Z");
	assert_string_equal(fx_str(json_array_get(l, 1), "timestamp"), "1970-01-01T00:00:02.000Z");
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/v1/vms/%s/terminals/one/xterm-256color", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_string_equal(fx_str(r.json, "output"),
	                    "plain\r\n\033[1;31mred\033[0m\r\n10%\r20%\rdone\r\nab\bc\r\n"
	                    "\033]0;title\atail");
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/v1/vms/%s/terminals/two%%20/logs", id);
	fx_refused(f, "GET", path, NULL, 404, "SESSION_NOT_FOUND", "terminal");
	snprintf(path, sizeof(path), "/v1/vms/%s/terminals/three/logs", id);
	fx_refused(f, "GET", path, NULL, 404, "SESSION_NOT_FOUND", "terminal");
}

static void make(const char *spec, struct unit *u)
{
	json_t *j = json_loads(spec, 0, NULL);

	assert_non_null(j);
	OK(unit_make(j, u, &err));
	buf_put_u8(&u->text, 0);
	json_decref(j);
}

static void units(void **state)
{
	struct unit u = { 0 };

	make("{\"name\":\"web.service\",\"mode\":\"service\",\"exec\":[\"/bin/prep\",\"/bin/web\"],"
	     "\"env\":{\"A\":\"x y\",\"B\":\"100% \\\"q\\\" \\\\\"},\"user\":\"www\",\"workdir\":"
	     "\"/srv/100%\",\"after\":[\"db\",\"network.target\"],\"requires\":[\"db\"],"
	     "\"timeoutSec\":0,\"readySignal\":true,\"watchdogSec\":5,\"restartPolicy\":{"
	     "\"policy\":"
	     "\"always\",\"restartSec\":3,\"startLimitBurst\":4,\"startLimitIntervalSec\":5}}",
	     &u);
	assert_string_equal(u.name, "web");
	assert_true(u.enable && !u.oneshot);
	assert_string_equal(
	        (char *)u.text.p,
	        "[Unit]\nDescription=web\nAfter=db.service network.target\n"
	        "Requires=db.service\nStartLimitIntervalSec=5\nStartLimitBurst=4\n\n"
	        "[Service]\nType=notify\nNotifyAccess=all\nExecStartPre=/bin/prep\n"
	        "ExecStart=/bin/web\nUser=www\nWorkingDirectory=/srv/100%%\n"
	        "Environment=\"A=x y\"\nEnvironment=\"B=100%% \\\"q\\\" \\\\\"\n"
	        "TimeoutStartSec=infinity\nWatchdogSec=5\nRestart=always\nRestartSec=3\n"
	        "\n[Install]\nWantedBy=multi-user.target\n");
	unit_done(&u);
	u = (struct unit){ 0 };
	make("{\"name\":\"once\",\"mode\":\"oneshot\",\"exec\":[\"a\",\"b\"],\"enable\":false,"
	     "\"wantedBy\":[\"x.target\"],\"deleteAfterSuccess\":true}",
	     &u);
	assert_true(u.oneshot && !u.enable && u.delete_after_success);
	assert_string_equal((char *)u.text.p,
	                    "[Unit]\nDescription=once\n\n[Service]\nType=oneshot\n"
	                    "RemainAfterExit=yes\nExecStart=a\nExecStart=b\n\n[Install]\n"
	                    "WantedBy=x.target\n");
	unit_done(&u);
}

static void bad_units(void **state)
{
	static const struct {
		const char *spec, *tag;
	} bad[] = {
		{ "{}", "BAD_REQUEST" },
		{ "{\"name\":\"\"}", "SERVICE_NAME_EMPTY" },
		{ "{\"name\":\".service\"}", "SERVICE_NAME_EMPTY" },
		{ "{\"name\":\"-x\"}", "SERVICE_NAME_INVALID_PREFIX" },
		{ "{\"name\":\"a b\"}", "SERVICE_NAME_INVALID_CHARS" },
		{ "{\"name\":\"a/b\"}", "SERVICE_NAME_INVALID_CHARS" },
		{ "{\"name\":\"a\"}", "EXEC_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[]}", "EXEC_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\" \"]}", "EXEC_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\\n[Service]\"]}", "BAD_REQUEST" },
		{ "{\"name\":\"a\",\"exec\":[1]}", "BAD_REQUEST" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"mode\":\"other\"}", "BAD_REQUEST" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"user\":\"\"}", "USER_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"user\":\"a\\nb\"}", "BAD_REQUEST" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"group\":\"\"}", "GROUP_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"workdir\":\"\"}", "WORKDIR_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"workdir\":\"rel\"}", "BAD_REQUEST" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"wantedBy\":[]}", "WANTED_BY_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"after\":[\"\"]}",
		  "AFTER_ARRAY_CONTAINS_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"requires\":[\"\"]}",
		  "REQUIRES_ARRAY_CONTAINS_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"onFailure\":[\"\"]}",
		  "ON_FAILURE_ARRAY_CONTAINS_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"env\":{\"\":\"x\"}}", "ENV_KEY_EMPTY" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"env\":{\"a=b\":\"x\"}}",
		  "ENV_KEY_CONTAINS_EQUALS" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"env\":{\"a\":1}}", "BAD_REQUEST" },
		{ "{\"name\":\"a\",\"exec\":[\"x\"],\"restartPolicy\":{\"policy\":\"ever\"}}",
		  "BAD_REQUEST" },
	};
	char name[SERVICE_NAME_SIZE], lang[400];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct unit u = { 0 };
		json_t *j = json_loads(bad[i].spec, 0, NULL);

		assert_non_null(j);
		FAILS(-EINVAL, unit_make(j, &u, &err));
		if (err.tag != err_code_parse(bad[i].tag) || !err_code_status(err.tag))
			fail_msg("%s: %s", bad[i].spec, err_code_name(err.tag));
		unit_done(&u);
		json_decref(j);
	}
	memset(lang, 'x', sizeof(lang));
	lang[sizeof(lang) - 1] = '\0';
	FAILS(-EINVAL, service_name(lang, name, &err));
	assert_int_equal(err.tag, ERR_SERVICE_NAME_TOO_LONG);
}

static void words(void **state)
{
	struct buf b = { 0 };

	shell_put_word(&b, "it's; $(x)");
	buf_put_u8(&b, 0);
	assert_string_equal((char *)b.p, "'it'\\''s; $(x)'");
	buf_done(&b);
}

static void services(void **state)
{
	struct fx *f = *state;
	char id[32], path[256];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/systemd/start", id);
	fx_refused(f, "POST", path, "{}", 400, "BAD_REQUEST", "services");
	fx_refused(f, "POST", path, "{\"services\":[1]}", 400, "BAD_REQUEST", "id");
	fx_refused(f, "POST", path, "{\"services\":[{\"id\":\"a;b\"}]}", 400,
	           "SERVICE_NAME_INVALID_CHARS", "");
	snprintf(path, sizeof(path), "/v1/vms/%s/systemd/services/a%%20b/status", id);
	fx_refused(f, "GET", path, NULL, 400, "SERVICE_NAME_INVALID_CHARS", "");
	snprintf(path, sizeof(path), "/v1/vms/%s/systemd/services/a/logs?lines=x", id);
	fx_refused(f, "GET", path, NULL, 400, "INVALID_PARAMETERS", "lines");
	snprintf(path, sizeof(path), "/v1/vms/%s/systemd/services/a/logs?since=%%24x", id);
	fx_refused(f, "GET", path, NULL, 400, "INVALID_PARAMETERS", "since");
	snprintf(path, sizeof(path), "/v1/vms/%s/systemd/services", id);
	fx_refused(f, "POST", path, "{\"name\":\"a\"}", 400, "EXEC_EMPTY", "exec");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tree, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(go_back, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(diff, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(terminals, fx_setup, fx_teardown),
		cmocka_unit_test_setup_teardown(services, fx_setup, fx_teardown),
		cmocka_unit_test(units),
		cmocka_unit_test(bad_units),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
