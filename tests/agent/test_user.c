/* SPDX-License-Identifier: Apache-2.0 */
/* test_user.c - which files a user of the guest can find; as root */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/auto.h"
#include "base/err.h"
#include "base/io.h"

enum { ADA = 4001, BOB = 4002, TEAM = 4100 };

static const char *make(const char *dir, mode_t dir_mode, uid_t owner)
{
	static char path[256];
	autofd int fd = -1;

	assert_int_equal(mkdir(dir, 0700), 0);
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(fchown(fd, owner, owner), 0);
	assert_int_equal(chown(dir, ADA, TEAM), 0);
	assert_int_equal(chmod(dir, dir_mode), 0);
	return path;
}

static void only_what_the_user_can_find(void **state)
{
	static const struct {
		mode_t dir;
		uid_t file;
		bool ada, bob, bob_in_team;
	} t[] = {
		{ 0755, ADA, true, true, true },   /* everybody's */
		{ 0700, ADA, true, false, false }, /* her home */
		{ 0700, BOB, true, false, false }, /* his, but where he cannot go */
		{ 0750, ADA, true, false, true },  /* the team's */
		{ 0711, ADA, true, false, false }, /* who knows the name may pass, */
		{ 0711, BOB, true, true, true },   /* and it is his own */
	};
	static struct user ada = { .uid = ADA, .gid = ADA, .groups = { ADA }, .n_groups = 1 };
	static struct user bob = { .uid = BOB, .gid = BOB, .groups = { BOB }, .n_groups = 1 };
	static struct user mate = {
		.uid = BOB, .gid = BOB, .groups = { BOB, TEAM }, .n_groups = 2
	};
	char top[] = "/tmp/test_user.XXXXXX", dir[64];
	gid_t before[64], after[64];
	int n = getgroups(64, before);
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(top));
	assert_int_equal(chmod(top, 0755), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		const char *path;

		snprintf(dir, sizeof(dir), "%s/%zu", top, i);
		path = make(dir, t[i].dir, t[i].file);
		if (user_finds(&ada, path, &st) != t[i].ada ||
		    user_finds(&bob, path, &st) != t[i].bob ||
		    user_finds(&mate, path, &st) != t[i].bob_in_team)
			fail_msg("%03o, of %u", (unsigned)t[i].dir, (unsigned)t[i].file);
		/* We are root as before. */
		assert_int_equal(lstat(path, &st), 0);
	}
	assert_false(user_finds(&ada, "relative", &st));
	assert_false(user_finds(&ada, "/nowhere/at/all", &st));
	assert_true(user_finds(&ada, "/etc", &st));
	assert_int_equal(getgroups(64, after), n);
	assert_memory_equal(before, after, (size_t)n * sizeof(*before));
	assert_int_equal(io_remove_tree(AT_FDCWD, top, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(only_what_the_user_can_find) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
