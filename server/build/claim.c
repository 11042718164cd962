/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c - two builds that need the same layer at once build it once
 *
 * The first one claims the key, others wait for the end of the claim and share its result:
 * the cached point, or the failure with its details. A thread holds one claim at
 * most and waits while it holds none, so there is no circular wait.
 */
#include "build/claim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"

static struct claim *find(struct builder *b, const char *key) REQUIRES(&b->lock)
{
	for (struct claim *c = b->claims; c; c = c->next)
		if (!c->done && strcmp(c->key, key) == 0)
			return c;
	return NULL;
}

static void leave(struct builder *b, struct claim *c)
{
	if (!c->done || c->waiting)
		return;
	for (struct claim **p = &b->claims; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			break;
		}
	json_decref(c->extra);
	free(c);
}

static int wait_for(struct run *run, struct claim *c, struct err *err) REQUIRES(&run->b->lock)
{
	struct builder *b = run->b;
	int r = 0;

	c->waiting++;
	while (!c->done && !b->stopping && r == 0)
		r = cond_wait_until(&b->changed, &b->lock, run->deadline_ms) ? 0 : -ETIMEDOUT;
	c->waiting--;
	if (c->done) {
		r = c->result;
		if (r < 0 && c->cancelled) {
			r = -EAGAIN;
		} else if (r < 0) {
			if (err)
				*err = c->err;
			json_object_update(run->o->extra, c->extra);
		}
		leave(b, c);
		return r;
	}
	if (b->stopping)
		return err_tag(err, -ESHUTDOWN, ERR_SERVICE_UNAVAILABLE,
		               "the server is shutting down");
	return err_tag(err, -ETIMEDOUT, ERR_UNAVAILABLE,
	               "another build of the same layer did not finish within %u s "
	               "(PANDO_BUILD_TIMEOUT_S)",
	               b->conf.timeout_s);
}

int claim_begin(struct run *run, const char *key, struct claim **ret, struct err *err)
{
	struct builder *b = run->b;
	struct claim *c;
	LOCK_SCOPE(&b->lock);

	while ((c = find(b, key))) {
		int r = wait_for(run, c, err);

		if (r != -EAGAIN)
			return r;
	}
	if (b->stopping)
		return err_tag(err, -ESHUTDOWN, ERR_SERVICE_UNAVAILABLE,
		               "the server is shutting down");
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(err, -ENOMEM, "build: out of memory");
	snprintf(c->key, sizeof(c->key), "%s", key);
	c->next = b->claims;
	b->claims = c;
	*ret = c;
	return 1;
}

void claim_end(struct run *run, struct claim *c, int result, const struct err *why, bool cancelled)
{
	struct builder *b = run->b;
	LOCK_SCOPE(&b->lock);

	c->done = true;
	c->cancelled = cancelled;
	c->result = result;
	if (result < 0) {
		c->err = *why;
		c->extra = json_deep_copy(run->o->extra);
	}
	cond_broadcast(&b->changed);
	leave(b, c);
}
