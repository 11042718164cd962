/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_schema.c - the schema, as numbered migration steps
 *
 * Forward only: a released step is never edited (a unit test has the checksum of each), a
 * change is a new step. Types are those SQLite and PostgreSQL both understand; flags are 0/1 in
 * a BIGINT, enums are words, times are milliseconds since the epoch.
 *
 * Foreign keys protect what garbage collection must never break: a layer that a
 * child, a point or a VM depends on, a point that a VM, a snapshot or a template
 * depends on. points.parent and source_vm are history, not dependencies, so they are
 * plain text and may name what is gone.
 *
 * Expand, then contract: several machines may share a PostgreSQL database, and while they are
 * upgraded one after the other, programs of the version before go on with the new schema. So from
 * step 28 on a step only expands: new tables, new indexes that are not unique, new columns that may
 * be NULL or have a default. Programs name the columns that they write, so old ones do not notice.
 * What is to go (a column, a table, a rule) goes in a later step, when no program that is still
 * supported uses it; that step raises store_schema_oldest to the first version whose programs do
 * without, and is listed with it in tests/unit/test_store_schema.c, which rejects all others. The
 * log of requests (store_audit.c) only expands from its step 4 on.
 *
 * Steps from 21 on are in store_schema_21.c.
 */
#include "store/store_internal.h"

static const char migration_1[] =
        "CREATE TABLE accounts ("
        "  id TEXT PRIMARY KEY,"
        "  name TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL"
        ");"
        "CREATE TABLE api_keys ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL REFERENCES accounts (id),"
        "  name TEXT NOT NULL,"
        "  hash TEXT NOT NULL UNIQUE,"
        "  created_ms BIGINT NOT NULL,"
        "  revoked_ms BIGINT"
        ");"
        "CREATE TABLE meta ("
        "  key TEXT PRIMARY KEY,"
        "  value TEXT NOT NULL"
        ");"
        "CREATE TABLE layers ("
        "  id TEXT PRIMARY KEY,"
        "  kind TEXT NOT NULL CHECK (kind IN ('mem', 'disk')),"
        "  parent TEXT REFERENCES layers (id),"
        "  format TEXT NOT NULL,"
        "  bytes BIGINT NOT NULL,"
        "  crc BIGINT NOT NULL,"
        "  has_crc BIGINT NOT NULL,"
        "  depth BIGINT NOT NULL"
        ");"
        "CREATE INDEX layers_parent ON layers (parent);"
        "CREATE TABLE points ("
        "  id TEXT PRIMARY KEY,"
        "  mem_layer TEXT REFERENCES layers (id),"
        "  disk_layer TEXT REFERENCES layers (id),"
        "  parent TEXT,"
        "  source_vm TEXT,"
        "  vcpus BIGINT NOT NULL,"
        "  mem_mb BIGINT NOT NULL,"
        "  disk_mb BIGINT NOT NULL,"
        "  qemu_version TEXT NOT NULL,"
        "  machine TEXT NOT NULL,"
        "  cpu TEXT NOT NULL,"
        "  accel TEXT NOT NULL,"
        "  state_crc BIGINT NOT NULL,"
        "  state_bytes BIGINT NOT NULL,"
        "  created_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX points_mem_layer ON points (mem_layer);"
        "CREATE INDEX points_disk_layer ON points (disk_layer);"
        "CREATE TABLE templates ("
        "  key TEXT PRIMARY KEY,"
        "  point TEXT NOT NULL REFERENCES points (id)"
        ");"
        "CREATE TABLE vms ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  name TEXT NOT NULL,"
        "  state TEXT NOT NULL,"
        "  instance TEXT,"
        "  snapshot_id TEXT,"
        "  parent_id TEXT,"
        "  point TEXT REFERENCES points (id),"
        "  created_ms BIGINT NOT NULL,"
        "  last_network_ms BIGINT NOT NULL,"
        "  idle_timeout_s BIGINT NOT NULL,"
        "  activity_threshold BIGINT NOT NULL,"
        "  persist TEXT NOT NULL,"
        "  priority BIGINT NOT NULL,"
        "  delete_event TEXT NOT NULL,"
        "  vcpus BIGINT NOT NULL,"
        "  mem_mb BIGINT NOT NULL,"
        "  disk_mb BIGINT NOT NULL,"
        "  cpu_seconds DOUBLE PRECISION NOT NULL,"
        "  generation BIGINT NOT NULL,"
        "  base_point TEXT REFERENCES points (id),"
        "  base_mem TEXT REFERENCES layers (id),"
        "  disk_layer TEXT REFERENCES layers (id),"
        "  slot BIGINT NOT NULL"
        ");"
        "CREATE INDEX vms_account ON vms (account, created_ms);"
        "CREATE INDEX vms_point ON vms (point);"
        "CREATE INDEX vms_base_point ON vms (base_point);"
        "CREATE INDEX vms_base_mem ON vms (base_mem);"
        "CREATE INDEX vms_disk_layer ON vms (disk_layer);"
        "CREATE TABLE snapshots ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  name TEXT NOT NULL,"
        "  source_vm TEXT,"
        "  source_instance TEXT,"
        "  created_ms BIGINT NOT NULL,"
        "  deleted BIGINT NOT NULL,"
        "  persistent BIGINT NOT NULL,"
        "  priority BIGINT NOT NULL,"
        "  vcpus BIGINT NOT NULL,"
        "  mem_mb BIGINT NOT NULL,"
        "  disk_mb BIGINT NOT NULL,"
        "  point TEXT REFERENCES points (id)"
        ");"
        "CREATE INDEX snapshots_account ON snapshots (account, created_ms);"
        "CREATE INDEX snapshots_point ON snapshots (point);";

/*
 * Quotas: -1 none, -2 the server's default. The first account is the operator's.
 * A grant's target is a VM or a repository, so it is not a foreign key: the code that deletes the
 * target deletes its grants.
 */
static const char migration_2[] =
        "ALTER TABLE accounts ADD COLUMN admin BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE accounts ADD COLUMN quota_vms BIGINT NOT NULL DEFAULT -2;"
        "ALTER TABLE accounts ADD COLUMN quota_running BIGINT NOT NULL DEFAULT -2;"
        "ALTER TABLE accounts ADD COLUMN quota_vcpus BIGINT NOT NULL DEFAULT -2;"
        "ALTER TABLE accounts ADD COLUMN quota_mem_mb BIGINT NOT NULL DEFAULT -2;"
        "ALTER TABLE accounts ADD COLUMN quota_disk_mb BIGINT NOT NULL DEFAULT -2;"
        "ALTER TABLE accounts ADD COLUMN quota_snapshots BIGINT NOT NULL DEFAULT -2;"
        "UPDATE accounts SET admin = 1 WHERE id ="
        " (SELECT id FROM accounts ORDER BY created_ms, id LIMIT 1);"
        "CREATE TABLE identities ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL REFERENCES accounts (id),"
        "  managed BIGINT NOT NULL,"
        "  created_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX identities_account ON identities (account, created_ms);"
        "CREATE TABLE identity_tokens ("
        "  id TEXT PRIMARY KEY,"
        "  identity TEXT NOT NULL REFERENCES identities (id),"
        "  account TEXT NOT NULL REFERENCES accounts (id),"
        "  hash TEXT NOT NULL UNIQUE,"
        "  created_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX identity_tokens_identity ON identity_tokens (identity);"
        "CREATE INDEX identity_tokens_account ON identity_tokens (account);"
        "CREATE TABLE grants ("
        "  id TEXT PRIMARY KEY,"
        "  identity TEXT NOT NULL REFERENCES identities (id),"
        "  kind TEXT NOT NULL CHECK (kind IN ('vm', 'git')),"
        "  target TEXT NOT NULL,"
        "  any_user BIGINT NOT NULL,"
        "  users TEXT NOT NULL,"
        "  level TEXT NOT NULL,"
        "  granted_ms BIGINT NOT NULL,"
        "  granted_by TEXT NOT NULL,"
        "  UNIQUE (identity, kind, target)"
        ");"
        "CREATE INDEX grants_target ON grants (kind, target);"
        "CREATE INDEX api_keys_account ON api_keys (account);";

/*
 * The tree. vms.head and points.parent are lines of descent, not references: they keep nothing
 * alive. past_points has the parent of a collected point while a VM's head names it.
 */
static const char migration_3[] =
        "ALTER TABLE points ADD COLUMN kind TEXT NOT NULL DEFAULT 'live';"
        "ALTER TABLE vms ADD COLUMN head TEXT;"
        "UPDATE points SET kind = 'template' WHERE id IN (SELECT point FROM templates);"
        "UPDATE points SET kind = 'suspend' WHERE id IN"
        " (SELECT point FROM vms WHERE point IS NOT NULL);"
        "UPDATE vms SET head = COALESCE(point, base_point);"
        "CREATE TABLE past_points ("
        "  id TEXT PRIMARY KEY,"
        "  parent TEXT"
        ");"
        "CREATE INDEX past_points_parent ON past_points (parent);"
        "CREATE INDEX points_parent ON points (parent);"
        "CREATE INDEX vms_head ON vms (head);";

/* Specs: cached layers, builds with their phases and logs, and their references in VMs and
 * snapshots.
 */
static const char migration_4[] =
        "ALTER TABLE vms ADD COLUMN build_id TEXT;"
        "ALTER TABLE vms ADD COLUMN workdir TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE snapshots ADD COLUMN state TEXT NOT NULL DEFAULT 'ready';"
        "ALTER TABLE snapshots ADD COLUMN build_id TEXT;"
        "ALTER TABLE snapshots ADD COLUMN failure TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE snapshots ADD COLUMN template_hash TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE snapshots ADD COLUMN workdir TEXT NOT NULL DEFAULT '';"
        "CREATE TABLE spec_layers ("
        "  key TEXT PRIMARY KEY,"
        "  point TEXT NOT NULL REFERENCES points (id),"
        "  build_id TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  used_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX spec_layers_point ON spec_layers (point);"
        "CREATE INDEX spec_layers_used ON spec_layers (used_ms);"
        "CREATE TABLE builds ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  request_id TEXT NOT NULL,"
        "  state TEXT NOT NULL,"
        "  template_hash TEXT NOT NULL,"
        "  failure TEXT NOT NULL,"
        "  planned TEXT NOT NULL,"
        "  started_ms BIGINT NOT NULL,"
        "  finished_ms BIGINT NOT NULL,"
        "  updated_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX builds_started ON builds (started_ms);"
        "CREATE INDEX builds_request ON builds (request_id);"
        "CREATE TABLE build_phases ("
        "  id TEXT PRIMARY KEY,"
        "  build_id TEXT NOT NULL REFERENCES builds (id),"
        "  seq BIGINT NOT NULL,"
        "  name TEXT NOT NULL,"
        "  snapshot_id TEXT,"
        "  started_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX build_phases_build ON build_phases (build_id, seq);"
        "CREATE TABLE build_logs ("
        "  build_id TEXT NOT NULL REFERENCES builds (id),"
        "  seq BIGINT NOT NULL,"
        "  at_ms BIGINT NOT NULL,"
        "  phase TEXT NOT NULL,"
        "  message TEXT NOT NULL,"
        "  PRIMARY KEY (build_id, seq)"
        ");";

/* Log lines of accounts; and calls that outlive their connection.
 */
static const char migration_5[] =
        "CREATE TABLE events ("
        "  seq BIGINT PRIMARY KEY,"
        "  at_ms BIGINT NOT NULL,"
        "  account TEXT NOT NULL,"
        "  level TEXT NOT NULL,"
        "  source TEXT NOT NULL,"
        "  vm TEXT NOT NULL,"
        "  instance TEXT NOT NULL,"
        "  build TEXT NOT NULL,"
        "  request TEXT NOT NULL,"
        "  message TEXT NOT NULL"
        ");"
        "CREATE INDEX events_account ON events (account, at_ms, seq);"
        "CREATE INDEX events_at ON events (at_ms);"
        "CREATE TABLE background_requests ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  route TEXT NOT NULL,"
        "  idem_key TEXT NOT NULL,"
        "  idem_hash TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  done_ms BIGINT NOT NULL,"
        "  status BIGINT NOT NULL,"
        "  body TEXT NOT NULL"
        ");"
        "CREATE INDEX background_requests_account ON background_requests (account, created_ms);";

/* Usage, last use, tombstones; snapshots that were lost. */
static const char migration_6[] =
        "ALTER TABLE vms ADD COLUMN count_exec BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN run_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN mem_gb_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN net_in BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN net_out BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN disk_read BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN disk_write BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN now_cpu_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN now_run_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN now_mem_gb_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN now_net_in BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN now_net_out BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN now_disk_read BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN now_disk_write BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN machine_ms BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN used_ms BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN grow_fs BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE snapshots ADD COLUMN updated_ms BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE snapshots ADD COLUMN used_ms BIGINT NOT NULL DEFAULT 0;"
        "CREATE TABLE vm_tombstones ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  name TEXT NOT NULL,"
        "  state TEXT NOT NULL,"
        "  snapshot_id TEXT,"
        "  parent_id TEXT,"
        "  created_ms BIGINT NOT NULL,"
        "  last_network_ms BIGINT NOT NULL,"
        "  persist TEXT NOT NULL,"
        "  priority BIGINT NOT NULL,"
        "  delete_event TEXT NOT NULL,"
        "  vcpus BIGINT NOT NULL,"
        "  mem_mb BIGINT NOT NULL,"
        "  disk_mb BIGINT NOT NULL,"
        "  cpu_seconds DOUBLE PRECISION NOT NULL,"
        "  run_seconds DOUBLE PRECISION NOT NULL,"
        "  mem_gb_seconds DOUBLE PRECISION NOT NULL,"
        "  net_in BIGINT NOT NULL,"
        "  net_out BIGINT NOT NULL,"
        "  disk_read BIGINT NOT NULL,"
        "  disk_write BIGINT NOT NULL,"
        "  used_ms BIGINT NOT NULL,"
        "  reason TEXT NOT NULL,"
        "  deleted_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX vm_tombstones_account ON vm_tombstones (account, deleted_ms);";

/* Repositories. */
static const char migration_7[] =
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

/* Domains and mappings. */
static const char migration_8[] =
        "CREATE TABLE domain_verifications ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  domain TEXT NOT NULL,"
        "  code TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  UNIQUE (account, domain)"
        ");"
        "CREATE TABLE domains ("
        "  domain TEXT PRIMARY KEY,"
        "  id TEXT NOT NULL,"
        "  account TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  wildcard BIGINT NOT NULL"
        ");"
        "CREATE INDEX domains_account ON domains (account, created_ms);"
        "CREATE TABLE domain_mappings ("
        "  domain TEXT PRIMARY KEY,"
        "  id TEXT NOT NULL,"
        "  account TEXT NOT NULL,"
        "  vm TEXT NOT NULL,"
        "  port BIGINT NOT NULL,"
        "  ownership TEXT,"
        "  created_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX domain_mappings_account ON domain_mappings (account, created_ms);"
        "CREATE INDEX domain_mappings_vm ON domain_mappings (vm);";

/*
 * Policies, private networks and tunnels. Rows of VMs have no foreign key: a policy is stored
 * before its VM is, so that no VM is ever without one.
 */
static const char migration_9[] = "CREATE TABLE vm_egress ("
                                  "  vm_id TEXT PRIMARY KEY,"
                                  "  policy TEXT NOT NULL,"
                                  "  ca_cert TEXT NOT NULL,"
                                  "  ca_key TEXT NOT NULL"
                                  ");"
                                  "CREATE TABLE vpcs ("
                                  "  id TEXT PRIMARY KEY,"
                                  "  account TEXT NOT NULL,"
                                  "  name TEXT NOT NULL,"
                                  "  net BIGINT NOT NULL,"
                                  "  prefix BIGINT NOT NULL,"
                                  "  idx BIGINT NOT NULL UNIQUE,"
                                  "  wg_key TEXT NOT NULL,"
                                  "  created_ms BIGINT NOT NULL"
                                  ");"
                                  "CREATE INDEX vpcs_account ON vpcs (account, created_ms);"
                                  "CREATE TABLE vpc_nics ("
                                  "  vm_id TEXT PRIMARY KEY,"
                                  "  vpc TEXT NOT NULL,"
                                  "  addr BIGINT NOT NULL,"
                                  "  is_default BIGINT NOT NULL,"
                                  "  UNIQUE (vpc, addr)"
                                  ");"
                                  "CREATE TABLE wg_peers ("
                                  "  id TEXT PRIMARY KEY,"
                                  "  vpc TEXT NOT NULL,"
                                  "  gateway_vm TEXT NOT NULL,"
                                  "  public_key TEXT NOT NULL,"
                                  "  tunnel_ip BIGINT NOT NULL UNIQUE,"
                                  "  created_ms BIGINT NOT NULL,"
                                  "  expires_ms BIGINT NOT NULL,"
                                  "  UNIQUE (vpc, public_key)"
                                  ");";

/* Triggers and their deliveries. */
static const char migration_10[] =
        "CREATE TABLE git_triggers ("
        "  id TEXT PRIMARY KEY,"
        "  repo TEXT NOT NULL,"
        "  account TEXT NOT NULL,"
        "  branches TEXT,"
        "  globs TEXT,"
        "  action TEXT NOT NULL,"
        "  endpoint TEXT NOT NULL,"
        "  snapshot TEXT NOT NULL,"
        "  command TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL"
        ");"
        "CREATE INDEX git_triggers_repo ON git_triggers (repo, created_ms);"
        "CREATE TABLE git_deliveries ("
        "  id TEXT PRIMARY KEY,"
        "  trigger_id TEXT NOT NULL,"
        "  repo TEXT NOT NULL,"
        "  account TEXT NOT NULL,"
        "  action TEXT NOT NULL,"
        "  branch TEXT NOT NULL,"
        "  old_sha TEXT NOT NULL,"
        "  new_sha TEXT NOT NULL,"
        "  state TEXT NOT NULL,"
        "  attempts BIGINT NOT NULL,"
        "  next_ms BIGINT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  updated_ms BIGINT NOT NULL,"
        "  status BIGINT NOT NULL,"
        "  vm TEXT NOT NULL,"
        "  note TEXT NOT NULL,"
        "  output TEXT NOT NULL DEFAULT ''"
        ");"
        "CREATE INDEX git_deliveries_due ON git_deliveries (state, action, next_ms);"
        "CREATE INDEX git_deliveries_busy ON git_deliveries (account, action, state);"
        "CREATE INDEX git_deliveries_log ON git_deliveries (trigger_id, created_ms);"
        "CREATE INDEX git_deliveries_commit ON git_deliveries (repo, new_sha);"
        "CREATE TABLE git_signing_keys ("
        "  id TEXT PRIMARY KEY,"
        "  secret TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL,"
        "  retired_ms BIGINT NOT NULL"
        ");";

/* Mirrors. */
static const char migration_11[] = "CREATE TABLE git_syncs ("
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

/* Usage of a machine before it was handed to its VM. */
static const char migration_12[] =
        "ALTER TABLE vms ADD COLUMN ahead_cpu_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_net_in BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_net_out BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_disk_read BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_disk_write BIGINT NOT NULL DEFAULT 0;";

/* The push that a delivery belongs to, and limits for repositories. */
static const char migration_13[] =
        "ALTER TABLE git_deliveries ADD COLUMN push TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE accounts ADD COLUMN quota_git_repos BIGINT NOT NULL DEFAULT -2;"
        "ALTER TABLE accounts ADD COLUMN quota_git_mb BIGINT NOT NULL DEFAULT -2;";

/* DNS records of verified domains. */
static const char migration_14[] = "CREATE TABLE dns_records ("
                                   "  id TEXT PRIMARY KEY,"
                                   "  account TEXT NOT NULL,"
                                   "  domain TEXT NOT NULL,"
                                   "  kind TEXT NOT NULL,"
                                   "  name TEXT NOT NULL,"
                                   "  value TEXT NOT NULL,"
                                   "  ttl BIGINT NOT NULL,"
                                   "  priority BIGINT NOT NULL,"
                                   "  created_ms BIGINT NOT NULL,"
                                   "  UNIQUE (domain, kind, name, value)"
                                   ");"
                                   "CREATE INDEX dns_records_account ON dns_records (account);";

/* VMs that are recreated, and their origin. */
static const char migration_15[] = "ALTER TABLE vms ADD COLUMN recreate BIGINT NOT NULL DEFAULT 0;"
                                   "ALTER TABLE vms ADD COLUMN origin TEXT REFERENCES points (id);"
                                   "CREATE INDEX vms_origin ON vms (origin);";

/* An account's passwords for other Git servers. */
static const char migration_16[] =
        "CREATE TABLE git_credentials ("
        "  id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  server TEXT NOT NULL,"
        "  secret TEXT NOT NULL,"
        "  app_id TEXT NOT NULL,"
        "  installation TEXT NOT NULL,"
        "  api_url TEXT NOT NULL,"
        "  created_ms BIGINT NOT NULL"
        ");"
        "CREATE UNIQUE INDEX git_credentials_server ON git_credentials (account, server);";

/* How often the paths of a push were looked at for a trigger; and turns of mirrors. */
static const char migration_17[] =
        "ALTER TABLE git_deliveries ADD COLUMN judged BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE git_syncs ADD COLUMN started_ms BIGINT NOT NULL DEFAULT 0;"
        "CREATE INDEX git_syncs_account ON git_syncs (account, state);";

/* Secrets are sealed (store_secret.c); incoming webhooks are found by the hash of theirs. */
static const char migration_18[] =
        "ALTER TABLE git_syncs ADD COLUMN hook_hash TEXT NOT NULL DEFAULT '';"
        "CREATE INDEX git_syncs_hook_hash ON git_syncs (hook_hash);";

/* Running work counts as activity unless a VM says otherwise; so far it was the other way round. */
static const char migration_19[] = "UPDATE vms SET count_exec = 1;";

/* What users write on their VMs, and when a VM is to be deleted. */
static const char migration_20[] =
        "CREATE TABLE vm_notes ("
        "  vm_id TEXT PRIMARY KEY,"
        "  account TEXT NOT NULL,"
        "  tags TEXT NOT NULL,"
        "  metadata TEXT NOT NULL,"
        "  env TEXT NOT NULL"
        ");"
        "CREATE INDEX vm_notes_account ON vm_notes (account);"
        "ALTER TABLE vms ADD COLUMN delete_at_ms BIGINT NOT NULL DEFAULT 0;";

const char *const store_migrations[] = {
	migration_1,  migration_2,  migration_3,  migration_4,  migration_5,  migration_6,
	migration_7,  migration_8,  migration_9,  migration_10, migration_11, migration_12,
	migration_13, migration_14, migration_15, migration_16, migration_17, migration_18,
	migration_19, migration_20, migration_21, migration_22, migration_23, migration_24,
	migration_25, migration_26, migration_27, migration_28, migration_29, migration_30,
	migration_31, migration_32, migration_33, migration_34, migration_35
};
const unsigned store_n_migrations = ARRAY_SIZE(store_migrations);
const unsigned store_schema_oldest = 27; /* step 27 was released before there were clusters */
