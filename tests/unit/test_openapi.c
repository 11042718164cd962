/* SPDX-License-Identifier: Apache-2.0 */
/* test_openapi.c - types as text, tables of fields, and the document that is made of all routes */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/api_fx.h"

#include "api/call.h"
#include "api/doc/openapi.h"
#include "api/doc/schema.h"
#include "base/auto.h"

/* The text's schema is this JSON. */
static void is(const char *text, const char *want)
{
	autojson json_t *type = NULL, *w = json_loads(want, JSON_DECODE_ANY, NULL);
	autofree char *got = NULL;

	assert_non_null(w);
	if (schema_parse(text, &type, &err) < 0)
		fail_msg("'%s': %s", text, err.msg);
	got = json_dumps(type, JSON_COMPACT | JSON_SORT_KEYS);
	if (!json_equal(type, w))
		fail_msg("'%s' is %s, not %s", text, got, want);
}

static void types_as_text(void **state)
{
	is("string", "{\"type\": \"string\"}");
	is("any", "{}");
	is("string | null", "{\"type\": [\"string\", \"null\"]}");
	is("time | null", "{\"type\": [\"string\", \"null\"], \"format\": \"date-time\"}");
	is("'tcp' | 'udp'", "{\"enum\": [\"tcp\", \"udp\"]}");
	is("'tcp' | null", "{\"enum\": [\"tcp\", null]}");
	is("int<1..65535>", "{\"type\": \"integer\", \"minimum\": 1, \"maximum\": 65535}");
	is("int<0..>", "{\"type\": \"integer\", \"minimum\": 0}");
	is("Vm[]", "{\"type\": \"array\", \"items\": {\"$ref\": \"#/components/schemas/Vm\"}}");
	is("Vm | null",
	   "{\"anyOf\": [{\"$ref\": \"#/components/schemas/Vm\"}, {\"type\": \"null\"}]}");
	is("(int | string)[]",
	   "{\"type\": \"array\", \"items\": {\"type\": [\"integer\", \"string\"]}}");
	is("{*: string}",
	   "{\"type\": \"object\", \"additionalProperties\": {\"type\": \"string\"}}");
	is("{id: string =of the VM=, n?: int}",
	   "{\"type\": \"object\", \"required\": [\"id\"], \"properties\": {\"id\": {\"type\": "
	   "\"string\", \"description\": \"of the VM\"}, \"n\": {\"type\": \"integer\"}}}");
	is("Key & {key: string}",
	   "{\"allOf\": [{\"$ref\": \"#/components/schemas/Key\"}, {\"type\": \"object\", "
	   "\"required\": [\"key\"], \"properties\": {\"key\": {\"type\": \"string\"}}}]}");
}

static void wrong_types_are_quoted(void **state)
{
	static const char *const wrong[] = {
		"",     "strin",  "{id string}",   "{id: string",        "Vm[",
		"'tcp", "int<1>", "string string", "{id: string =words}"
	};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		json_t *type = NULL;

		err = (struct err){ 0 };
		assert_int_equal(schema_parse(wrong[i], &type, &err), -EINVAL);
		assert_null(type);
		assert_non_null(strchr(err.msg, '\''));
	}
}

struct some {
	char name[8];
	int64_t n;
	json_t *any;
};

static void tables_are_schemas(void **state)
{
	static const struct json_field good[] = {
		JSON_FIELD_STR(some, name, "name", JSON_REQUIRED),
		JSON_FIELD(JSON_WANT_I64, some, n, "n", JSON_NULLABLE, 1, 5, NULL, "how many"),
		JSON_FIELD(JSON_WANT_ANY, some, any, "any", 0, 0, 0, "string[] | null"),
	};
	static const struct json_field bare[] = {
		JSON_FIELD(JSON_WANT_ANY, some, any, "any", 0, 0, 0),
	};
	autojson json_t *type = NULL, *none = NULL;
	autojson json_t *want = json_loads("{\"type\": \"object\", \"required\": [\"name\"], "
	                                   "\"properties\": {\"name\": {\"type\": "
	                                   "\"string\", \"maxLength\": 7}, \"n\": {\"type\": "
	                                   "[\"integer\", \"null\"], \"minimum\": "
	                                   "1, \"maximum\": 5, \"description\": \"how many\"}, "
	                                   "\"any\": {\"type\": [\"array\", "
	                                   "\"null\"], \"items\": {\"type\": \"string\"}}}}",
	                                   0, NULL);

	assert_int_equal(schema_of_table(&(struct json_table){ "Some", good, 3 }, &type, &err), 0);
	assert_true(json_equal(type, want));
	assert_int_equal(schema_of_table(&(struct json_table){ "Bare", bare, 1 }, &none, &err),
	                 -EINVAL);
	assert_non_null(strstr(err.msg, "'any' of the table Bare"));
}

static json_t *built(void)
{
	json_t *doc = NULL;

	err = (struct err){ 0 };
	if (openapi_build(&doc, &err) < 0)
		fail_msg("%s", err.msg);
	return doc;
}

/* An alias belongs to a route that is described. */
static void every_route_is_described(void **state)
{
	autojson json_t *doc = built();
	json_t *paths = json_object_get(doc, "paths");
	size_t n = 0;

	for (size_t i = 0; i < api_n_routes; i++) {
		const struct route *r = &api_routes[i];
		bool other = false;

		n += !(r->flags & ROUTE_ALIAS) && doc_section(r);
		for (size_t k = 0; k < api_n_routes; k++)
			other |= !(api_routes[k].flags & ROUTE_ALIAS) &&
			         api_routes[k].handler == r->handler;
		if (!other)
			fail_msg("%s is an alias of nothing", r->pattern);
	}
	for (void *p = json_object_iter(paths); p; p = json_object_iter_next(paths, p))
		n -= json_object_size(json_object_iter_value(p));
	assert_int_equal(n, 0);
}

/* Clients are generated from these names: none may disappear. */
static void operations_keep_their_names(void **state)
{
	autojson json_t *doc = built(), *ids = json_object();
	json_t *paths = json_object_get(doc, "paths"), *at, *op;
	const char *file = getenv("PANDO_OPERATIONS"), *path, *method;
	char line[128];
	FILE *f;

	json_object_foreach(paths, path, at)
	{
		json_object_foreach(at, method, op)
		{
			json_object_set(ids, fx_str(op, "operationId"), op);
		}
	}
	if (getenv("PANDO_GOLDEN_UPDATE")) {
		f = fopen(file, "we");
		assert_non_null(f);
		json_object_foreach(ids, path, op) fprintf(f, "%s\n", path);
		fclose(f);
	}
	f = fopen(file, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line && !json_object_get(ids, line))
			fail_msg("the operation '%s' is gone: a handler was renamed; name it with "
			         "DOC(ID, \"%s\"), or take it out of %s if the route is gone",
			         line, line, file);
	}
	fclose(f);
}

/* Down to a depth one member per line, the rest of it on that line: one line for each route and
 * each type, so that a change of the API is a change of the lines it is about. */
static void dump_lines(FILE *f, const json_t *j, unsigned depth, unsigned indent)
{
	const char *name;
	json_t *v;
	size_t left = json_object_size(j);

	if (!depth || !json_is_object(j) || !left) {
		assert_int_equal(json_dumpf(j, f, JSON_COMPACT | JSON_ENCODE_ANY), 0);
		return;
	}
	fputs("{\n", f);
	json_object_foreach((json_t *)j, name, v)
	{
		fprintf(f, "%*s\"%s\": ", (int)indent + 1, "", name);
		dump_lines(f, v, depth - 1, indent + 1);
		fputs(--left ? ",\n" : "\n", f);
	}
	fprintf(f, "%*s}", (int)indent, "");
}

static void write_copy(const json_t *doc, const char *file)
{
	FILE *f = fopen(file, "we");

	assert_non_null(f);
	dump_lines(f, doc, 3, 0);
	fputc('\n', f);
	assert_int_equal(fclose(f), 0);
}

/* docs/openapi.json is for readers without a server: the docs site and generated clients. */
static void the_copy_in_docs_is_current(void **state)
{
	autojson json_t *doc = built(), *copy = NULL;
	const char *file = getenv("PANDO_OPENAPI");

	if (getenv("PANDO_GOLDEN_UPDATE"))
		write_copy(doc, file);
	copy = json_load_file(file, 0, NULL);
	if (!copy || !json_equal(copy, doc))
		fail_msg("%s is not what the routes say: run this test with PANDO_GOLDEN_UPDATE=1 "
		         "and "
		         "commit it",
		         file);
}

static void it_is_served_with_an_etag(void **state)
{
	struct fx *f = *state;
	struct http_reply r;
	char header[128], etag[64];

	assert_int_equal(http_call(f->port, "GET", "/openapi.json", "", NULL, 0, &r), 0);
	assert_int_equal(r.status, 200);
	assert_string_equal(fx_str(r.json, "openapi"), "3.1.0");
	assert_non_null(http_header(&r, "etag"));
	snprintf(etag, sizeof(etag), "%s", http_header(&r, "etag"));
	http_reply_done(&r);
	snprintf(header, sizeof(header), "If-None-Match: %s\r\n", etag);
	assert_int_equal(http_call(f->port, "GET", "/openapi.json", header, NULL, 0, &r), 0);
	assert_int_equal(r.status, 304);
	http_reply_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_as_text),
		cmocka_unit_test(wrong_types_are_quoted),
		cmocka_unit_test(tables_are_schemas),
		cmocka_unit_test(every_route_is_described),
		cmocka_unit_test(operations_keep_their_names),
		cmocka_unit_test(the_copy_in_docs_is_current),
		cmocka_unit_test_setup_teardown(it_is_served_with_an_etag, fx_setup, fx_teardown),
	};

	return FX_RUN(tests);
}
