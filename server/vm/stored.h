/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/stored.h - layers and states in the object store: uploaded, fetched when they are not here
 *
 * Without an object store (m->stored is NULL) everything here does nothing.
 *
 *   upload.c  a thread that uploads what is to last, deletes what nobody needs, keeps the cache
 *             within its bound
 *   fetch.c   brings back what is not here, once for all who want it
 *   cache.c   files that are stored as well, as a cache
 */
#pragma once

#include "objects/objects.h"
#include "store/store_object.h"
#include "vm/vm_internal.h"

#define USED_MAX 16384     /* layers whose last use is remembered */
#define UPLOADS_BAD_MAX 64 /* files that cannot be uploaded are in the log once, so many */

struct fetch;
struct stored {
	struct objects *o;    /* weak */
	uint64_t cache_bytes; /* 0: no bound */
	uint32_t keep_s;      /* objects of deleted layers */
	pthread_t thread;     /* upload.c */
	bool has_thread;
	struct mutex lock; /* "vmm stored" */
	struct cond done;  /* a fetch ended */
	struct fetch *fetches GUARDED_BY(lock);
	struct layer_use {
		char id[ID_SIZE];
		int64_t ms;        /* wall clock */
	} * used GUARDED_BY(lock); /* owned; USED_MAX */
	size_t n_used GUARDED_BY(lock);
	struct fetched {
		char id[ID_SIZE];
		enum object_kind kind;
	} * fetched GUARDED_BY(lock); /* owned; those that others may collect */
	size_t n_fetched GUARDED_BY(lock), cap_fetched GUARDED_BY(lock);
	struct store_uploads_sum due GUARDED_BY(lock); /* at the last look */
	char bad[UPLOADS_BAD_MAX][ID_SIZE];            /* upload.c's thread only */
	size_t n_bad;
};

/* After recovery, before anything is thawed. */
int stored_new(struct vmm *m, struct err *err);
int stored_begin(struct vmm *m, struct err *err); /* the thread */
void stored_end(struct vmm *m);                   /* waits for it; m->stopping is set */
void stored_free(struct vmm *m);
/* One layer now, held by the caller. */
int upload_layer(struct vmm *m, const char *id, struct err *err);
/* The same of a point with all that it stands on. */
int upload_point(struct vmm *m, const struct engine_point *p, struct err *err);
/* There may be something to upload. */
void stored_soon(struct vmm *m);

/*
 * fetch.c: the files of a chain or point that are not here but stored are here afterwards; the
 * caller holds their names. Files that are neither are left to the engine, which says so. No lock
 * but that of the VM may be held: this takes as long as the network does.
 */
int fetch_chain(struct vmm *m, const struct engine_chain *c, struct err *err);
int fetch_point(struct vmm *m, const struct engine_point *p, struct err *err);
/* Nothing of it would have to be fetched. */
bool fetch_is_here(struct vmm *m, const char *layer);

/* cache.c */
void cache_used(struct stored *s, const struct engine_chain *c);
/* Files that may go, the least recently used first, until so many bytes are free. */
uint64_t cache_drop(struct vmm *m, uint64_t bytes);
void cache_keep(struct vmm *m); /* drops what is above the bound */
/* A file of another node's came; when that node has collected its row, it goes. */
void cache_fetched(struct stored *s, enum object_kind kind, const char *id);
void cache_forget_gone(struct vmm *m);
