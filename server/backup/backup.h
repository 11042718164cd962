/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backup/backup.h - everything of a server that runs, as it is at one moment
 *
 * backup_begin() puts a data directory of its own together in <data>/backup/<id>: VMs, snapshots
 * and repositories mostly as links to files that never change, the rest as copies. That takes
 * little room and is quick but for the freezing of running VMs. Whoever asked (`pando backup`) then
 * copies it to another place, which may take hours, and calls backup_end(). While it copies it
 * holds a shared lock (flock) on the file "lock" in it; what nobody holds any more is removed by
 * the next backup or start.
 */
#pragma once

#include <limits.h>

#include "vm/backup.h"

struct repos;
struct store;

struct backup_from {
	const char *data_dir;
	struct vmm *vmm;
	struct repos *repos; /* NULL: none (tests) */
};
struct backup {
	char id[ID_SIZE];
	char path[PATH_MAX];
	struct vm_backup vms;
};
void backup_done(struct backup *b);
/* -EBUSY CONFLICT: another one is being made or copied. */
int backup_begin(const struct backup_from *from, struct backup *ret, struct err *err);
int backup_end(const char *data_dir, const char *id, struct err *err);
/* At start: what a server that ended left. */
void backup_sweep(const char *data_dir);
