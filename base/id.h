/* SPDX-License-Identifier: Apache-2.0 */
/* base/id.h - random ids and secrets */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ID_LEN 20                /* characters [a-z0-9]; a VM id, or the part after "sc-" */
#define ID_SIZE (4 + ID_LEN + 1) /* room for a prefix of up to 4 and the NUL */

/* Fills p from the kernel's random generator; aborts if there is none. */
void random_bytes(void *p, size_t n);
/* prefix ("" or "sc-") followed by ID_LEN random characters. */
void id_make(const char *prefix, char ret_id[ID_SIZE]);
/* Is it prefix followed by exactly ID_LEN of [a-z0-9]? */
bool id_valid(const char *prefix, const char *s);
#define UUID_SIZE 37 /* of the text, with the NUL */
/* A random UUID, version 4, in lower case. */
void uuid_make(char ret[UUID_SIZE]);
bool uuid_valid(const char *s); /* in the form uuid_make() writes, of any version */
#define LINUX_USER_MAX 32       /* bytes of a name, as useradd(8) has it */
/* Is it valid as the name of a Linux account? */
bool linux_user_valid(const char *name);
/* Lower-case hex text of n bytes; dst has 2*n+1. */
void hex_encode(const void *p, size_t n, char *dst);
