/* SPDX-License-Identifier: Apache-2.0 */
/* test_api_files.c - files through real HTTP: text, bytes, large ones, directories, refusals */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/io.h"
#include "tests/fault/fault.h"
#include "tests/unit/api_fx.h"

#define autoreply AUTO(http_reply_done)

/* "/v1/vms/VM/files/" and the file of that name in the test's own directory, encoded. */
static void path_of(struct fx *f, char *dst, size_t size, const char *vm, const char *name)
{
	size_t n = (size_t)snprintf(dst, size, "/v1/vms/%s/files/", vm);

	for (const char *p = f->dir.path; *p && n + 4 < size; p++)
		n += (size_t)snprintf(dst + n, size - n, *p == '/' ? "%%2F" : "%c", *p);
	snprintf(dst + n, size - n, "%%2F%s", name);
}

/* The guest's files are this host's. */
static void put(struct fx *f, const char *name, const void *p, size_t n)
{
	char path[256];
	autofd int fd = open(tmpdir_file(&f->dir, name, path, sizeof(path)),
	                     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, p, n), 0);
}

/* Caller frees; NULL: it is not there. */
static unsigned char *get(struct fx *f, const char *name, size_t *ret_n)
{
	char path[256];
	autofd int fd = open(tmpdir_file(&f->dir, name, path, sizeof(path)), O_RDONLY | O_CLOEXEC);
	unsigned char *p;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return NULL;
	*ret_n = (size_t)st.st_size;
	p = malloc(*ret_n + 1);
	assert_non_null(p);
	assert_int_equal(read(fd, p, *ret_n + 1), (ssize_t)*ret_n);
	return p;
}

static void text_is_text_and_bytes_are_base64(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	char id[32], path[256];

	fx_vm(f, id);
	put(f, "a b", "h\xc3\xa9\n\"\\", 6);
	path_of(f, path, sizeof(path), id, "a%20b");
	fx_call(f, "GET", path, NULL, 200, &a);
	assert_string_equal(fx_str(a.json, "content"), "h\xc3\xa9\n\"\\");
	assert_string_equal(fx_str(a.json, "encoding"), "utf8");
	put(f, "bin", "\xff\0\x01", 3);
	snprintf(path, sizeof(path), "/v1/vms/%s/files/proc%%2Fversion", id);
	fx_call(f, "GET", path, NULL, 200, &b); /* relative: from the root */
	http_reply_done(&b);
	path_of(f, path, sizeof(path), id, "bin");
	fx_call(f, "GET", path, NULL, 200, &b);
	assert_string_equal(fx_str(b.json, "content"), "/wAB");
	assert_string_equal(fx_str(b.json, "encoding"), "base64");
	put(f, "nul", "a\0b", 3); /* UTF-8, but no text */
	path_of(f, path, sizeof(path), id, "nul");
	fx_call(f, "GET", path, NULL, 200, &c);
	assert_string_equal(fx_str(c.json, "encoding"), "base64");
	put(f, "empty", "", 0);
	path_of(f, path, sizeof(path), id, "empty");
	fx_call(f, "GET", path, NULL, 200, &d);
	assert_string_equal(fx_str(d.json, "content"), "");
	assert_string_equal(fx_str(d.json, "encoding"), "utf8");
}

static const char *kind_of(const json_t *files, const char *name)
{
	const json_t *file;
	size_t i;

	json_array_foreach(files, i, file) if (strcmp(fx_str(file, "name"), name) ==
	                                       0) return fx_str(file, "kind");
	fail_msg("'%s' is not listed", name);
	return "";
}

static void directories_are_listed(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	const json_t *files;
	char id[32], path[256];

	fx_vm(f, id);
	assert_int_equal(mkdir(tmpdir_file(&f->dir, "dir", path, sizeof(path)), 0700), 0);
	assert_int_equal(mkdir(tmpdir_file(&f->dir, "dir/sub", path, sizeof(path)), 0700), 0);
	assert_int_equal(symlink("sub", tmpdir_file(&f->dir, "dir/link", path, sizeof(path))), 0);
	put(f, "dir/f\xff.txt", "x", 1);
	path_of(f, path, sizeof(path), id, "dir");
	fx_call(f, "GET", path, NULL, 200, &r);
	files = json_object_get(r.json, "files");
	assert_int_equal(json_array_size(files), 3);
	assert_string_equal(kind_of(files, "sub"), "directory");
	assert_string_equal(kind_of(files, "f\xef\xbf\xbd.txt"), "file");
	assert_string_equal(kind_of(files, "link"), "file");
}

static void writes_arrive(void **state)
{
	static const struct {
		const char *body, *want;
		size_t n;
	} cases[] = {
		{ "{\"content\":\"aGVsbG8=\",\"encoding\":\"base64\"}", "hello", 5 },
		{ "{\"encoding\":\"base64\",\"content\":\"\"}", "", 0 },
		{ "{\"content\":\"/"
		  "wAB\",\"encoding\":\"base64\",\"x\":[{\"y\":\"}\"},-1.5e3,null]}",
		  "\xff\0\x01", 3 },
		{ "{\"content\":\"aGVs\\u0062G8=\",\"encoding\":\"base64\"}", "hello", 5 },
		{ "{ \"content\" : \"t\\u00e9\\n\\ud83d\\ude00\\\\\" , \"encoding\" : \"utf8\" } ",
		  "t\xc3\xa9\n\xf0\x9f\x98\x80\\", 9 },
		{ "{\"content\":\"plain\"}", "plain", 5 },
		{ "{\"content\":\"z\\u0000\",\"encoding\":null}", "z\0", 2 },
	};
	struct fx *f = *state;
	char id[32], path[256];

	fx_vm(f, id);
	path_of(f, path, sizeof(path), id, "w");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autoreply struct http_reply r = { 0 };
		autofree unsigned char *p = NULL;
		size_t n = 0;

		fx_call(f, "PUT", path, cases[i].body, 200, &r);
		assert_string_equal(r.body, "{}");
		p = get(f, "w", &n);
		assert_non_null(p);
		assert_int_equal(n, cases[i].n);
		assert_memory_equal(p, cases[i].want, n);
	}
}

static void bad_writes_are_refused_before_anything_is_written(void **state)
{
	static const struct {
		const char *body, *says;
	} cases[] = {
		{ "", "JSON object" },
		{ "[]", "JSON object" },
		{ "{}", "'content' is missing" },
		{ "{\"content\":5}", "'content' must be one string" },
		{ "{\"content\":\"a\",\"content\":\"b\"}", "'content' must be one string" },
		{ "{\"content\":\"a\",\"encoding\":\"latin1\"}", "'encoding' must be" },
		{ "{\"content\":\"a\",\"encoding\":7}", "not valid JSON" },
		{ "{\"content\":\"abc\",\"encoding\":\"base64\"}", "not valid base64" },
		{ "{\"content\":\"a-_b\",\"encoding\":\"base64\"}", "not valid base64" },
		{ "{\"content\":\"aGVs bG8=\",\"encoding\":\"base64\"}", "not valid base64" },
		{ "{\"content\":\"aGVsbG8=aGVs\",\"encoding\":\"base64\"}", "not valid base64" },
		{ "{\"content\":\"\\ud800\"}", "bad escape" },
		{ "{\"content\":\"\\x\"}", "bad escape" },
		{ "{\"content\":\"\\u12\"}", "bad escape" },
		{ "{\"content\":\"abc", "does not end" },
		{ "{\"content\":\"a\nb\"}", "control character" },
		{ "{\"content\":\"a\"", "comma" },
		{ "{\"content\":\"a\"}}", "follows" },
		{ "{\"content\" \"a\"}", "colon" },
		{ "{\"x\":}", "value is missing" },
		{ "{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "deep" },
	};
	struct fx *f = *state;
	char id[32], path[256];
	size_t n;

	fx_vm(f, id);
	fx_suspend(f, id);
	path_of(f, path, sizeof(path), id, "w");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		fx_refused(f, "PUT", path, cases[i].body, 400, "FILES_BAD_REQUEST", cases[i].says);
	assert_null(get(f, "w", &n));
	fx_state(f, id, "suspended"); /* nor was the VM woken for it */
}

static void refusals_of_the_guest(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	char id[32], path[256], file[256];
	size_t n = strlen(f->auth_header);

	fx_vm(f, id);
	path_of(f, path, sizeof(path), id, "none");
	fx_call(f, "GET", path, NULL, 404, &r);
	assert_string_equal(fx_str(r.json, "code"), "FILE_NOT_FOUND");
	assert_string_equal(fx_str(r.json, "path"),
	                    tmpdir_file(&f->dir, "none", file, sizeof(file)));
	snprintf(path, sizeof(path), "/v1/vms/%s/files/%%2Fdev%%2Fzero", id);
	fx_refused(f, "GET", path, NULL, 400, "FILES_BAD_REQUEST", "not a file");
	assert_int_equal(mkdir(tmpdir_file(&f->dir, "dir", file, sizeof(file)), 0700), 0);
	path_of(f, path, sizeof(path), id, "dir");
	fx_refused(f, "PUT", path, "{\"content\":\"x\"}", 400, "FILES_BAD_REQUEST", "directory");
	path_of(f, path, sizeof(path), id, "a%00b");
	fx_refused(f, "GET", path, NULL, 400, "INVALID_REQUEST", "encoded");
	if (geteuid() != 0)
		return; /* a guest that is not root has one user */
	snprintf(f->auth_header + n, sizeof(f->auth_header) - n,
	         "X-Freestyle-Vm-Linux-User-Id: nobody\r\n");
	put(f, "secret", "x", 1);
	path_of(f, path, sizeof(path), id, "secret");
	fx_refused(f, "GET", path, NULL, 400, "FILES_BAD_REQUEST", "Permission denied");
}

/* A file that says it is empty and has a number for each page of a process. */
static void a_guest_that_never_stops_sending_is_stopped(void **state)
{
	struct fx *f = *state;
	char id[32], path[256];

	fx_vm(f, id);
	snprintf(path, sizeof(path), "/v1/vms/%s/files/%%2Fproc%%2Fself%%2Fpagemap", id);
	fx_refused(f, "GET", path, NULL, 400, "FILES_BAD_REQUEST", "larger than 256 MiB");
}

static struct fault_agent *between;
static unsigned lose; /* so many requests from now on find a channel that ends */

static int on_agent(void *ctx, int fd_consume)
{
	int fd = -1;

	between = fault_agent_stop(between);
	if (fault_agent_start(fd_consume, &fd, &between, NULL) < 0)
		return -EIO;
	return fd;
}

static int lose_requests(enum fault_kind kind, const char *what, void *arg)
{
	if (kind != FAULT_AGENT || strcmp(what, "host OPEN") != 0 || !lose)
		return 0;
	lose--;
	return FAULT_HANG_UP;
}

static void reads_survive_a_suspend_and_writes_say_so(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	char id[32], path[256];

	f->rig->fake->on_agent = on_agent;
	fx_vm(f, id);
	put(f, "f", "abc", 3);
	path_of(f, path, sizeof(path), id, "f");
	fault_on_call(lose_requests, NULL);
	lose = 1;
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_string_equal(fx_str(r.json, "content"), "abc");
	lose = 2; /* but only once */
	fx_refused(f, "GET", path, NULL, 400, "VM_NOT_RUNNING", "suspended");
	lose = 1;
	fx_refused(f, "PUT", path, "{\"content\":\"x\"}", 400, "VM_NOT_RUNNING", "suspended");
	assert_int_equal(lose, 0);
	fault_on_call(NULL, NULL);
	f->rig->fake->on_agent = NULL;
	between = fault_agent_stop(between);
}

/* Sizes around the groups of three and the border between memory and file. */
static void large_files_go_both_ways(void **state)
{
	static const size_t sizes[] = { (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
		                        5000000,       5000001, 12000002 };
	struct fx *f = *state;
	char id[32], path[256], copy[256];

	fx_vm(f, id);
	path_of(f, path, sizeof(path), id, "big");
	path_of(f, copy, sizeof(copy), id, "copy");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		autoreply struct http_reply r = { 0 }, w = { 0 };
		autofree unsigned char *want = malloc(sizes[i]), *got = NULL;
		size_t m = 0;

		assert_non_null(want);
		for (size_t k = 0; k < sizes[i]; k++)
			want[k] = (unsigned char)(k * 31);
		put(f, "big", want, sizes[i]);
		fx_call(f, "GET", path, NULL, 200, &r);
		assert_string_equal(fx_str(r.json, "encoding"), "base64");
		/* What was read is what is written back. */
		assert_int_equal(
		        http_call(f->port, "PUT", copy, f->auth_header, r.body, r.body_n, &w), 0);
		assert_int_equal(w.status, 200);
		got = get(f, "copy", &m);
		assert_int_equal(m, sizes[i]);
		assert_memory_equal(got, want, m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, fx_setup, fx_teardown)
		T(text_is_text_and_bytes_are_base64),
		T(directories_are_listed),
		T(writes_arrive),
		T(bad_writes_are_refused_before_anything_is_written),
		T(refusals_of_the_guest),
		T(a_guest_that_never_stops_sending_is_stopped),
		T(reads_survive_a_suspend_and_writes_say_so),
		T(large_files_go_both_ways),
	};

	return FX_RUN(tests);
}
