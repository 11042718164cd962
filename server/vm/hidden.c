/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hidden.c - a machine thawed only to look into it
 *
 * It goes the one way every thaw goes, with the gate left closed, and is in no table and no
 * store: nobody can list, use or keep it. Its disk layer is a file nobody names. If the server
 * dies, recovery ends its process, frees its slot and removes its files like those of any thaw that
 * was never acknowledged.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

struct hidden {
	struct vm *vm; /* owned */
	struct bringup b;
	struct engine_point p;
	char point[ID_SIZE];
};

static int enter(struct vmm *m, struct vm *vm, struct err *err)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; !m->no_hidden && i < HIDDEN_MAX; i++) {
		if (m->hidden[i])
			continue;
		m->hidden[i] = vm;
		return 0;
	}
	return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	               "too many comparisons at once: try again later");
}

static void leave(struct vmm *m, const struct vm *vm)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < HIDDEN_MAX; i++)
		if (m->hidden[i] == vm)
			m->hidden[i] = NULL;
}

static struct vm *make_vm(struct vmm *m, const struct engine_point *p)
{
	struct store_vm row = { .slot = -1,
		                .info = { .state = VM_STARTING,
		                          .created_ms = clock_wall_ms(),
		                          .idle_timeout_s = -1,
		                          .vcpus = p->vcpus,
		                          .mem_mb = p->mem_mb,
		                          .disk_mb = p->disk_mb } };

	id_make("", row.info.id);
	return vm_new(m, &row);
}

int hidden_thaw(struct vmm *m, const char *point, struct hidden **ret, struct err *err)
{
	struct hidden *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return err_set(err, -ENOMEM, "out of memory");
	snprintf(h->point, sizeof(h->point), "%s", point);
	r = vmm_hold(m, point, err);
	if (r < 0)
		goto no_hold;
	r = point_take(m, point, &h->p, err);
	if (r < 0)
		goto no_point;
	h->b = (struct bringup){
		.point = &h->p, .reason = GUEST_THAW, .agent_ms = m->t.agent_thaw, .hidden = true
	};
	h->vm = make_vm(m, &h->p);
	r = h->vm ? enter(m, h->vm, err) : err_set(err, -ENOMEM, "out of memory");
	if (r < 0)
		goto no_vm;
	mutex_lock(&h->vm->lock);
	r = vm_bring_up(h->vm, &h->b, err);
	mutex_unlock(&h->vm->lock);
	if (r < 0)
		goto not_up;
	log_obj(LOG_LV_DEBUG, "point", point, "thawed as the hidden machine %s",
	        h->vm->row.info.id);
	*ret = h;
	return 0;
not_up:
	leave(m, h->vm);
no_vm:
	vm_unref(h->vm);
	point_drop(m, &h->p);
no_point:
	vmm_release(m, point);
no_hold:
	free(h);
	return err_wrap(err, r, "thaw point %s for a comparison", point);
}

struct guest *hidden_guest(struct hidden *h)
{
	return h->vm->guest;
}

void hidden_end(struct hidden *h)
{
	struct vmm *m;

	if (!h)
		return;
	m = h->vm->m;
	leave(m, h->vm);
	mutex_lock(&h->vm->lock);
	vm_bring_up_undo(h->vm, &h->b);
	mutex_unlock(&h->vm->lock);
	vm_unref(h->vm);
	point_drop(m, &h->p);
	vmm_release(m, h->point);
	free(h);
}

void hidden_end_all(struct vmm *m)
{
	struct vm *v[HIDDEN_MAX] = { 0 };
	size_t n = 0;

	mutex_lock(&m->lock);
	m->no_hidden = true;
	for (size_t i = 0; i < HIDDEN_MAX; i++)
		if (m->hidden[i]) {
			v[n] = m->hidden[i];
			v[n++]->refs++;
		}
	mutex_unlock(&m->lock);
	for (size_t i = 0; i < n; i++) {
		vm_lock(v[i]); /* one that is just being thawed is waited for */
		if (v[i]->guest)
			guest_close(v[i]->guest);
		vm_unlock(v[i]);
	}
}
