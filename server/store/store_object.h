/* SPDX-License-Identifier: Apache-2.0 */
/* store/store_object.h - what is in the object store, and what is to go; for vm/ */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "store/store.h"

#define STORE_OBJECT_SIZE 40 /* "layers/" and an id, with the NUL */
#define STORE_OBJECT_KEY 32  /* bytes of an owner's key */

/* By what a bucket knows whose it is: the cluster's id, made if there is none yet. */
int store_objects_id(struct store *s, char ret[ID_SIZE], struct err *err);
/* The key that what this account owns is encrypted with; "": what all share. Made when it is first
 * asked for. */
int store_object_key(struct store *s, const char *account, uint8_t ret[STORE_OBJECT_KEY],
                     struct err *err);

enum object_kind { OBJECT_LAYER, OBJECT_POINT };
const char *object_name(enum object_kind kind, const char *id, char buf[STORE_OBJECT_SIZE]);

/* A file that is to be uploaded. */
struct store_upload {
	enum object_kind kind;
	char id[ID_SIZE];
	char account[ACCOUNT_SIZE];
	uint64_t bytes;
};
/*
 * What suspended VMs, snapshots and templates need and the object store does not have: closed
 * layers, small ones first, then states. Caller frees.
 */
int store_uploads(struct store *s, unsigned limit, struct store_upload **ret, size_t *ret_n,
                  struct err *err);
/* The same counted. */
struct store_uploads_sum {
	uint64_t n, bytes, garbage;
};
int store_uploads_sum(struct store *s, struct store_uploads_sum *ret, struct err *err);
/* Before the first object is put: from now on there may be so many. -ENOENT if the row is gone. */
int store_upload_begin(struct store *s, enum object_kind kind, const char *id, uint32_t chunks,
                       struct err *err);
/* All of them are there. */
int store_upload_done(struct store *s, enum object_kind kind, const char *id, struct err *err);

/* Stored layers, whoever made them, that no running VM and no template of this node stands on:
 * their files here may go. Caller frees. */
int store_layers_idle(struct store *s, char (**ret_ids)[ID_SIZE], size_t *ret_n, struct err *err);

/* ---- objects without rows ---- */
struct store_object_garbage {
	char object[STORE_OBJECT_SIZE];
	uint32_t chunks;
};
/* Those whose rows went before that moment, oldest first. Caller frees. */
int store_object_garbage(struct store *s, int64_t before_ms, unsigned limit,
                         struct store_object_garbage **ret, size_t *ret_n, struct err *err);
int store_object_garbage_done(struct store *s, const char *object, struct err *err);
/* Found in the object store: becomes garbage from now on if nothing here knows of it. 1: it did. */
int store_object_found(struct store *s, const char *object, uint32_t chunks, int64_t now_ms,
                       struct err *err);
/* store_collect() at another time than now: for tests. */
int store_collect_at(struct store *s, const char *const *held_points, size_t n_points,
                     const char *const *held_layers, size_t n_layers, int64_t now_ms,
                     struct store_garbage *ret, struct err *err);
