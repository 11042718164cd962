/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cross.c - requests that another node of the cluster has to answer
 *
 * A request about a VM or a repository is admitted here as any other: key, permission, rates and
 * limits. If another node has what it is about, it is then sent there with the client's own
 * credentials, which that node checks again: a node can do nothing for a client that the client
 * could not do itself. The owner writes the audit record, which has the client's address.
 *
 * Bodies that handlers get whole are sent whole; those with an intake are passed on as they come,
 * and wait for the owner to take them. What comes back is in cross_reply.c.
 *
 * A request that another node has passed on is never passed on again. If the VM has moved in
 * between, the owner says so before it has read a body, and the first node looks once more.
 *
 * An idle connection may end just when it is used. Whoever only reads then asks again on a new one;
 * anything else fails with a sentence that says it may have been done.
 */
#include "api/cross.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/git/shared.h"
#include "api/vms/shared.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/log.h"
#include "vm/vmm.h"

#define RETRY_S 3     /* told to those whose owner cannot be reached */
#define ROOM_MB 512   /* with less free memory nothing new is made here */
#define CHUNK_LINE 16 /* bytes of a chunk's size in hex, and its line's end */
#define VM_PATH "/v1/vms/{vm_id}"

/* ---- where ---- */

static bool makes_something(const struct request *req)
{
	handler_fn h = req->match.route->handler;

	return h == api_vm_create || h == api_code || h == api_snapshot_create;
}

/* The snapshot that it starts from may be at home elsewhere; else it goes where there is room, if
 * this node takes nothing new, or has none. */
static struct place place_of_new(struct request *req, struct err *err)
{
	struct peers *peers = deps_of(req)->peers;
	struct place ret = { .kind = PLACE_HERE };
	const char *snapshot, *key = request_header(req, "Idempotency-Key");
	char home[ID_SIZE];
	json_t *body;

	/* Sent again while it still runs elsewhere: that node has the thread to wait for. */
	if (key && (req->match.route->flags & ROUTE_BACKGROUND) &&
	    store_request_node(deps_of(req)->store, who_of(req)->account, key, home, err) == 0 &&
	    *home)
		return place_of_node(peers, home, err);

	if (req->body.len && request_json(req, ERR_BAD_REQUEST, &body, err) == 0 &&
	    (snapshot = json_string_value(json_object_get(body, "snapshotId"))) &&
	    vmm_snapshot_elsewhere(deps_of(req)->vmm, snapshot, home) &&
	    (ret = place_of_files(peers, home)).kind == PLACE_NODE)
		return ret;
	if (vmm_draining(deps_of(req)->vmm))
		place_for_new(peers, /* min_mb= */ 0, &ret);
	else if (vmm_room_mb(deps_of(req)->vmm) < ROOM_MB)
		place_for_new(peers, ROOM_MB, &ret);
	return ret;
}

static struct place where(struct request *req, struct err *err)
{
	struct peers *peers = deps_of(req)->peers;
	const struct route *route = req->match.route;
	const char *vm = request_arg(req, "{vm_id}");

	if (vm && strncmp(route->pattern, VM_PATH, strlen(VM_PATH)) == 0)
		return place_of_vm(peers, vm, err);
	if (*caller_of(req)->repo_id && request_arg(req, "{repo}"))
		return place_of_repo(peers, caller_of(req)->repo_id, err);
	if (makes_something(req))
		return place_of_new(req, err);
	return (struct place){ .kind = PLACE_HERE };
}

/* What every node can say of a VM, if its own cannot: it is in the database. */
static bool known_anyway(const struct request *req)
{
	return req->match.route->handler == api_vm_get;
}

bool cross_ticket(struct request *req)
{
	handler_fn h = req->match.route->handler;
	autofree char *ticket = NULL;
	struct err err = { 0 };

	return deps_of(req)->peers && !*req->node && (h == api_pty_open || h == api_pty_attach) &&
	       !request_header(req, "Authorization") &&
	       !request_header(req, "X-Freestyle-Identity-Access-Token") &&
	       request_query(req, "ticket", &ticket, &err) == 0 && ticket &&
	       where(req, &err).kind != PLACE_HERE;
}

/* ---- the request ---- */

struct head {
	struct buf *out;
	const char *skip;
	bool upgrade;
};

static void put_field(void *ctx, const char *name, const char *value)
{
	/* About the connection, or said anew; or what only nodes and our own edge may say. */
	static const char *const dropped[] = {
		"Connection", "Keep-Alive",      "Proxy-Connection",  "TE",
		"Trailer",    "Upgrade",         "Transfer-Encoding", "Content-Length",
		"Expect",     "X-Forwarded-For", "X-Pando-Edge",      "X-Pando-Vm",
	};
	struct head *h = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(dropped); i++)
		if (strcasecmp(name, dropped[i]) == 0)
			return;
	if (strncasecmp(name, "X-Pando-Node-", 13) == 0 ||
	    (h->skip && strcasecmp(name, h->skip) == 0) || !h1_token(name, strlen(name)) ||
	    !h1_value(value, strlen(value)))
		return;
	buf_printf(h->out, "%s: %s\r\n", name, value);
}

static void put_head(struct cross *f, const char *more, const char *skip, uint64_t length,
                     struct buf *out)
{
	struct request *req = f->req, *outer = req->outer ? req->outer : req;
	struct head h = { .out = out, .skip = skip };
	bool upgrade = request_header(req, "Upgrade") && req->conn;
	char remote[HTTP_ORIGIN_SIZE];

	buf_printf(out, "%s ", req->method_text);
	request_target_text(req, out);
	buf_printf(out, " HTTP/1.1\r\n");
	request_each_header(req, put_field, &h);
	request_remote_text(outer, remote, sizeof(remote));
	if (strncmp(remote, "vm:", 3) == 0)
		buf_printf(out, NODE_VM ": %s\r\n", remote + 3);
	else
		buf_printf(out, NODE_CLIENT ": %s\r\n", remote);
	buf_printf(out, NODE_TRACE ": %s\r\n%s", req->trace, more);
	if (upgrade)
		buf_printf(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
	if (f->chunked)
		buf_printf(out, "Transfer-Encoding: chunked\r\n");
	else if (length || strcmp(req->method_text, "GET") != 0)
		buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
	buf_printf(out, "\r\n");
}

static struct cross *cross_new(struct request *req, const char *node)
{
	struct cross *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->req = req;
	f->since_us = clock_us();
	snprintf(f->node, sizeof(f->node), "%s", node);
	return f;
}

/* A failure between nodes: counted, and worth trying again soon. */
static int failed(int r, struct err *err)
{
	metrics_add(METRIC_FORWARD_FAILURES, 0, 1);
	if (err_fact_get(err, ERR_FACT_RETRY) < 0)
		err_fact(err, ERR_FACT_RETRY, RETRY_S);
	return r;
}

/* One attempt, up to the head of the reply. */
static int attempt(struct cross *f, const char *more, const char *skip, bool fresh, struct err *err)
{
	autobuf struct buf head = { 0 };
	const char *body = NULL;
	size_t n = 0;
	int r;

	if (f->req->body.len && (r = body_view(&f->req->body, &body, &n, err)) < 0)
		return r;
	put_head(f, more, skip, n, &head);
	if (head.failed)
		return err_set(err, -ENOMEM, "out of memory");
	f->c = peer_drop(f->c);
	buf_reset(&f->in);
	f->at = f->scan = 0;
	if ((r = peer_get(deps_of(f->req)->peers, f->node, fresh, &f->c, &f->used, err)) < 0 ||
	    (r = peer_write(f->c, head.p, head.len, err)) < 0)
		return r;
	/* An owner that refuses may answer without having read all of it. */
	if (n && peer_write(f->c, body, n, err) < 0)
		log_debug("node %s did not take the whole body", f->node);
	return cross_head(f, err);
}

static int ask(struct cross *f, const char *more, const char *skip, struct err *err)
{
	bool reads = f->req->match.route->method == METHOD_GET ||
	             (f->req->match.route->flags & ROUTE_READS);
	int r = attempt(f, more, skip, /* fresh= */ false, err);

	if (r < 0 && f->used && !f->heard && reads) {
		*err = (struct err){ 0 };
		r = attempt(f, more, skip, /* fresh= */ true, err);
	}
	return r;
}

static bool has_moved(const struct cross *f)
{
	return f->head.status == 503 && h1_find(&f->head, NODE_MOVED);
}

int cross_to(struct request *req, struct reply *res, const char *node, const char *more,
             const char *skip, struct err *err)
{
	AUTO(cross_freep) struct cross *f = cross_new(req, node);
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	r = ask(f, more, skip, err);
	if (r < 0)
		return failed(r, err);
	caller_of(req)->forwarded = !has_moved(f);
	r = cross_answer(TAKE_PTR(f), res, err);
	return r < 0 ? failed(r, err) : 0;
}

int cross_tell(struct request *req, const char *node, const char *more, const char *skip,
               struct err *err)
{
	AUTO(cross_freep) struct cross *f = cross_new(req, node);
	int r = f ? ask(f, more, skip, err) : err_set(err, -ENOMEM, "out of memory");

	return r < 0 ? failed(r, err) : 0;
}

/* It came from a node that believes that this one has it. */
static int not_here(struct reply *res, struct err *err)
{
	reply_header(res, NODE_MOVED, "1");
	return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	               "it is not on this node any more: try again in a few seconds");
}

/* ---- bodies that are passed on while they come ---- */

static int begin_stream(struct request *req, struct err *err)
{
	const char *length = request_header(req, "Content-Length");
	autobuf struct buf head = { 0 };
	struct cross *f = req->intake;
	int r;

	f->streaming = true;
	f->chunked = !length;
	f->expects = request_header(req, "Expect");
	put_head(f, f->expects ? "Expect: 100-continue\r\n" : "", NULL,
	         length ? strtoull(length, NULL, 10) : 0, &head);
	if (head.failed)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = peer_get(deps_of(req)->peers, f->node, /* fresh= */ false, &f->c, &f->used, err)) <
	            0 ||
	    (r = peer_write(f->c, head.p, head.len, err)) < 0 ||
	    (f->expects && (r = cross_head(f, err)) < 0))
		return failed(r, err);
	/* The client sends it only if the owner wants it. */
	if (f->expects && r == 0)
		return cross_refusal(f, err);
	f->expects = false;
	return 0;
}

static int open_stream(struct request *req, struct err *err)
{
	struct place p = where(req, err);
	struct cross *f;

	if (p.kind == PLACE_GONE)
		return failed(err->code, err);
	if (p.kind == PLACE_HERE)
		return err_tag(err, -EAGAIN, ERR_NODE_UNAVAILABLE,
		               "its node has changed just now: try again in a moment");
	f = req->intake = cross_new(req, p.node);
	return f ? begin_stream(req, err) : err_set(err, -ENOMEM, "out of memory");
}

/* An owner that takes no more has answered, or is gone: its reply, or the lack of one, says which.
 */
static int stream_data(struct request *req, const void *p, size_t n, struct err *err)
{
	struct cross *f = req->intake;
	struct err why = { 0 };
	char line[CHUNK_LINE + 8];
	int r = 0;

	if (f->full || n == 0)
		return 0;
	if (f->chunked) {
		snprintf(line, sizeof(line), "%zx\r\n", n);
		r = peer_write(f->c, line, strlen(line), &why);
	}
	if (r == 0)
		r = peer_write(f->c, p, n, &why);
	if (r == 0 && f->chunked)
		r = peer_write(f->c, "\r\n", 2, &why);
	f->full = r < 0;
	return 0;
}

static void drop_stream(void *ctx)
{
	cross_free(ctx);
}

static const struct intake stream_intake = { open_stream, stream_data, drop_stream };

void cross_intake(struct request *req, const struct intake **intake)
{
	struct err unused = { 0 };

	if (!*req->node && where(req, &unused).kind != PLACE_HERE)
		*intake = &stream_intake;
}

static int end_stream(struct request *req, struct reply *res, struct err *err)
{
	AUTO(cross_freep) struct cross *f = TAKE_PTR(req->intake);
	struct err why = { 0 };
	int r;

	if (f->chunked && !f->full)
		f->full = peer_write(f->c, "0\r\n\r\n", 5, &why) < 0;
	if ((r = cross_head(f, err)) < 0)
		return failed(r, err);
	caller_of(req)->forwarded = !has_moved(f);
	r = cross_answer(TAKE_PTR(f), res, err);
	return r < 0 ? failed(r, err) : 0;
}

/* ---- all requests ---- */

/* 1: look again where it is. */
static int once(struct request *req, struct reply *res, const char *node, bool again,
                struct err *err)
{
	AUTO(cross_freep) struct cross *f = cross_new(req, node);
	int r;

	if (!f)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = ask(f, "", NULL, err)) < 0)
		return failed(r, err);
	if (again && has_moved(f))
		return 1;
	caller_of(req)->forwarded = !has_moved(f);
	r = cross_answer(TAKE_PTR(f), res, err);
	return r < 0 ? failed(r, err) : 0;
}

int cross_run(struct request *req, struct reply *res, struct err *err)
{
	struct err why = { 0 };

	if (!deps_of(req)->peers || req->match.route->scope == SCOPE_FROM_VM)
		return 1;
	if (req->taker == &stream_intake)
		return end_stream(req, res, err);
	for (int i = 0; i < 2; i++) {
		struct place p = where(req, &why);
		int r;

		if (p.kind == PLACE_HERE)
			return 1;
		if (*req->node && !makes_something(req))
			return not_here(res, err);
		if (*req->node)
			return 1;
		r = p.kind == PLACE_GONE ? failed(why.code, &why)
		                         : once(req, res, p.node, /* again= */ i == 0, &why);
		if (r < 0 && known_anyway(req) && why.tag == ERR_NODE_UNAVAILABLE) {
			reply_done(res);
			caller_of(req)->forwarded = false;
			return 1;
		}
		if (r != 1) {
			*err = why;
			return r;
		}
	}
	return err_tag(err, -EHOSTUNREACH, ERR_NODE_UNAVAILABLE,
	               "its node is changing just now: try again in a few seconds");
}
