/* SPDX-License-Identifier: Apache-2.0 */
/*
 * greet.c - connects to the agents of adopted VMs after a start
 *
 * A guest's root can keep its agent from answering, and each silent one takes its whole deadline.
 * So all are greeted at the same time, and the start of the server waits only a moment: most have
 * answered by then, and whoever is still silent is waited for in the background. Meanwhile the
 * VM's lock is held, as by any operation. A VM whose agent did not answer is connected to at its
 * next use. What the machine has used is read first.
 */
#include <stdlib.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

#define GREET_THREADS 256u /* agents that are waited for at the same time */
#define STACK_SIZE (256u << 10)

struct greet {
	struct vmm *m;
	struct vm **vms;      /* owned, and a reference to each from `next` on */
	size_t n, next, left; /* m->lock; left: not greeted yet */
	pthread_t threads[GREET_THREADS];
	unsigned n_threads;
};

static void greet_one(struct vm *vm_consume)
{
	struct vm *vm = vm_consume;
	struct err err = { 0 };

	vm_lock(vm);
	/* Its row has the figures of up to a minute ago. Whoever asks while the lock is held is
	 * shown what was read last: less than before the restart otherwise. */
	vm_usage_look(vm);
	if (!vm->gone && vm->machine && !vm->guest && vm_reconnect(vm, &err) < 0)
		vm_log(vm, LOG_LV_WARN, "adopted, but: %s; trying again at the next use", err.msg);
	vm_unlock(vm);
}

static void *greet_main(void *arg)
{
	struct greet *g = arg;
	struct vmm *m = g->m;

	mutex_lock(&m->lock);
	while (!m->stopping && g->next < g->n) {
		struct vm *vm = g->vms[g->next++];

		mutex_unlock(&m->lock);
		greet_one(vm);
		mutex_lock(&m->lock);
		g->left--;
		cond_broadcast(&m->cond);
	}
	mutex_unlock(&m->lock);
	return NULL;
}

static void start_threads(struct greet *g)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	while (g->n_threads < MIN(g->n, (size_t)GREET_THREADS) &&
	       pthread_create(&g->threads[g->n_threads], &attr, greet_main, g) == 0)
		g->n_threads++;
	pthread_attr_destroy(&attr);
}

void greet_begin(struct vmm *m)
{
	struct greet *g = calloc(1, sizeof(*g));
	uint64_t until = deadline_in(m->t.agent_greet);
	size_t n = 0;

	if (g)
		g->vms = vmm_all(m, &n);
	if (!g || !g->vms) {
		free(g);
		return; /* they are connected to when they are used */
	}
	g->m = m;
	for (size_t i = 0; i < n; i++) { /* nobody else is at work yet */
		if (g->vms[i]->machine)
			g->vms[g->n++] = g->vms[i];
		else
			vm_unref(g->vms[i]);
	}
	g->left = g->n;
	m->greet = g;
	start_threads(g);
	LOCK_SCOPE(&m->lock);
	while (g->n_threads && g->left && cond_wait_until(&m->cond, &m->lock, until))
		;
	if (g->left)
		log_info("%zu of %zu agents have not answered yet", g->left, g->n);
}

void greet_end(struct vmm *m)
{
	struct greet *g = m->greet;

	if (!g)
		return;
	for (unsigned i = 0; i < g->n_threads; i++)
		pthread_join(g->threads[i], NULL);
	while (g->next < g->n)
		vm_unref(g->vms[g->next++]);
	free(g->vms);
	free(g);
	m->greet = NULL;
}
