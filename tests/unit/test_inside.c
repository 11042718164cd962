/* SPDX-License-Identifier: Apache-2.0 */
/* test_inside.c - which names lead to this server from inside, and what they stand for */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/auto.h"
#include "front/inside.h"

#define BASE "pando.test"
#define LIST "git.example.org api.example.org  other.example.org *.example.net"

static void below(void **state)
{
	assert_true(inside_below(BASE, "pando.test"));
	assert_true(inside_below(BASE, "git.pando.test"));
	assert_true(inside_below(BASE, "a.b.pando.test"));
	assert_false(inside_below(BASE, "xpando.test"));
	assert_false(inside_below(BASE, ".pando.test"));
	assert_false(inside_below(BASE, "test"));
	assert_false(inside_below(BASE, ""));
	assert_false(inside_below(BASE, "pando.test.org"));
}

static void aliases(void **state)
{
	static const struct {
		const char *host, *name, *cert;
	} yes[] = {
		{ "git.example.org", "git.pando.test", "@git.example.org" },
		{ "api.example.org", "api.pando.test", "@api.example.org" },
		{ "other.example.org", "pando.test", "@other.example.org" },
		{ "app.example.net", "app.pando.test", "@*.example.net" },
		{ "git.example.net", "git.pando.test", "@*.example.net" },
	};
	static const char *const no[] = { "",
		                          "example.org",
		                          "example.net",
		                          ".example.net",
		                          "a.b.example.net",
		                          "x.git.example.org",
		                          "git.example.org.",
		                          "git.example.or",
		                          "*.example.net.org" };
	struct inside_alias a;

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		assert_true(inside_match(LIST, BASE, yes[i].host, &a));
		assert_string_equal(a.name, yes[i].name);
		assert_string_equal(a.cert, yes[i].cert);
	}
	for (size_t i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(inside_match(LIST, BASE, no[i], &a));
	assert_false(inside_match("", BASE, "git.pando.test", &a));
	assert_false(inside_match("  ", BASE, "", &a));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(below), cmocka_unit_test(aliases) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
