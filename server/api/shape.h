/* SPDX-License-Identifier: Apache-2.0 */
/* api/shape.h - our structs as the protocol's JSON, and members that several bodies share */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "http/reply.h" /* shape_output(), shape_base64() */

struct err;
struct snapshot_info;
struct vm_info;
struct vm_persistence;
struct vm_tombstone;

json_t *shape_time(int64_t wall_ms); /* RFC 3339; null for 0 */
json_t *shape_text(const char *s);   /* null for "" */
json_t *shape_signal(int sig);       /* "SIGTERM"; null for 0 */
json_t *shape_persistence(const struct vm_persistence *p);
json_t *shape_vm_item(const struct vm_info *v);
json_t *shape_vm_info(const struct vm_info *v);
json_t *shape_vm_gone(const struct vm_tombstone *t); /* an item of the list */
json_t *shape_snapshot(const struct snapshot_info *n);

/* "persistence" of a body; tag: the code of an error. JSON null and NULL leave *ret unchanged. */
int parse_persistence(const json_t *j, enum err_code tag, struct vm_persistence *ret,
                      struct err *err);

#define ENV_LIST_MAX 512 /* variables */

/* "env" of a body as the list for a guest. */
struct env_list {
	char *v[ENV_LIST_MAX + 1]; /* owned; NULL-terminated "K=V" */
};
void env_list_done(struct env_list *e);
/* env NULL: none. max: at most ENV_LIST_MAX. */
int parse_env(json_t *env, size_t max, struct env_list *ret, struct err *err);

/* Decodes base64; what: the member's name, for the error. Caller frees *ret. */
int parse_base64(const char *text, size_t n, const char *what, uint8_t **ret, size_t *ret_n,
                 struct err *err);
