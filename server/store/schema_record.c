/* SPDX-License-Identifier: Apache-2.0 */
/* schema_record.c - the migration for DNS records of verified domains */
#include "store/store_internal.h"

const char migration_records[] = "CREATE TABLE dns_records ("
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
