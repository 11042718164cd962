/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_argv.c - QEMU's command line against golden files
 *
 * PANDO_GOLDEN_UPDATE=1 rewrites them; review the difference before you commit it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "engine/argv.h"

static void check(const char *name, const struct argv_spec *s)
{
	autobuf struct buf b = { 0 };
	autofree char *want = NULL;
	AUTO(argv_done) struct argv a = { 0 };
	struct err err = { 0 };
	char path[512];

	assert_int_equal(argv_build(s, &a, &err), 0);
	for (size_t i = 0; i < a.n; i++)
		buf_printf(&b, "%s\n", a.v[i]);
	buf_put_u8(&b, 0);
	snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, name);
	if (getenv("PANDO_GOLDEN_UPDATE"))
		assert_int_equal(io_write_file(-100, path, b.p, b.len - 1, 0644, &err), 0);
	assert_int_equal(io_read_file(-100, path, 1 << 20, &want, &err), 0);
	assert_string_equal((char *)b.p, want);
}

static struct argv_spec spec(enum accel a)
{
	return (struct argv_spec){ .accel = a,
		                   .machine = argv_machine(a),
		                   .cpu = argv_cpu(a),
		                   .vcpus = 2,
		                   .mem_mb = 2048,
		                   .tap = true,
		                   .fd_qmp = 10,
		                   .fd_agent = 11,
		                   .fd_console = 13,
		                   .fd_kernel = -1,
		                   .fd_initrd = -1 };
}

static void test_thaw_tcg(void **state)
{
	struct argv_spec s = spec(ACCEL_TCG);

	s.thaw = true;
	check("argv-thaw-tcg", &s);
}

static void test_boot_kvm(void **state)
{
	struct argv_spec s = spec(ACCEL_KVM);

	s.fd_kernel = 18;
	s.fd_initrd = 19;
	s.tap = false;
	check("argv-boot-kvm", &s);
}

/* More vCPUs than a boot is to begin with. */
static void test_boot_tcg(void **state)
{
	struct argv_spec s = spec(ACCEL_TCG);

	s.fd_kernel = 18;
	s.fd_initrd = 19;
	s.vcpus = 32;
	s.boot_vcpus = 4;
	s.tsc_khz = 2500000;
	check("argv-boot-tcg", &s);
}

static bool has_limit(uint32_t vcpus, uint32_t boot_vcpus)
{
	struct argv_spec s = spec(ACCEL_TCG);
	AUTO(argv_done) struct argv a = { 0 };
	bool found = false;

	s.fd_kernel = 18;
	s.fd_initrd = 19;
	s.vcpus = vcpus;
	s.boot_vcpus = boot_vcpus;
	assert_int_equal(argv_build(&s, &a, NULL), 0);
	for (size_t i = 0; i < a.n; i++)
		found |= strstr(a.v[i], "maxcpus=") != NULL;
	return found;
}

static void test_no_limit_where_none_is_needed(void **state)
{
	assert_false(has_limit(2, 2));
	assert_false(has_limit(4, 0));
	assert_true(has_limit(3, 2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_thaw_tcg),
		cmocka_unit_test(test_boot_kvm),
		cmocka_unit_test(test_boot_tcg),
		cmocka_unit_test(test_no_limit_where_none_is_needed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
