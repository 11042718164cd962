/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait.c - waiting for the end of a VM's machine
 *
 * A waiter knows the machine by its instance and holds a reference to the VM,
 * never its lock. When the VM shows another instance or a state without a
 * machine, the one that was waited for is gone; how it ended was noted by whoever
 * ended it. Each waiter has a descriptor that becomes readable when the VM changed.
 * Whoever has to do with machines of many VMs (the edge) is called instead.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "vm/vm_internal.h"

struct vm_wait {
	struct vm *vm; /* ref'd */
	char instance[ID_SIZE];
	int fd;                      /* owned eventfd */
	struct vm_wait *next, **ref; /* vm->waiters; m->lock */
};

static bool has_machine(enum vm_state s)
{
	return s == VM_STARTING || s == VM_RUNNING || s == VM_SUSPENDING || s == VM_BUILDING;
}

int vmm_wait_new(struct vmm *m, const char *account, const char *id, struct vm_wait **ret,
                 struct err *err)
{
	struct vm_wait *w = calloc(1, sizeof(*w));

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0) {
		free(w);
		return err_sys(err, -errno, "wait for a VM");
	}
	if (vmm_find(m, account, id, &w->vm, NULL) < 0) {
		vmm_wait_free(w);
		return vmm_gone(m, account, id, err);
	}
	*ret = w;
	LOCK_SCOPE(&m->lock);
	snprintf(w->instance, sizeof(w->instance), "%s", w->vm->shown.instance);
	w->next = w->vm->waiters;
	w->ref = &w->vm->waiters;
	if (w->next)
		w->next->ref = &w->next;
	w->vm->waiters = w;
	return 0;
}

void vmm_on_changed(struct vmm *m, vm_changed_fn fn, void *ctx)
{
	LOCK_SCOPE(&m->lock);
	for (size_t i = 0; i < ARRAY_SIZE(m->listeners); i++) {
		if (m->listeners[i].fn)
			continue;
		m->listeners[i].fn = fn;
		m->listeners[i].ctx = ctx;
		return;
	}
	log_error("more than %d listen to changes of VMs", VM_LISTENERS_MAX);
}

void vmm_off_changed(struct vmm *m, const void *ctx)
{
	LOCK_SCOPE(&m->lock);
	for (size_t i = 0; i < ARRAY_SIZE(m->listeners); i++)
		if (m->listeners[i].ctx == ctx)
			m->listeners[i].fn = NULL;
}

void vmm_say_changed(struct vmm *m, const char *vm, const char *ended)
{
	for (size_t i = 0; i < ARRAY_SIZE(m->listeners); i++)
		if (m->listeners[i].fn)
			m->listeners[i].fn(m->listeners[i].ctx, vm, ended);
}

void vm_wake_waiters(struct vm *vm, const struct vm_info *next)
{
	const struct vm_info *was = &vm->shown;

	bool ended = has_machine(was->state) && *was->instance &&
	             !(next && has_machine(next->state) && !strcmp(next->instance, was->instance));

	vmm_say_changed(vm->m, vm->row.info.id, ended ? was->instance : NULL);
	for (struct vm_wait *w = vm->waiters; w; w = w->next)
		(void)!eventfd_write(w->fd, 1); /* full means readable already */
}

int vmm_wait_fd(const struct vm_wait *w)
{
	return w->fd;
}

int vmm_wait_over(struct vm_wait *w, char ret_status[VM_EXIT_MAX])
{
	struct vm *vm = w->vm;
	const char *word;
	eventfd_t n;

	(void)!eventfd_read(w->fd, &n); /* what happens from here on makes it readable again */
	LOCK_SCOPE(&vm->m->lock);
	if (vm->buried)
		word = "deleted";
	else if (has_machine(vm->shown.state) && !strcmp(vm->shown.instance, w->instance))
		return 0;
	else
		word = *vm->last_exit ? vm->last_exit : vm_state_name(vm->shown.state);
	snprintf(ret_status, VM_EXIT_MAX, "%s", word);
	return 1;
}

struct vm_wait *vmm_wait_free(struct vm_wait *w)
{
	if (!w)
		return NULL;
	if (w->vm) {
		mutex_lock(&w->vm->m->lock);
		if (w->ref) {
			*w->ref = w->next;
			if (w->next)
				w->next->ref = w->ref;
		}
		mutex_unlock(&w->vm->m->lock);
		vm_unref(w->vm);
	}
	close(w->fd);
	free(w);
	return NULL;
}
