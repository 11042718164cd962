/* SPDX-License-Identifier: MIT */
/*
 * test_faults.c - what the preloaded library does when things go wrong
 *
 *	test_faults LIBRARY HOST
 *
 * Writers that die, disks that are full, clients that vanish or misbehave, a confined process.
 *After each the host must be as it was.
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

#include "fixture.h"

/* The writers of freezes: children of the host's control thread. How many, at most @max. */
static size_t writers(pid_t host, pid_t *ret_pids, size_t max)
{
	char path[64], buf[256] = "";
	size_t n_pids = 0;
	DIR *d;
	struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%d/task", host);
	d = opendir(path);
	assert_non_null(d);
	while (n_pids == 0 && (e = readdir(d))) {
		char *s = buf, *end;
		ssize_t n;
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/task/%.16s/children", host, e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		n = read(fd, buf, sizeof(buf) - 1);
		close(fd);
		buf[n > 0 ? n : 0] = '\0';
		for (; n_pids < max; s = end) {
			long pid = strtol(s, &end, 10);

			if (end == s)
				break;
			ret_pids[n_pids++] = (pid_t)pid;
		}
	}
	closedir(d);
	return n_pids;
}

static char process_state(pid_t pid)
{
	char path[64], buf[128] = "";
	const char *s;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, buf, sizeof(buf) - 1) < 0)
		buf[0] = '\0';
	if (fd >= 0)
		close(fd);
	s = strchr(buf, ')');
	return (char)(s && s[1] == ' ' ? s[2] : '\0');
}

/* Stops the process and waits until it is paused. False if it has ended. */
static bool stop_process(pid_t pid)
{
	uint64_t deadline = rig_now_us() + RIG_DEADLINE_US;

	if (kill(pid, SIGSTOP) < 0)
		return false;
	for (;;) {
		char c = process_state(pid);

		if (c == 'T')
			return true;
		if (c == 'Z' || c == 'X' || c == '\0')
			return false;
		assert_true(rig_now_us() < deadline);
		sched_yield();
	}
}

/*
 * A freeze whose writer is stopped in the middle. The writer has 48 MiB to write, but on a busy
 * machine it may be done before we get to stop it: then once more.
 */
static pid_t freeze_stopped(struct ctx *t, uint64_t token, int fd)
{
	rig_host(&t->rig, HOST_FILL, 0, 48 << 20, 55);
	for (int attempt = 0; attempt < 50; attempt++) {
		pid_t pids[8];
		size_t n;

		rig_freeze(&t->rig, token, 0, fd);
		n = writers(t->rig.pid, pids, 8);
		if (n > 0 && stop_process(pids[n - 1]))
			return pids[n - 1];
		assert_int_equal(rig_wait_done(&t->rig, token).status, 0);
		assert_int_equal(ftruncate(fd, 0), 0);
	}
	fail_msg("the writer was always faster");
	return -1;
}

/* Four at once, each of its own instant; not five, and not one twice. */
static void test_several_in_flight(void **state)
{
	struct ctx *t = *state;
	struct layers_req req = { .type = LAYERS_FREEZE, .token = 2 };
	struct layers_reply reply;
	uint8_t page[LAYER_PAGE];
	pid_t pids[4];
	int fds[5];
	unsigned seen = 0;

	for (int i = 0; i < 5; i++)
		fds[i] = rig_file();
	for (uint64_t i = 0; i < 4; i++) {
		rig_host(&t->rig, HOST_FILL, (50 << 20) + i * PAGE, PAGE, (uint32_t)i + 1);
		pids[i] = freeze_stopped(t, i, fds[i]);
	}
	assert_int_equal(rig_stat(&t->rig).in_flight, 4);
	assert_int_equal(rig_call(&t->rig, &req, &fds[4], 1).status, -EEXIST);
	req.token = 5;
	assert_int_equal(rig_call(&t->rig, &req, &fds[4], 1).status, -EBUSY);
	for (int i = 0; i < 4; i++)
		assert_int_equal(kill(pids[i], SIGCONT), 0);
	while (seen != 0xf) {
		assert_true(rig_recv(&t->rig, &reply));
		assert_int_equal(reply.type, LAYERS_DONE);
		assert_int_equal(reply.status, 0);
		seen |= 1u << reply.token;
	}
	for (unsigned i = 0; i < 4; i++) {
		memset(t->mem, 0, MEM);
		rig_apply(fds[i], t->mem, MEM);
		for (unsigned k = 0; k < 4; k++) {
			memset(page, 0, sizeof(page));
			if (k <= i)
				rig_pattern(page, (50 << 20) + k * PAGE, k + 1);
			assert_memory_equal(t->mem + (50 << 20) + k * PAGE, page, sizeof(page));
		}
	}
	for (int i = 0; i < 5; i++)
		close(fds[i]);
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
	int64_t fds;
	int fd = rig_file();
	pid_t pid;

	assert_non_null(then);
	assert_int_equal(rig_stat(&t->rig).status, 0); /* the connection has been accepted */
	fds = rig_host(&t->rig, HOST_FDS, 0, 0, 0);
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
	const char *path = "/mnt"; /* of our own mount namespace */
	int fd;

	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		print_message("needs root to mount a small tmpfs\n");
		skip();
	}
	assert_int_equal(mount("small", path, "tmpfs", 0, "size=4m"), 0);
	fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	check_failed_freeze(t, 20, fd, -ENOSPC);
	close(fd);
	assert_int_equal(umount(path), 0);
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

static void test_rude_clients(void **state)
{
	struct ctx *t = *state;
	const struct layers_req unknown = { .type = 99 };
	const struct layers_req map = { .type = LAYERS_MAP, .n_layers = 64 };
	struct layers_reply reply;
	int many[70], fd = rig_file();
	int64_t fds;

	assert_int_equal(rig_stat(&t->rig).status, 0); /* the connection has been accepted */
	fds = rig_host(&t->rig, HOST_FDS, 0, 0, 0);
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
	assert_int_equal(
	        rig_call(&t->rig,
	                 &(struct layers_req){ .type = LAYERS_MAP, .n_layers = 64, .first = 40 },
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
	kill(pid, SIGCONT); /* if we stopped it before it could ask for a signal: it looks itself */
	deadline = rig_now_us() + RIG_DEADLINE_US;
	while (waitpid(pid, NULL, __WALL | WNOHANG) != pid) {
		assert_true(rig_now_us() < deadline);
		sched_yield();
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_several_in_flight),
		TEST(test_writer_killed),
		TEST(test_discard),
		TEST(test_client_vanishes),
		TEST(test_second_client_waits),
		TEST_SMALL(test_file_too_big),
		TEST(test_bad_freezes),
		TEST(test_rude_clients),
		TEST(test_confined),
		TEST(test_host_dies),
		TEST(test_disk_full), /* last: it leaves the mount namespace */
	};

	if (fixture_args(argc, argv) < 0)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
