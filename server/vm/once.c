/* SPDX-License-Identifier: Apache-2.0 */
/* once.c - a VM for one use, deleted when that is over */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/log.h"
#include "guest/guest.h"
#include "vm/vm.h"

struct vm_once {
	struct vmm *m; /* weak */
	char account[ACCOUNT_SIZE], id[ID_SIZE];
};

struct vm_once *vm_once_free(struct vm_once *o)
{
	struct err err = { 0 };

	if (o && *o->id && vmm_delete(o->m, o->account, o->id, NULL, &err) < 0)
		log_obj(LOG_LV_WARN, "vm", o->id, "created for one use, cannot be deleted: %s",
		        err.msg);
	free(o);
	return NULL;
}

static void vm_once_freep(struct vm_once **o)
{
	vm_once_free(*o);
}

int vmm_create_once(struct vmm *m, const char *account, struct vm_once **ret,
                    struct guest **ret_guest, struct err *err)
{
	struct vm_create_opts c = { .account = account,
		                    .idle_timeout_s = -1,
		                    .count_exec = true,
		                    .persistence = { .type = PERSIST_EPHEMERAL,
		                                     .delete_event = DELETE_ON_SUSPEND } };
	AUTO(vm_once_freep) struct vm_once *o = calloc(1, sizeof(*o));
	struct vm_info v;
	int r;

	if (!o)
		return err_set(err, -ENOMEM, "out of memory");
	o->m = m;
	snprintf(o->account, sizeof(o->account), "%s", account);
	if ((r = vmm_create(m, &c, &v, err)) < 0)
		return r;
	snprintf(o->id, sizeof(o->id), "%s", v.id);
	if ((r = vmm_guest(m, account, o->id, ret_guest, err)) < 0)
		return r;
	*ret = TAKE_PTR(o);
	return 0;
}
