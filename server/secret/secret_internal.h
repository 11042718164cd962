/* SPDX-License-Identifier: Apache-2.0 */
/* secret/secret_internal.h - the ring of keys; for secret/ only */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/lock.h"
#include "secret/secret.h"

#define KEY_BYTES 32u
#define KEYS_MAX 8u /* lines of the file: one in use, a few that are being replaced */
#define KEY_FILE_MAX 4096u
#define NONCE_BYTES 12u
#define TAG_BYTES 16u
#define SEALED_PREFIX "$s1$"
#define SEALED_MAX (64u << 20) /* bytes of one value */

/* In pages of their own: not swapped, not in core dumps, not in children. */
struct ring {
	struct ring_key {
		uint8_t id; /* 0: none */
		uint8_t key[KEY_BYTES];
	} keys[KEYS_MAX]; /* the first is in use */
	unsigned n;
};

struct holder {
	int (*fn)(void *ctx, struct err *err);
	void *ctx; /* weak; NULL: free */
};

struct secrets {
	struct mutex rotate; /* one rotation at a time; taken first */
	struct holder holders[SECRET_HOLDERS_MAX] GUARDED_BY(rotate);
	struct mutex lock;                  /* never held during file access or encryption */
	struct ring *ring GUARDED_BY(lock); /* owned */
	char source[PATH_MAX];              /* for messages */
	bool writable;                      /* source is a path, and we keep the file */
};

/* A copy of the key with that id (0: the one in use), which the caller wipes; false: none. */
bool ring_key_get(struct secrets *k, uint8_t id, struct ring_key *ret);
