/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_tree.c - handlers of the tree, services and terminals; and the unit files they make */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/vms/shared.h"
#include "base/auto.h"
#include "base/clock.h"
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
	assert_true(json_integer_value(json_object_get(json_object_get(n, "disk"), "ownBytes")) >
	            0);
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
	assert_memory_equal(fx_str(r.json, "previousSnapshotId"), "sc-", 3);
	http_reply_done(&r);
	body[strlen(body) - 1] = '\0';
	strncat(body, ",\"keep\":false}", sizeof(body) - strlen(body) - 1);
	fx_call(f, "POST", path, body, 200, &r);
	assert_true(json_is_null(json_object_get(r.json, "previousSnapshotId")));
	http_reply_done(&r);
	fx_refused(f, "POST", path, "{}", 400, "BAD_REQUEST", "snapshotId");
	/* the newest point of its past is that snapshot's */
	fx_call(f, "POST", path, "{\"snapshotId\":null,\"keep\":false}", 200, &r);
	assert_true(json_is_null(json_object_get(r.json, "snapshotId")));
	http_reply_done(&r);
	fx_refused(f, "POST", path, "{\"snapshotId\":\"sc-x\"}", 400, "INVALID_SNAPSHOT_ID", "sc-");
	fx_refused(f, "POST", path, "{\"snapshotId\":\"sc-aaaaaaaaaaaaaaaaaaaa\",\"keep\":1}", 400,
	           "BAD_REQUEST", "keep");
	fx_refused(f, "POST", path, "{\"snapshotId\":\"sc-bbbbbbbbbbbbbbbbbbbb\"}", 404,
	           "SNAPSHOT_NOT_FOUND", "");
}

/* Guests have this host's files, but for where their agent works. */
#define OWN "/proc/self/cwd/run"

static void in_guest(struct fx *f, const char *vm, const char *command)
{
	struct http_reply r;
	char path[64], body[256];

	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", vm);
	snprintf(body, sizeof(body), "{\"command\":\"cd /proc/$PPID/cwd/run && %s\"}", command);
	fx_call(f, "POST", path, body, 200, &r);
	if (json_integer_value(json_object_get(r.json, "statusCode")) != 0)
		fail_msg("%s: %s", command, r.body);
	http_reply_done(&r);
}

static json_t *changes(struct fx *f, const char *vm, const char *with, const char *query,
                       struct http_reply *ret)
{
	char path[256];

	snprintf(path, sizeof(path), "/v1/vms/%s/diff?with=%s%s", vm, with, query);
	fx_call(f, "GET", path, NULL, 200, ret);
	return json_object_get(ret->json, "changes");
}

static void diff(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char id[32], fork[32], path[256], query[256];
	json_t *c;
	static const struct {
		const char *path, *change;
	} want[] = {
		{ OWN "/d/a", "added" },
		{ OWN "/d/b", "modified" },
		{ OWN "/d/c", "type" },
		{ OWN "/d/d\xef\xbf\xbd", "removed" },
	};
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
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", id);
	fx_call(f, "POST", path, "{}", 200, &r);
	snprintf(fork, sizeof(fork), "%s",
	         fx_str(json_array_get(json_object_get(r.json, "forks"), 0), "id"));
	http_reply_done(&r);
	in_guest(f, id, "mkdir d && echo 1 >d/a && echo 2 >d/b && mkdir d/c");
	in_guest(f, fork,
	         "mkdir d && echo other >d/b && echo >d/c && echo >$(printf 'd/d\\\\377')");
	/* asked for by name, it is not ignored */
	c = changes(f, id, fork, "&path=/" OWN "//d/", &r);
	assert_int_equal(json_array_size(c), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(fx_str(json_array_get(c, i), "path"), want[i].path);
		assert_string_equal(fx_str(json_array_get(c, i), "change"), want[i].change);
	}
	assert_int_equal(json_integer_value(json_object_get(json_array_get(c, 0), "size")), 2);
	assert_true(json_is_null(json_object_get(json_array_get(c, 0), "otherSize")));
	assert_int_equal(json_integer_value(json_object_get(json_array_get(c, 1), "otherSize")), 6);
	assert_true(json_is_null(json_object_get(r.json, "cursor")));
	http_reply_done(&r);
	c = changes(f, id, fork, "&path=" OWN "/d&limit=1", &r);
	assert_int_equal(json_array_size(c), 1);
	assert_string_equal(fx_str(json_array_get(c, 0), "path"), want[0].path);
	snprintf(query, sizeof(query), "&path=" OWN "/d&cursor=%s", fx_str(r.json, "cursor"));
	http_reply_done(&r);
	c = changes(f, id, fork, query, &r);
	assert_int_equal(json_array_size(c), ARRAY_SIZE(want) - 1);
	assert_string_equal(fx_str(json_array_get(c, 0), "path"), want[1].path);
	http_reply_done(&r);
	c = changes(f, id, fork, "&path=" OWN "/d&ignore=" OWN "/d/b,/x", &r);
	assert_int_equal(json_array_size(c), ARRAY_SIZE(want) - 1);
	assert_null(strstr(r.body, want[1].path));
	http_reply_done(&r);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		snprintf(path, sizeof(path), "/v1/vms/%s/diff%s", id, bad[i]);
		fx_refused(f, "GET", path, NULL, 400, "INVALID_PARAMETERS", "'");
	}
}

/* A command that has begun and ends with fx_release(); its reply comes on what is returned. */
static int begin_in_terminal(struct fx *f, const char *vm, const char *name)
{
	uint64_t end = deadline_in(60000);
	int fd = http_connect(f->port, 60000);
	char text[1024], body[512], command[320];

	snprintf(body, sizeof(body), "{\"terminal\":\"%s\",\"command\":\"%s\"}", name,
	         fx_block(f, command, sizeof(command)));
	snprintf(text, sizeof(text),
	         "POST /v1/vms/%s/exec-await HTTP/1.1\r\nHost: x\r\n%sContent-Length: "
	         "%zu\r\n\r\n%s",
	         vm, f->auth_header, strlen(body), body);
	assert_true(fd >= 0 && http_send(fd, text, strlen(text)));
	while (!fx_blocked(f) && clock_ms() < end)
		poll(NULL, 0, 5);
	return fd;
}

static void terminals(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	autofd int fd = -1;
	char id[32], path[256];
	json_t *l;
	static const char *const want[] = { "plain", "red", "done", "ac", "tail" };

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", id);
	fx_call(f, "POST", path,
	        "{\"terminal\":\"one\",\"command\":\"printf 'plain\\\\n\\\\033[1;31mred\\\\033[0m"
	        "\\\\n10%%\\\\r20%%\\\\rdone\\\\r\\\\nab\\\\bc\\\\n\\\\033]0;title\\\\atail'\"}",
	        200, &r);
	http_reply_done(&r);
	fd = begin_in_terminal(f, id, "two");
	snprintf(path, sizeof(path), "/v1/vms/%s/terminals", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	l = json_object_get(r.json, "terminals");
	assert_int_equal(json_array_size(l), 2);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(fx_str(json_array_get(l, i), "status"),
		                    strcmp(fx_str(json_array_get(l, i), "name"), "one") == 0
		                            ? "idle"
		                            : "running");
	http_reply_done(&r);
	fx_release(f);
	assert_int_equal(http_receive(fd, &r), 0);
	http_reply_done(&r);
	snprintf(path, sizeof(path), "/v1/vms/%s/terminals/one/logs", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	l = json_object_get(r.json, "logs");
	assert_int_equal(json_array_size(l), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(fx_str(json_array_get(l, i), "line"), want[i]);
		assert_int_equal(strlen(fx_str(json_array_get(l, i), "timestamp")),
		                 strlen("1970-01-01T00:00:01.000Z"));
	}
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

	return FX_RUN(tests);
}
