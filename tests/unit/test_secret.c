/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_secret.c - secrets at rest: what is sealed opens only at its place and with its key, and
 * nothing of it is in the files
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/secret_fx.h"

/* ---- values ---- */

static void a_value_opens_at_its_place_only(void **state)
{
	struct fx *f = *state;
	struct secret_place at = { "t.c", "row1" }, row = { "t.c", "row2" },
	                    col = { "t.d", "row1" };
	struct secrets_conf c = { .data_dir = f->dir, .file = "", .fd = -1, .create = true };
	struct secrets *k = NULL;
	char *sealed = NULL, *other = NULL, *text = NULL;
	size_t n = 0;

	OK(io_mkdirs(f->dir, 0700, &err));
	OK(secrets_open(&c, &k, &err));
	OK(secret_seal(k, at, "a secret", 8, &sealed, &err));
	assert_null(strstr(sealed, "secret"));
	OK(secret_open(k, at, sealed, &text, &n, &err));
	assert_string_equal(text, "a secret");
	assert_int_equal(n, 8);
	free(text);
	text = NULL;
	FAILS(-EBADMSG, secret_open(k, row, sealed, &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, col, sealed, &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, at, "a secret", &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, at, "$s1$", &text, NULL, &err));
	FAILS(-EBADMSG, secret_open(k, at, "$s1$AQ==", &text, NULL, &err));
	/* Every character counts, but for the bits that base64 leaves over. */
	for (size_t i = 4; i < strlen(sealed) - 3; i++) {
		char was = sealed[i];
		int r;

		for (const char *c2 = "AQZaz09+/"; *c2; c2++) {
			if (*c2 == was)
				continue;
			sealed[i] = *c2;
			r = secret_open(k, at, sealed, &text, NULL, &err);
			if (r != -EBADMSG && r != -ENOKEY)
				fail_msg("changed at %zu: %d", i, r);
		}
		sealed[i] = was;
	}
	OK(secret_seal(k, at, "a secret", 8, &other, &err));
	assert_string_not_equal(sealed, other);
	free(other);
	OK(secret_seal(k, at, "", 0, &other, &err));
	OK(secret_open(k, at, other, &text, &n, &err));
	assert_int_equal(n, 0);
	free(text);
	free(other);
	free(sealed);
	secrets_close(k);
}

static void a_bad_key_file_is_refused_with_its_name(void **state)
{
	struct fx *f = *state;
	char path[300];
	struct secrets_conf c = { .data_dir = f->dir, .file = "", .fd = -1 };
	static const char *const bad[] = {
		"",
		"nonsense\n",
		"1 abc\n",
		"0 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
		"1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefff\n",
		("1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
		 "1 1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"),
	};
	struct secrets *k = NULL;

	OK(io_mkdirs(f->dir, 0700, &err));
	snprintf(path, sizeof(path), "%s/secret.key", f->dir);
	FAILS(-EINVAL, secrets_open(&c, &k, &err));
	assert_non_null(strstr(err.msg, path));
	assert_non_null(strstr(err.msg, "OPERATIONS"));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		OK(io_write_file(AT_FDCWD, path, bad[i], strlen(bad[i]), 0600, &err));
		FAILS(-EINVAL, secrets_open(&c, &k, &err));
		assert_non_null(strstr(err.msg, path));
	}
	unlink(path);
	c.create = true;
	OK(secrets_open(&c, &k, &err));
	secrets_close(k);
	assert_int_equal(chmod(path, 0640), 0);
	FAILS(-EINVAL, secrets_open(&c, &k, &err));
	assert_non_null(strstr(err.msg, "0640"));
}

/* As pando-priv passes systemd's credential on. */
static void a_credential_is_read_but_never_written(void **state)
{
	struct fx *f = *state;
	static const char one[] =
	        "7 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
	static const char both[] =
	        "8 9123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
	        "7 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";
	struct secret_place at = { "t.c", "row" };
	struct secrets_conf c = { .data_dir = "/nonexistent", .file = "" };
	autofree char *sealed = NULL;
	autofree char *text = NULL;
	struct secrets *k = NULL;
	char path[300];
	unsigned id;

	OK(io_mkdirs(f->dir, 0700, &err));
	snprintf(path, sizeof(path), "%s/cred", f->dir);
	OK(io_write_file(AT_FDCWD, path, one, strlen(one), 0600, &err));
	c.fd = open(path, O_RDONLY | O_CLOEXEC);
	OK(secrets_open(&c, &k, &err));
	OK(secret_seal(k, at, "x", 1, &sealed, &err));
	FAILS(-EROFS, secrets_rotate(k, &id, &err));
	assert_non_null(strstr(err.msg, "in front"));
	close(c.fd);
	k = secrets_close(k);
	OK(io_write_file(AT_FDCWD, path, both, strlen(both), 0600, &err));
	c.fd = open(path, O_RDONLY | O_CLOEXEC);
	OK(secrets_open(&c, &k, &err));
	OK(secret_open(k, at, sealed, &text, NULL, &err));
	assert_false(secret_is_current(k, sealed));
	OK(secrets_settle(k, &err));
	assert_true(file_has(path, "7 0123"));
	close(c.fd);
	secrets_close(k);
}

/* ---- the store ---- */

static void an_old_database_is_sealed(void **state)
{
	struct fx *f = *state;
	struct server v;

	make_old(f->dir);
	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		char where[512] = "";

		find_text(f->dir, plain[i], where);
		if (!*where)
			fail_msg("'%s' is not there: this test checks nothing", plain[i]);
	}
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	nothing_plain(f->dir); /* also while it runs: the log */
	server_end(&v);
	nothing_plain(f->dir);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	OK(put_egress(v.store, "vm2", policy, ca_key, &err)); /* and what is written from now on */
	nothing_plain(f->dir);
	server_end(&v);
	nothing_plain(f->dir);
}

static void sql(const char *dir, const char *text)
{
	sqlite3 *db = NULL;
	char path[256];

	snprintf(path, sizeof(path), "%s/pando.db", dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	if (sqlite3_exec(db, text, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s: %s", text, sqlite3_errmsg(db));
	sqlite3_close(db);
}

static void a_moved_value_is_an_error(void **state)
{
	struct fx *f = *state;
	AUTO(store_egress_done) struct store_egress e = { 0 };
	struct store_credential *c = calloc(1, sizeof(*c));
	struct store_vpc vpc;
	struct server v;

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	server_end(&v);
	sql(f->dir, "UPDATE git_credentials SET secret = (SELECT secret FROM git_signing_keys)");
	sql(f->dir, "UPDATE vpcs SET wg_key = 'plain'");
	sql(f->dir, "UPDATE vm_egress SET vm_id = 'vm9'");
	OK(server_start(f->dir, &v, &err));
	FAILS(-EUCLEAN, store_credential_get(v.store, "acme", "https://git.example", c, &err));
	FAILS(-EUCLEAN, store_vpc_get(v.store, "vpc-1", &vpc, &err));
	FAILS(-EUCLEAN, store_egress_get(v.store, "vm9", &e, &err));
	server_end(&v);
	free(c);
}

static void the_wrong_key_stops_the_start(void **state)
{
	struct fx *f = *state;
	char key[300], away[300];
	struct store_vpc vpc;
	struct store *s = NULL;
	struct server v;
	struct secrets_conf c = { .data_dir = f->dir, .file = "", .fd = -1, .create = true };

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	server_end(&v);
	snprintf(key, sizeof(key), "%s/secret.key", f->dir);
	snprintf(away, sizeof(away), "%s/away", f->dir);
	assert_int_equal(rename(key, away), 0);
	FAILS(-EINVAL, server_start(f->dir, &v, &err)); /* no new one is made */
	assert_non_null(strstr(err.msg, key));
	OK(secrets_open(&c, &v.keys, &err));
	secrets_close(v.keys);
	FAILS(-EINVAL, server_start(f->dir, &v, &err));
	assert_non_null(strstr(err.msg, key));
	assert_non_null(strstr(err.msg, "restore"));
	/* Without a key at all nothing of it is read or written. */
	snprintf(key, sizeof(key), "%s/pando.db", f->dir);
	OK(store_open(key, &s, &err));
	assert_true(store_is_sealed(s));
	FAILS(-EUCLEAN, store_vpc_get(s, "vpc-1", &vpc, &err));
	FAILS(-ENOKEY, put_egress(s, "vm3", "p", "", &err));
	store_close(s);
	snprintf(key, sizeof(key), "%s/secret.key", f->dir);
	assert_int_equal(rename(away, key), 0);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	server_end(&v);
}

static void a_rotation_replaces_the_key_everywhere(void **state)
{
	struct fx *f = *state;
	autofree char *before = NULL;
	autofree char *after = NULL;
	char key[300];
	struct server v;
	unsigned id = 0;

	make_old(f->dir);
	OK(server_start(f->dir, &v, &err));
	snprintf(key, sizeof(key), "%s/secret.key", f->dir);
	OK(io_read_file(AT_FDCWD, key, 4096, &before, &err));
	OK(secrets_rotate(v.keys, &id, &err));
	assert_int_equal(id, 2);
	check_all(v.store);
	OK(io_read_file(AT_FDCWD, key, 4096, &after, &err));
	assert_int_equal(keys_in(f->dir), 1);
	assert_string_not_equal(before, after);
	server_end(&v);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	server_end(&v);
	OK(server_start(f->dir, &v, &err));
	check_all(v.store);
	server_end(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
		T(a_value_opens_at_its_place_only),
		T(a_bad_key_file_is_refused_with_its_name),
		T(a_credential_is_read_but_never_written),
		T(an_old_database_is_sealed),
		T(a_moved_value_is_an_error),
		T(the_wrong_key_stops_the_start),
		T(a_rotation_replaces_the_key_everywhere),
	};

	in_memory();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
