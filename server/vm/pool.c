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
 * Kept ready are a number of VMs of the template and one of each snapshot that
 * is used often, as far as the memory budget goes. The pool is filled when no VM has
 * been started for a moment. Before that moment, and when it is empty, create
 * thaws. A ready VM is in no table and not in the store: after a crash it is a
 * process that nobody knows, and recovery ends it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest_code.h"
#include "store/store_net.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

#define HOT_USES 3           /* creates from a snapshot within HOT_WINDOW_MS make it hot */
#define HOT_WINDOW_MS 600000 /* and it cools down when none came for as long */
#define POOL_VM_MB 64        /* counted for one that is being made */

struct ready {
	struct vm *vm;             /* owned */
	struct engine_point point; /* taken */
	struct store_layer layer;  /* its disk layer, to be stored at the hand-over */
	uint64_t private_mb;
};

struct hot {
	char point[ID_SIZE];
	bool eager; /* its first use tells of more, like that of a size's template */
	unsigned uses;
	uint64_t last_ms;
};

struct pool {
	struct ready *ready[POOL_MAX]; /* owned */
	size_t n;
	struct hot hot[POOL_HOT_MAX];
	size_t n_hot;
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
	r->private_mb = POOL_VM_MB;
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

static bool is_hot(const struct hot *h, uint64_t now)
{
	return h->uses >= (h->eager ? 1 : HOT_USES) && now - h->last_ms < HOT_WINDOW_MS;
}

/* The point of which one more should be ready; false: none. m->lock held. */
static bool wanted(struct vmm *m, char ret_point[ID_SIZE]) REQUIRES(&m->lock)
{
	struct pool *p = m->pool;
	uint64_t now = clock_ms();

	if (p->n >= POOL_MAX || memory(p) + POOL_VM_MB > m->conf.pool_mem_mb)
		return false;
	if (!strcmp(m->template_state, "ready") && !own_pending(m, &m->own) &&
	    count(p, template_now(m)) < m->conf.pool) {
		snprintf(ret_point, ID_SIZE, "%s", template_now(m));
		return true;
	}
	for (size_t i = 0; m->conf.pool && i < p->n_hot; i++) {
		if (!is_hot(&p->hot[i], now) || count(p, p->hot[i].point) ||
		    size_own_pending(m, p->hot[i].point))
			continue;
		snprintf(ret_point, ID_SIZE, "%s", p->hot[i].point);
		return true;
	}
	return false;
}

/* A ready VM that is dead, or of a snapshot nobody asks for any more; NULL: none. m->lock held. */
static struct ready *stale(struct vmm *m) REQUIRES(&m->lock)
{
	struct pool *p = m->pool;
	uint64_t now = clock_ms();

	for (size_t i = 0; i < p->n; i++) {
		struct ready *r = p->ready[i];
		bool keep = !strcmp(r->point.id, template_now(m)) &&
		            count(p, r->point.id) <= m->conf.pool;

		for (size_t k = 0; !keep && k < p->n_hot; k++)
			keep = !strcmp(p->hot[k].point, r->point.id) && is_hot(&p->hot[k], now);
		if (keep && machine_alive(r->vm->machine))
			continue;
		p->ready[i] = p->ready[--p->n];
		return r;
	}
	return NULL;
}

/* Counts a create from that point. */
static void note_use(struct vmm *m, const char *point, bool eager) REQUIRES(&m->lock)
{
	struct pool *p = m->pool;
	uint64_t now = clock_ms();
	struct hot *h = NULL;

	for (size_t i = 0; i < p->n_hot && !h; i++)
		if (!strcmp(p->hot[i].point, point))
			h = &p->hot[i];
	if (!h && p->n_hot < POOL_HOT_MAX) {
		h = &p->hot[p->n_hot++];
		*h = (struct hot){ 0 };
	}
	for (size_t i = 0; !h && i < p->n_hot; i++)
		if (now - p->hot[i].last_ms >= HOT_WINDOW_MS)
			h = &p->hot[i];
	if (!h)
		return; /* more snapshots in use than can be counted: the ones known stay */
	if (strcmp(h->point, point) != 0 || now - h->last_ms >= HOT_WINDOW_MS) {
		*h = (struct hot){ 0 };
		snprintf(h->point, sizeof(h->point), "%s", point);
	}
	h->uses++;
	h->eager |= eager || size_is_template(m, point);
	h->last_ms = now;
}

void pool_forget(struct vmm *m, const char *point)
{
	struct pool *p = m->pool;
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < p->n_hot; i++)
		if (!strcmp(p->hot[i].point, point))
			p->hot[i].uses = 0; /* stale() does the rest */
	cond_broadcast(&m->cond);
}

void pool_rename(struct vmm *m, const char *from, const char *to)
{
	struct pool *p = m->pool;

	for (size_t i = 0; p && i < p->n_hot; i++)
		if (!strcmp(p->hot[i].point, from))
			snprintf(p->hot[i].point, ID_SIZE, "%s", to);
}

/* ---- handing one over ---- */

static struct ready *pop(struct vmm *m, const char *point, bool eager)
{
	struct pool *p = m->pool;
	struct ready *r = NULL;
	LOCK_SCOPE(&m->lock);

	if (!template_is(m, point))
		note_use(m, point, eager);
	for (size_t i = 0; i < p->n && !r; i++) {
		if (strcmp(p->ready[i]->point.id, point) != 0)
			continue;
		r = p->ready[i];
		p->ready[i] = p->ready[--p->n];
	}
	p->given += r != NULL;
	p->missed += !r;
	cond_broadcast(&m->cond);
	return r;
}

/* Not handed over after all: it is as ready as before, if there is still room for it. */
static void push_back(struct vmm *m, struct ready *r)
{
	struct pool *p = m->pool;

	mutex_lock(&m->lock);
	p->given--;
	if (p->n < POOL_MAX && !m->stopping)
		p->ready[p->n++] = TAKE_PTR(r);
	mutex_unlock(&m->lock);
	if (r)
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
	while ((rd = pop(m, point, o->eager))) {
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
		if (!wanted(m, ret_point))
			wait = HOT_WINDOW_MS / 10;
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
		struct ready *rd = NULL;
		struct err err = { 0 };

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
		if (p->n < POOL_MAX)
			p->ready[p->n++] = TAKE_PTR(rd);
		cond_broadcast(&m->cond);
		mutex_unlock(&m->lock);
		if (rd) /* another one was put back meanwhile */
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
