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
#include "tests/unit/api_fx.h"

#define autoreply AUTO(http_reply_done)

static void path_of(char *dst, size_t size, const char *vm, const char *encoded)
{
	snprintf(dst, size, "/v1/vms/%s/files/%s", vm, encoded);
}

static void text_is_text_and_bytes_are_base64(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
	char id[32], path[256];

	fx_vm(f, id);
	fake_file(f->vmm, "/tmp/a b", "h\xc3\xa9\n\"\\", 6);
	path_of(path, sizeof(path), id, "%2Ftmp%2Fa%20b");
	fx_call(f, "GET", path, NULL, 200, &a);
	assert_string_equal(fx_str(a.json, "content"), "h\xc3\xa9\n\"\\");
	assert_string_equal(fx_str(a.json, "encoding"), "utf8");
	fake_file(f->vmm, "/bin", "\xff\0\x01", 3);
	path_of(path, sizeof(path), id, "bin"); /* relative: from the root */
	fx_call(f, "GET", path, NULL, 200, &b);
	assert_string_equal(fx_str(b.json, "content"), "/wAB");
	assert_string_equal(fx_str(b.json, "encoding"), "base64");
	fake_file(f->vmm, "/nul", "a\0b", 3); /* UTF-8, but no text */
	path_of(path, sizeof(path), id, "%2fnul");
	fx_call(f, "GET", path, NULL, 200, &c);
	assert_string_equal(fx_str(c.json, "encoding"), "base64");
	fake_file(f->vmm, "/empty", "", 0);
	path_of(path, sizeof(path), id, "%2Fempty");
	fx_call(f, "GET", path, NULL, 200, &d);
	assert_string_equal(fx_str(d.json, "content"), "");
	assert_string_equal(fx_str(d.json, "encoding"), "utf8");
}

static void directories_are_listed(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	const json_t *files;
	char id[32], path[256];

	fx_vm(f, id);
	path_of(path, sizeof(path), id, "%2Fdir");
	fx_call(f, "GET", path, NULL, 200, &r);
	files = json_object_get(r.json, "files");
	assert_int_equal(json_array_size(files), 3);
	assert_string_equal(fx_str(json_array_get(files, 0), "kind"), "directory");
	assert_string_equal(fx_str(json_array_get(files, 1), "name"), "f\xef\xbf\xbd.txt");
	assert_string_equal(fx_str(json_array_get(files, 1), "kind"), "file");
	assert_string_equal(fx_str(json_array_get(files, 2), "kind"), "file");
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
	path_of(path, sizeof(path), id, "%2Fw");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autoreply struct http_reply r = { 0 };
		const unsigned char *p;
		size_t n = 0;

		fx_call(f, "PUT", path, cases[i].body, 200, &r);
		assert_string_equal(r.body, "{}");
		p = fake_file_data(f->vmm, "/w", &n);
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
	path_of(path, sizeof(path), id, "%2Fw");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		fx_refused(f, "PUT", path, cases[i].body, 400, "FILES_BAD_REQUEST", cases[i].says);
	assert_null(fake_file_data(f->vmm, "/w", &n));
	assert_int_equal(fake_wakes(f->vmm), 0); /* nor was the VM woken for it */
}

static void refusals_of_the_guest(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	char id[32], path[256];

	fx_vm(f, id);
	path_of(path, sizeof(path), id, "%2Fnone");
	fx_call(f, "GET", path, NULL, 404, &r);
	assert_string_equal(fx_str(r.json, "code"), "FILE_NOT_FOUND");
	assert_string_equal(fx_str(r.json, "path"), "/none");
	path_of(path, sizeof(path), id, "%2Fsecret");
	fx_refused(f, "GET", path, NULL, 400, "FILES_BAD_REQUEST", "Permission denied");
	path_of(path, sizeof(path), id, "%2Fdev%2Fzero");
	fx_refused(f, "GET", path, NULL, 400, "FILES_BAD_REQUEST", "not a file");
	path_of(path, sizeof(path), id, "%2Fdir");
	fx_refused(f, "PUT", path, "{\"content\":\"x\"}", 400, "FILES_BAD_REQUEST", "directory");
	path_of(path, sizeof(path), id, "a%00b");
	fx_refused(f, "GET", path, NULL, 400, "INVALID_REQUEST", "encoded");
}

static void a_guest_that_never_stops_sending_is_stopped(void **state)
{
	struct fx *f = *state;
	char id[32], path[256];

	fx_vm(f, id);
	path_of(path, sizeof(path), id, "%2Fendless");
	fx_refused(f, "GET", path, NULL, 400, "FILES_BAD_REQUEST", "larger than 256 MiB");
}

static void reads_survive_a_suspend_and_writes_say_so(void **state)
{
	struct fx *f = *state;
	autoreply struct http_reply r = { 0 };
	char id[32], path[256];

	fx_vm(f, id);
	fake_file(f->vmm, "/f", "abc", 3);
	path_of(path, sizeof(path), id, "%2Ff");
	fake_reset_next(f->vmm, 1);
	fx_call(f, "GET", path, NULL, 200, &r);
	assert_string_equal(fx_str(r.json, "content"), "abc");
	assert_int_equal(fake_wakes(f->vmm), 2);
	fake_reset_next(f->vmm, 2); /* but only once */
	fx_refused(f, "GET", path, NULL, 400, "VM_NOT_RUNNING", "suspended");
	assert_int_equal(fake_wakes(f->vmm), 4);
	fake_reset_next(f->vmm, 1);
	fx_refused(f, "PUT", path, "{\"content\":\"x\"}", 400, "VM_NOT_RUNNING", "suspended");
	assert_int_equal(fake_wakes(f->vmm), 5);
}

/* Sizes around the groups of three and the border between memory and file. */
static void large_files_go_both_ways(void **state)
{
	static const size_t sizes[] = { (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
		                        5000000,       5000001, 12000002 };
	struct fx *f = *state;
	char id[32], path[256], copy[256];

	fx_vm(f, id);
	path_of(path, sizeof(path), id, "%2Fbig");
	path_of(copy, sizeof(copy), id, "%2Fcopy");
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		autoreply struct http_reply r = { 0 }, w = { 0 };
		const unsigned char *want, *got;
		size_t n = 0, m = 0;

		fake_file(f->vmm, "/big", NULL, sizes[i]);
		want = fake_file_data(f->vmm, "/big", &n);
		fx_call(f, "GET", path, NULL, 200, &r);
		assert_string_equal(fx_str(r.json, "encoding"), "base64");
		/* What was read is what is written back. */
		assert_int_equal(
		        http_call(f->port, "PUT", copy, f->auth_header, r.body, r.body_n, &w), 0);
		assert_int_equal(w.status, 200);
		got = fake_file_data(f->vmm, "/copy", &m);
		assert_int_equal(m, n);
		assert_memory_equal(got, want, n);
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

	return cmocka_run_group_tests(tests, NULL, NULL);
}
