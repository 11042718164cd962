/* SPDX-License-Identifier: Apache-2.0 */
/* schema_git.c - tables of the repositories */
#include "store/store_internal.h"

const char migration_git[] =
        "CREATE TABLE git_repos ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  name TEXT NOT NULL,"
        "  is_public BIGINT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  pushed_ms BIGINT NOT NULL,"
        "  bytes BIGINT NOT NULL"
        ");"
        "CREATE INDEX git_repos_account ON git_repos (account, created_ms, id);"
        "CREATE TABLE git_lfs ("
        "  repo TEXT NOT NULL,"
        "  oid TEXT NOT NULL,"
        "  account TEXT NOT NULL,"
        "  bytes BIGINT NOT NULL,"
        "  PRIMARY KEY (repo, oid)"
        ");"
        "CREATE INDEX git_lfs_account ON git_lfs (account, oid);";
