/* SPDX-License-Identifier: Apache-2.0 */
/* test_probe.c - what is remembered of the accelerator: one result for each image, QEMU and kernel
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/engine_internal.h"
#include "tests/engine/chain.h"

struct fixture {
	struct tmpdir dir;
	char file[300];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	snprintf(f->file, sizeof(f->file), "%s/accel-probe", f->dir.path);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	int r = tmpdir_remove(&f->dir);

	free(f);
	return r;
}

static void remember(const struct fixture *f, const char *key, bool works, const char *why)
{
	struct err err = { 0 };

	assert_int_equal(probe_remember(f->file, key, works, why, &err), 0);
}

/* 1 works, 0 fails, -1 not known */
static int recall(const struct fixture *f, const char *key, char why[160])
{
	bool works = false;

	why[0] = '\0';
	return probe_recall(f->file, key, &works, why, 160) ? works : -1;
}

static void test_each_key_has_its_own(void **state)
{
	const struct fixture *f = *state;
	char why[160];

	assert_int_equal(recall(f, "image=a", why), -1);
	remember(f, "image=a", false, "QEMU ended");
	remember(f, "image=b", true, "booted");
	assert_int_equal(recall(f, "image=a", why), 0);
	assert_string_equal(why, "QEMU ended (remembered)");
	assert_int_equal(recall(f, "image=b", why), 1);
	assert_string_equal(why, "booted (remembered)");
	assert_int_equal(recall(f, "image=", why), -1);
	remember(f, "image=a", true, "it does now\nand more");
	assert_int_equal(recall(f, "image=a", why), 1);
	assert_string_equal(why, "it does now (remembered)");
	assert_int_equal(recall(f, "image=b", why), 1);
}

static void test_a_failure_counts_until_the_host_boots(void **state)
{
	const struct fixture *f = *state;
	const char *text = "image=a\nfails 00000000-0000-0000-0000-000000000000\nbusy\n"
	                   "image=b\nworks\nbooted\n";
	char why[160];

	assert_int_equal(io_write_file(AT_FDCWD, f->file, text, strlen(text), 0644, NULL), 0);
	assert_int_equal(recall(f, "image=a", why), -1);
	assert_int_equal(recall(f, "image=b", why), 1);
}

static void test_the_oldest_go(void **state)
{
	const struct fixture *f = *state;
	char key[32], why[160];

	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "image=%d", i);
		remember(f, key, true, "booted");
	}
	assert_int_equal(recall(f, "image=19", why), 1);
	assert_int_equal(recall(f, "image=4", why), 1);
	assert_int_equal(recall(f, "image=3", why), -1);
}

/* Of another version, cut short, or no text at all: it is probed again, and the file is good after.
 */
static void test_damaged(void **state)
{
	static const char *const texts[] = {
		"", "\n", "image=a\nworks", "image=a\nworks\n", "\n\n\n\n", "image=a\n\n\n"
	};
	const struct fixture *f = *state;
	char why[160];

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		assert_int_equal(
		        io_write_file(AT_FDCWD, f->file, texts[i], strlen(texts[i]), 0644, NULL),
		        0);
		assert_int_equal(recall(f, "image=a", why), -1);
		remember(f, "image=a", true, "booted");
		assert_int_equal(recall(f, "image=a", why), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_key_has_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_failure_counts_until_the_host_boots, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(test_the_oldest_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
