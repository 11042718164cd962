/* SPDX-License-Identifier: Apache-2.0 */
/* events/access_internal.h - for access.c, access_file.c and access_query.c only */
#pragma once

#include "base/lock.h"
#include "events/access.h"

#define ACCESS_BUCKETS 4096u

/* Head of a line in a ring; its texts and the line's whole size (u32) follow. */
struct rec {
	uint32_t size;
	uint32_t ms;
	int64_t at_ms;
	uint64_t seq, in, out;
	uint16_t status, n_host, n_path; /* n_host 0: the ring's name */
	uint8_t proto, flags, n_method, n_client, n_error, unused;
};
enum rec_flag { REC_TLS = 1, REC_WOKE = 2, REC_GUEST = 4 };
#define REC_MIN (sizeof(struct rec) + sizeof(uint32_t))

/* The lines of a name and VM, oldest first. */
struct ring {
	struct ring *bucket_next;
	struct ring *next, *prev; /* of its owner, the last written first */
	struct owner *owner;
	char name[ACCESS_NAME_SIZE];
	char vm[ID_SIZE];
	uint8_t *p; /* owned */
	size_t len, cap;
};

struct owner {
	struct owner *next;
	char account[ACCOUNT_SIZE];
	struct ring *first, *last;
	size_t bytes;
};

struct access {
	struct mutex lock;
	uint64_t seed;
	struct ring *bucket[ACCESS_BUCKETS] GUARDED_BY(lock);
	struct owner *owners GUARDED_BY(lock);
	size_t bytes GUARDED_BY(lock);
	uint64_t seq GUARDED_BY(lock);
	int64_t last_ms GUARDED_BY(lock);
};

/* access.c; with the lock. */
struct owner *access_owner(struct access *a, const char *account, bool make) REQUIRES(&a->lock);
struct ring *access_ring(struct access *a, struct owner *o, const char *name, const char *vm)
        REQUIRES(&a->lock);
void access_shrink(struct access *a, struct owner *o) REQUIRES(&a->lock);
int access_grow(struct access *a, struct ring *r, size_t n) REQUIRES(&a->lock);
/* The record that ends at `end`; its size, or 0: there is none. */
size_t access_before(const struct ring *r, size_t end, struct rec *ret);
void access_read_rec(const struct ring *r, size_t at, const struct rec *rec,
                     struct access_line *ret);
