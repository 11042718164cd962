/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm/notes.h - what a user changes on a VM without waking it: name, settings, tags, metadata,
 * environment, end of life; for api/
 */
#pragma once

#include "vm/vm.h"

struct store_note;

struct vm_change {
	const char *name; /* NULL: as it is; "": none */
	struct vm_start_opts opts;
	int64_t delete_after_s;     /* from now on; -1: never; VM_LEAVE: as it is */
	int64_t checkpoint_every_s; /* VM_LEAVE: as it is; 0: none, and there are none any more */
	bool self_given;            /* self is what it may do to itself from now on */
	uint32_t self;
};
int vmm_change(struct vmm *m, const char *account, const char *id, const struct vm_change *c,
               struct vm_info *ret, struct err *err);

/*
 * Tags, metadata and environment, as JSON texts; NULL leaves one as it is, "" removes it. The
 * environment also enters the running guest.
 */
struct vm_notes {
	const char *tags, *metadata;
	const char *env;            /* an object of strings */
	const char *const *restart; /* services that must see it; NULL-terminated, or NULL */
};
int vmm_notes_set(struct vmm *m, const char *account, const char *id, const struct vm_notes *n,
                  struct err *err);
