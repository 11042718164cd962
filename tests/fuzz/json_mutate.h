/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_mutate.h - a mutator that keeps JSON JSON, and learns which members are asked for
 *
 * Theory of operation: the target is linked so that json_fields_read() and json_object_get() come
 * by here (tests/fuzz/meson.build): every name that a handler looks for is remembered, with its
 * type if there is one. The mutator adds such members, with values of the right type or the wrong
 * one, replaces, repeats and removes others; every third time bytes are mutated as usual. A
 * target that includes it defines json_begins(): where the document begins in an input.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/auto.h"
#include "base/json_field.h"
#include "tests/fuzz/fuzz.h"

__attribute__((unused)) static size_t json_begins(const uint8_t *data, size_t size);

#define LEARNED_MAX 2048u

static struct {
	char name[48];
	int type; /* enum json_type_want, or -1: not known */
} learned[LEARNED_MAX];
static _Atomic size_t n_learned;

static void learn(const char *name, int type)
{
	size_t n = n_learned;

	for (size_t i = 0; i < n; i++)
		if (strcmp(learned[i].name, name) == 0 && learned[i].type == type)
			return;
	if (n == LEARNED_MAX || strlen(name) >= sizeof(learned[0].name))
		return;
	snprintf(learned[n].name, sizeof(learned[n].name), "%s", name);
	learned[n].type = type;
	n_learned = n + 1; /* two threads at once lose one: no harm */
}

int __real_json_fields_read(const json_t *o, const char *prefix, const struct json_field *f,
                            size_t n, void *dst, struct err *err);
int __wrap_json_fields_read(const json_t *o, const char *prefix, const struct json_field *f,
                            size_t n, void *dst, struct err *err);
json_t *__real_json_object_get(const json_t *o, const char *name);
json_t *__wrap_json_object_get(const json_t *o, const char *name);

int __wrap_json_fields_read(const json_t *o, const char *prefix, const struct json_field *f,
                            size_t n, void *dst, struct err *e)
{
	for (size_t i = 0; i < n; i++)
		learn(f[i].name, (int)f[i].type);
	return __real_json_fields_read(o, prefix, f, n, dst, e);
}

json_t *__wrap_json_object_get(const json_t *o, const char *name)
{
	if (name)
		learn(name, -1);
	return __real_json_object_get(o, name);
}

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION

#define NODES_MAX 256u
#define DEPTH_MAX 8

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

static uint64_t dice_state;

static unsigned dice(unsigned sides)
{
	dice_state ^= dice_state << 13;
	dice_state ^= dice_state >> 7;
	dice_state ^= dice_state << 17;
	return (unsigned)(dice_state >> 33) % sides;
}

static json_t *some_string(void)
{
	static const char *const words[] = {
		"",
		"a",
		"/",
		"/a/../b",
		"..",
		"root",
		"main",
		"*.js",
		"x[]",
		"true",
		"0",
		"2026-01-01",
		"10.0.0.0/8",
		"a.test",
		"%00",
		"\xc3\xa9",
		"push",
		"ro",
		"refs/heads/main",
		"https://a.test:8/x?y#z",
		"http://[::1]/",
		"ssh://git@a.test/x",
		"git@a.test:x.git",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		"*",
		"a\nb",
		"oneshot",
		"A",
		"TXT",
		"MX",
		"CNAME",
		"utf-8",
		"base64",
		"60",
		"python",
		"bash",
		"$R",
	};
	unsigned k = dice(8);

	if (k == 0) { /* long */
		char long_text[600];

		memset(long_text, 'a' + (int)dice(26), sizeof(long_text));
		return json_stringn(long_text, dice(sizeof(long_text)));
	}
	if (k == 1 && n_learned)
		return json_string(learned[dice((unsigned)n_learned)].name);
	return json_string(words[dice(ARRAY_SIZE(words))]);
}

static json_t *some_number(void)
{
	static const json_int_t numbers[] = { 0,          1,         -1,       2,     7,
		                              60,         80,        1024,     65535, 65536,
		                              4294967295, INT64_MAX, INT64_MIN };

	return dice(8) ? json_integer(numbers[dice(ARRAY_SIZE(numbers))]) : json_real(0.5);
}

static void grow(json_t *o);

static json_t *some_value(int type, int depth)
{
	if (type < 0 || dice(6) == 0)
		type = (int)dice(JSON_WANT_ANY + 2);
	switch (type) {
	case JSON_WANT_STR:
	case JSON_WANT_STRREF:
		return some_string();
	case JSON_WANT_BOOL:
		return json_boolean(dice(2));
	case JSON_WANT_U32:
	case JSON_WANT_I64:
		return some_number();
	case JSON_WANT_ARRAY: {
		json_t *a = json_array();

		for (unsigned n = dice(4); n && depth < DEPTH_MAX; n--)
			json_array_append_new(a, some_value(-1, depth + 1));
		return a;
	}
	case JSON_WANT_OBJECT: {
		json_t *o = json_object();

		for (unsigned n = dice(4); n; n--)
			grow(o);
		return o;
	}
	default:
		return dice(4) ? some_string() : json_null();
	}
}

/* One more member that somebody looks for. */
static void grow(json_t *o)
{
	static int depth;
	unsigned i = n_learned ? dice((unsigned)n_learned) : 0;

	if (!n_learned || depth == DEPTH_MAX)
		return;
	depth++;
	json_object_set_new(o, learned[i].name, some_value(learned[i].type, depth));
	depth--;
}

static size_t collect(json_t *j, json_t **to, size_t n)
{
	const char *name;
	json_t *v;
	size_t i;

	if (n == NODES_MAX || !(json_is_object(j) || json_is_array(j)))
		return n;
	to[n++] = j;
	json_object_foreach(j, name, v) n = collect(v, to, n);
	json_array_foreach(j, i, v) n = collect(v, to, n);
	return n;
}

static const char *any_name(json_t *o)
{
	unsigned at = json_object_size(o) ? dice((unsigned)json_object_size(o)) : 0;
	void *it = json_object_iter(o);

	while (it && at--)
		it = json_object_iter_next(o, it);
	return it ? json_object_iter_key(it) : NULL;
}

static int type_of(const char *name)
{
	for (size_t i = 0; i < n_learned; i++)
		if (learned[i].type >= 0 && strcmp(learned[i].name, name) == 0)
			return learned[i].type;
	return -1;
}

static void change_object(json_t *o)
{
	const char *name = any_name(o);
	unsigned k = dice(6);
	char copy[64];

	if (!name || k < 3) {
		grow(o);
		return;
	}
	snprintf(copy, sizeof(copy), "%s", name);
	if (k == 3)
		json_object_del(o, copy);
	else
		json_object_set_new(o, copy, some_value(type_of(copy), 0));
}

static void change_array(json_t *a)
{
	size_t n = json_array_size(a), at = n ? dice((unsigned)n) : 0;

	switch (dice(4)) {
	case 0:
		json_array_remove(a, at);
		break;
	case 1:
		if (n)
			json_array_append_new(a, json_deep_copy(json_array_get(a, at)));
		break;
	case 2:
		json_array_insert_new(a, at, some_value(JSON_WANT_OBJECT, 0));
		break;
	default:
		json_array_insert_new(a, at, some_value(-1, 0));
	}
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	size_t at = json_begins(data, size), n;
	json_t *doc, *nodes[NODES_MAX];
	char *text;

	dice_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
	if (at > size || dice(3) == 0)
		return LLVMFuzzerMutate(data, size, max);
	doc = json_loadb((const char *)data + at, size - at, 0, NULL);
	if (!json_is_object(doc) && !json_is_array(doc)) {
		json_decref(doc);
		doc = json_object();
	}
	for (unsigned k = 1 + dice(4); k; k--) {
		json_t *j;

		n = collect(doc, nodes, 0);
		j = nodes[dice((unsigned)n)];
		if (json_is_object(j))
			change_object(j);
		else
			change_array(j);
	}
	text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	n = text ? strlen(text) : 0;
	if (!text || n > max - at) {
		free(text);
		return LLVMFuzzerMutate(data, size, max);
	}
	memcpy(data + at, text, n);
	free(text);
	return at + n;
}

#endif
