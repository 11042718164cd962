/* SPDX-License-Identifier: Apache-2.0 */
/* health.c - the server itself, and the caller's identity */
#include "api/call.h"

#include <string.h>

#include "ssh/ssh.h"

/* Under the names it had when it was ready VMs alone, and what came since. */
static json_t *shape_ahead(const struct vmm_status *s)
{
	return json_pack(
	        "{s:I, s:I, s:I, s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ready",
	        (json_int_t)s->pool_ready, "memoryMb", (json_int_t)s->pool_mem_mb, "given",
	        (json_int_t)s->pool_given, "missed", (json_int_t)s->pool_missed, "processes",
	        (json_int_t)s->blanks, "seed", s->seed, "forked", (json_int_t)s->forked, "budgetMb",
	        (json_int_t)s->ahead_budget_mb, "wanted", (json_int_t)s->pool_want,
	        "processesWanted", (json_int_t)s->blanks_want, "seeds", (json_int_t)s->seeds,
	        "seedsWanted", (json_int_t)s->seeds_want, "processesMemoryMb",
	        (json_int_t)s->blanks_mem_mb, "seedsMemoryMb", (json_int_t)s->seeds_mem_mb);
}

static json_t *shape_ssh(struct sshd *d)
{
	struct sshd_status s;

	if (!d)
		return json_null();
	sshd_status(d, &s);
	return json_pack("{s:s, s:I, s:I}", "listen", s.address, "connections",
	                 (json_int_t)s.connections, "channels", (json_int_t)s.channels);
}

static json_t *shape_edge(const struct api_deps *d)
{
	struct api_edge_status s = { .pid = -1 };

	if (!d->edge_status)
		return json_null();
	d->edge_status(d->front, &s);
	if (!s.starts)
		return json_null();
	return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "running", s.pid >= 0,
	                 "starts", (json_int_t)s.starts, "open", (json_int_t)s.open, "connections",
	                 (json_int_t)s.connections, "requests", (json_int_t)s.requests, "refused",
	                 (json_int_t)s.refused, "woken", (json_int_t)s.woken, "accessLinesLost",
	                 (json_int_t)s.lines_lost);
}

/* Templates of other sizes: which are ready, and which are being made. */
static json_t *shape_sizes(const struct vmm_status *s)
{
	json_t *a = json_array();

	for (size_t i = 0; i < s->n_sizes; i++) {
		const struct vmm_size_status *z = &s->sizes[i];

		if (!z->listed && !strcmp(z->state, "none"))
			continue; /* somebody asked once, and it is gone */
		json_array_append_new(
		        a, json_pack("{s:I, s:I, s:s, s:b, s:I, s:o}", "vcpuCount",
		                     (json_int_t)z->vcpus, "memSizeMib", (json_int_t)z->mem_mb,
		                     "state", z->state, "ahead", z->listed, "diskMb",
		                     (json_int_t)z->disk_mb, "note", shape_text(z->note)));
	}
	return a;
}

/* Where layers are uploaded to; null without. This route is for everybody: no names, no reasons. */
static json_t *shape_objects(struct vmm *m)
{
	struct vmm_objects o;

	vmm_objects(m, &o);
	if (!o.on)
		return json_null();
	return json_pack("{s:s, s:I, s:I, s:I, s:I}", "state",
	                 o.failing ? "failing"
	                 : o.asked ? "ok"
	                           : "unknown",
	                 "pending", (json_int_t)o.pending, "pendingMb",
	                 (json_int_t)(o.pending_bytes >> 20), "garbage", (json_int_t)o.garbage,
	                 "cacheMb", (json_int_t)o.cache_mb);
}

int api_health(struct request *req, struct reply *res, struct err *err)
{
	struct vmm_status s;

	vmm_status(deps_of(req)->vmm, &s);
	return reply_json(
	        res,
	        json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:o}, s:o, s:o, s:I, s:{s:I, s:I, s:I}, "
	                  "s:o, s:o, s:o, s:o, s:o, s:o}",
	                  "status",
	                  strcmp(s.template_state, "ready") == 0 ? "ok" : s.template_state,
	                  "version", PANDO_VERSION, "accel", s.accel, "accelWhy",
	                  shape_text(s.accel_why), "template", "state", s.template_state, "note",
	                  shape_text(s.template_note), "qemuVersion", shape_text(s.qemu_version),
	                  "limits", shape_text(s.limits), "running", (json_int_t)s.running,
	                  "defaultVm", "vcpuCount", (json_int_t)s.vcpus, "memSizeMib",
	                  (json_int_t)s.mem_mb, "rootfsSizeMb", (json_int_t)s.disk_mb, "pool",
	                  shape_ahead(&s), "ssh", shape_ssh(deps_of(req)->sshd), "edge",
	                  shape_edge(deps_of(req)), "sizes", shape_sizes(&s), "objects",
	                  shape_objects(deps_of(req)->vmm), "walls",
	                  shape_text(deps_of(req)->walls ? deps_of(req)->walls : "")),
	        err);
}

int api_whoami(struct request *req, struct reply *res, struct err *err)
{
	return reply_json(res,
	                  json_pack("{s:s, s:o}", "accountId", who_of(req)->account, "identityId",
	                            shape_text(who_of(req)->identity)),
	                  err);
}
