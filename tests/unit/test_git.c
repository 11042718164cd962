/* SPDX-License-Identifier: Apache-2.0 */
/* test_git.c - the parts of git/ that need no repository: paths, globs, expressions, addresses, ids
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/sock.h"
#include "git/git_internal.h"
#include "git/import.h"
#include "git/trigger_internal.h"
#include "hook/outbound.h"
#include "tests/unit/check.h"

static bool matches(const char *pattern, bool glob, bool regex, const char *text)
{
	automatch *m = NULL;
	struct match_opts o = { .glob = glob, .regex = regex, .case_sensitive = true };
	size_t a, b;

	OK(match_new(pattern, &o, &m, &err));
	return match_find(m, text, strlen(text), &a, &b) == 1;
}

static void globs_know_slashes(void **state)
{
	assert_true(matches("src/**/*.ts", true, false, "src/a.ts"));
	assert_true(matches("src/**/*.ts", true, false, "src/x/y/a.ts"));
	assert_false(matches("src/**/*.ts", true, false, "lib/src/a.ts"));
	assert_false(matches("src/*.ts", true, false, "src/x/a.ts"));
	assert_true(matches("*.ts", true, false, "src/x/a.ts"));
	assert_true(matches("src/**", true, false, "src/x/a.ts"));
	assert_true(matches("**/b/?.c", true, false, "a/b/x.c"));
	assert_false(matches("**/b/?.c", true, false, "a/b/xy.c"));
	assert_true(matches("[ab]/x", true, false, "a/x"));
	assert_false(matches("[!ab]/x", true, false, "a/x"));
	assert_true(matches("a.b+(c)", true, false, "a.b+(c)"));
	assert_false(matches("a.b", true, false, "aXb"));
	assert_true(matches("[", true, false, "["));
	assert_true(
	        matches("x[]", true, false, "x[]")); /* not closed, and the end of the pattern */
	assert_true(matches("x[!]", true, false, "x[!]"));
	assert_true(matches("[]a]", true, false, "]"));
	assert_false(matches("[!]a]", true, false, "]"));
	assert_true(matches("[!]a]", true, false, "b"));
}

static void texts_are_not_expressions(void **state)
{
	assert_true(matches("a.*b", false, false, "x a.*b y"));
	assert_false(matches("a.*b", false, false, "axxb"));
	assert_true(matches("\\E(?#", false, false, "\\E(?#"));
	assert_true(matches("a.*b", false, true, "axxb"));
}

static void expressions_cannot_run_away(void **state)
{
	struct match_opts o = { .regex = true };
	char text[40000];
	automatch *m = NULL, *bad = NULL;
	size_t a, b;

	memset(text, 'a', sizeof(text));
	OK(match_new("(a+)+$b", &o, &m, &err));
	assert_int_not_equal(match_find(m, text, sizeof(text), &a, &b), 1);
	assert_int_equal(match_new("(", &o, &bad, &err), -EINVAL);
	assert_int_equal(match_new("\xff", &o, &bad, &err), -EINVAL);
}

/* Lines that match when each is asked by itself; a text that ends with its last line has no more.
 */
static size_t lines_one_by_one(struct match *m, const char *p, size_t n, size_t *ret_sum)
{
	size_t found = 0, sum = 0, a, b;

	for (size_t at = 0; at < n;) {
		const char *nl = memchr(p + at, '\n', n - at);
		size_t len = (nl ? (size_t)(nl - p) : n) - at;

		if (match_find(m, p + at, len, &a, &b) == 1) {
			found++;
			sum += at * 31 + len;
		}
		at += len + 1;
	}
	*ret_sum = sum;
	return found;
}

static size_t lines_at_once(struct match *m, const char *p, size_t n, size_t *ret_sum)
{
	size_t found = 0, sum = 0, at = 0, len = 0;

	while (match_line(m, p, n, at, &at, &len) == 1) {
		found++;
		sum += at * 31 + len;
		at += len + 1;
	}
	*ret_sum = sum;
	return found;
}

static void lines_of_a_text(void **state)
{
	static const char *const patterns[] = {
		"ab",      "a",        "b c",    "^a",        "b$",       "^$",
		"^",       "$",        "a*",     "[^b]*c",    "a.*c",     "a\\s+b",
		"(a|b)+c", "\\bab\\b", "\\Aab",  "ab\\z",     "a(?=b)",   "(?<!a)b",
		"a++b",    "[^a]+$",   "\\W$",   "\\B$",      "(?i)A",    "c\\nb",
		"\\x{e9}", "a\r?$",    "(a)\\1", "(?:ab){2}", "[^x]{20,}"
	};
	static const char letters[] = "aabbc  \n\n\r*x"; /* the star: more than a byte */
	static char text[60000];
	unsigned seed = 7;

	for (size_t k = 0; k < ARRAY_SIZE(patterns) * 16; k++) {
		struct match_opts o = {
			.regex = k & 1, .case_sensitive = k & 2, .whole_word = k & 4, .lines = true
		};
		size_t n = (k & 8) ? sizeof(text) : 300, sum, sum2, one, all;
		automatch *m = NULL;

		for (size_t i = 0; i < n; i++)
			text[i] = letters[(size_t)rand_r(&seed) % (sizeof(letters) - 1)];
		for (size_t i = 0; i + 1 < n; i++)
			if (text[i] == '*')
				text[i] = '\xc3', text[i + 1] = '\xa9';
		if ((k & 8) && k % 3 == 0) /* a long line, and a match behind its first pieces */
			for (size_t i = 5000; i < 40000; i++)
				if (text[i] == '\n')
					text[i] = 'a';
		OK(match_new(patterns[k / 16], &o, &m, &err));
		one = lines_one_by_one(m, text, n, &sum);
		all = lines_at_once(m, text, n, &sum2);
		if (one != all || sum != sum2)
			fail_msg("'%s' (%zu): %zu lines, and %zu at once", patterns[k / 16], k, one,
			         all);
	}
}

/* What PCRE2 does not count: rows of one character, all the way from each place. */
static void long_lines_end_in_time(void **state)
{
	struct match_opts o = { .regex = true, .case_sensitive = true, .lines = true };
	size_t n = 4u << 20, at, len;
	autofree char *text = malloc(n);
	automatch *m = NULL, *far = NULL;

	assert_non_null(text);
	memset(text, 'a', n);
	for (size_t i = 8000; i < n; i += 8000)
		text[i] = 'd';
	OK(match_new("(a)[ab]*cd", &o, &m, &err));
	match_until(m, deadline_in(1)); /* all of it takes tens of them */
	assert_int_equal(match_line(m, text, n, 0, &at, &len), -ELOOP);
	text[n - 10] = 'n';
	OK(match_new("n+a", &o, &far, &err));
	assert_int_equal(match_line(far, text, n, 0, &at, &len), 1);
	assert_int_equal(at, 0);
	assert_int_equal(len, n);
}

static void hostile_paths_are_refused(void **state)
{
	static const char *const bad[] = { "",         "/a",     "a/",    "a//b",  ".",
		                           "..",       "a/..",   "../a",  "a/./b", ".git",
		                           "a/.git/b", ".GIT/x", ".git.", ".git ", "git~1/a",
		                           "a\\b",     "a\nb",   "\xff",  "a\x7f" };
	static const char *const good[] = { "a",   "a/b",      ".gitignore", ".github/x", "...",
		                            "a b", "\xc3\xa9", "git",        "x.git",     "-rf" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (tree_path_check(bad[i], &err) == 0 || err.tag != ERR_INVALID_FILE_PATH)
			fail_msg("'%s' is taken", bad[i]);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		OK(tree_path_check(good[i], &err));
}

static bool internal(const char *text)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
	struct sockaddr_in four = { .sin_family = AF_INET };

	if (inet_pton(AF_INET, text, &four.sin_addr) == 1)
		return sock_is_internal((struct sockaddr *)&four);
	assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
	return sock_is_internal((struct sockaddr *)&six);
}

static void internal_addresses_are_known(void **state)
{
	static const char *const in[] = { "127.0.0.1",
		                          "127.9.9.9",
		                          "0.0.0.0",
		                          "10.1.2.3",
		                          "172.16.0.1",
		                          "172.31.255.255",
		                          "192.168.1.1",
		                          "169.254.169.254",
		                          "100.64.0.1",
		                          "198.18.0.1",
		                          "224.0.0.1",
		                          "255.255.255.255",
		                          "::1",
		                          "::",
		                          "fe80::1",
		                          "fc00::1",
		                          "fd12::1",
		                          "ff02::1",
		                          "::ffff:10.0.0.1",
		                          "::ffff:127.0.0.1",
		                          "2002:7f00:1::",
		                          "64:ff9b::a00:1" };
	static const char *const out[] = { "8.8.8.8",     "172.32.0.1",   "192.169.0.1",
		                           "100.128.0.1", "2606:4700::1", "::ffff:8.8.8.8" };

	for (size_t i = 0; i < ARRAY_SIZE(in); i++)
		if (!internal(in[i]))
			fail_msg("%s is reached", in[i]);
	for (size_t i = 0; i < ARRAY_SIZE(out); i++)
		if (internal(out[i]))
			fail_msg("%s is not reached", out[i]);
}

static void passwords_leave_the_address(void **state)
{
	struct source_auth a;

	source_auth("https://u%40x:p%3Aq@host.example:8443/r.git?x#y", &a);
	assert_string_equal(a.url, "https://host.example:8443/r.git?x#y");
	assert_string_equal(a.key, "GIT_CONFIG_KEY_0=http.https://host.example:8443/.extraHeader");
	assert_string_equal(a.value, "GIT_CONFIG_VALUE_0=Authorization: Basic dUB4OnA6cQ==");
	source_auth("http://token@h/r", &a);
	assert_string_equal(a.value, "GIT_CONFIG_VALUE_0=Authorization: Basic dG9rZW46");
	source_auth("https://host/a@b", &a);
	assert_string_equal(a.url, "https://host/a@b");
	assert_null(a.env[0]);
	source_auth_done(&a);
}

static void names_and_ids(void **state)
{
	assert_true(repo_id_valid("00000000-0000-4000-8000-000000000000"));
	assert_false(repo_id_valid("00000000-0000-4000-8000-00000000000"));
	assert_false(repo_id_valid("00000000-0000-4000-8000-00000000000A"));
	assert_false(repo_id_valid("../../../../etc/passwd-aaaaaaaaaaaaa"));
	assert_false(repo_id_valid(""));
	assert_true(repo_branch_valid("feature/x"));
	assert_false(repo_branch_valid("-x"));
	assert_false(repo_branch_valid("a..b"));
	assert_false(repo_branch_valid("HEAD"));
	assert_false(repo_branch_valid("a b"));
	assert_false(repo_branch_valid("x.lock"));
	assert_false(repo_branch_valid(""));
}

static void webhooks_are_tried_for_a_day(void **state)
{
	int64_t sum = 0, last = 0, wait;
	uint32_t n = 1;

	for (; (wait = hook_wait_ms(n, 10)) >= 0; n++) {
		assert_true(wait >= last);
		sum += last = wait;
		assert_true(n < 100);
	}
	assert_int_equal(hook_wait_ms(1, 10), 10000);
	assert_in_range(n, 8, 20);
	assert_in_range(sum / 1000, 24 * 3600, 25 * 3600);
	assert_int_equal(hook_wait_ms(n + 1000, 10), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(globs_know_slashes),
		cmocka_unit_test(texts_are_not_expressions),
		cmocka_unit_test(expressions_cannot_run_away),
		cmocka_unit_test(lines_of_a_text),
		cmocka_unit_test(long_lines_end_in_time),
		cmocka_unit_test(hostile_paths_are_refused),
		cmocka_unit_test(internal_addresses_are_known),
		cmocka_unit_test(passwords_leave_the_address),
		cmocka_unit_test(names_and_ids),
		cmocka_unit_test(webhooks_are_tried_for_a_day),
	};

	git_libgit2_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
