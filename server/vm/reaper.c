/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reaper.c - sees QEMU processes end by themselves
 *
 * One thread polls the pidfds of all running VMs. When a process ends
 * without our doing (the guest powered off or rebooted, QEMU crashed or was killed by the
 * kernel for want of memory), a thread of its own waits for the VM's lock and then settles the
 * state: the disk is there, the memory is gone. If no thread can be had it is tried again
 * in a moment, since nobody may ever use that VM again, and an ephemeral one is to be deleted.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "vm/vm_internal.h"

#define RETRY_MS 100 /* after there was no memory, or no thread */

void reaper_wake(struct vmm *m)
{
	if (write(m->wake_pipe[1], "x", 1) < 0 && errno != EAGAIN)
		log_warn("the reaper was not told: %s, ignoring", err_name(errno));
}

void reaper_forget(struct vm *vm)
{
	if (!vm->watched_link)
		return;
	*vm->watched_link = vm->watched_next;
	if (vm->watched_next)
		vm->watched_next->watched_link = vm->watched_link;
	vm->watched_next = NULL;
	vm->watched_link = NULL;
	vm->m->n_watched--;
}

void reaper_add(struct vm *vm)
{
	struct vmm *m = vm->m;

	mutex_lock(&m->lock);
	reaper_forget(vm);
	vm->watched_next = m->watched;
	vm->watched_link = &m->watched;
	if (m->watched)
		m->watched->watched_link = &vm->watched_next;
	m->watched = vm;
	m->n_watched++;
	vm->reaper_fd = machine_proc(vm->machine)->pidfd;
	vm->lost_process = false;
	mutex_unlock(&m->lock);
	reaper_wake(m);
}

void reaper_remove(struct vm *vm)
{
	LOCK_SCOPE(&vm->m->lock);

	reaper_forget(vm);
	vm->reaper_fd = -1;
}

static void say_how(struct vm *vm, char *buf, size_t size)
{
	int st = 0;

	if (privc_exit_status(vm->m->priv, vm->row.info.instance, &st, NULL) < 0)
		snprintf(buf, size, "ended");
	else if (WIFSIGNALED(st))
		snprintf(buf, size, "was killed by signal %d (%s)", WTERMSIG(st),
		         strsignal(WTERMSIG(st)));
	else
		snprintf(buf, size, "ended with status %d", WEXITSTATUS(st));
}

/* QEMU ended as it does when the guest powers off. */
static bool by_itself(struct vm *vm)
{
	int st = 0;

	return privc_exit_status(vm->m->priv, vm->row.info.instance, &st, NULL) == 0 &&
	       WIFEXITED(st) && WEXITSTATUS(st) == 0;
}

/*
 * Whoever reboots a guest from inside makes its kernel say so last. One that panicked, or fell over
 * its own feet without a word (a triple fault), is booted again all the same; its last words are
 * kept, as nothing else of it is left.
 */
static void say_reboot(struct vm *vm, const char *how)
{
	char words[CONSOLE_TAIL];

	machine_console_tail(vm->m->engine, vm->row.info.instance, words, sizeof(words));
	if (strstr(words, "reboot: Restarting system") && !strstr(words, "Kernel panic")) {
		vm->exit_why = "rebooted";
		vm_log(vm, LOG_LV_INFO, "QEMU %s: the guest rebooted", how);
		vm_tell(vm, EVENT_INFO, "the guest rebooted");
		return;
	}
	vm->exit_why = "crashed";
	vm_log(vm, LOG_LV_WARN, "QEMU %s: the guest's kernel crashed; booting again", how);
	vm_log_words(vm, "console", words);
	vm_tell(vm, EVENT_WARN, "the guest's kernel crashed; it is booted again from its disk");
}

static void say_end(struct vm *vm, const char *how)
{
	char words[CONSOLE_TAIL];
	bool crashed = !by_itself(vm);

	vm->exit_why = crashed ? "crashed" : "exited";
	vm_log(vm, LOG_LV_WARN, "QEMU %s; the VM is stopped, its disk is kept", how);
	if (crashed) {
		machine_qemu_tail(vm->m->engine, vm->row.info.instance, words, sizeof(words));
		vm_log_words(vm, "QEMU", words);
	}
	vm_tell(vm, EVENT_WARN, "the machine ended by itself: stopped, its disk is kept");
}

static bool stopping(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	return m->stopping;
}

void vm_settle_end(struct vm *vm)
{
	struct err err = { 0 };
	char how[96];
	bool reboot;

	/* One that is being built: its builder's next step fails, and it takes care of it. */
	if (vm->gone || vm->row.info.state == VM_BUILDING || !vm->machine ||
	    machine_alive(vm->machine))
		return;
	say_how(vm, how, sizeof(how));
	metrics_add(METRIC_VM_ENDED, 0, 1);
	reboot = machine_rebooted(vm->machine) && !stopping(vm->m);
	(reboot ? say_reboot : say_end)(vm, how);
	if (vm_stop_locked(vm, /* ask= */ false, &err) < 0)
		vm_log(vm, LOG_LV_ERROR, "%s", err.msg);
	else if (reboot && vm_wake(vm, &err) < 0)
		vm_log(vm, LOG_LV_ERROR, "cannot be booted again: %s", err.msg);
	else if (!reboot && vm->row.info.persistence.type == PERSIST_EPHEMERAL)
		vm_delete_locked(vm, "ephemeral", &err);
}

static void *settle(void *arg)
{
	struct vm *vm = arg;
	struct vmm *m = vm->m;

	vm_lock(vm);
	vm_settle_end(vm);
	vm_unlock(vm);
	mutex_lock(&m->lock);
	m->n_settling--;
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	return NULL;
}

void reaper_end(struct vmm *m)
{
	if (m->has_reaper_thread)
		pthread_join(m->reaper_thread, NULL);
	mutex_lock(&m->lock);
	while (m->n_settling)
		cond_wait(&m->cond, &m->lock);
	mutex_unlock(&m->lock);
}

/* False: there is no thread to be had. */
static bool hand_over(struct vm *vm)
{
	struct vmm *m = vm->m;
	pthread_attr_t a;
	pthread_t t;
	int r;

	mutex_lock(&m->lock);
	m->n_settling++;
	mutex_unlock(&m->lock);
	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &a, settle, vm_ref(vm));
	pthread_attr_destroy(&a);
	if (r == 0)
		return true;
	vm_log(vm, LOG_LV_WARN, "its process ended, and no thread can be started: %s; trying again",
	       err_name(r));
	vm_unref(vm);
	mutex_lock(&m->lock);
	m->n_settling--;
	vm->lost_process = false;
	mutex_unlock(&m->lock);
	return false;
}

static bool grow(struct pollfd **p, struct vm ***who, size_t *cap, size_t want)
{
	struct pollfd *np = reallocarray(*p, want, sizeof(*np));
	struct vm **nw;

	if (np)
		*p = np;
	nw = np ? reallocarray(*who, want, sizeof(struct vm *)) : NULL;
	if (!nw)
		return false;
	*who = nw;
	*cap = want;
	return true;
}

void *reaper_main(void *arg)
{
	struct vmm *m = arg;
	struct pollfd *p = NULL;
	struct vm **who = NULL;
	size_t cap = 0;

	for (;;) {
		size_t n = 1;
		bool again = false;
		char drain[64];

		mutex_lock(&m->lock);
		if (m->stopping) {
			mutex_unlock(&m->lock);
			break;
		}
		if ((!p || !who || cap < m->n_watched + 1) &&
		    !grow(&p, &who, &cap, m->n_watched + 64)) {
			mutex_unlock(&m->lock);
			log_warn("wait for processes: out of memory; tried again in a moment");
			poll(NULL, 0, RETRY_MS);
			continue;
		}
		p[0] = (struct pollfd){ .fd = m->wake_pipe[0], .events = POLLIN };
		for (struct vm *vm = m->watched; vm; vm = vm->watched_next) {
			if (!vm->place.owner || vm->reaper_fd < 0 || vm->lost_process)
				continue; /* not in the table yet: reaper_wake() will come */
			vm->refs++;
			who[n] = vm;
			p[n++] = (struct pollfd){ .fd = vm->reaper_fd, .events = POLLIN };
		}
		mutex_unlock(&m->lock);
		if (poll(p, n, -1) < 0 && errno != EINTR)
			log_warn("wait for processes: %s, ignoring", err_name(errno));
		while (p[0].revents && read(m->wake_pipe[0], drain, sizeof(drain)) > 0)
			;
		for (size_t i = 1; i < n; i++) {
			bool ours = false;

			if (p[i].revents) {
				mutex_lock(&m->lock);
				ours = who[i]->reaper_fd == p[i].fd && !who[i]->lost_process;
				who[i]->lost_process |= ours;
				mutex_unlock(&m->lock);
			}
			again |= ours && !hand_over(who[i]);
			vm_unref(who[i]);
		}
		if (again)
			poll(NULL, 0, RETRY_MS);
	}
	free(p);
	free(who);
	return NULL;
}
