/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - VMs that are ready before anyone asks for them
 *
 * A ready VM was thawed from its point like any other, has its own identity
 * (confirmed by its agent), has run one command, so that the paths every
 * command takes are translated and paged in, and was then stopped: it takes
 * memory, but no processor time, and nothing in it goes on before it belongs to
 * someone. Its network gate was never open. Handing it over is: let it go on,
 * set its clock, hear from its agent, open the gate, write the row. From
 * then on nothing tells it from a VM that was thawed on the spot.
 *
 * How many of which point are kept ready follows from what was asked for lately (demand.c). The
 * pool is filled when no VM has been started for a moment, with what is of most use first. Before
 * that moment, and when it is empty, create thaws. A ready VM is in no table and not in the store:
 * after a crash it is a process that nobody knows, and recovery ends it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest_code.h"
#include "store/store_net.h"
#include "vm/template_own.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

#define LOOK_EVERY_MS 60000 /* when nothing is wanted: what is, fades */

struct ready {
	struct vm *vm;             /* owned */
	struct engine_point point; /* taken */
	struct store_layer layer;  /* its disk layer, to be stored at the hand-over */
	uint64_t private_mb;
};

struct pool {
	struct ready *ready[POOL_MAX]; /* owned */
	size_t n;
	uint64_t made, given, missed;
	char why[160]; /* the last attempt to make one failed; "": it did not; m->lock */
};

int pool_new(struct vmm *m, struct err *err)
{
	m->pool = calloc(1, sizeof(*m->pool));
	return m->pool ? 0 : err_set(err, -ENOMEM, "pool of VMs: out of memory");
}

static void ready_end(struct vmm *m, struct ready *r)
{
	struct vm *vm = r->vm;

	mutex_lock(&vm->lock);
	vm->gone = true;
	vm_take_down(vm);
	engine_remove_layer(m->engine, r->layer.id);
	mutex_unlock(&vm->lock);
	point_drop(m, &r->point);
	vmm_release(m, r->point.id);
	vm_unref(vm);
	free(r);
}

/* ---- making one ---- */

static int ready_warm(struct vm *vm, struct err *err)
{
	struct guest_exec_req req = { .command = "true", .timeout_ms = vm->m->t.pool_warm };
	const struct guest_code_req cell = {
		.language = AGENT_LANG_PYTHON, .code = "", .warm = true, .if_idle = true
	};
	struct guest_exec_result res = { 0 };
	int r;

	vm_trust_local(vm);
	vm_site_apply(vm);
	r = guest_exec(vm->guest, &req, &res, err);
	if (r == 0 && (res.exit_code != 0 || res.timed_out))
		r = err_set(err, -EIO, "its first command failed");
	guest_exec_result_done(&res);
	/* The same for a cell. A snapshot may have no kernel, or one that is busy: never mind. */
	if (r == 0)
		guest_code_warm(vm->guest, &cell, vm->m->t.pool_warm, NULL);

	if (r < 0 || (r = guest_quiesce(vm->guest, deadline_in(vm->m->t.quiesce), err)) < 0)
		return r;
	r = machine_stop(vm->machine, err);
	guest_resume(vm->guest);
	if (r == 0)
		vm_usage_ahead(vm); /* its owner pays from the hand-over on */
	return r;
}

static int ready_make(struct vmm *m, const char *point, struct ready **ret, struct err *err)
{
	struct ready *r = calloc(1, sizeof(*r));
	struct vm_create_opts o = { .account = "" };
	struct bringup b = {
		.reason = GUEST_THAW, .agent_ms = m->t.agent_thaw, .hidden = true, .ahead = true
	};
	struct priv_vm_stats st;
	struct store_vm row;
	int k;

	if (!r)
		return err_set(err, -ENOMEM, "out of memory");
	if ((k = vmm_hold(m, point, err)) < 0) {
		free(r);
		return k;
	}
	if ((k = point_take(m, point, &r->point, err)) < 0) {
		vmm_release(m, point);
		free(r);
		return k;
	}
	vm_fill_row(&o, &r->point, &row);
	r->vm = vm_new(m, &row);
	if (!r->vm) {
		point_drop(m, &r->point);
		vmm_release(m, point);
		free(r);
		return err_set(err, -ENOMEM, "out of memory");
	}
	b.point = &r->point;
	mutex_lock(&r->vm->lock);
	k = vm_bring_up(r->vm, &b, err);
	r->layer = b.layer;
	if (k == 0)
		k = ready_warm(r->vm, err);
	mutex_unlock(&r->vm->lock);
	if (k < 0) {
		ready_end(m, r);
		return k;
	}
	r->private_mb = 0; /* not known */
	if (privc_vm_stats(m->priv, r->vm->row.info.instance, &st, NULL) == 0)
		r->private_mb = (st.private_bytes >> 20) + 1;
	*ret = r;
	return 0;
}

/* ---- what is wanted ---- */

static size_t count(const struct pool *p, const char *point)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		n += !strcmp(p->ready[i]->point.id, point);
	return n;
}

static uint64_t memory(const struct pool *p)
{
	uint64_t mb = 0;

	for (size_t i = 0; i < p->n; i++)
		mb += p->ready[i]->private_mb;
	return mb;
}

/* What VMs of that point are to be made from is not there yet. m->lock held. */
static bool pending(struct vmm *m, const char *point) REQUIRES(&m->lock)
{
	if (!template_is(m, point))
		return size_own_pending(m, point);
	return strcmp(m->template_state, "ready") != 0 || own_pending(m, &m->own);
}

bool pool_wanted(struct vmm *m, char ret_point[ID_SIZE])
{
	const struct demand_key *k;

	if (m->pool->n >= POOL_MAX)
		return false;
	ahead_follow(m);
	for (size_t i = 0; (k = demand_next(m->demand, AHEAD_READY, i, clock_ms())); i++) {
		if (pending(m, k->name))
			continue;
		snprintf(ret_point, ID_SIZE, "%s", k->name);
		return true;
	}
	return false;
}

static struct ready *take_out(struct vmm *m, size_t i) REQUIRES(&m->lock)
{
	struct pool *p = m->pool;
	struct ready *r = p->ready[i];

	p->ready[i] = p->ready[--p->n];
	demand_have(m->demand, AHEAD_READY, r->point.id, -1);
	return r;
}

static bool put_in(struct vmm *m, struct ready *r) REQUIRES(&m->lock)
{
	struct pool *p = m->pool;

	if (p->n == POOL_MAX)
		return false;
	p->ready[p->n++] = r;
	demand_have(m->demand, AHEAD_READY, r->point.id, 1);
	return true;
}

/* A ready VM that is dead, or one more than there should be; NULL: none. m->lock held. */
static struct ready *stale(struct vmm *m) REQUIRES(&m->lock)
{
	struct pool *p = m->pool;
	uint64_t now = clock_ms();

	ahead_follow(m);
	for (size_t i = 0; i < p->n; i++) {
		const struct ready *r = p->ready[i];

		if (!machine_alive(r->vm->machine) ||
		    count(p, r->point.id) > demand_want(m->demand, AHEAD_READY, r->point.id, now))
			return take_out(m, i);
	}
	return NULL;
}

void pool_forget(struct vmm *m, const char *point)
{
	LOCK_SCOPE(&m->lock);

	demand_forget(m->demand, point); /* stale() does the rest */
	cond_broadcast(&m->cond);
}

/* ---- handing one over ---- */

static struct ready *pop(struct vmm *m, const char *point)
{
	struct pool *p = m->pool;
	struct ready *r = NULL;
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < p->n && !r; i++)
		if (!strcmp(p->ready[i]->point.id, point))
			r = take_out(m, i);
	p->given += r != NULL;
	p->missed += !r;
	cond_broadcast(&m->cond);
	return r;
}

/* Not handed over after all: it is as ready as before, if there is still room for it. */
static void push_back(struct vmm *m, struct ready *r)
{
	bool kept;

	mutex_lock(&m->lock);
	m->pool->given--;
	kept = !m->stopping && put_in(m, r);
	mutex_unlock(&m->lock);
	if (!kept)
		ready_end(m, r);
}

/* It is still in no table: nobody else can lock it. */
static int wake_ready(struct vm *vm, const char *account, struct err *err)
{
	int r = machine_cont(vm->machine, err);

	/* What its network uses counts for that account. */
	snprintf(vm->row.info.account, sizeof(vm->row.info.account), "%s", account);
	if (r == 0)
		r = guest_set_clock(vm->guest, deadline_in(vm->m->t.pool_step), err);
	if (r == 0)
		r = guest_ping(vm->guest, deadline_in(vm->m->t.pool_step), err);
	if (r == 0)
		r = vm_open_network(vm, /* as_built= */ true, err);
	return r;
}

int pool_take(struct vmm *m, const struct vm_create_opts *o, const char *point, struct vm_info *ret,
              struct err *err)
{
	autovpc vpc = { 0 };
	struct ready *rd;
	struct vm *vm;
	struct err why = { 0 };
	int r;

	/* Asked before one is taken: a request for what there is not concerns none of them. */
	if (o->nic && (r = vpc_find(m, o->nic->account, o->nic->vpc, &vpc, err)) < 0)
		return r;
	ahead_asked(m, o->account, point, o->eager);
	while ((rd = pop(m, point))) {
		if ((r = quota_hold_vm(m, &rd->vm->row.info, o->account, err)) < 0) {
			push_back(m, rd);
			return r;
		}
		r = vm_net_begin(rd->vm, o, err);
		if (r < 0) { /* not the VM's fault, and it does not know of it */
			vm_net_undo(rd->vm);
			vm_net_done(&rd->vm->net);
			quota_release(m, rd->vm->row.info.id);
			push_back(m, rd);
			return r;
		}
		if (machine_alive(rd->vm->machine) && guest_alive(rd->vm->guest) &&
		    wake_ready(rd->vm, o->account, &why) == 0)
			break;
		vm_net_undo(rd->vm);
		vm_log(rd->vm, LOG_LV_WARN, "was ready but no longer is: %s",
		       *why.msg ? why.msg : "its process ended");
		quota_release(m, rd->vm->row.info.id);
		ready_end(m, rd);
	}
	if (!rd)
		return -EAGAIN;
	vm = rd->vm;
	mutex_lock(&vm->lock);
	vm_fill_options(o, &vm->row);
	vm_tell_who(vm, AGENT_EVENT_CREATED);
	r = vm_net_renamed(vm, /* was= */ "", err);
	if (r == 0)
		r = vm_settle_new(vm, o, &rd->layer, err);
	if (r == 0)
		vm_copy_info(vm, ret);
	mutex_unlock(&vm->lock);
	quota_release(m, vm->row.info.id);
	if (r < 0) {
		vm_net_undo(vm);
		ready_end(m, rd);
		return r;
	}
	point_drop(m, &rd->point);
	vmm_release(m, rd->point.id);
	free(rd);
	vm_unref(vm);
	return 0;
}

/* ---- the thread that keeps it filled ---- */

static bool wait_for_need(struct vmm *m, uint64_t not_before_ms, char ret_point[ID_SIZE],
                          struct ready **ret_stale)
{
	LOCK_SCOPE(&m->lock);

	*ret_stale = NULL;
	while (!m->stopping) {
		uint64_t wait = vmm_quiet_in(m), now = clock_ms();

		vmm_at_work(m, &m->making_ready, false);
		if ((*ret_stale = stale(m))) {
			vmm_at_work(m, &m->making_ready, true);
			return true;
		}
		if (not_before_ms > now + wait)
			wait = not_before_ms - now;
		if (!pool_wanted(m, ret_point))
			wait = LOOK_EVERY_MS;
		if (!wait) {
			vmm_at_work(m, &m->making_ready, true);
			return true;
		}
		cond_wait_until(&m->cond, &m->lock, now + wait);
	}
	vmm_at_work(m, &m->making_ready, false);
	return false;
}

static void set_trouble(struct vmm *m, const char *why)
{
	LOCK_SCOPE(&m->lock);

	snprintf(m->pool->why, sizeof(m->pool->why), "%s", why);
}

void *pool_main(void *arg)
{
	struct vmm *m = arg;
	struct pool *p = m->pool;
	uint64_t not_before = 0;
	char point[ID_SIZE] = "";
	struct ready *old;

	while (wait_for_need(m, not_before, point, &old)) {
		uint64_t began = clock_ms();
		struct ready *rd = NULL;
		struct err err = { 0 };
		bool kept;

		if (old) {
			ready_end(m, old);
			vmm_collect_soon(m); /* perhaps nothing else stood on its point */
			continue;
		}
		if (ready_make(m, point, &rd, &err) < 0 || !rd) {
			log_obj(LOG_LV_WARN, "point", point,
			        "cannot make a VM ready: %s; trying again later", err.msg);
			not_before = clock_ms() + m->t.retry;
			set_trouble(m, err.msg);
			continue;
		}
		vm_log(rd->vm, LOG_LV_DEBUG, "ready, %llu MB", (unsigned long long)rd->private_mb);
		mutex_lock(&m->lock);
		p->made++;
		p->why[0] = '\0';
		kept = put_in(m, rd);
		demand_made(m->demand, AHEAD_READY, point, (uint32_t)rd->private_mb,
		            (uint32_t)(clock_ms() - began) + m->t.quiet);
		cond_broadcast(&m->cond);
		mutex_unlock(&m->lock);
		if (!kept) /* others were put back meanwhile */
			ready_end(m, rd);
	}
	return NULL;
}

void pool_status(struct vmm *m, struct vmm_status *ret)
{
	struct pool *p = m->pool;

	ret->pool_ready = (unsigned)p->n;
	ret->pool_mem_mb = (unsigned)memory(p);
	ret->pool_given = p->given;
	ret->pool_missed = p->missed;
	ret->blanks = (unsigned)m->n_blanks;
}

void pool_trouble(struct vmm *m, char *ret, size_t size)
{
	snprintf(ret, size, "%s", m->pool->why);
}

/* No thread fills it any more. */
void pool_end(struct vmm *m)
{
	struct pool *p = m->pool;

	while (p && p->n)
		ready_end(m, p->ready[--p->n]);
	free(p);
	m->pool = NULL;
}
