/* SPDX-License-Identifier: Apache-2.0 */
/*
 * knock.c - a packet for a VM that does not run wakes it
 *
 * Theory of operation: in the namespace of a VPC a device gets every packet for an address of the
 * range whose VM does not run (priv/vpcwake.c). Its descriptor is asked for when something that can
 * send such packets appears: a VM of the VPC comes up, or a tunnel. One thread reads the
 * descriptors of all VPCs; it never waits for a VM. For an address that a VM has, a thread wakes
 * that VM as any use of it does, with the quotas of its account, once however many packets come;
 * meanwhile a few of them are kept (knock_queue.c). When the VM's network is open, they are written
 * back to the device, and the kernel passes them on to the VM: the first packet of a connection is
 * delivered, and the client need not send it again. Packets for addresses of nobody are dropped.
 *
 * A VM that was stopped boots, and its services come up after its network: for a while nobody in
 * the VPC hears that its ports are closed (vpc.fresh), so clients ask again instead of giving up.
 *
 * Bounds: packets per VPC and second (in the kernel), packets kept, VMs woken at a time and per
 * second; a VM that could not be woken is left alone for some seconds. Nothing of this waits, or
 * grows, with what a guest sends.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/rate.h"
#include "store/store_net.h"
#include "vm/elsewhere.h"
#include "vm/knock_queue.h"
#include "vm/vm_internal.h"
#include "vm/vpc.h"

#define WAKES_MAX 16u       /* VMs being woken by packets at one time */
#define WAKES_PER_VPC 4u    /* of them in one VPC */
#define WAKES_BURST 16.0    /* of one VPC, at once */
#define WAKES_PER_S 1.0     /* and then */
#define DEAF_MS 5000u       /* a VM that could not be woken is left alone */
#define FRESH_S 60u         /* for the services of a VM that was booted to come up */
#define READS_MAX 32        /* packets of one VPC before the next one's turn */
#define KNOWN_BUCKETS 1024u /* a power of two */
#define EVENT_END UINT32_MAX

struct known {
	struct known *next;
	uint32_t vpc, addr;
	char vm[ID_SIZE];
};

struct knock_vpc {
	char id[ID_SIZE];
	struct priv_vpc plan;
	int fd;            /* owned */
	unsigned refs;     /* lock, as what follows */
	unsigned n_waking; /* threads */
	struct knock_queue q;
};

struct knocks {
	struct vmm *m; /* weak */
	struct mutex lock;
	struct cond cond; /* a thread that woke a VM has ended */
	int ep, end;      /* epoll; an event that ends the thread */
	struct rate *rate;
	struct knock_vpc *vpcs[PRIV_VPCS_LIMIT] GUARDED_BY(lock); /* ref'd, by index */
	bool opening[PRIV_VPCS_LIMIT] GUARDED_BY(lock);
	struct known *known[KNOWN_BUCKETS] GUARDED_BY(lock);
	char waking[WAKES_MAX][ID_SIZE] GUARDED_BY(lock); /* "": free */
	unsigned n_waking GUARDED_BY(lock);
	bool stopping GUARDED_BY(lock);
	pthread_t thread;
	bool has_thread;
};

/* ---- who has an address ---- */

static struct known **bucket(struct knocks *k, uint32_t vpc, uint32_t addr) REQUIRES(&k->lock)
{
	return &k->known[((vpc * 2654435761u) ^ (addr * 2246822519u)) >> 16 & (KNOWN_BUCKETS - 1)];
}

static struct known **find(struct knocks *k, uint32_t vpc, uint32_t addr) REQUIRES(&k->lock)
{
	struct known **p = bucket(k, vpc, addr);

	while (*p && ((*p)->vpc != vpc || (*p)->addr != addr))
		p = &(*p)->next;
	return p;
}

int knock_know(struct vm *vm, struct err *err)
{
	struct knocks *k = vm->m->knocks;
	struct known *n = calloc(1, sizeof(*n)), **p;

	if (!n)
		return err_set(err, -ENOMEM, "out of memory");
	*n = (struct known){ .vpc = vm->net.vpc_net.idx, .addr = vm->net.addr };
	snprintf(n->vm, sizeof(n->vm), "%s", vm->row.info.id);
	mutex_lock(&k->lock);
	p = find(k, n->vpc, n->addr);
	if (*p)
		snprintf((*p)->vm, sizeof((*p)->vm), "%s", n->vm);
	else
		*p = TAKE_PTR(n);
	mutex_unlock(&k->lock);
	free(n);
	return 0;
}

void knock_unknow(struct vm *vm)
{
	struct knocks *k = vm->m->knocks;
	struct known **p, *old;
	LOCK_SCOPE(&k->lock);

	p = find(k, vm->net.vpc_net.idx, vm->net.addr);
	if (!*p || strcmp((*p)->vm, vm->row.info.id) != 0)
		return; /* another VM has it by now */
	old = *p;
	*p = old->next;
	free(old);
}

/* ---- the devices ---- */

static void vpc_free(struct knock_vpc *v)
{
	if (!v)
		return;
	close(v->fd);
	for (size_t i = 0; i < KNOCK_DOORS; i++)
		knock_free(v->q.doors[i].first);
	free(v);
}

/* Returns what is to be freed without the lock, or NULL. */
static struct knock_vpc *unref(struct knocks *k, struct knock_vpc *v) REQUIRES(&k->lock)
{
	return --v->refs ? NULL : v;
}

static struct knock_vpc *forget(struct knocks *k, uint32_t idx) REQUIRES(&k->lock)
{
	struct knock_vpc *v = k->vpcs[idx];

	if (!v)
		return NULL;
	epoll_ctl(k->ep, EPOLL_CTL_DEL, v->fd, NULL);
	k->vpcs[idx] = NULL;
	return unref(k, v);
}

static int add(struct knocks *k, struct knock_vpc *v, struct knock_vpc **ret_old) REQUIRES(&k->lock)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = v->plan.idx };

	*ret_old = forget(k, v->plan.idx);
	if (k->stopping)
		return -ESHUTDOWN;
	if (epoll_ctl(k->ep, EPOLL_CTL_ADD, v->fd, &ev) < 0)
		return -errno;
	k->vpcs[v->plan.idx] = v;
	return 0;
}

static bool begin_open(struct knocks *k, const char *vpc, uint32_t idx)
{
	LOCK_SCOPE(&k->lock);

	if (k->stopping || k->opening[idx] || (k->vpcs[idx] && !strcmp(k->vpcs[idx]->id, vpc)))
		return false;
	k->opening[idx] = true;
	return true;
}

void knock_open(struct vmm *m, const char *vpc, const struct priv_vpc *plan)
{
	struct knocks *k = m->knocks;
	struct knock_vpc *v, *old = NULL;
	struct err err = { 0 };
	int r;

	if (!begin_open(k, vpc, plan->idx))
		return;
	v = calloc(1, sizeof(*v));
	if (v) {
		snprintf(v->id, sizeof(v->id), "%s", vpc);
		v->plan = *plan;
		v->refs = 1;
	}
	r = v ? privc_vpc_wake(m->priv, plan, &v->fd, &err)
	      : err_set(&err, -ENOMEM, "out of memory");
	mutex_lock(&k->lock);
	k->opening[plan->idx] = false;
	if (r == 0 && (r = add(k, v, &old)) < 0) {
		err_sys(&err, r, "watch its packets");
		close(v->fd);
	}
	mutex_unlock(&k->lock);
	vpc_free(old);
	if (r == 0)
		return;
	free(v);
	if (r != -ESHUTDOWN)
		log_warn("VPC %s: packets do not wake its VMs for now: %s", vpc, err.msg);
}

void knock_close(struct vmm *m, uint32_t idx)
{
	struct knocks *k = m->knocks;
	struct knock_vpc *old;

	mutex_lock(&k->lock);
	old = forget(k, idx);
	mutex_unlock(&k->lock);
	vpc_free(old);
}

/* With its namespace, and the tunnels that end in it. */
static void drop(struct vmm *m, const struct priv_vpc *plan, const char *was)
{
	struct err err = { 0 };

	knock_close(m, plan->idx);
	if (privc_vpc_remove(m->priv, plan, &err) < 0)
		log_warn("VPC %s: its namespace was not removed, ignoring: %s", was, err.msg);
}

static bool opened(struct knocks *k, uint32_t idx, char ret_vpc[ID_SIZE], struct priv_vpc *ret)
{
	LOCK_SCOPE(&k->lock);

	if (!k->vpcs[idx])
		return false;
	memcpy(ret_vpc, k->vpcs[idx]->id, ID_SIZE);
	*ret = k->vpcs[idx]->plan;
	return true;
}

void knock_make_way(struct vmm *m, const char *vpc, const struct priv_vpc *plan)
{
	struct priv_vpc old;
	char was[ID_SIZE];

	if (elsewhere_any(m) && opened(m->knocks, plan->idx, was, &old) && strcmp(was, vpc) != 0)
		drop(m, &old, was);
}

void knock_tidy(struct vmm *m)
{
	struct priv_vpc old;
	char was[ID_SIZE];

	for (uint32_t i = 0; elsewhere_any(m) && i < PRIV_VPCS_LIMIT; i++) {
		autovpc v = { 0 };

		if (opened(m->knocks, i, was, &old) &&
		    store_vpc_get(m->store, was, &v, NULL) == -ENOENT)
			drop(m, &old, was);
	}
}

/* ---- waking ---- */

struct wake {
	struct knocks *k;
	struct knock_vpc *v; /* ref'd */
	uint32_t addr;
	char vm[ID_SIZE];
	size_t place; /* in k->waking */
};

static void set_fresh(struct vm *vm, uint32_t ttl_s)
{
	struct err err = { 0 };

	if (privc_vpc_fresh(vm->m->priv, &vm->net.vpc_net, vm->net.addr, MIN(ttl_s, PRIV_FRESH_MAX),
	                    &err) < 0)
		vm_log(vm, LOG_LV_WARN, "connections may be refused while it boots: %s", err.msg);
}

static int let_in(struct vmm *m, const struct wake *w, struct err *err)
{
	struct vm *vm;
	bool boots;
	int r = vmm_lock(m, NULL, w->vm, &vm, err);

	if (r < 0)
		return r;
	boots = vm->row.info.state == VM_STOPPED;
	if (strcmp(vm->net.vpc, w->v->id) != 0 || vm->net.addr != w->addr) {
		r = err_set(err, -ENOENT, "its address is another now");
	} else {
		if (boots)
			set_fresh(vm, m->t.agent_boot / 1000 + FRESH_S);
		r = vm_wake(vm, err);
		if (boots)
			set_fresh(vm, r < 0 ? 0 : FRESH_S);
	}
	if (r == 0)
		vm->idle_since_ms = 0;
	else
		vm_tell(vm, EVENT_WARN, "a packet from its VPC could not wake it: %s", err->msg);
	vm_unlock(vm);
	return r;
}

/* The thread's part of it is over; nothing of k is touched afterwards. */
static void finish(struct wake *w)
{
	struct knocks *k = w->k;
	struct knock_vpc *old;

	mutex_lock(&k->lock);
	k->waking[w->place][0] = '\0';
	k->n_waking--;
	w->v->n_waking--;
	old = unref(k, w->v);
	cond_broadcast(&k->cond);
	mutex_unlock(&k->lock);
	vpc_free(old);
	free(w);
}

static struct knock_packet *take(struct wake *w, uint64_t deaf_until)
{
	LOCK_SCOPE(&w->k->lock);

	return knock_take(&w->v->q, w->addr, deaf_until);
}

static void *wake_main(void *arg)
{
	struct wake *w = arg;
	struct knock_packet *list;
	struct err err = { 0 };
	int r = let_in(w->k->m, w, &err);

	if (r < 0)
		log_obj(LOG_LV_INFO, "vm", w->vm, "a packet from its VPC could not wake it: %s",
		        err.msg);
	list = take(w, r < 0 ? clock_ms() + DEAF_MS : 0);
	for (struct knock_packet *p = list; r == 0 && p; p = p->next)
		if (write(w->v->fd, p->data, p->len) < 0)
			break; /* the sender asks again */
	knock_free(list);
	finish(w);
	return NULL;
}

static bool start(struct wake *w)
{
	pthread_attr_t a;
	pthread_t t;
	int r;

	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&t, &a, wake_main, w);
	pthread_attr_destroy(&a);
	return r == 0;
}

/* True: a thread may wake it, and is counted. */
static bool admit(struct knocks *k, struct knock_vpc *v, struct wake *w) REQUIRES(&k->lock)
{
	if (k->stopping || k->n_waking >= WAKES_MAX || v->n_waking >= WAKES_PER_VPC ||
	    !rate_take(k->rate, v->id, NULL))
		return false;
	for (w->place = 0; *k->waking[w->place]; w->place++)
		; /* one is free: as many as are counted */
	snprintf(k->waking[w->place], ID_SIZE, "%s", w->vm);
	k->n_waking++;
	v->n_waking++;
	v->refs++;
	return true;
}

/* Does the address belong to a VM that such a packet may wake? */
static bool for_whom(struct knocks *k, uint32_t vpc, const struct knock_head *h,
                     char ret_vm[ID_SIZE])
{
	const struct known *n;
	struct vm_info i;

	mutex_lock(&k->lock);
	n = *find(k, vpc, h->dst);
	if (n)
		snprintf(ret_vm, ID_SIZE, "%s", n->vm);
	mutex_unlock(&k->lock);
	return n && vmm_get(k->m, NULL, ret_vm, &i, NULL) == 0 &&
	       (h->kind == KNOCK_OPENS || i.state != VM_STOPPED);
}

static void hear(struct knocks *k, struct knock_vpc *v, const uint8_t *p, size_t n)
{
	struct wake *w;
	struct knock_head h;
	char id[ID_SIZE];
	bool go = false;

	if (!knock_parse(p, n, &h) || !for_whom(k, v->plan.idx, &h, id) ||
	    !(w = calloc(1, sizeof(*w))))
		return;
	*w = (struct wake){ .k = k, .v = v, .addr = h.dst };
	memcpy(w->vm, id, sizeof(id));
	mutex_lock(&k->lock);
	if (knock_put(&v->q, h.dst, p, n, clock_ms()) == KNOCK_WAKE) {
		go = admit(k, v, w);
		if (!go) /* the sender asks again */
			knock_free(knock_take(&v->q, h.dst, 0));
	}
	mutex_unlock(&k->lock);
	if (go && !start(w)) {
		knock_free(take(w, 0));
		finish(w);
	} else if (!go) {
		free(w);
	}
}

/* ---- the thread ---- */

static void serve(struct knocks *k, uint32_t idx)
{
	uint8_t packet[KNOCK_PACKET_MAX + 1];
	struct knock_vpc *v, *old = NULL, *gone = NULL;
	bool broken = false;
	ssize_t n = 0;

	mutex_lock(&k->lock);
	v = k->vpcs[idx];
	if (v)
		v->refs++;
	mutex_unlock(&k->lock);
	if (!v)
		return;
	for (int i = 0; i < READS_MAX && !broken; i++) {
		n = read(v->fd, packet, sizeof(packet));
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		broken = n <= 0;
		if (n > 0 && n <= (ssize_t)KNOCK_PACKET_MAX)
			hear(k, v, packet, (size_t)n);
	}
	mutex_lock(&k->lock);
	if (broken && k->vpcs[idx] == v) /* its device is gone: asked for again with the next VM */
		gone = forget(k, idx);
	old = unref(k, v);
	mutex_unlock(&k->lock);
	vpc_free(gone);
	vpc_free(old);
}

static void *knock_main(void *arg)
{
	struct knocks *k = ((struct vmm *)arg)->knocks;
	struct epoll_event ev[16];

	for (;;) {
		int n = epoll_wait(k->ep, ev, ARRAY_SIZE(ev), -1);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.u32 == EVENT_END)
				return NULL;
			serve(k, ev[i].data.u32);
		}
	}
}

int knock_new(struct vmm *m, struct err *err)
{
	const struct rate_conf conf = { .per_s = WAKES_PER_S,
		                        .burst = WAKES_BURST,
		                        .slots = PRIV_VPCS_LIMIT };
	struct knocks *k = calloc(1, sizeof(*k));
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = EVENT_END };
	int r;

	if (!k)
		return err_set(err, -ENOMEM, "packets that wake VMs: out of memory");
	m->knocks = k;
	k->m = m;
	mutex_init(&k->lock, "knocks");
	cond_init(&k->cond);
	k->ep = epoll_create1(EPOLL_CLOEXEC);
	k->end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = k->ep < 0 || k->end < 0 || epoll_ctl(k->ep, EPOLL_CTL_ADD, k->end, &ev) < 0
	            ? err_sys(err, -errno, "packets that wake VMs")
	            : 0;
	return r < 0 ? r : rate_new(&conf, &k->rate, err);
}

int knock_begin(struct vmm *m, struct err *err)
{
	int r = pthread_create(&m->knocks->thread, NULL, knock_main, m);

	if (r)
		return err_sys(err, -r, "start a thread");
	m->knocks->has_thread = true;
	return 0;
}

/* One that is being woken; false: none. */
static bool one_waking(struct knocks *k, char ret_vm[ID_SIZE])
{
	LOCK_SCOPE(&k->lock);

	for (size_t i = 0; i < WAKES_MAX; i++) {
		if (!*k->waking[i])
			continue;
		memcpy(ret_vm, k->waking[i], ID_SIZE);
		return true;
	}
	return false;
}

void knock_stop(struct vmm *m)
{
	struct knocks *k = m->knocks;
	const uint64_t one = 1;
	char id[ID_SIZE];
	struct vm *vm;

	if (!k)
		return;
	mutex_lock(&k->lock);
	k->stopping = true;
	mutex_unlock(&k->lock);
	if (k->has_thread) {
		if (write(k->end, &one, sizeof(one)) < 0)
			log_debug("the thread that hears packets is ending already");
		pthread_join(k->thread, NULL);
		k->has_thread = false;
	}
	/* Starts that are under way are cut short, as by a call that ends the VM. */
	while (one_waking(k, id)) {
		if (vmm_lock_soon(m, NULL, id, &vm, NULL) == 0)
			vm_unlock(vm);
		mutex_lock(&k->lock);
		if (k->n_waking)
			cond_wait_until(&k->cond, &k->lock, deadline_in(m->t.end_wait));
		mutex_unlock(&k->lock);
	}
}

void knock_end(struct vmm *m)
{
	struct knocks *k = m->knocks;

	if (!k)
		return;
	knock_stop(m);
	mutex_unshared(&k->lock);
	for (uint32_t i = 0; i < PRIV_VPCS_LIMIT; i++)
		vpc_free(forget(k, i));
	for (size_t i = 0; i < KNOWN_BUCKETS; i++)
		while (k->known[i]) {
			struct known *next = k->known[i]->next;

			free(k->known[i]);
			k->known[i] = next;
		}
	if (k->ep >= 0)
		close(k->ep);
	if (k->end >= 0)
		close(k->end);
	rate_free(k->rate);
	cond_destroy(&k->cond);
	mutex_destroy(&k->lock);
	free(k);
	m->knocks = NULL;
}
