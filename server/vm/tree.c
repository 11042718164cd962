/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - the account's tree as it is now: rows of the store, states and files of this moment */
#include "vm/tree.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

/* What it takes: the image's own file is long and mostly holes. */
static uint64_t file_bytes(void *ctx, const char *layer, uint64_t sealed)
{
	struct vmm *m = ctx;
	char path[PATH_MAX];
	struct stat st;

	if (engine_layer_path(m->engine, layer, path, sizeof(path)) < 0 || stat(path, &st) < 0)
		return sealed;
	return (uint64_t)st.st_blocks * 512;
}

/* Passing states are not in the store, and neither is what a VM has changed in memory since its
 * thaw. */
static void show_states(struct vmm *m, struct vm_tree *t)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < t->n; i++) {
		const struct vm *vm = NULL;

		if (t->nodes[i].kind == TREE_VM)
			vm = table_find(&m->vms, t->nodes[i].id);
		if (!vm)
			continue;
		t->nodes[i].state = vm->shown.state;
		if (vm->shown.state == VM_RUNNING)
			t->nodes[i].private_bytes = (uint64_t)vm->private_kb << 10;
	}
}

int vmm_tree(struct vmm *m, const char *account, const char *vm_id, struct vm_tree *ret,
             struct err *err)
{
	AUTO(store_tree_done) struct store_tree s = { 0 };
	int r = store_tree_load(m->store, account, &s, err);

	if (r == 0)
		r = tree_build(&s, vm_id, file_bytes, m, ret, err);
	if (r == 0)
		show_states(m, ret);
	return r;
}
