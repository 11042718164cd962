/* SPDX-License-Identifier: Apache-2.0 */
/* test_json.c - field tables: what is accepted, what is rejected, and the error messages */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/json_field.h"
#include "tests/unit/check.h"

struct body {
	char name[8];
	const char *ref;
	bool flag;
	uint32_t count;
	int64_t secs;
	enum json_presence secs_seen;
	json_t *spec, *list, *any;
};

static const struct json_field fields[] = {
	JSON_FIELD_STR(body, name, "name", JSON_NULLABLE),
	JSON_FIELD(JSON_WANT_STRREF, body, ref, "ref", 0, 0, 4),
	JSON_FIELD(JSON_WANT_BOOL, body, flag, "flag", 0, 0, 0),
	JSON_FIELD(JSON_WANT_U32, body, count, "count", 0, 1, 100),
	JSON_FIELD_P(JSON_WANT_I64, body, secs, secs_seen, "secs", JSON_NULLABLE, 0, 1000),
	JSON_FIELD(JSON_WANT_OBJECT, body, spec, "spec", 0, 0, 0),
	JSON_FIELD(JSON_WANT_ARRAY, body, list, "list", 0, 0, 0),
	JSON_FIELD(JSON_WANT_ANY, body, any, "any", 0, 0, 0),
};
static const struct json_field required[] = {
	JSON_FIELD_STR(body, name, "name", JSON_REQUIRED),
};

static int read_text(const char *text, struct body *b, json_t **ret_doc)
{
	int r = json_text_parse(text, strlen(text), ret_doc, &err);

	return r < 0 ? r : json_fields_read(*ret_doc, "", fields, ARRAY_SIZE(fields), b, &err);
}

static void everything_lands_in_its_place(void **state)
{
	autojson json_t *doc = NULL;
	struct body b = { 0 };

	OK(read_text(
	        "{\"name\":\"1234567\",\"ref\":\"abcd\",\"flag\":true,\"count\":100.0,\"secs\":5,"
	        "\"spec\":{\"x\":1},\"list\":[],\"any\":null,\"other\":{}}",
	        &b, &doc));
	assert_string_equal(b.name, "1234567");
	assert_string_equal(b.ref, "abcd");
	assert_true(b.flag);
	assert_int_equal(b.count, 100);
	assert_int_equal(b.secs, 5);
	assert_int_equal(b.secs_seen, JSON_IS_GIVEN);
	assert_true(json_is_object(b.spec) && json_is_array(b.list) && json_is_null(b.any));
}

static void absent_null_and_given_differ(void **state)
{
	autojson json_t *doc = NULL, *doc2 = NULL;
	struct body b = { .secs = 300, .name = "old" };

	OK(read_text("{}", &b, &doc));
	assert_int_equal(b.secs_seen, JSON_IS_ABSENT);
	assert_int_equal(b.secs, 300);
	OK(read_text("{\"secs\":null,\"name\":null}", &b, &doc2));
	assert_int_equal(b.secs_seen, JSON_IS_NULL);
	assert_int_equal(b.secs, 300);
	assert_string_equal(b.name, "old");
}

static void refusals_name_the_member(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "{\"name\":1}", "'name' must be a string or null" },
		{ "{\"name\":\"12345678\"}", "'name' must be a string of at most 7 bytes or null" },
		{ "{\"ref\":\"abcde\"}", "'ref' must be a string of at most 4 bytes" },
		{ "{\"ref\":null}", "'ref' must be a string" },
		{ "{\"flag\":1}", "'flag' must be true or false" },
		{ "{\"count\":0}", "'count' must be a whole number from 1 to 100" },
		{ "{\"count\":101}", "'count' must be a whole number from 1 to 100" },
		{ "{\"count\":1.5}", "'count' must be a whole number from 1 to 100" },
		{ "{\"count\":1e300}", "'count' must be a whole number from 1 to 100" },
		{ "{\"count\":\"5\"}", "'count' must be a whole number from 1 to 100" },
		{ "{\"secs\":-1}", "'secs' must be a whole number from 0 to 1000 or null" },
		{ "{\"spec\":[]}", "'spec' must be an object" },
		{ "{\"list\":{}}", "'list' must be an array" },
		{ "[]", "must be a JSON object" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		autojson json_t *doc = NULL;
		struct body b = { 0 };

		FAILS(-EINVAL, read_text(bad[i].text, &b, &doc));
		if (!strstr(err.msg, bad[i].says))
			fail_msg("'%s' gave: %s", bad[i].text, err.msg);
	}
}

static void required_and_prefix(void **state)
{
	autojson json_t *doc = NULL;
	struct body b = { 0 };

	OK(json_text_parse("", 0, &doc, &err)); /* no body is an empty object */
	FAILS(-EINVAL, json_fields_read(doc, "spec.", required, 1, &b, &err));
	assert_string_equal(err.msg, "'spec.name' is missing");
	json_object_set_new(doc, "name", json_null());
	FAILS(-EINVAL, json_fields_read(doc, "spec.", required, 1, &b, &err));
	assert_string_equal(err.msg, "'spec.name' must be a string");
}

static void what_is_not_json_is_refused(void **state)
{
	static const char *const bad[] = { " ",
		                           "{",
		                           "{\"a\":1,\"a\":2}",
		                           "nul",
		                           "{\"a\":1}x",
		                           "{\"a\":\"\\u0000\"}",
		                           "{\"a\":\"\xff\"}",
		                           "\"s\"" };
	char deep[200], fine[200];
	autojson json_t *ok = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		json_t *doc = NULL;

		FAILS(-EBADMSG, json_text_parse(bad[i], strlen(bad[i]), &doc, &err));
		assert_null(doc);
	}
	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	FAILS(-E2BIG, json_text_parse(deep, sizeof(deep), &ok, &err));
	/* Brackets inside strings do not count. */
	memset(fine, '[', sizeof(fine));
	fine[1] = fine[3] = fine[sizeof(fine) - 2] = '"';
	fine[2] = '\\';
	fine[sizeof(fine) - 1] = ']';
	OK(json_text_parse(fine, sizeof(fine), &ok, &err));
}

/* What the count says before parsing, and what jansson then makes of it. */
static size_t built(const json_t *j)
{
	const char *name;
	json_t *v;
	size_t n = 1, i;

	json_array_foreach(j, i, v)
	{
		n += built(v);
	}
	json_object_foreach((json_t *)(uintptr_t)j, name, v)
	{
		n += 1 + built(v);
	}
	return n;
}

static void values_are_counted_before_they_are_built(void **state)
{
	static const char *const texts[] = {
		"{}",
		" [ ] ",
		"{\"a\":1,\"b\":[true,null,-1.5e3,\"x\"],\"c\":{\"d\":{}}}",
		"[\"a,b\",\"\\\"\",\"\\\\\",\"[{}]\",\"\"]",
		"[1,2,3,[4],[[5]],{\"6\":7}]",
		"[1\n,\t2\r, 3]",
	};
	const size_t max = JSON_VALUES_MAX;
	autobuf struct buf many = { 0 };
	autojson json_t *doc = NULL, *over = NULL;
	size_t n, i;

	for (i = 0; i < ARRAY_SIZE(texts); i++) {
		autojson json_t *j = NULL;

		OK(json_text_check(texts[i], strlen(texts[i]), 100, &n, &err));
		OK(json_text_load(texts[i], strlen(texts[i]), &j, &err));
		assert_int_equal(n, built(j));
		FAILS(-E2BIG, json_text_check(texts[i], strlen(texts[i]), n - 1, &n, &err));
	}
	buf_put(&many, "[{}", 3);
	for (i = 1; i + 1 < max; i++)
		buf_put(&many, ",{}", 3);
	buf_put(&many, "]", 1);
	assert_false(many.failed);
	OK(json_text_parse(many.p, many.len, &doc, &err)); /* the array itself is one, too */
	many.len--;
	buf_put(&many, ",{}]", 4);
	FAILS(-E2BIG, json_text_parse(many.p, many.len, &over, &err));
	assert_non_null(strstr(err.msg, "16384 values"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_lands_in_its_place),
		cmocka_unit_test(absent_null_and_given_differ),
		cmocka_unit_test(refusals_name_the_member),
		cmocka_unit_test(required_and_prefix),
		cmocka_unit_test(what_is_not_json_is_refused),
		cmocka_unit_test(values_are_counted_before_they_are_built),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
