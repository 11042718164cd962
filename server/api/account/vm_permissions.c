/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vm_permissions.c - which VMs an identity may use, and as which Linux users
 *
 * allowedUsers null or absent means any user; a list means only these. With an empty list the
 * identity may only view and start the VM.
 */
#include "api/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/auto.h"

#define TAG ERR_INVALID_PARAMETERS

struct perm_body {
	json_t *users;
};
static const struct json_field perm_fields[] = {
	JSON_FIELD(JSON_WANT_ANY, perm_body, users, "allowedUsers", 0, 0, 0, "string[] | null",
	           "names of Linux users; null: all"),
};
JSON_TABLE(VmPermissionNew, perm_fields);

static json_t *shape_users(const struct store_grant *g)
{
	json_t *list;

	if (g->any_user)
		return json_null();
	list = json_array();
	for (const char *p = g->users; *p; p += strcspn(p, ",") + 1)
		json_array_append_new(list, json_stringn(p, strcspn(p, ",")));
	return list;
}

static json_t *shape_perm(const struct store_grant *g)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o, s:s}", "id", g->id, "vmId", g->target,
	                 "identityId", g->identity, "allowedUsers", shape_users(g), "grantedAt",
	                 shape_time(g->granted_ms), "grantedBy", g->granted_by);
}

static int read_users(struct request *req, struct store_grant *g, struct err *err)
{
	struct perm_body b = { 0 };
	size_t i, n = 0;
	json_t *item;
	int r = request_fields(req, TAG, perm_fields, ARRAY_SIZE(perm_fields), &b, err);

	if (r < 0)
		return r;
	g->any_user = !b.users || json_is_null(b.users);
	if (g->any_user)
		return 0;
	if (!json_is_array(b.users) || json_array_size(b.users) > GRANT_USERS_MAX)
		return err_tag(err, -EINVAL, TAG,
		               "'allowedUsers' must be null or a list of at most %d names",
		               GRANT_USERS_MAX);
	json_array_foreach(b.users, i, item)
	{
		const char *name = json_string_value(item);

		if (!name || strlen(name) != json_string_length(item) || !linux_user_valid(name))
			return err_tag(err, -EINVAL, TAG,
			               "'allowedUsers' must contain names of Linux users");
		n += (size_t)snprintf(g->users + n, sizeof(g->users) - n, "%s,", name);
	}
	return 0;
}

/* The identity and the VM named in the path. */
static int read_path(struct request *req, struct store_grant *g, struct err *err)
{
	const char *vm;
	int r = request_vm_id(req, 1, &vm, err);

	if (r < 0)
		return r;
	*g = (struct store_grant){ .kind = GRANT_VM };
	snprintf(g->identity, sizeof(g->identity), "%s", req->match.arg[0]);
	snprintf(g->target, sizeof(g->target), "%s", vm);
	if (strlen(req->match.arg[0]) >= sizeof(g->identity))
		return err_tag(err, -ENOENT, ERR_IDENTITY_NOT_FOUND, "there is no such identity");
	return 0;
}

int api_vm_perm_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_grant *v = NULL;
	autojson json_t *items = json_array();
	size_t n = 0, first, end;
	uint32_t offset;
	int r;

	if ((r = auth_grant_list(deps_of(req)->auth, who_of(req)->account, req->match.arg[0],
	                         GRANT_VM, &v, &n, err)) < 0 ||
	    (r = request_page(req, n, &first, &end, &offset, err)) < 0)
		return r;
	for (size_t i = first; i < end; i++)
		if (json_array_append_new(items, shape_perm(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res,
	                  json_pack("{s:O, s:I, s:I}", "permissions", items, "offset",
	                            (json_int_t)offset, "total", (json_int_t)n),
	                  err);
}

int api_vm_perm_get(struct request *req, struct reply *res, struct err *err)
{
	struct store_grant g;
	int r;

	if ((r = read_path(req, &g, err)) < 0 ||
	    (r = auth_grant_get(deps_of(req)->auth, who_of(req)->account, g.identity, GRANT_VM,
	                        g.target, &g, err)) < 0)
		return r;
	return reply_json(res, shape_perm(&g), err);
}

int api_vm_perm_grant(struct request *req, struct reply *res, struct err *err)
{
	struct store_grant g;
	int r;

	if ((r = read_path(req, &g, err)) < 0 || (r = read_users(req, &g, err)) < 0 ||
	    (r = auth_grant(deps_of(req)->auth, who_of(req)->account, &g, err)) < 0)
		return r;
	return reply_json(res, shape_perm(&g), err);
}

int api_vm_perm_update(struct request *req, struct reply *res, struct err *err)
{
	struct store_grant g;
	int r;

	if ((r = read_path(req, &g, err)) < 0 || (r = read_users(req, &g, err)) < 0 ||
	    (r = auth_grant_update(deps_of(req)->auth, who_of(req)->account, &g, err)) < 0)
		return r;
	return reply_json(res, shape_perm(&g), err);
}

int api_vm_perm_revoke(struct request *req, struct reply *res, struct err *err)
{
	struct store_grant g;
	int r;

	if ((r = read_path(req, &g, err)) < 0 ||
	    (r = auth_grant_revoke(deps_of(req)->auth, who_of(req)->account, g.identity, GRANT_VM,
	                           g.target, err)) < 0)
		return r;
	return reply_json(res, json_object(), err);
}
