/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recover.c - what the last server left: store, processes, slots and files are brought together
 *
 * Processes whose VM the store calls running are adopted with their memory; a
 * machine that stands still (the server died in a freeze) goes on. All other
 * processes are of VMs that were never acknowledged, or are suspended already,
 * and end. VMs without a process are stopped: their disk is there. Last, when
 * everybody's layers are known again, files that nobody names are removed. Nothing here asks a
 * guest: greet.c does.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/io.h"
#include "base/lock.h"
#include "net/gate.h"
#include "vm/elsewhere.h"
#include "vm/vm_internal.h"
#include "wire/priv.h"

#define ADOPT_THREADS 64 /* VMs taken up at once */

/* QEMU may have switched to a disk layer that was not saved any more. */
static int learn_disk_layer(struct vm *vm, struct err *err)
{
	struct store_layer l = { .kind = LAYER_DISK, .format = "qcow2" };
	char now[ID_SIZE];
	int r = machine_disk_layer(vm->machine, now, err);

	if (r < 0 || !strcmp(now, vm->row.disk_layer))
		return r;
	snprintf(l.id, sizeof(l.id), "%s", now);
	snprintf(l.parent, sizeof(l.parent), "%s", vm->row.disk_layer);
	snprintf(vm->row.disk_layer, ID_SIZE, "%s", now);
	vm->owed = l;
	return vm_save(vm, err);
}

static int adopt(struct vm *vm, const struct priv_vm *p, struct err *err)
{
	struct vmm *m = vm->m;
	struct proc proc = { .pid = p->proc.pid,
		             .pidfd = fcntl(p->proc.pidfd, F_DUPFD_CLOEXEC, 0) };
	int r;

	if (proc.pidfd < 0)
		return err_sys(err, -errno, "process %d", (int)p->proc.pid);
	r = machine_adopt(m->engine, p->vm_id, proc, vm->row.info.vcpus, vm->row.info.mem_mb,
	                  &vm->machine, err);
	if (r < 0)
		return r;
	if ((r = learn_disk_layer(vm, err)) < 0 ||
	    (r = machine_cont_if_stopped(vm->machine, err)) < 0)
		return r;
	if (p->slot >= 0) {
		r = privc_slot_adopt(m->priv, (uint32_t)p->slot, &vm->slot, err);
		if (r < 0)
			return r;
		vm->has_slot = true;
		vm->row.slot = p->slot;
	}
	reaper_add(vm);
	return vm->has_slot ? vm_open_network(vm, /* as_built= */ false, err) : 0;
}

/* Lets go of it; it runs on. */
static void adopt_undo(struct vm *vm)
{
	reaper_remove(vm);
	vm->machine = machine_free(vm->machine);
	if (!vm->has_slot)
		return;
	dns_remove(vm->m->dns, vm->slot.idx);
	gate_drop(vm->m->conf.gates, vm->slot.idx);
	if (vm->slot.dns_udp >= 0)
		close(TAKE_FD(vm->slot.dns_udp));
	if (vm->slot.dns_tcp >= 0)
		close(TAKE_FD(vm->slot.dns_tcp));
	vm->has_slot = false;
}

/* Its memory is all there is of it: one failure is not the end. */
static int adopt_twice(struct vm *vm, const struct priv_vm *p, struct err *err)
{
	int r = adopt(vm, p, err);

	if (r == 0 || !proc_alive(&p->proc))
		return r;
	vm_log(vm, LOG_LV_WARN, "was not adopted, trying again: %s", err->msg);
	adopt_undo(vm);
	return adopt(vm, p, err);
}

static void end_process(struct vmm *m, const struct priv_vm *p)
{
	struct err err = { 0 };

	if (privc_kill(m->priv, p->vm_id, &err) == 0)
		return;
	log_obj(LOG_LV_WARN, "machine", p->vm_id, "was not ended, tried again later: %s", err.msg);
	debt_add(m, p->vm_id, p->slot);
}

/* By what is published: other threads are at work on the rows of theirs. */
static struct vm *by_instance(struct vmm *m, const char *instance)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < m->vms.n; i++)
		if (!strcmp(m->vms.all[i]->shown.instance, instance) &&
		    m->vms.all[i]->shown.state == VM_RUNNING)
			return m->vms.all[i];
	return NULL;
}

static void settle_process(struct vmm *m, struct priv_vm *p)
{
	struct vm *vm = by_instance(m, p->vm_id);
	struct err e = { 0 };

	if (vm && adopt_twice(vm, p, &e) == 0) {
		vm_log(vm, LOG_LV_INFO, "adopted, running");
	} else if (vm) {
		vm_log(vm, LOG_LV_ERROR, "is running but cannot be adopted; ending it: %s", e.msg);
		adopt_undo(vm);
		end_process(m, p);
	} else {
		log_obj(LOG_LV_INFO, "machine", p->vm_id, "belongs to no VM; ending it");
		end_process(m, p);
	}
	proc_close(&p->proc);
}

/* Each process is settled by one thread; the table of VMs does not change meanwhile. */
struct settle_job {
	struct vmm *m;
	struct priv_vm *procs;
	size_t n, next;
	struct mutex lock;
};

static void *settle_worker(void *arg)
{
	struct settle_job *job = arg;

	for (;;) {
		struct priv_vm *p;

		mutex_lock(&job->lock);
		p = job->next < job->n ? &job->procs[job->next++] : NULL;
		mutex_unlock(&job->lock);
		if (!p)
			return NULL;
		settle_process(job->m, p);
	}
}

/* A QEMU that does not answer takes its whole deadline: many VMs are taken up at a time. */
static int settle_processes(struct vmm *m, struct err *err)
{
	autofree struct priv_vm *procs = NULL;
	struct settle_job job = { .m = m };
	pthread_t t[ADOPT_THREADS];
	unsigned n = 0;
	int r = privc_list(m->priv, &procs, &job.n, err);

	if (r < 0)
		return r;
	job.procs = procs;
	mutex_init(&job.lock, "vm recovery");
	while (n + 1 < MIN(job.n, ADOPT_THREADS) &&
	       pthread_create(&t[n], NULL, settle_worker, &job) == 0)
		n++;
	settle_worker(&job);
	while (n)
		pthread_join(t[--n], NULL);
	mutex_destroy(&job.lock);
	return 0;
}

static int settle_vms(struct vmm *m, struct err *err)
{
	int r = 0;

	mutex_unshared(&m->lock);
	for (size_t i = 0; r == 0 && i < m->vms.n; i++) {
		struct vm *vm = m->vms.all[i];
		struct store_vm *row = &vm->row;

		if (row->info.state == VM_LOST && (r = elsewhere_come_back(vm, err)) < 0)
			return r;
		if (row->info.state != VM_RUNNING || vm->machine)
			continue;
		vm_log(vm, LOG_LV_WARN, "its process has ended: stopped, the disk is kept");
		row->slot = -1;
		vm->exit_why = "crashed";
		r = vm_stop_locked(vm, /* ask= */ false, err);
	}
	return r;
}

static int free_slots(struct vmm *m, struct err *err)
{
	bool of_vm[PRIV_SLOTS_LIMIT] = { 0 };
	autofree uint32_t *taken = NULL;
	size_t n = 0;
	int r = privc_slots_taken(m->priv, &taken, &n, err);

	mutex_unshared(&m->lock);
	for (size_t i = 0; i < m->vms.n; i++) {
		const struct vm *vm = m->vms.all[i];

		if (vm->has_slot && vm->slot.idx < PRIV_SLOTS_LIMIT)
			of_vm[vm->slot.idx] = true;
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		bool used = taken[i] < PRIV_SLOTS_LIMIT && of_vm[taken[i]];

		for (size_t k = 0; k < m->n_debts && !used; k++)
			used = m->debts[k].slot == (int)taken[i];
		if (!used && privc_slot_free(m->priv, taken[i], NULL) < 0)
			debt_add(m, "", (int)taken[i]);
	}
	return r;
}

static int known(int r)
{
	return r == 0 ? 1 : r == -ENOENT ? 0 : r;
}

/* name without ".part" / ".state" is known to the store? 1, 0, or -errno: then nobody knows. */
static int file_known(struct vmm *m, const char *dir, const char *name, struct err *err)
{
	char id[64];
	struct store_layer l;
	struct store_point p;

	snprintf(id, sizeof(id), "%.40s", name);
	mutex_unshared(&m->lock);
	/* Only VMs that run have a directory, or a layer that the store has not heard of. */
	for (const struct vm *vm = m->watched; vm; vm = vm->watched_next)
		if (!strcmp(vm->owed.id, name) ||
		    (vm->machine && !strcmp(vm->row.info.instance, name)))
			return 1;
	if (!strcmp(dir, "layers"))
		return known(store_layer_get(m->store, id, &l, err));
	if (!strcmp(dir, "points")) {
		char *dot = strchr(id, '.');

		if (dot)
			*dot = '\0';
		return known(store_point_get(m->store, id, &p, err));
	}
	return 0;
}

static int remove_orphans(struct vmm *m, const char *dir, struct err *err)
{
	char path[512];
	autodir DIR *d = NULL;
	struct dirent *de;
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/%s", m->conf.data_dir, dir);
	d = opendir(path);
	if (!d)
		return err_sys(err, -errno, "open '%s'", path);
	while ((de = readdir(d))) {
		int r = de->d_name[0] == '.' ? 1 : file_known(m, dir, de->d_name, err);

		if (r < 0)
			return r;
		if (r)
			continue;
		if (io_remove_tree(dirfd(d), de->d_name, err) < 0)
			log_warn("%s, ignoring", err->msg);
		n++;
	}
	if (n)
		log_info("removed %u unreferenced files in '%s'", n, dir);
	return 0;
}

/* Builds do not outlive their server: nobody waits for them any more. */
static int drop_builds(struct vmm *m, struct err *err)
{
	mutex_unshared(&m->lock);
	for (size_t i = m->vms.n; i-- > 0;) {
		struct vm *vm = m->vms.all[i];
		int r;

		if (vm->row.info.state != VM_BUILDING)
			continue;
		vm_log(vm, LOG_LV_INFO, "was being built when the server stopped; removed");
		if ((r = store_vm_delete(m->store, vm->row.info.id, err)) < 0)
			return r;
		vmm_forget(m, vm);
	}
	return 0;
}

int vmm_recover(struct vmm *m, struct err *err)
{
	int r;

	if ((r = drop_builds(m, err)) < 0 || (r = settle_processes(m, err)) < 0 ||
	    (r = settle_vms(m, err)) < 0 || (r = free_slots(m, err)) < 0 ||
	    (r = remove_orphans(m, "layers", err)) < 0 ||
	    (r = remove_orphans(m, "points", err)) < 0 || (r = remove_orphans(m, "run", err)) < 0)
		return err_wrap(err, r, "recover");
	return 0;
}
