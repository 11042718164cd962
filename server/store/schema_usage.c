/* SPDX-License-Identifier: Apache-2.0 */
/* schema_usage.c - what a machine had taken before it was handed to its VM */
#include "store/store_internal.h"

const char migration_usage[] =
        "ALTER TABLE vms ADD COLUMN ahead_cpu_seconds DOUBLE PRECISION NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_net_in BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_net_out BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_disk_read BIGINT NOT NULL DEFAULT 0;"
        "ALTER TABLE vms ADD COLUMN ahead_disk_write BIGINT NOT NULL DEFAULT 0;";
