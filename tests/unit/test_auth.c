/* SPDX-License-Identifier: Apache-2.0 */
/* test_auth.c - the first start, later starts, and authentication */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "auth/auth.h"
#include "base/auto.h"
#include "store/store.h"
#include "tests/unit/check.h"
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

struct fx {
	struct tmpdir dir;
	char db[256], file[256];
	struct store *s;
	struct auth *a;
};

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	if (!f || tmpdir_make(&f->dir) < 0)
		return -1;
	db_at(&f->dir, "pando.db", f->db, sizeof(f->db));
	tmpdir_file(&f->dir, "api-key", f->file, sizeof(f->file));
	*state = f;
	return store_open(f->db, &f->s, NULL);
}

static int teardown(void **state)
{
	struct fx *f = *state;
	int r;

	auth_close(f->a);
	store_close(f->s);
	r = tmpdir_remove(&f->dir);
	free(f);
	return r;
}

static void read_key(struct fx *f, char key[AUTH_KEY_SIZE])
{
	autofile FILE *file = fopen(f->file, "r");

	assert_non_null(file);
	assert_non_null(fgets(key, AUTH_KEY_SIZE, file));
	assert_int_equal(fgetc(file), '\n');
	assert_int_equal(fgetc(file), EOF);
}

static void first_start_makes_account_and_key(void **state)
{
	struct fx *f = *state;
	char key[AUTH_KEY_SIZE], header[128], again[AUTH_KEY_SIZE], account[ACCOUNT_SIZE];
	struct auth_who who;
	struct stat st;
	bool made = false;

	OK(auth_open(f->s, f->dir.path, &f->a, &made, &err));
	assert_true(made);
	assert_int_equal(stat(f->file, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	read_key(f, key);
	assert_int_equal(strlen(key), 46);
	assert_memory_equal(key, "pando_", 6);
	snprintf(header, sizeof(header), "Bearer %s", key);
	OK(auth_check(f->a, header, NULL, &who, &err));
	/* A version 4 UUID. */
	assert_int_equal(strlen(who.account), 36);
	assert_int_equal(who.account[14], '4');
	assert_non_null(strchr("89ab", who.account[19]));
	OK(store_account_first(f->s, account, &err));
	assert_string_equal(account, who.account);
	/* The key itself is nowhere in the database. */
	f->a = auth_close(f->a);
	f->s = store_close(f->s); /* checkpoints the log into the file */
	if (!db_is_pg()) {
		autofree char *db = NULL;
		struct stat dbst;
		FILE *file;

		assert_int_equal(stat(f->db, &dbst), 0);
		db = malloc((size_t)dbst.st_size);
		file = fopen(f->db, "r");
		assert_true(db && file);
		assert_int_equal(fread(db, 1, (size_t)dbst.st_size, file), dbst.st_size);
		fclose(file);
		assert_null(memmem(db, (size_t)dbst.st_size, key + 6, 20));
	}
	OK(store_open(f->db, &f->s, &err));
	OK(auth_open(f->s, f->dir.path, &f->a, &made, &err));
	assert_false(made);
	read_key(f, again);
	assert_string_equal(key, again);
	OK(auth_check(f->a, header, NULL, &who, &err));
}

static void a_lost_key_file_is_not_made_up_for(void **state)
{
	struct fx *f = *state;
	char key[AUTH_KEY_SIZE], header[128];
	struct auth_who who;
	bool made = true;

	OK(auth_open(f->s, f->dir.path, &f->a, NULL, &err));
	read_key(f, key);
	f->a = auth_close(f->a);
	assert_int_equal(unlink(f->file), 0);
	OK(auth_open(f->s, f->dir.path, &f->a, &made, &err));
	assert_false(made);
	assert_int_equal(access(f->file, F_OK), -1);
	snprintf(header, sizeof(header), "bearer  %s", key); /* the scheme has no case */
	OK(auth_check(f->a, header, NULL, &who, &err));
}

static void dying_between_file_and_store_heals(void **state)
{
	struct fx *f = *state;
	FILE *file = fopen(f->file, "w");
	char key[AUTH_KEY_SIZE];
	bool made = false;

	assert_non_null(file);
	fputs("pando_from-a-start-that-died\n", file);
	fclose(file);
	OK(auth_open(f->s, f->dir.path, &f->a, &made, &err));
	assert_true(made);
	read_key(f, key);
	assert_null(strstr(key, "died"));
}

static void others_are_refused(void **state)
{
	struct fx *f = *state;
	char key[AUTH_KEY_SIZE], header[128];
	struct auth_who who;
	static const char *const bad[] = {
		"",
		"Bearer",
		"Bearer ",
		"Basic abc",
		"Bearer pando_",
		"Bearer nonsense",
		"Bearer pando_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"Bearer pando_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		"Bearer pando_' OR 1=1 --AAAAAAAAAAAAAAAAAAAAAAAAAAAA",
	};

	OK(auth_open(f->s, f->dir.path, &f->a, NULL, &err));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		FAILS(-EACCES, auth_check(f->a, bad[i], NULL, &who, &err));
		assert_int_equal(err.tag, ERR_UNAUTHORIZED_ERROR);
		assert_null(strstr(err.msg, "AAAA")); /* what was sent is not repeated */
	}
	FAILS(-EACCES, auth_check(f->a, NULL, NULL, &who, &err));
	assert_int_equal(err.tag, ERR_UNAUTHORIZED_ERROR);
	read_key(f, key);
	snprintf(header, sizeof(header), "Bearer %s", key);
	FAILS(-EACCES, auth_check(f->a, header, "token", &who, &err));
	assert_int_equal(err.tag, ERR_UNAUTHORIZED);
	key[45] = key[45] == 'A' ? 'B' : 'A';
	snprintf(header, sizeof(header), "Bearer %s", key);
	FAILS(-EACCES, auth_check(f->a, header, NULL, &who, &err));
}

/* A client in a loop: 20 records, and one that stands for the rest. What succeeded is all there. */
static void failures_that_repeat_are_recorded_together(void **state)
{
	struct fx *f = *state;
	struct audit_record r = { .at_ms = 1,
		                  .account = "acc",
		                  .key = "key-1",
		                  .method = "POST",
		                  .route = "/v1/vms",
		                  .remote = "192.0.2.1",
		                  .trace = "t" };
	struct audit_filter all = { .before = INT64_MAX, .until = INT64_MAX, .limit = 1000 };
	autofree struct audit_record *v = NULL;
	unsigned failed = 0, fine = 0, other = 0;
	uint64_t repeated = 0;
	size_t n;

	OK(auth_open(f->s, f->dir.path, &f->a, NULL, &err));
	for (int i = 0; i < 5000; i++) {
		r.status = 404;
		snprintf(r.code, sizeof(r.code), "VM_NOT_FOUND");
		auth_audit(f->a, &r);
		if (i % 100 == 0) {
			r.status = 200;
			r.code[0] = '\0';
			auth_audit(f->a, &r);
		}
	}
	r.status = 403;
	snprintf(r.code, sizeof(r.code), "FORBIDDEN");
	auth_audit(f->a, &r);
	f->a = auth_close(f->a);
	OK(auth_open(f->s, f->dir.path, &f->a, NULL, &err));
	OK(auth_audit_list(f->a, &all, &v, &n, &err));
	for (size_t i = 0; i < n; i++) {
		failed += v[i].status == 404 && !v[i].repeated;
		fine += v[i].status == 200;
		other += v[i].status == 403;
		repeated += v[i].repeated;
	}
	assert_int_equal(fine, 50);
	assert_int_equal(other, 1);
	assert_in_range(failed, 20, 40); /* a minute may have begun meanwhile */
	assert_int_equal(failed + repeated, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(first_start_makes_account_and_key),
		T(a_lost_key_file_is_not_made_up_for),
		T(dying_between_file_and_store_heals),
		T(others_are_refused),
		T(failures_that_repeat_are_recorded_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
