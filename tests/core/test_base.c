/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c - errors, arenas, cursors, ids, checksums, files, sockets, child processes */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/err.h"
#include "base/id.h"
#include "base/io.h"
#include "base/proc.h"
#include "base/sock.h"
#include "tests/unit/tmpdir.h"

static void test_err(void **state)
{
	struct err e = { 0 };

	assert_int_equal(err_sys(&e, -ENOSPC, "commit layer"), -ENOSPC);
	assert_int_equal(err_wrap(&e, -ENOSPC, "freeze VM %s", "a1"), -ENOSPC);
	assert_string_equal(e.msg, "freeze VM a1: commit layer: No space left on device");
	assert_int_equal(err_tag(&e, -ENOENT, ERR_VM_NOT_FOUND, "no VM"), -ENOENT);
	assert_int_equal(e.tag, ERR_VM_NOT_FOUND);
	assert_string_equal(err_code_name(e.tag), "VM_NOT_FOUND");
	assert_int_equal(err_code_status(e.tag), 404);
	assert_int_equal(err_code_parse("VM_NOT_FOUND"), ERR_VM_NOT_FOUND);
	assert_int_equal(err_code_parse("NO_SUCH_CODE"), ERR_NONE);
	assert_int_equal(err_wrap(NULL, -ENOSPC, "a caller that wants no sentence"), -ENOSPC);
	assert_int_equal(err_set(NULL, -5, "x"), -5);
}

static void test_arena(void **state)
{
	autoarena a = { 0 };
	struct arena_mark m;
	const char *first, *s;
	uint64_t *v = NULL;

	first = arena_printf(&a, "%s %d", "number", 7);
	for (uint64_t i = 0; i < 100000; i++) { /* many chunks; what was there stays */
		v = arena_more(&a, v, i, sizeof(*v));
		assert_non_null(v);
		v[i] = i;
	}
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(v[i], i);
	assert_int_equal((uintptr_t)v % _Alignof(max_align_t), 0);
	m = arena_mark(&a);
	for (unsigned i = 0; i < 1000; i++) {
		s = arena_copy(&a, "a\0b", 3);
		assert_memory_equal(s, "a\0b", 4);
		arena_array(&a, 1000, 3);
	}
	arena_back(&a, m);
	assert_ptr_equal(a.last, m.chunk);
	s = arena_str(&a, "after");
	assert_string_equal(s, "after");
	assert_string_equal(first, "number 7");
	assert_non_null(arena_array(&a, 0, 8));
	assert_int_equal(arena_check(&a, NULL), 0);
	assert_null(arena_array(&a, SIZE_MAX / 2, 4)); /* more than there can be */
	assert_int_equal(arena_check(&a, NULL), -ENOMEM);
}

static void test_cursor(void **state)
{
	autobuf struct buf b = { 0 };
	char s[8];
	uint32_t v;
	struct rd c;

	buf_put_u32(&b, 7);
	buf_put_str(&b, "abc");
	c = rd_of(b.p, b.len);
	assert_int_equal(rd_u32(&c, &v), 0);
	assert_int_equal(v, 7);
	assert_int_equal(rd_str(&c, s, sizeof(s)), 0);
	assert_string_equal(s, "abc");
	assert_int_equal(rd_end(&c), 0);
	c = rd_of(b.p, b.len - 1); /* cut off */
	assert_int_equal(rd_u32(&c, &v), 0);
	assert_int_equal(rd_str(&c, s, sizeof(s)), -EBADMSG);
	assert_int_equal(rd_end(&c), -EBADMSG);
	c = rd_of(b.p, b.len);
	assert_int_equal(rd_u32(&c, &v), 0);
	assert_int_equal(rd_str(&c, s, 3), -EBADMSG); /* too long for the buffer */
	c = rd_of(b.p, b.len);
	assert_int_equal(rd_u32(&c, &v), 0);
	assert_int_equal(rd_end(&c), -EBADMSG); /* left over */
}

static void test_ids(void **state)
{
	char a[ID_SIZE], b[ID_SIZE];

	id_make("sc-", a);
	id_make("sc-", b);
	assert_true(id_valid("sc-", a));
	assert_false(id_valid("", a));
	assert_string_not_equal(a, b);
	assert_false(id_valid("", "ABCDEFGHIJKLMNOPQRST"));
	assert_false(id_valid("", "../../../../../../xx"));
}

static void test_crc(void **state)
{
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283); /* the check value of CRC-32C */
	assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}

static void test_files(void **state)
{
	char path[160], path2[160];
	struct tmpdir t;
	const char *dir = t.path;
	autofree char *text = NULL;
	struct err err = { 0 };
	struct stat st;

	assert_int_equal(tmpdir_make(&t), 0);
	snprintf(path, sizeof(path), "%s/a/b/c", dir);
	assert_int_equal(io_mkdirs(path, 0700, &err), 0);
	snprintf(path, sizeof(path), "%s/a/f", dir);
	assert_int_equal(io_write_file(AT_FDCWD, path, "hello", 5, 0600, &err), 0);
	assert_int_equal(io_read_file(AT_FDCWD, path, 100, &text, &err), 0);
	assert_string_equal(text, "hello");
	free(TAKE_PTR(text));
	assert_int_equal(io_read_file(AT_FDCWD, path, 3, &text, &err), -EFBIG);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	snprintf(path2, sizeof(path2), "%s/a/g", dir);
	assert_int_equal(io_link_or_copy(path, path2, &err), 0);
	assert_int_equal(io_link_or_copy(path, path2, &err), -EEXIST);
	assert_int_equal(io_remove_tree(AT_FDCWD, dir, &err), 0);
	assert_int_equal(access(dir, F_OK), -1);
	assert_int_equal(io_remove_tree(AT_FDCWD, dir, &err), 0); /* twice is fine */
}

static void test_fds_in_messages(void **state)
{
	int sv[2], got[4], p[2];
	size_t n = 0;
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(sock_send_fds(sv[0], "x", 1, p, 2), 1);
	assert_int_equal(sock_recv_fds(sv[1], &c, 1, got, 4, &n), 1);
	assert_int_equal(n, 2);
	assert_int_equal(write(got[1], "y", 1), 1);
	assert_int_equal(read(p[0], &c, 1), 1);
	assert_int_equal(c, 'y');
	close(got[0]);
	close(got[1]);
	assert_int_equal(sock_send_fds(sv[0], "x", 1, p, 2), 1);
	assert_int_equal(sock_recv_fds(sv[1], &c, 1, got, 1, &n), -EMSGSIZE); /* one too many */
	for (int i = 0; i < 2; i++) {
		close(p[i]);
		close(sv[i]);
	}
}

static void test_addresses(void **state)
{
	struct sockaddr_storage sa;
	struct err err = { 0 };
	socklen_t len;
	int a, b;
	char text[32];
	struct sockaddr_in in = { 0 };

	assert_int_equal(sock_parse("127.0.0.1:80", &sa, &len, &err), 0);
	assert_int_equal(sock_parse("[::1]:0", &sa, &len, &err), 0);
	assert_int_equal(sock_parse("127.0.0.1", &sa, &len, &err), -EINVAL);
	assert_int_equal(sock_parse("127.0.0.1:99999", &sa, &len, &err), -EINVAL);
	assert_int_equal(sock_parse("example.org:80", &sa, &len, &err), -EINVAL);
	a = sock_tcp_listen("127.0.0.1:0", &err);
	assert_true(a >= 0);
	len = sizeof(in);
	assert_int_equal(getsockname(a, (struct sockaddr *)&in, &len), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u",
	         (unsigned)(in.sin_port >> 8 | (in.sin_port & 255) << 8));
	b = sock_tcp_listen(text, &err);
	assert_int_equal(b, -EADDRINUSE);
	assert_non_null(strstr(err.msg, "is in use by another program"));
	close(a);
}

static void test_child(void **state)
{
	const char *const echo[] = { "sh", "-c", "cat; echo bad >&2; exit 3", NULL };
	const char *const none[] = { "/nonexistent/program", NULL };
	const char *const slow[] = { "sleep", "60", NULL };
	autofree char *out = NULL;
	autofree char *errout = NULL;
	struct err err = { 0 };

	assert_int_equal(proc_run(&(struct proc_run_opts){ .argv = echo, .stdin_text = "hi" }, &out,
	                          &errout, &err),
	                 3);
	assert_string_equal(out, "hi");
	assert_string_equal(errout, "bad\n");
	assert_int_equal(proc_run(&(struct proc_run_opts){ .argv = none }, NULL, NULL, &err),
	                 -ENOENT);
	assert_int_equal(proc_run(&(struct proc_run_opts){ .argv = slow, .deadline_ms = 100 }, NULL,
	                          NULL, &err),
	                 -ETIMEDOUT);
}

static void test_deadlines(void **state)
{
	char text[CLOCK_RFC3339_LEN];
	int p[2];

	assert_int_equal(deadline_left(0), 0);
	assert_true(deadline_left(deadline_in(10000)) > 5000);
	assert_string_equal(clock_rfc3339(1700000000123, text), "2023-11-14T22:13:20.123Z");
	assert_int_equal(pipe(p), 0);
	assert_int_equal(io_wait(p[0], 1, deadline_in(10)), 0);
	close(p[1]);
	assert_int_equal(io_wait(p[0], 1, deadline_in(1000)), 1);
	close(p[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_err),       cmocka_unit_test(test_cursor),
		cmocka_unit_test(test_ids),       cmocka_unit_test(test_crc),
		cmocka_unit_test(test_files),     cmocka_unit_test(test_fds_in_messages),
		cmocka_unit_test(test_addresses), cmocka_unit_test(test_child),
		cmocka_unit_test(test_deadlines), cmocka_unit_test(test_arena),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
