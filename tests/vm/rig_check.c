/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rig_check.c - whether table, store, processes, slots, layers and files agree
 *
 * When nobody is at work:
 * - every lock can be had, nothing is held against collection, no quota is held, nothing starts;
 * - the table and the store have the same VMs, each in a state of rest and with the same row;
 * - a running VM has a process that runs and is not stopped, a slot with an open gate, and the disk
 * layer that the machine writes to; any other VM has none of these;
 * - no process, slot, run directory or file belongs to nobody;
 * - every layer and point of the store has its file, of the size that it was closed with.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "store/store.h"
#include "tests/vm/rig.h"
#include "vm/vm_internal.h"

#define LOCK_MS 10000 /* the keeper may be looking */
#define SETTLE_MS 20000

struct check {
	struct rig *r;
	struct vmm *m;
	char *why;
	size_t size;
	bool bad;
	size_t n_running, n_ahead; /* VMs that run; machines made ahead of need */
};

static void wrong(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void wrong(struct check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->bad)
		return;
	c->bad = true;
	va_start(ap, fmt);
	vsnprintf(c->why, c->size, fmt, ap);
	va_end(ap);
}

#define WANT(c, cond, ...)                       \
	do {                                     \
		if (!(cond))                     \
			wrong((c), __VA_ARGS__); \
	} while (0)

static bool can_lock(struct mutex *l)
{
	if (!mutex_lock_until(l, deadline_in(LOCK_MS)))
		return false;
	mutex_unlock(l);
	return true;
}

static void check_locks(struct check *c)
{
	struct vmm *m = c->m;

	WANT(c, can_lock(&m->lock), "the manager's lock is held");
	WANT(c, can_lock(&m->quota), "the quota lock is held");
	WANT(c, can_lock(&m->tunnels), "the tunnels lock is held");
	WANT(c, rwlock_wrlock_until(&m->gc, deadline_in(LOCK_MS)), "the collector's lock is held");
	if (!c->bad)
		rwlock_unlock(&m->gc);
}

static void check_held(struct check *c)
{
	struct vmm *m = c->m;
	struct vmm_status st = { 0 };
	LOCK_SCOPE(&m->lock);

	pool_status(m, &st);
	for (size_t i = 0; i < SEEDS_MAX; i++)
		st.seeds += m->seeds[i].vm != NULL;
	WANT(c, table_is_right(&m->vms), "the table of VMs does not count them rightly");
	c->n_ahead = st.pool_ready + st.blanks + st.seeds;
	WANT(c, st.pool_ready || !m->n_holds, "%zu names are held, the first is %s", m->n_holds,
	     m->n_holds ? m->holds[0] : "");
	WANT(c, !m->n_held, "%zu quotas are held", m->n_held);
	WANT(c, !m->n_debts, "%zu machines or slots are not given back", m->n_debts);
	WANT(c, !m->n_starting, "%u VMs are starting", m->n_starting);
	WANT(c, !m->template_vm, "the template is being made");
	for (size_t i = 0; i < HIDDEN_MAX; i++)
		WANT(c, !m->hidden[i], "a hidden machine is left");
}

/* ---- one VM ---- */

static void same_row(struct check *c, const struct store_vm *a, const struct store_vm *b)
{
	const struct {
		const char *what, *table, *store;
	} same[] = {
		{ "account", a->info.account, b->info.account },
		{ "name", a->info.name, b->info.name },
		{ "state", vm_state_name(a->info.state), vm_state_name(b->info.state) },
		{ "point", a->info.point, b->info.point },
		{ "base point", a->base_point, b->base_point },
		{ "base memory", a->base_mem, b->base_mem },
		{ "disk layer", a->disk_layer, b->disk_layer },
		{ "head", a->head, b->head },
		{ "origin", a->origin, b->origin },
	};

	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		WANT(c, !strcmp(same[i].table, same[i].store),
		     "VM %s: %s is '%s', in the store '%s'", a->info.id, same[i].what,
		     same[i].table, same[i].store);
	WANT(c,
	     a->info.vcpus == b->info.vcpus && a->info.mem_mb == b->info.mem_mb &&
	             a->info.disk_mb == b->info.disk_mb,
	     "VM %s: its size is not the store's", a->info.id);
	if (a->info.state == VM_RUNNING)
		WANT(c, !strcmp(a->info.instance, b->info.instance),
		     "VM %s: instance %s, in the store %s", a->info.id, a->info.instance,
		     b->info.instance);
}

static bool file_there(struct check *c, const char *dir, const char *id, const char *suffix,
                       struct stat *st)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s%s", c->r->data_dir, dir, id, suffix);
	return stat(path, st) == 0;
}

static void check_machine(struct check *c, struct vm *vm)
{
	const char *id = vm->row.info.id;
	struct fake_machine fm;
	struct store_layer l;
	struct stat st;

	c->n_running++;
	if (!vm->machine || !vm->has_slot) {
		wrong(c, "VM %s runs without a %s", id, vm->machine ? "slot" : "machine");
		return;
	}
	if (!fake_find(c->r->fake, vm->row.info.instance, &fm)) {
		wrong(c, "VM %s runs, but the host has no machine %s", id, vm->row.info.instance);
		return;
	}
	WANT(c, machine_alive(vm->machine), "VM %s runs, its process has ended", id);
	WANT(c, fm.running, "VM %s runs, its machine stands still", id);
	WANT(c, fm.slot == (int)vm->slot.idx && vm->row.slot == fm.slot,
	     "VM %s: slot %u, in its row %d, its machine is in %d", id, vm->slot.idx, vm->row.slot,
	     fm.slot);
	WANT(c, c->r->fake->slots[fm.slot].taken, "VM %s: its slot is free", id);
	WANT(c, c->r->fake->slots[fm.slot].open, "VM %s runs behind a closed gate", id);
	WANT(c, fm.n_nodes && !strcmp(fm.nodes[fm.n_nodes - 1], vm->row.disk_layer),
	     "VM %s: its machine writes to %s, its row says %s", id,
	     fm.n_nodes ? fm.nodes[fm.n_nodes - 1] : "nothing", vm->row.disk_layer);
	WANT(c, vm->reaper_fd >= 0, "VM %s runs and nobody watches it", id);
	/* Those below may have been flattened away: QEMU has their files open. */
	WANT(c, file_there(c, "layers", vm->row.disk_layer, "", &st), "VM %s writes to no file",
	     id);
	WANT(c, store_layer_get(c->r->store, vm->row.disk_layer, &l, NULL) == 0 && !l.bytes,
	     "VM %s writes to layer %s, which is closed", id, vm->row.disk_layer);
}

/* What the manager's lock guards, not the VM's. */
static void guarded(struct vm *vm, unsigned *ret_refs, bool *ret_buried)
{
	LOCK_SCOPE(&vm->m->lock);

	*ret_refs = vm->refs;
	*ret_buried = vm->buried;
}

static void check_vm(struct check *c, struct vm *vm)
{
	const struct vm_info *i = &vm->row.info;
	struct store_vm row;
	struct store_point p;
	struct store_layer l;
	unsigned refs;
	bool buried;

	if (!can_lock(&vm->lock)) {
		wrong(c, "VM %s is locked", i->id);
		return;
	}
	LOCK_SCOPE(&vm->lock);
	guarded(vm, &refs, &buried);
	WANT(c, !vm->gone && !buried, "VM %s is deleted and in the table", i->id);
	/* The table's, ours, and perhaps that of the reaper, which sleeps with it. */
	WANT(c, refs <= 3, "VM %s has %u references", i->id, refs);
	WANT(c, vm->shown.state == i->state, "VM %s is %s and shown as %s", i->id,
	     vm_state_name(i->state), vm_state_name(vm->shown.state));
	WANT(c, vm->stored == i->state, "VM %s is %s, stored as %s", i->id, vm_state_name(i->state),
	     vm_state_name(vm->stored));
	if (store_vm_get(c->r->store, i->id, &row, NULL) < 0) {
		wrong(c, "VM %s is not in the store", i->id);
		return;
	}
	same_row(c, &vm->row, &row);
	if (*row.disk_layer)
		WANT(c, store_layer_get(c->r->store, row.disk_layer, &l, NULL) == 0,
		     "VM %s: the store has no disk layer %s", i->id, row.disk_layer);
	switch (i->state) {
	case VM_RUNNING:
		check_machine(c, vm);
		return;
	case VM_SUSPENDED:
		WANT(c, *i->point && store_point_get(c->r->store, i->point, &p, NULL) == 0,
		     "VM %s is suspended without a point", i->id);
		break;
	case VM_STOPPED:
		WANT(c, *row.disk_layer || vm_is_empty(&vm->row), "VM %s is stopped without a disk",
		     i->id);
		break;
	case VM_LOST:
		break;
	default:
		wrong(c, "VM %s is %s, and nobody is at work", i->id, vm_state_name(i->state));
	}
	WANT(c, !vm->machine && !vm->has_slot && !vm->guest, "VM %s is %s and has a machine", i->id,
	     vm_state_name(i->state));
	WANT(c, vm->row.slot == -1 || i->state != VM_SUSPENDED, "VM %s rests in slot %d", i->id,
	     vm->row.slot);
}

static void check_vms(struct check *c)
{
	autofree struct store_vm *rows = NULL;
	size_t n = 0, n_rows = 0;
	struct vm **v = vmm_all(c->m, &n);

	for (size_t i = 0; v && i < n; i++) {
		check_vm(c, v[i]);
		vm_unref(v[i]);
	}
	free(v);
	if (store_vm_list(c->r->store, NULL, &rows, &n_rows, NULL) < 0)
		wrong(c, "the store does not list its VMs");
	WANT(c, n == n_rows, "%zu VMs in the table, %zu in the store", n, n_rows);
}

/* ---- the host ---- */

static void check_host(struct check *c)
{
	size_t want = c->n_running + c->n_ahead;
	size_t alive = fake_alive(c->r->fake), slots = fake_slots(c->r->fake);

	WANT(c, alive == want, "%zu machines run, %zu VMs and %zu made ahead", alive, c->n_running,
	     c->n_ahead);
	WANT(c, slots == want, "%zu slots are taken, %zu VMs run and %zu machines were made ahead",
	     slots, c->n_running, c->n_ahead);
}

/* Files of a folder that are not known; n: how many there are. */
static size_t count_files(struct check *c, const char *dir,
                          bool (*known)(struct check *c, const char *name))
{
	autodir DIR *d = NULL;
	char path[PATH_MAX], last[256] = "";
	struct dirent *de;
	size_t unknown = 0;

	snprintf(path, sizeof(path), "%s/%s", c->r->data_dir, dir);
	d = opendir(path);
	while (d && (de = readdir(d))) {
		if (de->d_name[0] == '.' || known(c, de->d_name))
			continue;
		unknown++;
		snprintf(last, sizeof(last), "%s", de->d_name);
	}
	WANT(c, unknown <= c->n_ahead, "%s/%s belongs to nothing (%zu such files)", dir, last,
	     unknown);
	return unknown;
}

static bool layer_known(struct check *c, const char *name)
{
	struct store_layer l;

	return store_layer_get(c->r->store, name, &l, NULL) == 0;
}

static bool point_known(struct check *c, const char *name)
{
	struct store_point p;
	char id[64];

	snprintf(id, sizeof(id), "%.*s", (int)strcspn(name, "."), name);
	return store_point_get(c->r->store, id, &p, NULL) == 0;
}

static bool run_known(struct check *c, const char *name)
{
	struct fake_machine fm;

	return fake_find(c->r->fake, name, &fm) && !fm.ended;
}

static void check_files(struct check *c)
{
	autofree struct store_layer *l = NULL;
	autofree struct store_point *p = NULL;
	size_t n_layers = 0, n_points = 0;
	struct stat st;

	if (store_layer_list(c->r->store, &l, &n_layers, NULL) < 0 ||
	    store_point_list(c->r->store, &p, &n_points, NULL) < 0) {
		wrong(c, "the store does not list its layers");
		return;
	}
	for (size_t i = 0; i < n_layers; i++) {
		if (!file_there(c, "layers", l[i].id, "", &st))
			WANT(c, l[i].stored, "layer %s of the store has no file", l[i].id);
		else
			WANT(c, !l[i].bytes || (uint64_t)st.st_size == l[i].bytes,
			     "layer %s has %lld bytes, %llu in the store", l[i].id,
			     (long long)st.st_size, (unsigned long long)l[i].bytes);
	}
	for (size_t i = 0; i < n_points; i++)
		WANT(c, p[i].stored || file_there(c, "points", p[i].id, ".state", &st),
		     "point %s of the store has no state file", p[i].id);
	count_files(c, "layers", layer_known);
	count_files(c, "points", point_known);
	count_files(c, "run", run_known);
}

bool rig_agrees(struct rig *r, char *why, size_t size)
{
	struct check c = { .r = r, .m = r->vmm, .why = why, .size = size };

	why[0] = '\0';
	check_locks(&c);
	if (c.bad)
		return false; /* the rest would wait for ever */
	check_held(&c);
	check_vms(&c);
	check_host(&c);
	check_files(&c);
	return !c.bad;
}

void rig_check(struct rig *r)
{
	uint64_t until = deadline_in(SETTLE_MS);
	char why[512];

	rig_settle(r);
	/* Threads that have done their work may still hold what they used. */
	while (!rig_agrees(r, why, sizeof(why))) {
		if (clock_ms() >= until)
			fail_msg("%s", why);
		usleep(10000);
	}
}
