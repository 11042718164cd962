/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_own.c - templates with what this server tells every guest: its own ones
 *
 * A template is shared by servers, which have other authorities, domains and settings. To give a
 * guest those takes longer than all the rest of its thaw: each path of the kernel that writes to a
 * file system is translated anew in each process. So once the shared template is ready, and no VM
 * has been started for a moment, it is thawed, told (network.c, site.c), and frozen again. From
 * then on VMs are thawed from that. The default size has one as soon as possible, others when they
 * have been used. It is in the store under the shared one's key and a hash of what was told; it is
 * never put into the cache, which others read. Settings that change, and a damaged one, mean
 * another; until that is there, and where it cannot be made, the shared one serves as it is.
 *
 * In lines of descent the shared one stands for it: for users there is one template.
 *
 * A guest that was thawed from a point that is known to have been told is not asked again. That
 * holds for these templates, and for the point that a VM was suspended as.
 *
 * A crash leaves a process and files that nobody knows, or a point that no template names: recovery
 * and the collector remove them.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "vm/sizes.h"
#include "vm/template_own.h"

#define BACKOFF_MAX 6 /* doublings of m->t.retry */

/* One that is looked for or made. */
struct target {
	struct own *own;   /* weak: the default one's, or a size's; m->lock */
	struct size *size; /* weak; NULL: the default one */
	uint32_t vcpus, mem_mb;
	char shared[ID_SIZE], told[TOLD_SIZE];
	bool look; /* in the store; else it is made */
};

/* ---- what guests are told ---- */

/* "": nothing. */
static void told_now(struct vmm *m, char ret[TOLD_SIZE]) REQUIRES(&m->lock)
{
	autobuf struct buf b = { 0 };
	unsigned char sum[EVP_MAX_MD_SIZE];
	char hex[TOLD_SIZE + 1];
	unsigned n = 0;

	ret[0] = '\0';
	if (!m->ca_pem && (m->conf.ca_follows || (!m->site && !seeds_on(m))))
		return;
	buf_printf(&b, "%s\n%s\n%s", m->ca_pem ? m->ca_pem : "", m->ca_domain, site_stamp(m));
	if (b.failed || EVP_Digest(b.p, b.len, sum, &n, EVP_sha256(), NULL) != 1)
		return;
	hex_encode(sum, TOLD_SIZE / 2, hex);
	snprintf(ret, TOLD_SIZE, "%s", hex);
}

bool template_is(const struct vmm *m, const char *point)
{
	return *point && (!strcmp(point, m->own.point) || !strcmp(point, m->template_shared));
}

const char *own_or(const struct own *o, const char *shared)
{
	return *o->point ? o->point : shared;
}

const char *template_now(const struct vmm *m)
{
	return own_or(&m->own, m->template_shared);
}

static struct size *size_of(struct vmm *m, const struct own *o)
{
	for (size_t i = 0; i < m->sizes->n; i++)
		if (&m->sizes->s[i].own == o)
			return &m->sizes->s[i];
	return NULL;
}

/* With what is told now, and with its seed. */
static bool is_there(struct vmm *m, const struct own *o, const char *told) REQUIRES(&m->lock)
{
	const struct size *s = size_of(m, o);

	return !strcmp(told, o->told) &&
	       (s ? !size_recent(s) || !seed_lacking(m, s->vcpus, s->mem_mb)
	          : !seed_lacking(m, m->conf.vcpus, m->conf.mem_mb));
}

bool own_pending(struct vmm *m, const struct own *o)
{
	const struct size *s = size_of(m, o);
	char told[TOLD_SIZE];

	told_now(m, told);
	if (s ? seed_on_trial(m, s->vcpus, s->mem_mb)
	      : seed_on_trial(m, m->conf.vcpus, m->conf.mem_mb))
		return true;
	return *told && !is_there(m, o, told) && strcmp(told, o->failed) != 0;
}

static struct own *find(struct vmm *m, const char *point) REQUIRES(&m->lock)
{
	if (*point && !strcmp(point, m->own.point))
		return &m->own;
	for (size_t i = 0; *point && i < m->sizes->n; i++)
		if (!strcmp(point, m->sizes->s[i].own.point))
			return &m->sizes->s[i].own;
	return NULL;
}

void vm_told_already(struct vm *vm, const struct engine_point *p)
{
	struct vmm *m = vm->m;
	const struct own *o;
	char told[TOLD_SIZE];
	LOCK_SCOPE(&m->lock);

	told_now(m, told);
	o = p ? find(m, p->id) : NULL;
	if (p && *told &&
	    ((o && !strcmp(told, o->told)) ||
	     (!strcmp(told, vm->told) && !strcmp(p->id, vm->told_point))))
		vm->trusts = vm->sited = true;
	memcpy(vm->told, told, sizeof(told));
	vm->told_point[0] = '\0';
}

void vm_note_told(struct vm *vm, const char *point)
{
	snprintf(vm->told_point, ID_SIZE, "%s", vm->untold ? "" : point);
}

/* ---- making it ---- */

void own_key(const char *shared, const char *told, char ret[32])
{
	snprintf(ret, 32, "%.16s-%.*s", shared, TOLD_SIZE - 1, told);
}

static void own_job(struct vmm *m, const struct target *t, struct template_job *ret)
{
	char key[sizeof(ret->key)];

	template_job(m, t->vcpus, t->mem_mb, ret);
	own_key(ret->key, t->told, key);
	memcpy(ret->key, key, sizeof(key));
}

static int tell_and_freeze(struct vm *vm, const struct template_job *j, struct bringup *b,
                           struct err *err)
{
	struct vmm *m = vm->m;
	int r;

	if ((r = vm_trust_local(vm)) < 0 || (r = vm_site_apply(vm)) < 0)
		return err_set(err, r, "the guest cannot be told of this server");
	if (b->seed && (r = seed_warm(vm, err)) < 0)
		return r;
	/* With nothing left to be written: each of its copies would do that. */
	if ((r = template_step(vm, "sync", err)) < 0 ||
	    (r = guest_quiesce(vm->guest, deadline_in(m->t.quiesce), err)) < 0)
		return r;
	return template_freeze(vm, j, b, err);
}

static bool set_vm(struct vmm *m, struct vm *vm)
{
	LOCK_SCOPE(&m->lock);

	m->template_vm = vm;
	return !m->stopping;
}

static bool want_seed(struct vmm *m, const struct target *t)
{
	LOCK_SCOPE(&m->lock);

	return seed_wanted(m, t->vcpus, t->mem_mb);
}

static int make(struct vmm *m, const struct template_job *j, const struct target *t,
                struct err *err)
{
	struct vm_create_opts o = { .account = "" };
	struct engine_point p;
	struct store_vm row;
	struct bringup b = { .point = &p,
		             .reason = GUEST_THAW,
		             .agent_ms = m->t.agent_thaw,
		             .hidden = true,
		             .ahead = true,
		             .seed = want_seed(m, t) };
	char point[ID_SIZE];
	struct err why = { 0 };
	struct vm *vm;
	int r;

	if (vmm_disk_tight(m))
		return err_set(err, -ENOSPC, "the disk is full");
	if (t->size && !vmm_spare(m, t->mem_mb))
		return err_set(err, -ENOMEM, "there is no memory to spare");
	if ((r = point_take(m, t->shared, &p, err)) < 0)
		return r;
	vm_fill_row(&o, &p, &row);
	vm = vm_new(m, &row);
	if (!vm) {
		point_drop(m, &p);
		return err_set(err, -ENOMEM, "out of memory");
	}
	vm_lock(vm);
	r = set_vm(m, vm) ? vm_bring_up(vm, &b, err) : err_set(err, -ECANCELED, "not wanted now");
	if (r == 0)
		r = tell_and_freeze(vm, j, &b, err);
	set_vm(m, NULL);
	if (b.seed && r < 0)
		seed_failed(m, err ? err->msg : "");
	/* The process that was frozen is the seed of what it was frozen into. */
	if (b.seed && r == 0) {
		if (store_template_get(m->store, j->key, point, &why) == 0 &&
		    seed_set(m, vm, point, &why) == 0) {
			vm_ref(vm); /* the seed's */
			vm_unlock(vm);
			point_drop(m, &p);
			return 0;
		}
		seed_failed(m, why.msg);
	}
	vm_take_down(vm);
	if (r < 0 && *b.layer.id)
		engine_remove_layer(m->engine, b.layer.id);
	vm_unlock(vm);
	point_drop(m, &p);
	return r;
}

/* ---- using it ---- */

/* Those that this server told otherwise are of no use to anyone. */
static void sweep(struct vmm *m, const struct template_job *j)
{
	autofree struct store_template *t = NULL;
	struct err err = { 0 };
	size_t n = 0, of = strcspn(j->key, "-") + 1;

	if (store_template_list(m->store, &t, &n, &err) < 0)
		log_warn("old templates are left: %s", err.msg);
	for (size_t i = 0; i < n; i++) {
		if (strncmp(t[i].key, j->key, of) != 0 || !strcmp(t[i].key, j->key))
			continue;
		if (store_template_drop(m->store, t[i].key, t[i].point, &err) < 0)
			log_obj(LOG_LV_WARN, "template", t[i].key, "was not removed: %s", err.msg);
		else
			log_obj(LOG_LV_INFO, "template", t[i].key,
			        "removed: this server's settings are others now");
	}
	vmm_collect_soon(m);
}

/* From the store; -ENOENT: it is not there. */
static int use(struct vmm *m, const struct template_job *j, const struct target *t, struct err *err)
{
	struct store_point p;
	char point[ID_SIZE];
	uint64_t bytes;
	int r = store_template_get(m->store, j->key, point, err);

	if (r < 0 || (r = template_check(m, point, err)) < 0 ||
	    (r = store_point_get(m->store, point, &p, err)) < 0)
		return r;
	bytes = size_weigh(m, &p);
	mutex_lock(&m->lock);
	if (t->size && strcmp(t->size->point, t->shared) != 0) { /* it went meanwhile */
		mutex_unlock(&m->lock);
		store_template_drop(m->store, j->key, point, NULL); /* else with the next start */
		vmm_collect_soon(m);
		return err_set(err, -ECANCELED, "not wanted now");
	}
	snprintf(t->own->point, ID_SIZE, "%s", point);
	memcpy(t->own->told, t->told, TOLD_SIZE);
	t->own->failed[0] = '\0';
	t->own->failures = 0;
	t->own->bytes = bytes;
	if (t->size)
		demand_rename(m->demand, t->shared, point);
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	sweep(m, j);
	if (t->size)
		sizes_trim(m, t->size);
	return 0;
}

bool own_forget(struct vmm *m, const char *point)
{
	char key[32] = "", told[TOLD_SIZE];
	struct own *o;

	mutex_lock(&m->lock);
	o = find(m, point);
	if (o) {
		memcpy(told, o->told, sizeof(told));
		own_key(o == &m->own ? m->template_key : size_of(m, o)->key, told, key);
		if (o != &m->own)
			demand_rename(m->demand, point, size_of(m, o)->point);
		*o = (struct own){ 0 };
		memcpy(o->looked, told, sizeof(told));
		cond_broadcast(&m->cond);
	}
	mutex_unlock(&m->lock);
	if (!*key)
		return false;
	store_template_drop(m->store, key, point, NULL); /* else found damaged, and made again */
	log_obj(LOG_LV_WARN, "template", key, "this server's own is damaged and is made again");
	return true;
}

/* Milliseconds until it is time to look for it or to make it; UINT32_MAX: it is there. */
static uint64_t due_in(struct vmm *m, const struct own *o, const char *told) REQUIRES(&m->lock)
{
	uint64_t now = clock_ms(), wait;

	if (!*told || is_there(m, o, told))
		return UINT32_MAX;
	if (strcmp(told, o->looked) != 0)
		return 0;
	wait = vmm_quiet_in(m);
	if (!strcmp(told, o->failed) && o->not_before_ms > now)
		wait = MAX(wait, o->not_before_ms - now);
	return wait;
}

/* The next, of the default size or one in use; how long to wait for it. */
static uint64_t next(struct vmm *m, struct target *ret) REQUIRES(&m->lock)
{
	struct sizes *z = m->sizes;
	uint64_t wait;

	*ret = (struct target){ .own = &m->own, .vcpus = m->conf.vcpus, .mem_mb = m->conf.mem_mb };
	memcpy(ret->shared, m->template_shared, sizeof(ret->shared));
	told_now(m, ret->told);
	wait = due_in(m, ret->own, ret->told);
	for (size_t i = 0; wait && i < z->n; i++) {
		struct size *s = &z->s[i];
		uint64_t w = size_recent(s) ? due_in(m, &s->own, ret->told) : UINT32_MAX;

		if (w >= wait)
			continue;
		wait = w;
		ret->own = &s->own;
		ret->size = s;
		ret->vcpus = s->vcpus;
		ret->mem_mb = s->mem_mb;
		memcpy(ret->shared, s->point, sizeof(ret->shared));
	}
	ret->look = strcmp(ret->told, ret->own->looked) != 0;
	return wait;
}

/*
 * Another than those there are is wanted, and it is time for it; no ->own: the seed is to go.
 * False: the server ends.
 */
static bool await(struct vmm *m, struct target *ret)
{
	LOCK_SCOPE(&m->lock);

	while (!m->stopping) {
		uint64_t wait = MIN(next(m, ret), (uint64_t)SIZE_RECENT_MS / 10);

		if (seed_useless(m, &ret->vcpus, &ret->mem_mb)) {
			ret->own = NULL;
			return true;
		}
		vmm_at_work(m, &m->making_own, !wait);
		if (!wait) {
			memcpy(ret->own->looked, ret->told, TOLD_SIZE);
			return true;
		}
		cond_wait_until(&m->cond, &m->lock, clock_ms() + wait);
	}
	vmm_at_work(m, &m->making_own, false);
	return false;
}

static void note_failure(struct vmm *m, const struct target *t)
{
	LOCK_SCOPE(&m->lock);

	memcpy(t->own->failed, t->told, TOLD_SIZE);
	t->own->not_before_ms =
	        clock_ms() + ((uint64_t)m->t.retry << MIN(t->own->failures, BACKOFF_MAX));
	t->own->failures++;
	cond_broadcast(&m->cond);
}

void own_keep(struct vmm *m)
{
	struct template_job j;
	struct target t;

	while (await(m, &t)) {
		uint64_t t0 = clock_ms();
		struct err err = { 0 };
		int r;

		if (!t.own) {
			seed_drop(m, t.vcpus, t.mem_mb);
			continue;
		}
		own_job(m, &t, &j);
		if (t.look) { /* of an earlier start; else made at the next quiet moment */
			use(m, &j, &t, &err);
			continue;
		}
		seed_drop(m, t.vcpus, t.mem_mb); /* of other settings, or dead */
		r = make(m, &j, &t, &err);
		if (r == 0 && (r = use(m, &j, &t, &err)) < 0)
			seed_drop(m, t.vcpus, t.mem_mb); /* of a template that nobody uses */
		if (r == 0)
			log_obj(LOG_LV_INFO, "template", j.key,
			        "this server's own is ready after %.1f s (%u vCPUs, %u MB)",
			        (double)(clock_ms() - t0) / 1e3, t.vcpus, t.mem_mb);
		if (r == 0)
			seed_try(m, t.vcpus, t.mem_mb);
		if (r == 0 || r == -ECANCELED)
			continue;
		note_failure(m, &t);
		log_obj(LOG_LV_WARN, "template", j.key,
		        "this server's own was not made, the shared one is used: %s; trying again "
		        "later",
		        err.msg);
	}
	seeds_end(m);
}
