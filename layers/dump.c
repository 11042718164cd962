/* SPDX-License-Identifier: MIT */
/*
 * dump.c - the forked child: writes guest memory as it was at the fork to a layer file
 *
 * Theory of operation: the child is a copy of QEMU with one thread, whose locks may be held by
 * threads that do not exist any more. So it calls nothing but system calls and the pure code of
 * format.c, and its own memory is mapped fresh. It lets go of every inherited descriptor but its
 * file (a socket QEMU closes must look closed to its peer at once), makes itself the first victim
 * when memory runs out, and dies with its parent.
 *
 * scan -> what the guest has free (guestmem.c) -> for each run of private pages: data or zeros ->
 * data in big writes -> table -> header. Free memory becomes zero extents, where it is private and
 * where a layer below may have something: a later thaw need not have that, and flattening drops it.
 * Each page is looked at, summed and written in one go while it is in the CPU's cache. The header
 * comes last: a file without one is no layer. On failure the file is emptied, so that a full disk
 * gets its room back at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "layers/layers_internal.h"

#define JOIN_PAGES 16u /* gap over which runs are joined: a mapping costs more than 64 KiB */
#define ZERO_BYTES \
	((uint64_t)JOIN_PAGES * LAYER_PAGE) /* only longer runs of zeros become zero extents */
#define ZERO_SPLITS_MAX 4096u    /* zero extents per layer; further zeros are written as data */
#define CHUNK_BYTES (256u << 10) /* summed and queued at once; fits in the second-level cache */
#define WRITE_BYTES (1u << 20)   /* queued before it is written */
#define IOV_MAX_OURS 256
#define LONE_BYTES (512u << 10) /* free memory that is not private counts from this size on */
#define EXTENTS_MAX (SCAN_RUNS_MAX + 2 * ZERO_SPLITS_MAX + 3 * GUESTMEM_RUNS_MAX)

struct writer {
	const uint8_t *base;
	int fd;
	uint64_t file_end; /* where the next data goes, what is queued included */
	uint64_t written;  /* what has been given to the kernel ends here */
	uint32_t crc;
	struct iovec iov[IOV_MAX_OURS];
	int n_iov;
	struct layer_extent extents[EXTENTS_MAX];
	uint32_t n_extents, n_zero;
	uint8_t table[EXTENTS_MAX * sizeof(struct layer_disk_extent)];
	uint8_t header[LAYER_PAGE];
	struct scan scan;
	struct guestmem_free free;
	uint32_t next_free;     /* those before it end before what is being written */
	uint64_t free_pages;    /* within runs */
	const uint32_t *cancel; /* in memory shared with the parent */
};

static int pwrite_all(int fd, const void *data, size_t n, uint64_t off)
{
	const uint8_t *p = data;

	while (n > 0) {
		ssize_t w = pwrite(fd, p, n, (off_t)off);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? -errno : -EIO;
		p += w;
		off += (uint64_t)w;
		n -= (size_t)w;
	}
	return 0;
}

/* Give the kernel what is queued. */
static int flush(struct writer *w)
{
	int first = 0;

	if (__atomic_load_n(w->cancel, __ATOMIC_ACQUIRE))
		return -ECANCELED;
	while (first < w->n_iov) {
		ssize_t n = pwritev(w->fd, w->iov + first, w->n_iov - first, (off_t)w->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		w->written += (uint64_t)n;
		while (n > 0 && (size_t)n >= w->iov[first].iov_len)
			n -= (ssize_t)w->iov[first++].iov_len;
		if (n > 0) {
			w->iov[first].iov_base = (uint8_t *)w->iov[first].iov_base + n;
			w->iov[first].iov_len -= (size_t)n;
		}
	}
	w->n_iov = 0;
	return 0;
}

static int put_data(struct writer *w, uint64_t start, uint64_t end)
{
	struct layer_extent *last = w->n_extents > 0 ? &w->extents[w->n_extents - 1] : NULL;
	struct iovec *iov = w->n_iov > 0 ? &w->iov[w->n_iov - 1] : NULL;
	uint64_t len = end - start;
	/* the kernel does not write to it */
	uint8_t *p = (uint8_t *)(uintptr_t)(w->base + start);

	if (len == 0)
		return 0;
	if (last && !(last->flags & LAYER_EXTENT_ZERO) && last->guest_off + last->len == start)
		last->len += len;
	else
		w->extents[w->n_extents++] = (struct layer_extent){ .guest_off = start,
			                                            .file_off = w->file_end,
			                                            .len = len };
	w->file_end += len;
	w->crc = layer_crc32c(w->crc, p, len);
	if (iov && (uint8_t *)iov->iov_base + iov->iov_len == p)
		iov->iov_len += len;
	else
		w->iov[w->n_iov++] = (struct iovec){ .iov_base = p, .iov_len = len };
	if (w->n_iov == IOV_MAX_OURS || w->file_end - w->written >= WRITE_BYTES)
		return flush(w);
	return 0;
}

static void put_zero(struct writer *w, uint64_t start, uint64_t end)
{
	struct layer_extent *last = w->n_extents > 0 ? &w->extents[w->n_extents - 1] : NULL;

	if (last && (last->flags & LAYER_EXTENT_ZERO) && last->guest_off + last->len == start) {
		last->len += end - start;
		return;
	}
	w->extents[w->n_extents++] = (struct layer_extent){ .guest_off = start,
		                                            .len = end - start,
		                                            .flags = LAYER_EXTENT_ZERO };
	w->n_zero++;
}

static bool page_is_zero(const uint8_t *p)
{
	for (size_t i = 0; i < LAYER_PAGE; i += 128) {
		uint64_t w[16], any = 0;

		memcpy(w, p + i, sizeof(w));
		for (size_t k = 0; k < 16; k++)
			any |= w[k];
		if (any != 0)
			return false;
	}
	return true;
}

/* One run. [data, zero) is waiting to be written, [zero, at) are zeros so far. */
static int put_run(struct writer *w, uint64_t start, uint64_t end)
{
	uint64_t data = start, zero = start;
	int r;

	for (uint64_t at = start; at < end; at += LAYER_PAGE) {
		if (page_is_zero(w->base + at))
			continue;
		if (at - zero > ZERO_BYTES && w->n_zero < ZERO_SPLITS_MAX) {
			if ((r = put_data(w, data, zero)) < 0)
				return r;
			put_zero(w, zero, at);
			data = at;
		}
		zero = at + LAYER_PAGE;
		if (zero - data >= CHUNK_BYTES) {
			if ((r = put_data(w, data, zero)) < 0)
				return r;
			data = zero;
		}
	}
	if (end - zero > ZERO_BYTES && w->n_zero < ZERO_SPLITS_MAX) {
		if ((r = put_data(w, data, zero)) < 0)
			return r;
		put_zero(w, zero, end);
		return 0;
	}
	return put_data(w, data, end);
}

/*
 * The next free run, cut to [from, to), that is at least @least long. 1, or 0: none begins in there
 * any more. A run that is too short in one piece may be long enough in the next.
 */
static int next_free(struct writer *w, uint64_t from, uint64_t to, uint64_t least,
                     uint64_t *ret_start, uint64_t *ret_end)
{
	while (w->next_free < w->free.n) {
		uint64_t start = w->free.start[w->next_free], end = w->free.end[w->next_free];

		*ret_start = start > from ? start : from;
		*ret_end = end < to ? end : to;
		if (start >= to)
			return 0;
		if (end <= to)
			w->next_free++;
		if (*ret_start < *ret_end && *ret_end - *ret_start >= least)
			return 1;
		if (end > to)
			return 0;
	}
	return 0;
}

/* Between two runs of private pages. */
static void put_gap(struct writer *w, uint64_t from, uint64_t to)
{
	uint64_t start, end;

	while (from < to && next_free(w, from, to, LONE_BYTES, &start, &end)) {
		put_zero(w, start, end);
		from = end;
	}
}

/* A run of private pages, and free ones among them. */
static int put_private(struct writer *w, uint64_t from, uint64_t to)
{
	uint64_t start, end;
	int r;

	while (from < to && next_free(w, from, to, ZERO_BYTES, &start, &end)) {
		if ((r = put_run(w, from, start)) < 0)
			return r;
		put_zero(w, start, end);
		w->free_pages += (end - start) / LAYER_PAGE;
		from = end;
	}
	return put_run(w, from, to);
}

/* Table, then header. With LAYERS_FREEZE_FSYNC the header reaches the disk after all else. */
static int put_end(struct writer *w, const struct dump_job *job)
{
	struct layer_info info = {
		.mem_bytes = job->bytes,
		.n_extents = w->n_extents,
		.data_pages = w->file_end / LAYER_PAGE - 1,
		.data_crc = w->crc,
	};
	bool sync = job->flags & LAYERS_FREEZE_FSYNC;
	int r;

	info.table_crc = layer_table_encode(w->extents, w->n_extents, w->table);
	r = pwrite_all(w->fd, w->table, layer_table_bytes(&info), layer_table_off(&info));
	if (r < 0)
		return r;
	if (sync && fdatasync(w->fd) < 0)
		return -errno;
	layer_header_encode(&info, w->header);
	r = pwrite_all(w->fd, w->header, sizeof(w->header), 0);
	if (r < 0)
		return r;
	if (sync && fsync(w->fd) < 0)
		return -errno;
	return 0;
}

static void find_free(struct writer *w, const struct dump_job *job)
{
	struct guestmem g;
	const char *why;

	if ((job->flags & LAYERS_FREEZE_FREE) &&
	    guestmem_open(&g, job->base, job->bytes, job->low_bytes, job->note, &why) == 0)
		guestmem_find(&g, 0, job->bytes, &w->free);
}

static int dump_layer(struct writer *w, const struct dump_job *job, const char **ret_why)
{
	int r;

	*ret_why = "find private pages";
	r = scan_private(job->base, job->bytes, JOIN_PAGES,
	                 /* use_ioctl= */ !(job->flags & LAYERS_FREEZE_NO_SCAN), &w->scan);
	if (r < 0)
		return r;
	find_free(w, job);
	*ret_why = "write data";
	for (uint32_t i = 0; i < w->scan.n; i++) {
		put_gap(w, i > 0 ? w->scan.end[i - 1] : 0, w->scan.start[i]);
		if ((r = put_private(w, w->scan.start[i], w->scan.end[i])) < 0)
			return r;
	}
	put_gap(w, w->scan.n > 0 ? w->scan.end[w->scan.n - 1] : 0, job->bytes);
	if ((r = flush(w)) < 0)
		return r;
	*ret_why = "write table and header";
	if (__atomic_load_n(w->cancel, __ATOMIC_ACQUIRE))
		return -ECANCELED;
	return put_end(w, job);
}

/* Only a wish: without it the kernel may choose QEMU instead. */
static void be_first_victim(void)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY);

	if (fd < 0)
		return;
	if (write(fd, "1000", 4) < 0)
		errno = 0;
	close(fd);
}

/* Descriptor 0 becomes the layer, all others go. */
static int keep_only(int fd)
{
	if (dup2(fd, 0) < 0)
		return -errno;
	return syscall(SYS_close_range, 1, ~0u, 0) < 0 ? -errno : 0;
}

_Noreturn void dump_child(const struct dump_job *job)
{
	uint64_t began = now_us();
	const char *why = "start writer";
	struct dump_result *res = job->result;
	struct writer *w = NULL;
	int r = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != job->parent)
		_exit(1); /* it died before PR_SET_PDEATHSIG */
	prctl(PR_SET_NAME, "pando-freeze", 0, 0, 0);
	if ((r = keep_only(job->fd)) == 0) {
		be_first_victim();
		w = (void *)syscall(SYS_mmap, NULL, sizeof(*w), PROT_READ | PROT_WRITE,
		                    MAP_PRIVATE | MAP_ANONYMOUS, -1, (off_t)0);
		if (w == MAP_FAILED)
			r = -errno;
	}
	if (r == 0) {
		w->cancel = &res->cancel;
		w->base = job->base;
		w->fd = 0;
		w->file_end = w->written = LAYER_PAGE;
		r = dump_layer(w, job, &why);
		res->pages = w->file_end / LAYER_PAGE - 1;
		res->n_extents = w->n_extents;
		res->free_pages = w->free_pages;
		if (r < 0 && ftruncate(w->fd, 0) < 0)
			why = "empty the file after an error"; /* r says which */
	}
	res->status = r;
	res->us = now_us() - began;
	if (r == -ECANCELED)
		why = "discarded";
	if (r < 0)
		strncpy(res->why, why, sizeof(res->why) - 1);
	__atomic_store_n(&res->finished, 1, __ATOMIC_RELEASE);
	_exit(0);
}
