/* SPDX-License-Identifier: Apache-2.0 */
/*
 * priv/slot.c - slots are built ahead of need by one thread and handed out by another
 *
 * Theory of operation: the builder thread keeps conf.ready slots in READY. The
 * main thread takes the first of them; if there is none it waits for the
 * builder, which needs a few milliseconds. A returned slot is never
 * handed out again as it is: its namespace is removed and a new one built in its place,
 * in the background. The lock guards the states only; building and removing
 * happen without it, on slots that no other thread may touch in that state.
 */
#include "priv/slot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "priv/instance.h"
#include "priv/nl.h"
#include "priv/slotnet.h"
#include "priv/vpcnet.h"

#define TAKE_DEADLINE_MS 3000 /* for a slot when the pool is empty */
#define RETRY_MS 1000         /* after a failed build */
#define QUIET_MS 300          /* without a request, before used slots are removed */
#define DIRTY_MAX 32          /* used slots that may wait for an idle moment */

enum slot_state { SLOT_EMPTY, SLOT_BUILDING, SLOT_READY, SLOT_TAKEN, SLOT_DIRTY };

struct slot {
	enum slot_state state;
	struct slotnet net;
};

struct slots {
	struct slots_conf conf;
	struct slotnet_env env; /* descriptors owned */
	pthread_t builder;
	bool builder_runs;
	struct mutex lock;
	struct cond work, done;
	bool stop;
	bool wanted;          /* a caller waits for a slot */
	uint64_t quiet_since; /* clock_ms() of the latest request */
	unsigned failures;
	struct err failure; /* the latest */
	struct slot slot[PRIV_SLOTS_LIMIT];
};

static void ns_path(const struct slots *s, uint32_t idx, char ret[96])
{
	snprintf(ret, 96, "%s/netns/%u", s->conf.in->dir, idx);
}

static struct net_slot plan_of(const struct slots *s, uint32_t idx)
{
	return net_slot_plan(s->conf.in->tag, s->conf.block, idx);
}

static int find_state(const struct slots *s, enum slot_state st) REQUIRES(&s->lock)
{
	for (uint32_t i = 0; i < s->conf.max; i++)
		if (s->slot[i].state == st)
			return (int)i;
	return -1;
}

static uint32_t count_state(const struct slots *s, enum slot_state st) REQUIRES(&s->lock)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->conf.max; i++)
		n += s->slot[i].state == st;
	return n;
}

/* ---- builder thread; called and returning with the lock held ---- */

static void build_one(struct slots *s, uint32_t idx) REQUIRES(&s->lock)
{
	struct net_slot plan = plan_of(s, idx);
	struct slot *sl = &s->slot[idx];
	struct err err = { 0 };
	uint64_t t0 = clock_us();
	char path[96];
	int r;

	ns_path(s, idx, path);
	sl->state = SLOT_BUILDING;
	mutex_unlock(&s->lock);
	r = slotnet_build(&s->env, &plan, path, &sl->net, &err);
	if (r == 0)
		log_debug("slot %u built in %u us", idx, (unsigned)(clock_us() - t0));
	mutex_lock(&s->lock);
	sl->state = r < 0 ? SLOT_EMPTY : SLOT_READY;
	if (r < 0) {
		if (!s->failures++)
			log_warn("cannot build a network slot: %s; trying again", err.msg);
		s->failure = err;
	} else {
		s->failures = 0;
	}
	cond_broadcast(&s->done);
}

static void remove_one(struct slots *s, uint32_t idx) REQUIRES(&s->lock)
{
	struct net_slot plan = plan_of(s, idx);
	struct slot *sl = &s->slot[idx];
	uint64_t t0 = clock_us();
	char path[96];

	ns_path(s, idx, path);
	sl->state = SLOT_BUILDING;
	mutex_unlock(&s->lock);
	slotnet_destroy(&s->env, &plan, path, &sl->net);
	log_debug("slot %u removed in %u us", idx, (unsigned)(clock_us() - t0));
	mutex_lock(&s->lock);
	sl->state = SLOT_EMPTY;
}

static bool should_build(const struct slots *s) REQUIRES(&s->lock)
{
	uint32_t ready = count_state(s, SLOT_READY);

	return (ready < s->conf.ready || (s->wanted && !ready)) && find_state(s, SLOT_EMPTY) >= 0;
}

/*
 * Removing links blocks all other changes of links on the host for milliseconds:
 * it waits for a moment without requests, unless too many slots have accumulated.
 */
static bool should_remove(const struct slots *s) REQUIRES(&s->lock)
{
	return clock_ms() - s->quiet_since >= QUIET_MS || find_state(s, SLOT_EMPTY) < 0 ||
	       count_state(s, SLOT_DIRTY) > DIRTY_MAX;
}

static void *builder_main(void *arg)
{
	struct slots *s = arg;

	LOCK_SCOPE(&s->lock);
	while (!s->stop) {
		int dirty = find_state(s, SLOT_DIRTY);

		if (dirty >= 0 && !(s->wanted && should_build(s)) && should_remove(s)) {
			remove_one(s, (uint32_t)dirty);
		} else if (should_build(s)) {
			unsigned before = s->failures;

			build_one(s, (uint32_t)find_state(s, SLOT_EMPTY));
			if (s->failures > before) {
				s->wanted = false; /* the waiter has its answer */
				cond_wait_until(&s->work, &s->lock, deadline_in(RETRY_MS));
			}
		} else if (dirty >= 0) {
			cond_wait_until(&s->work, &s->lock, s->quiet_since + QUIET_MS);
		} else {
			cond_wait(&s->work, &s->lock);
		}
	}
	return NULL;
}

/* ---- start and end ---- */

/* Removes namespaces and links of an earlier process without a running VM. */
struct stray {
	const struct slots *s;
	bool link[PRIV_SLOTS_LIMIT];
};

static void on_link(const char *name, unsigned ifindex, void *ctx)
{
	struct stray *st = ctx;
	char prefix[16];
	int n = snprintf(prefix, sizeof(prefix), "pn%.8s-", st->s->conf.in->tag);
	unsigned long idx;

	(void)ifindex;
	if (strncmp(name, prefix, (size_t)n) != 0)
		return;
	idx = strtoul(name + n, NULL, 10);
	if (idx < PRIV_SLOTS_LIMIT)
		st->link[idx] = true;
}

static int remove_strays(struct slots *s, const bool keep[PRIV_SLOTS_LIMIT], struct err *err)
{
	autofree struct stray *st = calloc(1, sizeof(*st));
	int fd = openat(s->conf.in->dirfd, "netns", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autodir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;
	int r;

	if (!st || !d)
		return err_sys(err, -errno, "open '%s/netns'", s->conf.in->dir);
	st->s = s;
	r = nl_links(s->env.host_nl, on_link, st, err);
	if (r < 0)
		return r;
	while ((de = readdir(d))) {
		unsigned long idx = strtoul(de->d_name, NULL, 10);

		if (de->d_name[0] != '.' && idx < PRIV_SLOTS_LIMIT)
			st->link[idx] = true;
	}
	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++) {
		struct net_slot plan = plan_of(s, i);
		struct slotnet none = SLOTNET_NONE;
		char path[96];

		if (!st->link[i] || keep[i])
			continue;
		ns_path(s, i, path);
		slotnet_destroy(&s->env, &plan, path, &none);
	}
	return 0;
}

static int take_up(struct slots *s, const bool keep[PRIV_SLOTS_LIMIT]) REQUIRES(&s->lock)
{
	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++) {
		struct err err = { 0 };
		char path[96];

		if (!keep[i])
			continue;
		ns_path(s, i, path);
		/* Taken even if it cannot be opened: its VM is running, so the slot must not be
		 * reused. */
		s->slot[i].state = SLOT_TAKEN;
		if (slotnet_open(&s->env, path, &s->slot[i].net, &err) < 0)
			log_warn("slot %u of a running VM cannot be used: %s", i, err.msg);
	}
	return 0;
}

static struct slots *slots_release(struct slots *s)
{
	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++)
		slotnet_close(&s->slot[i].net);
	if (s->env.host_ns >= 0)
		close(s->env.host_ns);
	if (s->env.host_nl >= 0)
		close(s->env.host_nl);
	mutex_destroy(&s->lock);
	cond_destroy(&s->work);
	cond_destroy(&s->done);
	free(s);
	return NULL;
}

int slots_open(const struct slots_conf *conf, const bool keep[PRIV_SLOTS_LIMIT], struct slots **ret,
               struct err *err)
{
	struct slots *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "slots: out of memory");
	s->conf = *conf;
	mutex_unshared(&s->lock);
	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++)
		s->slot[i].net = SLOTNET_NONE;
	mutex_init(&s->lock, "slots");
	cond_init(&s->work);
	cond_init(&s->done);
	s->env = (struct slotnet_env){ .host_nl = -1, .mtu = conf->mtu };
	s->env.host_ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	r = s->env.host_ns < 0 ? err_sys(err, -errno, "open /proc/self/ns/net") : 0;
	if (r == 0)
		r = s->env.host_nl = nl_open(err);
	if (r >= 0)
		r = remove_strays(s, keep, err);
	if (r >= 0)
		r = take_up(s, keep);
	if (r >= 0) {
		r = -pthread_create(&s->builder, NULL, builder_main, s);
		if (r < 0)
			err_sys(err, r, "start the slot builder");
	}
	if (r < 0) {
		slots_release(s);
		return r;
	}
	s->builder_runs = true;
	*ret = s;
	return 0;
}

struct slots *slots_close(struct slots *s, bool remove)
{
	if (!s)
		return NULL;
	if (s->builder_runs) {
		mutex_lock(&s->lock);
		s->stop = true;
		cond_broadcast(&s->work);
		mutex_unlock(&s->lock);
		pthread_join(s->builder, NULL);
	}
	mutex_unshared(&s->lock);
	for (uint32_t i = 0; remove && i < PRIV_SLOTS_LIMIT; i++) {
		struct net_slot plan = plan_of(s, i);
		char path[96];

		ns_path(s, i, path);
		if (s->slot[i].state != SLOT_EMPTY)
			slotnet_destroy(&s->env, &plan, path, &s->slot[i].net);
	}
	if (remove)
		vpcnet_remove_all(&s->env, s->conf.in);
	return slots_release(s);
}

/* ---- main thread ---- */

int slots_take(struct slots *s, uint32_t *ret_idx, struct err *err)
{
	uint64_t until = deadline_in(TAKE_DEADLINE_MS);
	unsigned failures;
	int idx;

	LOCK_SCOPE(&s->lock);
	s->quiet_since = clock_ms();
	failures = s->failures;
	while ((idx = find_state(s, SLOT_READY)) < 0) {
		if (count_state(s, SLOT_TAKEN) == s->conf.max)
			return err_set(err, -ENOSPC, "all %u network slots are in use",
			               s->conf.max);
		s->wanted = true;
		cond_signal(&s->work);
		if (!cond_wait_until(&s->done, &s->lock, until))
			return err_set(err, -ETIMEDOUT, "no network slot within %d ms",
			               TAKE_DEADLINE_MS);
		if (s->failures > failures) {
			*err = s->failure;
			return err_wrap(err, err->code, "no network slot");
		}
	}
	s->wanted = false;
	s->slot[idx].state = SLOT_TAKEN;
	cond_signal(&s->work);
	*ret_idx = (uint32_t)idx;
	return 0;
}

bool slots_taken(struct slots *s, uint32_t idx)
{
	LOCK_SCOPE(&s->lock);
	return idx < PRIV_SLOTS_LIMIT && s->slot[idx].state == SLOT_TAKEN;
}

static int net_of(struct slots *s, uint32_t idx, struct slotnet **ret, struct err *err)
{
	LOCK_SCOPE(&s->lock);
	s->quiet_since = clock_ms();
	if (idx >= PRIV_SLOTS_LIMIT || s->slot[idx].state != SLOT_TAKEN)
		return err_set(err, -ENOENT, "slot %u is not taken", idx);
	*ret = &s->slot[idx].net; /* TAKEN: the builder does not touch it */
	if ((*ret)->ns < 0)
		return err_set(err, -EIO, "slot %u has lost its namespace", idx);
	return 0;
}

int slots_free(struct slots *s, uint32_t idx, struct err *err)
{
	struct slotnet *net; /* TAKEN: the builder does not touch it */
	int r;

	if (!slots_taken(s, idx))
		return err_set(err, -ENOENT, "slot %u is not taken", idx);
	/* At once, not when the builder gets to it: the reply promises that nothing passes. */
	net = &s->slot[idx].net;
	if (net->ns >= 0 && (r = slotnet_gate(net, /* open= */ false, err)) < 0)
		return err_wrap(err, r, "slot %u", idx);
	/* Its route in a VPC ends with its link: from now on packets for its VM wake it. */
	r = net->nl >= 0 ? nl_link_del(net->nl, NET_VPC_LINK, err) : 0;
	if (r < 0 && r != -ENODEV)
		return err_wrap(err, r, "slot %u", idx);
	LOCK_SCOPE(&s->lock);
	s->quiet_since = clock_ms();
	s->slot[idx].state = SLOT_DIRTY;
	cond_signal(&s->work);
	return 0;
}

uint32_t slots_list(struct slots *s, uint32_t ret[PRIV_SLOTS_LIMIT])
{
	uint32_t n = 0;

	LOCK_SCOPE(&s->lock);
	for (uint32_t i = 0; i < PRIV_SLOTS_LIMIT; i++)
		if (s->slot[i].state == SLOT_TAKEN)
			ret[n++] = i;
	return n;
}

void slots_address(struct slots *s, uint32_t idx, char ret[16])
{
	net_ip_text(plan_of(s, idx).slot_ip, ret);
}

int slots_gate(struct slots *s, uint32_t idx, bool open, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_gate(n, open, err);
}

int slots_stats(struct slots *s, uint32_t idx, struct nl_link *ret, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_stats(n, ret, err);
}

int slots_dns(struct slots *s, uint32_t idx, int *ret_udp, int *ret_tcp, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_dns(&s->env, n, ret_udp, ret_tcp, err);
}

int slots_socket(struct slots *s, uint32_t idx, int type, int *ret_fd, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_socket(&s->env, n, type, ret_fd, err);
}

int slots_tap(struct slots *s, uint32_t idx, int *ret_fd, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_tap(&s->env, n, ret_fd, err);
}

int slots_proxy(struct slots *s, uint32_t idx, int *ret_fd, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_proxy(&s->env, n, ret_fd, err);
}

int slots_policy(struct slots *s, uint32_t idx, const struct priv_egress *e, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_policy(&s->env, n, e, err);
}

int slots_pin(struct slots *s, uint32_t idx, const struct priv_pin *p, struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_pin(&s->env, n, p, err);
}

int slots_blocked(struct slots *s, uint32_t idx, struct priv_blocked ret[], uint32_t *ret_n,
                  struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	return r < 0 ? r : slotnet_blocked(&s->env, n, ret, ret_n, err);
}

/* ---- VPCs: their namespaces are next to the slots' ---- */

int slots_vpc(struct slots *s, uint32_t idx, const struct priv_vpc *v, const struct priv_egress *e,
              struct err *err)
{
	struct slotnet *n;
	int r = net_of(s, idx, &n, err);

	/* Rules first, so that the link never exists without them. */
	if (r < 0 || (r = slotnet_policy(&s->env, n, e, err)) < 0)
		return r;
	return vpcnet_attach(&s->env, s->conf.in, v, idx, n, e->vpc_addr, err);
}

int slots_vpc_remove(struct slots *s, uint32_t vpc, struct err *err)
{
	return vpcnet_remove(&s->env, s->conf.in, vpc, err);
}

int slots_vpc_wg(struct slots *s, const struct priv_vpc *v, const struct priv_wg *wg,
                 struct err *err)
{
	return vpcnet_wg(&s->env, s->conf.in, v, wg, err);
}

int slots_vpc_peers(struct slots *s, const struct priv_vpc *v,
                    struct priv_wg_seen ret[PRIV_WG_PEERS_MAX], uint32_t *ret_n, struct err *err)
{
	return vpcnet_wg_peers(&s->env, s->conf.in, v, ret, ret_n, err);
}

int slots_vpc_wake(struct slots *s, const struct priv_vpc *v, int *ret_fd, struct err *err)
{
	return vpcnet_wake(&s->env, s->conf.in, v, ret_fd, err);
}

int slots_vpc_fresh(struct slots *s, const struct priv_vpc *v, const struct priv_fresh *f,
                    struct err *err)
{
	return vpcnet_fresh(&s->env, s->conf.in, v, f, err);
}
