/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_life.c - handlers over real HTTP: deleted VMs, resize, await, stats */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/auto.h"
#include "base/clock.h"
#include "tests/unit/api_fx.h"

#define autoreply AUTO(http_reply_done)

static void deleted_vms_are_listed_on_request(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 };
	char kept[32], gone[32], path[64];
	json_t *item;

	fx_vm(f, kept);
	fx_vm(f, gone);
	snprintf(path, sizeof(path), "/v1/vms/%s", gone);
	fx_call(f, "DELETE", path, NULL, 200, &a);
	fx_call(f, "GET", "/v1/vms", NULL, 200, &b);
	assert_int_equal(json_integer_value(json_object_get(b.json, "totalCount")), 1);
	fx_call(f, "GET", "/v1/vms?includeDeleted=true&limit=1&offset=1", NULL, 200, &c);
	assert_int_equal(json_integer_value(json_object_get(c.json, "totalCount")), 2);
	assert_int_equal(json_integer_value(json_object_get(c.json, "runningCount")), 1);
	assert_int_equal(json_array_size(json_object_get(c.json, "vms")), 1);
	item = json_array_get(json_object_get(c.json, "vms"), 0);
	assert_string_equal(fx_str(item, "id"), gone);
	assert_true(json_is_true(json_object_get(item, "deleted")));
	assert_string_equal(fx_str(item, "deleteReason"), "deleted");
	assert_true(json_is_string(json_object_get(item, "deletedAt")));
	fx_refused(f, "GET", "/v1/vms?includeDeleted=1", NULL, 400, "INVALID_PARAMETERS",
	           "includeDeleted");
}

static void resize_refusals_have_their_numbers(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	char id[32], path[64];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/resize", id);
	fx_call(f, "POST", path, "{\"vcpuCount\":4,\"memSizeGb\":0.5,\"rootfsSizeGb\":null}", 200,
	        &a);
	assert_int_equal(json_object_size(a.json), 0);
	fx_call(f, "POST", path, "{\"vcpuCount\":3}", 400, &b);
	assert_string_equal(fx_str(b.json, "code"), "RESIZE_VM_VCPU_NOT_POWER_OF_TWO");
	assert_int_equal(json_integer_value(json_object_get(b.json, "got")), 3);
	assert_null(json_object_get(b.json, "max"));
	fx_call(f, "POST", path, "{\"vcpuCount\":64}", 400, &c);
	assert_string_equal(fx_str(c.json, "code"), "RESIZE_VM_VCPU_OUT_OF_RANGE");
	assert_int_equal(json_integer_value(json_object_get(c.json, "max")), 32);
	fx_call(f, "POST", path, "{\"rootfsSizeGb\":1}", 400, &d);
	assert_int_equal(json_integer_value(json_object_get(d.json, "currentMb")), 20480);
	assert_int_equal(json_integer_value(json_object_get(d.json, "requestedMb")), 1024);
	fx_refused(f, "POST", path, "{\"vcpuCount\":\"4\"}", 400, "BAD_REQUEST", "vcpuCount");
	fx_refused(f, "POST", path, "[]", 400, "BAD_REQUEST", "object");
	fx_refused(f, "POST", "/v1/vms/abc/resize", "{\"vcpuCount\":4}", 404, "VM_NOT_FOUND",
	           "abc");
}

/* A request of the old kind: its reply ends with the connection. */
static int open_stream(struct fx *f, const char *method, const char *path)
{
	char text[512];
	int fd = http_connect(f->port, 20000);

	snprintf(text, sizeof(text), "%s %s HTTP/1.0\r\n%s\r\n", method, path, f->auth_header);
	assert_true(fd >= 0 && http_send(fd, text, strlen(text)));
	return fd;
}

/* All that comes until the end, or until `until` shows. */
static size_t read_stream(int fd, char *buf, size_t size, const char *until)
{
	size_t n = 0;
	ssize_t k;

	do {
		k = read(fd, buf + n, size - 1 - n);
		n += k > 0 ? (size_t)k : 0;
		buf[n] = '\0';
	} while (k > 0 && n < size - 1 && !(until && strstr(buf, until)));
	return n;
}

static void await_ends_with_the_machine(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 };
	char id[32], path[64], buf[2048];
	int fd;

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/await", id);
	fx_refused(f, "POST", "/v1/vms/abc/await", NULL, 404, "VM_NOT_FOUND", "abc");
	fd = open_stream(f, "POST", path);
	snprintf(path, sizeof(path), "/v1/vms/%s/suspend", id);
	fx_call(f, "POST", path, NULL, 200, &a);
	read_stream(fd, buf, sizeof(buf), NULL);
	close(fd);
	assert_non_null(strstr(buf, " 200 OK"));
	assert_non_null(strstr(buf, "\"exitStatus\":\"suspended\"}"));
	assert_non_null(strstr(buf, id));
}

static void stats_go_on_until_the_vm_is_gone(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 };
	char id[32], path[96], buf[65536];
	char *line;
	json_t *j;
	int fd;

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/stats/stream?interval_ms=0", id);
	fd = open_stream(f, "GET", path);
	read_stream(fd, buf, sizeof(buf), "}\n{");
	assert_non_null(strstr(buf, "application/x-ndjson"));
	line = strstr(buf, "\r\n\r\n") + 4;
	*strchr(line, '\n') = '\0';
	j = json_loads(line, 0, NULL);
	assert_string_equal(fx_str(j, "state"), "running");
	assert_true(json_integer_value(
	                    json_object_get(json_object_get(j, "memory"), "privateBytes")) > 0);
	json_decref(j);
	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_call(f, "DELETE", path, NULL, 200, &a);
	read_stream(fd, buf, sizeof(buf), NULL);
	close(fd);
	assert_non_null(strstr(buf, "\"state\":\"deleted\"}\n"));
	fx_refused(f, "GET", "/v1/vms/abc/stats/stream", NULL, 404, "VM_NOT_FOUND", "abc");
}

/* Clients that disconnect or never read hold nothing; otherwise the fixture's api_stop() fails. */
static void streams_nobody_reads_end(void **state)
{
	struct fx *f = *state;
	char id[32], path[96], buf[1024];
	int fd[3];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/stats/stream?interval_ms=100", id);
	fd[0] = open_stream(f, "GET", path);
	fd[1] = open_stream(f, "GET", path);
	snprintf(path, sizeof(path), "/v1/vms/%s/await", id);
	fd[2] = open_stream(f, "POST", path);
	read_stream(fd[0], buf, sizeof(buf), "}\n");
	close(fd[0]);
	read_stream(fd[2], buf, sizeof(buf), "\r\n\r\n");
	close(fd[2]);
	/* fd[1] stays open, unread: the end of the server ends it */
	assert_int_equal(api_stop(TAKE_PTR(f->api), 10000, &err), 0);
	close(fd[1]);
}

static void a_start_may_change_what_counts(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 };
	char path[64];

	fx_call(f, "POST", "/v1/vms", "{\"countExecAsActivity\":true}", 200, &a);
	snprintf(path, sizeof(path), "/v1/vms/%s", fx_str(a.json, "id"));
	fx_call(f, "GET", path, NULL, 200, &b);
	assert_true(json_is_true(json_object_get(b.json, "countExecAsActivity")));
	assert_true(json_is_object(json_object_get(b.json, "usage")));
	assert_true(json_is_object(json_object_get(b.json, "metrics")));
	snprintf(path, sizeof(path), "/v1/vms/%s/start", fx_str(a.json, "id"));
	fx_call(f, "POST", path, "{\"countExecAsActivity\":false}", 200, &c);
	http_reply_done(&b);
	snprintf(path, sizeof(path), "/v1/vms/%s", fx_str(a.json, "id"));
	fx_call(f, "GET", path, NULL, 200, &b);
	assert_true(json_is_false(json_object_get(b.json, "countExecAsActivity")));
	fx_refused(f, "POST", "/v1/vms", "{\"countExecAsActivity\":1}", 400,
	           "CREATE_VM_BAD_REQUEST", "countExecAsActivity");
}

/* A silent command, longer than the idle timeout, and a keeper that looks every two seconds. */
static void running_work_keeps_a_vm_awake(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 };
	char path[64], vm[64];

	fx_call(f, "POST", "/v1/vms", "{\"idleTimeoutSeconds\":1}", 200, &a);
	snprintf(vm, sizeof(vm), "/v1/vms/%s", fx_str(a.json, "id"));
	fx_call(f, "GET", vm, NULL, 200, &b);
	assert_true(json_is_true(json_object_get(b.json, "countExecAsActivity")));
	snprintf(path, sizeof(path), "%s/exec-await", vm);
	fx_call(f, "POST", path, "{\"command\":\"sleep 6; echo there\"}", 200, &c);
	assert_string_equal(fx_str(c.json, "stdout"), "there\n");
	/* Afterwards it is idle. */
	for (uint64_t by = deadline_in(60000); deadline_left(by) > 0; usleep(100000)) {
		http_reply_done(&b);
		fx_call(f, "GET", vm, NULL, 200, &b);
		if (!strcmp(fx_str(b.json, "state"), "suspended"))
			break;
	}
	assert_string_equal(fx_str(b.json, "state"), "suspended");
}

static void work_that_does_not_count_is_cut_off_with_a_reason(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 };
	char path[64];

	fx_call(f, "POST", "/v1/vms", "{\"idleTimeoutSeconds\":1,\"countExecAsActivity\":false}",
	        200, &a);
	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", fx_str(a.json, "id"));
	fx_refused(f, "POST", path, "{\"command\":\"sleep 60\"}", 400, "VM_NOT_RUNNING",
	           "while countExecAsActivity is false; set that to true, or raise "
	           "idleTimeoutSeconds");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(deleted_vms_are_listed_on_request),
		T(resize_refusals_have_their_numbers),
		T(await_ends_with_the_machine),
		T(stats_go_on_until_the_vm_is_gone),
		T(streams_nobody_reads_end),
		T(a_start_may_change_what_counts),
		T(running_work_keeps_a_vm_awake),
		T(work_that_does_not_count_is_cut_off_with_a_reason),
	};

	return FX_RUN(tests);
}
