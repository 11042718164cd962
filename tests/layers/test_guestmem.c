/* SPDX-License-Identifier: MIT */
/* test_guestmem.c - free memory is found where a kernel has it, and only there, whatever it says */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernel.h"
#include "layers/guestmem.h"

#define PAGE UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)

static struct kernel *fresh(uint64_t bytes, uint64_t low, unsigned levels, bool large)
{
	static struct kernel k;

	if (k.mem)
		munmap(k.mem, k.bytes);
	k = (struct kernel){ .bytes = bytes, .low_bytes = low, .levels = levels, .large = large };
	k.mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(k.mem, MAP_FAILED);
	kernel_make(&k);
	return &k;
}

static int open_it(const struct kernel *k, struct guestmem *g)
{
	const char *why = NULL;
	int r = guestmem_open(g, k->mem, k->bytes, k->low_bytes, KERNEL_NOTE, &why);

	assert_non_null(why);
	assert_true((r == 0) == (*why == '\0'));
	return r;
}

static struct guestmem_free found;

static void find(const struct kernel *k, uint64_t from, uint64_t to)
{
	struct guestmem g;

	assert_int_equal(open_it(k, &g), 0);
	guestmem_find(&g, from, to, &found);
	for (uint32_t i = 0; i < found.n; i++) {
		assert_true(found.start[i] < found.end[i] && found.end[i] <= k->bytes);
		assert_true(i == 0 || found.start[i] > found.end[i - 1]);
		assert_int_equal(found.start[i] % PAGE, 0);
		assert_int_equal(found.end[i] % PAGE, 0);
		assert_true(found.end[i] - found.start[i] >= found.min);
	}
}

static void check(uint32_t i, uint64_t start, uint64_t end)
{
	assert_true(i < found.n);
	assert_int_equal(found.start[i], start);
	assert_int_equal(found.end[i], end);
}

static void test_blocks(void **state)
{
	for (unsigned levels = 4; levels <= 5; levels++) {
		struct kernel *k = fresh(64 * MIB, 64 * MIB, levels, false);

		find(k, 0, k->bytes);
		assert_int_equal(found.n, 0);
		kernel_free(k, 8 * MIB, 10);
		kernel_free(k, 12 * MIB, 9); /* its neighbour */
		kernel_free(k, 20 * MIB, 4); /* the least that counts */
		kernel_free(k, 21 * MIB, 3); /* less */
		kernel_free(k, 22 * MIB, 3); /* two that are enough together */
		kernel_free(k, 22 * MIB + 8 * PAGE, 3);
		kernel_free(k, 30 * MIB + PAGE, 5); /* no block begins there */
		kernel_free(k, 32 * MIB, 11);       /* there are none as large */
		kernel_free(k, k->bytes - 4 * MIB, 10);
		find(k, 0, k->bytes);
		assert_int_equal(found.n, 4);
		check(0, 8 * MIB, 14 * MIB);
		check(1, 20 * MIB, 20 * MIB + 16 * PAGE);
		check(2, 22 * MIB, 22 * MIB + 16 * PAGE);
		check(3, k->bytes - 4 * MIB, k->bytes);
		/* a part: what begins before it is not known there, what reaches beyond is cut */
		find(k, 10 * MIB, 13 * MIB);
		assert_int_equal(found.n, 1);
		check(0, 12 * MIB, 13 * MIB);
		kernel_use(k, 8 * MIB);
		find(k, 0, 16 * MIB);
		assert_int_equal(found.n, 1);
		check(0, 12 * MIB, 14 * MIB);
	}
}

/* 3 GB, of which one is above 4 GB. */
static void test_hole(void **state)
{
	struct kernel *k = fresh(3072 * MIB, 2048 * MIB, 4, true);

	kernel_free(k, 2044 * MIB, 10);
	kernel_free(k, 2048 * MIB, 10);
	kernel_free(k, 3000 * MIB, 10);
	find(k, 0, k->bytes);
	assert_int_equal(found.n, 2);
	check(0, 2044 * MIB, 2052 * MIB);
	check(1, 3000 * MIB, 3004 * MIB);
	find(k, 2048 * MIB, k->bytes);
	assert_int_equal(found.n, 2);
	check(0, 2048 * MIB, 2052 * MIB);
}

/* More runs than there is room for: the short ones go, the long ones stay. */
static void test_many(void **state)
{
	struct kernel *k = fresh(1024 * MIB, 1024 * MIB, 4, false);
	uint32_t long_ones = 0;

	for (uint64_t off = 32 * MIB; off < k->bytes; off += MIB / 8)
		kernel_free(k, off, 4);
	for (uint64_t off = 32 * MIB; off < k->bytes; off += 16 * MIB)
		kernel_free(k, off, 9);
	find(k, 0, k->bytes);
	assert_true(found.n <= GUESTMEM_RUNS_MAX);
	assert_true(found.min > (uint64_t)GUESTMEM_RUN_PAGES * PAGE);
	for (uint32_t i = 0; i < found.n; i++)
		long_ones += found.end[i] - found.start[i] >= 2 * MIB;
	assert_int_equal(long_ones, 62);
}

static void test_notes(void **state)
{
	static const char *const bad[][2] = {
		{ "SIZE(page)=64", "SIZE(page)=63" },
		{ "SIZE(page)=64", "SIZE(pagf)=64" },
		{ "PAGESIZE=4096", "PAGESIZE=8192" },
		{ "OFFSET(page.private)=40", "OFFSET(page.private)=60" },
		{ "OFFSET(page._mapcount)=48", "OFFSET(page._mapcount)=-8" },
		{ "SYMBOL(init_top_pgt)=ff", "SYMBOL(init_top_pgt)=0f" },
		{ "NUMBER(SECTION_SIZE_BITS)=27", "NUMBER(SECTION_SIZE_BITS)=99" },
		{ "OSRELEASE=6.12.0-test\nPA", "SIZE(page)=64\n\n\n\n\n\n\n\n\nPA" },
	};
	struct guestmem g;
	const char *why;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kernel *k = fresh(64 * MIB, 64 * MIB, 4, false);
		char *at = strstr(kernel_note_text(k), bad[i][0]);

		assert_non_null(at);
		assert_int_equal(strlen(bad[i][0]), strlen(bad[i][1]));
		memcpy(at, bad[i][1], strlen(bad[i][1]));
		assert_true(open_it(k, &g) < 0);
	}
	for (uint64_t note = 0; note < 8 * MIB; note += 2 * MIB - 4) {
		struct kernel *k = fresh(64 * MIB, 64 * MIB, 4, false);

		assert_int_equal(guestmem_open(&g, k->mem, k->bytes, k->low_bytes, note, &why),
		                 -ENOENT);
		assert_int_equal(guestmem_open(&g, k->mem, k->bytes, k->low_bytes,
		                               k->bytes - 4 - note % 64, &why),
		                 -ENOENT);
	}
}

/* A hostile guest: whatever it writes there, nothing is read or found outside its memory. */
static void test_garbage(void **state)
{
	unsigned opened = 0;

	srandom(18);
	for (unsigned round = 0; round < 40; round++) {
		struct kernel *k = fresh(64 * MIB, round % 2 ? 64 * MIB : 32 * MIB, 4, round % 3);
		struct guestmem g;

		for (unsigned n = 0; n < 400; n++) {
			uint64_t at = KERNEL_TOP + (uint64_t)random() % (64 * PAGE) / 8 * 8;
			uint64_t v = (uint64_t)random() << 33 ^ (uint64_t)random() << 5 ^ 0xe3;

			if (random() % 4)
				memcpy(k->mem + at, &v, 8);
			else
				kernel_free(k, (uint64_t)random() % k->bytes / PAGE * PAGE,
				            (unsigned)random() % 70);
		}
		if (open_it(k, &g) < 0)
			continue;
		opened++;
		find(k, 0, k->bytes);
		find(k, (uint64_t)random() % k->bytes / PAGE * PAGE, k->bytes);
	}
	assert_true(opened > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks),  cmocka_unit_test(test_hole),
		cmocka_unit_test(test_many),    cmocka_unit_test(test_notes),
		cmocka_unit_test(test_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
