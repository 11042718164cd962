/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.c - file operations through the real agent */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/agent/raw.h"
#include "tests/agent/util.h"

#define DEADLINE deadline_in(TEST_DEADLINE_MS)
#define BIG (64u << 20)

/* A pattern that is different at every position. */
static uint8_t pattern(uint64_t i)
{
	return (uint8_t)(i ^ i >> 8 ^ i >> 16 ^ i >> 24);
}

struct source {
	uint64_t off, size, fail_at;
};

static ssize_t on_source(void *ctx, uint8_t *p, size_t n)
{
	struct source *s = ctx;

	if (s->fail_at && s->off >= s->fail_at)
		return -EIO;
	n = MIN(n, s->size - s->off);
	for (size_t i = 0; i < n; i++)
		p[i] = pattern(s->off + i);
	s->off += n;
	return (ssize_t)n;
}

struct sink {
	uint64_t base, got, cancel_at;
	bool wrong;
};

static int on_sink(void *ctx, const uint8_t *p, size_t n)
{
	struct sink *k = ctx;

	for (size_t i = 0; i < n; i++)
		k->wrong |= p[i] != pattern(k->base + k->got + i);
	k->got += n;
	return k->cancel_at && k->got >= k->cancel_at ? -ECANCELED : 0;
}

static const char *path_of(struct rig *r, const char *name)
{
	static char path[4][256];
	static unsigned next;
	char *p = path[next++ % 4];

	snprintf(p, 256, "%s/%s", r->dir, name);
	return p;
}

static int write_text(struct rig *r, const char *user, const char *path, uint32_t mode,
                      uint64_t size, struct err *err)
{
	struct source s = { .size = size };

	return guest_write_file(r->g, user, path, mode, on_source, &s, DEADLINE, err);
}

static void rig_touch(struct rig *r, const char *name)
{
	autofd int fd = open(path_of(r, name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
}

static unsigned count_entries(struct rig *r, const char *name)
{
	autodir DIR *d = opendir(path_of(r, name));
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	return n - 2;
}

static void test_big(void **state)
{
	struct rig *r = *state;
	struct source s = { .size = BIG };
	struct sink k = { 0 };
	struct err err = { 0 };
	struct stat st;
	long before = rss_kb(r->agent), ours = rss_kb(getpid());

	assert_int_equal(guest_write_file(r->g, NULL, path_of(r, "big"), 0640, on_source, &s,
	                                  DEADLINE, &err),
	                 0);
	assert_int_equal(stat(path_of(r, "big"), &st), 0);
	assert_int_equal(st.st_size, BIG);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(
	        guest_read_file(r->g, NULL, path_of(r, "big"), 0, 0, on_sink, &k, DEADLINE, &err),
	        0);
	assert_int_equal(k.got, BIG);
	assert_false(k.wrong);
	assert_true(rss_kb(r->agent) - before < 8 << 10);
	assert_true(rss_kb(getpid()) - ours < 16 << 10);

	/* Ranges. */
	const uint64_t ranges[][3] = { { 0, 1, 1 },
		                       { 12345, 100000, 100000 },
		                       { BIG - 5, 100, 5 },
		                       { BIG - 5, 0, 5 },
		                       { BIG + 5, 10, 0 } };
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++) {
		k = (struct sink){ .base = ranges[i][0] };
		assert_int_equal(guest_read_file(r->g, NULL, path_of(r, "big"), ranges[i][0],
		                                 ranges[i][1], on_sink, &k, DEADLINE, &err),
		                 0);
		assert_int_equal(k.got, ranges[i][2]);
		assert_false(k.wrong);
	}
	/* The reader stops early. */
	k = (struct sink){ .cancel_at = 1000000 };
	assert_int_equal(
	        guest_read_file(r->g, NULL, path_of(r, "big"), 0, 0, on_sink, &k, DEADLINE, &err),
	        -ECANCELED);
	assert_int_equal(guest_ping(r->g, DEADLINE, &err), 0);
}

static void test_write(void **state)
{
	struct rig *r = *state;
	struct source bad = { .size = 1000000, .fail_at = 300000 };
	struct err err = { 0 };
	struct stat st;
	unsigned entries;

	assert_int_equal(write_text(r, NULL, path_of(r, "a/b/c/file"), 0, 0, &err), 0);
	assert_int_equal(stat(path_of(r, "a/b/c/file"), &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(stat(path_of(r, "a/b"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0755);

	/* Replaces, and keeps the mode when none is given. */
	assert_int_equal(chmod(path_of(r, "a/b/c/file"), 0751), 0);
	assert_int_equal(write_text(r, NULL, path_of(r, "a/b/c/file"), 0, 70000, &err), 0);
	assert_int_equal(stat(path_of(r, "a/b/c/file"), &st), 0);
	assert_int_equal(st.st_size, 70000);
	assert_int_equal(st.st_mode & 07777, 0751);

	/* An aborted write changes nothing and leaves nothing. */
	assert_int_equal(guest_write_file(r->g, NULL, path_of(r, "a/b/c/file"), 0, on_source, &bad,
	                                  DEADLINE, &err),
	                 -EIO);
	for (uint64_t end = deadline_in(5000);;) { /* the helper cleans up in the background */
		entries = count_entries(r, "a/b/c");
		if (entries == 1 || clock_ms() > end)
			break;
		usleep(10000);
	}
	assert_int_equal(entries, 1);
	assert_int_equal(stat(path_of(r, "a/b/c/file"), &st), 0);
	assert_int_equal(st.st_size, 70000);

	/* Links are followed, even dangling ones. */
	assert_int_equal(symlink("c/file", path_of(r, "a/b/link")), 0);
	assert_int_equal(symlink("new", path_of(r, "a/b/dangling")), 0);
	assert_int_equal(symlink("loop", path_of(r, "a/b/loop")), 0);
	assert_int_equal(write_text(r, NULL, path_of(r, "a/b/link"), 0, 5, &err), 0);
	assert_int_equal(write_text(r, NULL, path_of(r, "a/b/dangling"), 0, 6, &err), 0);
	assert_int_equal(write_text(r, NULL, path_of(r, "a/b/loop"), 0, 6, &err), -ELOOP);
	assert_int_equal(stat(path_of(r, "a/b/c/file"), &st), 0);
	assert_int_equal(st.st_size, 5);
	assert_int_equal(stat(path_of(r, "a/b/new"), &st), 0);
	assert_int_equal(st.st_size, 6);
	assert_int_equal(lstat(path_of(r, "a/b/link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));

	assert_int_equal(write_text(r, NULL, path_of(r, "a/b"), 0, 1, &err), -EISDIR);
	assert_int_equal(write_text(r, NULL, path_of(r, "a/b/c/file/x"), 0, 1, &err), -ENOTDIR);
	assert_int_equal(write_text(r, NULL, "relative", 0, 1, &err), -EINVAL);
	assert_int_equal(write_text(r, NULL, "/dev/null", 0, 1, &err), -EINVAL);
	assert_int_equal(write_text(r, "no-such-user", path_of(r, "x"), 0, 1, &err), -ENOENT);
	assert_int_equal(err.tag, ERR_USER_NOT_FOUND);
}

static void test_read_errors(void **state)
{
	struct rig *r = *state;
	struct sink k = { 0 };
	struct err err = { 0 };
	int (*sink)(void *, const uint8_t *, size_t) = on_sink;

	assert_int_equal(
	        guest_read_file(r->g, NULL, path_of(r, "none"), 0, 0, sink, &k, DEADLINE, &err),
	        -ENOENT);
	assert_non_null(strstr(err.msg, "none"));
	assert_int_equal(guest_read_file(r->g, NULL, r->dir, 0, 0, sink, &k, DEADLINE, &err),
	                 -EISDIR);
	assert_int_equal(mkfifo(path_of(r, "fifo"), 0644), 0);
	assert_int_equal(
	        guest_read_file(r->g, NULL, path_of(r, "fifo"), 0, 0, sink, &k, DEADLINE, &err),
	        -EINVAL);
	assert_int_equal(k.got, 0);
}

static void test_as_user(void **state)
{
	struct rig *r = *state;
	struct guest_dirent *d;
	struct sink k = { 0 };
	struct err err = { 0 };
	struct guest_stat gs;
	struct stat st;
	size_t n;

	if (geteuid() != 0)
		skip(); /* acting as another user needs root */
	rig_write(r, "secret", "s", 0600);
	assert_int_equal(mkdir(path_of(r, "private"), 0700), 0);
	assert_int_equal(mkdir(path_of(r, "open"), 0777), 0);
	assert_int_equal(chmod(path_of(r, "open"), 0777), 0);
	assert_int_equal(guest_read_file(r->g, "nobody", path_of(r, "secret"), 0, 0, on_sink, &k,
	                                 DEADLINE, &err),
	                 -EACCES);
	assert_int_equal(write_text(r, "nobody", path_of(r, "new"), 0, 1, &err), -EACCES);
	assert_int_equal(write_text(r, "nobody", path_of(r, "secret"), 0, 1, &err), -EACCES);
	assert_int_equal(guest_list_dir(r->g, "nobody", path_of(r, "private"), &d, &n, &err),
	                 -EACCES);
	assert_int_equal(guest_stat(r->g, "nobody", path_of(r, "private/x"), &gs, &err), -EACCES);
	assert_int_equal(guest_mkdir(r->g, "nobody", path_of(r, "private/x"), 0, true,
	                             deadline_in(TEST_DEADLINE_MS), &err),
	                 -EACCES);
	assert_int_equal(guest_remove(r->g, "nobody", path_of(r, "secret"), false, &err), -EACCES);
	assert_int_equal(guest_remove(r->g, "nobody", path_of(r, "private"), true, &err), -EACCES);

	assert_int_equal(write_text(r, "nobody", path_of(r, "open/sub/file"), 0600, 9, &err), 0);
	assert_int_equal(stat(path_of(r, "open/sub/file"), &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(st.st_gid, 65534);
	assert_int_equal(stat(path_of(r, "open/sub"), &st), 0);
	assert_int_equal(st.st_uid, 65534);
	/* root writes another user's file, which keeps its owner. */
	assert_int_equal(write_text(r, NULL, path_of(r, "open/sub/file"), 0, 10, &err), 0);
	assert_int_equal(stat(path_of(r, "open/sub/file"), &st), 0);
	assert_int_equal(st.st_uid, 65534);
	assert_int_equal(st.st_mode & 07777, 0600);
	/* May write the file, not the directory: in place. */
	rig_write(r, "shared", "old", 0666);
	assert_int_equal(write_text(r, "nobody", path_of(r, "shared"), 0, 11, &err), 0);
	assert_int_equal(stat(path_of(r, "shared"), &st), 0);
	assert_int_equal(st.st_size, 11);
	assert_int_equal(st.st_uid, 0);
}

/* Supplementary groups count, malformed lines do not, and a write through a mount point works. */
static void test_groups(void **state)
{
	struct guest_exec_req req = { .command = "id -G; echo $HOME $SHELL",
		                      .user = "ada",
		                      .timeout_ms = TEST_DEADLINE_MS };
	struct rig *r = *state;
	struct guest_exec_result x;
	struct sink k = { 0 };
	struct err err = { 0 };
	struct stat st;

	if (geteuid() != 0)
		skip(); /* acting as another user needs root */
	rig_stop(r);
	rig_write(r, "passwd",
	          "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:-5:1:::\nada:x:4294967295:1:::\n"
	          "ada:x:54321:54321:Ada:/home/ada:\nbob:x:54322:54321::/:/bin/sh",
	          0644);
	rig_write(r, "group",
	          "one:x:54330:bob,ada\ntwo:x:54331:adam\nbad:x:zz:ada\nshort:x\nthree:x:54333:ada",
	          0644);
	r->accounts = true;
	rig_spawn(r);
	if (rig_hello(r, GUEST_BOOT, 1, NULL, &err) < 0)
		fail_msg("hello: %s (root without mount namespaces?)", err.msg);
	assert_int_equal(guest_exec(r->g, &req, &x, &err), 0);
	assert_string_equal(x.out, "54321 54330 54333\n/home/ada /bin/sh\n");
	guest_exec_result_done(&x);

	rig_write(r, "for-three", "", 0640);
	assert_int_equal(chown(path_of(r, "for-three"), 0, 54333), 0);
	assert_int_equal(guest_read_file(r->g, "ada", path_of(r, "for-three"), 0, 0, on_sink, &k,
	                                 DEADLINE, &err),
	                 0);
	assert_int_equal(guest_read_file(r->g, "bob", path_of(r, "for-three"), 0, 0, on_sink, &k,
	                                 DEADLINE, &err),
	                 -EACCES);
	/* /etc/group is a bind mount there: it cannot be renamed over. */
	assert_int_equal(write_text(r, NULL, "/etc/group", 0, 3, &err), 0);
	assert_int_equal(stat(path_of(r, "group"), &st), 0);
	assert_int_equal(st.st_size, 3);
}

static void test_directories(void **state)
{
	struct rig *r = *state;
	struct guest_dirent *d;
	struct guest_stat gs;
	struct err err = { 0 };
	struct stat st;
	char name[64];
	size_t n;

	assert_int_equal(guest_mkdir(r->g, NULL, path_of(r, "p/q/r"), 0700, false,
	                             deadline_in(TEST_DEADLINE_MS), &err),
	                 -ENOENT);
	assert_int_equal(guest_mkdir(r->g, NULL, path_of(r, "p/q/r/"), 0700, true,
	                             deadline_in(TEST_DEADLINE_MS), &err),
	                 0);
	assert_int_equal(stat(path_of(r, "p/q/r"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(guest_mkdir(r->g, NULL, path_of(r, "p/q/r"), 0700, true,
	                             deadline_in(TEST_DEADLINE_MS), &err),
	                 0);
	assert_int_equal(guest_mkdir(r->g, NULL, path_of(r, "p/q/r"), 0700, false,
	                             deadline_in(TEST_DEADLINE_MS), &err),
	                 -EEXIST);

	assert_int_equal(guest_list_dir(r->g, NULL, path_of(r, "p/q/r"), &d, &n, &err), 0);
	assert_int_equal(n, 0);
	guest_dirents_free(d, n);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "p/q/r/a name with spaces %d", i);
		rig_touch(r, name);
	}
	assert_int_equal(symlink("nowhere", path_of(r, "p/q/r/z-link")), 0);
	assert_int_equal(mkdir(path_of(r, "p/q/r/Sub"), 0755), 0);
	assert_int_equal(guest_list_dir(r->g, NULL, path_of(r, "p/q/r"), &d, &n, &err), 0);
	assert_int_equal(n, 3002);
	assert_string_equal(d[0].name, "Sub");
	assert_int_equal(d[0].kind, GUEST_DIR);
	assert_string_equal(d[1].name, "a name with spaces 0");
	assert_int_equal(d[1].kind, GUEST_FILE);
	assert_string_equal(d[n - 1].name, "z-link");
	assert_int_equal(d[n - 1].kind, GUEST_SYMLINK);
	guest_dirents_free(d, n);
	assert_int_equal(guest_list_dir(r->g, NULL, path_of(r, "nope"), &d, &n, &err), -ENOENT);
	assert_int_equal(guest_list_dir(r->g, NULL, path_of(r, "steps"), &d, &n, &err), -ENOTDIR);

	assert_int_equal(guest_stat(r->g, NULL, path_of(r, "p/q/r/z-link"), &gs, &err), 0);
	assert_int_equal(gs.kind, GUEST_SYMLINK);
	assert_int_equal(guest_stat(r->g, NULL, path_of(r, "steps"), &gs, &err), 0);
	assert_int_equal(gs.kind, GUEST_FILE);
	assert_int_equal(stat(path_of(r, "steps"), &st), 0);
	assert_int_equal(gs.size, st.st_size);
	assert_int_equal(gs.mode, 0600);
	assert_int_equal(gs.mtime_ns / 1000000000, st.st_mtim.tv_sec);
	assert_int_equal(guest_stat(r->g, NULL, path_of(r, "nope"), &gs, &err), -ENOENT);

	assert_int_equal(guest_remove(r->g, NULL, path_of(r, "p/q"), false, &err), -ENOTEMPTY);
	assert_int_equal(guest_remove(r->g, NULL, path_of(r, "p/q/r/Sub"), false, &err), 0);
	assert_int_equal(guest_remove(r->g, NULL, path_of(r, "p/q/r/Sub"), false, &err), -ENOENT);
	/* A tree with a link out of it: the link is removed, its target stays. */
	assert_int_equal(symlink(path_of(r, "etc"), path_of(r, "p/q/out")), 0);
	assert_int_equal(guest_remove(r->g, NULL, path_of(r, "p"), true, &err), 0);
	assert_int_equal(access(path_of(r, "p"), F_OK), -1);
	assert_int_equal(access(path_of(r, "etc/machine-id"), F_OK), 0);
	assert_int_equal(guest_remove(r->g, NULL, path_of(r, "p"), true, &err), -ENOENT);
}

static void test_shutdown(void **state)
{
	struct rig *r = *state;
	autofree char *steps = NULL;
	struct err err = { 0 };

	assert_int_equal(guest_shutdown(r->g, DEADLINE, &err), 0);
	assert_int_equal(guest_ping(r->g, DEADLINE, &err), 0);
	steps = rig_text(r, "steps");
	assert_non_null(strstr(steps, "shutdown\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, rig_ready, rig_done)
		T(test_big),    T(test_write),       T(test_read_errors), T(test_as_user),
		T(test_groups), T(test_directories), T(test_shutdown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
