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

#define REPO "0a000000-0000-4000-8000-000000000000"
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

static void test_repositories(void **state)
{
	static const char *const refused[] = { REPO "+dev",
		                               REPO "x",
		                               "/" REPO,
		                               REPO ".git",
		                               "0a000000-0000-4000-8000-00000000000G:x",
		                               "0A000000-0000-4000-8000-000000000000" };
	struct sshd_name n;

	assert_int_equal(sshd_name_parse(REPO ":" TOKEN, &n), 0);
	assert_string_equal(n.repo, REPO);
	assert_string_equal(n.vm, "");
	assert_string_equal(n.secret, TOKEN);
	assert_int_equal(sshd_name_parse(REPO "," TOKEN, &n), 0);
	assert_int_equal(sshd_name_parse(REPO, &n), 0);
	assert_string_equal(n.secret, "");
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		if (sshd_name_parse(refused[i], &n) != -EINVAL)
			fail_msg("'%s' is taken", refused[i]);
}

static void test_commands(void **state)
{
	static const struct {
		const char *text;
		int want;
		enum sshd_git kind;
	} cases[] = {
		{ "git-upload-pack '/" REPO "'", 0, SSHD_GIT_FETCH },
		{ "git-upload-pack '" REPO ".git'", 0, SSHD_GIT_FETCH },
		{ "git-upload-pack \"/" REPO ".git/\"", 0, SSHD_GIT_FETCH },
		{ "git-receive-pack " REPO, 0, SSHD_GIT_PUSH },
		{ "git-lfs-authenticate " REPO " download", 0, SSHD_GIT_LFS },
		{ "git-lfs-authenticate '/" REPO ".git' upload", 0, SSHD_GIT_LFS },
		{ "git-upload-pack ''", -ENOENT, 0 },
		{ "git-upload-pack '//" REPO "'", -ENOENT, 0 },
		{ "git-upload-pack '.git'", -ENOENT, 0 },
		{ "git-upload-pack '/" REPO "/../x'", -ENOENT, 0 },
		{ "git-upload-pack '0a000000-0000-4000-8000-000000000001'", -ENOENT, 0 },
		{ "git-upload-pack '" REPO, -EINVAL, 0 },
		{ "git-upload-pack '" REPO "' x", -EINVAL, 0 },
		{ "git-upload-pack", -ENOENT, 0 },
		{ "git-upload-packx '" REPO "'", -EINVAL, 0 },
		{ "git-lfs-authenticate " REPO, -EINVAL, 0 },
		{ "git-lfs-authenticate " REPO " delete", -EINVAL, 0 },
		{ " git-upload-pack '" REPO "'", -EINVAL, 0 },
		{ "git-upload-pack\t'" REPO "'", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		enum sshd_git kind = SSHD_GIT_FETCH;
		int r = sshd_git_parse(cases[i].text, REPO, &kind);

		if (r != cases[i].want || (r == 0 && kind != cases[i].kind))
			fail_msg("'%s': %d, kind %d", cases[i].text, r, (int)kind);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_repositories),
		cmocka_unit_test(test_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
