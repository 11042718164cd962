/* SPDX-License-Identifier: Apache-2.0 */
/* vms.c - VMs: create, list, show, change state, delete */
#include "api/vms/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/net/shared.h"
#include "api/vms/notes.h"
#include "api/vms/ports.h"
#include "api/vms/self.h"
#include "base/auto.h"
#include "base/clock.h"
#include "events/events.h"
#include "net/egress.h"
#include "ports/ports.h"
#include "vm/notes.h"

#define PAGE_PLAIN 500 /* VMs of a page whose notes are read one by one */
#define CREATE_TAG ERR_CREATE_VM_BAD_REQUEST
#define THRESHOLD_DEFAULT 1      /* bytes: any traffic is activity */
#define READY_MAX INT64_C(86400) /* seconds */
#define READY_DEFAULT 120
#define THRESHOLD_MAX (INT64_C(1) << 40)

struct create_body {
	char name[VM_NAME_MAX];
	int64_t idle, threshold;
	enum json_presence idle_seen;
	json_t *persistence, *domains, *egress, *nics, *tags, *metadata, *env, *self, *ports;
	bool wait, count_exec, recreate;
	int64_t wait_s, delete_after, checkpoint;
};
static const struct json_field create_fields[] = {
	JSON_FIELD_STR(create_body, name, "name", JSON_NULLABLE),
	JSON_FIELD_P(JSON_WANT_I64, create_body, idle, idle_seen, "idleTimeoutSeconds",
	             JSON_NULLABLE, 1, IDLE_MAX),
	JSON_FIELD(JSON_WANT_I64, create_body, threshold, "activityThresholdBytes", JSON_NULLABLE,
	           0, THRESHOLD_MAX),
	JSON_FIELD(JSON_WANT_ANY, create_body, persistence, "persistence", 0, 0, 0,
	           "Persistence | null"),
	JSON_FIELD(JSON_WANT_ARRAY, create_body, domains, "domains", JSON_NULLABLE, 0, 0,
	           "DomainWish[]"),
	JSON_FIELD(JSON_WANT_ANY, create_body, egress, "egress", 0, 0, 0, "Egress | null"),
	JSON_FIELD(JSON_WANT_ANY, create_body, nics, "nics", 0, 0, 0, "Nic[] | null"),
	JSON_FIELD(JSON_WANT_ANY, create_body, ports, "ports", 0, 0, 0, "PortMap[] | null"),
	/* Without it the reply is sent when the guest has confirmed that its agent is up. */
	JSON_FIELD(JSON_WANT_BOOL, create_body, wait, "waitForReadySignal", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_I64, create_body, wait_s, "readySignalTimeoutSeconds", JSON_NULLABLE,
	           0, READY_MAX),
	JSON_FIELD(JSON_WANT_BOOL, create_body, count_exec, "countExecAsActivity", JSON_NULLABLE, 0,
	           0),
	JSON_FIELD(JSON_WANT_BOOL, create_body, recreate, "recreate", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_ANY, create_body, tags, "tags", 0, 0, 0, "Tags | null"),
	JSON_FIELD(JSON_WANT_ANY, create_body, metadata, "metadata", 0, 0, 0, "Metadata | null"),
	JSON_FIELD(JSON_WANT_ANY, create_body, env, "env", 0, 0, 0, "{*: string} | null",
	           "of every process that the agent starts"),
	JSON_FIELD(JSON_WANT_ANY, create_body, self, "selfAccess", 0, 0, 0,
	           "bool | SelfAccess | null"),
	JSON_FIELD(JSON_WANT_I64, create_body, delete_after, "deleteAfterSeconds", JSON_NULLABLE, 1,
	           IDLE_MAX),
	JSON_FIELD(JSON_WANT_I64, create_body, checkpoint, "checkpointEverySeconds", JSON_NULLABLE,
	           0, IDLE_MAX),
};
JSON_TABLE(VmNew, create_fields);

static int check_checkpoint(int64_t every_s, enum err_code tag, struct err *err)
{
	return every_s == 0 || every_s == VM_LEAVE || every_s >= VM_CHECKPOINT_MIN
	               ? 0
	               : err_tag(err, -EINVAL, tag,
	                         "'checkpointEverySeconds' must be 0 (none) or at least %d",
	                         VM_CHECKPOINT_MIN);
}

int64_t idle_of(enum json_presence seen, int64_t seconds, int64_t absent)
{
	return seen == JSON_IS_GIVEN ? seconds : seen == JSON_IS_NULL ? -1 : absent;
}

json_t *shape_made(struct request *req, const struct vm_info *v)
{
	return json_pack("{s:s, s:o, s:n}", "id", v->id, "domains", shape_domains(req, v->id),
	                 "consoleUrl");
}

int api_vm_create(struct request *req, struct reply *res, struct err *err)
{
	struct create_body b = { .threshold = THRESHOLD_DEFAULT,
		                 .count_exec = true,
		                 .wait_s = READY_DEFAULT };
	struct vm_create_opts o = { .account = who_of(req)->account,
		                    .persistence = { PERSIST_STICKY, 5, DELETE_ON_SUSPEND } };
	autospec struct spec spec = { 0 };
	AUTO(egress_unrefp) struct egress *egress = NULL;
	autojson json_t *extra = json_object();
	struct vm_nic nic = { 0 };
	bool has_nic = false;
	struct build_opts build = { .account = who_of(req)->account,
		                    .request_id = events_request(),
		                    .extra = extra };
	autofree struct domain_wish *wishes = calloc(WISHES_MAX, sizeof(*wishes));
	AUTO(notes_done) struct notes notes = { 0 };
	const char *services[SPEC_RUNNING_MAX + 1];
	struct port_wish ports[PORT_WISHES_MAX + 1];
	size_t n_wishes = 0, n_ports = 0;
	struct vm_info v;
	json_t *made;
	int r;

	if (!wishes)
		return err_set(err, -ENOMEM, "out of memory");

	if ((r = request_fields(req, CREATE_TAG, create_fields, ARRAY_SIZE(create_fields), &b,
	                        err)) < 0 ||
	    (r = request_spec(req, res, CREATE_TAG, &spec, err)) < 0 ||
	    (r = parse_persistence(b.persistence, CREATE_TAG, &o.persistence, err)) < 0 ||
	    (r = domain_wishes(req, b.domains, wishes, &n_wishes, err)) < 0 ||
	    (r = api_create_egress(b.egress, CREATE_TAG, &egress, err)) < 0 ||
	    (r = api_create_nic(b.nics, CREATE_TAG, &nic, &has_nic, err)) < 0 ||
	    (r = parse_notes(b.tags, b.metadata, CREATE_TAG, &notes, err)) < 0 ||
	    (r = parse_vm_env(b.env, CREATE_TAG, &notes, err)) < 0 ||
	    (r = parse_self_access(b.self, CREATE_TAG, &o.self, err)) < 0 ||
	    (r = check_checkpoint(b.checkpoint, CREATE_TAG, err)) < 0 ||
	    (r = port_wishes(req, b.ports && !json_is_null(b.ports) ? b.ports : spec.ports,
	                     CREATE_TAG, ports, &n_ports, err)) < 0)
		return r;
	nic.account = who_of(req)->account;
	o.egress = egress;
	o.nic = has_nic ? &nic : NULL;
	if (b.idle_seen == JSON_IS_ABSENT) {
		b.idle_seen = spec.idle_seen;
		b.idle = spec.idle_timeout_s;
	}
	o.name = b.name[0] ? b.name : NULL;
	o.idle_timeout_s = idle_of(b.idle_seen, b.idle, VM_IDLE_DEFAULT);
	o.activity_threshold = b.threshold;
	o.count_exec = b.count_exec;
	o.recreate = b.recreate;
	o.delete_after_s = b.delete_after;
	o.checkpoint_every_s = b.checkpoint;
	o.tags = notes.tags;
	o.metadata = notes.metadata;
	if (*spec.snapshot_id)
		reply_extra(res, "snapshotId", json_string(spec.snapshot_id));
	if ((r = build_vm(deps_of(req)->builder, &spec, &build, &o, &v, err)) < 0) {
		reply_extras(res, extra);
		return r;
	}
	spec_running(&spec, services);
	if ((r = notes_write(req, v.id, &(struct notes){ .env = notes.env }, services, err)) < 0) {
		vmm_delete(deps_of(req)->vmm, who_of(req)->account, v.id, NULL, NULL);
		return r;
	}
	if ((b.wait || spec.wait) &&
	    (r = vmm_ready(deps_of(req)->vmm, who_of(req)->account, v.id, services,
	                   (unsigned)(b.wait ? b.wait_s : spec.wait_s), err)) < 0) {
		reply_extra(res, "vmId", json_string(v.id)); /* it is there, and can be looked at */
		return r;
	}
	if (n_ports && (r = ports_of_new(req, v.id, ports, n_ports, err)) < 0)
		return r;
	if (n_wishes && (r = domains_map_new(deps_of(req)->domains, who_of(req)->account, wishes,
	                                     n_wishes, v.id, err)) < 0)
		return r;
	made = shape_made(req, &v);
	json_object_set_new(made, "snapshotId", shape_text(v.snapshot_id));
	if (n_ports)
		json_object_set_new(made, "ports", shape_ports(req, v.id));
	return reply_json(res, made, err);
}

/* ---- list ---- */

struct list_query {
	uint32_t limit, offset;
	bool deleted;
	int state; /* or -1 */
	char *search;
	struct notes_filter notes;
};

static void list_query_done(struct list_query *q)
{
	free(q->search);
	notes_filter_done(&q->notes);
}

static int list_query_read(struct request *req, struct list_query *q, struct err *err)
{
	autofree char *state = NULL;
	int r;

	if ((r = request_query_u32(req, "limit", UINT32_MAX, &q->limit, err)) < 0 ||
	    (r = request_query_u32(req, "offset", UINT32_MAX, &q->offset, err)) < 0 ||
	    (r = request_query_bool(req, "includeDeleted", &q->deleted, err)) < 0 ||
	    (r = request_query(req, "vmState", &state, err)) < 0 ||
	    (r = request_query(req, "search", &q->search, err)) < 0 ||
	    (r = notes_filter_read(req, &q->notes, err)) < 0)
		return r;
	if (state && *state) {
		q->state = vm_state_parse(state);
		if (q->state < 0)
			return err_tag(err, -EINVAL, ERR_INVALID_PARAMETERS,
			               "'vmState' must be building, starting, running, suspending, "
			               "suspended, stopped or lost");
	}
	return 0;
}

/* A token sees only the VMs granted to its identity. */
static int keep_granted(struct request *req, struct vm_info *v, size_t *n, struct err *err)
{
	autofree struct store_grant *g = NULL;
	size_t n_grants = 0, kept = 0;
	int r;

	if (!*who_of(req)->identity)
		return 0;
	r = auth_grant_list(deps_of(req)->auth, who_of(req)->account, who_of(req)->identity,
	                    GRANT_VM, &g, &n_grants, err);
	for (size_t i = 0; r == 0 && i < *n; i++) {
		bool granted = false;

		for (size_t k = 0; k < n_grants && !granted; k++)
			granted = strcmp(g[k].target, v[i].id) == 0;
		if (granted)
			v[kept++] = v[i];
	}
	*n = kept;
	return r;
}

static bool found(const struct list_query *q, const struct vm_info *v)
{
	return !q->search || strcasestr(v->id, q->search) || strcasestr(v->name, q->search);
}

/* Adds the item if it is on the page; *total counts all of them. */
static int list_add(const struct list_query *q, json_t *items, size_t *total, json_t *item_consume,
                    struct err *err)
{
	size_t at = (*total)++;

	if (at < q->offset || at - q->offset >= q->limit) {
		json_decref(item_consume);
		return 0;
	}
	return json_array_append_new(items, item_consume) < 0
	               ? err_set(err, -ENOMEM, "out of memory")
	               : 0;
}

/* Deleted VMs come after the others. */
static int list_deleted(struct request *req, const struct list_query *q, json_t *items,
                        size_t *total, struct err *err)
{
	autofree struct vm_tombstone *v = NULL;
	size_t n = 0;
	int r;

	/* Grants and notes are deleted with their VM. */
	if (!q->deleted || *who_of(req)->identity || q->notes.filters)
		return 0;
	r = vmm_list_deleted(deps_of(req)->vmm, who_of(req)->account, &v, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (found(q, &v[i].info) && (q->state < 0 || (int)v[i].info.state == q->state))
			r = list_add(q, items, total, shape_vm_gone(&v[i]), err);
	return r;
}

/* Nothing depends on the VMs that are not on the page. False: that is not so. */
static bool is_plain(struct request *req, const struct list_query *q)
{
	return q->limit <= PAGE_PLAIN && q->state < 0 && !q->deleted && !q->notes.filters &&
	       (!q->search || !*q->search) && !*who_of(req)->identity;
}

static int list_plain(struct request *req, const struct list_query *q, json_t *items, size_t *total,
                      json_int_t per_state[VM_STATE_MAX], struct err *err)
{
	const struct vm_page page = { .offset = q->offset, .limit = q->limit };
	size_t by_state[VM_STATE_MAX], n;
	autofree struct vm_info *v = NULL;

	if (!vmm_page(deps_of(req)->vmm, who_of(req)->account, &page, &v, &n, by_state))
		return 0;
	for (int i = 0; i < VM_STATE_MAX; i++) {
		per_state[i] = (json_int_t)by_state[i];
		*total += by_state[i];
	}
	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(items,
		                          notes_shape_one(req, v[i].id, shape_vm_item(&v[i]))) < 0)
			return err_set(err, -ENOMEM, "out of memory");
	return 1;
}

static int list_all(struct request *req, struct list_query *q, json_t *items, size_t *total,
                    json_int_t per_state[VM_STATE_MAX], struct err *err)
{
	autofree struct vm_info *v = NULL;
	size_t n = 0;
	int r;

	if ((r = notes_filter_load(req, &q->notes, err)) < 0 ||
	    (r = vmm_list(deps_of(req)->vmm, who_of(req)->account, &v, &n, err)) < 0 ||
	    (r = keep_granted(req, v, &n, err)) < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (!found(q, &v[i]) || !notes_match(&q->notes, v[i].id))
			continue;
		per_state[v[i].state]++;
		if (q->state >= 0 && (int)v[i].state != q->state)
			continue;
		if (*total < q->offset || *total - q->offset >= q->limit)
			++*total; /* not on the page */
		else if ((r = list_add(q, items, total,
		                       notes_shape(&q->notes, v[i].id, shape_vm_item(&v[i])),
		                       err)) < 0)
			return r;
	}
	return list_deleted(req, q, items, total, err);
}

/*
 * The counters per state cover everything the search finds; totalCount is
 * what the filters leave, for paging with limit and offset. Deleted VMs
 * only count in totalCount.
 */
int api_vm_list(struct request *req, struct reply *res, struct err *err)
{
	AUTO(list_query_done) struct list_query q = { .limit = UINT32_MAX, .state = -1 };
	autojson json_t *items = json_array();
	json_int_t per_state[VM_STATE_MAX] = { 0 };
	size_t total = 0;
	int r = list_query_read(req, &q, err);

	if (r == 0 && is_plain(req, &q))
		r = list_plain(req, &q, items, &total, per_state, err);
	if (r == 0)
		r = list_all(req, &q, items, &total, per_state, err);
	if (r < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:O, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "vms",
	                            items, "totalCount", (json_int_t)total, "runningCount",
	                            per_state[VM_RUNNING], "startingCount", per_state[VM_STARTING],
	                            "suspendedCount", per_state[VM_SUSPENDED], "stoppedCount",
	                            per_state[VM_STOPPED], "buildingCount", per_state[VM_BUILDING],
	                            "suspendingCount", per_state[VM_SUSPENDING], "lostCount",
	                            per_state[VM_LOST], "userId", who_of(req)->account),
	                  err);
}

/* ---- one VM ---- */

int api_vm_get(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_get_used(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	return reply_json(res, notes_shape_one(req, id, shape_vm_info(&v)), err);
}

int api_vm_delete(struct request *req, struct reply *res, struct err *err)
{
	const char *id;
	bool kept;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_delete(deps_of(req)->vmm, who_of(req)->account, id, &kept, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s, s:b}", "id", id, "recreate", kept), err);
}

struct start_body {
	int64_t idle, threshold;
	enum json_presence idle_seen, count_seen;
	bool wait, count_exec;
	int64_t wait_s;
};
static const struct json_field start_fields[] = {
	JSON_FIELD_P(JSON_WANT_I64, start_body, idle, idle_seen, "idleTimeoutSeconds",
	             JSON_NULLABLE, 1, IDLE_MAX),
	JSON_FIELD(JSON_WANT_I64, start_body, threshold, "activityThresholdBytes", JSON_NULLABLE, 0,
	           THRESHOLD_MAX),
	JSON_FIELD(JSON_WANT_BOOL, start_body, wait, "waitForReadySignal", JSON_NULLABLE, 0, 0),
	JSON_FIELD(JSON_WANT_I64, start_body, wait_s, "readySignalTimeoutSeconds", JSON_NULLABLE, 0,
	           READY_MAX),
	JSON_FIELD_P(JSON_WANT_BOOL, start_body, count_exec, count_seen, "countExecAsActivity",
	             JSON_NULLABLE, 0, 0),
};
JSON_TABLE(VmStart, start_fields);

int api_vm_start(struct request *req, struct reply *res, struct err *err)
{
	struct start_body b = { .threshold = VM_LEAVE, .wait_s = READY_DEFAULT };
	struct vm_start_opts o = { .count_exec = -1 };
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, start_fields, ARRAY_SIZE(start_fields), &b,
	                        err)) < 0)
		return r;
	o.idle_timeout_s = idle_of(b.idle_seen, b.idle, VM_LEAVE);
	o.activity_threshold = b.threshold;
	if (b.count_seen == JSON_IS_GIVEN)
		o.count_exec = b.count_exec;
	if ((r = vmm_start(deps_of(req)->vmm, who_of(req)->account, id, &o, &v, err)) < 0 ||
	    (b.wait && (r = vmm_ready(deps_of(req)->vmm, who_of(req)->account, id, NULL,
	                              (unsigned)b.wait_s, err)) < 0))
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:o, s:n}", "id", v.id, "domains",
	                            shape_domains(req, v.id), "console_url"),
	                  err);
}

struct change_body {
	char name[VM_NAME_MAX];
	int64_t idle, threshold, delete_after, checkpoint;
	enum json_presence name_seen, idle_seen, count_seen, delete_seen, checkpoint_seen;
	bool count_exec;
	json_t *tags, *metadata, *self;
};
static const struct json_field change_fields[] = {
	{ "name", JSON_WANT_STR, offsetof(struct change_body, name), JSON_NULLABLE, 0, VM_NAME_MAX,
	  offsetof(struct change_body, name_seen) },
	JSON_FIELD_P(JSON_WANT_I64, change_body, idle, idle_seen, "idleTimeoutSeconds",
	             JSON_NULLABLE, 1, IDLE_MAX),
	JSON_FIELD(JSON_WANT_I64, change_body, threshold, "activityThresholdBytes", 0, 0,
	           THRESHOLD_MAX),
	JSON_FIELD_P(JSON_WANT_BOOL, change_body, count_exec, count_seen, "countExecAsActivity", 0,
	             0, 0),
	JSON_FIELD_P(JSON_WANT_I64, change_body, delete_after, delete_seen, "deleteAfterSeconds",
	             JSON_NULLABLE, 1, IDLE_MAX),
	JSON_FIELD_P(JSON_WANT_I64, change_body, checkpoint, checkpoint_seen,
	             "checkpointEverySeconds", JSON_NULLABLE, 0, IDLE_MAX),
	JSON_FIELD(JSON_WANT_ANY, change_body, tags, "tags", 0, 0, 0, "Tags | null"),
	JSON_FIELD(JSON_WANT_ANY, change_body, metadata, "metadata", 0, 0, 0, "Metadata | null"),
	JSON_FIELD(JSON_WANT_ANY, change_body, self, "selfAccess", 0, 0, 0,
	           "bool | SelfAccess | null"),
};
JSON_TABLE(VmChange, change_fields);

/* What is not in the body stays as it is; wakes nothing. */
int api_vm_change(struct request *req, struct reply *res, struct err *err)
{
	struct change_body b = { .threshold = VM_LEAVE };
	AUTO(notes_done) struct notes notes = { 0 };
	struct vm_change c = { .opts.count_exec = -1 };
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_fields(req, ERR_BAD_REQUEST, change_fields, ARRAY_SIZE(change_fields), &b,
	                        err)) < 0 ||
	    (r = parse_notes(b.tags, b.metadata, ERR_BAD_REQUEST, &notes, err)) < 0 ||
	    (r = parse_self_access(b.self, ERR_BAD_REQUEST, &c.self, err)) < 0)
		return r;
	c.self_given = b.self;
	c.name = b.name_seen == JSON_IS_ABSENT ? NULL : b.name;
	c.opts.idle_timeout_s = idle_of(b.idle_seen, b.idle, VM_LEAVE);
	c.opts.activity_threshold = b.threshold;
	if (b.count_seen == JSON_IS_GIVEN)
		c.opts.count_exec = b.count_exec;
	c.delete_after_s = idle_of(b.delete_seen, b.delete_after, VM_LEAVE);
	c.checkpoint_every_s = b.checkpoint_seen == JSON_IS_ABSENT ? VM_LEAVE : b.checkpoint;
	if ((r = check_checkpoint(c.checkpoint_every_s, ERR_BAD_REQUEST, err)) < 0 ||
	    (r = vmm_change(deps_of(req)->vmm, who_of(req)->account, id, &c, &v, err)) < 0 ||
	    (r = notes_write(req, id, &notes, NULL, err)) < 0)
		return r;
	return reply_json(res, notes_shape_one(req, id, shape_vm_info(&v)), err);
}

int api_vm_stop(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_stop(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s, s:s}", "vmId", v.id, "vmInstanceId", v.instance),
	                  err);
}

int api_vm_kill(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_kill(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	return reply_json(res, json_pack("{s:s}", "id", v.id), err);
}

int api_vm_suspend(struct request *req, struct reply *res, struct err *err)
{
	struct vm_info v;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = vmm_suspend(deps_of(req)->vmm, who_of(req)->account, id, &v, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:s}", "id", v.id, "vmInstanceId", v.instance,
	                            "snapshotLayerId", v.point),
	                  err);
}

int api_vm_snapshot(struct request *req, struct reply *res, struct err *err)
{
	struct snapshot_wish w;
	struct snapshot_info n;
	const char *id;
	int r;

	if ((r = request_vm_id(req, 0, &id, err)) < 0 ||
	    (r = request_snapshot(req, ERR_SNAPSHOT_VM_BAD_REQUEST, &w, err)) < 0 ||
	    (r = vmm_snapshot(deps_of(req)->vmm, who_of(req)->account, id, *w.name ? w.name : NULL,
	                      &w.persistence, &n, err)) < 0)
		return r;
	return reply_json(res,
	                  json_pack("{s:s, s:s, s:o}", "snapshotId", n.id, "sourceVmId",
	                            n.source_vm, "sourceVmInstanceId",
	                            shape_text(n.source_instance)),
	                  err);
}
