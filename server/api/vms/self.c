/* SPDX-License-Identifier: Apache-2.0 */
/*
 * self.c - /v1/self: a VM shows, copies, freezes or rewinds itself; selfAccess of a VM
 *
 * The caller is the VM of who_of(req)->vm (self_check.c). A reply to a request that froze the VM
 * may find nobody: what its program then hears is said by its agent (agent/self_say.c).
 */
#include "api/vms/self.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/vms/shared.h"
#include "base/auto.h"
#include "vm/self.h"
#include "wire/agent_self.h"

/* ---- the option ---- */

struct self_body {
	json_t *allow;
	bool inherit;
};
static const struct json_field self_fields[] = {
	JSON_FIELD(JSON_WANT_ARRAY, self_body, allow, "allow", JSON_NULLABLE, 0, 0, "SelfVerb[]"),
	JSON_FIELD(JSON_WANT_BOOL, self_body, inherit, "inherit", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(SelfAccess, self_fields);

static int bad(enum err_code tag, struct err *err)
{
	return err_tag(err, -EINVAL, tag,
	               "'selfAccess' must be true, false or an object {\"allow\": [...], "
	               "\"inherit\": true} with some of snapshot, fork, suspend, rewind, "
	               "children, delete");
}

static int parse_allow(json_t *list, enum err_code tag, uint32_t *ret, struct err *err)
{
	json_t *word;
	size_t i;

	json_array_foreach(list, i, word)
	{
		const char *s = json_string_value(word);
		unsigned bit = 0;

		while (s && bit < AGENT_SELF_N && strcmp(agent_self_word(bit), s) != 0)
			bit++;
		if (!s || bit == AGENT_SELF_N)
			return bad(tag, err);
		*ret |= 1u << bit;
	}
	return 0;
}

int parse_self_access(json_t *v, enum err_code tag, uint32_t *ret, struct err *err)
{
	struct self_body b = { .inherit = true };
	int r;

	*ret = 0;
	if (!v || json_is_null(v) || json_is_false(v))
		return 0;
	if (json_is_true(v)) {
		*ret = AGENT_SELF_ALL | VM_SELF_INHERIT;
		return 0;
	}
	if (!json_is_object(v))
		return bad(tag, err);
	r = json_fields_read(v, "selfAccess.", self_fields, ARRAY_SIZE(self_fields), &b, err);
	if (r < 0) {
		err->tag = tag;
		return r;
	}
	if (!b.allow)
		*ret = AGENT_SELF_ALL;
	else if ((r = parse_allow(b.allow, tag, ret, err)) < 0)
		return r;
	if (*ret && b.inherit)
		*ret |= VM_SELF_INHERIT;
	return 0;
}

static json_t *shape_allow(uint32_t self)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < AGENT_SELF_N; i++)
		if (self & 1u << i)
			json_array_append_new(list, json_string(agent_self_word(i)));
	return list;
}

json_t *shape_self_access(uint32_t self)
{
	if (!(self & VM_SELF_VERBS))
		return json_false();
	return json_pack("{s:o, s:b}", "allow", shape_allow(self), "inherit",
	                 (self & VM_SELF_INHERIT) != 0);
}

/* ---- routes ---- */

static json_t *shape_self(const struct vm_info *v)
{
	return json_pack("{s:s, s:o, s:o, s:i, s:i, s:s, s:o, s:b}", "id", v->id, "name",
	                 shape_text(v->name), "parent", shape_text(v->parent_id), "index",
	                 (int)v->fork_index, "count", (int)v->fork_count, "state",
	                 vm_state_name(v->state), "selfAccess", shape_allow(v->self), "inherit",
	                 (v->self & VM_SELF_INHERIT) != 0);
}

int api_self_info(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	int r = vmm_get(deps_of(req)->vmm, who_of(req)->account, who_of(req)->vm, &v, err);

	return r < 0 ? r : reply_json(res, shape_self(&v), err);
}

struct self_fork_body {
	int64_t count;
	bool inherit;
};
static const struct json_field self_fork_fields[] = {
	JSON_FIELD(JSON_WANT_I64, self_fork_body, count, "count", JSON_NULLABLE, 1, VM_FORK_MAX),
	JSON_FIELD(JSON_WANT_BOOL, self_fork_body, inherit, "inherit", JSON_NULLABLE, 0, 0),
};
JSON_TABLE(SelfFork, self_fork_fields);

/* The agent's number of the request: its copies know by it which of their requests made them. */
static uint64_t call_of(struct request *req)
{
	const char *slash = strchr(request_origin(req), '/');

	return slash ? strtoull(slash + 1, NULL, 10) : 0;
}

int api_self_fork(struct request *req, struct reply *res, struct err *err)
{
	struct self_fork_body b = { .count = 1, .inherit = true };
	struct vm_fork_opts o = { .by_itself = true, .call = call_of(req), .fresh_address = true };
	autofree struct vm_info *v = NULL;
	autojson json_t *children = json_array();
	const char *id = who_of(req)->vm;
	int r;

	if ((r = request_fields(req, ERR_BAD_REQUEST, self_fork_fields,
	                        ARRAY_SIZE(self_fork_fields), &b, err)) < 0)
		return r;
	o.no_self = !b.inherit;
	if ((r = vmm_fork(deps_of(req)->vmm, who_of(req)->account, id, (unsigned)b.count, &o, &v,
	                  err)) < 0)
		return r;
	for (int64_t i = 0; i < b.count; i++)
		json_array_append_new(children, json_string(v[i].id));
	return reply_json(
	        res, json_pack("{s:s, s:s, s:O}", "role", "parent", "id", id, "children", children),
	        err);
}

int api_self_snapshot(struct request *req, struct reply *res, struct err *err)
{
	const char *id = who_of(req)->vm;
	struct snapshot_wish w;
	struct snapshot_info n;
	int r;

	if ((r = request_snapshot(req, ERR_SNAPSHOT_VM_BAD_REQUEST, &w, err)) < 0 ||
	    (r = vmm_snapshot(deps_of(req)->vmm, who_of(req)->account, id, *w.name ? w.name : NULL,
	                      &w.persistence, &n, err)) < 0)
		return r;
	return reply_json(
	        res, json_pack("{s:s, s:s, s:s}", "role", "original", "id", id, "snapshotId", n.id),
	        err);
}

int api_self_suspend(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	int r = vmm_suspend(deps_of(req)->vmm, who_of(req)->account, who_of(req)->vm, &v, err);

	return r < 0 ? r : reply_json(res, json_pack("{s:s}", "id", v.id), err);
}

int api_self_rewind(struct request *req, struct reply *res, struct err *err)
{
	return rewind_vm(req, res, who_of(req)->vm, err);
}

int api_self_children(struct request *req, struct reply *res, struct err *err)
{
	autofree struct vm_info *v = NULL;
	autojson json_t *list = json_array();
	size_t n = 0;
	int r = vmm_self_children(deps_of(req)->vmm, who_of(req)->account, who_of(req)->vm, &v, &n,
	                          err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (json_array_append_new(list, shape_self(&v[i])) < 0)
			r = err_set(err, -ENOMEM, "out of memory");
	return r < 0 ? r : reply_json(res, json_pack("{s:O}", "children", list), err);
}

int api_self_child(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	return reply_json(res, shape_self(&v), err);
}
