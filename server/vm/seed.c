/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seed.c - a warm process of the template of a size, from which VMs are forked
 *
 * An emulated VM spends most of its first half second on the translation of code that its relatives
 * have translated already. The seed is the process that this server's own template was frozen from
 * (template_own.c): it has run what first commands need, it is stopped, and its memory is the
 * template's. A thaw of the template, for create and for the pool, is a fork of it as long as it is
 * there (engine/fork.c); else, and whenever that fails, the ordinary thaw, of the same point. So
 * nothing depends on it: not on whether the host can do it, nor on the seed's life.
 *
 * Which sizes have one follows from what was asked for lately (demand.c).
 *
 * A seed is in no table and not in the store: after a crash it is a process that nobody knows,
 * and recovery ends it. Its first fork is a trial that nobody gets: only a seed that has passed it
 * is used. What was forked from it is not affected. Lock: m->seed_lock, read by forks, written by
 * whoever replaces the seed.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest_code.h"
#include "vm/seed.h"
#include "vm/sizes.h"

#define SEED_TRIES 3 /* that may fail, one after the other, before there are none in this run */

/* Whatever is not there is not translated: a template may have less than ours. */
static const char *const warm[] = {
	"true",
	"ls -l / >/dev/null; cat /etc/os-release >/dev/null; id >/dev/null; uname -a >/dev/null; :",
	"echo warm | sed s/w/W/ | grep W >/dev/null; head -c 9 /dev/urandom | md5sum >/dev/null; :",
	"python3 -c 'import sys, os, json; print(json.dumps(sys.version))' >/dev/null 2>&1; :",
	"node -e 'console.log(process.version)' >/dev/null 2>&1; :",
};

bool seeds_on(struct vmm *m)
{
	return m->conf.seeds && m->seed_failures < SEED_TRIES &&
	       engine_info(m->engine)->accel == ACCEL_TCG;
}

static bool of_size(const struct seed *s, uint32_t vcpus, uint32_t mem_mb)
{
	return s->vm && s->vm->row.info.vcpus == vcpus && s->vm->row.info.mem_mb == mem_mb;
}

static struct seed *find(struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	for (size_t i = 0; i < SEEDS_MAX; i++)
		if (of_size(&m->seeds[i], vcpus, mem_mb))
			return &m->seeds[i];
	return NULL;
}

static bool usable(const struct seed *s)
{
	return s && !s->lost && machine_alive(s->vm->machine);
}

/* By what VMs were asked for lately (demand.c). */
bool seed_wanted(struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	char size[ID_SIZE];

	demand_size(vcpus, mem_mb, size);
	return seeds_on(m) && demand_want(m->demand, AHEAD_SEED, size, clock_ms());
}

bool seed_lacking(struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	return seed_wanted(m, vcpus, mem_mb) && !usable(find(m, vcpus, mem_mb));
}

void seed_status(struct vmm *m, struct vmm_status *ret)
{
	const struct seed *s = find(m, m->conf.vcpus, m->conf.mem_mb);

	ret->seed = !seeds_on(m) ? "off" : usable(s) && s->tried ? "ready" : "making";
	ret->forked = m->forked;
	for (size_t i = 0; i < SEEDS_MAX; i++)
		ret->seeds += m->seeds[i].vm && m->seeds[i].tried;
}

bool seed_on_trial(struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	const struct seed *s = find(m, vcpus, mem_mb);

	return s && !s->tried && seeds_on(m);
}

bool seed_useless(struct vmm *m, uint32_t *ret_vcpus, uint32_t *ret_mem_mb)
{
	for (size_t i = 0; i < SEEDS_MAX; i++) {
		const struct vm *vm = m->seeds[i].vm;

		if (!vm || seed_wanted(m, vm->row.info.vcpus, vm->row.info.mem_mb))
			continue;
		*ret_vcpus = vm->row.info.vcpus;
		*ret_mem_mb = vm->row.info.mem_mb;
		return true;
	}
	return false;
}

int seed_warm(struct vm *vm, struct err *err)
{
	const struct guest_code_req cell = {
		.language = AGENT_LANG_PYTHON, .code = "", .warm = true, .if_idle = true
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(warm); i++)
		r = template_step(vm, warm[i], err);
	if (r == 0)
		guest_code_warm(vm->guest, &cell, vm->m->t.pool_warm, NULL);
	return r;
}

static void end(struct vm *vm)
{
	vm_lock(vm);
	vm->gone = true;
	vm_take_down(vm);
	vm_unlock(vm);
}

/* That size's is vm from now on; NULL: none. False: there is no room. */
static bool replace(struct vmm *m, uint32_t vcpus, uint32_t mem_mb, struct vm *vm,
                    const char *point)
{
	struct vm *old = NULL;
	struct seed *s;
	char size[ID_SIZE];

	rwlock_wrlock(&m->seed_lock);
	mutex_lock(&m->lock);
	s = find(m, vcpus, mem_mb);
	for (size_t i = 0; vm && !s && i < SEEDS_MAX; i++)
		if (!m->seeds[i].vm)
			s = &m->seeds[i];
	if (s) {
		old = s->vm;
		*s = (struct seed){ .vm = vm };
		snprintf(s->point, sizeof(s->point), "%s", point);
		demand_size(vcpus, mem_mb, size);
		demand_have(m->demand, AHEAD_SEED, size, (vm != NULL) - (old != NULL));
	}
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	rwlock_unlock(&m->seed_lock);
	if (old)
		end(old);
	return s;
}

int seed_set(struct vmm *m, struct vm *vm, const char *point, struct err *err)
{
	struct priv_vm_stats st;
	struct engine_point p;
	char size[ID_SIZE];
	int r = point_take(m, point, &p, err);

	if (r < 0)
		return r;
	r = machine_seed(vm->machine, &p, err);
	point_drop(m, &p);
	if (r < 0)
		return r;
	if (!replace(m, vm->row.info.vcpus, vm->row.info.mem_mb, vm, point))
		return err_set(err, -EBUSY, "there are %u seeds already", SEEDS_MAX);
	if (privc_vm_stats(m->priv, vm->row.info.instance, &st, NULL) == 0) {
		LOCK_SCOPE(&m->lock);

		demand_size(vm->row.info.vcpus, vm->row.info.mem_mb, size);
		demand_made(m->demand, AHEAD_SEED, size, (uint32_t)(st.private_bytes >> 20), 0);
	}
	return 0;
}

/* Out of sight, all the way to a command. */
static int trial(struct vmm *m, const char *point, struct err *err)
{
	struct vm_create_opts o = { .account = "" };
	struct engine_point p;
	struct bringup b = { .point = &p,
		             .reason = GUEST_THAW,
		             .agent_ms = m->t.agent_thaw,
		             .hidden = true,
		             .ahead = true,
		             .trial = true };
	struct store_vm row;
	struct vm *vm;
	int r = point_take(m, point, &p, err);

	if (r < 0)
		return r;
	vm_fill_row(&o, &p, &row);
	vm = vm_new(m, &row);
	if (!vm) {
		point_drop(m, &p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	vm_lock(vm);
	r = vm_bring_up(vm, &b, err);
	if (r == 0 && !b.forked)
		r = err_set(err, -EIO, "it cannot be forked");
	if (r == 0)
		r = template_step(vm, "true", err);
	vm->gone = true;
	vm_take_down(vm);
	if (*b.layer.id)
		engine_remove_layer(m->engine, b.layer.id);
	vm_unlock(vm);
	point_drop(m, &p);
	return r;
}

void seed_try(struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	char point[ID_SIZE] = "";
	struct err err = { 0 };
	struct seed *s;
	bool there;

	mutex_lock(&m->lock);
	s = find(m, vcpus, mem_mb);
	there = s && !s->tried && !m->stopping;
	if (there)
		memcpy(point, s->point, sizeof(point));
	mutex_unlock(&m->lock);
	if (!there)
		return;
	if (trial(m, point, &err) < 0) {
		seed_failed(m, err.msg);
		seed_drop(m, vcpus, mem_mb);
		return;
	}
	mutex_lock(&m->lock);
	s = find(m, vcpus, mem_mb); /* only this thread changes it */
	if (s)
		s->tried = true;
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	log_obj(LOG_LV_INFO, "point", point,
	        "VMs of %u vCPUs and %u MB are forked from a seed from now on", vcpus, mem_mb);
}

void seed_drop(struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	replace(m, vcpus, mem_mb, NULL, "");
}

static bool first(struct vmm *m, uint32_t *ret_vcpus, uint32_t *ret_mem_mb)
{
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < SEEDS_MAX; i++)
		if (m->seeds[i].vm) {
			*ret_vcpus = m->seeds[i].vm->row.info.vcpus;
			*ret_mem_mb = m->seeds[i].vm->row.info.mem_mb;
			return true;
		}
	return false;
}

void seeds_end(struct vmm *m)
{
	uint32_t vcpus, mem_mb;

	while (first(m, &vcpus, &mem_mb))
		seed_drop(m, vcpus, mem_mb);
}

void seed_failed(struct vmm *m, const char *why)
{
	LOCK_SCOPE(&m->lock);

	m->seed_failures++;
	log_warn("VMs are not forked from a seed: %s%s", why,
	         m->seed_failures < SEED_TRIES ? "; trying again later" : "; given up");
}

/* NULL: none. It stays what it is as long as m->seed_lock is held. */
static struct seed *fitting(struct vm *vm, const struct bringup *b, const struct machine_load *l)
{
	struct vmm *m = vm->m;
	struct seed *s;
	LOCK_SCOPE(&m->lock);

	s = find(m, vm->row.info.vcpus, vm->row.info.mem_mb);
	return s && !s->lost && seeds_on(m) && (s->tried || b->trial) && b->point && !b->seed &&
	                       !l->disk_layer_exists && !strcmp(b->point->id, s->point)
	               ? s
	               : NULL;
}

/* Of disk, memory or descriptors: that is not the seed's fault. */
static bool is_short(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* r: of a fork of it. */
static void note_fork(struct vmm *m, struct seed *s, int r, bool trial)
{
	LOCK_SCOPE(&m->lock);

	m->seed_failures = r < 0 ? m->seed_failures + !is_short(r) : 0;
	m->forked += r == 0 && !trial;
	s->lost |= !machine_alive(s->vm->machine);
	if (r < 0)
		cond_broadcast(&m->cond); /* another is made, or it is given up */
}

int seed_fork(struct vm *vm, struct bringup *b, const struct machine_load *l, struct blank *ret)
{
	struct vmm *m = vm->m;
	struct machine_spawn sp = { .vcpus = vm->row.info.vcpus, .mem_mb = vm->row.info.mem_mb };
	struct seed *seed;
	struct blank s;
	struct err err = { 0 };
	int r;

	if (!m->conf.seeds || !fitting(vm, b, l))
		return -ENOENT;
	r = blank_slot(m, &s, &err);
	if (r < 0)
		return r;
	sp.instance = s.instance;
	sp.slot = (int)s.slot.idx;
	rwlock_rdlock(&m->seed_lock);
	seed = fitting(vm, b, l);
	if (seed) {
		r = machine_fork(seed->vm->machine, &sp, l, &s.machine, &err);
		note_fork(m, seed, r, b->trial);
	} else {
		r = -ENOENT;
	}
	rwlock_unlock(&m->seed_lock);
	if (r < 0) {
		if (*err.msg)
			vm_log(vm, LOG_LV_WARN, "%s; thawed instead", err.msg);
		blank_end(m, &s);
		return r;
	}
	s.vcpus = sp.vcpus;
	s.mem_mb = sp.mem_mb;
	b->forked = true;
	*ret = s;
	return 0;
}
