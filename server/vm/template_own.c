/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_own.c - the default template with what this server tells every guest: its own template
 *
 * The template is shared by servers, which have other authorities, domains and settings. To give a
 * guest those takes longer than all the rest of its thaw: each path of the kernel that writes to a
 * file system is translated anew in each process. So once the shared template is ready, and no VM
 * has been started for a moment, it is thawed, told (network.c, site.c), and frozen again. From
 * then on VMs of the default size are thawed from that. It is in the store under the shared one's
 * key and a hash of what was told; it is never put into the cache, which others read. Settings that
 * change, and a damaged one, mean another; until that is there, and where it cannot be made, the
 * shared one serves as it is.
 *
 * In lines of descent the shared one stands for it: for users there is one template.
 *
 * A guest that was thawed from a point that is known to have been told is not asked again. That
 * holds for this template, and for the point that a VM was suspended as.
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
#include "vm/template.h"

#define BACKOFF_MAX 6 /* doublings of m->t.retry */

/* ---- what guests are told ---- */

/* "": nothing. */
static void told_now(struct vmm *m, char ret[TOLD_SIZE]) REQUIRES(&m->lock)
{
	autobuf struct buf b = { 0 };
	unsigned char sum[EVP_MAX_MD_SIZE];
	char hex[TOLD_SIZE + 1];
	unsigned n = 0;

	ret[0] = '\0';
	if (!m->ca_pem && !m->site)
		return;
	buf_printf(&b, "%s\n%s\n%s", m->ca_pem ? m->ca_pem : "", m->ca_domain, site_stamp(m));
	if (b.failed || EVP_Digest(b.p, b.len, sum, &n, EVP_sha256(), NULL) != 1)
		return;
	hex_encode(sum, TOLD_SIZE / 2, hex);
	snprintf(ret, TOLD_SIZE, "%s", hex);
}

bool template_is(const struct vmm *m, const char *point)
{
	return *point && (!strcmp(point, m->template_point) || !strcmp(point, m->template_shared));
}

bool own_pending(struct vmm *m)
{
	char told[TOLD_SIZE];

	told_now(m, told);
	return *told && strcmp(told, m->own_told) != 0 && strcmp(told, m->own_failed) != 0;
}

void vm_told_already(struct vm *vm, const struct engine_point *p)
{
	struct vmm *m = vm->m;
	char told[TOLD_SIZE];
	LOCK_SCOPE(&m->lock);

	told_now(m, told);
	if (p && *told &&
	    ((!strcmp(told, m->own_told) && !strcmp(p->id, m->template_point)) ||
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

/* That of the shared one, and what is told: store_template's keys. */
static void own_job(struct vmm *m, const char *told, struct template_job *ret)
{
	char key[sizeof(ret->key)];

	template_job(m, m->conf.vcpus, m->conf.mem_mb, ret);
	snprintf(key, sizeof(key), "%.16s-%s", ret->key, told);
	memcpy(ret->key, key, sizeof(key));
}

static int tell_and_freeze(struct vm *vm, const struct template_job *j, struct bringup *b,
                           struct err *err)
{
	struct vmm *m = vm->m;
	int r;

	if ((r = vm_trust_local(vm)) < 0 || (r = vm_site_apply(vm)) < 0)
		return err_set(err, r, "the guest cannot be told of this server");
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

static int make(struct vmm *m, const struct template_job *j, const char *shared, struct err *err)
{
	struct vm_create_opts o = { .account = "" };
	struct engine_point p;
	struct store_vm row;
	struct bringup b = { .point = &p,
		             .reason = GUEST_THAW,
		             .agent_ms = m->t.agent_thaw,
		             .hidden = true,
		             .ahead = true };
	struct vm *vm;
	int r;

	if (vmm_disk_tight(m))
		return err_set(err, -ENOSPC, "the disk is full");
	if ((r = point_take(m, shared, &p, err)) < 0)
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
static int use(struct vmm *m, const struct template_job *j, const char *told, struct err *err)
{
	char point[ID_SIZE];
	int r = store_template_get(m->store, j->key, point, err);

	if (r < 0 || (r = template_check(m, point, err)) < 0)
		return r;
	mutex_lock(&m->lock);
	snprintf(m->template_point, sizeof(m->template_point), "%s", point);
	snprintf(m->own_told, sizeof(m->own_told), "%s", told);
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	sweep(m, j);
	return 0;
}

void own_forget(struct vmm *m, const char *point)
{
	struct template_job j;
	char told[TOLD_SIZE];

	mutex_lock(&m->lock);
	if (!*m->own_told || strcmp(point, m->template_point) != 0) {
		mutex_unlock(&m->lock);
		return;
	}
	memcpy(told, m->own_told, sizeof(told));
	memcpy(m->template_point, m->template_shared, sizeof(m->template_point));
	m->own_told[0] = '\0';
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	own_job(m, told, &j);
	store_template_drop(m->store, j.key, point, NULL); /* else found damaged, and made again */
	log_obj(LOG_LV_WARN, "template", j.key, "this server's own is damaged and is made again");
}

/* Another than the one there is wanted, and it is time for it; false: the server ends. */
static bool await(struct vmm *m, const char *looked, uint64_t not_before_ms, char ret[TOLD_SIZE])
{
	LOCK_SCOPE(&m->lock);

	while (!m->stopping) {
		uint64_t now = clock_ms(), wait = UINT32_MAX;

		told_now(m, ret);
		if (*ret && strcmp(ret, m->own_told) != 0)
			wait = !strcmp(ret, looked) ? vmm_quiet_in(m) : 0;
		if (!wait && !strcmp(ret, m->own_failed) && not_before_ms > now)
			wait = not_before_ms - now;
		vmm_at_work(m, &m->making_own, !wait);
		if (!wait)
			return true;
		cond_wait_until(&m->cond, &m->lock, now + wait);
	}
	vmm_at_work(m, &m->making_own, false);
	return false;
}

void own_keep(struct vmm *m)
{
	char told[TOLD_SIZE], looked[TOLD_SIZE] = "", shared[ID_SIZE];
	uint64_t not_before = 0, t0;
	unsigned failures = 0;
	struct template_job j;

	mutex_lock(&m->lock);
	memcpy(shared, m->template_shared, sizeof(shared));
	mutex_unlock(&m->lock);
	while (await(m, looked, not_before, told)) {
		bool first = strcmp(told, looked) != 0;
		struct err err = { 0 };
		int r;

		own_job(m, told, &j);
		memcpy(looked, told, sizeof(looked));
		if (first) { /* of an earlier start; else made at the next quiet moment */
			failures = 0;
			use(m, &j, told, &err);
			continue;
		}
		t0 = clock_ms();
		r = make(m, &j, shared, &err);
		if (r == 0)
			r = use(m, &j, told, &err);
		if (r == 0) {
			failures = 0;
			log_obj(LOG_LV_INFO, "template", j.key,
			        "this server's own is ready after %.1f s",
			        (double)(clock_ms() - t0) / 1e3);
			continue;
		}
		if (r == -ECANCELED)
			continue;
		not_before = clock_ms() + ((uint64_t)m->t.retry << MIN(failures, BACKOFF_MAX));
		failures++;
		log_obj(LOG_LV_WARN, "template", j.key,
		        "this server's own was not made, the shared one is used: %s; trying again "
		        "later",
		        err.msg);
		mutex_lock(&m->lock);
		memcpy(m->own_failed, told, sizeof(told));
		cond_broadcast(&m->cond);
		mutex_unlock(&m->lock);
	}
}
