/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bringup.c - a process for a VM, and its end
 *
 * Order: a blank process in a network slot (blank.c; gate closed), its disk,
 * memory and state, guest continues, agent channel, identity event, and only
 * when the agent confirmed it: name forwarding and the open gate. No confirmation, no traffic: on
 * any failure everything is taken down again. The caller holds the VM's lock and writes the state.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "net/gate.h"
#include "vm/seed.h"
#include "vm/template_own.h"

#define BOOTS 3 /* of a kernel that crashes while it boots */

static void make_identity(struct vm *vm, enum guest_reason reason, struct guest_identity *id)
{
	uint8_t raw[16];

	*id = (struct guest_identity){ .reason = reason, .generation = vm->row.info.generation };
	random_bytes(raw, sizeof(raw));
	raw[6] = (raw[6] & 0x0f) | 0x40; /* a version 4 UUID, as systemd makes them */
	raw[8] = (raw[8] & 0x3f) | 0x80;
	hex_encode(raw, sizeof(raw), id->machine_id);
	snprintf(id->hostname, sizeof(id->hostname), "%s", vm->row.info.id);
}

/* b: NULL for another connection to the same machine */
static int connect_agent(struct vm *vm, const struct bringup *b, enum guest_reason reason,
                         unsigned ms, struct err *err)
{
	struct guest_identity id;
	struct agent_who who;
	struct guest_info info;
	struct guest *g = NULL;
	int fd, r;

	r = machine_agent_socket(vm->machine, &fd, err);
	if (r < 0)
		return r;
	r = guest_new(vm->row.info.id, fd, &g, err);
	if (r < 0)
		return r;
	guest_silence(g, vm->m->t.agent_silent);
	guest_on_ring(g, vm_rang, vm->m);
	make_identity(vm, reason, &id);
	vm_who(vm, b, &who);
	id.who = &who;
	r = guest_hello(g, &id, deadline_in(ms), &info, err);
	if (r < 0) {
		guest_close(g);
		guest_unref(g);
		return err_wrap(err, r, "the agent in VM %s", vm->row.info.id);
	}
	vm->guest = g;
	snprintf(vm->freed.boot_id, sizeof(vm->freed.boot_id), "%s", info.boot_id);
	vm_who_known(vm, &who);
	return 0;
}

static void drop_guest(struct vm *vm)
{
	if (!vm->guest)
		return;
	guest_close(vm->guest);
	guest_unref(vm->guest);
	vm->guest = NULL;
}

/* owed: its machine still runs, so the slot is not free yet. */
static void drop_slot(struct vm *vm, bool owed)
{
	struct err err = { 0 };

	if (!vm->has_slot)
		return;
	dns_remove(vm->m->dns, vm->slot.idx);
	gate_drop(vm->m->conf.gates, vm->slot.idx);
	if (vm->slot.dns_udp >= 0)
		close(TAKE_FD(vm->slot.dns_udp));
	if (vm->slot.dns_tcp >= 0)
		close(TAKE_FD(vm->slot.dns_tcp));
	if (!owed && privc_slot_free(vm->m->priv, vm->slot.idx, &err) < 0) {
		vm_log(vm, LOG_LV_WARN, "slot %u was not freed, tried again later: %s",
		       vm->slot.idx, err.msg);
		debt_add(vm->m, "", (int)vm->slot.idx);
	}
	vm->has_slot = false;
	vm->row.slot = -1;
}

void vm_take_down(struct vm *vm)
{
	struct err err = { 0 };
	bool owed = false;

	reaper_remove(vm);
	drop_guest(vm);
	vm->stalled = vm->trusts = vm->sited = vm->untold = false;
	if (vm->machine) {
		owed = machine_kill(vm->machine, &err) < 0;
		if (owed) {
			vm_log(vm, LOG_LV_WARN, "process was not ended, tried again later: %s",
			       err.msg);
			debt_add(vm->m, vm->row.info.instance,
			         vm->has_slot ? (int)vm->slot.idx : -1);
		}
		vm->machine = machine_free(vm->machine);
	}
	drop_slot(vm, owed);
}

/* The disk layer to write to: the one it has if only this VM knows it, else a new one on top. */
static int plan_disk(struct vm *vm, struct bringup *b, struct machine_load *s, struct err *err)
{
	struct store_vm *row = &vm->row;
	int sealed = 1;

	snprintf(b->before, sizeof(b->before), "%s", row->disk_layer);
	b->layer = (struct store_layer){ .kind = LAYER_DISK };
	/* A guess would be fatal: others may stand on a closed layer. */
	if (!b->point && *row->disk_layer &&
	    (sealed = layer_sealed(vm->m, row->disk_layer, err)) < 0)
		return sealed;
	if (!sealed) {
		s->disk_layer_exists = true;
	} else {
		id_make("ly-", b->layer.id);
		/* The point's chain may have been flattened since: its top is then not the one we
		 * know. */
		snprintf(b->layer.parent, sizeof(b->layer.parent), "%s",
		         b->point && b->point->disk.n ? b->point->disk.l[b->point->disk.n - 1].id
		                                      : row->disk_layer);
		snprintf(b->layer.format, sizeof(b->layer.format), "qcow2");
		snprintf(row->disk_layer, sizeof(row->disk_layer), "%s", b->layer.id);
	}
	snprintf(s->disk_layer, sizeof(s->disk_layer), "%s", row->disk_layer);
	return 0;
}

static void use_process(struct vm *vm, const struct blank *s)
{
	vm->machine = s->machine;
	vm->slot = s->slot;
	vm->has_slot = true;
	vm->row.slot = (int)s->slot.idx;
	snprintf(vm->row.info.instance, sizeof(vm->row.info.instance), "%s", s->instance);
	vm_publish(vm); /* whoever must end it while it starts knows it by this name */
}

static int take_shell(struct vm *vm, const struct bringup *b, bool *ret_ahead, struct err *err)
{
	struct machine_spawn sp = { .vcpus = vm->row.info.vcpus,
		                    .mem_mb = vm->row.info.mem_mb,
		                    .seed = b->seed,
		                    .boot = !b->point };
	struct blank s;
	int r = blank_take(vm->m, &sp, /* waited_for= */ !b->ahead, &s, err);

	if (r < 0)
		return r;
	use_process(vm, &s);
	*ret_ahead = s.ahead;
	return 0;
}

static int load_machine(struct vm *vm, struct bringup *b, const struct machine_load *l,
                        struct err *err)
{
	bool ahead = false;
	struct blank s;
	int r;

	if (seed_fork(vm, b, l, &s) == 0) {
		use_process(vm, &s);
		return 0;
	}
	do {
		r = take_shell(vm, b, &ahead, err);
		if (r < 0)
			return r;
		r = machine_load(vm->machine, l, err);
		/* A process that waited may have died in that moment: that is no one's fault. */
		if (r == 0 || !ahead || machine_alive(vm->machine))
			return r;
		vm_take_down(vm);
	} while (true);
}

static int start_machine(struct vm *vm, struct bringup *b, struct err *err)
{
	struct machine_load l = { .disk_mb = vm->row.info.disk_mb, .point = b->point };
	struct engine_chain held = { 0 };
	int r;

	r = plan_disk(vm, b, &l, err);
	if (r < 0)
		return r;
	if (b->point) {
		l.disk = b->point->disk; /* held by the caller */
	} else {
		r = chain_take(vm->m, b->before, &held, err);
		if (r < 0)
			return r;
		l.disk = held;
		if (l.disk_layer_exists)
			l.disk.n--; /* its own layer is on top of the chain */
	}
	r = load_machine(vm, b, &l, err);
	chain_drop(vm->m, &held);
	return r;
}

static void log_times(struct vm *vm, uint64_t t_start, uint64_t t_cont, uint64_t t_hello)
{
	const struct machine_times *t = machine_times(vm->machine);
	double map = t->mapped ? (double)(t->mapped - t->disk) / 1e3 : 0;
	double state = t->loaded ? (double)(t->loaded - t->mapped) / 1e3 : 0;

	vm_log(vm, LOG_LV_DEBUG,
	       "up: process %.1f ms, disk %.1f, map %.1f, state %.1f, cont %.1f, agent %.1f; the "
	       "process: files %.1f, spawn %.1f, monitor %.1f",
	       (double)(t_start - MAX(t->loaded, t->disk)) / 1e3, (double)t->disk / 1e3, map, state,
	       (double)t_cont / 1e3, (double)t_hello / 1e3, (double)t->prepared / 1e3,
	       (double)(t->spawned - t->prepared) / 1e3, (double)(t->monitor - t->spawned) / 1e3);
}

/*
 * A process that ends closes its sockets some time before it can be seen to have ended: that is
 * waited for, so that a dead machine is not taken for one whose agent dropped the channel.
 */
bool vm_ended(const struct vm *vm)
{
	return proc_wait_end(machine_proc(vm->machine), deadline_in(vm->m->t.death)) == 1;
}

/* The channel was dropped. A machine that lives is asked anew. */
static int after_drop(struct vm *vm, struct bringup *b, int r, struct err *err)
{
	char tail[CONSOLE_TAIL];

	if (vm_ended(vm)) {
		machine_console_tail(vm->m->engine, vm->row.info.instance, tail, sizeof(tail));
		vm_log(vm, LOG_LV_WARN, "QEMU ended before its agent answered");
		vm_log_words(vm, "console", tail);
		err_wrap(err, r, "QEMU ended");
		return r;
	}
	vm_log(vm, LOG_LV_WARN, "%s; QEMU is still running, connecting again", err ? err->msg : "");
	return connect_agent(vm, b, b->reason, b->agent_ms, err);
}

static int up_once(struct vm *vm, struct bringup *b, struct err *err)
{
	uint64_t t0 = clock_us(), t_start, t_cont = 0;
	/* A template that is booted ahead of need is not what others wait for the end of. */
	bool counts = !b->ahead || b->point;
	int r;

	if (!b->ahead)
		sizes_make_way(vm->m);
	if (counts)
		vmm_start_begin(vm->m);
	vm->row.info.generation++;
	vm->idle_since_ms = 0;
	r = start_machine(vm, b, err);
	t_start = clock_us();
	if (r == 0)
		r = machine_cont(vm->machine, err);
	t_cont = clock_us();
	if (r == 0)
		r = connect_agent(vm, b, b->reason, b->agent_ms, err);
	if (r == -ECONNRESET)
		r = after_drop(vm, b, r, err);
	if (r == 0) {
		log_times(vm, t_start - t0, t_cont - t_start, clock_us() - t_cont);
		vm_told_already(vm, b->point);
		if (!b->hidden)
			r = vm_open_network(vm, /* as_built= */ true, err);
	}
	if (counts)
		vmm_start_end(vm->m);
	return r;
}

/*
 * A kernel that fell over while it booted, before it loaded what would have helped it
 * (image/kmod): the next boot is another throw of the dice.
 */
static bool crashed_at_boot(struct vm *vm, const struct bringup *b, int r)
{
	return r == -ECONNRESET && !b->point && vm->machine && machine_rebooted(vm->machine);
}

int vm_bring_up(struct vm *vm, struct bringup *b, struct err *err)
{
	uint64_t t0 = clock_us();
	struct err why = { 0 };
	int r;

	for (unsigned boots = 1;; boots++) {
		r = up_once(vm, b, err);
		if (boots == BOOTS || !crashed_at_boot(vm, b, r))
			break;
		vm_log(vm, LOG_LV_WARN, "the guest's kernel crashed while booting; trying again");
		vm_bring_up_undo(vm, b);
		if (err)
			*err = (struct err){ 0 };
	}
	if (r < 0) {
		vm_bring_up_undo(vm, b);
		return r;
	}
	/* A template does it when its services are up: what waits for that is slower with more. */
	if (!b->point && !vm->template && vm_all_vcpus(vm, &why) < 0)
		vm_log(vm, LOG_LV_WARN, "not all of its vCPUs are on: %s", why.msg);
	metrics_since(b->point ? METRIC_VM_THAW : METRIC_VM_BOOT, 0, t0);
	if (!b->hidden)
		reaper_add(vm);
	return 0;
}

void vm_bring_up_undo(struct vm *vm, struct bringup *b)
{
	vm_take_down(vm);
	snprintf(vm->row.disk_layer, sizeof(vm->row.disk_layer), "%s", b->before);
	if (*b->layer.id)
		engine_remove_layer(vm->m->engine, b->layer.id);
}

/*
 * A new connection to the same machine. An agent that was started anew does not
 * know its generation any more: it gets the whole identity event again.
 */
int vm_reconnect(struct vm *vm, struct err *err)
{
	int r;

	drop_guest(vm);
	r = connect_agent(vm, NULL, GUEST_RECONNECT, vm->m->t.agent_reconnect, err);
	if (r < 0 && r != -ETIMEDOUT && machine_alive(vm->machine))
		r = connect_agent(vm, NULL, GUEST_THAW, vm->m->t.agent_reconnect, err);
	return r;
}
