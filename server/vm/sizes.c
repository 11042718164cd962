/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizes.c - templates of other sizes than the default one
 *
 * Frozen memory belongs to one number of vCPUs and one amount of memory. So each size has a
 * template of its own, made like the default one (template.c): booted, its kernels warm, frozen.
 * The first use of a size by anyone makes it, on the thread of whoever asked; who asks meanwhile
 * joins. Every later use is a thaw. It stands on the bottom disk layer of the default template, so
 * that the image is on the disk once.
 *
 * Sizes that the operator lists are made before anyone asks, one after the other, when no VM has
 * been started for a while, as far as disk and memory go. Such a machine is ended at once when
 * somebody starts a VM, and made again later: it never competes with anyone. If somebody asks for
 * the very size, it is theirs, and goes on.
 *
 * What clients can make grow here is bounded: there are SIZES_MAX sizes in all; SIZES_MAKING are
 * made at a time for those who ask, and one for each account; templates take no more than their
 * part of the disk, and those that were used longest ago go first, the operator's last.
 *
 * A template that was found in the store is checked when it is first used. One that does not match
 * this image or this QEMU any more has another key: it goes when the default one is ready.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "vm/sizes.h"
#include "vm/template_own.h"

#define SIZES_KEPT 16  /* templates in the store */
#define SIZES_MAKING 2 /* at a time, for those who ask */

static struct size *find(struct sizes *z, uint32_t vcpus, uint32_t mem_mb)
{
	for (size_t i = 0; i < z->n; i++)
		if (z->s[i].vcpus == vcpus && z->s[i].mem_mb == mem_mb)
			return &z->s[i];
	return NULL;
}

static struct size *find_or_add(struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	struct sizes *z = m->sizes;
	struct size *s = find(z, vcpus, mem_mb);
	struct template_job j;

	if (s || z->n == SIZES_MAX)
		return s;
	template_job(m, vcpus, mem_mb, &j);
	s = &z->s[z->n++];
	*s = (struct size){ .vcpus = vcpus, .mem_mb = mem_mb };
	snprintf(s->key, sizeof(s->key), "%s", j.key);
	return s;
}

static bool is_default(const struct vmm *m, uint32_t vcpus, uint32_t mem_mb)
{
	return vcpus == m->conf.vcpus && mem_mb == m->conf.mem_mb;
}

/* The bottom of its disk is the default template's. */
uint64_t size_weigh(struct vmm *m, const struct store_point *p)
{
	struct store_layer l;
	uint64_t sum = p->state_bytes;

	if (store_layer_get(m->store, p->mem_layer, &l, NULL) == 0)
		sum += l.bytes;
	if (store_layer_get(m->store, p->disk_layer, &l, NULL) == 0 && *l.parent)
		sum += l.bytes;
	return sum;
}

/* Before any thread. */
int sizes_new(struct vmm *m, struct err *err)
{
	autofree struct store_template *t = NULL;
	size_t n = 0;
	int r;

	m->sizes = calloc(1, sizeof(*m->sizes));
	if (!m->sizes)
		return err_set(err, -ENOMEM, "sizes of VMs: out of memory");
	for (size_t i = 0; i < m->conf.n_sizes; i++) {
		struct size *s = NULL;

		if (!is_default(m, m->conf.sizes[i].vcpus, m->conf.sizes[i].mem_mb))
			s = find_or_add(m, m->conf.sizes[i].vcpus, m->conf.sizes[i].mem_mb);
		if (s)
			s->listed = true;
	}
	r = store_template_list(m->store, &t, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct template_job j;
		struct store_point p;
		struct size *s;

		if (store_point_get(m->store, t[i].point, &p, NULL) < 0)
			continue;
		template_job(m, p.vcpus, p.mem_mb, &j);
		if (is_default(m, p.vcpus, p.mem_mb) || strcmp(j.key, t[i].key) != 0)
			continue;
		s = find_or_add(m, p.vcpus, p.mem_mb);
		if (!s)
			continue;
		snprintf(s->point, sizeof(s->point), "%s", p.id);
		s->bytes = size_weigh(m, &p);
	}
	return r;
}

static bool has(const struct store_template *t, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(t[i].key, key))
			return true;
	return false;
}

void sizes_sweep(struct vmm *m)
{
	autofree struct store_template *t = NULL;
	struct err err = { 0 };
	size_t n = 0;

	if (store_template_list(m->store, &t, &n, &err) < 0)
		log_warn("old templates are left: %s", err.msg);
	for (size_t i = 0; i < n; i++) {
		struct template_job j;
		struct store_point p;

		if (store_point_get(m->store, t[i].point, &p, NULL) < 0)
			continue;
		template_job(m, p.vcpus, p.mem_mb, &j);
		if (strncmp(j.key, t[i].key, strlen(j.key)) == 0 && has(t, n, j.key))
			continue; /* or made of it: template_own.c */
		if (store_template_drop(m->store, t[i].key, t[i].point, &err) < 0)
			log_obj(LOG_LV_WARN, "template", t[i].key, "was not removed: %s", err.msg);
		else
			log_obj(LOG_LV_INFO, "template", t[i].key,
			        "removed: it is of another image or QEMU, or what it was made of "
			        "is gone");
	}
}

/* ---- for template.c, while one is made ---- */

void size_set_vm(struct vmm *m, struct size *s, struct vm *vm)
{
	LOCK_SCOPE(&m->lock);
	s->vm = vm;
}

void size_note(struct vmm *m, struct size *s, const char *note)
{
	LOCK_SCOPE(&m->lock);
	snprintf(s->note, sizeof(s->note), "%s", note);
}

bool size_cut(struct vmm *m, const struct size *s)
{
	LOCK_SCOPE(&m->lock);
	return s->cut || m->sizes->ending || m->stopping;
}

bool size_ahead(struct vmm *m, const struct size *s)
{
	LOCK_SCOPE(&m->lock);
	return s->ahead;
}

/* ---- ending those that nobody waits for ---- */

static void cut(struct vmm *m, bool all)
{
	char instances[SIZES_MAX][ID_SIZE];
	struct sizes *z = m->sizes;
	size_t n = 0;

	mutex_lock(&m->lock);
	for (size_t i = 0; i < z->n; i++) {
		struct size *s = &z->s[i];

		if (s->state != SIZE_IN_MAKING || (!all && !s->ahead))
			continue;
		s->cut = true;
		if (s->vm && *s->vm->shown.instance)
			snprintf(instances[n++], ID_SIZE, "%s", s->vm->shown.instance);
	}
	mutex_unlock(&m->lock);
	while (n)
		privc_kill(m->priv, instances[--n], NULL);
}

void sizes_make_way(struct vmm *m)
{
	if (m->sizes)
		cut(m, /* all= */ false);
}

void sizes_stop(struct vmm *m)
{
	if (!m->sizes)
		return;
	mutex_lock(&m->lock);
	m->sizes->ending = true;
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	cut(m, /* all= */ true);
}

void sizes_end(struct vmm *m)
{
	struct timespec ts;

	while (m->has_sizes_thread) {
		sizes_stop(m); /* again and again: the machine may not have been there yet */
		clock_gettime(CLOCK_REALTIME, &ts);
		ts.tv_sec++;
		if (pthread_timedjoin_np(m->sizes_thread, NULL, &ts) == 0)
			m->has_sizes_thread = false;
	}
	free(m->sizes);
	m->sizes = NULL;
}

/* ---- keeping to the budget ---- */

uint64_t sizes_budget(const struct vmm *m)
{
	return (uint64_t)m->conf.sizes_disk_mb << 20;
}

/* The one that goes first; NULL: all is well. m->lock held. */
static struct size *too_much(struct vmm *m, const struct size *keep) REQUIRES(&m->lock)
{
	struct sizes *z = m->sizes;
	struct size *first = NULL;
	uint64_t sum = 0;
	size_t n = 0;

	for (size_t i = 0; i < z->n; i++) {
		struct size *s = &z->s[i];

		if (!*s->point || s->state == SIZE_IN_MAKING)
			continue;
		sum += s->bytes + s->own.bytes;
		n++;
		if (s == keep)
			continue;
		if (!first || s->listed < first->listed ||
		    (s->listed == first->listed && s->used_ms < first->used_ms))
			first = s;
	}
	return n > SIZES_KEPT || sum > sizes_budget(m) ? first : NULL;
}

static void drop(struct vmm *m, const char *key, const char *point, const char *why)
{
	struct err err = { 0 };

	if (store_template_drop(m->store, key, point, &err) < 0)
		log_obj(LOG_LV_WARN, "template", key, "was not removed: %s", err.msg);
	else
		log_obj(LOG_LV_INFO, "template", key, "removed: %s", why);
	pool_forget(m, point);
	vmm_collect_soon(m);
}

/* Nobody thaws it any more: what is to be dropped, in *ret. */
static void unset(struct size *s, uint64_t not_before_ms, struct size *ret)
{
	*ret = *s;
	s->state = SIZE_NONE;
	s->point[0] = '\0';
	s->bytes = 0;
	s->own = (struct own){ 0 };
	s->not_before_ms = not_before_ms;
}

static void drop_both(struct vmm *m, const struct size *s, const char *why)
{
	char key[sizeof(s->key)];

	if (*s->own.point) {
		own_key(s->key, s->own.told, key);
		drop(m, key, s->own.point, why);
	}
	drop(m, s->key, s->point, why);
}

void sizes_trim(struct vmm *m, const struct size *keep)
{
	for (;;) {
		struct size *s, was;

		mutex_lock(&m->lock);
		s = too_much(m, keep);
		if (s) {
			/* Not at once again: it would push out what pushed it out. */
			unset(s, clock_ms() + SIZE_RECENT_MS, &was);
		}
		mutex_unlock(&m->lock);
		if (!s)
			return;
		drop_both(m, &was, "others of their size budget were used since");
	}
}

bool size_forget(struct vmm *m, const char *point, const char *why)
{
	struct sizes *z = m->sizes;
	struct size was = { 0 };

	mutex_lock(&m->lock);
	for (size_t i = 0; i < z->n && *point; i++)
		if (!strcmp(z->s[i].point, point) && z->s[i].state != SIZE_IN_MAKING)
			unset(&z->s[i], clock_ms() + SIZE_LOOK_AGAIN_MS, &was);
	mutex_unlock(&m->lock);
	if (*was.point)
		drop_both(m, &was, why);
	return *was.point;
}

size_t sizes_list(struct vmm *m, struct size_point ret[SIZES_MAX])
{
	struct sizes *z = m->sizes;
	size_t n = 0;
	LOCK_SCOPE(&m->lock);

	for (size_t i = 0; i < z->n; i++) {
		const struct size *s = &z->s[i];

		if (!*s->point || s->state == SIZE_IN_MAKING)
			continue;
		ret[n].used_ms =
		        s->used_ms ? clock_wall_ms() - (int64_t)(clock_ms() - s->used_ms) : 0;
		snprintf(ret[n++].point, ID_SIZE, "%s", s->point);
	}
	return n;
}

/* ---- making one ---- */

/* What went wrong in a guest that the caller never had is nothing the caller did. */
static void explain(struct vmm *m, const struct size *s, struct err *err)
{
	if (size_cut(m, s))
		err->tag = ERR_SERVICE_UNAVAILABLE;
	else if (err->code != -ENOSPC && err->code != -ENOMEM)
		err->tag = ERR_NO_DEFAULT_SNAPSHOT_AVAILABLE;
	err_wrap(err, err->code, "a VM with %u vCPUs and %u MB", s->vcpus, s->mem_mb);
}

int size_make(struct vmm *m, struct size *s, struct err *err)
{
	uint64_t t0 = clock_ms();
	struct err why = { 0 };
	char point[ID_SIZE] = "";
	struct template_job j;
	struct store_point p;
	int r;

	template_job(m, s->vcpus, s->mem_mb, &j);
	j.size = s;
	r = template_make(m, &j, point, &why);
	if (r < 0)
		explain(m, s, &why);
	mutex_lock(&m->lock);
	s->attempts++;
	s->vm = NULL;
	s->account[0] = s->note[0] = '\0';
	s->state = r < 0 ? SIZE_NONE : SIZE_READY;
	s->err = why;
	s->failures = r < 0 ? s->failures + 1 : 0;
	snprintf(s->point, sizeof(s->point), "%s", point);
	cond_broadcast(&m->cond);
	mutex_unlock(&m->lock);
	if (r < 0) {
		if (err)
			*err = why;
		vmm_collect_soon(m); /* what a damaged one left */
		return r;
	}
	log_obj(LOG_LV_INFO, "template", j.key, "of %u vCPUs and %u MB is ready after %.1f s",
	        s->vcpus, s->mem_mb, (double)(clock_ms() - t0) / 1e3);
	if (store_point_get(m->store, point, &p, NULL) == 0) {
		uint64_t bytes = size_weigh(m, &p);

		mutex_lock(&m->lock);
		s->bytes = bytes;
		mutex_unlock(&m->lock);
	}
	sizes_trim(m, s);
	vmm_collect_soon(m);
	return 0;
}

/* ---- for those who ask ---- */

static bool may_make(const struct sizes *z, const char *account)
{
	size_t n = 0;

	for (size_t i = 0; i < z->n; i++) {
		if (z->s[i].state != SIZE_IN_MAKING || z->s[i].ahead)
			continue;
		if (!strcmp(z->s[i].account, account))
			return false;
		n++;
	}
	return n < SIZES_MAKING;
}

static int timed_out(const struct size *s, struct err *err)
{
	return err_tag(err, -EAGAIN, ERR_SERVICE_UNAVAILABLE,
	               "the template for %u vCPUs and %u MB is not ready yet (%.100s); try again "
	               "later",
	               s->vcpus, s->mem_mb, *s->note ? s->note : "others are made first");
}

/* 0: it is ready, in ret_point; 1: the caller is to make it. */
static int ask(struct vmm *m, const char *account, struct size *s, char ret_point[ID_SIZE],
               struct err *err)
{
	uint64_t until = deadline_in(m->t.template_wait), attempts = 0;
	bool joined = false;
	LOCK_SCOPE(&m->lock);

	for (;;) {
		if (m->stopping || m->sizes->ending)
			return err_tag(err, -ESHUTDOWN, ERR_SERVICE_UNAVAILABLE,
			               "the server is shutting down");
		if (s->state == SIZE_READY) {
			s->used_ms = clock_ms();
			snprintf(ret_point, ID_SIZE, "%s", own_or(&s->own, s->point));
			return 0;
		}
		if (joined && s->attempts != attempts && !s->cut) {
			if (err)
				*err = s->err;
			return s->err.code ? s->err.code : -EIO;
		}
		joined = s->state == SIZE_IN_MAKING && !s->cut;
		attempts = s->attempts;
		if (joined) {
			s->ahead = false; /* from now on somebody waits */
		} else if (s->state == SIZE_NONE && may_make(m->sizes, account)) {
			s->state = SIZE_IN_MAKING;
			s->ahead = s->cut = false;
			snprintf(s->account, sizeof(s->account), "%s", account);
			return 1;
		}
		if (!cond_wait_until(&m->cond, &m->lock, until))
			return timed_out(s, err);
	}
}

/* Before anything is booted for it. */
static int permit(struct vmm *m, const char *account, uint32_t vcpus, uint32_t mem_mb,
                  struct err *err)
{
	struct vm_info v = { .vcpus = vcpus, .mem_mb = mem_mb, .disk_mb = m->conf.disk_mb };
	int r;

	snprintf(v.account, sizeof(v.account), "%s", account);
	if ((r = vmm_need_size(m, mem_mb, err)) < 0 || (r = vmm_need_room(m, err)) < 0)
		return r;
	return quota_check_vms(m, &v, 1, err);
}

int size_hold(struct vmm *m, const char *account, uint32_t vcpus, uint32_t mem_mb,
              char ret_point[ID_SIZE], char ret_key[32], struct err *err)
{
	struct size *s;
	int r;

	vcpus = vcpus ? vcpus : m->conf.vcpus;
	mem_mb = mem_mb ? mem_mb : m->conf.mem_mb;
	if (is_default(m, vcpus, mem_mb)) {
		r = template_hold(m, ret_point, err);
		if (r == 0 && ret_key)
			snprintf(ret_key, 32, "%s", m->template_key);
		return r;
	}
	if ((r = template_wait(m, ret_point, err)) < 0)
		return r;
	if ((r = permit(m, account, vcpus, mem_mb, err)) < 0)
		return r;
	mutex_lock(&m->lock);
	s = find_or_add(m, vcpus, mem_mb);
	mutex_unlock(&m->lock);
	if (!s)
		return err_set(err, -EINVAL, "there are too many sizes");
	if (ret_key)
		snprintf(ret_key, 32, "%s", s->key);
	for (;;) {
		r = ask(m, account, s, ret_point, err);
		if (r == 1) {
			if ((r = size_make(m, s, err)) < 0)
				return r;
			continue;
		}
		if (r < 0)
			return r;
		r = vmm_point_hold(m, ret_point, err);
		if (r != -ENOENT)
			return r;
		if (!own_forget(m, ret_point)) /* removed in this moment */
			size_forget(m, ret_point, "its point is gone");
	}
}
