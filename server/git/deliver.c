/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deliver.c - the workers: take due deliveries, try them, record the result
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
#include "base/utf8.h"
#include "git/trigger_internal.h"
#include "store/store.h"

#define IDLE_MS 60000   /* without news: the longest nap */
#define TROUBLE_MS 2000 /* after the store failed */
#define VM_ATTEMPTS 3   /* of a command that the server's end interrupted */
#define JUDGED_MAX 3    /* looks at the paths of a push, if the server ended during the others */

/* Before repetition n, in units of the first wait: with 10 s, the last one is a day later. */
static const uint32_t backoff[] = { 1, 3, 12, 60, 180, 360, 720, 1440, 2880, 2988 };

int64_t delivery_wait_ms(uint32_t attempts, uint32_t retry_s)
{
	size_t n = attempts ? attempts - 1 : 0;

	return n < ARRAY_SIZE(backoff) ? (int64_t)backoff[n] * retry_s * 1000 : -1;
}

void workers_wake(struct triggers *t)
{
	LOCK_SCOPE(&t->lock);
	t->news++;
	cond_broadcast(&t->more);
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

static void note(struct store_delivery *d, const char *text)
{
	autobuf struct buf b = { 0 };

	utf8_put_clean(&b, text, strlen(text));
	buf_put_u8(&b, 0);
	snprintf(d->note, sizeof(d->note), "%.240s", b.failed ? "" : (char *)b.p);
}

static int try_webhook(struct triggers *t, struct store_delivery *d, const struct store_trigger *tr,
                       struct err *err)
{
	autofree char *body = NULL, *signature = NULL;
	autojson json_t *j =
	        json_pack("{s:s, s:s, s:o, s:s}", "event", "branchUpdate", "repoId", d->repo,
	                  "branch", json_text(d->branch, strlen(d->branch)), "commit", d->new_sha);
	int r;

	if (!j || !(body = json_dumps(j, JSON_COMPACT)))
		return err_set(err, -ENOMEM, "out of memory");
	r = signer_sign(t->signer, t->conf.issuer, d->id, body, strlen(body), &signature, err);
	if (r < 0)
		return r;
	d->status = -1;
	r = webhook_send(&(struct webhook){ .url = tr->endpoint,
	                                    .id = d->id,
	                                    .signature = signature,
	                                    .body = body,
	                                    .allow_private = t->conf.allow_private,
	                                    .ending = &t->ending },
	                 &d->status, err);
	if (r < 0)
		return r;
	if (d->status >= 200 && d->status < 300)
		return 0;
	return err_set(err, -EIO, "the endpoint answered %d%s", d->status,
	               d->status >= 300 && d->status < 400 ? ": redirects are not followed" : "");
}

static void after_webhook(struct triggers *t, struct store_delivery *d, int r, const struct err *e)
{
	int64_t wait_ms = delivery_wait_ms(d->attempts, t->conf.retry_s);

	note(d, r < 0 ? e->msg : "");
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
	note(d, r < 0 ? e->msg : "");
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
	autofree struct store_trigger *tr = malloc(sizeof(*tr));
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
	d->updated_ms = clock_wall_ms();
	if ((r = store_delivery_put(t->store, d, output, &err)) == 0)
		r = store_delivery_trim(t->store, d->trigger, DELIVERIES_KEPT, &err);
	if (r < 0)
		log_warn("delivery %s: %s", d->id, err.msg);
}

static unsigned nap_ms(struct worker *w)
{
	struct err err = { 0 };
	int64_t next, now = clock_wall_ms();

	if (store_delivery_next(w->t->store, w->action, &next, &err) < 0)
		return TROUBLE_MS;
	if (next <= now || next - now > IDLE_MS) /* due, but its account has enough: news follow */
		return IDLE_MS;
	return (unsigned)(next - now) + 1;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct triggers *t = w->t;

	while (!atomic_load(&t->ending)) {
		struct store_delivery d;
		struct err err = { 0 };
		uint64_t until;
		uint64_t seen;
		int r;

		mutex_lock(&t->lock);
		seen = t->news;
		mutex_unlock(&t->lock);
		r = store_delivery_claim(t->store, w->action, clock_wall_ms(), w->per_account, &d,
		                         &err);
		if (r == 0) {
			work(t, &d);
			workers_wake(t);
			continue;
		}
		until = deadline_in(r == -ENOENT ? nap_ms(w) : TROUBLE_MS);
		LOCK_SCOPE(&t->lock);
		while (t->news == seen && !atomic_load(&t->ending) &&
		       cond_wait_until(&t->more, &t->lock, until))
			;
	}
	return NULL;
}

int workers_start(struct triggers *t, struct err *err)
{
	unsigned n = WEBHOOK_WORKERS + (t->conf.vm.run ? VM_WORKERS : 0);

	for (unsigned i = 0; i < n; i++) {
		struct worker *w = &t->workers[i];
		bool hook = i < WEBHOOK_WORKERS;
		int r;

		w->t = t;
		w->action = hook ? TRIGGER_WEBHOOK : TRIGGER_VM;
		w->per_account = hook ? WEBHOOK_PER_ACCOUNT : VM_PER_ACCOUNT;
		r = pthread_create(&w->thread, NULL, worker_main, w);
		if (r != 0)
			return err_sys(err, -r, "start a thread");
		t->n_workers++;
	}
	return 0;
}
