/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.c - types as short text (schema.h) and tables of fields to JSON Schema 2020-12
 *
 * A recursive descent over text that is part of this program: nothing here reads input from
 * outside. Alternatives of plain types become "type": [...], quoted words one "enum", everything
 * else "anyOf".
 */
#include "api/doc/schema.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/json_field.h"

#define WORD_MAX 64
#define DEPTH_MAX 16

struct text {
	const char *begin, *p;
	unsigned depth;
};

static int bad(const struct text *t, const char *want, struct err *err)
{
	return err_set(err, -EINVAL, "%s is expected at '%.40s' of '%.120s'", want, t->p, t->begin);
}

static char peek(struct text *t)
{
	t->p += strspn(t->p, " \t\n");
	return *t->p;
}

static bool eat(struct text *t, char c)
{
	if (peek(t) != c)
		return false;
	t->p++;
	return true;
}

/* [A-Za-z0-9_.-]+ */
static int word(struct text *t, char ret[WORD_MAX], struct err *err)
{
	size_t n;

	peek(t);
	for (n = 0; isalnum((unsigned char)t->p[n]) || (t->p[n] && strchr("_.-", t->p[n])); n++)
		;
	if (n == 0 || n >= WORD_MAX)
		return bad(t, "a name", err);
	memcpy(ret, t->p, n);
	ret[n] = '\0';
	t->p += n;
	return 0;
}

static int parse_type(struct text *t, json_t **ret, struct err *err);

static json_t *plain(const char *name)
{
	static const struct {
		const char *name, *type, *more, *value;
	} all[] = {
		{ "string", "string", NULL, NULL },
		{ "int", "integer", NULL, NULL },
		{ "number", "number", NULL, NULL },
		{ "bool", "boolean", NULL, NULL },
		{ "null", "null", NULL, NULL },
		{ "time", "string", "format", "date-time" },
		{ "uri", "string", "format", "uri" },
		{ "bytes", "string", "contentEncoding", "base64" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].more ? json_pack("{s:s, s:s}", "type", all[i].type,
			                               all[i].more, all[i].value)
			                   : json_pack("{s:s}", "type", all[i].type);
	return strcmp(name, "any") == 0 ? json_object() : NULL;
}

/* "<1..5>" after int */
static int parse_range(struct text *t, json_t *type, struct err *err)
{
	static const char *const names[] = { "minimum", "maximum" };

	if (*t->p != '<')
		return 0;
	t->p++;
	for (int i = 0; i < 2; i++) {
		char *end;
		long long v = strtoll(t->p, &end, 10);

		if (end != t->p)
			json_object_set_new(type, names[i], json_integer(v));
		t->p = end;
		if (i == 0 && strncmp(t->p, "..", 2) != 0)
			return bad(t, "'..'", err);
		t->p += i == 0 ? 2 : 0;
	}
	return eat(t, '>') ? 0 : bad(t, "'>'", err);
}

static int each_member(struct text *t, char end, schema_member_fn fn, void *ctx, struct err *err)
{
	int r;

	while (peek(t) != end) {
		autojson json_t *type = NULL;
		char name[WORD_MAX];
		bool optional;

		if (eat(t, '*'))
			name[0] = '\0';
		else if ((r = word(t, name, err)) < 0)
			return r;
		optional = eat(t, '?');
		if (!eat(t, ':'))
			return bad(t, "':'", err);
		if ((r = parse_type(t, &type, err)) < 0)
			return r;
		if (eat(t, '=')) {
			const char *stop = strchr(t->p, '=');

			if (!stop)
				return bad(t, "the end of the words", err);
			json_object_set_new(type, "description",
			                    json_stringn(t->p, (size_t)(stop - t->p)));
			t->p = stop + 1;
		}
		if ((r = fn(ctx, name, !optional, type, err)) < 0)
			return r;
		if (!eat(t, ','))
			break;
	}
	return peek(t) == end ? 0 : bad(t, "',' or the end", err);
}

static int add_member(void *ctx, const char *name, bool required, json_t *type, struct err *err)
{
	json_t *object = ctx, *list;

	if (!*name)
		return json_object_set(object, "additionalProperties", type);
	list = json_object_get(object, "properties");
	if (!list)
		json_object_set_new(object, "properties", list = json_object());
	json_object_set(list, name, type);
	if (!required)
		return 0;
	list = json_object_get(object, "required");
	if (!list)
		json_object_set_new(object, "required", list = json_array());
	return json_array_append_new(list, json_string(name));
}

static int parse_one(struct text *t, json_t **ret, struct err *err)
{
	autojson json_t *type = NULL;
	char name[WORD_MAX];
	int r;

	if (eat(t, '{')) {
		type = json_pack("{s:s}", "type", "object");
		if ((r = each_member(t, '}', add_member, type, err)) < 0)
			return r;
		t->p++;
	} else if (eat(t, '(')) {
		if ((r = parse_type(t, &type, err)) < 0)
			return r;
		if (!eat(t, ')'))
			return bad(t, "')'", err);
	} else if (peek(t) == '\'') {
		const char *stop = strchr(++t->p, '\'');

		if (!stop)
			return bad(t, "a quote", err);
		type = json_pack("{s:s#}", "const", t->p, (int)(stop - t->p));
		t->p = stop + 1;
	} else {
		if ((r = word(t, name, err)) < 0)
			return r;
		type = plain(name);
		if (!type && isupper((unsigned char)name[0]))
			type = json_pack("{s:s+}", "$ref", SCHEMA_REF, name);
		if (!type)
			return err_set(err, -EINVAL, "there is no type '%s' in '%.120s'", name,
			               t->begin);
		if ((r = parse_range(t, type, err)) < 0)
			return r;
	}
	while (strncmp(t->p, "[]", 2) == 0) {
		t->p += 2;
		type = json_pack("{s:s, s:o}", "type", "array", "items", type);
	}
	*ret = TAKE_PTR(type);
	return 0;
}

/* A & B & ... */
static int parse_all(struct text *t, json_t **ret, struct err *err)
{
	autojson json_t *all = json_array();
	int r;

	do {
		json_t *one = NULL;

		if ((r = parse_one(t, &one, err)) < 0)
			return r;
		json_array_append_new(all, one);
	} while (eat(t, '&'));
	*ret = json_array_size(all) == 1 ? json_incref(json_array_get(all, 0))
	                                 : json_pack("{s:O}", "allOf", all);
	return 0;
}

/* Alternatives: words to one enum, plain types to one list of types. */
static json_t *any_of(json_t *all)
{
	autojson json_t *words = json_array(), *types = json_array(), *rest = json_array();
	json_t *one, *null = NULL;
	size_t i;

	json_array_foreach(all, i, one)
	{
		json_t *type = json_object_get(one, "type");

		if (json_object_get(one, "const"))
			json_array_append(words, json_object_get(one, "const"));
		else if (json_is_string(type) && json_object_size(one) == 1) {
			json_array_append(types, type);
			null = strcmp(json_string_value(type), "null") == 0 ? type : null;
		} else {
			json_array_append(rest, one);
		}
	}
	if (json_array_size(words) && null && json_array_size(types) == 1) {
		json_array_append_new(words, json_null()); /* one of the words, or null */
		json_array_clear(types);
	}
	if (json_array_size(words))
		json_array_append_new(rest, json_pack("{s:O}", "enum", words));
	if (json_array_size(types) == 1 && json_array_size(rest) == 1 &&
	    json_is_string(json_object_get(json_array_get(rest, 0), "type"))) {
		/* a time, a list or an object that may be null */
		one = json_deep_copy(json_array_get(rest, 0));
		json_object_set_new(one, "type",
		                    json_pack("[O, O]", json_object_get(one, "type"),
		                              json_array_get(types, 0)));
		return one;
	}
	if (json_array_size(types))
		json_array_append_new(
		        rest,
		        json_pack("{s:O}", "type",
		                  json_array_size(types) == 1 ? json_array_get(types, 0) : types));
	return json_array_size(rest) == 1 ? json_incref(json_array_get(rest, 0))
	                                  : json_pack("{s:O}", "anyOf", rest);
}

static int parse_type(struct text *t, json_t **ret, struct err *err)
{
	autojson json_t *all = json_array();
	int r;

	if (++t->depth > DEPTH_MAX)
		return bad(t, "less nesting", err);
	do {
		json_t *one = NULL;

		if ((r = parse_all(t, &one, err)) < 0)
			return r;
		json_array_append_new(all, one);
	} while (eat(t, '|'));
	t->depth--;
	*ret = json_array_size(all) == 1 && !json_object_get(json_array_get(all, 0), "const")
	               ? json_incref(json_array_get(all, 0))
	               : any_of(all);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int schema_parse(const char *text, json_t **ret, struct err *err)
{
	struct text t = { .begin = text, .p = text };
	autojson json_t *type = NULL;
	int r = parse_type(&t, &type, err);

	if (r < 0)
		return r;
	if (peek(&t))
		return bad(&t, "the end", err);
	*ret = TAKE_PTR(type);
	return 0;
}

int schema_members(const char *text, schema_member_fn fn, void *ctx, struct err *err)
{
	struct text t = { .begin = text, .p = text };

	return each_member(&t, '\0', fn, ctx, err);
}

/* ---- tables ---- */

/* Lengths in a table are bytes, those of a schema characters: only the upper one holds for both. */
static json_t *field_type(const struct json_field *f)
{
	json_t *type = NULL;

	switch (f->type) {
	case JSON_WANT_STR:
	case JSON_WANT_STRREF:
		type = json_pack("{s:s}", "type", "string");
		if (f->min > 0)
			json_object_set_new(type, "minLength", json_integer(1));
		if (f->max > 0 && f->max < INT32_MAX)
			json_object_set_new(type, "maxLength",
			                    json_integer(f->max - (f->type == JSON_WANT_STR)));
		break;
	case JSON_WANT_BOOL:
		type = json_pack("{s:s}", "type", "boolean");
		break;
	case JSON_WANT_U32:
	case JSON_WANT_I64:
		type = json_pack("{s:s}", "type", "integer");
		if (f->min > INT64_MIN)
			json_object_set_new(type, "minimum", json_integer(f->min));
		if (f->max < INT64_MAX)
			json_object_set_new(type, "maximum", json_integer(f->max));
		break;
	case JSON_WANT_OBJECT:
	case JSON_WANT_ARRAY:
	case JSON_WANT_ANY:
		break;
	}
	return type;
}

static void allow_null(json_t **type)
{
	json_t *t = json_object_get(*type, "type"), *e = json_object_get(*type, "enum");

	if (e)
		json_array_append_new(e, json_null());
	else if (json_is_string(t))
		json_object_set_new(*type, "type", json_pack("[O, s]", t, "null"));
	else
		*type = json_pack("{s:[o, {s:s}]}", "anyOf", *type, "type", "null");
}

int schema_of_table(const struct json_table *t, json_t **ret, struct err *err)
{
	autojson json_t *object = json_pack("{s:s}", "type", "object");
	int r;

	for (size_t i = 0; i < t->n; i++) {
		const struct json_field *f = &t->fields[i];
		autojson json_t *type = NULL;

		if (f->as && (r = schema_parse(f->as, &type, err)) < 0)
			return r;
		if (!type)
			type = field_type(f);
		if (!type)
			return err_set(
			        err, -EINVAL,
			        "'%s' of the table %s has no type: write it at the end of its "
			        "JSON_FIELD line, as in api/doc/schema.h",
			        f->name, t->name);
		if (f->flags & JSON_NULLABLE)
			allow_null(&type);
		if (f->help)
			json_object_set_new(type, "description", json_string(f->help));
		if ((r = add_member(object, f->name, f->flags & JSON_REQUIRED, type, err)) < 0)
			return r;
	}
	*ret = TAKE_PTR(object);
	return 0;
}
