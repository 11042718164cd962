/* SPDX-License-Identifier: Apache-2.0 */
/* api_snapshot.c - snapshots: list, look at, rename, delete */
#include "api/api_internal.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

/* There are no building, failed, cancelled or lost snapshots here: those filters change nothing. */
int api_snapshot_list(struct request *req, struct reply *res, struct err *err)
{
	static const char *const filters[] = { "includeFailed", "includeBuilding",
		                               "includeCancelled", "includeLost" };
	autofree struct snapshot_info *v = NULL;
	autojson json_t *items = json_array();
	bool deleted = false, ignored;
	json_int_t total = 0, ready = 0, gone = 0;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
		if ((r = request_query_bool(req, filters[i], &ignored, err)) < 0)
			return r;
	if ((r = request_query_bool(req, "includeDeleted", &deleted, err)) < 0 ||
	    (r = vmm_snapshot_list(req->api->deps.vmm, req->who.account,
	                           /* include_deleted= */ true, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		*(v[i].deleted ? &gone : &ready) += 1;
		if (v[i].deleted && !deleted)
			continue;
		total++;
		if (json_array_append_new(items, shape_snapshot(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res,
	                  json_pack("{s:O, s:I, s:i, s:I, s:i, s:i, s:i, s:I}", "snapshots", items,
	                            "totalCount", total, "buildingCount", 0, "readyCount", ready,
	                            "failedCount", 0, "cancelledCount", 0, "lostCount", 0,
	                            "deletedCount", gone),
	                  err);
}

int api_snapshot_create(struct request *req, struct reply *res, struct err *err)
{
	return err_tag(err, -EINVAL, "CREATE_SNAPSHOT_BAD_REQUEST",
	               "this server cannot build snapshots from a spec yet: create a VM, prepare "
	               "it, and use POST /v1/vms/{id}/snapshot");
}

int api_snapshot_get(struct request *req, struct reply *res, struct err *err)
{
	struct snapshot_info n;
	const char *id;
	int r;

	if ((r = request_snapshot_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_snapshot_get(req->api->deps.vmm, req->who.account, id, &n, err)) < 0)
		return r;
	return reply_json(res, shape_snapshot(&n), err);
}

struct rename_body {
	char name[VM_NAME_MAX];
};
static const struct json_field rename_fields[] = {
	JSON_FIELD_STR(rename_body, name, "name", JSON_REQUIRED | JSON_NULLABLE),
};

int api_snapshot_rename(struct request *req, struct reply *res, struct err *err)
{
	struct rename_body b = { 0 };
	const char *id;
	int r;

	if ((r = request_snapshot_id(req, 0, &id, err)) < 0 ||
	    (r = request_fields(req, "BAD_REQUEST", rename_fields, ARRAY_SIZE(rename_fields), &b,
	                        err)) < 0 ||
	    (r = vmm_snapshot_rename(req->api->deps.vmm, req->who.account, id, b.name, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:o}", "snapshot_id", id, "snapshotId", id, "name",
	                            shape_text(b.name)),
	                  err);
}

int api_snapshot_delete(struct request *req, struct reply *res, struct err *err)
{
	const char *id;
	int r;

	if ((r = request_snapshot_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_snapshot_delete(req->api->deps.vmm, req->who.account, id, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s, s:s}", "snapshot_id", id, "snapshotId", id), err);
}
