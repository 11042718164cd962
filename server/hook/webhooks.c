/* SPDX-License-Identifier: Apache-2.0 */
/*
 * webhooks.c - sends what the store has written down for the webhooks of accounts
 *
 * A few of one account at a time, so that endpoints that never answer hold up nobody else. One that
 * fails holds up those behind it of the same VM, because order is promised; so an event that is
 * older than a day is tried once and then given up, and a dead endpoint's queue ends.
 */
#include "hook/webhooks.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "hook/hook.h"
#include "metrics/metrics.h"

#define WORKERS 8
#define PER_ACCOUNT 2
#define LIFE_MS (24LL * 3600 * 1000)

_Static_assert(TRIGGER_ENDPOINT_SIZE == HOOK_URL_SIZE && DELIVERY_NOTE_SIZE == HOOK_NOTE_SIZE,
               "rows have room for what is checked here");

struct webhooks {
	struct webhooks_conf conf;
	struct store *store; /* weak */
	struct crew *crew;   /* owned */
	atomic_bool ending;
};

static int claim(void *ctx, void *job, struct err *err)
{
	struct webhooks *w = ctx;

	return store_hook_claim(w->store, clock_wall_ms(), PER_ACCOUNT, job, err);
}

static int next(void *ctx, int64_t *ret_ms, struct err *err)
{
	return store_hook_next(((struct webhooks *)ctx)->store, ret_ms, err);
}

static int try_once(struct webhooks *w, struct store_hook_delivery *d, struct err *err)
{
	autowipe struct store_hook *h = malloc(sizeof(*h));
	struct store_hook_delivery same;
	autofree char *body = NULL;
	int r;

	if (!h)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = store_hook_get(w->store, d->account, d->hook, h, err)) < 0 ||
	    (r = store_hook_delivery(w->store, d->hook, d->id, &same, &body, err)) < 0)
		return r;
	if (!h->enabled)
		return err_set(err, -ESHUTDOWN, "the webhook is disabled");
	return hook_send(&(struct hook_post){ .signer = w->conf.signer,
	                                      .issuer = w->conf.issuer,
	                                      .url = h->url,
	                                      .id = d->id,
	                                      .body = body,
	                                      .secret = h->secret,
	                                      .allow_private = w->conf.allow_private,
	                                      .ending = &w->ending },
	                 &d->status, err);
}

static void work(void *ctx, void *job)
{
	struct webhooks *w = ctx;
	struct store_hook_delivery *d = job;
	struct err err = { 0 };
	int64_t now, wait_ms = hook_wait_ms(d->attempts, w->conf.retry_s);
	int r = try_once(w, d, &err);

	if (r == -ENOENT) /* the webhook was deleted, and this with it */
		return;
	if (r < 0 && atomic_load(&w->ending))
		return; /* still active: the next start continues with it */
	now = d->updated_ms = clock_wall_ms();
	hook_note(d->note, r < 0 ? err.msg : "");
	if (r == 0) {
		d->state = DELIVERY_DONE;
	} else if (wait_ms >= 0 && r != -ESHUTDOWN && now - d->created_ms < LIFE_MS) {
		d->state = DELIVERY_PENDING;
		d->next_ms = now + wait_ms;
	} else {
		d->state = DELIVERY_FAILED;
	}
	metrics_add(METRIC_WEBHOOKS,
	            d->state == DELIVERY_DONE     ? LABEL_DELIVERED
	            : d->state == DELIVERY_FAILED ? LABEL_FAILED
	                                          : LABEL_RETRIED,
	            1);
	if (store_hook_settle(w->store, d, &err) < 0)
		log_warn("delivery %s: %s", d->id, err.msg);
}

int webhooks_check_url(struct webhooks *w, const char *url, struct err *err)
{
	return hook_url_check(url, "url", w->conf.allow_private, ERR_BAD_REQUEST, err);
}

int webhooks_redeliver(struct webhooks *w, const char *hook, const char *id,
                       struct store_hook_delivery *ret, struct err *err)
{
	int r = store_hook_delivery(w->store, hook, id, ret, NULL, err);

	if (r < 0)
		return r;
	if (ret->state == DELIVERY_ACTIVE)
		return err_tag(err, -EBUSY, ERR_CONFLICT, "it is being delivered right now");
	ret->state = DELIVERY_PENDING;
	ret->attempts = 0;
	ret->next_ms = ret->updated_ms = clock_wall_ms();
	ret->note[0] = '\0';
	if ((r = store_hook_settle(w->store, ret, err)) < 0)
		return r;
	crew_wake(w->crew);
	return 0;
}

/* The store is locked: whoever is woken waits for it. */
static void on_event(void *ctx)
{
	crew_wake(((struct webhooks *)ctx)->crew);
}

int webhooks_open(const struct webhooks_conf *c, struct store *s, struct webhooks **ret,
                  struct err *err)
{
	static const struct crew_ops ops = { sizeof(struct store_hook_delivery), claim, next,
		                             work };
	struct webhooks *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->conf = *c;
	w->store = s;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if ((r = store_hook_recover(s, err)) < 0 ||
	    (r = crew_start(&ops, w, WORKERS, &w->crew, err)) < 0) {
		webhooks_close(w);
		return err_wrap(err, r, "webhooks");
	}
	store_hook_notify(s, on_event, w);
	*ret = w;
	return 0;
}

void webhooks_end(struct webhooks *w)
{
	if (!w)
		return;
	atomic_store(&w->ending, true);
	crew_end(w->crew);
}

struct webhooks *webhooks_close(struct webhooks *w)
{
	if (!w)
		return NULL;
	store_hook_notify(w->store, NULL, NULL);
	webhooks_end(w);
	crew_close(w->crew);
	curl_global_cleanup();
	free(w);
	return NULL;
}
