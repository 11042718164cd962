/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_json.c - any body through the parser and a field table of every type
 *
 * Afterwards every member that nobody asked for is named, and none that somebody did. What is in a
 * body is also text that goes into another one: it is always UTF-8 there, and never grows by
 * more than three for one.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/json_field.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
	char guard0[4];
	char name[8];
	char guard1[4];
	const char *ref;
	bool flag;
	uint32_t u32;
	int64_t i64;
	json_t *object, *array, *any;
	enum json_presence name_seen, i64_seen;
};

static const struct json_field fields[] = {
	JSON_FIELD_P(JSON_WANT_STR, target, name, name_seen, "name", JSON_NULLABLE, 0, 8),
	JSON_FIELD(JSON_WANT_STRREF, target, ref, "ref", 0, 0, 16),
	JSON_FIELD(JSON_WANT_BOOL, target, flag, "flag", 0, 0, 0),
	JSON_FIELD(JSON_WANT_U32, target, u32, "u32", 0, 3, 1000),
	JSON_FIELD_P(JSON_WANT_I64, target, i64, i64_seen, "i64", JSON_NULLABLE, -5, 1ll << 40),
	JSON_FIELD(JSON_WANT_OBJECT, target, object, "object", 0, 0, 0),
	JSON_FIELD(JSON_WANT_ARRAY, target, array, "array", 0, 0, 0),
	JSON_FIELD(JSON_WANT_ANY, target, any, "any", JSON_NULLABLE, 0, 0),
};

/* The same, but all of it has to be there. */
static const struct json_field needed[] = {
	JSON_FIELD(JSON_WANT_U32, target, u32, "u32", JSON_REQUIRED, 0, 10),
	JSON_FIELD(JSON_WANT_STRREF, target, ref, "ref", JSON_REQUIRED, 0, 16),
};

static void must(bool ok)
{
	if (!ok)
		abort();
}

struct unknown {
	const json_t *root;
	unsigned n;
};

static void on_unknown(void *ctx, const char *prefix, const char *name, const char *near)
{
	struct unknown *u = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		must(*prefix || strcmp(fields[i].name, name) != 0);
	must(*prefix || json_object_get(u->root, name));
	must(!near || *near);
	u->n++;
}

/* An object inside is read, too, as a spec's parts are. */
static void check_seen(json_t *j)
{
	static struct json_seen seen;
	struct unknown u = { .root = j };
	struct target t = { 0 };
	json_t *object = json_object_get(j, "object"), *v;
	size_t i;

	seen = (struct json_seen){ 0 };
	json_seen_watch(&seen);
	json_fields_read(j, "", fields, ARRAY_SIZE(fields), &t, NULL);
	if (object)
		json_fields_know(object, "object.", needed, ARRAY_SIZE(needed));
	json_array_foreach(json_object_get(j, "array"), i, v)
	{
		if (json_is_object(v))
			json_fields_read(v, "array.", needed, ARRAY_SIZE(needed), &t, NULL);
	}
	json_seen_watch(NULL);
	json_seen_unknown(&seen, j, on_unknown, &u);
	must(!seen.full || u.n == 0);
}

static void check_text(const uint8_t *data, size_t size)
{
	autojson json_t *s = json_text(data, size);

	must(json_is_string(s) && json_string_length(s) <= 3 * size);
	must(size || !json_string_length(s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t = { .guard0 = "abc", .guard1 = "xyz", .u32 = 3 };
	autojson json_t *j = NULL;
	struct err err = { 0 };
	size_t values;

	check_text(data, size);
	if (json_text_check(data, size, 40, &values, &err) < 0)
		must(err.code == -E2BIG && err.msg[0]);
	err = (struct err){ 0 };
	if (json_text_parse(data, size, &j, &err) < 0) {
		must(!j && err.code < 0 && err.msg[0]);
		return 0;
	}
	if (json_fields_read(j, "", fields, ARRAY_SIZE(fields), &t, &err) < 0)
		must(err.code < 0 && err.msg[0]);
	must(memcmp(t.guard0, "abc", 4) == 0 && memcmp(t.guard1, "xyz", 4) == 0);
	must(memchr(t.name, 0, sizeof(t.name)) != NULL);
	must(!t.ref || strlen(t.ref) <= 16);
	must(t.u32 >= 3 && t.u32 <= 1000);
	must(t.i64 >= -5 && t.i64 <= 1ll << 40);
	must(!t.object || json_is_object(t.object));
	must(!t.array || json_is_array(t.array));
	check_seen(j);
	if (t.name_seen != JSON_IS_GIVEN)
		must(t.name[0] == '\0');
	return 0;
}
