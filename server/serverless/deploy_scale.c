/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deploy_scale.c - how many instances deployments have, and which one takes a request
 *
 * Theory of operation: whoever wants a place says so under one lock. The fullest instance that has
 * room takes the request, so that those that are not needed become idle; if none has room, so many
 * are started as the requests that are under way or known to wait would fill. The threads of
 * deploy_pool.c start and end their VMs. An instance whose machine ends, or in which nobody
 * answers, gets no more requests; it is deleted, and the next request starts another one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "serverless/deploy_internal.h"

#define FAILED_MS 1000 /* after a failed start, before the next one */

/* ---- what there is ---- */

struct dep *dep_find(struct scaler *c, const char *id)
{
	struct dep *d = c->deps;

	while (d && (d->deleted || strcmp(d->id, id) != 0))
		d = d->next;
	return d;
}

static bool counts(const struct inst *i)
{
	return i->state != INST_GOING && !i->broken;
}

unsigned dep_count(const struct dep *d)
{
	unsigned n = 0;

	for (const struct inst *i = d->inst; i; i = i->next)
		n += counts(i);
	return n;
}

/* With those that are being ended: they still are VMs of the account. */
static unsigned count_account(struct scaler *c, const char *account) REQUIRES(&c->lock)
{
	unsigned n = 0;

	for (const struct dep *d = c->deps; d; d = d->next)
		for (const struct inst *i = strcmp(d->account, account) ? NULL : d->inst; i;
		     i = i->next)
			n += !i->gone;
	return n;
}

void dep_tell_awake(struct scaler *c, const struct dep *d)
{
	if (c->awake)
		c->awake(c->awake_ctx, d->id);
}

void dep_free(struct dep *d)
{
	if (d->egress)
		explicit_bzero(d->egress, strlen(d->egress));
	free(d->egress);
	free(d);
}

void dep_drop_if_unused(struct scaler *c, struct dep *d)
{
	struct dep **p = &c->deps;

	if (d->inst || d->waiters)
		return;
	while (*p != d)
		p = &(*p)->next;
	*p = d->next;
	dep_free(d);
}

/* Its VM is gone, and so are its requests. May free the deployment. */
void inst_drop(struct scaler *c, struct inst *i)
{
	struct dep *d = i->d;
	struct inst **p = &d->inst;

	if (!i->gone || i->open)
		return;
	while (*p != i)
		p = &(*p)->next;
	*p = i->next;
	free(i);
	cond_broadcast(&c->changed);
	dep_drop_if_unused(c, d);
}

static struct dep *dep_of_row(const struct store_deploy *row, const char *egress)
{
	struct dep *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	*d = (struct dep){ .port = (uint16_t)row->port,
		           .instances = row->instances,
		           .requests = MAX(row->requests, 1u),
		           .idle_ms = row->idle_ms,
		           .next_number = 1 };
	memcpy(d->id, row->id, sizeof(d->id));
	memcpy(d->account, row->account, sizeof(d->account));
	memcpy(d->snapshot, row->snapshot, sizeof(d->snapshot));
	if (egress && !(d->egress = strdup(egress))) {
		free(d);
		return NULL;
	}
	return d;
}

/* From its row; only what is deployed can have instances. */
static int dep_load(struct scaler *c, const char *id, struct dep **ret, struct err *err)
{
	AUTO(store_deploy_done) struct store_deploy row = { 0 };
	autofree char *egress = NULL;
	int r = store_deploy_get(c->s->conf.store, NULL, id, &row, err);

	if (r < 0)
		return r;
	if (row.state == DEPLOY_PROVISIONING)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE,
		               "deployment '%s' is still being built: try again later", id);
	if (row.state == DEPLOY_FAILED)
		return err_tag(err, -EINVAL, ERR_DEPLOYMENT_FAILED, "deployment '%s' failed: %s",
		               id, row.why);
	if ((r = deploy_egress_text(&row, &egress, err)) < 0)
		return r;
	*ret = dep_of_row(&row, egress);
	return *ret ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int dep_get(struct scaler *c, const char *id, struct dep **ret, struct err *err)
{
	struct dep *fresh = NULL;
	int r;

	if ((*ret = dep_find(c, id)))
		return 0;
	mutex_unlock(&c->lock);
	r = dep_load(c, id, &fresh, err);
	mutex_lock(&c->lock);
	if (r < 0)
		return r;
	if ((*ret = dep_find(c, id))) {
		dep_free(fresh);
		return 0;
	}
	fresh->next = c->deps;
	c->deps = *ret = fresh;
	return 0;
}

/* ---- how many there should be ---- */

void inst_go(struct scaler *c, struct inst *i)
{
	if (i->state == INST_GOING)
		return;
	i->state = INST_GOING;
	if (!dep_count(i->d))
		dep_tell_awake(c, i->d);
	pool_task(c, i);
}

/* Of this account's others, the one that has been idle for longest makes room. */
static void evict(struct scaler *c, const char *account) REQUIRES(&c->lock)
{
	struct inst *oldest = NULL;

	for (struct dep *d = c->deps; d; d = d->next)
		for (struct inst *i = strcmp(d->account, account) ? NULL : d->inst; i; i = i->next)
			if (i->state == INST_READY && !i->open &&
			    (!oldest || i->idle_since < oldest->idle_since))
				oldest = i;
	if (oldest)
		inst_go(c, oldest);
}

/* Starts what the requests need. */
static void scale(struct scaler *c, struct dep *d, unsigned waiting) REQUIRES(&c->lock)
{
	const struct deploy_limits *l = &c->s->conf.deploy;
	unsigned have = dep_count(d), max = MIN(d->instances, l->instances);
	uint64_t demand = (uint64_t)d->waiters + waiting, want;

	if (c->stopping || d->deleted || (d->failed_ms && clock_ms() - d->failed_ms < FAILED_MS))
		return;
	for (const struct inst *i = d->inst; i; i = i->next)
		if (counts(i))
			demand += i->open;
	want = MIN((demand + d->requests - 1) / d->requests, max);
	for (; have < want; have++) {
		struct inst *i;

		if (count_account(c, d->account) >= l->account_instances) {
			evict(c, d->account); /* when it is gone, who waits looks again */
			return;
		}
		i = calloc(1, sizeof(*i));
		if (!i)
			return;
		*i = (struct inst){ .d = d,
			            .number = d->next_number++,
			            .next = d->inst,
			            .since_ms = clock_wall_ms() };
		d->inst = i;
		pool_task(c, i);
	}
}

/* ---- places ---- */

/* The fullest one that has room. */
static struct inst *pick(const struct dep *d)
{
	struct inst *best = NULL;

	for (struct inst *i = d->inst; i; i = i->next)
		if (i->state == INST_READY && !i->broken && i->open < d->requests &&
		    (!best || i->open > best->open))
			best = i;
	return best;
}

static int give(struct scaler *c, struct dep *d, struct inst *i, struct deploy_place *ret,
                struct err *err) REQUIRES(&c->lock)
{
	struct ticket *t = calloc(1, sizeof(*t)), **b;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->number = ++c->next_ticket;
	t->i = i;
	b = &c->tickets[t->number % SCALER_BUCKETS];
	t->next = *b;
	*b = t;
	i->open++;
	*ret = (struct deploy_place){ .ticket = t->number, .port = d->port };
	memcpy(ret->account, d->account, sizeof(ret->account));
	memcpy(ret->vm, i->vm, sizeof(ret->vm));
	return 0;
}

static int refuse_busy(const char *id, struct err *err)
{
	metrics_add(METRIC_DEPLOY_REQUESTS, LABEL_REFUSED, 1);
	return err_tag(err, -ETIMEDOUT, ERR_DEPLOYMENT_BUSY,
	               "all instances of deployment '%s' are busy, and no more may be started", id);
}

/* The deployment is not freed meanwhile: it has a waiter. */
static int wait_place(struct scaler *c, struct dep *d, unsigned waiting, uint64_t deadline,
                      struct deploy_place *ret, struct err *err) REQUIRES(&c->lock)
{
	uint64_t began = clock_ms();
	bool cold = false;

	for (;;) {
		struct inst *i;

		if (d->deleted || c->stopping)
			return err_tag(err, -ENOENT, ERR_DEPLOYMENT_NOT_FOUND,
			               "deployment '%s' was deleted", d->id);
		scale(c, d, waiting);
		if ((i = pick(d))) {
			metrics_add(METRIC_DEPLOY_REQUESTS, cold ? LABEL_COLD : LABEL_WARM, 1);
			return give(c, d, i, ret, err);
		}
		cold = true;
		if (d->failed_ms >= began && d->failed_ms && !dep_count(d)) {
			*err = d->why;
			return err->code < 0 ? err->code : -EIO;
		}
		if (clock_ms() >= deadline)
			return refuse_busy(d->id, err);
		/* After a failed start nothing tells that the next one may be tried. */
		(void)cond_wait_until(&c->changed, &c->lock,
		                      d->failed_ms ? MIN(deadline, d->failed_ms + FAILED_MS)
		                                   : deadline);
	}
}

int deploy_take(struct serverless *s, const char *id, unsigned waiting, uint64_t deadline,
                struct deploy_place *ret, struct err *err)
{
	struct scaler *c = s->scaler;
	struct dep *d;
	int r;

	LOCK_SCOPE(&c->lock);
	if ((r = dep_get(c, id, &d, err)) < 0)
		return r;
	if (c->waiters >= DEPLOY_WAITERS_MAX && !pick(d))
		return refuse_busy(id, err);
	d->waiters++;
	c->waiters++;
	r = wait_place(c, d, waiting, deadline, ret, err);
	c->waiters--;
	d->waiters--;
	dep_drop_if_unused(c, d);
	return r;
}

static void give_back(struct scaler *c, uint64_t number, bool broken)
{
	struct ticket **p, *t;
	struct inst *i;

	LOCK_SCOPE(&c->lock);
	p = &c->tickets[number % SCALER_BUCKETS];
	while (*p && (*p)->number != number)
		p = &(*p)->next;
	if (!*p)
		return;
	t = *p;
	*p = t->next;
	i = t->i;
	free(t);
	i->open--;
	if (broken && !i->broken && i->state != INST_GOING) {
		metrics_add(METRIC_DEPLOY_REPLACED, 0, 1);
		i->broken = true;
		inst_go(c, i);
	}
	if (!i->open) {
		i->idle_since = clock_ms();
		cond_signal(&c->keeper_cond);
	}
	cond_broadcast(&c->changed);
	inst_drop(c, i);
}

void deploy_done(struct serverless *s, uint64_t ticket)
{
	give_back(s->scaler, ticket, false);
}

void deploy_broken(struct serverless *s, uint64_t ticket)
{
	give_back(s->scaler, ticket, true);
}

void inst_ended(struct scaler *c, const char *vm)
{
	for (struct dep *d = c->deps; d; d = d->next)
		for (struct inst *i = d->inst; i; i = i->next)
			if (*i->vm && strcmp(i->vm, vm) == 0 && i->state == INST_READY &&
			    !i->broken) {
				i->broken = true;
				metrics_add(METRIC_DEPLOY_REPLACED, 0, 1);
				inst_go(c, i);
				cond_broadcast(&c->changed);
				return;
			}
}

void deploy_vm_ended(struct serverless *s, const char *vm)
{
	struct scaler *c = s->scaler;

	LOCK_SCOPE(&c->lock);
	inst_ended(c, vm);
}

bool deploy_awake(struct serverless *s, const char *id)
{
	struct scaler *c = s->scaler;
	const struct dep *d;

	LOCK_SCOPE(&c->lock);
	d = dep_find(c, id);
	return d && dep_count(d) > 0;
}

void deploy_on_awake(struct serverless *s, void (*fn)(void *ctx, const char *id), void *ctx)
{
	struct scaler *c = s->scaler;

	LOCK_SCOPE(&c->lock);
	c->awake = fn;
	c->awake_ctx = ctx;
}

int deploy_instances(struct serverless *s, const char *id, struct deploy_instance **ret,
                     size_t *ret_n, struct err *err)
{
	struct scaler *c = s->scaler;
	struct deploy_instance *v;
	const struct dep *d;
	size_t n = 0;

	LOCK_SCOPE(&c->lock);
	d = dep_find(c, id);
	v = calloc((d ? dep_count(d) : 0) + 1, sizeof(*v));
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	for (const struct inst *i = d ? d->inst : NULL; i; i = i->next) {
		if (!counts(i))
			continue;
		v[n] = (struct deploy_instance){ .ready = i->state == INST_READY,
			                         .requests = i->open,
			                         .since_ms = i->since_ms };
		memcpy(v[n++].vm, i->vm, ID_SIZE);
	}
	*ret = v;
	*ret_n = n;
	return 0;
}

void deploy_figures(struct serverless *s, struct deploy_figures *ret)
{
	struct scaler *c = s->scaler;

	*ret = (struct deploy_figures){ 0 };
	LOCK_SCOPE(&c->lock);
	for (const struct dep *d = c->deps; d; d = d->next) {
		ret->deployments += dep_count(d) > 0;
		for (const struct inst *i = d->inst; i; i = i->next) {
			ret->ready += counts(i) && i->state == INST_READY;
			ret->starting += i->state == INST_STARTING;
			ret->requests += i->open;
		}
	}
}
