/* SPDX-License-Identifier: Apache-2.0 */
/* store_schema_21.c - the schema's steps from 21 on; store_schema.c says what holds of them all */
#include "store/store_internal.h"

/* Self access, and which of how many copies a VM is. */
const char migration_21[] = "ALTER TABLE vms ADD COLUMN self BIGINT NOT NULL DEFAULT 0;"
                            "ALTER TABLE vms ADD COLUMN fork_index BIGINT NOT NULL DEFAULT 0;"
                            "ALTER TABLE vms ADD COLUMN fork_count BIGINT NOT NULL DEFAULT 0;";

/* Webhooks of accounts, and what is to be sent to them. */
const char migration_22[] =
        "CREATE TABLE hooks ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  url TEXT NOT NULL,"
        "  secret TEXT NOT NULL,"
        "  events TEXT NOT NULL,"
        "  vm TEXT NOT NULL,"
        "  tags TEXT NOT NULL,"
        "  metadata TEXT NOT NULL,"
        "  enabled BIGINT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  updated_ms BIGINT NOT NULL,"
        "  dropped BIGINT NOT NULL"
        ");"
        "CREATE INDEX hooks_account ON hooks (account);"
        "CREATE TABLE hook_deliveries ("
        "  id TEXT PRIMARY KEY,"
        "  seq BIGINT NOT NULL,"
        "  hook TEXT NOT NULL,"
        "  account TEXT NOT NULL,"
        "  event TEXT NOT NULL,"
        "  type TEXT NOT NULL,"
        "  subject TEXT NOT NULL,"
        "  state TEXT NOT NULL,"
        "  attempts BIGINT NOT NULL,"
        "  next_ms BIGINT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  updated_ms BIGINT NOT NULL,"
        "  status BIGINT NOT NULL,"
        "  note TEXT NOT NULL,"
        "  body TEXT NOT NULL DEFAULT ''"
        ");"
        "CREATE UNIQUE INDEX hook_deliveries_seq ON hook_deliveries (seq);"
        "CREATE INDEX hook_deliveries_due ON hook_deliveries (state, next_ms);"
        "CREATE INDEX hook_deliveries_busy ON hook_deliveries (account, state);"
        "CREATE INDEX hook_deliveries_turn ON hook_deliveries (hook, subject, seq);"
        "CREATE INDEX hook_deliveries_log ON hook_deliveries (hook, seq);";

/* Ports of VMs that can be reached from outside. */
const char migration_23[] = "CREATE TABLE vm_ports ("
                            "  vm TEXT NOT NULL,"
                            "  protocol TEXT NOT NULL,"
                            "  port BIGINT NOT NULL,"
                            "  account TEXT NOT NULL,"
                            "  target BIGINT NOT NULL,"
                            "  created_ms BIGINT NOT NULL,"
                            "  PRIMARY KEY (vm, protocol, port)"
                            ");"
                            "CREATE INDEX vm_ports_port ON vm_ports (port, protocol);"
                            "CREATE INDEX vm_ports_account ON vm_ports (account);";

/* What the program behind a name speaks. */
const char migration_24[] = "ALTER TABLE domain_mappings ADD COLUMN h2c BIGINT NOT NULL DEFAULT 0;";

/* Web sessions; acting: the account that the operator acts as. */
const char migration_25[] = "CREATE TABLE web_sessions ("
                            "  id TEXT PRIMARY KEY,"
                            "  hash TEXT NOT NULL UNIQUE,"
                            "  account TEXT NOT NULL,"
                            "  key TEXT NOT NULL,"
                            "  identity TEXT,"
                            "  acting TEXT,"
                            "  created_ms BIGINT NOT NULL,"
                            "  used_ms BIGINT NOT NULL,"
                            "  remote TEXT NOT NULL,"
                            "  client TEXT NOT NULL"
                            ");"
                            "CREATE INDEX web_sessions_key ON web_sessions (key);";

/* What happened, by account; and what was dropped of it ("": everybody's). */
const char migration_26[] = "CREATE TABLE feed ("
                            "  seq INTEGER PRIMARY KEY AUTOINCREMENT," /* PostgreSQL: BIGSERIAL */
                            "  account TEXT NOT NULL,"
                            "  at_ms BIGINT NOT NULL,"
                            "  type TEXT NOT NULL,"
                            "  vm TEXT NOT NULL,"
                            "  body TEXT NOT NULL"
                            ");"
                            "CREATE INDEX feed_account ON feed (account, seq);"
                            "CREATE INDEX feed_at ON feed (at_ms);"
                            "CREATE TABLE feed_marks ("
                            "  account TEXT PRIMARY KEY,"
                            "  seq BIGINT NOT NULL"
                            ");";

/* What the program behind a name speaks: instead of a flag, now that there is a third way. */
const char migration_27[] =
        "ALTER TABLE domain_mappings ADD COLUMN speaks BIGINT NOT NULL DEFAULT 0;"
        "UPDATE domain_mappings SET speaks = h2c;"
        "ALTER TABLE domain_mappings DROP COLUMN h2c;";
