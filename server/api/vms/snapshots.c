/* SPDX-License-Identifier: Apache-2.0 */
/* snapshots.c - snapshots: list, show, rename, delete; what the body of a new one says */
#include "api/vms/shared.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"

struct snapshot_body {
	char name[VM_NAME_MAX];
	json_t *persistence;
};
static const struct json_field snapshot_fields[] = {
	JSON_FIELD_STR(snapshot_body, name, "name", JSON_NULLABLE),
	JSON_FIELD(JSON_WANT_ANY, snapshot_body, persistence, "persistence", 0, 0, 0,
	           "Persistence | null"),
};
JSON_TABLE(SnapshotNew, snapshot_fields);

int request_snapshot(struct request *req, enum err_code tag, struct snapshot_wish *ret,
                     struct err *err)
{
	struct snapshot_body b = { 0 };
	int r;

	*ret = (struct snapshot_wish){ .persistence = { .type = PERSIST_STICKY, .priority = 5 } };
	if ((r = request_fields(req, tag, snapshot_fields, ARRAY_SIZE(snapshot_fields), &b, err)) <
	            0 ||
	    (r = parse_persistence(b.persistence, tag, &ret->persistence, err)) < 0)
		return r;
	if (ret->persistence.type == PERSIST_EPHEMERAL)
		return err_tag(err, -EINVAL, tag,
		               "'persistence.type' of a snapshot must be sticky or persistent");
	memcpy(ret->name, b.name, sizeof(ret->name));
	return 0;
}

/* Is it in the list? The counters are over all of them. */
struct snapshot_filter {
	bool deleted, failed, building, cancelled, lost;
};

static int read_filter(struct request *req, struct snapshot_filter *f, struct err *err)
{
	const struct {
		const char *name;
		bool *value;
	} filters[] = { { "includeDeleted", &f->deleted },
		        { "includeFailed", &f->failed },
		        { "includeBuilding", &f->building },
		        { "includeCancelled", &f->cancelled },
		        { "includeLost", &f->lost } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(filters); i++)
		r = request_query_bool(req, filters[i].name, filters[i].value, err);
	return r;
}

static bool is_shown(const struct snapshot_info *n, const struct snapshot_filter *f)
{
	if (n->deleted)
		return f->deleted;
	if (n->state == SNAPSHOT_FAILED)
		return f->failed;
	if (n->state == SNAPSHOT_LOST)
		return f->lost;
	return n->state != SNAPSHOT_BUILDING || f->building;
}

int api_snapshot_list(struct request *req, struct reply *res, struct err *err)
{
	struct snapshot_filter f = { .failed = true, .building = true };
	autofree struct snapshot_info *v = NULL;
	autojson json_t *items = json_array();
	json_int_t total = 0, gone = 0, count[SNAPSHOT_STATE_MAX] = { 0 };
	size_t n = 0;
	int r;

	if ((r = read_filter(req, &f, err)) < 0 ||
	    (r = vmm_snapshot_list(deps_of(req)->vmm, who_of(req)->account,
	                           /* include_deleted= */ true, &v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		*(v[i].deleted ? &gone : &count[v[i].state]) += 1;
		if (!is_shown(&v[i], &f))
			continue;
		total++;
		if (json_array_append_new(items, shape_snapshot(&v[i])) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	}
	return reply_json(res,
	                  json_pack("{s:O, s:I, s:I, s:I, s:I, s:i, s:I, s:I}", "snapshots", items,
	                            "totalCount", total, "buildingCount", count[SNAPSHOT_BUILDING],
	                            "readyCount", count[SNAPSHOT_READY], "failedCount",
	                            count[SNAPSHOT_FAILED], "cancelledCount", 0, "lostCount",
	                            count[SNAPSHOT_LOST], "deletedCount", gone),
	                  err);
}

int api_snapshot_get(struct request *req, struct reply *res, struct err *err)
{
	struct snapshot_info n;
	const char *id;
	int r;

	if ((r = request_snapshot_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_snapshot_get(deps_of(req)->vmm, who_of(req)->account, id, &n, err)) < 0)
		return r;
	return reply_json(res, shape_snapshot(&n), err);
}

struct rename_body {
	char name[VM_NAME_MAX];
};
static const struct json_field rename_fields[] = {
	JSON_FIELD_STR(rename_body, name, "name", JSON_REQUIRED | JSON_NULLABLE),
};
JSON_TABLE(SnapshotName, rename_fields);

int api_snapshot_rename(struct request *req, struct reply *res, struct err *err)
{
	struct rename_body b = { 0 };
	const char *id;
	int r;

	if ((r = request_snapshot_id(req, 0, &id, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, rename_fields, ARRAY_SIZE(rename_fields), &b,
	                        err)) < 0 ||
	    (r = vmm_snapshot_rename(deps_of(req)->vmm, who_of(req)->account, id, b.name, err)) < 0)
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
	    (r = vmm_snapshot_delete(deps_of(req)->vmm, who_of(req)->account, id, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s, s:s}", "snapshot_id", id, "snapshotId", id), err);
}
