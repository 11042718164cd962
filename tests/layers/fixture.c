/* SPDX-License-Identifier: MIT */
/* fixture.c - see fixture.h */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *so_path, *host_path;

int fixture_args(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: %s LIBRARY HOST\n", argv[0]);
		return -1;
	}
	so_path = argv[1];
	host_path = argv[2];
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

int setup(void **state)
{
	struct ctx *t = calloc(1, sizeof(*t));

	if (!t || !(t->mem = calloc(1, MEM)))
		return -1;
	rig_start_host(&t->rig, so_path, host_path, MEM);
	*state = t;
	return 0;
}

int setup_small(void **state)
{
	struct ctx *t;

	if (setup(state) < 0)
		return -1;
	t = *state;
	return (int)rig_host(&t->rig, HOST_SMALL_PAGES, 0, 0, 0);
}

int teardown(void **state)
{
	struct ctx *t = *state;

	rig_stop(&t->rig);
	free(t->mem);
	free(t);
	return 0;
}

struct layers_reply freeze_and_check(struct ctx *t, uint64_t token, uint32_t flags,
                                     struct layer_info *ret_info)
{
	uint8_t *mem = malloc(MEM);
	int fd = rig_file();
	struct layers_reply done;
	const uint8_t *now = rig_copy(&t->rig);

	assert_non_null(mem);
	memcpy(mem, t->mem, MEM);
	rig_freeze(&t->rig, token, flags, fd);
	done = rig_wait_done(&t->rig, token);
	assert_string_equal(done.why, "");
	assert_int_equal(done.status, 0);
	*ret_info = rig_apply(fd, mem, MEM);
	assert_true(rig_same(mem, now, MEM));
	assert_int_equal(done.pages, ret_info->data_pages);
	assert_int_equal(done.bytes, ret_info->data_pages * PAGE);
	assert_int_equal(done.n_extents, ret_info->n_extents);
	free(mem);
	close(fd);
	return done;
}
