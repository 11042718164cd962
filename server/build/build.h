/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build/build.h - VMs and snapshots from a spec; for api/ and main.c
 *
 * A layer is thawed, applied and frozen once; its point is kept under a content hash, so that the
 * same layer is not built again. Calls block until everything is done. Two calls that need the same
 * layer at once build it once. Every build has a row, phases and a log in the store.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "build/spec.h"
#include "store/store.h"
#include "vm/vm.h"

struct builder;
struct repos;

struct builder_conf {
	uint32_t timeout_s; /* of one build */
	uint32_t cache_max; /* layers */
	struct spec_limits limits;
	struct repos *repos; /* weak; NULL: there are none */
};
int builder_new(const struct builder_conf *c, struct store *store, struct vmm *vmm,
                struct builder **ret, struct err *err);
const struct spec_limits *builder_limits(struct builder *b);
/* Starts no more builds; wakes those that wait for another build. */
void builder_stop(struct builder *b);
struct builder *builder_free(struct builder *b);

struct build_opts {
	const char *account;
	const char *request_id; /* "ri-...", or NULL: its log can be found by this id */
	/* The VM is always a thaw of the built point, so that its policy and options do not hold
	 * while it is built; and a failed state is not kept as a snapshot. */
	bool fresh;
	json_t *extra; /* borrowed; gets buildId, snapshotId, failedReason, diagnostics on failure
	                */
};

/*
 * A running VM from the spec, which may have no layers. c: as for vmm_create(); account,
 * snapshot_id, point, build_id and workdir are set here. VM_SETUP_FAILED when the guest could not
 * be set up: then o->extra says how, and a snapshot of that state is kept.
 */
int build_vm(struct builder *b, const struct spec *s, const struct build_opts *o,
             const struct vm_create_opts *c, struct vm_info *ret, struct err *err);
/* A snapshot from the spec, listed as "building" meanwhile. SNAPSHOT_SETUP_FAILED. */
int build_snapshot(struct builder *b, const struct spec *s, const struct build_opts *o,
                   const char *name, const struct vm_persistence *persistence,
                   struct snapshot_info *ret, struct err *err);

/* -ENOENT BUILD_NOT_FOUND, also for a build of another account. */
int build_get(struct builder *b, const char *account, const char *id, struct store_build *ret,
              struct err *err);
/* The newest of the account, up to limit; state -1: any. Caller frees. */
int build_list(struct builder *b, const char *account, int state, uint32_t limit,
               struct store_build **ret, size_t *ret_n, struct err *err);
/* In order. Caller frees. */
int build_phases(struct builder *b, const char *account, const char *id, struct store_phase **ret,
                 size_t *ret_n, struct err *err);
