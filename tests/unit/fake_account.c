/* SPDX-License-Identifier: Apache-2.0 */
/* fake_account.c - the part of vm.h that is about accounts, over the fake's VMs and a real store */
#include "tests/unit/fake_account.h"

#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "store/store.h"
#include "store/store_account.h"
#include "vm/vm.h"

static struct store *fake_store; /* one test, one store */

void fake_account_store(struct store *s)
{
	fake_store = s;
}

int vmm_usage(struct vmm *m, const char *account, struct vm_quota *ret, struct err *err)
{
	autofree struct snapshot_info *n = NULL;
	autofree struct vm_info *v = NULL;
	size_t n_vms = 0, n_snaps = 0;

	vmm_list(m, account, &v, &n_vms, err);
	vmm_snapshot_list(m, account, /* include_deleted= */ false, &n, &n_snaps, err);
	*ret = (struct vm_quota){ .vms = (int64_t)n_vms, .snapshots = (int64_t)n_snaps };
	return 0;
}

int vmm_limits(struct vmm *m, const char *account, struct vm_quota *ret, struct err *err)
{
	struct store_account a;
	int r = store_account_get(fake_store, account, &a, err);

	if (r < 0)
		return r;
	*ret = a.quota;
	return 0;
}

int vmm_account_delete(struct vmm *m, const char *account, struct err *err)
{
	struct vm_quota q;

	vmm_usage(m, account, &q, err);
	if (q.vms || q.snapshots)
		return err_tag(err, -EBUSY, ERR_CONFLICT, "delete its VMs first");
	return store_account_delete(fake_store, account, err);
}
