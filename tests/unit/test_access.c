/* SPDX-License-Identifier: Apache-2.0 */
/* test_access.c - the access log in memory: whose lines it shows, its bounds, its file */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "events/access_internal.h"
#include "events/logs_internal.h"
#include "tests/unit/tmpdir.h"

#define NEVER INT64_MAX

static struct access_line line_of(const char *host, const char *vm, const char *path)
{
	struct access_line l = {
		.at_ms = clock_wall_ms(), .status = 200, .proto = 11, .in = 1, .out = 2, .ms = 3
	};

	snprintf(l.host, sizeof(l.host), "%s", host);
	snprintf(l.vm, sizeof(l.vm), "%s", vm);
	snprintf(l.method, sizeof(l.method), "GET");
	snprintf(l.client, sizeof(l.client), "192.0.2.1");
	access_path(path, l.path);
	return l;
}

static void add(struct access *a, const char *account, const char *name, const char *host,
                const char *vm, const char *path)
{
	struct access_line l = line_of(host, vm, path);

	access_add(a, account, name, &l);
}

/* How many lines; the paths in text, newest first. */
static size_t ask(struct access *a, const char *account, const char *domain, const char *vm,
                  size_t limit, char *text, size_t size)
{
	AUTO(log_page_done) struct log_page p = { 0 };
	struct log_query q = { .account = account,
		               .vm = vm,
		               .domain = domain,
		               .search = "",
		               .to_ms = NEVER,
		               .before = LOG_PLACE_END,
		               .limit = limit };
	size_t n = 0;

	assert_int_equal(access_query(a, &q, &p, NULL), 0);
	if (text)
		text[0] = '\0';
	for (size_t i = 0; text && i < p.n; i++)
		n += (size_t)snprintf(text + n, n < size ? size - n : 0, "%s ",
		                      p.v[i].access->path);
	for (size_t i = 1; i < p.n; i++)
		assert_true(p.v[i].access->seq < p.v[i - 1].access->seq &&
		            p.v[i].place.at_ms <= p.v[i - 1].place.at_ms);
	return p.n;
}

static void lines_belong_to_the_account(void **state)
{
	struct access *a = access_new();
	char text[256];

	add(a, "ann", "app.test", "app.test", "vm1", "/1");
	add(a, "ann", "*.ann.test", "x.ann.test", "vm1", "/2");
	add(a, "ann", "*.ann.test", "y.ann.test", "vm2", "/3");
	add(a, "bob", "app.test", "app.test", "vm3", "/4"); /* the name was ann's before */
	assert_int_equal(ask(a, "ann", "", "", 10, text, sizeof(text)), 3);
	assert_string_equal(text, "/3 /2 /1 ");
	assert_int_equal(ask(a, "ann", "app.test", "", 10, text, sizeof(text)), 1);
	assert_string_equal(text, "/1 ");
	assert_int_equal(ask(a, "bob", "app.test", "", 10, text, sizeof(text)), 1);
	assert_string_equal(text, "/4 ");
	assert_int_equal(ask(a, "ann", "", "vm1", 10, text, sizeof(text)), 2);
	assert_int_equal(ask(a, "ann", "y.ann.test", "", 10, text, sizeof(text)), 1);
	assert_int_equal(ask(a, "ann", "*.ann.test", "", 10, text, sizeof(text)), 2);
	assert_int_equal(ask(a, "ann", "z.ann.test", "", 10, text, sizeof(text)), 0);
	assert_int_equal(ask(a, "eve", "app.test", "vm1", 10, text, sizeof(text)), 0);
	assert_int_equal(ask(a, "ann", "app.test", "vm2", 10, text, sizeof(text)), 0);
	access_forget(a, "ann");
	assert_int_equal(ask(a, "ann", "", "", 10, text, sizeof(text)), 0);
	assert_int_equal(ask(a, "bob", "", "", 10, text, sizeof(text)), 1);
	access_free(a);
}

static void times_never_go_back(void **state)
{
	struct access *a = access_new();
	struct access_line l = line_of("a.test", "vm", "/");
	int64_t now = clock_wall_ms();

	access_add(a, "ann", "a.test", &l);
	l.at_ms = now - 3600000;
	access_add(a, "ann", "a.test", &l);
	l.at_ms = now + 3600000; /* whatever it is told */
	access_add(a, "ann", "a.test", &l);
	mutex_lock(&a->lock);
	assert_true(a->last_ms >= now && a->last_ms <= clock_wall_ms());
	mutex_unlock(&a->lock);
	assert_int_equal(ask(a, "ann", "", "", 10, NULL, 0), 3); /* checks their order */
	access_free(a);
}

static void paths_are_harmless(void **state)
{
	char path[ACCESS_PATH_SIZE], text[ACCESS_TEXT_SIZE], longest[4000];
	struct access_line l;

	access_path("/a b\"\\\x1b[31m\xff\n", path);
	assert_string_equal(path, "/a%20b%22%5C%1B[31m%FF%0A");
	memset(longest, '\x01', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	access_path(longest, path);
	assert_int_equal(strlen(path) % 3, 0);
	assert_true(strlen(path) < ACCESS_PATH_SIZE);
	l = line_of("a.test", "vm", "/x");
	l.woke = true;
	l.status = 0;
	snprintf(l.error, sizeof(l.error), "CLIENT_LEFT");
	access_text(&l, text);
	assert_string_equal(text, "192.0.2.1 GET a.test/x HTTP/1.1 -, 1 B in, 2 B out, 3 ms, woke "
	                          "the VM, CLIENT_LEFT");
}

static void bounded(struct access *a)
{
	size_t all = 0;

	mutex_lock(&a->lock);
	for (const struct owner *o = a->owners; o; o = o->next) {
		size_t own = 0;

		for (const struct ring *r = o->first; r; r = r->next) {
			assert_true(r->cap <= ACCESS_RING_MAX && r->len <= r->cap);
			own += sizeof(*r) + r->cap;
		}
		assert_int_equal(own, o->bytes);
		assert_true(own <= ACCESS_ACCOUNT_MAX);
		all += own;
	}
	assert_int_equal(all, a->bytes);
	assert_true(all <= ACCESS_ALL_MAX);
	mutex_unlock(&a->lock);
}

static void it_is_bounded(void **state)
{
	struct access *a = access_new();
	char name[64], account[16], path[128], text[256];
	size_t n;

	add(a, "quiet", "q.test", "q.test", "vm", "/kept");
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	for (int i = 0; i < 20000; i++) /* one name */
		add(a, "ann", "a.test", "a.test", "vm", path);
	bounded(a);
	n = ask(a, "ann", "a.test", "", 100000, NULL, 0);
	assert_in_range(n, ACCESS_RING_MAX / 2 / 200, ACCESS_RING_MAX / 100);
	for (int i = 0; i < 30000; i++) { /* many names */
		snprintf(name, sizeof(name), "n%d.test", i);
		add(a, "ann", name, name, "vm", path);
	}
	bounded(a);
	assert_int_equal(ask(a, "ann", "a.test", "", 10, NULL, 0), 0); /* used longest ago */
	assert_int_equal(ask(a, "ann", "n29999.test", "", 10, NULL, 0), 1);
	for (int i = 0; i < 60000; i++) { /* many accounts */
		snprintf(account, sizeof(account), "account%d", i % 40);
		snprintf(name, sizeof(name), "n%d.test", i);
		add(a, account, name, name, "vm", path);
	}
	bounded(a);
	assert_int_equal(ask(a, "quiet", "", "", 10, text, sizeof(text)), 1);
	assert_string_equal(text, "/kept ");
	access_free(a);
}

static void pages_of_it(void **state)
{
	struct access *a = access_new();
	char path[16];
	struct log_query q = { .account = "ann",
		               .vm = "",
		               .domain = "",
		               .search = "",
		               .to_ms = NEVER,
		               .before = LOG_PLACE_END,
		               .limit = 7 };
	int seen = 100;

	for (int i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "/%d", i);
		add(a, "ann", i % 3 ? "a.test" : "b.test", "c.test", i % 2 ? "vm1" : "vm2", path);
	}
	for (;;) {
		AUTO(log_page_done) struct log_page p = { 0 };

		assert_int_equal(access_query(a, &q, &p, NULL), 0);
		for (size_t i = 0; i < p.n && i < q.limit; i++) {
			snprintf(path, sizeof(path), "/%d", --seen);
			assert_string_equal(p.v[i].access->path, path);
			q.before = p.v[i].place;
		}
		if (p.n <= q.limit)
			break;
	}
	assert_int_equal(seen, 0);
	access_free(a);
}

static void it_outlives_the_server(void **state)
{
	struct access *a = access_new(), *b = access_new();
	struct tmpdir dir;
	char path[256], text[256];
	struct err err = { 0 };
	autofree char *bytes = NULL;

	assert_int_equal(tmpdir_make(&dir), 0);
	tmpdir_file(&dir, "access", path, sizeof(path));
	assert_int_equal(access_load(b, path, &err), 0); /* there is none yet */
	add(a, "ann", "a.test", "a.test", "vm", "/1");
	add(a, "bob", "*.b.test", "x.b.test", "vm", "/2");
	assert_int_equal(access_save(a, path, &err), 0);
	assert_int_equal(access_load(b, path, &err), 0);
	add(b, "ann", "a.test", "a.test", "vm", "/3");
	assert_int_equal(ask(b, "ann", "", "", 10, text, sizeof(text)), 2);
	assert_string_equal(text, "/3 /1 ");
	assert_int_equal(ask(b, "bob", "x.b.test", "", 10, text, sizeof(text)), 1);
	access_free(b);
	/* Cut anywhere, or with a byte changed: what can be read of it, and nothing else. */
	autofd int fd = open(path, O_RDWR | O_CLOEXEC);
	off_t n = lseek(fd, 0, SEEK_END);
	for (off_t i = n; i-- > 0;) {
		uint8_t was, bad;

		assert_int_equal(io_pread_all(fd, &was, 1, i), 0);
		bad = (uint8_t)(was ^ 0x81);
		assert_int_equal(io_pwrite_all(fd, &bad, 1, i), 0);
		b = access_new();
		(void)access_load(b, path, &err);
		(void)ask(b, "ann", "", "", 10, NULL, 0);
		access_free(b);
		assert_int_equal(io_pwrite_all(fd, &was, 1, i), 0);
	}
	for (off_t i = n; i-- > 0;) {
		assert_int_equal(ftruncate(fd, i), 0);
		b = access_new();
		(void)access_load(b, path, &err);
		assert_true(ask(b, "ann", "", "", 10, NULL, 0) <= 1);
		access_free(b);
	}
	access_free(a);
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_belong_to_the_account),
		cmocka_unit_test(times_never_go_back),
		cmocka_unit_test(paths_are_harmless),
		cmocka_unit_test(it_is_bounded),
		cmocka_unit_test(pages_of_it),
		cmocka_unit_test(it_outlives_the_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
