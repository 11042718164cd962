/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/json_field.h - JSON bodies parsed with a field table; based on jansson
 *
 * A const table gives the name, type, limits and struct offset of each member;
 * json_fields_read() fills the struct. Unknown members are tolerated and noted; wrong
 * types and values out of range get a uniform error that names the member:
 * "'timeoutMs' must be a number from 1 to 600000". Linked by the server only.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Both are checked on the bytes, before jansson builds anything: a value of two bytes takes up to
 * JSON_VALUE_COST of memory. */
#define JSON_DEPTH_MAX 32     /* nesting */
#define JSON_VALUES_MAX 16384 /* values and names of members, where nothing else is said */
#define JSON_VALUE_COST 256   /* bytes: an empty object, the dearest value, has about 230 */

enum json_type_want {
	JSON_WANT_STR,    /* char array in the struct; max: its size with the NUL */
	JSON_WANT_STRREF, /* const char *, borrowed from the document; max: bytes */
	JSON_WANT_BOOL,
	JSON_WANT_U32,
	JSON_WANT_I64,
	JSON_WANT_OBJECT, /* json_t *, borrowed */
	JSON_WANT_ARRAY,  /* json_t *, borrowed */
	JSON_WANT_ANY,    /* json_t *, borrowed; null stays a json null */
};

enum json_presence { JSON_IS_ABSENT, JSON_IS_NULL, JSON_IS_GIVEN };

#define JSON_REQUIRED 1u /* absent is an error */
#define JSON_NULLABLE 2u /* null is allowed, and leaves the member as it was */

#define JSON_NO_PRESENCE SIZE_MAX

struct json_field {
	const char *name;
	enum json_type_want type;
	size_t off; /* of the member */
	unsigned flags;
	int64_t min, max;    /* numbers; max is also the room for strings */
	size_t presence_off; /* of an enum json_presence that records it, or JSON_NO_PRESENCE */
	/* For the description of the API: the type where `type` does not say it, as in
	 * server/api/doc/schema.h; and words on it. NULL: none. */
	const char *as, *help;
};

/* A table with a name, for that description: JSON_TABLE(KeyNew, key_fields); */
struct json_table {
	const char *name;
	const struct json_field *fields;
	size_t n;
};
#define JSON_TABLE(name_, fields_)                                      \
	const struct json_table json_table_##name_ = { #name_, fields_, \
		                                       sizeof(fields_) / sizeof((fields_)[0]) }

/* clang-format off */
/* What follows the last argument is `as` and `help`. */
#define JSON_FIELD_STR(struct_, member, name_, flags_, ...) \
	{ name_, JSON_WANT_STR, offsetof(struct struct_, member), flags_, 0, \
	  sizeof(((struct struct_ *)0)->member), JSON_NO_PRESENCE, ##__VA_ARGS__ }
#define JSON_FIELD(type_, struct_, member, name_, flags_, min_, max_, ...) \
	{ name_, type_, offsetof(struct struct_, member), flags_, min_, max_, JSON_NO_PRESENCE, \
	  ##__VA_ARGS__ }
/* The same, with a struct member of type enum json_presence that records whether it was present. */
#define JSON_FIELD_P(type_, struct_, member, presence_, name_, flags_, min_, max_, ...) \
	{ name_, type_, offsetof(struct struct_, member), flags_, min_, max_, \
	  offsetof(struct struct_, presence_), ##__VA_ARGS__ }
/* clang-format on */

/*
 * Counts values and names of members without parsing: *ret_values is never less than what a parser
 * would find. -E2BIG when there are more than max, or they nest deeper than JSON_DEPTH_MAX.
 */
int json_text_check(const void *text, size_t n, size_t max, size_t *ret_values, struct err *err);
/*
 * Parses text of n bytes that json_text_check() has passed: -EBADMSG when it is not JSON (duplicate
 * members count as not JSON). An empty body reads as {}. Caller json_decref()s.
 */
int json_text_load(const void *text, size_t n, json_t **ret, struct err *err);
/* Both, with at most JSON_VALUES_MAX values. */
int json_text_parse(const void *text, size_t n, json_t **ret, struct err *err);

/* Fills the struct at dst from an object; -EINVAL names the member. prefix: "" or "spec." */
int json_fields_read(const json_t *object, const char *prefix, const struct json_field *fields,
                     size_t n_fields, void *dst, struct err *err);

/*
 * Which members of which objects were looked for, so that those that nobody knows can be named
 * afterwards. One per thread at a time: while it is watched, json_fields_read() notes its tables.
 */
#define JSON_SEEN_OBJECTS 256 /* of one body; with more than these nothing is said */
#define JSON_SEEN_NAMES 4096
struct json_seen {
	struct {
		const json_t *object; /* only compared */
		char prefix[64];
	} objects[JSON_SEEN_OBJECTS];
	struct {
		const json_t *object;
		const char *name; /* weak: a literal of its table, which may be gone */
	} names[JSON_SEEN_NAMES];
	size_t n_objects, n_names;
	bool full;
};
void json_seen_watch(struct json_seen *s); /* NULL: no longer */
/* Further members that are known, but not read with this table: only their names count. */
void json_fields_know(const json_t *object, const char *prefix, const struct json_field *fields,
                      size_t n_fields);
#define JSON_NAME(name_, ...)                                                     \
	{                                                                         \
		name_, JSON_WANT_ANY, 0, 0, 0, 0, JSON_NO_PRESENCE, ##__VA_ARGS__ \
	}
/*
 * Calls fn for each member of an object below root that was looked at and does not know it; a null
 * asks for nothing. prefix: "spec."; near: the known member that was probably meant, or NULL.
 */
typedef void (*json_unknown_fn)(void *ctx, const char *prefix, const char *name, const char *near);
void json_seen_unknown(const struct json_seen *s, const json_t *root, json_unknown_fn fn,
                       void *ctx);

/* Text that may not be UTF-8 as a string: bytes that are not become U+FFFD. */
json_t *json_text(const void *p, size_t n);

static inline void json_decrefp_(json_t **j)
{
	json_decref(*j);
}
#define autojson __attribute__((cleanup(json_decrefp_)))
