/* SPDX-License-Identifier: Apache-2.0 */
/* test_ssh_name.c - user names of SSH clients: which are taken, and as what */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "ssh/name.h"

#define VM "abcdefghij0123456789"
#define TOKEN "pandoid_0123456789012345678901234567890123456789"

static void test_taken(void **state)
{
	static const struct {
		const char *text, *user, *secret;
	} cases[] = {
		{ VM, "", "" },
		{ VM "+dev", "dev", "" },
		{ VM ":" TOKEN, "", TOKEN },
		{ VM "," TOKEN, "", TOKEN },
		{ VM "+dev:" TOKEN, "dev", TOKEN },
		{ VM "+dev," TOKEN, "dev", TOKEN },
		{ VM ":", "", "" },
		{ VM ":a,b:c+d", "", "a,b:c+d" }, /* the first separator counts */
		{ VM "+first.last_2-x", "first.last_2-x", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sshd_name n;

		if (sshd_name_parse(cases[i].text, &n) != 0)
			fail_msg("'%s' is refused", cases[i].text);
		assert_string_equal(n.vm, VM);
		assert_string_equal(n.user, cases[i].user);
		assert_string_equal(n.secret, cases[i].secret);
	}
}

static void test_refused(void **state)
{
	static const char *const cases[] = {
		"",       ":",          "+",
		"root",   "abc:" TOKEN, "ABCDEFGHIJ0123456789:" TOKEN,
		VM "x",   " " VM,       VM " ",
		VM "+",   VM "+:x",     VM "+a+b",
		VM "+-a", VM "+../a:x", VM "+a b:x",
		VM "/x",  VM "@host",   VM "+abcdefghijabcdefghijabcdefghijabc",
		TOKEN,
	};
	char longer[400];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		static const struct sshd_name nothing;
		struct sshd_name n;

		if (sshd_name_parse(cases[i], &n) != -EINVAL)
			fail_msg("'%s' is taken", cases[i]);
		assert_memory_equal(&n, &nothing, sizeof(n));
	}
	memset(longer, 'k', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	for (size_t n = 0; n < 3; n++) {
		struct sshd_name got;

		memcpy(longer, VM ":", sizeof(VM));
		longer[n == 0   ? 390
		       : n == 1 ? SSHD_NAME_MAX + 1
		                : sizeof(VM) + SSHD_SECRET_MAX] = '\0';
		assert_int_equal(sshd_name_parse(longer, &got), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
