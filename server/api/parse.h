/* SPDX-License-Identifier: Apache-2.0 */
/* api/parse.h - members of bodies that several routes have; for api/ only */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define ENV_LIST_MAX 512 /* variables */

/* "env" of a body as the list that a guest takes. */
struct env_list {
	char *v[ENV_LIST_MAX + 1]; /* owned; NULL-terminated "K=V" */
};
void env_list_done(struct env_list *e);
/* env NULL: none. max: at most ENV_LIST_MAX. */
int parse_env(json_t *env, size_t max, struct env_list *ret, struct err *err);

/* Text in base64; what: the member's name, for the refusal. Caller frees *ret. */
int parse_base64(const char *text, size_t n, const char *what, uint8_t **ret, size_t *ret_n,
                 struct err *err);
