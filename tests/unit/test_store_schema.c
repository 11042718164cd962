/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_store_schema.c - the steps of the schema: released ones do not change, and upgrading a
 * database of any earlier version gives the same schema as a new one
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "store/store_internal.h"
#include "tests/unit/check.h"
#include "tests/unit/tmpdir.h"

/* CRC-32C of each step. To add a step is to add its number here; never change one that is there. */
static const uint32_t released[] = { 0x2b5fc897, 0x0f41c956, 0x1274bdc0, 0x4734d99b, 0xd501cbcb,
	                             0x37bdceee, 0x879c3422, 0x02a36a63, 0xd2c82936, 0x1816b3da,
	                             0xf4c33975, 0x10d3e3e6, 0x09af6c64, 0xde2b57ea, 0x048fd8a0,
	                             0x747b2b1b, 0x1840171a, 0xbcd65b62, 0xf94da41d, 0x170b4cef,
	                             0xc5443656, 0xbea317cf, 0xb9b02202, 0xd2649042, 0xe67b1d5a,
	                             0xfc9de26a, 0xaf165b55 };

static void released_steps_stay_as_they_are(void **state)
{
	assert_int_equal(store_n_migrations, ARRAY_SIZE(released));
	for (unsigned i = 0; i < store_n_migrations; i++) {
		uint32_t crc = crc32c(0, store_migrations[i], strlen(store_migrations[i]));

		if (crc != released[i])
			fail_msg("migration_%u is 0x%08x now: add a step, do not edit one", i + 1,
			         crc);
	}
}

/* All tables and indexes, one a line. */
static void schema_of(const char *path, struct buf *out)
{
	sqlite3_stmt *st = NULL;
	sqlite3 *db = NULL;

	assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db,
	                                    "SELECT name || ': ' || COALESCE(sql, '') FROM "
	                                    "sqlite_master ORDER BY name",
	                                    -1, &st, NULL),
	                 SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW)
		buf_printf(out, "%s\n", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	sqlite3_close(db);
}

static void every_earlier_version_becomes_the_present_one(void **state)
{
	struct tmpdir dir;
	struct buf want = { 0 };
	struct store *s = NULL;
	char path[256];

	assert_int_equal(tmpdir_make(&dir), 0);
	tmpdir_file(&dir, "new.db", path, sizeof(path));
	OK(store_open(path, &s, &err));
	s = store_close(s);
	schema_of(path, &want);
	for (unsigned n = 1; n < store_n_migrations; n++) {
		struct buf got = { 0 };
		char name[32];

		snprintf(name, sizeof(name), "old%u.db", n);
		tmpdir_file(&dir, name, path, sizeof(path));
		OK(store_open_with(path, store_migrations, n, &s, &err));
		s = store_close(s);
		OK(store_open(path, &s, &err));
		s = store_close(s);
		schema_of(path, &got);
		assert_int_equal(got.len, want.len);
		assert_memory_equal(got.p, want.p, want.len);
		buf_done(&got);
	}
	buf_done(&want);
	tmpdir_remove(&dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(released_steps_stay_as_they_are),
		cmocka_unit_test(every_earlier_version_becomes_the_present_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
