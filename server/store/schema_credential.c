/* SPDX-License-Identifier: Apache-2.0 */
/* schema_credential.c - table of an account's passwords for other Git servers */
#include "store/store_internal.h"

const char migration_credentials[] =
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
