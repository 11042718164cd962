/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.c - a request's body: small ones in memory, large ones in a file without a name
 *
 * Space is taken as bytes arrive, never because a header announces them. All bodies in files are
 * counted (limits.c); above the limit a request is rejected rather than the disk filled.
 */
#include "http/http_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"

void body_begin(struct request *req, struct body *b)
{
	*b = BODY_EMPTY;
	b->http = req->http;
	memcpy(b->holder, req->holder, sizeof(b->holder));
}

static int spool_start(struct body *b, struct err *err)
{
	int r;

	b->fd = open(b->http->conf.spool_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (b->fd < 0)
		return err_sys(err, -errno, "create a file for a large body");
	if ((r = limits_spool(b, b->mem.len, err)) < 0) {
		close(b->fd);
		b->fd = -1;
		return r;
	}
	r = io_write_all(b->fd, b->mem.p, b->mem.len);
	buf_done(&b->mem);
	return r < 0 ? err_sys(err, r, "write a large body to a file") : 0;
}

int body_add(struct body *b, const void *p, size_t n, struct err *err)
{
	int r;

	if (b->fd < 0 && b->mem.len + n <= BODY_MEM_MAX) {
		buf_put(&b->mem, p, n);
		if (b->mem.failed)
			return err_set(err, -ENOMEM, "out of memory");
		b->len += n;
		return 0;
	}
	if (b->fd < 0 && (r = spool_start(b, err)) < 0)
		return r;
	if ((r = limits_spool(b, n, err)) < 0)
		return r;
	b->len += n; /* what body_done() gives back */
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

void body_done(struct body *b)
{
	if (b->map)
		munmap(b->map, b->len);
	if (b->fd >= 0) {
		close(b->fd);
		budget_give(b->http->spool, b->holder, b->len);
	}
	buf_done(&b->mem);
	*b = BODY_EMPTY;
}
