/* SPDX-License-Identifier: MIT */
/*
 * test_library.c - the preloaded library in a process that maps memory as QEMU does
 *
 *	test_library LIBRARY HOST
 *
 * The yardstick is always the same: what HOST says its memory was at the instant of the freeze,
 * against the layers laid over one another by hand (rig_apply).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define PAGE ((uint64_t)LAYER_PAGE)
#define MEM (UINT64_C(64) << 20)

static const char *so_path, *host_path;

struct ctx {
	struct rig rig;
	uint8_t *mem; /* owned; what memory should be, by hand */
};

static int setup(void **state)
{
	struct ctx *t = calloc(1, sizeof(*t));

	if (!t || !(t->mem = calloc(1, MEM)))
		return -1;
	rig_start_host(&t->rig, so_path, host_path, MEM);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct ctx *t = *state;

	rig_stop(&t->rig);
	free(t->mem);
	free(t);
	return 0;
}

/* Freeze now, wait, and check the layer against a copy of the host's memory. */
static struct layers_reply freeze_and_check(struct ctx *t, uint64_t token, uint32_t flags,
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
	rig_host(&t->rig, HOST_ZERO, 1020 * PAGE, 16 * PAGE, 0);  /* long enough */
	rig_host(&t->rig, HOST_ZERO, 1100 * PAGE, 15 * PAGE, 0);  /* not */
	rig_host(&t->rig, HOST_ZERO, 1150 * PAGE, 100 * PAGE, 0); /* at the end */
	rig_host(&t->rig, HOST_ZERO, 2000 * PAGE, 40 * PAGE, 0);  /* nothing else */
	freeze_and_check(t, 1, 0, &info);
	assert_int_equal(info.n_extents, 5);
	assert_int_equal(info.data_pages, 20 + 114);
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
	rig_host(&t->rig, HOST_FILL, 140 * PAGE, PAGE, 32);  /* in a zero extent */
	rig_host(&t->rig, HOST_ZERO, 40 * PAGE, 20 * PAGE, 0); /* zeros over data */
	rig_host(&t->rig, HOST_FILL, 5000 * PAGE, PAGE, 33); /* where no layer is */
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

/* The heart of it: threads write all the time, the layer shows one instant. */
static void test_freeze_while_running(void **state)
{
	struct ctx *t = *state;
	int base = rig_layer(MEM, (const struct rig_extent[]){ { 0, MEM / 2, 3 } }, 1);

	assert_int_equal(rig_map(&t->rig, &base, 1).status, 0);
	rig_apply(base, t->mem, MEM);
	for (uint64_t round = 1; round <= 8; round++) {
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

static void test_several_in_flight(void **state)
{
	struct ctx *t = *state;
	const struct layers_req again = { .type = LAYERS_FREEZE, .token = 2 };
	const struct layers_req fifth = { .type = LAYERS_FREEZE, .token = 5 };
	struct layers_reply reply;
	int fds[5];
	unsigned seen = 0;

	rig_host(&t->rig, HOST_FILL, 0, 32 << 20, 77);
	for (int i = 0; i < 5; i++)
		fds[i] = rig_file();
	for (uint64_t i = 0; i < 4; i++) {
		rig_host(&t->rig, HOST_FILL, (40 << 20) + i * PAGE, PAGE, (uint32_t)i + 1);
		rig_send(&t->rig, &(struct layers_req){ .type = LAYERS_FREEZE, .token = i }, &fds[i],
			 1);
	}
	rig_send(&t->rig, &again, &fds[4], 1);
	rig_send(&t->rig, &fifth, &fds[4], 1);
	/* on a busy machine some are done before the last is asked for: then there is room again */
	for (int n = 0; n < 6; n++) {
		assert_true(rig_recv(&t->rig, &reply));
		if (reply.type == LAYERS_DONE) {
			assert_int_equal(reply.status, 0);
			seen |= 1u << reply.token;
			n--;
		} else if (reply.token == 5 && reply.status == 0) {
			assert_true(seen != 0);
		} else if (reply.token == 5) {
			assert_int_equal(reply.status, -EBUSY);
			seen |= 1u << 5;
		} else if (n == 4) {
			assert_true(reply.status == -EEXIST || (seen & 4) != 0);
			if (reply.status == 0)
				seen &= ~4u;
		} else {
			assert_int_equal(reply.status, 0);
		}
	}
	while (seen != 0x3f) {
		assert_true(rig_recv(&t->rig, &reply));
		assert_int_equal(reply.type, LAYERS_DONE);
		assert_int_equal(reply.status, 0);
		seen |= 1u << reply.token;
	}
	/* each shows its own instant */
	for (unsigned i = 0; i < 4; i++) {
		uint8_t page[LAYER_PAGE];

		memset(t->mem, 0, MEM);
		rig_apply(fds[i], t->mem, MEM);
		for (unsigned k = 0; k < 4; k++) {
			memset(page, 0, sizeof(page));
			if (k <= i)
				rig_pattern(page, (40 << 20) + k * PAGE, k + 1);
			assert_memory_equal(t->mem + (40 << 20) + k * PAGE, page, sizeof(page));
		}
	}
	for (int i = 0; i < 5; i++)
		close(fds[i]);
}

/* The only child of the host: the writer of a freeze. 0 if there is none. */
static pid_t writer_pid(pid_t host)
{
	char path[64], buf[32] = "";
	long pid = 0;
	DIR *d;
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/task", host);
	d = opendir(path);
	assert_non_null(d);
	while (pid == 0 && (e = readdir(d))) {
		int fd;
		ssize_t n;

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", host, e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd >= 0 ? read(fd, buf, sizeof(buf) - 1) : -1;
		if (fd >= 0)
			close(fd);
		if (n > 0)
			pid = strtol(buf, NULL, 10);
	}
	closedir(d);
	return (pid_t)pid;
}

/* A freeze whose writer stands still: its file is a pipe-slow one. Sends SIGSTOP at once. */
static pid_t freeze_stopped(struct ctx *t, uint64_t token, int fd)
{
	pid_t pid;

	rig_host(&t->rig, HOST_FILL, 0, 48 << 20, 55);
	rig_freeze(&t->rig, token, 0, fd);
	pid = writer_pid(t->rig.pid);
	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	return pid;
}

static void test_writer_killed(void **state)
{
	struct ctx *t = *state;
	struct layers_reply done;
	struct layer_info info;
	int fd = rig_file();
	pid_t pid = freeze_stopped(t, 7, fd);

	assert_int_equal(rig_stat(&t->rig).in_flight, 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	done = rig_wait_done(&t->rig, 7);
	assert_int_equal(done.status, -EIO);
	assert_string_equal(done.why, "writer died of signal 9");
	close(fd);
	assert_int_equal(rig_stat(&t->rig).in_flight, 0);
	freeze_and_check(t, 8, 0, &info); /* nothing else happened */
}

static void test_discard(void **state)
{
	struct ctx *t = *state;
	struct layers_req req = { .type = LAYERS_DISCARD, .token = 9 };
	struct layers_reply done;
	int fd = rig_file();

	assert_int_equal(rig_call(&t->rig, &req, NULL, 0).status, -ENOENT);
	freeze_stopped(t, 9, fd);
	assert_int_equal(rig_call(&t->rig, &req, NULL, 0).status, 0);
	done = rig_wait_done(&t->rig, 9);
	assert_int_equal(done.status, -ECANCELED);
	assert_int_equal(rig_call(&t->rig, &req, NULL, 0).status, -ENOENT);
	close(fd);
}

/* The server dies during a freeze; its successor is told how it ended. */
static void test_client_vanishes(void **state)
{
	struct ctx *t = *state;
	struct layers_reply done;
	uint8_t *then = malloc(MEM);
	int64_t fds = rig_host(&t->rig, HOST_FDS, 0, 0, 0);
	int fd = rig_file();
	pid_t pid;

	assert_non_null(then);
	pid = freeze_stopped(t, 10, fd);
	memcpy(then, rig_copy(&t->rig), MEM);
	rig_disconnect(&t->rig);
	rig_host(&t->rig, HOST_ZERO, 0, 1 << 20, 0);
	assert_int_equal(kill(pid, SIGCONT), 0);
	rig_connect(&t->rig);
	done = rig_wait_done(&t->rig, 10);
	assert_int_equal(done.status, 0);
	memset(t->mem, 0, MEM);
	rig_apply(fd, t->mem, MEM);
	assert_true(rig_same(t->mem, then, MEM));

	/* and if it is over before there is a successor */
	assert_int_equal(ftruncate(fd, 0), 0);
	pid = freeze_stopped(t, 11, fd);
	rig_disconnect(&t->rig);
	assert_int_equal(kill(pid, SIGKILL), 0);
	rig_connect(&t->rig);
	assert_int_equal(rig_wait_done(&t->rig, 11).status, -EIO);
	assert_int_equal(rig_stat(&t->rig).status, 0);
	assert_int_equal(rig_host(&t->rig, HOST_FDS, 0, 0, 0), fds);
	free(then);
	close(fd);
}

static void test_second_client_waits(void **state)
{
	struct ctx *t = *state;
	int first = t->rig.control_fd;

	assert_int_equal(rig_stat(&t->rig).status, 0);
	rig_connect(&t->rig);
	rig_send(&t->rig, &(struct layers_req){ .type = LAYERS_STAT }, NULL, 0);
	/* the first one is still served */
	assert_int_equal(rig_stat(&(struct rig){ .control_fd = first }).status, 0);
	close(first);
	assert_true(rig_recv(&t->rig, &(struct layers_reply){ 0 }));
}

/* Fails as it should, leaves no data behind, and the guest's memory is as it was. */
static void check_failed_freeze(struct ctx *t, uint64_t token, int fd, int status)
{
	struct layers_reply done;
	struct layer_info info;
	struct stat st;

	rig_host(&t->rig, HOST_FILL, 0, 16 << 20, 66);
	rig_freeze(&t->rig, token, 0, fd);
	done = rig_wait_done(&t->rig, token);
	assert_int_equal(done.status, status);
	assert_string_equal(done.why, "write data");
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	freeze_and_check(t, token + 1, 0, &info);
}

static void test_disk_full(void **state)
{
	struct ctx *t = *state;
	char path[96];
	int fd;

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		print_message("needs root to mount a small tmpfs\n");
		skip();
	}
	snprintf(path, sizeof(path), "%s/small", t->rig.dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(mount("small", path, "tmpfs", 0, "size=4m"), 0);
	fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	check_failed_freeze(t, 20, fd, -ENOSPC);
	close(fd);
	assert_int_equal(umount(path), 0);
	assert_int_equal(rmdir(path), 0);
}

static void test_file_too_big(void **state)
{
	struct ctx *t = *state;
	const struct rlimit small = { .rlim_cur = 4 << 20, .rlim_max = RLIM_INFINITY };
	const struct rlimit none = { .rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY };
	int fd = rig_file();
	struct layers_reply done;

	rig_host(&t->rig, HOST_FILL, 0, 16 << 20, 66);
	assert_int_equal(prlimit(t->rig.pid, RLIMIT_FSIZE, &small, NULL), 0);
	rig_freeze(&t->rig, 30, 0, fd);
	done = rig_wait_done(&t->rig, 30);
	assert_int_equal(done.status, -EFBIG);
	assert_int_equal(prlimit(t->rig.pid, RLIMIT_FSIZE, &none, NULL), 0);
	close(fd);
	assert_int_equal(rig_stat(&t->rig).pages, 4096);
}

static void test_bad_freezes(void **state)
{
	struct ctx *t = *state;
	struct layers_req req = { .type = LAYERS_FREEZE, .token = 1 };
	int pipes[2], used = rig_file(), fd = rig_file();
	char path[32];
	int ro;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(pwrite(used, "x", 1, 0), 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(ro >= 0);
	assert_int_equal(rig_call(&t->rig, &req, NULL, 0).status, -EBADF);
	assert_int_equal(rig_call(&t->rig, &req, (const int[]){ fd, fd }, 2).status, -EBADF);
	assert_int_equal(rig_call(&t->rig, &req, &pipes[1], 1).status, -EINVAL);
	assert_int_equal(rig_call(&t->rig, &req, &used, 1).status, -EINVAL);
	assert_int_equal(rig_call(&t->rig, &req, &ro, 1).status, -EINVAL);
	req.flags = 0x100;
	assert_int_equal(rig_call(&t->rig, &req, &fd, 1).status, -EINVAL);
	assert_int_equal(rig_stat(&t->rig).in_flight, 0);
	close(pipes[0]);
	close(pipes[1]);
	close(used);
	close(fd);
	close(ro);
}

static void test_bad_layers(void **state)
{
	struct ctx *t = *state;
	const struct rig_extent e = { 8 * PAGE, 4 * PAGE, 40 };
	int good = rig_layer(MEM, &e, 1), other = rig_layer(MEM / 2, &e, 1);
	int torn = rig_layer(MEM, &e, 1), cut = rig_layer(MEM, &e, 1), table = rig_layer(MEM, &e, 1);
	int empty = rig_file();
	struct layers_reply r;

	assert_int_equal(pwrite(torn, "", 1, 0), 1); /* no magic */
	assert_int_equal(ftruncate(cut, 5 * LAYER_PAGE), 0);
	assert_int_equal(pwrite(table, "\1", 1, 5 * LAYER_PAGE), 1);
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

/* More pieces than there may be mappings: the smallest are read. More runs than a layer may have. */
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

static void test_rude_clients(void **state)
{
	struct ctx *t = *state;
	const struct layers_req unknown = { .type = 99 };
	const struct layers_req map = { .type = LAYERS_MAP, .n_layers = 64 };
	int64_t fds = rig_host(&t->rig, HOST_FDS, 0, 0, 0);
	struct layers_reply reply;
	int many[70], fd = rig_file();

	for (size_t i = 0; i < 70; i++)
		many[i] = fd;
	rig_send(&t->rig, &unknown, many, 3);
	assert_false(rig_recv(&t->rig, &reply));
	rig_disconnect(&t->rig);

	rig_connect(&t->rig); /* short packet */
	assert_int_equal(send(t->rig.control_fd, "x", 1, 0), 1);
	assert_false(rig_recv(&t->rig, &reply));
	rig_disconnect(&t->rig);

	rig_connect(&t->rig); /* more descriptors than fit */
	rig_send(&t->rig, &map, many, 70);
	assert_false(rig_recv(&t->rig, &reply));
	rig_disconnect(&t->rig);

	rig_connect(&t->rig); /* half a stack, then gone */
	rig_send(&t->rig, &map, many, 40);
	rig_disconnect(&t->rig);

	rig_connect(&t->rig); /* too many for the stack */
	rig_send(&t->rig, &map, many, 40);
	assert_int_equal(rig_call(&t->rig,
				  &(struct layers_req){
					  .type = LAYERS_MAP, .n_layers = 64, .first = 40 },
				  many, 25)
				 .status,
			 -EINVAL);
	/* never reads its answers: is dropped instead of waited for */
	for (int i = 0; i < 100000; i++)
		if (send(t->rig.control_fd, &(struct layers_req){ .type = LAYERS_DISCARD },
			 sizeof(struct layers_req), MSG_NOSIGNAL) < 0)
			break;
	rig_disconnect(&t->rig);

	rig_connect(&t->rig);
	assert_int_equal(rig_stat(&t->rig).status, 0);
	assert_int_equal(rig_host(&t->rig, HOST_FDS, 0, 0, 0), fds);
	close(fd);
}

static void test_confined(void **state)
{
	struct ctx *t = *state;
	int status;

	assert_int_equal(rig_host(&t->rig, HOST_SYSCALLS, 0, 0, 0), 0);
	rig_host(&t->rig, HOST_EXEC, 0, 0, 0);
	status = rig_wait_exit(&t->rig);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSYS);
}

/* The process ends while a layer is being written: the writer goes with it. */
static void test_host_dies(void **state)
{
	struct ctx *t = *state;
	int fd = rig_file();
	uint64_t deadline;
	pid_t pid = freeze_stopped(t, 40, fd);

	/* so that its end can be seen here: an orphan comes to us */
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	kill(t->rig.pid, SIGKILL);
	rig_wait_exit(&t->rig);
	deadline = rig_now_us() + RIG_DEADLINE_MS * 1000;
	while (waitpid(pid, NULL, __WALL | WNOHANG) != pid) {
		assert_true(rig_now_us() < deadline);
		sched_yield();
	}
	close(fd);
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
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_fresh_memory_is_zero),
		T(test_freeze_of_dirty_pages),
		T(test_zero_extents),
		T(test_map_two_layers),
		T(test_freeze_while_running),
		T(test_several_in_flight),
		T(test_writer_killed),
		T(test_discard),
		T(test_client_vanishes),
		T(test_second_client_waits),
		T(test_file_too_big),
		T(test_bad_freezes),
		T(test_bad_layers),
		T(test_very_many_pieces),
		T(test_rude_clients),
		T(test_confined),
		T(test_host_dies),
		T(test_balloon),
		T(test_disk_full), /* last: it leaves the mount namespace */
	};
#undef T

	if (argc != 3) {
		fprintf(stderr, "usage: test_library LIBRARY HOST\n");
		return 2;
	}
	so_path = argv[1];
	host_path = argv[2];
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
