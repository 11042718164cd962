/* SPDX-License-Identifier: Apache-2.0 */
/* test_conf.c - where settings come from, which source wins, and error messages */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "conf.h"
#include "tests/unit/check.h"
#include "tests/unit/tmpdir.h"

static const char *const names[] = {
	"PANDO_DATA_DIR",  "PANDO_CACHE_DIR",  "PANDO_IMAGE",    "PANDO_LISTEN", "PANDO_DOMAIN",
	"PANDO_ACCEL",     "PANDO_QEMU",       "PANDO_RESOLVER", "PANDO_LOG",    "PANDO_VM_VCPUS",
	"PANDO_VM_MEM_MB", "PANDO_VM_DISK_GB", "PANDO_CONF",
};

struct fx {
	struct tmpdir dir;
	char file[256];
};

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		unsetenv(names[i]);
	setenv("PANDO_DATA_DIR", f->dir.path, 1);
	tmpdir_file(&f->dir, "pando.conf", f->file, sizeof(f->file));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fx *f = *state;
	int r = tmpdir_remove(&f->dir);

	free(f);
	return r;
}

static void write_conf(struct fx *f, const char *text)
{
	FILE *file = fopen(f->file, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

#define LOAD(c, ...)                                                                            \
	conf_load((c),                                                                          \
	          (int)ARRAY_SIZE(((char *[]){ (char *)(uintptr_t) "pandod", ##__VA_ARGS__ })), \
	          (char *[]){ (char *)(uintptr_t) "pandod", ##__VA_ARGS__, NULL }, &err)
#define ARG(s) ((char *)(uintptr_t)(s))

static void defaults_are_what_the_host_carries(void **state)
{
	struct conf c;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t mib = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;

	OK(LOAD(&c));
	assert_string_equal(c.listen, "127.0.0.1:8787");
	assert_string_equal(c.domain, "pando.localhost");
	assert_string_equal(c.accel, "auto");
	assert_string_equal(c.cache_dir, "/var/cache/pando");
	assert_int_equal(c.disk_gb, 20);
	assert_true(c.vcpus >= 1 && c.vcpus <= 4 && (c.vcpus & (c.vcpus - 1)) == 0);
	assert_true(c.vcpus <= cpus && (c.vcpus == 4 || c.vcpus > cpus / 2));
	assert_true(c.mem_mb >= 512 && c.mem_mb <= 8192 && (c.mem_mb & (c.mem_mb - 1)) == 0);
	assert_true(c.mem_mb == 512 || c.mem_mb <= mib / 8);
	assert_true(c.mem_mb == 8192 || c.mem_mb > mib / 16);
	assert_false(c.self_check);
}

/* 0 is "no limit": nobody gets that without being asked for. */
static void an_account_gets_a_share_of_the_host(void **state)
{
	struct conf c;
	uint64_t mib = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;

	(void)state;
	OK(LOAD(&c));
	assert_true(c.quota_vms && c.quota_running && c.quota_snapshots && c.quota_disk_gb);
	assert_true(c.quota_git_repos && c.quota_git_mb);
	assert_true(c.quota_vcpus >= 4 * c.vcpus && c.quota_mem_mb >= 4 * c.mem_mb);
	assert_true(c.quota_mem_mb == 4096 || c.quota_mem_mb < mib);
	OK(LOAD(&c, ARG("--quota-vms"), ARG("0"), ARG("--quota-vcpus"), ARG("0")));
	assert_int_equal(c.quota_vms, 0);
	assert_int_equal(c.quota_vcpus, 0);
}

static void later_sources_win(void **state)
{
	struct fx *f = *state;
	struct conf c;

	write_conf(f, "# comment\n\n  PANDO_LISTEN = \"127.0.0.1:1001\"  \nPANDO_VM_DISK_GB=5\n"
	              "PANDO_VM_VCPUS=8\nPANDO_LOG=debug");
	OK(LOAD(&c));
	assert_string_equal(c.listen, "127.0.0.1:1001");
	assert_string_equal(c.log_level, "debug");
	assert_int_equal(c.disk_gb, 5);
	assert_int_equal(c.vcpus, 8);
	setenv("PANDO_LISTEN", "[::1]:1002", 1);
	setenv("PANDO_VM_DISK_GB", "6", 1);
	OK(LOAD(&c));
	assert_string_equal(c.listen, "[::1]:1002");
	assert_int_equal(c.disk_gb, 6);
	OK(LOAD(&c, ARG("--listen=127.0.0.1:1003"), ARG("--self-check"), ARG("--vm-mem-mb"),
	        ARG("1024")));
	assert_string_equal(c.listen, "127.0.0.1:1003");
	assert_int_equal(c.disk_gb, 6);
	assert_int_equal(c.mem_mb, 1024);
	assert_true(c.self_check);
}

static void former_names_still_work(void **state)
{
	struct fx *f = *state;
	struct conf c;

	write_conf(f, "PANDO_SHELLS=3\n");
	OK(LOAD(&c));
	assert_int_equal(c.blanks, 3);
	setenv("PANDO_SHELLS", "4", 1);
	OK(LOAD(&c));
	assert_int_equal(c.blanks, 4);
	setenv("PANDO_BLANKS", "5", 1);
	OK(LOAD(&c));
	assert_int_equal(c.blanks, 5);
	OK(LOAD(&c, ARG("--shells"), ARG("6")));
	assert_int_equal(c.blanks, 6);
	FAILS(-EINVAL, LOAD(&c, ARG("--shells=many")));
	unsetenv("PANDO_SHELLS");
	unsetenv("PANDO_BLANKS");
}

static void the_file_can_be_named(void **state)
{
	struct fx *f = *state;
	struct conf c;
	char other[256];

	write_conf(f, "PANDO_VM_DISK_GB=1\n");
	tmpdir_file(&f->dir, "other.conf", other, sizeof(other));
	FAILS(-ENOENT, LOAD(&c, ARG("--conf"), other)); /* named, so it must be there */
	assert_non_null(strstr(err.msg, "other.conf"));
	assert_int_equal(rename(f->file, other), 0);
	OK(LOAD(&c)); /* not named: may be missing */
	assert_int_not_equal(c.disk_gb, 1);
	OK(LOAD(&c, ARG("--conf"), other));
	assert_int_equal(c.disk_gb, 1);
	setenv("PANDO_CONF", other, 1);
	OK(LOAD(&c));
	assert_int_equal(c.disk_gb, 1);
}

static void file_errors_name_file_line_and_what_is_allowed(void **state)
{
	static const struct {
		const char *text, *line, *says;
	} bad[] = {
		{ "PANDO_ACCEL=hvf\n", ":1:", "auto kvm tcg" },
		{ "\n#\nPANDO_FOO=1\n", ":3:", "unknown setting 'PANDO_FOO'" },
		{ "PANDO_VM_DISK_GB=1\nhello\n", ":2:", "NAME=value" },
		{ "PANDO_VM_DISK_GB=4096\n", ":1:", "from 1 to 2048" },
		{ "PANDO_VM_DISK_GB=-1\n", ":1:", "from 1 to 2048" },
		{ "PANDO_VM_DISK_GB=1x\n", ":1:", "from 1 to 2048" },
		{ "PANDO_VM_DISK_GB=4294967297\n", ":1:", "from 1 to 2048" },
		{ "PANDO_VM_VCPUS=3\n", ":1:", "power of two" },
		{ "PANDO_VM_MEM_MB=128\n", ":1:", "from 512" },
		{ "PANDO_LISTEN=host.example:80\n", ":1:", "numeric address" },
		{ "PANDO_CACHE_DIR=relative\n", ":1:", "absolute path" },
		{ "PANDO_API_STRANGERS=10:30\n", ":1:", "start:rate:full" },
		{ "PANDO_API_STRANGERS=10:101:100\n", ":1:", "start:rate:full" },
		{ "PANDO_API_STRANGERS=100:30:10\n", ":1:", "start:rate:full" },
		{ "PANDO_API_STRANGERS=10:30:100x\n", ":1:", "start:rate:full" },
		{ "PANDO_PROXIES=proxy.example\n", ":1:", "networks" },
		{ "PANDO_PROXIES=192.0.2.0/33\n", ":1:", "networks" },
		{ "PANDO_PROXIES=192.0.2.0/\n", ":1:", "networks" },
		{ "PANDO_DOMAIN=Bad_Name\n", ":1:", "domain name" },
		{ "PANDO_GUEST_PROXY=proxy:80\n", ":1:", "http://" },
		{ "PANDO_GUEST_PROXY=https://proxy:80\n", ":1:", "http://" },
		{ "PANDO_GUEST_PROXY=http://a@b@proxy\n", ":1:", "http://" },
		{ "PANDO_GUEST_PROXY=http://$(id)\n", ":1:", "http://" },
		{ "PANDO_GUEST_PIP_INDEX=http://a/b http://c\n", ":1:", "one http://" },
		{ "PANDO_GUEST_PIP_INDEX=ftp://a/b\n", ":1:", "http://" },
		{ "PANDO_GUEST_NPM_REGISTRY=http://u:p@a/\n", ":1:", "without a password" },
		{ "PANDO_GUEST_APT_MIRROR=http://a http://b http://c\n", ":1:", "one or two" },
		{ "PANDO_DOMAIN=.a\n", ":1:", "domain name" },
		{ "PANDO_DOMAIN=a-\n", ":1:", "domain name" },
		{ "PANDO_RESOLVER=dns.example\n", ":1:", "numeric address" },
		{ "PANDO_LOG=\n", ":1:", "debug info warn error" },
		{ "PANDO_LOG=inf\n", ":1:", "debug info warn error" },
		{ "PANDO_QEMU=/a\x01b\n", ":1:", "control character" },
		{ "PANDO_DATA_DIR=/elsewhere\n", ":1:", "from inside" },
	};
	struct fx *f = *state;
	struct conf c;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		write_conf(f, bad[i].text);
		FAILS(-EINVAL, LOAD(&c));
		if (!strstr(err.msg, "pando.conf") || !strstr(err.msg, bad[i].line) ||
		    !strstr(err.msg, bad[i].says))
			fail_msg("'%s' gave: %s", bad[i].text, err.msg);
	}
}

static void other_errors_name_their_source(void **state)
{
	struct conf c;
	char longpath[400];

	FAILS(-EINVAL, LOAD(&c, ARG("--frobnicate")));
	assert_non_null(strstr(err.msg, "--frobnicate"));
	FAILS(-EINVAL, LOAD(&c, ARG("--listen")));
	assert_non_null(strstr(err.msg, "needs a value"));
	FAILS(-EINVAL, LOAD(&c, ARG("stray")));
	setenv("PANDO_ACCEL", "gpu", 1);
	FAILS(-EINVAL, LOAD(&c));
	assert_non_null(strstr(err.msg, "environment"));
	unsetenv("PANDO_ACCEL");
	memset(longpath, 'x', sizeof(longpath));
	longpath[0] = '/';
	longpath[sizeof(longpath) - 1] = '\0';
	setenv("PANDO_CACHE_DIR", longpath, 1);
	FAILS(-EINVAL, LOAD(&c));
	assert_non_null(strstr(err.msg, "too long"));
}

static void help_lists_every_setting(void **state)
{
	autofree char *text = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&text, &n);

	assert_non_null(f);
	conf_help(f);
	fclose(f);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strstr(text, names[i]))
			fail_msg("--help does not mention %s", names[i]);
	assert_non_null(strstr(text, "--vm-disk-gb"));
	assert_non_null(strstr(text, "default: 127.0.0.1:8787"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(defaults_are_what_the_host_carries),
		T(an_account_gets_a_share_of_the_host),
		T(later_sources_win),
		T(former_names_still_work),
		T(the_file_can_be_named),
		T(file_errors_name_file_line_and_what_is_allowed),
		T(other_errors_name_their_source),
		T(help_lists_every_setting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
