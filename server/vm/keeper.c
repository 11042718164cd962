/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.c - the background thread: garbage, checksums, long chains, idle VMs
 *
 * Nothing here is needed for an answer, so it runs on one thread of its own
 * and takes VM locks only with trylock: a busy VM is looked at next time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "store/store_node.h"
#include "vm/stored.h"
#include "vm/vpc.h"

#define KEEPER_TICK_MS 2000 /* how often idle VMs are looked for */
#define USAGE_SAVE_MS 60000 /* how often the usage of running VMs is saved */

void vmm_collect(struct vmm *m)
{
	autofree char(*holds)[ID_SIZE] = calloc(HOLDS_MAX, ID_SIZE);
	autofree const char **names = calloc(HOLDS_MAX, sizeof(*names));
	struct store_garbage g = { 0 };
	struct err err = { 0 };
	size_t n;
	int r;

	if (!holds || !names) {
		log_warn("collect garbage: out of memory; tried again later");
		return;
	}
	rwlock_wrlock(&m->gc);
	mutex_lock(&m->lock);
	n = m->n_holds;
	memcpy(holds, m->holds, n * ID_SIZE);
	mutex_unlock(&m->lock);
	for (size_t i = 0; i < n; i++)
		names[i] = holds[i];
	r = store_collect(m->store, names, n, names, n, &g, &err);
	rwlock_unlock(&m->gc);
	if (r < 0) {
		log_warn("collect garbage: %s; trying again later", err.msg);
		return;
	}
	for (size_t i = 0; i < g.n_points; i++)
		engine_remove_point(m->engine, g.points[i]);
	for (size_t i = 0; i < g.n_layers; i++)
		engine_remove_layer(m->engine, g.layers[i]);
	if (g.n_layers || g.n_points)
		log_debug("removed %zu points and %zu layers", g.n_points, g.n_layers);
	store_garbage_done(&g);
}

static bool stopping(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	return m->stopping;
}

/* Closed disk layers get their checksum when there is time. */
static void seal_layers(struct vmm *m)
{
	autofree struct store_layer *l = NULL;
	struct err err = { 0 };
	size_t n = 0;

	if (store_layer_list(m->store, &l, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n && !stopping(m); i++) {
		uint64_t bytes;
		uint32_t crc;

		if (l[i].kind != LAYER_DISK || l[i].has_crc || !l[i].bytes ||
		    strcmp(l[i].format, "qcow2") != 0)
			continue;
		if (engine_layer_crc(m->engine, l[i].id, &bytes, &crc, &err) < 0 ||
		    bytes != l[i].bytes)
			continue; /* removed meanwhile, or damaged: the thaw will say so */
		store_layer_seal(m->store, l[i].id, bytes, crc, /* has_crc= */ true, &err);
	}
}

static void flatten_chains(struct vmm *m)
{
	autofree struct store_point *p = NULL;
	struct vmm_objects objects;
	char new_id[ID_SIZE];
	struct err err = { 0 };
	size_t n = 0;

	/* What other nodes can fetch changes over to what is stored, too: flatten_layer(). */
	vmm_objects(m, &objects);
	if ((objects.failing && *store_node_id(m->store)) ||
	    store_point_list(m->store, &p, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n && !stopping(m); i++) {
		for (int kind = 0; kind < LAYER_KIND_MAX; kind++) {
			const char *top = kind == LAYER_MEM ? p[i].mem_layer : p[i].disk_layer;
			struct store_layer l;

			if (!*top || store_layer_get(m->store, top, &l, NULL) < 0 ||
			    l.depth + 1 < ENGINE_FLATTEN_AT || !fetch_is_here(m, top))
				continue;
			if (vmm_hold(m, p[i].id, &err) < 0)
				return;
			if (flatten_layer(m, top, kind, /* own= */ NULL, new_id, &err) < 0)
				log_obj(LOG_LV_WARN, "point", p[i].id,
				        "was not flattened, ignoring: %s", err.msg);
			vmm_release(m, p[i].id);
		}
	}
}

/* NIC bytes moved since the last look (and calls, where they count)? Then it is not idle. */
static bool is_idle(struct vm *vm, const struct vm_info *i)
{
	struct priv_slot_stats st;
	uint64_t total, now = clock_ms();
	bool used = vm_guest_used(vm) && i->count_exec;
	uint64_t least = i->activity_threshold > 0 ? (uint64_t)i->activity_threshold : 1;

	if (privc_slot_stats(vm->m->priv, vm->slot.idx, &st, NULL) < 0)
		return false;
	vm->nic = st;
	vm->nic_ms = now;
	total = st.from_guest_bytes + st.to_guest_bytes;
	if (!vm->idle_since_ms || total < vm->idle_bytes || total - vm->idle_bytes >= least) {
		if (vm->idle_since_ms && total > vm->idle_bytes) {
			vm->row.info.last_network_ms = clock_wall_ms();
			vm_publish(vm);
		}
		vm->idle_since_ms = now;
	}
	if (atomic_load(&vm->touched_ms) > vm->idle_since_ms) {
		vm->row.info.last_network_ms = clock_wall_ms();
		vm_publish(vm);
		vm->idle_since_ms = now;
	}
	if (used)
		vm->idle_since_ms = now;
	vm->idle_bytes = total;
	return i->idle_timeout_s >= 0 &&
	       now - vm->idle_since_ms >= (uint64_t)i->idle_timeout_s * 1000;
}

/* Calls that are cut off by it say which settings would have prevented that. */
static int suspend_idle(struct vm *vm, const struct vm_info *i, struct err *err)
{
	char why[320];
	int r;

	vm_log(vm, LOG_LV_INFO, "idle for %lld s: suspending", (long long)i->idle_timeout_s);
	vm_tell(vm, EVENT_INFO, "idle for %lld s: suspending", (long long)i->idle_timeout_s);
	snprintf(why, sizeof(why),
	         "the VM was suspended during the call, after %lld s without network traffic: "
	         "running work does not keep it awake while countExecAsActivity is false; set that "
	         "to true, or raise idleTimeoutSeconds",
	         (long long)i->idle_timeout_s);
	if (vm->guest)
		guest_expect_end(vm->guest, why);
	vm->why = "idle";
	r = vm_suspend_locked(vm, err);
	vm->why = NULL;
	if (r < 0 && vm->guest)
		guest_expect_end(vm->guest, "");
	return r;
}

/* Its time is over. One that is made anew has no end from then on. */
static void expire(struct vm *vm, struct err *err)
{
	int64_t at = vm->row.info.delete_at_ms;

	vm_tell(vm, EVENT_INFO, "its time is over (deleteAfterSeconds): deleting");
	vm->row.info.delete_at_ms = 0;
	if (vm_delete_locked(vm, "expired", err) < 0) {
		vm->row.info.delete_at_ms = at; /* tried again */
		vm_log(vm, LOG_LV_WARN, "its time is over, and it cannot be deleted: %s", err->msg);
	}
}

static bool is_over(const struct vm_info *i)
{
	return i->delete_at_ms && i->state != VM_BUILDING && clock_wall_ms() >= i->delete_at_ms;
}

static void look_at(struct vm *vm)
{
	struct err err = { 0 };
	struct vm_info i;

	if (!mutex_trylock(&vm->lock)) {
		vmm_save_later(vm->m); /* for all we know */
		return;
	}
	vm_copy_info(vm, &i);
	if (!vm->gone && vm_save(vm, &err) < 0) {
		vm_log(vm, LOG_LV_WARN, "not written down yet: %s", err.msg);
		vmm_save_later(vm->m);
	}
	if (!vm->gone && is_over(&i)) {
		expire(vm, &err);
		vm_copy_info(vm, &i);
	}
	if (!vm->gone && (i.state == VM_RUNNING || i.state == VM_BUILDING)) {
		vm_look_at_stall(vm);
		machine_logs_trim(vm->m->engine, i.instance);
	}
	if (!vm->gone) {
		vm_look_at_checkpoint(vm);
		vm_look_at_freed(vm);
	}
	if (vm->gone || i.state != VM_RUNNING || !vm->has_slot || vm->stalled) {
		vm->idle_since_ms = 0;
	} else if (is_idle(vm, &i)) {
		vm->idle_since_ms = 0;
		if (suspend_idle(vm, &i, &err) < 0)
			vm_log(vm, LOG_LV_WARN, "%s", err.msg);
		else if (i.persistence.type == PERSIST_EPHEMERAL &&
		         i.persistence.delete_event == DELETE_ON_SUSPEND)
			vm_delete_locked(vm, "ephemeral", &err);
	}
	mutex_unlock(&vm->lock);
}

/* Those at rest have nothing to be looked at but their end, and what is not written down yet. */
static bool wants_a_look(const struct vm_info *i, int64_t now)
{
	return (i->state != VM_SUSPENDED && i->state != VM_STOPPED && i->state != VM_LOST) ||
	       (i->delete_at_ms && now >= i->delete_at_ms);
}

/* Referenced. NULL: out of memory; next time. */
static struct vm **to_look_at(struct vmm *m, size_t *ret_n)
{
	int64_t now = clock_wall_ms();
	struct vm **v;
	bool all;
	LOCK_SCOPE(&m->lock);

	all = m->some_unsaved;
	m->some_unsaved = false;
	v = calloc(m->vms.n ? m->vms.n : 1, sizeof(*v));
	*ret_n = 0;
	for (size_t i = 0; v && i < m->vms.n; i++) {
		struct vm *vm = m->vms.all[i];

		if (!all && !wants_a_look(&vm->shown, now))
			continue;
		vm->refs++;
		v[(*ret_n)++] = vm;
	}
	m->some_unsaved |= all && !v;
	return v;
}

static void look_at_all(struct vmm *m)
{
	size_t n;
	struct vm **v = to_look_at(m, &n);

	for (size_t i = 0; v && i < n; i++) {
		look_at(v[i]);
		vm_unref(v[i]);
	}
	free(v);
}

void *keeper_main(void *arg)
{
	struct vmm *m = arg;
	uint64_t save_at = deadline_in(USAGE_SAVE_MS);

	for (;;) {
		uint64_t ts = deadline_in(KEEPER_TICK_MS);
		bool wanted;

		mutex_lock(&m->lock);
		while (!m->stopping && !m->collect_wanted && !m->room_wanted &&
		       cond_wait_until(&m->cond, &m->lock, ts))
			;
		wanted = m->collect_wanted;
		m->collect_wanted = false;
		vmm_at_work(m, &m->keeping, true);
		if (m->stopping) {
			mutex_unlock(&m->lock);
			return NULL;
		}
		mutex_unlock(&m->lock);
		if (wanted) {
			vmm_collect(m);
			vmm_look_at_disk(m);
			seal_layers(m);
			flatten_chains(m);
			vmm_collect(m);
		}
		vmm_look_at_disk(m);
		debts_pay(m);
		look_at_all(m);
		tunnels_expire(m, /* all= */ false);
		knock_tidy(m);
		if (deadline_left(save_at) == 0) {
			vmm_usage_save(m);
			save_at = deadline_in(USAGE_SAVE_MS);
		}
		mutex_lock(&m->lock);
		vmm_at_work(m, &m->keeping, false);
		mutex_unlock(&m->lock);
	}
}
