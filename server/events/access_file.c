/* SPDX-License-Identifier: Apache-2.0 */
/*
 * access_file.c - the access log across an orderly restart of the server
 *
 * The file is a magic text, the counters, then rings: account, name, VM, records; the one that was
 * written longest ago first within each account. It is ours, but a disk may have damaged it: every
 * record is checked before it is used, and the first that makes no sense ends the reading.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "events/access_internal.h"

#define MAGIC "pando access 1"
#define FILE_MAX (ACCESS_ALL_MAX + (8u << 20)) /* rings have names, too */

static void put_ring(struct buf *b, const struct ring *r)
{
	buf_put_str(b, r->owner->account);
	buf_put_str(b, r->name);
	buf_put_str(b, r->vm);
	buf_put_blob(b, r->p, r->len);
}

int access_save(struct access *a, const char *path, struct err *err)
{
	autobuf struct buf b = { 0 };

	mutex_lock(&a->lock);
	buf_put_str(&b, MAGIC);
	buf_put_u64(&b, a->seq);
	buf_put_u64(&b, (uint64_t)a->last_ms);
	for (const struct owner *o = a->owners; o; o = o->next)
		for (const struct ring *r = o->last; r; r = r->prev)
			put_ring(&b, r);
	mutex_unlock(&a->lock);
	if (b.failed)
		return err_set(err, -ENOMEM, "out of memory");
	return io_write_file(AT_FDCWD, path, b.p, b.len, 0600, err);
}

/* Is it a row of records, each as long as it says, no newer than the counters? */
static bool records_valid(const uint8_t *p, size_t n, uint64_t seq, int64_t last_ms)
{
	for (size_t at = 0; at < n;) {
		struct rec rec;
		uint32_t again;

		if (n - at < REC_MIN)
			return false;
		memcpy(&rec, p + at, sizeof(rec));
		if (rec.size > n - at || rec.size != REC_MIN + rec.n_host + rec.n_path +
		                                             rec.n_method + rec.n_client +
		                                             rec.n_error)
			return false;
		memcpy(&again, p + at + rec.size - sizeof(again), sizeof(again));
		if (again != rec.size || rec.seq > seq || rec.at_ms > last_ms)
			return false;
		for (size_t i = sizeof(rec); i < rec.size - sizeof(again); i++)
			if (p[at + i] <= ' ' || p[at + i] > '~')
				return false;
		at += rec.size;
	}
	return true;
}

static int load_ring(struct access *a, struct rd *c) REQUIRES(&a->lock)
{
	char account[ACCOUNT_SIZE], name[ACCESS_NAME_SIZE], vm[ID_SIZE];
	const uint8_t *p;
	struct owner *o;
	struct ring *r;
	size_t n;

	if (rd_str(c, account, sizeof(account)) < 0 || rd_str(c, name, sizeof(name)) < 0 ||
	    rd_str(c, vm, sizeof(vm)) < 0 || rd_blob(c, ACCESS_RING_MAX, &p, &n) < 0 ||
	    !records_valid(p, n, a->seq, a->last_ms))
		return -EBADMSG;
	o = access_owner(a, account, /* make= */ true);
	r = o ? access_ring(a, o, name, vm) : NULL;
	if (!r || access_grow(a, r, n) < 0)
		return -ENOMEM;
	memcpy(r->p + r->len, p, n);
	r->len += n;
	access_shrink(a, o);
	return 0;
}

int access_load(struct access *a, const char *path, struct err *err)
{
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
	autofree uint8_t *p = NULL;
	char magic[sizeof(MAGIC)];
	uint64_t seq, last_ms;
	struct stat st;
	struct rd c;
	int r = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(err, -errno, "open '%s'", path);
	if (fstat(fd, &st) < 0 || st.st_size > (off_t)FILE_MAX)
		return err_set(err, -EFBIG, "'%s' is not an access log of this server", path);
	p = malloc((size_t)st.st_size + 1);
	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = io_read_all(fd, p, (size_t)st.st_size)) < 0)
		return err_sys(err, r, "read '%s'", path);
	c = rd_of(p, (size_t)st.st_size);
	if (rd_str(&c, magic, sizeof(magic)) < 0 || strcmp(magic, MAGIC) != 0 ||
	    rd_u64(&c, &seq) < 0 || rd_u64(&c, &last_ms) < 0 || last_ms > INT64_MAX / 2 ||
	    seq > INT64_MAX / 2)
		return err_set(err, -EBADMSG, "'%s' is not an access log", path);
	LOCK_SCOPE(&a->lock);
	a->seq = MAX(a->seq, seq);
	a->last_ms = MAX(a->last_ms, (int64_t)last_ms);
	while (r == 0 && c.left)
		r = load_ring(a, &c);
	return r < 0 ? err_set(err, r, "'%s' is damaged: some lines of the access log are lost",
	                       path)
	             : 0;
}
