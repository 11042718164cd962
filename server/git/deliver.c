/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deliver.c - what the crews of triggers do: take due deliveries, try them, record the result
 *
 * So many of one account at a time, so that endpoints that never answer hold up nobody else. An
 * attempt that the end of the server interrupts leaves its row active; the next start finds it.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/log.h"
#include "git/trigger_internal.h"
#include "metrics/metrics.h"
#include "store/store.h"

#define VM_ATTEMPTS 3 /* of a command that the server's end interrupted */
#define JUDGED_MAX 3  /* looks at the paths of a push, if the server ended during the others */

void workers_wake(struct triggers *t)
{
	for (size_t i = 0; i < ARRAY_SIZE(t->lanes); i++)
		crew_wake(t->lanes[i].crew);
}

static int load_trigger(struct triggers *t, const struct store_delivery *d,
                        struct store_trigger *ret, struct store_repo *repo, struct err *err)
{
	int r = store_trigger_get(t->store, d->repo, d->trigger, ret, err);

	return r < 0 ? r : store_repo_get(t->store, d->repo, repo, err);
}

/* Paths are checked here, not while a client waits for the reply to a push. */
static int concerns(struct triggers *t, struct store_delivery *d, const struct store_trigger *tr,
                    const struct store_repo *repo, bool *ret, struct err *err)
{
	autojson json_t *globs = *tr->globs ? json_loads(tr->globs, 0, NULL) : NULL;
	int r;

	*ret = true;
	if (!globs || d->judged < 0)
		return 0;
	if (d->judged >= JUDGED_MAX)
		return err_set(err, -EOWNERDEAD,
		               "the server stopped %d times while it looked for the paths that the "
		               "push changed",
		               JUDGED_MAX);
	/* Counted before: whatever the look does to the server, there are only so many. */
	d->judged++;
	if ((r = store_delivery_put(t->store, d, NULL, err)) < 0 ||
	    (r = repo_touched(t->g, repo, d->old_sha, d->new_sha, globs, ret, err)) < 0)
		return r;
	d->judged = -1;
	return 0;
}

static int try_webhook(struct triggers *t, struct store_delivery *d, const struct store_trigger *tr,
                       struct err *err)
{
	autofree char *body = NULL;
	/* Freestyle's for a push; the others are alike. */
	const char *event =
	        d->event == TRIGGER_PUSH ? "branchUpdate" : trigger_event_words[d->event];
	const char *commit = trigger_is_delete(d->event) ? d->old_sha : d->new_sha;
	autojson json_t *j = json_pack("{s:s, s:s, s:o, s:s?}", "event", event, "repoId", d->repo,
	                               trigger_is_tag(d->event) ? "tag" : "branch",
	                               json_text(d->branch, strlen(d->branch)), "commit",
	                               *commit ? commit : NULL);

	if (!j || !(body = json_dumps(j, JSON_COMPACT)))
		return err_set(err, -ENOMEM, "out of memory");
	return hook_send(&(struct hook_post){ .signer = t->signer,
	                                      .issuer = t->conf.issuer,
	                                      .url = tr->endpoint,
	                                      .id = d->id,
	                                      .body = body,
	                                      .allow_private = t->conf.allow_private,
	                                      .ending = &t->ending },
	                 &d->status, err);
}

static void after_webhook(struct triggers *t, struct store_delivery *d, int r, const struct err *e)
{
	int64_t wait_ms = hook_wait_ms(d->attempts, t->conf.retry_s);

	hook_note(d->note, r < 0 ? e->msg : "");
	if (r == 0) {
		d->state = DELIVERY_DONE;
	} else if (wait_ms >= 0) {
		d->state = DELIVERY_PENDING;
		d->next_ms = clock_wall_ms() + wait_ms;
	} else {
		d->state = DELIVERY_FAILED;
	}
}

static void after_vm(struct store_delivery *d, int r, const struct err *e)
{
	hook_note(d->note, r < 0 ? e->msg : "");
	d->state = r == 0 ? DELIVERY_DONE : DELIVERY_FAILED;
	d->vm[0] = '\0';
}

static int try_vm(struct triggers *t, struct store_delivery *d, const struct store_trigger *tr,
                  char **ret_output, struct err *err)
{
	if (*d->vm) { /* of an attempt that was interrupted */
		t->conf.vm.drop(t->conf.vm.ctx, d->account, d->vm);
		d->vm[0] = '\0';
	}
	d->status = -1;
	if (d->attempts > VM_ATTEMPTS)
		return err_set(err, -EINTR, "the server stopped %d times while it ran",
		               VM_ATTEMPTS);
	return t->conf.vm.run(t->conf.vm.ctx, d, tr, ret_output, err);
}

static void work(struct triggers *t, struct store_delivery *d)
{
	autowipe struct store_trigger *tr = malloc(sizeof(*tr));
	autofree char *output = NULL;
	struct store_repo repo;
	struct err err = { 0 };
	bool hit = true;
	int r = tr ? load_trigger(t, d, tr, &repo, &err) : -ENOMEM;

	if (r == -ENOENT) {
		store_delivery_drop(t->store, d->id, &err);
		return;
	}
	if (r == 0)
		r = concerns(t, d, tr, &repo, &hit, &err);
	if (!hit) {
		store_delivery_drop(t->store, d->id, &err);
		return;
	}
	if (r == 0)
		r = d->action == TRIGGER_WEBHOOK ? try_webhook(t, d, tr, &err)
		                                 : try_vm(t, d, tr, &output, &err);
	if (r < 0 && atomic_load(&t->ending))
		return; /* still active: the next start continues with it */
	if (d->action == TRIGGER_VM || r == -EOWNERDEAD)
		after_vm(d, r, &err);
	else
		after_webhook(t, d, r, &err);
	metrics_add(METRIC_TRIGGERS,
	            d->state == DELIVERY_DONE     ? LABEL_DELIVERED
	            : d->state == DELIVERY_FAILED ? LABEL_FAILED
	                                          : LABEL_RETRIED,
	            1);
	d->updated_ms = clock_wall_ms();
	if ((r = store_delivery_put(t->store, d, output, &err)) == 0)
		r = store_delivery_trim(t->store, d->trigger, DELIVERIES_KEPT, &err);
	if (r < 0)
		log_warn("delivery %s: %s", d->id, err.msg);
}

static int claim(void *ctx, void *job, struct err *err)
{
	const struct lane *l = ctx;

	return store_delivery_claim(l->t->store, l->action, clock_wall_ms(), l->per_account, job,
	                            err);
}

static int next(void *ctx, int64_t *ret_ms, struct err *err)
{
	const struct lane *l = ctx;

	return store_delivery_next(l->t->store, l->action, ret_ms, err);
}

static void work_on(void *ctx, void *job)
{
	work(((struct lane *)ctx)->t, job);
}

int workers_start(struct triggers *t, struct err *err)
{
	static const struct crew_ops ops = { sizeof(struct store_delivery), claim, next, work_on };
	struct lane *hooks = &t->lanes[TRIGGER_WEBHOOK], *vms = &t->lanes[TRIGGER_VM];
	int r;

	*hooks = (struct lane){ t, TRIGGER_WEBHOOK, WEBHOOK_PER_ACCOUNT, NULL };
	*vms = (struct lane){ t, TRIGGER_VM, VM_PER_ACCOUNT, NULL };
	r = crew_start(&ops, hooks, WEBHOOK_WORKERS, &hooks->crew, err);
	if (r == 0 && t->conf.vm.run)
		r = crew_start(&ops, vms, VM_WORKERS, &vms->crew, err);
	return r;
}
