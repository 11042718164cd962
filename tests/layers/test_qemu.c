/* SPDX-License-Identifier: MIT */
/*
 * test_qemu.c - the library in the real QEMU, under its sandbox
 *
 *	test_qemu LIBRARY QEMU
 *
 * pmemsave shows memory as the guest sees it: BIOS and video ranges below 1 MiB are not RAM, so
 *they are left out of comparisons.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qemu.h"

#define MEM (UINT64_C(64) << 20)
#define ROM_FROM 0xa0000u
#define ROM_TO 0x100000u

static const char *so_path, *qemu_path;

static bool same_ram(const uint8_t *a, const uint8_t *b)
{
	return rig_same(a, b, ROM_FROM) && rig_same(a + ROM_TO, b + ROM_TO, MEM - ROM_TO);
}

/* A freeze without a running guest: memory filled by QEMU itself, then a second QEMU over it. */
static void test_load_freeze_map(void **state)
{
	const uint64_t bytes = 6 << 20, at = 32 << 20;
	char path[64], loader[128];
	const char *more[] = { "-device", loader, NULL };
	uint8_t *data = malloc(bytes), *mem = calloc(1, MEM), *seen;
	int file = rig_memfile(), layer = rig_file();
	struct layers_reply r;
	struct qemu q;

	assert_non_null(data);
	assert_non_null(mem);
	for (uint64_t off = 0; off < bytes; off += LAYER_PAGE)
		rig_pattern(data + off, off, 17);
	assert_int_equal(write(file, data, bytes), bytes);
	rig_path(file, path);
	snprintf(loader, sizeof(loader), "loader,file=%s,addr=%#llx,force-raw=on", path,
	         (unsigned long long)at);
	qemu_start(&q, &(struct qemu_opts){ so_path, qemu_path, MEM, false, more });
	close(file);
	seen = qemu_memory(&q);
	assert_memory_equal(seen + at, data, bytes);
	r = rig_stat(&q.rig);
	assert_int_equal(r.status, 0);
	assert_int_equal(r.mem_bytes, MEM);
	/* what was loaded and a few huge pages around it */
	assert_true(r.pages >= bytes / LAYER_PAGE && r.pages < 2 * bytes / LAYER_PAGE);
	rig_freeze(&q.rig, 1, LAYERS_FREEZE_FSYNC, layer);
	r = rig_wait_done(&q.rig, 1);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	rig_apply(layer, mem, MEM);
	assert_true(same_ram(mem, seen));
	free(seen);
	qemu_stop(&q);

	qemu_start(&q, &(struct qemu_opts){ so_path, qemu_path, MEM, true, NULL });
	r = rig_map(&q.rig, &layer, 1);
	assert_string_equal(r.why, "");
	assert_int_equal(r.status, 0);
	assert_int_equal(rig_stat(&q.rig).pages, 0);
	seen = qemu_memory(&q);
	assert_true(same_ram(mem, seen));
	free(seen);
	qemu_stop(&q);
	close(layer);
	free(data);
	free(mem);
}

/* The guest has counted on: some word changed. */
static void wait_for_change(struct qemu *q, const uint8_t *before)
{
	uint64_t deadline = rig_now_us() + RIG_DEADLINE_US;
	bool changed = false;

	while (!changed) {
		uint8_t *now = qemu_memory(q);

		assert_true(rig_now_us() < deadline);
		changed = memcmp(before + GUEST_FROM, now + GUEST_FROM, GUEST_TO - GUEST_FROM) != 0;
		free(now);
	}
}

static void save_devices(struct qemu *q, const char *path)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd),
	         "{\"execute\":\"xen-save-devices-state\",\"arguments\":{\"filename\":\"%s\","
	         "\"live\":true}}\n",
	         path);
	qemu_qmp(q, cmd, -1);
}

static void load_devices(struct qemu *q, const char *path)
{
	uint64_t deadline = rig_now_us() + RIG_DEADLINE_US;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	qemu_qmp(q, "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"dev\"}}\n", fd);
	close(fd);
	qemu_qmp(q, "{\"execute\":\"migrate-incoming\",\"arguments\":{\"uri\":\"fd:dev\"}}\n", -1);
	while (strstr(qemu_qmp(q, "{\"execute\":\"query-status\"}\n", -1), "inmigrate")) {
		assert_true(rig_now_us() < deadline);
		sched_yield();
	}
}

/* stop, freeze, cont with a guest that writes all the time; then thaw it twice. */
static void test_freeze_running_guest(void **state)
{
	char path[64];
	int dev = rig_memfile(), layers[2] = { rig_file(), rig_file() };
	uint8_t *mem = calloc(1, MEM), *then;
	struct layers_reply r;
	struct qemu q;

	assert_non_null(mem);
	rig_path(dev, path);
	qemu_start(&q, &(struct qemu_opts){ so_path, qemu_path, MEM, false, NULL });
	then = qemu_memory(&q);
	qemu_qmp(&q, "{\"execute\":\"cont\"}\n", -1);
	wait_for_change(&q, then);
	free(then);
	for (uint32_t round = 0; round < 2; round++) {
		qemu_qmp(&q, "{\"execute\":\"stop\"}\n", -1);
		then = qemu_memory(&q);
		save_devices(&q, path);
		r = rig_freeze(&q.rig, round, 0, layers[round]);
		print_message("round %u: pause for fork %llu us\n", round,
		              (unsigned long long)r.us);
		qemu_qmp(&q, "{\"execute\":\"cont\"}\n", -1);
		r = rig_wait_done(&q.rig, round);
		assert_string_equal(r.why, "");
		assert_int_equal(r.status, 0);
		assert_true(r.pages >= (GUEST_TO - GUEST_FROM) / LAYER_PAGE);
		wait_for_change(&q, then); /* it continues */
		rig_apply(layers[round], mem, MEM);
		assert_true(same_ram(mem, then));
		free(then);
		if (round == 1)
			break;
		/* a new QEMU continues where the old one was frozen, and is frozen next */
		qemu_stop(&q);
		qemu_start(&q, &(struct qemu_opts){ so_path, qemu_path, MEM, true, NULL });
		r = rig_map(&q.rig, &layers[0], 1);
		assert_int_equal(r.status, 0);
		load_devices(&q, path);
		then = qemu_memory(&q);
		assert_true(same_ram(mem, then));
		qemu_qmp(&q, "{\"execute\":\"cont\"}\n", -1);
		wait_for_change(&q, then);
		free(then);
	}
	qemu_stop(&q);
	close(dev);
	close(layers[0]);
	close(layers[1]);
	free(mem);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load_freeze_map),
		cmocka_unit_test(test_freeze_running_guest),
	};

	if (argc != 3) {
		fprintf(stderr, "usage: test_qemu LIBRARY QEMU\n");
		return 2;
	}
	so_path = argv[1];
	qemu_path = argv[2];
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
