/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.c - a request's body: small ones in memory, large ones in a file without a name
 *
 * Space is allocated as bytes arrive, never because a header announces them. The total of all
 * bodies in files is bounded; beyond that a request is rejected, so that the disk does not fill up.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"

static int spool_take(struct http *h, uint64_t n, struct err *err)
{
	LOCK_SCOPE(&h->lock);
	if (h->spooled + n > SPOOL_MAX)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "too many large uploads at once: try again later");
	h->spooled += n;
	return 0;
}

static int spool_start(struct http *h, struct body *b, struct err *err)
{
	int r;

	b->fd = open(h->conf.spool_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (b->fd < 0)
		return err_sys(err, -errno, "create a file for a large body");
	if ((r = spool_take(h, b->mem.len, err)) < 0) {
		close(b->fd);
		b->fd = -1;
		return r;
	}
	r = io_write_all(b->fd, b->mem.p, b->mem.len);
	buf_done(&b->mem);
	return r < 0 ? err_sys(err, r, "write a large body to a file") : 0;
}

int body_add(struct http *h, struct body *b, const void *p, size_t n, struct err *err)
{
	int r;

	if (b->fd < 0 && b->mem.len + n <= BODY_MEM_MAX) {
		buf_put(&b->mem, p, n);
		if (b->mem.failed)
			return err_set(err, -ENOMEM, "out of memory");
		b->len += n;
		return 0;
	}
	if (b->fd < 0 && (r = spool_start(h, b, err)) < 0)
		return r;
	if ((r = spool_take(h, n, err)) < 0)
		return r;
	b->len += n; /* subtracted again by body_done() */
	if ((r = io_write_all(b->fd, p, n)) < 0)
		return err_sys(err, r, "write a large body to a file");
	return 0;
}

int body_view(struct body *b, const char **ret, size_t *ret_n, struct err *err)
{
	if (b->fd < 0) {
		*ret = b->mem.p ? (const char *)b->mem.p : "";
		*ret_n = b->mem.len;
		return 0;
	}
	if (!b->map) {
		void *p = mmap(NULL, b->len, PROT_READ, MAP_PRIVATE, b->fd, 0);

		if (p == MAP_FAILED)
			return err_sys(err, -errno, "map a large body");
		b->map = p;
	}
	*ret = b->map;
	*ret_n = b->len;
	return 0;
}

void body_done(struct http *h, struct body *b)
{
	if (b->map)
		munmap(b->map, b->len);
	if (b->fd >= 0) {
		close(b->fd);
		LOCK_SCOPE(&h->lock);
		h->spooled -= b->len;
	}
	buf_done(&b->mem);
	*b = BODY_EMPTY;
}
