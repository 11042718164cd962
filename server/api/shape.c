/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - our structs as the protocol's JSON, and members that several bodies share */
#include "api/shape.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "api/vms/self.h"
#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json_field.h"
#include "vm/vm.h"

json_t *shape_time(int64_t wall_ms)
{
	char text[CLOCK_RFC3339_LEN];

	return wall_ms ? json_string(clock_rfc3339(wall_ms, text)) : json_null();
}

json_t *shape_text(const char *s)
{
	return *s ? shape_output(s, strlen(s)) : json_null();
}

json_t *shape_signal(int sig)
{
	const char *name = sig > 0 ? sigabbrev_np(sig) : NULL;
	char text[24];

	if (sig <= 0)
		return json_null();
	if (name)
		snprintf(text, sizeof(text), "SIG%s", name);
	else
		snprintf(text, sizeof(text), "%d", sig);
	return json_string(text);
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
	JSON_FIELD_STR(persistence_body, type, "type", JSON_REQUIRED,
	               "'sticky' | 'ephemeral' | 'persistent'"),
	JSON_FIELD(JSON_WANT_I64, persistence_body, priority, "priority", JSON_NULLABLE, 0, 10),
	JSON_FIELD_STR(persistence_body, event, "deleteEvent", JSON_NULLABLE,
	               "'OnStop' | 'OnSuspend'"),
};
JSON_TABLE(Persistence, persistence_fields);

int parse_persistence(const json_t *j, enum err_code tag, struct vm_persistence *ret,
                      struct err *err)
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

static json_t *shape_usage(const struct vm_usage *u)
{
	return json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "cpuSeconds", u->cpu_s,
	                 "wallSeconds", u->run_s, "memoryGbSeconds", u->mem_gb_s, "networkInBytes",
	                 (json_int_t)u->net_in, "networkOutBytes", (json_int_t)u->net_out,
	                 "diskReadBytes", (json_int_t)u->disk_read, "diskWriteBytes",
	                 (json_int_t)u->disk_write);
}

/* Days are those of UTC. A VM is active on a day on which it ran. */
static json_t *shape_metrics(const struct vm_info *v)
{
	char today[CLOCK_RFC3339_LEN], used[CLOCK_RFC3339_LEN];
	size_t day = strlen("2026-01-31");

	clock_rfc3339(clock_wall_ms(), today);
	clock_rfc3339(v->used_ms, used);
	today[day] = used[day] = '\0';
	return json_pack("{s:f, s:s, s:b}", "wallTimeSeconds", vm_usage_total(v).run_s,
	                 "billingDay", today, "isActiveToday",
	                 v->machine_ms != 0 || !strcmp(today, used));
}

/* Members that the list and a single VM share. */
static json_t *shape_vm_common(const struct vm_info *v)
{
	struct vm_usage u = vm_usage_total(v);

	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o}",
	                 "id", v->id, "state", vm_state_name(v->state), "name", shape_text(v->name),
	                 "createdAt", shape_time(v->created_ms), "lastNetworkActivity",
	                 shape_time(v->last_network_ms), "snapshotId", shape_text(v->snapshot_id),
	                 "buildId", shape_text(v->build_id), "cpuTimeSeconds", u.cpu_s,
	                 "persistence", shape_persistence(&v->persistence), "metrics",
	                 shape_metrics(v), "sizing", shape_sizing(v), "parentVmId",
	                 shape_text(v->parent_id), "usage", shape_usage(&u), "deleteAt",
	                 shape_time(v->delete_at_ms));
}

json_t *shape_vm_item(const struct vm_info *v)
{
	json_t *j = shape_vm_common(v);

	json_object_set_new(j, "deleted", json_false());
	json_object_set_new(j, "createdDeclaratively", json_boolean(*v->build_id));
	return j;
}

json_t *shape_vm_gone(const struct vm_tombstone *t)
{
	json_t *j = shape_vm_item(&t->info);

	json_object_set_new(j, "deleted", json_true());
	json_object_set_new(j, "deletedAt", shape_time(t->deleted_ms));
	json_object_set_new(j, "deleteReason", shape_text(t->reason));
	return j;
}

json_t *shape_vm_info(const struct vm_info *v)
{
	json_t *j = shape_vm_common(v);

	json_object_set_new(j, "recreate", json_boolean(v->recreate));
	json_object_set_new(j, "vmInstanceId", shape_text(v->instance));
	json_object_set_new(j, "idleTimeoutSeconds",
	                    v->idle_timeout_s < 0 ? json_null() : json_integer(v->idle_timeout_s));
	json_object_set_new(j, "checkpointEverySeconds", json_integer(v->checkpoint_every_s));
	json_object_set_new(j, "activityThresholdBytes", json_integer(v->activity_threshold));
	json_object_set_new(j, "countExecAsActivity", json_boolean(v->count_exec));
	json_object_set_new(j, "workdir", shape_text(v->workdir));
	json_object_set_new(j, "selfAccess", shape_self_access(v->self));
	json_object_set_new(j, "forkIndex", json_integer(v->fork_index));
	json_object_set_new(j, "forkCount", json_integer(v->fork_count));
	return j;
}

json_t *shape_snapshot(const struct snapshot_info *n)
{
	struct vm_persistence p = { .type = n->persistent ? PERSIST_PERSISTENT : PERSIST_STICKY,
		                    .priority = n->priority };

	static const char *const states[] = { [SNAPSHOT_READY] = "ready",
		                              [SNAPSHOT_BUILDING] = "building",
		                              [SNAPSHOT_FAILED] = "failed",
		                              [SNAPSHOT_LOST] = "lost" };

	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:o, s:s, s:o, "
	                 "s:o, s:I, s:I, s:I, s:o}",
	                 "snapshotId", n->id, "state", states[n->state], "name",
	                 shape_text(n->name), "sourceVmId", shape_text(n->source_vm),
	                 "sourceVmInstanceId", shape_text(n->source_instance), "createdAt",
	                 shape_time(n->created_ms), "buildId", shape_text(n->build_id), "failed",
	                 n->state == SNAPSHOT_FAILED, "cancelled", 0, "lost",
	                 n->state == SNAPSHOT_LOST, "deleted", n->deleted, "failureReason",
	                 shape_text(n->failure), "accountId", n->account, "snapshotPersistence",
	                 shape_persistence(&p), "templateHash", shape_text(n->template_hash),
	                 "vcpuCount", (json_int_t)n->vcpus, "memSizeMib", (json_int_t)n->mem_mb,
	                 "rootfsSizeMb", (json_int_t)n->disk_mb, "updatedAt",
	                 shape_time(n->updated_ms ? n->updated_ms : n->created_ms));
}

/* ---- members of bodies ---- */

void env_list_done(struct env_list *e)
{
	for (size_t i = 0; e->v[i]; i++)
		free(e->v[i]);
}

int parse_env(json_t *env, size_t max, struct env_list *ret, struct err *err)
{
	const char *name;
	json_t *value;
	size_t n = 0;

	json_object_foreach(env, name, value)
	{
		if (!*name || strchr(name, '='))
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "a name in 'env' is empty or contains '='");
		if (!json_is_string(value) ||
		    strlen(json_string_value(value)) != json_string_length(value))
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "values in 'env' must be strings without NUL");
		if (n == max)
			return err_tag(err, -EINVAL, ERR_BAD_REQUEST,
			               "'env' has more than %zu variables", max);
		if (asprintf(&ret->v[n], "%s=%s", name, json_string_value(value)) < 0) {
			ret->v[n] = NULL;
			return err_set(err, -ENOMEM, "out of memory");
		}
		n++;
	}
	return 0;
}

int parse_base64(const char *text, size_t n, const char *what, uint8_t **ret, size_t *ret_n,
                 struct err *err)
{
	autofree uint8_t *p = malloc(n / 4 * 3 + 4);
	size_t pad = 0;
	int k;

	if (!p)
		return err_set(err, -ENOMEM, "out of memory");
	while (pad < 2 && pad < n && text[n - pad - 1] == '=')
		pad++;
	k = n % 4 || n > INT_MAX ? -1 : EVP_DecodeBlock(p, (const unsigned char *)text, (int)n);
	if (k < 0 || (size_t)k < pad)
		return err_tag(err, -EINVAL, ERR_BAD_REQUEST, "'%s' is not base64", what);
	*ret_n = (size_t)k - pad;
	*ret = TAKE_PTR(p);
	return 0;
}
