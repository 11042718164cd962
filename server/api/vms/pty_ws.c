/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty_ws.c - open and attach: turns a request into a terminal
 *
 * The VM is woken and the session found or started before the connection is upgraded, so any
 * failure is an ordinary error; a client that got 101 is attached. The caller is identified by a
 * header, by a ticket in the URL, or by the cookie of a session: web pages cannot send headers
 * here. A ticket works for any page it was given to; the cookie only for pages of this server
 * (api/cookie.c).
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest.h"
#include "pty/pty.h"

#define ATTACH_MS 30000 /* for the guest to start or find the session */
#define COLS_DEFAULT 80
#define ROWS_DEFAULT 24
#define SIZE_MAX_CELLS 65535

struct terminal {
	struct upgrade up; /* first */
	struct api *api;
	struct auth_lease lease;
	bool entered;
	struct pty_client c;
};

static void terminal_free(struct upgrade *u)
{
	struct terminal *t = (struct terminal *)u;

	guest_pty_detach(t->c.pty);
	if (t->entered)
		hub_leave(t->api->hub);
	free(t);
}

static void terminal_freep(struct terminal **t)
{
	if (*t)
		terminal_free(&(*t)->up);
}

static void terminal_run(struct upgrade *u, int fd, const void *early, size_t n_early)
{
	struct terminal *t = (struct terminal *)u;

	pty_serve(t->api->hub, &t->c, fd, early, n_early);
}

/* A key or a grant may be revoked while the terminal is open. */
static bool terminal_still(void *ctx)
{
	struct terminal *t = ctx;

	return auth_lease_holds(t->api->deps.auth, &t->lease);
}

static struct terminal *terminal_new(struct request *req, const char *vm_id, const char *user)
{
	struct terminal *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->up = (struct upgrade){ terminal_run, terminal_free };
	t->api = api_of(req);
	auth_lease_take(deps_of(req)->auth, who_of(req), SCOPE_VM_EXEC, vm_id, user, &t->lease);
	t->c.still = terminal_still;
	t->c.ctx = t;
	snprintf(t->c.vm_id, sizeof(t->c.vm_id), "%s", vm_id);
	return t;
}

static int request_size(struct request *req, struct guest_pty_req *q, struct err *err)
{
	uint32_t cols = COLS_DEFAULT, rows = ROWS_DEFAULT;
	int r;

	if ((r = request_query_u32(req, "cols", SIZE_MAX_CELLS, &cols, err)) < 0 ||
	    (r = request_query_u32(req, "rows", SIZE_MAX_CELLS, &rows, err)) < 0)
		return r;
	if (!guest_pty_size_valid(cols, rows))
		return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
		               "a terminal of %u by %u is too small or too large", cols, rows);
	q->cols = cols;
	q->rows = rows;
	return 0;
}

/* For lists while the VM is at rest. */
static void note(struct request *req, struct guest *g, const char *vm_id,
                 const struct guest_pty_info *info)
{
	autofree struct guest_pty_info *list = NULL;
	size_t n;

	if (hub_noted(api_of(req)->hub, vm_id, &list, &n))
		hub_note_one(api_of(req)->hub, vm_id, info);
	else if (guest_pty_list(g, &list, &n, NULL) == 0)
		hub_note(api_of(req)->hub, vm_id, list, n);
}

static int begin(struct request *req, struct reply *res, const char *vm_id, bool attach,
                 const struct guest_pty_req *q, struct err *err)
{
	AUTO(terminal_freep) struct terminal *t = terminal_new(req, vm_id, q->user);
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct guest_pty_info info;
	int r;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	if ((r = hub_enter(api_of(req)->hub, err)) < 0)
		return r;
	t->entered = true;
	r = attach ? pty_guest(req, vm_id, q->id, &g, err)
	           : vmm_guest(deps_of(req)->vmm, who_of(req)->account, vm_id, &g, err);
	if (r < 0)
		return r;
	r = (attach ? guest_pty_attach : guest_pty_open)(g, q, deadline_in(ATTACH_MS), &t->c.pty,
	                                                 &info, err);
	if (r < 0) {
		if (err->tag == ERR_SESSION_CAP_REACHED)
			reply_extra(res, "limit", json_integer(GUEST_PTYS_MAX));
		return r;
	}
	snprintf(t->c.session, sizeof(t->c.session), "%s", info.id);
	note(req, g, vm_id, &info);
	return reply_upgrade(req, res, &TAKE_PTR(t)->up, err);
}

int api_pty_open(struct request *req, struct reply *res, struct err *err)
{
	autofree char *exec = NULL, *session = NULL;
	struct guest_pty_req q = { 0 };
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &q.user, err)) < 0 ||
	    (r = request_size(req, &q, err)) < 0 ||
	    (r = request_query(req, "exec", &exec, err)) < 0 ||
	    (r = request_query(req, "sessionId", &session, err)) < 0)
		return r;
	if (session)
		reply_extra(res, "sessionId", shape_output(session, strlen(session)));
	if (session && !guest_pty_id_valid(session))
		return err_tag(err, -EINVAL, ERR_INVALID_SESSION_ID,
		               "a session id is 1 to %d of a-z A-Z 0-9 . _ -", GUEST_PTY_ID - 1);
	if ((r = upgrade_check(req, err)) < 0)
		return r;
	q.exec = exec;
	q.id = session;
	return begin(req, res, id, /* attach= */ false, &q, err);
}

int api_pty_attach(struct request *req, struct reply *res, struct err *err)
{
	struct guest_pty_req q = { 0 };
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &q.user, err)) < 0 ||
	    (r = request_session(req, res, &q.id, err)) < 0 ||
	    (r = request_size(req, &q, err)) < 0 || (r = upgrade_check(req, err)) < 0)
		return r;
	return begin(req, res, id, /* attach= */ true, &q, err);
}

int ticket_check(struct request *req, struct err *err)
{
	const struct route *route = req->match.route;
	struct auth *auth = deps_of(req)->auth;
	autofree char *text = NULL;
	struct auth_lease lease;
	struct ticket t;
	int r;

	if ((route->handler != api_pty_open && route->handler != api_pty_attach) ||
	    request_header(req, "Authorization") ||
	    request_header(req, "X-Freestyle-Identity-Access-Token"))
		return 0;
	r = request_query(req, "ticket", &text, err);
	if (r < 0 || !text)
		return r;
	r = ticket_use(api_of(req)->hub, text, req->match.arg[0],
	               route->handler == api_pty_attach ? req->match.arg[1] : "",
	               request_header(req, "Origin"), &t, err);
	if (r < 0)
		return r;
	memcpy(&lease, t.who, sizeof(lease));
	if (!auth_lease_holds(auth, &lease))
		return err_tag(err, -EACCES, ERR_UNAUTHORIZED,
		               "the issuer of this ticket no longer has access");
	*who_of(req) = lease.who;
	caller_of(req)->by_ticket = true;
	snprintf(caller_of(req)->ticket_user, sizeof(caller_of(req)->ticket_user), "%s", t.user);
	return 1;
}
