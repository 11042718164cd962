/* SPDX-License-Identifier: Apache-2.0 */
/*
 * objects.c - a bucket, and the threads that transfer chunks
 *
 * Transfers are in a list; a thread that has nothing to do takes the next chunk of the first one
 * that somebody waits for (get), else of the first put. Puts have at most half of the threads, so
 * that a VM that is woken never waits for uploads. A chunk costs two buffers while it is under way,
 * which bounds the memory: threads times 16 MiB. The first chunk that fails ends its transfer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "objects/objects_internal.h"

#define TRANSFERS 8    /* threads, as usual */
#define STALL_MS 15000 /* likewise */
#define PAUSE_MS 200
#define ZERO_BLOCK 65536u /* zeros of this size are left out of a file: holes */

/* ---- one chunk ---- */

static void key_of(const char *name, uint32_t i, char dst[OBJECT_NAME_SIZE + 12])
{
	snprintf(dst, OBJECT_NAME_SIZE + 12, "%s/%u", name, i);
}

/* Is there nothing but a hole? */
static bool hole(int fd, uint64_t off, size_t len)
{
	off_t data = lseek(fd, (off_t)off, SEEK_DATA);

	return data < 0 ? errno == ENXIO : (uint64_t)data >= off + len;
}

static int put_chunk(struct objects *o, CURL *c, const struct objects_transfer *t,
                     const struct chunk *k, struct err *err)
{
	uint64_t off = (uint64_t)k->i * OBJECT_CHUNK;
	size_t len = chunk_len(k), n = 0;
	autofree uint8_t *plain = NULL;
	autofree uint8_t *object = NULL;
	autobuf struct buf reply = { 0 };
	char key[OBJECT_NAME_SIZE + 12];
	struct s3_req q = { .method = S3_PUT, .key = key };
	int r;

	if (!hole(t->fd, off, len)) {
		plain = malloc(len ? len : 1);
		if (!plain)
			return err_set(err, -ENOMEM, "out of memory for a chunk");
		r = io_pread_all(t->fd, plain, len, (off_t)off);
		if (r < 0)
			return err_sys(err, r, "read %s", t->name);
	}
	if ((r = chunk_seal(k, plain, &object, &n, err)) < 0)
		return r;
	free(TAKE_PTR(plain));
	key_of(t->name, k->i, key);
	q.body = object;
	q.n = n;
	return objects_ask(o, c, &q, &reply, err);
}

/* The file is new: what is not written stays a hole. */
static int write_chunk(int fd, const uint8_t *p, size_t len, uint64_t off)
{
	for (size_t at = 0; at < len; at += ZERO_BLOCK) {
		size_t n = MIN(len - at, (size_t)ZERO_BLOCK);
		int r;

		if (p[at] == 0 && memcmp(p + at, p + at + 1, n - 1) == 0)
			continue;
		r = io_pwrite_all(fd, p + at, n, (off_t)(off + at));
		if (r < 0)
			return r;
	}
	return 0;
}

static int get_chunk(struct objects *o, CURL *c, const struct objects_transfer *t,
                     const struct chunk *k, struct err *err)
{
	size_t len = chunk_len(k);
	autofree uint8_t *plain = NULL;
	autobuf struct buf object = { 0 };
	char key[OBJECT_NAME_SIZE + 12];
	struct s3_req q = { .method = S3_GET, .key = key, .max = chunk_object_max(len) };
	bool zeros = false;
	int r;

	key_of(t->name, k->i, key);
	if ((r = objects_ask(o, c, &q, &object, err)) < 0)
		return r;
	plain = malloc(len ? len : 1);
	if (!plain)
		return err_set(err, -ENOMEM, "out of memory for a chunk");
	r = chunk_open(k, object.p, object.len, plain, &zeros, err);
	if (r < 0 || zeros)
		return r;
	r = write_chunk(t->fd, plain, len, (uint64_t)k->i * OBJECT_CHUNK);
	return r < 0 ? err_sys(err, r, "write %s", t->name) : 0;
}

/* ---- threads ---- */

static struct objects_transfer *next_work(struct objects *o) REQUIRES(o->lock);
static struct objects_transfer *next_work(struct objects *o)
{
	struct objects_transfer *put = NULL;

	for (struct objects_transfer *t = o->first; t; t = t->next) {
		if (t->r < 0 || t->at == t->n)
			continue;
		if (!t->put)
			return t;
		if (!put)
			put = t;
	}
	return o->n_puts < o->max_puts ? put : NULL;
}

static void one_chunk(struct objects *o, CURL *c, struct objects_transfer *t) REQUIRES(o->lock);
static void one_chunk(struct objects *o, CURL *c, struct objects_transfer *t)
{
	struct chunk k = { t->name, t->at++, t->n, t->bytes, t->key };
	struct err err = { 0 };
	int r;

	t->busy++;
	o->n_puts += t->put;
	mutex_unlock(&o->lock);
	r = t->put ? put_chunk(o, c, t, &k, &err) : get_chunk(o, c, t, &k, &err);
	mutex_lock(&o->lock);
	o->n_puts -= t->put;
	t->busy--;
	if (r < 0 && t->r == 0) {
		t->r = r;
		t->err = err;
	}
	if (t->busy == 0 && (t->r < 0 || t->at == t->n))
		cond_broadcast(&o->done);
	if (t->put) /* another one may begin */
		cond_signal(&o->work);
}

void *objects_worker(void *arg)
{
	struct objects *o = arg;
	CURL *c = curl_easy_init();

	mutex_lock(&o->lock);
	while (!o->ending) {
		struct objects_transfer *t = c ? next_work(o) : NULL;

		if (t)
			one_chunk(o, c, t);
		else
			cond_wait(&o->work, &o->lock);
	}
	mutex_unlock(&o->lock);
	curl_easy_cleanup(c);
	return NULL;
}

int objects_begin(struct objects *o, struct objects_transfer *t, struct err *err)
{
	struct objects_transfer **end;
	int r;

	if (t->bytes > OBJECT_FILE_MAX)
		return err_set(err, -EFBIG, "%s is too large for the object store", t->name);
	if ((r = objects_claim(o, err)) < 0)
		return r;
	if (!t->put && ftruncate(t->fd, (off_t)t->bytes) < 0)
		return err_sys(err, -errno, "make %s as long as it was", t->name);
	t->n = objects_chunks(t->bytes);
	t->at = t->busy = 0;
	t->r = 0;
	t->err = (struct err){ 0 };
	t->next = NULL;
	LOCK_SCOPE(&o->lock);
	for (end = &o->first; *end; end = &(*end)->next)
		;
	*end = t;
	cond_broadcast(&o->work);
	return 0;
}

int objects_wait(struct objects *o, struct objects_transfer *t, struct err *err)
{
	LOCK_SCOPE(&o->lock);

	while (t->busy > 0 || (t->r == 0 && t->at < t->n)) {
		if (o->ending && t->r == 0)
			t->r = err_set(&t->err, -ECANCELED, "the server is shutting down");
		else
			cond_wait(&o->done, &o->lock);
	}
	for (struct objects_transfer **at = &o->first; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			break;
		}
	if (t->r < 0 && err)
		*err = t->err;
	return t->r;
}

/* ---- begin and end ---- */

int objects_open(const struct objects_conf *c, struct objects **ret, struct err *err)
{
	struct objects *o = calloc(1, sizeof(*o));
	unsigned want = c->transfers ? MIN(c->transfers, OBJECTS_TRANSFERS_MAX) : TRANSFERS;
	int r;

	if (!o)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&o->lock, "objects");
	mutex_init(&o->misc, "objects misc");
	cond_init(&o->work);
	cond_init(&o->done);
	o->max_puts = MAX(want / 2, 1);
	o->s3.stall_ms = c->stall_ms ? c->stall_ms : STALL_MS;
	o->s3.pause_ms = c->pause_ms ? c->pause_ms : PAUSE_MS;
	snprintf(o->cluster, sizeof(o->cluster), "%s", c->cluster);
	r = s3_place_parse(c, &o->s3.at, err);
	if (r == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		r = err_set(err, -ENOMEM, "libcurl cannot be used");
	if (r == 0) {
		mutex_unshared(&o->misc);
		o->curl = curl_easy_init();
		if (!o->curl)
			r = err_set(err, -ENOMEM, "out of memory");
	}
	while (r == 0 && o->n_threads < want) {
		int e = pthread_create(&o->threads[o->n_threads], NULL, objects_worker, o);

		if (e)
			r = err_sys(err, -e, "start a thread");
		else
			o->n_threads++;
	}
	if (r < 0) {
		objects_close(o);
		return r;
	}
	*ret = o;
	return 0;
}

void objects_end(struct objects *o)
{
	if (!o)
		return;
	atomic_store(&o->s3.ending, true);
	LOCK_SCOPE(&o->lock);
	o->ending = true;
	cond_broadcast(&o->work);
	cond_broadcast(&o->done);
}

struct objects *objects_close(struct objects *o)
{
	if (!o)
		return NULL;
	objects_end(o);
	while (o->n_threads)
		pthread_join(o->threads[--o->n_threads], NULL);
	mutex_unshared(&o->misc);
	curl_easy_cleanup(o->curl);
	cond_destroy(&o->work);
	cond_destroy(&o->done);
	mutex_destroy(&o->misc);
	mutex_destroy(&o->lock);
	explicit_bzero(&o->s3.at, sizeof(o->s3.at));
	free(o);
	return NULL;
}

const char *objects_where(const struct objects *o)
{
	return o->s3.at.where;
}
