/* SPDX-License-Identifier: MIT */
/* fixture.h - what the tests of the library have in common: a host, and its memory by hand */
#ifndef TESTS_LAYERS_FIXTURE_H
#define TESTS_LAYERS_FIXTURE_H

#include "rig.h"

#define PAGE ((uint64_t)LAYER_PAGE)
#define MEM (UINT64_C(64) << 20)

extern const char *so_path, *host_path; /* arguments of the test program */

struct ctx {
	struct rig rig;
	uint8_t *mem; /* owned; what memory should be, by hand */
};

int fixture_args(int argc, char **argv);
int setup(void **state);
int setup_small(void **state); /* for tests that count pages: no huge ones */
int teardown(void **state);

/* Freeze now, wait, and check the layer over t->mem against a copy of the host's memory. */
struct layers_reply freeze_and_check(struct ctx *t, uint64_t token, uint32_t flags,
                                     struct layer_info *ret_info);

#define TEST_SMALL(name) cmocka_unit_test_setup_teardown(name, setup_small, teardown)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
