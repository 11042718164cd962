/* SPDX-License-Identifier: Apache-2.0 */
/*
 * claim.c - whose bucket it is; and what is done without a file: deleting, listing, the state
 *
 * The object "pando/cluster" has the id of the cluster that a bucket (or prefix of one) belongs
 * to. It is written only where nothing else is, and read again after that: of two that begin with
 * the same empty bucket at once, one finds the other's id.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "objects/objects_internal.h"

#define MARKER "pando/cluster"
#define MARKER_MAX 256

bool objects_hopeless(int r)
{
	return r == -EACCES || r == -ENODEV || r == -ETIME || r == -EINVAL;
}

/* ---- the state ---- */

static void look_at(struct objects *o, int r, const struct err *err)
{
	/* An answer is an answer; a shutdown says nothing about the server. */
	bool failing = r < 0 && r != -ENOENT && r != -EBADMSG && r != -ENOMEM;
	bool changed;
	LOCK_SCOPE(&o->lock);

	if (r == -ECANCELED)
		return;
	changed = !o->status.asked || o->status.failing != failing;
	if (changed)
		o->status.since_ms = clock_wall_ms();
	o->status.asked = true;
	o->status.failing = failing;
	snprintf(o->status.error, sizeof(o->status.error), "%s", failing ? err->msg : "");
	if (changed && failing)
		log_warn("objects: %s", err->msg);
	else if (changed)
		log_info("objects: the bucket %s can be used", o->s3.at.where);
}

void objects_status(struct objects *o, struct objects_status *ret)
{
	LOCK_SCOPE(&o->lock);
	*ret = o->status;
}

int objects_ask(struct objects *o, CURL *c, const struct s3_req *q, struct buf *ret_body,
                struct err *err)
{
	struct err own = { 0 };
	int r = s3_do(&o->s3, c, q, ret_body, &own);

	look_at(o, r, &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

/* ---- the marker ---- */

static int read_marker(struct objects *o, char ret[64], struct err *err) REQUIRES(o->misc);
static int read_marker(struct objects *o, char ret[64], struct err *err)
{
	struct s3_req q = { .method = S3_GET, .key = MARKER, .max = MARKER_MAX };
	autobuf struct buf b = { 0 };
	int r = objects_ask(o, o->curl, &q, &b, err);

	if (r < 0)
		return r;
	snprintf(ret, 64, "%.*s", (int)MIN(b.len, (size_t)63), b.p ? (char *)b.p : "");
	ret[strcspn(ret, "\r\n")] = '\0';
	return 0;
}

static int ask_list(struct objects *o, const char *prefix, const char *token, unsigned max,
                    struct s3_list *ret, struct err *err) REQUIRES(o->misc);
static int ask_list(struct objects *o, const char *prefix, const char *token, unsigned max,
                    struct s3_list *ret, struct err *err)
{
	autobuf struct buf query = { 0 };
	autobuf struct buf body = { 0 };
	struct s3_req q = { .method = S3_LIST, .max = S3_XML_MAX };
	int r;

	if (token && *token) {
		buf_printf(&query, "continuation-token=");
		s3_encode(&query, token);
		buf_printf(&query, "&");
	}
	buf_printf(&query, "list-type=2&max-keys=%u&prefix=", max);
	s3_encode(&query, o->s3.at.prefix);
	s3_encode(&query, prefix);
	buf_put_u8(&query, 0);
	if (query.failed)
		return err_set(err, -ENOMEM, "out of memory");
	q.query = (char *)query.p;
	if ((r = objects_ask(o, o->curl, &q, &body, err)) < 0)
		return r;
	return s3_list_parse(body.p, body.len, ret, err);
}

static int write_marker(struct objects *o, struct err *err) REQUIRES(o->misc);
static int write_marker(struct objects *o, struct err *err)
{
	char text[80];
	struct s3_req q = { .method = S3_PUT, .key = MARKER, .body = text };
	AUTO(s3_list_done) struct s3_list l = { 0 };
	autobuf struct buf reply = { 0 };
	int r = ask_list(o, "", NULL, 2, &l, err);

	if (r < 0)
		return r;
	if (l.n)
		return err_set(err, -EINVAL,
		               "the bucket %s is not empty and not ours (it has '%.60s'): set "
		               "PANDO_OBJECTS to an empty one, or add a prefix=",
		               o->s3.at.where, l.keys[0]);
	q.n = (size_t)snprintf(text, sizeof(text), "%s\n", o->cluster);
	return objects_ask(o, o->curl, &q, &reply, err);
}

int objects_claim(struct objects *o, struct err *err)
{
	struct err own = { 0 };
	char theirs[64] = "";
	int r;

	if (atomic_load(&o->claimed))
		return 0;
	LOCK_SCOPE(&o->misc);
	r = read_marker(o, theirs, &own);
	if (r == -ENOENT && (r = write_marker(o, &own)) == 0)
		r = read_marker(o, theirs, &own);
	if (r == 0 && strcmp(theirs, o->cluster) != 0)
		r = err_set(&own, -EINVAL,
		            "the bucket %s belongs to cluster %.40s, and this is cluster %s: set "
		            "PANDO_OBJECTS to another bucket or prefix",
		            o->s3.at.where, theirs, o->cluster);
	if (r == -ENOENT || r == -EBADMSG)
		r = err_set(&own, -EHOSTUNREACH, "the bucket %s does not keep what is put into it",
		            o->s3.at.where);
	if (r == 0)
		atomic_store(&o->claimed, true);
	else
		look_at(o, r, &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

/* ---- deleting and listing ---- */

int objects_delete(struct objects *o, const char *name, uint32_t n, struct err *err)
{
	int r = objects_claim(o, err);

	LOCK_SCOPE(&o->misc);
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		char key[OBJECT_NAME_SIZE + 12];
		struct s3_req q = { .method = S3_DELETE, .key = key };
		autobuf struct buf reply = { 0 };

		snprintf(key, sizeof(key), "%s/%u", name, i);
		r = objects_ask(o, o->curl, &q, &reply, err);
		if (r == -ENOENT)
			r = 0;
	}
	return r;
}

/* "layers/ly-x/12" below our prefix: its name, and the number. */
static bool ours(const struct objects *o, const char *key, char name[OBJECT_NAME_SIZE],
                 uint32_t *ret_i)
{
	size_t skip = strlen(o->s3.at.prefix);
	const char *slash = strrchr(key, '/');
	char *end = NULL;
	unsigned long i;

	if (strncmp(key, o->s3.at.prefix, skip) != 0 || !slash || slash < key + skip ||
	    (size_t)(slash - key) - skip >= OBJECT_NAME_SIZE || !slash[1] ||
	    slash[1 + strspn(slash + 1, "0123456789")] || strlen(slash + 1) > 7)
		return false;
	i = strtoul(slash + 1, &end, 10);
	snprintf(name, OBJECT_NAME_SIZE, "%.*s", (int)(slash - key - (ptrdiff_t)skip), key + skip);
	*ret_i = (uint32_t)i;
	return true;
}

/* Keys come sorted, so those of one name are together, on one page or two. */
struct run {
	char name[OBJECT_NAME_SIZE];
	uint32_t n;
};

static int tell_run(struct run *now, objects_list_fn fn, void *ctx)
{
	int r = *now->name ? fn(ctx, now->name, now->n) : 0;

	*now = (struct run){ 0 };
	return r;
}

int objects_list(struct objects *o, const char *prefix, objects_list_fn fn, void *ctx,
                 struct err *err)
{
	struct run now = { 0 };
	char token[sizeof(((struct s3_list *)0)->token)] = "";
	bool more = true;
	int r = objects_claim(o, err);

	while (r == 0 && more) {
		AUTO(s3_list_done) struct s3_list l = { 0 };
		{
			LOCK_SCOPE(&o->misc);
			r = ask_list(o, prefix, token, S3_LIST_MAX, &l, err);
		}
		for (size_t i = 0; r >= 0 && i < l.n; i++) {
			char name[OBJECT_NAME_SIZE];
			uint32_t k = 0;

			if (!ours(o, l.keys[i], name, &k))
				continue;
			if (strcmp(name, now.name) != 0)
				r = tell_run(&now, fn, ctx);
			snprintf(now.name, sizeof(now.name), "%s", name);
			now.n = MAX(now.n, k + 1);
		}
		more = l.more;
		memcpy(token, l.token, sizeof(token));
	}
	return r < 0 ? r : tell_run(&now, fn, ctx);
}
