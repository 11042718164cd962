/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/op_vm.c - operations on jailed QEMU processes
 *
 * A kill is answered when the process is gone, not when the signal was sent:
 * the request waits in the VM's entry. Stats are read by the worker, because the
 * kernel walks all of a VM's memory to produce them. Both are answered out of order.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "priv/priv.h"
#include "priv/records.h"
#include "priv/slot.h"
#include "priv/spawn.h"
#include "priv/vms.h"
#include "priv/worker.h"

/*
 * On cgroup v1, moving a process blocks every fork and thread start on the
 * host for tens of milliseconds: so it is not done while a VM starts, and then for several at once.
 */
#define ATTACH_AFTER_MS 1000

/* ---- spawn ---- */

struct record_ctx {
	struct priv *p;
	struct vm *vm;
};

int op_record(struct priv *p, const struct vm *vm, const struct proc *proc, struct err *err)
{
	struct record rec = {
		.pid = proc->pid, .uid = vm->uid, .slot = vm->slot, .limits = vm->limits
	};
	int r = proc_start_time(proc->pid, &rec.start);

	if (r < 0)
		return err_sys(err, r, "start time of process %d", (int)proc->pid);
	return record_write(&p->in, vm->id, &rec, err);
}

static int on_cloned(const struct proc *proc, void *ctx, struct err *err)
{
	struct record_ctx *c = ctx;

	return op_record(c->p, c->vm, proc, err);
}

/* A job of the worker for a VM; the VM is not reaped before it is done. */
static int submit(struct priv *p, struct vm *vm, const struct job *like, struct err *err)
{
	struct job *j = malloc(sizeof(*j));

	if (!j)
		return err_set(err, -ENOMEM, "VM %s: out of memory", vm->id);
	*j = *like;
	j->pid = vm->proc.pid;
	memcpy(j->vm_id, vm->id, sizeof(j->vm_id));
	memcpy(j->group, vm->group, sizeof(j->group));
	vm->jobs++;
	worker_submit(p->worker, j);
	return 0;
}

int op_check_new(struct priv *p, const char *vm_id, int32_t slot, struct err *err)
{
	const struct vm *other;

	if (vms_find(p->vms, vm_id))
		return err_set(err, -EEXIST, "VM %s is already running", vm_id);
	if (slot < 0)
		return 0;
	if (!slots_taken(p->slots, (uint32_t)slot))
		return err_set(err, -ENOENT, "slot %d is not taken", slot);
	other = vms_on_slot(p->vms, (uint32_t)slot);
	if (other)
		return err_set(err, -EBUSY, "slot %d is in use by the running VM %s", slot,
		               other->id);
	return 0;
}

/* A spawn that cannot be answered must not leave a process behind. */
void op_undo_new(struct priv *p, struct vm *vm)
{
	if (vm->proc.pidfd >= 0) {
		poll_del(p, vm->proc.pidfd);
		proc_kill(&vm->proc, SIGKILL);
		while (waitpid(vm->proc.pid, NULL, __WALL) < 0 && errno == EINTR)
			;
		proc_close(&vm->proc);
	}
	record_remove(&p->in, vm->id);
	cgroup_drop(&p->cg, vm->group);
}

static int run(struct priv *p, struct request *rq, struct vm *vm, struct err *err)
{
	const struct priv_req *m = &rq->m;
	struct record_ctx rc = { .p = p, .vm = vm };
	autofd int tap = -1;
	autofd int cgroup = cgroup_prepare(&p->cg, vm->group, &vm->limits);
	struct spawn s = { .jail = &p->jail,
		           .seed = m->op == PRIV_SEED,
		           .req = m,
		           .uid = vm->uid,
		           .log_fd = rq->in[0],
		           .fds = rq->in + 1,
		           .n_fds = rq->n_in - 1,
		           .cgroup_fd = cgroup,
		           .record = on_cloned,
		           .ctx = &rc };
	int r = 0;

	if (m->spawn.slot >= 0)
		r = slots_tap(p->slots, (uint32_t)m->spawn.slot, &tap, err);
	s.tap_fd = tap;
	if (r < 0 || (r = spawn_run(&s, &vm->proc, err)) < 0)
		return r;
	return op_begun(p, rq, vm, err);
}

int op_begun(struct priv *p, struct request *rq, struct vm *vm, struct err *err)
{
	rq->out[0] = fcntl(vm->proc.pidfd, F_DUPFD_CLOEXEC, 3);
	if (rq->out[0] < 0)
		return err_sys(err, -errno, "descriptor of VM %s", vm->id);
	rq->n_out = 1;
	/* A seed runs nothing for long, and what is forked from it begins in its cgroup. */
	if (p->cg.mode == CGROUP_V1 && rq->m.op != PRIV_SEED)
		vm->attach_at = deadline_in(ATTACH_AFTER_MS);
	return poll_add(p, vm->proc.pidfd, POLL_VM, vms_index(p->vms, vm), err);
}

int op_spawn(struct priv *p, struct request *rq, struct err *err)
{
	uint64_t t0 = clock_us();
	struct vm *vm = NULL;
	int r = op_check_new(p, rq->m.vm_id, rq->m.spawn.slot, err);

	if (r < 0 || (r = spawn_check(&rq->m, err)) < 0 ||
	    (r = vms_reserve(p->vms, rq->m.vm_id, rq->m.spawn.slot, &vm, err)) < 0)
		return r;
	vm->limits =
	        (struct cgroup_limits){ .mem_mb = rq->m.spawn.mem_mb, .vcpus = rq->m.spawn.vcpus };
	r = run(p, rq, vm, err);
	if (r < 0) {
		op_undo_new(p, vm);
		return r;
	}
	vm->used = true;
	vms_forget_end(p->vms, vm->id);
	rq->rep.pid = (uint32_t)vm->proc.pid;
	log_obj(LOG_LV_INFO, "vm", vm->id, "process %d, uid %u, slot %d, started in %u us",
	        (int)vm->proc.pid, (unsigned)vm->uid, vm->slot, (unsigned)(clock_us() - t0));
	return 0;
}

void op_attach_due(struct priv *p)
{
	for (uint32_t i = 0; i < p->vms->top; i++) {
		struct vm *vm = &p->vms->vm[i];
		struct job j = { .kind = JOB_ATTACH, .limits = vm->limits };

		if (!vm->used || vm->ended || !vm->attach_at || deadline_left(vm->attach_at))
			continue;
		vm->attach_at = 0;
		if (submit(p, vm, &j, NULL) < 0)
			log_obj(LOG_LV_WARN, "vm", vm->id,
			        "out of memory while limiting it, ignoring");
	}
}

uint64_t op_attach_next(const struct priv *p)
{
	uint64_t at = 0;

	for (uint32_t i = 0; i < p->vms->top; i++) {
		const struct vm *vm = &p->vms->vm[i];

		if (vm->used && !vm->ended && vm->attach_at && (!at || vm->attach_at < at))
			at = vm->attach_at;
	}
	return at;
}

/* ---- end ---- */

static void log_end(const char *id, const struct vm_end *e)
{
	if (!e || !e->known)
		log_obj(LOG_LV_INFO, "vm", id, "ended");
	else if (WIFSIGNALED(e->status))
		log_obj(LOG_LV_INFO, "vm", id, "ended by signal %d", WTERMSIG(e->status));
	else
		log_obj(LOG_LV_INFO, "vm", id, "ended with exit code %d", WEXITSTATUS(e->status));
}

static void finish(struct priv *p, struct vm *vm)
{
	struct vm old = *vm;
	struct job *j = calloc(1, sizeof(*j));

	/* Closing is not enough: pandod has a copy of the descriptor, so epoll would keep ours. */
	poll_del(p, vm->proc.pidfd);
	vms_finish(p->vms, vm);
	log_end(old.id, vms_end_of(p->vms, old.id));
	if (j) {
		j->kind = JOB_DROP;
		memcpy(j->vm_id, old.id, sizeof(j->vm_id));
		memcpy(j->group, old.group, sizeof(j->group));
	}
	worker_submit(p->worker, j);
	for (unsigned i = 0; i < old.n_waiters; i++) {
		struct priv_rep rep = { .id = old.waiters[i].req_id };

		table_reply_later(p, old.waiters[i].gen, PRIV_KILL, &rep);
	}
	if (old.n_waiters)
		vms_forget_end(p->vms, old.id); /* after a kill nobody asks how it ended */
}

void op_vm_ended(struct priv *p, uint32_t idx)
{
	struct vm *vm = &p->vms->vm[idx];

	if (!vm->used || proc_alive(&vm->proc))
		return;
	vm->ended = true;
	if (vm->jobs == 0)
		finish(p, vm);
	else
		poll_del(p, vm->proc.pidfd); /* op_job_done() continues */
	op_reap_strangers(p);
}

int op_kill(struct priv *p, struct request *rq, struct err *err)
{
	struct vm *vm = vms_find(p->vms, rq->m.vm_id);
	int r;

	if (!vm) {
		vms_forget_end(p->vms, rq->m.vm_id);
		return 0;
	}
	if (vm->n_waiters == VM_WAITERS_MAX)
		return err_set(err, -EBUSY, "VM %s is being killed", vm->id);
	/*
	 * It is process 1 of its namespace: the kernel kills and reaps the rest with it. A fork of
	 * a seed is not: its writers end with it by themselves.
	 */
	r = proc_kill(&vm->proc, SIGKILL);
	if (r < 0 && r != -ESRCH)
		return err_sys(err, r, "kill VM %s", vm->id);
	vm->waiters[vm->n_waiters].gen = p->super.gen;
	vm->waiters[vm->n_waiters++].req_id = rq->m.id;
	return PRIV_LATER;
}

int op_exit_status(struct priv *p, struct request *rq, struct err *err)
{
	const struct vm_end *e;
	struct vm *vm = vms_find(p->vms, rq->m.vm_id);

	if (vm && !proc_alive(&vm->proc) && vm->jobs == 0)
		finish(p, vm); /* it has ended, but our loop has not handled it yet */
	else if (vm)
		return err_set(err, -EAGAIN, "VM %s runs", rq->m.vm_id);
	e = vms_end_of(p->vms, rq->m.vm_id);
	if (!e)
		return err_set(err, -ENOENT, "no VM %s", rq->m.vm_id);
	if (!e->known)
		return err_set(
		        err, -ENOENT,
		        "VM %s ended with unknown status: it was started by an earlier pando-priv",
		        rq->m.vm_id);
	rq->rep.status = (uint32_t)e->status;
	return 0;
}

/* ---- queries ---- */

int op_vm_list(struct priv *p, struct request *rq, struct err *err)
{
	struct priv_rep *rep = &rq->rep;
	uint32_t i = rq->m.cursor;

	for (; i < p->vms->top && rep->n_vms < PRIV_LIST_MAX; i++) {
		const struct vm *vm = &p->vms->vm[i];
		struct priv_rep_vm *to = &rep->vms[rep->n_vms];

		if (!vm->used || vm->ended)
			continue;
		rq->out[rq->n_out] = fcntl(vm->proc.pidfd, F_DUPFD_CLOEXEC, 3);
		if (rq->out[rq->n_out] < 0)
			return err_sys(err, -errno, "descriptor of VM %s", vm->id);
		rq->n_out++;
		rep->n_vms++;
		memcpy(to->vm_id, vm->id, sizeof(to->vm_id));
		to->slot = vm->slot;
		to->pid = (uint32_t)vm->proc.pid;
	}
	rep->cursor = i < p->vms->top ? i : PRIV_LIST_END;
	return 0;
}

int op_vm_stats(struct priv *p, struct request *rq, struct err *err)
{
	struct vm *vm = vms_find(p->vms, rq->m.vm_id);

	if (!vm || vm->ended)
		return err_set(err, -ENOENT, "VM %s is not running", rq->m.vm_id);
	struct job j = { .kind = JOB_STATS, .conn = p->super.gen, .req_id = rq->m.id };
	int r = submit(p, vm, &j, err);

	return r < 0 ? r : PRIV_LATER;
}

void op_job_done(struct priv *p, struct job *j)
{
	struct vm *vm = vms_find(p->vms, j->vm_id);

	if (j->kind == JOB_STATS) {
		struct priv_rep rep = { .id = j->req_id, .code = j->result };

		if (j->result == 0 && (!vm || !proc_alive(&vm->proc)))
			rep.code = -ENOENT; /* adopted from an earlier process: the pid may have
			                       been reused */
		if (rep.code < 0)
			snprintf(rep.msg, sizeof(rep.msg), "statistics of VM %s: %s", j->vm_id,
			         err_name(rep.code));
		memcpy(rep.vm_stats, j->stats, sizeof(rep.vm_stats));
		table_reply_later(p, j->conn, PRIV_VM_STATS, &rep);
	}
	if (j->kind != JOB_DROP && vm && vm->proc.pid == j->pid) {
		vm->jobs--;
		if (vm->jobs == 0 && vm->ended && !proc_alive(&vm->proc))
			finish(p, vm);
	}
}
