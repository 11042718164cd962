/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/stage.h - VMs that are being built; for build/
 *
 * A stage is a VM in the state "building": thawed from a point, used by its builder alone, frozen
 * as often as the builder likes while it goes on, and in the end either an ordinary running VM or
 * gone. With account "" it is in nobody's list. Its row is in the store from the start, so its
 * layers are safe; a server that finds such a row when it starts removes it.
 */
#pragma once

#include "vm/vm.h"

struct vm_stage;

struct vm_stage_opts {
	struct vm_create_opts vm; /* account "": in nobody's list. point: to start from, held */
	const char *payer;        /* account whose quota it counts for */
	const char *snapshot;     /* that comes out of it and whose deletion ends it, or NULL */
	/* 0: as the point has it. Anything else: the point's disk is cold booted at that size. */
	uint32_t vcpus, mem_mb, disk_mb;
};
/* -ECANCELED: someone deleted it before it was up. */
int vmm_stage_begin(struct vmm *m, const struct vm_stage_opts *o, struct vm_stage **ret,
                    struct err *err);
/* Caller guest_unref()s. */
int vmm_stage_guest(struct vm_stage *s, struct guest **ret, struct err *err);
/* A point of it as it is now; it goes on. The caller vmm_point_release()s it once a row names it.
 */
int vmm_stage_freeze(struct vm_stage *s, char ret_point[ID_SIZE], struct err *err);
/* As the stage is now. */
void vmm_stage_info(struct vm_stage *s, struct vm_info *ret);
/* Someone deleted it, or the server is about to end. */
bool vmm_stage_cancelled(struct vm_stage *s);
/* The VM is an ordinary one from now on, the stage is freed. On failure it is all gone. */
int vmm_stage_finish(struct vm_stage *s_consume, const char *snapshot_id, const char *build_id,
                     const char *workdir, struct vm_info *ret, struct err *err);
/* NULL is fine. */
void vmm_stage_abort(struct vm_stage *s_consume);

/* The template's point and what it depends on; waits until there is one. The point is held. */
int vmm_template_hold(struct vmm *m, char ret_point[ID_SIZE], char ret_key[32], struct err *err);
/* The same of another size (0: as the default VM's): sizes.c. */
int vmm_size_hold(struct vmm *m, const char *account, uint32_t vcpus, uint32_t mem_mb,
                  char ret_point[ID_SIZE], char ret_key[32], struct err *err);
/* Against collection; -ENOENT when there is no such point any more. */
int vmm_point_hold(struct vmm *m, const char *point, struct err *err);
void vmm_point_release(struct vmm *m, const char *point);
struct stage_size {
	uint32_t vcpus, mem_mb, disk_mb;
};
int vmm_point_size(struct vmm *m, const char *point, struct stage_size *ret, struct err *err);
/* The point of a snapshot, held, and the working directory of what starts from it. */
int vmm_snapshot_hold(struct vmm *m, const char *account, const char *id, char ret_point[ID_SIZE],
                      char ret_workdir[WORKDIR_SIZE], struct err *err);
struct store_snapshot;
/* A new row, if the account may have one more. */
int vmm_snapshot_add(struct vmm *m, const struct store_snapshot *s, struct err *err);
void vmm_collect_soon(struct vmm *m); /* something was let go of */
