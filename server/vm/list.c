/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.c - the VMs of an account: all of them, or a page
 *
 * A page is taken from the table, which has them in order and has counted them (table.h): what it
 * costs does not depend on how many there are. VMs of other nodes are asked of the store, and then
 * all are looked at.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"

int vm_cmp_newest(const void *a, const void *b)
{
	const struct vm_info *x = a, *y = b;

	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? 1 : -1;
	return strcmp(x->id, y->id);
}

int vmm_list(struct vmm *m, const char *account, struct vm_info **ret, size_t *ret_n,
             struct err *err)
{
	struct vm_info *v;
	size_t n = 0;
	int r;

	mutex_lock(&m->lock);
	v = calloc(table_count(&m->vms, account) + 1, sizeof(*v));
	for (const struct vm *vm = table_first(&m->vms, account); v && vm; vm = table_next(vm))
		v[n++] = vm->shown;
	mutex_unlock(&m->lock);
	if (!v)
		return err_set(err, -ENOMEM, "list VMs: out of memory");
	r = elsewhere_append(m, account, &v, &n, err);
	if (r < 0) {
		free(v);
		return r;
	}
	for (size_t i = 0; i < n; i++)
		usage_until(&v[i], clock_wall_ms());
	qsort(v, n, sizeof(*v), vm_cmp_newest);
	*ret = v;
	*ret_n = n;
	return 0;
}

bool vmm_page(struct vmm *m, const char *account, const struct vm_page *p, struct vm_info **ret,
              size_t *ret_n, size_t ret_by_state[VM_STATE_MAX])
{
	const struct vm *vm;
	struct vm_info *v;
	size_t skip = p->offset, n;
	LOCK_SCOPE(&m->lock);

	n = table_count(&m->vms, account);
	n = n > skip ? MIN(n - skip, p->limit) : 0;
	if (elsewhere_any(m) || !(v = calloc(n ? n : 1, sizeof(*v))))
		return false;
	for (vm = table_last(&m->vms, account); vm && skip; vm = table_prev(vm))
		skip--;
	for (*ret_n = 0; vm && *ret_n < n; vm = table_prev(vm)) {
		v[*ret_n] = vm->shown;
		usage_until(&v[(*ret_n)++], clock_wall_ms());
	}
	memcpy(ret_by_state, table_tally(&m->vms, account)->by_state,
	       VM_STATE_MAX * sizeof(*ret_by_state));
	*ret = v;
	return true;
}

int vmm_list_deleted(struct vmm *m, const char *account, struct vm_tombstone **ret, size_t *ret_n,
                     struct err *err)
{
	return store_tombstone_list(m->store, account, ret, ret_n, err);
}
