/* SPDX-License-Identifier: MIT */
/*
 * test_freed.c - what a guest has free is in no layer, and goes back to the host
 *
 *	test_freed LIBRARY HOST
 *
 * The guest's kernel is made by hand (kernel.h). Its memory, as it must come out of a freeze, is
 * what it is with zeros where it is free.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "kernel.h"

#define MIB (UINT64_C(1) << 20)
#define LOW_MB (MEM >> 20)

static struct kernel kernel;

static void load(struct ctx *t)
{
	memcpy(t->rig.shared, kernel.mem, KERNEL_STRUCTS + MEM / PAGE * 64);
	rig_host(&t->rig, HOST_LOAD, 0, KERNEL_STRUCTS + MEM / PAGE * 64, 0);
}

static void boot(struct ctx *t)
{
	kernel = (struct kernel){ .mem = kernel.mem, .bytes = MEM, .low_bytes = MEM, .levels = 4 };
	if (!kernel.mem)
		kernel.mem = calloc(1, MEM);
	assert_non_null(kernel.mem);
	kernel_make(&kernel);
	load(t);
}

static struct layers_reply sweep(struct ctx *t, uint64_t pages)
{
	return rig_call(&t->rig,
	                &(struct layers_req){ .type = LAYERS_SWEEP,
	                                      .token = pages,
	                                      .first = KERNEL_NOTE / PAGE,
	                                      .n_layers = LOW_MB },
	                NULL, 0);
}

static struct layers_reply freeze(struct ctx *t, uint64_t token, uint32_t note_page, int fd)
{
	const struct layers_req req = { .type = LAYERS_FREEZE,
		                        .flags = LAYERS_FREEZE_FREE,
		                        .token = token,
		                        .first = note_page,
		                        .n_layers = LOW_MB };
	struct layers_reply r = rig_call(&t->rig, &req, &fd, 1);

	assert_int_equal(r.status, 0);
	r = rig_wait_done(&t->rig, token);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	return r;
}

static void test_layer(void **state)
{
	struct ctx *t = *state, second;
	int below = rig_layer(MEM,
	                      (const struct rig_extent[]){ { 24 * MIB, 4 * MIB, 11 },
	                                                   { 30 * MIB, 16 * PAGE, 12 } },
	                      2);
	uint8_t *expected = malloc(MEM), *got = calloc(1, MEM);
	int fd = rig_file(), whole = rig_file();
	struct layers_reply r;

	assert_true(expected && got);
	assert_int_equal(rig_map(&t->rig, &below, 1).status, 0);
	boot(t);
	rig_host(&t->rig, HOST_FILL, 8 * MIB, 8 * MIB, 5);
	rig_host(&t->rig, HOST_FILL, 20 * MIB, 64 * PAGE, 6);
	kernel_free(&kernel, 8 * MIB, 10);             /* private: 4 MB */
	kernel_free(&kernel, 20 * MIB + 8 * PAGE, 3);  /* private, too short */
	kernel_free(&kernel, 20 * MIB + 32 * PAGE, 4); /* private, 16 pages */
	kernel_free(&kernel, 24 * MIB, 9);             /* in the layer below: 2 MB */
	kernel_free(&kernel, 30 * MIB, 4); /* in the layer below, too short for a zero extent */
	load(t);
	memcpy(expected, rig_copy(&t->rig), MEM);
	memset(expected + 8 * MIB, 0, 4 * MIB);
	memset(expected + 20 * MIB + 32 * PAGE, 0, 16 * PAGE);
	memset(expected + 24 * MIB, 0, 2 * MIB);

	/* a note that is not there: all of it */
	r = freeze(t, 1, 3, whole);
	assert_int_equal(r.mem_bytes, 0);
	assert_true(r.pages >= 8 * MIB / PAGE + 64);
	rig_apply(below, got, MEM);
	rig_apply(whole, got, MEM);
	assert_true(rig_same(got, rig_copy(&t->rig), MEM));
	assert_int_equal(freeze(t, 2, KERNEL_NOTE / PAGE, fd).pages, r.pages - 4 * MIB / PAGE - 16);
	memset(got, 0, MEM);
	rig_apply(below, got, MEM);
	rig_apply(fd, got, MEM);
	assert_true(rig_same(got, expected, MEM));
	/* the guest itself was not touched */
	memset(expected, 0, MEM);
	rig_apply(below, expected, MEM);
	rig_apply(whole, expected, MEM);
	assert_true(rig_same(rig_copy(&t->rig), expected, MEM));

	/* a thaw of it, and what is used again there is in the next layer */
	rig_start_host(&second.rig, so_path, host_path, MEM);
	rig_host(&second.rig, HOST_SMALL_PAGES, 0, 0, 0);
	assert_int_equal(rig_map(&second.rig, (const int[]){ below, fd }, 2).status, 0);
	assert_true(rig_same(rig_copy(&second.rig), got, MEM));
	rig_host(&second.rig, HOST_FILL, 24 * MIB, 4 * PAGE, 9);
	memcpy(expected, rig_copy(&second.rig), MEM);
	assert_int_equal(ftruncate(whole, 0), 0);
	rig_freeze(&second.rig, 3, 0, whole);
	assert_int_equal(rig_wait_done(&second.rig, 3).pages, 4);
	rig_apply(whole, got, MEM);
	assert_true(rig_same(got, expected, MEM));
	rig_stop(&second.rig);
	free(expected);
	free(got);
	close(below);
	close(fd);
	close(whole);
}

static void test_sweep(void **state)
{
	struct ctx *t = *state;
	uint8_t *expected = malloc(MEM);
	uint64_t before;

	assert_non_null(expected);
	boot(t);
	assert_int_equal(sweep(t, 1).status, -EINVAL); /* without a look */
	rig_host(&t->rig, HOST_FILL, 8 * MIB, 16 * MIB, 5);
	kernel_free(&kernel, 8 * MIB, 10);
	kernel_free(&kernel, 12 * MIB, 10);
	kernel_free(&kernel, 20 * MIB, 9);
	kernel_free(&kernel, 40 * MIB, 10); /* nothing there is private */
	load(t);
	before = rig_stat(&t->rig).pages;
	assert_int_equal(rig_stat(&t->rig).can & LAYERS_CAN_FREE, LAYERS_CAN_FREE);
	assert_int_equal(sweep(t, 0).pages, 10 * MIB / PAGE);
	/* it goes on for a moment: one block is in use again, one is free now */
	kernel_use(&kernel, 12 * MIB);
	kernel_free(&kernel, 22 * MIB, 9);
	load(t);
	memcpy(expected, rig_copy(&t->rig), MEM);
	memset(expected + 8 * MIB, 0, 4 * MIB);
	memset(expected + 20 * MIB, 0, 2 * MIB);
	for (struct layers_reply r = { .in_flight = 1 }; r.in_flight > 0;) {
		uint64_t now = rig_stat(&t->rig).pages;

		r = sweep(t, 512);
		assert_int_equal(r.status, 0);
		assert_int_equal(rig_stat(&t->rig).pages, now - r.pages);
		assert_true(r.pages <= 512 + 1024);
	}
	assert_int_equal(rig_stat(&t->rig).pages, before - 6 * MIB / PAGE);
	assert_true(rig_same(rig_copy(&t->rig), expected, MEM));
	/* again: the one of before, and no more of the others */
	assert_int_equal(sweep(t, 0).pages, 2 * MIB / PAGE);
	assert_int_equal(sweep(t, 100000).pages, 2 * MIB / PAGE);
	assert_int_equal(sweep(t, 0).pages, 0);
	assert_int_equal(sweep(t, 100000).in_flight, 0);
	/* a kernel that says nothing */
	memset(kernel.mem + KERNEL_NOTE, 0, PAGE);
	load(t);
	assert_int_equal(sweep(t, 0).status, -ENOENT);
	free(expected);
}

/* All the time while it writes: what is in use is never touched. */
static void test_while_it_runs(void **state)
{
	struct ctx *t = *state;
	uint8_t *expected = malloc(MEM);

	assert_non_null(expected);
	boot(t);
	rig_host(&t->rig, HOST_FILL, 8 * MIB, 24 * MIB, 5);
	for (unsigned round = 0; round < 8; round++) {
		uint64_t off = (8 + 4 * (uint64_t)(round % 3)) * MIB;

		kernel_free(&kernel, off, 10);
		load(t);
		rig_host(&t->rig, HOST_RUN, 20 * MIB, 12 * MIB, 0);
		assert_int_equal(sweep(t, 0).status, 0);
		rig_host(&t->rig, HOST_PAUSE, 0, 0, 0);
		memcpy(expected, rig_copy(&t->rig), MEM);
		assert_int_equal(sweep(t, 100000).status, 0);
		memset(expected + off, 0, 4 * MIB);
		assert_true(rig_same(rig_copy(&t->rig), expected, MEM));
		kernel_use(&kernel, off);
		rig_host(&t->rig, HOST_FILL, off, 4 * MIB, round + 1);
	}
	free(expected);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_layer, setup_small, teardown),
		cmocka_unit_test_setup_teardown(test_sweep, setup_small, teardown),
		cmocka_unit_test_setup_teardown(test_while_it_runs, setup, teardown),
	};

	if (fixture_args(argc, argv) < 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
