/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blank.c - blank QEMU processes, each in its jail and network slot, started ahead of need
 *
 * QEMU's own start is a third of what a thaw costs. A blank process has it behind it: it
 * waits for the disk, the memory and the state of whatever VM of its size is
 * thawed next. A few of the default size are kept; any other size, a cold boot,
 * or an empty store of them starts a process on the spot. New ones are made
 * when no VM has been started for a moment, so that they never compete with one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/vm_internal.h"

static int blank_make(struct vmm *m, const struct machine_spawn *like, struct blank *ret,
                      struct err *err)
{
	struct machine_spawn sp = *like;
	struct blank s = { .slot = { .dns_udp = -1, .dns_tcp = -1 } };
	int r;

	rwlock_rdlock(&m->debts_lock);
	r = privc_slot_take(m->priv, &s.slot, err);
	if (r == 0)
		debt_slot_taken(m, s.slot.idx);
	rwlock_unlock(&m->debts_lock);
	if (r < 0)
		return r;
	id_make("", s.instance);
	sp.instance = s.instance;
	sp.slot = (int)s.slot.idx;
	r = machine_spawn(m->engine, &sp, &s.machine, err);
	if (r < 0) {
		blank_end(m, &s);
		return r;
	}
	*ret = s;
	return 0;
}

void blank_end(struct vmm *m, struct blank *s)
{
	struct err err = { 0 };
	bool owed = s->machine && machine_kill(s->machine, &err) < 0;

	if (owed) {
		log_obj(LOG_LV_WARN, "machine", s->instance, "was not ended, tried again later: %s",
		        err.msg);
		debt_add(m, s->instance, (int)s->slot.idx);
	}
	s->machine = machine_free(s->machine);
	if (s->slot.dns_udp >= 0)
		close(TAKE_FD(s->slot.dns_udp));
	if (s->slot.dns_tcp >= 0)
		close(TAKE_FD(s->slot.dns_tcp));
	if (!owed && privc_slot_free(m->priv, s->slot.idx, &err) < 0) {
		log_warn("slot %u was not freed, tried again later: %s", s->slot.idx, err.msg);
		debt_add(m, "", (int)s->slot.idx);
	}
}

static bool pop(struct vmm *m, struct blank *ret)
{
	LOCK_SCOPE(&m->lock);

	if (!m->n_blanks)
		return false;
	*ret = m->blanks[--m->n_blanks];
	return true;
}

int blank_take(struct vmm *m, const struct machine_spawn *like, struct blank *ret, struct err *err)
{
	if (!like->boot && like->vcpus == m->conf.vcpus && like->mem_mb == m->conf.mem_mb) {
		while (pop(m, ret)) {
			ret->ahead = true;
			if (machine_alive(ret->machine))
				return 0;
			blank_end(m, ret);
		}
	}
	return blank_make(m, like, ret, err);
}

void vmm_start_begin(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	m->n_starting++;
}

void vmm_start_end(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	m->n_starting--;
	m->started_ms = clock_ms();
	cond_broadcast(&m->cond);
}

/* Milliseconds until there has been quiet for long enough; 0: now. m->lock held. */
uint64_t vmm_quiet_in(const struct vmm *m)
{
	uint64_t at = m->started_ms + m->t.quiet, now = clock_ms();

	if (m->n_starting)
		return m->t.quiet;
	return at > now ? at - now : 0;
}

/* One more is wanted and this is a good moment; false: the server ends. */
static bool wait_for_need(struct vmm *m, uint64_t not_before_ms)
{
	LOCK_SCOPE(&m->lock);

	while (!m->stopping) {
		uint64_t wait = vmm_quiet_in(m), now = clock_ms();

		if (not_before_ms > now + wait)
			wait = not_before_ms - now;
		if (m->n_blanks >= m->conf.blanks)
			wait = UINT32_MAX;
		vmm_at_work(m, &m->making_blank, !wait);
		if (!wait)
			return true;
		cond_wait_until(&m->cond, &m->lock, now + wait);
	}
	vmm_at_work(m, &m->making_blank, false);
	return false;
}

/* Nearly every VM descends from the template: its disk layers are opened ahead too. */
static void prepare_disk(struct vmm *m, struct blank *s)
{
	char point[ID_SIZE];
	struct engine_point p;
	struct err err = { 0 };

	mutex_lock(&m->lock);
	snprintf(point, sizeof(point), "%s", m->template_point);
	mutex_unlock(&m->lock);
	if (!*point || point_take(m, point, &p, NULL) < 0)
		return;
	if (machine_prepare_disk(s->machine, &p.disk, &err) < 0)
		log_obj(LOG_LV_WARN, "machine", s->instance,
		        "template's disk was not opened ahead, ignoring: %s", err.msg);
	point_drop(m, &p);
}

void *blank_main(void *arg)
{
	struct vmm *m = arg;
	struct machine_spawn sp = { .vcpus = m->conf.vcpus, .mem_mb = m->conf.mem_mb };
	uint64_t not_before = 0;
	struct blank s;

	while (wait_for_need(m, not_before)) {
		struct err err = { 0 };

		if (blank_make(m, &sp, &s, &err) < 0) {
			log_warn("cannot start a blank QEMU process: %s; trying again later",
			         err.msg);
			not_before = clock_ms() + m->t.retry;
			continue;
		}
		prepare_disk(m, &s);
		mutex_lock(&m->lock);
		m->blanks[m->n_blanks++] = s; /* only this thread adds */
		cond_broadcast(&m->cond);
		mutex_unlock(&m->lock);
	}
	while (pop(m, &s))
		blank_end(m, &s);
	return NULL;
}
