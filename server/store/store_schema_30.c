/* SPDX-License-Identifier: Apache-2.0 */
/* store_schema_30.c - schema steps from version 30 on */
#include "store/store_internal.h"

/* Nodes that share the database, and what is whose (store_node.c). "": there are no nodes. */
const char migration_30[] =
        "CREATE TABLE nodes ("
        "  id TEXT PRIMARY KEY,"
        "  name TEXT NOT NULL,"
        "  address TEXT NOT NULL,"
        "  gen BIGINT NOT NULL,"
        "  beat BIGINT NOT NULL,"
        "  alive BIGINT NOT NULL,"
        "  draining BIGINT NOT NULL,"
        "  joined_ms BIGINT NOT NULL,"
        "  version TEXT NOT NULL,"
        "  vcpus BIGINT NOT NULL,"
        "  mem_mb BIGINT NOT NULL,"
        "  free_mb BIGINT NOT NULL,"
        "  running BIGINT NOT NULL"
        ");"
        "CREATE TABLE node_keys ("
        "  id TEXT PRIMARY KEY,"
        "  secret TEXT NOT NULL,"
        "  cert TEXT NOT NULL"
        ");"
        "ALTER TABLE vms ADD COLUMN node TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE vms ADD COLUMN epoch BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN home TEXT NOT NULL DEFAULT '';"
        "CREATE INDEX vms_node ON vms (node);"
        "ALTER TABLE layers ADD COLUMN node TEXT NOT NULL DEFAULT '';"
        "CREATE INDEX layers_node ON layers (node);"
        "ALTER TABLE points ADD COLUMN node TEXT NOT NULL DEFAULT '';"
        "CREATE INDEX points_node ON points (node);"
        "ALTER TABLE builds ADD COLUMN node TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE snapshots ADD COLUMN node TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE background_requests ADD COLUMN node TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE script_runs ADD COLUMN node TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE cron_executions ADD COLUMN node TEXT NOT NULL DEFAULT '';";

/* Whose files a repository is, and what all nodes have together (store_shared.c). */
const char migration_31[] = "ALTER TABLE git_repos ADD COLUMN node TEXT NOT NULL DEFAULT '';"
                            "CREATE INDEX git_repos_node ON git_repos (node);";
