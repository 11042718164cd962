/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects/objects.h - files in an S3-compatible object store
 *
 * A file becomes chunks of CHUNK_BYTES; each is compressed, encrypted with its owner's key and put
 * as one object, "<name>/<number>". Names are ours, of [a-z0-9/.-]. Nothing is ever changed: an
 * object is written once (or again with the same contents after a failure), read and deleted. What
 * a name stands for, how long its file is and who owns it is the caller's to know; a chunk that is
 * not exactly that one is an error and never data.
 *
 * One struct objects is one bucket. A few threads transfer chunks, several of one file at a time,
 * those that somebody waits for (get) first. Every request has deadlines and is tried again a few
 * times; errors are sentences for the operator:
 *   -ENOENT        there is no such object
 *   -EBADMSG       the object is not what was put there
 *   -EACCES        the credentials are refused
 *   -ENODEV        there is no such bucket
 *   -ETIME         the clocks are apart
 *   -EINVAL        the bucket is another cluster's, or the setting is wrong
 *   -EHOSTUNREACH  the server does not answer, or not properly
 *   -ECANCELED     objects_end()
 * The first of these after -EBADMSG, up to -EINVAL, need a person; the others may pass.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define OBJECT_CHUNK (8u << 20)      /* bytes of a file in one object */
#define OBJECT_KEY_BYTES 32          /* of an owner's key */
#define OBJECT_NAME_SIZE 64          /* of a name, with the NUL */
#define OBJECT_FILE_MAX (1ull << 43) /* bytes of a file */

struct objects;

struct objects_conf {
	const char *url;         /* s3://bucket?endpoint=... */
	const char *key_id;      /* credentials; "": from the file */
	const char *secret;      /* likewise */
	const char *credentials; /* file that has both; "" */
	const char *cluster;     /* whose bucket it must be */
	unsigned transfers;      /* threads; 0: as usual */
	/* For tests; 0: as usual. Ms of a request without an answer, of the first pause. */
	unsigned stall_ms, pause_ms;
};
/* Checks the settings; asks nobody. */
int objects_open(const struct objects_conf *c, struct objects **ret, struct err *err);
/* Whatever is under way fails soon, and so does all that comes. */
void objects_end(struct objects *o);
struct objects *objects_close(struct objects *o);
/* Where it is, without credentials: "bucket at https://host". */
const char *objects_where(const struct objects *o);

/*
 * Makes sure that the bucket is there, that it can be used, and that it is ours: a marker in it has
 * the cluster's id, and is written to an empty one. Everything below does this first, until it
 * succeeded once.
 */
int objects_claim(struct objects *o, struct err *err);
/* Would a person have to change something? */
bool objects_hopeless(int r);

/* A file on its way. The caller fills in the first part and keeps all of it where it is. */
struct objects_transfer {
	bool put;                      /* else get: the file is empty and writable */
	char name[OBJECT_NAME_SIZE];   /* "layers/ly-..." */
	uint8_t key[OBJECT_KEY_BYTES]; /* its owner's */
	int fd;                        /* weak */
	uint64_t bytes;                /* of the file */

	struct objects_transfer *next; /* the rest is objects.c's */
	uint32_t n, at, busy;          /* chunks: all, taken up so far, being transferred */
	int r;
	struct err err;
};
/* How many objects a file of that size is. */
uint32_t objects_chunks(uint64_t bytes);
int objects_begin(struct objects *o, struct objects_transfer *t, struct err *err);
/* After objects_begin(), exactly once. The file is complete then, but not flushed. */
int objects_wait(struct objects *o, struct objects_transfer *t, struct err *err);

/* All objects of a file; those that are gone already are fine. */
int objects_delete(struct objects *o, const char *name, uint32_t n, struct err *err);
/*
 * Calls fn for every name below a prefix ("layers/"), with the highest number of its chunks plus
 * one. What does not look like ours is left out. fn's first negative result ends it.
 */
typedef int (*objects_list_fn)(void *ctx, const char *name, uint32_t n);
int objects_list(struct objects *o, const char *prefix, objects_list_fn fn, void *ctx,
                 struct err *err);

struct objects_status {
	bool asked;       /* it has answered or failed at least once */
	bool failing;     /* the last request failed, whatever was tried */
	int64_t since_ms; /* wall clock: since when it is so */
	char error[256];  /* "" unless failing */
};
void objects_status(struct objects *o, struct objects_status *ret);
