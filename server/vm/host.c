/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.c - the host as a whole: processors, memory by whom it is for, disk; and whether VMs can be
 * made on it
 *
 * Memory is told apart by what the kernel counts anyway. Private: the anonymous pages of QEMU
 * processes, which nobody else has. Shared: pages of files that they have mapped (layers, mostly).
 * A VM's own count of those has each page that its relatives have too, so the sum over VMs counts
 * one page many times; the kernel's number of all mapped pages has each once, and includes those of
 * other programs: the smaller of the two is the best answer that costs nothing. Cache: the other
 * pages of files.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "vm/history_internal.h"
#include "vm/vm_internal.h"

#define PROC_MAX (1u << 20) /* bytes of a file of /proc: stat has a line for each interrupt */
#define READY_MS 5000       /* an answer of vmm_is_ready() is good for so long, */
#define NOT_READY_MS 1000   /* or so long, if it was no */

static uint64_t meminfo(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p ? strtoull(p + strlen(name), NULL, 10) << 10 : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* m->mem has what VMs have; m->lock not held. */
static void read_memory(uint64_t private, uint64_t mapped, struct host_memory *ret)
{
	autofree char *text = NULL;
	uint64_t files;

	*ret = (struct host_memory){ .private = private, .mapped = mapped };
	if (io_read_file(AT_FDCWD, "/proc/meminfo", PROC_MAX, &text, NULL) < 0)
		return;
	ret->total = meminfo(text, "MemTotal:");
	ret->free = meminfo(text, "MemFree:");
	ret->available = meminfo(text, "MemAvailable:");
	ret->shared = MIN(mapped, meminfo(text, "\nMapped:"));
	files = less(meminfo(text, "\nCached:") + meminfo(text, "\nBuffers:"),
	             meminfo(text, "\nShmem:")) +
	        meminfo(text, "\nSReclaimable:");
	ret->cache = less(files, ret->shared);
	ret->other = less(ret->total, ret->free + ret->private + ret->shared + ret->cache);
}

static void read_cpu(uint64_t *ret_busy, uint64_t *ret_all)
{
	unsigned long long f[8] = { 0 };
	autofree char *text = NULL;

	*ret_busy = *ret_all = 0;
	if (io_read_file(AT_FDCWD, "/proc/stat", PROC_MAX, &text, NULL) < 0 ||
	    sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &f[0], &f[1], &f[2], &f[3],
	           &f[4], &f[5], &f[6], &f[7]) < 4)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(f); i++)
		*ret_all += f[i];
	*ret_busy = *ret_all - f[3] - f[4]; /* idle, and waiting for a disk */
}

static uint64_t disk_free(const char *dir, uint64_t *ret_size)
{
	struct statvfs fs;

	*ret_size = 0;
	if (statvfs(dir, &fs) < 0)
		return 0;
	*ret_size = (uint64_t)fs.f_blocks * fs.f_frsize;
	return (uint64_t)fs.f_bavail * fs.f_frsize;
}

/* What VMs have, by their state; pool_kb: what those have that are ready. */
static void count_vms(struct vmm *m, struct host_state *by_state, uint64_t *ret_private,
                      uint64_t *ret_mapped) REQUIRES(&m->lock)
{
	struct vmm_status pool = { 0 };

	pool_status(m, &pool);
	*ret_private = (uint64_t)pool.pool_mem_mb << 20;
	*ret_mapped = 0;
	for (size_t i = 0; i < m->vms.n; i++) {
		const struct vm *vm = m->vms.all[i];
		struct host_state *s = &by_state[vm->shown.state];

		s->n++;
		s->given += (uint64_t)vm->shown.mem_mb << 20;
		if (!vm->shown.machine_ms)
			continue;
		s->resident += (uint64_t)vm->mem_kb << 10;
		s->private += (uint64_t)vm->private_kb << 10;
		*ret_private += (uint64_t)vm->private_kb << 10;
		*ret_mapped += (uint64_t)(vm->mem_kb - vm->private_kb) << 10;
	}
}

void host_look(struct vmm *m, struct host_sample *sum)
{
	struct host_state by_state[VM_STATE_MAX] = { 0 };
	uint64_t busy, all, private, mapped, size;
	struct history *h = m->history;
	struct host_memory mem;
	double load[3] = { 0 };

	read_cpu(&busy, &all);
	if (getloadavg(load, 3) < 0)
		load[0] = load[1] = load[2] = 0;
	mutex_lock(&m->lock);
	count_vms(m, by_state, &private, &mapped);
	mutex_unlock(&m->lock);
	read_memory(private, mapped, &mem);
	sum->at_s = (uint32_t)(clock_wall_ms() / 1000);
	sum->load = (float)load[0];
	sum->running = by_state[VM_RUNNING].n;
	sum->mem_free = mem.free;
	sum->mem_private = mem.private;
	sum->mem_shared = mem.shared;
	sum->mem_cache = mem.cache;
	sum->disk_free = disk_free(m->conf.data_dir, &size);
	LOCK_SCOPE(&m->lock);
	if (mem.total)
		demand_spare(m->demand, (uint32_t)MIN(mem.available >> 20, UINT32_MAX - 1));
	memcpy(h->load, load, sizeof(load));
	if (h->all_ticks && all > h->all_ticks) {
		h->cpu = 100.0 * (double)(busy - MIN(h->busy_ticks, busy)) /
		         (double)(all - h->all_ticks);
		sum->cpu = (float)h->cpu;
		h->s[h->at] = *sum;
		h->at = (h->at + 1) % HISTORY_SAMPLES;
		h->n = MIN(h->n + 1, (size_t)HISTORY_SAMPLES);
	}
	h->busy_ticks = busy;
	h->all_ticks = all;
}

int vmm_host_history(struct vmm *m, struct host_sample **ret, size_t *ret_n, struct err *err)
{
	const struct history *h = m->history;
	struct host_sample *s = calloc(HISTORY_SAMPLES, sizeof(*s));

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	LOCK_SCOPE(&m->lock);
	for (size_t i = 0; i < h->n; i++)
		s[i] = h->s[(h->at + HISTORY_SAMPLES - h->n + i) % HISTORY_SAMPLES];
	*ret = s;
	*ret_n = h->n;
	return 0;
}

void vmm_host(struct vmm *m, struct vmm_host *ret)
{
	struct vmm_status ahead = { 0 };
	uint64_t private, mapped;
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	*ret = (struct vmm_host){ .cores = cores > 0 ? (unsigned)cores : 1,
		                  .uptime_s = (clock_ms() - m->history->began_ms) / 1000,
		                  .disk_budget = (uint64_t)m->conf.disk_budget_mb << 20,
		                  .kvm_there = m->priv_info.kvm,
		                  .slots_max = m->priv_info.slots_max };
	mutex_lock(&m->lock);
	ret->cpu = m->history->cpu;
	memcpy(ret->load, m->history->load, sizeof(ret->load));
	ret->layer_bytes = m->disk_used;
	ret->disk_over = m->disk_over;
	ret->layers = m->n_layer_files;
	ahead_status(m, &ahead);
	ret->pool_want = ahead.pool_want;
	pool_trouble(m, ret->pool_why, sizeof(ret->pool_why));
	count_vms(m, ret->by_state, &private, &mapped);
	for (size_t i = 0; i < m->vms.n; i++)
		ret->newest_ms = MAX(ret->newest_ms, m->vms.all[i]->shown.created_ms);
	mutex_unlock(&m->lock);
	ret->pool_stuck = *ret->pool_why;
	read_memory(private, mapped, &ret->mem);
	ret->disk_free = disk_free(m->conf.data_dir, &ret->disk_size);
	ret->disk_floor = vmm_disk_floor(m, ret->disk_size);
}

/* ---- ready ---- */

static void add_reason(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_reason(struct err *err, const char *fmt, ...)
{
	size_t n = strlen(err->msg);
	va_list ap;

	if (n)
		n += (size_t)snprintf(err->msg + n, sizeof(err->msg) - n, "; ");
	va_start(ap, fmt);
	if (n < sizeof(err->msg))
		vsnprintf(err->msg + n, sizeof(err->msg) - n, fmt, ap);
	va_end(ap);
}

static int check_ready(struct vmm *m, struct err *err)
{
	autofree uint32_t *slots = NULL;
	struct err why = { 0 };
	struct vmm_status s;
	size_t n = 0;

	*err = (struct err){ 0 };
	vmm_status(m, &s);
	if (strcmp(s.template_state, "ready") != 0)
		add_reason(err, "the base template is %s%s%s",
		           strcmp(s.template_state, "building") == 0 ? "being made" : "missing",
		           *s.template_note ? ": " : "", s.template_note);
	if (store_probe(m->store, &why) < 0)
		add_reason(err, "the database cannot be written: %s", why.msg);
	if (privc_slots_taken(m->priv, &slots, &n, &why) < 0)
		add_reason(err, "pando-priv does not answer: %s", why.msg);
	if (!*err->msg)
		return 0;
	err->code = -EAGAIN;
	err->tag = ERR_UNAVAILABLE;
	return -EAGAIN;
}

int vmm_is_ready(struct vmm *m, struct err *err)
{
	struct history *h = m->history;
	struct err now = { 0 };
	int r;

	mutex_lock(&m->lock);
	if (h->ready.looked_ms &&
	    clock_ms() - h->ready.looked_ms < (h->ready.r == 0 ? READY_MS : NOT_READY_MS)) {
		r = h->ready.r;
		if (r < 0)
			err_tag(err, r, ERR_UNAVAILABLE, "%s", h->ready.why);
		mutex_unlock(&m->lock);
		return r;
	}
	mutex_unlock(&m->lock);
	r = check_ready(m, &now);
	LOCK_SCOPE(&m->lock);
	h->ready.looked_ms = clock_ms();
	h->ready.r = r;
	snprintf(h->ready.why, sizeof(h->ready.why), "%s", now.msg);
	return r < 0 ? err_tag(err, r, ERR_UNAVAILABLE, "%s", h->ready.why) : 0;
}
