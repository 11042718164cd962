/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_options.c - options of requests: unknown ones are named, known ones do what they say */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/near.h"
#include "tests/unit/api_fx.h"

#define autoreply __attribute__((cleanup(http_reply_done)))

/* The warning's text, or NULL; valid as long as r. */
static const char *warning(struct http_reply *r)
{
	char *p = strcasestr(r->head, "\r\nX-Pando-Warning: "), *end;

	if (!p)
		return NULL;
	p += strlen("\r\nX-Pando-Warning: ");
	end = strstr(p, "\r\n");
	if (end)
		*end = '\0';
	return p;
}

static void warns(struct fx *f, const char *path, const char *body, int status, const char *text)
{
	autoreply struct http_reply r = { 0 };
	const char *got;

	fx_call(f, "POST", path, body, status, &r);
	got = warning(&r);
	if (!text && got)
		fail_msg("%s: unexpected warning: %s", body, got);
	if (text && (!got || !strstr(got, text)))
		fail_msg("%s: '%s' does not say '%s'", body, got ? got : "(none)", text);
}

static void unknown_members_are_named(void **state)
{
	struct fx *f = *state;
	char id[32], path[64];

	warns(f, "/v1/vms", "{}", 200, NULL);
	warns(f, "/v1/vms", "{\"name\":null,\"frob\":null}", 200, NULL);
	warns(f, "/v1/vms", "{\"memory\":4}", 200,
	      "unknown and ignored: 'memory' (did you mean 'memSizeGb'?)");
	warns(f, "/v1/vms", "{\"idleTimeout\":4,\"nmae\":\"x\"}", 200,
	      "'idleTimeout' (did you mean 'idleTimeoutSeconds'?)");
	warns(f, "/v1/vms", "{\"nmae\":\"x\"}", 200, "'nmae' (did you mean 'name'?)");
	warns(f, "/v1/vms", "{\"persistence\":{\"type\":\"sticky\",\"prioritty\":3}}", 200,
	      "'persistence.prioritty' (did you mean 'priority'?)");
	warns(f, "/v1/vms", "{\"xyzzy\":1}", 200, "'xyzzy'");
	warns(f, "/v1/vms", "{\"spec\":{\"name\":null,\"aptDeps\":[],\"aptDep\":[\"x\"]}}", 200,
	      "'spec.aptDep' (did you mean 'aptDeps'?)");
	/* Errors have it too. */
	warns(f, "/v1/vms", "{\"idleTimeoutSeconds\":\"x\",\"frob\":1}", 400, "'frob'");
	warns(f, "/v1/cron/schedules", "{\"cron\":\"@yearly\",\"run\":{\"code\":\"1\"}}", 200,
	      NULL);
	warns(f, "/v1/cron/schedules",
	      "{\"cron\":\"@yearly\",\"run\":{\"code\":\"\",\"envVar\":{}}}", 400,
	      "'run.envVar' (did you mean 'envVars'?)");
	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", id);
	warns(f, path, "{\"command\":\"true\",\"terminal\":null}", 200, NULL);
	warns(f, path, "{\"command\":\"true\",\"timeout\":5}", 200, "(did you mean 'timeoutMs'?)");
	/* Never more than a header can carry, and never more than one line. */
	warns(f, path,
	      "{\"command\":\"true\",\"a\\r\\nSet-Cookie: x\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,"
	      "\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1}",
	      200, "'a??Set-Cookie: x', 'b'");
}

/* A table on the stack, as some handlers have one, which is gone when its names are needed. */
static __attribute__((noinline)) void read_with_own_table(const json_t *j)
{
	struct json_field f[] = { { "permission", JSON_WANT_STRREF, 0, 0, 0, 16,
		                    JSON_NO_PRESENCE } };
	const char *text = NULL;

	OK(json_fields_read(j, "", f, ARRAY_SIZE(f), &text, &err));
	memset(f, 0xa5, sizeof(f));
	__asm__ volatile("" : : "r"(f) : "memory");
}

static void on_unknown(void *ctx, const char *prefix, const char *name, const char *near)
{
	assert_string_equal(name, "permision");
	assert_string_equal(near, "permission");
	++*(unsigned *)ctx;
}

static void tables_may_be_gone(void **state)
{
	json_t *j = json_pack("{s:s}", "permision", "read");
	struct json_seen *seen = calloc(1, sizeof(*seen));
	unsigned n = 0;

	assert_true(j && seen);
	json_seen_watch(seen);
	read_with_own_table(j);
	json_seen_watch(NULL);
	json_seen_unknown(seen, j, on_unknown, &n);
	assert_int_equal(n, 1);
	free(seen);
	json_decref(j);
}

static void near_words(void **state)
{
	struct near n = NEAR_OF("tag");

	near_try(&n, "name");
	assert_null(n.best);
	near_try(&n, "tags");
	near_try(&n, "stage");
	assert_string_equal(n.best, "tags");
	n = NEAR_OF("");
	near_try(&n, "tags");
	assert_null(n.best);
	n = NEAR_OF("countexecasactivty");
	near_try(&n, "countExecAsActivity");
	assert_non_null(n.best);
}

/* ---- tags, metadata, names, end of life ---- */

static void get(struct fx *f, const char *id, struct http_reply *ret)
{
	char path[64];

	http_reply_done(ret);
	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_call(f, "GET", path, NULL, 200, ret);
}

static void change(struct fx *f, const char *id, const char *body)
{
	autoreply struct http_reply r = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_call(f, "PATCH", path, body, 200, &r);
}

/* How many VMs the list has with that query. */
static size_t listed(struct fx *f, const char *query)
{
	autoreply struct http_reply r = { 0 };
	char path[160];

	snprintf(path, sizeof(path), "/v1/vms?%s", query);
	fx_call(f, "GET", path, NULL, 200, &r);
	return json_array_size(json_object_get(r.json, "vms"));
}

static void tags_and_metadata(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 };
	char path[64], id[32];
	json_t *fork;

	fx_call(f, "POST", "/v1/vms",
	        "{\"tags\":[\"prod\",\"web\"],\"metadata\":{\"owner\":\"ann\"}}", 200, &a);
	fx_call(f, "POST", "/v1/vms", "{\"tags\":[\"prod\"]}", 200, &b);
	snprintf(id, sizeof(id), "%s", fx_str(a.json, "id"));
	assert_int_equal(listed(f, "tags=prod"), 2);
	assert_int_equal(listed(f, "tags=prod,web"), 1);
	assert_int_equal(listed(f, "tags=pro"), 0);
	assert_int_equal(listed(f, "metadata=owner%3Dann"), 1);
	assert_int_equal(listed(f, "metadata=owner%3Dan"), 0);
	assert_int_equal(listed(f, "tags=web&metadata=owner%3Dann"), 1);
	get(f, id, &c);
	assert_string_equal(fx_str(json_object_get(c.json, "metadata"), "owner"), "ann");
	assert_int_equal(json_array_size(json_object_get(c.json, "tags")), 2);
	/* One at a time; what is not named stays. */
	fx_suspend(f, id);
	change(f, id, "{\"metadata\":{\"stage\":\"2\"}}");
	get(f, id, &c);
	assert_string_equal(fx_str(c.json, "state"), "suspended");
	assert_int_equal(json_array_size(json_object_get(c.json, "tags")), 2);
	assert_null(json_object_get(json_object_get(c.json, "metadata"), "owner"));
	/* A fork has what its parent has. */
	http_reply_done(&b);
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", id);
	fx_call(f, "POST", path, "{}", 200, &b);
	fork = json_array_get(json_object_get(b.json, "forks"), 0);
	get(f, fx_str(fork, "id"), &c);
	assert_string_equal(fx_str(json_object_get(c.json, "metadata"), "stage"), "2");
	change(f, id, "{\"tags\":null}");
	assert_int_equal(listed(f, "tags=web"), 1);
	fx_refused(f, "POST", "/v1/vms", "{\"tags\":[\"a,b\"]}", 400, "CREATE_VM_BAD_REQUEST",
	           "tags[0]");
	fx_refused(f, "POST", "/v1/vms", "{\"metadata\":{\"a\":1}}", 400, "CREATE_VM_BAD_REQUEST",
	           "metadata.a");
	fx_refused(f, "GET", "/v1/vms?metadata=owner", NULL, 400, "INVALID_PARAMETERS",
	           "name=value");
}

static void names_change_and_stay_distinct(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 };
	static const char *const want[] = { "web-1", "web-3", "web-4" };
	char path[64], id[32];

	fx_call(f, "POST", "/v1/vms", "{\"name\":\"first\"}", 200, &a);
	snprintf(id, sizeof(id), "%s", fx_str(a.json, "id"));
	change(f, id, "{\"name\":\"web\"}");
	get(f, id, &c);
	assert_string_equal(fx_str(c.json, "name"), "web");
	http_reply_done(&a);
	fx_call(f, "POST", "/v1/vms", "{\"name\":\"web-2\"}", 200, &a);
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", id);
	fx_call(f, "POST", path, "{\"count\":3}", 200, &b);
	for (size_t i = 0; i < 3; i++) {
		get(f, fx_str(json_array_get(json_object_get(b.json, "forks"), i), "id"), &c);
		assert_string_equal(fx_str(c.json, "name"), want[i]);
	}
	change(f, id, "{\"name\":null}");
	get(f, id, &c);
	assert_true(json_is_null(json_object_get(c.json, "name")));
}

static void wait_gone(struct fx *f, const char *id)
{
	char path[64];

	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	for (uint64_t by = deadline_in(60000); deadline_left(by) > 0; usleep(100000)) {
		autoreply struct http_reply r = { 0 };

		if (http_call(f->port, "GET", path, f->auth_header, NULL, 0, &r) == 0 &&
		    r.status == 404)
			return;
	}
	fail_msg("VM %s is still there", id);
}

static void vms_end_when_they_were_told_to(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	char path[64], id[32], kept[32];

	fx_call(f, "POST", "/v1/vms", "{\"deleteAfterSeconds\":1}", 200, &a);
	snprintf(id, sizeof(id), "%s", fx_str(a.json, "id"));
	fx_call(f, "POST", "/v1/vms", "{\"deleteAfterSeconds\":3}", 200, &b);
	snprintf(kept, sizeof(kept), "%s", fx_str(b.json, "id"));
	change(f, kept, "{\"deleteAfterSeconds\":3600}");
	wait_gone(f, id);
	get(f, kept, &c);
	assert_true(json_is_string(json_object_get(c.json, "deleteAt")));
	/* A fork ends with its parent unless it is told otherwise. */
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", kept);
	fx_call(f, "POST", path, "{\"deleteAfterSeconds\":1}", 200, &d);
	wait_gone(f, fx_str(json_array_get(json_object_get(d.json, "forks"), 0), "id"));
	change(f, kept, "{\"deleteAfterSeconds\":null}");
	get(f, kept, &c);
	assert_true(json_is_null(json_object_get(c.json, "deleteAt")));
	http_reply_done(&c);
	fx_call(f, "GET", "/v1/vms?includeDeleted=true", NULL, 200, &c);
	assert_non_null(strstr(c.body, "\"deleteReason\":\"expired\""));
}

static void checkpoints_are_set_and_shown(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 };
	char path[64], id[32];

	fx_refused(f, "POST", "/v1/vms", "{\"checkpointEverySeconds\":9}", 400,
	           "CREATE_VM_BAD_REQUEST", "at least 10");
	fx_call(f, "POST", "/v1/vms", "{\"checkpointEverySeconds\":3600}", 200, &a);
	snprintf(id, sizeof(id), "%s", fx_str(a.json, "id"));
	get(f, id, &b);
	assert_int_equal(json_integer_value(json_object_get(b.json, "checkpointEverySeconds")),
	                 3600);
	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_refused(f, "PATCH", path, "{\"checkpointEverySeconds\":1}", 400, "BAD_REQUEST",
	           "at least 10");
	change(f, id, "{\"name\":\"x\"}");
	get(f, id, &b);
	assert_int_equal(json_integer_value(json_object_get(b.json, "checkpointEverySeconds")),
	                 3600);
	change(f, id, "{\"checkpointEverySeconds\":null}");
	get(f, id, &b);
	assert_int_equal(json_integer_value(json_object_get(b.json, "checkpointEverySeconds")), 0);
}

static void exec(struct fx *f, const char *id, const char *body, const char *want)
{
	autoreply struct http_reply r = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", id);
	fx_call(f, "POST", path, body, 200, &r);
	assert_string_equal(fx_str(r.json, "stdout"), want);
}

static void everything_sees_the_environment(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 };
	char id[32], path[64];
	const char *child;

	fx_call(f, "POST", "/v1/vms",
	        "{\"env\":{\"COLOUR\":\"dark \\\"blue\\\" $x `y` \\\\\",\"HOME\":\"/elsewhere\"}}",
	        200, &a);
	snprintf(id, sizeof(id), "%s", fx_str(a.json, "id"));
	exec(f, id, "{\"command\":\"echo \\\"$COLOUR|$HOME\\\"\"}",
	     "dark \"blue\" $x `y` \\|/elsewhere\n");
	/* A cell, in the default context. */
	snprintf(path, sizeof(path), "/v1/vms/%s/code", id);
	fx_call(f, "POST", path, "{\"language\":\"bash\",\"code\":\"echo [$HOME]\"}", 200, &b);
	assert_non_null(strstr(b.body, "[/elsewhere]"));
	/* Copies have it. */
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", id);
	fx_call(f, "POST", path, "{}", 200, &c);
	child = fx_str(json_array_get(json_object_get(c.json, "forks"), 0), "id");
	assert_non_null(child);
	fx_refused(f, "POST", "/v1/vms", "{\"env\":{\"1A\":\"x\"}}", 400, "CREATE_VM_BAD_REQUEST",
	           "env");
	fx_refused(f, "POST", "/v1/vms", "{\"env\":{\"A\":1}}", 400, "CREATE_VM_BAD_REQUEST",
	           "env.A");
	fx_refused(f, "POST", "/v1/vms", "{\"env\":[\"A=1\"]}", 400, "CREATE_VM_BAD_REQUEST",
	           "env");
}

/* ---- creates that are sent again ---- */

static size_t vms(struct fx *f)
{
	return listed(f, "limit=100");
}

static void wait_vms(struct fx *f, size_t want)
{
	for (uint64_t by = deadline_in(60000); deadline_left(by) > 0 && vms(f) != want;)
		usleep(50000);
	assert_int_equal(vms(f), want);
}

/* Sends a create and leaves. */
static void create_and_leave(struct fx *f, const char *body)
{
	int fd = http_connect(f->port, 20000);
	char head[512];
	int n = snprintf(head, sizeof(head),
	                 "POST /v1/vms HTTP/1.1\r\nHost: x\r\n%sContent-Type: application/json"
	                 "\r\nContent-Length: %zu\r\n\r\n%s",
	                 f->auth_header, strlen(body), body);

	assert_int_equal(write(fd, head, (size_t)n), n);
	close(fd);
}

static void a_create_that_is_sent_again_is_not_made_twice(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 };

	create_and_leave(f, "{\"name\":\"once\"}");
	wait_vms(f, 1);
	fx_call(f, "POST", "/v1/vms", "{\"name\":\"other\"}", 200, &a); /* is another one */
	assert_int_equal(vms(f), 2);
	fx_call(f, "POST", "/v1/vms", "{\"name\":\"once\"}", 200, &b);
	assert_int_equal(vms(f), 2);
	assert_string_not_equal(fx_str(a.json, "id"), fx_str(b.json, "id"));
	get(f, fx_str(b.json, "id"), &c);
	assert_string_equal(fx_str(c.json, "name"), "once");
	/* Its reply is given once; who asks a third time wants another. */
	http_reply_done(&a);
	fx_call(f, "POST", "/v1/vms", "{\"name\":\"once\"}", 200, &a);
	assert_int_equal(vms(f), 3);
}

static void a_vm_that_nobody_knows_is_deleted(void **state)
{
	struct fx *f = *state;

	f->conf.create_grace_s = 1;
	create_and_leave(f, "{\"name\":\"lost\"}");
	wait_vms(f, 1);
	wait_vms(f, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(unknown_members_are_named),
		T(tags_and_metadata),
		T(names_change_and_stay_distinct),
		T(vms_end_when_they_were_told_to),
		T(checkpoints_are_set_and_shown),
		T(everything_sees_the_environment),
		T(a_create_that_is_sent_again_is_not_made_twice),
		T(a_vm_that_nobody_knows_is_deleted),
		cmocka_unit_test(near_words),
		cmocka_unit_test(tables_may_be_gone),
	};

	return FX_RUN(tests);
}
