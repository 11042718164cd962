/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freed.c - memory that guests have freed: it goes back to the host, and not into layers
 *
 * The layer library finds it in the guest's own records (layers/guestmem.c), if it is told where
 * the note of the guest's kernel is. Root of the guest knows: it is read once for each booted
 * kernel, which its boot id tells apart; all that descends from one boot has the same. A freeze
 * then leaves out what is free. A VM that runs is looked at by the keeper when it has become quiet
 * after it did something, or every so often while it does not, and what is free goes back to the
 * host.
 *
 * A guest that is not answered for, or whose kernel has no such note, is frozen whole, as before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "vm/vm_internal.h"

#define NOTE_FILE "/sys/kernel/vmcoreinfo" /* "0x3f7e1000 2000" */
#define NOTE_PAGE 4096u
#define NOTE_ADDR_MAX (UINT64_C(1) << 43)

/* A look costs milliseconds, so only after the VM did something, and had memory to free. */
#define LEAST_PRIVATE_KB (64u << 10)
#define LEAST_CPU_US 300000u
#define QUIET_PERCENT 25.0f /* of a processor */
#define BUSY_MS 60000u      /* between two looks at a VM that is never quiet */

struct text {
	char p[64];
	size_t n;
};

static int take(void *ctx, const uint8_t *p, size_t n)
{
	struct text *t = ctx;

	if (n >= sizeof(t->p) - t->n)
		return -EMSGSIZE;
	memcpy(t->p + t->n, p, n);
	t->n += n;
	return 0;
}

/* 0 if it is nothing of the kind. */
static uint64_t note_of(const char *text)
{
	char *end;
	uint64_t addr = strtoull(text, &end, 16);

	return end == text || *end != ' ' || addr % NOTE_PAGE || addr > NOTE_ADDR_MAX ? 0 : addr;
}

static bool recall(struct vm *vm, uint64_t *ret)
{
	struct vmm *m = vm->m;
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; *vm->freed.boot_id && i < NOTES_MAX; i++)
		if (!strcmp(m->notes.n[i].boot_id, vm->freed.boot_id)) {
			*ret = m->notes.n[i].addr;
			return true;
		}
	return false;
}

void vm_learn_note(struct vm *vm)
{
	struct vmm *m = vm->m;
	struct text t = { 0 };
	struct err err = { 0 };
	uint64_t addr;
	int r;

	if (!vm->guest || !guest_alive(vm->guest) || !*vm->freed.boot_id || recall(vm, &addr))
		return;
	r = guest_read_file(vm->guest, NULL, NOTE_FILE, 0, 0, take, &t, deadline_in(m->t.settle),
	                    &err);
	if (r < 0 && r != -ENOENT) {
		vm_log(vm, LOG_LV_DEBUG, "what its guest has free is not known: %s", err.msg);
		return;
	}
	LOCK_SCOPE(&m->lock);
	snprintf(m->notes.n[m->notes.next].boot_id, sizeof(m->notes.n[0].boot_id), "%s",
	         vm->freed.boot_id);
	m->notes.n[m->notes.next].addr = r < 0 ? 0 : note_of(t.p);
	m->notes.next = (m->notes.next + 1) % NOTES_MAX;
}

uint64_t vm_note(struct vm *vm)
{
	uint64_t addr = 0;

	return vm->guest && guest_alive(vm->guest) && recall(vm, &addr) ? addr : 0;
}

/* Is it time? Notes that it was. */
static bool due(struct vm *vm)
{
	struct vm_freed *f = &vm->freed;
	uint64_t now = clock_ms();
	LOCK_SCOPE(&vm->m->lock);

	if (f->cpu_us < f->swept_cpu_us) /* another machine's */
		f->swept_cpu_us = 0;
	if (vm->private_kb < LEAST_PRIVATE_KB || f->cpu_us < f->swept_cpu_us + LEAST_CPU_US ||
	    (f->cpu > QUIET_PERCENT && now < f->swept_ms + BUSY_MS))
		return false;
	f->swept_cpu_us = f->cpu_us;
	f->swept_ms = now;
	return true;
}

int vm_sweep(struct vm *vm, struct err *err)
{
	struct machine_swept s;
	uint64_t note;
	int r;

	vm_learn_note(vm);
	note = vm_note(vm);
	if (!note)
		return 0;
	r = machine_sweep(vm->machine, note, &s, err);
	metrics_add(METRIC_VM_FREED_BYTES, 0, s.given_pages * NOTE_PAGE);
	if (r < 0)
		vm_go_on(vm);
	else if (s.given_pages)
		vm_log(vm, LOG_LV_INFO, "%llu MB that it had freed went back (stopped for %.1f ms)",
		       (unsigned long long)(s.given_pages * NOTE_PAGE >> 20),
		       (double)s.pause_us / 1e3);
	return r;
}

void vm_look_at_freed(struct vm *vm)
{
	struct err err = { 0 };

	if (vm->machine && !vm->stalled && vm->row.info.state == VM_RUNNING && due(vm) &&
	    vm_sweep(vm, &err) < 0)
		vm_log(vm, LOG_LV_DEBUG, "freed memory was not given back: %s", err.msg);
}
