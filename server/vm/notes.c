/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notes.c - see notes.h
 *
 * Names, settings and the end of life are in the VM's row; tags and metadata in a row of their own
 * (store/store_note.h) that goes with the VM: they are large compared with what is kept in memory
 * of a VM, and nothing here looks at them. Forks get those of their parent.
 */
#include "vm/notes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_note.h"
#include "vm/vm_internal.h"

int64_t vm_delete_at(int64_t after_s)
{
	return after_s < 0 ? 0 : clock_wall_ms() + after_s * 1000;
}

int vmm_change(struct vmm *m, const char *account, const char *id, const struct vm_change *c,
               struct vm_info *ret, struct err *err)
{
	struct vm_info before;
	struct vm *vm;
	bool renamed;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	before = vm->row.info;
	renamed = c->name && strcmp(c->name, before.name) != 0;
	if (renamed)
		snprintf(vm->row.info.name, sizeof(vm->row.info.name), "%s", c->name);
	if (c->delete_after_s != VM_LEAVE)
		vm->row.info.delete_at_ms = vm_delete_at(c->delete_after_s);
	vm_apply_opts(vm, &c->opts);
	r = vm_set_state(vm, vm->row.info.state, NULL, 0, NULL, err);
	if (r < 0) {
		vm->row.info = before;
	} else {
		if (renamed)
			vm_net_rename(vm, before.name);
		vm_copy_info(vm, ret);
	}
	vm_unlock(vm);
	return r;
}

static int replace(char **at, const char *text, struct err *err)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		return err_set(err, -ENOMEM, "out of memory");
	if (text) {
		free(*at);
		*at = copy;
	}
	return 0;
}

int vmm_notes_set(struct vmm *m, const char *account, const char *id, const struct vm_notes *n,
                  struct err *err)
{
	AUTO(store_note_done) struct store_note note = { 0 };
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	if ((r = store_note_get(m->store, id, &note, err)) >= 0 &&
	    (r = replace(&note.tags, n->tags, err)) == 0 &&
	    (r = replace(&note.metadata, n->metadata, err)) == 0) {
		snprintf(note.vm_id, sizeof(note.vm_id), "%s", id);
		snprintf(note.account, sizeof(note.account), "%s", vm->row.info.account);
		r = store_note_put(m->store, &note, err);
	}
	vm_unlock(vm);
	return MIN(r, 0);
}
