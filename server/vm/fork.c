/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - live copies of a VM
 *
 * A running VM is frozen live (a few milliseconds), a suspended one has its
 * point already. Then every child is an ordinary thaw of that point, several
 * at a time. The children appear together in one transaction, or not at all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

#define FORK_THREADS 8 /* thaws at once */

struct child {
	struct vm *vm;
	struct bringup b;
	int result;
	struct err err;
};

struct fork_job {
	struct child *children;
	unsigned count, next;
	pthread_mutex_t lock;
};

static void *fork_worker(void *arg)
{
	struct fork_job *job = arg;

	for (;;) {
		struct child *c;

		pthread_mutex_lock(&job->lock);
		c = job->next < job->count ? &job->children[job->next++] : NULL;
		pthread_mutex_unlock(&job->lock);
		if (!c)
			return NULL;
		pthread_mutex_lock(&c->vm->lock);
		c->result = vm_bring_up(c->vm, &c->b, &c->err);
		pthread_mutex_unlock(&c->vm->lock);
	}
}

/* The point the children come from, held against collection. The parent is locked only for this. */
static int fork_point(struct vmm *m, const char *account, const char *id, unsigned count,
                      char ret_point[ID_SIZE], struct store_vm *ret_parent, struct vm_net *ret_net,
                      bool fresh_address, struct err *err)
{
	struct frozen f;
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	r = quota_check_vms(m, &vm->row.info, count, err);
	if (r == 0 && *vm->net.vpc && !fresh_address)
		r = err_tag(err, -EINVAL, "VPC_FORK_UNSUPPORTED",
		            "VM %s is in a VPC, and a copy cannot have the same address: say "
		            "\"vpc\": \"fresh-address\" to give each copy one of its own",
		            id);
	if (r < 0) {
		vm_unlock(vm);
		return r;
	}
	if (vm->row.info.state == VM_SUSPENDED) {
		snprintf(ret_point, ID_SIZE, "%s", vm->row.info.point);
		r = vmm_hold(m, ret_point, err);
	} else {
		r = vm_wake(vm, err);
		if (r == 0)
			r = vm_freeze_live(vm, /* durable= */ false, &f, err);
		if (r == 0)
			snprintf(ret_point, ID_SIZE, "%s", f.point);
	}
	*ret_parent = vm->row;
	if (r == 0)
		r = vm_net_share(ret_net, &vm->net, err);
	vm_unlock(vm);
	return r;
}

static int make_children(struct vmm *m, const struct store_vm *parent, const struct vm_net *net,
                         const struct engine_point *p, const struct vm_persistence *persistence,
                         struct fork_job *job, struct err *err)
{
	autofree struct vm **all = calloc(job->count, sizeof(*all));
	int r;

	if (!all)
		return err_set(err, -ENOMEM, "fork: out of memory");
	for (unsigned i = 0; i < job->count; i++) {
		struct child *c = &job->children[i];
		struct store_vm row = *parent;

		id_make("", row.info.id);
		row.info.state = VM_STARTING;
		row.info.created_ms = clock_wall_ms();
		row.info.past = row.info.now = row.info.ahead = (struct vm_usage){ 0 };
		row.info.machine_ms = row.info.used_ms = row.info.last_network_ms = 0;
		row.info.instance[0] = '\0';
		row.info.point[0] = '\0';
		row.info.recreate = false; /* it was not made from anything that could be kept */
		row.origin[0] = '\0';
		row.slot = -1;
		if (persistence)
			row.info.persistence = *persistence;
		snprintf(row.info.parent_id, ID_SIZE, "%s", parent->info.id);
		snprintf(row.base_point, ID_SIZE, "%s", p->id);
		snprintf(row.head, ID_SIZE, "%s", p->id);
		snprintf(row.base_mem, ID_SIZE, "%s", p->mem.n ? p->mem.l[p->mem.n - 1].id : "");
		snprintf(row.disk_layer, ID_SIZE, "%s",
		         p->disk.n ? p->disk.l[p->disk.n - 1].id : "");
		c->b = (struct bringup){ .point = p,
			                 .reason = GUEST_THAW,
			                 .agent_ms = m->t.agent_thaw };
		c->result = -ECANCELED;
		c->vm = all[i] = vm_new(m, &row);
		if (!c->vm)
			return err_set(err, -ENOMEM, "fork: out of memory");
		if ((r = vm_net_fork(c->vm, net, err)) < 0)
			return r;
	}
	return quota_insert(m, all, job->count, err);
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

static int save_children(struct fork_job *job, struct err *err)
{
	autofree struct vm **vms = calloc(job->count, sizeof(*vms));
	autofree struct store_layer *layers = calloc(job->count, sizeof(*layers));

	if (!vms || !layers)
		return err_set(err, -ENOMEM, "fork: out of memory");
	for (unsigned i = 0; i < job->count; i++) {
		if (job->children[i].result < 0) {
			*err = job->children[i].err;
			return job->children[i].result;
		}
		vms[i] = job->children[i].vm;
		layers[i] = job->children[i].b.layer;
	}
	return vm_add_running(vms, layers, job->count, err);
}

int vmm_fork(struct vmm *m, const char *account, const char *id, unsigned count,
             const struct vm_fork_opts *o, struct vm_info **ret, struct err *err)
{
	uint64_t t0 = clock_ms();
	char point[ID_SIZE];
	struct store_vm parent;
	AUTO(vm_net_done) struct vm_net net = { 0 };
	struct engine_point p;
	struct fork_job job = { .count = count };
	struct vm_info *infos = NULL;
	bool taken = false;
	int r;

	if (count < 1 || count > VM_FORK_MAX)
		return err_tag(err, -EINVAL, "INVALID_PARAMETERS",
		               "fork of %u: allowed are 1 to %d", count, VM_FORK_MAX);
	if ((r = vmm_need_memory(m, count, err)) < 0 || (r = vmm_need_room(m, err)) < 0 ||
	    (r = fork_point(m, account, id, count, point, &parent, &net, o->fresh_address, err)) <
	            0)
		return err_wrap(err, "fork VM %s", id);
	pthread_mutex_init(&job.lock, NULL);
	job.children = calloc(count, sizeof(*job.children));
	infos = calloc(count, sizeof(*infos));
	r = job.children && infos ? 0 : err_set(err, -ENOMEM, "fork: out of memory");
	if (r == 0)
		r = point_take(m, point, &p, err);
	taken = r == 0;
	if (r == 0)
		r = make_children(m, &parent, &net, &p, o->persistence, &job, err);
	if (r == 0) {
		run_job(&job);
		r = save_children(&job, err);
	}
	for (unsigned i = 0; job.children && i < count; i++) {
		struct child *c = &job.children[i];

		if (!c->vm)
			continue;
		if (r == 0) {
			vm_copy_info(c->vm, &infos[i]);
		} else {
			pthread_mutex_lock(&c->vm->lock);
			c->vm->gone = true;
			if (c->result == 0)
				vm_bring_up_undo(c->vm, &c->b);
			vm_net_undo(c->vm);
			pthread_mutex_unlock(&c->vm->lock);
			vmm_forget(m, c->vm);
		}
		vm_unref(c->vm);
	}
	free(job.children);
	pthread_mutex_destroy(&job.lock);
	if (taken)
		point_drop(m, &p);
	vmm_release(m, point);
	vmm_collect_soon(m);
	if (r < 0) {
		point_fault(err, "CORRUPT_VM_RECORD");
		free(infos);
		return err_wrap(err, "fork VM %s", id);
	}
	for (unsigned i = 0; i < count; i++) {
		vmm_tell(m, account, id, EVENT_INFO, "forked to %s", infos[i].id);
		vmm_tell(m, account, infos[i].id, EVENT_INFO, "forked from %s", id);
	}
	log_obj(LOG_LV_INFO, "vm", id, "forked %u times in %llu ms", count,
	        (unsigned long long)(clock_ms() - t0));
	*ret = infos;
	return 0;
}
