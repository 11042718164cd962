/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.c - GET /v1/events: what happens in the account, as server-sent events
 *
 * First "hello" with the newest number; then each event with its number as the id, so that a client
 * which comes back with Last-Event-ID misses nothing and sees nothing twice. If what it missed is
 * not kept any more, it is told so by "gap", and goes on from now. docs/EVENTS.md is for clients.
 *
 * An identity sees what concerns the VMs that were granted to it. The grants of a VM are gone when
 * its deletion is read, so those that the stream has shown are remembered.
 */
#include "api/call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "events/feed.h"
#include "store/store_hook.h"

#define STALL_MS 30000    /* for a client to take what is there; then it may come back */
#define TYPES_MAX 32      /* patterns */
#define SEEN_MAX 256      /* VMs that an identity's stream remembers */
#define SEND_AHEAD KIB(8) /* what is produced at a time */

struct stream {
	struct api *api;
	struct feed_reader *r; /* owned */
	struct sse out;
	char *types; /* owned; "a\0b\0\0", or NULL: all */
	char identity[ID_SIZE];
	char (*seen)[ID_SIZE]; /* owned */
	size_t n_seen;
	bool once; /* it ends with what is there */
};

static void stream_free(void *ctx)
{
	struct stream *s = ctx;

	feed_close_reader(s->r);
	buf_done(&s->out.out);
	free(s->types);
	free(s->seen);
	free(s);
}

static void stream_freep(struct stream **s)
{
	if (*s)
		stream_free(*s);
}

static bool wants_type(const struct stream *s, const char *type)
{
	if (!s->types)
		return true;
	for (const char *p = s->types; *p; p += strlen(p) + 1)
		if (event_covers(p, type))
			return true;
	return false;
}

static bool was_seen(const struct stream *s, const char *vm)
{
	for (size_t i = 0; i < s->n_seen; i++)
		if (strcmp(s->seen[i], vm) == 0)
			return true;
	return false;
}

/* May the identity see it? */
static bool may_see(struct stream *s, const char *vm)
{
	struct store_grant g;

	if (!*s->identity)
		return true;
	if (!*vm)
		return false;
	if (store_grant_get(s->api->deps.store, s->identity, GRANT_VM, vm, &g, NULL) < 0)
		return was_seen(s, vm);
	if (!s->seen)
		s->seen = calloc(SEEN_MAX, sizeof(*s->seen));
	if (s->seen && !was_seen(s, vm))
		snprintf(s->seen[s->n_seen++ % SEEN_MAX], ID_SIZE, "%s", vm);
	s->n_seen = MIN(s->n_seen, (size_t)SEEN_MAX);
	return true;
}

static void put_event(struct stream *s, const struct store_feed_event *e)
{
	char at[CLOCK_RFC3339_LEN];

	buf_printf(&s->out.out,
	           "id: %" PRId64 "\nevent: %s\ndata: {\"id\":%" PRId64
	           ",\"type\":\"%s\",\"createdAt\":\"%s\"%s",
	           e->seq, e->type, e->seq, e->type, clock_rfc3339(e->at_ms, at),
	           *e->text ? "," : "");
	buf_put(&s->out.out, e->text, strlen(e->text)); /* JSON text has no line breaks */
	buf_put(&s->out.out, "}\n\n", 3);
}

static void put_gap(struct stream *s, int64_t last)
{
	buf_printf(&s->out.out, "id: %" PRId64 "\nevent: gap\ndata: {\"lastId\":%" PRId64 "}\n\n",
	           last, last);
}

static int more(struct stream *s, struct err *err)
{
	struct store_feed_event *v = NULL;
	int64_t last = 0;
	bool gap = false;
	size_t n = 0;
	int r = feed_read(s->r, &v, &n, &gap, &last, err);

	if (r < 0)
		return r;
	if (gap)
		put_gap(s, last);
	for (size_t i = 0; i < n; i++)
		if (wants_type(s, v[i].type) && may_see(s, v[i].vm))
			put_event(s, &v[i]);
	store_feed_free(v, n);
	return gap || n > 0;
}

static ssize_t stream_next(void *ctx, char *p, size_t max, struct err *err)
{
	struct stream *s = ctx;
	int r = 1;

	while (r > 0 && s->out.out.len - s->out.sent < SEND_AHEAD)
		r = more(s, err);
	if (r == 0 && s->once && s->out.out.len == s->out.sent)
		return -ENODATA;
	return r < 0 ? r : sse_drain(&s->out, p, max);
}

static int stream_fd(void *ctx)
{
	return feed_fd(((struct stream *)ctx)->r);
}

static unsigned stream_stall(void *ctx)
{
	return STALL_MS;
}

static const struct outflow_ops stream_ops = { .next = stream_next,
	                                       .fd = stream_fd,
	                                       .free = stream_free,
	                                       .stall_ms = stream_stall,
	                                       .beat = ": beat\n\n",
	                                       .endless = true,
	                                       .ends_well = true };

/* The number after which it begins; -1: now. */
static int read_after(struct request *req, int64_t *ret, struct err *err)
{
	const char *last = request_header(req, "Last-Event-ID");
	autofree char *asked = NULL;
	int r = request_query(req, "after", &asked, err);
	char *end = NULL;

	*ret = -1;
	if (r < 0)
		return r;
	if (last && *last) /* a browser that comes back: newer than what its URL says */
		asked = (free(asked), strdup(last));
	if (!asked || !*asked)
		return 0;
	errno = 0;
	*ret = strtoll(asked, &end, 10);
	if (errno || *end || *asked < '0' || *asked > '9')
		return err_tag(err, -EINVAL, ERR_INVALID_QUERY,
		               "'after', or Last-Event-ID, must be the id of an event: a number");
	return 0;
}

static int read_types(struct request *req, char **ret, struct err *err)
{
	autofree char *text = NULL, *list = NULL;
	size_t n = 0, at = 0;
	int r = request_query(req, "types", &text, err);

	if (r < 0 || !text || !*text)
		return r;
	list = calloc(strlen(text) + 2, 1);
	if (!list)
		return err_set(err, -ENOMEM, "out of memory");
	for (const char *p = text; *p;) {
		size_t k = strcspn(p, ",");

		memcpy(list + at, p, k);
		if (!event_known(list + at) || ++n > TYPES_MAX)
			return err_tag(err, -EINVAL, ERR_INVALID_QUERY,
			               "'types' must be up to %d types of events or patterns like "
			               "vm.*, with commas between them: '%.40s' is none",
			               TYPES_MAX, list + at);
		at += k + 1;
		p += k + (p[k] == ',');
	}
	*ret = TAKE_PTR(list);
	return 0;
}

int api_events(struct request *req, struct reply *res, struct err *err)
{
	AUTO(stream_freep) struct stream *s = calloc(1, sizeof(*s));
	int64_t after, last, lost;
	bool follow = true;
	int r;

	if (!s)
		return err_set(err, -ENOMEM, "out of memory");
	s->api = api_of(req);
	snprintf(s->identity, sizeof(s->identity), "%s", who_of(req)->identity);
	if ((r = read_after(req, &after, err)) < 0 || (r = read_types(req, &s->types, err)) < 0 ||
	    (r = request_query_bool(req, "follow", &follow, err)) < 0 ||
	    (r = feed_open(s->api->feed, who_of(req)->account, after, &s->r, err)) < 0 ||
	    (r = store_feed_range(deps_of(req)->store, who_of(req)->account, &last, &lost, err)) <
	            0)
		return r;
	s->once = !follow;
	if (after < 0) /* a client that loses this connection can come back to here */
		buf_printf(&s->out.out, "id: %" PRId64 "\n", feed_place(s->r));
	sse_event(&s->out, "hello",
	          json_pack("{s:I, s:s}", "lastId",
	                    (json_int_t)(after < 0 ? feed_place(s->r) : last), "server",
	                    feed_run(s->api->feed)));
	reply_header(res, "Cache-Control", "no-store");
	return reply_flow(req, res, &stream_ops, TAKE_PTR(s), OUTFLOW_UNKNOWN, "text/event-stream",
	                  err);
}
