/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu.c - which CPUs count as the same for a point */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine_internal.h"

static const char cpuinfo[] = "processor\t: 0\n"
                              "vendor_id\t: GenuineIntel\n"
                              "cpu family\t: 6\n"
                              "model\t\t: 143\n"
                              "model name\t: Some CPU @ 2.00GHz\n"
                              "stepping\t: 8\n"
                              "flags\t\t: fpu vme de\n"
                              "\n"
                              "processor\t: 1\n"
                              "vendor_id\t: other\n";

static void the_host_is_known_by_its_first_cpu(void **state)
{
	char a[64], b[64], text[sizeof(cpuinfo)];

	engine_cpu_of(cpuinfo, a, sizeof(a));
	assert_memory_equal(a, "host GenuineIntel/6/143/8 flags ", 32);
	memcpy(text, cpuinfo, sizeof(text));
	*strstr(text, "vme") = 'X'; /* another flag: another CPU */
	engine_cpu_of(text, b, sizeof(b));
	assert_false(engine_cpu_same(a, b));
	assert_true(engine_cpu_same(a, a));
	engine_cpu_of("", a, sizeof(a));
	assert_memory_equal(a, "host /// flags ", 15);
	engine_cpu_of("flags", a, sizeof(a)); /* cut short */
	engine_cpu_of("model", a, sizeof(a));
}

static void a_measured_frequency_may_differ_a_little(void **state)
{
	assert_true(engine_cpu_same("max tsc=2500", "max tsc=2500"));
	assert_true(engine_cpu_same("max tsc=2490", "max tsc=2510"));
	assert_false(engine_cpu_same("max tsc=2500", "max tsc=2600"));
	assert_false(engine_cpu_same("max tsc=2500", "max"));
	assert_false(engine_cpu_same("max tsc=2500", "qemu64 tsc=2500"));
	assert_false(engine_cpu_same("max tsc=2500", "maxi tsc=2500"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_host_is_known_by_its_first_cpu),
		cmocka_unit_test(a_measured_frequency_may_differ_a_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
