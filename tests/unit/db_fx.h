/* SPDX-License-Identifier: Apache-2.0 */
/*
 * db_fx.h - where tests have their databases; for tests only
 *
 * A SQLite file below the test's directory. With PANDO_TEST_DATABASE (a postgresql:// URL with a
 * query; test_store_pg.py starts the server) a schema of its own in that database instead: the same
 * tests, on the other engine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tests/unit/tmpdir.h"

struct buf;

bool db_is_pg(void);
/* For store_open(): as tmpdir_file(), or a URL. */
const char *db_at(const struct tmpdir *t, const char *name, char *ret, size_t size);
/* Statements past the store; fails the test if they fail. */
void db_poke(const char *where, const char *sql);
/* The one text column that the statement selects, a line for each row. */
void db_dump(const char *where, const char *sql, struct buf *out);
