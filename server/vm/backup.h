/* SPDX-License-Identifier: Apache-2.0 */
/* vm/backup.h - all VMs and snapshots as they are now, into a directory; for backup/ */
#pragma once

#include "base/id.h"

struct err;
struct vmm;

struct vm_backup {
	unsigned n_frozen; /* running VMs, with their memory */
	struct vm_backup_note {
		char vm[ID_SIZE];
		char text[200];
	} * notes; /* owned: VMs that are older in the backup than they are, or lost */
	size_t n_notes;
};
void vm_backup_done(struct vm_backup *b);

/*
 * Below dir, which exists and is on the file system of the data directory: pando.db, layers/ and
 * points/, in which every VM is suspended, stopped or lost. Running VMs are frozen as points and go
 * on. Layers are linked: they never change. Only what is not yet closed is copied.
 */
int vmm_backup(struct vmm *m, const char *dir, struct vm_backup *ret, struct err *err);
