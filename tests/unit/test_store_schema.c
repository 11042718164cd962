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
#include "tests/unit/db_fx.h"
#include "tests/unit/tmpdir.h"

/* CRC-32C of each step. To add a step is to add its number here; never change one that is there. */
static const uint32_t released[] = { 0x2b5fc897, 0x0f41c956, 0x1274bdc0, 0x4734d99b, 0xd501cbcb,
	                             0x37bdceee, 0x879c3422, 0x02a36a63, 0xd2c82936, 0x1816b3da,
	                             0xf4c33975, 0x10d3e3e6, 0x09af6c64, 0xde2b57ea, 0x048fd8a0,
	                             0x747b2b1b, 0x1840171a, 0xbcd65b62, 0xf94da41d, 0x170b4cef,
	                             0xc5443656, 0xbea317cf, 0xb9b02202, 0xd2649042, 0xe67b1d5a,
	                             0xfc9de26a, 0xaf165b55, 0xc8bf4fbf, 0xb0f067be, 0x968ab884,
	                             0x7071e985, 0x9852c4e0, 0xaacf5e7a, 0x1c7fe64e, 0x8561fd16 };

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

/* All tables, columns and indexes, one a line. */
static void schema_of(const char *where, struct buf *out)
{
	db_dump(where,
	        db_is_pg() ? "SELECT table_name || '.' || column_name || ' ' || data_type || "
	                     "is_nullable || COALESCE(column_default, '') AS line FROM "
	                     "information_schema.columns WHERE table_schema = current_schema() "
	                     "UNION SELECT replace(indexdef, current_schema(), '') FROM pg_indexes "
	                     "WHERE schemaname = current_schema() ORDER BY line"
	                   : "SELECT name || ': ' || COALESCE(sql, '') FROM sqlite_master "
	                     "ORDER BY name",
	        out);
	assert_true(out->len > 1000);
}

static void every_earlier_version_becomes_the_present_one(void **state)
{
	struct tmpdir dir;
	struct buf want = { 0 };
	struct store *s = NULL;
	char path[256];

	assert_int_equal(tmpdir_make(&dir), 0);
	db_at(&dir, "new.db", path, sizeof(path));
	OK(store_open(path, &s, &err));
	s = store_close(s);
	schema_of(path, &want);
	/* PostgreSQL takes its time to make tables: some of the versions */
	for (unsigned n = 1; n < store_n_migrations; n += db_is_pg() ? 7 : 1) {
		struct buf got = { 0 };
		char name[32];

		snprintf(name, sizeof(name), "old%u.db", n);
		db_at(&dir, name, path, sizeof(path));
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

/* ---- expand, then contract: store_schema.c has the rule ---- */

/* Steps that may do more, and the version whose programs can live with them: store_schema_oldest at
 * that time. */
static const struct contract {
	unsigned step, oldest;
} contracts[] = { { 0, 0 } /* none so far */ };

static bool begins(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Why a program that knows nothing of this statement could not go on after it; NULL: it can. */
static const char *hurts(const char *sql)
{
	if (begins(sql, "CREATE TABLE "))
		return strstr(sql, "REFERENCES") ? "old programs could not delete what it refers to"
		                                 : NULL;
	if (begins(sql, "CREATE INDEX "))
		return NULL;
	if (!begins(sql, "ALTER TABLE ") || !strstr(sql, " ADD COLUMN "))
		return "it changes what old programs use";
	if (strstr(sql, "NOT NULL") && !strstr(sql, "DEFAULT"))
		return "old programs do not set the new column";
	if (strstr(sql, "REFERENCES") || strstr(sql, "UNIQUE") || strstr(sql, "CHECK"))
		return "old programs do not know its rule";
	return NULL;
}

/* The first statement of a step that hurts. */
static const char *step_hurts(const char *step)
{
	while (*step) {
		char sql[4096];
		size_t n = strcspn(step, ";");
		const char *why;

		assert_true(n < sizeof(sql));
		memcpy(sql, step, n);
		sql[n] = '\0';
		why = n ? hurts(sql) : NULL;
		if (why)
			return why;
		step += n + (step[n] == ';');
	}
	return NULL;
}

static void the_check_knows_what_hurts(void **state)
{
	static const char *const good[] = {
		"CREATE TABLE nodes (id TEXT PRIMARY KEY);CREATE INDEX nodes_x ON nodes (x);",
		"ALTER TABLE vms ADD COLUMN node TEXT;",
		"ALTER TABLE vms ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;",
	};
	static const char *const bad[] = {
		"ALTER TABLE vms ADD COLUMN node TEXT;ALTER TABLE vms DROP COLUMN slot;",
		"ALTER TABLE vms ADD COLUMN epoch BIGINT NOT NULL;",
		"ALTER TABLE vms ADD COLUMN node TEXT REFERENCES nodes (id);",
		"ALTER TABLE vms RENAME COLUMN slot TO place;",
		"CREATE UNIQUE INDEX vms_name ON vms (account, name);",
		"CREATE TABLE leases (vm TEXT REFERENCES vms (id));",
		"UPDATE vms SET state = 'frozen' WHERE state = 'suspended';",
		"DROP TABLE tombstones;",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_null(step_hurts(good[i]));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (!step_hurts(bad[i]))
			fail_msg("accepted: %s", bad[i]);
}

/* Step 27 was the last before databases could be shared. */
static void steps_let_old_programs_go_on(void **state)
{
	unsigned oldest = 27;

	for (unsigned i = 27; i < store_n_migrations; i++) {
		const char *why = step_hurts(store_migrations[i]);
		bool listed = false;

		for (size_t k = 0; k < ARRAY_SIZE(contracts); k++) {
			if (contracts[k].step != i + 1)
				continue;
			listed = true;
			oldest = contracts[k].oldest;
		}
		if (why && !listed)
			fail_msg("migration_%u: %s; store_schema.c has the rule", i + 1, why);
	}
	assert_int_equal(store_schema_oldest, oldest);
	for (unsigned i = 3; i < audit_n_migrations; i++)
		assert_null(step_hurts(audit_migrations[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_check_knows_what_hurts),
		cmocka_unit_test(steps_let_old_programs_go_on),
		cmocka_unit_test(released_steps_stay_as_they_are),
		cmocka_unit_test(every_earlier_version_becomes_the_present_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
