/* SPDX-License-Identifier: Apache-2.0 */
/* test_diff.c - merging two walks: scripted guests, every kind of difference, pages, limits */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/unit/check.h"
#include "vm/diff.h"
#include "wire/agent.h"

#define OLD INT64_C(1000000000)      /* ns: long before the ancestor */
#define ANCESTOR_MS INT64_C(1000000) /* 1000 s */
#define NEW (ANCESTOR_MS * 1000000 + 5)

struct entry {
	const char *path;
	char kind; /* f d l o */
	uint64_t size;
	uint32_t mode;
	int64_t ctime;
	const char *what; /* contents or target */
};

struct guest {
	struct entry *e;
	size_t n;
	unsigned asked; /* files hashed */
	bool broken;
};

struct guest_walk {
	struct guest *g;
	size_t at;
	char *after;
};

int guest_path_cmp(const char *a, const char *b)
{
	return agent_path_cmp(a, b);
}

int guest_walk_open(struct guest *g, const struct guest_walk_req *req, uint64_t deadline_ms,
                    struct guest_walk **ret, struct err *e)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		abort();
	(*ret)->g = g;
	(*ret)->after = strdup(req->after ? req->after : "");
	return 0;
}

int guest_walk_next(struct guest_walk *w, struct guest_walk_rec *ret, struct err *e)
{
	const struct entry *x;

	while (w->at < w->g->n && agent_path_cmp(w->g->e[w->at].path, w->after) <= 0)
		w->at++;
	if (w->g->broken && w->at == 2)
		return err_set(e, -ECONNRESET, "gone");
	if (w->at == w->g->n)
		return 0;
	x = &w->g->e[w->at++];
	*ret = (struct guest_walk_rec){ .path = x->path,
		                        .link = x->kind == 'l' ? x->what : "",
		                        .size = x->size,
		                        .mode = x->mode | (x->kind == 'd'   ? 0040000
		                                           : x->kind == 'l' ? 0120000
		                                           : x->kind == 'o' ? 0010000
		                                                            : 0100000),
		                        .ctime_ns = x->ctime,
		                        .mtime_ns = OLD,
		                        .ino = 7,
		                        .kind = x->kind == 'd'   ? GUEST_DIR
		                                : x->kind == 'l' ? GUEST_SYMLINK
		                                : x->kind == 'o' ? GUEST_OTHER
		                                                 : GUEST_FILE };
	return 1;
}

void guest_walk_close(struct guest_walk *w)
{
	if (w)
		free(w->after);
	free(w);
}

int guest_hash_files(struct guest *g, const char *const *paths, size_t n, struct guest_hash *ret,
                     uint64_t deadline_ms, struct err *e)
{
	assert_in_range(n, 1, GUEST_HASH_MAX);
	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct guest_hash){ .ok = false };
		for (size_t k = 0; k < g->n; k++)
			if (strcmp(g->e[k].path, paths[i]) == 0 && g->e[k].what) {
				snprintf((char *)ret[i].bytes, 16, "%s", g->e[k].what);
				ret[i].ok = true;
			}
		g->asked++;
	}
	return 0;
}

static struct diff_in input(struct guest *a, struct guest *b, size_t limit, const char *after)
{
	return (struct diff_in){ .g = { a, b },
		                 .walk = { .root = "/", .after = after },
		                 .ancestor_ms = ANCESTOR_MS,
		                 .limit = limit,
		                 .soft_ms = deadline_in(60000),
		                 .deadline_ms = deadline_in(60000) };
}

#define GUEST(name, ...)                       \
	struct entry name##_e[] = __VA_ARGS__; \
	struct guest name = { .e = name##_e, .n = ARRAY_SIZE(name##_e) }

static void every_kind(void **state)
{
	GUEST(a, {
	                 { "/a", 'd', 0, 0755, NEW, NULL },
	                 { "/a/only-here", 'f', 5, 0644, NEW, "x" },
	                 { "/a-b", 'f', 1, 0644, OLD, "same" },
	                 { "/ctime", 'f', 3, 0644, NEW, "same" },
	                 { "/dir-mode", 'd', 0, 0700, NEW, NULL },
	                 { "/fresh", 'f', 3, 0644, NEW, "one" },
	                 { "/link", 'l', 0, 0777, NEW, "to-a" },
	                 { "/mode", 'f', 3, 0600, NEW, "same" },
	                 { "/old", 'f', 3, 0644, OLD, "untouched" },
	                 { "/size", 'f', 3, 0644, NEW, "same" },
	                 { "/type", 'd', 0, 0755, NEW, NULL },
	                 { "/unreadable", 'f', 3, 0644, NEW, NULL },
	         });
	GUEST(b, {
	                 { "/a", 'd', 0, 0755, OLD, NULL },
	                 { "/a-b", 'f', 1, 0644, OLD, "same" },
	                 { "/b-only-there", 'f', 9, 0644, NEW, "x" },
	                 { "/ctime", 'f', 3, 0644, OLD, "same" },
	                 { "/dir-mode", 'd', 0, 0755, OLD, NULL },
	                 { "/fresh", 'f', 3, 0644, NEW, "two" },
	                 { "/link", 'l', 0, 0777, OLD, "to-b" },
	                 { "/mode", 'f', 3, 0644, OLD, "same" },
	                 { "/old", 'f', 3, 0644, OLD, "not even asked for" },
	                 { "/size", 'f', 4, 0644, OLD, "same" },
	                 { "/type", 'f', 0, 0755, NEW, NULL },
	                 { "/unreadable", 'f', 3, 0644, NEW, "there" },
	         });
	static const struct {
		const char *path;
		enum change_kind k;
	} want[] = {
		{ "/a/only-here", CHANGE_ADDED },   { "/b-only-there", CHANGE_REMOVED },
		{ "/dir-mode", CHANGE_MODIFIED },   { "/fresh", CHANGE_MODIFIED },
		{ "/link", CHANGE_MODIFIED },       { "/mode", CHANGE_MODIFIED },
		{ "/size", CHANGE_MODIFIED },       { "/type", CHANGE_TYPE },
		{ "/unreadable", CHANGE_MODIFIED },
	};
	struct diff_in in = input(&a, &b, 100, NULL);
	AUTO(vm_diff_done) struct vm_diff d = { 0 };

	OK(diff_merge(&in, &d, &err));
	assert_null(d.cursor);
	for (size_t i = 0; i < d.n && i < ARRAY_SIZE(want); i++) {
		assert_string_equal(d.v[i].path, want[i].path);
		assert_int_equal(d.v[i].change, want[i].k);
	}
	assert_int_equal(d.n, ARRAY_SIZE(want));
	assert_int_equal(d.v[0].size, 5);
	assert_false(d.v[0].there);
	assert_int_equal(d.v[1].other_size, 9);
	assert_int_equal(a.asked, 3); /* /ctime, /fresh, /unreadable */
}

/* Many doubtful files among equal and new ones, in pages of any size: the same as in one piece. */
static void pages(void **state)
{
	enum { N = 600 };
	static struct entry ea[N], eb[N];
	static char names[N][16];
	struct guest a = { .e = ea }, b = { .e = eb };
	static const size_t limits[] = { 1, 7, 100, 1000 };
	size_t want = 0;

	for (int i = 0; i < N; i++) {
		struct entry x = { names[i], 'f', 3, 0644, NEW, "one" }, y = x;

		snprintf(names[i], sizeof(names[i]), "/f%04d", i);
		y.what = i % 3 ? "one" : "two"; /* a third is different */
		ea[a.n++] = x;
		if (i % 50)
			eb[b.n++] = y;
		want += i % 50 == 0 || i % 3 == 0;
	}
	for (size_t k = 0; k < ARRAY_SIZE(limits); k++) {
		char after[32] = "";
		size_t got = 0, rounds = 0;
		bool more = true;

		for (; more && rounds < 1000; rounds++) {
			struct diff_in in = input(&a, &b, limits[k], *after ? after : NULL);
			AUTO(vm_diff_done) struct vm_diff d = { 0 };

			OK(diff_merge(&in, &d, &err));
			assert_true(d.n <= limits[k]);
			for (size_t i = 0; i < d.n; i++) {
				assert_true(agent_path_cmp(d.v[i].path, after) > 0);
				snprintf(after, sizeof(after), "%s", d.v[i].path);
			}
			got += d.n;
			more = d.cursor != NULL;
			if (more) {
				assert_true(agent_path_cmp(d.cursor, after) >= 0);
				snprintf(after, sizeof(after), "%s", d.cursor);
			}
		}
		assert_int_equal(got, want);
	}
}

/* No time left: what there is, and where to continue; always a step further. */
static void late(void **state)
{
	GUEST(a, { { "/a", 'f', 1, 0644, NEW, "1" }, { "/b", 'f', 1, 0644, NEW, "1" } });
	GUEST(b, { { "/a", 'f', 2, 0644, NEW, "2" }, { "/b", 'f', 2, 0644, NEW, "2" } });
	struct diff_in in = input(&a, &b, 100, NULL);
	AUTO(vm_diff_done) struct vm_diff d = { 0 };

	in.soft_ms = 0;
	OK(diff_merge(&in, &d, &err));
	assert_int_equal(d.n, 1);
	assert_string_equal(d.cursor, "/a");
}

static void a_guest_goes_away(void **state)
{
	GUEST(a, { { "/a", 'f', 1, 0644, NEW, "1" },
	           { "/b", 'f', 1, 0644, NEW, "1" },
	           { "/c", 'f', 1, 0644, NEW, "1" } });
	GUEST(b, { { "/a", 'f', 2, 0644, NEW, "2" } });
	struct diff_in in = input(&a, &b, 100, NULL);
	struct vm_diff d = { 0 };

	a.broken = true;
	assert_int_equal(diff_merge(&in, &d, &err), -ECONNRESET);
	assert_null(d.v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind),
		cmocka_unit_test(pages),
		cmocka_unit_test(late),
		cmocka_unit_test(a_guest_goes_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
