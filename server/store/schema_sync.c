/* SPDX-License-Identifier: Apache-2.0 */
/* schema_sync.c - table of the mirrors */
#include "store/store_internal.h"

const char migration_syncs[] = "CREATE TABLE git_syncs ("
                               "  repo TEXT PRIMARY KEY,"
                               "  account TEXT NOT NULL,"
                               "  remote TEXT NOT NULL,"
                               "  url TEXT NOT NULL,"
                               "  token TEXT NOT NULL,"
                               "  hook TEXT NOT NULL,"
                               "  state TEXT NOT NULL,"
                               "  note TEXT NOT NULL,"
                               "  conflicts TEXT NOT NULL,"
                               "  next_ms BIGINT NOT NULL,"
                               "  last_ms BIGINT NOT NULL"
                               ");"
                               "CREATE INDEX git_syncs_due ON git_syncs (next_ms);"
                               "CREATE UNIQUE INDEX git_syncs_hook ON git_syncs (hook);";
