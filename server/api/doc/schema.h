/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api/doc/schema.h - types of the API written as short text, and as JSON Schema
 *
 *   string int number bool null any    time: RFC 3339    bytes: base64    uri
 *   int<1..65535>                      a range; either end may be left out
 *   'tcp' | 'udp' | null               alternatives; quoted words stand for themselves
 *   Vm                                 a type of api/doc/types.def
 *   Vm[]                               a list
 *   {id: string, name?: string}        an object; '?': the member may be missing
 *   {*: string}                        an object with any members of that type
 *   Vm & {key: string}                 the members of both
 *   (string | int)[]                   brackets
 *   {port: int =of the VM=}            words on a member, for the reader
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct err;
struct json_table;

#define SCHEMA_REF "#/components/schemas/"

/* -EINVAL quotes the place that is not understood. */
int schema_parse(const char *text, json_t **ret, struct err *err);
/* The members of an object, without braces: fn is called for each. Takes nothing; type is borrowed.
 */
typedef int (*schema_member_fn)(void *ctx, const char *name, bool required, json_t *type,
                                struct err *err);
int schema_members(const char *text, schema_member_fn fn, void *ctx, struct err *err);
/* The object that a table of fields reads. -EINVAL names a member whose type nobody has written. */
int schema_of_table(const struct json_table *t, json_t **ret, struct err *err);
