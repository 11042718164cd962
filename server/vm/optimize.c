/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimize.c - what makes a VM smaller and quicker to thaw, now instead of some day
 *
 * A running guest gives free blocks of its disk back (fstrim) and lets go of clean
 * page cache. Then the chains below the VM are flattened, as the keeper does when
 * they grow long. A VM that rests is not woken: only its chains are flattened.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

#define FLATTEN_MIN 3 /* layers: its own, one more, and the shared bottom */

struct note {
	char *p;
	size_t size, n;
};

static void say(struct note *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct note *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (w->n && w->n < w->size)
		w->n += (size_t)snprintf(w->p + w->n, w->size - w->n, "; ");
	if (w->n >= w->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(w->p + w->n, w->size - w->n, fmt, ap);
	va_end(ap);
	w->n += n > 0 ? (size_t)n : 0;
}

static void trim(struct vm *vm, struct note *w)
{
	AUTO(guest_exec_result_done) struct guest_exec_result out = { 0 };
	struct guest_exec_req x = { .command = "sync; /usr/sbin/fstrim -v / && "
		                               "echo 1 >/proc/sys/vm/drop_caches",
		                    .timeout_ms = vm->m->t.trim };
	struct err err = { 0 };

	if (!vm->guest || !guest_alive(vm->guest)) {
		if (vm_reconnect(vm, &err) < 0) {
			say(w, "the guest was not asked: %s", err.msg);
			return;
		}
	}
	if (guest_exec(vm->guest, &x, &out, &err) < 0) {
		say(w, "the guest's disk was not trimmed: %s", err.msg);
	} else if (out.timed_out || out.exit_code != 0) {
		say(w, "the guest's disk was not trimmed: %.120s", out.errout ? out.errout : "");
	} else {
		const char *text = out.out ? out.out : "";

		say(w, "trimmed %.*s, page cache dropped", (int)MIN(strcspn(text, "\n"), 120u),
		    text);
	}
}

static int shorten(struct vm *vm, const char *layer, enum layer_kind kind, bool writing,
                   struct note *w, struct err *err)
{
	const char *name = kind == LAYER_MEM ? "memory" : "disk";
	struct engine_chain c;
	char id[ID_SIZE];
	size_t n;
	int r = chain_load(vm->m, layer, &c, err);

	if (r < 0)
		return r;
	n = c.n && writing ? c.n - 1 : c.n; /* the top is being written to */
	if (n < FLATTEN_MIN)
		return 0;
	r = flatten_layer(vm->m, c.l[n - 1].id, kind, vm, id, err);
	if (r == 0)
		say(w, "%zu %s layers became 2", n, name);
	return r;
}

/* The layers a VM at rest stands on: its point's, or its own disk. */
static int shorten_resting(struct vm *vm, struct note *w, struct err *err)
{
	struct store_point p = { 0 };
	int r;

	if (vm->row.info.state != VM_SUSPENDED)
		return 0; /* the disk of a stopped VM has layers that only it writes to */
	r = store_point_get(vm->m->store, vm->row.info.point, &p, err);
	if (r == 0)
		r = shorten(vm, p.mem_layer, LAYER_MEM, false, w, err);
	return r < 0 ? r : shorten(vm, p.disk_layer, LAYER_DISK, false, w, err);
}

int vmm_optimize(struct vmm *m, const char *account, const char *id, char *message, size_t size,
                 struct err *err)
{
	struct note w = { .p = message, .size = size };
	struct vm *vm;
	int r = vmm_lock(m, account, id, &vm, err);

	if (r < 0)
		return r;
	message[0] = '\0';
	if (vm->row.info.state == VM_RUNNING) {
		trim(vm, &w);
		r = shorten(vm, vm->row.base_mem, LAYER_MEM, false, &w, err);
		if (r == 0)
			r = shorten(vm, vm->row.disk_layer, LAYER_DISK, true, &w, err);
	} else {
		r = shorten_resting(vm, &w, err);
	}
	vm_unlock(vm);
	vmm_collect_soon(m);
	if (r < 0)
		return err_wrap(err, r, "optimize VM %s", id);
	if (!w.n)
		say(&w, "nothing to do: its chains are already short");
	return 0;
}
