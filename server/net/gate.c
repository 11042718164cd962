/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net/gate.c - the table of gates; names and pins
 *
 * Theory of operation: setting a policy is one request to pando-priv, which
 * replaces all rules of the slot in one transaction; only then is the table here
 * updated, and the proxy's connections that are no longer allowed are
 * ended. In between the kernel already has the new policy, while
 * connections redirected to the proxy are still checked against the old one.
 * Callers return only after both have changed.
 * Pins live in the kernel's sets and here, for the proxy; both start empty with
 * a new policy, so names have to be resolved again.
 */
#include "net/gate.h"

#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "net/dns.h"
#include "net/gate_internal.h"
#include "privc/privc.h"

#define INTERNAL ".internal"
#define NAMES_MAX 16384u
#define WAKE_DATA UINT64_MAX

/* FNV-1a: only names of one guest, so collisions harm nobody else. */
static uint64_t name_hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s; s++)
		h = (h ^ (uint64_t)(unsigned char)tolower((unsigned char)*s)) * 0x100000001b3u;
	return h;
}

/* ---- pins; g->lock held ---- */

static void pin_put(struct gate *t, uint64_t name, uint32_t addr, uint64_t until)
{
	struct pin *p = NULL;

	if (!t->pins)
		t->pins = calloc(PINS_MAX, sizeof(*t->pins));
	if (!t->pins)
		return; /* not pinned: it stays closed */
	for (size_t i = 0; i < t->n_pins && !p; i++)
		if (t->pins[i].name == name && t->pins[i].addr == addr)
			p = &t->pins[i];
	if (!p && t->n_pins < PINS_MAX)
		p = &t->pins[t->n_pins++];
	if (!p) {
		p = &t->pins[0];
		for (size_t i = 1; i < t->n_pins; i++)
			if (t->pins[i].until < p->until)
				p = &t->pins[i];
	}
	*p = (struct pin){ .name = name, .addr = addr, .until = until };
}

bool gate_pinned(struct gates *g, uint32_t slot, uint32_t gen, const char *name, uint32_t addr)
{
	const struct gate *t = &g->gate[slot];
	uint64_t h = name_hash(name), now = clock_ms();
	LOCK_SCOPE(&g->lock);

	for (size_t i = 0; t->used && t->gen == gen && i < t->n_pins; i++)
		if (t->pins[i].name == h && t->pins[i].addr == addr && t->pins[i].until > now)
			return true;
	return false;
}

/* ---- names ---- */

static uint32_t private_addr(const struct gates *g, const char *vpc, const char *name, size_t n)
        REQUIRES(&g->lock)
{
	for (size_t i = 0; *vpc && i < g->n_names; i++)
		if (!strcmp(g->names[i].vpc, vpc) && strlen(g->names[i].name) == n &&
		    !strncasecmp(g->names[i].name, name, n))
			return g->names[i].addr;
	return 0;
}

int gates_name(struct gates *g, const char *vpc, const char *name, const char *owner, uint32_t addr,
               struct err *err)
{
	struct private_name *grown;
	LOCK_SCOPE(&g->lock);

	for (size_t i = 0; i < g->n_names; i++)
		if (!strcmp(g->names[i].owner, owner) && !strcasecmp(g->names[i].name, name)) {
			g->names[i] = g->names[--g->n_names];
			break;
		}
	if (!addr)
		return 0;
	if (g->n_names >= NAMES_MAX)
		return err_set(err, -ENOSPC, "too many private names");
	grown = realloc(g->names, (g->n_names + 1) * sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "out of memory");
	g->names = grown;
	grown = &g->names[g->n_names++];
	*grown = (struct private_name){ .addr = addr };
	snprintf(grown->vpc, sizeof(grown->vpc), "%s", vpc);
	snprintf(grown->owner, sizeof(grown->owner), "%s", owner);
	snprintf(grown->name, sizeof(grown->name), "%s", name);
	return 0;
}

static void log_name(struct gate *t, const char *name)
{
	struct gate_blocked b = { .cause = GATE_DNS, .at_ms = clock_wall_ms() };

	snprintf(b.name, sizeof(b.name), "%s", name ? name : "?");
	gate_log_add(t->log, &b);
}

static enum dns_verdict on_query(void *ctx, uint32_t key, const char *name, uint32_t *ret_addr)
{
	struct gates *g = ctx;
	struct gate *t = &g->gate[key % GATES_MAX];
	uint32_t rules[PRIV_PIN_SETS_MAX];
	size_t n = name ? strlen(name) : 0;
	bool here, known;
	LOCK_SCOPE(&g->lock);

	known = key < GATES_MAX && t->used;
	if (n > strlen(INTERNAL) && !strcmp(name + n - strlen(INTERNAL), INTERNAL)) {
		*ret_addr = known ? private_addr(g, t->vpc, name, n - strlen(INTERNAL)) : 0;
		return *ret_addr ? DNS_LOCAL : DNS_UNKNOWN;
	}
	if (known && name && !strcmp(name, t->vm_id)) {
		*ret_addr = PRIV_GUEST; /* its own host name, which is in no file */
		return DNS_LOCAL;
	}
	here = name && g->here.ours && g->here.ours(g->here.ctx, name);
	*ret_addr = PRIV_GATEWAY;
	if (!known || !t->policy || t->policy->mode == PRIV_EGRESS_OPEN)
		return here ? DNS_HERE : DNS_FORWARD;
	if (!name || !egress_name_allowed(t->policy, name)) {
		log_name(t, name);
		return DNS_REFUSE;
	}
	if (here)
		return DNS_HERE;
	return egress_name_rules(t->policy, name, rules) ? DNS_FORWARD_PIN : DNS_FORWARD;
}

static void on_answer(void *ctx, uint32_t key, const char *name, const uint32_t *addrs, size_t n,
                      uint32_t ttl_s)
{
	struct gates *g = ctx;
	struct priv_pin p = { .ttl_s = MAX(PIN_TTL_MIN, MIN(ttl_s, PIN_TTL_MAX)) };
	struct err err = { 0 };
	struct gate *t = &g->gate[key];
	/* Rule numbers refer to the policy that is in the kernel. */
	LOCK_SCOPE(&g->apply);

	mutex_lock(&g->lock);
	if (t->used)
		p.n_rules = egress_name_rules(t->policy, name, p.rules);
	mutex_unlock(&g->lock);
	if (!p.n_rules)
		return;
	p.n_addrs = (uint32_t)MIN(n, PRIV_PINS_MAX);
	memcpy(p.addrs, addrs, p.n_addrs * sizeof(*p.addrs));
	if (privc_slot_pin(g->priv, key, &p, &err) < 0) {
		log_warn("slot %u: an answer could not be pinned, its addresses stay blocked: %s",
		         key, err.msg);
		return;
	}
	LOCK_SCOPE(&g->lock);
	for (uint32_t i = 0; t->used && i < p.n_addrs; i++)
		pin_put(t, name_hash(name), p.addrs[i], clock_ms() + (uint64_t)p.ttl_s * 1000);
}

/* ---- names of this server ---- */

void gates_set_here(struct gates *g, const struct gate_here *h)
{
	LOCK_SCOPE(&g->lock);
	g->here = h ? *h : (struct gate_here){ 0 };
}

void gates_set_site(struct gates *g, const struct gate_site *s)
{
	LOCK_SCOPE(&g->lock);
	g->site = *s;
}

int gates_caller(struct gates *g, const char *caller, char ret_vm[ID_SIZE])
{
	LOCK_SCOPE(&g->lock);
	for (uint32_t i = 0; i < GATES_MAX; i++) {
		if (!g->gate[i].used || strcmp(g->gate[i].caller, caller) != 0)
			continue;
		memcpy(ret_vm, g->gate[i].vm_id, ID_SIZE);
		return 0;
	}
	return -ENOENT;
}

/* ---- setting and dropping ---- */

/* g->lock held. */
static void gate_clear(struct gates *g, struct gate *t) REQUIRES(&g->lock)
{
	gate_proxy_cut(g, (uint32_t)(t - g->gate), NULL);
	egress_unref(t->policy);
	gate_log_unref(t->log);
	gate_ca_unref(t->ca);
	free(t->pins);
	if (t->listener >= 0)
		close(t->listener);
	*t = (struct gate){ .listener = -1, .gen = t->gen };
}

static uint32_t new_mark(void)
{
	uint32_t m;

	random_bytes(&m, sizeof(m));
	return m | 2; /* 1 is the mark of a newly built slot */
}

static int listen_for(struct gates *g, uint32_t slot, struct err *err)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = slot };
	autofd int fd = -1;
	int r = privc_slot_proxy(g->priv, slot, &fd, err);

	if (r < 0)
		return r;
	if (epoll_ctl(g->epoll, EPOLL_CTL_ADD, fd, &ev) < 0)
		return err_sys(err, -errno, "watch the proxy of slot %u", slot);
	return TAKE_FD(fd);
}

int gate_set(struct gates *g, uint32_t slot, const struct gate_conf *c, struct err *err)
{
	struct gate_ca *ca = NULL;
	autofree struct priv_egress *plan = calloc(1, sizeof(*plan));
	struct gate *t = &g->gate[slot];
	uint8_t caller[(GATE_CALLER_SIZE - 1) / 2];
	int listener = -1, r;
	bool have;

	if (!plan || slot >= GATES_MAX)
		return err_set(err, -ENOMEM, "policy: out of memory");
	random_bytes(caller, sizeof(caller));
	egress_plan(c->policy, new_mark(), plan);
	if (c->vpc) {
		plan->vpc_addr = c->vpc_addr;
		plan->vpc_net = c->vpc_net.net;
		plan->vpc_prefix = c->vpc_net.prefix;
	}
	if (c->ca_cert && !(ca = gate_ca_load(c->ca_cert, c->ca_key, err)))
		return err ? err->code : -EIO;
	mutex_lock(&g->lock);
	have = t->used && t->listener >= 0;
	mutex_unlock(&g->lock);
	/* Before the rules, so that redirected connections find the proxy. */
	if (!have && (listener = listen_for(g, slot, err)) < 0) {
		gate_ca_unref(ca);
		return listener;
	}
	LOCK_SCOPE(&g->apply);
	r = c->as_built ? 0
	                : privc_slot_policy(g->priv, slot, plan, c->vpc ? &c->vpc_net : NULL, err);
	if (r < 0) {
		if (listener >= 0)
			close(listener);
		gate_ca_unref(ca);
		return err_wrap(err, r, "policy of VM %s", c->vm_id);
	}
	LOCK_SCOPE(&g->lock);
	gate_proxy_cut(g, slot, c->policy);
	egress_unref(t->policy);
	gate_log_unref(t->log);
	gate_ca_unref(t->ca);
	free(t->pins);
	t->pins = NULL;
	t->n_pins = 0;
	if (!t->used)
		t->listener = -1;
	if (!t->used || strcmp(t->vm_id, c->vm_id) != 0) /* its connections keep theirs */
		hex_encode(caller, sizeof(caller), t->caller);
	if (listener >= 0)
		t->listener = listener;
	t->used = true;
	t->gen = ++g->next_gen;
	t->policy = egress_ref(c->policy);
	t->log = gate_log_ref(c->log);
	t->ca = ca;
	t->mark = plan->mark;
	snprintf(t->vm_id, sizeof(t->vm_id), "%s", c->vm_id);
	snprintf(t->holder, sizeof(t->holder), "%s", c->holder);
	snprintf(t->vpc, sizeof(t->vpc), "%s", c->vpc ? c->vpc : "");
	return 0;
}

void gate_collect(struct gates *g, uint32_t slot)
{
	autofree struct priv_blocked *v = NULL;
	struct gate_log *log = NULL;
	int64_t now = clock_wall_ms();
	size_t n = 0;

	mutex_lock(&g->lock);
	if (slot < GATES_MAX && g->gate[slot].used)
		log = gate_log_ref(g->gate[slot].log);
	mutex_unlock(&g->lock);
	if (log && privc_slot_blocked(g->priv, slot, &v, &n, NULL) == 0)
		for (size_t i = 0; i < n; i++)
			gate_log_add(log, &(struct gate_blocked){
			                          .cause = GATE_ADDRESS,
			                          .addr = v[i].addr,
			                          .proto = v[i].proto,
			                          .port = v[i].port,
			                          .at_ms = now - v[i].age_s * INT64_C(1000) });
	gate_log_unref(log);
}

void gate_drop(struct gates *g, uint32_t slot)
{
	bool used;

	if (slot >= GATES_MAX)
		return;
	mutex_lock(&g->lock);
	used = g->gate[slot].used;
	mutex_unlock(&g->lock);
	if (!used)
		return;
	gate_collect(g, slot);
	LOCK_SCOPE(&g->apply);
	LOCK_SCOPE(&g->lock);
	gate_clear(g, &g->gate[slot]);
}

/* ---- start and end ---- */

static struct gates *gates_release(struct gates *g)
{
	mutex_unshared(&g->lock);
	for (uint32_t i = 0; i < GATES_MAX; i++)
		if (g->gate[i].used)
			gate_clear(g, &g->gate[i]);
	if (g->epoll >= 0)
		close(g->epoll);
	if (g->wake >= 0)
		close(g->wake);
	SSL_CTX_free(g->client);
	budget_free(g->by_holder);
	budget_free(g->by_vm);
	free(g->names);
	cond_destroy(&g->idle);
	mutex_destroy(&g->apply);
	mutex_destroy(&g->lock);
	free(g);
	return NULL;
}

int gates_new(struct privc *priv, struct dns *dns, const char *ca_file, struct gates **ret,
              struct err *err)
{
	struct gates *g = calloc(1, sizeof(*g));
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = WAKE_DATA };
	struct dns_hooks hooks = { .ctx = g, .query = on_query, .answer = on_answer };
	int r = 0;

	if (!g)
		return err_set(err, -ENOMEM, "policies: out of memory");
	g->priv = priv;
	mutex_init(&g->apply, "gate apply");
	mutex_init(&g->lock, "gate");
	cond_init(&g->idle);
	mutex_unshared(&g->lock);
	for (uint32_t i = 0; i < GATES_MAX; i++)
		g->gate[i].listener = -1;
	g->epoll = epoll_create1(EPOLL_CLOEXEC);
	g->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (g->epoll < 0 || g->wake < 0 || epoll_ctl(g->epoll, EPOLL_CTL_ADD, g->wake, &ev) < 0)
		r = err_sys(err, -errno, "policies");
	if (r == 0)
		r = gate_proxy_limits(g, err);
	if (r == 0 && !(g->client = gate_ca_client(ca_file, err)))
		r = err ? err->code : -EIO;
	if (r == 0 && (r = -pthread_create(&g->thread, NULL, gate_proxy_main, g)) < 0)
		err_sys(err, r, "start the proxy");
	if (r < 0) {
		gates_release(g);
		return r;
	}
	dns_set_hooks(dns, &hooks);
	*ret = g;
	return 0;
}

struct gates *gates_free(struct gates *g)
{
	if (!g)
		return NULL;
	mutex_lock(&g->lock);
	g->stop = true;
	for (uint32_t i = 0; i < GATES_MAX; i++)
		gate_proxy_cut(g, i, NULL);
	mutex_unlock(&g->lock);
	eventfd_write(g->wake, 1);
	pthread_join(g->thread, NULL);
	mutex_lock(&g->lock);
	while (g->n_conns) /* all are shut down and none is accepted: each ends within its deadlines
	                    */
		cond_wait(&g->idle, &g->lock);
	mutex_unlock(&g->lock);
	return gates_release(g);
}
