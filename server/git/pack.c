/* SPDX-License-Identifier: Apache-2.0 */
/* pack.c - running upload-pack and receive-pack, and the push event after them */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "git/shared.h"
#include "metrics/metrics.h"

#define PROTOCOL_MAX 64

/* "version=2" and the like; anything else is not passed on. */
static bool protocol_ok(const char *s)
{
	return s && strlen(s) < PROTOCOL_MAX &&
	       s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789=:.-")] == '\0';
}

void pack_init(struct pack *p, struct repos *g, const struct store_repo *r,
               const struct repo_client *by)
{
	*p = (struct pack){ .g = g, .repo = *r, .c = CHILD_NONE, .note = NOTE_NONE };
	if (!by)
		return;
	p->client = *by;
	snprintf(p->holder, sizeof(p->holder), "%s", by->holder);
	p->client.holder = p->holder;
}

int pack_prepare(struct pack *p, const struct svc_opts *o, bool stateless, struct pack_cmd *ret,
                 struct err *err)
{
	bool writes = o->kind == REPO_RECEIVE_PACK && !o->advertise;
	int64_t room = INT64_MAX;
	size_t n = 0;
	int r;

	if ((r = shared_ready(p->g, &p->repo, err)) < 0)
		return r;
	if (!o->advertise)
		metrics_add(METRIC_GIT_REQUESTS, writes ? LABEL_PUSH : LABEL_FETCH, 1);
	*ret = (struct pack_cmd){ .argv = { GIT_PROGRAM } };
	p->push = o->kind == REPO_RECEIVE_PACK;
	n++;
	if (writes) {
		if ((r = hold_new(p->g, p->repo.account, p->repo.id, 0, &p->hold, err)) < 0 ||
		    (r = quota_room(p->g, p->repo.account, &room, err)) < 0)
			return r;
		p->room = room;
		snprintf(ret->max_input, sizeof(ret->max_input), "receive.maxInputSize=%lld",
		         room == INT64_MAX ? 0 : (long long)room);
		ret->argv[n++] = "-c";
		ret->argv[n++] = ret->max_input;
	}
	ret->argv[n++] = p->push ? "receive-pack" : "upload-pack";
	if (stateless)
		ret->argv[n++] = "--stateless-rpc";
	if (o->advertise)
		ret->argv[n++] = "--advertise-refs";
	if (!p->push)
		ret->argv[n++] = "--strict";
	ret->argv[n++] = ".";
	ret->argv[n] = NULL;
	if (protocol_ok(o->protocol)) {
		snprintf(ret->protocol, sizeof(ret->protocol), "GIT_PROTOCOL=%s", o->protocol);
		ret->env[0] = ret->protocol;
	}
	repo_path(p->g, p->repo.id, ret->path);
	if (!writes || (r = note_open(p->g, p->repo.id, o->by, &p->note, err)) < 0)
		return writes ? r : 0;
	return hook_start(p->g, &p->repo, &p->note, &p->hook, err);
}

int pack_takes(struct pack *p, size_t n, struct err *err)
{
	p->fed += (int64_t)n;
	/* Beyond its room git itself stops, and says so where the client sees it. */
	return hold_grow(p->hold, MIN(p->fed, p->room), err);
}

int pack_tell(struct pack *p, struct err *err)
{
	int r;

	p->hook = hook_end(p->hook);
	if (p->note.fd < 0)
		return 0;
	r = note_tell(&p->note, &p->repo, err);
	note_close(&p->note);
	p->hold = hold_keep(p->hold);
	return r;
}

void pack_end(struct pack *p)
{
	bool killed = p->c.g && p->push;
	struct err err = { 0 };

	child_end(&p->c);
	pack_tell(p, &err); /* nobody listens any more */
	p->hold = hold_drop(p->hold);
	if (killed) /* it could not tidy up */
		maint_note(p->g, p->repo.id);
}
