/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deploy_pool.c - threads that start and end instances, and what becomes of them at a restart
 *
 * Theory of operation: a few threads, started as needed, make VMs from a deployment's snapshot and
 * delete them; another one looks for instances that have been idle for long enough.
 *
 * An instance is named "<deployment>.<number>": by that a new process finds those of the last one,
 * and goes on with them. Their requests ended with the edge, so all of them are idle then.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/json_field.h"
#include "base/log.h"
#include "metrics/metrics.h"
#include "net/egress.h"
#include "net/egress_json.h"
#include "serverless/deploy_internal.h"
#include "vm/vm.h"
#include "vm/vmm.h"

#define THREAD_IDLE_MS 5000

static int make_vm(struct scaler *c, const struct dep *d, unsigned number, char vm[ID_SIZE],
                   struct err *err)
{
	AUTO(egress_unrefp) struct egress *egress = NULL;
	autojson json_t *policy = d->egress ? json_loads(d->egress, 0, NULL) : NULL;
	char name[VM_NAME_MAX];
	struct vm_create_opts o = { .account = d->account,
		                    .name = name,
		                    .snapshot_id = d->snapshot,
		                    .idle_timeout_s = -1,
		                    .count_exec = true,
		                    .eager = true,
		                    .persistence = { .type = PERSIST_EPHEMERAL,
		                                     .delete_event = DELETE_ON_SUSPEND } };
	struct vm_info v;
	int r;

	snprintf(name, sizeof(name), "%s.%u", d->id, number);
	if (policy && ((r = egress_parse(policy, &egress, err)) < 0 ||
	               (r = egress_keep_secrets(egress, NULL, err)) < 0))
		return r;
	o.egress = egress;
	if ((r = vmm_create(c->s->conf.vmm, &o, &v, err)) < 0)
		return r;
	memcpy(vm, v.id, ID_SIZE);
	return 0;
}

static void started(struct scaler *c, struct inst *i, int r, const char vm[ID_SIZE],
                    const struct err *why) REQUIRES(&c->lock)
{
	struct dep *d = i->d;

	if (r < 0) {
		metrics_add(METRIC_DEPLOY_STARTS, LABEL_START_FAILED, 1);
		log_warn("deployment %s: an instance cannot be started: %s", d->id, why->msg);
		d->failed_ms = clock_ms();
		d->why = *why;
		i->state = INST_GOING;
		i->gone = true;
		cond_broadcast(&c->changed);
		inst_drop(c, i);
		return;
	}
	metrics_add(METRIC_DEPLOY_STARTS, LABEL_START_OK, 1);
	memcpy(i->vm, vm, ID_SIZE);
	i->idle_since = clock_ms();
	d->failed_ms = 0;
	i->state = INST_READY;
	cond_broadcast(&c->changed);
	cond_signal(&c->keeper_cond);
	if (d->deleted || c->stopping || i->broken)
		inst_go(c, i);
	else if (dep_count(d) == 1)
		dep_tell_awake(c, d);
}

static void do_start(struct scaler *c, struct inst *i) REQUIRES(&c->lock)
{
	const struct dep *d = i->d;
	char vm[ID_SIZE] = "";
	struct err why = { 0 };
	struct vm_info v;
	int r;

	mutex_unlock(&c->lock);
	r = make_vm(c, d, i->number, vm, &why);
	mutex_lock(&c->lock);
	started(c, i, r, vm, &why);
	if (r < 0 || i->state != INST_READY)
		return;
	/* It may have ended before it was known by its id. */
	mutex_unlock(&c->lock);
	r = vmm_get(c->s->conf.vmm, NULL, vm, &v, NULL);
	mutex_lock(&c->lock);
	if (r < 0 || v.state != VM_RUNNING)
		inst_ended(c, vm);
}

static void do_end(struct scaler *c, struct inst *i) REQUIRES(&c->lock)
{
	struct dep *d = i->d;
	struct err err = { 0 };
	int r;

	mutex_unlock(&c->lock);
	deploy_keep_logs(c->s, i);
	r = vmm_delete(c->s->conf.vmm, d->account, i->vm, NULL, &err);
	if (r < 0 && r != -ENOENT)
		log_obj(LOG_LV_WARN, "vm", i->vm, "an instance of %s, cannot be deleted: %s", d->id,
		        err.msg);
	mutex_lock(&c->lock);
	i->gone = true;
	cond_broadcast(&c->changed);
	inst_drop(c, i);
}

static void *work(void *arg)
{
	struct scaler *c = arg;

	mutex_lock(&c->lock);
	for (;;) {
		struct inst *i = c->first;
		bool more;

		if (i) {
			c->first = i->task;
			if (!c->first)
				c->last = NULL;
			c->n_tasks--;
			if (i->state == INST_STARTING)
				do_start(c, i);
			else
				do_end(c, i);
			continue;
		}
		if (c->stopping)
			break;
		c->n_idle++;
		more = cond_wait_until(&c->tasks, &c->lock, deadline_in(THREAD_IDLE_MS));
		c->n_idle--;
		if (!more && !c->first)
			break;
	}
	c->n_threads--;
	cond_broadcast(&c->changed);
	mutex_unlock(&c->lock);
	return NULL;
}

/* By its state: STARTING or GOING. It is in no line yet. */
void pool_task(struct scaler *c, struct inst *i)
{
	pthread_attr_t attr;
	pthread_t id;

	i->task = NULL;
	if (c->last)
		c->last->task = i;
	else
		c->first = i;
	c->last = i;
	c->n_tasks++;
	cond_signal(&c->tasks);
	if (c->n_tasks <= c->n_idle || c->n_threads >= SCALER_THREADS)
		return;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&id, &attr, work, c) == 0)
		c->n_threads++;
	pthread_attr_destroy(&attr);
}

/* All of its instances end, with what they are doing; returns when their VMs are deleted. */
void scaler_drop(struct serverless *s, const char *id)
{
	struct scaler *c = s->scaler;
	struct dep *d;
	bool left = true;

	LOCK_SCOPE(&c->lock);
	if (!(d = dep_find(c, id)))
		return;
	d->deleted = true;
	d->waiters++; /* it stays until we are done with it */
	cond_broadcast(&c->changed);
	for (struct inst *i = d->inst; i; i = i->next) {
		i->broken = true; /* one that is being started ends when it is there */
		if (i->state == INST_READY)
			inst_go(c, i);
	}
	while (left) {
		left = false;
		for (const struct inst *i = d->inst; i; i = i->next)
			left |= !i->gone;
		if (left)
			cond_wait(&c->changed, &c->lock);
	}
	d->waiters--;
	dep_drop_if_unused(c, d);
}

/* ---- life ---- */

/* When the first one will have been idle for long enough; ends those that have been. */
static uint64_t end_idle(struct scaler *c) REQUIRES(&c->lock)
{
	uint64_t now = clock_ms(), next = UINT64_MAX;

	for (struct dep *d = c->deps; d; d = d->next)
		for (struct inst *i = d->inst; i; i = i->next) {
			if (i->state != INST_READY || i->open)
				continue;
			if (now >= i->idle_since + d->idle_ms)
				inst_go(c, i);
			else
				next = MIN(next, i->idle_since + d->idle_ms);
		}
	return next;
}

static void *keeper_main(void *arg)
{
	struct scaler *c = arg;

	LOCK_SCOPE(&c->lock);
	while (!c->stopping) {
		uint64_t next = end_idle(c);

		if (next == UINT64_MAX)
			cond_wait(&c->keeper_cond, &c->lock);
		else
			(void)cond_wait_until(&c->keeper_cond, &c->lock, next);
	}
	return NULL;
}

/* Of an earlier process: goes on if it runs, else it is deleted. */
static int adopt(struct scaler *c, struct dep *d, const struct vm_info *v) REQUIRES(&c->lock)
{
	struct inst *i = calloc(1, sizeof(*i));
	unsigned long number = strtoul(v->name + strlen(d->id) + 1, NULL, 10);

	if (!i)
		return -ENOMEM;
	*i = (struct inst){ .next = d->inst,
		            .d = d,
		            .state = INST_READY,
		            .number = (unsigned)number,
		            .idle_since = clock_ms(),
		            .since_ms = v->machine_ms ? v->machine_ms : v->created_ms };
	memcpy(i->vm, v->id, ID_SIZE);
	d->inst = i;
	d->next_number = MAX(d->next_number, (unsigned)number + 1);
	if (v->state != VM_RUNNING) {
		i->broken = true;
		inst_go(c, i);
	}
	return 0;
}

static int adopt_all(struct scaler *c, const char *id, const char *account, struct err *err)
{
	autofree struct vm_info *v = NULL;
	size_t n = 0, len = strlen(id);
	int r = vmm_list(c->s->conf.vmm, account, &v, &n, err);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct err why = { 0 };
		struct dep *d = NULL;

		if (strncmp(v[i].name, id, len) != 0 || v[i].name[len] != '.')
			continue;
		LOCK_SCOPE(&c->lock);
		r = dep_get(c, id, &d, &why);
		if (r < 0) {
			log_warn("deployment %s: %s", id, why.msg);
			return 0;
		}
		r = adopt(c, d, &v[i]);
	}
	return r < 0 ? err_set(err, r, "deployments: out of memory") : 0;
}

int scaler_new(struct serverless *s, struct err *err)
{
	struct store_deploy *rows = NULL;
	struct scaler *c = calloc(1, sizeof(*c));
	size_t n = 0;
	int r;

	if (!c)
		return err_set(err, -ENOMEM, "deployments: out of memory");
	c->s = s;
	mutex_init(&c->lock, "deployments");
	cond_init(&c->changed);
	cond_init(&c->tasks);
	cond_init(&c->keeper_cond);
	s->scaler = c;
	if ((r = store_deploy_fail_unfinished(
	             s->conf.store, "the server stopped while it was being built", err)) < 0 ||
	    (r = store_deploy_list(s->conf.store, NULL, "", &rows, &n, err)) < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < n; i++)
		if (rows[i].state == DEPLOY_DEPLOYED)
			r = adopt_all(c, rows[i].id, rows[i].account, err);
	store_deploys_free(rows, n);
	if (r < 0)
		return r;
	if (pthread_create(&c->keeper, NULL, keeper_main, c) != 0)
		return err_set(err, -EAGAIN, "deployments: cannot start a thread");
	c->keeps = true;
	return 0;
}

void scaler_end(struct serverless *s)
{
	struct scaler *c = s->scaler;

	if (!c)
		return;
	mutex_lock(&c->lock);
	c->stopping = true;
	cond_broadcast(&c->changed);
	cond_broadcast(&c->tasks);
	cond_broadcast(&c->keeper_cond);
	mutex_unlock(&c->lock);
	if (c->keeps)
		pthread_join(c->keeper, NULL);
	c->keeps = false;
}

static void free_all(struct scaler *c) REQUIRES(&c->lock)
{
	while (c->deps) {
		struct dep *d = c->deps;

		c->deps = d->next;
		while (d->inst) {
			struct inst *i = d->inst;

			d->inst = i->next;
			free(i);
		}
		dep_free(d);
	}
	for (size_t b = 0; b < SCALER_BUCKETS; b++)
		while (c->tickets[b]) {
			struct ticket *t = c->tickets[b];

			c->tickets[b] = t->next;
			free(t);
		}
}

void scaler_free(struct serverless *s)
{
	struct scaler *c = s->scaler;

	if (!c)
		return;
	scaler_end(s);
	mutex_lock(&c->lock);
	while (c->n_threads || c->waiters)
		cond_wait(&c->changed, &c->lock);
	free_all(c);
	mutex_unlock(&c->lock);
	cond_destroy(&c->keeper_cond);
	cond_destroy(&c->tasks);
	cond_destroy(&c->changed);
	mutex_destroy(&c->lock);
	free(c);
	s->scaler = NULL;
}
