/* SPDX-License-Identifier: Apache-2.0 */
/* schema_push.c - which push a delivery is of, and limits of an account's repositories */
#include "store/store_internal.h"

const char migration_push[] =
        "ALTER TABLE git_deliveries ADD COLUMN push TEXT NOT NULL DEFAULT '';"
        "ALTER TABLE accounts ADD COLUMN quota_git_repos BIGINT NOT NULL DEFAULT -2;"
        "ALTER TABLE accounts ADD COLUMN quota_git_mb BIGINT NOT NULL DEFAULT -2;";
