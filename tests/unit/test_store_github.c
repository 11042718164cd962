/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_github.c - GitHub Apps, installations, links and webhooks in the database */
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
#include "base/id.h"
#include "store/store_github.h"
#include "store/store_sync.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

#define SERVER "https://github.com"

struct world {
	struct tmpdir dir;
	struct store *s;
};

static int setup(void **state)
{
	static struct world w;
	char path[256];

	assert_int_equal(tmpdir_make(&w.dir), 0);
	OK(store_open(db_at(&w.dir, "github.db", path, sizeof(path)), &w.s, &err));
	*state = &w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	w->s = store_close(w->s);
	tmpdir_remove(&w->dir);
	return 0;
}

static void make_app(struct world *w, const char *account, bool shared, char ret[ID_SIZE])
{
	struct store_github_app a = { .shared = shared, .server = SERVER, .app_id = "1" };

	id_make("gha-", a.id);
	snprintf(a.account, sizeof(a.account), "%s", account);
	snprintf(a.private_key, sizeof(a.private_key), "key");
	OK(store_github_app_add(w->s, &a, &err));
	snprintf(ret, ID_SIZE, "%s", a.id);
}

static struct store_installation make_installation(const char *account, const char *app,
                                                   const char *number, int64_t due_ms)
{
	struct store_installation i = { .due_ms = due_ms };

	id_make("ghi-", i.id);
	snprintf(i.app, sizeof(i.app), "%s", app);
	snprintf(i.account, sizeof(i.account), "%s", account);
	snprintf(i.number, sizeof(i.number), "%s", number);
	return i;
}

static void an_installation_has_one_account(void **state)
{
	struct store_installation i, j, found;
	struct store_github_app *v = NULL;
	struct world *w = *state;
	char app[ID_SIZE], other[ID_SIZE];
	size_t n;

	make_app(w, "ac-a", false, app);
	make_app(w, "ac-o", true, other);
	OK(store_github_app_list(w->s, "ac-a", &v, &n, &err));
	assert_int_equal(n, 2);
	free(v);
	OK(store_github_app_list(w->s, "ac-b", &v, &n, &err));
	assert_int_equal(n, 1);
	assert_string_equal(v->id, other);
	free(v);
	i = make_installation("ac-a", app, "7", 5);
	OK(store_installation_add(w->s, &i, &err));
	j = make_installation("ac-a", app, "7", 9);
	OK(store_installation_add(w->s, &j, &err));
	assert_string_equal(j.id, i.id); /* it is there already */
	j = make_installation("ac-b", app, "7", 9);
	assert_int_equal(store_installation_add(w->s, &j, &err), -EEXIST);
	j = make_installation("ac-b", other, "7", 9); /* of another App: another one */
	OK(store_installation_add(w->s, &j, &err));
	OK(store_installation_find(w->s, other, "7", &found, &err));
	assert_string_equal(found.account, "ac-b");
	assert_int_equal(store_installation_find(w->s, other, "8", &found, &err), -ENOENT);
	assert_int_equal(store_github_app_delete(w->s, "ac-a", other, &err), -ENOENT);
	OK(store_github_app_delete(w->s, "ac-o", other, &err));
	assert_int_equal(store_installation_get(w->s, j.id, &found, &err), -ENOENT);
	OK(store_installation_get(w->s, i.id, &found, &err));
}

static void what_was_found_is_kept_and_asked_for_again(void **state)
{
	static const char *const names[] = { "o/two", "O/One", "o/two" };
	struct store_github_repo *v = NULL;
	struct store_installation i, got;
	struct world *w = *state;
	char app[ID_SIZE];
	int64_t next;
	size_t n;

	make_app(w, "ac-a", false, app);
	i = make_installation("ac-a", app, "1", 100);
	OK(store_installation_add(w->s, &i, &err));
	OK(store_installation_next(w->s, &next, &err));
	assert_int_equal(next, 100);
	assert_int_equal(store_installation_claim(w->s, 99, 1000, &got, &err), -ENOENT);
	OK(store_installation_claim(w->s, 100, 1000, &got, &err));
	assert_int_equal(got.due_ms, 1100);
	assert_int_equal(store_installation_claim(w->s, 100, 1000, &got, &err), -ENOENT);
	got = i;
	got.due_ms = 5000;
	got.tries = 3;
	OK(store_installation_found(w->s, &got, 1100, names, ARRAY_SIZE(names), &err));
	OK(store_installation_get(w->s, i.id, &got, &err));
	assert_int_equal(got.due_ms, 5000);
	OK(store_github_repo_list(w->s, i.id, 10, 0, &v, &n, &err));
	assert_int_equal(n, 2);
	free(v);
	OK(store_github_repo_list(w->s, i.id, 10, 1, &v, &n, &err));
	assert_int_equal(n, 1);
	free(v);
	OK(store_installation_for(w->s, "ac-a", SERVER, "o/one", NULL, &got, &err));
	OK(store_installation_for(w->s, "ac-a", SERVER, "o/one", "1", &got, &err));
	assert_int_equal(store_installation_for(w->s, "ac-a", SERVER, "o/one", "2", &got, &err),
	                 -ENOENT);
	assert_int_equal(store_installation_for(w->s, "ac-b", SERVER, "o/one", NULL, &got, &err),
	                 -ENOENT);
	assert_int_equal(
	        store_installation_for(w->s, "ac-a", "https://x", "o/one", NULL, &got, &err),
	        -ENOENT);
	/* made due while it was looked at: that stays, and the list goes */
	OK(store_installation_claim(w->s, 5000, 1000, &got, &err));
	assert_int_equal(store_installation_due(w->s, i.id, 5001, &err), 1);
	got.due_ms = 9999;
	OK(store_installation_found(w->s, &got, 6000, names, 0, &err));
	OK(store_installation_claim(w->s, 5001, 1000, &got, &err));
	OK(store_github_repo_list(w->s, i.id, 10, 0, &v, &n, &err));
	assert_int_equal(n, 0);
	free(v);
	OK(store_installation_delete(w->s, i.id, &err));
	OK(store_installation_found(w->s, &got, 6001, names, 2, &err)); /* nobody is there */
	assert_int_equal(store_installation_due(w->s, i.id, 1, &err), 0);
}

static void a_link_is_used_once_by_who_opened_it(void **state)
{
	struct store_github_link l = { .account = "ac-a", .kind = "install", .until_ms = 1000 };
	struct world *w = *state;
	struct store_github_link got;
	char name[16];

	OK(store_github_link_add(w->s, "h1", &l, 1, &err));
	assert_int_equal(store_github_link_take(w->s, "h1", "b1", 1, &got, &err), -ENOENT);
	assert_int_equal(store_github_link_take(w->s, "h1", "", 1, &got, &err), -ENOENT);
	OK(store_github_link_open(w->s, "h1", "b1", 1, &got, &err));
	assert_int_equal(store_github_link_take(w->s, "h1", "b2", 1, &got, &err), -ENOENT);
	OK(store_github_link_open(w->s, "h1", "b2", 1, &got, &err)); /* the last one has it */
	assert_int_equal(store_github_link_take(w->s, "h1", "b1", 1, &got, &err), -ENOENT);
	assert_int_equal(store_github_link_take(w->s, "h1", "b2", 1001, &got, &err), -ENOENT);
	OK(store_github_link_take(w->s, "h1", "b2", 1000, &got, &err));
	assert_string_equal(got.account, "ac-a");
	assert_int_equal(store_github_link_take(w->s, "h1", "b2", 1000, &got, &err), -ENOENT);
	for (int i = 0; i < GITHUB_LINKS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		OK(store_github_link_add(w->s, name, &l, 1, &err));
	}
	assert_int_equal(store_github_link_add(w->s, "more", &l, 1, &err), -EDQUOT);
	OK(store_github_link_add(w->s, "more", &l, 2000, &err)); /* the others have ended */
}

static void a_webhook_is_heard_once(void **state)
{
	struct store_github_app a;
	struct world *w = *state;
	char app[ID_SIZE], other[ID_SIZE];

	make_app(w, "ac-a", false, app);
	make_app(w, "ac-a", false, other);
	assert_int_equal(store_github_heard(w->s, app, "d1", &err), 0);
	OK(store_github_hear(w->s, app, "d1", 10, &err));
	OK(store_github_hear(w->s, app, "d1", 11, &err));
	assert_int_equal(store_github_heard(w->s, app, "d1", &err), 1);
	assert_int_equal(store_github_heard(w->s, other, "d1", &err), 0);
	OK(store_github_app_get(w->s, app, &a, &err));
	assert_int_equal(a.heard_ms, 11);
	OK(store_github_hear(w->s, app, "d2", 10 + GITHUB_DELIVERIES_MS, &err));
	assert_int_equal(store_github_heard(w->s, app, "d1", &err), 1);
	OK(store_github_hear(w->s, app, "d3", 11 + GITHUB_DELIVERIES_MS, &err));
	assert_int_equal(store_github_heard(w->s, app, "d1", &err), 0);
	assert_int_equal(store_github_heard(w->s, app, "d2", &err), 1);
}

static void only_the_accounts_mirrors_of_that_address_wake(void **state)
{
	static const char *const urls[SYNC_SPELLINGS] = { "https://h/o/x", "https://h/o/x.git",
		                                          "https://h/o/x/" };
	static const struct {
		const char *repo, *account, *url;
		bool woken;
	} rows[] = { { "r1", "ac-a", "https://h/O/X.git", true },
		     { "r2", "ac-a", "https://H/o/x", true },
		     { "r3", "ac-a", "https://h/o/xy.git", false },
		     { "r4", "ac-b", "https://h/o/x.git", false } };
	autofree struct store_sync *y = calloc(1, sizeof(*y));
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		*y = (struct store_sync){ .next_ms = 999999, .conflicts = "[]" };
		snprintf(y->repo, sizeof(y->repo), "%s", rows[i].repo);
		snprintf(y->account, sizeof(y->account), "%s", rows[i].account);
		snprintf(y->url, sizeof(y->url), "%s", rows[i].url);
		snprintf(y->hook, sizeof(y->hook), "%s", rows[i].repo);
		snprintf(y->installation, sizeof(y->installation), "ghi-x");
		OK(store_sync_put(w->s, y, &err));
	}
	assert_int_equal(store_sync_wake_urls(w->s, "ac-a", urls, 5, &err), 2);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		OK(store_sync_get(w->s, rows[i].repo, y, &err));
		assert_int_equal(y->next_ms, rows[i].woken ? 5 : 999999);
		assert_string_equal(y->installation, "ghi-x");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_installation_has_one_account, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_found_is_kept_and_asked_for_again, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_link_is_used_once_by_who_opened_it, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(a_webhook_is_heard_once, setup, teardown),
		cmocka_unit_test_setup_teardown(only_the_accounts_mirrors_of_that_address_wake,
		                                setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
