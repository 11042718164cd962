/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self_check.c - what a VM may ask for that came through its own agent (self_door.c)
 *
 * It has no key: the connection says which VM it is. It may use the routes of /v1/self and no
 * others, as far as its self access allows at this moment, on itself or its descendants. What it
 * uses counts for its account, as if that had asked.
 */
#include "api/self_door.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vm/self.h"
#include "wire/agent_self.h"

/* What a route takes, by the end of its pattern and its method; 0: nothing but self access. */
static unsigned verb_of(const struct route *route)
{
	static const struct {
		const char *pattern;
		unsigned verb;
	} own[] = { { "/v1/self/fork", AGENT_SELF_FORK },
		    { "/v1/self/snapshot", AGENT_SELF_SNAPSHOT },
		    { "/v1/self/suspend", AGENT_SELF_SUSPEND },
		    { "/v1/self/rewind", AGENT_SELF_REWIND },
		    { "/v1/self/children", 0 },
		    { "/v1/self", 0 } };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (strcmp(route->pattern, own[i].pattern) == 0)
			return own[i].verb;
	return route->method == METHOD_DELETE ? AGENT_SELF_DELETE : AGENT_SELF_CHILDREN;
}

static int denied(struct request *req, struct err *err, const char *vm, const char *what)
{
	caller_of(req)->denied = true;
	return err_tag(err, -EACCES, ERR_SELF_ACCESS_DENIED, "VM %s %s", vm, what);
}

static int permit(struct request *req, const struct vm_info *v, struct err *err)
{
	const char *child = request_arg(req, "{vm_id}");
	unsigned verb = verb_of(req->match.route);
	char what[160];

	if (req->match.route->scope != SCOPE_FROM_VM)
		return denied(req, err, v->id,
		              "may use /v1/self and what is below it over this socket: for "
		              "everything else use an access token at the API");
	if (!(v->self & VM_SELF_VERBS))
		return denied(req, err, v->id,
		              "has no self access: create it with selfAccess, or switch it on");
	if (verb && !(v->self & verb)) {
		snprintf(what, sizeof(what), "has no self access for '%s'",
		         agent_self_word((unsigned)__builtin_ctz(verb)));
		return denied(req, err, v->id, what);
	}
	if (child && !vmm_self_descends(deps_of(req)->vmm, v->account, v->id, child))
		return denied(req, err, v->id,
		              "did not make that VM, nor did one that it made, or it is gone");
	return 0;
}

int self_admit(struct request *req, struct err *err)
{
	const char *origin = request_origin(req);
	struct auth_who *who = who_of(req);
	char account[ACCOUNT_SIZE];
	struct vm_info v;
	int r;

	snprintf(who->vm, sizeof(who->vm), "%.*s", (int)strcspn(origin, "/"), origin);
	if ((r = vmm_owner(deps_of(req)->vmm, who->vm, account, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, account, who->vm, &v, err)) < 0)
		return r;
	memcpy(who->account, v.account, sizeof(who->account));
	snprintf(who->key, sizeof(who->key), "vm:%s", v.id);
	who->scopes = SCOPE_FROM_VM;
	return permit(req, &v, err);
}

bool self_allowed(struct request *req)
{
	struct err err = { 0 };
	struct vm_info v;

	return vmm_get(deps_of(req)->vmm, who_of(req)->account, who_of(req)->vm, &v, &err) == 0 &&
	       permit(req, &v, &err) == 0;
}
