/* SPDX-License-Identifier: Apache-2.0 */
/* fake_life.c - the part of vm.h that resize.c, await.c and stats.c of api/vms call, in memory */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "tests/unit/fake_internal.h"

int vmm_list_deleted(struct vmm *m, const char *account, struct vm_tombstone **ret, size_t *ret_n,
                     struct err *err)
{
	LOCK_SCOPE(&m->lock);
	*ret = calloc(ROWS, sizeof(**ret));
	*ret_n = 0;
	for (size_t i = m->n_gone; i-- > 0;)
		if (strcmp(m->gone[i].info.account, account) == 0)
			(*ret)[(*ret_n)++] = m->gone[i];
	return 0;
}

/* Says what was asked for: "4 vCPUs, 2 GB, 40 GB"; 3 vCPUs are refused. */
int vmm_resize(struct vmm *m, const char *account, const char *id, const struct vm_size *want,
               struct vm_size_fault *ret_fault, struct err *err)
{
	struct vm_info *v;

	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, id, err);
	if (!v)
		return -ENOENT;
	*ret_fault = (struct vm_size_fault){ .got = want->vcpus, .min = 1, .max = 8 };
	if (want->vcpus == 3)
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_VCPU_NOT_POWER_OF_TWO, "no");
	if (want->vcpus == 64)
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_VCPU_OUT_OF_RANGE, "no");
	if (want->disk_gb == 1) {
		*ret_fault = (struct vm_size_fault){ .current_mb = 20480, .requested_mb = 1024 };
		return err_tag(err, -EINVAL, ERR_RESIZE_VM_ROOTFS_SHRINK_NOT_SUPPORTED, "no");
	}
	if (want->vcpus > 0)
		v->vcpus = (uint32_t)want->vcpus;
	if (want->mem_gb > 0)
		v->mem_mb = (uint32_t)(want->mem_gb * 1024);
	return 0;
}

int vmm_optimize(struct vmm *m, const char *account, const char *id, char *message, size_t size,
                 struct err *err)
{
	LOCK_SCOPE(&m->lock);
	if (!fake_find(m, account, id, err))
		return -ENOENT;
	snprintf(message, size, "nothing to do");
	return 0;
}

struct vm_wait {
	struct vmm *m;
	char account[ACCOUNT_SIZE], id[ID_SIZE];
};

int vmm_wait_new(struct vmm *m, const char *account, const char *id, struct vm_wait **ret,
                 struct err *err)
{
	LOCK_SCOPE(&m->lock);
	if (!fake_find(m, account, id, err))
		return -ENOENT;
	*ret = calloc(1, sizeof(**ret));
	(*ret)->m = m;
	snprintf((*ret)->account, ACCOUNT_SIZE, "%s", account);
	snprintf((*ret)->id, ID_SIZE, "%s", id);
	return 0;
}

/* Readable now and then: the reader looks again. */
int vmm_wait_fd(const struct vm_wait *w)
{
	return w->m->ticks;
}

int vmm_wait_over(struct vm_wait *w, char ret_status[VM_EXIT_MAX])
{
	struct vmm *m = w->m;
	struct vm_info *v;
	uint64_t n;

	(void)!read(m->ticks, &n, sizeof(n));
	LOCK_SCOPE(&m->lock);
	v = fake_find(m, w->account, w->id, NULL);
	if (v && v->state == VM_RUNNING)
		return 0;
	snprintf(ret_status, VM_EXIT_MAX, "%s", v ? vm_state_name(v->state) : "deleted");
	return 1;
}

struct vm_wait *vmm_wait_free(struct vm_wait *w)
{
	free(w);
	return NULL;
}

int vmm_sample(struct vmm *m, const char *account, const char *id, struct vm_sample *ret,
               struct err *err)
{
	struct vm_info *v;

	LOCK_SCOPE(&m->lock);
	v = fake_find(m, account, id, err);
	if (!v)
		return -ENOENT;
	v->now.cpu_s += 1;
	*ret = (struct vm_sample){ .state = v->state,
		                   .at_ms = clock_wall_ms(),
		                   .total = vm_usage_total(v),
		                   .mem_bytes = 1 << 20,
		                   .private_bytes = 1 << 10 };
	return 0;
}

void vmm_touch(struct vmm *m, const char *account, const char *id)
{
}
