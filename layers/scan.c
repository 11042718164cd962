/* SPDX-License-Identifier: MIT */
/*
 * scan.c - which pages of guest memory differ from the layers below
 *
 * Theory of operation: all of guest memory is mapped privately, so a page that was written is
 * anonymous, and a page that was only read still belongs to a layer's file or is the kernel's page
 * of zeros. /proc/self/pagemap tells them apart: PAGEMAP_SCAN (Linux 6.7) as ranges, in the kernel;
 * older kernels by one 64-bit entry per page. Without the ioctl the page of zeros cannot be
 * recognised and counts as private, which costs a little space but is never wrong.
 *
 * Runs are joined while they arrive, into a list of fixed size: a full list doubles the gap over
 * which runs are joined and is joined again. Runs after fork: system calls only.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "layers/layers_internal.h"

/* From linux/fs.h of Linux 6.7; Debian 12 builds with the headers of 6.1. */
struct pm_scan_arg_v1 {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
struct pm_region {
	uint64_t start, end, categories;
};
static_assert(sizeof(struct pm_scan_arg_v1) == 96, "kernel ABI");
#define PM_SCAN_IOCTL _IOWR('f', 16, struct pm_scan_arg_v1)
#define PM_IS_FILE (1u << 2)
#define PM_IS_PRESENT (1u << 3)
#define PM_IS_SWAPPED (1u << 4)
#define PM_IS_PFNZERO (1u << 5)

/* One entry of pagemap; Documentation/admin-guide/mm/pagemap.rst */
#define PM_ENTRY_PRESENT (UINT64_C(1) << 63)
#define PM_ENTRY_SWAPPED (UINT64_C(1) << 62)
#define PM_ENTRY_FILE (UINT64_C(1) << 61)

#define VEC_MAX 512      /* ranges per ioctl: 12 KiB of stack */
#define ENTRIES_MAX 2048 /* entries per read: 16 KiB of stack, 8 MiB of memory */

static void join_again(struct scan *s)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i < s->n; i++) {
		if (s->start[i] - s->end[n] <= s->gap) {
			s->end[n] = s->end[i];
		} else {
			n++;
			s->start[n] = s->start[i];
			s->end[n] = s->end[i];
		}
	}
	s->n = n + 1;
}

static void add_run(struct scan *s, uint64_t start, uint64_t end)
{
	s->pages += (end - start) / LAYER_PAGE;
	if (s->n > 0 && start - s->end[s->n - 1] <= s->gap) {
		s->end[s->n - 1] = end;
		return;
	}
	while (s->n == s->max) {
		s->gap = s->gap > 0 ? s->gap * 2 : LAYER_PAGE;
		join_again(s);
	}
	if (s->n > 0 && start - s->end[s->n - 1] <= s->gap) {
		s->end[s->n - 1] = end;
		return;
	}
	s->start[s->n] = start;
	s->end[s->n] = end;
	s->n++;
}

static int scan_ioctl(int fd, const uint8_t *base, uint64_t bytes, struct scan *s)
{
	struct pm_region vec[VEC_MAX];
	const uint64_t first = (uint64_t)(uintptr_t)base;
	struct pm_scan_arg_v1 arg = {
		.size = sizeof(arg),
		.start = first,
		.end = first + bytes,
		.vec = (uint64_t)(uintptr_t)vec,
		.vec_len = VEC_MAX,
		.category_inverted = PM_IS_FILE | PM_IS_PFNZERO,
		.category_mask = PM_IS_FILE | PM_IS_PFNZERO,
		.category_anyof_mask = PM_IS_PRESENT | PM_IS_SWAPPED,
		/* the same for all that is found, so that neighbours come as one range */
		.return_mask = PM_IS_FILE,
	};

	while (arg.start < arg.end) {
		int n = ioctl(fd, PM_SCAN_IOCTL, &arg);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		for (int i = 0; i < n; i++)
			add_run(s, vec[i].start - first, vec[i].end - first);
		if (arg.walk_end <= arg.start)
			return -EIO; /* no progress: would loop for ever */
		arg.start = arg.walk_end;
	}
	return 0;
}

static bool is_private(uint64_t entry)
{
	return (entry & (PM_ENTRY_PRESENT | PM_ENTRY_SWAPPED)) && !(entry & PM_ENTRY_FILE);
}

static int scan_entries(int fd, const uint8_t *base, uint64_t bytes, struct scan *s)
{
	uint64_t entries[ENTRIES_MAX];
	const uint64_t first = (uint64_t)(uintptr_t)base / LAYER_PAGE;
	const uint64_t n_pages = bytes / LAYER_PAGE;
	uint64_t page = 0, run = UINT64_MAX; /* start of the run that is open */

	while (page < n_pages) {
		uint64_t want = n_pages - page < ENTRIES_MAX ? n_pages - page : ENTRIES_MAX;
		ssize_t got = pread(fd, entries, want * 8, (off_t)((first + page) * 8));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 8)
			return got < 0 ? -errno : -EIO;
		for (size_t i = 0; i < (size_t)got / 8; i++, page++) {
			if (is_private(entries[i])) {
				if (run == UINT64_MAX)
					run = page;
			} else if (run != UINT64_MAX) {
				add_run(s, run * LAYER_PAGE, page * LAYER_PAGE);
				run = UINT64_MAX;
			}
		}
	}
	if (run != UINT64_MAX)
		add_run(s, run * LAYER_PAGE, n_pages * LAYER_PAGE);
	return 0;
}

static uint32_t runs_max(uint64_t bytes)
{
	uint64_t n = bytes >> 21;

	return n < SCAN_RUNS_MIN ? SCAN_RUNS_MIN : n > SCAN_RUNS_MAX ? SCAN_RUNS_MAX : (uint32_t)n;
}

int scan_private(const uint8_t *base, uint64_t bytes, uint32_t gap_pages, bool use_ioctl,
                 struct scan *ret)
{
	int r = -ENOTTY;
	/* not open(): that one is ours */
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ret->n = 0;
	ret->pages = 0;
	ret->max = runs_max(bytes);
	ret->gap = (uint64_t)gap_pages * LAYER_PAGE;
	if (use_ioctl)
		r = scan_ioctl(fd, base, bytes, ret);
	if (r == -ENOTTY)
		r = scan_entries(fd, base, bytes, ret);
	close(fd);
	return r;
}
