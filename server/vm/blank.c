/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blank.c - blank QEMU processes, each in its jail and network slot, started ahead of need
 *
 * QEMU's own start is a third of what a thaw costs. A blank process has it behind it: it
 * waits for the disk, the memory and the state of whatever VM of its size is
 * thawed next. How many of which size are kept follows from what was asked for lately (demand.c);
 * else, and for a cold boot, a process is started on the spot. New ones are made
 * when no VM has been started for a moment, so that they never compete with one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/seed.h"

#define LOOK_EVERY_MS 60000 /* when nothing is wanted */

int blank_slot(struct vmm *m, struct blank *ret, struct err *err)
{
	int r;

	*ret = (struct blank){ .slot = { .dns_udp = -1, .dns_tcp = -1 } };
	rwlock_rdlock(&m->debts_lock);
	r = privc_slot_take(m->priv, &ret->slot, err);
	if (r == 0)
		debt_slot_taken(m, ret->slot.idx);
	rwlock_unlock(&m->debts_lock);
	if (r == 0)
		id_make("", ret->instance);
	return r;
}

static int blank_make(struct vmm *m, const struct machine_spawn *like, struct blank *ret,
                      struct err *err)
{
	struct machine_spawn sp = *like;
	struct blank s;
	int r = blank_slot(m, &s, err);

	if (r < 0)
		return r;
	s.vcpus = like->vcpus;
	s.mem_mb = like->mem_mb;
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

static void take_out(struct vmm *m, size_t i, struct blank *ret) REQUIRES(&m->lock)
{
	char size[ID_SIZE];

	*ret = m->blanks[i];
	m->blanks[i] = m->blanks[--m->n_blanks];
	demand_size(ret->vcpus, ret->mem_mb, size);
	demand_have(m->demand, AHEAD_BLANK, size, -1);
}

/* One of that size; 0: of any. */
static bool pop(struct vmm *m, uint32_t vcpus, uint32_t mem_mb, struct blank *ret)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = m->n_blanks; i-- > 0;) {
		if (vcpus && (m->blanks[i].vcpus != vcpus || m->blanks[i].mem_mb != mem_mb))
			continue;
		take_out(m, i, ret);
		return true;
	}
	return false;
}

static void asked(struct vmm *m, const struct machine_spawn *like)
{
	char size[ID_SIZE];
	LOCK_SCOPE(&m->lock);

	demand_size(like->vcpus, like->mem_mb, size);
	demand_take(m->demand, AHEAD_BLANK, size, /* account= */ "", /* eager= */ true, clock_ms());
}

int blank_take(struct vmm *m, const struct machine_spawn *like, bool waited_for, struct blank *ret,
               struct err *err)
{
	if (waited_for && !like->boot && !like->seed)
		asked(m, like);
	while (!like->boot && !like->seed && pop(m, like->vcpus, like->mem_mb, ret)) {
		ret->ahead = true;
		if (machine_alive(ret->machine))
			return 0;
		blank_end(m, ret);
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

static size_t count(const struct vmm *m, uint32_t vcpus, uint32_t mem_mb) REQUIRES(&m->lock)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_blanks; i++)
		n += m->blanks[i].vcpus == vcpus && m->blanks[i].mem_mb == mem_mb;
	return n;
}

/* What a process is made for, and the point whose disk it opens ahead. */
struct need {
	struct machine_spawn like;
	char point[ID_SIZE];
};

bool blank_wanted(struct vmm *m)
{
	return m->n_blanks < BLANKS_MAX && demand_next(m->demand, AHEAD_BLANK, 0, clock_ms());
}

static bool needed(struct vmm *m, struct need *ret) REQUIRES(&m->lock)
{
	const struct demand_key *k;

	*ret = (struct need){ 0 };
	if (!blank_wanted(m))
		return false;
	k = demand_next(m->demand, AHEAD_BLANK, 0, clock_ms());
	if (sscanf(k->name, "%ux%u", &ret->like.vcpus, &ret->like.mem_mb) != 2)
		return false;
	if (ret->like.vcpus == m->conf.vcpus && ret->like.mem_mb == m->conf.mem_mb)
		snprintf(ret->point, sizeof(ret->point), "%s", template_now(m));
	else
		size_point(m, ret->like.vcpus, ret->like.mem_mb, ret->point);
	return true;
}

/* One more than there should be; false: none. */
static bool stale(struct vmm *m, struct blank *ret) REQUIRES(&m->lock)
{
	for (size_t i = 0; i < m->n_blanks; i++) {
		const struct blank *b = &m->blanks[i];
		char size[ID_SIZE];

		demand_size(b->vcpus, b->mem_mb, size);
		if (count(m, b->vcpus, b->mem_mb) <=
		    demand_want(m->demand, AHEAD_BLANK, size, clock_ms()))
			continue;
		take_out(m, i, ret);
		return true;
	}
	return false;
}

/* One more is wanted and this is a good moment, or one is not wanted any more; false: the server
 * ends. */
static bool wait_for_need(struct vmm *m, uint64_t not_before_ms, struct need *ret,
                          struct blank *ret_stale, bool *ret_is_stale)
{
	LOCK_SCOPE(&m->lock);

	while (!m->stopping) {
		uint64_t wait = vmm_quiet_in(m), now = clock_ms();

		*ret_is_stale = stale(m, ret_stale);
		if (not_before_ms > now + wait)
			wait = not_before_ms - now;
		if (!needed(m, ret))
			wait = LOOK_EVERY_MS; /* what is wanted fades by itself */
		vmm_at_work(m, &m->making_blank, !wait || *ret_is_stale);
		if (!wait || *ret_is_stale)
			return true;
		cond_wait_until(&m->cond, &m->lock, now + wait);
	}
	vmm_at_work(m, &m->making_blank, false);
	return false;
}

/* Nearly every VM descends from the template: its disk layers are opened ahead too. */
static void prepare_disk(struct vmm *m, struct blank *s, const char *point)
{
	struct engine_point p;
	struct err err = { 0 };

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
	uint64_t not_before = 0;
	struct need need;
	struct blank s;
	bool old;

	while (wait_for_need(m, not_before, &need, &s, &old)) {
		uint64_t began = clock_ms();
		struct priv_vm_stats st;
		struct err err = { 0 };
		char size[ID_SIZE];

		if (old) {
			blank_end(m, &s);
			continue;
		}
		if (blank_make(m, &need.like, &s, &err) < 0) {
			log_warn("cannot start a blank QEMU process: %s; trying again later",
			         err.msg);
			not_before = clock_ms() + m->t.retry;
			continue;
		}
		prepare_disk(m, &s, need.point);
		if (privc_vm_stats(m->priv, s.instance, &st, NULL) < 0)
			st.private_bytes = 0;
		demand_size(s.vcpus, s.mem_mb, size);
		mutex_lock(&m->lock);
		m->blanks[m->n_blanks++] = s; /* only this thread adds */
		demand_have(m->demand, AHEAD_BLANK, size, 1);
		demand_made(m->demand, AHEAD_BLANK, size, (uint32_t)(st.private_bytes >> 20),
		            (uint32_t)(clock_ms() - began));
		cond_broadcast(&m->cond);
		mutex_unlock(&m->lock);
	}
	while (pop(m, 0, 0, &s))
		blank_end(m, &s);
	return NULL;
}
