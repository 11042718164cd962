/* SPDX-License-Identifier: Apache-2.0 */
/* objects/objects_internal.h - requests, answers and chunks; for objects/ and its tests */
#pragma once

#include <curl/curl.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "base/lock.h"
#include "objects/objects.h"

/* ---- url.c: the setting ---- */
struct s3_place {
	char base[400];  /* https://host:port/bucket/prefix/ */
	char where[300]; /* "bucket at https://host:port" */
	char prefix[80]; /* "" or "prefix/" */
	char list[400];  /* https://host:port/bucket */
	char region[40];
	char ca[200];    /* file of certificates; "": the system's */
	char login[400]; /* key id ":" secret; wiped by the owner */
};
int s3_place_parse(const struct objects_conf *c, struct s3_place *ret, struct err *err);

/* ---- s3.c: one request ---- */
struct s3 {
	struct s3_place at;
	unsigned stall_ms, pause_ms;
	_Atomic bool ending;
};

enum s3_method { S3_GET, S3_PUT, S3_DELETE, S3_HEAD, S3_LIST };
struct s3_req {
	enum s3_method method;
	const char *key;   /* below the prefix; NULL for S3_LIST */
	const char *query; /* of S3_LIST: sorted and encoded */
	const void *body;  /* of S3_PUT */
	size_t n;
	size_t max; /* bytes of an answer that is one */
};
/* c: a handle of the calling thread, which keeps its connection. Tries again where that may help.
 */
int s3_do(struct s3 *s, CURL *c, const struct s3_req *q, struct buf *ret_body, struct err *err);
/* Percent-encodes all that is not unreserved, as signatures want it. */
void s3_encode(struct buf *b, const char *text);

/* ---- xml.c: what servers answer ---- */
struct s3_error {
	char code[64];     /* "NoSuchKey"; "" if there is none */
	char message[160]; /* printable */
};
void s3_error_parse(const void *p, size_t n, struct s3_error *ret);

#define S3_LIST_MAX 1000      /* keys of one answer */
#define S3_KEY_SIZE 256       /* bytes of a key, with the NUL */
#define S3_XML_MAX (2u << 20) /* bytes of an answer */
struct s3_list {
	char (*keys)[S3_KEY_SIZE]; /* owned */
	size_t n;
	bool more;
	char token[1025]; /* for the next request, if more */
};
int s3_list_parse(const void *p, size_t n, struct s3_list *ret, struct err *err);
void s3_list_done(struct s3_list *l);

/* ---- chunk.c: bytes of a file to an object and back ---- */
#define CHUNK_HEAD 32
#define CHUNK_TAG 16
struct chunk {
	const char *name; /* of the file */
	uint32_t i, n;    /* which of how many */
	uint64_t bytes;   /* of the file */
	const uint8_t *key;
};
size_t chunk_len(const struct chunk *c); /* bytes of the file in it */
size_t chunk_object_max(size_t len);
/* plain NULL: all zeros. The caller frees *ret. */
int chunk_seal(const struct chunk *c, const uint8_t *plain, uint8_t **ret, size_t *ret_n,
               struct err *err);
/* Decrypts in place. plain: chunk_len() bytes, which are left alone if *ret_zeros. -EBADMSG if it
 * is anything but this chunk. */
int chunk_open(const struct chunk *c, uint8_t *object, size_t n, uint8_t *plain, bool *ret_zeros,
               struct err *err);

/* ---- objects.c ---- */
#define OBJECTS_TRANSFERS_MAX 64
struct objects {
	struct s3 s3;
	char cluster[64];
	struct mutex lock; /* "objects" */
	struct cond work;  /* there is something to transfer, or no more */
	struct cond done;  /* something was */
	struct objects_transfer *first GUARDED_BY(lock);
	unsigned n_puts GUARDED_BY(lock); /* threads that put a chunk */
	struct objects_status status GUARDED_BY(lock);
	bool ending GUARDED_BY(lock);
	struct mutex misc; /* "objects misc": the handle for all but transfers */
	CURL *curl GUARDED_BY(misc);
	_Atomic bool claimed;
	unsigned n_threads, max_puts;
	pthread_t threads[OBJECTS_TRANSFERS_MAX];
};
void *objects_worker(void *arg);
/* claim.c: s3_do(), whose result objects_status() shows. */
int objects_ask(struct objects *o, CURL *c, const struct s3_req *q, struct buf *ret_body,
                struct err *err);
