/* SPDX-License-Identifier: Apache-2.0 */
/* once_seed.c - every call fails once: what the rows need whose VMs are forked from a seed */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/check.h"
#include "tests/vm/once.h"
#include "vm/vm_internal.h"

#define M(o) ((o)->r->vmm)
#define SEED_MS 20000
#define SIZE_USES 10 /* until its seed is there */

static bool is_forked(struct once *o, const char *id)
{
	struct fake_machine fm;
	struct vm_info i;

	OK(vmm_get(M(o), RIG_ACCOUNT, id, &i, &err));
	return fake_find(o->r->fake, i.instance, &fm) && *fm.forked_of;
}

/* A VM is forked where nothing fails, or the row would say nothing. */
void once_make_forked(struct once *o)
{
	rig_seeded(o->r);
	OK(rig_create(o->r, NULL, &o->vm, &err));
	if (!is_forked(o, o->vm.id))
		fail_msg("the VM was not forked");
}

void once_be_seeded(struct once *o)
{
	rig_seeded(o->r);
}

/* The seed has died: the VM is thawed, and then there is another seed. */
int once_create_reseed(struct once *o, struct err *e)
{
	char instance[ID_SIZE] = "";
	int r;

	mutex_lock(&M(o)->lock);
	for (size_t i = 0; i < SEEDS_MAX; i++)
		if (M(o)->seeds[i].vm)
			snprintf(instance, sizeof(instance), "%s",
			         M(o)->seeds[i].vm->row.info.instance);
	mutex_unlock(&M(o)->lock);
	fake_die(o->r->fake, instance);
	r = rig_create(o->r, NULL, &o->made, e);
	rig_settle(o->r);
	return r;
}

int once_create_sized(struct once *o, struct err *e)
{
	return vmm_create(
	        M(o),
	        &(struct vm_create_opts){
	                .account = RIG_ACCOUNT, .vcpus = 2, .mem_mb = 1024, .idle_timeout_s = -1 },
	        &o->made, e);
}

/* Waits for it for a while: it comes in a quiet moment. */
static bool two_seeds(struct vmm *m, uint64_t until)
{
	struct vmm_status st = { 0 };
	LOCK_SCOPE(&m->lock);

	do {
		st.seeds = 0;
		seed_status(m, &st);
	} while (st.seeds < 2 && cond_wait_until(&m->cond, &m->lock, until));
	return st.seeds >= 2;
}

void once_seed_size(struct once *o)
{
	rig_seeded(o->r);
	for (int i = 0; i < SIZE_USES; i++) { /* a failed attempt is not the last one */
		OK(once_create_sized(o, &err));
		OK(vmm_delete(M(o), RIG_ACCOUNT, o->made.id, NULL, &err));
		if (two_seeds(M(o), deadline_in(SEED_MS / SIZE_USES)))
			break;
	}
	rig_settle(o->r);
	OK(once_create_sized(o, &err));
	if (!is_forked(o, o->made.id))
		fail_msg("the size has no seed: its VM was not forked");
	OK(vmm_delete(M(o), RIG_ACCOUNT, o->made.id, NULL, &err));
}
