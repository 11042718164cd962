/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_json.c - any body through the parser and a field table of every type */
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

static void must(bool ok)
{
	if (!ok)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t = { .guard0 = "abc", .guard1 = "xyz", .u32 = 3 };
	autojson json_t *j = NULL;
	struct err err = { 0 };

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
	if (t.name_seen != JSON_IS_GIVEN)
		must(t.name[0] == '\0');
	return 0;
}
