/* SPDX-License-Identifier: Apache-2.0 */
/* test_route.c - raw paths to routes: decoding, precedence, hostile input; and the table itself */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/call.h"
#include "api/doc/openapi.h"
#include "base/auto.h"

static struct route_match m; /* large: not on the stack */

static int find(enum method method, const char *path)
{
	return route_find(api_routes, api_n_routes, method, path, &m);
}

/* What strangers may ask for; everything else wants a key, a token or a session. */
static bool is_for_all(const char *pattern)
{
	static const char *const all[] = {
		"/v1/health", "/healthz", "/readyz", "/openapi.json",
		/* pages that are the same for everybody */
		"/", "/ui", "/ui/", "/ui/{*path}", "/assets/{file}", "/favicon.ico", "/docs",
		"/docs/", "/docs/{*path}", "/handler/cli-auth-confirm",
		/* certificates and public keys are no secrets */
		"/v1/ca", "/.well-known/jwks.json",
		/* these have a secret in their path or body, or are the way to one */
		"/git/v1/sync-hook/{hook}", "/git/v1/github/webhook/{app}", "/git/v1/github/start",
		"/git/v1/github/created", "/git/v1/github/installed", "/v1/session",
		"/v1/login-requests", "/v1/login-requests/{login_id}/poll", "/api/v1/auth/cli",
		"/api/v1/auth/cli/poll", "/api/v1/auth/sessions/current/refresh", "/api/cli/teams",
		"/api/proxy/request"
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i], pattern) == 0)
			return true;
	return false;
}

static void every_route_has_its_policy_and_help(void **state)
{
	for (size_t i = 0; i < api_n_routes; i++) {
		const struct route *r = &api_routes[i];

		if (!r->pattern || r->pattern[0] != '/' || !r->handler || !r->help || !r->help[0] ||
		    !r->body_max || r->method >= METHOD_MAX)
			fail_msg("route %zu misses something", i);
		/* Exactly one scope. */
		if (__builtin_popcount((unsigned)r->scope) != 1 ||
		    !(r->scope & (SCOPE_ALL | SCOPE_FROM_VM)))
			fail_msg("%s has no scope", r->pattern);
		if (r->scope == SCOPE_PUBLIC && !is_for_all(r->pattern))
			fail_msg("%s is public", r->pattern);
		for (size_t k = 0; k < i; k++)
			if (api_routes[k].method == r->method && api_routes[k].pattern &&
			    r->pattern && strcmp(api_routes[k].pattern, r->pattern) == 0)
				fail_msg("%s is listed twice", r->pattern);
	}
}

static void every_route_is_found_by_its_own_pattern(void **state)
{
	for (size_t i = 0; i < api_n_routes; i++) {
		assert_int_equal(find(api_routes[i].method, api_routes[i].pattern), 0);
		assert_ptr_equal(m.route, &api_routes[i]);
	}
}

static void segments_are_split_raw_and_decoded_after(void **state)
{
	assert_int_equal(find(METHOD_GET, "/v1/vms/abc/files/%2Ftmp%2Fa%20b%2B+%C3%A9"), 0);
	assert_int_equal(m.n_args, 2);
	assert_string_equal(m.arg[0], "abc");
	assert_string_equal(m.arg[1], "/tmp/a b++\xc3\xa9");
	/* The last one may take the rest: names of branches come encoded or not. */
	assert_int_equal(find(METHOD_GET, "/git/v1/repo/r/git/refs/heads/a/b%2Fc"), 0);
	assert_string_equal(m.arg[1], "a/b/c");
	assert_int_equal(find(METHOD_GET, "/git/v1/repo/r/git/refs/heads/"), 0);
	assert_int_equal(m.n_args, 1);
	assert_int_equal(find(METHOD_GET, "/v1/vms/abc/files/%252F"), 0);
	assert_string_equal(m.arg[1], "%2F"); /* decoded once */
	assert_int_equal(find(METHOD_GET, "/v1/vms/abc/files/..%2f..%2fetc"), 0);
	assert_string_equal(m.arg[1], "../../etc"); /* the guest's business */
	assert_int_equal(find(METHOD_GET, "/v1/vms/a%2Fb"), 0);
	assert_string_equal(m.arg[0], "a/b");
	/* Raw slashes are not part of a path argument. */
	assert_int_equal(find(METHOD_GET, "/v1/vms/abc/files/tmp/a"), -ENOENT);
	assert_int_equal(find(METHOD_GET, "/v1/vms/abc/files//tmp"), -ENOENT);
	/* An encoded literal is not a literal. */
	assert_int_equal(find(METHOD_GET, "/v1/v%6ds"), -ENOENT);
}

static void literals_win(void **state)
{
	assert_int_equal(find(METHOD_GET, "/v1/vms/snapshots"), 0);
	assert_string_equal(m.route->pattern, "/v1/vms/snapshots");
	assert_int_equal(find(METHOD_GET, "/v1/vms/snapshot"), 0);
	assert_string_equal(m.route->pattern, "/v1/vms/{vm_id}");
	assert_int_equal(find(METHOD_GET, "/v1/vms/snapshots/sc-1"), 0);
	assert_string_equal(m.route->pattern, "/v1/vms/snapshots/{snapshot_id}");
	/* The path decides before the method does. */
	assert_int_equal(find(METHOD_DELETE, "/v1/vms/snapshots"), -EOPNOTSUPP);
	assert_int_equal(m.allow, BIT(METHOD_GET) | BIT(METHOD_POST));
	/* Whatever the order of the table. */
	{
		static const struct route t[] = {
			{ METHOD_GET, "/{a}/{b}", SCOPE_ALL, 1, api_health, "1" },
			{ METHOD_GET, "/{a}/x", SCOPE_ALL, 1, api_health, "2" },
			{ METHOD_GET, "/y/{b}", SCOPE_ALL, 1, api_health, "3" },
		};

		assert_int_equal(route_find(t, 3, METHOD_GET, "/y/x", &m), 0);
		assert_string_equal(m.route->help, "3"); /* the first difference decides */
		assert_int_equal(route_find(t, 3, METHOD_GET, "/z/x", &m), 0);
		assert_string_equal(m.route->help, "2");
		assert_int_equal(route_find(t, 3, METHOD_GET, "/z/z", &m), 0);
		assert_string_equal(m.route->help, "1");
	}
}

static void hostile_paths_are_refused(void **state)
{
	static const struct {
		const char *path;
		int want;
	} cases[] = {
		{ "", -ENOENT },
		{ "/", 0 }, /* the dashboard */
		{ "//", -ENOENT },
		{ "*", -ENOENT },
		{ "v1/vms", -ENOENT },
		{ "/v1/vms/", -ENOENT },
		{ "//v1/vms", -ENOENT },
		{ "/v1//vms", -ENOENT },
		{ "/v1/vms/../../etc/passwd", -ENOENT },
		{ "/v1/vms/%00", -EINVAL },
		{ "/v1/vms/a%00b", -EINVAL },
		{ "/v1/vms/%", -EINVAL },
		{ "/v1/vms/%2", -EINVAL },
		{ "/v1/vms/%zz", -EINVAL },
		{ "/v1/vms/%%41", -EINVAL },
		{ "/v1/vms/x/y/z/a", -ENOENT },
		{ "/v1/vms/{vm_id}x", 0 },
	};
	autofree char *longest = malloc(ROUTE_PATH_MAX + 10);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (find(METHOD_GET, cases[i].path) != cases[i].want)
			fail_msg("'%s' is not %d", cases[i].path, cases[i].want);
	assert_non_null(longest);
	memset(longest, 'a', ROUTE_PATH_MAX + 9);
	memcpy(longest, "/v1/vms/", 8);
	longest[ROUTE_PATH_MAX + 9] = '\0';
	assert_int_equal(find(METHOD_GET, longest), -ENAMETOOLONG);
	longest[ROUTE_PATH_MAX - 1] = '\0';
	assert_int_equal(find(METHOD_GET, longest), 0);
}

static void methods_and_allow(void **state)
{
	assert_int_equal(find(METHOD_PUT, "/v1/vms"), -EOPNOTSUPP);
	assert_int_equal(m.allow, BIT(METHOD_GET) | BIT(METHOD_POST));
	assert_int_equal(method_parse("HEAD"), METHOD_GET);
	assert_int_equal(method_parse("get"), -EINVAL);
	assert_int_equal(method_parse("TRACE"), -EINVAL);
}

static void every_code_has_a_status(void **state)
{
	struct err e = { .code = -EIO };

	assert_int_equal(code_of(&e), ERR_INTERNAL_ERROR);
	e.tag = ERR_POINT_DAMAGED; /* ours, not the contract's */
	assert_int_equal(code_of(&e), ERR_INTERNAL_ERROR);
	e.code = -ENOSPC;
	assert_int_equal(code_of(&e), ERR_NO_LOCAL_STORAGE_CAPACITY);
	e.tag = ERR_VM_NOT_FOUND;
	assert_int_equal(code_of(&e), ERR_VM_NOT_FOUND);
	for (int i = 0; i < 200; i++) {
		e = (struct err){ .code = -i };
		assert_true(err_code_status(code_of(&e)) >= 400);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_route_has_its_policy_and_help),
		cmocka_unit_test(every_route_is_found_by_its_own_pattern),
		cmocka_unit_test(segments_are_split_raw_and_decoded_after),
		cmocka_unit_test(literals_win),
		cmocka_unit_test(hostile_paths_are_refused),
		cmocka_unit_test(methods_and_allow),
		cmocka_unit_test(every_code_has_a_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
