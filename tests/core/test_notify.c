/* SPDX-License-Identifier: Apache-2.0 */
/* test_notify.c - what a service manager receives, on a socket that stands in for its own */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/notify.h"
#include "tests/unit/tmpdir.h"

/* Binds `name` as notify_send() will find it; '@' begins an abstract name. */
static int manager(const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	size_t n = strlen(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	memcpy(at.sun_path, name, n);
	if (name[0] == '@')
		at.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&at,
	                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
	                 0);
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	return fd;
}

static void hears(int fd, const char *want)
{
	char got[128] = { 0 };

	assert_int_equal(recv(fd, got, sizeof(got) - 1, MSG_DONTWAIT), (ssize_t)strlen(want));
	assert_string_equal(got, want);
}

static void test_a_path(void **state)
{
	struct tmpdir dir;
	char path[160];
	int fd;

	assert_int_equal(tmpdir_make(&dir), 0);
	tmpdir_file(&dir, "notify", path, sizeof(path));
	fd = manager(path);
	assert_int_equal(notify_send("READY=1\nSTATUS=serving"), 1);
	hears(fd, "READY=1\nSTATUS=serving");
	close(fd);
	assert_int_equal(notify_send("STOPPING=1"), -ECONNREFUSED); /* the manager is gone */
	unlink(path);
	assert_int_equal(notify_send("STOPPING=1"), -ENOENT);
	tmpdir_remove(&dir);
}

static void test_an_abstract_name(void **state)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "@pando-test-notify-%d", (int)getpid());
	fd = manager(name);
	assert_int_equal(notify_send("STOPPING=1"), 1);
	hears(fd, "STOPPING=1");
	close(fd);
}

static void test_nobody_asked(void **state)
{
	char longer[256];

	unsetenv("NOTIFY_SOCKET");
	assert_int_equal(notify_send("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_int_equal(notify_send("READY=1"), 0);
	setenv("NOTIFY_SOCKET", "relative", 1);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
	setenv("NOTIFY_SOCKET", "/", 1);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
	memset(longer, 'a', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	setenv("NOTIFY_SOCKET", longer, 1);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_path),
		cmocka_unit_test(test_an_abstract_name),
		cmocka_unit_test(test_nobody_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
