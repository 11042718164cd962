/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - our structs in the contract's JSON */
#include "api/api_internal.h"

#include <errno.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/utf8.h"

json_t *shape_time(int64_t wall_ms)
{
	char text[CLOCK_RFC3339_LEN];

	return wall_ms ? json_string(clock_rfc3339(wall_ms, text)) : json_null();
}

json_t *shape_output(const void *p, size_t n)
{
	autobuf struct buf b = { 0 };

	utf8_put_clean(&b, p, n);
	if (b.failed)
		return NULL;
	return json_stringn_nocheck(b.p ? (const char *)b.p : "", b.len);
}

json_t *shape_text(const char *s)
{
	return *s ? shape_output(s, strlen(s)) : json_null();
}

json_t *shape_persistence(const struct vm_persistence *p)
{
	switch (p->type) {
	case PERSIST_EPHEMERAL:
		return json_pack("{s:s, s:s}", "type", "ephemeral", "deleteEvent",
		                 p->delete_event == DELETE_ON_STOP ? "OnStop" : "OnSuspend");
	case PERSIST_PERSISTENT:
		return json_pack("{s:s}", "type", "persistent");
	default:
		return json_pack("{s:s, s:i}", "type", "sticky", "priority", p->priority);
	}
}

struct persistence_body {
	char type[16];
	int64_t priority;
	char event[16];
};

static const struct json_field persistence_fields[] = {
	JSON_FIELD_STR(persistence_body, type, "type", JSON_REQUIRED),
	JSON_FIELD(JSON_WANT_I64, persistence_body, priority, "priority", JSON_NULLABLE, 0, 10),
	JSON_FIELD_STR(persistence_body, event, "deleteEvent", JSON_NULLABLE),
};

int parse_persistence(const json_t *j, const char *tag, struct vm_persistence *ret, struct err *err)
{
	struct persistence_body b = { .priority = 5, .event = "OnSuspend" };
	struct vm_persistence p = { .type = PERSIST_STICKY };
	int r;

	if (!j || json_is_null(j))
		return 0;
	r = json_fields_read(j, "persistence.", persistence_fields, ARRAY_SIZE(persistence_fields),
	                     &b, err);
	if (r < 0) {
		err->tag = tag;
		return r;
	}
	if (strcmp(b.type, "ephemeral") == 0)
		p.type = PERSIST_EPHEMERAL;
	else if (strcmp(b.type, "persistent") == 0)
		p.type = PERSIST_PERSISTENT;
	else if (strcmp(b.type, "sticky") != 0)
		return err_tag(err, -EINVAL, tag,
		               "'persistence.type' must be sticky, ephemeral or persistent");
	if (strcmp(b.event, "OnStop") == 0)
		p.delete_event = DELETE_ON_STOP;
	else if (strcmp(b.event, "OnSuspend") == 0)
		p.delete_event = DELETE_ON_SUSPEND;
	else
		return err_tag(err, -EINVAL, tag,
		               "'persistence.deleteEvent' must be OnStop or OnSuspend");
	p.priority = (int)b.priority;
	*ret = p;
	return 0;
}

static json_t *shape_sizing(const struct vm_info *v)
{
	return json_pack("{s:I, s:I, s:I}", "vcpuCount", (json_int_t)v->vcpus, "memSizeMib",
	                 (json_int_t)v->mem_mb, "rootfsSizeMb", (json_int_t)v->disk_mb);
}

json_t *shape_vm_item(const struct vm_info *v)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:n, s:b, s:b, s:o, s:o}",
	                 "id", v->id, "state", vm_state_name(v->state), "name", shape_text(v->name),
	                 "createdAt", shape_time(v->created_ms), "lastNetworkActivity",
	                 shape_time(v->last_network_ms), "snapshotId", shape_text(v->snapshot_id),
	                 "buildId", shape_text(v->build_id), "cpuTimeSeconds", v->cpu_seconds,
	                 "persistence", shape_persistence(&v->persistence), "metrics", "deleted", 0,
	                 "createdDeclaratively", 0, "sizing", shape_sizing(v), "parentVmId",
	                 shape_text(v->parent_id));
}

json_t *shape_vm_info(const struct vm_info *v)
{
	json_t *idle = v->idle_timeout_s < 0 ? json_null() : json_integer(v->idle_timeout_s);

	return json_pack(
	        "{s:s, s:o, s:b, s:o, s:o, s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}",
	        "id", v->id, "name", shape_text(v->name), "recreate", 0, "vmInstanceId",
	        shape_text(v->instance), "lastNetworkActivity", shape_time(v->last_network_ms),
	        "state", vm_state_name(v->state), "cpuTimeSeconds", v->cpu_seconds, "buildId",
	        shape_text(v->build_id), "createdAt", shape_time(v->created_ms), "snapshotId",
	        shape_text(v->snapshot_id), "parentVmId", shape_text(v->parent_id), "persistence",
	        shape_persistence(&v->persistence), "idleTimeoutSeconds", idle,
	        "activityThresholdBytes", (json_int_t)v->activity_threshold, "sizing",
	        shape_sizing(v), "workdir", shape_text(v->workdir));
}

json_t *shape_snapshot(const struct snapshot_info *n)
{
	struct vm_persistence p = { .type = n->persistent ? PERSIST_PERSISTENT : PERSIST_STICKY,
		                    .priority = n->priority };

	static const char *const states[] = { [SNAPSHOT_READY] = "ready",
		                              [SNAPSHOT_BUILDING] = "building",
		                              [SNAPSHOT_FAILED] = "failed" };

	return json_pack(
	        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:o, s:s, s:o, "
	        "s:o, s:I, s:I, s:I}",
	        "snapshotId", n->id, "state", states[n->state], "name", shape_text(n->name),
	        "sourceVmId", shape_text(n->source_vm), "sourceVmInstanceId",
	        shape_text(n->source_instance), "createdAt", shape_time(n->created_ms), "buildId",
	        shape_text(n->build_id), "failed", n->state == SNAPSHOT_FAILED, "cancelled", 0,
	        "lost", 0, "deleted", n->deleted, "failureReason", shape_text(n->failure),
	        "accountId", n->account, "snapshotPersistence", shape_persistence(&p),
	        "templateHash", shape_text(n->template_hash), "vcpuCount", (json_int_t)n->vcpus,
	        "memSizeMib", (json_int_t)n->mem_mb, "rootfsSizeMb", (json_int_t)n->disk_mb);
}
