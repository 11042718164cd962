/* SPDX-License-Identifier: MIT */
/*
 * test_library.c - the preloaded library in a process that maps memory as QEMU does
 *
 *	test_library LIBRARY HOST
 *
 * The reference is always the same: a copy of HOST's memory at the instant of the freeze,
 * compared with the layers applied one after the other (rig_apply).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"

static void test_fresh_memory_is_zero(void **state)
{
	struct ctx *t = *state;
	struct layers_reply st;
	struct layer_info info;

	assert_true(rig_same(rig_copy(&t->rig), t->mem, MEM));
	st = rig_stat(&t->rig);
	assert_int_equal(st.status, 0);
	assert_int_equal(st.mem_bytes, MEM);
	assert_int_equal(st.pages, 0); /* reading made nothing private */
	assert_int_equal(st.n_layers, 0);
	freeze_and_check(t, 1, 0, &info);
	assert_int_equal(info.n_extents, 0);
	assert_int_equal(info.data_pages, 0);
}

static void test_freeze_of_dirty_pages(void **state)
{
	struct ctx *t = *state;
	struct layer_info info;

	/* three pages; 16 pages of gap are joined, 17 are not */
	rig_host(&t->rig, HOST_FILL, 100 * PAGE, 3 * PAGE, 5);
	rig_host(&t->rig, HOST_FILL, 119 * PAGE, PAGE, 6);
	rig_host(&t->rig, HOST_FILL, 137 * PAGE, PAGE, 7);
	rig_host(&t->rig, HOST_FILL, 0, PAGE, 8);
	rig_host(&t->rig, HOST_FILL, MEM - PAGE, PAGE, 9);
	rig_host(&t->rig, HOST_READ, 4 << 20, 8 << 20, 0);
	assert_int_equal(rig_stat(&t->rig).pages, 7);
	freeze_and_check(t, 1, 0, &info);
	assert_int_equal(info.n_extents, 4);
	assert_int_equal(info.data_pages, 1 + 20 + 1 + 1);
	/* the way of older kernels sees the same, and takes what was read for dirty zeros */
	freeze_and_check(t, 2, LAYERS_FREEZE_NO_SCAN, &info);
	/* pages stay private: the next freeze has them again */
	rig_host(&t->rig, HOST_FILL, 3000 * PAGE, PAGE, 10);
	freeze_and_check(t, 3, LAYERS_FREEZE_FSYNC, &info);
	assert_int_equal(info.data_pages, 1 + 20 + 1 + 1 + 1);
}

static void test_zero_extents(void **state)
{
	struct ctx *t = *state;
	struct layer_info info;

	rig_host(&t->rig, HOST_FILL, 1000 * PAGE, 200 * PAGE, 5);
	rig_host(&t->rig, HOST_ZERO, 1020 * PAGE, 17 * PAGE, 0);  /* long enough */
	rig_host(&t->rig, HOST_ZERO, 1100 * PAGE, 16 * PAGE, 0);  /* not */
	rig_host(&t->rig, HOST_ZERO, 1150 * PAGE, 100 * PAGE, 0); /* at the end */
	rig_host(&t->rig, HOST_ZERO, 2000 * PAGE, 40 * PAGE, 0);  /* nothing else */
	freeze_and_check(t, 1, 0, &info);
	assert_int_equal(info.n_extents, 5);
	assert_int_equal(info.data_pages, 20 + 113);
}

/* Two layers, the upper one with zeros over data; then changes, then a freeze, then its thaw. */
static void test_map_two_layers(void **state)
{
	struct ctx *t = *state;
	int lower = rig_layer(MEM,
	                      (const struct rig_extent[]){
	                              { 0, 64 * PAGE, 11 },
	                              { 100 * PAGE, 64 * PAGE, 12 },
	                              { MEM - 8 * PAGE, 8 * PAGE, 13 },
	                      },
	                      3);
	int upper = rig_layer(MEM,
	                      (const struct rig_extent[]){
	                              { 32 * PAGE, 90 * PAGE, 21 },
	                              { 130 * PAGE, 20 * PAGE, 0 },
	                              { MEM - 4 * PAGE, PAGE, 22 },
	                      },
	                      3);
	struct layers_reply r;
	struct layer_info info;
	struct ctx second;
	int third = rig_file();

	/* what was there before does not shine through */
	rig_host(&t->rig, HOST_FILL, 400 * PAGE, 50 * PAGE, 99);
	r = rig_map(&t->rig, (const int[]){ lower, upper }, 2);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	assert_int_equal(r.n_layers, 2);
	rig_apply(lower, t->mem, MEM);
	rig_apply(upper, t->mem, MEM);
	assert_true(rig_same(rig_copy(&t->rig), t->mem, MEM));
	r = rig_stat(&t->rig);
	assert_int_equal(r.pages, 0);
	assert_int_equal(r.n_layers, 2);
	/* lower: 0-32, 122-130, 150-164, end -8..-4, end -3..-0; upper: two */
	assert_int_equal(r.n_mappings, 7);

	rig_host(&t->rig, HOST_FILL, 10 * PAGE, 2 * PAGE, 31);
	rig_host(&t->rig, HOST_FILL, 140 * PAGE, PAGE, 32);    /* in a zero extent */
	rig_host(&t->rig, HOST_ZERO, 40 * PAGE, 20 * PAGE, 0); /* zeros over data */
	rig_host(&t->rig, HOST_FILL, 5000 * PAGE, PAGE, 33);   /* where no layer is */
	freeze_and_check(t, 1, 0, &info);
	assert_int_equal(info.data_pages, 2 + 1 + 1);
	assert_int_equal(info.n_extents, 4);
	freeze_and_check(t, 2, LAYERS_FREEZE_NO_SCAN, &info);

	/* the thaw: all three in a new process, bottom one in a packet of its own */
	rig_freeze(&t->rig, 3, 0, third);
	assert_int_equal(rig_wait_done(&t->rig, 3).status, 0);
	rig_start_host(&second.rig, so_path, host_path, MEM);
	rig_send(&second.rig, &(struct layers_req){ .type = LAYERS_MAP, .n_layers = 3 }, &lower, 1);
	r = rig_call(&second.rig,
	             &(struct layers_req){ .type = LAYERS_MAP, .n_layers = 3, .first = 1 },
	             (const int[]){ upper, third }, 2);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.n_layers, 3);
	rig_apply(third, t->mem, MEM);
	assert_true(rig_same(rig_copy(&second.rig), t->mem, MEM));
	assert_int_equal(rig_map(&second.rig, &lower, 1).status, -EALREADY);
	rig_stop(&second.rig);
	close(lower);
	close(upper);
	close(third);
}

/* The main test: threads write all the time, and the layer shows one instant. */
static void test_freeze_while_running(void **state)
{
	struct ctx *t = *state;
	int base = rig_layer(MEM, (const struct rig_extent[]){ { 0, MEM / 2, 3 } }, 1);

	assert_int_equal(rig_map(&t->rig, &base, 1).status, 0);
	rig_apply(base, t->mem, MEM);
	for (uint64_t round = 1; round <= 4; round++) {
		uint8_t *mem = malloc(MEM), *then = malloc(MEM);
		struct layers_reply done;
		int64_t writes;
		int fd = rig_file();

		assert_non_null(mem);
		assert_non_null(then);
		rig_host(&t->rig, HOST_PAUSE, 0, 0, 0);
		memcpy(then, rig_copy(&t->rig), MEM);
		writes = rig_host(&t->rig, HOST_WRITES, 0, 0, 0);
		rig_freeze(&t->rig, round, 0, fd);
		rig_host(&t->rig, HOST_RUN, 8 << 20, 40 << 20, 0);
		done = rig_wait_done(&t->rig, round);
		assert_int_equal(done.status, 0);
		/* it did run meanwhile, or this shows nothing */
		while (rig_host(&t->rig, HOST_WRITES, 0, 0, 0) <= writes)
			sched_yield();
		memcpy(mem, t->mem, MEM);
		rig_apply(fd, mem, MEM);
		assert_true(rig_same(mem, then, MEM));
		free(mem);
		free(then);
		close(fd);
	}
	close(base);
}

static void test_bad_layers(void **state)
{
	struct ctx *t = *state;
	const struct rig_extent e = { 8 * PAGE, 4 * PAGE, 40 };
	int good = rig_layer(MEM, &e, 1), other = rig_layer(MEM / 2, &e, 1);
	int torn = rig_layer(MEM, &e, 1), cut = rig_layer(MEM, &e, 1),
	    table = rig_layer(MEM, &e, 1);
	int empty = rig_file();
	struct layers_reply r;

	assert_int_equal(pwrite(torn, "", 1, 0), 1); /* no magic */
	assert_int_equal(ftruncate(cut, 5 * PAGE), 0);
	assert_int_equal(pwrite(table, "\1", 1, 5 * PAGE), 1);
	rig_host(&t->rig, HOST_FILL, 0, PAGE, 1);
	r = rig_map(&t->rig, (const int[]){ good, other }, 2);
	assert_int_equal(r.status, -EINVAL);
	assert_string_equal(r.why, "layer 1: made for another memory size");
	assert_int_equal(rig_map(&t->rig, &torn, 1).status, -EBADMSG);
	assert_int_equal(rig_map(&t->rig, &cut, 1).status, -EBADMSG);
	assert_int_equal(rig_map(&t->rig, &empty, 1).status, -EBADMSG);
	r = rig_map(&t->rig, &table, 1);
	assert_int_equal(r.status, -EBADMSG);
	assert_string_equal(r.why, "layer 0: table checksum");
	assert_int_equal(rig_map(&t->rig, NULL, 0).status, -EINVAL);
	/* none of them touched memory, and a good one is still welcome */
	rig_pattern(t->mem, 0, 1);
	assert_true(rig_same(rig_copy(&t->rig), t->mem, MEM));
	assert_int_equal(rig_map(&t->rig, &good, 1).status, 0);
	memset(t->mem, 0, MEM);
	rig_apply(good, t->mem, MEM);
	assert_true(rig_same(rig_copy(&t->rig), t->mem, MEM));
	for (size_t i = 0; i < 6; i++)
		close(((const int[]){ good, other, torn, cut, table, empty })[i]);
}

/* More pieces than there may be mappings: the smallest are read. More runs than a layer may have.
 */
static void test_very_many_pieces(void **state)
{
	struct ctx *t = *state;
	const uint64_t mem = UINT64_C(512) << 20;
	const size_t n = 30000;
	struct rig_extent *e = calloc(n, sizeof(*e));
	uint8_t *picture = calloc(1, mem);
	struct layers_reply r;
	struct layer_info info;
	struct rig big;
	int fd, out = rig_file();

	assert_non_null(e);
	assert_non_null(picture);
	for (size_t i = 0; i < n; i++)
		e[i] = (struct rig_extent){ i * 4 * PAGE, (i % 3 == 0 ? 2 : 1) * PAGE, 5 };
	fd = rig_layer(mem, e, n);
	rig_start_host(&big, so_path, host_path, mem);
	r = rig_map(&big, &fd, 1);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	assert_int_equal(r.n_mappings, n / 3);
	assert_int_equal(r.pages, n + n / 3);
	rig_apply(fd, picture, mem);
	assert_true(rig_same(rig_copy(&big), picture, mem));
	/* 20 pages apart: too many runs to be kept apart */
	for (uint64_t i = 0; i < 6000; i++)
		rig_host(&big, HOST_FILL, i * 21 * PAGE, PAGE, 9);
	rig_freeze(&big, 1, 0, out);
	assert_int_equal(rig_wait_done(&big, 1).status, 0);
	info = rig_apply(out, picture, mem);
	assert_true(info.n_extents <= 4096);
	assert_true(rig_same(rig_copy(&big), picture, mem));
	rig_stop(&big);
	close(fd);
	close(out);
	free(e);
	free(picture);
	assert_int_equal(rig_stat(&t->rig).status, 0);
}

/* A page's content, without all of memory. */
static void check_page(int fd, uint64_t file_off, uint64_t guest_off, uint32_t arg)
{
	uint8_t got[LAYER_PAGE], want[LAYER_PAGE];

	rig_pattern(want, guest_off, arg);
	assert_int_equal(pread(fd, got, sizeof(got), (off_t)file_off), sizeof(got));
	assert_memory_equal(got, want, sizeof(got));
}

static uint64_t read_table(int fd, struct layer_info *ret_info, struct layer_extent **ret)
{
	uint8_t page[LAYER_PAGE], *bytes;
	const char *why = "";
	off_t size = lseek(fd, 0, SEEK_END);

	assert_int_equal(pread(fd, page, sizeof(page), 0), sizeof(page));
	assert_int_equal(layer_header_decode(page, (uint64_t)size, ret_info, &why), 0);
	bytes = malloc(layer_table_bytes(ret_info) + 1);
	*ret = calloc(ret_info->n_extents + 1, sizeof(**ret));
	assert_true(bytes && *ret);
	assert_int_equal(
	        pread(fd, bytes, layer_table_bytes(ret_info), (off_t)layer_table_off(ret_info)),
	        (ssize_t)layer_table_bytes(ret_info));
	assert_int_equal(
	        layer_table_decode(ret_info, bytes, layer_table_bytes(ret_info), *ret, &why), 0);
	free(bytes);
	return ret_info->n_extents;
}

/*
 * The largest VM: pages all over 64 GiB, of which next to nothing is there. More runs than a small
 * memory may have, and still each a run of its own, because what lies between them would be
 * gigabytes.
 */
static void test_largest_memory(void **state)
{
	const uint64_t mem = UINT64_C(64) << 30, step = UINT64_C(10) << 20;
	const size_t n = 6000; /* up to 58 GiB */
	struct layer_extent *rows = NULL;
	struct layers_reply r;
	struct layer_info info;
	struct rig a, b;
	int out = rig_file(), next = rig_file();

	(void)state;
	rig_start_host(&a, so_path, host_path, mem);
	rig_host(&a, HOST_SMALL_PAGES, 0, 0, 0);
	for (uint64_t i = 0; i < n; i++)
		rig_host(&a, HOST_FILL, i * step, PAGE, 9);
	rig_host(&a, HOST_FILL, mem - PAGE, PAGE, 10);
	rig_freeze(&a, 1, 0, out);
	r = rig_wait_done(&a, 1);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	assert_int_equal(read_table(out, &info, &rows), n + 1);
	assert_int_equal(info.mem_bytes, mem);
	assert_int_equal(info.data_pages, n + 1);
	for (uint64_t i = 0; i < n; i += 7) {
		assert_int_equal(rows[i].guest_off, i * step);
		check_page(out, rows[i].file_off, i * step, 9);
	}
	assert_int_equal(rows[n].guest_off, mem - PAGE);
	check_page(out, rows[n].file_off, mem - PAGE, 10);
	free(rows);
	rig_stop(&a);

	/* the thaw has them, and a freeze of it only what changed since */
	rig_start_host(&b, so_path, host_path, mem);
	rig_host(&b, HOST_SMALL_PAGES, 0, 0, 0);
	r = rig_map(&b, &out, 1);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.n_mappings, n + 1);
	assert_int_equal(rig_stat(&b).mem_bytes, mem);
	rig_host(&b, HOST_READ, mem - PAGE, PAGE, 0);
	rig_host(&b, HOST_FILL, mem - 2 * PAGE, PAGE, 11);
	rig_host(&b, HOST_FILL, 4999 * step, PAGE, 12);
	rig_freeze(&b, 2, 0, next);
	assert_int_equal(rig_wait_done(&b, 2).status, 0);
	assert_int_equal(read_table(next, &info, &rows), 2);
	assert_int_equal(rows[0].guest_off, 4999 * step);
	check_page(next, rows[0].file_off, 4999 * step, 12);
	assert_int_equal(rows[1].guest_off, mem - 2 * PAGE);
	check_page(next, rows[1].file_off, mem - 2 * PAGE, 11);
	free(rows);
	rig_stop(&b);
	close(out);
	close(next);
}

static void test_balloon(void **state)
{
	struct ctx *t = *state;
	struct layer_info info;
	int base = rig_layer(MEM, (const struct rig_extent[]){ { 0, 64 * PAGE, 3 } }, 1);

	/* memory given back reads as the layer again, in the guest and in the next layer */
	assert_int_equal(rig_map(&t->rig, &base, 1).status, 0);
	rig_apply(base, t->mem, MEM);
	rig_host(&t->rig, HOST_FILL, 0, 100 * PAGE, 4);
	assert_int_equal(rig_host(&t->rig, HOST_DONTNEED, 10 * PAGE, 70 * PAGE, 0), 0);
	freeze_and_check(t, 1, 0, &info);
	assert_int_equal(info.data_pages, 30);
	close(base);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_fresh_memory_is_zero),       TEST_SMALL(test_freeze_of_dirty_pages),
		TEST_SMALL(test_zero_extents),         TEST_SMALL(test_map_two_layers),
		TEST(test_freeze_while_running),       TEST(test_bad_layers),
		TEST_SMALL(test_very_many_pieces),     TEST_SMALL(test_balloon),
		cmocka_unit_test(test_largest_memory),
	};

	if (fixture_args(argc, argv) < 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
