/* SPDX-License-Identifier: Apache-2.0 */
/* schema_recreate.c - VMs that are made anew, and what from */
#include "store/store_internal.h"

const char migration_recreate[] = "ALTER TABLE vms ADD COLUMN recreate BIGINT NOT NULL DEFAULT 0;"
                                  "ALTER TABLE vms ADD COLUMN origin TEXT REFERENCES points (id);"
                                  "CREATE INDEX vms_origin ON vms (origin);";
