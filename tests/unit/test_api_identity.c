/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_identity.c - identities, tokens and permissions over HTTP */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "tests/unit/api_as.h"

struct world {
	char identity[32], token_id[32], vm[32], other_vm[32];
	struct acting token;
	char perm[128]; /* path of the permission on vm */
};

static void make_world(struct fx *f, struct world *w)
{
	autoreply struct http_reply i = { 0 }, t = { 0 };
	char path[128];

	fx_vm(f, w->vm);
	fx_vm(f, w->other_vm);
	fx_call(f, "POST", "/identity/v1/identities", NULL, 200, &i);
	assert_true(json_is_false(json_object_get(i.json, "managed")));
	snprintf(w->identity, sizeof(w->identity), "%s", fx_str(i.json, "id"));
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens", w->identity);
	fx_call(f, "POST", path, NULL, 200, &t);
	snprintf(w->token_id, sizeof(w->token_id), "%s", fx_str(t.json, "id"));
	snprintf(w->token.header, sizeof(w->token.header),
	         "X-Freestyle-Identity-Access-Token: %s\r\n", fx_str(t.json, "token"));
	snprintf(w->perm, sizeof(w->perm), "/identity/v1/identities/%s/permissions/vm/%s",
	         w->identity, w->vm);
}

static int try_exec(struct fx *f, const struct world *w, const char *vm, const char *user)
{
	static const char body[] = "{\"command\":\"whoami\"}";
	autoreply struct http_reply r = { 0 };
	char path[96], headers[256], said[32];

	snprintf(path, sizeof(path), "/v1/vms/%s/exec-await", vm);
	snprintf(said, sizeof(said), "%s\n", user ? user : "root");
	snprintf(headers, sizeof(headers), "%s%s%s%s", w->token.header,
	         user ? "X-Freestyle-Vm-Linux-User-Id: " : "", user ? user : "",
	         user ? "\r\n" : "");
	assert_int_equal(http_call(f->port, "POST", path, headers, body, strlen(body), &r), 0);
	if (r.status == 200)
		assert_string_equal(fx_str(r.json, "stdout"), said);
	else
		assert_string_equal(fx_str(r.json, "code"), "VM_ACCESS_DENIED");
	return r.status;
}

static void shapes_are_the_contracts(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply list = { 0 }, tokens = { 0 }, perm = { 0 }, got = { 0 },
	                            perms = { 0 }, page = { 0 }, gone = { 0 };
	struct world w;
	char path[160];

	make_world(f, &w);
	fx_call(f, "GET", "/identity/v1/identities?offset=0", NULL, 200, &list);
	assert_int_equal(json_integer_value(json_object_get(list.json, "total")), 1);
	assert_int_equal(json_integer_value(json_object_get(list.json, "offset")), 0);
	fx_call(f, "GET", "/identity/v1/identities?limit=5&offset=1", NULL, 200, &page);
	assert_int_equal(json_array_size(json_object_get(page.json, "identities")), 0);
	assert_int_equal(json_integer_value(json_object_get(page.json, "total")), 1);
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens", w.identity);
	fx_call(f, "GET", path, NULL, 200, &tokens);
	assert_non_null(strstr(tokens.body, w.token_id));
	assert_null(strstr(tokens.body, "pandoid_"));
	fx_call(f, "POST", w.perm, "{\"allowedUsers\":[\"alice\",\"bob\"]}", 200, &perm);
	assert_string_equal(fx_str(perm.json, "vmId"), w.vm);
	assert_string_equal(fx_str(perm.json, "identityId"), w.identity);
	assert_int_equal(json_array_size(json_object_get(perm.json, "allowedUsers")), 2);
	assert_non_null(json_object_get(perm.json, "grantedAt"));
	assert_int_equal(strlen(fx_str(perm.json, "grantedBy")), 36);
	fx_call(f, "GET", w.perm, NULL, 200, &got);
	assert_true(json_equal(got.json, perm.json));
	fx_refused(f, "POST", w.perm, "{}", 409, "PERMISSION_ALREADY_EXISTS", "");
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/permissions/vm?offset=0",
	         w.identity);
	fx_call(f, "GET", path, NULL, 200, &perms);
	assert_int_equal(json_integer_value(json_object_get(perms.json, "total")), 1);
	assert_true(json_equal(json_array_get(json_object_get(perms.json, "permissions"), 0),
	                       perm.json));
	fx_call(f, "DELETE", w.perm, NULL, 200, &gone);
	assert_int_equal(json_object_size(gone.json), 0);
	fx_refused(f, "GET", w.perm, NULL, 404, "VM_PERMISSION_NOT_FOUND", "");
	fx_refused(f, "PUT", w.perm, "{}", 404, "VM_PERMISSION_NOT_FOUND", "");
	fx_refused(f, "DELETE", w.perm, NULL, 404, "VM_PERMISSION_NOT_FOUND", "");
}

static void wrong_bodies_and_ids(void **state)
{
	static const char *const bad[] = {
		"{\"allowedUsers\":\"alice\"}",
		"{\"allowedUsers\":[7]}",
		"{\"allowedUsers\":[\"\"]}",
		"{\"allowedUsers\":[\"a,b\"]}",
		"{\"allowedUsers\":[\"-x\"]}",
		"{\"allowedUsers\":[\"a\\u0000b\"]}",
		"{\"allowedUsers\":{}}",
		"{",
		"[]",
	};
	struct fx *f = *state;
	struct world w;
	char path[200];

	make_world(f, &w);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		fx_refused(f, "POST", w.perm, bad[i], 400, "INVALID_PARAMETERS", "");
	fx_refused(f, "GET", "/identity/v1/identities/idn-aaaaaaaaaaaaaaaaaaaa/tokens", NULL, 404,
	           "IDENTITY_NOT_FOUND", "");
	fx_refused(f, "DELETE", "/identity/v1/identities/x", NULL, 404, "IDENTITY_NOT_FOUND", "");
	snprintf(path, sizeof(path),
	         "/identity/v1/identities/%s/permissions/vm/aaaaaaaaaaaaaaaaaaaa", w.identity);
	fx_refused(f, "POST", path, "{}", 404, "VM_NOT_FOUND", "");
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/permissions/vm/..%%2F",
	         w.identity);
	fx_refused(f, "POST", path, "{}", 400, "INVALID_VM_ID", "");
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens/x", w.identity);
	fx_refused(f, "DELETE", path, NULL, 404, "NOT_FOUND", "");
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/permissions/git/repo", w.identity);
	fx_refused(f, "POST", path, "{\"permission\":\"read\"}", 404, "GIT_REPOSITORY_NOT_FOUND",
	           "");
	fx_refused(f, "GET", path, NULL, 404, "GIT_REPOSITORY_NOT_FOUND", "");
	{
		autoreply struct http_reply r = { 0 };

		*strrchr(path, '/') = '\0';
		fx_call(f, "GET", path, NULL, 200, &r);
		assert_int_equal(json_array_size(json_object_get(r.json, "repositories")), 0);
	}
}

static void a_token_works_on_what_was_granted(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply who = { 0 }, none = { 0 }, perm = { 0 }, one = { 0 },
	                            info = { 0 }, start = { 0 }, up = { 0 };
	struct world w;
	char path[96];

	make_world(f, &w);
	as_call(f, &w.token, "GET", "/auth/v1/whoami", NULL, 200, &who);
	assert_string_equal(fx_str(who.json, "identityId"), w.identity);
	assert_int_equal(strlen(fx_str(who.json, "accountId")), 36);
	as_call(f, &w.token, "GET", "/v1/vms", NULL, 200, &none);
	assert_int_equal(json_integer_value(json_object_get(none.json, "totalCount")), 0);
	assert_int_equal(json_integer_value(json_object_get(none.json, "runningCount")), 0);
	fx_suspend(f, w.vm);
	assert_int_equal(try_exec(f, &w, w.vm, NULL), 403);
	fx_state(f, w.vm, "suspended"); /* nobody was woken for it */
	fx_call(f, "POST", w.perm, "{\"allowedUsers\":[\"nobody\"]}", 200, &perm);
	assert_int_equal(try_exec(f, &w, w.vm, "nobody"), 200);
	assert_int_equal(try_exec(f, &w, w.vm, "daemon"), 403);
	assert_int_equal(try_exec(f, &w, w.vm, NULL), 403);
	assert_int_equal(try_exec(f, &w, w.other_vm, "nobody"), 403);
	assert_int_equal(try_exec(f, &w, "aaaaaaaaaaaaaaaaaaaa", "nobody"), 403);
	as_call(f, &w.token, "GET", "/v1/vms", NULL, 200, &one);
	assert_int_equal(json_integer_value(json_object_get(one.json, "totalCount")), 1);
	assert_null(strstr(one.body, w.other_vm));
	snprintf(path, sizeof(path), "/v1/vms/%s", w.vm);
	as_call(f, &w.token, "GET", path, NULL, 200, &info);
	snprintf(path, sizeof(path), "/v1/vms/%s/start", w.vm);
	as_call(f, &w.token, "POST", path, "{}", 200, &start);
	snprintf(path, sizeof(path), "/v1/vms/%s", w.vm);
	as_refused(f, &w.token, "DELETE", path, NULL, 403, "VM_ACCESS_DENIED");
	as_refused(f, &w.token, "POST", "/v1/vms", "{}", 403, "FORBIDDEN");
	as_refused(f, &w.token, "PUT", w.perm, "{}", 403, "VM_ACCESS_DENIED");
	fx_call(f, "PUT", w.perm, "{}", 200, &up);
	assert_true(json_is_null(json_object_get(up.json, "allowedUsers")));
	assert_int_equal(try_exec(f, &w, w.vm, NULL), 200);
}

static void taking_back_works_at_once(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 }, e = { 0 },
	                            gone = { 0 };
	struct world w;
	char path[128];

	make_world(f, &w);
	fx_call(f, "POST", w.perm, "{}", 200, &a);
	assert_int_equal(try_exec(f, &w, w.vm, NULL), 200);
	fx_call(f, "DELETE", w.perm, NULL, 200, &b);
	assert_int_equal(try_exec(f, &w, w.vm, NULL), 403);
	fx_call(f, "POST", w.perm, "{}", 200, &c);
	assert_int_equal(try_exec(f, &w, w.vm, NULL), 200);
	snprintf(path, sizeof(path), "/v1/vms/%s", w.vm);
	fx_call(f, "DELETE", path, NULL, 200, &gone);
	assert_int_equal(try_exec(f, &w, w.vm, NULL), 403);
	snprintf(path, sizeof(path), "/identity/v1/identities/%s/tokens/%s", w.identity,
	         w.token_id);
	fx_call(f, "DELETE", path, NULL, 200, &d);
	as_refused(f, &w.token, "GET", "/auth/v1/whoami", NULL, 401, "UNAUTHORIZED");
	snprintf(path, sizeof(path), "/identity/v1/identities/%s", w.identity);
	fx_call(f, "DELETE", path, NULL, 200, &e);
	fx_refused(f, "DELETE", path, NULL, 404, "IDENTITY_NOT_FOUND", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(shapes_are_the_contracts),
		T(wrong_bodies_and_ids),
		T(a_token_works_on_what_was_granted),
		T(taking_back_works_at_once),
	};

	return FX_RUN(tests);
}
