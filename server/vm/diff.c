/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff.c - what differs between two relatives
 *
 * A running VM is looked at where it runs. Anything at rest, a suspended VM or a snapshot, is
 * thawed out of sight (hidden.c) and ended afterwards: a user's VM is never woken by being
 * compared. A stopped VM has no memory to thaw and would have to boot, which changes its files: it
 * is refused.
 */
#include "vm/diff.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

struct party {
	char id[ID_SIZE];
	char point[ID_SIZE]; /* to be thawed, held; "": it runs */
	char head[ID_SIZE];  /* where its line begins */
	struct guest *g;     /* ref'd */
	struct hidden *h;
	bool held;
};

static const char *const change_names[] = {
	[CHANGE_ADDED] = "added",
	[CHANGE_REMOVED] = "removed",
	[CHANGE_MODIFIED] = "modified",
	[CHANGE_TYPE] = "type",
};
_Static_assert(ARRAY_SIZE(change_names) == CHANGE_MAX, "change_names misses a kind");

const char *change_name(enum change_kind k)
{
	return change_names[k];
}

static int party_of_vm(struct vmm *m, const char *account, struct party *p, struct err *err)
{
	struct vm *vm;
	int r = vmm_lock(m, account, p->id, &vm, err);

	if (r < 0)
		return r;
	snprintf(p->head, ID_SIZE, "%s", vm->row.head);
	switch (vm->row.info.state) {
	case VM_RUNNING:
		if (!vm->guest || !guest_alive(vm->guest))
			r = vm_reconnect(vm, err);
		if (r == 0)
			p->g = guest_ref(vm->guest);
		break;
	case VM_SUSPENDED:
		snprintf(p->point, ID_SIZE, "%s", vm->row.info.point);
		break;
	default:
		r = err_tag(err, -EINVAL, ERR_VM_NOT_RUNNING,
		            "VM %s is %s: start it, its files cannot be compared while it has no "
		            "memory",
		            p->id, vm_state_name(vm->row.info.state));
	}
	if (r == 0 && *p->point)
		p->held = (r = vmm_point_hold(m, p->point, err)) == 0;
	vm_unlock(vm);
	return r;
}

static int party_of_snapshot(struct vmm *m, const char *account, struct party *p, struct err *err)
{
	int r = snapshot_point(m, account, p->id, p->point, NULL, err);

	snprintf(p->head, ID_SIZE, "%s", r < 0 ? "" : p->point);
	if (r == 0)
		p->held = (r = vmm_point_hold(m, p->point, err)) == 0;
	return r;
}

static int party_find(struct vmm *m, const char *account, const char *id, struct party *p,
                      struct err *err)
{
	snprintf(p->id, sizeof(p->id), "%s", id);
	return id_valid("sc-", id) ? party_of_snapshot(m, account, p, err)
	                           : party_of_vm(m, account, p, err);
}

static int party_open(struct vmm *m, struct party *p, struct err *err)
{
	int r;

	if (p->g)
		return 0;
	r = hidden_thaw(m, p->point, &p->h, err);
	if (r == 0)
		p->g = guest_ref(hidden_guest(p->h));
	return r;
}

static void party_close(struct vmm *m, struct party *p)
{
	guest_unref(p->g);
	hidden_end(p->h);
	if (p->held)
		vmm_release(m, p->point);
}

/* When the two were last one. */
static int common_time(struct vmm *m, const struct party p[2], int64_t *ret, struct err *err)
{
	autofree struct store_line *a = NULL, *b = NULL;
	size_t na = 0, nb = 0;
	int r = store_point_line(m->store, p[0].head, &a, &na, err);

	if (r == 0)
		r = store_point_line(m->store, p[1].head, &b, &nb, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < na; i++)
		for (size_t k = 0; k < nb; k++)
			if (!strcmp(a[i].id, b[k].id)) {
				*ret = a[i].created_ms;
				return 0;
			}
	return err_tag(
	        err, -EINVAL, ERR_INVALID_PARAMETERS,
	        "%s and %s have no common ancestor: only related VMs and snapshots can be compared",
	        p[0].id, p[1].id);
}

int vmm_diff(struct vmm *m, const char *account, const char *id, const struct vm_diff_opts *o,
             struct vm_diff *ret, struct err *err)
{
	struct diff_in in = { .walk = { .root = o->root,
		                        .after = o->after,
		                        .ignore = o->ignore,
		                        .n_ignore = o->n_ignore },
		              .limit = o->limit };
	struct party p[2] = { 0 };
	uint64_t t0 = clock_ms();
	int r = 0;

	if (!strcmp(id, o->with))
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "'with' is the VM itself: name another VM or a snapshot");
	/* No lock is held from one to the other: there may be two calls the other way round. */
	if ((r = party_find(m, account, id, &p[0], err)) == 0 &&
	    (r = party_find(m, account, o->with, &p[1], err)) == 0)
		r = common_time(m, p, &in.ancestor_ms, err);
	for (int i = 0; i < 2 && r == 0; i++) {
		r = party_open(m, &p[i], err);
		in.g[i] = p[i].g;
	}
	in.soft_ms = deadline_in(m->t.diff_soft);
	in.deadline_ms = deadline_in(m->t.diff_hard);
	if (r == 0)
		r = diff_merge(&in, ret, err);
	for (int i = 0; i < 2; i++)
		party_close(m, &p[i]);
	vmm_collect_soon(m);
	if (r < 0)
		return err_wrap(err, r, "compare %s with %s", id, o->with);
	log_obj(LOG_LV_DEBUG, "vm", id, "compared with %s in %llu ms: %zu changes%s", o->with,
	        (unsigned long long)(clock_ms() - t0), ret->n, ret->cursor ? " and more" : "");
	return 0;
}
