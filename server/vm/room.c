/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.c - disk budget and host memory: what may still be made, and what goes to make room
 *
 * The keeper measures what layers and points really take on the disk. Above the
 * budget (or below the free space that must stay) it evicts. First goes what nobody asked to be
 * kept: cached layers of specs and templates of other sizes, which can be made again, and the
 * states of failed builds. Then sticky VMs that do not run and sticky snapshots that no VM stands
 * on: lowest priority first. Among equals the one that was used longest ago goes first. Persistent
 * ones, and whatever runs, never go. Calls that make something new look at the last measurement;
 * when it says that there is no room they wait for the keeper to look again, and are refused if
 * that did not help. A suspend is never refused: the VM would have nowhere to go.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "vm/elsewhere.h"
#include "vm/stored.h"

#define LOOK_EVERY_MS 10000 /* when nobody asks */
#define TIGHT_MS 60000      /* after there was none, VMs that had none may still be found */
#define FLOOR_PART 20       /* of a small file system no more than this part stays free */
#define MEMINFO_MAX 16384   /* bytes */
#define GUEST_PAGES_PART 64 /* of a guest's memory is its kernel's table of pages */
#define TEMPLATE_MB 384     /* of a template on the disk, beside that */
#define PRIORITY_CACHE (-1) /* below all that VMs and snapshots can have */

/* Files that are there are added to *n. */
static uint64_t dir_bytes(const char *data_dir, const char *name, unsigned *n)
{
	char path[512];
	autodir DIR *d = NULL;
	struct dirent *de;
	struct stat st;
	uint64_t sum = 0;

	snprintf(path, sizeof(path), "%s/%s", data_dir, name);
	d = opendir(path);
	while (d && (de = readdir(d)))
		if (de->d_name[0] != '.' &&
		    fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			sum += (uint64_t)st.st_blocks * 512;
			++*n;
		}
	return sum;
}

uint64_t vmm_disk_floor(const struct vmm *m, uint64_t size)
{
	return MIN((uint64_t)m->conf.disk_free_mb << 20, size / FLOOR_PART);
}

/* Bytes above what is allowed. */
static uint64_t measure(struct vmm *m)
{
	unsigned layers = 0, points = 0;
	uint64_t budget = (uint64_t)m->conf.disk_budget_mb << 20;
	uint64_t used = dir_bytes(m->conf.data_dir, "layers", &layers) +
	                dir_bytes(m->conf.data_dir, "points", &points);
	uint64_t over = budget && used > budget ? used - budget : 0;
	struct statvfs fs;

	if (statvfs(m->conf.data_dir, &fs) == 0) {
		uint64_t avail = (uint64_t)fs.f_bavail * fs.f_frsize;
		uint64_t floor = vmm_disk_floor(m, (uint64_t)fs.f_blocks * fs.f_frsize);

		if (avail < floor)
			over = MAX(over, floor - avail);
	}
	LOCK_SCOPE(&m->lock);
	m->disk_used = used;
	m->n_layer_files = layers;
	m->disk_over = over;
	if (over)
		m->disk_over_ms = clock_ms();
	return over;
}

bool vmm_disk_tight(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	return m->disk_over_ms && clock_ms() - m->disk_over_ms < TIGHT_MS;
}

enum candidate_kind { CANDIDATE_VM, CANDIDATE_SNAPSHOT, CANDIDATE_SPEC, CANDIDATE_SIZE };

struct candidate {
	enum candidate_kind kind;
	char id[SPEC_KEY_SIZE], point[ID_SIZE];
	int priority;
	int64_t used_ms;
};

static int goes_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->priority != y->priority)
		return x->priority < y->priority ? -1 : 1;
	if (x->used_ms != y->used_ms)
		return x->used_ms < y->used_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

static bool may_go(const struct vm_info *i)
{
	return i->persistence.type == PERSIST_STICKY &&
	       (i->state == VM_SUSPENDED || i->state == VM_STOPPED || i->state == VM_LOST);
}

/* Everything there is: found once, looked through by kind. */
struct holdings {
	struct store_vm *vms;
	struct store_snapshot *snaps;
	struct store_spec *specs;
	struct store_point *points;
	struct size_point sizes[SIZES_MAX];
	size_t n_vms, n_snaps, n_specs, n_points, n_sizes;
};

static void holdings_done(struct holdings *h)
{
	free(h->vms);
	free(h->snaps);
	free(h->specs);
	free(h->points);
}

static bool stood_on(const struct holdings *h, const char *point)
{
	for (size_t i = 0; i < h->n_vms; i++)
		if (!strcmp(h->vms[i].base_point, point) || !strcmp(h->vms[i].info.point, point) ||
		    !strcmp(h->vms[i].origin, point))
			return true;
	return false;
}

static bool snapshot_may_go(const struct holdings *h, const struct store_snapshot *s)
{
	if (s->info.persistent || !*s->point || stood_on(h, s->point) ||
	    (s->info.state != SNAPSHOT_READY && s->info.state != SNAPSHOT_FAILED))
		return false;
	for (size_t i = 0; i < h->n_vms; i++)
		if (!strcmp(h->vms[i].info.snapshot_id, s->info.id))
			return false;
	return true;
}

/* What others stand on stays without its entry too, so that would make no room: outer layers first.
 */
static bool point_may_go(const struct holdings *h, const char *point)
{
	for (size_t i = 0; i < h->n_snaps; i++)
		if (!strcmp(h->snaps[i].point, point))
			return false;
	for (size_t i = 0; i < h->n_points; i++)
		if (!strcmp(h->points[i].parent, point))
			return false;
	for (size_t i = 0; i < h->n_vms; i++)
		if (!strcmp(h->vms[i].head, point))
			return false;
	return !stood_on(h, point);
}

static size_t list_candidates(const struct holdings *h, struct candidate *c)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_vms; i++) {
		const struct vm_info *v = &h->vms[i].info;

		if (!may_go(v) || vm_is_empty(&h->vms[i]))
			continue;
		c[n] = (struct candidate){ .priority = v->persistence.priority,
			                   .used_ms = MAX(v->used_ms, v->created_ms) };
		snprintf(c[n++].id, ID_SIZE, "%s", v->id);
	}
	for (size_t i = 0; i < h->n_snaps; i++) {
		const struct snapshot_info *s = &h->snaps[i].info;

		if (!snapshot_may_go(h, &h->snaps[i]))
			continue;
		c[n] = (struct candidate){ .kind = CANDIDATE_SNAPSHOT,
			                   .priority = s->state == SNAPSHOT_FAILED ? PRIORITY_CACHE
			                                                           : s->priority,
			                   .used_ms = MAX(s->used_ms, s->created_ms) };
		snprintf(c[n].point, ID_SIZE, "%s", h->snaps[i].point);
		snprintf(c[n++].id, ID_SIZE, "%s", s->id);
	}
	for (size_t i = 0; i < h->n_specs; i++) {
		if (!point_may_go(h, h->specs[i].point))
			continue;
		c[n] = (struct candidate){ .kind = CANDIDATE_SPEC,
			                   .priority = PRIORITY_CACHE,
			                   .used_ms = h->specs[i].used_ms };
		snprintf(c[n].point, ID_SIZE, "%s", h->specs[i].point);
		snprintf(c[n++].id, SPEC_KEY_SIZE, "%s", h->specs[i].key);
	}
	for (size_t i = 0; i < h->n_sizes; i++) {
		if (!point_may_go(h, h->sizes[i].point))
			continue;
		c[n] = (struct candidate){ .kind = CANDIDATE_SIZE,
			                   .priority = PRIORITY_CACHE,
			                   .used_ms = h->sizes[i].used_ms };
		snprintf(c[n].point, ID_SIZE, "%s", h->sizes[i].point);
		snprintf(c[n++].id, ID_SIZE, "%s", h->sizes[i].point);
	}
	return n;
}

/* Everything that may be evicted, in that order. Caller frees. */
static struct candidate *find_candidates(struct vmm *m, size_t *ret_n)
{
	AUTO(holdings_done) struct holdings h = { 0 };
	struct candidate *c;
	struct err err = { 0 };

	*ret_n = 0;
	if (store_vm_list(m->store, NULL, &h.vms, &h.n_vms, &err) < 0 ||
	    store_snapshot_list(m->store, NULL, /* include_deleted= */ false, &h.snaps, &h.n_snaps,
	                        &err) < 0 ||
	    store_spec_list(m->store, &h.specs, &h.n_specs, &err) < 0 ||
	    store_point_list(m->store, &h.points, &h.n_points, &err) < 0) {
		log_warn("nothing can be evicted: %s", err.msg);
		return NULL;
	}
	h.n_sizes = sizes_list(m, h.sizes);
	c = calloc(h.n_vms + h.n_snaps + h.n_specs + h.n_sizes + 1, sizeof(*c));
	if (!c)
		return NULL;
	*ret_n = list_candidates(&h, c);
	qsort(c, *ret_n, sizeof(*c), goes_first);
	return c;
}

static bool evict_vm(struct vmm *m, const char *id, struct err *err)
{
	struct vm *vm;
	bool done = false;

	if (vmm_find(m, /* account= */ NULL, id, &vm, NULL) < 0)
		return false;
	if (mutex_trylock(&vm->lock)) { /* a busy one is in use */
		done = !vm->gone && may_go(&vm->row.info) &&
		       vm_delete_locked(vm, "evicted", err) == 0;
		mutex_unlock(&vm->lock);
	}
	vm_unref(vm);
	return done;
}

static bool evict(struct vmm *m, const struct candidate *c)
{
	static const char *const nouns[] = { [CANDIDATE_VM] = "vm",
		                             [CANDIDATE_SNAPSHOT] = "snapshot",
		                             [CANDIDATE_SPEC] = "cached layer",
		                             [CANDIDATE_SIZE] = "template of a size" };
	struct err err = { 0 };
	bool done = false;

	switch (c->kind) {
	case CANDIDATE_VM:
		done = evict_vm(m, c->id, &err);
		break;
	case CANDIDATE_SNAPSHOT:
		done = store_snapshot_lose(m->store, c->id, "evicted to make room on the disk",
		                           &err) == 0;
		break;
	case CANDIDATE_SPEC:
		done = store_spec_drop(m->store, c->id, c->point, &err) == 0;
		break;
	case CANDIDATE_SIZE:
		done = size_forget(m, c->point, "to make room on the disk");
		break;
	}
	if (done && *c->point)
		pool_forget(m, c->point);
	if (done)
		log_obj(LOG_LV_WARN, nouns[c->kind], c->id,
		        "evicted to make room on the disk (priority %d)", c->priority);
	else if (*err.msg)
		log_obj(LOG_LV_WARN, nouns[c->kind], c->id, "not evicted: %s", err.msg);
	return done;
}

static bool look_due(struct vmm *m, uint64_t *last_ms)
{
	LOCK_SCOPE(&m->lock);

	if (!m->room_wanted && !m->disk_over && m->room_seq &&
	    clock_ms() - *last_ms < LOOK_EVERY_MS)
		return false;
	*last_ms = clock_ms();
	return !m->stopping;
}

/* The next one goes; those that could not are in front of it. What is left over is looked at anew.
 */
static bool evict_next(struct vmm *m, size_t *stuck)
{
	autofree struct candidate *c = NULL;
	size_t n = 0;

	c = find_candidates(m, &n);
	for (; c && *stuck < n; ++*stuck)
		if (evict(m, &c[*stuck]))
			return true;
	return false;
}

void vmm_look_at_disk(struct vmm *m)
{
	size_t stuck = 0;
	uint64_t over;

	if (!look_due(m, &m->disk_look_ms))
		return;
	over = measure(m);
	if (over && cache_drop(m, over)) /* what can be fetched again costs nobody anything */
		over = measure(m);
	while (over && evict_next(m, &stuck)) {
		vmm_collect(m);
		over = measure(m);
	}
	LOCK_SCOPE(&m->lock);
	m->room_wanted = false;
	m->room_seq++;
	cond_broadcast(&m->cond);
}

int vmm_need_room(struct vmm *m, struct err *err)
{
	uint64_t until = deadline_in(m->t.room_wait);
	uint64_t seq;

	LOCK_SCOPE(&m->lock);
	if (!m->disk_over)
		return 0;
	seq = m->room_seq;
	m->room_wanted = true;
	cond_broadcast(&m->cond);
	/* A look that was under way may have measured too early: the one after it counts. */
	while (m->disk_over && m->room_seq < seq + 2 && !m->stopping &&
	       cond_wait_until(&m->cond, &m->lock, until))
		m->room_wanted = true;
	if (!m->disk_over)
		return 0;
	return err_tag(err, -ENOSPC, ERR_NO_LOCAL_STORAGE_CAPACITY,
	               "the disk is full: %llu MB are used, %llu MB more than allowed, and nothing "
	               "is left to evict; delete VMs or snapshots, or have the operator change "
	               "PANDO_DISK_BUDGET_MB or PANDO_DISK_FREE_MB",
	               (unsigned long long)m->disk_used >> 20,
	               (unsigned long long)(m->disk_over + (1 << 20) - 1) >> 20);
}

/* "MemAvailable:  123 kB" */
static uint64_t meminfo_kb(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p ? strtoull(p + strlen(name), NULL, 10) : 0;
}

/* What the host has, in MiB. */
struct host_mem {
	uint64_t total_mb, free_mb; /* memory and swap */
	uint64_t promised_mb;       /* that may still be promised; UINT64_MAX: it over-commits */
};

static bool host_mem(struct host_mem *ret)
{
	autofree char *text = NULL;
	autofree char *mode = NULL;

	if (io_read_file(AT_FDCWD, "/proc/meminfo", MEMINFO_MAX, &text, NULL) < 0)
		return false; /* the kernel does not say: it will refuse by itself */
	*ret = (struct host_mem){
		.total_mb = (meminfo_kb(text, "MemTotal:") + meminfo_kb(text, "SwapTotal:")) >> 10,
		.free_mb =
		        (meminfo_kb(text, "MemAvailable:") + meminfo_kb(text, "SwapFree:")) >> 10,
		.promised_mb = UINT64_MAX,
	};
	if (io_read_file(AT_FDCWD, "/proc/sys/vm/overcommit_memory", 64, &mode, NULL) == 0 &&
	    mode[0] == '2') {
		uint64_t limit = meminfo_kb(text, "CommitLimit:");
		uint64_t now = meminfo_kb(text, "Committed_AS:");

		ret->promised_mb = limit > now ? (limit - now) >> 10 : 0;
	}
	return true;
}

uint64_t host_free_mb(void)
{
	struct host_mem h;

	return host_mem(&h) ? h.free_mb : 0;
}

int vmm_need_memory(struct vmm *m, unsigned count, struct err *err)
{
	uint64_t need_mb = (uint64_t)count * m->conf.vm_reserve_mb;
	struct host_mem h;

	if (!host_mem(&h) || need_mb <= h.free_mb)
		return 0;
	return err_tag(err, -ENOMEM, ERR_INSUFFICIENT_SWAP,
	               "%u more VMs need at least %llu MB of memory, the host has %llu MB left; "
	               "suspend some, or have the operator lower PANDO_VM_RESERVE_MB (%u)",
	               count, (unsigned long long)need_mb, (unsigned long long)h.free_mb,
	               (unsigned)m->conf.vm_reserve_mb);
}

uint32_t vmm_template_mb(uint32_t mem_mb)
{
	return TEMPLATE_MB + mem_mb / GUEST_PAGES_PART;
}

bool vmm_spare(struct vmm *m, uint32_t mem_mb)
{
	uint64_t mb = 2 * (uint64_t)vmm_template_mb(mem_mb), used_mb, over;
	struct statvfs fs;
	struct host_mem h;

	if (!host_mem(&h) || mem_mb > h.total_mb / 2 || mem_mb > h.promised_mb / 2 ||
	    mb > h.free_mb / 2 || vmm_disk_tight(m) || statvfs(m->conf.data_dir, &fs) < 0)
		return false;
	mutex_lock(&m->lock);
	used_mb = m->disk_used >> 20;
	over = m->disk_over;
	mutex_unlock(&m->lock);
	return !over && (((uint64_t)fs.f_bavail * fs.f_frsize) >> 20) > m->conf.disk_free_mb + mb &&
	       (!m->conf.disk_budget_mb || used_mb + mb < m->conf.disk_budget_mb);
}

uint64_t vmm_need_mb(const struct vmm *m, uint32_t mem_mb)
{
	/* A guest's kernel describes every page before it does anything else. */
	return m->conf.vm_reserve_mb + mem_mb / GUEST_PAGES_PART;
}

int vmm_need_size(struct vmm *m, uint32_t mem_mb, struct err *err)
{
	uint64_t need_mb = vmm_need_mb(m, mem_mb);
	struct host_mem h;

	if (!host_mem(&h))
		return 0;
	if (mem_mb > h.total_mb)
		return err_tag(err, -ENOMEM, ERR_INSUFFICIENT_SWAP,
		               "a VM of %u MB is larger than this host, which has %llu MB of "
		               "memory and swap together; ask for less, or have the operator add "
		               "swap",
		               mem_mb, (unsigned long long)h.total_mb);
	if (mem_mb > h.promised_mb)
		return err_tag(err, -ENOMEM, ERR_INSUFFICIENT_SWAP,
		               "a VM of %u MB does not fit: this host does not over-commit memory "
		               "(vm.overcommit_memory is 2) and has %llu MB left to promise; ask "
		               "for less, or have the operator set vm.overcommit_memory to 0",
		               mem_mb, (unsigned long long)h.promised_mb);
	if (need_mb > h.free_mb)
		return err_tag(err, -ENOMEM, ERR_INSUFFICIENT_SWAP,
		               "the kernel of a VM of %u MB needs %llu MB to boot, the host has "
		               "%llu MB left; ask for less, or suspend some VMs",
		               mem_mb, (unsigned long long)need_mb, (unsigned long long)h.free_mb);
	return 0;
}
