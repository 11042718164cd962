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
		TEST(test_fresh_memory_is_zero),   TEST_SMALL(test_freeze_of_dirty_pages),
		TEST_SMALL(test_zero_extents),     TEST_SMALL(test_map_two_layers),
		TEST(test_freeze_while_running),   TEST(test_bad_layers),
		TEST_SMALL(test_very_many_pieces), TEST_SMALL(test_balloon),
	};

	if (fixture_args(argc, argv) < 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
