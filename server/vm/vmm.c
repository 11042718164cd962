/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm.c - the table of VMs: load, find, lock, list; start and end of the manager
 *
 * All VMs of the store are in memory. A VM is found under m->lock, referenced,
 * and then locked by itself; whoever waited for the lock of a VM that was
 * deleted meanwhile is told that it does not exist.
 */
#include "vm/vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_net.h"
#include "store/store_node.h"
#include "vm/elsewhere.h"
#include "vm/history.h"
#include "vm/stored.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

const struct vm_times vm_times_usual = {
	.agent_boot = 300000,
	.agent_thaw = 60000,
	.agent_reconnect = 15000,
	.agent_greet = 2000,
	.agent_silent = 60000,
	.settle = 1500,
	.quiesce = 3000,
	.shutdown_ask = 10000,
	.shutdown = 60000,
	.death = 250,
	.guest_step = 60000,
	.grow = 300000,
	.trim = 120000,
	.boot_done = 300000,
	.template_wait = 900000,
	.look = 500,
	.quiet = 400,
	.retry = 10000,
	.pool_step = 5000,
	.pool_warm = 30000,
	.room_wait = 30000,
	.diff_soft = 90000,
	.diff_hard = 240000,
	.end_wait = 1000,
	.history = HISTORY_STEP_S * 1000,
};

struct vm *vm_new(struct vmm *m, const struct store_vm *row)
{
	struct vm *vm = calloc(1, sizeof(*vm));

	if (!vm)
		return NULL;
	vm->m = m;
	vm->refs = 1;
	vm->row = *row;
	store_vm_own(m->store, &vm->row);
	vm->stored = row->info.state;
	vm->shown = row->info;
	vm->reaper_fd = -1;
	vm->slot.dns_udp = vm->slot.dns_tcp = -1;
	mutex_init(&vm->lock, "vm");
	return vm;
}

struct vm *vm_ref(struct vm *vm)
{
	LOCK_SCOPE(&vm->m->lock);

	vm->refs++;
	return vm;
}

void vm_unref(struct vm *vm)
{
	struct vmm *m;
	bool last;

	if (!vm)
		return;
	m = vm->m;
	mutex_lock(&m->lock);
	last = --vm->refs == 0;
	if (last) {
		ring_free(vm);
		reaper_forget(vm); /* the server ends, and it goes on */
	}
	mutex_unlock(&m->lock);
	if (!last)
		return;
	guest_unref(vm->guest);
	machine_free(vm->machine);
	vm_net_done(&vm->net);
	mutex_destroy(&vm->lock);
	free(vm);
}

int vmm_insert(struct vmm *m, struct vm *vm, struct err *err)
{
	LOCK_SCOPE(&m->lock);

	if (table_add(&m->vms, vm) < 0)
		return err_set(err, -ENOMEM, "table of VMs: out of memory");
	vm->refs++;
	return 0;
}

void vmm_forget(struct vmm *m, struct vm *vm)
{
	bool found;

	mutex_lock(&m->lock);
	found = vm->place.owner;
	if (found) {
		table_remove(&m->vms, vm);
		vmm_say_changed(m, vm->shown.id, NULL);
	}
	mutex_unlock(&m->lock);
	if (found)
		vm_unref(vm);
}

struct vm **vmm_all(struct vmm *m, size_t *ret_n)
{
	struct vm **v;
	LOCK_SCOPE(&m->lock);

	v = calloc(m->vms.n ? m->vms.n : 1, sizeof(*v));
	for (size_t i = 0; v && i < m->vms.n; i++) {
		v[i] = m->vms.all[i];
		v[i]->refs++;
	}
	*ret_n = m->vms.n;
	return v;
}

static int not_found(const char *id, struct err *err)
{
	return err_tag(err, -ENOENT, ERR_VM_NOT_FOUND, "no VM '%.40s'", id);
}

int vmm_find(struct vmm *m, const char *account, const char *id, struct vm **ret, struct err *err)
{
	struct vm *vm;
	LOCK_SCOPE(&m->lock);

	vm = table_find(&m->vms, id);
	if (!vm || (account && strcmp(vm->shown.account, account) != 0))
		return not_found(id, err);
	vm->refs++;
	*ret = vm;
	return 0;
}

/* One that was deleted says so: the caller knew it. */
int vmm_gone(struct vmm *m, const char *account, const char *id, struct err *err)
{
	struct vm_tombstone t;
	int r = elsewhere_error(m, account, id, 0, err);

	if (r < 0)
		return r;
	if (store_tombstone_get(m->store, id, &t, NULL) < 0 ||
	    (account && strcmp(t.info.account, account) != 0))
		return not_found(id, err);
	return err_tag(err, -ENOENT, ERR_VM_DELETED, "VM %s was %s", id,
	               !strcmp(t.reason, "evicted") ? "evicted to make room on the disk"
	                                            : "deleted");
}

static int busy(struct vm *vm, struct err *err)
{
	enum err_code tag = ERR_CONFLICT;
	struct vm_info i;

	vm_copy_info(vm, &i);
	if (i.state == VM_SUSPENDING)
		tag = ERR_VM_IS_SUSPENDING;
	else if (i.state == VM_STARTING && !i.used_ms)
		tag = ERR_STILL_CREATING;
	return err_tag(err, -EBUSY, tag,
	               "VM %s is %s and another operation has held it for over %u s", i.id,
	               vm_state_name(i.state), vm->m->conf.busy_wait_s);
}

/* Ends the process of a start, or of a clean shutdown, so that its lock comes free. */
static void cut_short(struct vm *vm)
{
	struct vmm *m = vm->m;
	struct vm_info i;
	bool cut;

	mutex_lock(&m->lock);
	i = vm->shown;
	cut = (i.state == VM_STARTING || vm->asked) && *i.instance;
	mutex_unlock(&m->lock);
	if (cut)
		privc_kill(m->priv, i.instance, NULL);
}

/* cut_ms: what holds it is cut short whenever it took so long; a start may not have a process yet
 * the first time, or try another one. 0: never. */
static int lock_or_cut(struct vmm *m, const char *account, const char *id, uint32_t cut_ms,
                       struct vm **ret, struct err *err) NO_THREAD_SAFETY_ANALYSIS
{
	uint64_t until = deadline_in(m->conf.busy_wait_s * 1000);
	struct vm *vm;
	struct vm_info i;
	int r = vmm_find(m, account, id, &vm, err);

	if (r == -ENOENT) {
		r = elsewhere_claim(m, account, id, CLAIM_TO_USE, err);
		if (r < 0)
			return r;
		r = r ? vmm_find(m, account, id, &vm, err) : -ENOENT;
	}
	if (r < 0)
		return vmm_gone(m, account, id, err);
	vm_copy_info(vm, &i);
	if (i.state == VM_BUILDING) { /* its builder has it, perhaps for minutes */
		vm_unref(vm);
		return err_tag(err, -EBUSY, ERR_STILL_CREATING, "VM '%.40s' is still being built",
		               id);
	}
	while (!mutex_lock_until(&vm->lock, cut_ms ? MIN(until, deadline_in(cut_ms)) : until)) {
		if (clock_ms() >= until) {
			r = busy(vm, err);
			vm_unref(vm);
			return r;
		}
		cut_short(vm);
	}
	if (vm->gone) {
		vm_unlock(vm);
		return vmm_gone(m, account, id, err);
	}
	*ret = vm;
	return 0;
}

int vmm_lock(struct vmm *m, const char *account, const char *id, struct vm **ret, struct err *err)
{
	return lock_or_cut(m, account, id, 0, ret, err);
}

int vmm_lock_soon(struct vmm *m, const char *account, const char *id, struct vm **ret,
                  struct err *err)
{
	return lock_or_cut(m, account, id, m->t.end_wait, ret, err);
}

void vm_lock(struct vm *vm) NO_THREAD_SAFETY_ANALYSIS /* see vm_internal.h, all three */
{
	mutex_lock(&vm->lock);
}

void vm_unlock(struct vm *vm) NO_THREAD_SAFETY_ANALYSIS
{
	if (!vm)
		return;
	mutex_unlock(&vm->lock);
	vm_unref(vm);
}

void vm_copy_info(struct vm *vm, struct vm_info *ret)
{
	LOCK_SCOPE(&vm->m->lock);

	*ret = vm->shown;
}

void vm_publish(struct vm *vm)
{
	LOCK_SCOPE(&vm->m->lock);

	if (vm->shown.state != vm->row.info.state ||
	    strcmp(vm->shown.instance, vm->row.info.instance) != 0)
		vm_wake_waiters(vm, &vm->row.info);
	table_show(&vm->m->vms, vm, &vm->row.info);
}

int vmm_get(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
            struct err *err)
{
	struct vm *vm;
	int r = vmm_find(m, account, id, &vm, err);

	if (r == -ENOENT && elsewhere_rests(m, account, id, ret))
		return 0;
	if (r < 0)
		return elsewhere_error(m, account, id, r, err);
	vm_copy_info(vm, ret);
	vm_unref(vm);
	return 0;
}

int vmm_get_used(struct vmm *m, const char *account, const char *id, struct vm_info *ret,
                 struct err *err)
{
	struct store_vm there;
	struct vm *vm;
	int r = vmm_find(m, account, id, &vm, err);

	if (r < 0 && elsewhere_get(m, account, id, &there)) {
		*ret = there.info;
		return 0;
	}
	if (r < 0)
		return r;
	if (mutex_trylock(&vm->lock)) {
		vm_usage_look(vm);
		mutex_unlock(&vm->lock);
	}
	vm_copy_info(vm, ret);
	vm_unref(vm);
	return 0;
}

int vmm_hold(struct vmm *m, const char *id, struct err *err)
{
	LOCK_SCOPE(&m->lock);

	if (m->n_holds == HOLDS_MAX)
		return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
		               "too many operations at once");
	snprintf(m->holds[m->n_holds++], ID_SIZE, "%s", id);
	return 0;
}

void vmm_release(struct vmm *m, const char *id)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < m->n_holds; i++) {
		if (strcmp(m->holds[i], id) != 0)
			continue;
		memmove(m->holds[i], m->holds[--m->n_holds], ID_SIZE);
		return;
	}
}

void vmm_collect_soon(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	m->collect_wanted = m->upload_wanted = true;
	cond_broadcast(&m->cond);
}

void vmm_at_work(struct vmm *m, bool *what, bool yes)
{
	if (*what == yes)
		return;
	*what = yes;
	cond_broadcast(&m->cond);
}

void vmm_status(struct vmm *m, struct vmm_status *ret)
{
	const struct engine_info *i = engine_info(m->engine);
	LOCK_SCOPE(&m->lock);

	*ret = (struct vmm_status){ .vcpus = m->conf.vcpus,
		                    .mem_mb = m->conf.mem_mb,
		                    .disk_mb = m->conf.disk_mb };
	snprintf(ret->accel, sizeof(ret->accel), "%s", accel_name(i->accel));
	snprintf(ret->accel_why, sizeof(ret->accel_why), "%s", i->accel_why);
	snprintf(ret->qemu_version, sizeof(ret->qemu_version), "%s", i->qemu_version);
	snprintf(ret->template_state, sizeof(ret->template_state), "%s", m->template_state);
	snprintf(ret->template_note, sizeof(ret->template_note), "%s", m->template_note);
	snprintf(ret->limits, sizeof(ret->limits), "%s", m->priv_info.limits);
	pool_status(m, ret);
	ahead_status(m, ret);
	seed_status(m, ret);
	sizes_status(m, ret);
	ret->running = (unsigned)m->vms.tally.by_state[VM_RUNNING];
}

static int load_all(struct vmm *m, struct err *err)
{
	autofree struct store_vm *rows = NULL;
	size_t n = 0;
	int r = store_net_sweep(m->store, err);

	if (r == 0)
		r = store_vm_list(m->store, NULL, &rows, &n, err);
	for (size_t i = n; r == 0 && i-- > 0;) { /* oldest first, as the table has them */
		struct vm *vm = vm_new(m, &rows[i]);

		r = vm ? vm_net_load(vm, err) : err_set(err, -ENOMEM, "load VMs: out of memory");
		if (r == 0)
			r = vmm_insert(m, vm, err);
		vm_unref(vm);
	}
	return r;
}

static int start_thread(pthread_t *t, bool *has, void *(*fn)(void *), struct vmm *m,
                        struct err *err)
{
	int r = pthread_create(t, NULL, fn, m);

	if (r)
		return err_sys(err, -r, "start a thread");
	*has = true;
	return 0;
}

int vmm_new(const struct vmm_conf *c, struct store *store, struct engine *engine,
            struct privc *priv, const struct priv_info *info, struct dns *dns, struct vmm **ret,
            struct err *err)
{
	struct vmm *m = calloc(1, sizeof(*m));
	int r;

	if (!m)
		return err_set(err, -ENOMEM, "VM manager: out of memory");
	m->conf = *c;
	m->t = c->times ? *c->times : vm_times_usual;
	if (c->boot_s) {
		m->t.agent_boot = m->t.boot_done = m->t.grow = c->boot_s * 1000;
		m->t.template_wait = MAX(m->t.template_wait, m->t.agent_boot);
	}
	m->store = store;
	m->engine = engine;
	m->priv = priv;
	m->priv_info = *info;
	m->dns = dns;
	snprintf(m->template_state, sizeof(m->template_state), "building");
	m->wake_pipe[0] = m->wake_pipe[1] = -1;
	mutex_init(&m->lock, "vmm");
	mutex_init(&m->quota, "vmm quota");
	mutex_init(&m->claim, "vmm claim");
	mutex_init(&m->tunnels, "vmm tunnels");
	rwlock_init(&m->gc, "vmm gc");
	rwlock_init(&m->debts_lock, "vmm debts");
	rwlock_init(&m->seed_lock, "vmm seed");
	cond_init(&m->cond);
	r = pipe2(m->wake_pipe, O_CLOEXEC | O_NONBLOCK) < 0 ? err_sys(err, -errno, "pipe") : 0;
	if (r == 0)
		r = history_new(m, err);
	if (r == 0)
		r = ahead_new(m, err);
	if (r == 0)
		r = pool_new(m, err);
	if (r == 0)
		r = sizes_new(m, err);
	if (r == 0)
		r = knock_new(m, err);
	if (r == 0)
		r = stored_new(m, err);
	if (r == 0)
		r = elsewhere_kind(m, err);
	if (r == 0)
		r = load_all(m, err);
	if (r == 0)
		r = vmm_recover(m, err);
	if (r == 0)
		greet_begin(m);
	if (r == 0)
		tunnels_expire(m, /* all= */ true);
	if (r == 0)
		r = start_thread(&m->reaper_thread, &m->has_reaper_thread, reaper_main, m, err);
	if (r == 0)
		r = start_thread(&m->template_thread, &m->has_template_thread, template_main, m,
		                 err);
	if (r == 0)
		r = start_thread(&m->keeper_thread, &m->has_keeper_thread, keeper_main, m, err);
	if (r == 0)
		r = stored_begin(m, err);
	if (r == 0)
		r = knock_begin(m, err);
	if (r == 0 && m->t.history)
		r = start_thread(&m->history_thread, &m->has_history_thread, history_main, m, err);
	if (r == 0 && m->conf.blanks)
		r = start_thread(&m->blank_thread, &m->has_blank_thread, blank_main, m, err);
	if (r == 0 && m->conf.pool)
		r = start_thread(&m->pool_thread, &m->has_pool_thread, pool_main, m, err);
	if (r == 0 && m->conf.n_sizes)
		r = start_thread(&m->sizes_thread, &m->has_sizes_thread, sizes_main, m, err);
	if (r < 0) {
		vmm_free(m);
		return r;
	}
	*ret = m;
	return 0;
}

struct vmm *vmm_free(struct vmm *m)
{
	if (!m)
		return NULL;
	mutex_lock(&m->lock);
	m->stopping = true;
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	if (m->wake_pipe[1] >= 0 && write(m->wake_pipe[1], "x", 1) < 0)
		log_debug("the reaper was awake already");
	stored_end(m);
	knock_stop(m);
	greet_end(m);
	if (m->has_template_thread)
		template_end(m);
	sizes_stop(m);
	if (m->has_keeper_thread)
		pthread_join(m->keeper_thread, NULL);
	reaper_end(m);
	if (m->has_history_thread)
		pthread_join(m->history_thread, NULL);
	if (m->has_pool_thread)
		pthread_join(m->pool_thread, NULL);
	if (m->has_blank_thread)
		pthread_join(m->blank_thread, NULL);
	sizes_end(m);
	pool_end(m);
	mutex_unshared(&m->lock);
	while (m->vms.n) {
		struct vm *vm = m->vms.all[0];

		if (vm->guest)
			guest_close(vm->guest);
		vmm_forget(m, vm);
	}
	table_done(&m->vms);
	knock_end(m);
	for (int i = 0; i < 2; i++)
		if (m->wake_pipe[i] >= 0)
			close(m->wake_pipe[i]);
	cond_destroy(&m->cond);
	rwlock_destroy(&m->gc);
	rwlock_destroy(&m->debts_lock);
	rwlock_destroy(&m->seed_lock);
	mutex_destroy(&m->quota);
	mutex_destroy(&m->claim);
	mutex_destroy(&m->tunnels);
	mutex_destroy(&m->lock);
	free(m->ca_pem);
	site_free(m->site);
	free(m->history);
	free(m->demand);
	stored_free(m);
	free(m);
	return NULL;
}
