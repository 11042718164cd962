/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.c - the push event, however references moved
 *
 * receive-pack runs hooks of ours that copy what Git is about to do, and what it accepted, to a
 * note (note.c); the API and mirrors write theirs themselves. All of it ends here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "base/log.h"
#include "events/events.h"
#include "git/git_internal.h"
#include "store/store_feed.h"

int repos_on_push(struct repos *g, repo_push_fn fn, void *ctx, struct err *err)
{
	LOCK_SCOPE(&g->lock);
	if (g->n_subs == REPOS_SUBSCRIBERS_MAX)
		return err_set(err, -ENOBUFS, "too many subscribers to pushes");
	g->subs[g->n_subs].fn = fn;
	g->subs[g->n_subs++].ctx = ctx;
	return 0;
}

void push_tell(const struct repo_push *p, struct repos *g)
{
	const struct store_repo *r = p->repo;
	struct err err = { 0 };
	char text[REPO_REF_SIZE + 160];
	struct push_sub subs[REPOS_SUBSCRIBERS_MAX];
	unsigned n_subs;

	if (p->n_updates == 0)
		return;
	if (store_repo_measured(g->store, r->id, -1, clock_wall_ms(), &err) < 0)
		log_warn("repository %s: cannot record the push: %s", r->id, err.msg);
	maint_note(g, r->id);
	mutex_lock(&g->lock);
	n_subs = g->n_subs;
	memcpy(subs, g->subs, n_subs * sizeof(subs[0]));
	mutex_unlock(&g->lock);
	for (unsigned i = 0; i < n_subs; i++)
		subs[i].fn(p, subs[i].ctx);
	store_feed_note(g->store, r->account, "git.push", "", "push",
	                json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:I, s:b}", "id", p->id, "repoId",
	                          r->id, "repoName", json_text(r->name, strlen(r->name)), "ref",
	                          json_text(p->updates[0].ref, strlen(p->updates[0].ref)), "oldSha",
	                          p->updates[0].old_sha, "newSha", p->updates[0].new_sha, "updates",
	                          (json_int_t)p->n_updates, "again", p->again));
	snprintf(text, sizeof(text), "push to repository %s: %s %.12s -> %.12s%s", r->id,
	         p->updates[0].ref, p->updates[0].old_sha, p->updates[0].new_sha,
	         p->n_updates > 1 ? " and others" : "");
	events_publish(g->conf.events, &(struct event){ .level = EVENT_INFO,
	                                                .source = "git",
	                                                .account = r->account,
	                                                .message = text });
}
