/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.c - a request's body: small ones in memory, large ones in a file without a name
 *
 * Room is made as bytes arrive, never for what a header promises. All bodies
 * in files together are bounded; above that the request is refused, not the disk filled.
 */
#include "api/call.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "conf.h"

static int spool_take(struct api *a, uint64_t n, struct err *err)
{
	LOCK_SCOPE(&a->lock);
	if (a->spooled + n > API_SPOOL_MAX)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "too many large uploads at once: try again later");
	a->spooled += n;
	return 0;
}

static int spool_start(struct api *a, struct body *b, struct err *err)
{
	int r;

	b->fd = open(a->deps.conf->data_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (b->fd < 0)
		return err_sys(err, -errno, "make room for a large body");
	if ((r = spool_take(a, b->mem.len, err)) < 0) {
		close(b->fd);
		b->fd = -1;
		return r;
	}
	r = io_write_all(b->fd, b->mem.p, b->mem.len);
	buf_done(&b->mem);
	return r < 0 ? err_sys(err, r, "keep a large body") : 0;
}

int body_add(struct api *a, struct body *b, const void *p, size_t n, struct err *err)
{
	int r;

	if (b->fd < 0 && b->mem.len + n <= API_BODY_MEM_MAX) {
		buf_put(&b->mem, p, n);
		if (b->mem.failed)
			return err_set(err, -ENOMEM, "out of memory");
		b->len += n;
		return 0;
	}
	if (b->fd < 0 && (r = spool_start(a, b, err)) < 0)
		return r;
	if ((r = spool_take(a, n, err)) < 0)
		return r;
	b->len += n; /* what body_done() gives back */
	if ((r = io_write_all(b->fd, p, n)) < 0)
		return err_sys(err, r, "keep a large body");
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

void body_done(struct api *a, struct body *b)
{
	if (b->map)
		munmap(b->map, b->len);
	if (b->fd >= 0) {
		close(b->fd);
		LOCK_SCOPE(&a->lock);
		a->spooled -= b->len;
	}
	buf_done(&b->mem);
	*b = BODY_EMPTY;
}
