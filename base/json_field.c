/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_field.c - see json_field.h
 *
 * Values and nesting are counted on the raw bytes first: jansson has no limit for the one, and its
 * limit for the other (2048) is too much for what handlers recurse over. Strings with a NUL inside
 * are refused by jansson; what it hands out is valid UTF-8.
 */
#include "base/json_field.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/near.h"
#include "base/utf8.h"

/* The byte after a string that begins at p, or end. */
static const char *string_end(const char *p, const char *end)
{
	for (p++; p < end && *p != '"'; p++)
		p += *p == '\\';
	return p < end ? p + 1 : end;
}

/* Between values: not part of a number, a word or anything else that a parser would look at. */
static bool is_between(char c)
{
	return c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

int json_text_check(const void *text, size_t n, size_t max, size_t *ret_values, struct err *err)
{
	const char *p = text, *end = p + n;
	size_t values = 0;
	unsigned depth = 0;

	while (p < end) {
		if (is_between(*p)) {
			p++;
			continue;
		}
		if (*p == '}' || *p == ']') {
			depth -= depth > 0;
			p++;
			continue;
		}
		if (++values > max)
			return err_set(err, -E2BIG,
			               "the JSON has more than %zu values and names of members",
			               max);
		if (*p == '{' || *p == '[') {
			if (++depth > JSON_DEPTH_MAX)
				return err_set(err, -E2BIG, "the JSON nests deeper than %d levels",
				               JSON_DEPTH_MAX);
			p++;
		} else if (*p == '"') {
			p = string_end(p, end);
		} else { /* a number or a word */
			while (p < end && !is_between(*p) && !strchr("{}[]\"", *p))
				p++;
			if (p < end && *p == '\0')
				p++;
		}
	}
	*ret_values = values;
	return 0;
}

int json_text_load(const void *text, size_t n, json_t **ret, struct err *err)
{
	json_error_t why;
	json_t *j;

	if (n == 0) {
		j = json_object();
		if (!j)
			return err_set(err, -ENOMEM, "out of memory");
		*ret = j;
		return 0;
	}
	j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
	if (!j && json_error_code(&why) == json_error_out_of_memory)
		return err_set(err, -ENOMEM, "out of memory");
	if (!j)
		return err_set(err, -EBADMSG, "the body is not valid JSON (line %d: %.100s)",
		               why.line, why.text);
	*ret = j;
	return 0;
}

int json_text_parse(const void *text, size_t n, json_t **ret, struct err *err)
{
	size_t values;
	int r = json_text_check(text, n, JSON_VALUES_MAX, &values, err);

	return r < 0 ? r : json_text_load(text, n, ret, err);
}

static int wrong(struct err *err, const char *prefix, const struct json_field *f, const char *what)
{
	return err_set(err, -EINVAL, "'%s%s' must be %s%s", prefix, f->name, what,
	               f->flags & JSON_NULLABLE ? " or null" : "");
}

static int read_string(const json_t *v, const char *prefix, const struct json_field *f, void *at,
                       struct err *err)
{
	size_t n = json_string_length(v), room = (size_t)f->max;
	char what[64];

	if (!json_is_string(v))
		return wrong(err, prefix, f, "a string");
	if (f->type == JSON_WANT_STR ? n >= room : n > room) {
		snprintf(what, sizeof(what), "a string of at most %zu bytes",
		         f->type == JSON_WANT_STR ? room - 1 : room);
		return wrong(err, prefix, f, what);
	}
	if (f->type == JSON_WANT_STR)
		memcpy(at, json_string_value(v), n + 1);
	else
		*(const char **)at = json_string_value(v);
	return 0;
}

/* 300 and 300.0 are the same number to a JavaScript client. */
static int read_number(const json_t *v, const char *prefix, const struct json_field *f, void *at,
                       struct err *err)
{
	char what[96];
	int64_t n = 0;
	bool ok = false;

	if (json_is_integer(v)) {
		n = json_integer_value(v);
		ok = true;
	} else if (json_is_real(v)) {
		double d = json_real_value(v);

		ok = d >= -9007199254740992.0 && d <= 9007199254740992.0;
		if (ok) {
			n = (int64_t)d;
			ok = (double)n == d;
		}
	}
	if (!ok || n < f->min || n > f->max) {
		snprintf(what, sizeof(what), "a whole number from %" PRId64 " to %" PRId64, f->min,
		         f->max);
		return wrong(err, prefix, f, what);
	}
	if (f->type == JSON_WANT_U32)
		*(uint32_t *)at = (uint32_t)n;
	else
		*(int64_t *)at = n;
	return 0;
}

static int read_field(json_t *v, const char *prefix, const struct json_field *f, void *at,
                      struct err *err)
{
	switch (f->type) {
	case JSON_WANT_STR:
	case JSON_WANT_STRREF:
		return read_string(v, prefix, f, at, err);
	case JSON_WANT_BOOL:
		if (!json_is_boolean(v))
			return wrong(err, prefix, f, "true or false");
		*(bool *)at = json_is_true(v);
		return 0;
	case JSON_WANT_U32:
	case JSON_WANT_I64:
		return read_number(v, prefix, f, at, err);
	case JSON_WANT_OBJECT:
		if (!json_is_object(v))
			return wrong(err, prefix, f, "an object");
		break;
	case JSON_WANT_ARRAY:
		if (!json_is_array(v))
			return wrong(err, prefix, f, "an array");
		break;
	case JSON_WANT_ANY:
		break;
	}
	*(json_t **)at = v;
	return 0;
}

static _Thread_local struct json_seen *watched;

void json_seen_watch(struct json_seen *s)
{
	watched = s;
}

static const char *prefix_of(const struct json_seen *s, const json_t *object)
{
	for (size_t i = 0; i < s->n_objects; i++)
		if (s->objects[i].object == object)
			return s->objects[i].prefix;
	return NULL;
}

void json_fields_know(const json_t *object, const char *prefix, const struct json_field *fields,
                      size_t n_fields)
{
	struct json_seen *s = watched;
	bool is_new = s && !prefix_of(s, object);

	if (!s)
		return;
	s->full |= s->n_objects + is_new > JSON_SEEN_OBJECTS ||
	           s->n_names + n_fields > JSON_SEEN_NAMES;
	if (s->full)
		return;
	if (is_new) {
		s->objects[s->n_objects].object = object;
		snprintf(s->objects[s->n_objects].prefix, sizeof(s->objects[0].prefix), "%s",
		         prefix);
		s->n_objects++;
	}
	for (size_t i = 0; i < n_fields; i++) {
		s->names[s->n_names].object = object;
		s->names[s->n_names++].name = fields[i].name;
	}
}

int json_fields_read(const json_t *object, const char *prefix, const struct json_field *fields,
                     size_t n_fields, void *dst, struct err *err)
{
	if (!json_is_object(object))
		return err_set(err, -EINVAL, "%s%sthe body must be a JSON object", prefix,
		               *prefix ? " " : "");
	json_fields_know(object, prefix, fields, n_fields);
	for (size_t i = 0; i < n_fields; i++) {
		const struct json_field *f = &fields[i];
		json_t *v = json_object_get(object, f->name);
		enum json_presence seen = !v                ? JSON_IS_ABSENT
		                          : json_is_null(v) ? JSON_IS_NULL
		                                            : JSON_IS_GIVEN;
		int r;

		if (f->presence_off != JSON_NO_PRESENCE)
			*(enum json_presence *)(void *)((char *)dst + f->presence_off) = seen;
		if (seen == JSON_IS_ABSENT && (f->flags & JSON_REQUIRED))
			return err_set(err, -EINVAL, "'%s%s' is missing", prefix, f->name);
		if (seen == JSON_IS_ABSENT)
			continue;
		if (seen == JSON_IS_NULL && (f->flags & JSON_NULLABLE))
			continue;
		if ((r = read_field(v, prefix, f, (char *)dst + f->off, err)) < 0)
			return r;
	}
	return 0;
}

/* Is it a member that one of its tables has? Else near->best may be what was meant. */
static bool is_known(const struct json_seen *s, const json_t *object, struct near *near)
{
	for (size_t i = 0; i < s->n_names; i++) {
		if (s->names[i].object != object)
			continue;
		if (strcmp(s->names[i].name, near->word) == 0)
			return true;
		near_try(near, s->names[i].name);
	}
	return false;
}

void json_seen_unknown(const struct json_seen *s, const json_t *root, json_unknown_fn fn, void *ctx)
{
	const char *name, *prefix = prefix_of(s, root);
	json_t *v;
	size_t i;

	if (s->full)
		return;
	json_array_foreach((json_t *)(uintptr_t)root, i, v)
	{
		json_seen_unknown(s, v, fn, ctx);
	}
	json_object_foreach((json_t *)(uintptr_t)root, name, v)
	{
		struct near near = NEAR_OF(name);

		if (prefix && !json_is_null(v) && !is_known(s, root, &near))
			fn(ctx, prefix, name, near.best);
		else
			json_seen_unknown(s, v, fn, ctx);
	}
}

json_t *json_text(const void *p, size_t n)
{
	autobuf struct buf b = { 0 };

	if (utf8_valid(p, n))
		return json_stringn_nocheck(n ? p : "", n);
	utf8_put_clean(&b, p, n);
	return b.failed ? NULL : json_stringn_nocheck((const char *)b.p, b.len);
}
