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

/* What machines of a node are frozen with, and what it has left to give up; checkpoints of VMs
 * (no references: programs of before do not know the rule, and store_gc.c keeps it). */
const char migration_31[] =
        "ALTER TABLE nodes ADD COLUMN qemu_version TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE nodes ADD COLUMN machine TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE nodes ADD COLUMN cpu TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE nodes ADD COLUMN accel TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE nodes ADD COLUMN pending BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN checkpoint_every_s BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN checkpoint TEXT;"
        "ALTER TABLE vms ADD COLUMN checkpoint_before TEXT;"
        "CREATE INDEX vms_checkpoint ON vms (checkpoint);"
        "CREATE INDEX vms_checkpoint_before ON vms (checkpoint_before);";
