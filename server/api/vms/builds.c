/* SPDX-License-Identifier: Apache-2.0 */
/* builds.c - specs of requests, snapshots built from them, and records of builds */
#include "api/vms/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "events/events.h"

#define BUILDS_DEFAULT 50
#define BUILDS_MAX 200 /* of one reply */

int request_spec(struct request *req, struct reply *res, enum err_code tag, struct spec *ret,
                 struct err *err)
{
	autojson json_t *extra = json_object();
	struct spec_ctx c = { .limits = builder_limits(deps_of(req)->builder),
		              .tag = tag,
		              .extra = extra };
	json_t *body;
	int r;

	if ((r = request_json(req, tag, &body, err)) < 0)
		return r;
	if ((r = spec_parse(body, &c, ret, err)) < 0)
		reply_extras(res, extra);
	return r;
}

int request_build_id(struct request *req, size_t i, const char **ret, struct err *err)
{
	const char *s = req->match.arg[i];

	if (!id_valid("bld-", s))
		return err_tag(err, -ENOENT, ERR_BUILD_NOT_FOUND,
		               "no such build: an id is 'bld-' and %d letters and digits", ID_LEN);
	*ret = s;
	return 0;
}

int api_snapshot_create(struct request *req, struct reply *res, struct err *err)
{
	static const enum err_code tag = ERR_CREATE_SNAPSHOT_BAD_REQUEST;
	autojson json_t *extra = json_object();
	struct build_opts o = { .account = who_of(req)->account,
		                .request_id = events_request(),
		                .extra = extra };
	autospec struct spec spec = { 0 };
	struct snapshot_wish w;
	struct snapshot_info n;
	json_t *body;
	int r;

	if ((r = request_snapshot(req, tag, &w, err)) < 0 ||
	    (r = request_spec(req, res, tag, &spec, err)) < 0 ||
	    (r = request_json(req, tag, &body, err)) < 0)
		return r;
	if (json_array_size(spec.ports) || json_array_size(json_object_get(body, "ports")))
		return err_tag(
		        err, -EINVAL, tag,
		        "'ports' belong to a VM, not to a snapshot: give them when the VM is "
		        "created");
	if ((r = build_snapshot(deps_of(req)->builder, &spec, &o, *w.name ? w.name : spec.name,
	                        &w.persistence, &n, err)) < 0) {
		reply_extras(res, extra);
		return r;
	}
	return reply_json(
	        res, json_pack("{s:s, s:o}", "snapshotId", n.id, "buildId", shape_text(n.build_id)),
	        err);
}

/* ---- builds ---- */

static json_t *shape_planned(const char *lines)
{
	json_t *list = json_array();

	while (*lines) {
		size_t n = strcspn(lines, "\n");

		json_array_append_new(list, json_stringn(lines, n));
		lines += n + (lines[n] ? 1 : 0);
	}
	return list;
}

static json_t *shape_build(const struct store_build *b)
{
	return json_pack("{s:s, s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "buildId", b->id,
	                 "accountId", b->account, "requestId", shape_text(b->request_id), "state",
	                 build_state_name(b->state), "templateHash", shape_text(b->template_hash),
	                 "failureReason", shape_text(b->failure), "plannedPhases",
	                 shape_planned(b->planned), "startedAt", shape_time(b->started_ms),
	                 "finishedAt", shape_time(b->finished_ms), "updatedAt",
	                 shape_time(b->updated_ms));
}

int api_build_get(struct request *req, struct reply *res, struct err *err)
{
	struct store_build b;
	const char *id;
	int r;

	if ((r = request_build_id(req, 0, &id, err)) < 0 ||
	    (r = build_get(deps_of(req)->builder, who_of(req)->account, id, &b, err)) < 0)
		return r;
	return reply_json(res, shape_build(&b), err);
}

/* The state in the query; -1: none. */
static int wanted_state(struct request *req, int *ret, struct err *err)
{
	autofree char *text = NULL;
	int r = request_query(req, "state", &text, err);

	*ret = -1;
	if (r < 0 || !text)
		return r;
	for (int i = 0; i < BUILD_STATE_MAX; i++)
		if (strcmp(text, build_state_name(i)) == 0)
			*ret = i;
	return *ret < 0 ? err_tag(err, -EINVAL, ERR_BAD_REQUEST,
	                          "'state' must be pending, running, succeeded or failed")
	                : 0;
}

int api_build_list(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_build *b = NULL;
	autojson json_t *list = json_array();
	char account[ACCOUNT_SIZE];
	uint32_t limit = BUILDS_DEFAULT;
	int r, state;
	size_t n = 0;

	if ((r = request_account(req, account, err)) < 0 ||
	    (r = wanted_state(req, &state, err)) < 0 ||
	    (r = request_query_u32(req, "limit", BUILDS_MAX, &limit, err)) < 0 ||
	    (r = build_list(deps_of(req)->builder, account, state, limit, &b, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, shape_build(&b[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O}", "builds", list), err);
}

int api_build_phases(struct request *req, struct reply *res, struct err *err)
{
	autofree struct store_phase *p = NULL;
	autojson json_t *list = json_array();
	const char *id;
	size_t n = 0;
	int r;

	if ((r = request_build_id(req, 0, &id, err)) < 0 ||
	    (r = build_phases(deps_of(req)->builder, who_of(req)->account, id, &p, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list,
		                          json_pack("{s:s, s:s, s:s, s:o, s:o}", "phaseId", p[i].id,
		                                    "buildId", p[i].build_id, "name", p[i].name,
		                                    "snapshotId", shape_text(p[i].snapshot_id),
		                                    "startedAt", shape_time(p[i].started_ms))) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return reply_json(res, json_pack("{s:O}", "phases", list), err);
}

int api_vm_build(struct request *req, struct reply *res, struct err *err)
{
	struct store_build b;
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_get(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	if (!*v.build_id ||
	    build_get(deps_of(req)->builder, who_of(req)->account, v.build_id, &b, NULL) < 0)
		return err_tag(err, -ENOENT, ERR_BUILD_NOT_FOUND_FOR_VM,
		               "VM '%s' was not created from a build", id);
	return reply_json(res, shape_build(&b), err);
}
