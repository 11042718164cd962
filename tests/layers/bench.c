/* SPDX-License-Identifier: MIT */
/*
 * bench.c - what a map and a freeze cost, on this machine
 *
 *	layers-bench LIBRARY HOST
 *	LAYERS_BENCH_LARGE=1 layers-bench LIBRARY HOST		only 4 GiB dirty of 16
 *
 * Runs host.c (no QEMU: its own memory would blur the picture) with 2 GiB of guest memory and
 *prints one line per case: the least and, in brackets, the median of several runs. Layers lie in
 *TMPDIR. "pause" is from the request to the reply, as the caller with stopped vCPUs sees it; "fork"
 *is the system call in it; "write" is the child's time.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

#define MIB (UINT64_C(1) << 20)
#define MEM (2048 * MIB)
#define REPEAT 5

static const char *so_path, *host_path;

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts. The least is what the work costs, the median what a machine as busy as this one makes of
 * it. */
static void print_ms(const char *name, uint64_t *us, size_t n)
{
	const uint64_t *median = us + n / 2;

	qsort(us, n, sizeof(*us), by_value);
	printf("  %s %6.2f (%6.2f) ms", name, (double)us[0] / 1000, (double)*median / 1000);
}

/* Only the pause: what would be written is more than is worth writing. */
static void bench_pause(struct rig *rig, const char *name)
{
	uint64_t pause[REPEAT], fork[REPEAT];

	for (uint64_t i = 0; i < REPEAT; i++) {
		int fd = rig_file();
		uint64_t began = rig_now_us();
		struct layers_reply r = rig_freeze(rig, i, 0, fd);

		pause[i] = rig_now_us() - began;
		fork[i] = r.us;
		rig_send(rig, &(struct layers_req){ .type = LAYERS_DISCARD, .token = i }, NULL, 0);
		do
			if (!rig_recv(rig, &r))
				rig_die("%s: the library hung up", name);
		while (r.type != LAYERS_DONE);
		close(fd);
	}
	printf("%-40s", name);
	print_ms("pause", pause, REPEAT);
	print_ms("fork", fork, REPEAT);
	printf("\n");
	fflush(stdout);
}

static void bench_freeze(struct rig *rig, const char *name, uint32_t flags)
{
	uint64_t pause[REPEAT], fork[REPEAT], write[REPEAT];
	struct layers_reply done = { 0 };

	for (uint64_t i = 0; i < REPEAT; i++) {
		int fd = rig_file();
		uint64_t began = rig_now_us();
		struct layers_reply r = rig_freeze(rig, i, flags, fd);

		pause[i] = rig_now_us() - began;
		fork[i] = r.us;
		done = rig_wait_done(rig, i);
		if (done.status != 0)
			rig_die("%s: %s", name, done.why);
		write[i] = done.us;
		close(fd);
	}
	printf("%-40s", name);
	print_ms("pause", pause, REPEAT);
	print_ms("fork", fork, REPEAT);
	print_ms("write", write, REPEAT);
	printf("  %6.1f MiB  %5u extents\n", (double)done.bytes / (double)MIB, done.n_extents);
	fflush(stdout);
}

static void bench_dirty_of(uint64_t mem, uint64_t mib, bool small, uint32_t flags, const char *what)
{
	struct rig rig;
	char name[64];

	rig_start_host(&rig, so_path, host_path, mem);
	if (small)
		rig_host(&rig, HOST_SMALL_PAGES, 0, 0, 0);
	for (uint64_t at = 0; at < mib; at += 64) /* each has a deadline */
		rig_host(&rig, HOST_FILL, at * MIB, (mib - at < 64 ? mib - at : 64) * MIB, 3);
	snprintf(name, sizeof(name), "freeze %llu MiB%s", (unsigned long long)mib, what);
	if (mib > 1024)
		bench_pause(&rig, name);
	else
		bench_freeze(&rig, name, flags);
	rig_stop(&rig);
}

static void bench_dirty(uint64_t mib, bool small, uint32_t flags, const char *what)
{
	bench_dirty_of(MEM, mib, small, flags, what);
}

/* @n extents of @pages pages each, evenly spread over memory. */
static int spread_layer(size_t n, uint64_t pages)
{
	struct rig_extent *e = calloc(n, sizeof(*e));
	uint64_t step = MEM / n / LAYER_PAGE * LAYER_PAGE;
	int fd;

	if (!e)
		rig_die("out of memory");
	for (size_t i = 0; i < n; i++)
		e[i] = (struct rig_extent){ i * step, pages * LAYER_PAGE, 7 };
	fd = rig_layer(MEM, e, n);
	free(e);
	return fd;
}

static void bench_map(void)
{
	int fd = spread_layer(512, 150);
	uint64_t us[REPEAT];
	struct layers_reply r = { 0 };
	struct rig rig;

	for (size_t i = 0; i < REPEAT; i++) {
		if (i > 0)
			rig_stop(&rig);
		rig_start_host(&rig, so_path, host_path, MEM);
		r = rig_map(&rig, &fd, 1);
		if (r.status != 0)
			rig_die("map: %s", r.why);
		us[i] = r.us;
	}
	printf("map a layer of %llu MiB, %u mappings ",
	       (unsigned long long)(r.pages * LAYER_PAGE / MIB), r.n_mappings);
	print_ms("", us, REPEAT);
	printf("\n");
	bench_freeze(&rig, "freeze nothing over that layer", 0);
	rig_host(&rig, HOST_READ, 0, MEM, 0);
	bench_freeze(&rig, "  all of memory was read", 0);
	for (size_t i = 0; i < 512; i++)
		rig_host(&rig, HOST_FILL, i * (MEM / 512), 32 * (uint64_t)LAYER_PAGE, 9);
	bench_freeze(&rig, "  and 512 runs of 32 pages were written", 0);
	bench_freeze(&rig, "  the same without PAGEMAP_SCAN", LAYERS_FREEZE_NO_SCAN);
	rig_stop(&rig);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: layers-bench LIBRARY HOST\n");
		return 2;
	}
	so_path = argv[1];
	host_path = argv[2];
	signal(SIGPIPE, SIG_IGN);
	if (getenv("LAYERS_BENCH_LARGE")) { /* takes 4 GB of memory */
		bench_dirty_of(16384 * MIB, 4096, false, 0, " of 16 GiB, huge pages");
		bench_dirty_of(16384 * MIB, 4096, true, 0, " of 16 GiB, small pages");
		return 0;
	}
	bench_dirty(0, false, 0, "");
	for (int small = 0; small < 2; small++) {
		const char *what = small ? ", small pages" : ", huge pages";

		bench_dirty(5, small, 0, what);
		bench_dirty(64, small, 0, what);
		bench_dirty(512, small, 0, what);
	}
	bench_dirty(64, true, LAYERS_FREEZE_FSYNC, ", small pages, fsync");
	bench_map();
	bench_dirty_of(16384 * MIB, 64, false, 0, " of 16 GiB, huge pages");
	bench_dirty_of(16384 * MIB, 64, true, 0, " of 16 GiB, small pages");
	return 0;
}
