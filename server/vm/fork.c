/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - live copies of a VM
 *
 * A running VM is frozen live (a few milliseconds), a suspended one has its
 * point already. Then every child is an ordinary thaw of that point, several
 * at a time. The order is that of create: the children's quota is held, they are brought
 * up where nobody sees them, their rows are written in one transaction, and only then
 * they are in the table, all of them or none. A child whose machine is lost on
 * the way is made once more.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/lock.h"
#include "metrics/metrics.h"
#include "store/store_note.h"
#include "vm/elsewhere.h"
#include "vm/stored.h"
#include "vm/vm_internal.h"

#define FORK_THREADS 8     /* thaws at once */
#define TRIES 2            /* of a child whose machine is lost */
#define NAMES_WINDOW 2048u /* numbers that are looked at together */

struct child {
	struct vm *vm; /* owned */
	struct bringup b;
	unsigned number; /* in its name; 0: it has none */
	unsigned tries;
	bool up;
	const char *node; /* that is to have it; "": this one */
	int result;
	struct err err;
};

struct fork_job {
	struct vmm *m;
	const char *parent_id;
	struct store_vm parent;
	struct vm_net net; /* the parent's */
	char point[ID_SIZE];
	bool held; /* the point */
	struct engine_point p;
	bool taken; /* p's layers */
	struct child *children;
	struct vm **vms;          /* theirs, in order; weak */
	struct vm **here;         /* those that this node brings up; weak */
	struct vm_spread *spread; /* or NULL */
	unsigned count, n_here, next;
	struct mutex lock;
};

/* Its process went, by itself or by someone's hand; nothing says that the next one would. */
static bool was_lost(const struct child *c)
{
	return !c->err.tag && (c->result == -EPIPE || c->result == -ECONNRESET ||
	                       c->result == -ECONNREFUSED || c->result == -ENOENT);
}

/* In no table: nobody else can lock it, so we need not either. */
static void bring_up(struct child *c)
{
	do {
		c->err = (struct err){ 0 };
		c->result = vm_bring_up(c->vm, &c->b, &c->err);
		c->up = c->result == 0;
	} while (!c->up && was_lost(c) && ++c->tries < TRIES);
}

static void *fork_worker(void *arg)
{
	struct fork_job *job = arg;

	for (;;) {
		struct child *c;

		mutex_lock(&job->lock);
		c = job->next < job->count ? &job->children[job->next++] : NULL;
		mutex_unlock(&job->lock);
		if (!c)
			return NULL;
		if (!*c->node)
			bring_up(c);
	}
}

static bool is_spread(const struct fork_job *job)
{
	return job->spread && job->spread->elsewhere;
}

static int freeze_parent(struct vm *vm, struct fork_job *job, struct err *err)
{
	struct frozen f;
	int r;

	if (vm->row.info.state == VM_SUSPENDED) {
		snprintf(job->point, ID_SIZE, "%s", vm->row.info.point);
		return vmm_point_hold(vm->m, job->point, err);
	}
	r = vm_wake(vm, err);
	if (r == 0)
		r = vm_freeze_live(vm, /* durable= */ is_spread(job), &f, err);
	if (r == 0)
		snprintf(job->point, ID_SIZE, "%s", f.point);
	return r;
}

static void fork_name(const struct fork_job *job, unsigned number, char ret[VM_NAME_MAX])
{
	char tail[16];
	int n = snprintf(tail, sizeof(tail), "-%u", number);

	snprintf(ret, VM_NAME_MAX, "%.*s%s", VM_NAME_MAX - 1 - n, job->parent.info.name, tail);
}

/* Which of the NAMES_WINDOW numbers after that one are in names of the account's VMs: one look at
 * each VM, however many forks there are. */
static void find_taken(struct fork_job *job, unsigned after, bool ret[NAMES_WINDOW])
        REQUIRES(&job->m->lock)
{
	memset(ret, 0, NAMES_WINDOW * sizeof(*ret));
	for (const struct vm *vm = table_first(&job->m->vms, job->parent.info.account); vm;
	     vm = table_next(vm)) {
		const char *dash = strrchr(vm->shown.name, '-');
		unsigned long n = dash ? strtoul(dash + 1, NULL, 10) : 0;
		char name[VM_NAME_MAX];

		if (n <= after || n > (unsigned long)after + NAMES_WINDOW)
			continue;
		fork_name(job, (unsigned)n, name);
		ret[n - after - 1] |= !strcmp(vm->shown.name, name);
	}
}

/* Names that no VM of the account has and no other fork of the parent gets; its lock held. */
static void pick_names(struct fork_job *job, struct vm *parent)
{
	bool taken[NAMES_WINDOW];
	unsigned after = parent->forked;
	LOCK_SCOPE(&job->m->lock);

	if (!*job->parent.info.name)
		return;
	find_taken(job, after, taken);
	for (unsigned i = 0; i < job->count;) {
		if (parent->forked == after + NAMES_WINDOW) {
			after = parent->forked;
			find_taken(job, after, taken);
		}
		if (!taken[parent->forked++ - after])
			job->children[i++].number = parent->forked;
	}
}

/* The point the children come from, held against collection. The parent is locked only for this. */
static int fork_point(struct fork_job *job, const char *account, bool fresh_address,
                      struct err *err)
{
	struct vm *vm;
	int r = vmm_lock(job->m, account, job->parent_id, &vm, err);

	if (r < 0)
		return r;
	r = quota_check_vms(job->m, &vm->row.info, job->count, err);
	if (r == 0 && *vm->net.vpc && !fresh_address)
		r = err_tag(err, -EINVAL, ERR_VPC_FORK_UNSUPPORTED,
		            "VM %s is in a VPC, and a copy cannot have the same address: use "
		            "\"vpc\": \"fresh-address\" to give each copy its own",
		            job->parent_id);
	if (r == 0 && *vm->net.vpc && is_spread(job))
		spread_none(job->spread, "it is in a VPC, whose addresses are its node's");
	if (r == 0) {
		r = freeze_parent(vm, job, err);
		job->held = r == 0;
	}
	job->parent = vm->row;
	if (r == 0)
		pick_names(job, vm);
	if (r == 0)
		r = vm_net_share(&job->net, &vm->net, err);
	vm_unlock(vm);
	return r;
}

/* index: 1 to count */
static void child_row(const struct fork_job *job, const struct vm_fork_opts *o, unsigned index,
                      struct store_vm *row)
{
	unsigned number = job->children[index - 1].number;
	const struct vm_persistence *persistence = o->persistence;
	const struct engine_point *p = &job->p;

	*row = job->parent;
	id_make("", row->info.id);
	row->info.state = VM_STARTING;
	row->info.created_ms = clock_wall_ms();
	row->info.past = row->info.now = row->info.ahead = (struct vm_usage){ 0 };
	row->info.machine_ms = row->info.used_ms = row->info.last_network_ms = 0;
	row->info.instance[0] = '\0';
	row->info.point[0] = '\0';
	row->info.recreate = false; /* it was not made from anything that could be kept */
	row->origin[0] = row->checkpoint[0] = row->checkpoint_before[0] = '\0';
	row->slot = -1;
	if (persistence)
		row->info.persistence = *persistence;
	if (o->delete_after_s)
		row->info.delete_at_ms = vm_delete_at(o->delete_after_s);
	if (number)
		fork_name(job, number, row->info.name);
	row->info.self = row->info.self & VM_SELF_INHERIT && !o->no_self
	                         ? row->info.self & (VM_SELF_VERBS | VM_SELF_INHERIT)
	                         : 0;
	row->info.self |= o->by_itself ? VM_SELF_CHILD : 0;
	row->info.fork_index = index;
	row->info.fork_count = job->count;
	snprintf(row->info.parent_id, ID_SIZE, "%s", job->parent.info.id);
	snprintf(row->base_point, ID_SIZE, "%s", p->id);
	snprintf(row->head, ID_SIZE, "%s", p->id);
	snprintf(row->base_mem, ID_SIZE, "%s", p->mem.n ? p->mem.l[p->mem.n - 1].id : "");
	snprintf(row->disk_layer, ID_SIZE, "%s", p->disk.n ? p->disk.l[p->disk.n - 1].id : "");
}

static int make_children(struct fork_job *job, const struct vm_fork_opts *o, struct err *err)
{
	struct vmm *m = job->m;
	int r;

	for (unsigned i = 0; i < job->count; i++) {
		struct child *c = &job->children[i];
		struct store_vm row;

		child_row(job, o, i + 1, &row);
		c->b = (struct bringup){ .point = &job->p,
			                 .reason = GUEST_THAW,
			                 .agent_ms = m->t.agent_thaw,
			                 .event = AGENT_EVENT_FORKED,
			                 .call = o->call };
		c->result = -ECANCELED;
		c->node = job->spread ? job->spread->node[i] : "";
		c->vm = job->vms[i] = vm_new(m, &row);
		if (!c->vm)
			return err_set(err, -ENOMEM, "out of memory");
		if (*c->node)
			spread_row(&c->vm->row, job->p.id, c->node);
		else
			job->here[job->n_here++] = c->vm;
	}
	r = quota_hold_vms(m, job->vms, job->count, err);
	for (unsigned i = 0; r == 0 && i < job->count; i++)
		r = vm_net_fork(job->vms[i], &job->net, err);
	return r;
}

static void run_job(struct fork_job *job)
{
	pthread_t t[FORK_THREADS];
	unsigned n = 0;

	while (n + 1 < MIN(job->count, FORK_THREADS) &&
	       pthread_create(&t[n], NULL, fork_worker, job) == 0)
		n++;
	fork_worker(job);
	while (n)
		pthread_join(t[--n], NULL);
}

/* Every one of them runs at this moment, or none is kept. */
static int all_up(struct fork_job *job, struct err *err)
{
	for (unsigned i = 0; i < job->count; i++) {
		struct child *c = &job->children[i];

		if (*c->node)
			continue;
		if (c->up && !machine_alive(c->vm->machine)) {
			vm_bring_up_undo(c->vm, &c->b);
			c->up = false;
			c->result = err_set(&c->err, -ECONNRESET, "its machine ended");
			if (++c->tries < TRIES)
				bring_up(c);
		}
		if (!c->up) {
			if (err)
				*err = c->err;
			return c->result;
		}
	}
	return 0;
}

/* In the store, then in the table: whoever finds one finds all of it. */
static int save_children(struct fork_job *job, struct err *err)
{
	autofree struct store_layer *layers = calloc(job->count, sizeof(*layers));
	autofree struct store_vm *rest = calloc(job->count, sizeof(*rest));
	AUTO(store_note_done) struct store_note note = { 0 };
	size_t n_layers = 0, n_rest = 0;
	struct err undo = { 0 };
	int r, noted;

	if (!layers || !rest)
		return err_set(err, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < job->count; i++) {
		const struct child *c = &job->children[i];

		if (*c->node)
			rest[n_rest++] = c->vm->row;
		else
			layers[n_layers++] = c->b.layer;
	}
	/* What is written on the parent holds for its copies. */
	noted = store_note_get(job->m->store, job->parent_id, &note, err);
	if (noted < 0)
		return noted;
	r = vm_add_forks(job->m, job->here, layers, job->n_here, rest, n_rest, noted ? &note : NULL,
	                 err);
	if (r < 0)
		return r;
	/* Before they are in the table: from then on each may be killed, and its machine be gone.
	 */
	for (unsigned i = 0; i < job->n_here; i++)
		reaper_add(job->here[i]);
	for (unsigned i = 0; i < job->count; i++)
		if (*job->children[i].node) /* its row counts from now on */
			quota_release(job->m, job->vms[i]->row.info.id);
	r = job->n_here ? quota_insert(job->m, job->here, job->n_here, err) : 0;
	for (unsigned i = 0; r < 0 && i < job->n_here; i++) {
		struct vm *vm = job->here[i];

		LOCK_SCOPE(&vm->lock); /* it may have been in the table for a moment */
		if (!vm->gone && vm_delete_locked(vm, /* reason= */ NULL, &undo) < 0)
			vm_log(vm, LOG_LV_ERROR, "was not removed: %s", undo.msg);
	}
	reaper_wake(job->m); /* it looks only at those in the table */
	return r;
}

static void drop_child(struct fork_job *job, struct child *c)
{
	LOCK_SCOPE(&c->vm->lock);

	if (!c->vm->gone) {
		c->vm->gone = true;
		if (c->up)
			vm_bring_up_undo(c->vm, &c->b);
		vm_net_undo(c->vm);
	}
	quota_release(job->m, c->vm->row.info.id);
}

/* What is said when it was nobody's quota, no damage and no full disk. */
static void tag_failure(int r, struct err *err)
{
	if (!err || r == -ENOSPC || r == -EDQUOT)
		return;
	point_fault(err, ERR_CORRUPT_VM_RECORD);
	if (!err->tag)
		err->tag = ERR_FORK_FAILED;
}

static int fork_children(struct fork_job *job, const struct vm_fork_opts *o, struct vm_info *infos,
                         struct err *err)
{
	int r = point_take(job->m, job->point, &job->p, err);

	job->taken = r == 0;
	if (r == 0 && is_spread(job))
		r = upload_point(job->m, &job->p, err);
	if (r == 0)
		r = make_children(job, o, err);
	if (r == 0) {
		run_job(job);
		r = all_up(job, err);
	}
	if (r == 0)
		r = save_children(job, err);
	for (unsigned i = 0; i < job->count; i++) {
		struct child *c = &job->children[i];

		if (!c->vm)
			continue;
		if (r == 0 && *c->node)
			infos[i] = c->vm->row.info;
		else if (r == 0)
			vm_copy_info(c->vm, &infos[i]);
		else
			drop_child(job, c);
		vm_unref(c->vm);
	}
	if (r < 0)
		tag_failure(r, err);
	return r;
}

static void say_forked(const struct fork_job *job, const char *account, const struct vm_info *infos)
{
	for (unsigned i = 0; i < job->count; i++) {
		vmm_tell(job->m, account, job->parent_id, EVENT_INFO, "forked to %s", infos[i].id);
		vmm_tell(job->m, account, infos[i].id, EVENT_INFO, "forked from %s",
		         job->parent_id);
	}
}

int vmm_fork(struct vmm *m, const char *account, const char *id, unsigned count,
             const struct vm_fork_opts *o, struct vm_info **ret, struct err *err)
{
	uint64_t t0 = clock_us();
	struct fork_job job = { .m = m, .parent_id = id, .count = count, .spread = o->spread };
	autofree struct vm_info *infos = NULL;
	autofree struct child *children = NULL;
	autofree struct vm **vms = NULL, **here = NULL;
	int r;

	if ((r = drain_check(m, err)) < 0)
		return r;
	if (count < 1 || count > VM_FORK_MAX)
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "fork of %u: allowed are 1 to %d", count, VM_FORK_MAX);
	infos = calloc(count, sizeof(*infos));
	job.children = children = calloc(count, sizeof(*children));
	job.vms = vms = calloc(count, sizeof(struct vm *));
	job.here = here = calloc(count, sizeof(struct vm *));
	if (!infos || !children || !vms || !here)
		return err_set(err, -ENOMEM, "fork VM %s: out of memory", id);
	mutex_init(&job.lock, "vm: children of a fork");
	if (o->spread)
		spread_plan(m, account, id, count, o->spread);
	if ((r = vmm_need_memory(m, count - (o->spread ? o->spread->elsewhere : 0), err)) == 0 &&
	    (r = vmm_need_room(m, err)) == 0 &&
	    (r = fork_point(&job, account, o->fresh_address, err)) == 0)
		r = fork_children(&job, o, infos, err);
	mutex_destroy(&job.lock);
	if (job.taken)
		point_drop(m, &job.p);
	if (job.held)
		vmm_release(m, job.point);
	vm_net_done(&job.net);
	vmm_collect_soon(m);
	if (r < 0) {
		metrics_add(METRIC_VM_FAILURES, LABEL_OP_FORK, 1);
		return err_wrap(err, r, "fork VM %s", id);
	}
	metrics_since(METRIC_VM_FORK, 0, t0);
	metrics_add(METRIC_VM_FORK_COPIES, 0, count);
	say_forked(&job, account, infos);
	log_obj(LOG_LV_INFO, "vm", id, "forked %u times in %llu ms", count,
	        (unsigned long long)(clock_us() - t0) / 1000);
	*ret = TAKE_PTR(infos);
	return 0;
}
