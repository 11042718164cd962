/* SPDX-License-Identifier: Apache-2.0 */
/*
 * repeat.c - a create that is sent again because its client gave up waiting is not made twice
 *
 * Clients close the connection when no headers came for 300 s, and send the same request again. So
 * a create (ROUTE_BACKGROUND) whose client has left, and that the same account sends again with the
 * same body, is joined: the second request waits for the first and gets its reply. Two that are
 * equal while both clients wait are two: somebody wants two VMs.
 *
 * When a create is done and its client has left, its thread waits for such a repeat for
 * PANDO_CREATE_GRACE_S. If none comes, nobody knows of the VM, and it is deleted again. Requests
 * with an Idempotency-Key or in the background have better means (background.c).
 *
 * Lock order: repeats->lock only, never held across a handler.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "api/call.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "conf.h"

#define GRACE_DEFAULT_S 120

/* One create, in the table as long as its thread works for it. */
struct create {
	struct create *next;
	char account[ACCOUNT_SIZE];
	unsigned char hash[EVP_MAX_MD_SIZE];
	int client; /* weak: the socket of its client */
	bool joined, done;
	json_t *reply; /* owned; of a create that worked, once it is done */
};

struct repeats {
	struct mutex lock;
	struct cond changed;
	struct create *list GUARDED_BY(lock); /* weak: each is on its thread's stack */
	bool stopping GUARDED_BY(lock);
};

int repeats_new(struct repeats **ret, struct err *err)
{
	struct repeats *t = calloc(1, sizeof(*t));

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	mutex_init(&t->lock, "api repeats");
	cond_init(&t->changed);
	*ret = t;
	return 0;
}

struct repeats *repeats_free(struct repeats *t)
{
	if (!t)
		return NULL;
	mutex_destroy(&t->lock);
	cond_destroy(&t->changed);
	free(t);
	return NULL;
}

void repeats_stop(struct repeats *t)
{
	LOCK_SCOPE(&t->lock);
	t->stopping = true;
	cond_broadcast(&t->changed);
}

static bool has_left(int client)
{
	struct pollfd p = { .fd = client, .events = POLLRDHUP };

	return client >= 0 && poll(&p, 1, 0) > 0;
}

static int hash_of(struct request *req, unsigned char ret[EVP_MAX_MD_SIZE], struct err *err)
{
	const char *route = req->match.route->pattern, *p;
	EVP_MD_CTX *c;
	size_t n;
	int r = body_view(&req->body, &p, &n, err);

	if (r < 0)
		return r;
	memset(ret, 0, EVP_MAX_MD_SIZE);
	c = EVP_MD_CTX_new();
	if (!c || EVP_DigestInit_ex(c, EVP_sha256(), NULL) != 1 ||
	    EVP_DigestUpdate(c, route, strlen(route) + 1) != 1 || EVP_DigestUpdate(c, p, n) != 1 ||
	    EVP_DigestFinal_ex(c, ret, NULL) != 1)
		r = err_set(err, -EIO, "cannot compute SHA-256");
	EVP_MD_CTX_free(c);
	return r;
}

/* A create of the same account and body whose client has left and that nobody has joined. */
static struct create *find_left(struct repeats *t, const struct create *me) REQUIRES(&t->lock)
{
	for (struct create *c = t->list; c; c = c->next)
		if (!c->joined && strcmp(c->account, me->account) == 0 &&
		    memcmp(c->hash, me->hash, sizeof(c->hash)) == 0 && has_left(c->client))
			return c;
	return NULL;
}

static void leave(struct repeats *t, struct create *me) REQUIRES(&t->lock)
{
	struct create **at = &t->list;

	while (*at != me)
		at = &(*at)->next;
	*at = me->next;
	cond_broadcast(&t->changed);
}

/*
 * The reply of the create that this one repeats, or NULL: there is none, or it failed. Else this
 * one is in the table from now on.
 */
static json_t *join_or_enter(struct repeats *t, struct create *me)
{
	struct create *c;
	json_t *reply;
	LOCK_SCOPE(&t->lock);

	while ((c = find_left(t, me))) {
		c->joined = true;
		cond_broadcast(&t->changed);
		while (!c->done)
			cond_wait(&t->changed, &t->lock);
		reply = TAKE_PTR(c->reply);
		c->client = -1; /* its thread may leave: *c is not ours any more */
		cond_broadcast(&t->changed);
		if (reply)
			return reply;
	}
	me->next = t->list;
	t->list = me;
	return NULL;
}

/* The create is done: true when somebody else got its reply, or nobody will. */
static bool pass_on(struct repeats *t, struct create *me, const json_t *reply, unsigned grace_s)
{
	uint64_t until = deadline_in(grace_s * 1000);
	bool taken = false;
	LOCK_SCOPE(&t->lock);

	if (!me->joined && (!reply || !has_left(me->client))) {
		leave(t, me);
		return false;
	}
	me->reply = reply ? json_deep_copy(reply) : NULL;
	me->done = true;
	cond_broadcast(&t->changed);
	while (!me->joined && !t->stopping && cond_wait_until(&t->changed, &t->lock, until))
		;
	while (me->joined && me->client >= 0) /* until it has taken the reply */
		cond_wait(&t->changed, &t->lock);
	taken = me->joined;
	leave(t, me);
	json_decref(me->reply);
	return !taken;
}

static void forget_vm(struct request *req, const json_t *reply)
{
	const char *id = json_string_value(json_object_get(reply, "id"));
	struct err err = { 0 };

	if (!id)
		return; /* a snapshot: it costs nothing but room, and the next spec uses its layers
		         */
	if (vmm_delete(deps_of(req)->vmm, who_of(req)->account, id, NULL, &err) < 0)
		log_obj(LOG_LV_WARN, "vm", id, "its client left, and it cannot be deleted: %s",
		        err.msg);
	else
		log_obj(LOG_LV_INFO, "vm", id,
		        "deleted: the client left before the answer and did not ask again");
}

int repeat_run(struct request *req, struct reply *res, struct err *err)
{
	struct repeats *t = api_of(req)->repeats;
	unsigned grace_s = deps_of(req)->conf->create_grace_s;
	struct create me = { .client = request_client_fd(req) };
	json_t *reply;
	int r;

	snprintf(me.account, sizeof(me.account), "%s", who_of(req)->account);
	if ((r = hash_of(req, me.hash, err)) < 0)
		return r;
	if ((reply = join_or_enter(t, &me))) {
		log_obj(LOG_LV_INFO, "request", req->trace,
		        "is a repeat of a create whose client had left: it gets that one's reply");
		return reply_json(res, reply, err);
	}
	r = api_handle(req, res, err);
	if (pass_on(t, &me, r == 0 ? res->json : NULL, grace_s ? grace_s : GRACE_DEFAULT_S))
		forget_vm(req, res->json);
	return r;
}
