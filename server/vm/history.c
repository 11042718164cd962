/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.c - a thread that looks at every running VM and at the host, and keeps the last hour
 *
 * A look must be cheap, because there may be a thousand VMs. So nothing walks page tables, and
 * pando-priv is not asked: processor time comes from the clock of the QEMU process, memory from
 * its statm (two numbers that the kernel keeps), bytes of the network from what the keeper saw when
 * it looked for idle VMs, and only the disk's from QEMU, by one command. A VM that is busy is left
 * out of a round, one that is suspended or stopped costs nothing.
 *
 * A VM has a ring from its first look on and loses it once it has not run for an hour. Rings are
 * read and written under the manager's lock; everything that takes time is done before.
 */
#include "vm/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/io.h"
#include "metrics/metrics.h"
#include "vm/history_internal.h"
#include "vm/vm_internal.h"

/* Counters of one machine at one moment. */
struct counters {
	char instance[ID_SIZE];
	uint64_t at_us, cpu_us;
	struct machine_disk_stats disk;
	uint64_t nic_ms, rx, tx;
};

struct vm_ring {
	struct counters last;
	uint32_t ran_s; /* wall clock of the last sample of a machine */
	size_t n, at;   /* samples; where the next one goes */
	struct history_sample s[HISTORY_SAMPLES];
};

static uint64_t cpu_us(pid_t pid)
{
	struct timespec ts;
	clockid_t clk;

	if (clock_getcpuclockid(pid, &clk) != 0 || clock_gettime(clk, &ts) < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

/* Resident and private, in KB; both 0 if it cannot be read. */
static void read_statm(pid_t pid, uint32_t *ret_mem, uint32_t *ret_private)
{
	unsigned long long size, resident = 0, shared = 0;
	long page_kb = sysconf(_SC_PAGESIZE) / 1024;
	char path[64], text[128];
	autofd int fd = -1;
	ssize_t n;

	*ret_mem = *ret_private = 0;
	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	if (sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3)
		return;
	*ret_mem = (uint32_t)(resident * (unsigned long long)page_kb);
	*ret_private = (uint32_t)((resident - MIN(shared, resident)) * (unsigned long long)page_kb);
}

static float rate(uint64_t now, uint64_t before, double seconds)
{
	return seconds > 0 && now > before ? (float)((double)(now - before) / seconds) : 0;
}

/* vm->lock held, and it has a machine. What cannot be read stays as it was. */
static void look(struct vm *vm, const struct counters *last, struct counters *c,
                 struct history_sample *s)
{
	const struct proc *p = machine_proc(vm->machine);
	double dt, nic_dt;
	bool same;

	*c = (struct counters){ .at_us = clock_us(), .cpu_us = cpu_us(p->pid) };
	snprintf(c->instance, sizeof(c->instance), "%s", vm->row.info.instance);
	same = strcmp(last->instance, c->instance) == 0;
	c->disk = same ? last->disk : (struct machine_disk_stats){ 0 };
	vm_disk_counters(vm, &c->disk);
	c->nic_ms = vm->nic_ms;
	c->rx = vm->nic.to_guest_bytes;
	c->tx = vm->nic.from_guest_bytes;
	*s = (struct history_sample){ .at_s = (uint32_t)(clock_wall_ms() / 1000),
		                      .state = (uint8_t)vm->row.info.state };
	read_statm(p->pid, &s->mem_kb, &s->private_kb);
	if (!same)
		return;
	dt = (double)(c->at_us - last->at_us) / 1e6;
	nic_dt = (double)(c->nic_ms - last->nic_ms) / 1e3;
	s->cpu = rate(c->cpu_us, last->cpu_us, dt * 1e4);
	s->disk_read = rate(c->disk.read_bytes, last->disk.read_bytes, dt);
	s->disk_write = rate(c->disk.write_bytes, last->disk.write_bytes, dt);
	s->net_rx = last->nic_ms ? rate(c->rx, last->rx, nic_dt) : 0;
	s->net_tx = last->nic_ms ? rate(c->tx, last->tx, nic_dt) : 0;
}

static void append(struct vm_ring *r, const struct history_sample *s)
{
	r->s[r->at] = *s;
	r->at = (r->at + 1) % HISTORY_SAMPLES;
	r->n = MIN(r->n + 1, (size_t)HISTORY_SAMPLES);
}

/* m->lock held. */
static struct vm_ring *ring_of(struct vm *vm) REQUIRES(&vm->m->lock)
{
	struct history *h = vm->m->history;

	if (!vm->ring && h->n_rings < HISTORY_VMS_MAX && (vm->ring = calloc(1, sizeof(*vm->ring))))
		h->n_rings++;
	return vm->ring;
}

void ring_free(struct vm *vm)
{
	if (!vm->ring)
		return;
	free(vm->ring);
	vm->ring = NULL;
	vm->m->history->n_rings--;
}

/* One that does not run: its state, until nothing of an hour ago is left. */
static void note_rest(struct vm *vm)
{
	struct history_sample s = { .at_s = (uint32_t)(clock_wall_ms() / 1000),
		                    .state = (uint8_t)vm->row.info.state };
	LOCK_SCOPE(&vm->m->lock);

	if (!vm->ring)
		return;
	vm->ring->last = (struct counters){ 0 };
	if (s.at_s - vm->ring->ran_s > HISTORY_STEP_S * HISTORY_SAMPLES)
		ring_free(vm);
	else
		append(vm->ring, &s);
}

/* Adds to the sums of the round; false: it does not run, or nobody could look. */
static void look_at(struct vm *vm, struct host_sample *sum)
{
	struct counters last = { 0 }, now;
	struct history_sample s;
	struct vm_ring *r;

	if (!mutex_trylock(&vm->lock))
		return;
	if (vm->gone || !vm->machine || vm->row.info.state != VM_RUNNING) {
		if (!vm->gone)
			note_rest(vm);
		mutex_unlock(&vm->lock);
		return;
	}
	mutex_lock(&vm->m->lock);
	r = ring_of(vm);
	if (r)
		last = r->last;
	mutex_unlock(&vm->m->lock);
	if (r) {
		look(vm, &last, &now, &s);
		mutex_lock(&vm->m->lock);
		r->last = now;
		r->ran_s = s.at_s;
		vm->mem_kb = s.mem_kb;
		vm->private_kb = s.private_kb;
		vm->freed.cpu_us = now.cpu_us;
		vm->freed.cpu = s.cpu;
		if (*last.instance) /* the first look at a machine only begins to count */
			append(r, &s);
		mutex_unlock(&vm->m->lock);
		sum->running++;
		sum->net_rx += s.net_rx;
		sum->net_tx += s.net_tx;
		sum->disk_read += s.disk_read;
		sum->disk_write += s.disk_write;
	}
	mutex_unlock(&vm->lock);
}

static void round_of_looks(struct vmm *m)
{
	uint64_t t0 = clock_us();
	struct host_sample sum = { 0 };
	size_t n;
	struct vm **v = vmm_all(m, &n);

	for (size_t i = 0; v && i < n; i++) {
		look_at(v[i], &sum);
		vm_unref(v[i]);
	}
	free(v);
	host_look(m, &sum);
	metrics_since(METRIC_HISTORY_SAMPLE, 0, t0);
}

static bool stopping(struct vmm *m)
{
	LOCK_SCOPE(&m->lock);

	return m->stopping;
}

void *history_main(void *arg)
{
	struct vmm *m = arg;
	uint64_t next = clock_ms();

	while (!stopping(m)) {
		round_of_looks(m);
		/* After a round that took longer than the interval, not at once again. */
		next = MAX(next + m->t.history, clock_ms() + m->t.history / 4);
		LOCK_SCOPE(&m->lock);
		while (!m->stopping && cond_wait_until(&m->cond, &m->lock, next))
			;
	}
	return NULL;
}

int history_new(struct vmm *m, struct err *err)
{
	m->history = calloc(1, sizeof(*m->history));
	if (!m->history)
		return err_set(err, -ENOMEM, "VM manager: out of memory");
	m->history->began_ms = clock_ms();
	return 0;
}

int vmm_history(struct vmm *m, const char *account, const char *id, struct history_sample **ret,
                size_t *ret_n, struct err *err)
{
	autofree struct history_sample *s = calloc(HISTORY_SAMPLES, sizeof(*s));
	uint32_t from = (uint32_t)(clock_wall_ms() / 1000) - HISTORY_STEP_S * HISTORY_SAMPLES;
	struct vm *vm;
	int r;

	*ret = NULL;
	*ret_n = 0;
	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	r = vmm_find(m, account, id, &vm, err);
	if (r < 0)
		return r;
	mutex_lock(&m->lock);
	for (size_t i = 0; vm->ring && i < vm->ring->n; i++) {
		const struct vm_ring *g = vm->ring;
		const struct history_sample *x =
		        &g->s[(g->at + HISTORY_SAMPLES - g->n + i) % HISTORY_SAMPLES];

		if (x->at_s >= from)
			s[(*ret_n)++] = *x;
	}
	mutex_unlock(&m->lock);
	vm_unref(vm);
	*ret = TAKE_PTR(s);
	return 0;
}
