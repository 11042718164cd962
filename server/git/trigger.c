/* SPDX-License-Identifier: Apache-2.0 */
/* trigger.c - triggers: created, checked, and turned into deliveries by a push */
#include "git/trigger.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/id.h"
#include "base/json_field.h"
#include "base/log.h"
#include "git/trigger_internal.h"
#include "store/store.h"

#define TAG ERR_GIT_INVALID_REQUEST
#define HEADS "refs/heads/"
#define TAGS "refs/tags/"

/* A list of texts as JSON, as the store has it; "" for none. */
static int put_filters(const struct trigger_filters *f, const char *name, char *dst, size_t size,
                       struct err *err)
{
	autojson json_t *list = json_array();
	size_t k = 0;

	for (size_t i = 0; i < f->n; i++)
		if (json_array_append_new(list, json_string(f->v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	if (f->n) {
		k = json_dumpb(list, dst, size - 1, JSON_COMPACT);
		if (k == 0 || k >= size)
			return err_tag(err, -EINVAL, TAG, "'trigger.%s' is too long", name);
	}
	dst[k] = '\0';
	return 0;
}

static int put_action(struct triggers *t, const struct trigger_new *n, struct store_trigger *ret,
                      struct err *err)
{
	ret->action = n->action;
	if (n->action == TRIGGER_WEBHOOK) {
		if (!n->endpoint)
			return err_tag(err, -EINVAL, TAG, "'action.endpoint' is missing");
		snprintf(ret->endpoint, sizeof(ret->endpoint), "%s", n->endpoint);
		return hook_url_check(n->endpoint, "endpoint", t->conf.allow_private, TAG, err);
	}
	if (!t->conf.vm.run)
		return err_tag(err, -EAGAIN, ERR_UNAVAILABLE, "this server has no VMs");
	if (!n->command || !*n->command)
		return err_tag(err, -EINVAL, TAG, "'action.command' is missing");
	snprintf(ret->command, sizeof(ret->command), "%s", n->command);
	snprintf(ret->snapshot, sizeof(ret->snapshot), "%s", n->snapshot ? n->snapshot : "");
	if (!*ret->snapshot)
		return 0;
	return t->conf.vm.check(t->conf.vm.ctx, ret->account, ret->snapshot, err);
}

int trigger_create(struct triggers *t, const struct store_repo *r, const struct trigger_new *n,
                   struct store_trigger *ret, struct err *err)
{
	autowipe struct store_trigger *have = NULL;
	size_t n_have = 0;
	int rc;

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->repo, sizeof(ret->repo), "%s", r->id);
	snprintf(ret->account, sizeof(ret->account), "%s", r->account);
	ret->event = n->event;
	if (n->globs.n && trigger_is_delete(n->event))
		return err_tag(err, -EINVAL, TAG,
		               "'trigger.globs' are paths that changed: a deletion changes none");
	if ((rc = put_filters(&n->names, trigger_is_tag(n->event) ? "tags" : "branches",
	                      ret->branches, sizeof(ret->branches), err)) < 0 ||
	    (rc = put_filters(&n->globs, "globs", ret->globs, sizeof(ret->globs), err)) < 0 ||
	    (rc = put_action(t, n, ret, err)) < 0 ||
	    (rc = store_trigger_list(t->store, r->id, &have, &n_have, err)) < 0)
		return rc;
	if (n_have >= TRIGGERS_MAX)
		return err_tag(err, -EDQUOT, ERR_LIMIT_EXCEEDED,
		               "a repository has at most %d triggers", TRIGGERS_MAX);
	id_make("trg-", ret->id);
	ret->created_ms = clock_wall_ms();
	return store_trigger_add(t->store, ret, err);
}

int trigger_redeliver(struct triggers *t, const char *trigger, const char *id,
                      struct store_delivery *ret, struct err *err)
{
	int r = store_delivery_get(t->store, trigger, id, ret, NULL, err);

	if (r < 0)
		return r;
	if (ret->state == DELIVERY_ACTIVE)
		return err_tag(err, -EBUSY, ERR_CONFLICT, "it is being delivered right now");
	ret->state = DELIVERY_PENDING;
	ret->attempts = 0;
	ret->judged = -1; /* whoever asks for it wants it */
	ret->next_ms = ret->updated_ms = clock_wall_ms();
	ret->note[0] = '\0';
	if ((r = store_delivery_put(t->store, ret, "", err)) < 0)
		return r;
	workers_wake(t);
	return 0;
}

static bool wants_name(const struct store_trigger *tr, const char *name)
{
	autojson json_t *list = *tr->branches ? json_loads(tr->branches, 0, NULL) : NULL;
	json_t *item;
	size_t i;

	json_array_foreach(list, i,
	                   item) if (branch_matches(json_string_value(item), name)) return true;
	return !list;
}

static bool is_zero(const char *sha)
{
	return strspn(sha, "0") == strlen(sha);
}

/* Is the update what such a trigger waits for? Then the name of the branch or tag. */
static const char *concerns(enum trigger_event e, const struct repo_update *u)
{
	const char *prefix = trigger_is_tag(e) ? TAGS : HEADS;
	bool made = is_zero(u->old_sha), gone = is_zero(u->new_sha);

	if (strncmp(u->ref, prefix, strlen(prefix)) != 0 || gone != trigger_is_delete(e) ||
	    (e == TRIGGER_BRANCH_CREATE && !made))
		return NULL;
	return u->ref + strlen(prefix);
}

/* An annotated tag stands for its commit; a tag of anything else for none. */
static void put_commit(struct triggers *t, const struct store_repo *r, bool tag, const char *sha,
                       char ret[SHA_TEXT_SIZE])
{
	struct err err = { 0 };

	if (!tag || is_zero(sha))
		snprintf(ret, SHA_TEXT_SIZE, "%s", sha);
	else if (repo_tagged(t->g, r, sha, ret, &err) < 0)
		*ret = '\0';
}

static int leave_delivery(struct triggers *t, const struct store_trigger *tr,
                          const struct repo_push *p, const struct repo_update *u, const char *name,
                          struct err *err)
{
	struct store_delivery d = {
		.action = tr->action, .event = tr->event, .state = DELIVERY_PENDING, .status = -1
	};
	bool tag = trigger_is_tag(tr->event);
	int64_t waiting;
	int r = p->again ? store_delivery_known(t->store, tr->id, p->id, name, err) : 0;

	if (r != 0)
		return MIN(r, 0);
	if ((r = store_delivery_waiting(t->store, tr->repo, &waiting, err)) < 0)
		return r;
	d.next_ms = d.created_ms = d.updated_ms = clock_wall_ms();
	if (waiting >= DELIVERIES_WAITING_MAX) {
		d.state = DELIVERY_FAILED;
		snprintf(d.note, sizeof(d.note),
		         "%d deliveries of this repository are already waiting",
		         DELIVERIES_WAITING_MAX);
	}
	id_make("dlv-", d.id);
	snprintf(d.trigger, sizeof(d.trigger), "%s", tr->id);
	snprintf(d.repo, sizeof(d.repo), "%s", tr->repo);
	snprintf(d.account, sizeof(d.account), "%s", tr->account);
	snprintf(d.branch, sizeof(d.branch), "%s", name);
	snprintf(d.push, sizeof(d.push), "%s", p->id);
	put_commit(t, p->repo, tag, u->old_sha, d.old_sha);
	put_commit(t, p->repo, tag, u->new_sha, d.new_sha);
	return store_delivery_add(t->store, &d, err);
}

static void on_push(const struct repo_push *p, void *ctx)
{
	struct triggers *t = ctx;
	autowipe struct store_trigger *list = NULL;
	struct err err = { 0 };
	size_t n = 0;
	int r = store_trigger_list(t->store, p->repo->id, &list, &n, &err);

	for (size_t i = 0; r >= 0 && i < n; i++)
		for (size_t k = 0; r >= 0 && k < p->n_updates; k++) {
			const struct repo_update *u = &p->updates[k];
			const char *name = concerns(list[i].event, u);

			if (name && wants_name(&list[i], name))
				r = leave_delivery(t, &list[i], p, u, name, &err);
		}
	if (r < 0)
		log_warn("repository %s: triggers were not notified of a push: %s", p->repo->id,
		         err.msg);
	if (n)
		workers_wake(t);
}

struct signer *triggers_signer(struct triggers *t)
{
	return t->signer;
}

static void triggers_closep(struct triggers **t)
{
	triggers_close(*t);
}

int triggers_open(const struct triggers_conf *c, struct repos *g, struct store *s,
                  struct triggers **ret, struct err *err)
{
	AUTO(triggers_closep) struct triggers *t = calloc(1, sizeof(*t));
	autofree struct store_delivery *left = NULL;
	size_t n = 0;
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->conf = *c;
	t->g = g;
	t->store = s;
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if ((r = signer_open(s, &t->signer, err)) < 0 ||
	    (r = store_delivery_recover(s, &left, &n, err)) < 0 ||
	    (r = workers_start(t, err)) < 0 || (r = repos_on_push(g, on_push, t, err)) < 0)
		return err_wrap(err, r, "triggers");
	if (n)
		log_info("%zu deliveries were interrupted and are tried again", n);
	*ret = TAKE_PTR(t);
	return 0;
}

void triggers_end(struct triggers *t)
{
	if (!t)
		return;
	atomic_store(&t->ending, true);
	for (size_t i = 0; i < ARRAY_SIZE(t->lanes); i++)
		crew_end(t->lanes[i].crew);
}

struct triggers *triggers_close(struct triggers *t)
{
	if (!t)
		return NULL;
	triggers_end(t);
	for (size_t i = 0; i < ARRAY_SIZE(t->lanes); i++)
		crew_close(t->lanes[i].crew);
	signer_close(t->signer);
	curl_global_cleanup();
	free(t);
	return NULL;
}
