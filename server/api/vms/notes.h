/* SPDX-License-Identifier: Apache-2.0 */
/* api/vms/notes.h - tags and metadata of VMs: bodies, filters, replies; for vms.c */
#pragma once

#include <stdbool.h>

#include "api/call.h"

#define TAGS_MAX 32          /* of one VM */
#define TAG_MAX 64           /* bytes */
#define METADATA_MAX 32      /* members */
#define METADATA_NAME_MAX 64 /* bytes */
#define METADATA_VALUE_MAX 512

/* As in a body: NULL: nothing was said, "": removed. */
struct notes {
	char *tags, *metadata, *env; /* owned JSON texts */
};
/* Variables of the whole VM. */
#define VM_ENV_MAX 64            /* variables */
#define VM_ENV_NAME_MAX 128      /* bytes */
#define VM_ENV_BYTES (32u << 10) /* names and values together */
int parse_vm_env(const json_t *env, enum err_code tag, struct notes *ret, struct err *err);
void notes_done(struct notes *n);
int parse_notes(const json_t *tags, const json_t *metadata, enum err_code tag, struct notes *ret,
                struct err *err);
/* restart: services that must see the environment; or NULL. */
int notes_write(struct request *req, const char *vm_id, const struct notes *n,
                const char *const *restart, struct err *err);
/* Adds tags and metadata of the VM. Takes j and returns it. */
json_t *notes_shape_one(struct request *req, const char *vm_id, json_t *j_consume);

/* Query of a list: ?tags=a,b&metadata=owner=ann,stage=2; all must match. */
struct notes_filter {
	char *tags, *metadata; /* owned; NULL: not asked for */
	json_t *all;           /* owned; notes of the account by the id of their VM */
	bool filters;
};
int notes_filter_read(struct request *req, struct notes_filter *f, struct err *err);
int notes_filter_load(struct request *req, struct notes_filter *f, struct err *err); /* ->all */
void notes_filter_done(struct notes_filter *f);
bool notes_match(const struct notes_filter *f, const char *vm_id);
json_t *notes_shape(const struct notes_filter *f, const char *vm_id, json_t *j_consume);
