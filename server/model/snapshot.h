/* SPDX-License-Identifier: Apache-2.0 */
/* model/snapshot.h - snapshots, as all modules know them */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "model/vm.h"

enum snapshot_state {
	SNAPSHOT_READY,
	SNAPSHOT_BUILDING,
	SNAPSHOT_FAILED,
	SNAPSHOT_LOST,
	SNAPSHOT_STATE_MAX
};
#define SNAPSHOTS_GONE_MAX 500 /* deleted or lost snapshots of an account that are still listed */
struct snapshot_info {
	char id[ID_SIZE]; /* "sc-..." */
	char account[ACCOUNT_SIZE];
	char name[VM_NAME_MAX];
	char source_vm[ID_SIZE];
	char source_instance[ID_SIZE];
	int64_t created_ms, updated_ms;
	int64_t used_ms; /* when a VM was last created from it */
	bool deleted;
	bool persistent; /* else sticky with priority */
	int priority;
	uint32_t vcpus, mem_mb, disk_mb;
	enum snapshot_state state; /* failed: the state in which a build failed; it can be started.
	                      lost: damaged or evicted; failure says why */
	char build_id[ID_SIZE];    /* or "" */
	char failure[384];         /* message, or "" */
	char template_hash[65];    /* of the spec it was built from, or "" */
	char workdir[WORKDIR_SIZE];
};
