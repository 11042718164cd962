/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_api_self.c - self access through the real agents' sockets: what a VM may do, and what not.
 * That a program frozen in the middle of its request is answered on both sides is tested in
 * tests/agent/test_self.c and, with real machines, in tests/e2e/test_self.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tests/unit/api_as.h"

#define WAIT_MS 60000
#define LARGE ((size_t)2 << 20)

static void make_vm(struct fx *f, const struct acting *who, const char *body, char ret[32])
{
	autoreply struct http_reply r = { 0 };

	as_call(f, who, "POST", "/v1/vms", body, 200, &r);
	snprintf(ret, 32, "%s", fx_str(r.json, "id"));
}

static struct acting operator_of(struct fx *f)
{
	struct acting a;

	snprintf(a.header, sizeof(a.header), "%s", f->auth_header);
	return a;
}

/* A connection to the VM's own socket, or -1. */
static int dial(struct fx *f, const char *id)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval limit = { .tv_sec = WAIT_MS / 1000 };
	struct vm_info v;
	char account[ACCOUNT_SIZE];

	OK(vmm_owner(f->vmm, id, account, &err));
	OK(vmm_get(f->vmm, account, id, &v, &err));
	if (snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/run/%s/guest/run/pando/self.sock",
	             f->dir.path, v.instance) >= (int)sizeof(sa.sun_path))
		fail_msg("the path of the socket is too long");
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void ask(int fd, const char *method, const char *path, const char *body)
{
	autobuf struct buf b = { 0 };

	buf_printf(&b, "%s %s HTTP/1.1\r\nHost: self\r\nContent-Length: %zu\r\n\r\n%s", method,
	           path, body ? strlen(body) : 0, body ? body : "");
	assert_true(http_send(fd, b.p, b.len));
}

/* What the VM's own request is answered. */
static void self_call(struct fx *f, const char *id, const char *method, const char *path,
                      const char *body, int want, struct http_reply *ret)
{
	int fd = dial(f, id);

	if (fd < 0)
		fail_msg("VM %s has no socket", id);
	ask(fd, method, path, body);
	if (http_receive(fd, ret) < 0)
		fail_msg("%s %s of %s: no reply", method, path, id);
	if (ret->status != want)
		fail_msg("%s %s of %s: %d, not %d: %s", method, path, id, ret->status, want,
		         ret->body);
	close(fd);
}

static void self_refused(struct fx *f, const char *id, const char *method, const char *path,
                         const char *body, const char *code, const char *says)
{
	autoreply struct http_reply r = { 0 };

	self_call(f, id, method, path, body, 403, &r);
	assert_string_equal(fx_str(r.json, "code"), code);
	if (!strstr(fx_str(r.json, "message"), says))
		fail_msg("'%s' does not say '%s'", fx_str(r.json, "message"), says);
}

static void await_socket(struct fx *f, const char *id, bool want)
{
	for (uint64_t until = deadline_in(WAIT_MS); deadline_left(until); usleep(10000)) {
		int fd = dial(f, id);

		if (fd >= 0)
			close(fd);
		if ((fd >= 0) == want)
			return;
	}
	fail_msg("VM %s: the socket is %s", id, want ? "missing" : "still there");
}

static void fork_one(struct fx *f, const char *id, const char *body, char ret[32])
{
	autoreply struct http_reply r = { 0 };

	self_call(f, id, "POST", "/v1/self/fork", body, 200, &r);
	assert_string_equal(fx_str(r.json, "role"), "parent");
	assert_string_equal(fx_str(r.json, "id"), id);
	snprintf(ret, 32, "%s",
	         json_string_value(json_array_get(json_object_get(r.json, "children"), 0)));
}

static void off_by_default(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	char id[32], path[64];

	fx_vm(f, id);
	assert_int_equal(dial(f, id), -1);
	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_true(json_is_false(json_object_get(r.json, "selfAccess")));
	/* A key is no VM. */
	fx_refused(f, "GET", "/v1/self", NULL, 403, "FORBIDDEN", "only a VM");
	fx_refused(f, "POST", "/v1/self/fork", "{}", 403, "FORBIDDEN", "only a VM");
	fx_refused(f, "POST", "/v1/vms", "{\"selfAccess\":3}", 400, "CREATE_VM_BAD_REQUEST",
	           "selfAccess");
	fx_refused(f, "POST", "/v1/vms", "{\"selfAccess\":{\"allow\":[\"fly\"]}}", 400,
	           "CREATE_VM_BAD_REQUEST", "snapshot, fork");
	fx_refused(f, "POST", "/v1/vms", "{\"selfAccess\":{\"allow\":\"fork\"}}", 400,
	           "CREATE_VM_BAD_REQUEST", "allow");
}

static void a_vm_and_its_children(void **state)
{
	struct fx *f = *state;
	struct acting me = operator_of(f);
	char id[32], other[32], a[32], b[32], path[128], json[512];
	autoreply struct http_reply info = { 0 }, fork = { 0 }, list = { 0 }, run = { 0 },
	                            gone = { 0 }, shown = { 0 };
	FILE *file;
	struct vm_info v;
	char account[ACCOUNT_SIZE];

	make_vm(f, &me, "{\"selfAccess\":true,\"name\":\"boss\"}", id);
	fx_vm(f, other);
	self_call(f, id, "GET", "/v1/self", NULL, 200, &info);
	assert_string_equal(fx_str(info.json, "id"), id);
	assert_int_equal(json_array_size(json_object_get(info.json, "selfAccess")), 6);

	self_call(f, id, "POST", "/v1/self/fork", "{\"count\":2}", 200, &fork);
	json_t *children = json_object_get(fork.json, "children");
	assert_int_equal(json_array_size(children), 2);
	snprintf(a, sizeof(a), "%s", json_string_value(json_array_get(children, 0)));
	snprintf(b, sizeof(b), "%s", json_string_value(json_array_get(children, 1)));

	/* What the guest itself knows. */
	OK(vmm_owner(f->vmm, b, account, &err));
	OK(vmm_get(f->vmm, account, b, &v, &err));
	snprintf(json, sizeof(json), "%s/run/%s/guest/run/pando/self.json", f->dir.path,
	         v.instance);
	file = fopen(json, "r");
	assert_non_null(file);
	assert_non_null(fgets(json, sizeof(json), file));
	fclose(file);
	snprintf(path, sizeof(path), "{\"id\":\"%s\",\"parent\":\"%s\",\"index\":2,\"count\":2,", b,
	         id);
	assert_non_null(strstr(json, path));

	self_call(f, id, "GET", "/v1/self/children", NULL, 200, &list);
	assert_int_equal(json_array_size(json_object_get(list.json, "children")), 2);
	snprintf(path, sizeof(path), "/v1/self/children/%s/exec-await", a);
	self_call(f, id, "POST", path, "{\"command\":\"echo hello\"}", 200, &run);
	assert_string_equal(fx_str(run.json, "stdout"), "hello\n");

	/* Not itself, not a stranger, not a sibling, not the parent, not one that is not there. */
	const char *const not [] = { id, other, "aaaaaaaaaaaaaaaaaaaa" };
	for (size_t i = 0; i < ARRAY_SIZE(not ); i++) {
		snprintf(path, sizeof(path), "/v1/self/children/%s/exec-await", not [i]);
		self_refused(f, id, "POST", path, "{\"command\":\"true\"}", "SELF_ACCESS_DENIED",
		             "did not make that VM");
	}
	snprintf(path, sizeof(path), "/v1/self/children/%s", b);
	self_refused(f, a, "DELETE", path, NULL, "SELF_ACCESS_DENIED", "did not make that VM");
	snprintf(path, sizeof(path), "/v1/self/children/%s", id);
	self_refused(f, a, "DELETE", path, NULL, "SELF_ACCESS_DENIED", "did not make that VM");
	self_refused(f, a, "GET", "/v1/vms", NULL, "SELF_ACCESS_DENIED", "/v1/self");
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", a);
	self_refused(f, id, "POST", path, "{}", "SELF_ACCESS_DENIED", "/v1/self");

	/* A fork from outside is nobody's child. */
	snprintf(path, sizeof(path), "/v1/vms/%s/fork", id);
	fx_call(f, "POST", path, "{}", 200, &gone);
	snprintf(path, sizeof(path), "/v1/self/children/%s",
	         fx_str(json_array_get(json_object_get(gone.json, "forks"), 0), "id"));
	self_refused(f, id, "GET", path, NULL, "SELF_ACCESS_DENIED", "did not make that VM");

	/* A grandchild is reached, until the one in between is gone. */
	char grandchild[32];
	fork_one(f, a, "{}", grandchild);
	snprintf(path, sizeof(path), "/v1/self/children/%s", grandchild);
	self_call(f, id, "GET", path, NULL, 200, &shown);
	assert_string_equal(fx_str(shown.json, "parent"), a);
	http_reply_done(&run);
	snprintf(path, sizeof(path), "/v1/self/children/%s", a);
	self_call(f, id, "DELETE", path, NULL, 200, &run);
	snprintf(path, sizeof(path), "/v1/self/children/%s", grandchild);
	self_refused(f, id, "GET", path, NULL, "SELF_ACCESS_DENIED", "did not make that VM");
}

/* Larger than all windows and buffers on the way. */
static void large_files(void **state)
{
	struct fx *f = *state;
	struct acting me = operator_of(f);
	autoreply struct http_reply put = { 0 }, get = { 0 };
	autofree char *body = malloc(LARGE + 1);
	char id[32], child[32], path[512];
	size_t n;

	make_vm(f, &me, "{\"selfAccess\":true}", id);
	fork_one(f, id, "{}", child);
	for (size_t i = 0; i < LARGE; i++)
		body[i] = (char)('a' + i % 23);
	body[LARGE] = '\0';
	n = (size_t)snprintf(path, sizeof(path), "/v1/self/children/%s/raw-files/", child);
	for (const char *p = f->dir.path; *p; p++)
		n += (size_t)snprintf(path + n, sizeof(path) - n, *p == '/' ? "%%2F" : "%c", *p);
	snprintf(path + n, sizeof(path) - n, "%%2Flarge");
	self_call(f, id, "PUT", path, body, 200, &put);
	self_call(f, id, "GET", path, NULL, 200, &get);
	assert_int_equal(get.body_n, LARGE);
	assert_memory_equal(get.body, body, LARGE);
}

static void of_another_account(void **state)
{
	struct fx *f = *state;
	struct acting me = operator_of(f), them;
	char mine[32], theirs[32], child[32], path[128];

	acting_account(f, &them);
	make_vm(f, &me, "{\"selfAccess\":true}", mine);
	make_vm(f, &them, "{\"selfAccess\":true}", theirs);
	fork_one(f, theirs, "{}", child);
	snprintf(path, sizeof(path), "/v1/self/children/%s/exec-await", child);
	self_refused(f, mine, "POST", path, "{\"command\":\"true\"}", "SELF_ACCESS_DENIED",
	             "did not make that VM");
}

static void what_was_allowed(void **state)
{
	struct fx *f = *state;
	struct acting me = operator_of(f);
	autoreply struct http_reply r = { 0 }, changed = { 0 }, fork = { 0 };
	char id[32], child[32], path[64];

	make_vm(f, &me, "{\"selfAccess\":{\"allow\":[\"snapshot\",\"fork\"],\"inherit\":false}}",
	        id);
	self_call(f, id, "POST", "/v1/self/snapshot", "{\"name\":\"x\"}", 200, &r);
	assert_true(strncmp(fx_str(r.json, "snapshotId"), "sc-", 3) == 0);
	self_refused(f, id, "POST", "/v1/self/suspend", NULL, "SELF_ACCESS_DENIED", "'suspend'");
	self_refused(f, id, "POST", "/v1/self/rewind", "{}", "SELF_ACCESS_DENIED", "'rewind'");
	fork_one(f, id, "{}", child);
	assert_int_equal(dial(f, child), -1); /* not inherited */
	snprintf(path, sizeof(path), "/v1/self/children/%s", child);
	self_refused(f, id, "DELETE", path, NULL, "SELF_ACCESS_DENIED", "'delete'");
	self_refused(f, id, "GET", path, NULL, "SELF_ACCESS_DENIED", "'children'");

	snprintf(path, sizeof(path), "/v1/vms/%s", id);
	fx_call(f, "PATCH", path, "{\"selfAccess\":false}", 200, &changed);
	assert_true(json_is_false(json_object_get(changed.json, "selfAccess")));
	await_socket(f, id, false);
	http_reply_done(&changed);
	fx_call(f, "PATCH", path, "{\"name\":\"same\"}", 200, &changed);
	assert_int_equal(dial(f, id), -1);
	http_reply_done(&changed);
	fx_call(f, "PATCH", path, "{\"selfAccess\":true}", 200, &changed);
	await_socket(f, id, true);
	fork_one(f, id, "{\"inherit\":false}", child);
	assert_int_equal(dial(f, child), -1);
}

/* It stops although its program asked for it, and has its socket when it runs again. */
static void suspends_itself(void **state)
{
	struct fx *f = *state;
	struct acting me = operator_of(f);
	autoreply struct http_reply r = { 0 }, info = { 0 };
	char id[32], path[64];
	int fd;

	make_vm(f, &me, "{\"selfAccess\":true}", id);
	fd = dial(f, id);
	ask(fd, "POST", "/v1/self/suspend", NULL);
	assert_true(http_receive(fd, &r) < 0 || r.status == 0); /* here its memory is lost */
	close(fd);
	for (uint64_t until = deadline_in(WAIT_MS);; usleep(10000)) {
		struct vm_info v;
		char account[ACCOUNT_SIZE];

		OK(vmm_owner(f->vmm, id, account, &err));
		OK(vmm_get(f->vmm, account, id, &v, &err));
		if (v.state == VM_SUSPENDED)
			break;
		assert_true(deadline_left(until) > 0);
	}
	snprintf(path, sizeof(path), "/v1/vms/%s/start", id);
	fx_call(f, "POST", path, "{}", 200, &info);
	http_reply_done(&info);
	self_call(f, id, "GET", "/v1/self", NULL, 200, &info);
	assert_string_equal(fx_str(info.json, "id"), id);
}

static void quotas_hold(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 }, over = { 0 };
	struct acting them;
	char id[32], child[32];

	fx_call(f, "POST", "/v1/accounts", "{\"name\":\"small\",\"quotas\":{\"vms\":2}}", 200, &r);
	acting_key(f, fx_str(r.json, "id"), &them);
	make_vm(f, &them, "{\"selfAccess\":true}", id);
	self_refused(f, id, "POST", "/v1/self/fork", "{\"count\":2}", "TOTAL_VM_LIMIT_EXCEEDED",
	             "");
	fork_one(f, id, "{}", child);
	self_refused(f, id, "POST", "/v1/self/fork", "{}", "TOTAL_VM_LIMIT_EXCEEDED", "");
	self_refused(f, child, "POST", "/v1/self/fork", "{}", "TOTAL_VM_LIMIT_EXCEEDED", "");
	self_call(f, id, "POST", "/v1/self/fork", "{\"count\":1000}", 400, &over);
}

static void the_audit_log_names_the_vm(void **state)
{
	struct fx *f = *state;
	struct acting me = operator_of(f);
	autoreply struct http_reply r = { 0 };
	char id[32], child[32], actor[40];
	unsigned done = 0, denied = 0;
	json_t *record;
	size_t i;

	make_vm(f, &me, "{\"selfAccess\":{\"allow\":[\"fork\"]}}", id);
	snprintf(actor, sizeof(actor), "vm:%s", id);
	fork_one(f, id, "{}", child);
	self_refused(f, id, "POST", "/v1/self/suspend", NULL, "SELF_ACCESS_DENIED", "'suspend'");
	fx_call(f, "GET", "/v1/audit?limit=100", NULL, 200, &r);
	json_array_foreach(json_object_get(r.json, "records"), i, record)
	{
		if (strcmp(fx_str(record, "keyId"), actor) != 0)
			continue;
		assert_string_equal(fx_str(record, "remote"), actor);
		assert_true(json_is_string(json_object_get(record, "accountId")));
		done += strcmp(fx_str(record, "route"), "/v1/self/fork") == 0 &&
		        strcmp(fx_str(record, "target"), id) == 0;
		denied += strcmp(fx_str(record, "code"), "SELF_ACCESS_DENIED") == 0;
	}
	assert_int_equal(done, 1);
	assert_int_equal(denied, 1);
}

struct crowd {
	struct fx *f;
	const char *id;
	int status;
};

static void *one_of_many(void *arg)
{
	struct crowd *c = arg;
	struct http_reply r = { 0 };
	int fd = dial(c->f, c->id);

	ask(fd, "GET", "/v1/self", NULL);
	if (http_receive(fd, &r) == 0)
		c->status = r.status;
	http_reply_done(&r);
	close(fd);
	return NULL;
}

/* More than are taken at a time: they wait for their turn. */
static void many_at_once(void **state)
{
	struct fx *f = *state;
	struct acting me = operator_of(f);
	struct crowd c[24];
	pthread_t t[ARRAY_SIZE(c)];
	char id[32];

	make_vm(f, &me, "{\"selfAccess\":true}", id);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		c[i] = (struct crowd){ .f = f, .id = id };
		assert_int_equal(pthread_create(&t[i], NULL, one_of_many, &c[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		pthread_join(t[i], NULL);
		assert_int_equal(c[i].status, 200);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(t) cmocka_unit_test_setup_teardown(t, fx_setup, fx_teardown)
		T(off_by_default), T(a_vm_and_its_children),      T(of_another_account),
		T(large_files),    T(what_was_allowed),           T(suspends_itself),
		T(quotas_hold),    T(the_audit_log_names_the_vm), T(many_at_once),
	};

	return FX_RUN(tests);
}
