/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pty.c - terminal sessions: list, close, tickets
 *
 * A list must not wake a suspended VM: it then shows the last known sessions, as
 * suspended. Only if none are known (a fork that nobody asked yet, or the server has restarted
 * since) is the VM asked, and with ?wake=false not even then. A stopped VM has none.
 */
#include "api/vms/shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "guest/guest.h"
#include "pty/pty.h"

#define TAG ERR_BAD_REQUEST

int request_session(struct request *req, struct reply *res, const char **ret, struct err *err)
{
	const char *id = req->match.arg[1];

	reply_extra(res, "sessionId", shape_output(id, strlen(id)));
	if (!guest_pty_id_valid(id))
		return err_tag(err, -EINVAL, ERR_INVALID_SESSION_ID,
		               "a session id is 1 to %d of a-z A-Z 0-9 . _ -", GUEST_PTY_ID - 1);
	*ret = id;
	return 0;
}

int pty_guest(struct request *req, const char *vm_id, const char *session, struct guest **ret,
              struct err *err)
{
	int r = vmm_guest_thawed(deps_of(req)->vmm, who_of(req)->account, vm_id, ret, err);

	return r == -EHOSTDOWN ? err_tag(err, -ENOENT, ERR_SESSION_NOT_FOUND,
	                                 "there is no session '%s': the VM is stopped", session)
	                       : r;
}

static json_t *shape(const struct guest_pty_info *s, bool asleep)
{
	bool suspended = asleep && s->running;
	json_t *j = json_pack("{s:s, s:b, s:i, s:i, s:I, s:i, s:o, s:o}", "sessionId", s->id,
	                      "running", s->running && !asleep, "cols", (int)s->cols, "rows",
	                      (int)s->rows, "createdAtMs", (json_int_t)s->created_ms,
	                      "attachedCount", asleep ? 0 : (int)s->clients, "exec",
	                      *s->exec ? shape_output(s->exec, strlen(s->exec)) : json_null(),
	                      "user", shape_output(s->user, strlen(s->user)));

	json_object_set_new(j, "exitCode", s->running ? json_null() : json_integer(s->exit_code));
	json_object_set_new(j, "exitedAtMs", s->running ? json_null() : json_integer(s->exited_ms));
	json_object_set_new(j, "suspended", json_boolean(suspended));
	return j;
}

/* The sessions; *ret_asleep: as known before the VM was suspended; *ret_known false: nobody can
 * tell without waking it, which the caller does not want. */
static int look(struct request *req, const char *id, bool wake, struct guest_pty_info **ret,
                size_t *ret_n, bool *ret_asleep, bool *ret_known, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	struct vm_info info;
	int r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &info, err);

	*ret_asleep = false;
	*ret_known = true;
	if (r < 0)
		return r;
	if (info.state == VM_STOPPED || info.state == VM_LOST)
		return 0;
	if (info.state == VM_SUSPENDED || info.state == VM_SUSPENDING) {
		*ret_asleep = hub_noted(api_of(req)->hub, id, ret, ret_n);
		*ret_known = *ret_asleep;
		if (*ret_asleep || !wake)
			return 0;
	}
	*ret_known = true;
	r = vmm_guest_thawed(deps_of(req)->vmm, who_of(req)->account, id, &g, err);
	if (r == -EHOSTDOWN)
		return 0; /* stopped meanwhile */
	if (r < 0 || (r = guest_pty_list(g, ret, ret_n, err)) < 0)
		return r;
	hub_note(api_of(req)->hub, id, *ret, *ret_n);
	return 0;
}

int api_pty_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct guest_pty_info *list = NULL;
	const char *id, *user;
	bool asleep, known, wake = true;
	size_t n = 0;
	json_t *all, *j;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, TAG, &user, err)) < 0 ||
	    (r = request_query_bool(req, "wake", &wake, err)) < 0 ||
	    (r = look(req, id, wake, &list, &n, &asleep, &known, err)) < 0)
		return r;
	all = json_array();
	for (size_t i = 0; i < n; i++)
		if ((!user || strcmp(user, list[i].user) == 0) && (list[i].running || !asleep))
			json_array_append_new(all, shape(&list[i], asleep));
	j = json_pack("{s:o}", "sessions", all);
	if (!wake)
		json_object_set_new(j, "known", json_boolean(known));
	return reply_json(res, j, err);
}

int api_pty_close(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	const char *id, *user, *session;
	int r, code;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, TAG, &user, err)) < 0 ||
	    (r = request_session(req, res, &session, err)) < 0 ||
	    (r = pty_guest(req, id, session, &g, err)) < 0 ||
	    (r = guest_pty_close(g, session, user, &code, err)) < 0)
		return r;
	hub_note_end(api_of(req)->hub, id, session);
	return reply_json(res,
	                  json_pack("{s:s, s:o}", "sessionId", session, "exitCode",
	                            code < 0 ? json_null() : json_integer(code)),
	                  err);
}

struct ticket_body {
	char session[GUEST_PTY_ID + 1], origin[256];
	int64_t ttl_s;
};
static const struct json_field ticket_fields[] = {
	JSON_FIELD_STR(ticket_body, session, "sessionId", JSON_NULLABLE),
	JSON_FIELD_STR(ticket_body, origin, "origin", JSON_NULLABLE),
	JSON_FIELD(JSON_WANT_I64, ticket_body, ttl_s, "ttlSeconds", JSON_NULLABLE, 1,
	           TICKET_TTL_MAX),
};
JSON_TABLE(PtyTicketNew, ticket_fields);

static json_t *ticket_url(struct request *req, const struct ticket *t, const char *text)
{
	char base[300];

	request_base(req, base, sizeof(base));
	return json_sprintf("ws%s/v1/vms/%s/pty%s%s?ticket=%s", base + strlen("http"), t->vm_id,
	                    *t->session ? "/sessions/" : "", t->session, text);
}

int api_pty_ticket(struct request *req, struct reply *res, struct err *err)
{
	struct ticket_body b = { .ttl_s = TICKET_TTL_DEFAULT };
	struct auth_lease lease;
	struct ticket t = { 0 };
	char text[TICKET_SIZE];
	const char *id, *user;
	struct vm_info info;
	int r;

	_Static_assert(sizeof(t.who) >= sizeof(lease), "a ticket knows who made it");
	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, TAG, &user, err)) < 0 ||
	    (r = request_fields(req, TAG, ticket_fields, ARRAY_SIZE(ticket_fields), &b, err)) < 0)
		return r;
	if (*b.session && !guest_pty_id_valid(b.session))
		return err_tag(err, -EINVAL, ERR_INVALID_SESSION_ID,
		               "a session id is 1 to %d of a-z A-Z 0-9 . _ -", GUEST_PTY_ID - 1);
	if ((r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &info, err)) < 0)
		return r;
	snprintf(t.vm_id, sizeof(t.vm_id), "%s", id);
	snprintf(t.session, sizeof(t.session), "%s", b.session);
	snprintf(t.user, sizeof(t.user), "%s", user ? user : "");
	snprintf(t.origin, sizeof(t.origin), "%s", b.origin);
	auth_lease_take(deps_of(req)->auth, who_of(req), SCOPE_VM_EXEC, id, user, &lease);
	memcpy(t.who, &lease, sizeof(lease));
	if ((r = ticket_make(api_of(req)->hub, &t, (unsigned)b.ttl_s, text, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:o}", "ticket", text, "expiresAt",
	                            shape_time(clock_wall_ms() + b.ttl_s * 1000), "url",
	                            ticket_url(req, &t, text)),
	                  err);
}
