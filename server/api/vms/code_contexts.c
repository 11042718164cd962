/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_contexts.c - contexts of the code interpreter: create, list, restart, interrupt, delete
 *
 * They live in the VM's memory: a suspended VM is resumed for the query, a stopped one has none and
 * is not booted.
 */
#include "api/vms/cell.h"
#include "api/vms/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

static json_t *shape_context(const struct guest_context *c)
{
	static const char *const states[] = { [AGENT_CODE_NONE] = "none",
		                              [AGENT_CODE_STARTING] = "starting",
		                              [AGENT_CODE_IDLE] = "idle",
		                              [AGENT_CODE_BUSY] = "busy" };
	char id[CONTEXT_ID_SIZE];

	cell_context_id(c->context, id);
	return json_pack("{s:s, s:s, s:o, s:s, s:b, s:I, s:I, s:o, s:o}", "contextId", id,
	                 "language", agent_language_name(c->language), "cwd",
	                 shape_output(c->cwd, strlen(c->cwd)), "state", states[c->state], "default",
	                 c->is_default, "executionCount", (json_int_t)c->count, "waiting",
	                 (json_int_t)c->waiting, "user",
	                 *c->user ? shape_output(c->user, strlen(c->user)) : json_string("root"),
	                 "createdAt", shape_time(c->created_ms));
}

struct context_body {
	const char *language, *cwd;
	json_t *env;
};
static const struct json_field context_fields[] = {
	JSON_FIELD(JSON_WANT_STRREF, context_body, language, "language", JSON_REQUIRED, 0, 32),
	JSON_FIELD(JSON_WANT_STRREF, context_body, cwd, "cwd", JSON_NULLABLE, 0,
	           AGENT_CODE_CWD_MAX - 1),
	JSON_FIELD(JSON_WANT_OBJECT, context_body, env, "env", JSON_NULLABLE, 0, 0, "{*: string}"),
};
JSON_TABLE(ContextNew, context_fields);

int api_context_create(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	AUTO(env_list_done) struct env_list env = { 0 };
	struct context_body b = { 0 };
	struct guest_context_req q = { .env = (const char *const *)env.v };
	struct guest_context c;
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &q.user, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, context_fields, ARRAY_SIZE(context_fields),
	                        &b, err)) < 0 ||
	    (r = code_language(b.language, &q.language, err)) < 0 ||
	    (r = parse_env(b.env, AGENT_CODE_ENV_MAX, &env, err)) < 0)
		return r;
	if (b.cwd && b.cwd[0] != '/')
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'cwd' must be an absolute path");
	if ((r = vmm_guest(deps_of(req)->vmm, who_of(req)->account, id, &g, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	q.cwd = b.cwd ? b.cwd : *v.workdir ? v.workdir : NULL;
	r = guest_context_create(g, &q, &c, err);
	return r < 0 ? cell_error(r, err) : reply_json(res, shape_context(&c), err);
}

int api_context_list(struct request *req, struct reply *res, struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	autofree struct guest_context *all = NULL;
	const char *id, *user;
	json_t *list;
	size_t n = 0;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &user, err)) < 0)
		return r;
	r = vmm_guest_thawed(deps_of(req)->vmm, who_of(req)->account, id, &g, err);
	if (r < 0 && r != -EHOSTDOWN)
		return r;
	if (r == 0 && (r = guest_contexts(g, user, &all, &n, err)) < 0)
		return cell_error(r, err);
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, shape_context(&all[i]));
	return reply_json(res, json_pack("{s:o}", "contexts", list), err);
}

static int one(struct request *req, struct reply *res,
               int (*verb)(struct guest *, const char *, uint32_t, struct err *), struct err *err)
{
	AUTO(guest_unrefp) struct guest *g = NULL;
	const char *id, *user;
	uint32_t context;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_user(req, ERR_BAD_REQUEST, &user, err)) < 0 ||
	    (r = code_context(req->match.arg[1], &context, err)) < 0)
		return r;
	r = vmm_guest_thawed(deps_of(req)->vmm, who_of(req)->account, id, &g, err);
	if (r == -EHOSTDOWN)
		return err_tag(err, -ENOENT, ERR_NOT_FOUND,
		               "there is no context '%.40s': the VM is stopped", req->match.arg[1]);
	if (r < 0)
		return r;
	r = verb(g, user, context, err);
	return r < 0 ? cell_error(r, err) : reply_json(res, json_object(), err);
}

int api_context_delete(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, guest_context_delete, err);
}

int api_context_restart(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, guest_context_restart, err);
}

int api_context_interrupt(struct request *req, struct reply *res, struct err *err)
{
	return one(req, res, guest_context_interrupt, err);
}
